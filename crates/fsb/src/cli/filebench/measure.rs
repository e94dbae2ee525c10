//! The runs of a file, each from making the files to removing them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fsb_compat::filebench::print;
use fsb_compat::filebench::wml::{Run, Script};
use fsb_engine::{Measurement, Sizing, Step, Task};
use fsb_model::{Durability, WorkloadSpec};
use fsb_testbed::ledger::{self, Ledger, Owner, Ticket};

use super::table;
use super::worker::{self, Failed, Moment};
use crate::exit::{self, Failure};
use crate::front;
use crate::progress::say;
use crate::results;

/// The signals that end a run early, with the exit code each stands for.
const SIGNALS: [(i32, u8); 3] = [
    (signal_hook::consts::SIGINT, exit::INTERRUPTED),
    (signal_hook::consts::SIGTERM, exit::TERMINATED),
    (signal_hook::consts::SIGHUP, exit::HUNG_UP),
];
/// How often progress is told where nobody watches a terminal.
const SELDOM: Duration = Duration::from_secs(5);

/// What holds for all runs.
pub struct Request {
    /// What is read is compared.
    pub verify: bool,
    /// Decides sizes, picks and contents.
    pub seed: u64,
    /// Nothing is told while it goes on.
    pub quiet: bool,
}

impl Request {
    /// The run as a workload of the engine's.
    pub fn workload(&self, run: &Run) -> (WorkloadSpec, Sizing) {
        let mut params = vec![("flow", run.flow.to_toml().into()), ("verify", self.verify.into())];
        // What the file does not sync is not synced, as filebench has it.
        if !run.flow.is_durable_each() {
            params.push(("durability", Durability::None.name().into()));
        }
        let params = params.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        (WorkloadSpec { name: "flow".to_owned(), params }, Sizing { size: 0, cpus })
    }

    fn task(&self, run: &Run, step: Step, root: &Path) -> Task {
        let (workload, sizing) = self.workload(run);
        let whole = Task::plain(step, workload, sizing, root, self.seed, u64::MAX);
        Task { until_seconds: Some(run.seconds as f64), ..whole }
    }
}

/// What lasts from run to run.
struct Session<'r> {
    request: &'r Request,
    started: Instant,
    interrupted: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    told: Instant,
}

/// Makes all runs; the exit code.
pub fn all(script: &Script, request: &Request) -> anyhow::Result<u8> {
    let _lock = front::Turn::Alone.take("fsb filebench")?;
    front::replay().0.iter().for_each(|line| say(line));
    let _watcher = front::watcher();
    let now = Instant::now();
    let mut session = Session { request, started: now, interrupted: Arc::default(), signal: Arc::default(), told: now };
    for (number, code) in SIGNALS {
        signal_hook::flag::register_usize(number, Arc::clone(&session.signal), usize::from(code))?;
        signal_hook::flag::register(number, Arc::clone(&session.interrupted))?;
    }
    results::print(&print::banner(&format!("fsb {}", env!("CARGO_PKG_VERSION"))))?;
    for line in &script.said {
        session.say(line)?;
    }
    let mut code = exit::DONE;
    for run in &script.runs {
        match session.run(run)? {
            Ok(()) => {}
            Err(Failed::Interrupted) => return Err(session.interruption()),
            Err(Failed::Why(why)) => {
                let place = run.line.map_or_else(String::new, |line| format!("line {line}: "));
                say(&format!("{place}run: {why}. The files of this run are removed"));
                code = exit::TRIALS;
            }
        }
    }
    Ok(code)
}

impl Session<'_> {
    fn at(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn say(&self, message: &str) -> anyhow::Result<()> {
        results::print(&print::moment(self.at(), message))
    }

    fn interruption(&self) -> anyhow::Error {
        let code = u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|code| *code > 0);
        let message = "interrupted: the files of this run are removed".to_owned();
        Failure { code: code.unwrap_or(exit::INTERRUPTED), message }.into()
    }

    /// One run; the outer error is one of printing.
    fn run(&mut self, run: &Run) -> anyhow::Result<Result<(), Failed>> {
        let own = Own::make(&run.directory)?;
        let measured = self.measure(run, &own.path);
        self.say("Shutting down processes")?;
        own.remove()?;
        measured
    }

    fn measure(&mut self, run: &Run, root: &Path) -> anyhow::Result<Result<(), Failed>> {
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
        root: &Path,
        what: &str,
    ) -> anyhow::Result<Result<Option<Measurement>, Failed>> {
        let task = self.request.task(run, step, root);
        let interrupted = Arc::clone(&self.interrupted);
        let mut printed = Ok(());
        let result = worker::perform(&task, &|| interrupted.load(Ordering::Relaxed), &mut |moment| match moment {
            Moment::Running if printed.is_ok() => printed = self.say("Running..."),
            Moment::Running => {}
            Moment::Progress { done, of } => self.tell(done, of, what),
        });
        printed.map(|()| result)
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
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl Own {
    fn make(directory: &Path) -> anyhow::Result<Own> {
        let within = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let ledger = Ledger::open(&ledger::default_directory()?, Owner::current())?;
        let (path, ticket) = ledger.record_directory(&within, rustix::process::geteuid().as_raw())?;
        let own = Own { path, ledger, ticket: Some(ticket) };
        std::fs::create_dir(&own.path)
            .map_err(|error| exit::machine(format!("cannot make the directory {}: {error}", own.path.display())))?;
        Ok(own)
    }

    fn remove(mut self) -> anyhow::Result<()> {
        self.ticket.take().map_or(Ok(()), |ticket| self.ledger.undo(ticket).map(drop))?;
        Ok(())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.ticket.take().map(|ticket| self.ledger.undo(ticket)) {
            say(&format!("warning: {error}"));
        }
    }
}
