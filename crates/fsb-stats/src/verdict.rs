//! An interval of confidence, and the verdict on it.

use fsb_model::Better;
use serde::{Deserialize, Serialize};

/// The verdict on a candidate against the baseline, from its interval and the correction for the
/// page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is better by more than the smallest ratio that matters.
    Faster,
    /// The whole interval is worse by more than the smallest ratio that matters.
    Slower,
    /// The whole interval is within the smallest ratio that matters.
    Equivalent,
    /// Better for sure, but perhaps by less than matters.
    ProbablyFaster,
    /// Worse for sure, but perhaps by less than matters.
    ProbablySlower,
    /// The interval is better than equality, but the difference is not significant after correction
    /// for all cases of the page.
    PerhapsFaster,
    /// The interval is worse than equality, but the difference is not significant after correction
    /// for all cases of the page.
    PerhapsSlower,
    /// Both directions remain possible.
    Inconclusive,
    /// Too few blocks in common.
    NotJudged,
}

impl Verdict {
    pub const ALL: [Verdict; 9] = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::Equivalent,
        Verdict::ProbablyFaster,
        Verdict::ProbablySlower,
        Verdict::PerhapsFaster,
        Verdict::PerhapsSlower,
        Verdict::Inconclusive,
        Verdict::NotJudged,
    ];

    /// Judges an interval of ln(candidate / baseline) against θ = ln(1 + theta).
    ///
    /// Inside ±θ comes before the direction: a sure difference that is too small to matter counts
    /// as equivalent.
    pub(crate) fn from_interval(log_ratio: Interval, theta: f64, better: Better) -> Verdict {
        let theta = libm::log1p(theta);
        let Interval { lo, hi } = match better {
            Better::Higher => log_ratio,
            Better::Lower => log_ratio.negated(),
        };
        match () {
            () if -theta <= lo && hi <= theta => Verdict::Equivalent,
            () if lo > theta => Verdict::Faster,
            () if hi < -theta => Verdict::Slower,
            () if lo > 0.0 => Verdict::ProbablyFaster,
            () if hi < 0.0 => Verdict::ProbablySlower,
            () => Verdict::Inconclusive,
        }
    }

    /// Judges an interval of the ratio.
    pub(crate) fn of_ratio(ratio: Interval, theta: f64, better: Better) -> Verdict {
        Verdict::from_interval(
            Interval {
                lo: libm::log(ratio.lo),
                hi: libm::log(ratio.hi),
            },
            theta,
            better,
        )
    }

    /// Returns the verdict with the roles of baseline and candidate exchanged.
    pub fn inverse(self) -> Verdict {
        match self {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            Verdict::ProbablyFaster => Verdict::ProbablySlower,
            Verdict::ProbablySlower => Verdict::ProbablyFaster,
            Verdict::PerhapsFaster => Verdict::PerhapsSlower,
            Verdict::PerhapsSlower => Verdict::PerhapsFaster,
            same => same,
        }
    }

    /// Returns whether the candidate is better, by any amount.
    pub fn is_better(self) -> bool {
        matches!(self, Verdict::Faster | Verdict::ProbablyFaster)
    }

    /// Returns whether the candidate is worse, by any amount.
    pub fn is_worse(self) -> bool {
        matches!(self, Verdict::Slower | Verdict::ProbablySlower)
    }

    /// Returns whether the candidate is better or worse by more than the smallest ratio that
    /// matters. Winners and letters depend on this.
    pub fn is_sure(self) -> bool {
        matches!(self, Verdict::Faster | Verdict::Slower)
    }

    /// Returns whether the difference is significant. It may be smaller than the smallest ratio
    /// that matters.
    pub fn differs(self) -> bool {
        self.is_better() || self.is_worse()
    }

    /// Returns whether the interval excludes equality, but the correction for all cases of the page
    /// does not confirm it.
    pub fn is_unconfirmed(self) -> bool {
        matches!(self, Verdict::PerhapsFaster | Verdict::PerhapsSlower)
    }

    /// Returns the verdict after the page: it confirms that the difference is larger than θ, that
    /// there is a difference, or neither. Other verdicts stay.
    pub(crate) fn confirmed(self, beyond_theta: bool, differs: bool) -> Verdict {
        match self {
            Verdict::Faster if beyond_theta => Verdict::Faster,
            Verdict::Slower if beyond_theta => Verdict::Slower,
            Verdict::Faster | Verdict::ProbablyFaster if differs => Verdict::ProbablyFaster,
            Verdict::Slower | Verdict::ProbablySlower if differs => Verdict::ProbablySlower,
            Verdict::Faster | Verdict::ProbablyFaster => Verdict::PerhapsFaster,
            Verdict::Slower | Verdict::ProbablySlower => Verdict::PerhapsSlower,
            other => other,
        }
    }

    /// Returns the name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equivalent => "equivalent",
            Verdict::ProbablyFaster => "probably_faster",
            Verdict::ProbablySlower => "probably_slower",
            Verdict::PerhapsFaster => "perhaps_faster",
            Verdict::PerhapsSlower => "perhaps_slower",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotJudged => "not_judged",
        }
    }

    /// Returns the words in sentences and tables.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::ProbablyFaster => "probably faster",
            Verdict::ProbablySlower => "probably slower",
            Verdict::PerhapsFaster => "perhaps faster",
            Verdict::PerhapsSlower => "perhaps slower",
            Verdict::NotJudged => "not judged",
            other => other.name(),
        }
    }
}

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
    pub(crate) fn around(center: f64, half_width: f64) -> Interval {
        Interval {
            lo: center - half_width,
            hi: center + half_width,
        }
    }

    /// Returns the interval on the plain scale for one on the logarithmic scale.
    pub(crate) fn exp(self) -> Interval {
        Interval {
            lo: exp(self.lo),
            hi: exp(self.hi),
        }
    }

    /// Returns the interval of the negated difference.
    fn negated(self) -> Interval {
        Interval {
            lo: -self.hi,
            hi: -self.lo,
        }
    }

    /// Returns half the width, relative to the middle on the logarithmic scale: 0.02 for ±2 %.
    pub fn relative_half_width(&self) -> f64 {
        libm::expm1((libm::log(self.hi) - libm::log(self.lo)) / 2.0).min(f64::MAX)
    }

    /// Returns whether the interval contains equality and is wider than ±100 %: a factor of two to
    /// each side of its middle. Its ends then say nothing of the ratio.
    pub fn is_too_wide(&self) -> bool {
        self.contains(1.0) && self.relative_half_width() > 1.0
    }

    /// Returns whether `value` is inside.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }
}

/// `exp`, but never zero and never infinite: two trials that differ a millionfold give an interval
/// wider than any number, and a reader of JSON must still get numbers.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x).clamp(f64::MIN_POSITIVE, f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(lo: f64, hi: f64, better: Better) -> Verdict {
        Verdict::from_interval(
            Interval {
                lo: libm::log(lo),
                hi: libm::log(hi),
            },
            0.03,
            better,
        )
    }

    #[test]
    fn every_position_of_the_interval_has_its_word() {
        for (lo, hi, higher, lower) in [
            (1.04, 1.10, Verdict::Faster, Verdict::Slower),
            (0.90, 0.96, Verdict::Slower, Verdict::Faster),
            (0.99, 1.02, Verdict::Equivalent, Verdict::Equivalent),
            (1.005, 1.02, Verdict::Equivalent, Verdict::Equivalent),
            (1.01, 1.10, Verdict::ProbablyFaster, Verdict::ProbablySlower),
            (0.90, 0.99, Verdict::ProbablySlower, Verdict::ProbablyFaster),
            (0.95, 1.01, Verdict::Inconclusive, Verdict::Inconclusive),
            (0.90, 1.10, Verdict::Inconclusive, Verdict::Inconclusive),
        ] {
            assert_eq!(judge(lo, hi, Better::Higher), higher, "{lo} {hi}");
            assert_eq!(judge(lo, hi, Better::Lower), lower, "{lo} {hi}");
            assert_eq!(
                judge(1.0 / hi, 1.0 / lo, Better::Higher),
                higher.inverse(),
                "{lo} {hi}"
            );
        }
    }

    #[test]
    fn names_are_those_of_the_records() {
        for verdict in Verdict::ALL {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.name());
            assert_eq!(verdict.words().replace(' ', "_"), verdict.name());
            assert_eq!(verdict.inverse().inverse(), verdict);
        }
    }
}
