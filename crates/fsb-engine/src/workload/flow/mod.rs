//! What servers do to files: flows (`fsb_model::flow`), among them the personalities of filebench.
//!
//! A flow's threads go through their steps again and again; each step that works on files is an operation, and a trial
//! does a given number of them, whichever threads they fall to. Files are taken from the sets without a lock; what their
//! sizes, names and contents are is a function of their numbers. The amount of work is the same for all targets, so the
//! time that it takes tells them apart; beside it stand the latencies of each kind of operation, and what was done.

mod actor;
mod aio;
mod build;
mod crew;
mod draw;
mod entries;
mod options;
mod perform;
mod points;
mod program;
mod report;
mod sets;
mod stage;
mod tree;

use fsb_model::flow::{FileSet, Flow, Op, Step};
use fsb_model::metric::OPERATION_RATE;
use fsb_model::{CacheState, Durability, Params};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Job, Workload, params};
use crate::context::Context;
use crate::fileset::together::{self, Found};
use crate::profile::{Profile, Renewal};
use crate::task::{ClockSpec, Gate, Measurement, Ready};
use crate::{EngineError, ParamError, Sizing, team};
use crew::Cast;
use options::Options;
use stage::Stage;

/// The operation that is counted: all kinds of them.
const OPERATION: &str = "operation";
/// The device moves whole blocks.
const BLOCK: u64 = 4096;
/// What a file costs beside its data: an inode and an entry, generously.
const NOTE: u64 = 2048;

/// A flow that has a name of its own.
pub(super) struct Personality {
    name: &'static str,
    about: &'static str,
    text: &'static str,
    /// A file set and threads that are small.
    example: &'static [(&'static str, u64)],
}

macro_rules! personality {
    ($constant:ident, $name:literal, $about:literal, $($key:literal = $value:literal),*) => {
        /// A personality of filebench.
        pub(super) static $constant: Personality = Personality {
            name: $name,
            about: $about,
            text: include_str!(concat!("personality/", $name, ".toml")),
            example: &[$(($key, $value)),*],
        };
    };
}

personality!(
    FILESERVER,
    "fileserver",
    "filebench's file server: create, write, append, read whole, delete and stat files of home directories",
    "files" = 60,
    "file_size" = 3000,
    "threads" = 3
);
personality!(
    WEBSERVER,
    "webserver",
    "filebench's web server: each thread reads ten pages, then appends to the log that all share",
    "files" = 30,
    "file_size" = 3000,
    "threads" = 3
);
personality!(
    WEBPROXY,
    "webproxy",
    "filebench's web proxy: each thread replaces an object of the cache in one directory and reads five",
    "files" = 60,
    "file_size" = 3000,
    "threads" = 3
);
personality!(
    VARMAIL,
    "varmail",
    "filebench's mail server: delete, receive, mark and read mails in one directory, with fsync",
    "files" = 60,
    "file_size" = 3000,
    "threads" = 3
);
personality!(
    OLTP,
    "oltp",
    "filebench's database: readers, writers with O_DSYNC and a writer of the log, tied by semaphores",
    "files" = 3,
    "file_size" = 65536,
    "threads" = 12
);
personality!(
    VIDEOSERVER,
    "videoserver",
    "filebench's video server: viewers at a limited rate, and a film that is replaced now and then",
    "files" = 3,
    "file_size" = 300000,
    "threads" = 3
);

impl Workload for Personality {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        let small = self.example.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
        small.chain([("verify".to_owned(), true.into())]).collect()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(FlowJob(Options::parse(self.name, params, sizing, self.text, false)?)))
    }
}

/// Any flow.
pub(super) struct AnyFlow;

/// A flow of all kinds of steps that is done in no time.
const EXAMPLE: &str = include_str!("personality/example.toml");

impl Workload for AnyFlow {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn about(&self) -> &'static str {
        "any flow: sets of files, threads and their operations, as text in the parameter 'flow' (docs/flow.md)"
    }

    fn example(&self) -> Params {
        params::of([("flow", EXAMPLE.into()), ("verify", true.into()), ("durability", "none".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(FlowJob(Options::parse(self.name(), params, sizing, EXAMPLE, true)?)))
    }
}

struct FlowJob(Options);

impl FlowJob {
    fn is_real(context: &Context) -> bool {
        context.backend.is_none_or(|backend| backend.capabilities().real)
    }

    fn stage(&self, context: &Context) -> Result<Stage, EngineError> {
        let mut stage = Stage::new(&self.0.flow, context.seed, context.set(), context.operations);
        (stage.repetition, stage.verify) = (context.repetition, self.0.verify);
        if Self::is_real(context) {
            stage.root = Some(build::open(&context.set())?);
        }
        Ok(stage)
    }
}

impl Job for FlowJob {
    fn profile(&self) -> Profile {
        let Options { flow, durability, .. } = &self.0;
        let first = &flow.filesets[0];
        let inodes = flow.filesets.iter().map(inodes).sum::<u64>() + 1;
        let appended = steps(flow).filter(|step| step.op == Op::Append).filter_map(|step| step.size);
        let appended = appended.map(|size| draw::largest(&size)).max().unwrap_or(0);
        let data: u64 = flow.filesets.iter().map(|set| sets::expected_bytes(set, BLOCK) + set.files * appended).sum();
        let of_threads = flow.threads.iter().map(|thread| {
            let counted = thread.steps.iter().filter(|step| step.op.is_counted());
            thread.instances() * counted.map(|step| step.iterations.unwrap_or(1)).sum::<u64>()
        });
        Profile {
            label: self.0.label(),
            operation: OPERATION,
            files: first.files,
            file_size: first.size.mean(),
            record_size: 0,
            threads: flow.instances() as u32,
            processes: 1,
            matrix: self.0.matrix,
            backend: "psync".to_owned(),
            durability: *durability,
            cache: CacheState::Any,
            primary: &OPERATION_RATE,
            renewal: Renewal::Recreate,
            operations: of_threads.sum(),
            divisible: true,
            repeats_in_place: true,
            reaches_device: *durability != Durability::None
                || steps(flow).any(|step| step.dsync || step.op == Op::Sync),
            metadata_only: false,
            space: data + inodes * NOTE,
            inodes,
            cold_bytes_per_operation: 0,
        }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        if !Self::is_real(context) {
            return Ok(());
        }
        build::build(&context.set(), &sets::of(&self.0.flow, context.seed), context.seed, &context.progress)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        let stage = self.stage(context)?;
        let before: Vec<u64> = stage.sets.iter().map(|set| set.files.existing()).collect();
        let cast = Cast { stage: &stage, durability: self.0.durability };
        let outcome = match context.clock {
            ClockSpec::Fake { .. } => {
                allow_descriptors();
                cast.pretend(context, &profile, Ready::default(), gate)?
            }
            ClockSpec::Monotonic => team::run(&cast, context, &profile, Ready::default(), false, gate)?,
        };
        let left = balance(&stage, before.iter().sum(), &report::sum(&outcome.reports))?;
        let mut measurement = outcome.measurement(OPERATION);
        report::add(&stage.cast(), &outcome.reports, left, &mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        if Self::is_real(context) { together::remove(&context.set(), &context.progress) } else { Ok(()) }
    }
}

fn steps(flow: &Flow) -> impl Iterator<Item = &Step> {
    flow.threads.iter().flat_map(|thread| &thread.steps)
}

/// Files and directories of a set, all of them, in expectation.
fn inodes(set: &FileSet) -> u64 {
    let entries = set.files + set.directories;
    // Directories that hold entries, those that hold them in turn, and the set's own.
    entries + 2 * (entries / set.width.mean.max(1)) + 4
}

/// One thread plays all: it has all their files open.
fn allow_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where it is refused, opening says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// What was there, and made, and not deleted, is there: by the counters, and in the directories.
fn balance(stage: &Stage, before: u64, tally: &report::Tally) -> Result<u64, EngineError> {
    let left = before + tally.created - tally.deleted;
    let mut told = Found::default();
    for set in &stage.sets {
        told.files += set.files.existing();
        told.directories += set.tree.directories();
        if let Some((tree, entries)) = &set.empty {
            told.directories += tree.directories() - 1 + entries.existing();
        }
    }
    if told.files != left {
        return Err(EngineError::new(format!("counts do not balance: {} files are left of {left}", told.files)));
    }
    if stage.root.is_some() {
        let found = together::count(&stage.path, told.files)?;
        if found != told {
            let (there, should) = ([found.files, found.directories], [told.files, told.directories]);
            let message = format!(
                "{} holds {} files in {} directories instead of {} in {} after {} were made and {} deleted",
                stage.path.display(),
                there[0],
                there[1],
                should[0],
                should[1],
                tally.created,
                tally.deleted
            );
            return Err(EngineError { path: Some(stage.path.clone()), ..EngineError::new(message) });
        }
    }
    Ok(left)
}
