//! One argument of a comparison: its files and run directories, and the sets of its targets.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use anyhow::Context;
use fsb_model::set::Histogram;
use fsb_model::stop::Analyses;
use fsb_stats::compare::{Collected, Variation, variation};
use fsb_store::Reader;

use super::argument::{Argument, Wish};
use super::own::{OwnRun, Workloads};
use crate::earlier::{self, SET_FILE};

/// One argument, with its files found and its run directories read.
pub(super) struct Source {
    pub(super) argument: Argument,
    pub(super) files: Vec<PathBuf>,
    pub(super) runs: Vec<OwnRun>,
}

/// Returns the directory that `--runs` made for these runs: the set has its name, and not that of the first run.
fn directory_of_set(runs: &[OwnRun]) -> Option<PathBuf> {
    let mut parents = runs.iter().map(|run| run.identity.parent());
    let first = parents.next()??;
    let is_set = runs.len() > 1 && first.join(SET_FILE).is_file() && parents.all(|parent| parent == Some(first));
    is_set.then(|| first.to_owned())
}

/// Returns the targets of the source's run directories. Several directories with one name are runs of one set for each
/// target. Blocks are numbered consecutively over the directories, so that blocks of different runs are not paired.
pub(super) fn own_sets(
    source: &mut Source,
    workloads: &Workloads,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Vec<(Wish, Collected)>> {
    let typed = source.argument.text.display().to_string();
    let pairing: Vec<String> = source.runs.iter().map(|run| run.identity.display().to_string()).collect();
    let mut sets: Vec<(Wish, Collected)> = Vec::new();
    // Each of several runs was analysed on its own.
    let analyses = if let [run] = &source.runs[..] { run.record.analyses() } else { Analyses::default() };
    let set_directory = directory_of_set(&source.runs);
    let (mut first_block, mut first_slice) = (0u32, 0u32);
    for run in &mut source.runs {
        let (targets, said) = run.targets();
        warnings.extend(said);
        // The set to which the latencies of each line belong.
        let mut lines: HashMap<u32, usize> = HashMap::new();
        for target in targets {
            if target.blocks.is_empty() {
                warnings.push(format!("{}: no trial of {} has a value: left out", run.path.display(), target.name));
                continue;
            }
            let place = sets.iter().position(|(_, set)| set.name == target.name).unwrap_or_else(|| {
                let wish = match &source.argument.name {
                    Some(name) => Wish::given(format!("{name}/{}", target.name), typed.clone()),
                    None => {
                        Wish::target(set_directory.as_deref().unwrap_or(&run.identity), &target.name, typed.clone())
                    }
                };
                let mut set = Collected::new(target.name.clone(), Some(pairing.join(" + ")));
                set.analyses.clone_from(&analyses);
                sets.push((wish, set));
                sets.len() - 1
            });
            let set = &mut sets[place].1;
            let (risks, may_win) = run.risks(&target.name);
            set.has_risks |= !risks.is_empty();
            set.barred |= !may_win;
            for (block, trials) in target.blocks {
                // One at a time: the names of thousands of blocks would fill the memory.
                let block = first_block.saturating_add(block);
                let mut one = run.run(block, &trials, workloads);
                one.slice = one.slice.map(|slice| first_slice.saturating_add(slice));
                set.push(&one).context("cannot compare these trials")?;
                lines.extend(trials.iter().map(|trial| (trial.line, place)));
            }
        }
        first_block = first_block.saturating_add(run.last_block());
        first_slice = first_slice.saturating_add(run.slices());
        let take = |line, histograms: Vec<Histogram>| {
            let set = &mut sets[lines[&line]].1;
            histograms.iter().for_each(|histogram| set.push_latencies(histogram));
        };
        run.latencies(workloads, take, |line| lines.contains_key(&line))?;
    }
    Ok(sets)
}

// Earlier runs of the same plan on the same machine: the variation between runs when nothing was changed between them.

/// The largest number of earlier runs that are read, the last ones.
const MOST_EARLIER_RUNS: usize = 12;

/// Estimates the variation from finished runs in the same results directories that had the same plan, kernel and
/// geometry as the compared runs. Returns `None` if there are too few. Directories that cannot be read are skipped:
/// only the width of intervals depends on them, and the result contains the number of runs.
pub fn earlier_runs(compared: &[PathBuf]) -> Option<Variation> {
    let first = Reader::open(compared.first()?).ok()?.record;
    let known: BTreeSet<PathBuf> = compared.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let directories: BTreeSet<PathBuf> = known.iter().filter_map(|path| earlier::results_directory(path)).collect();
    let found = directories.iter().flat_map(|directory| earlier::unchanged_runs(&first, directory));
    let mut paths: Vec<PathBuf> = found.map(|run| run.path).filter(|path| !known.contains(path)).collect();
    let paths = paths.split_off(paths.len().saturating_sub(MOST_EARLIER_RUNS));
    let runs: Vec<OwnRun> = paths.iter().filter_map(|path| OwnRun::read(path).ok()).collect();
    if runs.len() < fsb_stats::FEWEST_RUNS_JUDGED {
        return None;
    }
    let argument = Argument { text: "earlier runs".into(), name: None, paths };
    let mut source = Source { argument, files: Vec::new(), runs };
    let workloads = Workloads::from_cells(source.runs.iter().flat_map(|run| &run.trials.cells));
    let sets = own_sets(&mut source, &workloads, &mut Vec::new()).ok()?;
    variation(sets.into_iter().map(|(_, set)| set).collect()).ok()
}

// The contents of sets, for the message that they have nothing in common.

/// The number of operations that the message names of a set.
const NAMED: usize = 13;

/// Returns the operations of each set, and why operations of the same name are not comparable.
pub fn contents(sets: &[Contents]) -> String {
    let lines: Vec<String> = sets.iter().map(contents_line).collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let shared = sets.iter().flat_map(|set| &set.operations).find(|name| !seen.insert(name));
    let sizes = shared.map_or_else(String::new, |name| format!("; {name} was measured at different sizes"));
    format!("{}{sizes}", lines.join("; "))
}

/// The contents of a set as text.
#[derive(Debug)]
pub struct Contents {
    name: String,
    tool: String,
    /// The operations, each once, in the order of the tables.
    operations: Vec<String>,
}

impl Contents {
    /// Returns the contents of a set that was read.
    pub fn from_set(set: &Collected) -> Contents {
        let mut seen = BTreeSet::new();
        let operations = set.measured().map(|(workload, operation, metric)| {
            let workload = workload.map(|workload| format!("{workload}: ")).unwrap_or_default();
            format!("{workload}{operation} ({metric})")
        });
        let operations = operations.filter(|name| seen.insert(name.clone())).collect();
        Contents { name: set.name.clone(), tool: set.tool().unwrap_or("no tool").to_owned(), operations }
    }
}

fn contents_line(set: &Contents) -> String {
    let Contents { name, tool, operations } = set;
    let named = operations.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match operations.len().saturating_sub(NAMED) {
        _ if operations.is_empty() => format!("{name} ({tool}) has no values"),
        0 => format!("{name} ({tool}) has {named}"),
        more => format!("{name} ({tool}) has {named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::THROUGHPUT;
    use fsb_model::set::{Point, Run, Series, Set};

    use super::*;

    fn set(name: &str, operations: &[&str]) -> Contents {
        let series = operations.iter().map(|operation| Series {
            workload: None,
            operation: (*operation).to_owned(),
            metric: THROUGHPUT.name.to_owned(),
            unit: THROUGHPUT.unit,
            better: THROUGHPUT.better,
            found_unit: "kB/s".to_owned(),
            points: vec![Point { file_size: None, record_size: None, value: 1.0, line: 1 }],
            gaps: Vec::new(),
        });
        let run = Run { tool: "iozone".to_owned(), series: series.collect(), ..Run::default() };
        let set =
            Set { name: name.to_owned(), pairing: None, analyses: Analyses::default(), runs: vec![run.clone(), run] };
        Contents::from_set(&Collected::from_set(&set).unwrap())
    }

    #[test]
    fn each_set_is_told_with_its_operations_and_why_shared_ones_do_not_meet() {
        let said = contents(&[set("a", &["write", "read"]), set("b", &["create"]), set("c", &[])]);
        let expected = "a (iozone) has write (throughput), read (throughput); b (iozone) has create (throughput); \
                        c (iozone) has no values";
        assert_eq!(said, expected);
        let said = contents(&[set("a", &["write"]), set("b", &["write"])]);
        assert!(said.ends_with("; write (throughput) was measured at different sizes"), "{said}");
    }
}
