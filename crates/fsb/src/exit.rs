//! The exit codes, and the exit code of each failure.

use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use fsb_compat::ReadError;
use fsb_model::Failure;
use fsb_model::target::TargetError;
use fsb_model::{Coded, ErrorCode, code, errno};
use fsb_runner::plan_file::PlanError;
use fsb_runner::schedule::RunError;
use fsb_store::StoreError;
use fsb_testbed::TestbedError;
use serde_json::{Map, Value};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::message::{self, Level, Message};

#[cfg(feature = "history")]
use fsb_history::HistoryError;
#[cfg(feature = "traces")]
use fsb_trace::TraceError;

pub use fsb_model::code::{GATE, INTERRUPTED, MACHINE, REQUEST, TRIALS};

/// Done.
pub const DONE: u8 = 0;
/// Ended by SIGHUP: the terminal is gone.
const HUNG_UP: u8 = 129;
/// Ended by SIGTERM.
const TERMINATED: u8 = 143;

/// Returns a failure with the codes, fields and remedy of an error, and another message.
pub fn wrapping(error: &anyhow::Error, message: String) -> Failure {
    let Known {
        code,
        exit,
        fields,
        help,
    } = known(error);
    Failure {
        code,
        exit,
        message,
        fields,
        help,
    }
}

/// Prints the error and returns its exit code. A reader that closed the pipe has what it wanted:
/// that is success.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_broken_pipe) {
        return ExitCode::SUCCESS;
    }
    message::emit(&to_message(error), &to_lines(error));
    ExitCode::from(code(error))
}

/// Returns the error as a message for programs.
fn to_message(error: &anyhow::Error) -> Message {
    let Known {
        code, fields, help, ..
    } = known(error);
    let help = advice_on_limits(error).map(str::to_owned).or(help);
    let message = error.to_string();
    let causes = error.chain().skip(1).map(ToString::to_string);
    let cause: Vec<String> = causes
        .filter(|cause| !message.contains(essence(cause)))
        .collect();
    Message {
        level: Level::Error,
        code: Some(code.name.to_owned()),
        message,
        cause,
        help: Some(help.unwrap_or_else(|| code.help.to_owned())),
        fields,
    }
}

/// Returns the error as a terminal shows it: `error:` what failed and why, `help:` what to do.
fn to_lines(error: &anyhow::Error) -> Vec<String> {
    let text = to_text(error);
    let help = advice_on_limits(error)
        .map(str::to_owned)
        .or_else(|| known(error).help);
    let Some(help) = help else {
        return vec![format!("error: {text}")];
    };
    // Most messages end with their remedy, for users who log them in one line.
    match text
        .strip_suffix(&help)
        .and_then(|text| text.strip_suffix("; "))
    {
        Some(message) => vec![format!("error: {message}"), format!("help: {help}")],
        None if text.contains(&help) => vec![format!("error: {text}")],
        None => vec![format!("error: {text}"), format!("help: {help}")],
    }
}

/// Returns the error with its causes. A cause that the error contains is not repeated.
fn to_text(error: &anyhow::Error) -> String {
    let text = without_advice(error);
    match advice_on_limits(error).filter(|advice| !text.contains(advice)) {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

fn without_advice(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(essence(&cause)) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn advice_on_limits(error: &anyhow::Error) -> Option<&'static str> {
    known(error)
        .fields
        .get("errno")
        .and_then(Value::as_str)
        .and_then(errno::advice_on_limits)
}

/// Returns the cause without the number that follows the text of kernel errors.
fn essence(cause: &str) -> &str {
    cause
        .split_once(" (os error")
        .map_or(cause, |(words, _)| words)
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns the error code of an error.
pub fn error_code(error: &anyhow::Error) -> &'static ErrorCode {
    known(error).code
}

/// Returns the exit code for an error.
pub fn code(error: &anyhow::Error) -> u8 {
    known(error).exit
}

/// The data of an error beside its text.
struct Known {
    code: &'static ErrorCode,
    exit: u8,
    fields: Map<String, Value>,
    help: Option<String>,
}

impl Known {
    fn from_coded(error: &impl Coded) -> Known {
        let code = error.code();
        Known {
            code,
            exit: code.exit,
            fields: error.fields(),
            help: error.help(),
        }
    }
}

/// Returns the code and data of the outermost error with a code. An error without one is internal,
/// or the kernel's. The field `errno` names the kernel's error that caused it.
fn known(error: &anyhow::Error) -> Known {
    let unclassified = || {
        if error.chain().any(|error| error.is::<io::Error>()) {
            &code::SYSTEM
        } else {
            &code::INTERNAL
        }
    };
    let general = || Known {
        code: unclassified(),
        exit: MACHINE,
        fields: Map::new(),
        help: None,
    };
    let mut known = error.chain().find_map(classified).unwrap_or_else(general);
    if let Some(name) = error
        .chain()
        .find_map(|error| errno::name_of(error.downcast_ref()?))
    {
        known.fields.entry("errno").or_insert_with(|| name.into());
    }
    known
}

fn classified(error: &(dyn std::error::Error + 'static)) -> Option<Known> {
    fn downcast<E: Coded + std::error::Error + 'static>(
        error: &(dyn std::error::Error + 'static),
    ) -> Option<Known> {
        error.downcast_ref::<E>().map(Known::from_coded)
    }
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return Some(Known {
            exit: failure.exit,
            ..Known::from_coded(failure)
        });
    }
    let found = downcast::<PlanError>(error)
        .or_else(|| downcast::<TestbedError>(error))
        .or_else(|| downcast::<StoreError>(error))
        .or_else(|| downcast::<RunError>(error))
        .or_else(|| downcast::<ReadError>(error))
        .or_else(|| downcast::<TargetError>(error));
    #[cfg(feature = "traces")]
    let found = found.or_else(|| downcast::<TraceError>(error));
    #[cfg(feature = "history")]
    let found = found.or_else(|| downcast::<HistoryError>(error));
    found
}

// The signals that end a run early: one table, and one way for all commands to catch them.

/// The signals that end a run early, with their exit codes.
const ENDING: [(i32, u8); 3] = [
    (SIGINT, INTERRUPTED),
    (SIGTERM, TERMINATED),
    (SIGHUP, HUNG_UP),
];

/// The effect of a second signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// Ends the program at once; the kernel releases everything that the run holds.
    Ends,
    /// Nothing: the run first removes its files, because nothing else would, and then ends.
    Waits,
}

/// Caught signals. All values in a process share one state.
#[derive(Debug, Clone)]
pub struct Signals {
    /// Set by the first signal.
    interrupted: Arc<AtomicBool>,
    /// The exit code.
    code: Arc<AtomicUsize>,
    /// Set while no code checks the flag: a signal then ends the program.
    ends: Arc<AtomicBool>,
}

impl Signals {
    /// Makes signals set the flag from now on. Another call returns the same state, so that no
    /// signal is lost in between; the first call decides the effect of a second signal. An ignored
    /// SIGHUP, as under nohup, stays ignored.
    pub fn catch(second: Second) -> anyhow::Result<Signals> {
        static CAUGHT: OnceLock<Signals> = OnceLock::new();
        if let Some(caught) = CAUGHT.get() {
            caught.ends.store(false, Ordering::SeqCst);
            return Ok(caught.clone());
        }
        let signals = Signals {
            interrupted: Arc::default(),
            code: Arc::default(),
            ends: Arc::default(),
        };
        for (number, code) in ENDING
            .into_iter()
            .filter(|(number, _)| *number != SIGHUP || !is_ignored(SIGHUP))
        {
            let status = i32::from(code);
            // Conditions come first: they see the state before this signal.
            signal_hook::flag::register_conditional_shutdown(
                number,
                status,
                Arc::clone(&signals.ends),
            )?;
            if second == Second::Ends {
                signal_hook::flag::register_conditional_shutdown(
                    number,
                    status,
                    Arc::clone(&signals.interrupted),
                )?;
            }
            signal_hook::flag::register_usize(
                number,
                Arc::clone(&signals.code),
                usize::from(code),
            )?;
            signal_hook::flag::register(number, Arc::clone(&signals.interrupted))?;
        }
        Ok(CAUGHT.get_or_init(|| signals).clone())
    }

    /// Makes signals end the program at once, until they are caught again.
    ///
    /// # Errors
    ///
    /// A signal has come already.
    pub fn let_go(&self) -> anyhow::Result<()> {
        self.ends.store(true, Ordering::SeqCst);
        self.check()
    }

    /// Checks that no signal has come.
    ///
    /// # Errors
    ///
    /// A signal has come.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.is_interrupted() {
            Err(self.failure("interrupted: nothing was begun"))
        } else {
            Ok(())
        }
    }

    /// Returns whether a signal has come.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Returns the flag, for code that checks it between two records.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.interrupted
    }

    /// Returns the exit code of the signal that came.
    pub fn code(&self) -> u8 {
        match u8::try_from(self.code.load(Ordering::SeqCst)) {
            Ok(code) if code != 0 => code,
            _ => INTERRUPTED,
        }
    }

    /// Returns the error of an interrupted run.
    pub fn failure(&self, message: &str) -> anyhow::Error {
        Failure {
            exit: self.code(),
            // What can be resumed ends with an error of the coordinator.
            help: Some("start the command again".to_owned()),
            ..Failure::new(&fsb_runner::schedule::INTERRUPTED, message)
        }
        .into()
    }
}

fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use anyhow::Context;

    use fsb_model::failure;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let source = io::Error::from_raw_os_error(27);
        let error = StoreError::Io {
            what: "write",
            path: PathBuf::from("run/run.json"),
            source,
        };
        let error = anyhow::Error::new(error);
        assert_eq!(
            to_text(&error),
            "cannot write run/run.json: File too large (os error 27)"
        );
        let source = io::Error::from_raw_os_error(24);
        let error = anyhow::Error::new(StoreError::Io {
            what: "open",
            path: PathBuf::from("/"),
            source,
        });
        let advised = "raise the limit on open files: ulimit -n 1024";
        assert_eq!(
            to_text(&error),
            format!("cannot open /: Too many open files (os error 24); {advised}")
        );
        let advised = "cannot use a: Permission denied (EACCES); name another";
        let error = Err::<(), _>(io::Error::from_raw_os_error(13))
            .context(advised)
            .unwrap_err();
        assert_eq!(to_text(&error), advised);
        let error = Err::<(), _>(io::Error::other("it is gone"))
            .context("cannot read a")
            .unwrap_err();
        assert_eq!(to_text(&error), "cannot read a: it is gone");
        assert_eq!(to_lines(&error), ["error: cannot read a: it is gone"]);
        let error = TestbedError::machine("the program mkfs.xfs is missing")
            .advice("install the package xfsprogs");
        let lines = to_lines(&error.into());
        assert_eq!(
            lines,
            [
                "error: the program mkfs.xfs is missing",
                "help: install the package xfsprogs"
            ]
        );
    }

    #[test]
    fn the_name_of_a_kernel_error_is_not_read_from_a_text() {
        let quoted = failure::error(
            &code::UNREADABLE,
            "cannot read a: Permission denied (os error 13), as strace says (EACCES)",
        );
        assert_eq!(to_message(&quoted).fields.get("errno"), None);
        let cause = || errno::explain(io::Error::from_raw_os_error(13), "refused".to_owned());
        let error = failure::failed_call(&code::UNREADABLE, &cause(), "cannot read a: refused");
        assert_eq!(to_message(&error).fields["errno"], "EACCES");
        let error = StoreError::Io {
            what: "read",
            path: PathBuf::from("a"),
            source: cause(),
        };
        let fields = wrapping(&error.into(), String::new()).fields;
        assert_eq!(
            Value::from(fields),
            serde_json::json!({ "path": "a", "call": "read", "errno": "EACCES" })
        );
    }

    #[test]
    fn a_message_for_programs_has_code_cause_help_and_fields() {
        let source = io::Error::from_raw_os_error(28);
        let error = anyhow::Error::new(StoreError::Io {
            what: "write",
            path: PathBuf::from("run/run.json"),
            source,
        });
        let message =
            serde_json::to_value(to_message(&error.context("cannot save the run"))).unwrap();
        let expected = serde_json::json!({
            "level": "error", "code": "store/io", "message": "cannot save the run",
            "cause": ["cannot write run/run.json: No space left on device (os error 28)",
                      "No space left on device (os error 28)"],
            "help": "Follow the kernel's answer in the message; the field errno names it.",
            "fields": { "path": "run/run.json", "call": "write", "errno": "ENOSPC" },
        });
        assert_eq!(message, expected);
        let internal = anyhow::anyhow!("it is gone");
        assert_eq!(
            (
                to_message(&internal).code.as_deref(),
                super::code(&internal)
            ),
            (Some("internal"), MACHINE)
        );
    }
}
