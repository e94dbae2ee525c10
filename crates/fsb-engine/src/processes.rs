//! Processes that start together: what [`crate::team`] does with threads, for those who share nothing but files.
//!
//! Each is forked from the worker, equips itself and says so; when all have, the word is given, and each says in the end
//! what it recorded. What they say goes through a pipe of its own, so that one that dies is noticed at once; the others
//! are ended then, for they may wait for it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use fsb_model::trial::WorkerSpan;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::thread::futex;
use serde::{Deserialize, Serialize};

use crate::clock::{self, Circumstances, Clock};
use crate::context::Context;
use crate::lane::Lane;
use crate::profile::Profile;
use crate::shared::Common;
use crate::task::{Gate, Ready};
use crate::team::{Crew, Outcome};
use crate::{EngineError, latency, usage};

/// What all processes see.
struct Start {
    /// Whether the word was given.
    word: AtomicU32,
    failed: AtomicBool,
}

/// What a process says, one line of JSON each.
#[derive(Serialize, Deserialize)]
enum Said {
    Equipped,
    Done {
        span: WorkerSpan,
        histogram: String,
        usage: [f64; 2],
        /// What the crew said for itself.
        report: Option<String>,
    },
    Failed(EngineError),
}

/// Runs the crew in processes. Reports that the crew does not put into words stay with them.
pub(crate) fn run<C: Crew>(
    crew: &C,
    context: &Context,
    profile: &Profile,
    ready: Ready,
    gate: &mut dyn Gate,
) -> Result<Outcome<C::Report>, EngineError> {
    let mut outcome = Outcome::new(clock::cost_ns(context.clock));
    let start = Common::new(Start { word: AtomicU32::new(0), failed: AtomicBool::new(false) })?;
    let mut children = Children::default();
    for rank in 0..profile.processes {
        children.fork(|said| member(crew, context, profile, &start, rank, said))?;
    }
    for child in &mut children.0 {
        child.hear()?;
    }
    gate.ready(ready)?;
    start.word.store(1, Ordering::Release);
    // The only error is an address that is none.
    let _ = futex::wake(&start.word, futex::Flags::empty(), i32::MAX as u32);
    for said in children.hear_all() {
        let Said::Done { span, histogram, usage: [user, system], report } = said? else {
            return Err(EngineError::new("a process said that it was equipped, twice"));
        };
        outcome.spans.push(span);
        if let Some(report) = report {
            outcome.reports.extend(crew.hear(&report)?);
        }
        let histogram = latency::decode(&histogram).map_err(|error| EngineError::new(error.to_string()))?;
        outcome.histogram.add(histogram).expect("histograms of one size add up");
        outcome.user_seconds += user;
        outcome.system_seconds += system;
    }
    Ok(outcome.pretend_usage(context.clock))
}

/// The life of one process: what it says in the end.
fn member<C: Crew>(
    crew: &C,
    context: &Context,
    profile: &Profile,
    start: &Start,
    rank: u32,
    said: &mut File,
) -> Result<Said, EngineError> {
    let circumstances = Circumstances { cache: profile.cache, durability: profile.durability };
    let until = context.until_seconds.filter(|_| profile.divisible);
    let clock = Clock::new(context.clock, rank, circumstances);
    let mut lane = Lane::new(rank, clock, until, &start.failed, crew.progress(rank));
    let mut kit = crew.equip(rank)?;
    say(said, &Said::Equipped);
    while start.word.load(Ordering::Acquire) == 0 {
        // Woken for nothing, or not put to sleep because the word was given meanwhile: it looks again.
        let _ = futex::wait(&start.word, futex::Flags::empty(), 0, None);
    }
    let before = usage::of_process();
    let result = crew.work(&mut kit, &mut lane);
    start.failed.fetch_or(result.is_err(), Ordering::Relaxed);
    result?;
    let (after, aside) = (usage::of_process(), lane.usage_aside());
    let (span, histogram) = lane.finish();
    let usage = [0, 1].map(|mode| (after[mode] - before[mode] - aside[mode]).max(0.0));
    let report = crew.say(crew.report(kit));
    Ok(Said::Done { span, histogram: latency::encode(&histogram), usage, report })
}

fn say(to: &mut File, said: &Said) {
    // Who cannot be heard any more will be ended.
    let _ = serde_json::to_writer(&mut *to, said).map_err(std::io::Error::from).and_then(|()| to.write_all(b"\n"));
}

/// Processes that were forked. Those that still run when this is dropped are killed.
#[derive(Default)]
struct Children(Vec<Child>);

struct Child {
    pid: Pid,
    says: BufReader<File>,
}

impl Children {
    /// Forks a process that does `work` and ends.
    fn fork(&mut self, work: impl FnOnce(&mut File) -> Result<Said, EngineError>) -> Result<(), EngineError> {
        let refused = |what: &str, errno| EngineError::new(format!("{what} for a process: {errno}"));
        let (says, said) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| refused("make a pipe", errno.to_string()))?;
        // SAFETY: the child has one thread, this one. It runs `work`, which takes no lock that another thread of the
        // parent could have held (glibc makes its own memory usable again), and ends without returning from here.
        match unsafe { libc::fork() } {
            -1 => Err(refused("fork", std::io::Error::last_os_error().to_string())),
            0 => alone(said, work),
            pid => {
                let pid = Pid::from_raw(pid).ok_or_else(|| refused("fork", "no process id".to_owned()))?;
                self.0.push(Child { pid, says: BufReader::new(File::from(says)) });
                Ok(())
            }
        }
    }

    /// What each says last. When one fails the others are killed: they may wait for it.
    fn hear_all(&mut self) -> Vec<Result<Said, EngineError>> {
        let pids: Vec<Pid> = self.0.iter().map(|child| child.pid).collect();
        let hear = |child: &mut Child, failed: &AtomicBool| {
            let said = child.hear();
            // Only what happened first is the reason.
            if said.is_err() && !failed.swap(true, Ordering::AcqRel) {
                kill(&pids);
                return Some(said);
            }
            said.is_ok().then_some(said)
        };
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let (hear, failed) = (&hear, &failed);
            let ears: Vec<_> = self.0.iter_mut().map(|child| scope.spawn(move || hear(child, failed))).collect();
            ears.into_iter()
                .filter_map(|ear| ear.join().unwrap_or_else(|payload| panic::resume_unwind(payload)))
                .collect()
        })
    }
}

/// The end of a forked process.
fn alone(said: OwnedFd, work: impl FnOnce(&mut File) -> Result<Said, EngineError>) -> ! {
    let mut said = File::from(said);
    // Refused nowhere; and without it a worker that is killed would leave this process behind.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let last = panic::catch_unwind(AssertUnwindSafe(|| work(&mut said)))
        .unwrap_or_else(|_| Err(EngineError::new("a process panicked")))
        .unwrap_or_else(Said::Failed);
    say(&mut said, &last);
    // SAFETY: ends the process; what the parent's exit would do (flush its output, run its handlers) is not for it.
    unsafe { libc::_exit(0) }
}

impl Child {
    fn hear(&mut self) -> Result<Said, EngineError> {
        let mut line = String::new();
        let died = |why: String| EngineError::new(format!("process {} died: {why}", self.pid.as_raw_nonzero()));
        match self.says.read_line(&mut line) {
            Ok(0) => Err(died("it said nothing".to_owned())),
            Ok(_) => match serde_json::from_str(&line).map_err(|error| died(error.to_string()))? {
                Said::Failed(error) => Err(error),
                said => Ok(said),
            },
            Err(error) => Err(died(error.to_string())),
        }
    }
}

fn kill(pids: &[Pid]) {
    for pid in pids {
        // One that has ended is a zombie until it is waited for: nobody else can have its number.
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let pids: Vec<Pid> = self.0.iter().map(|child| child.pid).collect();
        kill(&pids);
        for pid in pids {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }
}
