//! The names outside the root that calls rename or link.

use std::collections::HashMap;

/// A call with one name inside the root and one outside.
#[derive(Debug)]
pub(super) struct Crossing {
    pub(super) inside: Vec<u8>,
    pub(super) outside: Vec<u8>,
    /// The second name is the one inside.
    pub(super) inwards: bool,
}

/// The outer names.
#[derive(Debug, Default)]
pub(super) struct Outer {
    /// The numbers of those that a call put outside the root, by their paths.
    pub(super) put: HashMap<Vec<u8>, u64>,
    count: u64,
    /// The name of their directory below the root, which is empty until the first one.
    pub(super) directory: Vec<u8>,
    /// The calls that crossed the border.
    pub(super) crossed: u64,
}

impl Outer {
    /// Returns a new number.
    pub(super) fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Returns the name of a number.
    pub(super) fn name(&self, number: u64) -> Vec<u8> {
        [&self.directory, format!("/{number}").as_bytes()].concat()
    }

    /// Returns whether a name of the program is the directory, or in it.
    pub(super) fn contains(&self, name: &[u8]) -> bool {
        let directory = &self.directory;
        !directory.is_empty()
            && (name == directory
                || name
                    .strip_prefix(&**directory)
                    .is_some_and(|rest| rest.starts_with(b"/")))
    }
}
