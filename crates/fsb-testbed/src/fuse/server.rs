//! The process that serves a FUSE mount, and the places that it keeps the data in.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsb_model::target::FUSE;
use fsb_sys::Roots;
use fsb_sys::mountinfo::Mount;

/// Smaller files that a server has open are locks and states.
const LEAST_IMAGE: u64 = 1 << 20;
/// The device through which a server gets its requests.
const FUSE_DEVICE: &str = "/dev/fuse";

/// Returns whether a mount is served by a FUSE server.
pub(crate) fn is_fuse(mount: &Mount) -> bool {
    // A server may append a name of its own: `fuse.sshfs`.
    let driver = mount.kind.split('.').next();
    driver.is_some_and(|driver| [FUSE, "fuseblk"].contains(&driver))
}

/// The place where a server keeps the data of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Files, directories or block devices of this machine.
    Paths(Vec<PathBuf>),
    /// Not known, for this reason.
    Unknown(&'static str),
}

/// The process that serves a mount.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Its directory below /proc.
    directory: PathBuf,
    proc: PathBuf,
    arguments: Vec<OsString>,
}

/// A file that a server has open.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpenFile {
    /// Its entry below /proc, which can be opened.
    pub entry: PathBuf,
    /// The path, as the kernel shows it.
    pub path: PathBuf,
    /// The flags that it was opened with, and the flags set since.
    pub flags: i32,
}

impl OpenFile {
    pub fn is_direct(&self) -> bool {
        self.flags & libc::O_DIRECT != 0
    }

    fn is_standard_stream(&self) -> bool {
        ["0", "1", "2"]
            .into_iter()
            .any(|number| self.entry.ends_with(number))
    }

    fn is_writable(&self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDWR
    }
}

impl Server {
    /// Finds the process that serves `mount`. Returns `None` if it is not visible: it belongs to
    /// another user, or is in a PID namespace that this process cannot see.
    ///
    /// Linux 6.18 shows the connection of a descriptor of /dev/fuse in its fdinfo. Before that, the
    /// server is the only process with such a descriptor whose command names the mount point.
    pub fn of_mount(mount: &Mount, roots: &Roots) -> Option<Server> {
        let (major, minor) = mount.device;
        // The kernel's own encoding of a device number (MKDEV).
        let connection = u64::from(major) << 20 | u64::from(minor);
        let mut by_name = Vec::new();
        for process in processes(roots) {
            match Server::holding_fuse(&roots.proc, process) {
                Some((server, Some(found))) if found == connection => return Some(server),
                Some((server, None)) if server.names(&mount.point) => by_name.push(server),
                _ => {}
            }
        }
        match by_name.len() {
            1 => by_name.pop(),
            _ => None,
        }
    }

    /// Returns the process of this directory below /proc if it has a descriptor of /dev/fuse, with
    /// the number of its connection if the kernel shows it.
    fn holding_fuse(proc: &Path, directory: PathBuf) -> Option<(Server, Option<u64>)> {
        let descriptor = descriptors(&directory).find(|entry| {
            fs::read_link(entry.path()).is_ok_and(|to| to == Path::new(FUSE_DEVICE))
        })?;
        let connection = info(&directory, &descriptor.file_name(), "fuse_connection:");
        let connection = connection.and_then(|text| text.parse().ok());
        let command = fs::read(directory.join("cmdline")).unwrap_or_default();
        let mut arguments = Vec::new();
        for word in command.split(|byte| *byte == 0) {
            arguments.push(OsString::from_vec(word.to_vec()));
        }
        let server = Server {
            directory,
            proc: proc.to_owned(),
            arguments,
        };
        Some((server, connection))
    }

    fn names(&self, point: &Path) -> bool {
        self.arguments.iter().any(|word| Path::new(word) == point)
    }

    /// Returns the regular files, directories and block devices that the server has open.
    pub fn open_files(&self) -> BTreeSet<OpenFile> {
        let mut found = BTreeSet::new();
        for entry in descriptors(&self.directory) {
            let Ok(path) = fs::read_link(entry.path()) else {
                continue;
            };
            let flags = info(&self.directory, &entry.file_name(), "flags:").unwrap_or_default();
            let flags = i32::from_str_radix(&flags, 8);
            if let (Ok(flags), true) = (flags, path.is_absolute() && path != Path::new(FUSE_DEVICE))
            {
                found.insert(OpenFile {
                    entry: entry.path(),
                    path,
                    flags,
                });
            }
        }
        found
    }

    /// Returns the regular files and block devices that the server has open for reading and
    /// writing, and that have a name: the image of a file system, or its device. Standard streams,
    /// which may lead to a log, are not among them.
    pub fn images(&self) -> Vec<OpenFile> {
        let mut images = Vec::from_iter(self.open_files());
        images.retain(|file| {
            !file.is_standard_stream()
                && file.is_writable()
                && !file.path.as_os_str().as_bytes().ends_with(b" (deleted)")
                && fs::metadata(&file.entry).is_ok_and(|found| {
                    found.is_file() && found.len() >= LEAST_IMAGE
                        || found.file_type().is_block_device()
                })
        });
        images
    }

    /// Returns where the server keeps the data of `mount`: in the place that the mount names, in
    /// images that it has open, or in the directories that its command names.
    pub fn place(&self, mount: &Mount) -> Place {
        if self.has_network() || is_remote(mount.source.as_os_str().as_bytes()) {
            return Place::Unknown(
                "its server has a network connection: another machine may hold the data",
            );
        }
        let mut groups = [
            paths(mount.source.as_os_str().as_bytes()),
            Vec::new(),
            Vec::new(),
            Vec::new(),
        ];
        let [_, upper, images, named] = &mut groups;
        // The value of an option such as `--cache-dir` is not where the data is.
        let mut is_value = false;
        for word in &self.arguments {
            upper.extend(upper_directory(word));
            if !is_value {
                named.extend(paths(word.as_bytes()));
            }
            is_value = is_place_of_another_kind(word.as_bytes());
        }
        for image in self.images() {
            images.push(image.path);
        }
        // The first word is the program.
        named.retain(|path| self.own(path).is_dir());
        for mut group in groups {
            group.retain(|path| {
                *path != mount.point
                    && fs::metadata(self.own(path)).is_ok_and(|found| {
                        found.is_dir() || found.is_file() || found.file_type().is_block_device()
                    })
            });
            if !group.is_empty() {
                return Place::Paths(group);
            }
        }
        Place::Unknown("its server names no place of this machine")
    }

    /// Returns a path of the server as this process can open it, whatever its mount namespace.
    fn own(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").unwrap_or(path);
        self.directory.join("root").join(inside)
    }

    /// Returns whether the server or a process that it started has a TCP connection.
    fn has_network(&self) -> bool {
        let sockets = connections(&self.directory.join("net"));
        if sockets.is_empty() {
            return false;
        }
        for process in self.with_children() {
            for entry in descriptors(&process) {
                let to = fs::read_link(entry.path()).unwrap_or_default();
                let to = to.to_string_lossy();
                if let Some(rest) = to.strip_prefix("socket:[")
                    && sockets.contains(rest.trim_end_matches(']'))
                {
                    return true;
                }
            }
        }
        false
    }

    fn with_children(&self) -> Vec<PathBuf> {
        let mut found = vec![self.directory.clone()];
        let tasks = fs::read_dir(self.directory.join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children.split_whitespace() {
                found.push(self.proc.join(child));
            }
        }
        found
    }
}

/// Returns the directory below /proc of each process.
fn processes(roots: &Roots) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&roots.proc).into_iter().flatten().flatten() {
        if entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            found.push(entry.path());
        }
    }
    found
}

/// Returns the entries of the descriptors of a process that this one may inspect.
fn descriptors(process: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
}

/// Returns a field of the fdinfo of a descriptor.
fn info(process: &Path, descriptor: &std::ffi::OsStr, field: &str) -> Option<String> {
    let text = fs::read_to_string(process.join("fdinfo").join(descriptor)).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().to_owned())
}

/// Returns the inodes of the established TCP connections in a directory `net` of /proc.
fn connections(net: &Path) -> BTreeSet<String> {
    // The state of an established connection (include/net/tcp_states.h).
    const ESTABLISHED: &str = "01";
    let mut found = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        for line in fs::read_to_string(net.join(table))
            .unwrap_or_default()
            .lines()
        {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, _, _, ESTABLISHED, ..] = fields[..] {
                found.extend(fields.get(9).map(|inode| (*inode).to_owned()));
            }
        }
    }
    found
}

/// Returns whether a word names a place on another machine: `host:/path`, `user@host:path`,
/// `https://host/path`. mergerfs names its branches without their common path: `a:b`.
fn is_remote(word: &[u8]) -> bool {
    let Some(colon) = word.iter().position(|byte| *byte == b':') else {
        return false;
    };
    let (before, after) = (&word[..colon], &word[colon + 1..]);
    after.starts_with(b"//")
        || (!before.is_empty()
            && !before.contains(&b'/')
            && before != b"local"
            && (after.starts_with(b"/") || before.contains(&b'@')))
}

/// Returns the absolute paths in a word of a command or in the source of a mount: `/a`, `/a:/b`,
/// `/a=RW:/b=RO`, `cryfs@/a`, `:local:/a`. Returns none for an option and for a place on another
/// machine.
fn paths(word: &[u8]) -> Vec<PathBuf> {
    let Some(first) = word.iter().position(|byte| *byte == b'/') else {
        return Vec::new();
    };
    let before = &word[..first];
    let is_named = matches!(before.last(), None | Some(b'@' | b':'));
    if before.starts_with(b"-") || before.contains(&b'=') || !is_named || is_remote(word) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for part in word[first..].split(|byte| *byte == b':') {
        let branch = part.iter().rposition(|byte| *byte == b'=');
        let path = branch.map_or(part, |end| &part[..end]);
        if path.starts_with(b"/") {
            found.push(PathBuf::from(OsString::from_vec(path.to_vec())));
        }
    }
    found
}

/// Returns whether a word is an option whose value is a place for something else than the data.
fn is_place_of_another_kind(word: &[u8]) -> bool {
    const ENDS: [&[u8]; 5] = [b"-dir", b"-file", b"-log", b"config", b"passfile"];
    word.starts_with(b"-") && ENDS.iter().any(|end| word.ends_with(end))
}

/// Returns the upper directory among the options of an overlay.
fn upper_directory(word: &std::ffi::OsStr) -> Option<PathBuf> {
    for option in word.as_bytes().split(|byte| *byte == b',') {
        if let Some(path) = option.strip_prefix(b"upperdir=") {
            return Some(PathBuf::from(OsString::from_vec(path.to_vec())));
        }
    }
    None
}

/// Opens the file behind a descriptor of a server.
pub(super) fn open(file: &OpenFile) -> Option<File> {
    let found = fs::metadata(&file.entry).ok()?;
    if !found.is_file() && !found.file_type().is_block_device() {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(flags);
    options.open(&file.entry).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_recognised_in_sources_and_commands() {
        let of = |word: &str| -> Vec<String> {
            let found = paths(word.as_bytes()).into_iter();
            found.map(|path| path.display().to_string()).collect()
        };
        for (word, expected) in [
            ("/srv/a", &["/srv/a"][..]),
            ("/srv/a:/srv/b", &["/srv/a", "/srv/b"]),
            ("/srv/a=RW:/srv/b=RO", &["/srv/a", "/srv/b"]),
            ("cryfs@/srv/a", &["/srv/a"]),
            (":local:/srv/a", &["/srv/a"]),
            ("host:/srv/a", &[]),
            ("user@host:/srv/a", &[]),
            ("https://host/a", &[]),
            ("--log=/var/log/a", &[]),
            ("lowerdir=/a,upperdir=/b", &[]),
            ("encfs", &[]),
            ("a:b", &[]),
        ] {
            assert_eq!(of(word), expected, "{word}");
        }
        for (word, expected) in [
            ("host:/a", true),
            ("user@host:a", true),
            ("https://host/a", true),
            ("a:b", false),
            (":local:/a", false),
            ("/a:/b", false),
        ] {
            assert_eq!(is_remote(word.as_bytes()), expected, "{word}");
        }
        assert_eq!(
            upper_directory("lowerdir=/a:/c,upperdir=/b,workdir=/w".as_ref()),
            Some(PathBuf::from("/b"))
        );
    }
}
