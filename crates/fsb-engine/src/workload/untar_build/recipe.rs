//! A source tree by recipe: the shape of a large project's sources, which is recorded by three numbers.
//!
//! Shaped after the sources of Linux 6.1: fifteen files a directory, but few directories that hold many; sizes
//! log-normal with a median of 4.5 KiB and a mean of three times that. Shape and names are the same for every seed, so
//! that all blocks of a run and all runs have the same tree; contents are the seed's.

use std::io::{self, Write as _};

use crate::hash::{mix, unit};

/// Files of a directory, in the mean.
const FILES_A_DIRECTORY: u64 = 15;
/// Directories lie no deeper below the tree's own.
const DEEPEST: u32 = 7;
/// Bytes: half of the files have fewer.
const MEDIAN: f64 = 4.5 * 1024.0;
/// Standard deviation of the logarithm of a size.
const SIGMA: f64 = 1.5;
/// Bytes that no file has more of.
const LARGEST: f64 = (4 << 20) as f64;
/// What everything lies in.
const ROOT: &str = "source";

/// What a directory or file of the tree is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) path: String,
    /// Bytes of a file; nothing for a directory.
    pub(super) size: Option<u64>,
    /// Permissions.
    pub(super) mode: u32,
}

/// What the bytes of files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceContent {
    /// That nobody can compress.
    Random,
    /// C: it compresses as sources do, and it compiles.
    Text,
}

impl SourceContent {
    pub(super) const ALL: [SourceContent; 2] = [SourceContent::Random, SourceContent::Text];

    pub(super) fn name(self) -> &'static str {
        match self {
            SourceContent::Random => "random",
            SourceContent::Text => "text",
        }
    }
}

/// The tree of `files` files: parents before children, and the files of a directory after it.
pub(super) fn tree(files: u64) -> Vec<Planned> {
    let count = (files / FILES_A_DIRECTORY).max(1);
    let mut directories: Vec<(String, u32)> = vec![(ROOT.to_owned(), 0)];
    for number in 1..count {
        // Where the parent is too deep, its own place in the list names another one.
        let mut parent = (mix(number ^ 0xd1) % number) as usize;
        while directories[parent].1 >= DEEPEST {
            parent /= 2;
        }
        let (path, depth) = &directories[parent];
        directories.push((format!("{path}/d{number:04}"), depth + 1));
    }
    let mut planned: Vec<Vec<Planned>> = vec![Vec::new(); directories.len()];
    for number in 0..files {
        // The square makes few directories large.
        let place = unit(mix(number ^ 0xf1)).powi(2) * directories.len() as f64;
        let directory = (place as usize).min(directories.len() - 1);
        let (suffix, mode) = match mix(number ^ 0xa1) % 100 {
            0..60 => ("c", 0o644),
            60..90 => ("h", 0o644),
            90..97 => ("txt", 0o644),
            _ => ("sh", 0o755),
        };
        let path = format!("{}/f{number:05}.{suffix}", directories[directory].0);
        planned[directory].push(Planned { path, size: Some(size(number)), mode });
    }
    let own = directories.into_iter().map(|(path, _)| Planned { path, size: None, mode: 0o755 });
    own.zip(planned).flat_map(|(directory, files)| std::iter::once(directory).chain(files)).collect()
}

/// Bytes of a file: log-normal, by the method of Box and Muller (1958).
fn size(number: u64) -> u64 {
    let [first, second] = [0x51, 0x52].map(|salt| unit(mix(mix(number) ^ salt)));
    let normal = libm::sqrt(-2.0 * libm::log(1.0 - first)) * libm::cos(std::f64::consts::TAU * second);
    (MEDIAN * libm::exp(SIGMA * normal)).clamp(1.0, LARGEST) as u64
}

/// Fills memory with C: functions that nobody else defines, and a comment where no other one fits.
pub(super) fn write_source(text: &mut Vec<u8>, seed: u64, number: u64, size: u64) {
    const ROOM: usize = 96;
    text.clear();
    let size = size as usize;
    let mut function = 0u64;
    while text.len() + ROOM < size {
        let bits = mix(seed ^ mix(number ^ function.rotate_left(32)));
        let (factor, mask) = (bits % 997, bits >> 32 & 0xffff);
        let line = writeln!(
            text,
            "int value_{number}_{function}(int left, int right) {{ return (left * {factor} + right) ^ {mask}; }}"
        );
        debug_assert!(line.is_ok(), "memory takes everything");
        function += 1;
    }
    pad(text, size);
}

/// To the very byte: a comment, or blanks where not even that fits.
fn pad(text: &mut Vec<u8>, size: usize) {
    text.truncate(size);
    let left = size - text.len();
    if left >= 5 {
        text.extend_from_slice(b"/*");
        text.resize(size - 3, b'-');
        text.extend_from_slice(b"*/\n");
    } else {
        text.resize(size, b'\n');
    }
}

/// Adds the tree to an archive; `fill` makes the bytes of a file from its number, its path and its size.
pub(super) fn archive(planned: &[Planned], mut fill: impl FnMut(&mut Vec<u8>, u64, u64)) -> io::Result<Vec<u8>> {
    // A header and whole blocks a file, and the end.
    let room = |one: &Planned| 512 + one.size.unwrap_or(0).next_multiple_of(512);
    let whole: u64 = planned.iter().map(room).sum::<u64>() + 1024;
    let mut memory = Vec::new();
    memory.try_reserve_exact(whole as usize).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut builder = tar::Builder::new(memory);
    let mut bytes = Vec::new();
    for (number, one) in (0..).zip(planned) {
        let mut header = tar::Header::new_gnu();
        header.set_mode(one.mode);
        header.set_mtime(EPOCH + number);
        bytes.clear();
        match one.size {
            None => header.set_entry_type(tar::EntryType::Directory),
            Some(size) => {
                header.set_entry_type(tar::EntryType::Regular);
                fill(&mut bytes, number, size);
            }
        }
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, &one.path, bytes.as_slice())?;
    }
    builder.into_inner()
}

/// The first file's time: some moment of the past.
pub(super) const EPOCH: u64 = 1_600_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_the_shape_of_sources() {
        let tree = tree(20_000);
        let files: Vec<u64> = tree.iter().filter_map(|one| one.size).collect();
        assert_eq!(files.len(), 20_000);
        assert_eq!(tree.len() - files.len(), 1333);
        let mean = files.iter().sum::<u64>() as f64 / files.len() as f64;
        assert!((12_500.0..15_500.0).contains(&mean), "{mean}");
        let mut sorted = files.clone();
        sorted.sort_unstable();
        assert!((4300..4900).contains(&sorted[10_000]), "{}", sorted[10_000]);
        let deepest = tree.iter().map(|one| one.path.matches('/').count()).max();
        assert!((6..=8).contains(&deepest.unwrap()), "{deepest:?}");
        assert!(tree.iter().all(|one| one.path.len() < 100), "no name needs an extension of the format");
        for (at, one) in tree.iter().enumerate().skip(1) {
            let parent = one.path.rsplit_once('/').unwrap().0;
            assert!(at < 500 || tree[..at].iter().any(|other| other.path == parent), "{} has no parent", one.path);
            if at > 1500 {
                break;
            }
        }
        assert_eq!(super::tree(1).len(), 2);
    }

    #[test]
    fn sources_have_their_size_to_the_byte() {
        let mut text = Vec::new();
        for size in [0, 1, 4, 5, 6, 96, 97, 200, 5000] {
            write_source(&mut text, 42, 7, size);
            assert_eq!(text.len() as u64, size);
            assert!(text.is_ascii());
        }
    }
}
