//! Common parts of the tests of workloads: a task as a plan would make it, and gates.

use std::path::Path;

use fsb_model::WorkloadSpec;

use super::parse;
use crate::error::{EngineError, ParamError};
use crate::task::{Gate, Measurement, Ready, Sizing, Step, Task};
use crate::worker;

/// The machine that parameters are resolved for.
pub(crate) const SIZING: Sizing = Sizing {
    size: 64 << 20,
    cpus: 2,
};

/// The seed of every task.
pub(crate) const SEED: u64 = 42;

/// Parameters as pairs.
pub(crate) type Pairs<'a> = &'a [(&'a str, serde_json::Value)];

/// Returns a workload with parameters.
pub(crate) fn with(name: &str, pairs: Pairs<'_>) -> WorkloadSpec {
    let params = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    WorkloadSpec::new(name, params)
}

/// Returns the label of the workload in reports, or the reason why the parser refuses it.
pub(crate) fn label(workload: &WorkloadSpec) -> Result<String, ParamError> {
    parse(workload, &SIZING).map(|job| job.profile().label)
}

/// Returns the task of one step, as a plan would make it.
pub(crate) fn task(step: Step, workload: &WorkloadSpec, root: &Path, operations: u64) -> Task {
    Task::plain(step, workload.clone(), SIZING, root, SEED, operations)
}

/// Lets every step start at once and remembers the state that the step reported.
#[derive(Default)]
pub(crate) struct Open(pub(crate) Option<Ready>);

impl Gate for Open {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        self.0 = Some(ready);
        Ok(())
    }
}

/// Calls a function and then lets the step start.
struct Before<'a>(&'a mut dyn FnMut(Ready));

impl Gate for Before<'_> {
    fn ready(&mut self, ready: Ready) -> Result<(), EngineError> {
        self.0(ready);
        Ok(())
    }
}

/// Prepares and measures one repetition; `before` is called when all is ready.
pub(crate) fn run_once(
    workload: &WorkloadSpec,
    root: &Path,
    mut before: impl FnMut(Ready),
) -> Result<Measurement, EngineError> {
    let operations = parse(workload, &SIZING).unwrap().profile().operations;
    worker::perform(
        &task(Step::Prepare, workload, root, operations),
        &mut Open::default(),
    )?;
    let report = worker::perform(
        &task(Step::Measure, workload, root, operations),
        &mut Before(&mut before),
    )?;
    Ok(report.whole().expect("the measure step measures"))
}
