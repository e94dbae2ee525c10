//! Runs several passes that start together. With a stonewall, the first pass that finishes stops the others.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::perform::{GroupState, perform_with};
use super::phase::{Phase, PhaseError, PhaseResult};
use crate::EngineError;
use crate::processes::Children;
use crate::shared_memory::SharedMemory;

/// The results of all passes of a group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupResult {
    /// One result per pass, in order.
    pub results: Vec<PhaseResult>,
    /// From the start signal to the end of the last pass.
    pub nanoseconds: u64,
}

/// Performs phases together: in threads, or in processes of `program`. `program` is this program, which calls
/// [`super::child_main`] when its first argument is [`CHILD_ARGUMENT`].
///
/// # Errors
/// The error of the first phase that failed, as of [`super::perform`].
pub fn perform_together(
    phases: &[Phase],
    program: Option<&Path>,
    interrupted: &AtomicBool,
) -> Result<GroupResult, PhaseError> {
    match program {
        Some(program) => processes(phases, program, interrupted),
        None => threads(phases, interrupted),
    }
}

type Ended = (Result<PhaseResult, PhaseError>, Instant);

fn threads(phases: &[Phase], interrupted: &AtomicBool) -> Result<GroupResult, PhaseError> {
    let group = GroupState::default();
    thread::scope(|scope| {
        let run = |phase| {
            let group = &group;
            let work = move || -> Ended { (perform_with(phase, interrupted, group, true), Instant::now()) };
            thread::Builder::new().spawn_scoped(scope, work).inspect_err(|_| group.start.answer(false))
        };
        let members: Vec<_> = phases.iter().map(run).collect();
        let start = begin(&group, phases, || interrupted.load(Ordering::Relaxed));
        let ended = members.into_iter().map(|member| match member {
            Ok(member) => member.join().unwrap_or_else(|_| panicked()),
            Err(error) => (Err(no_thread(&error).into()), Instant::now()),
        });
        conclude(ended.collect(), start)
    })
}

/// Starts the phases once all are ready. Aborts them if one is not ready, or if `in_vain` reports that it will not be.
fn begin(group: &GroupState, phases: &[Phase], mut in_vain: impl FnMut() -> bool) -> Instant {
    let count = phases.len() as u32;
    if group.start.all_ready(count, &mut in_vain) {
        return group.start.run(count, in_vain);
    }
    group.start.abort();
    Instant::now()
}

fn no_thread(error: &io::Error) -> EngineError {
    EngineError::spawn("start a thread of the test", error)
}

fn panicked() -> Ended {
    (Err(EngineError::new("a thread of the test ended unexpectedly").into()), Instant::now())
}

/// Returns the first failure, or all results. A phase that fails before the start interrupts the others, so any other
/// error takes precedence over `Interrupted`.
fn conclude(ended: Vec<Ended>, start: Instant) -> Result<GroupResult, PhaseError> {
    let last = ended.iter().map(|(_, end)| *end).max().unwrap_or(start);
    let mut results = Vec::new();
    let mut left = None;
    for (result, _) in ended {
        match result {
            Ok(result) => results.push(result),
            Err(PhaseError::Interrupted) => left = Some(PhaseError::Interrupted),
            Err(error) => return Err(error),
        }
    }
    match left {
        Some(left) => Err(left),
        None => {
            Ok(GroupResult { results, nanoseconds: last.saturating_duration_since(start).as_nanos().max(1) as u64 })
        }
    }
}

fn processes(phases: &[Phase], program: &Path, interrupted: &AtomicBool) -> Result<GroupResult, PhaseError> {
    let refused = |error: io::Error| EngineError::io("share memory with", "the test's processes", &error);
    let memory = rustix::fs::memfd_create("fsb-start", MemfdFlags::CLOEXEC).map_err(|errno| refused(errno.into()))?;
    let memory = File::from(memory);
    memory.set_len(size_of::<GroupState>() as u64).map_err(refused)?;
    // SAFETY: zeros are a value, and only the processes below get the file.
    let group = unsafe { SharedMemory::<GroupState>::of_file(&memory)? };
    let (mut children, mut outputs) = (Children::default(), Vec::new());
    for phase in phases {
        let task = serde_json::to_string(phase).map_err(|error| EngineError::new(error.to_string()))?;
        let mut command = Command::new(program);
        command.args([CHILD_ARGUMENT, &std::process::id().to_string(), &task]).stdout(Stdio::piped());
        command.stdin(memory.try_clone().map_err(refused)?);
        let child = children.spawn(&mut command);
        let child = child.map_err(|error| EngineError::spawn(format!("start {}", program.display()), &error))?;
        outputs.push(child.stdout);
    }
    thread::scope(|scope| {
        let listen = |output: Option<ChildStdout>| {
            thread::Builder::new().spawn_scoped(scope, move || -> (String, Instant) {
                let mut text = String::new();
                if let Some(mut output) = output {
                    // A pipe that cannot be read counts as one without output.
                    let _ = output.read_to_string(&mut text);
                }
                (text, Instant::now())
            })
        };
        let members: Result<Vec<_>, _> = outputs.into_iter().map(listen).collect();
        let members = members.map_err(|error| {
            // The reader threads wait for the children to end.
            children.kill();
            no_thread(&error)
        })?;
        let gone = || members.iter().any(thread::ScopedJoinHandle::is_finished);
        let start = begin(&group, phases, || interrupted.load(Ordering::Relaxed) || gone());
        while !members.iter().all(thread::ScopedJoinHandle::is_finished) {
            if interrupted.load(Ordering::Relaxed) {
                children.kill();
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        let ended = members.into_iter().zip(phases).map(|(member, phase)| match member.join() {
            Ok((text, end)) => (answer(&text, phase, interrupted), end),
            Err(_) => panicked(),
        });
        conclude(ended.collect(), start)
    })
}

/// Parses the answer of a child process. Without a valid answer, returns `Interrupted` if the group was interrupted,
/// and an error that names the file otherwise.
fn answer(text: &str, phase: &Phase, interrupted: &AtomicBool) -> Result<PhaseResult, PhaseError> {
    match serde_json::from_str::<Result<PhaseResult, PhaseError>>(text) {
        Ok(result) => result,
        Err(_) if interrupted.load(Ordering::Relaxed) => Err(PhaseError::Interrupted),
        Err(_) => {
            let path = phase.path.display();
            Err(EngineError::new(format!("the process that worked on {path} ended without a result: was it killed?"))
                .into())
        }
    }
}

/// The first argument of a child process.
pub const CHILD_ARGUMENT: &str = "__iozone-child";

/// Performs the phase in `task` for the process with the number `parent`, and returns the answer to print.
///
/// A child process is this program again. Its standard input is the shared memory. It prints one answer, the result,
/// to standard output. It dies with the process that started it.
pub fn child_main(parent: &str, task: &str) -> String {
    let result = serve(parent, task);
    // Results are numbers and errors are text, so serializing them does not fail.
    serde_json::to_string(&result).unwrap_or_default()
}

fn serve(parent: &str, task: &str) -> Result<PhaseResult, PhaseError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| EngineError::call("tie this process to", "its parent", errno))?;
    // It may have died before this process asked to follow it.
    if rustix::process::getppid().map(|pid| pid.to_string()).as_deref() != Some(parent) {
        return Err(PhaseError::Interrupted);
    }
    let phase: Phase =
        serde_json::from_str(task).map_err(|error| EngineError::new(format!("the request is not a phase: {error}")))?;
    // SAFETY: the parent made the file for this value, and gave it to such processes alone.
    let group = unsafe { SharedMemory::<GroupState>::of_file(io::stdin())? };
    perform_with(&phase, &AtomicBool::new(false), &group, false)
}

#[cfg(test)]
mod tests {
    use super::super::content::Check;
    use super::super::phase::{IoMethod, Operation, Rest};
    use super::*;

    fn phase(operation: Operation, path: &Path, rank: u32) -> Phase {
        Phase {
            operation,
            path: path.to_owned(),
            file_size: 1 << 20,
            record_size: 4096,
            stride: 17,
            method: IoMethod::Calls,
            direct: false,
            sync: false,
            data_sync: false,
            include_flush: false,
            include_close: false,
            lock: true,
            check: Check::Diagnose,
            purge: None,
            latencies: true,
            rank,
            cpu: None,
            stonewall: true,
            rest: Rest::ALWAYS,
        }
    }

    fn together(phases: &[Phase]) -> Result<GroupResult, PhaseError> {
        perform_together(phases, None, &AtomicBool::new(false))
    }

    #[test]
    fn writers_finish_their_files_and_readers_stop_with_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let of = |operation| -> Vec<Phase> {
            (0..3).map(|rank| phase(operation, &directory.path().join(rank.to_string()), rank)).collect()
        };
        let written = together(&of(Operation::Write)).unwrap();
        assert!(
            written.results.iter().all(|result| result.full_nanoseconds.is_some() && result.latencies.len() == 256)
        );
        assert!(written.results.iter().any(|result| result.records == 256));
        assert!(written.results.iter().all(|result| written.nanoseconds >= result.nanoseconds));
        let read = together(&of(Operation::Read)).unwrap();
        let moved: Vec<usize> = read.results.iter().map(|result| result.latencies.len()).collect();
        assert!(moved.contains(&256) && moved.iter().all(|moved| *moved <= 256), "{moved:?}");
        assert!(read.results.iter().all(|result| result.full_nanoseconds.is_some() == (result.latencies.len() == 256)));
    }

    #[test]
    fn one_that_cannot_start_lets_nobody_start_and_is_the_one_to_tell() {
        let directory = tempfile::tempdir().unwrap();
        let (good, bad) = (directory.path().join("good"), directory.path().join("missing/bad"));
        let error = together(&[phase(Operation::Write, &good, 0), phase(Operation::Write, &bad, 1)]).unwrap_err();
        assert!(error.to_string().contains("missing/bad"), "{error}");
        assert_eq!(good.metadata().unwrap().len(), 0, "the other one was opened, and not written");
    }

    #[test]
    fn an_interrupted_group_ends_before_it_starts() {
        let directory = tempfile::tempdir().unwrap();
        let phases = [phase(Operation::Write, &directory.path().join("f"), 0)];
        let error = perform_together(&phases, None, &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error, PhaseError::Interrupted);
    }
}
