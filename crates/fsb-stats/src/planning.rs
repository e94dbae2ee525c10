//! The amount of measurement: whether a case needs more blocks, how many a precision needs, and how
//! long the warm-up is.

use fsb_model::plan::BLOCK_LIMIT;

use crate::comparison::Difference;
use crate::description::{describe, mean_and_sd, t_quantile};
use crate::page::is_borne_out;
use crate::ranking::Ranking;
use crate::sample::{AnalysisError, Sample, by_block};
use crate::sequential::Analysis;
use crate::verdict::Verdict;
use crate::{FEWEST_JUDGED, LEVEL};

/// The state of a case at an interim analysis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaseState {
    /// Whether every pair is faster, slower or equivalent. More blocks would change numbers, but
    /// neither outcome nor letters.
    pub decided: bool,
    /// Half the relative width of the widest interval of a ratio to the baseline: 0.02 for ±2 %.
    /// For a single target, that of its own interval. Infinite if an interval has no end yet,
    /// `None` if no target has a value.
    pub half_width: Option<f64>,
    /// Whether the case needs no more blocks: its intervals are as narrow as requested, or, without
    /// a request, it is decided and they are no wider than ⅔ θ.
    pub enough: bool,
}

/// A decided case continues while an interval is wider than this many θ, because readers use the
/// ratio, too, and more time seldom decides the remaining cases.
pub const NARROW: f64 = 2.0 / 3.0;

impl Ranking {
    /// Returns the state of the case on a page that has `pairs_on_page` pairs in all its cases.
    /// `precision` is the requested half-width. A difference must be confirmed whatever the other
    /// cases show, so that a case that ends as decided stays decided. The first target with values
    /// is the baseline.
    pub fn state(
        &self,
        precision: Option<f64>,
        pairs_on_page: usize,
    ) -> Result<CaseState, AnalysisError> {
        let samples = self.samples();
        let present = samples
            .iter()
            .filter(|sample| !sample.values.is_empty())
            .count();
        let pairs = &self.pairs;
        let complete = present > 1 && pairs.len() == present * (present - 1) / 2;
        let decided = complete
            && pairs.iter().all(|pair| match pair.comparison.verdict {
                Verdict::Equivalent => true,
                Verdict::NotJudged => false,
                _ => {
                    self.verdict_of_interval(pair).is_sure()
                        && is_borne_out(pair, pairs_on_page.max(pairs.len()))
                }
            });
        let reference = samples
            .iter()
            .position(|sample| !sample.values.is_empty())
            .unwrap_or(0);
        let half_width = match present {
            0 => None,
            1 => Some(own_half_width(&samples[reference])?),
            _ => {
                let against = pairs.iter().filter(|pair| pair.baseline == reference);
                let widths = against.map(|pair| {
                    let judged = pair
                        .comparison
                        .interval
                        .filter(|_| pair.comparison.verdict != Verdict::NotJudged);
                    judged.map_or(f64::INFINITY, |interval| interval.relative_half_width())
                });
                // Targets without a block in common have no ratio.
                Some(widths.reduce(f64::max).unwrap_or(f64::INFINITY))
            }
        };
        let enough = match precision {
            Some(asked) => half_width.is_some_and(|half_width| half_width <= asked),
            None => {
                decided && half_width.is_some_and(|half_width| half_width <= NARROW * self.theta())
            }
        };
        Ok(CaseState {
            decided,
            half_width,
            enough,
        })
    }
}

/// Returns the half-width for a single target.
fn own_half_width(sample: &Sample) -> Result<f64, AnalysisError> {
    let logs = by_block(&sample.values)?;
    let last = logs.keys().next_back().copied().unwrap_or(0);
    let logs: Vec<f64> = logs.into_values().collect();
    let level = 1.0 - Analysis::new(&sample.analyses, last, 1).nominal(1.0 - LEVEL);
    let interval = Difference::of_blocks(&logs)
        .filter(|_| logs.len() >= FEWEST_JUDGED)
        .and_then(|d| d.interval(level));
    Ok(interval.map_or(f64::INFINITY, |interval| {
        interval.exp().relative_half_width()
    }))
}

/// Returns the fewest blocks, fixed in advance, with which an interval of `level` would be `factor`
/// times as wide as one of `nominal_level` from `n` blocks. A factor of 0.5 halves the width. The
/// scatter is assumed to stay the same. Returns `None` below two blocks, and if the number exceeds
/// the limit of blocks.
pub fn blocks_to_scale(n: usize, nominal_level: f64, level: f64, factor: f64) -> Option<u32> {
    if n < 2 {
        return None;
    }
    let wanted = width(n, nominal_level) * factor;
    fewest(|blocks| width(blocks, level) <= wanted)
}

/// Half-width of a t-interval in standard deviations.
fn width(n: usize, level: f64) -> f64 {
    t_quantile(level, (n - 1) as f64) / (n as f64).sqrt()
}

/// Finds the smallest sufficient number by bisection, because the width decreases steadily.
fn fewest(enough: impl Fn(usize) -> bool) -> Option<u32> {
    let (mut low, mut high) = (2, BLOCK_LIMIT as usize);
    if !enough(high) {
        return None;
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    u32::try_from(low).ok()
}

/// Returns the number of values at the beginning that are warm-up, at most half of all. Without
/// them, the mean of the others has the smallest standard error (the marginal standard error rule,
/// K. P. White, Simulation 69, 1997). A constant series has none.
pub fn warm_up_length(values: &[f64]) -> Result<usize, AnalysisError> {
    describe(values)?;
    let (mut least, mut best) = (f64::INFINITY, 0);
    for removed in 0..=values.len() / 2 {
        let rest = &values[removed..];
        let squares = mean_and_sd(rest).1.powi(2) * (rest.len() - 1) as f64;
        let error = squares.sqrt() / rest.len() as f64;
        // Of equally good lengths the shortest.
        if error < least {
            (least, best) = (error, removed);
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use fsb_model::Better;
    use fsb_model::stop::Analyses;

    use super::*;
    use crate::sample::BlockValue;

    fn target(center: f64, spread: f64, blocks: u32, phase: u32) -> Vec<BlockValue> {
        let wave = |block: u32| libm::sin(f64::from(block * (2 * phase + 3)));
        (1..=blocks)
            .map(|b| BlockValue::new(b, center * libm::exp(spread * wave(b))))
            .collect()
    }

    fn state(samples: &[Vec<BlockValue>], precision: Option<f64>) -> CaseState {
        let analyses = Analyses {
            after: vec![6, 9, 12],
            last_block: 6,
            ended_by_results: true,
        };
        Ranking::of_run(samples, &analyses, Better::Higher, 0.03)
            .unwrap()
            .state(precision, 0)
            .unwrap()
    }

    #[test]
    fn a_row_is_decided_when_every_pair_is() {
        let clear = |spread| {
            [
                target(100.0, spread, 6, 0),
                target(150.0, spread, 6, 1),
                target(50.0, spread, 6, 2),
            ]
        };
        let narrow = state(&clear(0.002), None);
        assert!(narrow.decided && narrow.enough, "{narrow:?}");
        let wide = state(&clear(0.01), None);
        assert!(wide.decided && !wide.enough, "{wide:?}");
        let clear = clear(0.01);
        let equal = [target(100.0, 0.004, 6, 0), target(100.0, 0.004, 6, 1)];
        assert!(state(&equal, None).decided);
        let one_is_open = [
            target(100.0, 0.01, 6, 0),
            target(150.0, 0.2, 6, 1),
            target(140.0, 0.01, 6, 2),
        ];
        assert!(!state(&one_is_open, None).enough);
        let a_target_with_few_blocks = [target(100.0, 0.01, 6, 0), target(150.0, 0.01, 3, 1)];
        assert!(!state(&a_target_with_few_blocks, None).decided);
        assert!(state(&[clear[0].clone(), Vec::new(), clear[1].clone()], None).decided);
    }

    #[test]
    fn precision_is_that_of_ratios() {
        // Both drift together: each one's own interval is wide, that of their ratio is not.
        let drift = |center: f64, phase: u32| -> Vec<BlockValue> {
            let small = target(center, 0.005, 6, phase);
            small
                .into_iter()
                .map(|v| BlockValue {
                    value: v.value * f64::from(v.block),
                    ..v
                })
                .collect()
        };
        let row = [drift(100.0, 0), drift(103.0, 1)];
        let found = state(&row, Some(0.02));
        assert!(found.enough && !found.decided, "{found:?}");
        assert!(
            !state(&row[..1], Some(0.02)).enough,
            "one target has no ratio"
        );
        assert!(state(&[target(100.0, 0.005, 6, 0)], Some(0.02)).enough);
    }

    #[test]
    fn without_intervals_widths_have_no_end() {
        assert_eq!(state(&[Vec::new(), Vec::new()], Some(0.1)).half_width, None);
        let few = [target(100.0, 0.01, 3, 0), target(150.0, 0.01, 3, 1)];
        assert_eq!(
            state(&few, Some(0.1)),
            CaseState {
                decided: false,
                half_width: Some(f64::INFINITY),
                enough: false
            }
        );
    }

    #[test]
    fn halving_takes_about_three_times_the_blocks_when_there_are_few() {
        let of = |n, factor| blocks_to_scale(n, 0.95, 0.95, factor);
        assert_eq!(of(10, 0.5), Some(33));
        assert_eq!(of(100, 0.5), Some(393));
        assert_eq!(of(10, 1.0), Some(10));
        assert_eq!((of(1, 0.5), of(9_000, 0.5)), (None, None));
        // An interval of an interim analysis is wider than one of a fixed number of blocks.
        assert!(blocks_to_scale(10, 0.996, 0.95, 0.5) < of(10, 0.5));
    }

    #[test]
    fn slow_values_at_the_beginning_are_warm_up() {
        let steady = [10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 9.9, 10.1];
        assert_eq!(warm_up_length(&steady).unwrap(), 0);
        let slow = [&[30.0, 14.0][..], &steady].concat();
        assert_eq!(warm_up_length(&slow).unwrap(), 2);
    }

    #[test]
    fn at_most_half_of_the_values_are_warm_up() {
        let falling: Vec<f64> = (0..9).map(|value| f64::from(1 << (9 - value))).collect();
        assert_eq!(warm_up_length(&falling).unwrap(), 4);
        assert_eq!(warm_up_length(&[5.0; 6]).unwrap(), 0);
        assert_eq!(warm_up_length(&[5.0]).unwrap(), 0);
        assert_eq!(warm_up_length(&[]), Err(AnalysisError::Empty));
    }
}
