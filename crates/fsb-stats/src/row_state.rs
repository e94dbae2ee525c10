//! Whether a row needs more blocks.

use fsb_model::Better;

use crate::block_value::{BlockValue, by_block};
use crate::difference::Difference;
use crate::error::AnalysisError;
use crate::page::is_borne_out;
use crate::ranking::{Pair, Ranking, boundary_of};
use crate::verdict::Verdict;
use crate::{FEWEST_JUDGED, LEVEL};

/// What is known of a row at a look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowState {
    /// Every pair is faster, slower or equivalent: more blocks would change numbers, but neither outcome nor letters.
    pub decided: bool,
    /// Half the width of the widest interval of a ratio to the reference, relative: 0.02 for ±2 %; of a target that is
    /// alone, of its own interval. Infinite where an interval has no end yet; absent where nothing has a value.
    pub half_width: Option<f64>,
    /// The row needs no more blocks: its intervals are as narrow as was asked for, or, where nothing was asked, it is
    /// decided.
    pub enough: bool,
}

/// The state of a row after some look: the values of each target so far, empty where it has none, the planned `looks`,
/// and the half-width that was asked for. The first target is the reference.
pub fn row_state(
    samples: &[Vec<BlockValue>],
    looks: &[u32],
    better: Better,
    theta: f64,
    precision: Option<f64>,
) -> Result<RowState, AnalysisError> {
    row_state_on_page(samples, looks, better, theta, precision, 0)
}

/// The same for a row of a page with so many pairs in all its rows: what differs must be borne out by the page, whatever
/// becomes of the other rows, so that a row that ends as decided stays so.
pub fn row_state_on_page(
    samples: &[Vec<BlockValue>],
    looks: &[u32],
    better: Better,
    theta: f64,
    precision: Option<f64>,
    pairs_on_page: usize,
) -> Result<RowState, AnalysisError> {
    let ranking = Ranking::at_look(samples, looks, better, theta)?;
    let present = samples.iter().filter(|values| !values.is_empty()).count();
    let pairs = &ranking.pairs;
    let settled = |pair: &Pair| match pair.comparison.verdict {
        Verdict::Equivalent => true,
        verdict => verdict.is_sure() && is_borne_out(pair, pairs_on_page.max(pairs.len())),
    };
    let complete = present > 1 && pairs.len() == present * (present - 1) / 2;
    let decided = complete && pairs.iter().all(settled);
    let half_width = match present {
        0 => None,
        1 => {
            samples.iter().find(|values| !values.is_empty()).map(|values| own_half_width(values, looks)).transpose()?
        }
        _ => {
            let reference = samples.iter().position(|values| !values.is_empty()).unwrap_or(0);
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
        None => decided,
    };
    Ok(RowState { decided, half_width, enough })
}

/// Of one target by itself.
fn own_half_width(values: &[BlockValue], looks: &[u32]) -> Result<f64, AnalysisError> {
    let logs: Vec<f64> = by_block(values)?.into_values().collect();
    let boundary = boundary_of(logs.len() as u32, looks, 0);
    let level = boundary.map_or(LEVEL, |boundary| 1.0 - boundary.nominal(1.0 - LEVEL));
    let interval = Difference::of_blocks(&logs).filter(|_| logs.len() >= FEWEST_JUDGED).and_then(|d| d.interval(level));
    Ok(interval.map_or(f64::INFINITY, |interval| interval.exp().relative_half_width()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(center: f64, spread: f64, blocks: u32, phase: u32) -> Vec<BlockValue> {
        let wave = |block: u32| libm::sin(f64::from(block * (2 * phase + 3)));
        (1..=blocks).map(|b| BlockValue::new(b, center * libm::exp(spread * wave(b)))).collect()
    }

    fn state(samples: &[Vec<BlockValue>], precision: Option<f64>) -> RowState {
        row_state(samples, &[6, 9, 12], Better::Higher, 0.03, precision).unwrap()
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
