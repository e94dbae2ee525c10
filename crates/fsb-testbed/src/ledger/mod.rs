//! The undo ledger: a record of changes that the kernel does not revert by itself when a run is killed.
//!
//! Before a run makes such a change, it writes an entry: one JSON file, synced with its directory. Undoing removes the
//! entry. A killed run leaves its entries; the next `fsb`, or 'fsb clean', replays those whose owner is dead. An owner
//! is a process id *with its start time* in the coordinator's PID namespace, because ids are reused.

mod action;
mod owner;
mod replay;
mod store;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub use action::Action;
pub(crate) use action::DIRECTORY_PREFIX;
use fsb_sys::Roots;
use fsb_sys::error::{TestbedError, attempt};
pub use owner::Owner;
use replay::Guard;
pub use replay::Rules;
pub(crate) use replay::replay_only;
pub use replay::{Fate, Replayed, leftovers, replay, replay_of};
use store::Store;
pub(crate) use store::distrust;

pub use fsb_sys::blkpg::Partition;

pub use replay::Entry;

/// An open ledger, which writes entries for one owner.
#[derive(Debug)]
pub struct Ledger {
    store: Store,
    boot_id: String,
    owner: Owner,
    next: AtomicU32,
    /// The /proc and /sys that entries may name.
    roots: Roots,
    rules: Rules,
}

/// A recorded entry. It must be undone or kept on purpose; dropping the handle does neither.
#[derive(Debug)]
#[must_use = "an entry that is never undone is replayed by the next run"]
pub struct EntryHandle {
    file: PathBuf,
    action: Action,
}

impl EntryHandle {
    /// Returns the action that undoes the change.
    pub fn action(&self) -> &Action {
        &self.action
    }
}

/// Returns `/var/lib/fsb/undo` for root, else a directory below the user's state directory. Never returns a directory
/// that other users can write to, because they could plant entries there.
pub fn default_directory() -> Result<PathBuf, TestbedError> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/fsb/undo"));
    }
    state_directory().map(|directory| directory.join("fsb/undo")).ok_or_else(|| {
        TestbedError::machine("no directory for the undo ledger")
            .coded(&fsb_model::error::NO_LEDGER)
            .tried("neither XDG_STATE_HOME nor HOME names an absolute path")
            .advice("name a directory for it: export HOME=$(mktemp -d)")
    })
}

/// Returns `$XDG_STATE_HOME`, or the default of the specification. Returns `None` if the environment has neither.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

impl Ledger {
    /// Opens a ledger in `directory`, which is created if missing, for entries of `owner`.
    pub fn open(directory: &Path, owner: Owner, rules: Rules) -> Result<Ledger, TestbedError> {
        let store = Store::make(directory).map_err(|error| {
            TestbedError::machine("the undo ledger cannot be kept").tried(attempt("use", directory, &error)).advice(
                "nothing was changed: make the directory writable for the user that runs fsb alone, or set \
                 XDG_STATE_HOME to such a directory",
            )
        })?;
        let boot_id = crate::host::boot_id();
        Ok(Ledger { store, boot_id, owner, next: AtomicU32::new(0), roots: Roots::default(), rules })
    }

    /// Uses `roots` as the machine's own, in tests.
    #[cfg(test)]
    pub(crate) fn of_machine(self, roots: &Roots) -> Ledger {
        Ledger { roots: roots.clone(), ..self }
    }

    fn guard(&self) -> Guard<'_> {
        Guard { rules: self.rules, roots: &self.roots }
    }

    /// Returns the owner of new entries.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Writes an undo entry durably. Must be called *before* the change.
    pub fn record(&self, action: Action) -> Result<EntryHandle, TestbedError> {
        self.write(action, None)
    }

    /// Returns an unused path in `within`, for a directory of fsb that may be given to the user `uid`, and the entry
    /// that removes the directory with its contents.
    pub fn record_directory(&self, within: &Path, uid: u32) -> Result<(PathBuf, EntryHandle), TestbedError> {
        let path = within.join(format!("{DIRECTORY_PREFIX}{}", fsb_sys::random_name()));
        let handle = self.record(Action::RemoveDirectory { path: path.clone(), uid: Some(uid) })?;
        Ok((path, handle))
    }

    /// Like [`Ledger::record`], for a change of `control` to a setting of the whole machine. Returns `None` if another
    /// run has changed it, because each run would restore the value that the other one set.
    pub fn claim(&self, control: &str, action: Action) -> Result<Option<EntryHandle>, TestbedError> {
        // Otherwise two runs that claim at the same time could both find no entry.
        let _turn = self.store.lock();
        let subject = action.subject();
        let is_rival = |entry: &Entry| {
            entry.boot_id == self.boot_id && entry.owner != self.owner && entry.action.subject() == subject
        };
        let entries = || replay::entries(&self.store, self.guard());
        if subject.is_some() && entries().iter().any(|(_, entry)| entry.as_ref().is_ok_and(is_rival)) {
            return Ok(None);
        }
        self.write(action, Some(control.to_owned())).map(Some)
    }

    fn write(&self, action: Action, control: Option<String>) -> Result<EntryHandle, TestbedError> {
        // A change that no replay would undo must not be made.
        self.guard().admit(control.as_deref(), &action).map_err(|why| {
            TestbedError::machine("the undo ledger cannot revert a change")
                .tried(why)
                .advice("nothing was changed: this is a bug in fsb, please report it")
        })?;
        let name = self.free_name();
        let file = self.store.path().join(format!("{name}.json"));
        let entry = Entry { boot_id: self.boot_id.clone(), owner: self.owner, control, action };
        let text = serde_json::to_vec_pretty(&entry).map_err(std::io::Error::from);
        text.and_then(|text| self.store.write(&name, &text)).map_err(|error| {
            TestbedError::machine("the undo ledger cannot be kept")
                .tried(attempt("write", &file, &error))
                .advice("nothing was changed: free some space there")
        })?;
        Ok(EntryHandle { file, action: entry.action })
    }

    /// Returns an unused name. An owner may open several ledgers one after another, while entries that the first could
    /// not undo still exist.
    fn free_name(&self) -> String {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{}-{number:04}", self.owner.pid, self.owner.start_time);
            if !self.store.holds(&format!("{name}.json")) {
                return name;
            }
        }
    }

    /// Undoes an entry and removes it. If undoing fails, the entry stays for a later replay.
    pub fn undo(&self, handle: EntryHandle) -> Result<String, TestbedError> {
        let said = handle.action.undo(&self.roots).map_err(|error| {
            TestbedError::machine("a change could not be undone")
                .tried(format!("{}: {error}", handle.action))
                .advice(format!("run 'fsb clean' later; the entry is {}", handle.file.display()))
        })?;
        // The change is undone. If the entry cannot be removed, a later replay undoes it again, without effect.
        let _ = self.store.remove(handle.file.file_name().unwrap_or(OsStr::new("")));
        Ok(said)
    }
}

#[cfg(test)]
mod tests;
