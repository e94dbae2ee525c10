//! Whose turn it is to measure, and who measured at the same time.

use fsb_codes::notice;
use fsb_model::Warning;
use fsb_testbed::lock::RunLock;

use crate::progress::warn;
use crate::stderr::{notify, say};

/// Whether a run waits its turn or insists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Alone on the machine, or not at all.
    Alone,
    /// Beside others, who are told, and marked for it.
    Concurrent,
}

impl Turn {
    /// `--allow-concurrent`.
    pub fn of(concurrent: bool) -> Turn {
        if concurrent { Turn::Concurrent } else { Turn::Alone }
    }

    /// The right to measure, or who has it. Says who measures already.
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

/// The warnings of a run beside others, or of one that cannot notice others.
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
