//! The files that a resolver can examine.

/// The state of a path before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// The state is unknown: the trace is of the past, or of another machine.
    Unknown,
    /// The path does not exist.
    Absent,
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// The ranges that hold data; `None` if the file has no holes.
        data: Option<Vec<(u64, u64)>>,
        /// Device and inode of a file with several names.
        id: Option<(u64, u64)>,
    },
    /// A symbolic link.
    Link {
        /// The text.
        to: Vec<u8>,
    },
}

/// Examines files while a program is traced. For a log of the past, no file can be examined.
pub trait World {
    /// Returns the path with symbolic links resolved; the one at its end only if the call follows
    /// it.
    fn locate(&mut self, path: Vec<u8>, follows: bool) -> Vec<u8>;
    /// Returns the current state of a path.
    fn before(&mut self, path: &[u8]) -> Before;
    /// Returns the names in a directory.
    fn entries(&mut self, path: &[u8]) -> Vec<Vec<u8>>;
    /// Returns the path of a regular file that a task has open now.
    fn open_file(&mut self, task: u32, fd: i32) -> Option<Vec<u8>>;
}

/// A world whose files cannot be examined.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Past;

impl World for Past {
    /// Puts files that the kernel generates outside all names.
    fn locate(&mut self, path: Vec<u8>, _: bool) -> Vec<u8> {
        let made_up = [&b"/proc"[..], b"/sys", b"/dev"];
        if made_up.iter().any(|place| {
            path.starts_with(place) && matches!(path.get(place.len()), None | Some(b'/'))
        }) {
            b"/\0".to_vec()
        } else {
            path
        }
    }

    fn before(&mut self, _: &[u8]) -> Before {
        Before::Unknown
    }

    fn entries(&mut self, _: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn open_file(&mut self, _: u32, _: i32) -> Option<Vec<u8>> {
        None
    }
}
