//! One candidate of a race.

/// The result of one candidate in one race round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The index of the candidate. 0 is the baseline, which is in every round.
    pub candidate: usize,
    /// Its slice of the medium. Absent if the medium has no slices.
    pub part: Option<u32>,
    /// The logarithm of its speed. Larger is better.
    pub value: f64,
}
