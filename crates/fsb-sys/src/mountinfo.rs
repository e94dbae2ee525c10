//! Parses `/proc/self/mountinfo`: the mounts, with the options that the kernel applied.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::Roots;

/// One mount, as described in proc_pid_mountinfo(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `st_dev` of files on the mount. For btrfs, which numbers its volumes itself, this is not the
    /// device.
    pub device: (u32, u32),
    pub point: PathBuf,
    /// Options of this mount: `rw`, `noatime`, …
    pub options: Vec<String>,
    /// The driver, as named when mounting.
    pub kind: String,
    /// The mounted source, usually the path of a device.
    pub source: PathBuf,
    /// Options of the file system, which all its mounts share.
    pub super_options: Vec<String>,
}

impl Mount {
    /// Returns the options of both kinds, each once, in the kernel's order.
    pub fn all_options(&self) -> Vec<String> {
        let mut all = self.options.clone();
        for option in &self.super_options {
            if !all.contains(option) {
                all.push(option.clone());
            }
        }
        all
    }

    /// Returns the value of the option `NAME=VALUE` of the file system.
    pub fn super_option(&self, name: &str) -> Option<&str> {
        self.super_options
            .iter()
            .find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Returns the mounts of the calling process.
pub fn read() -> Vec<Mount> {
    parse(&std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default())
}

/// Returns the mounts in every mount namespace whose processes are visible, each namespace once.
pub fn read_everywhere(roots: &Roots) -> Vec<Mount> {
    let mut seen = std::collections::BTreeSet::new();
    let processes = std::fs::read_dir(&roots.proc)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()));
    let mut mounts = read();
    for process in processes {
        // Kernel threads, and processes that this one may not inspect, have no readable link.
        if std::fs::read_link(process.join("ns/mnt")).is_ok_and(|namespace| seen.insert(namespace))
        {
            mounts.extend(parse(
                &std::fs::read(process.join("mountinfo")).unwrap_or_default(),
            ));
        }
    }
    mounts
}

/// Returns the topmost mount at exactly this point.
pub fn at(point: &Path) -> Option<Mount> {
    read().into_iter().rfind(|mount| mount.point == point)
}

/// Returns the mount that holds `path`: the one with the longest mount point above it, and the last
/// of several equal ones.
pub fn holding(mounts: &[Mount], path: &Path) -> Option<Mount> {
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
        .cloned()
}

/// Parses a mountinfo file. Skips lines that are not mounts.
pub fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    // Optional fields follow the sixth. A lone dash ends them.
    let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let (major, minor) = std::str::from_utf8(fields[2]).ok()?.split_once(':')?;
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: path(fields[4]),
        options: list(fields[5]),
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
        source: path(fields.get(dash + 2)?),
        super_options: list(fields.get(dash + 3).copied().unwrap_or_default()),
    })
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(unescape(field)))
}

fn list(field: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(&unescape(field)).into_owned();
    text.split(',')
        .filter(|option| !option.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Decodes the three octal digits with which the kernel writes blanks, newlines and backslashes.
pub(super) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                bytes.push(digits.iter().fold(0u8, |value, digit| {
                    value.wrapping_mul(8).wrapping_add(digit - b'0')
                }));
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n\
        43 27 0:39 / /mnt/with\\040blank rw,noatime - btrfs /dev/loop0 rw,space_cache=v2,subvol=/\n\
        44 43 0:40 / /mnt/with\\040blank/in rw - tmpfs tmpfs rw,size=4k\n";

    #[test]
    fn real_lines_parse() {
        let mounts = parse(TEXT);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].device, (254, 0));
        assert_eq!(mounts[1].point, Path::new("/mnt/with blank"));
        assert_eq!(
            mounts[1].all_options(),
            ["rw", "noatime", "space_cache=v2", "subvol=/"]
        );
        assert_eq!(
            holding(&mounts, Path::new("/mnt/with blank/in/x"))
                .unwrap()
                .kind,
            "tmpfs"
        );
        assert_eq!(
            holding(&mounts, Path::new("/mnt/with blankx"))
                .unwrap()
                .kind,
            "ext4"
        );
    }

    #[test]
    fn our_own_mounts_have_a_root() {
        assert!(at(Path::new("/")).is_some());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop::collection::vec(prop::sample::select(b"0123/: -\\\nab".to_vec()), 0..60)) {
            let _ = parse(&text);
        }
    }
}
