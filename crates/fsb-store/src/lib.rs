//! A run directory on disk. `run.json` and `trials.jsonl` are the only source of a run's results.
//!
//! The store replaces `run.json` atomically. It appends to `trials.jsonl` one line per trial, and
//! [`RunDirectory::append`] returns after the line is on the disk. A trial that was reported therefore survives a
//! crash.
//!
//! A published page holds a run, too: [`Reader`] and [`read()`] read it like a run directory.
//!
//! [`input`] opens user-supplied files. [`remove_tree`] removes the directories that programs of the user leave, whatever
//! their depth and permissions.
#![forbid(unsafe_code)]

mod error;
pub mod input;
mod output;
mod page;
mod place;
mod read;
#[cfg(test)]
mod tests;
mod tree;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsb_model::{RunRecord, Trial};
use rustix::fs::{FileType, FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

use place::{HeldDirectory, Open};

pub use error::{CODES, NO_RUN, StoreError};
pub use output::{append, check as check_output, check_existing, replace, replace_with};
pub use page::{element as page_element, is_page};
pub use place::{Act, ResultOwner, absolute, check_private, check_trusted};
pub use read::{Contents, Journal, Line, RUN_FILE, Reader, TRIALS_FILE, read};
pub use tree::remove_tree;

/// An open run directory that trials are appended to. No other run appends to it while it is open.
#[derive(Debug)]
pub struct RunDirectory {
    claim: Claim,
    journal: File,
    /// The record as it was last written. [`RunDirectory::restore`] writes it again if the directory was deleted.
    record: Vec<u8>,
}

impl RunDirectory {
    /// Creates the directory, which must be new or empty, and writes the record. `holder` describes this process to
    /// other processes that try to write there.
    pub fn create(
        path: &Path,
        record: &RunRecord,
        result_owner: ResultOwner,
        holder: &str,
    ) -> Result<Self, StoreError> {
        let claim = Claim::new(HeldDirectory::open(path, result_owner, Open::Making)?, holder)?;
        check_new(path, &claim.place.result_owner())?;
        let journal_path = path.join(TRIALS_FILE);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let journal = claim.place.open_file(OsStr::new(TRIALS_FILE), flags, 0o666);
        let journal = journal.map_err(|error| StoreError::io("make", &journal_path, error))?;
        let mut directory = RunDirectory { claim, journal, record: Vec::new() };
        if let Err(error) = directory.write_record(record) {
            // A directory without a record is not a run. The next attempt must find it empty.
            let _ = directory.claim.place.remove(OsStr::new(TRIALS_FILE));
            return Err(error);
        }
        Ok(directory)
    }

    /// Resumes the run in a directory. The report prints its contents, so the invoking user must be able to read them.
    pub fn resume(claim: Claim) -> Result<(Self, Contents), StoreError> {
        let contents = claim.read()?;
        // The next line must not continue a truncated last line, and the old file may have other hard links. The
        // journal therefore becomes a new file.
        let text = encode_trials(&contents.trials)?;
        let journal = claim.replace(TRIALS_FILE, &text)?;
        let record = encode_record(&contents.record)?;
        Ok((RunDirectory { claim, journal, record }, contents))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.claim.path()
    }

    /// Reads the contents, which this process wrote: the claim excludes other runs.
    pub fn read(&self) -> Result<Contents, StoreError> {
        match self.claim.place.result_owner().is_invoking_user() {
            true => self.claim.read(),
            false => input::with_own_rights(|| self.claim.read()),
        }
    }

    /// Replaces `run.json`.
    pub fn write_record(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        self.record = encode_record(record)?;
        self.claim.replace(RUN_FILE, &self.record).map(drop)
    }

    /// Appends a trial and waits until it is on the disk. If the write fails, truncates the journal to its previous
    /// length.
    pub fn append(&mut self, trial: &Trial) -> Result<(), StoreError> {
        let path = self.path().join(TRIALS_FILE);
        let fail = |error| StoreError::io("append to", &path, error);
        let before = self.journal.metadata().map_err(fail)?;
        if let Err(error) = append_line(&mut self.journal, trial) {
            let _ = self.journal.set_len(before.len());
            return Err(fail(error));
        }
        if self.is_deleted() { Err(StoreError::Deleted(self.path().to_owned())) } else { Ok(()) }
    }

    /// Replaces all trials. A resume uses this to mark the trials of an unfinished block as superseded.
    pub fn rewrite_trials(&mut self, trials: &[Trial]) -> Result<(), StoreError> {
        // The old descriptor points at the file that was replaced.
        self.journal = self.claim.replace(TRIALS_FILE, &encode_trials(trials)?)?;
        Ok(())
    }

    /// Writes a derived file (a table, a report) into the directory, atomically.
    pub fn write_file(&self, name: &str, content: &[u8]) -> Result<PathBuf, StoreError> {
        self.write_file_with(name, |file| file.write_all(content))
    }

    /// Writes a derived file as [`RunDirectory::write_file`] does. `write` produces the content.
    pub fn write_file_with(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        self.claim.replace_with(name, write)?;
        Ok(self.path().join(name))
    }

    /// Returns whether the directory or its journal was deleted.
    pub fn is_deleted(&self) -> bool {
        self.claim.place.is_gone() || self.journal.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    /// Creates a deleted directory again, with everything that this value wrote. The trials are still in the journal,
    /// which is open. If another file or directory has taken the name, the new directory is `PATH.saved`.
    pub fn restore(&mut self) -> Result<(), StoreError> {
        let path = self.path().to_owned();
        let mut text = vec![0; self.journal.metadata().map_or(0, |found| found.len() as usize)];
        self.journal.read_exact_at(&mut text, 0).map_err(|error| StoreError::io("read", &path, error))?;
        let result_owner = self.claim.place.result_owner();
        let beside = || {
            let mut name = path.clone().into_os_string();
            name.push(".saved");
            PathBuf::from(name)
        };
        let path = match check_new(&path, &result_owner) {
            // The path is not empty: the open directory is still there, or another one took its name.
            Err(_) if self.claim.place.is_gone() => beside(),
            _ => path,
        };
        if self.claim.place.is_gone() {
            self.claim = Claim::new(HeldDirectory::open(&path, result_owner, Open::Making)?, &self.claim.holder)?;
        }
        self.journal = self.claim.replace(TRIALS_FILE, &text)?;
        self.claim.replace(RUN_FILE, &self.record).map(drop)
    }
}

/// A run directory that no other run writes to while this value lives.
#[derive(Debug)]
pub struct Claim {
    place: HeldDirectory,
    lock: Lock,
    holder: String,
}

impl Claim {
    /// Claims the directory of a run. `holder` describes this process to other processes that try to write there.
    pub fn take(path: &Path, result_owner: ResultOwner, holder: &str) -> Result<Claim, StoreError> {
        let place = HeldDirectory::open(path, result_owner, Open::Existing).map_err(|error| match error {
            StoreError::Io { source, .. } if no_directory(&source) => StoreError::NoRun(path.to_owned()),
            error => error,
        })?;
        let record = place.stat(OsStr::new(RUN_FILE));
        if record.map_err(|error| StoreError::io("examine", path, error))?.is_none() {
            return Err(StoreError::NoRun(path.to_owned()));
        }
        Claim::new(place, holder)
    }

    fn new(place: HeldDirectory, holder: &str) -> Result<Claim, StoreError> {
        let lock = Lock::take(&place, holder)?;
        Ok(Claim { place, lock, holder: holder.to_owned() })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Reads the directory with the owner's privileges.
    pub fn read(&self) -> Result<Contents, StoreError> {
        let path = self.place.path();
        self.place.result_owner().act(|| read(path)).map_err(|error| StoreError::io("read", path, error))?
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

/// Writes the line and its end with one call, so that two lines never mix, and syncs the file.
fn append_line(journal: &mut File, trial: &Trial) -> io::Result<()> {
    let mut line = serde_json::to_vec(trial)?;
    line.push(b'\n');
    journal.write_all(&line)?;
    journal.sync_data()
}

fn encode_record(record: &RunRecord) -> Result<Vec<u8>, StoreError> {
    let mut text = serde_json::to_vec_pretty(record).map_err(|error| StoreError::Encode(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

fn encode_trials(trials: &[Trial]) -> Result<Vec<u8>, StoreError> {
    let mut text = Vec::new();
    for trial in trials {
        serde_json::to_writer(&mut text, trial).map_err(|error| StoreError::Encode(error.to_string()))?;
        text.push(b'\n');
    }
    Ok(text)
}

fn no_directory(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Checks that a run may be written to `path`: it must be new or an empty directory, and the owner must be able to use
/// it.
pub fn check_new(path: &Path, result_owner: &ResultOwner) -> Result<(), StoreError> {
    let mut there = path;
    loop {
        match HeldDirectory::open(there, *result_owner, Open::Existing) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {
                return Err(StoreError::NotDirectory(there.to_owned()));
            }
            Err(error) => return Err(error),
            Ok(_) => break,
        }
        // The store will create the missing components below the nearest existing parent.
        match there.parent() {
            Some(parent) if parent.as_os_str().is_empty() && there != Path::new(".") => there = Path::new("."),
            Some(parent) if !parent.as_os_str().is_empty() => there = parent,
            _ => break,
        }
    }
    let entries = result_owner.act(|| fs::read_dir(path)).flatten();
    match entries {
        Ok(entries) => match entries.flatten().find(|entry| entry.file_name() != LOCK_FILE) {
            Some(_) => Err(StoreError::NotEmpty(path.to_owned())),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

/// The file that is locked while a run writes.
const LOCK_FILE: &str = ".lock";

/// Number of attempts after which the lock counts as busy. An attempt fails if the locked file was removed meanwhile.
const LOCK_ATTEMPTS: usize = 16;
/// Number of bytes of the holder's description that are read for the message.
const LONGEST_HOLDER: u64 = 300;

/// The lock of a run directory: one run writes there at a time. Dropping the value releases it; [`Lock::release`] also
/// removes the file. Only the owner may open the file. Otherwise every user who can read the directory could hold the
/// lock.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// Takes the lock of a run directory. Writes `holder` into the lock file, for the message of the next process that
    /// tries.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Busy`] with the holder's description if another process has the lock.
    pub fn take(place: &HeldDirectory, holder: &str) -> Result<Lock, StoreError> {
        let name = OsStr::new(LOCK_FILE);
        let path = place.join(name);
        let fail = |what| {
            let path = path.clone();
            move |error| StoreError::io(what, &path, error)
        };
        for _ in 0..LOCK_ATTEMPTS {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
            let mut file = place.open_file(name, flags, 0o600).map_err(fail("open the lock"))?;
            let stat = fstat(&file).map_err(|errno| fail("examine")(errno.into()))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
                || stat.st_uid != place.result_owner().uid()
                || stat.st_nlink > 1
            {
                return Err(StoreError::Planted(path));
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    let mut said = String::new();
                    let _ = (&file).take(LONGEST_HOLDER).read_to_string(&mut said);
                    return Err(StoreError::Busy { path: place.path().to_owned(), holder: one_line(&said) });
                }
                // The file system has no locks. The run continues without one.
                Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {}
                Err(errno) => return Err(fail("lock")(errno.into())),
            }
            // The previous holder may have removed the file between the open and the lock.
            let there = place.stat(name).map_err(fail("examine"))?;
            if there.is_some_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)) {
                // The description only improves a message, so an error is ignored. If the disk is full, writing the
                // results fails.
                let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                return Ok(Lock(file));
            }
        }
        Err(StoreError::Busy { path: place.path().to_owned(), holder: String::new() })
    }

    /// Removes the lock file if it is still this one. The lock itself ends when the value is dropped.
    pub fn release(&self, place: &HeldDirectory) {
        let (Ok(own), Ok(Some(there))) = (fstat(&self.0), place.stat(OsStr::new(LOCK_FILE))) else { return };
        if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) {
            let _ = place.remove(OsStr::new(LOCK_FILE));
        }
    }
}

fn one_line(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
