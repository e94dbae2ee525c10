//! Whose turn it is to measure, and who measured at the same time.

use fsb_testbed::lock::RunLock;

use crate::progress::say;

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
            say(&format!("warning: {warning}"));
        }
        for other in lock.others() {
            say(&format!("warning: {other} measures too: the runs measure each other"));
        }
        Ok(lock)
    }
}

/// What a run that was not alone, or cannot know, says of itself.
pub fn company(lock: &mut RunLock) -> Vec<String> {
    let mut said = lock.warnings().to_vec();
    if let [first, more @ ..] = &lock.others()[..] {
        let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        said.push(format!("not alone: {first}{more} measured at the same time; the runs measured each other"));
    }
    said
}
