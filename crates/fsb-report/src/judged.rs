//! The comparison of a candidate with the baseline, judged by the interval of their ratio, and a
//! sentence on the number of rows that each name wins.

use fsb_model::Better;
use fsb_stats::compare::{GridAgainst, RunLevel};
use fsb_stats::{Comparison, Interval, Verdict};

use crate::show::Change;

/// The ratio of a candidate to the baseline, with its interval and verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judged {
    ratio: f64,
    interval: Option<Interval>,
    /// The verdict that follows from the interval.
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// Returns the comparison of a target of a run.
    pub(crate) fn of_target(found: &Comparison) -> Judged {
        Judged {
            ratio: found.ratio,
            interval: found.interval,
            verdict: found.verdict,
        }
    }

    /// Returns the comparison of a set, from its runs.
    pub(crate) fn of_runs(found: &RunLevel) -> Judged {
        Judged {
            ratio: found.ratio,
            interval: found.ci95.map(interval),
            verdict: found.verdict,
        }
    }

    /// Returns the comparison of a set, from the cells of a grid that its runs have in common with
    /// those of the baseline.
    pub(crate) fn of_grid(found: &GridAgainst) -> Option<Judged> {
        Some(Judged {
            ratio: found.ratio?,
            interval: found.ci95.map(interval),
            verdict: found.verdict,
        })
    }

    /// Returns the change as people read it, without the interval if nothing is judged.
    pub(crate) fn change(&self) -> Change {
        Change::between(self.ratio, self.judged_interval())
    }

    /// Returns the ratio of speeds and its interval. Ratios of times are inverted. If nothing is
    /// judged, the interval is a point.
    pub(crate) fn speed(&self, better: Better) -> (f64, Interval) {
        let Interval { lo, hi } = self.judged_interval().unwrap_or(Interval {
            lo: self.ratio,
            hi: self.ratio,
        });
        match better {
            Better::Higher => (self.ratio, Interval { lo, hi }),
            Better::Lower => (
                1.0 / self.ratio,
                Interval {
                    lo: 1.0 / hi,
                    hi: 1.0 / lo,
                },
            ),
        }
    }

    /// Returns the interval; `None` if nothing is judged.
    pub(crate) fn judged_interval(&self) -> Option<Interval> {
        self.interval.filter(|_| self.verdict != Verdict::NotJudged)
    }
}

fn interval([lo, hi]: [f64; 2]) -> Interval {
    Interval { lo, hi }
}
