//! The undo ledger: what the kernel does not take back by itself when a run is killed.
//!
//! Before a run changes such a thing, it writes an entry: one JSON file, synced with its directory. Undoing removes
//! the entry. A run that was killed leaves its entries; the next `fsb`, or `fsb clean`, replays those whose owner is
//! dead. An owner is a process id *with its start time*, as the front's PID namespace has them: numbers are reused.

mod action;
mod cgroup;
mod owner;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub use action::Action;
pub(crate) use action::DIRECTORY_PREFIX;
pub use owner::Owner;
pub(crate) use owner::stat_field;

use crate::error::{TestbedError, attempt};

/// What an entry's file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The boot in which it was written.
    pub boot_id: String,
    /// The process that lives as long as the run.
    pub owner: Owner,
    /// The control that changed it; absent where no control did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// How to undo.
    pub action: Action,
}

/// Where entries go, and who they belong to.
#[derive(Debug)]
pub struct Ledger {
    directory: PathBuf,
    boot_id: String,
    owner: Owner,
    next: AtomicU32,
}

/// A recorded entry. It must be undone or kept on purpose: dropping it does neither.
#[derive(Debug)]
#[must_use = "an entry that is never undone is replayed by the next run"]
pub struct Ticket {
    file: PathBuf,
    action: Action,
}

impl Ticket {
    /// How this entry will be undone.
    pub fn action(&self) -> &Action {
        &self.action
    }
}

/// `/var/lib/fsb/undo` for root, else below the user's state directory.
pub fn default_directory() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/fsb/undo");
    }
    state_directory().join("fsb/undo")
}

/// `$XDG_STATE_HOME`, or what the specification says instead.
pub(crate) fn state_directory() -> PathBuf {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
}

impl Ledger {
    /// A ledger in `directory`, made if missing, for entries of `owner`.
    pub fn open(directory: &Path, owner: Owner) -> Result<Ledger, TestbedError> {
        let fail = |error: &io::Error| {
            TestbedError::machine("the undo ledger cannot be kept")
                .tried(attempt("make", directory, error))
                .advice("nothing was changed: make the directory writable for the user that runs fsb, and only for it")
        };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| fail(&error))?;
        let metadata = std::fs::symlink_metadata(directory).map_err(|error| fail(&error))?;
        let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.mode() & 0o022 != 0 {
            return Err(fail(&io::Error::other("it belongs to, or can be written by, somebody else")));
        }
        Ok(Ledger { directory: directory.to_owned(), boot_id: crate::host::boot_id(), owner, next: AtomicU32::new(0) })
    }

    /// Whose entries go here.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Writes down how to undo something, durably. To be called *before* the thing is changed.
    pub fn record(&self, action: Action) -> Result<Ticket, TestbedError> {
        self.write(action, None)
    }

    /// A path in `within` that nothing has, for a directory of fsb's own, and the entry that removes it with all that is
    /// in it.
    pub fn record_directory(&self, within: &Path) -> Result<(PathBuf, Ticket), TestbedError> {
        let path = within.join(format!("{DIRECTORY_PREFIX}{}", crate::sys::random_name()));
        let ticket = self.record(Action::RemoveDirectory { path: path.clone() })?;
        Ok((path, ticket))
    }

    /// Like [`Ledger::record`], for a change that `control` makes to what the whole machine shares. Nothing where another
    /// run has changed it: each would restore what the other one set.
    pub fn claim(&self, control: &str, action: Action) -> Result<Option<Ticket>, TestbedError> {
        // Two runs that claim at once must not both find nothing.
        let _turn = File::open(&self.directory).and_then(|directory| {
            flock(&directory, FlockOperation::LockExclusive)?;
            Ok(directory)
        });
        let subject = action.subject();
        let is_rival = |entry: &Entry| {
            entry.boot_id == self.boot_id && entry.owner != self.owner && entry.action.subject() == subject
        };
        if subject.is_some() && leftovers(&self.directory).iter().any(|(_, entry)| entry.as_ref().is_ok_and(is_rival)) {
            return Ok(None);
        }
        self.write(action, Some(control.to_owned())).map(Some)
    }

    fn write(&self, action: Action, control: Option<String>) -> Result<Ticket, TestbedError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{number:04}", self.owner.pid, self.owner.start_time);
        let file = self.directory.join(format!("{name}.json"));
        let entry = Entry { boot_id: self.boot_id.clone(), owner: self.owner, control, action };
        let written = write_durably(&self.directory, &name, &entry);
        written.map_err(|error| {
            TestbedError::machine("the undo ledger cannot be kept")
                .tried(attempt("write", &file, &error))
                .advice("nothing was changed: free some space there")
        })?;
        Ok(Ticket { file, action: entry.action })
    }

    /// Undoes an entry and removes it. Where undoing fails the entry stays, for a later replay.
    pub fn undo(&self, ticket: Ticket) -> Result<String, TestbedError> {
        let said = ticket.action.undo().map_err(|error| {
            TestbedError::machine("a change could not be undone")
                .tried(format!("{}: {error}", ticket.action))
                .advice(format!("run `fsb clean` later; the entry is {}", ticket.file.display()))
        })?;
        // The thing is as it was. An entry that cannot be removed is replayed, which changes nothing.
        let _ = remove_durably(&self.directory, &ticket.file);
        Ok(said)
    }
}

/// A half-written entry must not look like one, so it gets its name when it is complete.
fn write_durably(directory: &Path, name: &str, entry: &Entry) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.new"));
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(entry)?)?;
    file.sync_all()?;
    std::fs::rename(&temporary, directory.join(format!("{name}.json")))?;
    File::open(directory)?.sync_all()
}

fn remove_durably(directory: &Path, file: &Path) -> io::Result<()> {
    std::fs::remove_file(file)?;
    File::open(directory)?.sync_all()
}

/// What became of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Undone and removed; what was done.
    Undone(String),
    /// Its owner lives: left alone.
    Live,
    /// Of an earlier boot, which undid it itself: removed.
    Discarded,
    /// It could not be undone; why. It stays.
    Failed(String),
    /// Not readable as an entry; why. It stays.
    Unreadable(String),
}

/// An entry and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The entry's file.
    pub file: PathBuf,
    /// What it was to undo, in words; the file's name where it is not readable.
    pub what: String,
    /// What became of it.
    pub fate: Fate,
}

impl Replayed {
    /// Whether a person should hear of it: everything but a living owner's entries.
    pub fn is_news(&self) -> bool {
        self.fate != Fate::Live
    }
}

impl std::fmt::Display for Replayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.fate {
            Fate::Undone(said) => write!(f, "undone after a killed run: {said}"),
            Fate::Live => write!(f, "in use by a running fsb: {}", self.what),
            Fate::Discarded => write!(f, "discarded, of an earlier boot: {}", self.what),
            Fate::Failed(why) => write!(f, "could not be undone: {}: {why} (entry {})", self.what, self.file.display()),
            Fate::Unreadable(why) => write!(f, "unreadable undo entry {}: {why}", self.file.display()),
        }
    }
}

/// Undoes the entries in `directory` whose owner is dead, newest first. No directory, no entries.
///
/// Must be called from the PID namespace in which owners were recorded, the front's. `boot_id` is the present boot's.
pub fn replay(directory: &Path, boot_id: &str) -> Vec<Replayed> {
    replay_where(directory, boot_id, |owner| !owner.is_alive())
}

/// Undoes the entries of `owner`, alive or not: what the front does with its own when it has killed its agent.
pub fn replay_of(directory: &Path, boot_id: &str, owner: Owner) -> Vec<Replayed> {
    replay_where(directory, boot_id, |other| other == owner || !other.is_alive())
}

fn replay_where(directory: &Path, boot_id: &str, is_over: impl Fn(Owner) -> bool) -> Vec<Replayed> {
    // Two replays at once would undo things twice, the second time after a new owner changed them.
    let Ok(lock) = File::open(directory) else { return Vec::new() };
    if flock(&lock, FlockOperation::LockExclusive).is_err() {
        return Vec::new();
    }
    let mut files = entry_files(directory);
    files.sort_by(|a, b| b.cmp(a));
    files.into_iter().filter_map(|(_, file)| replay_entry(directory, file, boot_id, &is_over)).collect()
}

/// Entries that exist, replayable or not: for `fsb doctor`.
pub fn leftovers(directory: &Path) -> Vec<(PathBuf, Result<Entry, String>)> {
    let read = |(_, file): (_, PathBuf)| read_entry(&file).map(|entry| (file, entry));
    entry_files(directory).into_iter().filter_map(read).collect()
}

fn entry_files(directory: &Path) -> Vec<((i64, i64), PathBuf)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let metadata = std::fs::symlink_metadata(&path).ok()?;
            let is_entry = path.extension().is_some_and(|extension| extension == "json");
            is_entry.then(|| ((metadata.mtime(), metadata.mtime_nsec()), path))
        })
        .collect()
}

/// Nothing where the entry is gone: a live owner undid it since the directory was read.
fn read_entry(file: &Path) -> Option<Result<Entry, String>> {
    match std::fs::read(file) {
        Ok(text) => Some(serde_json::from_slice(&text).map_err(|error| error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(crate::error::describe(&error))),
    }
}

fn replay_entry(directory: &Path, file: PathBuf, boot_id: &str, is_over: &impl Fn(Owner) -> bool) -> Option<Replayed> {
    let entry = match read_entry(&file)? {
        Ok(entry) => entry,
        Err(why) => {
            let what = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Some(Replayed { file, what, fate: Fate::Unreadable(why) });
        }
    };
    let same_boot = entry.boot_id == boot_id;
    let fate = if same_boot && !is_over(entry.owner) {
        Fate::Live
    } else if !same_boot && !entry.action.survives_boot() {
        Fate::Discarded
    } else {
        let named = |said: String| entry.control.iter().fold(said, |said, control| format!("{control}: {said}"));
        entry.action.undo().map_or_else(Fate::Failed, |said| Fate::Undone(named(said)))
    };
    let done = matches!(fate, Fate::Undone(_) | Fate::Discarded);
    let fate = match if done { remove_durably(directory, &file) } else { Ok(()) } {
        Ok(()) => fate,
        Err(error) => Fate::Failed(attempt("remove", &file, &error)),
    };
    let what = match &entry.control {
        Some(control) => format!("{control}: {}", entry.action),
        None => entry.action.to_string(),
    };
    Some(Replayed { what, file, fate })
}

#[cfg(test)]
mod tests;
