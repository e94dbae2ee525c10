//! The directory of locks. It and its files are opened such that files of other users are never trusted.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fsb_sys::error::attempt;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};

use super::holder::{Holder, LARGEST};

/// The directories of the machine: only root creates them, and all users can read them.
pub(super) const MACHINE: [&str; 2] = ["/run/fsb", "/var/lib/fsb"];

/// The prefix and the suffix of the names of readable files.
const HOLDER: (&str, &str) = ("holder-", ".json");

/// A directory that only `uid` can write to.
#[derive(Debug)]
pub(super) struct LockDirectory {
    directory: OwnedFd,
    path: PathBuf,
    uid: u32,
}

/// Returns the possible directories for this user's locks, the best first. No other user can write to them.
pub(super) fn candidates() -> Vec<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    let machine = MACHINE.map(PathBuf::from).into_iter().filter(|_| root);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    machine.chain(runtime.into_iter().chain(crate::ledger::state_directory()).map(|path| path.join("fsb"))).collect()
}

/// Returns the first of the directories that belongs to this user, and creates it if it is missing. Fails with the
/// reasons against each.
pub(super) fn find(candidates: &[PathBuf]) -> Result<LockDirectory, Vec<String>> {
    let mut refusals = Vec::new();
    for path in candidates {
        match LockDirectory::make(path) {
            Ok(place) => return Ok(place),
            Err(error) => refusals.push(attempt("use", path, &error).to_string()),
        }
    }
    if refusals.is_empty() {
        refusals.push("neither XDG_RUNTIME_DIR nor XDG_STATE_HOME nor HOME names an absolute path".to_owned());
    }
    Err(refusals)
}

/// Returns the trusted runs except `own`: root's in files that only root can have written, and this user's in any of
/// its directories.
pub(super) fn elsewhere(own: &Holder) -> Vec<Holder> {
    let user = rustix::process::geteuid().as_raw();
    let machine = MACHINE.iter().map(|path| (path.into(), 0));
    let places = machine.chain(candidates().into_iter().map(|path| (path, user)));
    let living = places.filter_map(|(path, user)| Some(LockDirectory::open(&path, user).ok()?.living()));
    living.flatten().filter(|holder| holder.owner != own.owner).collect()
}

impl LockDirectory {
    fn make(path: &Path) -> io::Result<LockDirectory> {
        let uid = rustix::process::geteuid().as_raw();
        if MACHINE.iter().any(|machine| path == Path::new(machine)) {
            match std::fs::DirBuilder::new().mode(0o755).create(path) {
                // The umask may have removed the permission for others to read it.
                Ok(()) => rustix::fs::chmod(path, Mode::from_raw_mode(0o755))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        } else {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        }
        LockDirectory::open(path, uid)
    }

    /// Opens the directory. Fails if users other than `uid` can write to it.
    pub fn open(path: &Path, uid: u32) -> io::Result<LockDirectory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        trust(&rustix::fs::fstat(&directory)?, FileType::Directory, uid)?;
        Ok(LockDirectory { directory, path: path.to_owned(), uid })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file to lock, and creates it if it is missing. It is closed to other users, because a user who can open
    /// it can lock it.
    pub fn lock_file(&self, name: &str) -> io::Result<File> {
        // Without these flags, opening a FIFO would block.
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let own = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.directory, name, flags, own)?;
        let stat = rustix::fs::fstat(&file)?;
        trust(&stat, FileType::RegularFile, self.uid)?;
        if Mode::from_raw_mode(stat.st_mode) != own {
            rustix::fs::fchmod(&file, own)?;
        }
        Ok(File::from(file))
    }

    /// Writes a file that shows the holder to all users.
    pub fn show(&self, holder: &Holder) -> io::Result<()> {
        let name = file_name(holder);
        let temporary = format!("{name}.new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let mut file = File::from(rustix::fs::openat(&self.directory, &temporary, flags, mode)?);
        rustix::fs::fchmod(&file, mode)?;
        file.write_all(holder.line().as_bytes())?;
        Ok(rustix::fs::renameat(&self.directory, &temporary, &self.directory, &name)?)
    }

    /// Removes that file.
    pub fn hide(&self, holder: &Holder) {
        self.remove(&file_name(holder));
    }

    fn remove(&self, name: &str) {
        // A remaining file names a process that has ended, so [`LockDirectory::living`] ignores it.
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// Returns the runs that measure now.
    pub fn living(&self) -> Vec<Holder> {
        self.holders().into_iter().map(|(_, holder)| holder).filter(Holder::is_alive).collect()
    }

    /// Removes the files of dead runs.
    pub fn sweep(&self) {
        for (name, _) in self.holders().into_iter().filter(|(_, holder)| !holder.is_alive()) {
            self.remove(&name);
        }
    }

    fn holders(&self) -> Vec<(String, Holder)> {
        let Ok(entries) = Dir::read_from(&self.directory) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
        let names = names.filter(|name| name.starts_with(HOLDER.0) && name.ends_with(HOLDER.1));
        names.filter_map(|name| Some((self.read(&name).ok()??, name))).map(|(holder, name)| (name, holder)).collect()
    }

    fn read(&self, name: &str) -> io::Result<Option<Holder>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        trust(&rustix::fs::fstat(&file)?, FileType::RegularFile, self.uid)?;
        let mut text = String::new();
        File::from(file).take(LARGEST).read_to_string(&mut text)?;
        Ok(Holder::of_line(&text))
    }
}

fn file_name(holder: &Holder) -> String {
    format!("{}{}-{}{}", HOLDER.0, holder.owner.pid, holder.owner.start_time, HOLDER.1)
}

/// Refuses a file of another kind, or one that a user other than `uid` could have written.
fn trust(stat: &Stat, kind: FileType, uid: u32) -> io::Result<()> {
    let wrong = if FileType::from_raw_mode(stat.st_mode) != kind {
        Some("it is not a regular file".to_owned())
    } else if kind == FileType::RegularFile && stat.st_nlink != 1 {
        Some("it has another hard link".to_owned())
    } else {
        crate::ledger::distrust(stat, uid)
    };
    wrong.map_or(Ok(()), |why| Err(io::Error::other(why)))
}
