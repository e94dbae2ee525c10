//! Unpacks a source tree from an archive, reads its attributes and its files, and removes it.
//!
//! These are the phases of the Andrew benchmark (Howard and others, "Scale and performance in a distributed file
//! system", 1988). Its last phase, compiling, is optional, because it measures the processor. The archive is in memory,
//! so that the workers wait for nothing but the target. By default unpacking and removing are durable at the end of
//! their phases. One repetition does the whole tree once, and the report compares targets by the time that it takes.

mod index;
mod options;
mod thread_job;

use std::ffi::CString;
use std::io::{Cursor, Read};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::AtomicBool;

use fsb_model::metric::TREE_TIME;
use fsb_model::{Durability, Params};

use super::job::{Job, Workload};
use super::measure::check_operations;
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend, Setup};
use crate::context::Context;
use crate::data::Data;
use crate::fileset::NOTE;
use crate::hash::{Stream, hash};
use crate::memory::check_room;
use crate::profile::Profile;
use crate::rendezvous::Rendezvous;
use crate::task::{ClockSpec, Gate, Measurement, Ready};
use crate::{EngineError, ParamError, Sizing, fileset, threads};
use index::Index;
use index::SourceContent;
use options::{Options, Phase, Source, scaled};
use thread_job::Report;
use thread_job::UntarThreads;

/// Bytes of an object, estimated generously.
const OBJECT: u64 = 1 << 20;
/// The name of the operation that all calls count as.
const OPERATION: &str = "untar-build";

/// The member.
pub(super) struct UntarBuild;

impl Workload for UntarBuild {
    fn name(&self) -> &'static str {
        "untar-build"
    }

    fn about(&self) -> &'static str {
        "unpack a source tree, stat all, read all, remove it: the Andrew benchmark; compile = true measures the CPU too"
    }

    fn example(&self) -> Params {
        params::of([("files", 40.into()), ("threads", 2.into()), ("verify", true.into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(UntarBuildJob(Options::parse(self.name(), params, sizing)?)))
    }
}

struct UntarBuildJob(Options);

impl UntarBuildJob {
    fn is_real(&self, context: &Context) -> bool {
        context.backend(self.0.backend).capabilities().real
    }

    /// Returns the archive in memory, and its index. On a backend that touches nothing the archive is empty.
    fn archive(&self, context: &Context) -> Result<(Vec<u8>, Index), EngineError> {
        match &self.0.source {
            Source::Recipe { files, scale, content } => {
                let planned = index::tree(scaled(*files, *scale));
                if !self.is_real(context) {
                    return Ok((Vec::new(), Index::of_plan(&planned)));
                }
                check_room(
                    "the archive",
                    planned.iter().map(|one| one.size.unwrap_or(0).next_multiple_of(512) + 512).sum(),
                )?;
                let mut data = Data::new(context.data(), 1 << 20);
                let (seed, mut address) = (hash(context.seed, Stream::Data, 1), 0);
                let fill = |bytes: &mut Vec<u8>, number, size: u64| match content {
                    SourceContent::Text => index::write_source(bytes, seed, number, size),
                    SourceContent::Random => {
                        let mut left = size;
                        while left > 0 {
                            let length = left.min(1 << 20);
                            bytes.extend_from_slice(data.window(address, length as usize));
                            (address, left) = (address + length, left - length);
                        }
                        // The next file begins at a new block.
                        address = address.next_multiple_of(4096);
                    }
                };
                let failed = |error| EngineError::new(format!("make the archive in memory: {error}"));
                let archive = index::archive(&planned, fill).map_err(failed)?;
                let index = Index::read(Cursor::new(&archive))?;
                Ok((archive, index))
            }
            Source::Archive(path) => {
                let failed = |error: std::io::Error| EngineError::io("read the archive", path, &error);
                let mut file = fsb_input::open(path).map_err(failed)?;
                let mut archive = Vec::new();
                if self.is_real(context) {
                    check_room("the archive", file.metadata().map_err(failed)?.len())?;
                    file.read_to_end(&mut archive).map_err(failed)?;
                    let index = Index::read(Cursor::new(&archive))?;
                    return Ok((archive, index));
                }
                let index = Index::read(std::io::BufReader::new(file))?;
                Ok((archive, index))
            }
        }
    }
}

impl Job for UntarBuildJob {
    fn profile(&self) -> Profile {
        let Options { totals, threads, durability, .. } = &self.0;
        let objects = if self.0.phases().contains(&Phase::Compile) { totals.sources } else { 0 };
        let inodes = totals.entries + objects + 1;
        let writes = self.0.phases().iter().any(|phase| matches!(phase, Phase::Unpack | Phase::Remove));
        Profile {
            files: totals.files,
            file_size: totals.bytes / totals.files,
            threads: *threads,
            backend: self.0.backend.name().to_owned(),
            durability: *durability,
            operations: self.0.phases().into_iter().map(|phase| self.0.operations(phase)).sum(),
            reaches_device: writes && *durability != Durability::None,
            space: totals.blocks + inodes * NOTE + objects * OBJECT,
            inodes,
            ..Profile::base(OPERATION, &TREE_TIME, self.0.label())
        }
    }

    fn own_data(&self) -> Option<&'static str> {
        let random = matches!(self.0.source, Source::Recipe { content: SourceContent::Random, .. });
        (!random).then_some("its archive has a content of its own; content = \"random\" can be mixed")
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
        let root = fileset::open(&set)?;
        if self.0.is_unpacked_before() {
            let (archive, index) = self.archive(context)?;
            let backend = backend::plain(context.backend(self.0.backend));
            let (namespace, mut session) = (backend.namespace(), backend.session(&Setup::plain(1))?);
            for item in &index.items {
                let made = thread_job::unpack((namespace, &mut *session), &root, item, Some(&archive), 1 << 20);
                made.map_err(|refusal| thread_job::refused(&set, &item.name, refusal))?;
            }
            for &directory in index.directories.iter().rev() {
                let item = &index.items[directory];
                let set_to = thread_job::finish(namespace, &root, item);
                set_to.map_err(|refusal| thread_job::refused(&set, &item.name, refusal))?;
            }
        }
        fileset::sync_through(&root, &set)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        check_operations(&profile, context.operations)?;
        let set = context.set();
        let backend = context.backend(self.0.backend);
        let root = backend.namespace().open_root(&set).map_err(|errno| EngineError::call("open", &set, errno))?;
        let (archive, index) = self.archive(context)?;
        let phases = self.0.phases();
        let sources = || index.sources().take(self.0.totals.sources as usize);
        let object = |source| CString::new(index::object(source).into_vec()).unwrap_or_default();
        let rendezvous = Rendezvous::new(self.0.threads, matches!(context.clock, ClockSpec::Fake { .. }))?;
        let threads = UntarThreads {
            options: &self.0,
            set: &set,
            backend,
            root: &root,
            index: &index,
            archive: Some(&archive[..]).filter(|_| self.is_real(context)),
            sources: if phases.contains(&Phase::Compile) { sources().collect() } else { Vec::new() },
            objects: if self.0.has_objects() { sources().map(object).collect() } else { Vec::new() },
            rendezvous: &rendezvous,
            failed: AtomicBool::new(false),
        };
        let outcome = threads::run(&threads, context, &profile, Ready::default(), false, gate)?;
        if self.is_real(context) && phases.contains(&Phase::Remove) {
            fileset::expect_nothing(&set)?;
        }
        let mut measurement = outcome.measurement(OPERATION);
        Report::add_to(&outcome.reports, &self.0, &mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}

#[cfg(test)]
mod tests;
