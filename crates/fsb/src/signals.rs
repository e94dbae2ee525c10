//! The signals that end a run early: one table, and one way to catch them for all commands.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{self, Failure};

/// The signals that end a run early, with the exit code each stands for.
const ENDING: [(i32, u8); 3] = [(SIGINT, exit::INTERRUPTED), (SIGTERM, exit::TERMINATED), (SIGHUP, exit::HUNG_UP)];

/// What a second signal does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Second {
    /// The program ends at once: whatever the run holds, the kernel takes away.
    Ends,
    /// Nothing: the run removes its files, which nothing else would, and then ends.
    Waits,
}

/// Signals that are caught. All values of a process share one state.
#[derive(Debug, Clone)]
pub struct Signals {
    /// Set by the first signal.
    interrupted: Arc<AtomicBool>,
    /// Its exit code.
    code: Arc<AtomicUsize>,
    /// Set while nobody looks at the flag: a signal ends the program.
    ends: Arc<AtomicBool>,
}

impl Signals {
    /// From now on a signal sets the flag. Asked again, it answers with the same state, so that no signal is lost in
    /// between; what a second signal does was decided the first time. A SIGHUP that is ignored, as under nohup, stays
    /// ignored.
    pub fn catch(second: Second) -> anyhow::Result<Signals> {
        static CAUGHT: OnceLock<Signals> = OnceLock::new();
        if let Some(caught) = CAUGHT.get() {
            caught.ends.store(false, Ordering::SeqCst);
            return Ok(caught.clone());
        }
        let signals = Signals { interrupted: Arc::default(), code: Arc::default(), ends: Arc::default() };
        for (number, code) in ENDING.into_iter().filter(|(number, _)| *number != SIGHUP || !is_ignored(SIGHUP)) {
            let status = i32::from(code);
            // Conditions come first: they see what was set before this signal.
            signal_hook::flag::register_conditional_shutdown(number, status, Arc::clone(&signals.ends))?;
            if second == Second::Ends {
                signal_hook::flag::register_conditional_shutdown(number, status, Arc::clone(&signals.interrupted))?;
            }
            signal_hook::flag::register_usize(number, Arc::clone(&signals.code), usize::from(code))?;
            signal_hook::flag::register(number, Arc::clone(&signals.interrupted))?;
        }
        Ok(CAUGHT.get_or_init(|| signals).clone())
    }

    /// Until they are caught again signals end the program at once. An error where one has come already.
    pub fn let_go(&self) -> anyhow::Result<()> {
        self.ends.store(true, Ordering::SeqCst);
        if self.is_interrupted() { Err(self.failure("interrupted: nothing was begun")) } else { Ok(()) }
    }

    /// Whether a signal has come.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// The flag, for those who look at it between two records.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.interrupted
    }

    /// The exit code of the signal that came.
    pub fn code(&self) -> u8 {
        match u8::try_from(self.code.load(Ordering::SeqCst)) {
            Ok(code) if code != 0 => code,
            _ => exit::INTERRUPTED,
        }
    }

    /// The end of a run that was interrupted.
    pub fn failure(&self, message: &str) -> anyhow::Error {
        Failure { exit: self.code(), ..Failure::new(&fsb_runner::schedule::INTERRUPTED, message) }.into()
    }
}

fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
