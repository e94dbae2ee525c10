//! Decides whether targets are measured side by side. Sizes derive from the slice of the medium that each target has.

use std::collections::BTreeMap;

use fsb_engine::Sizing;
use fsb_model::run::{Placement, PlacementReason};
use fsb_model::{Cell, Plan, RunRecord};

use crate::schedule::planner::LONGEST;
use crate::setup::setup_of;

/// Returns the placement of a plan's targets, as far as it is known before anything is changed. `has_units` is whether
/// any of the plan's cells can be measured in rounds.
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
            // A slice of a large device is at most as large as a slice of an image would be. A small device has smaller
            // slices.
            let image = fsb_testbed::part_bytes(plan.size.0, parts);
            let part_bytes = fsb_testbed::part_size(&setup, parts).map_or(image, |device| device.min(image));
            Placement::SideBySide { parts, part_bytes }
        }
        Ok(parts) => Placement::SideBySide { parts, part_bytes: plan.size.0 },
        Err(reason) => Placement::InTurn { reason },
    }
}

/// Returns the base of relative file sizes in a run.
pub(crate) fn sizing(record: &RunRecord, cpus: u32) -> Sizing {
    let size = match record.placement {
        Some(Placement::SideBySide { part_bytes, .. }) => part_bytes,
        _ => record.plan.size.0,
    };
    Sizing { size, cpus }
}

/// Returns whether a cell that has units is measured in rounds of short samples.
pub(crate) fn in_rounds(record: &RunRecord, cell: &Cell) -> bool {
    if !record.amounts.is_empty() {
        // This was decided before the run was interrupted.
        return record.rounds.contains_key(&cell.label);
    }
    let visits = record.plan.sample_time_of(&cell.workload).is_some_and(|seconds| seconds >= LONGEST);
    matches!(record.placement, Some(Placement::SideBySide { .. })) && !visits
}

/// Returns the number of slices of each medium of a run; 1 if the medium is not divided.
pub fn parts(record: &RunRecord) -> u32 {
    record.placement.as_ref().and_then(Placement::divided).map_or(1, |(parts, _)| parts)
}
