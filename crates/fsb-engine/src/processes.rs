//! Processes that start together. They do the same as [`crate::threads`] does with threads, for
//! workers that share only files.
//!
//! Each process is forked from the worker, prepares, and reports that it is ready. When all are
//! ready, the worker gives the start signal. At the end each process reports its recording. Each
//! process has its own pipe for messages, so the worker notices at once when one dies. It then
//! kills the others, because they may wait for the dead one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fsb_model::timeline::Timeline;
use fsb_model::trial::WorkerSpan;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::clock::{self, Circumstances, Clock};
use crate::error::EngineError;
use crate::latency;
use crate::memory::SharedMemory;
use crate::profile::Profile;
use crate::rendezvous::StartBarrier;
use crate::task::{Context, Gate, Ready};
use crate::thread_recorder::{self, Recording, ThreadRecorder};
use crate::threads::{ThreadJob, WorkerOutcome};

/// The memory that all processes share.
#[derive(Default)]
struct Shared {
    start: StartBarrier,
    failed: AtomicBool,
}

/// A message from a process: one line of JSON.
#[derive(Serialize, Deserialize)]
enum ProcessMessage {
    Ready,
    Done {
        span: WorkerSpan,
        histogram: String,
        syncs: String,
        timeline: Option<Box<Timeline>>,
        usage: [f64; 2],
        /// The report of the job, as text.
        report: Option<String>,
    },
    Failed(EngineError),
}

/// Runs the job in processes. A report that the job does not encode is discarded with its process.
pub(crate) fn run<C: ThreadJob>(
    job: &C,
    context: &Context,
    profile: &Profile,
    ready: Ready,
    gate: &mut dyn Gate,
) -> Result<WorkerOutcome<C::Report>, EngineError> {
    let mut outcome = WorkerOutcome::new(clock::cost_ns(context.clock));
    let shared = SharedMemory::new(Shared::default())?;
    let mut children = Children::default();
    let mut members = Vec::new();
    for rank in 0..profile.processes {
        members.push(fork(&mut children, |output| {
            process_main(job, context, profile, &shared, rank, output)
        })?);
    }
    for member in &mut members {
        member.receive()?;
    }
    gate.ready(ready)?;
    shared.start.run(profile.processes, || children.has_ended());
    for output in receive_all(&children, members) {
        let ProcessMessage::Done {
            span,
            histogram,
            syncs,
            timeline,
            usage: [user, system],
            report,
        } = output?
        else {
            return Err(EngineError::new("a process said that it was ready, twice"));
        };
        if let Some(report) = report {
            outcome.reports.extend(job.decode_report(&report)?);
        }
        let timeline = timeline.map(|boxed| *boxed);
        fn decode(text: &str) -> Result<hdrhistogram::Histogram<u64>, EngineError> {
            latency::decode(text).map_err(|error| EngineError::new(error.to_string()))
        }
        outcome.add(Recording {
            span,
            histogram: decode(&histogram)?,
            syncs: decode(&syncs)?,
            timeline,
        });
        outcome.user_seconds += user;
        outcome.system_seconds += system;
    }
    Ok(outcome.simulate_usage(context.clock))
}

/// Runs as the main function of one process and returns its last message.
fn process_main<C: ThreadJob>(
    job: &C,
    context: &Context,
    profile: &Profile,
    shared: &Shared,
    rank: u32,
    output: &mut File,
) -> Result<ProcessMessage, EngineError> {
    job.set().map_or(Ok(()), |set| set.use_client(rank, true))?;
    let circumstances = Circumstances {
        cache: profile.cache,
        durability: profile.durability,
    };
    let until = context.until_seconds.filter(|_| profile.divisible);
    let clock = Clock::new(context.clock, rank, circumstances);
    let recorder = ThreadRecorder::new(rank, clock, until, &shared.failed, job.progress(rank));
    let mut recorder = recorder.with_ramp(context.ramp_seconds.filter(|_| profile.divisible));
    let mut state = job.init(rank)?;
    send(output, &ProcessMessage::Ready);
    if !shared.start.wait(None) {
        // Another process ended before the start. Its end is the error to report, and kills this
        // process.
        loop {
            thread::park();
        }
    }
    let before = thread_recorder::usage_of_process();
    let result = job.run(&mut state, &mut recorder);
    shared.failed.fetch_or(result.is_err(), Ordering::Relaxed);
    result?;
    let (after, untimed) = (
        thread_recorder::usage_of_process(),
        recorder.untimed_usage(),
    );
    let Recording {
        span,
        histogram,
        syncs,
        timeline,
    } = recorder.finish();
    let usage = [0, 1].map(|mode| (after[mode] - before[mode] - untimed[mode]).max(0.0));
    let report = job.encode_report(job.report(state));
    let timeline = timeline.map(Box::new);
    let [histogram, syncs] = [histogram, syncs].map(|histogram| latency::encode(&histogram));
    Ok(ProcessMessage::Done {
        span,
        histogram,
        syncs,
        timeline,
        usage,
        report,
    })
}

fn send(to: &mut File, output: &ProcessMessage) {
    // A process whose pipe is gone is ended by its parent.
    let _ = serde_json::to_writer(&mut *to, output)
        .map_err(std::io::Error::from)
        .and_then(|()| to.write_all(b"\n"));
}

/// Child processes that do not outlive this value: those that still run when it is dropped are
/// killed.
#[derive(Debug, Default)]
pub(crate) struct Children(Vec<Pid>);

impl Children {
    /// Starts a program.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> io::Result<Child> {
        let child = command.spawn()?;
        self.0.extend(Pid::from_raw(child.id() as i32));
        Ok(child)
    }

    /// Kills all processes.
    pub(crate) fn kill(&self) {
        for pid in &self.0 {
            // A process that has ended is a zombie until its parent waits for it, so no other
            // process can have its number.
            let _ = rustix::process::kill_process(*pid, Signal::KILL);
        }
    }

    /// Returns whether one of the processes has ended.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.0.iter().any(|pid| {
            !matches!(
                rustix::process::waitid(WaitId::Pid(*pid), options),
                Ok(None)
            )
        })
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.kill();
        for pid in &self.0 {
            let _ = rustix::process::waitpid(Some(*pid), WaitOptions::empty());
        }
    }
}

/// A forked process and its messages.
struct Member {
    pid: Pid,
    messages: BufReader<File>,
}

/// Forks a process that runs `work` and ends.
fn fork(
    children: &mut Children,
    work: impl FnOnce(&mut File) -> Result<ProcessMessage, EngineError>,
) -> Result<Member, EngineError> {
    let refused = |what: &str, errno| EngineError::new(format!("{what} for a process: {errno}"));
    let (messages, output) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| refused("make a pipe", errno.to_string()))?;
    // SAFETY: the child has one thread, this one. It runs `work`, which takes no lock that another
    // thread of the parent could have held (glibc makes its own memory usable again), and ends
    // without returning from here.
    match unsafe { libc::fork() } {
        -1 => Err(EngineError::spawn(
            "fork a process",
            &io::Error::last_os_error(),
        )),
        0 => child_main(output, work),
        pid => {
            let pid =
                Pid::from_raw(pid).ok_or_else(|| refused("fork", "no process id".to_owned()))?;
            children.0.push(pid);
            Ok(Member {
                pid,
                messages: BufReader::new(File::from(messages)),
            })
        }
    }
}

/// Returns the last message of each process. If one fails, the others are killed, because they may
/// wait for it.
fn receive_all(
    children: &Children,
    members: Vec<Member>,
) -> Vec<Result<ProcessMessage, EngineError>> {
    let failed = AtomicBool::new(false);
    let receive = |mut member: Member| {
        let output = member.receive();
        // Only the first failure is the reason.
        if output.is_err() && !failed.swap(true, Ordering::AcqRel) {
            children.kill();
            return Some(output);
        }
        output.is_ok().then_some(output)
    };
    thread::scope(|scope| {
        let receive = &receive;
        let readers: Vec<_> = members
            .into_iter()
            .map(|member| thread::Builder::new().spawn_scoped(scope, move || receive(member)))
            .collect();
        let refused = readers.iter().find_map(|reader| reader.as_ref().err());
        let refused = refused.map(|error| {
            Err(EngineError::spawn(
                "start a thread that hears processes",
                error,
            ))
        });
        if refused.is_some() && !failed.swap(true, Ordering::AcqRel) {
            children.kill();
        }
        let read = readers.into_iter().flatten().filter_map(|reader| {
            reader
                .join()
                .unwrap_or_else(|payload| panic::resume_unwind(payload))
        });
        refused.into_iter().chain(read).collect()
    })
}

/// Runs a forked process to its end.
fn child_main(
    output: OwnedFd,
    work: impl FnOnce(&mut File) -> Result<ProcessMessage, EngineError>,
) -> ! {
    let mut output = File::from(output);
    // No kernel refuses this. Without it this process would outlive a worker that is killed.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let last = panic::catch_unwind(AssertUnwindSafe(|| work(&mut output)))
        .unwrap_or_else(|_| Err(EngineError::new("a process panicked")))
        .unwrap_or_else(ProcessMessage::Failed);
    send(&mut output, &last);
    // SAFETY: it ends the process. The parent's exit actions (flushing its output, running its
    // handlers) are not for the child.
    unsafe { libc::_exit(0) }
}

impl Member {
    fn receive(&mut self) -> Result<ProcessMessage, EngineError> {
        let mut line = String::new();
        let died = |why: String| {
            EngineError::new(format!("process {} died: {why}", self.pid.as_raw_nonzero()))
        };
        match self.messages.read_line(&mut line) {
            Ok(0) => Err(died("it printed no message".to_owned())),
            Ok(_) => match serde_json::from_str(&line).map_err(|error| died(error.to_string()))? {
                ProcessMessage::Failed(error) => Err(error),
                output => Ok(output),
            },
            Err(error) => Err(died(error.to_string())),
        }
    }
}
