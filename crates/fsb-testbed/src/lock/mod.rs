//! The lock that allows one measuring run per machine, because two at once would affect each other.
//!
//! A run holds `lock` exclusively. A run with `--allow-concurrent` does not need that lock: it shares `concurrent` with
//! others of its kind and writes its name there, where the run that holds the first lock reads it at its end. All of
//! these runs can therefore report that they were not alone.
//!
//! The locks are in directories that no other user can write to, in files that no other user can open: root's in
//! `/run/fsb`, a user's in a directory of that user. A file beside them that all can read names the holders, so that a
//! user's run sees root's. Root's run does not trust files of users. It finds users' runs from the kernel's data on
//! their processes; they cause a warning but do not stop it.

mod holder;
mod place;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::Duration;

use fsb_model::Warning;
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::poll_until;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use self::holder::Holder;
use self::place::LockDirectory;

/// The lock of a run that measures alone.
const FIRST: &str = "lock";
/// The file in which runs with `--allow-concurrent` write their names.
const CONCURRENT: &str = "concurrent";

/// The time for which a lock is tried again: a dying process may still hold it briefly.
const GLANCE: Duration = Duration::from_millis(100);

/// The right to measure. The kernel releases it when the process ends for any reason.
#[derive(Debug)]
pub struct RunLock {
    own: Holder,
    /// `None` for a user who has no directory for a lock.
    held: Option<Held>,
    /// The runs that measured already when it was taken.
    before: Vec<Holder>,
    warnings: Vec<Warning>,
}

#[derive(Debug)]
struct Held {
    place: LockDirectory,
    /// The exclusive lock. `None` for a run with `--allow-concurrent`.
    _alone: Option<File>,
    /// The names of runs with `--allow-concurrent`, which hold a shared lock on it.
    concurrent: File,
}

impl RunLock {
    /// Takes the lock of this machine. The error names the holder. `command` is shown to the next run that tries.
    pub fn acquire(command: &str) -> Result<RunLock, TestbedError> {
        RunLock::take(Holder::current(command), &place::candidates(), true)
    }

    /// Takes the right to measure beside other runs, which learn of this run.
    pub fn join(command: &str) -> Result<RunLock, TestbedError> {
        RunLock::take(Holder::current(command), &place::candidates(), false)
    }

    fn take(own: Holder, places: &[PathBuf], alone: bool) -> Result<RunLock, TestbedError> {
        let mut lock = RunLock { own, held: None, before: Vec::new(), warnings: Vec::new() };
        let hold: Hold = if alone { Held::alone } else { Held::beside };
        match place::find(places) {
            Ok(place) => lock.held = Some(hold(place, &mut lock.before, &lock.own)?),
            // No other user can remove root's directory, so a failure is an error for root. Other users get a warning
            // and measure.
            Err(refusals) if rustix::process::geteuid().is_root() => {
                return Err(TestbedError::machine("no lock can be taken")
                    .tried(refusals.join("; "))
                    .advice("root's lock is in /run/fsb, which must be a directory that only root can write to"));
            }
            Err(refusals) => lock.warnings.push(Warning::NoLock { reasons: refusals }),
        }
        let mut others = Vec::new();
        poll_until(GLANCE, || {
            others = place::elsewhere(&lock.own);
            others.is_empty() || !alone
        });
        if let Some(rival) = others.first().filter(|_| alone) {
            return Err(busy(Some(rival), "look for root's runs, and those of this user"));
        }
        add(&mut lock.before, others);
        add(&mut lock.before, holder::users(&lock.own));
        if let Some(held) = &lock.held {
            held.place.sweep();
            // The name only informs others; the lock holds without it.
            let _ = held.place.show(&lock.own);
        }
        Ok(lock)
    }

    /// Returns the other runs that measured on this machine since the lock was taken, as far as they are visible.
    pub fn others(&mut self) -> Vec<String> {
        let mut all = self.before.clone();
        if let Some(held) = &mut self.held {
            let names = holder::read(&mut held.concurrent);
            let own = names.iter().position(|name| *name == self.own);
            add(&mut all, names.into_iter().skip(own.map_or(0, |at| at + 1)).collect());
        }
        add(&mut all, place::elsewhere(&self.own));
        add(&mut all, holder::users(&self.own));
        all.iter().map(Holder::to_string).collect()
    }

    /// Returns conditions of the lock itself that the reader of the results must know.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.place.hide(&self.own);
        }
    }
}

type Hold = fn(LockDirectory, &mut Vec<Holder>, &Holder) -> Result<Held, TestbedError>;

fn add(all: &mut Vec<Holder>, more: Vec<Holder>) {
    for one in more {
        if all.iter().all(|known| known.owner.pid != one.owner.pid) {
            all.push(one);
        }
    }
}

impl Held {
    fn alone(place: LockDirectory, _: &mut Vec<Holder>, _: &Holder) -> Result<Held, TestbedError> {
        let first = open(&place, FIRST)?;
        let mut concurrent = open(&place, CONCURRENT)?;
        let lock = "lock what it holds";
        if !glance(&first, FlockOperation::NonBlockingLockExclusive) {
            return Err(busy(place.living().first(), lock));
        }
        if !glance(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            let names = holder::read(&mut concurrent);
            return Err(busy(names.iter().find(|name| name.is_alive()).or(names.last()), lock));
        }
        // Removes the names of runs that have ended. If that fails, they are reported as concurrent runs. Unlocking
        // cannot fail.
        let _ = concurrent.set_len(0);
        let _ = flock(&concurrent, FlockOperation::Unlock);
        Ok(Held { place, _alone: Some(first), concurrent })
    }

    fn beside(place: LockDirectory, before: &mut Vec<Holder>, own: &Holder) -> Result<Held, TestbedError> {
        let first = open(&place, FIRST)?;
        let mut concurrent = open(&place, CONCURRENT)?;
        if glance(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            let _ = concurrent.set_len(0);
        }
        if !glance(&concurrent, FlockOperation::NonBlockingLockShared) {
            return Err(busy(None, "lock what it holds"));
        }
        add(before, holder::read(&mut concurrent).into_iter().filter(Holder::is_alive).collect());
        if flock(&first, FlockOperation::NonBlockingLockShared) == Err(Errno::AGAIN) {
            add(before, place.living());
        }
        let line = own.line();
        let written = concurrent.seek(SeekFrom::End(0)).and_then(|_| concurrent.write_all(line.as_bytes()));
        written.map_err(|error| {
            // Without its name, this run would affect another run unnoticed.
            TestbedError::machine("fsb cannot notify the other runs of this one").tried(attempt(
                "write to",
                &place.path().join(CONCURRENT),
                &error,
            ))
        })?;
        Ok(Held { place, _alone: None, concurrent })
    }
}

fn open(place: &LockDirectory, name: &str) -> Result<File, TestbedError> {
    place.lock_file(name).map_err(|error| {
        TestbedError::machine("the lock cannot be taken")
            .tried(attempt("use", &place.path().join(name), &error))
            .advice("check that file and remove it: the lock is a regular file of the user that runs fsb")
    })
}

/// Tries to take the lock for a short time. Returns whether it was taken.
fn glance(file: &File, operation: FlockOperation) -> bool {
    poll_until(GLANCE, || flock(file, operation) != Err(Errno::AGAIN))
}

fn busy(holder: Option<&Holder>, tried: &str) -> TestbedError {
    let name = holder.map_or_else(|| "an unknown process".to_owned(), Holder::to_string);
    let error = TestbedError::machine(format!("another fsb is measuring on this machine: {name}"))
        .coded(&fsb_model::error::BUSY);
    let error = holder.iter().fold(error, |error, holder| error.field("pid", holder.owner.pid));
    error.tried(tried).advice("wait for it to end, or add --allow-concurrent: runs at the same time affect each other")
}

/// Returns a run that measures on this machine now. Returns `None` if there is none.
pub(crate) fn current_holder() -> Option<String> {
    let nobody = Holder::current("");
    let mut all = place::elsewhere(&nobody);
    add(&mut all, holder::users(&nobody));
    all.first().map(Holder::to_string)
}

#[cfg(test)]
mod tests;
