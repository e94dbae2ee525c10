//! Lines of bounded length, counted.

use std::io::{self, BufRead, Read};

/// Lines from an input, in a buffer that is used again.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    most: u64,
    buffer: Vec<u8>,
    number: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Its bytes without the line end.
    pub bytes: &'a [u8],
    /// Whether a line end ended it: if not, the input may have been cut within it.
    pub ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Returns the lines of `inner`, of at most `most` bytes each.
    pub fn new(input: R, most: u64) -> Lines<R> {
        Lines { input, most, buffer: Vec::new(), number: 0 }
    }

    /// Returns the number of the line that was read last, or that could not be read.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the next line, or `None` at the end. A longer line is an error of the kind `FileTooLarge`.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.number += 1;
        self.buffer.clear();
        // A buffer that one long line filled is not kept for thousands of short ones.
        self.buffer.shrink_to(64 << 10);
        if (&mut self.input).take(self.most + 1).read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(None);
        }
        let (bytes, ended) = match self.buffer.strip_suffix(b"\n") {
            Some(bytes) => (bytes, true),
            None => (&self.buffer[..], false),
        };
        if bytes.len() as u64 > self.most {
            let message = format!("it is longer than {} MiB, the longest line that is read", self.most >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(Some(Line { number: self.number, bytes, ended }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_the_last_one_may_lack_its_end() {
        let mut lines = Lines::new(&b"one\n\ntwo"[..], 100);
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            seen.push((line.number, line.bytes.to_vec(), line.ended));
        }
        assert_eq!(seen, [(1, b"one".to_vec(), true), (2, Vec::new(), true), (3, b"two".to_vec(), false)]);
    }

    #[test]
    fn a_line_without_end_is_refused_when_it_is_too_long_and_no_later() {
        let mut lines = Lines::new(io::BufReader::new(io::repeat(0)), 1 << 20);
        let error = lines.next_line().unwrap_err();
        assert_eq!((error.kind(), lines.number()), (io::ErrorKind::FileTooLarge, 1));
        assert!(error.to_string().contains("longer than 1 MiB"), "{error}");
        assert!(lines.buffer.capacity() < 4 << 20);
        let mut exact = Lines::new(&b"123\n1234\n"[..], 3);
        assert_eq!(exact.next_line().unwrap().unwrap().bytes, b"123");
        assert!(exact.next_line().is_err());
    }
}
