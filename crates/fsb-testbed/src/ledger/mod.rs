//! The undo ledger: what the kernel does not take back by itself when a run is killed.
//!
//! Before a run changes such a thing, it writes an entry: one JSON file, synced with its directory. Undoing removes
//! the entry. A run that was killed leaves its entries; the next `fsb`, or 'fsb clean', replays those whose owner is
//! dead. An owner is a process id *with its start time*, as the front's PID namespace has them: numbers are reused.

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

/// Where entries go, and who they belong to.
#[derive(Debug)]
pub struct Ledger {
    store: Store,
    boot_id: String,
    owner: Owner,
    next: AtomicU32,
    /// Where /proc and /sys are that entries may name.
    roots: Roots,
    rules: Rules,
}

/// A recorded entry. It must be undone or kept on purpose: dropping it does neither.
#[derive(Debug)]
#[must_use = "an entry that is never undone is replayed by the next run"]
pub struct EntryHandle {
    file: PathBuf,
    action: Action,
}

impl EntryHandle {
    /// How this entry will be undone.
    pub fn action(&self) -> &Action {
        &self.action
    }
}

/// `/var/lib/fsb/undo` for root, else below the user's state directory. Never in a directory that others write to: they
/// could plant entries there.
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

/// `$XDG_STATE_HOME`, or what the specification says instead; absent where the environment names neither.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

impl Ledger {
    /// A ledger in `directory`, made if missing, for entries of `owner`.
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

    /// Takes `roots` for the machine's own, in tests.
    #[cfg(test)]
    pub(crate) fn of_machine(self, roots: &Roots) -> Ledger {
        Ledger { roots: roots.clone(), ..self }
    }

    fn guard(&self) -> Guard<'_> {
        Guard { rules: self.rules, roots: &self.roots }
    }

    /// Whose entries go here.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Writes down how to undo something, durably. To be called *before* the thing is changed.
    pub fn record(&self, action: Action) -> Result<EntryHandle, TestbedError> {
        self.write(action, None)
    }

    /// A path in `within` that nothing has, for a directory of fsb's own that may be given to the user `uid`, and the
    /// entry that removes it with all that is in it.
    pub fn record_directory(&self, within: &Path, uid: u32) -> Result<(PathBuf, EntryHandle), TestbedError> {
        let path = within.join(format!("{DIRECTORY_PREFIX}{}", fsb_sys::random_name()));
        let handle = self.record(Action::RemoveDirectory { path: path.clone(), uid: Some(uid) })?;
        Ok((path, handle))
    }

    /// Like [`Ledger::record`], for a change that `control` makes to what the whole machine shares. Nothing where another
    /// run has changed it: each would restore what the other one set.
    pub fn claim(&self, control: &str, action: Action) -> Result<Option<EntryHandle>, TestbedError> {
        // Two runs that claim at once must not both find nothing.
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
        // What no replay would carry out must not be changed.
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

    /// An owner has several ledgers where it opens one after another, and what the first could not undo is still there.
    fn free_name(&self) -> String {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{}-{number:04}", self.owner.pid, self.owner.start_time);
            if !self.store.holds(&format!("{name}.json")) {
                return name;
            }
        }
    }

    /// Undoes an entry and removes it. Where undoing fails the entry stays, for a later replay.
    pub fn undo(&self, handle: EntryHandle) -> Result<String, TestbedError> {
        let said = handle.action.undo(&self.roots).map_err(|error| {
            TestbedError::machine("a change could not be undone")
                .tried(format!("{}: {error}", handle.action))
                .advice(format!("run 'fsb clean' later; the entry is {}", handle.file.display()))
        })?;
        // The thing is as it was. An entry that cannot be removed is replayed, which changes nothing.
        let _ = self.store.remove(handle.file.file_name().unwrap_or(OsStr::new("")));
        Ok(said)
    }
}

#[cfg(test)]
mod tests;
