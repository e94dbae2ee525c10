//! Interpolates the costs of the cells of a matrix that warm-up did not measure from those that it measured.
//!
//! The time of one operation is close to a power of its size over wide ranges, so its logarithm is interpolated: first
//! between two records of a measured file, then between two measured files. Beyond the outermost records, the slope of
//! the last two continues. With a single record, the time is proportional to the bytes. The time of the steps around
//! the clock depends on the bytes of the file.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::observed::Spent;

use super::Grid;
use super::grid::Spot;
use crate::schedule::planner::WholeCost;

/// A measured file of one work on one target: its costs by record.
type ByRecord<'a> = BTreeMap<u64, &'a WholeCost>;

/// Returns the costs of the cells that have none, for each target that has some of the same work. `costs` are those
/// that warm-up measured, by cell.
pub(crate) fn fill(grid: &Grid, costs: &[&[WholeCost]]) -> Vec<(usize, WholeCost)> {
    let known = |cell: usize, target: usize| {
        costs[cell].iter().rfind(|cost| cost.target == target && cost.seconds > 0.0 && cost.operations > 0)
    };
    let targets: BTreeSet<usize> = costs.iter().flat_map(|costs| costs.iter()).map(|cost| cost.target).collect();
    let mut filled = Vec::new();
    for spots in grid.by_work().values() {
        for target in &targets {
            let mut visited: BTreeMap<u64, ByRecord<'_>> = BTreeMap::new();
            for spot in spots {
                if let Some(cost) = known(spot.cell, *target) {
                    visited.entry(spot.file).or_default().insert(spot.record, cost);
                }
            }
            let missing = spots.iter().filter(|spot| known(spot.cell, *target).is_none());
            filled.extend(missing.filter_map(|spot| Some((spot.cell, cost(spot, *target, &visited)?))));
        }
    }
    filled
}

fn cost(spot: &Spot, target: usize, visited: &BTreeMap<u64, ByRecord<'_>>) -> Option<WholeCost> {
    let below = visited.range(..=spot.file).next_back().or_else(|| visited.iter().next())?;
    let above = visited.range(spot.file..).next().or_else(|| visited.iter().next_back())?;
    let place = log_place(spot.file, *below.0, *above.0);
    let time = |(_, records): (&u64, &ByRecord<'_>)| ln_seconds(records, spot.record);
    let each = (time(below)? * (1.0 - place) + time(above)? * place).exp();
    // The operations of one second. Only their rate matters.
    let operations = (1.0 / each).ceil().max(1.0);
    let seconds = each * operations;
    let (low, high) = (below.1.values().next()?, above.1.values().next()?);
    let place = linear_place(spot.file, *below.0, *above.0);
    let mix = |of: fn(&WholeCost) -> f64| (of(low) * (1.0 - place) + of(high) * place).max(0.0);
    let around = mix(|cost| (cost.spent.measure / cost.seconds).max(1.0));
    Some(WholeCost {
        target,
        operations: operations as u64,
        seconds,
        spent: Spent {
            prepare: mix(|cost| cost.spent.prepare),
            settle: mix(|cost| cost.spent.settle),
            measure: seconds * around,
            cleanup: mix(|cost| cost.spent.cleanup),
        },
        journal_turns: None,
        between: true,
    })
}

/// Returns the logarithm of the seconds of one operation on this record, in one measured file.
fn ln_seconds(records: &ByRecord<'_>, record: u64) -> Option<f64> {
    let of = |(size, cost): (&u64, &&WholeCost)| (ln(*size), (cost.seconds / cost.operations as f64).ln());
    let points: Vec<(f64, f64)> = records.iter().map(of).collect();
    let x = ln(record);
    // The pair around it, or the outermost one.
    let right = points.iter().position(|point| point.0 >= x).unwrap_or(points.len()).clamp(1, points.len().max(2) - 1);
    let (left, right) = (points.get(right - 1)?, points.get(right));
    let Some(right) = right else { return Some(left.1 + x - left.0) };
    let slope = (right.1 - left.1) / (right.0 - left.0);
    // Beyond the ends, time neither falls with the size nor grows faster than bytes do. A measured slope outside this
    // range is noise.
    let slope = if (left.0..=right.0).contains(&x) { slope } else { slope.clamp(0.0, 1.0) };
    let near = if x > right.0 { right } else { left };
    Some(near.1 + (x - near.0) * slope)
}

fn ln(size: u64) -> f64 {
    (size.max(1) as f64).ln()
}

fn log_place(size: u64, below: u64, above: u64) -> f64 {
    if above == below { 0.0 } else { ((ln(size) - ln(below)) / (ln(above) - ln(below))).clamp(0.0, 1.0) }
}

fn linear_place(size: u64, below: u64, above: u64) -> f64 {
    let span = above as f64 - below as f64;
    if span == 0.0 { 0.0 } else { ((size as f64 - below as f64) / span).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Grid;
    use fsb_engine::{Sizing, workload};
    use fsb_model::{Cell, WorkloadSpec};
    use proptest::prelude::*;
    use serde_json::json;

    /// A matrix of reads on files of 64 KiB to 512 MiB, and the records of its cells.
    fn grid() -> (Grid, Vec<u64>) {
        let (mut cells, mut records) = (Vec::new(), Vec::new());
        for file in (16..30).map(|power| 1u64 << power) {
            let least = if file < 32 << 20 { 4 << 10 } else { 64 << 10 };
            for record in (12..25).map(|power| 1u64 << power).filter(|record| (least..=file).contains(record)) {
                let params = json!({"file_size": file, "block_size": record, "matrix": true});
                let spec = WorkloadSpec::new("read", serde_json::from_value(params).unwrap());
                let job = workload::parse(&spec, &Sizing { size: 1 << 30, cpus: 1 }).unwrap();
                let profile = job.profile();
                let workload = WorkloadSpec::new(spec.name, job.params());
                cells.push((Cell { label: profile.label.clone(), workload }, profile));
                records.push(record);
            }
        }
        (Grid::of(cells.iter().enumerate().map(|(index, (cell, profile))| (index, cell, profile))), records)
    }

    fn cost_of(each: f64) -> WholeCost {
        let spent = Spent { prepare: 0.1, settle: 0.0, measure: 0.2, cleanup: 0.0 };
        WholeCost { target: 0, operations: 1000, seconds: each * 1000.0, spent, journal_turns: None, between: false }
    }

    proptest! {
        /// With a cost per call and a cost per byte, the result is within a factor of two, which is the planner's
        /// margin.
        #[test]
        fn rates_between_visited_cells_are_close(call in 1e-7f64..3e-6, byte in 2e-11f64..1e-9) {
            let (grid, records) = grid();
            let unvisited = grid.unvisited();
            let time = |record: u64| call + byte * record as f64;
            let seen = |(cell, record): (usize, &u64)| match unvisited.contains(&cell) {
                true => Vec::new(),
                false => vec![cost_of(time(*record))],
            };
            let seen: Vec<Vec<WholeCost>> = records.iter().enumerate().map(seen).collect();
            let seen: Vec<&[WholeCost]> = seen.iter().map(Vec::as_slice).collect();
            let filled = fill(&grid, &seen);
            prop_assert_eq!(filled.len(), unvisited.len());
            for (cell, cost) in filled {
                let ratio = cost.seconds / cost.operations as f64 / time(records[cell]);
                prop_assert!((0.5..2.0).contains(&ratio), "{cell}: {ratio}");
                prop_assert!(cost.between && cost.spent.measure >= cost.seconds);
            }
        }
    }

    #[test]
    fn warm_up_visits_eight_sizes_of_a_large_matrix() {
        let (grid, records) = grid();
        assert_eq!(records.len() - grid.unvisited().len(), 8);
    }

    #[test]
    fn one_record_tells_of_others_by_its_bytes() {
        let seen = cost_of(1e-6);
        let records = ByRecord::from([(4096, &seen)]);
        let double = ln_seconds(&records, 8192).unwrap().exp();
        assert!((double / 2e-6 - 1.0).abs() < 1e-9, "{double}");
    }

    #[test]
    fn cells_that_no_target_measured_stay_unknown() {
        let (grid, records) = grid();
        assert!(fill(&grid, &vec![&[][..]; records.len()]).is_empty());
    }
}
