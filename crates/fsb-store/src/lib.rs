//! A run directory on disk: `run.json` and `trials.jsonl`, the truth about a run.
//!
//! `run.json` is replaced atomically; `trials.jsonl` only grows, a line at a time, each on the disk before anybody is
//! told of it. Whatever dies, what was told is there.
#![forbid(unsafe_code)]

mod atomic;
mod error;
mod read;
mod trials;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fsb_model::{RunRecord, Trial};

pub use atomic::replace;
pub use error::StoreError;
pub use read::{Contents, Line, Reader, read};

/// The record of the run.
pub const RUN_FILE: &str = "run.json";
/// The trials, one a line.
pub const TRIALS_FILE: &str = "trials.jsonl";

/// An open run directory that trials are appended to.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    journal: File,
}

impl RunDirectory {
    /// Makes the directory, which must be new or empty, and writes the record.
    pub fn create(path: &Path, record: &RunRecord) -> Result<Self, StoreError> {
        check_new(path)?;
        fs::create_dir_all(path).map_err(|error| StoreError::io("make the run directory", path, error))?;
        let journal_path = path.join(TRIALS_FILE);
        let journal = File::options()
            .create_new(true)
            .append(true)
            .open(&journal_path)
            .map_err(|error| StoreError::io("make", &journal_path, error))?;
        let directory = RunDirectory { path: path.to_owned(), journal };
        directory.write_record(record)?;
        Ok(directory)
    }

    /// Opens an existing directory to go on with its run.
    pub fn resume(path: &Path) -> Result<(Self, Contents), StoreError> {
        let contents = read(path)?;
        let mut directory = RunDirectory { path: path.to_owned(), journal: open_journal(path)? };
        // A last line that was cut off must not become the beginning of the next one.
        directory.rewrite_trials(&contents.trials)?;
        Ok((directory, contents))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces `run.json`.
    pub fn write_record(&self, record: &RunRecord) -> Result<(), StoreError> {
        let path = self.path.join(RUN_FILE);
        let mut text = serde_json::to_vec_pretty(record).map_err(|error| StoreError::Encode(error.to_string()))?;
        text.push(b'\n');
        replace(&path, &text).map_err(|error| StoreError::io("write", &path, error))
    }

    /// Appends a trial and waits until it is on the disk.
    pub fn append(&mut self, trial: &Trial) -> Result<(), StoreError> {
        let path = self.path.join(TRIALS_FILE);
        trials::append(&mut self.journal, trial).map_err(|error| StoreError::io("append to", &path, error))
    }

    /// Replaces all trials: how a resume marks those of an unfinished block as superseded.
    pub fn rewrite_trials(&mut self, trials: &[Trial]) -> Result<(), StoreError> {
        let path = self.path.join(TRIALS_FILE);
        let text = trials::encode(trials).map_err(|error| StoreError::Encode(error.to_string()))?;
        replace(&path, &text).map_err(|error| StoreError::io("write", &path, error))?;
        // The old descriptor still points at the file that was replaced.
        self.journal = open_journal(&self.path)?;
        Ok(())
    }

    /// Writes a derived file (a table, a report) into the directory, atomically.
    pub fn write_file(&self, name: &str, content: &[u8]) -> Result<PathBuf, StoreError> {
        let path = self.path.join(name);
        replace(&path, content).map_err(|error| StoreError::io("write", &path, error))?;
        Ok(path)
    }
}

/// Whether a run may be written to `path`: it must be new, or an empty directory.
pub fn check_new(path: &Path) -> Result<(), StoreError> {
    match fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(StoreError::NotEmpty(path.to_owned())),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

fn open_journal(path: &Path) -> Result<File, StoreError> {
    let journal = path.join(TRIALS_FILE);
    File::options().create(true).append(true).open(&journal).map_err(|error| StoreError::io("open", &journal, error))
}

#[cfg(test)]
mod tests;
