//! Server workloads: flows (`fsb_model::flow`), among them the personalities of filebench.
//!
//! The threads of a flow repeat their steps. Each step that works on files is an operation. A trial
//! does a given number of operations, whichever threads perform them. Threads take files from the
//! sets without a lock. The size, name and content of a file are functions of its number. The
//! amount of work is the same for all targets, so the report compares the time that it takes. The
//! measurement also contains the latencies of each kind of operation, and counts of the files and
//! bytes.

mod entries;
mod operations;
mod shared;
mod thread;

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

use entries::{LONGEST_PATH, PathBuffer, Set};
use fsb_model::flow::{
    FileSet, Flow, FlowStep, MOST_FILES, MOST_THREADS, Op, Pick, Problem, Thread,
};
use fsb_model::metric::OPERATION_RATE;
use fsb_model::units::show_bytes;
use fsb_model::{Bytes, Durability, Params};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shared::FlowShared;
use thread::FlowThreads;

use super::job::{Job, Workload};
use super::label;
use super::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use crate::backend::{Backend, Directory};
use crate::data::{Data, DataSource};
use crate::error::{EngineError, ParamError};
use crate::fileset::{self, BLOCK, FEW_FILES, Found, NOTE};
use crate::profile::Profile;
use crate::task::{ClockSpec, Context, Gate, Measurement, Progress, Ready, Sizing};
use crate::threads;

/// The name of the counted operation, whatever its kind.
const OPERATION: &str = "operation";

/// A flow that has a name of its own.
pub(super) struct Personality {
    name: &'static str,
    about: &'static str,
    text: &'static str,
    /// Parameters of a small file set and few threads.
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
    "filebench's database: readers, writers with O_SYNC and a writer of the log, tied by semaphores",
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
        let small = self
            .example
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()));
        small.chain([("verify".to_owned(), true.into())]).collect()
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters(self.text)
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(FlowJob(FlowOptions::parse(
            self.name, params, sizing, self.text, false,
        )?)))
    }
}

/// Any flow.
pub(super) struct AnyFlow;

/// A flow with all kinds of steps that takes almost no time.
const EXAMPLE: &str = include_str!("personality/example.toml");

impl Workload for AnyFlow {
    fn name(&self) -> &'static str {
        "flow"
    }

    fn about(&self) -> &'static str {
        "any flow: sets of files, threads and their operations, as text in the parameter 'flow' (docs/flow.md)"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("flow", EXAMPLE.into()),
            ("verify", true.into()),
            ("durability", "none".into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        any_parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(FlowJob(FlowOptions::parse(
            self.name(),
            params,
            sizing,
            EXAMPLE,
            true,
        )?)))
    }
}

struct FlowJob(FlowOptions);

impl FlowJob {
    fn shared(&self, context: &Context) -> Result<FlowShared, EngineError> {
        let FlowOptions {
            flow,
            verify,
            backend,
            ..
        } = &self.0;
        let backend = context.backend(*backend);
        let mut shared = FlowShared::new(
            flow,
            context.data(),
            context.set(),
            context.operations,
            backend,
        )?;
        shared.repetition = context.repetition;
        shared.verify = *verify && backend.capabilities().real;
        Ok(shared)
    }
}

impl Job for FlowJob {
    fn profile(&self) -> Profile {
        let FlowOptions {
            flow, durability, ..
        } = &self.0;
        let first = &flow.filesets[0];
        let inodes = flow.filesets.iter().map(inodes).sum::<u64>() + 1;
        let data: u64 = flow.filesets.iter().map(|set| space(flow, set)).sum();
        let of_threads = flow.threads.iter().map(|thread| {
            let counted = thread.steps.iter().filter(|step| step.op.is_counted());
            thread.instances()
                * counted
                    .map(|step| step.iterations.unwrap_or(1))
                    .sum::<u64>()
        });
        Profile {
            files: first.files,
            file_size: first.size.mean(),
            threads: flow.instances() as u32,
            matrix: self.0.matrix,
            backend: self.0.backend.name().to_owned(),
            durability: *durability,
            operations: of_threads.sum(),
            divisible: true,
            repeats_in_place: true,
            syncs_itself: steps(flow).any(|step| step.dsync || step.op == Op::Sync),
            reaches_device: *durability != Durability::None
                || steps(flow).any(|step| step.dsync || step.op == Op::Sync),
            space: data + inodes * NOTE,
            inodes,
            ..Profile::base(OPERATION, &OPERATION_RATE, self.0.label())
        }
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        self.0.backend
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        build(
            &context.set(),
            &entries::sets(&self.0.flow, context.seed),
            context.data(),
            &context.progress,
        )
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let profile = self.profile();
        let shared = self.shared(context)?;
        let before: Vec<u64> = shared.sets.iter().map(|set| set.files.existing()).collect();
        let threads = FlowThreads {
            shared: &shared,
            durability: self.0.durability,
        };
        let outcome = match context.clock {
            ClockSpec::Fake { .. } => {
                allow_descriptors();
                threads.simulate(context, &profile, Ready::default(), gate)?
            }
            _ => threads::run(&threads, context, &profile, Ready::default(), false, gate)?,
        };
        let left = balance(
            &shared,
            before.iter().sum(),
            &thread::sum_reports(&outcome.reports),
        )?;
        let mut measurement = outcome.measurement(OPERATION);
        thread::add_reports(&shared.threads(), &outcome.reports, left, &mut measurement);
        Ok(measurement)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        let expected: u64 = self.0.flow.filesets.iter().map(|set| set.files).sum();
        // If the removal takes long, the progress shows the total number of files.
        if expected >= fileset::FEW_FILES
            && let Ok(found) = fileset::count_entries(&context.set(), expected)
        {
            context.progress.expect(found.files);
        }
        fileset::remove(&context.set(), &context.progress)
    }
}

fn steps(flow: &Flow) -> impl Iterator<Item = &FlowStep> {
    flow.threads.iter().flat_map(|thread| &thread.steps)
}

/// The estimated maximum of files that one trial appends to: in a larger set each file waits long
/// for its turn.
const APPENDED: u64 = 100_000;

/// Returns the expected bytes that the files of a set take while the flow runs.
fn space(flow: &Flow, set: &FileSet) -> u64 {
    let files = at_once(flow, set);
    // The bytes that the append steps of a thread add to a file in each of its lives.
    let appended = flow
        .threads
        .iter()
        .map(|thread: &Thread| {
            let appends = thread.steps.iter().filter(|step| step.op == Op::Append);
            let bytes = appends
                .filter_map(|step| Some((step.size?.mean() + 1) * step.iterations.unwrap_or(1)));
            bytes.sum::<u64>()
        })
        .max()
        .unwrap_or(0);
    entries::expected_bytes(set, files, BLOCK) + files.min(APPENDED) * appended
}

/// Returns the number of files of a set that exist at once: all, unless each thread deletes as many
/// as it makes.
fn at_once(flow: &Flow, set: &FileSet) -> u64 {
    let count = |thread: &Thread, op| {
        let of_set = thread
            .steps
            .iter()
            .filter(|step| step.op == op && step.set.as_ref().is_none_or(|name| *name == set.name));
        of_set.map(|step| step.iterations.unwrap_or(1)).sum::<u64>()
    };
    let mut more = 0;
    for thread in &flow.threads {
        let (made, deleted) = (count(thread, Op::Create), count(thread, Op::Delete));
        if made > deleted {
            return set.files;
        }
        more += made * thread.instances();
    }
    let there = (set.files as f64 * set.preallocated).ceil() as u64;
    // The flow draws for each file whether it exists, so the number of existing files scatters.
    let scatter = 4 * set.files.isqrt();
    (there + scatter + more).min(set.files)
}

/// Returns the expected number of files and directories of a set.
fn inodes(set: &FileSet) -> u64 {
    let entries = set.files + set.directories;
    // Directories that hold entries, the directories above them, and the set's own.
    entries + 2 * (entries / set.width.mean.max(1)) + 4
}

/// Raises the limit of descriptors, because one thread simulates all and has all their files open.
fn allow_descriptors() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If the kernel refuses, opening a file returns the error.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
}

/// Checks that the files that existed or were made, and were not deleted, exist: by the counters,
/// and in the directories. Returns their number.
fn balance(shared: &FlowShared, before: u64, tally: &thread::Tally) -> Result<u64, EngineError> {
    let left = before + tally.created - tally.deleted;
    let mut told = Found::default();
    for set in &shared.sets {
        told.files += set.files.existing();
        told.directories += set.tree.directories();
        if let Some((tree, entries)) = &set.empty {
            told.directories += tree.directories() - 1 + entries.existing();
        }
    }
    if told.files != left {
        return Err(EngineError::new(format!(
            "counts do not balance: {} files are left of {left}",
            told.files
        )));
    }
    if shared.backend.capabilities().real {
        let found = fileset::count_entries(&shared.path, told.files)?;
        if found != told {
            let (there, should) = (
                [found.files, found.directories],
                [told.files, told.directories],
            );
            let message = format!(
                "{} holds {} files in {} directories instead of {} in {} after {} were made and {} deleted",
                shared.path.display(),
                there[0],
                there[1],
                should[0],
                should[1],
                tally.created,
                tally.deleted
            );
            return Err(EngineError {
                path: Some(shared.path.clone()),
                ..EngineError::new(message)
            });
        }
    }
    Ok(left)
}

/// Bytes of one call.
const CHUNK: u64 = 1 << 20;

/// Makes all sets below `root`, and syncs them to the device.
fn build(
    root: &Path,
    sets: &[Set],
    source: DataSource,
    progress: &Progress,
) -> Result<(), EngineError> {
    fileset::make_anew(root)?;
    let open = fileset::open(root)?;
    for set in sets {
        progress.expect(set.files.existing());
    }
    for set in sets {
        directories(root, &open, set)?;
        files(root, &open, set, source, progress)?;
    }
    fileset::sync_through(&open, root)
}

fn directories(root: &Path, open: &Directory, set: &Set) -> Result<(), EngineError> {
    let mut path_buffer = [0; LONGEST_PATH];
    let make = |path: &std::ffi::CStr| {
        let made = rustix::fs::mkdirat(open.fd(), path, Mode::from_raw_mode(0o755));
        made.map_err(|errno| {
            EngineError::call(
                "make directory",
                root.join(path.to_string_lossy().as_ref()),
                errno,
            )
        })
    };
    // Parents have smaller numbers than their subdirectories.
    for number in 0..set.tree.directories() {
        make(set.tree.directory(number, &mut path_buffer))?;
    }
    let Some((tree, entries)) = &set.empty else {
        return Ok(());
    };
    // The set's own directory exists already.
    for number in 1..tree.directories() {
        make(tree.directory(number, &mut path_buffer))?;
    }
    for entry in (0..entries.len()).filter(|&entry| entries.exists(entry)) {
        make(tree.entry(entry, &mut path_buffer))?;
    }
    Ok(())
}

fn files(
    root: &Path,
    open: &Directory,
    set: &Set,
    source: DataSource,
    progress: &Progress,
) -> Result<(), EngineError> {
    // A single thread makes a small set in the order of names, so that its layout is the same each
    // time.
    let threads = if set.files.len() < FEW_FILES {
        1
    } else {
        fileset::helper_threads()
    };
    let next = AtomicUsize::new(0);
    let (stopped, failed) = (AtomicBool::new(false), Mutex::new(None));
    // Threads also share a directory of a million files, in pieces.
    let pieces = Pieces::new(set, threads);
    let maker = || {
        let mut data = Data::new(source, CHUNK as usize);
        let mut path_buffer = [0; LONGEST_PATH];
        while let (false, Some(piece)) = (
            stopped.load(Ordering::Relaxed),
            pieces.get(next.fetch_add(1, Ordering::Relaxed)),
        ) {
            for file in piece.filter(|&file| set.files.exists(file)) {
                if let Err(error) = make_file(root, open, set, file, &mut data, &mut path_buffer) {
                    stopped.store(true, Ordering::Relaxed);
                    failed
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .get_or_insert(error);
                    return;
                }
                progress.add(1);
            }
        }
    };
    if threads == 1 {
        maker();
    } else {
        scope(|scope| {
            // Fewer threads are enough, so a failed spawn is ignored.
            (1..threads).for_each(|_| drop(Builder::new().spawn_scoped(scope, maker)));
            maker();
        });
    }
    failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

/// Ranges of files that threads take one after another: one range per directory, several for a
/// large directory.
struct Pieces {
    starts: Vec<u64>,
}

impl Pieces {
    fn new(set: &Set, threads: usize) -> Pieces {
        let longest = if threads == 1 {
            u64::MAX
        } else {
            (set.files.len() / 64).max(1)
        };
        let mut starts = Vec::new();
        for leaf in 0..set.tree.leaves() {
            let mut files = set.tree.entries_of(leaf);
            while files.start < files.end {
                starts.push(files.start);
                files.start = files.start.saturating_add(longest).min(files.end);
            }
        }
        starts.push(set.files.len());
        Pieces { starts }
    }

    fn get(&self, number: usize) -> Option<std::ops::Range<u64>> {
        Some(*self.starts.get(number)?..*self.starts.get(number + 1)?)
    }
}

fn make_file(
    root: &Path,
    open: &Directory,
    set: &Set,
    file: u64,
    data: &mut Data,
    path_buffer: &mut PathBuffer,
) -> Result<(), EngineError> {
    let path = set.tree.entry(file, path_buffer);
    let failed =
        |call, errno| EngineError::call(call, root.join(path.to_string_lossy().as_ref()), errno);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let made = rustix::fs::openat(open.fd(), path, flags, Mode::from_raw_mode(0o644));
    let made = made.map_err(|errno| failed("create", errno))?;
    let (address, size) = (set.address(file, 0), set.size(file));
    let mut offset = 0;
    while offset < size {
        let bytes = data.window(address + offset, CHUNK.min(size - offset) as usize);
        match rustix::io::pwrite(made.as_fd(), bytes, offset) {
            Ok(written) => offset += written as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(failed("write to", errno)),
        }
    }
    Ok(())
}

/// Resolved parameters.
#[derive(Clone)]
struct FlowOptions {
    /// The flow as the threads perform it.
    flow: Flow,
    /// The flow as published; the label lists the differences.
    published: Flow,
    /// Whether the flow itself is a parameter.
    given: bool,
    backend: &'static dyn Backend,
    durability: Durability,
    verify: bool,
    /// One of several sizes.
    matrix: bool,
    label: Option<String>,
}

/// Returns the table of parameters of a personality: its flow gives the defaults.
fn parameters(text: &str) -> Vec<Parameter> {
    let flow = Flow::from_toml(text).ok();
    table(flow.as_ref())
}

/// Returns the table of parameters of any flow.
fn any_parameters() -> Vec<Parameter> {
    let text = Parameter::new(
        "flow",
        ParameterKind::Lines,
        OF_EXAMPLE,
        "operations of each thread: docs/flow.md",
    );
    let mut all = group(ParameterGroup::Work, [text]);
    all.extend(table(None));
    all
}

/// The default of a parameter that changes a value of the flow.
const OF_FLOW: ParameterDefault = ParameterDefault::Derived("as in the flow");
/// The default flow.
const OF_EXAMPLE: ParameterDefault = ParameterDefault::Derived("a small example");

fn table(flow: Option<&Flow>) -> Vec<Parameter> {
    use ParameterKind::{Fraction, Number, Size};
    let first = flow.map(|flow| &flow.filesets[0]);
    fn or_of_flow(value: Option<String>) -> ParameterDefault {
        value.map_or(OF_FLOW, ParameterDefault::from)
    }
    fn number(value: Option<u64>) -> ParameterDefault {
        or_of_flow(value.map(|value| value.to_string()))
    }
    let rate = or_of_flow(flow.map(|flow| flow.rate.unwrap_or(0.0).to_string()));
    let pick = or_of_flow(first.map(|set| set.pick.name().to_owned()));
    let threads = number(flow.map(|flow| instances(flow, most_numerous(flow))));
    let (durabilities, durability) = match flow {
        None => (
            Durability::ALL,
            ParameterDefault::Derived("each if the flow syncs each write, else end"),
        ),
        Some(flow) if flow.is_durable_each() => (&[Durability::Each][..], "each".into()),
        Some(_) => (&[Durability::None, Durability::End][..], "end".into()),
    };
    let mut all = group(
        ParameterGroup::Work,
        [Parameter::new(
            "rate",
            Fraction(0.0..=1e9),
            rate,
            "operations per second; 0 for no limit",
        )
        .sweeps()],
    );
    all.extend(group(
        ParameterGroup::Files,
        [
            Parameter::new(
                "files",
                Number(0..=MOST_FILES),
                number(first.map(|set| set.files)),
                "files of the first set",
            ),
            Parameter::new(
                "file_size",
                Size(0..=1 << 44),
                number(first.map(|set| set.size.mean())),
                "mean size of a file",
            )
            .sweeps(),
            Parameter::new(
                "width",
                Number(1..=1 << 40),
                number(first.map(|set| set.width.mean)),
                "mean entries of a directory",
            ),
            Parameter::word(
                "pick",
                &Pick::ALL,
                Pick::name,
                "order in which threads take files",
            )
            .default(pick),
            parameter::data(),
        ],
    ));
    let about = "threads of the most numerous kind; 0 for one per processor";
    let threads = Parameter::new("threads", Number(0..=MOST_THREADS), threads, about).sweeps();
    all.extend(group(
        ParameterGroup::Calls,
        [parameter::sequential_backend(), threads],
    ));
    all.extend(group(
        ParameterGroup::State,
        [parameter::durability(durabilities).default(durability)],
    ));
    all.extend(group(
        ParameterGroup::Results,
        [parameter::verify(), parameter::label()],
    ));
    all.extend(group(ParameterGroup::Resolved, [parameter::matrix()]));
    all
}

impl FlowOptions {
    /// Reads the parameters of a flow. If `given` is set, the flow is a parameter too, and `usual`
    /// its default; otherwise `usual` is the flow.
    fn parse(
        name: &str,
        params: &Params,
        sizing: &Sizing,
        usual: &str,
        given: bool,
    ) -> Result<FlowOptions, ParamError> {
        let table = if given {
            any_parameters()
        } else {
            parameters(usual)
        };
        let mut reader = Reader::new(name, table, params, sizing)?;
        let text = if given {
            reader.long_text("flow")?
        } else {
            None
        };
        let text = text.as_deref().unwrap_or(usual);
        let published = Flow::from_toml(text).map_err(|why| reader.error("flow", why))?;
        let mut flow = published.clone();
        change(&mut flow, &mut reader)?;
        let own = flow.is_durable_each();
        let durabilities: &[Durability] = if own {
            &[Durability::Each]
        } else {
            &[Durability::None, Durability::End]
        };
        let durability = reader.optional_word("durability", Durability::ALL, Durability::name)?;
        if let Some(wrong) = durability.filter(|one| !durabilities.contains(one)) {
            let words: Vec<_> = durabilities.iter().map(|one| one.name()).collect();
            return Err(reader.error(
                "durability",
                format!(
                    "'{}' is not allowed: use {}",
                    wrong.name(),
                    words.join(" or ")
                ),
            ));
        }
        let options = FlowOptions {
            flow,
            published,
            given,
            backend: reader.backend()?,
            durability: durability.unwrap_or(if own {
                Durability::Each
            } else {
                Durability::End
            }),
            verify: reader.flag("verify")?,
            matrix: reader.flag("matrix")?,
            label: reader.text("label")?,
        };
        if let Some(problem) = options.flow.check().first() {
            return Err(reader.error(key_of(problem), problem.to_string()));
        }
        reader.finish();
        Ok(options)
    }

    /// Returns the complete parameters: parsing them gives the same job.
    fn params(&self) -> Params {
        let flow = &self.flow;
        let mut params = params::from_pairs([
            ("durability", self.durability.name().into()),
            ("verify", self.verify.into()),
        ]);
        let mut add =
            |key: &str, value: serde_json::Value| drop(params.insert(key.to_owned(), value));
        if self.given {
            add("flow", flow.to_toml().into());
        } else {
            let first = &flow.filesets[0];
            add("files", first.files.into());
            add("file_size", first.size.mean().into());
            add("width", first.width.mean.into());
            add("pick", first.pick.name().into());
            add(
                "threads",
                instances(flow, most_numerous(&self.published)).into(),
            );
            if self.published.rate.is_some() || flow.rate.is_some() {
                add("rate", flow.rate.unwrap_or(0.0).into());
            }
        }
        params::add_backend(&mut params, self.backend);
        let mut add =
            |key: &str, value: serde_json::Value| drop(params.insert(key.to_owned(), value));
        if self.matrix {
            add("matrix", true.into());
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params
    }

    /// Returns the label: the name, the differences from the published flow, the durability, the
    /// backend and the verification.
    fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let (flow, published) = (&self.flow, &self.published);
        let mut label = flow.name.clone();
        let (now, then) = (&flow.filesets[0], &published.filesets[0]);
        if now.files != then.files {
            label += &format!(", {} files", now.files);
        }
        if now.size.mean() != then.size.mean() {
            // A size that is computed from another one is not a round number.
            let (mean, exact) = (now.size.mean(), Bytes(now.size.mean()).to_string());
            let size = if exact.len() <= 5 {
                exact
            } else {
                show_bytes(mean as f64)
            };
            label += &format!(", files of {size}");
        }
        if now.width.mean != then.width.mean {
            label += &format!(", width {}", now.width.mean);
        }
        if now.pick != then.pick {
            label += &format!(
                ", {} files",
                if now.pick == Pick::Random {
                    "random"
                } else {
                    "rotating"
                }
            );
        }
        if flow.rate != published.rate {
            label += &flow
                .rate
                .map_or(", no limit".to_owned(), |rate| format!(", rate {rate}"));
        }
        label += match self.durability {
            Durability::Each => ", each write synced",
            other => label::durable(other),
        };
        label += &label::backend(self.backend);
        label += label::verified(self.verify);
        let kind = most_numerous(published);
        let threads = instances(flow, kind);
        if threads != instances(published, kind) {
            label += &format!(", {threads} thread{}", if threads == 1 { "" } else { "s" });
        }
        label
    }
}

/// Returns the index of the most numerous kind of thread as published, which the parameter
/// `threads` changes.
fn most_numerous(published: &Flow) -> usize {
    let most = published
        .threads
        .iter()
        .map(fsb_model::flow::Thread::instances)
        .max();
    published
        .threads
        .iter()
        .position(|thread| Some(thread.instances()) == most)
        .unwrap_or(0)
}

/// Returns the number of threads of a kind.
fn instances(flow: &Flow, kind: usize) -> u64 {
    flow.threads
        .get(kind)
        .map_or(0, fsb_model::flow::Thread::instances)
}

/// Changes the flow according to the parameters. `files`, `width` and `pick` change the first set.
/// `file_size` changes that set and all sets with the same mean. `threads` changes the most
/// numerous kind of thread.
fn change(flow: &mut Flow, reader: &mut Reader<'_>) -> Result<(), ParamError> {
    let first = flow.filesets[0].clone();
    let kind = most_numerous(flow);
    // A set may consist of directories alone.
    let least = u64::from(first.directories == 0);
    let files = reader.number_or("files", first.files)?;
    let files = reader.within("files", files, least..=MOST_FILES)?;
    let mean = reader.number_or("file_size", first.size.mean())?;
    let width = reader.number_or("width", first.width.mean)?;
    let pick = reader
        .optional_word("pick", &Pick::ALL, Pick::name)?
        .unwrap_or(first.pick);
    let threads = reader.number_or("threads", instances(flow, kind))?;
    let threads = if threads == 0 {
        u64::from(reader.cpus())
    } else {
        threads
    };
    let rate = if reader.take("rate").is_some() {
        reader.fraction("rate")?
    } else {
        flow.rate.unwrap_or(0.0)
    };
    for set in &mut flow.filesets {
        if set.size.mean() == first.size.mean() && mean != first.size.mean() {
            set.size = set.size.with_mean(mean);
        }
    }
    let set = &mut flow.filesets[0];
    (set.files, set.width.mean, set.pick) = (files, width, pick);
    flow.rate = (rate > 0.0).then_some(rate);
    if let Some(thread) = flow.threads.get_mut(kind) {
        // If the kind has several processes with one thread each, the number of processes changes.
        let (many, one) = if thread.processes > 1 && thread.threads == 1 {
            (&mut thread.processes, 1)
        } else {
            (&mut thread.threads, thread.processes)
        };
        if u64::from(one) * u64::from(*many) != threads {
            *many = (threads as u32).div_ceil(one);
        }
    }
    Ok(())
}

/// Returns the parameter that a problem is about, as far as its place shows.
fn key_of(problem: &Problem) -> &'static str {
    if problem.place == "thread" {
        "threads"
    } else {
        "flow"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space_of(text: &str, change: impl Fn(&mut FileSet)) -> u64 {
        let mut flow = Flow::from_toml(text).unwrap();
        change(&mut flow.filesets[0]);
        space(&flow, &flow.filesets[0])
    }

    #[test]
    fn many_small_mails_are_not_all_appended_to() {
        let usual = space_of(VARMAIL.text, |_| ());
        assert!(
            (900 * (32 << 10)..1000 * (40 << 10)).contains(&usual),
            "{usual}"
        );
        let many = space_of(VARMAIL.text, |set| {
            (set.files, set.size) = (
                1_000_000,
                fsb_model::flow::Spread::Exact(fsb_model::Bytes(256)),
            );
        });
        // 800,000 blocks, and two appended mails for each of the files that a trial reaches.
        assert!(
            (800_000 * BLOCK + APPENDED * (16 << 10)..6 << 30).contains(&many),
            "{many}"
        );
    }

    #[test]
    fn files_that_nobody_deletes_may_all_be_there() {
        let more = |text: &str| {
            let flow = Flow::from_toml(text).unwrap();
            at_once(&flow, &flow.filesets[0])
        };
        assert!((8000..9000).contains(&more(FILESERVER.text)));
        let kept: String = FILESERVER
            .text
            .lines()
            .filter(|line| !line.contains("delete\""))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(more(&kept), 10_000);
    }
}
