//! Files of a set that lack an operation which the other files have.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::metric::{self, Role};
use fsb_model::set::GapReason;

use super::collected::{Collected, Key};

/// More groups of operations with different files are not looked at. A set has a few.
const MOST_GROUPS: usize = 1000;

/// Marks the operations that some files of a set lack, so that nothing of them is judged: a
/// repetition that ended early may be the slow one.
///
/// A file lacks an operation if it has another one that occurs beside it elsewhere, and if fewer
/// files lack than have it. So a set may have a file for each operation.
pub(super) fn mark(set: &mut Collected) {
    if set.runs.iter().any(|facts| facts.block.is_some()) {
        return;
    }
    let mut groups: BTreeMap<BTreeSet<u32>, Vec<usize>> = BTreeMap::new();
    for (place, column) in set
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !column.rows.is_empty())
    {
        let files = column
            .rows
            .iter()
            .map(|row| set.runs[row.run as usize].file)
            .collect();
        groups.entry(files).or_default().push(place);
    }
    if groups.len() > MOST_GROUPS {
        return;
    }
    for (files, columns) in &groups {
        let beside = groups.keys().filter(|other| !other.is_disjoint(files));
        let lacking: BTreeSet<u32> = beside
            .flat_map(|other| other.difference(files))
            .copied()
            .collect();
        let Some(first) = lacking.first().filter(|_| lacking.len() < files.len()) else {
            continue;
        };
        let file = set.files.texts[*first as usize].clone();
        for place in columns {
            let column = &mut set.columns[*place];
            if leads(&column.key) {
                column.lost = column.lost.or(Some(GapReason::Absent));
                set.gaps.note(GapReason::Absent, lacking.len(), || {
                    format!("{} at {file}", column.key.work())
                });
            }
        }
    }
}

/// Returns whether an operation may be judged by the metric. Percentiles and costs may be missing
/// for other reasons.
fn leads(key: &Key) -> bool {
    let is_cost = metric::find(&key.metric).is_some_and(|kind| kind.role == Role::Cost);
    !is_cost && (!metric::is_latency(&key.metric) || key.metric == metric::LATENCY_MEAN.name)
}
