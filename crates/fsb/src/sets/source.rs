//! One argument of a comparison: its files and run directories, and the sets of its targets.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Context;
use fsb_model::set::Histogram;
use fsb_model::stop::Analyses;
use fsb_stats::compare::Collected;

use super::argument::Argument;
use super::naming::Wish;
use super::own::OwnRun;
use super::workloads::Workloads;
use crate::earlier::SET_FILE;

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
    let (mut first_block, mut first_part) = (0u32, 0u32);
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
                one.part = one.part.map(|part| first_part.saturating_add(part));
                set.push(&one).context("cannot compare these trials")?;
                lines.extend(trials.iter().map(|trial| (trial.line, place)));
            }
        }
        first_block = first_block.saturating_add(run.last_block());
        first_part = first_part.saturating_add(run.parts());
        let take = |line, histograms: Vec<Histogram>| {
            let set = &mut sets[lines[&line]].1;
            histograms.iter().for_each(|histogram| set.push_latencies(histogram));
        };
        run.latencies(workloads, take, |line| lines.contains_key(&line))?;
    }
    Ok(sets)
}
