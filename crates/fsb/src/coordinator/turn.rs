//! Exclusive or concurrent measuring, and warnings about concurrent runs.

use fsb_codes::notice;
use fsb_model::Warning;
use fsb_testbed::lock::RunLock;

use crate::progress::warn;
use crate::stderr::{notify, say};

/// Whether a run refuses to measure beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Measures only if no other fsb measures.
    Alone,
    /// Measures beside others; all of their results are marked.
    Concurrent,
}

impl Turn {
    /// Returns the value for `--allow-concurrent`.
    pub fn of(concurrent: bool) -> Turn {
        if concurrent { Turn::Concurrent } else { Turn::Alone }
    }

    /// Takes the lock, or returns an error that names its holder. Prints warnings about runs that measure already.
    pub fn take(self, command: &str) -> anyhow::Result<RunLock> {
        let mut lock = match self {
            Turn::Alone => RunLock::acquire(command)?,
            Turn::Concurrent => RunLock::join(command)?,
        };
        for warning in lock.warnings() {
            warn(warning, &say);
        }
        for other in lock.others() {
            let text = format!("warning: {other} measures at the same time: the runs affect each other");
            notify(&notice::CONCURRENT, [("run", other.into()), ("more", 0.into())], &text);
        }
        Ok(lock)
    }
}

/// Returns the warnings of a run that measured beside others, or of one that cannot notice others.
pub fn concurrent(lock: &mut RunLock) -> Vec<Warning> {
    let mut warnings = lock.warnings().to_vec();
    if let [first, more @ ..] = &lock.others()[..] {
        warnings.push(Warning::Concurrent { run: first.clone(), more: more.len() });
    }
    warnings
}

/// Prints the warnings of [`concurrent`], for commands that save no record of a run.
pub fn warn_of_concurrent(lock: &mut RunLock) {
    concurrent(lock).iter().for_each(|warning| warn(warning, &say));
}
