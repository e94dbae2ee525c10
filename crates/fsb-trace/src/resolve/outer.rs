//! The names outside the root that calls rename or link.

use std::collections::HashMap;

use crate::call::OUTSIDE;

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
    /// The calls that crossed the border.
    pub(super) crossed: u64,
}

impl Outer {
    /// Returns a new number.
    pub(super) fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

pub(super) fn outer_name(number: u64) -> Vec<u8> {
    [OUTSIDE, format!("/{number}").as_bytes()].concat()
}
