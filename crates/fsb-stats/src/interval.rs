//! An interval of confidence.

use serde::{Deserialize, Serialize};

/// Where the true value lies, as far as the data tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
}

impl Interval {
    /// The interval on the plain scale of one on the scale of logarithms.
    pub(crate) fn exp(self) -> Interval {
        Interval { lo: exp(self.lo), hi: exp(self.hi) }
    }

    /// The same statement about the difference taken the other way round.
    pub(crate) fn negated(self) -> Interval {
        Interval { lo: -self.hi, hi: -self.lo }
    }

    /// Half the width, relative to the middle on the scale of logarithms: 0.02 for ±2 %.
    pub fn relative_half_width(&self) -> f64 {
        libm::expm1((libm::log(self.hi) - libm::log(self.lo)) / 2.0).min(f64::MAX)
    }

    /// Whether `value` lies inside.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

/// `exp`, but never zero and never infinite: two trials that differ a millionfold give an interval wider than any
/// number, and a reader of JSON must still get numbers.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x).clamp(f64::MIN_POSITIVE, f64::MAX)
}
