//! Going on with a run that was interrupted.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::host::DeviceManifest;
use fsb_model::run::MediumRecord;
use fsb_model::{Phase, Place, RunRecord, Trial};

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

/// Numbers of two kernels do not belong in one run.
pub fn same_kernel(record: &RunRecord, kernel: &str) -> Result<(), String> {
    let before = record.segments.first().map_or(kernel, |segment| &segment.kernel);
    if before == kernel {
        return Ok(());
    }
    let advice = match record.plan.place {
        Place::Host => "boot that one, or begin a new run",
        // The files that were named may be another kernel's by now.
        Place::Vm => "make that one available again (fsb kernel list), or begin a new run with --kernel",
    };
    Err(format!("the run was begun on Linux {before} and this is {kernel}: {advice}"))
}

/// Numbers of two devices do not belong in one run either. `before` and `now` are the record's media and the new ones.
pub(crate) fn same_media(
    before: &BTreeMap<String, MediumRecord>,
    now: &BTreeMap<String, MediumRecord>,
) -> Result<(), String> {
    for (medium, old) in before {
        let Some(new) = now.get(medium) else { continue };
        let (old, new) = (identity(&old.device), identity(&new.device));
        if old != new {
            return Err(format!("the run was begun on another device under '{medium}': {old}, and this is {new}"));
        }
    }
    Ok(())
}

/// What tells a device from another one: the number of a loop device is chance, what holds its image is not.
fn identity(device: &DeviceManifest) -> String {
    let own = match (&device.serial, &device.backing) {
        (Some(serial), _) => format!("serial {serial}"),
        (None, Some(backing)) => backing.clone(),
        (None, None) => device.name.clone(),
    };
    format!("{own}, {} bytes", device.size_bytes)
}
