//! The state of names before the first call.

/// A name and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initial {
    pub name: u32,
    pub state: State,
}

/// The state of a name before the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// The ranges that held data, as offsets and lengths; `None` if the file had no holes.
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
