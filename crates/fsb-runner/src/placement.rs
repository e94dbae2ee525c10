//! Whether targets are measured side by side, and what follows from it: sizes derive from the part that each has.

use std::collections::BTreeMap;

use crate::run;
use fsb_engine::{Sizing, workload};
use fsb_model::run::Placement;
use fsb_model::{Cell, Plan, RunRecord};

/// Where the targets of a plan are, as far as it is known before anything is touched.
pub(crate) fn placement(plan: &Plan, cells: &[Cell], cpus: u32) -> Placement {
    let in_turn = |why: &str| Placement::InTurn { why: why.to_owned() };
    if plan.one_at_a_time {
        return in_turn("--one-at-a-time");
    }
    let sizing = Sizing { size: plan.size.0, cpus };
    let has_units = |cell: &Cell| workload::parse(&cell.workload, &sizing).is_ok_and(|job| job.unit().is_some());
    if !cells.iter().any(has_units) {
        return in_turn("its workloads are measured as wholes");
    }
    match fsb_testbed::side_by_side(&run::setup_of(plan, &BTreeMap::new(), 1)) {
        Ok(parts) if parts > 1 => {
            Placement::SideBySide { parts, part_bytes: fsb_testbed::part_bytes(plan.size.0, parts) }
        }
        Ok(parts) => Placement::SideBySide { parts, part_bytes: plan.size.0 },
        Err(why) => Placement::InTurn { why },
    }
}

/// What sizes of files refer to in a run.
pub fn sizing(record: &RunRecord, cpus: u32) -> Sizing {
    let size = match record.placement {
        Some(Placement::SideBySide { part_bytes, .. }) => part_bytes,
        _ => record.plan.size.0,
    };
    Sizing { size, cpus }
}

/// Parts that each medium of a run is divided into; 1 where it is whole.
pub fn parts(record: &RunRecord) -> u32 {
    match record.placement {
        Some(Placement::SideBySide { parts, .. }) => parts.max(1),
        _ => 1,
    }
}
