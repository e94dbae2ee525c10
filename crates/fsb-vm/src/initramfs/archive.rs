//! The archive as uncompressed cpio in the "newc" format, which an emulated guest unpacks fastest,
//! and the programs in it with the libraries that they need.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cpio::newc;
use object::Endianness;
use object::elf::{self, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::error::{VmError, refused};

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

/// The contents of the archive, by path without the leading slash. Sorted, so that directories
/// precede their entries.
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
            self.0
                .entry(path[..end].to_owned())
                .or_insert(Node::Directory(0o755));
        }
    }

    /// Writes the archive. The same contents produce the same bytes: no times, no owners, inode
    /// numbers in order.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        for (inode, (path, node)) in (1u32..).zip(&self.0) {
            let entry = newc::Builder::new(path)
                .ino(inode)
                .nlink(1)
                .uid(0)
                .gid(0)
                .mtime(0);
            let (entry, bytes) = match node {
                Node::Directory(mode) => (entry.mode(DIRECTORY | mode), &[][..]),
                Node::File { bytes, mode } => (entry.mode(REGULAR | mode), bytes.as_slice()),
                Node::Link(target) => (entry.mode(LINK | 0o777), target.as_bytes()),
                Node::Character(major, minor) => (
                    entry
                        .mode(CHARACTER | 0o600)
                        .rdev_major(*major)
                        .rdev_minor(*minor),
                    &[][..],
                ),
            };
            let size = u32::try_from(bytes.len())
                .map_err(|_| io::Error::other(format!("{path} is 4 GiB or more")))?;
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

// The dynamic loader itself lists the libraries (`ld.so --list`), because only it knows its search
// order. All libraries go into /usr/lib, which the loaders of all distributions search last, under
// the names that programs ask for.

/// Converts a path of the host to the guest, whose /bin, /sbin, /lib and /lib64 are links into
/// /usr.
pub(super) fn guest_path(path: &str) -> String {
    let path = format!("/{}", path.trim_matches('/'));
    for (from, to) in [
        ("/usr/lib64/", "/usr/lib/"),
        ("/lib64/", "/usr/lib/"),
        ("/lib/", "/usr/lib/"),
        ("/bin/", "/usr/bin/"),
        ("/sbin/", "/usr/sbin/"),
    ] {
        if let Some(rest) = path.strip_prefix(from) {
            return format!("{to}{rest}");
        }
    }
    path
}

/// Adds a program at its own path, with all symbolic links to it and everything that it needs to
/// start.
pub(super) fn add_program(archive: &mut Archive, program: &Path) -> Result<(), VmError> {
    let mut path = program.to_path_buf();
    // The kernel's limit for a chain of links.
    for _ in 0..40 {
        let guest = guest_path(&path.to_string_lossy());
        if archive.holds(&guest) {
            return Ok(());
        }
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        let target = path.parent().unwrap_or(Path::new("/")).join(target);
        let target = lexical(&target);
        archive.link(&guest, &guest_path(&target.to_string_lossy()));
        path = target;
    }
    let bytes = fs::read(&path).map_err(|error| refused("read", &path, error))?;
    let guest = guest_path(&path.to_string_lossy());
    if let Some(interpreter) = script_interpreter(&bytes) {
        archive.file(&guest, bytes, 0o755);
        return add_program(archive, Path::new(&interpreter));
    }
    add_libraries(archive, &path, &bytes)?;
    archive.file(&guest, bytes, 0o755);
    Ok(())
}

/// Adds a program under another name, without the parts that only debuggers read.
pub(super) fn add_as(archive: &mut Archive, program: &Path, name: &str) -> Result<(), VmError> {
    let bytes = fs::read(program).map_err(|error| refused("read", program, error))?;
    add_libraries(archive, program, &bytes)?;
    archive.file(name, slim(bytes), 0o755);
    Ok(())
}

/// Resolves `..` and `.` in the text, because links to directories of the host do not exist in the
/// guest.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// Returns the program that a script's first line names.
fn script_interpreter(bytes: &[u8]) -> Option<String> {
    let line = bytes
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let path = String::from_utf8_lossy(line)
        .split_whitespace()
        .next()?
        .to_owned();
    path.starts_with('/').then_some(path)
}

fn add_libraries(archive: &mut Archive, program: &Path, bytes: &[u8]) -> Result<(), VmError> {
    let Some(interpreter) = interpreter(bytes) else {
        return Ok(());
    };
    let loader = Path::new(&interpreter);
    let output = Command::new(loader)
        .arg("--list")
        .arg(program)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| refused("execute", loader, error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let libraries = libraries(&text).map_err(|library| {
        VmError::machine(format!(
            "{} needs the library {library}, which is not installed",
            program.display()
        ))
        .tried(format!("{interpreter} --list {}", program.display()))
        .advice("install the package that brings it")
    })?;
    if !output.status.success() || libraries.is_empty() {
        return Err(VmError::machine(format!(
            "cannot list the libraries of {}",
            program.display()
        ))
        .tried(format!(
            "{interpreter} --list: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    let own = (file_name(&interpreter).to_owned(), interpreter.clone());
    let names = names_library(&libraries);
    for (name, path) in libraries.into_iter().chain([own]).chain(names) {
        let guest = format!("/usr/lib/{name}");
        if !archive.holds(&guest) {
            let path = Path::new(&path);
            archive.file(
                &guest,
                fs::read(path).map_err(|error| refused("read", path, error))?,
                0o755,
            );
        }
    }
    // The program expects its loader at another path (NixOS, musl).
    let asked = guest_path(&interpreter);
    if !archive.holds(&asked) {
        archive.link(&asked, &format!("/usr/lib/{}", file_name(&interpreter)));
    }
    Ok(())
}

/// Returns the library with which older C libraries look up users. The loader does not list it.
fn names_library(libraries: &[(String, String)]) -> Option<(String, String)> {
    const NAME: &str = "libnss_files.so.2";
    let (_, libc) = libraries.iter().find(|(name, _)| name == "libc.so.6")?;
    let path = Path::new(libc).with_file_name(NAME);
    path.exists()
        .then(|| (NAME.to_owned(), path.to_string_lossy().into_owned()))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Parses name and path of each library from the loader's list. The error is the name of a missing
/// library.
fn libraries(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        let line = line.rsplit_once(" (0x").map_or(line, |(before, _)| before);
        match line.split_once(" => ") {
            Some((name, "not found")) => return Err(name.to_owned()),
            Some((name, path)) if path.starts_with('/') => {
                found.push((file_name(name).to_owned(), path.to_owned()))
            }
            None if line.starts_with('/') => {
                found.push((file_name(line).to_owned(), line.to_owned()))
            }
            // The kernel's own library (linux-vdso) has no file.
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the loader that a dynamically linked program asks for.
fn interpreter(bytes: &[u8]) -> Option<String> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segment = header
        .program_headers(endian, bytes)
        .ok()?
        .iter()
        .find(|segment| segment.p_type(endian) == PT_INTERP)?;
    let path = segment.interpreter(endian, bytes).ok()??;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// Removes everything behind the last segment: symbols and debug information, which are most of a
/// development build.
fn slim(mut bytes: Vec<u8>) -> Vec<u8> {
    // The fields e_shoff, e_shnum and e_shstrndx of a 64-bit header.
    const SECTIONS: [std::ops::Range<usize>; 2] = [0x28..0x30, 0x3c..0x40];
    let Some(end) = end_of_segments(&bytes) else {
        return bytes;
    };
    bytes.truncate(end);
    for field in SECTIONS {
        bytes[field].fill(0);
    }
    bytes
}

fn end_of_segments(bytes: &[u8]) -> Option<usize> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let end = segments
        .iter()
        .map(|segment| {
            segment
                .p_offset(endian)
                .saturating_add(segment.p_filesz(endian))
        })
        .max()?;
    let end = usize::try_from(end).ok()?;
    (end > 0x40 && end <= bytes.len()).then_some(end)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

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
            entries.push((
                reader.entry().name().to_owned(),
                reader.entry().mode(),
                content,
            ));
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
        assert_eq!(
            names,
            [
                "dev",
                "dev/console",
                "sbin",
                "tmp",
                "usr",
                "usr/sbin",
                "usr/sbin/mkfs.x"
            ]
        );
        let modes: Vec<_> = entries.iter().map(|(_, mode, _)| *mode).collect();
        assert_eq!(
            modes,
            [
                0o040755, 0o020600, 0o120777, 0o041777, 0o040755, 0o040755, 0o100755
            ]
        );
        assert_eq!(entries[2].2, b"usr/sbin");
        assert_eq!(entries[6].2, b"program");
        let mut again = Vec::new();
        archive.write(&mut again).unwrap();
        assert_eq!(bytes, again);
    }

    #[test]
    fn the_loaders_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let pair = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        let expected = vec![
            pair("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
            pair("ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
        ];
        assert_eq!(libraries(text), Ok(expected));
        assert_eq!(
            libraries("\tlibx.so.1 => not found\n"),
            Err("libx.so.1".to_owned())
        );
    }

    #[test]
    fn paths_lead_into_usr() {
        assert_eq!(guest_path("/sbin/mkfs.ext4"), "/usr/sbin/mkfs.ext4");
        assert_eq!(guest_path("/lib64/ld.so"), "/usr/lib/ld.so");
        assert_eq!(guest_path("/usr/local/sbin/x"), "/usr/local/sbin/x");
        assert_eq!(
            lexical(Path::new("/usr/bin/../sbin/./x")),
            Path::new("/usr/sbin/x")
        );
    }

    #[test]
    fn a_script_brings_its_shell() {
        assert_eq!(
            script_interpreter(b"#! /bin/sh -e\ntrue").as_deref(),
            Some("/bin/sh")
        );
        assert_eq!(script_interpreter(b"\x7fELF"), None);
    }

    /// Uses this test's own binary, which is dynamically linked and has symbols.
    #[test]
    fn a_program_comes_with_its_libraries_and_without_its_symbols() {
        let own = std::env::current_exe().unwrap();
        let mut archive = Archive::default();
        add_as(&mut archive, &own, "/init").unwrap();
        let loader = interpreter(&fs::read(&own).unwrap()).expect("linked dynamically");
        assert!(
            archive.holds(&format!("/usr/lib/{}", file_name(&loader))),
            "{loader}"
        );
        let slim = slim(fs::read(&own).unwrap());
        assert!(slim.len() < fs::metadata(&own).unwrap().len() as usize);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("slim");
        fs::write(&path, slim).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let answer = Command::new(&path).arg("--list").output().unwrap();
        assert!(answer.status.success(), "{answer:?}");
    }

    #[test]
    fn a_linked_program_keeps_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("mkfs.other");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        let mut archive = Archive::default();
        add_program(&mut archive, &link).unwrap();
        assert!(archive.holds(&link.to_string_lossy()) && archive.holds("/usr/bin/sh"));
        let missing = add_program(&mut archive, &directory.path().join("absent")).unwrap_err();
        assert!(missing.to_string().contains("absent"), "{missing}");
    }

    proptest! {
        #[test]
        fn garbage_is_refused_as_a_program(bytes: Vec<u8>, text: String, magic: bool) {
            let mut all = if magic { b"\x7fELF\x02\x01\x01".to_vec() } else { Vec::new() };
            all.extend(bytes);
            let _ = (interpreter(&all), script_interpreter(&all), libraries(&text));
            slim(all);
        }
    }
}
