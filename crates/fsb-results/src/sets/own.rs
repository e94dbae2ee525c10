//! Runs of fsb in a comparison: each target is a set, each block a run of the set.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::Outcome;
use fsb_model::run::Risk;
use fsb_model::set::{Histogram, Run};
use fsb_model::trial::Phase;
use fsb_report::summary::{in_rounds, withheld_by_record};
use fsb_report::{incomplete_text, warning_text};
use fsb_stats::compare::OURS;
use fsb_stats::histogram;
use fsb_store::RUN_FILE;
use fsb_store::journal::{CompactTrial, last_attempts};

use crate::matrices::{BlockSeries, Cells, Workloads, good_by_block, slice};
use crate::run::StoredRun;

/// The largest number of warnings of one run that a comparison repeats.
const SHOWN: usize = 5;

/// A run of fsb, and what a comparison needs of it.
#[derive(Debug)]
pub struct OwnRun {
    /// The run.
    pub stored: StoredRun,
    /// The work of its trials.
    pub(super) cells: Cells,
}

/// One target of a run directory.
#[derive(Debug)]
pub(super) struct OwnTarget<'t> {
    /// The name in the run.
    pub(super) name: String,
    /// The trials that have values, by block.
    pub(super) blocks: BTreeMap<u32, Vec<&'t CompactTrial>>,
}

impl OwnRun {
    /// Returns the view of a run.
    pub(super) fn new(mut stored: StoredRun) -> OwnRun {
        let cells = Cells::new(&stored.record.units, &stored.trials);
        let measured: BTreeSet<u32> = (stored.trials.iter())
            .filter(|trial| trial.phase == Phase::Measured)
            .map(|trial| trial.block)
            .collect();
        let incomplete = incomplete_text(&stored.record, measured);
        stored
            .warnings
            .extend(incomplete.map(|why| format!("{}: {why}", stored.path.display())));
        OwnRun { stored, cells }
    }

    /// Returns the targets in the plan's order, and warnings for the reader.
    pub(super) fn targets(&self) -> (Vec<OwnTarget<'_>>, Vec<String>) {
        let mut warnings: Vec<String> = self.stored.warnings.clone();
        let said = &self.stored.record.warnings;
        warnings.extend(
            said.iter().take(SHOWN).map(|warning| {
                format!("{}: {}", self.stored.path.display(), warning_text(warning))
            }),
        );
        if said.len() > SHOWN {
            let more = said.len() - SHOWN;
            warnings.push(format!(
                "{}: {more} more warnings are in its {RUN_FILE}",
                self.stored.path.display()
            ));
        }
        let mut by_target: BTreeMap<&str, Vec<&CompactTrial>> = BTreeMap::new();
        for trial in self.counted() {
            by_target.entry(&trial.what.target).or_default().push(trial);
        }
        let places: Vec<Option<usize>> = (self.cells.list.iter())
            .map(|work| self.place_in_plan(&work.workload))
            .collect();
        let mut targets = Vec::new();
        for target in &self.stored.record.plan.targets {
            let counted = by_target.remove(target.name.as_str()).unwrap_or_default();
            let trials = last_attempts(counted);
            warnings.extend(self.lost(&target.name, &trials));
            let mut blocks = good_by_block(trials);
            // Each block had an order of its own; tables use the plan's.
            for trials in blocks.values_mut() {
                trials.sort_by_key(|trial| places[self.cells.place(trial)]);
            }
            targets.push(OwnTarget {
                name: target.name.clone(),
                blocks,
            });
        }
        (targets, warnings)
    }

    /// Returns the workloads of this run that no comparison may judge, each with the reason. These
    /// are workloads most of whose trials were affected by interference or invalid, if they have
    /// one sample per block or the run has one target. Workloads of a run whose memory was not
    /// touched first, or with another run beside it, are withheld, too.
    pub(super) fn withheld(&self) -> BTreeMap<String, &'static str> {
        // In rounds interference affects all targets of a run equally, but not a target of another
        // run that it is compared with.
        let record = &self.stored.record;
        let is_alone = record.plan.targets.len() == 1;
        let mut withheld = BTreeMap::new();
        for label in withheld_by_record(record, |label| {
            let mut works = self.cells.list.iter();
            works.any(|work| work.workload == label && work.writes)
        }) {
            withheld.insert(
                label,
                "memory was not touched first, or another run measured beside it",
            );
        }
        for label in self.cells.mostly_spoilt() {
            if is_alone || !in_rounds(record, label) {
                withheld.insert(
                    label.to_owned(),
                    "most trials were affected by interference or invalid",
                );
            }
        }
        withheld
    }

    fn counted(&self) -> impl Iterator<Item = &CompactTrial> {
        self.stored.trials.iter().filter(|trial| trial.counts())
    }

    /// Returns the risks of a target, and whether it may win nevertheless.
    pub(super) fn risks(&self, target: &str) -> (&[Risk], bool) {
        let risks = self
            .stored
            .record
            .targets
            .get(target)
            .map_or(&[][..], |found| &found.risks);
        (risks, risks.is_empty() || self.stored.record.plan.risky)
    }

    /// Returns a number larger than that of every slice of the medium, which are counted from 0
    /// over all segments of the run.
    pub(super) fn slices(&self) -> u32 {
        self.counted()
            .filter_map(|trial| trial.slice)
            .max()
            .map_or(0, |slice| slice.saturating_add(1))
    }

    /// Returns the number of the last block; 0 if none was measured.
    pub(super) fn last_block(&self) -> u32 {
        self.counted().map(|trial| trial.block).max().unwrap_or(0)
    }

    /// Calls `visit` with the latencies of each case on a target, all its trials together.
    pub(super) fn latencies(&self, workloads: &Workloads, mut visit: impl FnMut(&str, Histogram)) {
        for trial in &self.stored.trials {
            for (operation, text) in &trial.extras().latency {
                // A malformed histogram only describes a trial, whose value remains valid.
                let Some(bins) = decode(text).filter(|bins| !bins.is_empty()) else {
                    continue;
                };
                let workload = workloads.place(self.cells.of(trial)).workload.to_owned();
                let histogram = Histogram {
                    workload: Some(workload),
                    operation: operation.clone(),
                    bins,
                };
                visit(&trial.what.target, histogram);
            }
        }
    }

    fn place_in_plan(&self, label: &str) -> Option<usize> {
        self.stored
            .record
            .cells
            .iter()
            .position(|cell| cell.label == label)
    }

    /// Returns a warning with the number of trials that have no usable value.
    fn lost(&self, target: &str, trials: &[&CompactTrial]) -> Option<String> {
        let mut words = Vec::new();
        for (outcome, word) in [(Outcome::Failed, "failed"), (Outcome::Invalid, "invalid")] {
            let count = trials
                .iter()
                .filter(|trial| trial.outcome == outcome)
                .count();
            if count > 0 {
                words.push(format!("{count} {word}"));
            }
        }
        let all = trials.len();
        (!words.is_empty()).then(|| {
            format!(
                "{}, {target}: left out of {all} trials: {}",
                self.stored.path.display(),
                words.join(", ")
            )
        })
    }

    /// Returns the values of the blocks of a target.
    pub(super) fn block_series<'r>(&'r self, workloads: &'r Workloads) -> BlockSeries<'r> {
        BlockSeries::new(&self.cells, workloads)
    }

    /// Returns one block of a target as a run without series.
    pub(super) fn run(&self, block: u32, trials: &[&CompactTrial], workloads: &Workloads) -> Run {
        Run {
            tool: OURS.to_owned(),
            version: self
                .stored
                .record
                .segments
                .last()
                .map(|segment| segment.fsb_version.clone()),
            path: self.stored.journal_path.display().to_string(),
            block: Some(block),
            slice: slice(trials),
            sessions: self.sessions(),
            within: self.cells.within(trials, workloads),
            ..Run::default()
        }
    }

    /// Returns the boot and the UTC day of each of its segments.
    fn sessions(&self) -> Vec<String> {
        let segments = self.stored.record.segments.iter();
        segments
            .map(|segment| {
                let day = segment.started.split('T').next().unwrap_or_default();
                format!("{} {day}", segment.boot_id)
            })
            .collect()
    }
}

/// Decodes a histogram to nanoseconds and counts.
fn decode(text: &str) -> Option<Vec<(u64, u64)>> {
    let histogram = histogram::decode(text)?;
    Some(
        histogram
            .iter_recorded()
            .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
            .collect(),
    )
}

/// Warns of workloads that have the same label with other parameters: perhaps comparable, but
/// hardly the same.
pub(super) fn relabelled<'r>(runs: impl Iterator<Item = &'r OwnRun>) -> Vec<String> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for cell in runs.flat_map(|run| &run.cells.list) {
        seen.entry(&cell.workload).or_default().insert(&cell.kind);
    }

    seen.into_iter()
        .filter(|(_, kinds)| kinds.len() > 1)
        .map(|(label, _)| {
            format!(
                "'{label}' was measured with different parameters in these runs: see their run.json"
            )
        })
        .collect()
}
