//! Reads user-supplied files within bounds.
//!
//! A user-supplied file may be a device that never ends, a pipe without a writer, or a sparse file of an exabyte. This
//! crate opens all such files: regular files only (links to them are fine), without blocking, with a limit on bytes and
//! on the length of a line. Under sudo, it uses the privileges of the invoking user. All errors are [`io::Error`]s
//! whose text follows `cannot read FILE: `.
//!
//! [`remove_tree`] removes the directories that programs of the user leave, whatever their depth and permissions.
#![forbid(unsafe_code)]

mod lines;
mod open;
mod rights;
mod tree;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub use lines::{Line, Lines};
pub use open::{open, open_or_pipe};
pub use rights::{Act, open_by, with_own_rights};
pub use tree::remove_tree;

/// The longest line of a journal, and the longest message of an agent. A trial on a recorded tree of a million files
/// takes some 20 MB, because its parameters contain the shape of the tree. Any other trial takes a few kilobytes.
pub const LONGEST_LINE: u64 = 64 << 20;

/// The largest plan, script or workload file.
pub const LARGEST_SCRIPT: u64 = 16 << 20;

/// The record of a run: the order of 10,000 blocks takes some 50 MB.
pub const LARGEST_RECORD: u64 = 256 << 20;

/// The results of another tool. The longest log of one run takes a thousandth of it.
pub const LARGEST_RESULT: u64 = 1 << 30;

/// Kernels, and modules with their debug information.
pub const LARGEST_BINARY: u64 = 4 << 30;

/// Reads the whole of a regular file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_open(open(path)?, most)
}

/// Reads the whole of a regular file of at most `most` bytes, which must be text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    text(read(path, most)?)
}

/// Like [`read_text`], but also reads a pipe of the shell to its end.
pub fn read_text_or_pipe(path: &Path, most: u64) -> io::Result<String> {
    text(read_open(open_or_pipe(path)?, most)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text (UTF-8)"))
}

fn read_open(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_large(most));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    Bounded::new(file, most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads at most a given number of bytes. One more byte is an error, not an end, so that no file is truncated silently.
#[derive(Debug)]
pub struct Bounded<R> {
    inner: R,
    most: u64,
    left: u64,
}

impl<R> Bounded<R> {
    /// Reads at most `most` bytes of `inner`.
    pub fn new(inner: R, most: u64) -> Bounded<R> {
        Bounded { inner, most, left: most }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return if self.inner.read(&mut [0])? == 0 { Ok(0) } else { Err(too_large(self.most)) };
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        // No reader returns more than it had room for. One that did must not wrap the count.
        let length = self.inner.read(&mut buffer[..most])?;
        self.left = self.left.saturating_sub(length as u64);
        Ok(length)
    }
}

/// Returns the error for a file that is larger than its limit.
pub fn too_large(most: u64) -> io::Error {
    let message = format!("it is larger than {} MiB, the most that is read", most >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}
