//! One candidate of a race.

/// One candidate in one heat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Which candidate; 0 is the reference, which is in every heat.
    pub candidate: usize,
    /// Which part of the medium it had; absent where there are none.
    pub part: Option<u32>,
    /// The logarithm of its speed: more is better.
    pub value: f64,
}
