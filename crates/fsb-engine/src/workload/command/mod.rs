//! The workload `command`: runs any command in the target's directory, with other commands before and after it.
//!
//! `setup` runs once for each trial, `prepare` before each run, `cleanup` after the trial, `verify` after each sample. The
//! clock covers the command and the syncfs that makes its work durable. Programs run like the worker: as its user, with
//! write access only to the target, a private /dev/shm (TMPDIR), and the paths in `writable`.

mod options;
mod processes;
mod program;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::{Duration, Instant};

use fsb_model::metric::COMMAND_TIME;
use fsb_model::{CacheState, Durability, Params};
use rustix::process::Signal;

use super::job::{Job, Unit, Workload};
use super::parameter::Parameter;
use super::params;
use crate::backend::{self, Backend, Directory};
use crate::clock::OperationKind;
use crate::context::Context;
use crate::profile::{Profile, ProgramNeeds};
use crate::task::{Gate, Measurement, Ready};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::{self, ThreadJob};
use crate::{EngineError, ParamError, Sizing, fileset};
use options::{Options, Service};
use program::{Ended, Running, Script, Surroundings};

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
        params::of([("command", "echo one > file && sync file".into()), ("prepare", "rm -f file".into())])
    }

    fn parameters(&self) -> Vec<Parameter> {
        options::parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(CommandJob(Options::parse(self.name(), params, sizing)?)))
    }
}

struct CommandJob(Options);

impl CommandJob {
    fn surroundings(&self, context: &Context) -> Surroundings {
        Surroundings {
            directory: context.set(),
            seed: context.seed,
            trial: context.repetition,
            longest: Duration::from_secs_f64(self.0.time_limit),
        }
    }

    /// Runs a script, if there is one. Returns an error unless it exits with 0 in time.
    fn must(&self, script: Option<&Script>, around: &Surroundings) -> Result<(), EngineError> {
        let Some(script) = script else { return Ok(()) };
        let ended = program::run(script, around)?;
        if ended.is_ok(&[0]) { Ok(()) } else { Err(ended.failure(script, around)) }
    }

    /// Runs `prepare` while the services run. For a warm cache, also runs the command once and `prepare` again.
    fn make_ready(&self, around: &Surroundings) -> Result<(), EngineError> {
        if self.0.prepare.is_none() && self.0.cache != CacheState::Warm {
            return Ok(());
        }
        let mut services = Services::start(&self.0.services, around)?;
        let made = self.must(self.0.prepare.as_ref(), around).and_then(|()| {
            if self.0.cache != CacheState::Warm {
                return Ok(());
            }
            // This run loads the files into the page cache. `prepare` then removes the files that the run left behind.
            self.run_once(around)?;
            self.must(self.0.prepare.as_ref(), around)
        });
        let stopped = services.stop();
        made.and(stopped)
    }

    /// Runs `prepare` before each run but the first, and syncs its work.
    fn prepare_again(&self, around: &Surroundings) -> Result<(), EngineError> {
        self.must(self.0.prepare.as_ref(), around)?;
        fileset::sync(&around.directory)
    }

    fn run_once(&self, around: &Surroundings) -> Result<Ended, EngineError> {
        let ended = program::run(&self.0.command, around)?;
        if ended.is_ok(&self.0.ok_exit) { Ok(ended) } else { Err(ended.failure(&self.0.command, around)) }
    }
}

impl Job for CommandJob {
    fn profile(&self) -> Profile {
        let Options { durability, cache, .. } = self.0;
        Profile {
            durability,
            cache,
            reaches_device: durability != Durability::None || cache == CacheState::Cold,
            program: Some(ProgramNeeds {
                writable: self.0.writable.clone(),
                network: self.0.network,
                limits: self.0.limits,
                longest: self.0.time_limit,
                printed: self.0.metrics.iter().map(|metric| (metric.name.clone(), metric.better)).collect(),
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

    /// Returns the unit, one run of the command. Returns `None` for a cold cache, which needs a remount before each
    /// run, and with services, which are not started for each run.
    fn unit(&self) -> Option<Unit> {
        if self.0.cache == CacheState::Cold || !self.0.services.is_empty() {
            return None;
        }
        let mut params = self.params();
        params.insert(options::PREPARE_INSIDE.to_owned(), true.into());
        Some(Unit { params, own_files: false, only_warmed: false, operations: 1 })
    }

    /// The first repetition starts with a new directory, the inputs and `setup`. Later repetitions continue with the
    /// files that the command left, as changed by `prepare`.
    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        let around = self.surroundings(context);
        program::adopt_orphans();
        if context.repetition == 0 {
            fileset::make_anew(&around.directory)?;
            for input in &self.0.input {
                self.must(Some(&copy_of(input)), &around)?;
            }
            let setup = self.must(self.0.setup.as_ref(), &around);
            processes::end_all(&around.directory);
            setup?;
        }
        let ready = self.make_ready(&around);
        processes::end_all(&around.directory);
        ready?;
        fileset::sync(&around.directory)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        let around = self.surroundings(context);
        let real = context.backend(backend::CALLS).capabilities().real;
        let root = if real { Some(fileset::open(&around.directory)?) } else { None };
        if real {
            program::adopt_orphans();
        }
        let mut services = Services::start(if real { &self.0.services } else { &[] }, &around)?;
        if real && self.0.prepare_inside {
            self.prepare_again(&around)?;
        }
        let thread = CommandThread {
            job: self,
            around: &around,
            runs: context.operations,
            root: root.as_ref(),
            services: services.processes(),
        };
        let outcome = threads::run(&thread, context, &self.profile(), Ready::default(), false, gate);
        let checked = outcome.and_then(|outcome| {
            if real { self.must(self.0.verify.as_ref(), &around).map(|()| outcome) } else { Ok(outcome) }
        });
        let stopped = services.stop();
        processes::end_all(&around.directory);
        let (mut outcome, ()) = (checked?, stopped?);
        let mut measurement = outcome.measurement(OPERATION);
        // The clock is paused between two runs.
        measurement.timed_ns = measurement.workers.iter().map(|worker| worker.timed_ns).sum();
        if let Some(mut ended) = outcome.reports.pop().flatten() {
            ended.read();
            measurement.printed = program::find(&self.0.metrics, &ended)?;
            measurement.output = Some(ended.tail()).filter(|text| !text.is_empty());
            measurement.peak_memory = Some(ended.peak_memory);
            measurement.user_seconds += ended.user_seconds;
            measurement.system_seconds += ended.system_seconds;
        } else {
            measurement.printed = self.0.metrics.iter().map(|metric| (metric.name.clone(), 1.0)).collect();
        }
        Ok(measurement)
    }

    /// Changes nothing between repetitions: `prepare` makes the necessary changes.
    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        if context.repetition > 0 {
            return Ok(());
        }
        let around = self.surroundings(context);
        program::adopt_orphans();
        let cleaned = if around.directory.is_dir() { self.must(self.0.cleanup.as_ref(), &around) } else { Ok(()) };
        processes::end_all(&around.directory);
        fileset::remove(&around.directory, &context.progress).and(cleaned)
    }
}

/// Copies a file or a directory into the target, with its times and modes.
fn copy_of(input: &Path) -> Script {
    Script::Words(vec!["cp".into(), "-a".into(), "--".into(), input.to_string_lossy().into_owned(), ".".into()])
}

/// The one thread that times the command.
struct CommandThread<'j> {
    job: &'j CommandJob,
    around: &'j Surroundings,
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

    fn run(&self, state: &mut Option<Ended>, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let CommandThread { job, around, root, .. } = *self;
        let mut cpu = [0.0; 2];
        for run in 0..self.runs {
            if run > 0 && root.is_some() {
                job.prepare_again(around)?;
            }
            let before = processes::cpu_seconds(&self.services);
            recorder.start();
            if root.is_some() {
                let ended = job.run_once(around)?;
                cpu = [cpu[0] + ended.user_seconds, cpu[1] + ended.system_seconds];
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
            let after = processes::cpu_seconds(&self.services);
            cpu = [cpu[0] + after[0] - before[0], cpu[1] + after[1] - before[1]];
        }
        if let Some(ended) = state {
            [ended.user_seconds, ended.system_seconds] = cpu;
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
    /// Starts the services one after another, each once the one before is ready. If one fails, stops all.
    fn start(services: &'o [Service], around: &Surroundings) -> Result<Services<'o>, EngineError> {
        let mut all = Services { running: Vec::new() };
        for service in services {
            let started =
                program::start(&service.command, around).and_then(|running| until_ready(service, running, around));
            match started {
                Ok(running) => all.running.push((service, running)),
                Err(error) => {
                    let _ = all.stop();
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Returns the process IDs of the services.
    fn processes(&self) -> Vec<u32> {
        self.running.iter().map(|(_, running)| running.id()).collect()
    }

    /// Stops the services, the last one first. Returns an error if one had ended by itself, or does not stop in time.
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
                    Err(EngineError::new(format!("{shown}: the service ended by itself: {}", ended.last_words())))
                }
                Ok(ended) if ended.is_late() => Err(EngineError::new(format!(
                    "{shown}: the service did not stop within {} s",
                    STOP_PATIENCE.as_secs()
                ))),
                Ok(_) => Ok(()),
                Err(error) => Err(EngineError::new(format!("{shown}: cannot wait for the service: {error}"))),
            };
            answer = answer.and(found);
        }
        answer
    }
}

/// Waits until a service is ready: repeats its `ready` command until that succeeds.
fn until_ready(service: &Service, running: Running, around: &Surroundings) -> Result<Running, EngineError> {
    let Some(ready) = &service.ready else { return Ok(running) };
    let (shown, begun) = (service.command.shown(), Instant::now());
    loop {
        let asked = program::run(ready, around)?;
        if asked.is_ok(&[0]) {
            return Ok(running);
        }
        if !running.outlasts(PAUSE) {
            let mut ended = running.wait(Duration::ZERO).map_err(|error| EngineError::new(error.to_string()))?;
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
