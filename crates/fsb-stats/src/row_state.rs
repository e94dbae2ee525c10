//! Decides whether a case needs more blocks.

use crate::block_value::by_block;
use crate::difference::Difference;
use crate::error::AnalysisError;
use crate::page::is_borne_out;
use crate::ranking::{Pair, Ranking};
use crate::sample::Sample;
use crate::sequential::Analysis;
use crate::verdict::Verdict;
use crate::{FEWEST_JUDGED, LEVEL};

/// The state of a case at an interim analysis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowState {
    /// Whether every pair is faster, slower or equivalent. More blocks would change numbers, but neither outcome nor
    /// letters.
    pub decided: bool,
    /// Half the relative width of the widest interval of a ratio to the baseline: 0.02 for ±2 %. For a single target,
    /// that of its own interval. Infinite if an interval has no end yet, `None` if no target has a value.
    pub half_width: Option<f64>,
    /// Whether the case needs no more blocks: its intervals are as narrow as requested, or, without a request, it is
    /// decided and they are no wider than 2 θ.
    pub enough: bool,
}

/// A decided case continues while an interval is wider than this many θ, because readers use the ratio, too, and more
/// time seldom decides the remaining cases.
const NARROW: f64 = 2.0;

impl Ranking {
    /// Returns the state of the case on a page that has `pairs_on_page` pairs in all its cases. `precision` is the
    /// requested half-width. A difference must be confirmed whatever the other cases show, so that a case that ends as
    /// decided stays decided. The first target with values is the baseline.
    pub fn state(&self, precision: Option<f64>, pairs_on_page: usize) -> Result<RowState, AnalysisError> {
        let samples = self.samples();
        let present = samples.iter().filter(|sample| !sample.values.is_empty()).count();
        let pairs = &self.pairs;
        let settled = |pair: &Pair| match pair.comparison.verdict {
            Verdict::Equivalent => true,
            Verdict::NotJudged => false,
            _ => self.verdict_of_interval(pair).is_sure() && is_borne_out(pair, pairs_on_page.max(pairs.len())),
        };
        let complete = present > 1 && pairs.len() == present * (present - 1) / 2;
        let decided = complete && pairs.iter().all(settled);
        let reference = samples.iter().position(|sample| !sample.values.is_empty()).unwrap_or(0);
        let half_width = match present {
            0 => None,
            1 => Some(own_half_width(&samples[reference])?),
            _ => {
                let against = pairs.iter().filter(|pair| pair.baseline == reference);
                let widths = against.map(|pair| {
                    let judged = pair.comparison.interval.filter(|_| pair.comparison.verdict != Verdict::NotJudged);
                    judged.map_or(f64::INFINITY, |interval| interval.relative_half_width())
                });
                // Targets without a block in common have no ratio.
                Some(widths.reduce(f64::max).unwrap_or(f64::INFINITY))
            }
        };
        let enough = match precision {
            Some(asked) => half_width.is_some_and(|half_width| half_width <= asked),
            None => decided && half_width.is_some_and(|half_width| half_width <= NARROW * self.theta()),
        };
        Ok(RowState { decided, half_width, enough })
    }
}

/// Returns the half-width for a single target.
fn own_half_width(sample: &Sample) -> Result<f64, AnalysisError> {
    let logs = by_block(&sample.values)?;
    let last = logs.keys().next_back().copied().unwrap_or(0);
    let logs: Vec<f64> = logs.into_values().collect();
    let level = 1.0 - Analysis::of(&sample.analyses, last, 1).nominal(1.0 - LEVEL);
    let interval = Difference::of_blocks(&logs).filter(|_| logs.len() >= FEWEST_JUDGED).and_then(|d| d.interval(level));
    Ok(interval.map_or(f64::INFINITY, |interval| interval.exp().relative_half_width()))
}

#[cfg(test)]
mod tests {
    use fsb_model::Better;
    use fsb_model::stop::Analyses;

    use super::*;
    use crate::block_value::BlockValue;

    fn target(center: f64, spread: f64, blocks: u32, phase: u32) -> Vec<BlockValue> {
        let wave = |block: u32| libm::sin(f64::from(block * (2 * phase + 3)));
        (1..=blocks).map(|b| BlockValue::new(b, center * libm::exp(spread * wave(b)))).collect()
    }

    fn state(samples: &[Vec<BlockValue>], precision: Option<f64>) -> RowState {
        let analyses = Analyses { after: vec![6, 9, 12], last_block: 6, ended_by_results: true };
        Ranking::of_run(samples, &analyses, Better::Higher, 0.03).unwrap().state(precision, 0).unwrap()
    }

    #[test]
    fn a_row_is_decided_when_every_pair_is() {
        let clear = [target(100.0, 0.01, 6, 0), target(150.0, 0.01, 6, 1), target(50.0, 0.01, 6, 2)];
        assert!(state(&clear, None).decided && state(&clear, None).enough);
        let equal = [target(100.0, 0.004, 6, 0), target(100.0, 0.004, 6, 1)];
        assert!(state(&equal, None).decided);
        let one_is_open = [target(100.0, 0.01, 6, 0), target(150.0, 0.2, 6, 1), target(140.0, 0.01, 6, 2)];
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
            small.into_iter().map(|v| BlockValue { value: v.value * f64::from(v.block), ..v }).collect()
        };
        let row = [drift(100.0, 0), drift(103.0, 1)];
        let found = state(&row, Some(0.02));
        assert!(found.enough && !found.decided, "{found:?}");
        assert!(!state(&row[..1], Some(0.02)).enough, "one target has no ratio");
        assert!(state(&[target(100.0, 0.005, 6, 0)], Some(0.02)).enough);
    }

    #[test]
    fn without_intervals_widths_have_no_end() {
        assert_eq!(state(&[Vec::new(), Vec::new()], Some(0.1)).half_width, None);
        let few = [target(100.0, 0.01, 3, 0), target(150.0, 0.01, 3, 1)];
        assert_eq!(state(&few, Some(0.1)), RowState { decided: false, half_width: Some(f64::INFINITY), enough: false });
    }
}
