//! An upper bound of the memory that a run uses at once, and the check of the memory limit of its
//! plan. The run touches this much of a guest's free memory beforehand.

use fsb_engine::Profile;
use fsb_model::run::Placement;
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Plan};
use fsb_testbed::control::KEEP;
use fsb_testbed::control::memory_limit::{self, MEMORY_LIMIT};

use crate::planner;
use crate::work::{CellUnit, ParsedCell, Work};

/// Bytes for workers, tables of file systems, inodes and directories.
const MARGIN: u64 = 256 << 20;

/// Returns the bytes of memory that the run may use at once: images in memory, and the page cache
/// of the files of one case on all targets that are mounted at the same time. Files of a case are
/// removed before the next one makes its own.
pub(crate) fn needed(plan: &Plan, placement: Option<&Placement>, work: &Work) -> u64 {
    let in_memory = plan
        .targets
        .iter()
        .filter_map(|target| target.file_system())
        .any(|spec| spec.medium.name == "ram");
    let images = if in_memory { plan.size.0 } else { 0 };
    let sample_seconds = plan.sample_time.unwrap_or(planner::SAMPLE_SECONDS);
    let files = |slice: u64, in_rounds: bool| {
        work.cells
            .iter()
            .map(|parsed: &ParsedCell| {
                cached(
                    &parsed.profile,
                    parsed.unit.as_ref().filter(|_| in_rounds),
                    slice,
                    sample_seconds,
                )
            })
            .max()
            .unwrap_or(0)
    };
    let cache = match placement {
        Some(Placement::SideBySide { slice_bytes, .. }) => {
            files(*slice_bytes, true) * plan.at_once() as u64
        }
        _ => files(plan.size.0, false),
    };
    images + cache + MARGIN
}

/// Returns the labels of the cells that allocate page cache while they are measured.
pub(crate) fn cells(work: &Work) -> Vec<String> {
    let cells = work.cells.iter().filter(|parsed| {
        !parsed.profile.metadata_only
            && parsed.profile.cache != CacheState::Warm
            && !parsed.profile.is_direct()
    });
    cells.map(|parsed| parsed.cell.label.clone()).collect()
}

/// Returns the bytes of page cache that one cell may fill on one target, in samples of
/// `sample_seconds`. A command, whose files are not known, may fill as much as units.
fn cached(profile: &Profile, unit: Option<&CellUnit>, slice: u64, sample_seconds: f64) -> u64 {
    if profile.program.is_some() {
        return planner::filled(slice, 0, sample_seconds);
    }
    match unit {
        // Further units are made as long as there is room.
        Some(unit) if unit.own_files => planner::filled(slice, unit.space, sample_seconds),
        Some(unit) => unit.space.min(slice),
        None => profile.space.min(slice),
    }
}

// Checks, before anything is changed, that the memory limit is smaller than the files of workloads
// that run out of cache, and large enough for the records of all workers.

/// The share of the limit that the records of all workers may take together. The rest is for the
/// page cache, without which no I/O succeeds. On ext4 and xfs, records of half the limit worked,
/// and records of the whole limit never did.
const RECORDS: f64 = 0.5;

/// Refuses cells for which the memory of a target is too large or too small. `memory` is that of
/// the machine.
pub(crate) fn check_limit(plan: &Plan, cells: &[ParsedCell], memory: u64) -> Result<(), String> {
    let profiles = || cells.iter().map(|cell| &cell.profile);
    // The smallest files and the largest records decide for all cells.
    let out = profiles()
        .filter(|profile| profile.cache == CacheState::Out)
        .min_by_key(|profile| files(profile));
    let moved = profiles().max_by_key(|profile| records(profile));
    for target in &plan.targets {
        let asked = target.controls_over(&plan.controls);
        let asked = asked.get(MEMORY_LIMIT).filter(|value| *value != KEEP);
        let limit = asked
            .and_then(|value| memory_limit::limit_of(value))
            .filter(|limit| *limit >= memory_limit::LEAST);
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
        None => format!(
            "the {} of memory that this machine has, and no memory-limit is set",
            show(memory)
        ),
    };
    format!(
        "'{}' on {target}: {} of files fit {fits}: set --control memory-limit=SIZE to no more than the files have, or take \
         larger files",
        profile.label,
        show(files(profile))
    )
}

fn too_large(profile: &Profile, limit: u64, scale: f64) -> String {
    let advice = if scale < 1.0 {
        "a larger --scale, "
    } else {
        ""
    };
    format!(
        "'{}': records of {} at once need a memory limit of twice as much, and it is {}: choose {advice}a larger limit or \
         smaller records",
        profile.label,
        show(records(profile)),
        show(limit)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    const GIB: u64 = 1 << 30;

    fn needs(targets: &str, workloads: &str) -> (u64, Vec<String>) {
        let text = format!("targets = [{targets}]\nsize = '2G'\n{workloads}");
        let resolved = plan_file::parse(&text, "p").unwrap().resolve(2, 7).unwrap();
        (
            needed(&resolved.plan, Some(&resolved.placement), &resolved.work),
            cells(&resolved.work),
        )
    }

    #[test]
    fn a_default_run_needs_less_than_its_image_whatever_the_number_of_targets() {
        for targets in [
            "'ext4', 'xfs'",
            "'ext4', 'xfs', 'btrfs'",
            "'ext4', 'xfs', 'btrfs', 'ext4'",
        ] {
            let (needed, cells) = needs(targets, "suite = 'quick'\n");
            assert!((GIB / 2..2 * GIB).contains(&needed), "{targets}: {needed}");
            assert!(
                cells.iter().any(|label| label.starts_with("write 1M")),
                "{cells:?}"
            );
            assert!(
                !cells
                    .iter()
                    .any(|label| label.contains("warm") || label.starts_with("rename")),
                "{cells:?}"
            );
        }
    }

    #[test]
    fn a_large_image_needs_no_more_memory_for_the_same_files() {
        let needs = |size: &str| {
            let text = format!(
                "targets = ['ext4', 'btrfs']\nsize = '{size}'\n[[workload]]\nname = 'create'\nfiles = 1000\n"
            );
            let resolved = plan_file::parse(&text, "p").unwrap().resolve(2, 7).unwrap();
            needed(&resolved.plan, Some(&resolved.placement), &resolved.work)
        };
        assert!(needs("50G") <= 3 * GIB, "{}", needs("50G"));
        assert_eq!(needs("50G"), needs("500G"));
    }

    #[test]
    fn images_in_memory_are_needed_beside_the_page_cache() {
        let rename = "[[workload]]\nname = 'rename'\nfiles = 100\n";
        let (on_disk, in_memory) = (
            needs("'ext4', 'xfs'", rename).0,
            needs("'ext4@ram', 'xfs@ram'", rename).0,
        );
        assert!(on_disk < GIB / 2, "{on_disk}");
        assert_eq!(in_memory - on_disk, 2 * GIB);
    }
}
