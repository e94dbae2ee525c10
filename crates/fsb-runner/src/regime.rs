//! Checks, before anything is changed, that the memory limit is smaller than the files of workloads that run out of
//! cache, and large enough for the records of all workers.

use fsb_engine::Profile;
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Plan};
use fsb_testbed::control::KEEP;
use fsb_testbed::control::memory_limit::{self, MEMORY_LIMIT};

use crate::work::ParsedCell;

/// The share of the limit that the records of all workers may take together. The rest is for the page cache, without
/// which no I/O succeeds. On ext4 and xfs, records of half the limit worked, and records of the whole limit never did.
const RECORDS: f64 = 0.5;

/// Refuses cells for which the memory of a target is too large or too small. `memory` is that of the machine.
pub(crate) fn check(plan: &Plan, cells: &[ParsedCell], memory: u64) -> Result<(), String> {
    let profiles = || cells.iter().map(|cell| &cell.profile);
    // The smallest files and the largest records decide for all cells.
    let out = profiles().filter(|profile| profile.cache == CacheState::Out).min_by_key(|profile| files(profile));
    let moved = profiles().max_by_key(|profile| records(profile));
    for target in &plan.targets {
        let asked = target.controls_over(&plan.controls);
        let asked = asked.get(MEMORY_LIMIT).filter(|value| *value != KEEP);
        let limit = asked.and_then(|value| memory_limit::limit_of(value)).filter(|limit| *limit >= memory_limit::LEAST);
        if asked.is_some() && limit.is_none() {
            // The control itself refuses an invalid limit, and one that is too small for any work.
            continue;
        }
        if let Some(out) = out.filter(|out| files(out) < limit.unwrap_or(memory)) {
            return Err(fits(out, &target.name, limit, memory));
        }
        if let (Some(moved), Some(limit)) = (moved, limit)
            && records(moved) as f64 > limit as f64 * RECORDS
        {
            return Err(too_large(moved, limit, plan.scale));
        }
    }
    Ok(())
}

fn files(profile: &Profile) -> u64 {
    profile.files * profile.file_size
}

/// Returns the bytes of the records that are in flight at once.
fn records(profile: &Profile) -> u64 {
    profile.record_size * u64::from(profile.threads) * u64::from(profile.processes)
}

fn show(bytes: u64) -> String {
    show_bytes(bytes as f64)
}

fn fits(profile: &Profile, target: &str, limit: Option<u64>, memory: u64) -> String {
    let fits = match limit {
        Some(limit) => format!("the memory limit of {}", show(limit)),
        None => format!("the {} of memory that this machine has, and no memory-limit is set", show(memory)),
    };
    format!(
        "'{}' on {target}: {} of files fit {fits}: set --control memory-limit=SIZE to no more than the files have, or take \
         larger files",
        profile.label,
        show(files(profile))
    )
}

fn too_large(profile: &Profile, limit: u64, scale: f64) -> String {
    let advice = if scale < 1.0 { "a larger --scale, " } else { "" };
    format!(
        "'{}': records of {} at once need a memory limit of twice as much, and it is {}: choose {advice}a larger limit or \
         smaller records",
        profile.label,
        show(records(profile)),
        show(limit)
    )
}
