//! Writes the archive as uncompressed cpio in the "newc" format, which an emulated guest unpacks fastest.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cpio::newc;

/// File type bits of `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER: u32 = 0o020_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory(u32),
    File { bytes: Vec<u8>, mode: u32 },
    Link(String),
    Character(u32, u32),
}

/// The contents of the archive, by path without the leading slash. Sorted, so that directories precede their entries.
#[derive(Debug, Default)]
pub(super) struct Archive(BTreeMap<String, Node>);

impl Archive {
    /// Adds a directory and its ancestors.
    pub fn directory(&mut self, path: &str, mode: u32) {
        self.parents(path);
        self.0.insert(bare(path), Node::Directory(mode));
    }

    pub fn file(&mut self, path: &str, bytes: Vec<u8>, mode: u32) {
        self.parents(path);
        self.0.insert(bare(path), Node::File { bytes, mode });
    }

    pub fn link(&mut self, path: &str, target: &str) {
        self.parents(path);
        self.0.insert(bare(path), Node::Link(target.to_owned()));
    }

    pub fn character(&mut self, path: &str, major: u32, minor: u32) {
        self.parents(path);
        self.0.insert(bare(path), Node::Character(major, minor));
    }

    pub fn holds(&self, path: &str) -> bool {
        self.0.contains_key(&bare(path))
    }

    fn parents(&mut self, path: &str) {
        let path = bare(path);
        for (end, _) in path.match_indices('/') {
            self.0.entry(path[..end].to_owned()).or_insert(Node::Directory(0o755));
        }
    }

    /// Writes the archive. The same contents produce the same bytes: no times, no owners, inode numbers in order.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        for (inode, (path, node)) in (1u32..).zip(&self.0) {
            let entry = newc::Builder::new(path).ino(inode).nlink(1).uid(0).gid(0).mtime(0);
            let (entry, bytes) = match node {
                Node::Directory(mode) => (entry.mode(DIRECTORY | mode), &[][..]),
                Node::File { bytes, mode } => (entry.mode(REGULAR | mode), bytes.as_slice()),
                Node::Link(target) => (entry.mode(LINK | 0o777), target.as_bytes()),
                Node::Character(major, minor) => {
                    (entry.mode(CHARACTER | 0o600).rdev_major(*major).rdev_minor(*minor), &[][..])
                }
            };
            let size = u32::try_from(bytes.len()).map_err(|_| io::Error::other(format!("{path} is 4 GiB or more")))?;
            let mut writer = entry.write(&mut out, size);
            writer.write_all(bytes)?;
            writer.finish()?;
        }
        newc::trailer(&mut out)?;
        out.flush()
    }
}

fn bare(path: &str) -> String {
    path.trim_matches('/').to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Reads the names, modes and contents back.
    pub(crate) fn read_back(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut rest = bytes;
        let mut entries = Vec::new();
        loop {
            let mut reader = newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            let mut content = Vec::new();
            io::Read::read_to_end(&mut reader, &mut content).unwrap();
            entries.push((reader.entry().name().to_owned(), reader.entry().mode(), content));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn directories_come_before_what_they_hold() {
        let mut archive = Archive::default();
        archive.file("/usr/sbin/mkfs.x", b"program".to_vec(), 0o755);
        archive.link("/sbin", "usr/sbin");
        archive.character("/dev/console", 5, 1);
        archive.directory("/tmp", 0o1777);
        let mut bytes = Vec::new();
        archive.write(&mut bytes).unwrap();
        let entries = read_back(&bytes);
        let names: Vec<_> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["dev", "dev/console", "sbin", "tmp", "usr", "usr/sbin", "usr/sbin/mkfs.x"]);
        let modes: Vec<_> = entries.iter().map(|(_, mode, _)| *mode).collect();
        assert_eq!(modes, [0o040755, 0o020600, 0o120777, 0o041777, 0o040755, 0o040755, 0o100755]);
        assert_eq!(entries[2].2, b"usr/sbin");
        assert_eq!(entries[6].2, b"program");
        let mut again = Vec::new();
        archive.write(&mut again).unwrap();
        assert_eq!(bytes, again);
    }
}
