//! The lines that two halves of a run on another host exchange: one request, then the record, trials and progress.

use std::borrow::Cow;
use std::path::PathBuf;

use fsb_model::{Identity, RunRecord, Trial};
use serde::{Deserialize, Serialize};

/// The first line that the host reads. After it, each line break shows that the connection lives.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemoteRequest {
    /// The run to make.
    pub job: Job,
    /// Devices that the user permits to overwrite.
    pub wipe: Vec<PathBuf>,
    /// Whether to measure beside another run of the host.
    pub concurrent: bool,
    pub quiet: bool,
    pub verbose: bool,
}

/// The run that the host makes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// A new run of a plan file, with the parts of a plan that only a command line sets.
    Begin { plan: String, identity: Identity, verify: bool },
    /// The rest of an interrupted run.
    Resume { record: Box<RunRecord>, trials: Vec<Trial> },
}

/// A line that the host writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<'a> {
    /// The record of the run, which replaces the one before.
    Record(Box<Cow<'a, RunRecord>>),
    /// A trial that ended.
    Trial(Box<Cow<'a, Trial>>),
    /// A cell begins on all targets.
    Row { block: u32, workload: Cow<'a, str>, rounds: u32 },
    /// A sequential trial begins.
    Begin { target: Cow<'a, str>, workload: Cow<'a, str> },
}
