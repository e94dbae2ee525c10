//! Output files that a user names. A replacement is atomic: a reader sees the old content or the
//! new content.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::place::{HeldDirectory, Open, is_own};
use crate::{ResultOwner, StoreError};

/// Maximum number of symbolic links that the lookup follows, as in the kernel.
const LINKS: usize = 40;
/// Mode bits of a directory in which all users may create files but remove only their own.
const SHARED: u32 = 0o1002;

/// Replaces the file `path` with `content`, as [`replace_with`] does.
pub fn replace(path: &Path, content: &[u8], result_owner: &ResultOwner) -> Result<(), StoreError> {
    replace_with(path, result_owner, |file| file.write_all(content))
}

/// Replaces the file `path` with the output of `write`, so that long content is never held in
/// memory. A symbolic link stays and its target is replaced. A device, a pipe or a descriptor
/// (`/dev/stdout`) is written to directly. In directories where all users may create files, the
/// links and pipes of other users are refused.
///
/// # Errors
///
/// If `write` fails, a regular file keeps its old content.
pub fn replace_with(
    path: &Path,
    result_owner: &ResultOwner,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    let fail = |error| StoreError::io("write", path, error);
    let file = match descriptor(path) {
        Some(descriptor) => descriptor.map_err(fail)?,
        None => {
            let Found { place, name, stat } = find(path, result_owner)?;
            if stat.is_none_or(|stat| kind(&stat) == FileType::RegularFile) {
                return place.replace(&name, write).map(drop).map_err(fail);
            }
            special(&place, &name, OFlags::WRONLY)?
        }
    };
    let mut file = BufWriter::new(file);
    write(&mut file).and_then(|()| file.flush()).map_err(fail)
}

/// Opens a file for appending and creates it if it does not exist. Links, pipes and devices are
/// handled as in [`replace`]. In directories where everybody may create files, the files of other
/// users are refused: they could be hard links to any file.
pub fn append(path: &Path, result_owner: &ResultOwner) -> Result<File, StoreError> {
    if let Some(descriptor) = descriptor(path) {
        return descriptor.map_err(|error| StoreError::io("open", path, error));
    }
    let Found { place, name, stat } = find(path, result_owner)?;
    match stat {
        None => {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
            place
                .open_file(&name, flags, 0o666)
                .map_err(|error| StoreError::io("make", path, error))
        }
        Some(_) => special(&place, &name, OFlags::WRONLY | OFlags::APPEND),
    }
}

/// Checks before a run starts that the owner can write to the directory of the file.
pub fn check(path: &Path, result_owner: &ResultOwner) -> Result<(), StoreError> {
    if descriptor(path).is_some() {
        return Ok(());
    }
    find(path, result_owner).map(drop)
}

/// Checks that an existing file, which will be written in place, belongs to the owner. In
/// directories where everybody may create files it could be a hard link to any file.
pub fn check_existing(path: &Path, result_owner: &ResultOwner) -> Result<(), StoreError> {
    let Found { place, name, stat } = find(path, result_owner)?;
    stat.map_or(Ok(()), |stat| is_trusted(&place, &name, &stat))
}

/// The result of a path lookup that followed all links. `stat` is `None` if the file does not
/// exist.
struct Found {
    place: HeldDirectory,
    name: OsString,
    stat: Option<Stat>,
}

fn find(path: &Path, result_owner: &ResultOwner) -> Result<Found, StoreError> {
    let fail = |error| StoreError::io("examine", path, error);
    let mut path_now = path.to_owned();
    // Root writes with its own privileges to the path that the user named, but not to the target of
    // a link in it.
    let mut open: fn(&Path, ResultOwner, Open) -> Result<HeldDirectory, StoreError> =
        HeldDirectory::open;
    for _ in 0..LINKS {
        let name = path_now
            .file_name()
            .ok_or_else(|| fail(io::ErrorKind::IsADirectory.into()))?
            .to_owned();
        let parent = path_now.parent().unwrap_or(Path::new("."));
        let place = open(parent, *result_owner, Open::Existing).map_err(|error| match error {
            StoreError::Io { source, .. } => StoreError::io("write", path, source),
            error => error,
        })?;
        let stat = place.stat(&name).map_err(fail)?;
        match stat {
            Some(stat) if kind(&stat) == FileType::Symlink => {
                is_trusted(&place, &name, &stat)?;
                if place.result_owner().is_invoking_user() {
                    open = HeldDirectory::open_as;
                }
                let target = place.link(&name).map_err(fail)?;
                path_now = if target.is_absolute() {
                    target
                } else {
                    parent.join(target)
                };
            }
            _ => return Ok(Found { place, name, stat }),
        }
    }
    Err(fail(Errno::LOOP.into()))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Opens an existing file and checks that it is the file that was examined before.
fn special(place: &HeldDirectory, name: &OsStr, flags: OFlags) -> Result<File, StoreError> {
    let path = place.join(name);
    let fail = |error| StoreError::io("open", &path, error);
    // The check comes first: opening another user's pipe could block.
    let before = place
        .stat(name)
        .map_err(fail)?
        .ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    is_trusted(place, name, &before)?;
    let file = place.open_file(name, flags, 0).map_err(fail)?;
    let stat = fstat(&file).map_err(|errno| fail(errno.into()))?;
    if (stat.st_dev, stat.st_ino) != (before.st_dev, before.st_ino) {
        return Err(StoreError::Planted(path));
    }
    Ok(file)
}

/// Checks that the owner may follow or open an existing entry. The rules are those of the kernel
/// for links, files and pipes in directories like `/tmp`, regardless of its settings.
fn is_trusted(place: &HeldDirectory, name: &OsStr, stat: &Stat) -> Result<(), StoreError> {
    let planted = || StoreError::Planted(place.join(name));
    let result_owner = place.result_owner();
    if result_owner.is_root() {
        let other_names = kind(stat) == FileType::RegularFile && stat.st_nlink > 1;
        let device = matches!(
            kind(stat),
            FileType::CharacterDevice | FileType::BlockDevice
        );
        // Root owns the path to the directory. A terminal there belongs to its logged-in user.
        return if device || (is_own(stat.st_uid) && !other_names) {
            Ok(())
        } else {
            Err(planted())
        };
    }
    let directory = place
        .own_stat()
        .map_err(|error| StoreError::io("examine", place.path(), error))?;
    let shared = directory.st_mode & SHARED == SHARED;
    let known = stat.st_uid == result_owner.uid() || stat.st_uid == directory.st_uid;
    if shared && !known {
        Err(planted())
    } else {
        Ok(())
    }
}

/// Returns the descriptor of this process that the path names. The process that started this
/// program opened it. Returns `None` if the path names no descriptor.
fn descriptor(path: &Path) -> Option<io::Result<File>> {
    use std::os::fd::AsFd;
    let text = path.to_str()?;
    let number = match text {
        "/dev/stdout" => "1",
        "/dev/stderr" => "2",
        _ => ["/dev/fd/", "/proc/self/fd/"]
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix))?,
    };
    let file = match number.parse::<u32>().ok()? {
        1 => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        2 => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        number => File::options()
            .append(true)
            .open(PathBuf::from(format!("/proc/self/fd/{number}"))),
    };
    Some(file)
}
