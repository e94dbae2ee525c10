//! What "out of cache" needs is asked for before anything is touched: memory that the files do not fit.

use fsb_engine::{Sizing, workload};
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Cell, Plan};
use fsb_testbed::control::KEEP;
use fsb_testbed::control::memory_limit::{self, MEMORY_LIMIT};

/// Refuses cells that are to be out of cache and fit the memory of a target. `memory` is the machine's.
pub(crate) fn check(plan: &Plan, cells: &[Cell], sizing: &Sizing, memory: u64) -> Result<(), String> {
    let out = |cell: &Cell| {
        let profile = workload::parse(&cell.workload, sizing).ok()?.profile();
        (profile.cache == CacheState::Out).then(|| (profile.label.clone(), profile.files * profile.file_size))
    };
    // The smallest one tells of all.
    let Some((label, bytes)) = cells.iter().filter_map(out).min_by_key(|(_, bytes)| *bytes) else { return Ok(()) };
    let show = |bytes: u64| show_bytes(bytes as f64);
    for target in &plan.targets {
        let asked = target.controls_over(&plan.controls);
        let asked = asked.get(MEMORY_LIMIT).filter(|value| *value != KEEP);
        let limit = asked.and_then(|value| memory_limit::limit_of(value));
        if asked.is_some() && limit.is_none() {
            // What is no limit, the control itself refuses.
            continue;
        }
        if bytes >= limit.unwrap_or(memory) {
            continue;
        }
        let fits = match limit {
            Some(limit) => format!("the memory limit of {}", show(limit)),
            None => format!("the {} of memory that this machine has, and no memory-limit is set", show(memory)),
        };
        return Err(format!(
            "'{label}' on {}: {} of files fit {fits}: set --control memory-limit=SIZE to no more than the files have, or \
             take larger files",
            target.name,
            show(bytes)
        ));
    }
    Ok(())
}
