//! An upper bound of the memory that a run uses at once. The run touches this much of a guest's free memory beforehand.

use fsb_engine::{Profile, backend};
use fsb_model::run::Placement;
use fsb_model::{CacheState, Plan};

use crate::schedule::planner;
use crate::work::{CellUnit, ParsedCell, Work};

/// Bytes for workers, tables of file systems, inodes and directories.
const MARGIN: u64 = 256 << 20;

/// Returns the bytes of memory that the run may use at once: images in memory, and the page cache of the files of one
/// case on all targets that are mounted at the same time. Files of a case are removed before the next one makes its
/// own.
pub(crate) fn needed(plan: &Plan, placement: Option<&Placement>, work: &Work) -> u64 {
    let in_memory = plan.targets.iter().filter_map(|target| target.file_system()).any(|spec| spec.medium.name == "ram");
    let images = if in_memory { plan.size.0 } else { 0 };
    let files = |slice: u64, in_rounds: bool| {
        let of_cell = |parsed: &ParsedCell| cached(&parsed.profile, parsed.unit.as_ref().filter(|_| in_rounds), slice);
        work.cells.iter().map(of_cell).max().unwrap_or(0)
    };
    let cache = match placement {
        Some(Placement::SideBySide { part_bytes, .. }) => files(*part_bytes, true) * plan.at_once() as u64,
        _ => files(plan.size.0, false),
    };
    images + cache + MARGIN
}

/// Returns the labels of the cells that allocate page cache while they are measured.
pub(crate) fn cells(work: &Work) -> Vec<String> {
    let is_direct = |name: &str| backend::find(name).is_ok_and(|backend| backend.capabilities().direct);
    let allocates =
        |profile: &Profile| !profile.metadata_only && profile.cache != CacheState::Warm && !is_direct(&profile.backend);
    let cells = work.cells.iter().filter(|parsed| allocates(&parsed.profile));
    cells.map(|parsed| parsed.cell.label.clone()).collect()
}

/// Returns the bytes of page cache that one cell may fill on one target.
fn cached(profile: &Profile, unit: Option<&CellUnit>, slice: u64) -> u64 {
    let room = (slice as f64 * planner::FILLED) as u64;
    if profile.program.is_some() {
        return room;
    }
    match unit {
        // Further units are made as long as there is room.
        Some(unit) if unit.own_files => room,
        Some(unit) => unit.space.min(slice),
        None => profile.space.min(slice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    const GIB: u64 = 1 << 30;

    fn of(targets: &str, workloads: &str) -> (u64, Vec<String>) {
        let text = format!("targets = [{targets}]\nsize = '2G'\n{workloads}");
        let resolved = plan_file::parse(&text, "p").unwrap().resolve(2, 7).unwrap();
        (needed(&resolved.plan, Some(&resolved.placement), &resolved.work), cells(&resolved.work))
    }

    #[test]
    fn a_default_run_needs_less_than_its_image_whatever_the_number_of_targets() {
        for targets in ["'ext4', 'xfs'", "'ext4', 'xfs', 'btrfs'", "'ext4', 'xfs', 'btrfs', 'ext4'"] {
            let (needed, cells) = of(targets, "suite = 'quick'\n");
            assert!((GIB / 2..2 * GIB).contains(&needed), "{targets}: {needed}");
            assert!(cells.iter().any(|label| label.starts_with("write 1M")), "{cells:?}");
            assert!(!cells.iter().any(|label| label.contains("warm") || label.starts_with("rename")), "{cells:?}");
        }
    }

    #[test]
    fn images_in_memory_are_needed_beside_the_page_cache() {
        let rename = "[[workload]]\nname = 'rename'\nfiles = 100\n";
        let (on_disk, in_memory) = (of("'ext4', 'xfs'", rename).0, of("'ext4@ram', 'xfs@ram'", rename).0);
        assert!(on_disk < GIB / 2, "{on_disk}");
        assert_eq!(in_memory - on_disk, 2 * GIB);
    }
}
