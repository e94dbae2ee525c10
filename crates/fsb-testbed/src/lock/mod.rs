//! One measuring run a machine: two at once would measure each other.
//!
//! A run holds `lock` alone. Whoever insists (`--allow-concurrent`) takes no part in that: it holds `concurrent`
//! together with others of its kind and leaves its name there, where the run that holds the first lock finds it in the
//! end. So all of them can say that they were not alone.
//!
//! The locks lie where nobody else can write or open them: root's in `/run/fsb`, a user's in a directory of that user.
//! Who holds them stands beside them in a file that all can read, so that a user's run sees root's. Root's run trusts no
//! user's file: it sees users' runs by what the kernel says of their processes, and is told of them but not stopped.

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
/// Where those who insist leave their names.
const CONCURRENT: &str = "concurrent";

/// A process that is about to die may still hold a lock for an instant.
const GLANCE: Duration = Duration::from_millis(100);

/// The right to measure. Ends with the process that holds it, however that ends.
#[derive(Debug)]
pub struct RunLock {
    own: Holder,
    /// Absent for a user who has no place for a lock.
    held: Option<Held>,
    /// Who measured already when it was taken.
    before: Vec<Holder>,
    warnings: Vec<Warning>,
}

#[derive(Debug)]
struct Held {
    place: LockDirectory,
    /// Held alone; absent for a run that insisted.
    _alone: Option<File>,
    /// Names of runs that insisted; locked by those.
    concurrent: File,
}

impl RunLock {
    /// Takes the lock of this machine, or says who holds it. `command` is what the next one will be told.
    pub fn acquire(command: &str) -> Result<RunLock, TestbedError> {
        RunLock::take(Holder::current(command), &place::candidates(), true)
    }

    /// The right to measure although others do, who are told of it.
    pub fn join(command: &str) -> Result<RunLock, TestbedError> {
        RunLock::take(Holder::current(command), &place::candidates(), false)
    }

    fn take(own: Holder, places: &[PathBuf], alone: bool) -> Result<RunLock, TestbedError> {
        let mut lock = RunLock { own, held: None, before: Vec::new(), warnings: Vec::new() };
        let hold: Hold = if alone { Held::alone } else { Held::beside };
        match place::find(places) {
            Ok(place) => lock.held = Some(hold(place, &mut lock.before, &lock.own)?),
            // Nobody may take it away from root; an ordinary user is told what is missing, and measures.
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
            // The name is a courtesy; the lock holds without it.
            let _ = held.place.show(&lock.own);
        }
        Ok(lock)
    }

    /// Who else measured on this machine since the lock was taken, as far as they can be seen.
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

    /// Conditions of the lock itself that the reader of the results must know.
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
        // Names of runs that are over. What cannot be emptied is told as company, and unlocking what is ours cannot fail.
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
            // Unseen it would spoil another run without a word.
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

/// Whether the lock was got.
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

/// Who measures on this machine now; absent where nobody does.
pub(crate) fn current_holder() -> Option<String> {
    let nobody = Holder::current("");
    let mut all = place::elsewhere(&nobody);
    add(&mut all, holder::users(&nobody));
    all.first().map(Holder::to_string)
}

#[cfg(test)]
mod tests;
