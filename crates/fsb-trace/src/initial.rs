//! What was there before the first call.

/// A name, and what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initial {
    pub name: u32,
    pub state: State,
}

/// What a name was before the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// Where it held data, as offsets and lengths; absent where it had no holes.
        data: Option<Vec<(u64, u64)>>,
    },
    /// A symbolic link to another name below the same root, or to nothing that a replay needs.
    Link {
        to: Vec<u8>,
    },
    /// Another name of a file.
    Same {
        /// The name that came first.
        name: u32,
    },
}
