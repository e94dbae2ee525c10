//! The runs of a file, each from making the files to removing them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fsb_codes::notice;
use fsb_compat::filebench::print;
use fsb_compat::filebench::wml::{Run, Script};
use fsb_engine::{Live, Measurement, Sizing, Step, Task};
use fsb_model::{Durability, WorkloadSpec, errno};
use fsb_runner::worker::{Post, Steps, Worker, WorkerError};
use fsb_testbed::control;
use fsb_testbed::ledger::{self, EntryHandle, Ledger, Owner};

use super::table;
use crate::coordinator;
use crate::result_owner::Rights;
use crate::results;
use crate::signals::{Second, Signals};
use crate::stderr::{notify, say};
use crate::{code, exit};

/// The interval between progress lines if standard error is not a terminal.
const SELDOM: Duration = Duration::from_secs(5);

/// Options of all runs.
pub struct Choices {
    /// Whether the data read is compared with the data written.
    pub verify: bool,
    /// Decides sizes, picks and contents.
    pub seed: u64,
    /// Whether progress is hidden.
    pub quiet: bool,
    /// Whether the run refuses to start while another fsb measures.
    pub turn: coordinator::Turn,
}

impl Choices {
    /// Returns the run as a workload of the engine.
    pub fn workload(&self, run: &Run) -> (WorkloadSpec, Sizing) {
        let mut params = vec![("flow", run.flow.to_toml().into()), ("verify", self.verify.into())];
        // Like filebench, sync only if the file says so.
        if !run.flow.is_durable_each() {
            params.push(("durability", Durability::None.name().into()));
        }
        let params = params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        (WorkloadSpec::new("flow", params), Sizing { size: 0, cpus })
    }

    fn task(&self, run: &Run, step: Step, root: &Path) -> Task {
        let (workload, sizing) = self.workload(run);
        let whole = Task::plain(step, workload, sizing, root, self.seed, u64::MAX);
        Task { until_seconds: Some(run.seconds as f64), ..whole }
    }
}

/// State that lasts from run to run.
struct MeasuringSession<'r> {
    request: &'r Choices,
    started: Instant,
    signals: Signals,
    told: Instant,
}

/// The reason why a run did not finish.
enum Failed {
    /// A signal came.
    Interrupted,
    /// A step was refused, or its worker died.
    Why(String),
}

impl From<WorkerError> for Failed {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Interrupted => Failed::Interrupted,
            error => Failed::Why(error.to_string()),
        }
    }
}

/// Makes all runs; the exit code.
pub fn all(script: &Script, request: &Choices) -> anyhow::Result<u8> {
    let mut lock = request.turn.take("fsb filebench")?;
    coordinator::tidy_up();
    let _watcher = coordinator::watcher();
    let now = Instant::now();
    // A second signal must not end the program before the files are removed.
    let mut session = MeasuringSession { request, started: now, signals: Signals::catch(Second::Waits)?, told: now };
    results::print(&print::banner(&format!("fsb {}", env!("CARGO_PKG_VERSION"))))?;
    for line in &script.said {
        session.say(line)?;
    }
    let mut code = exit::DONE;
    for run in &script.runs {
        match session.run(run)? {
            Ok(()) => {}
            Err(Failed::Interrupted) => {
                return Err(session.signals.failure("interrupted: the files of this run are removed"));
            }
            Err(Failed::Why(why)) => {
                let place = run.line.map_or_else(String::new, |line| format!("line {line}: "));
                let fields = [
                    ("line", run.line.into()),
                    ("reason", why.as_str().into()),
                    ("errno", errno::name_in(&why).into()),
                ];
                let text = format!("{place}run: {why}. The files of this run are removed");
                notify(&notice::RUN_FAILED, fields, &text);
                code = exit::TRIALS;
            }
        }
    }
    coordinator::warn_of_concurrent(&mut lock);
    Ok(code)
}

impl MeasuringSession<'_> {
    fn at(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn say(&self, message: &str) -> anyhow::Result<()> {
        results::print(&print::moment(self.at(), message))
    }

    /// One run; the outer error is one of printing.
    fn run(&mut self, run: &Run) -> anyhow::Result<Result<(), Failed>> {
        let own = Own::make(&run.directory)?;
        let measured = self.measure(run, &own);
        self.say("Shutting down processes")?;
        own.remove()?;
        measured
    }

    fn measure(&mut self, run: &Run, root: &Own) -> anyhow::Result<Result<(), Failed>> {
        self.say("Populating and pre-allocating filesets")?;
        for set in &run.flow.filesets {
            let made = (set.files as f64 * set.preallocated).round();
            let text = format!(
                "{}: {} files, avg. dir. width = {}, {} leafdirs, {made} files made beforehand",
                set.name, set.files, set.width.mean, set.directories
            );
            self.say(&text)?;
        }
        if let Err(failed) = self.step(run, Step::Prepare, root, "files made")? {
            return Ok(Err(failed));
        }
        self.say("Population and pre-allocation of filesets completed")?;
        for thread in &run.flow.threads {
            self.say(&format!("Starting {} {} instances", thread.processes, thread.process))?;
        }
        let measurement = match self.step(run, Step::Measure, root, "operations")? {
            Ok(Some(measurement)) => measurement,
            Ok(None) => return Ok(Err(Failed::Why("the worker measured nothing".to_owned()))),
            Err(failed) => return Ok(Err(failed)),
        };
        let seconds = measurement.timed_ns as f64 * 1e-9;
        self.say(&format!("Run took {seconds:.0} seconds..."))?;
        results::print(&print::results(self.at(), seconds, &table::lines(&run.flow, &measurement)))?;
        Ok(Ok(()))
    }

    fn step(
        &mut self,
        run: &Run,
        step: Step,
        root: &Own,
        what: &str,
    ) -> anyhow::Result<Result<Option<Measurement>, Failed>> {
        let task = self.request.task(run, step, &root.path);
        let mut printed = Ok(());
        let result = self.perform(&task, root.rights, what, &mut printed);
        printed.map(|()| result.map_err(Failed::from))
    }

    fn perform(
        &mut self,
        task: &Task,
        rights: Rights,
        what: &str,
        printed: &mut anyhow::Result<()>,
    ) -> Result<Option<Measurement>, WorkerError> {
        let interrupted = Some(Arc::clone(self.signals.flag()));
        let mut worker =
            Worker::open(&Post { interrupted, as_invoking_user: rights == Rights::InvokingUser, ..Post::default() })?;
        worker.ask::<Steps>(task)?;
        if task.step == Step::Measure {
            worker.ready::<Steps>()?;
            *printed = self.say("Running...");
            worker.go()?;
        }
        let report = worker.result::<Steps>(&mut |Live { done, of }| self.tell(done, of, what))?;
        worker.close();
        Ok(report.whole())
    }

    fn tell(&mut self, done: u64, of: u64, what: &str) {
        if self.request.quiet || self.told.elapsed() < SELDOM {
            return;
        }
        self.told = Instant::now();
        let of = if of > 0 { format!(" of {of}") } else { String::new() };
        say(&format!("{:.0} s: {done}{of} {what}", self.at()));
    }
}

/// The directory that a run has for itself, which goes with this value; of a killed run the undo ledger knows it.
struct Own {
    path: PathBuf,
    rights: Rights,
    ledger: Ledger,
    handle: Option<EntryHandle>,
}

impl Own {
    fn make(directory: &Path) -> anyhow::Result<Own> {
        let within = crate::result_owner::absolute(directory)?;
        let rights = Rights::below(&within)?;
        let ledger = Ledger::open(&ledger::default_directory()?, Owner::current(), control::RULES)?;
        let (path, handle) = ledger.record_directory(&within, rights.uid())?;
        let own = Own { path, rights, ledger, handle: Some(handle) };
        let made = rights.act(|| std::fs::create_dir(&own.path)).flatten();
        made.map_err(|error| {
            exit::failure(&code::OUTPUT_FAILED, format!("cannot make the directory {}: {error}", own.path.display()))
        })?;
        Ok(own)
    }

    fn remove(mut self) -> anyhow::Result<()> {
        self.handle.take().map_or(Ok(()), |handle| self.ledger.undo(handle).map(drop))?;
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.handle.take().map(|handle| self.ledger.undo(handle)) {
            say(&format!("warning: {error}"));
        }
    }
}
