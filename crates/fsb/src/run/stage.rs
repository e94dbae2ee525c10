//! Parts of a measuring run: the lock, the supervisor and its agent, and the signals that end it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fsb_model::error::BUSY;
use fsb_model::{Failure, Place, RunRecord, Warning, code, failure, notice};
use fsb_report::show::counted;
use fsb_runner::agent::{AGENT_ARGUMENT, Agent, AgentError, SUPERVISOR_ARGUMENT};
use fsb_runner::schedule::{self, RunError};
use fsb_runner::vm;
use fsb_store::StoreError;
use fsb_sys::sandbox::{self, Launched};
use fsb_testbed::ledger::{self, Fate, Owner, Replayed};
use fsb_testbed::lock::RunLock;
use fsb_testbed::{LocalTestbed, Watcher, control, host};

use crate::exit;
use crate::exit::{Second, Signals};
use crate::message::{notify, say, say_warning};
use crate::run::progress::warn;

/// The time that an interrupted run waits for the kernel to tear everything down.
const GOODBYE: Duration = Duration::from_millis(1200);

/// Holds the parts of a measuring run; dropping it tears everything down.
pub(super) struct Stage {
    pub(super) lock: RunLock,
    launched: Launched,
    /// Outlives this process if it is killed, and then undoes the changes of the run.
    watcher: Option<Watcher>,
    signals: Signals,
}

impl Stage {
    /// Cleans up after killed runs and starts the supervisor. Until it runs, this process must have
    /// one thread.
    pub(super) fn set(lock: RunLock, record: &RunRecord) -> anyhow::Result<(Stage, Agent)> {
        tidy_up();
        let owner = serde_json::to_string(&Owner::current())?;
        let place = record.plan.place;
        let setup = schedule::setup(record);
        let may_leave = match place {
            Place::Host => LocalTestbed::may_leave(&setup),
            Place::Vm => fsb_testbed::vm::may_leave(&setup),
        };
        let watcher = may_leave.then(watcher).flatten();
        let agent = match place {
            Place::Host => AGENT_ARGUMENT,
            Place::Vm => vm::VM_PROXY_ARGUMENT,
        };
        let arguments = [SUPERVISOR_ARGUMENT, agent, &owner].map(OsString::from);
        let launched = sandbox::launch(&arguments)?;
        let signals = Signals::catch(Second::Ends)?;
        let stream = launched.stream.try_clone()?;
        let agent = Agent::connect(stream, Arc::clone(signals.flag())).map_err(RunError::from)?;
        Ok((
            Stage {
                lock,
                launched,
                watcher,
                signals,
            },
            agent,
        ))
    }

    /// Undoes the changes that the agent left to this process because it lives in another mount
    /// namespace. Returns the changes that could not be undone.
    pub(super) fn undo_rest(&self) -> Vec<Warning> {
        let failed = replay_own()
            .into_iter()
            .filter(|entry| matches!(entry.fate, ledger::Fate::Failed(_)));
        failed
            .map(|entry| Warning::NotUndone {
                entry: entry.to_string(),
            })
            .collect()
    }

    /// Tears everything down, at once.
    pub(super) fn strike(&mut self) {
        self.launched.kill(GOODBYE);
        // The ledger lists the changes that the kernel does not revert; their owner is this
        // process, which is still alive. Changes that cannot be undone yet, because the kernel
        // still holds them, stay listed for the next run or `fsb clean`.
        replay_own();
    }

    /// Ends without waiting for the kernel. The watcher stays and retries the changes that could
    /// not be undone yet.
    pub(super) fn leave(self) {
        drop(self.lock);
        self.launched.let_go();
        if let Some(watcher) = self.watcher {
            watcher.leave();
        }
    }

    /// Returns the failure of a run that ends with `error`. After an interruption its exit code is
    /// that of the signal.
    pub(super) fn ending(&self, error: &anyhow::Error, message: String) -> Failure {
        let interrupted = self.signals.is_interrupted()
            && matches!(
                error.downcast_ref::<RunError>(),
                Some(RunError::Agent(AgentError::Interrupted))
            );
        let failure = exit::wrapping(error, message);
        if interrupted {
            Failure {
                exit: self.signals.code(),
                ..failure
            }
        } else {
            failure
        }
    }
}

/// Starts the process that undoes the changes of this one if it is killed; `None` without a ledger.
/// Without a watcher the next `fsb` undoes them.
pub fn watcher() -> Option<Watcher> {
    ledger::default_directory().ok()?;
    Watcher::start().map_err(say_warning).ok()
}

/// Undoes the changes that the ledger lists for this process, and those that killed runs left.
fn replay_own() -> Vec<Replayed> {
    let place = ledger::default_directory();
    place.map_or_else(
        |_| Vec::new(),
        |place| ledger::replay_of(&place, &host::boot_id(), control::RULES, Owner::current()),
    )
}

// Exclusive or concurrent measuring, and warnings about concurrent runs.

/// The interval at which a run that waits tries to take the lock.
const RETRY: Duration = Duration::from_millis(500);

/// Whether a run refuses to measure beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Measures only if no other fsb measures.
    Alone,
    /// Waits until no other fsb measures.
    Waiting,
    /// Measures beside others; all of their results are marked.
    Concurrent,
}

impl Turn {
    /// Returns the value for `--allow-concurrent`.
    pub fn new(concurrent: bool) -> Turn {
        if concurrent {
            Turn::Concurrent
        } else {
            Turn::Alone
        }
    }

    /// Returns the value for `--allow-concurrent` and `--wait`, which exclude each other.
    pub fn of_run(concurrent: bool, wait: bool) -> Turn {
        if wait {
            Turn::Waiting
        } else {
            Turn::new(concurrent)
        }
    }

    /// Waits until no other fsb measures, if this run waits. A run calls it before it records when
    /// it started.
    pub fn wait(self, command: &str) -> anyhow::Result<()> {
        if self == Turn::Waiting {
            wait_for_lock(command).map(drop)
        } else {
            Ok(())
        }
    }

    /// Takes the lock, or returns an error that names its holder. Prints warnings about runs that
    /// measure already.
    pub fn take(self, command: &str) -> anyhow::Result<RunLock> {
        let lock = match self {
            Turn::Alone => RunLock::acquire(command)?,
            Turn::Waiting => wait_for_lock(command)?,
            Turn::Concurrent => RunLock::join(command)?,
        };
        for warning in lock.warnings() {
            warn(warning, &say);
        }
        if let [first, more @ ..] = &lock.before()[..] {
            let (verb, others) = match more.len() {
                0 => ("measures", String::new()),
                others => ("measure", format!(" and {others} more")),
            };
            let text = format!(
                "warning: {first}{others} {verb} at the same time: the runs affect each other"
            );
            notify(
                &notice::CONCURRENT,
                [("run", first.as_str().into()), ("more", more.len().into())],
                &text,
            );
        }
        Ok(lock)
    }
}

/// Takes the lock as soon as no other fsb measures, and prints each run that it waits for.
fn wait_for_lock(command: &str) -> anyhow::Result<RunLock> {
    let signals = Signals::catch(Second::Ends)?;
    let mut printed = None;
    loop {
        let error = match RunLock::acquire(command) {
            Err(error) if error.code == BUSY.name => error,
            taken => return Ok(taken?),
        };
        if printed.as_ref() != Some(&error.what) {
            let pid = error.fields.get("pid").cloned().unwrap_or_default();
            notify(
                &notice::WAITING,
                [("pid", pid)],
                &format!("note: {}: waiting for it to end", error.what),
            );
            printed = Some(error.what);
        }
        if fsb_sys::poll_until(RETRY, || signals.is_interrupted()) {
            return Err(
                signals.failure("interrupted while waiting for another fsb: nothing was begun")
            );
        }
    }
}

/// Returns the warnings of a run that measured beside others, or of one that cannot notice others.
pub fn concurrent(lock: &mut RunLock) -> Vec<Warning> {
    let mut warnings = lock.warnings().to_vec();
    if let [first, more @ ..] = &lock.others()[..] {
        warnings.push(Warning::Concurrent {
            run: first.clone(),
            more: more.len(),
        });
    }
    warnings
}

/// Prints the warnings of [`concurrent`], for commands that save no record of a run.
pub fn warn_of_concurrent(lock: &mut RunLock) {
    concurrent(lock)
        .iter()
        .for_each(|warning| warn(warning, &say));
}

// Changes that killed runs left behind, from the undo ledger.

/// A change that a killed run left.
pub struct Leftover {
    /// `open` if it can be undone; otherwise what became of it: `undone`, `discarded`,
    /// `out-of-reach`, `failed` or `refused`.
    pub state: &'static str,
    /// The file of its entry in the undo ledger.
    pub file: PathBuf,
    /// A line about it.
    pub text: String,
}

/// Undoes the changes that killed runs left. Returns a line per change, and whether all could be
/// undone. Without a ledger directory no run left anything.
pub fn replay() -> (Vec<Leftover>, bool) {
    let Ok(place) = ledger::default_directory() else {
        return (Vec::new(), true);
    };
    let replayed = ledger::replay(&place, &host::boot_id(), control::RULES);
    let remains = |entry: &Replayed| entry.is_open() || matches!(entry.fate, Fate::OutOfReach(_));
    let complete = !replayed.iter().any(remains);
    let describe = |entry: Replayed| {
        let state = match entry.fate {
            Fate::Live => return None,
            Fate::Undone(_) => "undone",
            Fate::Discarded => "discarded",
            Fate::OutOfReach(_) => "out-of-reach",
            Fate::Failed(_) => "failed",
            Fate::Refused(_) => "refused",
        };
        Some(Leftover {
            state,
            text: entry.to_string(),
            file: entry.file,
        })
    };
    (
        replayed.into_iter().filter_map(describe).collect(),
        complete,
    )
}

/// Undoes the changes that killed runs left, before a run. Prints the changes that could not be
/// undone, because they affect this run, and only the number of the others.
pub fn tidy_up() {
    let Ok(place) = ledger::default_directory() else {
        return;
    };
    let replayed = ledger::replay(&place, &host::boot_id(), control::RULES);
    let undone = replayed
        .iter()
        .filter(|entry| matches!(entry.fate, ledger::Fate::Undone(_)))
        .count();
    if undone > 0 {
        let text = format!("undone first: {} of killed runs", counted(undone, "change"));
        notify(&notice::UNDONE, [("changes", undone.into())], &text);
    }
    for entry in replayed.iter().filter(|entry| entry.is_open()) {
        let path = entry.file.to_string_lossy();
        notify(
            &notice::NOT_UNDONE,
            [("path", path.into())],
            &format!("warning: {entry}"),
        );
    }
}

/// Describes the changes of killed runs that [`replay`] would undo.
pub fn leftovers() -> (Vec<Leftover>, bool) {
    let Ok(place) = ledger::default_directory() else {
        return (Vec::new(), true);
    };
    let describe =
        |(file, entry): (PathBuf, Result<ledger::Entry, fsb_testbed::Refusal>)| match entry {
            Ok(entry) if entry.owner.is_alive() => None,
            Ok(entry) => Some(Leftover {
                state: "open",
                text: format!("would undo: {}", entry.action),
                file,
            }),
            Err(why) => {
                let text = format!("would refuse: {}: {why}", file.display());
                Some(Leftover {
                    state: "refused",
                    text,
                    file,
                })
            }
        };
    (
        ledger::leftovers(&place, control::RULES)
            .into_iter()
            .filter_map(describe)
            .collect(),
        true,
    )
}

/// Checks that only root can change the kernel cache, if fsb runs as root.
pub fn check_cache() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Ok(cache) = fsb_runner::vm::cache_path() else {
        return Ok(());
    };
    match fsb_store::check_trusted(&cache) {
        Err(StoreError::Untrusted { component, why, .. }) => Err(failure::error(
            &code::CACHE_NOT_PRIVATE,
            format!(
                "root stores no kernels in {}: {}: {why}; run without sudo, which a virtual machine does not need, or \
                 set XDG_CACHE_HOME to a directory that only root may write to",
                cache.display(),
                component.display()
            ),
        )),
        checked => Ok(checked?),
    }
}
