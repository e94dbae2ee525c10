//! `--out DIR`: the run directory of a measurement with the options of another tool. It has the
//! files of a run of `fsb run`, and the text that the tool printed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsb_engine::{Measurement, Profile};
use fsb_model::observed::Observed;
use fsb_model::plan::Repetition;
use fsb_model::run::{BlockOrder, EmulatedTool};
use fsb_model::trial::{self, Reason, Samples};
use fsb_model::{
    Bytes, Cell, Coded, Failure, Metric, Outcome, Phase, Plan, RunRecord, StopReason, StoppingRule,
    Target, TargetKind, Trial, WorkloadSpec,
};
use fsb_runner::agent::Measured;
use fsb_runner::{values, wall_clock};
use fsb_store::owner::{self, result_owner};
use fsb_store::{EMPTY_DIRECTORY, RunDirectory, StoreError};
use fsb_testbed::host;
use fsb_testbed::lock::RunLock;
use jiff::Timestamp;
use serde_json::{Map, json};

use crate::message::say;
use crate::results;
use crate::run::next_command::advise_on_unwritable;
use crate::run::record::{close_segment, create, run_name, segment};
use crate::run::stage::concurrent;

/// The file with the text that the tool printed.
pub const OUTPUT_FILE: &str = "output.txt";

/// Returns how a command was started.
pub fn tool(command: &str) -> EmulatedTool {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.find(|word| word == command);
    EmulatedTool {
        command: command.to_owned(),
        arguments: words.collect(),
    }
}

/// Checks before a measurement that `--out` names a new or empty directory.
pub fn check(out: Option<&Path>) -> anyhow::Result<()> {
    out.map_or(Ok(()), |out| fsb_store::check_new(out, &result_owner()))
        .map_err(advise)
}

/// Adds advice to the error of a directory. These runs cannot be resumed.
fn advise(error: StoreError) -> anyhow::Error {
    let StoreError::NotEmpty(path) = &error else {
        return advise_on_unwritable(error);
    };
    let message = format!("{} is not empty; {EMPTY_DIRECTORY}", path.display());
    Failure {
        fields: error.fields(),
        help: Some(EMPTY_DIRECTORY.to_owned()),
        ..Failure::new(error.code(), message)
    }
    .into()
}

/// Writes what the tool printed and the report, closes the segment, and prints the path.
pub fn close(
    mut directory: RunDirectory,
    mut record: RunRecord,
    trials: &[Trial],
    output: &str,
) -> anyhow::Result<()> {
    close_segment(&mut directory, &mut record)?;
    directory.write_file(OUTPUT_FILE, output.as_bytes())?;
    let report = results::write_report(&directory, &record, trials)?;
    say(&format!("report: {}", report.display()));
    Ok(())
}

/// A case that was executed once.
#[derive(Debug)]
pub struct Execution {
    /// The label of the case.
    pub label: String,
    /// The operation on files.
    pub operation: String,
    /// The workload with its parameters.
    pub workload: WorkloadSpec,
    /// The directory of its files.
    pub directory: PathBuf,
    /// The time at which it started.
    pub started: Timestamp,
    /// The values, or the reason why there are none.
    pub result: Result<Values, Reason>,
}

/// The values of an execution.
#[derive(Debug)]
pub struct Values {
    /// The metrics. Targets are compared by the first one.
    pub metrics: Vec<Metric>,
    /// The measurement, with latencies, workers and processor time.
    pub work: Measurement,
}

impl Values {
    /// Returns the values of a measurement of the engine, as `fsb run` records them.
    ///
    /// # Errors
    /// Nothing was timed.
    pub fn from_engine(profile: &Profile, work: Measurement) -> Result<Values, Reason> {
        let measured = Measured {
            work,
            ..Measured::default()
        };
        let metrics = values::metrics(profile, &measured, &Samples::default())?;
        let work = measured.work;
        Ok(Values { metrics, work })
    }
}

/// Returns the parameters of a workload that another one lacks or has with another value, as
/// `, seed 7`.
fn differences(known: &WorkloadSpec, workload: &WorkloadSpec) -> String {
    let mut text = String::new();
    for (name, value) in &workload.params {
        if known.params.get(name) != Some(value) {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            text += &format!(", {name} {value}");
        }
    }
    for name in known.params.keys() {
        if !workload.params.contains_key(name) {
            text += &format!(", no {name}");
        }
    }
    match text.is_empty() {
        true => format!(", {}", workload.name),
        false => text,
    }
}

/// Returns the current time as records have it.
pub fn now() -> Timestamp {
    wall_clock::now()
}

/// A run directory that executions are added to while the tool measures.
pub struct Recording {
    directory: RunDirectory,
    record: RunRecord,
    trials: Vec<Trial>,
}

impl Recording {
    /// Creates the directory of `--out`, if the user named one. `name` is that of the work.
    ///
    /// # Errors
    /// The directory cannot be made, or is not empty.
    pub fn create(
        out: Option<&Path>,
        command: &str,
        name: &str,
    ) -> anyhow::Result<Option<Recording>> {
        let Some(out) = out else { return Ok(None) };
        results::keep_output();
        let plan = Plan {
            name: name.to_owned(),
            repetition: Repetition::Blocks {
                blocks: 1,
                seconds: None,
            },
            one_at_a_time: true,
            size: Bytes(0),
            dir: owner::absolute(Path::new("."))?,
            ..Plan::default()
        };
        let segment = segment(&plan)?;
        let record = RunRecord {
            host: host::manifest(),
            emulation_of: Some(tool(command)),
            ..RunRecord::new(plan, segment)
        };
        Ok(Some(Recording {
            directory: create(out, &record)?,
            record,
            trials: Vec::new(),
        }))
    }

    /// Adds a directory to the targets, unless it is one of them. Returns its name.
    fn target(&mut self, directory: &Path) -> anyhow::Result<String> {
        let path = owner::absolute(directory)?;
        let name = path.display().to_string();
        let record = &mut self.record;
        if !record.targets.contains_key(&name) {
            let found = fsb_testbed::directory_record(&path)?;
            record.targets.insert(name.clone(), found);
            record.plan.targets.push(Target {
                name: name.clone(),
                kind: TargetKind::Directory(path),
                controls: BTreeMap::new(),
                kernel: None,
                variant: None,
                optional: false,
            });
            record.name = format!("{} · {}", run_name(&record.plan), record.plan.name);
        }
        Ok(name)
    }

    /// Adds an execution. It is on disk when this returns.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn add(&mut self, execution: Execution) -> anyhow::Result<()> {
        let trial = self.trial(execution)?;
        self.directory.append(&trial)?;
        self.trials.push(trial);
        Ok(())
    }

    fn trial(&mut self, execution: Execution) -> anyhow::Result<Trial> {
        let Execution {
            label,
            operation,
            workload,
            directory,
            started,
            result,
        } = execution;
        let label = self.case(label, &workload);
        let target = self.target(&directory)?;
        let mut block = 1;
        for trial in &self.trials {
            block += u32::from(trial.workload == label && trial.target == target);
        }
        self.note(&label, &workload, block)?;
        let (outcome, reason, values) = match result {
            Ok(values) => (Outcome::Ok, None, Some(values)),
            Err(reason) => (Outcome::Failed, Some(reason), None),
        };
        let (metrics, work) =
            values.map_or_else(Default::default, |values| (values.metrics, values.work));
        let [error, error_code, errno] = Reason::into_parts(reason);
        let mut params = workload.params;
        params.insert("name".to_owned(), json!(workload.name));
        let observed = self.observed(&target, &work, outcome);
        Ok(Trial {
            schema: trial::SCHEMA.to_owned(),
            id: format!("b{block}.{target}.{label}"),
            phase: Phase::Measured,
            block,
            order: self.trials.len() as u32,
            attempt: 1,
            target,
            kernel: self.record.host.kernel.clone(),
            workload: label,
            operation,
            params,
            started: started.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            outcome,
            error,
            error_code,
            errno,
            metrics,
            latency: work.latency,
            workers: work.workers,
            requested: Map::new(),
            observed,
            interference: Vec::new(),
            superseded: false,
            slice: None,
            samples: Samples::default(),
            timelines: work.timeline.into_iter().collect(),
            extra: Map::new(),
        })
    }

    /// Returns the label of a case. Other work with a known label gets what differs appended.
    fn case(&self, label: String, workload: &WorkloadSpec) -> String {
        let mut label = label;
        let cells = &self.record.cells;
        while let Some(known) = cells.iter().find(|cell| cell.label == label) {
            if known.workload == *workload {
                break;
            }
            label += &differences(&known.workload, workload);
        }
        label
    }

    fn observed(&self, target: &str, work: &Measurement, outcome: Outcome) -> Observed {
        let is_measured = outcome == Outcome::Ok;
        let found = self.record.targets.get(target);
        Observed {
            user_seconds: is_measured.then_some(work.user_seconds),
            system_seconds: is_measured.then_some(work.system_seconds),
            counts: work.counts.clone(),
            mount_options: found.map_or_else(Vec::new, |found| found.mount_options.clone()),
            ..Observed::default()
        }
    }

    /// Adds a case and a block to the record, if they are new.
    fn note(&mut self, label: &str, workload: &WorkloadSpec, block: u32) -> Result<(), StoreError> {
        let record = &mut self.record;
        if !record.cells.iter().any(|cell| cell.label == label) {
            record.plan.workloads.push(workload.clone());
            record.cells.push(Cell {
                label: label.to_owned(),
                workload: workload.clone(),
            });
        }
        let mut targets = Vec::new();
        for target in &record.plan.targets {
            targets.push(target.name.clone());
        }
        if record.order.last().is_none_or(|order| order.block < block) {
            let cells = Vec::new();
            record.order.push(BlockOrder {
                block,
                targets,
                cells,
                slices: Vec::new(),
            });
        }
        for order in &mut record.order {
            if order.block == block && !order.cells.iter().any(|cell| cell == label) {
                order.cells.push(label.to_owned());
            }
        }
        self.directory.write_record(&self.record)
    }

    /// Adds the warnings of a measurement beside others to the record.
    pub fn note_others(&mut self, lock: &mut RunLock) {
        for warning in concurrent(lock) {
            if !self.record.warnings.contains(&warning) {
                self.record.warnings.push(warning);
            }
        }
    }

    /// Writes the rest of the run directory. `complete` tells whether everything was measured;
    /// otherwise the record says that the run did not finish.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn finish(mut self, complete: bool, output: &str) -> anyhow::Result<()> {
        let blocks = self.record.order.last().map_or(0, |order| order.block);
        if complete {
            let repetition = Repetition::Blocks {
                blocks,
                seconds: None,
            };
            let targets = self.record.plan.targets.len();
            self.record.plan.repetition = repetition;
            self.record.blocks_planned = Some(blocks);
            self.record.stopping_rule = Some(StoppingRule::new(repetition, targets, blocks, &[]));
            self.record.stop_reason = Some(StopReason::Requested { blocks });
        }
        close(self.directory, self.record, &self.trials, output)
    }
}
