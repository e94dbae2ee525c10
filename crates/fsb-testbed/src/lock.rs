//! The lock that allows one measuring run per machine, because two at once would affect each other.
//!
//! A run holds `lock` exclusively. A run with `--allow-concurrent` does not need that lock: it
//! shares `concurrent` with others of its kind and writes its name there, where the run that holds
//! the first lock reads it at its end. All of these runs can therefore report that they were not
//! alone.
//!
//! The locks are in directories that no other user can write to, in files that no other user can
//! open: root's in `/run/fsb`, a user's in a directory of that user. A file beside them that all
//! can read names the holders, so that a user's run sees root's. Root's run does not trust files of
//! users. It finds users' runs from the kernel's data on their processes; they cause a warning but
//! do not stop it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::Warning;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{poll_until, sandbox};
use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::ledger::Owner;

/// The lock of a run that measures alone.
const FIRST: &str = "lock";
/// The file in which runs with `--allow-concurrent` write their names.
const CONCURRENT: &str = "concurrent";

/// The time for which a lock is tried again: a dying process may still hold it briefly.
const GLANCE: Duration = Duration::from_millis(100);

/// The right to measure. The kernel releases it when the process ends for any reason.
#[derive(Debug)]
pub struct RunLock {
    own: Holder,
    /// `None` for a user who has no directory for a lock.
    held: Option<HeldLock>,
    /// The runs that measured already when it was taken.
    before: Vec<Holder>,
    warnings: Vec<Warning>,
}

#[derive(Debug)]
struct HeldLock {
    place: LockDirectory,
    /// The exclusive lock. `None` for a run with `--allow-concurrent`.
    _alone: Option<File>,
    /// The names of runs with `--allow-concurrent`, which hold a shared lock on it.
    concurrent: File,
    /// The position in that file behind the name of this run. The names before it are of runs that
    /// began earlier, most of which have ended.
    from: u64,
}

impl RunLock {
    /// Takes the lock of this machine. The error names the holder. `command` is shown to the next
    /// run that tries.
    pub fn acquire(command: &str) -> Result<RunLock, TestbedError> {
        RunLock::take(Holder::current(command), &lock_directories(), true)
    }

    /// Takes the right to measure beside other runs, which learn of this run.
    pub fn join(command: &str) -> Result<RunLock, TestbedError> {
        RunLock::take(Holder::current(command), &lock_directories(), false)
    }

    fn take(own: Holder, places: &[PathBuf], alone: bool) -> Result<RunLock, TestbedError> {
        let mut lock = RunLock {
            own,
            held: None,
            before: Vec::new(),
            warnings: Vec::new(),
        };
        let hold: Hold = if alone {
            HeldLock::alone
        } else {
            HeldLock::beside
        };
        match find_lock_directory(places) {
            Ok(place) => lock.held = Some(hold(place, &mut lock.before, &lock.own)?),
            // No other user can remove root's directory, so a failure is an error for root. Other
            // users get a warning and measure.
            Err(refusals) if rustix::process::geteuid().is_root() => {
                return Err(TestbedError::machine("no lock can be taken")
                    .tried(Refusal::all(&refusals))
                    .advice("root's lock is in /run/fsb, which must be a directory that only root can write to"));
            }
            Err(refusals) => {
                lock.warnings.push(Warning::NoLock {
                    reasons: refusals.into_iter().map(String::from).collect(),
                });
            }
        }
        let mut others = Vec::new();
        poll_until(GLANCE, || {
            others = other_holders(&lock.own);
            others.is_empty() || !alone
        });
        if let Some(rival) = others.first().filter(|_| alone) {
            return Err(busy(Some(rival)));
        }
        add(&mut lock.before, others);
        add(&mut lock.before, holders_of_other_users(&lock.own));
        if let Some(held) = &lock.held {
            held.place.sweep();
            // The name only informs others; the lock holds without it.
            let _ = held.place.show(&lock.own);
        }
        Ok(lock)
    }

    /// Returns the other runs that measured on this machine since the lock was taken, as far as
    /// they are visible.
    pub fn others(&mut self) -> Vec<String> {
        self.all().iter().map(Holder::to_string).collect()
    }

    /// Returns the other runs that measured already when the lock was taken, as far as they were
    /// visible.
    pub fn before(&self) -> Vec<String> {
        self.before.iter().map(Holder::to_string).collect()
    }

    fn all(&mut self) -> Vec<Holder> {
        let mut all = self.before.clone();
        if let Some(held) = &mut self.held {
            add(&mut all, read_holders(&mut held.concurrent, held.from));
        }
        add(&mut all, other_holders(&self.own));
        add(&mut all, holders_of_other_users(&self.own));
        all
    }

    /// Returns conditions of the lock itself that the reader of the results must know.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        if let Some(held) = &self.held {
            held.place.hide(self.own.owner);
        }
    }
}

type Hold = fn(LockDirectory, &mut Vec<Holder>, &Holder) -> Result<HeldLock, TestbedError>;

fn add(all: &mut Vec<Holder>, more: Vec<Holder>) {
    for one in more {
        if all.iter().all(|known| known.owner.pid != one.owner.pid) {
            all.push(one);
        }
    }
}

impl HeldLock {
    fn alone(
        place: LockDirectory,
        _: &mut Vec<Holder>,
        _: &Holder,
    ) -> Result<HeldLock, TestbedError> {
        let first = open(&place, FIRST)?;
        let mut concurrent = open(&place, CONCURRENT)?;
        if !glance(&first, FlockOperation::NonBlockingLockExclusive) {
            return Err(busy(place.living().first()));
        }
        if !glance(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            let names = read_holders(&mut concurrent, 0);
            return Err(busy(
                names.iter().find(|name| name.is_alive()).or(names.last()),
            ));
        }
        // Removes the names of runs that have ended. If that fails, they are reported as concurrent
        // runs. Unlocking cannot fail.
        let _ = concurrent.set_len(0);
        let _ = flock(&concurrent, FlockOperation::Unlock);
        Ok(HeldLock {
            place,
            _alone: Some(first),
            concurrent,
            from: 0,
        })
    }

    fn beside(
        place: LockDirectory,
        before: &mut Vec<Holder>,
        own: &Holder,
    ) -> Result<HeldLock, TestbedError> {
        let first = open(&place, FIRST)?;
        let mut concurrent = open(&place, CONCURRENT)?;
        if glance(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            let _ = concurrent.set_len(0);
        }
        if !glance(&concurrent, FlockOperation::NonBlockingLockShared) {
            return Err(busy(None));
        }
        add(
            before,
            read_holders(&mut concurrent, 0)
                .into_iter()
                .filter(Holder::is_alive)
                .collect(),
        );
        if flock(&first, FlockOperation::NonBlockingLockShared) == Err(Errno::AGAIN) {
            add(before, place.living());
        }
        let line = own.line();
        let written = concurrent.seek(SeekFrom::End(0)).and_then(|start| {
            concurrent
                .write_all(line.as_bytes())
                .map(|()| start + line.len() as u64)
        });
        let from =
            written.map_err(|error| {
                // Without its name, this run would affect another run unnoticed.
                TestbedError::machine("fsb cannot notify the other runs of this one")
                    .tried(attempt("write to", &place.path().join(CONCURRENT), &error))
            })?;
        Ok(HeldLock {
            place,
            _alone: None,
            concurrent,
            from,
        })
    }
}

fn open(place: &LockDirectory, name: &str) -> Result<File, TestbedError> {
    place.lock_file(name).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => {
                "make it writable, such as with 'mount -t tmpfs tmpfs /run'"
            }
            _ => "check that file and remove it: the lock is a regular file of the user that runs fsb",
        };
        TestbedError::machine("the lock cannot be taken")
            .tried(attempt("open", &place.path().join(name), &error))
            .advice(advice)
    })
}

/// Tries to take the lock for a short time. Returns whether it was taken.
fn glance(file: &File, operation: FlockOperation) -> bool {
    poll_until(GLANCE, || flock(file, operation) != Err(Errno::AGAIN))
}

fn busy(holder: Option<&Holder>) -> TestbedError {
    let name = holder.map_or_else(|| "an unknown process".to_owned(), Holder::with_command);
    let error = TestbedError::machine(format!("another fsb is measuring on this machine: {name}"))
        .coded(&fsb_model::error::BUSY);
    let error = holder
        .iter()
        .fold(error, |error, holder| error.field("pid", holder.owner.pid));
    error.advice(
        "wait for it to end (fsb run and fsb choose do so with --wait), or add --allow-concurrent: runs at the same time affect \
         each other",
    )
}

/// Removes the file that shows a run of this user to others.
pub(crate) fn hide(owner: Owner) {
    let user = rustix::process::geteuid().as_raw();
    for path in lock_directories() {
        if let Ok(place) = LockDirectory::open(&path, user) {
            place.hide(owner);
        }
    }
}

/// Returns a run that measures on this machine now. Returns `None` if there is none.
pub(crate) fn current_holder() -> Option<String> {
    let own = Holder::current("");
    let mut all = other_holders(&own);
    add(&mut all, holders_of_other_users(&own));
    all.first().map(Holder::with_command)
}

/// The most bytes of a file that are read.
const LARGEST: u64 = 64 << 10;

/// The length of a command line in messages, in characters.
const TOLD: usize = 256;

/// A run that measures: as it identifies itself, or as the kernel shows its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    #[serde(flatten)]
    pub owner: Owner,
    command: String,
    /// The user of the run, if only the kernel showed the run.
    #[serde(skip)]
    user: Option<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.user {
            None => write!(f, "process {}", self.owner.pid),
            Some(user) => write!(f, "process {} of user {user}", self.owner.pid),
        }
    }
}

impl Holder {
    /// Returns this process, which runs `command`.
    pub fn current(command: &str) -> Holder {
        Holder {
            owner: Owner::current(),
            command: plain(command),
            user: None,
        }
    }

    /// Returns its process and its command, for an error that stops a run.
    fn with_command(&self) -> String {
        format!("{self} ({})", self.command)
    }

    /// Formats it as one line of JSON.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Parses a line. Returns `None` if it is invalid.
    pub fn of_line(line: &str) -> Option<Holder> {
        let holder: Holder = serde_json::from_str(line).ok()?;
        Some(Holder {
            command: plain(&holder.command),
            ..holder
        })
    }

    pub fn is_alive(&self) -> bool {
        self.owner.is_alive()
    }
}

/// Removes control characters and shortens the text, for output on a terminal.
fn plain(command: &str) -> String {
    command
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(TOLD)
        .collect()
}

/// Reads the runs that a file lists from a position on.
fn read_holders(file: &mut File, from: u64) -> Vec<Holder> {
    let mut text = Vec::new();
    if file.seek(SeekFrom::Start(from)).is_ok() {
        let _ = file.take(LARGEST).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(Holder::of_line)
        .collect()
}

/// Returns the runs of other users, by their supervisors. Any process can have that name, so this
/// justifies a warning only. A run without a supervisor (`fsb postmark`, `fsb filebench`) is not
/// found.
fn holders_of_other_users(own: &Holder) -> Vec<Holder> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .first()
            .is_some_and(u8::is_ascii_digit)
    });
    let me = rustix::process::geteuid().as_raw();
    // Reading a status takes ten times as long as a name, and there may be thousands of processes.
    let supervisors = pids
        .map(|entry| entry.path())
        .filter(|process| is_supervisor(process));
    let found = supervisors
        .filter_map(|process| of_supervisor(&fsb_sys::read_text(process.join("status")).ok()?));
    found
        .filter(|holder| holder.user != Some(me) && holder.owner.pid != own.owner.pid)
        .collect()
}

/// Returns whether a process has the supervisor's name, by its directory in /proc.
fn is_supervisor(process: &Path) -> bool {
    let mut name = [0; 32];
    let length = File::open(process.join("comm"))
        .and_then(|mut file| file.read(&mut name))
        .unwrap_or(0);
    name[..length].trim_ascii_end() == sandbox::SUPERVISOR.to_bytes()
}

/// Returns the run of a supervisor, from the supervisor's `/proc/PID/status`.
fn of_supervisor(status: &str) -> Option<Holder> {
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"))
    };
    if field("Name")?.as_bytes() != sandbox::SUPERVISOR.to_bytes()
        || field("State").is_some_and(|state| state.starts_with('Z'))
    {
        return None;
    }
    let user = field("Uid")?.split('\t').next()?.parse().ok()?;
    let owner = Owner {
        pid: field("PPid")?.parse().ok()?,
        start_time: 0,
    };
    Some(Holder {
        owner,
        command: "fsb".to_owned(),
        user: Some(user),
    })
}

/// The directories of the machine: only root creates them, and all users can read them.
const MACHINE: [&str; 2] = ["/run/fsb", "/var/lib/fsb"];

/// The prefix and the suffix of the names of readable files.
const HOLDER: (&str, &str) = ("holder-", ".json");

/// A directory of locks, which only `uid` can write to. It and its files are opened such that files
/// of other users are never trusted.
#[derive(Debug)]
struct LockDirectory {
    directory: OwnedFd,
    path: PathBuf,
    uid: u32,
}

/// Returns the possible directories for this user's locks, the best first. No other user can write
/// to them.
fn lock_directories() -> Vec<PathBuf> {
    let root = rustix::process::geteuid().is_root();
    let machine = MACHINE.map(PathBuf::from).into_iter().filter(|_| root);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    machine
        .chain(
            runtime
                .into_iter()
                .chain(crate::ledger::state_directory())
                .map(|path| path.join("fsb")),
        )
        .collect()
}

/// Returns the first of the directories that belongs to this user, and creates it if it is missing.
/// Fails with the reasons against each.
fn find_lock_directory(candidates: &[PathBuf]) -> Result<LockDirectory, Vec<Refusal>> {
    let mut refusals = Vec::new();
    for path in candidates {
        match LockDirectory::make(path) {
            Ok(place) => return Ok(place),
            Err(error) => refusals.push(attempt("open", path, &error)),
        }
    }
    if refusals.is_empty() {
        refusals.push(
            "neither XDG_RUNTIME_DIR nor XDG_STATE_HOME nor HOME names an absolute path".into(),
        );
    }
    Err(refusals)
}

/// Returns the trusted runs except `own`: root's in files that only root can have written, and this
/// user's in any of its directories.
fn other_holders(own: &Holder) -> Vec<Holder> {
    let user = rustix::process::geteuid().as_raw();
    let machine = MACHINE.iter().map(|path| (path.into(), 0));
    let places = machine.chain(lock_directories().into_iter().map(|path| (path, user)));
    let living =
        places.filter_map(|(path, user)| Some(LockDirectory::open(&path, user).ok()?.living()));
    living
        .flatten()
        .filter(|holder| holder.owner != own.owner)
        .collect()
}

impl LockDirectory {
    fn make(path: &Path) -> io::Result<LockDirectory> {
        let uid = rustix::process::geteuid().as_raw();
        if MACHINE.iter().any(|machine| path == Path::new(machine)) {
            match std::fs::DirBuilder::new().mode(0o755).create(path) {
                // The umask may have removed the permission for others to read it.
                Ok(()) => rustix::fs::chmod(path, Mode::from_raw_mode(0o755))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        } else {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)?;
        }
        LockDirectory::open(path, uid)
    }

    /// Opens the directory. Fails if users other than `uid` can write to it.
    pub fn open(path: &Path, uid: u32) -> io::Result<LockDirectory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        trust(&rustix::fs::fstat(&directory)?, FileType::Directory, uid)?;
        Ok(LockDirectory {
            directory,
            path: path.to_owned(),
            uid,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file to lock, and creates it if it is missing. It is closed to other users, because
    /// a user who can open it can lock it.
    pub fn lock_file(&self, name: &str) -> io::Result<File> {
        // Without these flags, opening a FIFO would block.
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let own = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.directory, name, flags, own)?;
        let stat = rustix::fs::fstat(&file)?;
        trust(&stat, FileType::RegularFile, self.uid)?;
        if Mode::from_raw_mode(stat.st_mode) != own {
            rustix::fs::fchmod(&file, own)?;
        }
        Ok(File::from(file))
    }

    /// Writes a file that shows the holder to all users.
    pub fn show(&self, holder: &Holder) -> io::Result<()> {
        let name = file_name(holder.owner);
        let temporary = format!("{name}.new");
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let mut file = File::from(rustix::fs::openat(
            &self.directory,
            &temporary,
            flags,
            mode,
        )?);
        rustix::fs::fchmod(&file, mode)?;
        file.write_all(holder.line().as_bytes())?;
        Ok(rustix::fs::renameat(
            &self.directory,
            &temporary,
            &self.directory,
            &name,
        )?)
    }

    /// Removes that file.
    pub fn hide(&self, owner: Owner) {
        self.remove(&file_name(owner));
    }

    fn remove(&self, name: &str) {
        // A remaining file names a process that has ended, so [`LockDirectory::living`] ignores it.
        let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
    }

    /// Returns the runs that measure now.
    pub fn living(&self) -> Vec<Holder> {
        self.holders()
            .into_iter()
            .map(|(_, holder)| holder)
            .filter(Holder::is_alive)
            .collect()
    }

    /// Removes the files of dead runs.
    pub fn sweep(&self) {
        for (name, _) in self
            .holders()
            .into_iter()
            .filter(|(_, holder)| !holder.is_alive())
        {
            self.remove(&name);
        }
    }

    fn holders(&self) -> Vec<(String, Holder)> {
        let Ok(entries) = Dir::read_from(&self.directory) else {
            return Vec::new();
        };
        let names =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
        let names = names.filter(|name| name.starts_with(HOLDER.0) && name.ends_with(HOLDER.1));
        names
            .filter_map(|name| Some((self.read(&name).ok()??, name)))
            .map(|(holder, name)| (name, holder))
            .collect()
    }

    fn read(&self, name: &str) -> io::Result<Option<Holder>> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        trust(&rustix::fs::fstat(&file)?, FileType::RegularFile, self.uid)?;
        let mut text = String::new();
        File::from(file).take(LARGEST).read_to_string(&mut text)?;
        Ok(Holder::of_line(&text))
    }
}

fn file_name(owner: Owner) -> String {
    format!("{}{}-{}{}", HOLDER.0, owner.pid, owner.start_time, HOLDER.1)
}

/// Refuses a file of another kind, or one that a user other than `uid` could have written.
fn trust(stat: &Stat, kind: FileType, uid: u32) -> io::Result<()> {
    let wrong = if FileType::from_raw_mode(stat.st_mode) != kind {
        Some("it is not a regular file".to_owned())
    } else if kind == FileType::RegularFile && stat.st_nlink != 1 {
        Some("it has another hard link".to_owned())
    } else {
        crate::ledger::distrust(stat, uid)
    };
    wrong.map_or(Ok(()), |why| Err(io::Error::other(why)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    /// Returns a holder as if the command ran in another process than this one: the parent lives as
    /// long as this test.
    fn another(command: &str) -> Holder {
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get() as u32;
        let stat = std::fs::read_to_string(format!("/proc/{parent}/stat")).unwrap();
        let owner = crate::ledger::Owner {
            pid: parent,
            start_time: fsb_sys::process::stat_field(&stat, 22).unwrap(),
        };
        let mut holder = Holder::current(command);
        holder.owner = owner;
        holder
    }

    fn take(directory: &Path, own: Holder, hold: Hold) -> Result<HeldLock, TestbedError> {
        let place = find_lock_directory(&[directory.to_owned()]).unwrap();
        let held = hold(place, &mut Vec::new(), &own)?;
        held.place.sweep();
        held.place.show(&own).unwrap();
        Ok(held)
    }

    fn refusal(directory: &Path) -> String {
        take(directory, Holder::current("fsb run xfs"), HeldLock::alone)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_second_is_told_who_holds_it() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("fsb");
        let own = another("fsb run\next4");
        let first = take(&directory, own.clone(), HeldLock::alone).unwrap();
        // Only the owner can open, and therefore lock, the file. All users can read the name of the
        // holder.
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(directory.join(FIRST)), 0o600);
        let shown = std::fs::read_dir(&directory)
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let shown: Vec<_> = shown
            .filter(|path| path.to_string_lossy().contains("holder-"))
            .collect();
        assert_eq!(
            shown
                .iter()
                .map(|path| mode(path.clone()))
                .collect::<Vec<_>>(),
            [0o644]
        );
        let said = refusal(&directory);
        assert!(
            said.contains(&format!("process {} (fsb run ext4)", own.owner.pid)),
            "{said}"
        );
        assert!(said.contains("--allow-concurrent"), "{said}");
        drop(first);
        take(&directory, another("short"), HeldLock::alone).unwrap();
    }

    #[test]
    fn names_of_ended_runs_are_not_read_as_later_ones() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("fsb");
        let first = take(&directory, another("fsb run ext4"), HeldLock::beside).unwrap();
        // More than one reading holds, as on a machine on which concurrent runs never end all at
        // once.
        let dead = Holder {
            owner: Owner {
                pid: 1,
                start_time: u64::MAX,
            },
            ..Holder::current(&"x".repeat(TOLD))
        };
        let lines = LARGEST as usize / dead.line().len() + 10;
        let path = first.place.path().join(CONCURRENT);
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(dead.line().repeat(lines).as_bytes())
            .unwrap();
        let mut second =
            take(&directory, Holder::current("fsb run xfs"), HeldLock::beside).unwrap();
        assert_eq!(read_holders(&mut second.concurrent, second.from), []);
        let later = another("fsb run btrfs");
        let _third = take(&directory, later.clone(), HeldLock::beside).unwrap();
        assert_eq!(read_holders(&mut second.concurrent, second.from), [later]);
    }

    #[test]
    fn warnings_name_runs_without_their_commands() {
        let own = another("fsb run ext4");
        assert_eq!(own.to_string(), format!("process {}", own.owner.pid));
        assert_eq!(
            own.with_command(),
            format!("process {} (fsb run ext4)", own.owner.pid)
        );
    }

    #[test]
    fn a_dead_holder_is_not_named_and_goes() {
        let tree = tempfile::tempdir().unwrap();
        let place = find_lock_directory(&[tree.path().join("fsb")]).unwrap();
        let own = another("fsb run ext4");
        let mut dead = own.clone();
        dead.owner.start_time = u64::MAX;
        place.show(&dead).unwrap();
        place.show(&own).unwrap();
        assert_eq!(place.living(), std::slice::from_ref(&own));
        place.sweep();
        place.hide(own.owner);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn those_who_insist_are_seen_by_all() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("fsb");
        let beside = |before: &mut Vec<Holder>, own: &Holder| {
            HeldLock::beside(
                find_lock_directory(std::slice::from_ref(&directory)).unwrap(),
                before,
                own,
            )
            .unwrap()
        };
        let mut first = take(&directory, another("fsb run ext4"), HeldLock::alone).unwrap();
        let mut before = Vec::new();
        let second = Holder::current("fsb run xfs");
        let held = beside(&mut before, &second);
        assert_eq!(before, [another("fsb run ext4")]);
        assert_eq!(
            read_holders(&mut first.concurrent, 0),
            std::slice::from_ref(&second)
        );
        drop(first);
        let said = refusal(&directory);
        assert!(
            said.contains("(fsb run xfs)") && said.contains("--allow-concurrent"),
            "{said}"
        );
        let mut third = Vec::new();
        beside(&mut third, &another("fsb run btrfs"));
        assert_eq!(third, [second]);
        drop(held);
        let mut last = take(&directory, Holder::current("fsb run ntfs"), HeldLock::alone).unwrap();
        assert!(
            read_holders(&mut last.concurrent, 0).is_empty(),
            "names of runs that are over"
        );
    }

    /// Returns the refusal in `directory` if something else has the lock's name.
    fn disguised(directory: &Path, disguise: impl FnOnce(&Path)) -> String {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        let path = directory.join(FIRST);
        disguise(&path);
        let said = refusal(directory);
        assert!(said.contains(path.to_str().unwrap()), "{said}");
        std::fs::remove_file(path).unwrap();
        said
    }

    #[test]
    fn foreign_lock_files_are_named_and_not_waited_for() {
        let tree = tempfile::tempdir().unwrap();
        let (directory, victim) = (tree.path().join("fsb"), tree.path().join("victim"));
        std::fs::write(&victim, "precious").unwrap();
        disguised(&directory, |path| symlink(&victim, path).unwrap());
        disguised(&directory, |path| {
            std::fs::hard_link(&victim, path).unwrap()
        });
        let said = disguised(&directory, |path| {
            assert!(
                std::process::Command::new("mkfifo")
                    .arg(path)
                    .status()
                    .unwrap()
                    .success()
            );
        });
        assert!(said.contains("not a regular file"), "{said}");
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        if !fsb_testkit::root_for("a lock of another user") {
            return;
        }
        let said = disguised(&directory, |path| {
            std::fs::write(path, "").unwrap();
            chown(path, Some(65534), Some(65534)).unwrap();
        });
        assert!(said.contains("it belongs to user 65534"), "{said}");
    }

    #[test]
    fn a_place_that_others_can_write_to_holds_no_lock() {
        let tree = tempfile::tempdir().unwrap();
        let open = tree.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o1777)).unwrap();
        let own = tree.path().join("own");
        assert_eq!(
            find_lock_directory(&[open.clone(), own.clone()])
                .unwrap()
                .path(),
            own
        );
        let refusals = find_lock_directory(std::slice::from_ref(&open)).unwrap_err();
        assert!(
            refusals[0].to_string().contains(open.to_str().unwrap()),
            "{refusals:?}"
        );
        assert!(
            find_lock_directory(&[]).unwrap_err()[0]
                .to_string()
                .contains("XDG_RUNTIME_DIR")
        );
    }
}
