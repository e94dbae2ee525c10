//! Whoever can look at the files themselves.

/// What a path is before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// Nobody can tell: the trace is of the past, or of another machine.
    Unknown,
    /// Nothing.
    Absent,
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// Where it holds data; absent where it has no holes.
        data: Option<Vec<(u64, u64)>>,
        /// Device and inode of a file with several names.
        id: Option<(u64, u64)>,
    },
    /// A symbolic link.
    Link {
        /// Its text.
        to: Vec<u8>,
    },
}

/// Looks at files while they are traced; a log of the past has nobody who can.
pub trait World {
    /// The path with symbolic links resolved, that at its end where the call follows it.
    fn locate(&mut self, path: Vec<u8>, follows: bool) -> Vec<u8>;
    /// What a path is now.
    fn before(&mut self, path: &[u8]) -> Before;
    /// The names in a directory.
    fn entries(&mut self, path: &[u8]) -> Vec<Vec<u8>>;
}

/// Nobody is there to look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Past;

impl World for Past {
    /// What the kernel makes up is nobody's file: it is put outside all names.
    fn locate(&mut self, path: Vec<u8>, _: bool) -> Vec<u8> {
        let made_up = [&b"/proc"[..], b"/sys", b"/dev"];
        let is_made_up = |place: &&[u8]| path.starts_with(place) && matches!(path.get(place.len()), None | Some(b'/'));
        if made_up.iter().any(is_made_up) { b"/\0".to_vec() } else { path }
    }

    fn before(&mut self, _: &[u8]) -> Before {
        Before::Unknown
    }

    fn entries(&mut self, _: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }
}
