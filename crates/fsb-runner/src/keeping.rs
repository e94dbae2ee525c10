//! The order in which a budget keeps cells: first one cell of each operation, then the other sizes.
//!
//! Cells of one operation differ in sizes and counts only, such as those of a matrix. In turns,
//! each operation adds one cell: first the one that takes the least time, then the corners of its
//! matrix, then the rest in the order of the plan. A budget that holds one cell of each operation
//! therefore keeps every operation.

use std::collections::BTreeMap;

use fsb_engine::Profile;
use fsb_model::Cell;

/// A cell as the order sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    /// The operation, equal for all of its cells.
    pub operation: String,
    /// Bytes of a file and of a record, if the cell is part of a matrix.
    pub sizes: Option<(u64, u64)>,
    /// Seconds in a block; equal for all cells if they are not known.
    pub seconds: f64,
}

impl Candidate {
    /// Describes a cell that takes `seconds` in a block.
    pub fn from_cell(cell: &Cell, profile: &Profile, seconds: f64) -> Candidate {
        let mut operation = cell.workload.name.clone();
        for (key, value) in &cell.workload.params {
            // Numbers are sizes and counts.
            if !value.is_number() {
                operation += &format!(" {key}={value}");
            }
        }
        Candidate {
            operation,
            sizes: profile
                .matrix
                .then_some((profile.file_size, profile.record_size)),
            seconds,
        }
    }
}

/// Returns the indexes of all candidates in the order in which a budget keeps them.
pub(crate) fn in_order(candidates: &[Candidate]) -> Vec<usize> {
    let mut names: Vec<&str> = Vec::new();
    let mut cells: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let of_operation = cells.entry(&candidate.operation).or_default();
        if of_operation.is_empty() {
            names.push(&candidate.operation);
        }
        of_operation.push(index);
    }
    for of_operation in cells.values_mut() {
        sort(of_operation, candidates);
    }
    let mut order = Vec::new();
    let most = cells.values().map(Vec::len).max().unwrap_or(0);
    for turn in 0..most {
        for name in &names {
            order.extend(cells[name].get(turn));
        }
    }
    order
}

/// Sorts the cells of one operation: the one that takes the least time, then corners, then others.
fn sort(cells: &mut [usize], candidates: &[Candidate]) {
    let mut extremes: Option<[u64; 4]> = None;
    for cell in cells.iter() {
        if let Some((file, record)) = candidates[*cell].sizes {
            let [least_file, most_file, least_record, most_record] =
                extremes.unwrap_or([file, file, record, record]);
            extremes = Some([
                least_file.min(file),
                most_file.max(file),
                least_record.min(record),
                most_record.max(record),
            ]);
        }
    }
    // Records are no larger than their files, so the smallest file has no record of the largest
    // size.
    let corner = |cell: usize| {
        let Some(((file, record), extremes)) = candidates[cell].sizes.zip(extremes) else {
            return 0;
        };
        let [least_file, most_file, least_record, most_record] = extremes;
        let largest_of_file = most_record.min(file);
        match (file, record) {
            _ if file == least_file && record == least_record => 0,
            _ if file == most_file && record == largest_of_file => 1,
            _ if file == least_file && record == largest_of_file => 2,
            _ if file == most_file && record == least_record => 3,
            _ => 4,
        }
    };
    cells.sort_by_key(|cell| corner(*cell));
    let mut cheapest = 0;
    for place in 1..cells.len() {
        if candidates[cells[place]].seconds < candidates[cells[cheapest]].seconds {
            cheapest = place;
        }
    }
    if let Some(front) = cells.get_mut(..=cheapest) {
        front.rotate_right(1);
    }
}

/// Returns the indexes of the candidates that fit within `room` seconds, ascending: each in its
/// turn, if it fits beside those before.
pub(crate) fn fitting_within(candidates: &[Candidate], room: f64) -> Vec<usize> {
    let mut used = 0.0;
    let mut kept = Vec::new();
    for index in in_order(candidates) {
        let seconds = candidates[index].seconds;
        if used + seconds <= room {
            used += seconds;
            kept.push(index);
        }
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn candidate(operation: usize, sizes: (u64, u64), seconds: f64) -> Candidate {
        Candidate {
            operation: format!("operation {operation}"),
            sizes: Some(sizes),
            seconds,
        }
    }

    proptest! {
        /// Any budget that holds the cheapest cell of each operation keeps every operation.
        #[test]
        fn every_operation_is_kept_if_one_cell_of_each_fits(
            cells in prop::collection::vec((0usize..13, 12u32..30, 12u32..25, 0.01f64..100.0), 1..300),
            more in 0.0f64..1.5,
        ) {
            let mut candidates = Vec::new();
            let mut least: BTreeMap<usize, f64> = BTreeMap::new();
            for (operation, file, record, seconds) in cells {
                candidates.push(candidate(operation, (1 << file, 1 << record.min(file)), seconds));
                let known = least.entry(operation).or_insert(seconds);
                *known = known.min(seconds);
            }
            let needed: f64 = least.values().sum();
            // The sum of the same numbers in another order may differ in its last digits.
            let room = needed * (1.0 + 1e-9) + more * needed;
            let kept = fitting_within(&candidates, room);
            let operations: BTreeSet<&str> =
                kept.iter().map(|index| candidates[*index].operation.as_str()).collect();
            prop_assert_eq!(operations.len(), least.len());
            let used: f64 = kept.iter().map(|index| candidates[*index].seconds).sum();
            prop_assert!(used <= room * (1.0 + 1e-9));
        }

        /// No cell is lost or kept twice, and no operation has two cells more than another that has
        /// further ones.
        #[test]
        fn operations_take_turns(
            cells in prop::collection::vec((0usize..5, 12u32..20, 0.01f64..9.0), 1..60),
            first in 1usize..60,
        ) {
            let mut candidates = Vec::new();
            for (operation, file, seconds) in cells {
                candidates.push(candidate(operation, (1 << file, 4096), seconds));
            }
            let order = in_order(&candidates);
            let all: BTreeSet<usize> = order.iter().copied().collect();
            prop_assert_eq!((all.len(), order.len()), (candidates.len(), candidates.len()));
            let count = |cells: &[usize], operation: &str| {
                cells.iter().filter(|cell| candidates[**cell].operation == operation).count()
            };
            let kept = &order[..first.min(order.len())];
            for one in &candidates {
                for other in &candidates {
                    let (some, others) = (count(kept, &one.operation), count(kept, &other.operation));
                    let is_exhausted = others == count(&order, &other.operation);
                    prop_assert!(some <= others + 1 || is_exhausted);
                }
            }
        }
    }

    #[test]
    fn corners_follow_the_cheapest_cell() {
        let mut candidates = Vec::new();
        for file in [1u64 << 12, 1 << 16, 1 << 20] {
            for record in [1u64 << 12, 1 << 16, 1 << 20] {
                if record <= file {
                    candidates.push(candidate(0, (file, record), 1.0));
                }
            }
        }
        let order = in_order(&candidates);
        let sizes: Vec<(u64, u64)> = order
            .iter()
            .filter_map(|index| candidates[*index].sizes)
            .collect();
        assert_eq!(
            sizes[..3],
            [(1 << 12, 1 << 12), (1 << 20, 1 << 20), (1 << 20, 1 << 12)]
        );
        candidates[2].seconds = 0.5;
        assert_eq!(in_order(&candidates)[..2], [2, 0]);
    }

    #[test]
    fn operations_without_sizes_keep_the_order_of_the_plan() {
        let mut candidates = Vec::new();
        for operation in 0..4 {
            candidates.push(Candidate {
                sizes: None,
                ..candidate(operation, (0, 0), 4.0 - operation as f64)
            });
        }
        assert_eq!(in_order(&candidates), [0, 1, 2, 3]);
        assert_eq!(fitting_within(&candidates, 5.0), [0, 3]);
    }
}
