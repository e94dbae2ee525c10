//! An interval of confidence.

use serde::{Deserialize, Serialize};

/// An interval that covers the true value at a confidence level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
}

impl Interval {
    /// Returns the interval on the plain scale for one on the logarithmic scale.
    pub(crate) fn exp(self) -> Interval {
        Interval { lo: exp(self.lo), hi: exp(self.hi) }
    }

    /// Returns the interval of the negated difference.
    pub(crate) fn negated(self) -> Interval {
        Interval { lo: -self.hi, hi: -self.lo }
    }

    /// Returns half the width, relative to the middle on the logarithmic scale: 0.02 for ±2 %.
    pub fn relative_half_width(&self) -> f64 {
        libm::expm1((libm::log(self.hi) - libm::log(self.lo)) / 2.0).min(f64::MAX)
    }

    /// Returns whether `value` is inside.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

/// `exp`, but never zero and never infinite: two trials that differ a millionfold give an interval wider than any
/// number, and a reader of JSON must still get numbers.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x).clamp(f64::MIN_POSITIVE, f64::MAX)
}
