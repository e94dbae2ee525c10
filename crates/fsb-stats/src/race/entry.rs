//! One candidate of a race.

/// One candidate in one heat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The number of the candidate; 0 is the reference, which is in every heat.
    pub candidate: usize,
    /// The part of the medium that it had; absent if the medium has no parts.
    pub part: Option<u32>,
    /// The logarithm of its speed: more is better.
    pub value: f64,
}
