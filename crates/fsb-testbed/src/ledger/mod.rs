//! The undo ledger: a record of changes that the kernel does not revert by itself when a run is
//! killed.
//!
//! Before a run makes such a change, it writes an entry: one JSON file, synced with its directory.
//! Undoing removes the entry. A killed run leaves its entries; the next `fsb`, or 'fsb clean',
//! replays those whose owner is dead. An owner is a process id *with its start time* in the
//! coordinator's PID namespace, because ids are reused.

mod action;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fsb_model::errno;
use fsb_sys::error::{Refusal, TestbedError, Tried, attempt};
use fsb_sys::process::{stat_field, state};
use fsb_sys::{Roots, cgroup, md};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, StatVfsMountFlags,
};
use serde::{Deserialize, Serialize};

pub use action::{Action, MountOfDirectory};
pub(crate) use action::{DIRECTORY_PREFIX, GRAIN, MAPPING_PREFIX, shown_by_file_system};
pub use fsb_sys::blkpg::Partition;

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

/// Root's ledger.
const OF_MACHINE: &str = "/var/lib/fsb/undo";
/// Root's ledger where [`OF_MACHINE`] is on a read-only file system. It does not survive a reboot:
/// then directories of a killed run stay.
const OF_BOOT: &str = "/run/fsb/undo";

/// Returns `/var/lib/fsb/undo` for root, or `/run/fsb/undo` where that is read-only, else a
/// directory below the user's state directory. Never returns a directory that other users can write
/// to, because they could plant entries there.
///
/// # Errors
/// Fails for a user without a home directory.
pub fn default_directory() -> Result<PathBuf, TestbedError> {
    if rustix::process::geteuid().is_root() {
        let place = match is_read_only(Path::new(OF_MACHINE)) {
            true => OF_BOOT,
            false => OF_MACHINE,
        };
        return Ok(PathBuf::from(place));
    }
    state_directory()
        .map(|directory| directory.join("fsb/undo"))
        .ok_or_else(|| {
            TestbedError::machine("no directory for the undo ledger")
                .coded(&fsb_model::error::NO_LEDGER)
                .tried("neither XDG_STATE_HOME nor HOME names an absolute path")
                .advice("name a directory for it: export HOME=$(mktemp -d)")
        })
}

/// Returns whether a directory, or the first one above it that exists, is on a read-only file
/// system.
fn is_read_only(directory: &Path) -> bool {
    directory
        .ancestors()
        .find_map(|above| rustix::fs::statvfs(above).ok())
        .is_some_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns advice for a ledger that cannot be written.
fn advice_on_writing(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "nothing was changed: make it writable, such as with 'mount -t tmpfs tmpfs /run'"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "nothing was changed: free some space there"
        }
        _ => {
            "nothing was changed: make the directory writable for the user that runs fsb alone, or \
             set XDG_STATE_HOME to such a directory"
        }
    }
}

/// Returns `$XDG_STATE_HOME`, or the default of the specification. Returns `None` if the
/// environment has neither.
pub(crate) fn state_directory() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

impl Ledger {
    /// Opens a ledger in `directory`, which is created if missing, for entries of `owner`.
    pub fn open(directory: &Path, owner: Owner, rules: Rules) -> Result<Ledger, TestbedError> {
        if directory == Path::new(OF_BOOT) {
            // Beside root's lock, whose holders others may read. The next step reports a failure.
            let _ = directory
                .parent()
                .map(|parent| std::fs::DirBuilder::new().mode(0o755).create(parent));
        }
        let store = Store::make(directory).map_err(|error| {
            TestbedError::machine("the undo ledger cannot be kept")
                .tried(attempt("open", directory, &error))
                .advice(advice_on_writing(&error))
        })?;
        let boot_id = fsb_sys::boot_id();
        Ok(Ledger {
            store,
            boot_id,
            owner,
            next: AtomicU32::new(0),
            roots: Roots::default(),
            rules,
        })
    }

    fn guard(&self) -> Guard<'_> {
        Guard {
            rules: self.rules,
            roots: &self.roots,
        }
    }

    /// Returns the owner of new entries.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Writes an undo entry durably. Must be called *before* the change.
    pub fn record(&self, action: Action) -> Result<EntryHandle, TestbedError> {
        self.write(action, None)
    }

    /// Returns an unused path in `within`, for a directory of fsb that may be given to the user
    /// `uid`, and the entry that removes the directory with its contents.
    pub fn record_directory(
        &self,
        within: &Path,
        uid: u32,
    ) -> Result<(PathBuf, EntryHandle), TestbedError> {
        let path = within.join(format!("{DIRECTORY_PREFIX}{}", fsb_sys::random_name()));
        let handle = self.record(Action::RemoveDirectory {
            path: path.clone(),
            uid: Some(uid),
            mount: MountOfDirectory::holding(within),
        })?;
        Ok((path, handle))
    }

    /// Like [`Ledger::record`], for a change of `control` to a setting of the whole machine.
    /// Returns `None` if another run has changed it, because each run would restore the value that
    /// the other one set.
    pub fn claim(
        &self,
        control: &str,
        action: Action,
    ) -> Result<Option<EntryHandle>, TestbedError> {
        // Otherwise two runs that claim at the same time could both find no entry.
        let _turn = self.store.lock();
        let subject = action.subject();
        if subject.is_some()
            && entries(&self.store, self.guard()).iter().any(|(_, entry)| {
                entry.as_ref().is_ok_and(|entry: &Entry| {
                    entry.boot_id == self.boot_id
                        && entry.owner != self.owner
                        && entry.action.subject() == subject
                })
            })
        {
            return Ok(None);
        }
        self.write(action, Some(control.to_owned())).map(Some)
    }

    fn write(&self, action: Action, control: Option<String>) -> Result<EntryHandle, TestbedError> {
        // A change that no replay would undo must not be made.
        self.guard()
            .admit(control.as_deref(), &action)
            .map_err(|why| {
                TestbedError::machine("the undo ledger cannot revert a change")
                    .tried(why)
                    .advice("nothing was changed: this is a bug in fsb, please report it")
            })?;
        let name = self.free_name();
        let file = self.store.path().join(format!("{name}.json"));
        let entry = Entry {
            boot_id: self.boot_id.clone(),
            owner: self.owner,
            control,
            action,
        };
        let text = serde_json::to_vec_pretty(&entry).map_err(std::io::Error::from);
        text.and_then(|text| self.store.write(&name, &text))
            .map_err(|error| {
                TestbedError::machine("the undo ledger cannot be kept")
                    .tried(attempt("write", &file, &error))
                    .advice(advice_on_writing(&error))
            })?;
        Ok(EntryHandle {
            file,
            action: entry.action,
        })
    }

    /// Returns an unused name. An owner may open several ledgers one after another, while entries
    /// that the first could not undo still exist.
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
        let undone = match handle.action.out_of_reach(&self.roots) {
            Some(why) => Err(why.into()),
            None => handle.action.undo(&self.roots),
        };
        let said = undone.map_err(|error: Refusal| {
            TestbedError::machine("a change could not be undone")
                .tried(Tried {
                    text: format!("{}: {error}", handle.action),
                    ..error.into()
                })
                .advice(format!(
                    "run 'fsb clean' later; the entry is {}",
                    handle.file.display()
                ))
        })?;
        // The change is undone. If the entry cannot be removed, a later replay undoes it again,
        // without effect.
        let _ = self
            .store
            .remove(handle.file.file_name().unwrap_or(OsStr::new("")));
        Ok(said)
    }
}

/// The owner of an entry: a process that lives exactly as long as the run. Its start time
/// distinguishes it from later processes with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process id in the coordinator's PID namespace.
    pub pid: u32,
    /// Clock ticks from boot to its start (proc_pid_stat(5), field 22).
    pub start_time: u64,
}

impl Owner {
    /// Returns the calling process. The coordinator calls it and passes the result to the agent,
    /// which cannot see its own id outside its PID namespace.
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner {
            pid,
            start_time: start_time(pid).unwrap_or(0),
        }
    }

    /// Parses the owner in the name of an entry's file: `PID-STARTTIME-NUMBER`.
    fn of_file(name: &str) -> Option<Owner> {
        let mut parts = name.split('-');
        Some(Owner {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
        })
    }

    /// Returns whether exactly this process still runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        let stat = fsb_sys::read_text(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        let ended = state(&stat).is_none_or(|state| matches!(state, 'Z' | 'X'));
        !ended && stat_field(&stat, 22) == Some(self.start_time)
    }
}

fn start_time(pid: u32) -> Option<u64> {
    stat_field(&fsb_sys::read_text(format!("/proc/{pid}/stat")).ok()?, 22)
}

// The ledger's directory and its files, opened such that files of other users are never trusted.
//
// A user who can plant an entry decides what a later `fsb`, perhaps root's, writes and removes. The
// directory is therefore opened once and checked, and everything in it is opened through that
// descriptor. A file counts only if it is a regular file of this user that no other user could have
// written.

/// An entry is some hundred bytes long.
const LARGEST: u64 = 64 << 10;

/// A directory that belongs to this user alone.
#[derive(Debug)]
struct Store {
    directory: OwnedFd,
    path: PathBuf,
}

/// A lock on a store. Dropping it releases the lock.
struct Locked(#[expect(dead_code, reason = "the lock ends when it is closed")] OwnedFd);

/// Returns the reason why a file is not `uid`'s alone. Returns `None` if it is.
pub(crate) fn distrust(stat: &Stat, uid: u32) -> Option<String> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    if stat.st_uid != uid {
        return Some(format!("it belongs to user {}", stat.st_uid));
    }
    mode.intersects(Mode::WGRP | Mode::WOTH)
        .then(|| "other users may write to it".to_owned())
}

impl Store {
    /// Opens the directory, which is created if missing.
    pub fn make(path: &Path) -> io::Result<Store> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        Store::open(path)
    }

    /// Opens the directory. Fails if it does not belong to this user alone.
    pub fn open(path: &Path) -> io::Result<Store> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&directory)?;
        if let Some(why) = distrust(&stat, rustix::process::geteuid().as_raw()) {
            return Err(io::Error::other(why));
        }
        if Mode::from_raw_mode(stat.st_mode) != Mode::RWXU {
            // A user who can open the directory can lock it and block every replay. If its mode
            // cannot be changed, it is used nevertheless.
            let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
        }
        Ok(Store {
            directory,
            path: path.to_owned(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the store exclusively, and waits until other processes have released it.
    pub fn lock(&self) -> io::Result<Locked> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = rustix::fs::openat(&self.directory, ".", flags, Mode::empty())?;
        rustix::fs::flock(&own, FlockOperation::LockExclusive)?;
        Ok(Locked(own))
    }

    /// Returns the names that end in `.extension`, the newest file first.
    pub fn names(&self, extension: &str) -> Vec<OsString> {
        let Ok(entries) = Dir::read_from(&self.directory) else {
            return Vec::new();
        };
        let mut found: Vec<_> = entries
            .filter_map(|entry| {
                let name = OsString::from_vec(entry.ok()?.file_name().to_bytes().to_vec());
                let stat =
                    rustix::fs::statat(&self.directory, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let wanted = Path::new(&name).extension() == Some(OsStr::new(extension));
                wanted.then_some(((stat.st_mtime, stat.st_mtime_nsec), name))
            })
            .collect();
        found.sort_by(|a, b| b.cmp(a));
        found.into_iter().map(|(_, name)| name).collect()
    }

    /// Reads a file that belongs to this user alone. Any error other than `NotFound` is the reason
    /// why it cannot be trusted or read.
    pub fn read(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        // Without these flags, opening a FIFO would block, and a terminal would become the
        // controlling one.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let wrong = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_nlink != 1 => {
                Some("it has another hard link".to_owned())
            }
            FileType::RegularFile if stat.st_size as u64 > LARGEST => {
                Some("it is too long for an entry".to_owned())
            }
            FileType::RegularFile => distrust(&stat, rustix::process::geteuid().as_raw()),
            _ => Some("it is not a regular file".to_owned()),
        };
        if let Some(why) = wrong {
            return Err(io::Error::other(why));
        }
        let mut text = Vec::new();
        File::from(file).take(LARGEST).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Returns whether the directory has an entry of that name.
    pub fn holds(&self, name: &str) -> bool {
        rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Writes `NAME.json` durably. The file gets its name only when it is complete, so that no
    /// partial entry is visible.
    pub fn write(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let temporary = format!("{name}.new");
        let written = self.write_new(&temporary, text).and_then(|()| {
            rustix::fs::renameat(
                &self.directory,
                &temporary,
                &self.directory,
                format!("{name}.json"),
            )?;
            Ok(rustix::fs::fsync(&self.directory)?)
        });
        written.inspect_err(|_| {
            // The first error is the one that explains.
            let _ = rustix::fs::unlinkat(&self.directory, &temporary, AtFlags::empty());
        })
    }

    fn write_new(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(
            &self.directory,
            name,
            flags,
            Mode::RUSR | Mode::WUSR,
        )?);
        file.write_all(text)?;
        file.sync_all()
    }

    /// Removes a file durably.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        rustix::fs::unlinkat(&self.directory, name.as_bytes(), AtFlags::empty())?;
        Ok(rustix::fs::fsync(&self.directory)?)
    }
}

// The entries of the ledger, the checks of what an entry may change, and the replay of entries of
// dead runs.
//
// Root may replay the ledger, long after it was written. An entry is therefore refused and reported
// if it names a file that its control never changes, or a directory whose name fsb did not choose,
// regardless of its author.

/// The result of replaying an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The change was undone, with a description of the effect. The entry was removed.
    Undone(String),
    /// The entry stays, because its owner lives.
    Live,
    /// The entry was removed, because it is of an earlier boot, and the reboot undid the change.
    Discarded,
    /// The file system that shows the change is not mounted now, for this reason. The entry stays.
    OutOfReach(String),
    /// The change could not be undone, for this reason. The entry stays.
    Failed(String),
    /// fsb did not write the entry, or cannot read it, for this reason. The entry stays.
    Refused(Tried),
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

    /// Returns whether the change may still be in place and affect a run.
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
            Fate::OutOfReach(why) => write!(
                f,
                "kept: {}: {why}; or remove the entry {} to forget it",
                self.what,
                self.file.display()
            ),
            Fate::Failed(why) => write!(
                f,
                "could not be undone: {}: {why} (entry {})",
                self.what,
                self.file.display()
            ),
            Fate::Refused(why) => {
                let shown = self.file.display();
                let on_limits = why
                    .errno
                    .and_then(errno::name)
                    .and_then(errno::advice_on_limits);
                let advice =
                    on_limits.unwrap_or("check the entry, undo its change by hand, and remove it");
                let why = &why.text;
                write!(f, "refused, not undone: {shown}: {why}; {advice}")
            }
        }
    }
}

/// Undoes the entries in `directory` whose owner is dead, newest first. A missing directory has no
/// entries.
///
/// Must be called from the PID namespace in which owners were recorded, the coordinator's.
/// `boot_id` is that of the present boot.
pub fn replay(directory: &Path, boot_id: &str, rules: Rules) -> Vec<Replayed> {
    let mut replayed = Vec::new();
    for place in [Some(directory), other_of_root(directory)]
        .into_iter()
        .flatten()
    {
        let guard = Guard {
            rules,
            roots: &Roots::default(),
        };
        replayed.extend(replay_where(place, boot_id, guard, |owner| {
            !owner.is_alive()
        }));
    }
    replayed
}

/// Returns root's other ledger if it has entries: the one for a read-only /var keeps them after
/// /var became writable, and the usual one after it became read-only.
fn other_of_root(directory: &Path) -> Option<&'static Path> {
    let other = match directory.to_str()? {
        OF_MACHINE => Path::new(OF_BOOT),
        OF_BOOT => Path::new(OF_MACHINE),
        _ => return None,
    };
    let mut entries = std::fs::read_dir(other).ok()?.flatten();
    entries
        .any(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .then_some(other)
}

/// Like [`replay`], and also undoes the entries of `owner`, alive or not. The coordinator calls it
/// for its own entries after it has killed its agent.
pub fn replay_of(directory: &Path, boot_id: &str, rules: Rules, owner: Owner) -> Vec<Replayed> {
    replay_where(
        directory,
        boot_id,
        Guard {
            rules,
            roots: &Roots::default(),
        },
        |other| other == owner || !other.is_alive(),
    )
}

/// Undoes only the entries of `owner`, alive or not.
pub(crate) fn replay_only(
    directory: &Path,
    boot_id: &str,
    rules: Rules,
    owner: Owner,
) -> Vec<Replayed> {
    let all = replay_where(
        directory,
        boot_id,
        Guard {
            rules,
            roots: &Roots::default(),
        },
        |other| other == owner,
    );
    all.into_iter().filter(Replayed::is_news).collect()
}

/// Returns the existing entries, and whether they can be replayed, for `fsb doctor`.
pub fn leftovers(directory: &Path, rules: Rules) -> Vec<(PathBuf, Result<Entry, Refusal>)> {
    match Store::open(directory) {
        Ok(store) => entries(
            &store,
            Guard {
                rules,
                roots: &Roots::default(),
            },
        ),
        Err(error) if is_absent(&error) => Vec::new(),
        Err(error) => vec![(directory.to_owned(), Err(Refusal::call("open it", &error)))],
    }
}

fn entries(store: &Store, guard: Guard<'_>) -> Vec<(PathBuf, Result<Entry, Refusal>)> {
    store
        .names("json")
        .into_iter()
        .filter_map(|name| {
            read_entry(store, &name, guard).map(|entry| (store.path().join(name), entry))
        })
        .collect()
}

/// Returns whether no ledger exists, because no run needed one. The path of a user without a home
/// directory cannot be accessed.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

fn replay_where(
    directory: &Path,
    boot_id: &str,
    guard: Guard<'_>,
    is_over: impl Fn(Owner) -> bool,
) -> Vec<Replayed> {
    // Two replays at once would undo changes twice, the second time after a new owner made changes
    // again.
    let opened =
        Store::open(directory).and_then(|store| store.lock().map(|locked| (store, locked)));
    let (store, _locked) = match opened {
        Ok(opened) => opened,
        Err(error) if is_absent(&error) => return Vec::new(),
        Err(error) => {
            let what = "the undo ledger".to_owned();
            return vec![Replayed {
                file: directory.to_owned(),
                what,
                fate: Fate::Refused((&error).into()),
            }];
        }
    };
    remove_unfinished(&store, &is_over);
    let mut names = store.names("json");
    // Settings first, because removing a loop device may wait until the kernel has written back
    // dirty pages.
    names.sort_by_key(|name| !is_setting(&store, name, guard));
    let names = names.into_iter();
    names
        .filter_map(|name| replay_entry(&store, &name, boot_id, guard, &is_over))
        .collect()
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

/// Reads an entry. Returns `None` if it has gone: a living owner undid it since the directory was
/// read.
fn read_entry(store: &Store, name: &OsStr, guard: Guard<'_>) -> Option<Result<Entry, Refusal>> {
    let text = match store.read(name) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return Some(Err(Refusal::call("read it", &error))),
    };
    let entry = serde_json::from_slice::<Entry>(&text);
    Some(
        entry
            .map_err(|error| format!("it is not readable: {error}").into())
            .and_then(|entry| {
                guard.admit(entry.control.as_deref(), &entry.action)?;
                Ok(entry)
            }),
    )
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
            return Some(Replayed {
                file,
                what: name.to_string_lossy().into_owned(),
                fate: Fate::Refused(why.into()),
            });
        }
    };
    let same_boot = entry.boot_id == boot_id;
    let fate = if same_boot && !is_over(entry.owner) {
        Fate::Live
    } else if !same_boot && !entry.action.survives_boot() {
        Fate::Discarded
    } else if let Some(why) = entry.action.out_of_reach(guard.roots) {
        Fate::OutOfReach(why)
    } else {
        let named = |said: String| {
            entry
                .control
                .iter()
                .fold(said, |said, control| format!("{control}: {said}"))
        };
        entry.action.undo(guard.roots).map_or_else(
            |why| Fate::Failed(why.into()),
            |said| Fate::Undone(named(said)),
        )
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

/// The actions that each control records: a function from the control's name, which fails if there
/// is none of that name.
#[derive(Debug, Clone, Copy)]
pub struct Rules(pub(crate) fn(&str, &Action, &Roots) -> Result<bool, TestbedError>);

/// Checks entries against the rules and the directories of one machine.
#[derive(Debug, Clone, Copy)]
struct Guard<'r> {
    rules: Rules,
    roots: &'r Roots,
}

impl Guard<'_> {
    /// Fails if `action` is not one that fsb records for `control`, or without a control.
    fn admit(&self, control: Option<&str>, action: &Action) -> Result<(), Refusal> {
        admit(control, action, *self)
    }
}

fn admit(
    control: Option<&str>,
    action: &Action,
    Guard { rules, roots }: Guard<'_>,
) -> Result<(), Refusal> {
    if path_of(action).is_some_and(|path| !is_plain(path)) {
        return Err("its path is not a plain, absolute one".into());
    }
    let own = match (control, action) {
        (Some(name), _) => (rules.0)(name, action, roots).map_err(|error| error.to_string())?,
        (None, Action::RemoveDirectory { path, .. }) => path.file_name().is_some_and(is_own_name),
        (None, Action::RemoveLoop { index, .. }) => *index < MOST_DEVICES,
        (None, Action::StopArray { number, .. }) => *number < MOST_DEVICES,
        (None, Action::ExportPool { major, minor }) => {
            *major < MOST_DEVICES && *minor < MOST_DEVICES
        }
        (None, Action::RemoveMapping { name }) => name.starts_with(MAPPING_PREFIX),
        (
            None,
            Action::RemovePartition {
                major,
                minor,
                partition,
            },
        ) => {
            let Partition {
                number,
                start,
                bytes,
            } = *partition;
            let aligned = start.is_multiple_of(GRAIN)
                && bytes.is_multiple_of(GRAIN)
                && start > 0
                && bytes > 0;
            aligned
                && (1..=MOST_PARTITIONS).contains(&number)
                && *major < MOST_DEVICES
                && *minor < MOST_DEVICES
        }
        // The division of a disk's time between a case and its background.
        (None, Action::WriteFile { path, value }) if *path == cgroup::io_cost_switch(roots) => {
            let disk = value.strip_suffix(" enable=0");
            let numbers = disk.and_then(|disk| disk.split_once(':'));
            numbers.is_some_and(|(major, minor)| {
                [major, minor]
                    .iter()
                    .all(|number| number.parse::<u32>().is_ok())
            })
        }
        // A setting for an array whose members differ in size, and the controllers of cgroups that
        // limit a background.
        (None, Action::WriteFile { path, .. }) => {
            *path == roots.sys.join(md::LAYOUT) || *path == cgroup::switch(roots)
        }
        // A cgroup that counts the processes of a command or limits a background.
        (None, Action::RemoveCgroup { path }) => {
            cgroup::is_below(path, roots) && cgroup::is_own(path)
        }
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
        | Action::ExportPool { .. }
        | Action::RemoveMapping { .. }
        | Action::RemovePartition { .. }
        | Action::StartUnit { .. } => None,
    }
}

/// Returns whether the path contains no `..`, which would leave the checked directories, and does
/// not end in `.`, which would follow a link.
fn is_plain(path: &Path) -> bool {
    let plain = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    plain
        && path.is_absolute()
        && path.components().collect::<PathBuf>().as_os_str() == path.as_os_str()
}

/// Returns whether the name is `.fsb-` and the digits of [`fsb_sys::random_name`].
fn is_own_name(name: &OsStr) -> bool {
    let digits = name
        .to_str()
        .and_then(|name| name.strip_prefix(DIRECTORY_PREFIX));
    digits.is_some_and(|digits| {
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
impl Ledger {
    /// Uses `roots` as the machine's own, in tests.
    pub(crate) fn of_machine(self, roots: &Roots) -> Ledger {
        Ledger {
            roots: roots.clone(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control;

    const BOOT: &str = "this-boot";

    fn dead_owner() -> Owner {
        Owner {
            start_time: u64::MAX,
            ..Owner::current()
        }
    }

    /// Returns a machine in `directory`.
    fn roots(directory: &Path) -> Roots {
        Roots::below(directory)
    }

    fn ledger(directory: &Path, owner: Owner) -> Ledger {
        let mut ledger = Ledger::open(&directory.join("undo"), owner, control::RULES)
            .unwrap()
            .of_machine(&roots(directory));
        ledger.boot_id = BOOT.to_owned();
        ledger
    }

    /// Creates a setting of that machine, which the control of that name changes.
    fn setting(directory: &Path, control: &str, value: &str) -> PathBuf {
        let name = format!("{}_centisecs", control.replace('-', "_"));
        let file = directory.join("proc/sys/vm").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, value).unwrap();
        file
    }

    const EXPIRE: &str = "dirty-expire";

    fn change(ledger: &Ledger, control: &str, file: &Path, value: &str) -> EntryHandle {
        let before = std::fs::read_to_string(file).unwrap();
        let handle = ledger
            .claim(
                control,
                Action::WriteFile {
                    path: file.to_owned(),
                    value: before,
                },
            )
            .unwrap()
            .unwrap();
        std::fs::write(file, value).unwrap();
        handle
    }

    /// Replays the ledger of the machine in `directory`.
    fn replay(directory: &Path, boot: &str) -> Vec<Replayed> {
        let roots = roots(directory);
        let guard = Guard {
            rules: control::RULES,
            roots: &roots,
        };
        replay_where(&directory.join("undo"), boot, guard, |owner| {
            !owner.is_alive()
        })
    }

    fn left(directory: &Path) -> usize {
        leftovers(&directory.join("undo"), control::RULES).len()
    }

    fn fates(replayed: &[Replayed]) -> Vec<&'static str> {
        let name = |fate: &Fate| match fate {
            Fate::Undone(_) => "undone",
            Fate::Live => "live",
            Fate::OutOfReach(_) => "out of reach",
            Fate::Discarded => "discarded",
            Fate::Failed(_) => "failed",
            Fate::Refused(_) => "refused",
        };
        replayed
            .iter()
            .map(|replayed| name(&replayed.fate))
            .collect()
    }

    #[test]
    fn an_undone_entry_leaves_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let file = setting(tree.path(), EXPIRE, "9");
        let ledger = ledger(tree.path(), Owner::current());
        let handle = change(&ledger, EXPIRE, &file, "11");
        assert_eq!(left(tree.path()), 1);
        ledger.undo(handle).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "9");
        assert_eq!(left(tree.path()), 0);
        assert!(
            std::fs::read_dir(tree.path().join("undo"))
                .unwrap()
                .next()
                .is_none()
        );
    }

    #[test]
    fn only_dead_owners_of_this_boot_are_replayed() {
        let tree = tempfile::tempdir().unwrap();
        let file = setting(tree.path(), EXPIRE, "9");
        let live = ledger(tree.path(), Owner::current());
        let handle = change(&live, EXPIRE, &file, "10");
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["live"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "10");
        live.undo(handle).unwrap();

        let _ = change(&ledger(tree.path(), dead_owner()), EXPIRE, &file, "11");
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "9");
        assert!(replay(tree.path(), BOOT).is_empty());

        let _ = change(&ledger(tree.path(), dead_owner()), EXPIRE, &file, "12");
        assert_eq!(fates(&replay(tree.path(), "next-boot")), ["discarded"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "12");
    }

    #[test]
    fn our_directories_go_in_any_boot_and_nothing_else_does() {
        let tree = tempfile::tempdir().unwrap();
        let dead = ledger(tree.path(), dead_owner());
        let own = tree.path().join(".fsb-0123");
        let innocent = tree.path().join("innocent");
        std::fs::create_dir_all(own.join("deep")).unwrap();
        std::fs::create_dir(&innocent).unwrap();
        std::fs::write(innocent.join("file"), "precious").unwrap();
        std::os::unix::fs::symlink(&innocent, own.join("link")).unwrap();
        let link = tree.path().join(".fsb-4567");
        std::os::unix::fs::symlink(&innocent, &link).unwrap();
        let remove = |path: &Path| {
            dead.record(Action::RemoveDirectory {
                path: path.to_owned(),
                uid: None,
                mount: None,
            })
        };
        let _ = remove(&own).unwrap();
        assert_eq!(fates(&replay(tree.path(), "next-boot")), ["undone"]);
        assert!(!own.exists() && innocent.join("file").exists());
        let _ = remove(&link).unwrap();
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["failed"]);
        assert!(innocent.join("file").exists());
        assert!(
            remove(&innocent).is_err(),
            "it could not be undone, so it must not be begun"
        );
    }

    #[test]
    fn a_directory_whose_mount_is_away_stays_recorded() {
        let tree = tempfile::tempdir().unwrap();
        let dead = ledger(tree.path(), dead_owner());
        let holding = MountOfDirectory::holding(Path::new("/proc/self")).unwrap();
        let away = MountOfDirectory {
            source: "/dev/elsewhere".into(),
            ..holding.clone()
        };
        let path = tree.path().join(".fsb-0123");
        let remove = |mount: &MountOfDirectory| {
            dead.record(Action::RemoveDirectory {
                path: path.clone(),
                uid: None,
                mount: Some(mount.clone()),
            })
            .unwrap()
        };
        let kept = remove(&away);
        let replayed = replay(tree.path(), BOOT);
        assert_eq!(fates(&replayed), ["out of reach"]);
        let text = replayed[0].to_string();
        assert!(
            text.contains("/dev/elsewhere") && text.contains("fsb clean"),
            "{text}"
        );
        assert!(
            dead.undo(kept).is_err(),
            "the owner does not forget it, either"
        );
        std::fs::create_dir(&path).unwrap();
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
        let _ = remove(&holding);
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"], "it is gone");
    }

    #[test]
    fn unreadable_entries_stay_and_are_reported() {
        let tree = tempfile::tempdir().unwrap();
        let undo = tree.path().join("undo");
        let _ = ledger(tree.path(), Owner::current());
        std::fs::write(undo.join("garbage.json"), "{\"boot_id\": 7").unwrap();
        std::fs::write(undo.join("notes.txt"), "not ours").unwrap();
        let replayed = replay(tree.path(), BOOT);
        assert_eq!(fates(&replayed), ["refused"]);
        assert!(replayed[0].to_string().contains("garbage.json"));
        assert!(undo.join("garbage.json").exists());
        assert!(super::replay(&tree.path().join("nowhere"), BOOT, control::RULES).is_empty());
    }

    #[test]
    fn an_entry_that_was_never_completed_goes_with_its_writer() {
        let tree = tempfile::tempdir().unwrap();
        let undo = tree.path().join("undo");
        let (dead, live) = (dead_owner(), Owner::current());
        let _ = ledger(tree.path(), live);
        let names =
            [dead, live].map(|owner| format!("{}-{}-0000.new", owner.pid, owner.start_time));
        names
            .iter()
            .for_each(|name| std::fs::write(undo.join(name), "{\"boot").unwrap());
        assert!(replay(tree.path(), BOOT).is_empty());
        assert_eq!(names.map(|name| undo.join(name).exists()), [false, true]);
    }

    /// Writes an entry of a dead run into the machine's own ledger, as an attacker might.
    fn plant(directory: &Path, name: &str, control: Option<&str>, action: &Action) {
        let entry = Entry {
            boot_id: BOOT.to_owned(),
            owner: dead_owner(),
            control: control.map(str::to_owned),
            action: action.clone(),
        };
        std::fs::write(
            directory.join("undo").join(name),
            serde_json::to_vec(&entry).unwrap(),
        )
        .unwrap();
    }

    #[test]
    fn an_entry_names_only_what_fsb_changes() {
        let tree = tempfile::tempdir().unwrap();
        let _ = ledger(tree.path(), Owner::current());
        let own = setting(tree.path(), EXPIRE, "now");
        let other = setting(tree.path(), "panic-on", "now");
        let outside = tree.path().join("authorized_keys");
        std::fs::write(&outside, "now").unwrap();
        let write = |path: &Path| Action::WriteFile {
            path: path.to_owned(),
            value: "then".to_owned(),
        };
        let remove = |path: PathBuf| Action::RemoveDirectory {
            path,
            uid: None,
            mount: None,
        };
        let cgroup = |path: PathBuf| Action::RemoveCgroup { path };
        let below = |path: &str| tree.path().join(path);
        let cases = [
            (Some(EXPIRE), write(&outside)),
            (Some(EXPIRE), write(&other)),
            (Some("dirty-writeback"), write(&own)),
            (Some("scheduler"), write(&own)),
            (Some("no-such-control"), write(&own)),
            (None, write(&own)),
            (None, write(&below("sys/fs/cgroup/io.cost.qos"))),
            (
                None,
                Action::WriteFile {
                    path: below("sys/fs/cgroup/io.cost.qos"),
                    value: ":1 enable=0".to_owned(),
                },
            ),
            (
                Some(EXPIRE),
                write(&below("proc/sys/vm/../vm/dirty_expire_centisecs")),
            ),
            (
                Some("scheduler"),
                write(&below("sys/devices/x/../../../queue/scheduler")),
            ),
            (Some("scheduler"), write(Path::new("queue/scheduler"))),
            (
                Some("governor"),
                write(&below(
                    "sys/devices/system/cpu/cpufreq/other/scaling_governor",
                )),
            ),
            (None, remove(below("data"))),
            (None, remove(below("data/.fsb-"))),
            (None, remove(below("data/.fsb-01/../home"))),
            (None, remove(below("data/.fsb-01/."))),
            (None, remove(".fsb-01".into())),
            (Some(EXPIRE), remove(below("data/.fsb-01"))),
            (
                None,
                Action::SwapOn {
                    path: below("swap"),
                    priority: 1,
                },
            ),
            (
                Some(EXPIRE),
                Action::SwapOn {
                    path: below("swap"),
                    priority: 1,
                },
            ),
            (
                Some("services"),
                Action::StartUnit {
                    unit: "--now".to_owned(),
                },
            ),
            (
                Some("services"),
                Action::StartUnit {
                    unit: "a.service,b.service".to_owned(),
                },
            ),
            (
                None,
                Action::StartUnit {
                    unit: "cron.service".to_owned(),
                },
            ),
            (
                Some("memory-limit"),
                cgroup(below("sys/fs/cgroup/system.slice")),
            ),
            (Some("memory-limit"), cgroup(below("home/fsb-1"))),
            (None, cgroup(below("sys/fs/cgroup/system.slice"))),
            (None, cgroup(below("home/fsb-1"))),
            (
                Some("swap"),
                Action::RemoveLoop {
                    index: 0,
                    again: false,
                    image: None,
                },
            ),
            (
                None,
                Action::RemoveLoop {
                    index: u32::MAX,
                    again: false,
                    image: None,
                },
            ),
            (
                Some("swap"),
                Action::StopArray {
                    number: 0,
                    members: Vec::new(),
                },
            ),
            (Some("swap"), Action::ExportPool { major: 7, minor: 0 }),
            (
                None,
                Action::ExportPool {
                    major: u32::MAX,
                    minor: 0,
                },
            ),
        ];
        for (control, action) in cases {
            plant(tree.path(), "1-1-0000.json", control, &action);
            let replayed = replay(tree.path(), BOOT);
            assert_eq!(
                fates(&replayed),
                ["refused"],
                "{control:?} {action:?}: {replayed:?}"
            );
            assert!(replayed[0].is_open() && replayed[0].to_string().contains("1-1-0000.json"));
            assert!(
                [&own, &other, &outside]
                    .iter()
                    .all(|file| std::fs::read_to_string(file).unwrap() == "now")
            );
            let owner = ledger(tree.path(), Owner::current());
            let recorded = match control {
                Some(control) => owner.claim(control, action).map(|handle| handle.is_some()),
                None => owner.record(action).map(|_| true),
            };
            assert!(
                recorded.is_err(),
                "what is not undone is not recorded: {recorded:?}"
            );
        }
    }

    #[test]
    fn an_entry_in_a_file_of_somebody_else_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let tree = tempfile::tempdir().unwrap();
        let undo = tree.path().join("undo");
        let file = setting(tree.path(), EXPIRE, "now");
        let _ = ledger(tree.path(), Owner::current());
        let action = Action::WriteFile {
            path: file.clone(),
            value: "then".to_owned(),
        };
        let entry = undo.join("1-1-0000.json");
        let elsewhere = tree.path().join("elsewhere.json");
        let disguise = |disguise: &dyn Fn()| {
            plant(tree.path(), "1-1-0000.json", Some(EXPIRE), &action);
            disguise();
            let replayed = replay(tree.path(), BOOT);
            assert_eq!(fates(&replayed), ["refused"]);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "now");
            // Nor does it keep a control from being set.
            let live = ledger(tree.path(), Owner::current());
            live.undo(change(&live, EXPIRE, &file, "9")).unwrap();
            std::fs::remove_file(&entry).unwrap();
            let _ = std::fs::remove_file(&elsewhere);
            replayed[0].to_string()
        };
        let move_away = || std::fs::rename(&entry, &elsewhere).unwrap();
        disguise(&|| {
            move_away();
            std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
        });
        disguise(&|| std::fs::hard_link(&entry, &elsewhere).unwrap());
        disguise(&|| {
            std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o666)).unwrap()
        });
        disguise(&|| {
            std::fs::File::options()
                .write(true)
                .open(&entry)
                .unwrap()
                .set_len(1 << 20)
                .unwrap()
        });
        // Nothing writes into this FIFO: a blocking open for reading would never return.
        disguise(&|| {
            move_away();
            let made = std::process::Command::new("mkfifo")
                .arg(&entry)
                .status()
                .unwrap();
            assert!(made.success());
        });
        if fsb_testkit::root_for("an entry of the ledger that is another user's") {
            let told =
                disguise(&|| std::os::unix::fs::chown(&entry, Some(65534), Some(65534)).unwrap());
            assert!(told.contains("it belongs to user 65534"), "{told}");
        }
    }

    #[test]
    fn a_directory_of_somebody_else_is_not_removed() {
        if !fsb_testkit::root_for("a_directory_of_somebody_else_is_not_removed") {
            return;
        }
        let tree = tempfile::tempdir().unwrap();
        let own = tree.path().join(".fsb-0123");
        std::fs::create_dir(&own).unwrap();
        let dead = ledger(tree.path(), dead_owner());
        let given = |uid| {
            dead.record(Action::RemoveDirectory {
                path: own.clone(),
                uid,
                mount: None,
            })
            .unwrap()
        };
        std::os::unix::fs::chown(&own, Some(65533), None).unwrap();
        let _ = given(Some(65534));
        let replayed = replay(tree.path(), BOOT);
        assert_eq!(fates(&replayed), ["failed"]);
        assert!(
            replayed[0]
                .to_string()
                .contains("it belongs to user 65533 now"),
            "{}",
            replayed[0]
        );
        std::os::unix::fs::chown(&own, Some(65534), None).unwrap();
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
    }

    #[test]
    fn a_ledger_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let tree = tempfile::tempdir().unwrap();
        let undo = tree.path().join("undo");
        let file = setting(tree.path(), EXPIRE, "now");
        let _ = ledger(tree.path(), Owner::current());
        plant(
            tree.path(),
            "1-1-0000.json",
            Some(EXPIRE),
            &Action::WriteFile {
                path: file.clone(),
                value: "then".to_owned(),
            },
        );
        let refused = || {
            assert!(Ledger::open(&undo, Owner::current(), control::RULES).is_err());
            let replayed = replay(tree.path(), BOOT);
            assert_eq!(fates(&replayed), ["refused"]);
            assert!(replayed[0].to_string().contains(undo.to_str().unwrap()));
            assert!(matches!(
                leftovers(&undo, control::RULES)[..],
                [(_, Err(_))]
            ));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "now");
        };
        std::fs::set_permissions(&undo, std::fs::Permissions::from_mode(0o777)).unwrap();
        refused();
        std::fs::set_permissions(&undo, std::fs::Permissions::from_mode(0o700)).unwrap();
        let real = tree.path().join("real");
        std::fs::rename(&undo, &real).unwrap();
        std::os::unix::fs::symlink(&real, &undo).unwrap();
        refused();
        std::fs::remove_file(&undo).unwrap();
        std::fs::rename(&real, &undo).unwrap();
        if fsb_testkit::root_for("a ledger that is another user's") {
            std::os::unix::fs::chown(&undo, Some(65534), Some(65534)).unwrap();
            refused();
            std::os::unix::fs::chown(&undo, Some(0), Some(0)).unwrap();
        }
        assert_eq!(fates(&replay(tree.path(), BOOT)), ["undone"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Replaying restores every file, independent of the number and order of the changes.
        #[test]
        fn undo_restores(
            before in prop::collection::vec("[a-z0-9]{1,8}", 2),
            changes in prop::collection::vec((0usize..2, "[a-z0-9]{1,8}"), 0..8),
            kill in any::<bool>(),
        ) {
            let tree = tempfile::tempdir().unwrap();
            let controls = [EXPIRE, "dirty-writeback"];
            let files: Vec<_> =
                controls.iter().zip(&before).map(|(control, value)| setting(tree.path(), control, value)).collect();
            let ledger = ledger(tree.path(), if kill { dead_owner() } else { Owner::current() });
            let mut handles = Vec::new();
            for (index, value) in &changes {
                handles.push(change(&ledger, controls[*index], &files[*index], value));
            }
            if kill {
                let undone = replay(tree.path(), BOOT);
                prop_assert_eq!(undone.len(), changes.len());
            } else {
                for handle in handles.into_iter().rev() {
                    ledger.undo(handle).unwrap();
                }
            }
            for (file, value) in files.iter().zip(&before) {
                prop_assert_eq!(&std::fs::read_to_string(file).unwrap(), value);
            }
            prop_assert_eq!(left(tree.path()), 0);
        }
    }

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 424242 9";
        assert_eq!(stat_field(stat, 4), Some(1));
        assert_eq!(stat_field(stat, 22), Some(424_242));
        assert_eq!(state(stat), Some('S'));
        assert_eq!(stat_field("", 22), None);
        let cut = [b"7 (caf\xc3".as_slice(), &stat.as_bytes()[4..]].concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), cut).unwrap();
        assert_eq!(
            stat_field(&fsb_sys::read_text(file.path()).unwrap(), 22),
            Some(424_242)
        );
    }

    #[test]
    fn only_the_very_process_is_alive() {
        let own = Owner::current();
        assert!(own.is_alive());
        assert!(
            !Owner {
                start_time: own.start_time + 1,
                ..own
            }
            .is_alive()
        );
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let owner = Owner {
            pid: child.id(),
            start_time: start_time(child.id()).unwrap(),
        };
        assert!(owner.is_alive());
        child.kill().unwrap();
        // The child is a zombie until the test waits for it.
        assert!(fsb_sys::poll_until(
            std::time::Duration::from_secs(10),
            || !owner.is_alive()
        ));
        child.wait().unwrap();
        assert!(!owner.is_alive());
    }
}
