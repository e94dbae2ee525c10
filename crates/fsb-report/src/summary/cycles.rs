//! The cycles of a micro-benchmark of 2023.

/// The measured cycles of one trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cycles {
    /// Iterations of a cycle.
    pub iterations: u64,
    /// The mean seconds of an iteration, by cycle.
    pub seconds: Vec<f64>,
    /// Seconds from the start of the first cycle, which may warm up, to the end of each measured
    /// cycle.
    pub ends: Vec<f64>,
}

impl Cycles {
    /// Returns the cycles from the mean times of measured cycles and the spans of all. Returns
    /// `None` if there are none, or if the numbers of both do not fit.
    pub(super) fn new(iterations: u64, seconds: &[f64], spans_ns: &[[u64; 2]]) -> Option<Cycles> {
        let first = spans_ns.first()?[0];
        let measured = &spans_ns[spans_ns.len().checked_sub(seconds.len())?..];
        let ends = measured
            .iter()
            .map(|[_, end]| end.saturating_sub(first) as f64 * 1e-9)
            .collect();
        (!seconds.is_empty()).then(|| Cycles {
            iterations,
            seconds: seconds.to_vec(),
            ends,
        })
    }
}
