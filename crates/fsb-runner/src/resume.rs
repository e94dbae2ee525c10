//! Going on with a run that was interrupted.

use std::collections::BTreeSet;

use fsb_model::{Phase, RunRecord, Trial};

/// Marks the trials of the unfinished block, which is made again whole. Returns how many were marked.
///
/// A block is finished when it holds a trial, ended well or not, of every target and every cell. Trials of a warm-up
/// that did not end in fixed amounts are marked as well.
pub fn supersede(record: &RunRecord, trials: &mut [Trial]) -> usize {
    let wanted = record.cells.len() * record.plan.targets.len();
    let visited = |block: u32| {
        trials
            .iter()
            .filter(|trial| trial.block == block && !trial.superseded)
            .map(|trial| (trial.target.as_str(), trial.workload.as_str()))
            .collect::<BTreeSet<_>>()
            .len()
    };
    let blocks: BTreeSet<u32> = trials.iter().map(|trial| trial.block).collect();
    let warmup_again = record.amounts.is_empty();
    let unfinished: BTreeSet<u32> =
        blocks.into_iter().filter(|block| if *block == 0 { warmup_again } else { visited(*block) < wanted }).collect();
    let marked = trials.iter_mut().filter(|trial| unfinished.contains(&trial.block) && !trial.superseded);
    marked.map(|trial| trial.superseded = true).count()
}

/// Whether all planned blocks are there.
pub fn complete(record: &RunRecord, trials: &[Trial]) -> bool {
    let last = trials.iter().filter(|t| t.phase == Phase::Measured && !t.superseded).map(|t| t.block).max();
    record.finished.is_some() || (record.blocks_planned.is_some() && last == record.blocks_planned)
}
