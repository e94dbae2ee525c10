//! What a row says where it names no winner: how large a difference could still be.

use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;
use crate::ranking::{Outcome, Ranking};
use crate::verdict::Verdict;

/// How much is known of a row without a winner, as a share: 0.06 for 6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "change", rename_all = "snake_case")]
pub enum Resolution {
    /// The best are equivalent, and differ by no more than this.
    EqualWithin(f64),
    /// Those that may be the best differ by no more than this, if they do.
    NoDifferenceAbove(f64),
}

impl Resolution {
    /// The largest change that remains possible.
    pub fn change(self) -> f64 {
        match self {
            Resolution::EqualWithin(change) | Resolution::NoDifferenceAbove(change) => change,
        }
    }
}

impl Ranking {
    /// What the intervals of the targets that share the top leave open; nothing where one wins or none is judged.
    pub fn resolution(&self) -> Option<Resolution> {
        match &self.outcome {
            Outcome::Tie(tied) => self.largest_change(tied).map(Resolution::EqualWithin),
            Outcome::Undecided(open) => self.largest_change(open).map(Resolution::NoDifferenceAbove),
            _ => None,
        }
    }

    /// The largest end of the intervals between these targets.
    fn largest_change(&self, targets: &[usize]) -> Option<f64> {
        let among = |place: &usize| targets.contains(place);
        let pairs = self.pairs.iter().filter(|pair| among(&pair.baseline) && among(&pair.candidate));
        pairs.filter_map(|pair| possible_change(&pair.comparison)).reduce(f64::max)
    }
}

/// The end of the interval that lies farther from equality, as a share of the baseline.
fn possible_change(comparison: &Comparison) -> Option<f64> {
    let interval = comparison.interval.filter(|_| comparison.verdict != Verdict::NotJudged)?;
    Some((interval.hi - 1.0).max(1.0 - interval.lo))
}
