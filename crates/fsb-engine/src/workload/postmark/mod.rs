//! PostMark's transactions as a workload: a mail server's small files, created, read, appended to and deleted.
//!
//! One repetition is a whole run of PostMark's, in the stages that its report tells of: the pool is filled, the
//! transactions are made, what is left is deleted. A transaction is the operation that targets are compared by; the
//! rates that PostMark prints (bytes read and written, files created and deleted, each over all stages) stand beside
//! it. Which files are meant is drawn from the run's own seed, so each block has another pool and all targets of a
//! block the same.

mod options;
mod report;
mod thread_job;

use std::fs;

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Durability, Params};

use super::job::{Job, Workload};
use super::measure::check_operations;
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend};
use crate::context::Context;
use crate::fileset::{BLOCK, NOTE};
use crate::profile::Profile;
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Gate, Measurement, Ready};
use crate::{EngineError, ParamError, Sizing, fileset, processes, threads};
use options::Options;
use report::Report;
use thread_job::PostmarkThreads;

/// The operation that is counted.
const TRANSACTION: &str = "transaction";

/// The member.
pub(super) struct Postmark;

impl Workload for Postmark {
    fn name(&self) -> &'static str {
        "postmark"
    }

    fn about(&self) -> &'static str {
        "PostMark's mail server: a pool of small files; each transaction reads or appends, and creates or deletes"
    }

    fn example(&self) -> Params {
        params::of([
            ("number", 20.into()),
            ("transactions", 50.into()),
            ("subdirectories", 2.into()),
            ("threads", 2.into()),
            ("verify", true.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(PostmarkJob(Options::parse(self.name(), params, sizing)?)))
    }
}

struct PostmarkJob(Options);

impl PostmarkJob {
    /// What was deleted is gone: the directories are as they were before.
    fn look_for_rest(&self, context: &Context) -> Result<(), EngineError> {
        let subdirectories = if self.0.shape.subdirectories > 1 { self.0.shape.subdirectories } else { 0 };
        for location in (0..self.0.workers()).map(|rank| Options::directory(context, rank)) {
            let inner = (0..subdirectories).map(|number| (location.join(format!("s{number}")), 0));
            for (directory, expected) in inner.chain([(location.clone(), subdirectories as usize)]) {
                let entries = fs::read_dir(&directory).map_err(|error| EngineError::io("list", &directory, &error))?;
                let found = entries.count();
                if found != expected {
                    let shown = directory.display();
                    let message = format!("{shown} holds {found} entries instead of {expected} after all were deleted");
                    return Err(EngineError { message, errno: None, path: Some(directory), inapplicable: false });
                }
            }
        }
        Ok(())
    }
}

impl Job for PostmarkJob {
    fn profile(&self) -> Profile {
        let Options { shape, durability, buffering, threads, processes, .. } = &self.0;
        let workers = u64::from(self.0.workers());
        let files = shape.most_files();
        let directories = 1 + u64::from(if shape.subdirectories > 1 { shape.subdirectories } else { 0 });
        let inodes = (files + directories) * workers + 1;
        Profile {
            files: u64::from(shape.number) * workers,
            file_size: u64::from(shape.size_high),
            threads: *threads,
            processes: *processes,
            backend: if *buffering { "stdio" } else { "psync" }.to_owned(),
            durability: *durability,
            operations: u64::from(shape.transactions) * workers,
            reaches_device: *durability != Durability::None,
            space: files * workers * u64::from(shape.size_high).next_multiple_of(BLOCK) + inodes * NOTE,
            inodes,
            ..Profile::base(TRANSACTION, &OPERATION_RATE, self.0.label())
        }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        if self.0.buffering { backend::STREAMS } else { backend::CALLS }
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let set = context.set();
        fileset::make_anew(&set)?;
        for rank in 0..self.0.workers() {
            fileset::make_directory(&Options::directory(context, rank))?;
            self.0.names(context, rank).make_directories()?;
        }
        fileset::sync(&set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let backend = context.backend(self.backend());
        let set = context.set();
        let root = backend.namespace().open_root(&set).map_err(|errno| EngineError::call("open", &set, errno))?;
        let fake = matches!(context.clock, ClockSpec::Fake { .. });
        let rendezvous = Rendezvous::new(self.0.workers(), fake)?;
        let threads = PostmarkThreads::new(&self.0, context, backend, &rendezvous, root);
        let outcome = if self.0.processes > 1 {
            processes::run(&threads, context, &profile, Ready::default(), gate)?
        } else {
            threads::run(&threads, context, &profile, Ready::default(), false, gate)?
        };
        if backend.capabilities().real {
            self.look_for_rest(context)?;
        }
        let mut measurement = outcome.measurement(TRANSACTION);
        Report::sum(&outcome.reports).add_to(&mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}
