//! A run directory on disk. `run.json` and `trials.jsonl` are the only source of a run's results.
//!
//! The store replaces `run.json` atomically. It appends to `trials.jsonl` one line per trial, and
//! [`RunDirectory::append`] returns after the line is on the disk. A trial that was reported
//! therefore survives a crash. Each line ends with its checksum, which every reader verifies.
//!
//! A published page holds a run, too: [`Reader`] and [`read()`] read it like a run directory.
//!
//! [`input`] opens user-supplied files. [`remove_tree`] removes the directories that programs of
//! the user leave, whatever their depth and permissions.

#![forbid(unsafe_code)]

mod checksum;
mod error;
pub mod input;
pub mod journal;
mod output;
pub mod owner;
mod place;
mod read;
mod tree;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fsb_model::{RunRecord, Trial};
use place::{HeldDirectory, Open};
use rustix::fs::{FileType, FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

pub use checksum::journal_line;
pub use error::{CODES, EMPTY_DIRECTORY, NO_RUN, StoreError};
pub use output::{append, check as check_output, check_existing, replace, replace_with};
pub use place::{Act, ResultOwner, absolute, check_private, check_trusted};
pub use read::{
    Contents, Journal, Line, RUN_FILE, Reader, TRIALS_FILE, is_page, page_element, read,
};
pub use tree::remove_tree;

/// An open run directory that trials are appended to. No other run appends to it while it is open.
#[derive(Debug)]
pub struct RunDirectory {
    claim: Claim,
    journal: File,
    /// The record as it was last written. [`RunDirectory::restore`] writes it again if the
    /// directory was deleted.
    record: Vec<u8>,
}

impl RunDirectory {
    /// Creates the directory, which must be new or empty, and writes the record. `holder` describes
    /// this process to other processes that try to write there.
    pub fn create(
        path: &Path,
        record: &RunRecord,
        result_owner: ResultOwner,
        holder: &str,
    ) -> Result<Self, StoreError> {
        let claim = Claim::new(
            HeldDirectory::open(path, result_owner, Open::Making)?,
            holder,
        )?;
        check_new(path, &claim.place.result_owner())?;
        let journal_path = path.join(TRIALS_FILE);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let journal = claim.place.open_file(OsStr::new(TRIALS_FILE), flags, 0o666);
        let journal = journal.map_err(|error| StoreError::io("make", &journal_path, error))?;
        let mut directory = RunDirectory {
            claim,
            journal,
            record: Vec::new(),
        };
        if let Err(error) = directory.write_record(record) {
            // A directory without a record is not a run. The next attempt must find it empty.
            let _ = directory.claim.place.remove(OsStr::new(TRIALS_FILE));
            return Err(error);
        }
        Ok(directory)
    }

    /// Resumes the run in a directory. The report prints its contents, so the invoking user must be
    /// able to read them.
    pub fn resume(claim: Claim) -> Result<(Self, Contents), StoreError> {
        let contents = claim.read()?;
        // The next line must not continue a truncated last line, and the old file may have other
        // hard links. The journal therefore becomes a new file.
        let text = encode_trials(&contents.trials)?;
        let journal = claim.replace(TRIALS_FILE, &text)?;
        let record = encode_record(&contents.record)?;
        Ok((
            RunDirectory {
                claim,
                journal,
                record,
            },
            contents,
        ))
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

    /// Appends a trial and waits until it is on the disk. If the write fails, truncates the journal
    /// to its previous length.
    pub fn append(&mut self, trial: &Trial) -> Result<(), StoreError> {
        let path = self.path().join(TRIALS_FILE);
        let fail = |error| StoreError::io("append to", &path, error);
        let before = self.journal.metadata().map_err(fail)?;
        if let Err(error) = append_line(&mut self.journal, trial) {
            let _ = self.journal.set_len(before.len());
            return Err(fail(error));
        }
        if self.is_deleted() {
            Err(StoreError::Deleted(self.path().to_owned()))
        } else {
            Ok(())
        }
    }

    /// Replaces all trials. A resume uses this to mark the trials of an unfinished block as
    /// superseded.
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
        self.claim.place.is_gone()
            || self
                .journal
                .metadata()
                .is_ok_and(|found| found.nlink() == 0)
    }

    /// Creates a deleted directory again, with everything that this value wrote. The trials are
    /// still in the journal, which is open. If another file or directory has taken the name, the
    /// new directory is `PATH.saved`.
    pub fn restore(&mut self) -> Result<(), StoreError> {
        let path = self.path().to_owned();
        let mut text = vec![
            0;
            self.journal
                .metadata()
                .map_or(0, |found| found.len() as usize)
        ];
        self.journal
            .read_exact_at(&mut text, 0)
            .map_err(|error| StoreError::io("read", &path, error))?;
        let result_owner = self.claim.place.result_owner();
        let beside = || {
            let mut name = path.clone().into_os_string();
            name.push(".saved");
            PathBuf::from(name)
        };
        let path = match check_new(&path, &result_owner) {
            // The path is not empty: the open directory is still there, or another one took its
            // name.
            Err(_) if self.claim.place.is_gone() => beside(),
            _ => path,
        };
        if self.claim.place.is_gone() {
            self.claim = Claim::new(
                HeldDirectory::open(&path, result_owner, Open::Making)?,
                &self.claim.holder,
            )?;
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
    /// Claims the directory of a run. `holder` describes this process to other processes that try
    /// to write there.
    pub fn take(path: &Path, result_owner: ResultOwner, holder: &str) -> Result<Claim, StoreError> {
        let place =
            HeldDirectory::open(path, result_owner, Open::Existing).map_err(
                |error| match error {
                    StoreError::Io { source, .. } if no_directory(&source) => {
                        StoreError::NoRun(path.to_owned())
                    }
                    error => error,
                },
            )?;
        let record = place.stat(OsStr::new(RUN_FILE));
        if record
            .map_err(|error| StoreError::io("examine", path, error))?
            .is_none()
        {
            return Err(StoreError::NoRun(path.to_owned()));
        }
        Claim::new(place, holder)
    }

    fn new(place: HeldDirectory, holder: &str) -> Result<Claim, StoreError> {
        let lock = Lock::take(&place, holder)?;
        Ok(Claim {
            place,
            lock,
            holder: holder.to_owned(),
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Reads the directory with the owner's privileges.
    pub fn read(&self) -> Result<Contents, StoreError> {
        let path = self.place.path();
        self.place
            .result_owner()
            .act(|| read(path))
            .map_err(|error| StoreError::io("read", path, error))?
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
        self.place
            .replace(OsStr::new(name), write)
            .map_err(|error| StoreError::io("write", &path, error))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.lock.release(&self.place);
    }
}

/// Writes the line and its end with one call, so that two lines never mix, and syncs the file.
fn append_line(journal: &mut File, trial: &Trial) -> io::Result<()> {
    journal.write_all(&journal_line(trial)?)?;
    journal.sync_data()
}

fn encode_record(record: &RunRecord) -> Result<Vec<u8>, StoreError> {
    let mut text =
        serde_json::to_vec_pretty(record).map_err(|error| StoreError::Encode(error.to_string()))?;
    text.push(b'\n');
    Ok(text)
}

fn encode_trials(trials: &[Trial]) -> Result<Vec<u8>, StoreError> {
    let mut text = Vec::new();
    for trial in trials {
        text.extend(journal_line(trial).map_err(|error| StoreError::Encode(error.to_string()))?);
    }
    Ok(text)
}

fn no_directory(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Checks that a run may be written to `path`: it must be new or an empty directory, and the owner
/// must be able to use it.
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
            Some(parent) if parent.as_os_str().is_empty() && there != Path::new(".") => {
                there = Path::new(".")
            }
            Some(parent) if !parent.as_os_str().is_empty() => there = parent,
            _ => break,
        }
    }
    let entries = result_owner.act(|| fs::read_dir(path)).flatten();
    match entries {
        Ok(entries) => match entries
            .flatten()
            .find(|entry| entry.file_name() != LOCK_FILE)
        {
            Some(_) => Err(StoreError::NotEmpty(path.to_owned())),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

/// The file that is locked while a run writes.
const LOCK_FILE: &str = ".lock";

/// Number of attempts after which the lock counts as busy. An attempt fails if the locked file was
/// removed meanwhile.
const LOCK_ATTEMPTS: usize = 16;
/// Number of bytes of the holder's description that are read for the message.
const LONGEST_HOLDER: u64 = 300;

/// The lock of a run directory: one run writes there at a time. Dropping the value releases it;
/// [`Lock::release`] also removes the file. Only the owner may open the file. Otherwise every user
/// who can read the directory could hold the lock.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// Takes the lock of a run directory. Writes `holder` into the lock file, for the message of
    /// the next process that tries.
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
            let mut file = place
                .open_file(name, flags, 0o600)
                .map_err(fail("open the lock"))?;
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
                    return Err(StoreError::Busy {
                        path: place.path().to_owned(),
                        holder: one_line(&said),
                    });
                }
                // The file system has no locks. The run continues without one.
                Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {}
                Err(errno) => return Err(fail("lock")(errno.into())),
            }
            // The previous holder may have removed the file between the open and the lock.
            let there = place.stat(name).map_err(fail("examine"))?;
            if there.is_some_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino))
            {
                // The description only improves a message, so an error is ignored. If the disk is
                // full, writing the results fails.
                let _ = file
                    .set_len(0)
                    .and_then(|()| file.write_all(holder.as_bytes()));
                return Ok(Lock(file));
            }
        }
        Err(StoreError::Busy {
            path: place.path().to_owned(),
            holder: String::new(),
        })
    }

    /// Removes the lock file if it is still this one. The lock itself ends when the value is
    /// dropped.
    pub fn release(&self, place: &HeldDirectory) {
        let (Ok(own), Ok(Some(there))) = (fstat(&self.0), place.stat(OsStr::new(LOCK_FILE))) else {
            return;
        };
        if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) {
            let _ = place.remove(OsStr::new(LOCK_FILE));
        }
    }
}

/// Returns whether a process writes to the run directory, or `None` if this user cannot find out:
/// only the owner may open the lock, and some file systems have no locks.
pub fn is_in_use(path: &Path) -> Option<bool> {
    let file = match input::open(&path.join(LOCK_FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(false),
        Err(_) => return None,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(true),
        Ok(()) => Some(false),
        Err(_) => None,
    }
}

fn one_line(text: &str) -> String {
    text.trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use fsb_model::publication::{self, Publication, Removal};
    use fsb_model::trial::SCHEMA;
    use fsb_model::{Trial, run};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn record() -> RunRecord {
        serde_json::from_value(json!({
            "schema": run::SCHEMA, "name": "ext4", "cells": [], "added_later": {"kept": true},
            "plan": {"name": "quick", "targets": [], "workloads": [], "repetition": {"blocks": {"blocks": 5}},
                     "seed": 1, "size": "2G", "dir": ".", "theta": 0.03},
        }))
        .unwrap()
    }

    fn trial(order: u32) -> Trial {
        serde_json::from_value(json!({
            "schema": SCHEMA, "id": format!("b1.ext4.{order}"), "phase": "measured", "block": 1, "order": order, "attempt": 1,
            "target": "ext4", "kernel": "6.18", "workload": "write 1M", "operation": "write", "params": {},
            "started": "2026-01-01T00:00:00Z", "outcome": "ok", "a_newer_field": [1, 2],
        }))
        .unwrap()
    }

    fn create(path: &Path) -> Result<RunDirectory, StoreError> {
        RunDirectory::create(path, &record(), ResultOwner::this_user(), "the first")
    }

    fn resume(path: &Path) -> Result<(RunDirectory, Contents), StoreError> {
        RunDirectory::resume(Claim::take(path, ResultOwner::this_user(), "the second")?)
    }

    fn filled(trials: u32) -> (tempfile::TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        let mut directory = create(&path).unwrap();
        (0..trials).for_each(|order| directory.append(&trial(order)).unwrap());
        (temporary, path)
    }

    #[test]
    fn records_are_read_back_with_fields_of_newer_versions() {
        let (_temporary, path) = filled(3);
        let contents = read(&path).unwrap();
        assert_eq!(contents.record, record());
        assert_eq!(contents.trials, (0..3).map(trial).collect::<Vec<_>>());
        assert_eq!(contents.trials[0].extra["a_newer_field"], json!([1, 2]));
        assert!(contents.warnings.is_empty());
    }

    #[test]
    fn a_directory_that_holds_something_is_refused() {
        let (_temporary, path) = filled(0);
        assert!(matches!(create(&path), Err(StoreError::NotEmpty(_))));
    }

    #[test]
    fn a_half_last_line_is_dropped_and_a_resume_goes_on_cleanly() {
        let (_temporary, path) = filled(2);
        let journal = path.join(TRIALS_FILE);
        let whole = fs::read(&journal).unwrap();
        fs::write(&journal, &whole[..whole.len() - 10]).unwrap();
        let (mut directory, contents) = resume(&path).unwrap();
        assert_eq!((contents.trials.len(), contents.warnings.len()), (1, 1));
        directory.append(&trial(7)).unwrap();
        let again = read(&path).unwrap();
        assert_eq!(again.trials, [trial(0), trial(7)]);
        assert!(again.warnings.is_empty());
    }

    #[test]
    fn a_changed_digit_is_an_error_with_its_line_and_a_cut_one_is_not() {
        let (_temporary, path) = filled(3);
        let journal = path.join(TRIALS_FILE);
        let text = fs::read_to_string(&journal).unwrap();
        let error = |text: &str| {
            fs::write(&journal, text).unwrap();
            match read(&path) {
                Err(StoreError::Checksum { line, .. }) => line,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(error(&text.replace("\"order\":1", "\"order\":7")), 2);
        assert_eq!(error(&text.replace(",\"crc32\":", ",\"crc23\":")), 1);
        let last = text.rfind(",\"crc32\":").unwrap();
        fs::write(&journal, format!("{}}}", &text[..last])).unwrap();
        let contents = read(&path).unwrap();
        assert_eq!((contents.trials.len(), contents.warnings.len()), (2, 1));
    }

    #[test]
    fn a_broken_line_in_the_middle_is_an_error_with_its_number() {
        let (_temporary, path) = filled(3);
        let journal = path.join(TRIALS_FILE);
        let text = fs::read_to_string(&journal).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines[1] = "{\"schema\":";
        fs::write(&journal, lines.join("\n") + "\n").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_newer_major_is_refused_and_a_newer_minor_is_not() {
        let (_temporary, path) = filled(1);
        let run = path.join(RUN_FILE);
        let text = fs::read_to_string(&run).unwrap();
        fs::write(&run, text.replace(run::SCHEMA, "fsbench/run/1.7")).unwrap();
        assert!(read(&path).is_ok());
        fs::write(&run, text.replace(run::SCHEMA, "fsbench/run/5")).unwrap();
        assert!(matches!(read(&path), Err(StoreError::Newer { .. })));
        fs::write(&run, text.replace(run::SCHEMA, "somebody/else/1")).unwrap();
        assert!(matches!(read(&path), Err(StoreError::Schema { .. })));
    }

    #[test]
    fn a_format_from_before_the_release_is_refused_with_the_command_that_converts_it() {
        let (_temporary, path) = filled(1);
        let refused = || {
            let error = read(&path).unwrap_err();
            let command = format!("'scripts/upgrade-results {}'", path.display());
            assert!(matches!(&error, StoreError::Former { .. }), "{error:?}");
            assert!(error.to_string().contains(&command), "{error}");
        };
        let [record, journal] = [RUN_FILE, TRIALS_FILE].map(|name| path.join(name));
        let [record_text, journal_text] =
            [&record, &journal].map(|file| fs::read_to_string(file).unwrap());
        let former = record_text.replace(run::SCHEMA, "fsbench/run/2");
        fs::write(&record, former).unwrap();
        refused();
        // The first of the former formats: a field has another name, and sentences are no objects.
        for rule in ["null", "\"5 blocks, as was asked for\""] {
            let mut former: serde_json::Value = serde_json::from_str(&record_text).unwrap();
            former.as_object_mut().unwrap().remove("stop_reason");
            former["finished"] = serde_json::Value::Null;
            former["stopping_rule"] = serde_json::from_str(rule).unwrap();
            fs::write(&record, former.to_string()).unwrap();
            refused();
        }
        fs::write(&record, &record_text).unwrap();
        let mut line: serde_json::Value = serde_json::from_str(journal_text.trim_end()).unwrap();
        line.as_object_mut().unwrap().remove("crc32");
        line["schema"] = "fsbench/trial/4".into();
        fs::write(&journal, journal_line(&line).unwrap()).unwrap();
        refused();
    }

    #[test]
    fn a_directory_without_a_record_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        assert!(matches!(read(temporary.path()), Err(StoreError::NoRun(_))));
    }

    #[test]
    fn endless_input_is_refused_at_once() {
        let pipe = |path: &Path| {
            let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, owner, 0)
                .unwrap();
        };
        let device = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        let sparse = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
        type Make<'m> = &'m dyn Fn(&Path);
        let make: [(Make<'_>, &str, &str); 3] = [
            (&pipe, "it is a pipe", "it is a pipe"),
            (&device, "it is a device", "it is a device"),
            (&sparse, "it is larger than", "line 1: it is longer than"),
        ];
        for (make, of_record, of_journal) in make {
            for (name, why) in [(RUN_FILE, of_record), (TRIALS_FILE, of_journal)] {
                let (_temporary, path) = filled(1);
                fs::remove_file(path.join(name)).unwrap();
                make(&path.join(name));
                let error = read(&path).unwrap_err();
                assert!(error.to_string().contains(why), "{error}");
                assert!(!matches!(error, StoreError::Io { .. }), "{error:?}");
            }
        }
    }

    #[test]
    fn deep_nesting_huge_numbers_and_repeated_keys_are_errors_of_their_line() {
        let deep = format!(
            "{{\"extra\": {}{}}}",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let whole = serde_json::to_string(&trial(1)).unwrap();
        let twice = whole.replacen('{', "{\"block\": 7,", 1);
        let huge = whole.replace("\"block\":1", "\"block\":99999999999999999999");
        let endless = whole.replace("[1,2]", "1e999");
        let nan = whole.replace("[1,2]", "NaN");
        for line in [deep, twice, huge, endless, nan] {
            let (_temporary, path) = filled(1);
            let journal = path.join(TRIALS_FILE);
            let first = fs::read_to_string(&journal).unwrap();
            fs::write(&journal, format!("{first}{line}\n")).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(
                error.contains("trials.jsonl, line 2: ") && error.len() < 400,
                "{error}"
            );
        }
    }

    #[test]
    fn a_second_pass_reads_the_same_lines() {
        let (_temporary, path) = filled(3);
        let mut reader = Reader::open(&path).unwrap();
        fs::remove_file(path.join(TRIALS_FILE)).unwrap();
        for _ in 0..2 {
            let mut seen = Vec::new();
            reader
                .trials(|line, trial: Trial| seen.push((line, trial.order)))
                .unwrap();
            assert_eq!(seen, [(1, 0), (2, 1), (3, 2)]);
        }
    }

    proptest! {
        /// Cutting the journal anywhere loses at most one line.
        #[test]
        fn a_cut_journal_loses_at_most_its_last_line(cut in 0usize..1200) {
            let (_temporary, path) = filled(3);
            let journal = path.join(TRIALS_FILE);
            let whole = fs::read(&journal).unwrap();
            let cut = cut.min(whole.len());
            fs::write(&journal, &whole[..cut]).unwrap();
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            let contents = read(&path).unwrap();
            prop_assert!(contents.trials.len() >= lines && contents.trials.len() <= lines + 1);
        }

        #[test]
        fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            let (_temporary, path) = filled(1);
            fs::write(path.join(TRIALS_FILE), &garbage).unwrap();
            let _ = read(&path);
            fs::write(path.join(RUN_FILE), &garbage).unwrap();
            let _ = read(&path);
        }
    }

    #[test]
    fn a_writer_that_fails_or_panics_keeps_the_old_file_and_leaves_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        let result_owner = ResultOwner::this_user();
        crate::replace(&path, b"old", &result_owner).unwrap();
        let failed = crate::replace_with(&path, &result_owner, |file| {
            file.write_all(&[b'x'; 1 << 20])?;
            Err(std::io::Error::other("no more"))
        });
        assert!(
            matches!(failed, Err(StoreError::Io { what: "write", .. })),
            "{failed:?}"
        );
        let panicked = std::panic::catch_unwind(|| {
            crate::replace_with(&path, &result_owner, |_| panic!("on purpose"))
        });
        assert!(panicked.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        crate::replace_with(&path, &result_owner, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    // Other users of the machine place links, locks and pipes at the paths that the store uses.

    const OTHER: u32 = 4711;

    /// Returns a directory that only its owner may write to.
    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn give(path: &Path, uid: u32) {
        std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_planted_link_is_replaced_and_not_followed() {
        let place = place();
        let run = place.path().join("run");
        let directory = create(&run).unwrap();
        let (precious, linked) = (place.path().join("precious"), place.path().join("linked"));
        for path in [&precious, &linked] {
            fs::write(path, "precious").unwrap();
            mode(path, 0o600);
        }
        symlink(&precious, run.join("report.html")).unwrap();
        fs::hard_link(&linked, run.join("trials.csv")).unwrap();
        directory.write_file("report.html", b"report").unwrap();
        directory.write_file("trials.csv", b"table").unwrap();
        for path in [&precious, &linked] {
            assert_eq!(fs::read_to_string(path).unwrap(), "precious");
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        }
        assert_eq!(
            fs::read_to_string(run.join("report.html")).unwrap(),
            "report"
        );
        assert!(
            fs::symlink_metadata(run.join("report.html"))
                .unwrap()
                .is_file()
        );
    }

    #[test]
    fn a_resume_appends_to_no_file_that_has_other_names() {
        let place = place();
        let run = place.path().join("run");
        let mut directory = create(&run).unwrap();
        directory.append(&trial(0)).unwrap();
        drop(directory);
        let other = place.path().join("other");
        fs::hard_link(run.join(TRIALS_FILE), &other).unwrap();
        let before = fs::read(&other).unwrap();
        let (mut directory, contents) = resume(&run).unwrap();
        assert_eq!(contents.trials.len(), 1);
        directory.append(&trial(1)).unwrap();
        assert_eq!(fs::read(&other).unwrap(), before);
        assert_eq!(read(&run).unwrap().trials.len(), 2);
    }

    #[test]
    fn a_directory_that_is_exchanged_keeps_its_files() {
        let place = place();
        let (run, moved, victim) = (
            place.path().join("run"),
            place.path().join("moved"),
            place.path().join("victim"),
        );
        fs::create_dir(&victim).unwrap();
        let mut directory = create(&run).unwrap();
        fs::rename(&run, &moved).unwrap();
        symlink(&victim, &run).unwrap();
        directory.append(&trial(0)).unwrap();
        directory.write_record(&record()).unwrap();
        directory.write_file("report.html", b"report").unwrap();
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
        assert!(moved.join("report.html").exists() && !directory.is_deleted());
        assert_eq!(read(&moved).unwrap().trials.len(), 1);
    }

    #[test]
    fn two_do_not_write_to_one_directory() {
        let place = place();
        let run = place.path().join("run");
        let first = create(&run).unwrap();
        let error = resume(&run).unwrap_err();
        assert!(
            matches!(&error, StoreError::Busy { holder, .. } if holder == "the first"),
            "{error}"
        );
        assert_eq!(crate::is_in_use(&run), Some(true));
        drop(first);
        assert!(!run.join(LOCK_FILE).exists());
        resume(&run).unwrap();
    }

    #[test]
    fn a_lock_of_somebody_else_is_refused() {
        let place = place();
        let run = place.path().join("run");
        drop(create(&run).unwrap());
        let precious = place.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        fs::hard_link(&precious, run.join(LOCK_FILE)).unwrap();
        assert!(matches!(resume(&run).unwrap_err(), StoreError::Planted(_)));
        fs::remove_file(run.join(LOCK_FILE)).unwrap();
        symlink(&precious, run.join(LOCK_FILE)).unwrap();
        assert!(resume(&run).is_err());
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }

    #[test]
    fn results_survive_the_loss_of_the_directory() {
        let place = place();
        let run = place.path().join("run");
        let mut directory = create(&run).unwrap();
        directory.append(&trial(0)).unwrap();
        fs::remove_dir_all(&run).unwrap();
        assert!(matches!(
            directory.append(&trial(1)),
            Err(StoreError::Deleted(_))
        ));
        assert!(directory.is_deleted());
        directory.restore().unwrap();
        assert!(!directory.is_deleted());
        let contents = read(&run).unwrap();
        assert_eq!((contents.trials.len(), contents.record), (2, record()));
        // Only the trials.
        fs::remove_file(run.join(TRIALS_FILE)).unwrap();
        assert!(directory.is_deleted());
        directory.restore().unwrap();
        assert_eq!(read(&run).unwrap().trials.len(), 2);
        // Another run has the name by now.
        fs::remove_dir_all(&run).unwrap();
        fs::create_dir(&run).unwrap();
        fs::write(run.join("theirs"), "").unwrap();
        directory.restore().unwrap();
        assert_eq!(directory.path(), place.path().join("run.saved"));
        assert_eq!(read(directory.path()).unwrap().trials.len(), 2);
        assert_eq!(fs::read_dir(&run).unwrap().count(), 1);
    }

    #[test]
    fn root_writes_only_below_what_is_its_own() {
        if !fsb_testkit::root_for("root_writes_only_below_what_is_its_own") {
            return;
        }
        let place = place();
        let refused = |path: &Path, part: &Path| {
            let error = create(path).unwrap_err();
            let component = part.to_owned();
            assert!(
                matches!(&error, StoreError::Untrusted { component: found, .. } if *found == component),
                "{error}"
            );
            assert!(matches!(
                check_new(path, &ResultOwner::this_user()),
                Err(StoreError::Untrusted { .. })
            ));
            error.to_string()
        };
        let theirs = place.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        give(&theirs, OTHER);
        let said = refused(&theirs.join("a/b"), &theirs);
        assert!(
            said.contains("user 4711") && said.contains("sudo"),
            "{said}"
        );
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
        // A directory that root owns below another user's directory could be exchanged.
        fs::create_dir(theirs.join("own")).unwrap();
        refused(&theirs.join("own"), &theirs);
        // One that others may write to.
        let shared = place.path().join("shared");
        fs::create_dir(&shared).unwrap();
        for bits in [0o777, 0o775] {
            mode(&shared, bits);
            assert!(refused(&shared.join("run"), &shared).contains("chmod go-w"));
        }
        // Sticky as /tmp is: what is there must be root's.
        mode(&shared, 0o1777);
        drop(create(&shared.join("run")).unwrap());
        fs::create_dir(shared.join("planted")).unwrap();
        give(&shared.join("planted"), OTHER);
        refused(&shared.join("planted"), &shared.join("planted"));
        symlink(place.path(), shared.join("link")).unwrap();
        drop(create(&shared.join("link/through")).unwrap());
        give(&shared.join("link"), OTHER);
        refused(&shared.join("link/x"), &shared.join("link"));
    }

    #[test]
    fn files_that_are_named_lead_nowhere_else() {
        if !fsb_testkit::root_for("files_that_are_named_lead_nowhere_else") {
            return;
        }
        let place = place();
        let shared = place.path().join("shared");
        fs::create_dir(&shared).unwrap();
        mode(&shared, 0o1777);
        let precious = place.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let result_owner = ResultOwner::this_user();
        // A link of root's own is followed, another's is not.
        let link = shared.join("link");
        symlink(&precious, &link).unwrap();
        replace(&link, b"mine", &result_owner).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine");
        give(&link, OTHER);
        assert!(matches!(
            replace(&link, b"theirs", &result_owner),
            Err(StoreError::Planted(_))
        ));
        assert!(matches!(
            append(&link, &result_owner),
            Err(StoreError::Planted(_))
        ));
        // A pipe of another is not even waited for.
        let pipe = shared.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        give(&pipe, OTHER);
        assert!(matches!(
            replace(&pipe, b"x", &result_owner),
            Err(StoreError::Planted(_))
        ));
        // What is there already may be another name of any file.
        let hard = shared.join("hard");
        fs::hard_link(&precious, &hard).unwrap();
        assert!(matches!(
            append(&hard, &result_owner),
            Err(StoreError::Planted(_))
        ));
        replace(&hard, b"new", &result_owner).unwrap();
        assert_eq!(
            (
                fs::read_to_string(&precious).unwrap(),
                fs::read_to_string(&hard).unwrap()
            ),
            ("mine".into(), "new".into())
        );
        // Devices and this process's own descriptors are written to as they are.
        replace(Path::new("/dev/null"), b"x", &result_owner).unwrap();
        replace(Path::new("/dev/fd/2"), b"", &result_owner).unwrap();
        use std::os::unix::fs::FileTypeExt;
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }

    /// A user who may write to the parent directory can exchange the run directory at any moment.
    /// The store must never write outside the run directory that it holds open.
    #[test]
    fn nothing_leaves_a_directory_that_is_exchanged_all_the_time() {
        let place = place();
        let (run, away, victim) = (
            place.path().join("run"),
            place.path().join("away"),
            place.path().join("victim"),
        );
        fs::create_dir(&victim).unwrap();
        let mut directory = create(&run).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = fs::rename(&run, &away).and_then(|()| symlink(&victim, &run));
                    let _ = fs::remove_file(&run).and_then(|()| fs::rename(&away, &run));
                    let _ = symlink(&victim, away.join("report.html"));
                }
            });
            for order in 0..40 {
                directory.append(&trial(order)).unwrap();
                directory.write_file("report.html", b"report").unwrap();
                directory.write_record(&record()).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
        let left = if away.exists() { &away } else { &run };
        assert_eq!(read(left).unwrap().trials.len(), 40);
        let names = fs::read_dir(left)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect::<Vec<_>>();
        assert!(names.len() <= 4, "nothing unfinished stays: {names:?}");
    }

    fn publication() -> Publication {
        let removed = vec![Removal {
            class: "serials".to_owned(),
            what: "serial numbers".to_owned(),
            values: 2,
        }];
        Publication {
            schema: publication::SCHEMA.to_owned(),
            fsb_version: "0.1.0".to_owned(),
            removed,
            kept: Vec::new(),
        }
    }

    fn page_with(element: &str) -> (tempfile::TempDir, PathBuf) {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a.html");
        fs::write(
            &path,
            format!(
                "<!doctype html>\n<head>\n<meta charset=\"utf-8\">\n{element}\n<body>text</body>\n"
            ),
        )
        .unwrap();
        (temporary, path)
    }

    fn page(trials: &[Trial]) -> String {
        page_element(&publication(), &record(), trials).unwrap()
    }

    /// Returns an element that holds these bytes.
    fn element_of(bytes: &[u8]) -> String {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        let text = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            encoder.finish().unwrap(),
        );
        page(&[]).split_inclusive('>').next().unwrap().to_owned() + &text + "</script>"
    }

    #[test]
    fn a_published_page_is_read_like_its_run_directory() {
        let trials: Vec<Trial> = (0..3).map(trial).collect();
        let (_temporary, path) = page_with(&page(&trials));
        assert!(is_page(&path));
        let contents = read(&path).unwrap();
        assert_eq!((contents.record, contents.trials), (record(), trials));
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(
            (reader.publication.clone(), reader.journal_path()),
            (Some(publication()), path.as_path())
        );
        for _pass in 0..2 {
            let mut lines = Vec::new();
            reader.trials(|line, _: Trial| lines.push(line)).unwrap();
            assert_eq!(lines, [1, 2, 3]);
        }
    }

    #[test]
    fn a_truncated_or_damaged_page_is_refused_with_the_cause() {
        let whole = page(&[trial(0)]);
        let data = whole.find('>').unwrap() + 1;
        let cases = [
            (whole[..whole.len() - 40].to_owned(), "ends within its data"),
            (whole[..data + 6].to_owned() + "</script>", ""),
            (whole[..data].to_owned() + "</script>", ""),
            (whole.replacen("H4sI", "H4!I", 1), "Invalid symbol"),
            (whole.replacen("H4sI", "AAAA", 1), "invalid gzip header"),
            (element_of(b""), "it holds no run"),
            (element_of(&[b'x'; 2 << 20]), "longer than 1 MiB"),
        ];
        for (element, why) in cases {
            let (_temporary, path) = page_with("");
            fs::write(&path, format!("<!doctype html>\n{element}")).unwrap();
            let error = read(&path).unwrap_err();
            assert!(matches!(error, StoreError::DamagedPage { .. }), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
        }
        let header = serde_json::to_string(&publication()).unwrap();
        for (lines, code) in [
            ("{}\n".to_owned(), "store/other-schema"),
            (
                header.replace("publication/1", "publication/9"),
                "store/newer",
            ),
            (format!("{header}\n{{}}\n"), "store/other-schema"),
            (format!("{header}\nno JSON\n"), "store/syntax"),
        ] {
            let (_temporary, path) = page_with(&element_of(lines.as_bytes()));
            let error = read(&path).unwrap_err();
            assert_eq!(fsb_model::Coded::code(&error).name, code, "{error}");
        }
    }

    #[test]
    fn a_page_that_unpacks_to_more_than_the_limit_is_refused() {
        let (_temporary, path) = page_with(&page(&[]));
        let mut found = read::Page::open(&path).unwrap().unwrap();
        let length = found.lines().unwrap().read_to_end(&mut Vec::new()).unwrap() as u64;
        for (most, is_read) in [(length, true), (length - 1, false)] {
            found.most = most;
            assert_eq!(
                found.lines().unwrap().read_to_end(&mut Vec::new()).is_ok(),
                is_read
            );
        }
    }

    #[test]
    fn a_page_without_a_run_is_refused() {
        let (_temporary, path) = page_with("");
        assert!(!is_page(&path));
        assert!(matches!(read(&path).unwrap_err(), StoreError::NoRun(_)));
    }
}
