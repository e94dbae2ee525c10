//! Earlier runs of the same plan on the same machine: the variation between runs when nothing was changed between them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use fsb_stats::compare::{Variation, variation};
use fsb_store::Reader;

use super::argument::Argument;
use super::own::OwnRun;
use super::workloads::Workloads;
use super::{Source, own_sets};
use crate::earlier;

/// The largest number of earlier runs that are read, the last ones.
const MOST: usize = 12;

/// Estimates the variation from finished runs in the same results directories that had the same plan, kernel and
/// geometry as the compared runs. Returns `None` if there are too few. Directories that cannot be read are skipped:
/// only the width of intervals depends on them, and the result contains the number of runs.
pub fn earlier_runs(compared: &[PathBuf]) -> Option<Variation> {
    let first = Reader::open(compared.first()?).ok()?.record;
    let known: BTreeSet<PathBuf> = compared.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let directories: BTreeSet<PathBuf> = known.iter().filter_map(|path| earlier::results_directory(path)).collect();
    let found = directories.iter().flat_map(|directory| earlier::unchanged_runs(&first, directory));
    let mut paths: Vec<PathBuf> = found.map(|run| run.path).filter(|path| !known.contains(path)).collect();
    let paths = paths.split_off(paths.len().saturating_sub(MOST));
    let runs: Vec<OwnRun> = paths.iter().filter_map(|path| OwnRun::read(path).ok()).collect();
    if runs.len() < fsb_stats::FEWEST_RUNS_JUDGED {
        return None;
    }
    let argument = Argument { text: "earlier runs".into(), name: None, paths };
    let mut source = Source { argument, files: Vec::new(), runs };
    let workloads = Workloads::of(source.runs.iter().flat_map(|run| &run.trials.cells));
    let sets = own_sets(&mut source, &workloads, &mut Vec::new()).ok()?;
    variation(sets.into_iter().map(|(_, set)| set).collect()).ok()
}
