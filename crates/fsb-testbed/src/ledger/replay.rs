//! The entries of the ledger, the checks of what an entry may change, and the replay of entries of dead runs.
//!
//! Root may replay the ledger, long after it was written. An entry is therefore refused and reported if it names a file
//! that its control never changes, or a directory whose name fsb did not choose, regardless of its author.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use fsb_model::errno::advice_on_limits;
use fsb_sys::blkpg::Partition;
use fsb_sys::error::{Refusal, TestbedError, attempt, describe};
use fsb_sys::{Roots, cgroup, md};
use serde::{Deserialize, Serialize};

use super::action::{Action, DIRECTORY_PREFIX};
use super::owner::Owner;
use super::store::Store;
use crate::medium::GRAIN;

/// The result of replaying an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Undone and removed, with a description of the effect.
    Undone(String),
    /// Left alone, because its owner lives.
    Live,
    /// Removed, because it is of an earlier boot, and the reboot undid the change.
    Discarded,
    /// Could not be undone, for this reason. The entry stays.
    Failed(String),
    /// Not an entry that fsb wrote, or not readable as one, for this reason. The entry stays.
    Refused(String),
}

/// An entry and the result of replaying it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// The entry's file.
    pub file: PathBuf,
    /// A description of the undo action, or the file's name if the entry is unreadable.
    pub what: String,
    /// The result.
    pub fate: Fate,
}

impl Replayed {
    /// Returns whether the result must be reported: true for all but entries of a living owner.
    pub fn is_news(&self) -> bool {
        self.fate != Fate::Live
    }

    /// Returns whether the change may still be in place.
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

/// Undoes the entries in `directory` whose owner is dead, newest first. A missing directory has no entries.
///
/// Must be called from the PID namespace in which owners were recorded, the coordinator's. `boot_id` is that of the
/// present boot.
pub fn replay(directory: &Path, boot_id: &str, rules: Rules) -> Vec<Replayed> {
    replay_where(directory, boot_id, Guard { rules, roots: &Roots::default() }, |owner| !owner.is_alive())
}

/// Like [`replay`], and also undoes the entries of `owner`, alive or not. The coordinator calls it for its own entries
/// after it has killed its agent.
pub fn replay_of(directory: &Path, boot_id: &str, rules: Rules, owner: Owner) -> Vec<Replayed> {
    replay_where(directory, boot_id, Guard { rules, roots: &Roots::default() }, |other| {
        other == owner || !other.is_alive()
    })
}

/// Undoes only the entries of `owner`, alive or not.
pub(crate) fn replay_only(directory: &Path, boot_id: &str, rules: Rules, owner: Owner) -> Vec<Replayed> {
    let all = replay_where(directory, boot_id, Guard { rules, roots: &Roots::default() }, |other| other == owner);
    all.into_iter().filter(Replayed::is_news).collect()
}

/// Returns the existing entries, and whether they can be replayed, for `fsb doctor`.
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

/// Returns whether no ledger exists, because no run needed one. The path of a user without a home directory cannot be
/// accessed.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

pub(super) fn replay_where(
    directory: &Path,
    boot_id: &str,
    guard: Guard<'_>,
    is_over: impl Fn(Owner) -> bool,
) -> Vec<Replayed> {
    // Two replays at once would undo changes twice, the second time after a new owner made changes again.
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
    // Settings first, because removing a loop device may wait until the kernel has written back dirty pages.
    names.sort_by_key(|name| !is_setting(&store, name, guard));
    let names = names.into_iter();
    names.filter_map(|name| replay_entry(&store, &name, boot_id, guard, &is_over)).collect()
}

fn is_setting(store: &Store, name: &OsStr, guard: Guard<'_>) -> bool {
    let entry = read_entry(store, name, guard);
    entry.is_some_and(|entry| entry.is_ok_and(|entry| entry.action.subject().is_some()))
}

/// Removes entries whose writer died before it completed them. The change was not made yet.
fn remove_unfinished(store: &Store, is_over: &impl Fn(Owner) -> bool) {
    for name in store.names("new") {
        let owner = name.to_str().and_then(Owner::of_file);
        if owner.is_some_and(is_over) {
            // The file does no harm.
            let _ = store.remove(&name);
        }
    }
}

/// Reads an entry. Returns `None` if it has gone: a living owner undid it since the directory was read.
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

/// The content of an entry's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The boot in which it was written.
    pub boot_id: String,
    /// The process that lives as long as the run.
    pub owner: Owner,
    /// The control that made the change. `None` if no control did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    /// The action that undoes the change.
    pub action: Action,
}

/// The largest device number of the kernel (20 bits of minor numbers).
const MOST_DEVICES: u32 = 1 << 20;

/// The largest partition number of the kernel (DISK_MAX_PARTS).
const MOST_PARTITIONS: u32 = 256;

/// The actions that each control records: a function from the control's name, which fails if there is none of that name.
#[derive(Debug, Clone, Copy)]
pub struct Rules(pub(crate) fn(&str, &Action, &Roots) -> Result<bool, TestbedError>);

/// Checks entries against the rules and the directories of one machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard<'r> {
    pub(super) rules: Rules,
    pub(super) roots: &'r Roots,
}

impl Guard<'_> {
    /// Fails if `action` is not one that fsb records for `control`, or without a control.
    pub(super) fn admit(&self, control: Option<&str>, action: &Action) -> Result<(), Refusal> {
        admit(control, action, *self)
    }
}

fn admit(control: Option<&str>, action: &Action, Guard { rules, roots }: Guard<'_>) -> Result<(), Refusal> {
    if path_of(action).is_some_and(|path| !is_plain(path)) {
        return Err("its path is not a plain, absolute one".into());
    }
    let own = match (control, action) {
        (Some(name), _) => (rules.0)(name, action, roots).map_err(|error| error.to_string())?,
        (None, Action::RemoveDirectory { path, .. }) => path.file_name().is_some_and(is_own_name),
        (None, Action::RemoveLoop { index, .. }) => *index < MOST_DEVICES,
        (None, Action::StopArray { number, .. }) => *number < MOST_DEVICES,
        (None, Action::RemovePartition { major, minor, partition }) => {
            let Partition { number, start, bytes } = *partition;
            let aligned = start.is_multiple_of(GRAIN) && bytes.is_multiple_of(GRAIN) && start > 0 && bytes > 0;
            aligned && (1..=MOST_PARTITIONS).contains(&number) && *major < MOST_DEVICES && *minor < MOST_DEVICES
        }
        // A setting for an array whose members differ in size.
        (None, Action::WriteFile { path, .. }) => *path == roots.sys.join(md::LAYOUT),
        // A cgroup that counts the processes of a command.
        (None, Action::RemoveCgroup { path }) => cgroup::is_below(path, roots) && cgroup::is_own(path),
        (None, Action::SwapOn { .. } | Action::StartUnit { .. }) => false,
    };
    match (own, control) {
        (true, _) => Ok(()),
        (false, Some(name)) => Err(format!("the control {name} never needs to {action}").into()),
        (false, None) => Err(format!("fsb never needs to {action}").into()),
    }
}

fn path_of(action: &Action) -> Option<&Path> {
    match action {
        Action::WriteFile { path, .. }
        | Action::RemoveDirectory { path, .. }
        | Action::SwapOn { path, .. }
        | Action::RemoveCgroup { path } => Some(path),
        Action::RemoveLoop { .. }
        | Action::StopArray { .. }
        | Action::RemovePartition { .. }
        | Action::StartUnit { .. } => None,
    }
}

/// Returns whether the path contains no `..`, which would leave the checked directories, and does not end in `.`, which
/// would follow a link.
fn is_plain(path: &Path) -> bool {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    plain && path.is_absolute() && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

/// Returns whether the name is `.fsb-` and the digits of [`fsb_sys::random_name`].
fn is_own_name(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY_PREFIX));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
