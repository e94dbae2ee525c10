//! `fsb fio`: fio's job files, on our engine, with fio's JSON.
//!
//! `fsb-compat` defines the meaning of a file and the printed forms; the work of a job is a
//! workload of the engine. Each process of fio is a worker. Jobs that run beside each other are a
//! stage: their workers make their files one after the other and then start together. The whole
//! file is checked before anything is changed. Each stage has directories of its own, which are
//! removed however it ends, because the undo ledger lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fsb_compat::fio::job::{
    self, Direction, FioJob, JobFile, Remark, ResultDirection, Surroundings,
};
use fsb_compat::fio::print::{self, DirectionResult, JobResult, Origin, Times};
use fsb_compat::identify_file;
use fsb_engine::{
    EngineError, Live, Measurement, Profile, Sizing, Step, Task, WOULD_WAIT, latency, mix, workload,
};
use fsb_model::observed::Direct;
use fsb_model::run::TargetRecord;
use fsb_model::storage::Promise;
use fsb_model::trial::{Reason, WorkerSpan};
use fsb_model::{code, failure, notice};
use fsb_report::show::counted;
use fsb_runner::agent::{check_direct, check_uncached};
use fsb_runner::worker::{Steps, Worker, WorkerError, WorkerLimits};
use fsb_store::input::LARGEST_SCRIPT;
use fsb_store::owner::{self, Rights};
use jiff::Timestamp;

use crate::emulate::own_directory::{self, OwnDirectory};
use crate::emulate::promises;
use crate::emulate::run_directory::{self, Execution, Recording, Values};
use crate::exit::{self, Second, Signals};
use crate::message::{notify, say};
use crate::run::backends;
use crate::run::coordinator;
use crate::run::space::{FreeSpace, Need};
use crate::run::stage;
use crate::run::stage::Turn;
use crate::{results, wrong_kind};

const EXAMPLES: &str = "\
Examples:
  fsb fio randread.fio                                  as written in the file
  fsb fio --dir /srv/data randread.fio                  in another directory
  fsb fio --output-format json --output new.json j.fio  fio's JSON
  fsb compare old.json new.json                         compare with fio";

/// Run a fio job file and print fio's results
///
/// Reads the job files of fio 3: sections, [global], include, ${VARIABLE}. Jobs read, write or
/// trim, in sequence or at random, with the I/O engines psync, sync, pvsync2, mmap, posixaio,
/// libaio, io_uring and falloc. Options without effect on the work are notes. Unsupported options
/// are reported with their lines, and then nothing runs. fsb draws random offsets with its own
/// generator.
///
/// fsb makes the files in a new directory in the job's directory and removes it at the end. After a
/// kill, the next fsb or 'fsb clean' removes it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Job file
    #[arg(value_name = "JOB.fio")]
    file: PathBuf,
    /// Directory for files [default: that of the job, or the working directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Form of the results: normal or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "normal",
        hide_possible_values = true
    )]
    output_format: OutputFormat,
    /// File for the results [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
    /// Keep the run in a new directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run although another fsb measures; both results are affected
    #[arg(long)]
    allow_concurrent: bool,
}

/// Forms of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// A few lines for each job.
    Normal,
    /// fio's JSON.
    Json,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let started = Instant::now();
    let JobFile { jobs, notes } = read(&arguments.file)?;
    if let Some(path) = &arguments.output {
        owner::check_option("--output", path, "results.json")?;
    }
    run_directory::check(arguments.out.as_deref())?;
    let stages = stages(&jobs);
    for stage in &stages {
        check(stage, arguments)?;
    }
    let file = arguments.file.display();
    notes
        .iter()
        .for_each(|note| say(&format!("note: {file}:{}", place(note))));
    let MeasuredJobs {
        results,
        recording,
        ended,
    } = measure_all(&stages, arguments)?;
    let complete = matches!(ended, Ok(exit::DONE));
    // Finished stages have results even if a later one was interrupted.
    if results.is_empty() && recording.is_none() {
        return ended;
    }
    let text = results_text(arguments, started, &results)?;
    // The run directory is finished even if the results cannot be printed.
    let printed = match &arguments.output {
        _ if results.is_empty() => Ok(()),
        Some(path) => owner::replace(path, text.as_bytes()).map_err(anyhow::Error::from),
        None => results::print(&text),
    };
    if let Some(recording) = recording {
        recording.finish(complete && printed.is_ok(), &text)?;
    }
    printed.and(ended)
}

/// Returns the results in the requested form.
fn results_text(
    arguments: &Arguments,
    started: Instant,
    results: &[JobResult],
) -> anyhow::Result<String> {
    let now = Timestamp::now();
    let origin = Origin {
        program: format!("fsb-{}", env!("CARGO_PKG_VERSION")),
        timestamp_ms: now.as_millisecond(),
        time: now.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        elapsed: started.elapsed().as_secs() + 1,
    };
    Ok(match arguments.output_format {
        OutputFormat::Normal => print::summary(&origin, results),
        OutputFormat::Json => print::json(&origin, results)?,
    })
}

fn read(path: &Path) -> anyhow::Result<JobFile> {
    let file = path.display();
    let other = || wrong_kind::failure(path, identify_file(path), "fsb fio", &code::INVALID_FIO);
    let text = fsb_store::input::read_text(path, LARGEST_SCRIPT).map_err(|error| {
        let unreadable = || {
            failure::failed_call(
                &code::UNREADABLE,
                &error,
                format!("cannot read {file}: {error}"),
            )
        };
        other().unwrap_or_else(unreadable)
    })?;
    let include = |name: &str| included(path, name);
    job::read(
        &text,
        Surroundings {
            variable: &variable,
            include: &include,
        },
    )
    .map_err(|problems| {
        let invalid = || {
            let lines: Vec<_> = problems
                .iter()
                .map(|problem| format!("{file}:{}", place(problem)))
                .collect();
            failure::error(
                &code::INVALID_FIO,
                format!("fsb cannot run these jobs:\n{}", lines.join("\n")),
            )
        };
        other().unwrap_or_else(invalid)
    })
}

/// Returns the value of an environment variable, or of one of fio's keywords.
fn variable(name: &str) -> Option<String> {
    match name {
        "$ncpus" => std::thread::available_parallelism()
            .ok()
            .map(|processors| processors.to_string()),
        "$pagesize" => Some(rustix::param::page_size().to_string()),
        "$mb_memory" => fsb_testbed::host::memory_bytes().map(|bytes| (bytes >> 20).to_string()),
        name => std::env::var(name).ok(),
    }
}

/// Returns the text of an included file. As in fio, a name is relative to the working directory, or
/// else to the directory of the job file.
fn included(job_file: &Path, name: &str) -> Result<String, String> {
    let here = PathBuf::from(name);
    let path = if here.exists() {
        here.clone()
    } else {
        job_file
            .parent()
            .map_or_else(|| here.clone(), |directory| directory.join(name))
    };
    fsb_store::input::read_text(&path, LARGEST_SCRIPT).map_err(|error| error.to_string())
}

/// Returns `12: message`, as compilers print it.
fn place(remark: &Remark) -> String {
    format!("{}: {}", remark.line, remark.message)
}

/// Splits the jobs into stages: the jobs of a stage run beside each other.
fn stages(jobs: &[FioJob]) -> Vec<&[FioJob]> {
    jobs.chunk_by(|_, next| !next.waits).collect()
}

/// Returns the directory in which the files of a job are made.
fn directory(job: &FioJob, arguments: &Arguments) -> PathBuf {
    arguments
        .dir
        .clone()
        .or_else(|| job.directory.as_ref().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("."))
}

/// Returns the directory and the name of the file of a job that its processes, and those of jobs
/// beside it, share.
fn shared_file(job: &FioJob) -> Option<(Option<&str>, &str)> {
    job.file
        .as_deref()
        .map(|file| (job.directory.as_deref(), file))
}

// No size depends on the size of the target.
const SIZING: Sizing = Sizing { size: 0, cpus: 1 };

/// Checks the directories, the workloads (by asking the engine) and the free space of a stage.
fn check(stage: &[FioJob], arguments: &Arguments) -> anyhow::Result<()> {
    let mut needs: Vec<(PathBuf, Need)> = Vec::new();
    let mut shared = BTreeSet::new();
    // By directory, as `needs`.
    let mut asked: Vec<Vec<Promise>> = Vec::new();
    for job in stage {
        let directory = directory(job, arguments);
        own_directory::check(&directory, "fio")?;
        Rights::below(&directory)?;
        let at = needs
            .iter()
            .position(|(known, _)| *known == directory)
            .unwrap_or_else(|| {
                needs.push((directory, Need::default()));
                asked.push(Vec::new());
                needs.len() - 1
            });
        for process in 0..job.processes {
            let parsed = workload::parse(&job.workload_of(process), &SIZING).map_err(|error| {
                let message = format!(
                    "{}:{}: job '{}': {error}",
                    arguments.file.display(),
                    job.line,
                    job.name
                );
                failure::error(&code::INVALID_FIO, message)
            })?;
            let spec = job.workload_of(process);
            if let Some(Ok(backend)) = spec
                .params
                .get("backend")
                .and_then(|name| name.as_str().map(fsb_engine::backend::find))
            {
                backends::check_available(backend, &job.name)?;
            }
            if shared_file(job).is_some_and(|file| !shared.insert(file)) {
                continue;
            }
            let (profile, need) = (parsed.profile(), &mut needs[at].1);
            need.bytes = need.bytes.saturating_add(profile.space);
            need.files = need.files.saturating_add(profile.inodes);
            asked[at].extend(profile.promises());
        }
    }
    for ((directory, _), asked) in needs.iter().zip(&asked) {
        promises::warn_not_durable(directory, asked);
    }
    for (directory, need) in needs {
        if let Some(room) = FreeSpace::at(&directory).filter(|room| !room.holds(need)) {
            let message = format!(
                "this workload {}: use a smaller size or fewer jobs",
                room.lacks(need)
            );
            return Err(failure::error(&code::NO_SPACE, message));
        }
    }
    Ok(())
}

// The stages, each from making the files to removing them.

/// The interval between progress lines.
const SELDOM: Duration = Duration::from_secs(5);

/// The reason why a stage did not finish.
enum Failed {
    /// A signal came.
    Interrupted,
    /// A step of this job was refused, or its worker died.
    Why(String, usize, WorkerError),
}

impl Failed {
    fn new(job: &FioJob, error: WorkerError) -> Failed {
        match error {
            WorkerError::Interrupted => Failed::Interrupted,
            error => Failed::Why(job.name.clone(), job.line, error),
        }
    }
}

/// The results of the stages that finished.
struct MeasuredJobs {
    results: Vec<JobResult>,
    /// The run directory, if there is one.
    recording: Option<Recording>,
    /// The exit code, or the error of an interrupted run.
    ended: anyhow::Result<u8>,
}

/// Measures stage after stage until one fails or a signal comes.
fn measure_all(stages: &[&[FioJob]], arguments: &Arguments) -> anyhow::Result<MeasuredJobs> {
    let mut lock = Turn::new(arguments.allow_concurrent).take("fsb fio")?;
    stage::tidy_up();
    let _watcher = stage::watcher();
    // A second signal must not end the program before the files are removed.
    let signals = Signals::catch(Second::Waits)?;
    let name = arguments.file.file_stem().unwrap_or_default();
    let mut measured = MeasuredJobs {
        results: Vec::new(),
        recording: Recording::create(arguments.out.as_deref(), "fio", &name.to_string_lossy())?,
        ended: Ok(exit::DONE),
    };
    for (finished, stage) in stages.iter().enumerate() {
        match measure_stage(stage, arguments, &signals, &mut measured) {
            Ok(Ok(())) => continue,
            Err(error) => measured.ended = Err(error),
            Ok(Err(Failed::Interrupted)) => {
                let all = counted(stages.len(), "stage");
                let text = format!("warning: interrupted after {finished} of {all}");
                notify(&notice::MEASURED_IN_PART, [], &text);
                measured.ended =
                    Err(signals.failure("interrupted: the files of the jobs are removed"));
            }
            Ok(Err(Failed::Why(name, line, why))) => {
                let fields = [
                    ("line", line.into()),
                    ("reason", why.to_string().into()),
                    ("errno", why.errno().into()),
                ];
                let file = arguments.file.display();
                let text = format!(
                    "{file}:{line}: job '{name}': {why}. The files of the jobs are removed"
                );
                notify(&notice::RUN_FAILED, fields, &text);
                measured.ended = Ok(exit::TRIALS);
            }
        }
        break;
    }
    stage::warn_of_concurrent(&mut lock);
    if let Some(recording) = &mut measured.recording {
        recording.note_others(&mut lock);
    }
    Ok(measured)
}

/// Measures a stage, and adds its results.
fn measure_stage(
    stage: &[FioJob],
    arguments: &Arguments,
    signals: &Signals,
    all: &mut MeasuredJobs,
) -> anyhow::Result<Result<(), Failed>> {
    let started = run_directory::now();
    let mut directories = Vec::new();
    let measured = measure(stage, arguments, signals, &mut directories);
    directories.into_iter().try_for_each(OwnDirectory::remove)?;
    let measured = match measured? {
        Ok(measured) => measured,
        Err(failed) => {
            if let (Some(recording), Failed::Why(name, _, why)) = (&mut all.recording, &failed) {
                keep_failed(stage, name, why, arguments, started, recording)?;
            }
            return Ok(Err(failed));
        }
    };
    add_results(stage, &measured, arguments, &mut all.results);
    if let Some(recording) = &mut all.recording {
        keep(stage, measured, arguments, started, recording)?;
    }
    Ok(Ok(()))
}

/// Adds the failure of a stage to the run directory. Its jobs ran beside each other, so that the
/// failure of one is that of all.
fn keep_failed(
    stage: &[FioJob],
    name: &str,
    why: &WorkerError,
    arguments: &Arguments,
    started: Timestamp,
    recording: &mut Recording,
) -> anyhow::Result<()> {
    for job in stage {
        let reason = Reason {
            text: format!("job '{name}': {why}"),
            ..why.reason()
        };
        recording.add(execution(job, arguments, started, |_| Err(reason))?)?;
    }
    Ok(())
}

/// Adds the jobs of a stage to the run directory. The processes of a job are its workers.
fn keep(
    stage: &[FioJob],
    measured: Vec<Measured>,
    arguments: &Arguments,
    started: Timestamp,
    recording: &mut Recording,
) -> anyhow::Result<()> {
    let mut rest = measured.into_iter();
    for job in stage {
        let mut processes = Vec::new();
        for Measured { measurement, .. } in rest.by_ref().take(job.processes as usize) {
            processes.push(measurement);
        }
        let work = together(processes).map_err(Reason::from);
        recording.add(execution(job, arguments, started, |profile| {
            Values::from_engine(profile, work?)
        })?)?;
    }
    Ok(())
}

/// Returns the execution of a job with its values, or the reason why there are none.
fn execution(
    job: &FioJob,
    arguments: &Arguments,
    started: Timestamp,
    values: impl FnOnce(&Profile) -> Result<Values, Reason>,
) -> anyhow::Result<Execution> {
    let mut workload = job.workload_of(0);
    let parsed = workload::parse(&workload, &SIZING)
        .map_err(|error| failure::error(&code::INVALID_FIO, error.to_string()))?;
    let profile = parsed.profile();
    workload.params = parsed.params();
    let jobs = job.processes.into();
    workload.params.insert("jobs".to_owned(), jobs);
    Ok(Execution {
        label: format!("{}: {}", job.name, profile.label),
        operation: profile.operation.to_owned(),
        workload,
        directory: directory(job, arguments),
        started,
        result: values(&profile),
    })
}

/// Returns the work of processes that ran beside each other. Amounts add up, and the time is that
/// from the first start to the last end.
///
/// # Errors
/// The latencies of a process cannot be read.
fn together(processes: Vec<Measurement>) -> Result<Measurement, String> {
    if processes.len() < 2 {
        return Ok(processes.into_iter().next().unwrap_or_default());
    }
    let mut sum = Measurement::default();
    let mut histograms: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut rank = 0;
    for mut process in processes {
        for (operation, histogram) in std::mem::take(&mut process.latency) {
            histograms.entry(operation).or_default().push(histogram);
        }
        for span in &mut process.workers {
            span.rank = rank;
            rank += 1;
        }
        sum.add(process);
    }
    sum.timed_ns = WorkerSpan::elapsed_ns(&sum.workers);
    for rate in sum.rates.values_mut() {
        rate.timed_ns = sum.timed_ns;
    }
    // The moment when the first worker of all processes ended is not known.
    sum.stonewall = None;
    for (operation, texts) in histograms {
        let merged = latency::merge(texts.iter().map(String::as_str));
        sum.latency
            .insert(operation, merged.map_err(|error| error.to_string())?);
    }
    Ok(sum)
}

/// One process of a job.
struct Process<'j> {
    job: &'j FioJob,
    /// From 0, within the job.
    number: u32,
    /// From 0, within the file.
    index: u32,
    seed: u64,
    /// The directory with its files.
    root: PathBuf,
    rights: Rights,
    /// Whether it is the first one with these files, which makes them.
    is_first: bool,
}

impl Process<'_> {
    fn task(&self, step: Step) -> Task {
        let job = self.job;
        let operations = job.operations.unwrap_or(u64::MAX);
        let whole = Task::plain(
            step,
            job.workload_of(self.number),
            SIZING,
            &self.root,
            self.seed,
            operations,
        );
        let processors = job.processors_of(self.number, self.index - self.number);
        Task {
            until_seconds: job.seconds,
            ramp_seconds: job.ramp_seconds,
            evict: job.evict,
            processors,
            ..whole
        }
    }

    fn open(&self, signals: &Signals) -> Result<Worker, WorkerError> {
        let as_invoking_user = self.rights == Rights::InvokingUser;
        Worker::open(&WorkerLimits {
            interrupted: Some(Arc::clone(signals.flag())),
            as_invoking_user,
            ..WorkerLimits::default()
        })
    }
}

/// Makes the files of a stage in new directories, and measures its jobs beside each other: one
/// measurement for each process. The outer error is one of making a directory.
fn measure(
    stage: &[FioJob],
    arguments: &Arguments,
    signals: &Signals,
    directories: &mut Vec<OwnDirectory>,
) -> anyhow::Result<Result<Vec<Measured>, Failed>> {
    let (mut processes, mut shared) = (Vec::new(), BTreeMap::new());
    for job in stage {
        let seed = job.seed.unwrap_or_else(coordinator::fresh_seed);
        for number in 0..job.processes {
            let known = shared_file(job).and_then(|file| shared.get(&file)).copied();
            let index = known.unwrap_or(directories.len());
            if known.is_none() {
                directories.push(OwnDirectory::make(&directory(job, arguments))?);
                shared.extend(shared_file(job).map(|file| (file, index)));
            }
            let OwnDirectory { path, rights, .. } = &directories[index];
            // Processes do not visit records in the same order.
            let seed = mix(seed ^ mix(processes.len() as u64 + 1));
            let (root, rights, is_first) = (path.clone(), *rights, known.is_none());
            let index = processes.len() as u32;
            processes.push(Process {
                job,
                number,
                index,
                seed,
                root,
                rights,
                is_first,
            });
        }
    }
    let mut progress = Progress {
        quiet: arguments.quiet,
        started: Instant::now(),
        told: Instant::now(),
    };
    Ok(measure_processes(&processes, signals, &mut progress))
}

/// The result of one process.
struct Measured {
    measurement: Measurement,
    /// The examination of direct I/O before the clock started. `None` for a job without it.
    direct: Option<Direct>,
}

fn measure_processes(
    processes: &[Process<'_>],
    signals: &Signals,
    progress: &mut Progress,
) -> Result<Vec<Measured>, Failed> {
    for process in processes.iter().filter(|process| process.is_first) {
        let prepared = process.open(signals).and_then(|mut worker| {
            worker.perform::<Steps>(&process.task(Step::Prepare), &mut |live| {
                progress.tell("making files", live)
            })?;
            worker.close();
            Ok(())
        });
        prepared.map_err(|error| Failed::new(process.job, error))?;
    }
    let (mut workers, mut examined) = (
        Vec::with_capacity(processes.len()),
        Vec::with_capacity(processes.len()),
    );
    for process in processes {
        let ready = process.open(signals).and_then(|mut worker| {
            worker.ask::<Steps>(&process.task(Step::Measure))?;
            let ready = worker.ready::<Steps>()?;
            Ok((worker, ready.direct))
        });
        let (worker, direct) = ready.map_err(|error| Failed::new(process.job, error))?;
        workers.push(worker);
        examined.push(direct);
    }
    let started = Instant::now();
    let mut starts: Vec<_> = workers.iter_mut().zip(processes).collect();
    starts.sort_by(|(_, a), (_, b)| a.job.start_delay.total_cmp(&b.job.start_delay));
    for (worker, process) in starts {
        wait_until(
            started,
            Duration::from_secs_f64(process.job.start_delay),
            signals,
        )?;
        worker
            .go()
            .map_err(|error| Failed::new(process.job, error))?;
    }
    let mut measured = Vec::with_capacity(processes.len());
    for ((mut worker, process), direct) in workers.into_iter().zip(processes).zip(examined) {
        let report = worker.result::<Steps>(&mut |live| progress.tell("measuring", live));
        let report = report.map_err(|error| Failed::new(process.job, error))?;
        worker.close();
        let nothing = || {
            Failed::new(
                process.job,
                WorkerError::Engine(EngineError::new("nothing was measured")),
            )
        };
        measured.push(Measured {
            measurement: report.whole().ok_or_else(nothing)?,
            direct,
        });
    }
    Ok(measured)
}

/// Waits until `delay` after `started`. A signal ends the wait.
fn wait_until(started: Instant, delay: Duration, signals: &Signals) -> Result<(), Failed> {
    const GLANCE: Duration = Duration::from_millis(20);
    loop {
        if signals.flag().load(Ordering::Relaxed) {
            return Err(Failed::Interrupted);
        }
        let Some(left) = delay
            .checked_sub(started.elapsed())
            .filter(|left| !left.is_zero())
        else {
            return Ok(());
        };
        std::thread::sleep(left.min(GLANCE));
    }
}

/// The progress of a stage.
struct Progress {
    quiet: bool,
    started: Instant,
    told: Instant,
}

impl Progress {
    fn tell(&mut self, what: &str, live: Live) {
        self.line(what, live).iter().for_each(|line| say(line));
    }

    /// Returns the line to print now, if there is one.
    fn line(&mut self, what: &str, Live { done, of }: Live) -> Option<String> {
        if self.quiet || self.told.elapsed() < SELDOM {
            return None;
        }
        self.told = Instant::now();
        let of = if of > 0 {
            format!(" of {of}")
        } else {
            String::new()
        };
        Some(format!(
            "{:.0} s: {what}: {done}{of}",
            self.started.elapsed().as_secs_f64()
        ))
    }
}

// Converts measurements to results.

/// Adds one result for each process of a stage, or for all processes of a group that shares one, as
/// fio does. Warns of jobs whose direct I/O was not direct.
fn add_results(
    stage: &[FioJob],
    measured: &[Measured],
    arguments: &Arguments,
    results: &mut Vec<JobResult>,
) {
    let mut rest = measured;
    // Looking at a directory may probe a FUSE server, so each is looked at once.
    let mut places = BTreeMap::new();
    let mut shared: Vec<(&FioJob, Vec<&Measurement>, Option<String>)> = Vec::new();
    for job in stage {
        let (own, others) = rest.split_at(job.processes as usize);
        rest = others;
        let reason = (0..)
            .zip(own)
            .find_map(|(number, process)| not_direct(job, number, process, arguments, &mut places));
        if let Some(reason) = &reason {
            warn_not_direct(job, reason, arguments);
        }
        for Measured { measurement, .. } in own {
            match shared.last_mut() {
                Some((first, all, why))
                    if first.group_reporting && job.group_reporting && alike(first, job) =>
                {
                    all.push(measurement);
                    *why = why.take().or_else(|| reason.clone());
                }
                _ => shared.push((job, vec![measurement], reason.clone())),
            }
        }
    }
    results.extend(
        shared
            .into_iter()
            .map(|(job, measured, reason)| result(job, &measured, reason)),
    );
}

/// Returns the reason why the direct I/O of a process was not direct, or its uncached I/O cached.
/// Returns `None` if it was as the job asks, or if it asks for neither.
fn not_direct(
    job: &FioJob,
    number: u32,
    process: &Measured,
    arguments: &Arguments,
    places: &mut BTreeMap<PathBuf, TargetRecord>,
) -> Option<String> {
    let found = process.direct?;
    let profile = workload::parse(&job.workload_of(number), &SIZING)
        .ok()?
        .profile();
    if profile.is_uncached() {
        let checked = check_uncached(&profile, found, process.measurement.resident_after);
        return checked.err().map(|why| format!("uncached=1: {why}"));
    }
    let directory = directory(job, arguments);
    let place = places
        .entry(directory)
        .or_insert_with_key(|path| fsb_testbed::directory_record(path).unwrap_or_default());
    let checked = check_direct(&profile, found, process.measurement.resident_after);
    promises::not_direct("direct=1", place, checked.err())
}

fn warn_not_direct(job: &FioJob, reason: &str, arguments: &Arguments) {
    let text = format!(
        "warning: {}:{}: job '{}': {reason}",
        arguments.file.display(),
        job.line,
        job.name
    );
    notify(&notice::NOT_DIRECT, [("reason", reason.into())], &text);
}

/// Returns whether two jobs share a result: those of one group do in fio, and here also have the
/// same direction and meaning of latencies.
fn alike(a: &FioJob, b: &FioJob) -> bool {
    // Bytes of each direction are counted as records.
    let records = a.direction != Direction::Trim || a.record_size == b.record_size;
    records && (a.group, a.direction, a.latency) == (b.group, b.direction, b.latency)
}

/// Returns a sentence about the calls that would have waited. Returns `None` if the job lets calls
/// wait.
fn would_wait(job: &FioJob, measured: &[&Measurement]) -> Option<String> {
    let asked = job.options.get("nowait").is_some_and(|value| value != "0");
    let calls: u64 = measured
        .iter()
        .filter_map(|one| one.counts.get(WOULD_WAIT))
        .sum();
    let all: u64 = measured.iter().map(|one| one.operations).sum();
    asked.then(|| {
        format!("nowait=1: {calls} of {all} calls would have waited (EAGAIN) and were made again")
    })
}

/// Returns the result of processes. The description, which is free text, holds the reason why the
/// job was not direct, and the number of calls that would have waited.
fn result(job: &FioJob, measured: &[&Measurement], not_direct: Option<String>) -> JobResult {
    let sum = |value: fn(&Measurement) -> f64| measured.iter().map(|one| value(one)).sum::<f64>();
    let longest = measured
        .iter()
        .map(|one| one.timed_ns)
        .max()
        .unwrap_or_default();
    JobResult {
        name: job.name.clone(),
        description: Some(
            job.description
                .iter()
                .cloned()
                .chain(not_direct)
                .chain(would_wait(job, measured))
                .collect::<Vec<_>>()
                .join("; "),
        )
        .filter(|text| !text.is_empty()),
        group: job.group,
        processes: measured.len() as u32,
        options: job.options.clone(),
        directions: directions(job, measured),
        syncs: times(job, measured, SYNC),
        seconds: longest as f64 * 1e-9,
        user: sum(|one| one.user_seconds),
        system: sum(|one| one.system_seconds),
        latency: job.latency,
    }
}

/// The engine's name of the syncs between operations.
const SYNC: &str = "sync";

fn directions(job: &FioJob, measured: &[&Measurement]) -> Vec<DirectionResult> {
    let results = job.direction.results().iter().copied();
    results
        .map(|direction| match direction {
            ResultDirection::Read | ResultDirection::Write if job.direction.is_apart() => {
                one_of_mix(job, measured, direction)
            }
            direction => whole(job, measured, direction),
        })
        .collect()
}

/// Returns the result of the reads or of the writes of a mix.
fn one_of_mix(
    job: &FioJob,
    measured: &[&Measurement],
    direction: ResultDirection,
) -> DirectionResult {
    let name = direction.name();
    let times = times(job, measured, name);
    let operations = times.as_ref().map_or(0, |times| times.count);
    let bytes = measured
        .iter()
        .filter_map(|one| one.counts.get(&format!("{name}_bytes")))
        .sum();
    DirectionResult {
        direction,
        operations,
        bytes,
        times,
    }
}

/// Returns the result of all operations of processes.
fn whole(job: &FioJob, measured: &[&Measurement], direction: ResultDirection) -> DirectionResult {
    let operation = workload::parse(&job.workload, &SIZING)
        .ok()
        .map(|job| job.profile().operation);
    let operations: u64 = measured.iter().map(|one| one.operations).sum();
    // A trim moves no data. fio counts the bytes of its range.
    let bytes = match job.direction {
        Direction::Trim => operations * job.record_size,
        _ => measured.iter().map(|one| one.bytes).sum(),
    };
    let times = operation.and_then(|operation| times(job, measured, operation));
    DirectionResult {
        direction,
        operations,
        bytes,
        times,
    }
}

/// Returns the times of an operation of all processes. Returns `None` if there were none.
fn times(job: &FioJob, measured: &[&Measurement], operation: &str) -> Option<Times> {
    let texts = measured
        .iter()
        .filter_map(|one| one.latency.get(operation))
        .map(String::as_str);
    let merged = latency::merge(texts).ok()?;
    let histogram = latency::decode(&merged)
        .ok()
        .filter(|histogram| !histogram.is_empty())?;
    Some(Times {
        least: histogram.min(),
        most: histogram.max(),
        mean: histogram.mean(),
        deviation: histogram.stdev(),
        count: histogram.len(),
        percentiles: job
            .percentiles
            .iter()
            .map(|percent| (*percent, histogram.value_at_quantile(percent / 100.0)))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_printed_at_intervals_unless_quiet() {
        let long_ago = Instant::now()
            .checked_sub(SELDOM)
            .expect("the machine has run for some seconds");
        let live = Live { done: 3, of: 8 };
        let mut progress = Progress {
            quiet: false,
            started: long_ago,
            told: long_ago,
        };
        assert_eq!(
            progress.line("making files", live),
            Some("5 s: making files: 3 of 8".to_owned())
        );
        assert_eq!(
            progress.line("making files", live),
            None,
            "the interval has just begun"
        );
        let mut quiet = Progress {
            quiet: true,
            started: long_ago,
            told: long_ago,
        };
        assert_eq!(quiet.line("making files", live), None);
    }
}
