//! Whether targets are measured side by side, and what follows from it: sizes derive from the part that each has.

use std::collections::BTreeMap;

use fsb_engine::Sizing;
use fsb_model::run::{Placement, PlacementReason};
use fsb_model::{Cell, Plan, RunRecord};

use crate::schedule::planner::LONGEST;
use crate::setup::setup_of;

/// Where the targets of a plan are, as far as it is known before anything is touched; `has_units` is whether any of its cells
/// can be measured in rounds.
pub(crate) fn placement(plan: &Plan, has_units: bool) -> Placement {
    if plan.one_at_a_time {
        return Placement::InTurn { reason: PlacementReason::Requested };
    }
    // A race round is measured side by side even where its workloads are unsplittable.
    if !has_units && plan.race.is_none() {
        return Placement::InTurn { reason: PlacementReason::UnsplittableWorkloads };
    }
    let setup = setup_of(plan, &BTreeMap::new(), 1);
    let at_once = plan.at_once() as u32;
    match fsb_testbed::side_by_side(&setup).map(|parts| parts.min(at_once)) {
        Ok(parts) if parts > 1 => {
            // Of a large device no more is used than of an image; a small one says what there is.
            let image = fsb_testbed::part_bytes(plan.size.0, parts);
            let part_bytes = fsb_testbed::part_size(&setup, parts).map_or(image, |device| device.min(image));
            Placement::SideBySide { parts, part_bytes }
        }
        Ok(parts) => Placement::SideBySide { parts, part_bytes: plan.size.0 },
        Err(reason) => Placement::InTurn { reason },
    }
}

/// What sizes of files refer to in a run.
pub(crate) fn sizing(record: &RunRecord, cpus: u32) -> Sizing {
    let size = match record.placement {
        Some(Placement::SideBySide { part_bytes, .. }) => part_bytes,
        _ => record.plan.size.0,
    };
    Sizing { size, cpus }
}

/// Whether a cell is measured in rounds of short stretches, where it has units.
pub(crate) fn in_rounds(record: &RunRecord, cell: &Cell) -> bool {
    if !record.amounts.is_empty() {
        // That was decided before the run was interrupted.
        return record.rounds.contains_key(&cell.label);
    }
    let visits = record.plan.stretch_of(&cell.workload).is_some_and(|seconds| seconds >= LONGEST);
    matches!(record.placement, Some(Placement::SideBySide { .. })) && !visits
}

/// Parts that each medium of a run is divided into; 1 where it is whole.
pub fn parts(record: &RunRecord) -> u32 {
    record.placement.as_ref().and_then(Placement::divided).map_or(1, |(parts, _)| parts)
}
