//! Copying a tree of files into the target, copying it within the target, and deleting it.
//!
//! One repetition does the whole tree once, and targets are compared by the time that it takes, until all of it is on
//! the device. The source of a copy lies in memory: of one into the target it was never anywhere else. Contents are
//! incompressible and a function of the seed and the file, as everywhere.

mod copying;
mod options;
mod recipe;
mod thread_job;
mod tree;

use std::sync::atomic::AtomicBool;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT, TREE_TIME};
use fsb_model::{Durability, Params};

use super::job::{Job, Workload};
use super::measure::check_operations;
use super::parameter::Parameter;
use super::params;
use crate::backend::Backend;
use crate::context::Context;
use crate::fileset::{BLOCK, NOTE};
use crate::profile::Profile;
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Gate, Measurement, Rate, Ready};
use crate::{EngineError, ParamError, Sizing, fileset, threads};
use options::{Operation, Options};
use thread_job::TreeThreads;
use tree::TreeNames;

/// The tree that is there, and the one that is made.
const TREES: [&str; 2] = ["source", "copy"];

/// The member.
pub(super) struct FileTree;

impl Workload for FileTree {
    fn name(&self) -> &'static str {
        "filetree"
    }

    fn about(&self) -> &'static str {
        "copy a tree of files into the target or within it, or delete it: sets of 2008, or the shape of a directory"
    }

    fn example(&self) -> Params {
        params::of([
            ("operation", "copy-within".into()),
            ("shape", "-:100,5000;0:;1:0,300000;0:4096".into()),
            ("threads", 2.into()),
            ("verify", true.into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(FileTreeJob(Options::parse(self.name(), params, sizing)?)))
    }
}

struct FileTreeJob(Options);

impl FileTreeJob {
    /// Whether there is a tree on the target before the clock starts.
    fn has_source(&self) -> bool {
        self.0.operation != Operation::CopyInto
    }
}

impl Job for FileTreeJob {
    fn profile(&self) -> Profile {
        let Options { operation, shape, threads, durability, .. } = &self.0;
        let trees = if *operation == Operation::CopyWithin { 2 } else { 1 };
        let inodes = (shape.entries() + 1) * trees + 1;
        let data: u64 = shape.sizes().map(|size| size.next_multiple_of(BLOCK)).sum();
        Profile {
            files: shape.files(),
            file_size: shape.bytes() / shape.files(),
            threads: *threads,
            backend: self.0.backend.name().to_owned(),
            durability: *durability,
            operations: shape.files(),
            reaches_device: *durability != Durability::None,
            space: data * trees + inodes * NOTE,
            inodes,
            // Any state of the cache: the work itself checks that the source is in memory.
            ..Profile::base(operation.name(), &TREE_TIME, self.0.label())
        }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        self.0.backend
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let set = context.set();
        fileset::make_anew(&set)?;
        if self.0.operation != Operation::Delete {
            let backend = context.backend(self.0.backend);
            copying::probe(self.0.copy, self.has_source(), backend, &fileset::open(&set)?, &set)?;
        }
        if self.has_source() {
            let (leaves, _) = tree::leaves(&self.0.shape);
            tree::build(&set, &TreeNames::new(&self.0.shape, TREES[0]), &leaves, context.data())?;
        }
        fileset::sync(&set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let backend = context.backend(self.0.backend);
        let real = backend.capabilities().real;
        let set = context.set();
        let [from, to] = TREES.map(|name| TreeNames::new(&self.0.shape, name));
        let (leaves, whole) = tree::leaves(&self.0.shape);
        let root = backend.namespace().open_root(&set).map_err(|errno| EngineError::call("open", &set, errno))?;
        let (mut memory, mut ready) = (None, Ready::default());
        if real {
            match self.0.operation {
                Operation::CopyInto => {
                    let source = tree::in_memory(&leaves, whole, context.data())?;
                    ready = tree::prove_in_memory(&source, whole, &leaves)?;
                    memory = Some(source);
                }
                Operation::CopyWithin => ready = tree::warm(&set, &from, &leaves)?,
                Operation::Delete => tree::look_at(&set, &from)?,
            }
        }
        let rendezvous = Rendezvous::new(self.0.threads, matches!(context.clock, ClockSpec::Fake { .. }))?;
        let threads = TreeThreads {
            options: &self.0,
            set: &set,
            backend,
            root: &root,
            from: &from,
            to: &to,
            leaves: &leaves,
            memory: memory.as_ref(),
            rendezvous: &rendezvous,
            failed: AtomicBool::new(false),
        };
        let outcome = threads::run(&threads, context, &profile, ready, false, gate)?;
        if real {
            match self.0.operation {
                Operation::Delete => fileset::expect_nothing(&set)?,
                _ => tree::check(&set, &to, &leaves, context.data(), self.0.verify)?,
            }
        }
        let mut measurement = outcome.measurement(profile.operation);
        self.count(&mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

impl FileTreeJob {
    /// Rates beside the time, and what was done.
    fn count(&self, measurement: &mut Measurement) {
        let timed_ns = measurement.timed_ns;
        let mut rate = |name: &str, amount| measurement.rates.insert(name.to_owned(), Rate { amount, timed_ns });
        rate(OPERATION_RATE.name, measurement.operations);
        if measurement.bytes > 0 {
            rate(THROUGHPUT.name, measurement.bytes);
        }
        let directories = self.0.shape.directories().len() as u64;
        let counts = match self.0.operation {
            Operation::Delete => [("files_deleted", measurement.operations), ("directories_deleted", directories)],
            _ => [("files_copied", measurement.operations), ("directories_made", directories)],
        };
        measurement.counts.extend(counts.map(|(name, count)| (name.to_owned(), count)));
    }
}

#[cfg(test)]
mod tests;
