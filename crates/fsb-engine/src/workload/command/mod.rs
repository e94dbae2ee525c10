//! The workload `command`: runs any command in the target's directory, with other commands before
//! and after it.
//!
//! Each run begins in a new directory with the inputs, after `setup` and `prepare`. `verify` runs
//! after each sample, `cleanup` after the trial. With `reuse`, all runs of a trial share one
//! directory: `setup` runs once, `prepare` before each run. The clock covers the command and the
//! syncfs that makes its work durable. Programs run like the worker: as its user, with write access
//! only to the target, a private /dev/shm (TMPDIR), and the paths in `writable`.
//!
//! In rounds, the measuring worker makes the directories of all runs of a sample before the sample,
//! and removes those of the sample before. A new directory is made by the same steps again. It is
//! not a copy, which would have another layout than the files that `setup` writes, and would
//! contain paths of the original.

mod program;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsb_model::metric::{COMMAND_TIME, FAILED_RUNS};
use fsb_model::trial::SERVICE;
use fsb_model::variant::PLACEHOLDER;
use fsb_model::workload::{DIRECTORY, ProgramLimits, VERIFY_SAME};
use fsb_model::{Better, Bytes, CacheState, Durability, Params};
use program::{Ended, Pattern, PrintedMetric, Running, Script, Surroundings};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::job::{Job, WorkUnit, Workload};
use super::parameter::ParameterDefault::{self, Absent};
use super::parameter::{self, Parameter, ParameterGroup, ParameterKind, group};
use super::params::{self, Reader};
use crate::backend::{self, Backend, Directory};
use crate::clock::OperationKind;
use crate::error::{EngineError, ParamError};
use crate::fileset;
use crate::profile::{Profile, ProgramNeeds};
use crate::task::{Context, Gate, Measurement, Preparing, Ready, Sizing};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};

/// The name of the operation that a run of the command counts as.
const OPERATION: &str = "command";

/// The member.
pub(super) struct Command;

impl Workload for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn about(&self) -> &'static str {
        "any command of yours, such as a build or a database's benchmark, in the target's directory"
    }

    fn example(&self) -> Params {
        params::from_pairs([
            ("command", "echo one > file && sync file".into()),
            ("prepare", "rm -f file".into()),
        ])
    }

    fn parameters(&self) -> Vec<Parameter> {
        parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(CommandJob(CommandOptions::parse(
            self.name(),
            params,
            sizing,
        )?)))
    }
}

struct CommandJob(CommandOptions);

impl CommandJob {
    fn surroundings(&self, context: &Context) -> Surroundings {
        let own = Surroundings {
            directory: context.set(),
            seed: context.seed,
            trial: context.repetition,
            longest: Duration::from_secs_f64(self.0.time_limit),
            here: false,
        };
        match &self.0.directory {
            None => own,
            Some(directory) => Surroundings {
                directory: directory.clone(),
                here: true,
                ..own
            },
        }
    }

    /// Returns whether the measuring worker makes a new directory for each run.
    fn renews_inside(&self) -> bool {
        self.0.prepare_inside && !self.0.reuse
    }

    /// Returns the surroundings of a run of a sample.
    fn place(&self, context: &Context, run: u64) -> Surroundings {
        let around = self.surroundings(context);
        if !self.renews_inside() {
            return around;
        }
        Surroundings {
            directory: around.directory.join(format!("run{run}")),
            ..around
        }
    }

    /// Returns the surroundings of each run of a sample, or one element if all runs share a
    /// directory.
    fn places(&self, context: &Context) -> Vec<Surroundings> {
        let count = if self.renews_inside() {
            context.operations.max(1)
        } else {
            1
        };
        (0..count).map(|run| self.place(context, run)).collect()
    }

    /// Runs a script, if there is one. Returns an error unless it exits with 0 in time.
    fn must(&self, script: Option<&Script>, around: &Surroundings) -> Result<(), EngineError> {
        let Some(script) = script else { return Ok(()) };
        let ended = program::run(script, around)?;
        if ended.is_ok(&[0]) {
            Ok(())
        } else {
            Err(ended.failure(script, around))
        }
    }

    /// Makes a new directory with the inputs and the files of `setup`. A directory of the user gets
    /// the latter alone.
    fn make_place(&self, around: &Surroundings) -> Result<(), EngineError> {
        if !around.here {
            fileset::make_anew(&around.directory)?;
        }
        for input in &self.0.input {
            self.must(Some(&copy_of(input)), around)?;
        }
        let setup = self.must(self.0.setup.as_ref(), around);
        program::end_all(around);
        setup
    }

    /// Does work while the services run.
    fn beside_services(
        &self,
        around: &Surroundings,
        work: impl FnOnce() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut services = Services::start(&self.0.services, around)?;
        let done = work();
        let stopped = services.stop();
        program::end_all(around);
        done.and(stopped)
    }

    /// Runs `prepare` in a directory that has the files of `setup`. For a warm cache, first runs
    /// the command once, which loads programs and other files into the page cache. The files of a
    /// new directory are loaded by reading them.
    fn make_ready(&self, around: &Surroundings) -> Result<(), EngineError> {
        let prepare = || self.must(self.0.prepare.as_ref(), around);
        let warm = self.0.cache == CacheState::Warm;
        if warm {
            self.beside_services(around, || {
                prepare().and_then(|()| self.run_once(around)).map(drop)
            })?;
            if !self.0.reuse {
                self.make_place(around)?;
            }
        }
        // In rounds, `prepare` runs before the first run as before any other.
        let comes_later = around.here && self.0.prepare_inside;
        if self.0.prepare.is_some() && !comes_later {
            self.beside_services(around, prepare)?;
        }
        if warm && !self.0.reuse {
            fileset::read_tree(&around.directory)
        } else {
            Ok(())
        }
    }

    /// Makes the directories of a sample in rounds. The prepare step made the first one of the
    /// trial.
    fn renew(&self, context: &Context, places: &[Surroundings]) -> Result<(), EngineError> {
        let first_is_ready = context.repetition == 0;
        if !first_is_ready {
            fileset::make_anew(&context.set())?;
        }
        places
            .iter()
            .skip(usize::from(first_is_ready))
            .try_for_each(|around| self.make_place(around))?;
        if !first_is_ready {
            self.must(self.0.prepare.as_ref(), &places[0])?;
        }
        if self.0.cache == CacheState::Warm {
            places
                .iter()
                .try_for_each(|around| fileset::read_tree(&around.directory))?;
        }
        fileset::sync(&context.set())
    }

    /// Runs `prepare` before each run but the first, and syncs its work.
    fn prepare_again(&self, around: &Surroundings) -> Result<(), EngineError> {
        self.must(self.0.prepare.as_ref(), around)?;
        self.sync(around)
    }

    /// Syncs the file system of the directory, unless it is the user's and nothing is to be
    /// durable.
    fn sync(&self, around: &Surroundings) -> Result<(), EngineError> {
        match around.here && self.0.durability == Durability::None {
            true => Ok(()),
            false => fileset::sync(&around.directory),
        }
    }

    /// Makes the requested number of runs that do not count.
    fn warm_up(&self, around: &Surroundings) -> Result<(), EngineError> {
        let comes_later = self.0.prepare_inside;
        for run in 0..self.0.warm_up {
            if run > 0 || comes_later {
                self.must(self.0.prepare.as_ref(), around)?;
            }
            self.run_once(around)?;
        }
        if self.0.warm_up > 0 && !comes_later {
            self.must(self.0.prepare.as_ref(), around)?;
        }
        Ok(())
    }

    fn run_once(&self, around: &Surroundings) -> Result<Ended, EngineError> {
        let ended = program::run(&self.0.command, around)?;
        if ended.is_ok(&self.0.ok_exit) || (self.0.ignore_failure && ended.has_code()) {
            Ok(ended)
        } else {
            Err(ended.failure(&self.0.command, around))
        }
    }
}

impl Job for CommandJob {
    fn profile(&self) -> Profile {
        let CommandOptions {
            durability, cache, ..
        } = self.0;
        Profile {
            durability,
            cache,
            reaches_device: durability != Durability::None || cache == CacheState::Cold,
            program: Some(ProgramNeeds {
                writable: self.0.writable.clone(),
                network: self.0.network,
                limits: self.0.limits,
                longest: self.0.time_limit,
                reuse: self.0.reuse,
                here: self.0.directory.is_some(),
                printed: self
                    .0
                    .metrics
                    .iter()
                    .map(|metric| (metric.name.clone(), metric.better))
                    .collect(),
            }),
            ..Profile::base(OPERATION, &COMMAND_TIME, self.0.label())
        }
    }

    fn own_data(&self) -> Option<&'static str> {
        Some("it runs a program, whose data are its own")
    }

    fn params(&self) -> Params {
        self.0.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        backend::CALLS
    }

    /// Returns the unit, one run of the command. Returns `None` for a cold cache, which needs a
    /// remount before each run, and with services, which are not started for each run.
    fn unit(&self) -> Option<WorkUnit> {
        if self.0.cache == CacheState::Cold || !self.0.services.is_empty() {
            return None;
        }
        let mut params = self.params();
        params.insert(PREPARE_INSIDE.to_owned(), true.into());
        Some(WorkUnit {
            params,
            own_files: false,
            only_warmed: false,
            operations: 1,
        })
    }

    /// Makes a new directory, unless it reuses that of an earlier repetition. In rounds, makes that
    /// of the first run.
    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        program::adopt_orphans();
        if self.renews_inside() {
            fileset::make_anew(&context.set())?;
        }
        let around = self.place(context, 0);
        if context.repetition == 0 || !self.0.reuse {
            self.make_place(&around)?;
        }
        self.make_ready(&around)?;
        if context.repetition == 0 {
            self.warm_up(&around)?;
        }
        match context.preparing {
            Preparing::Files => Ok(()),
            _ => self.sync(&around),
        }
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let places = self.places(context);
        let around = &places[0];
        let real = context.backend(backend::CALLS).capabilities().real;
        if real {
            program::adopt_orphans();
        }
        if real && self.renews_inside() {
            self.renew(context, &places)?;
        }
        let root = if real {
            Some(fileset::open(&around.directory)?)
        } else {
            None
        };
        let mut services = Services::start(if real { &self.0.services } else { &[] }, around)?;
        if real && self.0.prepare_inside && self.0.reuse {
            self.prepare_again(around)?;
        }
        let shell_start = match real && around.here {
            true => self.0.command.shell_start(around)?,
            false => None,
        };
        let thread = CommandThread {
            job: self,
            places: &places,
            runs: context.operations,
            root: root.as_ref(),
            services: services.processes(),
        };
        let outcome = threads::run(
            &thread,
            context,
            &self.profile(),
            Ready::default(),
            false,
            gate,
        );
        let checked = outcome.and_then(|outcome| {
            if real {
                places
                    .iter()
                    .try_for_each(|around| self.must(self.0.verify.as_ref(), around))
                    .map(|()| outcome)
            } else {
                Ok(outcome)
            }
        });
        let stopped = services.stop();
        places.iter().for_each(program::end_all);
        let (mut outcome, ()) = (checked?, stopped?);
        let mut measurement = outcome.measurement(OPERATION);
        // The clock is paused between two runs.
        measurement.timed_ns = measurement
            .workers
            .iter()
            .map(|worker| worker.timed_ns)
            .sum();
        if let Some(mut ended) = outcome.reports.pop().flatten() {
            ended.read();
            measurement.printed = program::find(&self.0.metrics, &ended)?;
            measurement.output = Some(ended.tail()).filter(|text| !text.is_empty());
            measurement.peak_memory = Some(ended.peak_memory);
            measurement.shell_start = shell_start;
            if self.0.ignore_failure || self.0.ok_exit != [0] {
                let runs = ended.failed_runs;
                measurement.counts.insert(FAILED_RUNS.name.to_owned(), runs);
            }
            measurement.user_seconds += ended.user_seconds;
            measurement.system_seconds += ended.system_seconds;
        } else {
            measurement.printed = self
                .0
                .metrics
                .iter()
                .map(|metric| (metric.name.clone(), 1.0))
                .collect();
        }
        Ok(measurement)
    }

    fn end_programs(&self, context: &Context) {
        program::end_all(&self.surroundings(context));
    }

    /// Changes nothing between repetitions: `prepare` makes the necessary changes.
    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        if context.repetition > 0 {
            return Ok(());
        }
        program::adopt_orphans();
        let around = self.place(context, 0);
        let cleaned = if around.directory.is_dir() {
            self.must(self.0.cleanup.as_ref(), &around)
        } else {
            Ok(())
        };
        program::end_all(&around);
        fileset::remove(&context.set(), &context.progress).and(cleaned)
    }
}

/// Copies a file or a directory into the target, with its times and modes.
fn copy_of(input: &Path) -> Script {
    Script::Words(vec![
        "cp".into(),
        "-a".into(),
        "--".into(),
        input.to_string_lossy().into_owned(),
        ".".into(),
    ])
}

/// The one thread that times the command.
struct CommandThread<'j> {
    job: &'j CommandJob,
    /// The surroundings of each run, or those of all.
    places: &'j [Surroundings],
    /// Number of runs.
    runs: u64,
    /// `None` on a backend that touches nothing.
    root: Option<&'j Directory>,
    /// Process IDs of the services that run beside the command.
    services: Vec<u32>,
}

impl ThreadJob for CommandThread<'_> {
    type ThreadState = Option<Ended>;
    type Report = Option<Ended>;

    fn init(&self, _: u32) -> Result<Option<Ended>, EngineError> {
        Ok(None)
    }

    fn run(
        &self,
        state: &mut Option<Ended>,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        let CommandThread {
            job, places, root, ..
        } = *self;
        let (mut cpu, mut failed_runs) = ([0.0; 2], 0);
        for run in 0..self.runs {
            let around = &places[(run as usize).min(places.len() - 1)];
            if run > 0 && root.is_some() && (job.0.reuse || job.0.prepare.is_some()) {
                job.prepare_again(around)?;
            }
            let before = program::cpu_seconds(&self.services);
            recorder.start();
            if root.is_some() {
                let ended = job.run_once(around)?;
                cpu = [cpu[0] + ended.user_seconds, cpu[1] + ended.system_seconds];
                failed_runs += u64::from(!ended.is_ok(&[0]));
                *state = Some(ended);
            }
            recorder.lap(OperationKind::Create, 0);
            if job.0.durability == Durability::End {
                recorder
                    .sync(0, || match root {
                        Some(root) => backend::CALLS.namespace().sync_file_system(root),
                        None => Ok(()),
                    })
                    .map_err(|errno| EngineError::call("syncfs of", &around.directory, errno))?;
            }
            recorder.pause();
            let after = program::cpu_seconds(&self.services);
            cpu = [cpu[0] + after[0] - before[0], cpu[1] + after[1] - before[1]];
        }
        if let Some(ended) = state {
            [ended.user_seconds, ended.system_seconds] = cpu;
            ended.failed_runs = failed_runs;
        }
        Ok(())
    }

    fn report(&self, state: Option<Ended>) -> Option<Ended> {
        state
    }
}

/// The longest time until a service is ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest time until a service has stopped.
const STOP_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 120 });
/// Time between two checks of a service that is not ready yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Running services. Dropping them leaves them running until the worker ends.
struct Services<'o> {
    running: Vec<(&'o Service, Running)>,
}

impl<'o> Services<'o> {
    /// Starts the services one after another, each once the one before is ready. If one fails,
    /// stops all.
    fn start(services: &'o [Service], around: &Surroundings) -> Result<Services<'o>, EngineError> {
        let mut all = Services {
            running: Vec::new(),
        };
        for service in services {
            let started = program::start(&service.command, around)
                .and_then(|running| until_ready(service, running, around));
            match started {
                Ok(running) => all.running.push((service, running)),
                Err(error) => {
                    let _ = all.stop();
                    return Err(error.coded(&SERVICE));
                }
            }
        }
        Ok(all)
    }

    /// Returns the process IDs of the services.
    fn processes(&self) -> Vec<u32> {
        self.running
            .iter()
            .map(|(_, running)| running.id())
            .collect()
    }

    /// Stops the services, the last one first. Returns an error if one had ended by itself, or does
    /// not stop in time.
    fn stop(&mut self) -> Result<(), EngineError> {
        let mut answer = Ok(());
        while let Some((service, running)) = self.running.pop() {
            let shown = service.command.shown();
            let ended_before = !running.outlasts(Duration::ZERO);
            running.signal(Signal::from_named_raw(service.stop).unwrap_or(Signal::TERM));
            let ended = running.wait(STOP_PATIENCE);
            let found = match ended {
                Ok(mut ended) if ended_before => {
                    ended.read();
                    Err(EngineError::new(format!(
                        "{shown}: the service ended by itself: {}",
                        ended.last_words()
                    )))
                }
                Ok(ended) if ended.is_late() => Err(EngineError::new(format!(
                    "{shown}: the service did not stop within {} s",
                    STOP_PATIENCE.as_secs()
                ))),
                Ok(_) => Ok(()),
                Err(error) => Err(EngineError::new(format!(
                    "{shown}: cannot wait for the service: {error}"
                ))),
            };
            answer = answer.and(found);
        }
        answer.map_err(|error| error.coded(&SERVICE))
    }
}

/// Waits until a service is ready: repeats its `ready` command until that succeeds.
fn until_ready(
    service: &Service,
    running: Running,
    around: &Surroundings,
) -> Result<Running, EngineError> {
    let Some(ready) = &service.ready else {
        return Ok(running);
    };
    let (shown, begun) = (service.command.shown(), Instant::now());
    loop {
        let asked = program::run(ready, around)?;
        if asked.is_ok(&[0]) {
            return Ok(running);
        }
        if !running.outlasts(PAUSE) {
            let mut ended = running
                .wait(Duration::ZERO)
                .map_err(|error| EngineError::new(error.to_string()))?;
            ended.read();
            return Err(EngineError::new(format!(
                "{shown}: the service ended before it was ready: {}",
                ended.last_words()
            )));
        }
        if begun.elapsed() >= PATIENCE {
            running.signal(Signal::KILL);
            let said = running.wait(PATIENCE).map(|mut ended| {
                ended.read();
                ended.last_words()
            });
            return Err(EngineError::new(format!(
                "{shown}: the service was not ready after {} s ('{}' did not end well): {}",
                PATIENCE.as_secs(),
                ready.shown(),
                said.unwrap_or_default()
            )));
        }
    }
}

/// Default time limit of a command, in seconds.
const TIME_LIMIT: f64 = 3600.0;
/// The parameter for runs that do not count.
const WARM_UP: &str = "warm_up";
/// The parameter that units of commands have.
const PREPARE_INSIDE: &str = "prepare_inside";
/// Processes that a command may be given: Linux numbers 4,194,304 at most.
const MOST_PROCESSES: u64 = 1 << 22;
/// Open files of a process: a shell needs a few, and Linux allows 1,048,576 unless an administrator
/// raises that.
const LEAST_FILES: u64 = 16;
const MOST_FILES: u64 = 1 << 20;
/// Runs that come before those that count.
const MOST_WARM_UP: u64 = 1000;
/// Bytes that a process of a shell needs.
const LEAST_MEMORY: u64 = 16 << 20;
/// Characters of a command in a label.
const SHOWN: usize = 48;

/// A program that runs beside the command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Service {
    command: Script,
    /// Command that succeeds once the service is ready.
    ready: Option<Script>,
    /// The signal that stops the service.
    stop: i32,
}

/// Resolved parameters.
struct CommandOptions {
    command: Script,
    setup: Option<Script>,
    prepare: Option<Script>,
    cleanup: Option<Script>,
    verify: Option<Script>,
    input: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    ok_exit: Vec<i32>,
    /// No exit code is a failure.
    ignore_failure: bool,
    /// Seconds.
    time_limit: f64,
    limits: ProgramLimits,
    /// Programs share the network of the machine.
    network: bool,
    cache: CacheState,
    durability: Durability,
    /// All runs of a trial share one directory.
    reuse: bool,
    /// The existing directory to run in, as it is; `None` for directories on the target.
    directory: Option<PathBuf>,
    /// Runs before the first one that counts.
    warm_up: u64,
    metrics: Vec<PrintedMetric>,
    services: Vec<Service>,
    /// The command must print the same on all targets; the judge of the run compares.
    verify_same: bool,
    /// The measuring worker runs `prepare` itself before each run: within a race round no other
    /// step runs in between.
    prepare_inside: bool,
    label: Option<String>,
}

/// Returns the table of parameters.
fn parameters() -> Vec<Parameter> {
    use ParameterKind::{Command, Duration, ExitCodes, Number, Paths, Size, Tables};
    let ProgramLimits {
        processes, files, ..
    } = ProgramLimits::default();
    let command = ParameterDefault::Required("command = \"make -j2\"");
    let codes = ParameterDefault::Value("0".into());
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new(
                "command",
                Command,
                command,
                "command to measure, in the target's directory",
            ),
            Parameter::new(
                "setup",
                Command,
                Absent,
                "command to run in each new directory, before the others",
            ),
            Parameter::new(
                "prepare",
                Command,
                Absent,
                "command to run before each run, not measured",
            ),
            Parameter::new(
                "cleanup",
                Command,
                Absent,
                "command to run after each trial",
            ),
            Parameter::new(
                "input",
                Paths,
                Absent,
                "files and directories to copy into each new directory before setup",
            ),
            Parameter::new(
                DIRECTORY,
                ParameterKind::Path,
                Absent,
                "existing directory to run in instead, as your user and with your environment",
            ),
            Parameter::new(
                WARM_UP,
                Number(0..=MOST_WARM_UP),
                "0",
                "runs in that directory before those that count, in each block",
            ),
            Parameter::new(
                "ok_exit",
                ExitCodes,
                codes,
                "exit codes that are no failure",
            ),
            Parameter::flag(
                "ignore_failure",
                "no exit code is a failure; the report counts the runs that end with another code than 0",
            ),
        ],
    );
    all.extend(group(
        ParameterGroup::State,
        [
            parameter::cache(&[CacheState::Any, CacheState::Cold, CacheState::Warm]),
            parameter::durability(&[Durability::End, Durability::None]),
            Parameter::flag(
                "reuse",
                "run in the directory that earlier runs left, instead of a new one for each run",
            ),
        ],
    ));
    let limit = Duration(1.0..=7.0 * 86_400.0);
    all.extend(group(
        ParameterGroup::Programs,
        [
            Parameter::new(
                "service",
                Tables(&["command", "ready", "stop"]),
                Absent,
                "programs that run beside the command, such as a server",
            ),
            Parameter::new(
                "writable",
                Paths,
                Absent,
                "directories outside the target that commands may write to",
            ),
            Parameter::flag("network", "share the network of this machine with commands"),
            Parameter::new("time_limit", limit, "1h", "time limit of each command"),
            Parameter::new(
                "process_limit",
                Number(1..=MOST_PROCESSES),
                processes,
                "maximum number of processes and threads",
            ),
            Parameter::new(
                "file_limit",
                Number(LEAST_FILES..=MOST_FILES),
                files,
                "maximum number of open files per process",
            ),
            Parameter::new(
                "memory_limit",
                Size(0..=u64::MAX),
                "0",
                "maximum memory per process; 0 for all",
            ),
        ],
    ));
    let keys = Tables(&["name", "pattern", "pointer", "better"]);
    all.extend(group(
        ParameterGroup::Results,
        [
            Parameter::new(
                "metric",
                keys,
                Absent,
                "numbers to read from the output; targets are compared by the first",
            ),
            Parameter::new(
                "verify",
                Command,
                Absent,
                "command to run after each sample, which must succeed",
            ),
            Parameter::flag(
                VERIFY_SAME,
                "end the run if targets print different output (its last 2,000 characters)",
            ),
            parameter::label(),
        ],
    ));
    let inside = "the worker that measures runs 'prepare' itself";
    all.extend(group(
        ParameterGroup::Resolved,
        [Parameter::flag(PREPARE_INSIDE, inside)],
    ));
    all
}

impl CommandOptions {
    fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<CommandOptions, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let command = script(&mut reader, "command")?
            .ok_or_else(|| reader.error("command", "it is missing"))?;
        let [setup, prepare, cleanup, verify] = {
            let mut of = |key| script(&mut reader, key);
            [of("setup")?, of("prepare")?, of("cleanup")?, of("verify")?]
        };
        let input = paths(&mut reader, "input")?;
        let writable = paths(&mut reader, "writable")?;
        let (ok_exit, ignore_failure) = (exits(&mut reader)?, reader.flag("ignore_failure")?);
        let time_limit = reader.duration("time_limit")?.unwrap_or(TIME_LIMIT);
        let limits = limits(&mut reader)?;
        let network = reader.flag("network")?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let durability = reader.word("durability", Durability::ALL, Durability::name)?;
        let (directory, warm_up) = directory(&mut reader, &input)?;
        let is_limited = limits != ProgramLimits::default() || network || !writable.is_empty();
        if directory.is_some() && is_limited {
            let why = "programs in an existing directory are not confined: leave out limits, 'network' and 'writable'";
            return Err(reader.error(DIRECTORY, why));
        }
        let reuse = reader.flag("reuse")? || directory.is_some();
        let metrics = metrics(&mut reader)?;
        let services = services(&mut reader)?;
        let verify_same = reader.flag(VERIFY_SAME)?;
        let prepare_inside = reader.flag(PREPARE_INSIDE)?;
        if prepare_inside && cache == CacheState::Cold {
            return Err(reader.error(
                PREPARE_INSIDE,
                "'prepare' would warm the files that the command reads",
            ));
        }
        let label = reader.text("label")?;
        reader.finish();
        Ok(CommandOptions {
            command,
            setup,
            prepare,
            cleanup,
            verify,
            input,
            writable,
            ok_exit,
            ignore_failure,
            time_limit,
            limits,
            network,
            cache,
            durability,
            reuse,
            directory,
            warm_up,
            metrics,
            services,
            verify_same,
            prepare_inside,
            label,
        })
    }

    fn params(&self) -> Params {
        let mut params = Params::new();
        let mut add = |key: &str, value: Value| drop(params.insert(key.to_owned(), value));
        add("command", self.command.value());
        let scripts = [
            ("setup", &self.setup),
            ("prepare", &self.prepare),
            ("cleanup", &self.cleanup),
            ("verify", &self.verify),
        ];
        for (key, script) in scripts {
            if let Some(script) = script {
                add(key, script.value());
            }
        }
        for (key, paths) in [("input", &self.input), ("writable", &self.writable)] {
            if !paths.is_empty() {
                add(key, json!(paths));
            }
        }
        if let Some(directory) = &self.directory {
            add(DIRECTORY, json!(directory));
            add(WARM_UP, self.warm_up.into());
        }
        if self.ok_exit != [0] {
            add("ok_exit", json!(self.ok_exit));
        }
        add("time_limit", format!("{}s", self.time_limit).into());
        add("process_limit", self.limits.processes.into());
        add("file_limit", self.limits.files.into());
        if let Some(bytes) = self.limits.memory {
            add("memory_limit", json!(Bytes(bytes)));
        }
        add("cache", self.cache.name().into());
        add("durability", self.durability.name().into());
        add("reuse", self.reuse.into());
        if !self.metrics.is_empty() {
            add(
                "metric",
                self.metrics.iter().map(PrintedMetric::value).collect(),
            );
        }
        if !self.services.is_empty() {
            add("service", self.services.iter().map(service_value).collect());
        }
        let flags = [
            ("ignore_failure", self.ignore_failure),
            ("network", self.network),
            (VERIFY_SAME, self.verify_same),
            (PREPARE_INSIDE, self.prepare_inside),
        ];
        for (key, _) in flags.into_iter().filter(|(_, flag)| *flag) {
            add(key, true.into());
        }
        if let Some(label) = &self.label {
            add("label", label.as_str().into());
        }
        params
    }

    fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let text = self.command.shown();
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // The report compares the first printed metric, if there is one.
        let mut label = self
            .metrics
            .first()
            .map_or_else(String::new, |metric| format!("{} of ", metric.name));
        label.extend(text.chars().take(SHOWN));
        if text.chars().count() > SHOWN {
            label.push('…');
        }
        label.push_str(match self.cache {
            CacheState::Cold => ", cold",
            CacheState::Warm => ", warm",
            _ => "",
        });
        if self.durability == Durability::End {
            label.push_str(", durable");
        }
        label
    }
}

/// Returns a service as a plan has it.
fn service_value(service: &Service) -> Value {
    let mut value =
        json!({ "command": service.command.value(), "stop": signal_name(service.stop) });
    if let Some(ready) = &service.ready {
        value["ready"] = ready.value();
    }
    value
}

/// Reads the limits of programs, except time.
fn limits(reader: &mut Reader<'_>) -> Result<ProgramLimits, ParamError> {
    let processes = reader.number("process_limit")?;
    let files = reader.number("file_limit")?;
    let memory = Some(reader.number("memory_limit")?).filter(|bytes| *bytes > 0);
    if memory.is_some_and(|bytes| bytes < LEAST_MEMORY) {
        return Err(reader.error(
            "memory_limit",
            format!("give at least {}, or 0 for no limit", Bytes(LEAST_MEMORY)),
        ));
    }
    Ok(ProgramLimits {
        processes,
        files,
        memory,
    })
}

/// Reads a command: a line for the shell, or a list of words.
fn script(reader: &mut Reader<'_>, key: &'static str) -> Result<Option<Script>, ParamError> {
    let Some(value) = reader.take(key) else {
        return Ok(None);
    };
    Script::from_value(value)
        .map(Some)
        .map_err(|why| reader.error(key, why))
}

/// Reads one path or several and makes them absolute, because the agent works in another directory.
/// A variant's text is absolute already.
fn paths(reader: &mut Reader<'_>, key: &'static str) -> Result<Vec<PathBuf>, ParamError> {
    let Some(value) = reader.take(key) else {
        return Ok(Vec::new());
    };
    let list = match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    list.iter()
        .map(|value: &Value| {
            let text = value
                .as_str()
                .filter(|text| !text.is_empty() && !text.contains('\0'));
            let text = text.ok_or_else(|| reader.error(key, format!("{value} is not a path")))?;
            if text.starts_with(PLACEHOLDER) {
                return Ok(PathBuf::from(text));
            }
            Ok(std::path::absolute(Path::new(text)).unwrap_or_else(|_| PathBuf::from(text)))
        })
        .collect()
}

/// Reads the existing directory to run in, and the number of runs that do not count.
fn directory(
    reader: &mut Reader<'_>,
    input: &[PathBuf],
) -> Result<(Option<PathBuf>, u64), ParamError> {
    let directory = match paths(reader, DIRECTORY)?.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        _ => return Err(reader.error(DIRECTORY, "give one directory")),
    };
    let warm_up = reader.number(WARM_UP)?;
    if directory.is_none() && warm_up > 0 {
        let why = "only a command in an existing directory has such runs: add 'directory'";
        return Err(reader.error(WARM_UP, why));
    }
    if directory.is_some() && !input.is_empty() {
        let why = "nothing is copied into an existing directory: leave 'input' out";
        return Err(reader.error(DIRECTORY, why));
    }
    Ok((directory, warm_up))
}

fn exits(reader: &mut Reader<'_>) -> Result<Vec<i32>, ParamError> {
    let Some(value) = reader.take("ok_exit") else {
        return Ok(vec![0]);
    };
    let list = match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    };
    let codes: Option<Vec<i32>> = list
        .iter()
        .map(|value: &Value| {
            value
                .as_i64()
                .filter(|code| (0..=255).contains(code))
                .map(|code| code as i32)
        })
        .collect();
    codes.filter(|codes| !codes.is_empty()).ok_or_else(|| {
        reader.error(
            "ok_exit",
            format!("{value} is not a list of exit codes, such as [0, 1]"),
        )
    })
}

/// Reads the tables of a list. Returns an error if a table has a key that is not declared.
fn tables<'v>(
    reader: &mut Reader<'v>,
    key: &'static str,
) -> Result<Vec<&'v serde_json::Map<String, Value>>, ParamError> {
    let known = reader.keys(key);
    let Some(value) = reader.take(key) else {
        return Ok(Vec::new());
    };
    let list: Vec<&Value> = match value {
        Value::Array(list) => list.iter().collect(),
        one => vec![one],
    };
    let table = |value: &'v Value| {
        let table = value
            .as_object()
            .ok_or_else(|| reader.error(key, format!("{value} is not a table")))?;
        match table.keys().find(|own| !known.contains(&own.as_str())) {
            None => Ok(table),
            Some(own) => {
                let unknown = fsb_model::nearest::unknown("key", own, known.iter().copied());
                Err(reader.error(key, unknown))
            }
        }
    };
    list.into_iter().map(table).collect()
}

fn metrics(reader: &mut Reader<'_>) -> Result<Vec<PrintedMetric>, ParamError> {
    const KEY: &str = "metric";
    let tables = tables(reader, KEY)?;
    let mut metrics: Vec<PrintedMetric> = Vec::new();
    for table in tables {
        let text = |key: &str| table.get(key).and_then(Value::as_str);
        let name = text("name").filter(|name| is_name(name));
        let name = name.ok_or_else(|| {
            reader.error(
                KEY,
                "give each a name of letters, digits and _: name = \"tps\"",
            )
        })?;
        if metrics.iter().any(|known| known.name == name) || fsb_model::metric::find(name).is_some()
        {
            return Err(reader.error(KEY, format!("'{name}' is the name of another metric")));
        }
        let pattern = match (text("pattern"), text("pointer")) {
            (Some(pattern), None) => Pattern::expression(pattern),
            (None, Some(pointer)) => Pattern::pointer(pointer),
            _ => Err("give a pattern (a regular expression) or a pointer (into JSON)".to_owned()),
        };
        let pattern = pattern.map_err(|why| reader.error(KEY, format!("{name}: {why}")))?;
        let better = match text("better") {
            Some("higher") => Better::Higher,
            Some("lower") => Better::Lower,
            _ => {
                return Err(reader.error(
                    KEY,
                    format!("{name}: say which is better: better = \"higher\" or \"lower\""),
                ));
            }
        };
        metrics.push(PrintedMetric {
            name: name.to_owned(),
            pattern,
            better,
        });
    }
    Ok(metrics)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 40
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The signals that a service may be stopped by.
const SIGNALS: [(&str, i32); 5] = [
    ("SIGTERM", libc::SIGTERM),
    ("SIGINT", libc::SIGINT),
    ("SIGQUIT", libc::SIGQUIT),
    ("SIGHUP", libc::SIGHUP),
    ("SIGKILL", libc::SIGKILL),
];

fn signal_name(signal: i32) -> &'static str {
    SIGNALS
        .iter()
        .find(|(_, number)| *number == signal)
        .map_or("SIGTERM", |(name, _)| name)
}

fn services(reader: &mut Reader<'_>) -> Result<Vec<Service>, ParamError> {
    const KEY: &str = "service";
    let tables = tables(reader, KEY)?;
    let service = |table: &serde_json::Map<String, Value>| {
        let command = table
            .get("command")
            .ok_or_else(|| reader.error(KEY, "give each a command"))?;
        let command = Script::from_value(command).map_err(|why| reader.error(KEY, why))?;
        let ready = table
            .get("ready")
            .map(Script::from_value)
            .transpose()
            .map_err(|why| reader.error(KEY, why))?;
        let stop = match table.get("stop") {
            None => libc::SIGTERM,
            Some(value) => {
                let known = SIGNALS
                    .iter()
                    .find(|(name, _)| value.as_str() == Some(name));
                let names = SIGNALS.map(|(name, _)| name).join(", ");
                known
                    .ok_or_else(|| reader.error(KEY, format!("stop = {value} is none of {names}")))?
                    .1
            }
        };
        Ok(Service {
            command,
            ready,
            stop,
        })
    };
    tables.into_iter().map(service).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use fsb_model::WorkloadSpec;
    use fsb_model::metric::FAILED_RUNS;
    use serde_json::json;

    use crate::error::EngineError;
    use crate::task::{Step, Task};
    use crate::worker;
    use crate::workload::testing::{Open, Pairs, label, run_once, task, with};

    fn spec(command: &str, pairs: Pairs<'_>) -> WorkloadSpec {
        let mut spec = with("command", pairs);
        spec.params.insert("command".to_owned(), command.into());
        spec
    }

    fn failure(command: &str, pairs: Pairs<'_>, root: &Path) -> String {
        run_once(&spec(command, pairs), root, |_| {})
            .unwrap_err()
            .to_string()
    }

    fn refusal(pairs: Pairs<'_>) -> String {
        label(&with("command", pairs)).unwrap_err().to_string()
    }

    /// Counts the processes whose working directory is below a directory, except zombies.
    fn working_in(directory: &Path) -> usize {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries
            .filter(|entry| {
                fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
            })
            .count()
    }

    #[test]
    fn setup_prepare_verify_and_cleanup_run_in_order_in_the_target() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("data")).unwrap();
        fs::write(outside.path().join("data/one"), "1").unwrap();
        let workload = spec(
            "echo run $(cat data/one) $FSB_SEED $FSB_TRIAL >> log; echo 'tps = 5'; echo 'tps = 7.5'; exit 3",
            &[
                (
                    "setup",
                    "test $PWD = $FSB_TARGET && echo setup >> log".into(),
                ),
                ("prepare", json!(["sh", "-c", "echo prepare >> log"])),
                (
                    "verify",
                    "echo verify >> log; test $(grep -c run log) -ge 1".into(),
                ),
                ("cleanup", "cp log ../seen".into()),
                ("input", json!([outside.path().join("data")])),
                ("ok_exit", json!([0, 3])),
                (
                    "metric",
                    json!([{"name": "tps", "pattern": "tps = ([0-9.]+)", "better": "higher"}]),
                ),
            ],
        );
        let measured = run_once(&workload, root.path(), |_| {}).unwrap();
        assert_eq!((measured.operations, measured.printed["tps"]), (1, 7.5));
        assert!(measured.output.unwrap().ends_with("tps = 7.5\n"));
        assert!(
            measured.peak_memory.unwrap() > 100_000,
            "a shell needs more than that"
        );
        assert!(measured.timed_ns > 0 && measured.user_seconds + measured.system_seconds > 0.0);
        worker::perform(
            &task(Step::Cleanup, &workload, root.path(), 1),
            &mut Open::default(),
        )
        .unwrap();
        let log = fs::read_to_string(root.path().join("seen")).unwrap();
        assert_eq!(log, "setup\nprepare\nrun 1 42 0\nverify\n");
        assert_eq!(
            fs::read_dir(root.path()).unwrap().count(),
            1,
            "nothing but what 'cleanup' copied is left"
        );
    }

    #[test]
    fn ignored_failures_are_counted_and_signals_fail() {
        let root = tempfile::tempdir().unwrap();
        let ignored = [("ignore_failure", true.into())];
        let measured = run_once(&spec("exit 4", &ignored), root.path(), |_| {}).unwrap();
        assert_eq!(measured.counts[FAILED_RUNS.name], 1);
        let measured = run_once(&spec("exit 0", &ignored), root.path(), |_| {}).unwrap();
        assert_eq!(measured.counts[FAILED_RUNS.name], 0);
        assert!(failure("exit 4", &[], root.path()).contains('4'));
        assert!(failure("kill -9 $$", &ignored, root.path()).contains("kill"));
    }

    #[test]
    fn warm_means_one_run_that_is_not_counted() {
        let root = tempfile::tempdir().unwrap();
        let log = |reuse: bool| {
            let pairs = [
                ("cache", "warm".into()),
                ("reuse", reuse.into()),
                ("setup", "echo setup >> ../log; echo data > data".into()),
                ("prepare", "echo prepare >> ../log".into()),
            ];
            run_once(
                &spec("cat data && echo run >> ../log", &pairs),
                root.path(),
                |_| {},
            )
            .unwrap();
            let log = fs::read_to_string(root.path().join("log")).unwrap();
            fs::remove_file(root.path().join("log")).unwrap();
            log.replace('\n', " ")
        };
        assert_eq!(log(false), "setup prepare run setup prepare run ");
        assert_eq!(log(true), "setup prepare run prepare run ");
    }

    /// Performs the steps of a trial: prepares, measures samples of these numbers of runs, and
    /// cleans up.
    fn perform_trial(
        workload: &WorkloadSpec,
        root: &Path,
        samples: &[u64],
    ) -> Result<(), EngineError> {
        let mut first = 0;
        worker::perform(
            &task(Step::Prepare, workload, root, 1),
            &mut Open::default(),
        )?;
        for runs in samples {
            let sample = Task {
                repetition: first,
                ..task(Step::Measure, workload, root, *runs)
            };
            worker::perform(&sample, &mut Open::default())?;
            first += *runs as u32;
        }
        worker::perform(
            &task(Step::Cleanup, workload, root, 1),
            &mut Open::default(),
        )
        .map(drop)
    }

    /// The command fails if it finds what another run left, and if the state after `setup` is not
    /// complete.
    #[test]
    fn each_run_in_rounds_starts_in_the_state_after_setup_unless_it_reuses_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let command = "test ! -e made && test -e ready && echo more >> data && test $(wc -l < data) = 2 && touch made";
        let log = root.path().join("log");
        let setup = format!(
            "echo one > data; mkdir -p deep/er; echo setup >> {}",
            log.display()
        );
        let trial = |reuse: bool, samples: &[u64]| {
            let workload = spec(
                command,
                &[
                    ("setup", setup.as_str().into()),
                    ("prepare", "touch ready".into()),
                    ("verify", "test -e made".into()),
                    (super::PREPARE_INSIDE, true.into()),
                    ("reuse", reuse.into()),
                ],
            );
            perform_trial(&workload, root.path(), samples)
        };
        trial(false, &[1, 1, 3, 2]).unwrap();
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(log.lines().count(), 7, "setup ran for each of seven runs");
        assert!(!root.path().join("fsb-set").exists(), "nothing is left");
        trial(true, &[1]).unwrap();
        let found = trial(true, &[1, 1]).unwrap_err().to_string();
        assert!(found.contains("exit status 1"), "{found}");
        let found = trial(true, &[2]).unwrap_err().to_string();
        assert!(found.contains("exit status 1"), "{found}");
    }

    #[test]
    fn a_sample_removes_the_files_of_the_one_before() {
        let root = tempfile::tempdir().unwrap();
        let workload = spec(
            "echo $FSB_TRIAL > made",
            &[(super::PREPARE_INSIDE, true.into())],
        );
        worker::perform(
            &task(Step::Prepare, &workload, root.path(), 1),
            &mut Open::default(),
        )
        .unwrap();
        let left = || {
            let runs = fs::read_dir(root.path().join("fsb-set")).unwrap().flatten();
            let mut trials: Vec<String> = runs
                .map(|run| {
                    fs::read_to_string(run.path().join("made"))
                        .unwrap()
                        .trim()
                        .to_owned()
                })
                .collect();
            trials.sort();
            trials
        };
        for (first, runs, expected) in [
            (0, 1, &["0"][..]),
            (1, 3, &["1", "1", "1"]),
            (4, 2, &["4", "4"]),
        ] {
            let sample = Task {
                repetition: first,
                ..task(Step::Measure, &workload, root.path(), runs)
            };
            worker::perform(&sample, &mut Open::default()).unwrap();
            assert_eq!(left(), expected);
        }
    }

    #[test]
    fn each_repetition_of_a_sequential_trial_starts_in_a_new_directory_unless_it_reuses_one() {
        let root = tempfile::tempdir().unwrap();
        let trial = |reuse: bool| {
            let workload = spec("test ! -e made && touch made", &[("reuse", reuse.into())]);
            (0..3).try_for_each(|repetition| {
                for step in [Step::Cleanup, Step::Prepare, Step::Measure] {
                    // The agent cleans up and prepares between two repetitions.
                    if step != Step::Cleanup || repetition > 0 {
                        let task = Task {
                            repetition,
                            ..task(step, &workload, root.path(), 1)
                        };
                        worker::perform(&task, &mut Open::default())?;
                    }
                }
                Ok::<(), EngineError>(())
            })
        };
        trial(false).unwrap();
        assert!(trial(true).is_err());
    }

    #[test]
    fn inputs_are_copied_for_each_run_and_cleanup_runs_once() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("one"), "1").unwrap();
        let workload = spec(
            "test $(cat one) = 1 && rm one",
            &[
                ("input", json!([outside.path().join("one")])),
                ("cleanup", "echo cleanup >> $FSB_TARGET/../../log".into()),
                (super::PREPARE_INSIDE, true.into()),
            ],
        );
        perform_trial(&workload, root.path(), &[1, 2, 1]).unwrap();
        assert_eq!(
            fs::read_to_string(root.path().join("log")).unwrap(),
            "cleanup\n"
        );
    }

    #[test]
    fn a_failure_says_how_and_what_was_said() {
        let root = tempfile::tempdir().unwrap();
        let of = |command: &str, pairs: Pairs<'_>| failure(command, pairs, root.path());
        assert_eq!(
            of("echo no such table >&2; exit 4", &[]),
            "echo no such table >&2; exit 4: exit status 4: no such table"
        );
        assert!(of("kill -SEGV $$", &[]).contains("killed by signal 11: it printed no message"));
        assert!(
            of("true", &[("prepare", "echo oh; false".into())])
                .contains("echo oh; false: exit status 1: oh")
        );
        assert!(
            of("true", &[("verify", "echo wrong sum; false".into())])
                .contains("exit status 1: wrong sum")
        );
        assert!(of("true", &[("setup", json!(["/no/such/program"]))]).contains("no such program"));
        assert!(of("true", &[("input", json!(["/no/such/file"]))]).contains("No such file"));
        let metric = json!([{"name": "tps", "pattern": "tps = ([0-9.]+)", "better": "higher"}]);
        let said = of("echo none today", &[("metric", metric)]);
        assert!(
            said.contains(
                "tps: the output does not match 'tps = ([0-9.]+)'; its last lines: none today"
            ),
            "{said}"
        );
    }

    /// One command ignores signals, another leaves a daemon that has closed all its streams.
    #[test]
    fn nothing_that_a_command_started_outlives_it() {
        let root = tempfile::tempdir().unwrap();
        let stubborn = "trap '' TERM INT HUP; while true; do sleep 0.05; done";
        let said = failure(stubborn, &[("time_limit", "1s".into())], root.path());
        assert!(said.contains("not done after 1 s (time_limit)"), "{said}");
        let daemon = "setsid sh -c 'sleep 600 >/dev/null 2>&1 </dev/null &' ; echo done";
        run_once(&spec(daemon, &[]), root.path(), |_| {}).unwrap();
        assert_eq!(working_in(root.path()), 0);
    }

    #[test]
    fn a_service_runs_beside_the_command_and_is_stopped() {
        let root = tempfile::tempdir().unwrap();
        let server = "trap 'echo stopped > stopped; exit 0' INT; sleep 0.2; echo up > up; while true; do sleep 0.02; done";
        let service = json!([{"command": server, "ready": "test -f up", "stop": "SIGINT"}]);
        let workload = spec(
            "cat up",
            &[("service", service), ("verify", "test ! -f stopped".into())],
        );
        let measured = run_once(&workload, root.path(), |_| {}).unwrap();
        assert_eq!(measured.output.as_deref(), Some("up\n"));
        assert!(
            root.path().join("fsb-set/stopped").exists(),
            "it was asked to stop, and did"
        );
        let ended = json!([{"command": "echo no room for me; exit 1", "ready": "test -f never"}]);
        let said = failure("true", &[("service", ended)], root.path());
        assert!(
            said.contains("the service ended before it was ready: no room for me"),
            "{said}"
        );
        let gone = json!([{"command": "sleep 0.05; echo crashed"}]);
        let said = failure("sleep 0.3", &[("service", gone)], root.path());
        assert!(
            said.contains("the service ended by itself: crashed"),
            "{said}"
        );
        assert_eq!(working_in(root.path()), 0);
    }

    #[test]
    fn a_service_that_ignores_its_stop_signal_is_killed_and_fails_the_run() {
        let root = tempfile::tempdir().unwrap();
        let server = "trap '' TERM; echo up > up; while true; do echo endless; sleep 0.01; done";
        let service = json!([{"command": server, "ready": "test -f up"}]);
        let said = failure("true", &[("service", service)], root.path());
        assert!(
            said.contains("the service did not stop within 10 s"),
            "{said}"
        );
        // A process that was killed shows its directory until the kernel has torn it down.
        let patience = Instant::now() + Duration::from_secs(60);
        while working_in(root.path()) > 0 && Instant::now() < patience {
            std::thread::yield_now();
        }
        assert_eq!(working_in(root.path()), 0);
    }

    /// As under nohup, or in the background of a script.
    #[test]
    fn services_do_not_inherit_ignored_signals() {
        // SAFETY: no test waits for this signal.
        unsafe { libc::signal(libc::SIGQUIT, libc::SIG_IGN) };
        let root = tempfile::tempdir().unwrap();
        let server = "trap 'echo stopped > stopped; exit 0' QUIT; echo up > up; while true; do sleep 0.02; done";
        let service = json!([{"command": server, "ready": "test -f up", "stop": "SIGQUIT"}]);
        run_once(
            &spec("cat up", &[("service", service)]),
            root.path(),
            |_| {},
        )
        .unwrap();
        assert!(root.path().join("fsb-set/stopped").exists());
    }

    #[test]
    fn shared_memory_that_a_command_leaves_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let segments = || {
            fs::read_to_string("/proc/sysvipc/shm")
                .unwrap_or_default()
                .lines()
                .count()
        };
        let before = segments();
        match run_once(
            &spec("ipcmk -M 4096 && ipcs -m | grep -c 0x", &[]),
            root.path(),
            |_| {},
        ) {
            Ok(measured) => {
                assert!(measured.output.unwrap().contains("Shared memory id"));
                assert_eq!(segments(), before);
            }
            Err(error) => fsb_testkit::left_out(
                "shared_memory_that_a_command_leaves_is_removed",
                &error.to_string(),
            ),
        }
    }

    #[test]
    fn invalid_parameters_of_a_command_are_refused() {
        assert!(refusal(&[]).contains("command: it is missing: give one, such as command = "));
        assert!(refusal(&[("command", " ".into())]).contains("is not a command"));
        assert!(refusal(&[("command", json!(["ls", 3]))]).contains("is not a list of words"));
        let with = |key: &'static str, value: serde_json::Value| {
            refusal(&[("command", "true".into()), (key, value)])
        };
        assert!(with("time_limit", "0s".into()).contains("is not a time from 1s to 168h"));
        assert!(with("ok_exit", json!([300])).contains("is not a list of exit codes"));
        assert!(with("metric", json!([{"name": "tps"}])).contains("give a pattern"));
        assert!(
            with("metric", json!([{"name": "tps", "pattern": "([0-9]+)"}]))
                .contains("say which is better")
        );
        let twice = json!([{"name": "command_time", "pattern": "([0-9]+)", "better": "lower"}]);
        assert!(with("metric", twice).contains("the name of another metric"));
        assert!(
            with("service", json!([{"command": "x", "stop": "SIGFOO"}]))
                .contains("is none of SIGTERM")
        );
        assert!(with("service", json!([{"comand": "x"}])).contains("did you mean 'command'"));
        assert!(with("cache", "out".into()).contains("any or cold or warm"));
    }

    #[test]
    fn labels_name_the_command_and_how_it_is_run() {
        let label = |pairs: Pairs<'_>| {
            let mut spec = spec("make  -C\n linux", pairs);
            spec.params
                .entry("durability".to_owned())
                .or_insert_with(|| "end".into());
            label(&spec).unwrap()
        };
        assert_eq!(label(&[]), "make -C linux, durable");
        assert_eq!(
            label(&[("durability", "none".into()), ("cache", "cold".into())]),
            "make -C linux, cold"
        );
        let metric = json!([{"name": "tps", "pattern": "([0-9]+)", "better": "higher"}]);
        assert_eq!(
            label(&[("metric", metric)]),
            "tps of make -C linux, durable"
        );
        assert_eq!(label(&[("label", "kernel build".into())]), "kernel build");
    }
}
