//! The resolution of a case without a winner: the largest difference that is still possible.

use serde::{Deserialize, Serialize};

use crate::comparison::Comparison;
use crate::interval::Interval;
use crate::ranking::{Outcome, Ranking};
use crate::verdict::Verdict;

/// The largest change that remains possible in a case without a winner, as a share: 0.06 for 6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "change", rename_all = "snake_case")]
pub enum Resolution {
    /// The best are equivalent, and differ by no more than this.
    EqualWithin(f64),
    /// All intervals between the contenders contain equality and reach no farther than this.
    NoDifferenceAbove(f64),
    /// An interval between contenders excludes equality; none reaches farther than this.
    NoMoreThan(f64),
    /// An interval between contenders reaches this far, beyond [`Resolution::LARGEST`].
    Undecided(f64),
}

impl Resolution {
    /// If a larger change than this remains possible, the case is undecided.
    pub const LARGEST: f64 = 0.25;

    /// Returns the largest change that remains possible.
    pub fn change(self) -> f64 {
        match self {
            Resolution::EqualWithin(change)
            | Resolution::NoDifferenceAbove(change)
            | Resolution::NoMoreThan(change)
            | Resolution::Undecided(change) => change,
        }
    }
}

impl Ranking {
    /// Returns the largest change that the intervals between the contenders leave possible, or `None` if a target wins
    /// or none is judged.
    pub fn resolution(&self) -> Option<Resolution> {
        match &self.outcome {
            Outcome::Tie(tied) => {
                self.intervals(tied).map(possible_change).reduce(f64::max).map(Resolution::EqualWithin)
            }
            Outcome::Undecided(open) => {
                // The change of a pair that was not compared is unknown.
                let is_whole = self.intervals(open).count() == open.len() * open.len().saturating_sub(1) / 2;
                let change = self.intervals(open).map(possible_change).reduce(f64::max).filter(|_| is_whole)?;
                Some(match () {
                    () if change > Resolution::LARGEST => Resolution::Undecided(change),
                    () if self.intervals(open).any(|interval| !interval.contains(1.0)) => {
                        Resolution::NoMoreThan(change)
                    }
                    () => Resolution::NoDifferenceAbove(change),
                })
            }
            _ => None,
        }
    }

    /// The judged intervals between these targets.
    fn intervals(&self, targets: &[usize]) -> impl Iterator<Item = Interval> {
        let among = |place: &usize| targets.contains(place);
        let pairs = self.pairs.iter().filter(move |pair| among(&pair.baseline) && among(&pair.candidate));
        pairs.filter_map(|pair| judged_interval(&pair.comparison))
    }
}

fn judged_interval(comparison: &Comparison) -> Option<Interval> {
    comparison.interval.filter(|_| comparison.verdict != Verdict::NotJudged)
}

/// The larger of the two ratios that the interval leaves possible, whichever target is the baseline, as a change.
fn possible_change(interval: Interval) -> f64 {
    interval.hi.max(1.0 / interval.lo).min(f64::MAX) - 1.0
}

#[cfg(test)]
mod tests {
    use fsb_model::Better;
    use proptest::prelude::*;

    use super::*;
    use crate::block_value::BlockValue;

    fn blocks(values: &[f64]) -> Vec<BlockValue> {
        (1..).zip(values).map(|(block, value)| BlockValue::new(block, *value)).collect()
    }

    /// Of two targets with this interval and verdict.
    fn of_two(lo: f64, hi: f64, verdict: Verdict) -> Option<Resolution> {
        let samples = [blocks(&[1.0, 1.1, 0.9, 1.0, 1.05]), blocks(&[1.0, 0.9, 1.1, 1.05, 1.0])];
        let mut ranking = Ranking::of(&samples, Better::Higher, 0.03).unwrap();
        let comparison = &mut ranking.pairs[0].comparison;
        (comparison.interval, comparison.verdict) = (Some(Interval { lo, hi }), verdict);
        ranking.conclude();
        ranking.resolution()
    }

    #[test]
    fn a_resolution_derives_from_the_interval() {
        let near = |found: Option<Resolution>, expected: Resolution| {
            let found = found.unwrap();
            assert!((found.change() - expected.change()).abs() < 1e-9, "{found:?} {expected:?}");
            assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&expected), "{found:?}");
        };
        near(of_two(0.98, 1.01, Verdict::Equivalent), Resolution::EqualWithin(1.0 / 0.98 - 1.0));
        near(of_two(0.95, 1.04, Verdict::Inconclusive), Resolution::NoDifferenceAbove(1.0 / 0.95 - 1.0));
        near(of_two(0.93, 0.99, Verdict::PerhapsSlower), Resolution::NoMoreThan(1.0 / 0.93 - 1.0));
        near(of_two(1.01, 1.08, Verdict::ProbablyFaster), Resolution::NoMoreThan(0.08));
        near(of_two(0.70, 1.05, Verdict::Inconclusive), Resolution::Undecided(1.0 / 0.70 - 1.0));
        near(of_two(1.01, 1.48, Verdict::PerhapsFaster), Resolution::Undecided(0.48));
        assert_eq!(of_two(1.04, 1.48, Verdict::Faster), None);
        assert_eq!(of_two(0.70, 1.05, Verdict::NotJudged), None);
    }

    proptest! {
        #[test]
        fn the_order_of_targets_changes_no_resolution(
            rows in prop::collection::vec(prop::collection::vec(0.7f64..1.4, 8), 2..5), higher in any::<bool>(),
        ) {
            let better = if higher { Better::Higher } else { Better::Lower };
            let samples: Vec<Vec<BlockValue>> = rows.iter().map(|values| blocks(values)).collect();
            let reversed: Vec<Vec<BlockValue>> = samples.iter().rev().cloned().collect();
            let of = |samples: &[Vec<BlockValue>]| Ranking::of(samples, better, 0.03).unwrap().resolution();
            match (of(&samples), of(&reversed)) {
                (Some(one), Some(other)) => {
                    prop_assert_eq!(std::mem::discriminant(&one), std::mem::discriminant(&other));
                    prop_assert!((one.change() / other.change() - 1.0).abs() < 1e-9, "{:?} {:?}", one, other);
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
