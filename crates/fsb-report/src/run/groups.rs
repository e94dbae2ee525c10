//! Medians of consecutive blocks, which the page of a long run shows instead of every trial.

use std::collections::BTreeMap;

use super::summary::{TrialPoint, Workload};

/// The largest number of trials that a page shows one by one. A page of 400,000 trials had 147 MB: no browser scrolls
/// through that, and no chart can draw it.
pub(crate) const MOST_TRIALS: usize = 20_000;

/// Values of one target in consecutive blocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BlockGroup {
    /// The first block and the last one that has a value.
    pub(crate) blocks: (u32, u32),
    /// The number of values.
    pub(crate) n: usize,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Returns the number of blocks of which a page shows the median: 1 if it shows every trial.
pub(crate) fn size(rows: &[Workload]) -> u32 {
    size_of(rows.iter().flat_map(|row| &row.cells).map(|cell| cell.trials.len() + cell.lost.len()).sum())
}

fn size_of(trials: usize) -> u32 {
    u32::try_from(trials.div_ceil(MOST_TRIALS)).unwrap_or(u32::MAX).max(1)
}

/// Returns the number of the group that a block belongs to.
pub(crate) fn number(block: u32, size: u32) -> u32 {
    block.saturating_sub(1) / size
}

/// Returns the groups of one target's trials by their number.
pub(crate) fn of(trials: &[TrialPoint], size: u32) -> BTreeMap<u32, BlockGroup> {
    let mut members: BTreeMap<u32, Vec<&TrialPoint>> = BTreeMap::new();
    for point in trials {
        members.entry(number(point.block, size)).or_default().push(point);
    }
    members.into_iter().filter_map(|(number, points)| Some((number, group(&points)?))).collect()
}

fn group(points: &[&TrialPoint]) -> Option<BlockGroup> {
    let values: Vec<f64> = points.iter().map(|point| point.value).collect();
    let blocks = points.iter().map(|point| point.block);
    Some(BlockGroup {
        blocks: (blocks.clone().min()?, blocks.max()?),
        n: values.len(),
        median: fsb_stats::quantile(&values, 0.5).ok()?,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_every_trial_up_to_the_limit_and_medians_above() {
        assert_eq!([0, 1, MOST_TRIALS].map(size_of), [1, 1, 1]);
        assert_eq!([MOST_TRIALS + 1, 400_000].map(size_of), [2, 20]);
    }

    #[test]
    fn groups_hold_consecutive_blocks() {
        let point = |block: u32, value| TrialPoint {
            block,
            order: block,
            value,
            outlier: false,
            part: None,
            within: None,
            timed_ns: 0,
        };
        let trials = [point(1, 3.0), point(2, 1.0), point(3, 9.0), point(5, 4.0), point(6, 8.0)];
        let groups = of(&trials, 3);
        assert_eq!(groups[&0], BlockGroup { blocks: (1, 3), n: 3, median: 3.0, min: 1.0, max: 9.0 });
        assert_eq!(groups[&1], BlockGroup { blocks: (5, 6), n: 2, median: 6.0, min: 4.0, max: 8.0 });
    }
}
