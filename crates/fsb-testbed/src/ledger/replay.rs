//! Undoing what dead runs left.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use fsb_model::errno::advice_on_limits;

use super::guard::Guard;
use super::store::Store;
use super::{Entry, Owner, Rules};
use crate::error::{Refusal, attempt, describe};
use crate::sys::Roots;

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
    /// Not an entry that fsb wrote, or not readable as one; why. It stays.
    Refused(String),
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

    /// Whether something may be left to do.
    pub fn is_open(&self) -> bool {
        matches!(self.fate, Fate::Failed(_) | Fate::Refused(_))
    }
}

impl std::fmt::Display for Replayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.fate {
            Fate::Undone(said) => write!(f, "undone after a killed run: {said}"),
            Fate::Live => write!(f, "in use by a running fsb: {}", self.what),
            Fate::Discarded => write!(f, "discarded, of an earlier boot: {}", self.what),
            Fate::Failed(why) => write!(f, "could not be undone: {}: {why} (entry {})", self.what, self.file.display()),
            Fate::Refused(why) => {
                let shown = self.file.display();
                let advice = advice_on_limits(why).unwrap_or("check the entry, undo its change by hand, and remove it");
                write!(f, "refused, not undone: {shown}: {why}; {advice}")
            }
        }
    }
}

/// Undoes the entries in `directory` whose owner is dead, newest first. No directory, no entries.
///
/// Must be called from the PID namespace in which owners were recorded, the front's. `boot_id` is the present boot's.
pub fn replay(directory: &Path, boot_id: &str, rules: Rules) -> Vec<Replayed> {
    replay_where(directory, boot_id, Guard { rules, roots: &Roots::default() }, |owner| !owner.is_alive())
}

/// The same, and the entries of `owner`, alive or not: what the front does with its own when it has killed its agent.
pub fn replay_of(directory: &Path, boot_id: &str, rules: Rules, owner: Owner) -> Vec<Replayed> {
    replay_where(directory, boot_id, Guard { rules, roots: &Roots::default() }, |other| {
        other == owner || !other.is_alive()
    })
}

/// Undoes the entries of `owner`, alive or not, and nobody else's.
pub(crate) fn replay_only(directory: &Path, boot_id: &str, rules: Rules, owner: Owner) -> Vec<Replayed> {
    let all = replay_where(directory, boot_id, Guard { rules, roots: &Roots::default() }, |other| other == owner);
    all.into_iter().filter(Replayed::is_news).collect()
}

/// Entries that exist, and whether they can be replayed: for `fsb doctor`.
pub fn leftovers(directory: &Path, rules: Rules) -> Vec<(PathBuf, Result<Entry, Refusal>)> {
    match Store::open(directory) {
        Ok(store) => entries(&store, Guard { rules, roots: &Roots::default() }),
        Err(error) if is_absent(&error) => Vec::new(),
        Err(error) => vec![(directory.to_owned(), Err(describe(&error).into()))],
    }
}

pub(super) fn entries(store: &Store, guard: Guard<'_>) -> Vec<(PathBuf, Result<Entry, Refusal>)> {
    let read = |name: OsString| read_entry(store, &name, guard).map(|entry| (store.path().join(name), entry));
    store.names("json").into_iter().filter_map(read).collect()
}

/// Nobody ever had to write one. A user without a home directory has a path that leads nowhere.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

pub(super) fn replay_where(
    directory: &Path,
    boot_id: &str,
    guard: Guard<'_>,
    is_over: impl Fn(Owner) -> bool,
) -> Vec<Replayed> {
    // Two replays at once would undo things twice, the second time after a new owner changed them.
    let opened = Store::open(directory).and_then(|store| store.lock().map(|locked| (store, locked)));
    let (store, _locked) = match opened {
        Ok(opened) => opened,
        Err(error) if is_absent(&error) => return Vec::new(),
        Err(error) => {
            let what = "the undo ledger".to_owned();
            return vec![Replayed { file: directory.to_owned(), what, fate: Fate::Refused(describe(&error)) }];
        }
    };
    remove_unfinished(&store, &is_over);
    let mut names = store.names("json");
    // Settings first: a loop device may be waited for until the kernel has written back what was dirty.
    names.sort_by_key(|name| !is_setting(&store, name, guard));
    let names = names.into_iter();
    names.filter_map(|name| replay_entry(&store, &name, boot_id, guard, &is_over)).collect()
}

fn is_setting(store: &Store, name: &OsStr, guard: Guard<'_>) -> bool {
    let entry = read_entry(store, name, guard);
    entry.is_some_and(|entry| entry.is_ok_and(|entry| entry.action.subject().is_some()))
}

/// Entries that their writer did not live to complete. What they were to undo was not changed yet.
fn remove_unfinished(store: &Store, is_over: &impl Fn(Owner) -> bool) {
    for name in store.names("new") {
        let owner = name.to_str().and_then(Owner::of_file);
        if owner.is_some_and(is_over) {
            // It does no harm.
            let _ = store.remove(&name);
        }
    }
}

/// Nothing where the entry is gone: a live owner undid it since the directory was read.
fn read_entry(store: &Store, name: &OsStr, guard: Guard<'_>) -> Option<Result<Entry, Refusal>> {
    let text = match store.read(name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(Err(describe(&error).into())),
    };
    let entry = serde_json::from_slice::<Entry>(&text);
    Some(entry.map_err(|error| format!("it is not readable: {error}").into()).and_then(|entry| {
        guard.admit(entry.control.as_deref(), &entry.action)?;
        Ok(entry)
    }))
}

fn replay_entry(
    store: &Store,
    name: &OsStr,
    boot_id: &str,
    guard: Guard<'_>,
    is_over: &impl Fn(Owner) -> bool,
) -> Option<Replayed> {
    let file = store.path().join(name);
    let entry = match read_entry(store, name, guard)? {
        Ok(entry) => entry,
        Err(why) => {
            return Some(Replayed { file, what: name.to_string_lossy().into_owned(), fate: Fate::Refused(why.into()) });
        }
    };
    let same_boot = entry.boot_id == boot_id;
    let fate = if same_boot && !is_over(entry.owner) {
        Fate::Live
    } else if !same_boot && !entry.action.survives_boot() {
        Fate::Discarded
    } else {
        let named = |said: String| entry.control.iter().fold(said, |said, control| format!("{control}: {said}"));
        entry.action.undo(guard.roots).map_or_else(|why| Fate::Failed(why.into()), |said| Fate::Undone(named(said)))
    };
    let done = matches!(fate, Fate::Undone(_) | Fate::Discarded);
    let fate = match if done { store.remove(name) } else { Ok(()) } {
        Ok(()) => fate,
        Err(error) => Fate::Failed(attempt("remove", &file, &error).into()),
    };
    let what = match &entry.control {
        Some(control) => format!("{control}: {}", entry.action),
        None => entry.action.to_string(),
    };
    Some(Replayed { what, file, fate })
}
