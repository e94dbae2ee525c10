//! A run directory on disk: `run.json` and `trials.jsonl`, the truth about a run.
//!
//! `run.json` is replaced atomically; `trials.jsonl` only grows, a line at a time, each on the disk before anybody is
//! told of it. Whatever dies, what was told is there.
#![forbid(unsafe_code)]

mod author;
mod error;
mod lock;
mod output;
mod path;
mod place;
mod read;
mod trials;
mod trust;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsb_model::{RunRecord, Trial};
use rustix::fs::OFlags;

pub use author::{Act, Author};
pub use error::{CODES, NO_RUN, StoreError};
pub use output::{append, check as check_output, check_existing, replace, replace_with};
pub use path::absolute;
pub use read::{Contents, Journal, Line, RUN_FILE, Reader, TRIALS_FILE, read};
pub use trust::{check_private, check_trusted};

use lock::{LOCK_FILE, Lock};
use place::{HeldDirectory, Open};

/// An open run directory that trials are appended to. Nobody else appends while it is open.
#[derive(Debug)]
pub struct RunDirectory {
    claim: Claim,
    journal: File,
    /// The record as it was written last, in case the directory is deleted.
    record: Vec<u8>,
}

impl RunDirectory {
    /// Makes the directory, which must be new or empty, and writes the record. `holder` says who writes there, to others
    /// who would.
    pub fn create(path: &Path, record: &RunRecord, author: Author, holder: &str) -> Result<Self, StoreError> {
        let claim = Claim::of(HeldDirectory::open(path, author, Open::Making)?, holder)?;
        check_new(path, &claim.place.author())?;
        let journal_path = path.join(TRIALS_FILE);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let journal = claim.place.open_file(OsStr::new(TRIALS_FILE), flags, 0o666);
        let journal = journal.map_err(|error| StoreError::io("make", &journal_path, error))?;
        let mut directory = RunDirectory { claim, journal, record: Vec::new() };
        if let Err(error) = directory.write_record(record) {
            // Without a record it is no run, and another try must find it empty.
            let _ = directory.claim.place.remove(OsStr::new(TRIALS_FILE));
            return Err(error);
        }
        Ok(directory)
    }

    /// Goes on with the run in a directory. What it holds is told, so that whoever asked root must be able to read it.
    pub fn resume(claim: Claim) -> Result<(Self, Contents), StoreError> {
        let contents = claim.read()?;
        // A last line that was cut off must not become the beginning of the next one, and what stood there may have
        // other names: the journal is a new file.
        let text = encode_trials(&contents.trials)?;
        let journal = claim.replace(TRIALS_FILE, &text)?;
        let record = encode_record(&contents.record)?;
        Ok((RunDirectory { claim, journal, record }, contents))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.claim.path()
    }

    /// What it holds: what this process wrote, for the claim excludes others.
    pub fn read(&self) -> Result<Contents, StoreError> {
        match self.claim.place.author().is_caller() {
            true => self.claim.read(),
            false => fsb_input::with_own_rights(|| self.claim.read()),
        }
    }

    /// Replaces `run.json`.
    pub fn write_record(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        self.record = encode_record(record)?;
        self.claim.replace(RUN_FILE, &self.record).map(drop)
    }

    /// Appends a trial and waits until it is on the disk. What could not be written whole is taken away again.
    pub fn append(&mut self, trial: &Trial) -> Result<(), StoreError> {
        let path = self.path().join(TRIALS_FILE);
        let fail = |error| StoreError::io("append to", &path, error);
        let before = self.journal.metadata().map_err(fail)?;
        if let Err(error) = trials::append(&mut self.journal, trial) {
            let _ = self.journal.set_len(before.len());
            return Err(fail(error));
        }
        if self.is_deleted() { Err(StoreError::Deleted(self.path().to_owned())) } else { Ok(()) }
    }

    /// Replaces all trials: how a resume marks those of an unfinished block as superseded.
    pub fn rewrite_trials(&mut self, trials: &[Trial]) -> Result<(), StoreError> {
        // The old descriptor points at the file that was replaced.
        self.journal = self.claim.replace(TRIALS_FILE, &encode_trials(trials)?)?;
        Ok(())
    }

    /// Writes a derived file (a table, a report) into the directory, atomically.
    pub fn write_file(&self, name: &str, content: &[u8]) -> Result<PathBuf, StoreError> {
        self.write_file_with(name, |file| file.write_all(content))
    }

    /// Writes a derived file as [`RunDirectory::write_file`] does, from what `write` writes.
    pub fn write_file_with(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        self.claim.replace_with(name, write)?;
        Ok(self.path().join(name))
    }

    /// Whether somebody deleted the directory, or the trials in it.
    pub fn is_deleted(&self) -> bool {
        self.claim.place.is_gone() || self.journal.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    /// Makes the directory again where it was deleted, with everything that this value wrote: the trials are still in the
    /// file that is open. Where something else has its name by now, beside that.
    pub fn restore(&mut self) -> Result<(), StoreError> {
        let path = self.path().to_owned();
        let mut text = vec![0; self.journal.metadata().map_or(0, |found| found.len() as usize)];
        self.journal.read_exact_at(&mut text, 0).map_err(|error| StoreError::io("read", &path, error))?;
        let author = self.claim.place.author();
        let beside = || {
            let mut name = path.clone().into_os_string();
            name.push(".saved");
            PathBuf::from(name)
        };
        let path = match check_new(&path, &author) {
            // It is there with something in it: the one that is open, or another.
            Err(_) if self.claim.place.is_gone() => beside(),
            _ => path,
        };
        if self.claim.place.is_gone() {
            self.claim = Claim::of(HeldDirectory::open(&path, author, Open::Making)?, &self.claim.holder)?;
        }
        self.journal = self.claim.replace(TRIALS_FILE, &text)?;
        self.claim.replace(RUN_FILE, &self.record).map(drop)
    }
}

/// A run directory that nobody else writes to while this value lives.
#[derive(Debug)]
pub struct Claim {
    place: HeldDirectory,
    lock: Lock,
    holder: String,
}

impl Claim {
    /// Claims the directory of a run. `holder` says who writes there, to others who would.
    pub fn take(path: &Path, author: Author, holder: &str) -> Result<Claim, StoreError> {
        let place = HeldDirectory::open(path, author, Open::Existing).map_err(|error| match error {
            StoreError::Io { source, .. } if no_directory(&source) => StoreError::NoRun(path.to_owned()),
            error => error,
        })?;
        let record = place.stat(OsStr::new(RUN_FILE));
        if record.map_err(|error| StoreError::io("examine", path, error))?.is_none() {
            return Err(StoreError::NoRun(path.to_owned()));
        }
        Claim::of(place, holder)
    }

    fn of(place: HeldDirectory, holder: &str) -> Result<Claim, StoreError> {
        let lock = Lock::take(&place, holder)?;
        Ok(Claim { place, lock, holder: holder.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// What the directory holds.
    pub fn read(&self) -> Result<Contents, StoreError> {
        let path = self.place.path();
        self.place.author().act(|| read(path)).map_err(|error| StoreError::io("read", path, error))?
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<File, StoreError> {
        self.replace_with(name, |file| file.write_all(content))
    }

    fn replace_with(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<File, StoreError> {
        let path = self.place.path().join(name);
        self.place.replace(OsStr::new(name), write).map_err(|error| StoreError::io("write", &path, error))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lock.release(&self.place);
    }
}

fn encode_record(record: &RunRecord) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(record).map_err(|error| StoreError::Encode(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

fn encode_trials(trials: &[Trial]) -> Result<Vec<u8>, StoreError> {
    trials::encode(trials).map_err(|error| StoreError::Encode(error.to_string()))
}

fn no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether a run may be written to `path`: it must be new, or an empty directory, and a place that the author may use.
pub fn check_new(path: &Path, author: &Author) -> Result<(), StoreError> {
    let mut there = path;
    loop {
        match HeldDirectory::open(there, *author, Open::Existing) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {
                return Err(StoreError::NotDirectory(there.to_owned()));
            }
            Err(error) => return Err(error),
            Ok(_) => break,
        }
        // What is not there yet is made, in what is.
        match there.parent() {
            Some(parent) if parent.as_os_str().is_empty() && there != Path::new(".") => there = Path::new("."),
            Some(parent) if !parent.as_os_str().is_empty() => there = parent,
            _ => break,
        }
    }
    let entries = author.act(|| fs::read_dir(path)).flatten();
    match entries {
        Ok(entries) => match entries.flatten().find(|entry| entry.file_name() != LOCK_FILE) {
            Some(_) => Err(StoreError::NotEmpty(path.to_owned())),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;
