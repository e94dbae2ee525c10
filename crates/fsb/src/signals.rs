//! The signals that end a run early: one table, and one way for all commands to catch them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{self, Failure};

/// The signals that end a run early, with their exit codes.
const ENDING: [(i32, u8); 3] = [(SIGINT, exit::INTERRUPTED), (SIGTERM, exit::TERMINATED), (SIGHUP, exit::HUNG_UP)];

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
    /// Its exit code.
    code: Arc<AtomicUsize>,
    /// Set while no code checks the flag: a signal then ends the program.
    ends: Arc<AtomicBool>,
}

impl Signals {
    /// Makes signals set the flag from now on. Another call returns the same state, so that no signal is lost in
    /// between; the first call decides the effect of a second signal. An ignored SIGHUP, as under nohup, stays ignored.
    pub fn catch(second: Second) -> anyhow::Result<Signals> {
        static CAUGHT: OnceLock<Signals> = OnceLock::new();
        if let Some(caught) = CAUGHT.get() {
            caught.ends.store(false, Ordering::SeqCst);
            return Ok(caught.clone());
        }
        let signals = Signals { interrupted: Arc::default(), code: Arc::default(), ends: Arc::default() };
        for (number, code) in ENDING.into_iter().filter(|(number, _)| *number != SIGHUP || !is_ignored(SIGHUP)) {
            let status = i32::from(code);
            // Conditions come first: they see the state before this signal.
            signal_hook::flag::register_conditional_shutdown(number, status, Arc::clone(&signals.ends))?;
            if second == Second::Ends {
                signal_hook::flag::register_conditional_shutdown(number, status, Arc::clone(&signals.interrupted))?;
            }
            signal_hook::flag::register_usize(number, Arc::clone(&signals.code), usize::from(code))?;
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
        if self.is_interrupted() { Err(self.failure("interrupted: nothing was begun")) } else { Ok(()) }
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
            _ => exit::INTERRUPTED,
        }
    }

    /// Returns the error of an interrupted run.
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
