//! One measuring run a machine: two at once would measure each other.
//!
//! A run holds `fsb.lock` alone. Whoever insists (`--allow-concurrent`) takes no part in that: it holds
//! `fsb-concurrent.lock` together with others of its kind and leaves its name there, where the run that holds the first
//! lock finds it in the end. So all of them can say that they were not alone.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{TestbedError, attempt};

/// Where those who insist leave their names.
const CONCURRENT: &str = "fsb-concurrent.lock";

/// Others lock for an instant to look, and that is no run.
const GLANCE: Duration = Duration::from_millis(100);

/// The right to measure. Ends with the process that holds it, however that ends.
#[derive(Debug)]
pub struct RunLock {
    /// Held alone; absent for a run that insisted.
    _alone: Option<File>,
    /// Names of runs that insisted; locked by those.
    concurrent: File,
    /// What this run wrote there.
    own: Option<String>,
    /// Who measured already when it was taken.
    before: Vec<String>,
    /// So many names there were left by runs that are over.
    stale: usize,
    path: PathBuf,
}

impl RunLock {
    /// Takes the lock of this machine, or says who holds it. `command` is what the next one will be told.
    pub fn acquire(command: &str) -> Result<RunLock, TestbedError> {
        let (file, path) = open_first()?;
        RunLock::alone(file, path, command)
    }

    fn alone(file: File, path: PathBuf, command: &str) -> Result<RunLock, TestbedError> {
        let alone = lock(file, &path, command)?;
        let mut concurrent = open_beside(&path)?;
        if !glance(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            let names = names(&mut concurrent);
            return Err(busy(names.iter().find(|name| is_alive(name)).or(names.last()), &path));
        }
        // Names of runs that are over, unless another user's file can only be read.
        let _ = concurrent.set_len(0);
        let stale = names(&mut concurrent).len();
        // Unlocking what is ours cannot fail.
        let _ = flock(&concurrent, FlockOperation::Unlock);
        Ok(RunLock { _alone: Some(alone), concurrent, own: None, before: Vec::new(), stale, path })
    }

    /// The right to measure although others do, who are told of it.
    pub fn join(command: &str) -> Result<RunLock, TestbedError> {
        let (file, path) = open_first()?;
        RunLock::beside(file, path, command)
    }

    fn beside(mut first: File, path: PathBuf, command: &str) -> Result<RunLock, TestbedError> {
        let mut concurrent = open_beside(&path)?;
        if glance(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            let _ = concurrent.set_len(0);
        }
        if !glance(&concurrent, FlockOperation::NonBlockingLockShared) {
            return Err(busy(None, &path));
        }
        let alone = match flock(&first, FlockOperation::NonBlockingLockShared) {
            Err(Errno::AGAIN) => Some(holder(&mut first)),
            _ => None,
        };
        let mut before: Vec<String> = names(&mut concurrent).into_iter().filter(|name| is_alive(name)).collect();
        before.extend(alone);
        let own = name(command);
        let written =
            concurrent.seek(SeekFrom::End(0)).and_then(|_| concurrent.write_all(format!("{own}\n").as_bytes()));
        written.map_err(|error| {
            // Unseen it would spoil another run without a word.
            TestbedError::machine("the other runs cannot be told of this one").tried(attempt(
                "write to",
                &path.with_file_name(CONCURRENT),
                &error,
            ))
        })?;
        Ok(RunLock { _alone: None, concurrent, own: Some(own), before, stale: 0, path })
    }

    /// Who else measured on this machine since the lock was taken, as far as they said so.
    pub fn others(&mut self) -> Vec<String> {
        let names = names(&mut self.concurrent);
        let own = self.own.as_ref().and_then(|own| names.iter().position(|name| name == own));
        let first = own.map_or(self.stale, |at| at + 1);
        self.before.iter().cloned().chain(names.into_iter().skip(first)).collect()
    }

    /// Where the lock is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open_first() -> Result<(File, PathBuf), TestbedError> {
    let mut refusals = Vec::new();
    for path in candidates() {
        match open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) => refusals.push(attempt("open", &path, &error)),
        }
    }
    Err(TestbedError::machine("no lock file can be made").tried(refusals.join("; ")).advice("set XDG_STATE_HOME"))
}

fn open_beside(path: &Path) -> Result<File, TestbedError> {
    let path = path.with_file_name(CONCURRENT);
    open(&path).map_err(|error| TestbedError::machine("no lock file can be made").tried(attempt("open", &path, &error)))
}

/// Whether the lock was got, but for those who only look.
fn glance(file: &File, operation: FlockOperation) -> bool {
    crate::sys::poll_until(GLANCE, || flock(file, operation) != Err(Errno::AGAIN))
}

fn busy(holder: Option<&String>, path: &Path) -> TestbedError {
    let holder = holder.map_or("an unknown process", String::as_str);
    TestbedError::machine(format!("another fsb is measuring on this machine: {holder}"))
        .tried(format!("lock {}", path.display()))
        .advice("wait for it to end: two runs at once would measure each other (--allow-concurrent)")
}

/// `process 7 (fsb run ext4)`, on one line.
fn name(command: &str) -> String {
    let command: String = command.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("process {} ({command})", std::process::id())
}

/// At most so many as anybody reads; anybody may have written them.
fn names(file: &mut File) -> Vec<String> {
    let mut text = Vec::new();
    let _ = file.rewind();
    let _ = file.take(64 << 10).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let plain = |line: &str| line.chars().filter(|c| !c.is_control()).take(256).collect::<String>();
    text.lines().map(plain).filter(|line| !line.is_empty()).collect()
}

fn is_alive(name: &str) -> bool {
    let pid = name.strip_prefix("process ").and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    pid.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

/// The machine's own place first, so that root and others exclude each other.
fn candidates() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    std::iter::once(PathBuf::from("/run/lock"))
        .chain(runtime)
        .chain([crate::ledger::state_directory()])
        .map(|directory| directory.join("fsb.lock"))
        .collect()
}

/// Opening before making: in a sticky directory not even root may open another user's file with O_CREAT. Reading is
/// enough to lock.
fn open(path: &Path) -> io::Result<File> {
    let existing = File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    match existing {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).mode(0o666);
            match options.open(path) {
                Ok(file) => {
                    // Whatever the umask: the next holder may be another user and must be able to write its name.
                    file.set_permissions(Permissions::from_mode(0o666))?;
                    Ok(file)
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::open(path),
                Err(error) => Err(error),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path)
        }
        other => other,
    }
}

fn lock(mut file: File, path: &Path, command: &str) -> Result<File, TestbedError> {
    let mut answer = Ok(());
    crate::sys::poll_until(GLANCE, || {
        answer = flock(&file, FlockOperation::NonBlockingLockExclusive);
        answer != Err(Errno::AGAIN)
    });
    match answer {
        Ok(()) => {
            // The name is a courtesy; the lock holds without it.
            let _ = write_holder(&mut file, command);
            Ok(file)
        }
        Err(Errno::AGAIN) => Err(busy(Some(&holder(&mut file)), path)),
        Err(errno) => {
            Err(TestbedError::machine("the lock cannot be taken").tried(attempt("lock", path, &errno.into())))
        }
    }
}

fn write_holder(file: &mut File, command: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", name(command))
}

/// At most a line, for anybody may have written it.
fn holder(file: &mut File) -> String {
    names(file).into_iter().next().unwrap_or_else(|| "an unknown process".to_owned())
}

/// Who measures on this machine now; absent where nobody does.
pub(crate) fn current_holder() -> Option<String> {
    candidates().into_iter().find_map(|path| {
        let look = |path: &Path| File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok();
        let mut file = look(&path)?;
        if flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::AGAIN) {
            return Some(holder(&mut file));
        }
        let mut concurrent = look(&path.with_file_name(CONCURRENT))?;
        match flock(&concurrent, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::AGAIN) => names(&mut concurrent).into_iter().find(|name| is_alive(name)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, command: &str) -> Result<File, TestbedError> {
        lock(open(path).unwrap(), path, command)
    }

    #[test]
    fn the_second_is_told_who_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsb.lock");
        let first = take(&path, "fsb run ext4").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let refusal = take(&path, "fsb run xfs").unwrap_err().to_string();
        assert!(refusal.contains(&format!("process {} (fsb run ext4)", std::process::id())), "{refusal}");
        drop(first);
        let second = take(&path, "short").unwrap();
        assert_eq!(holder(&mut open(&path).unwrap()), format!("process {} (short)", std::process::id()));
        drop(second);
    }

    #[test]
    fn those_who_insist_are_seen_by_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsb.lock");
        let alone = |command: &str| RunLock::alone(open(&path).unwrap(), path.clone(), command);
        let beside = |command: &str| RunLock::beside(open(&path).unwrap(), path.clone(), command).unwrap();
        let named = |others: Vec<String>, commands: &[&str]| {
            assert_eq!(others, commands.iter().map(|command| name(command)).collect::<Vec<_>>());
        };
        let mut first = alone("fsb run ext4").unwrap();
        named(first.others(), &[]);
        assert!(alone("fsb run xfs").unwrap_err().to_string().contains("fsb run ext4"));
        let mut second = beside("fsb run\nxfs");
        let mut third = beside("fsb run btrfs");
        named(first.others(), &["fsb run xfs", "fsb run btrfs"]);
        named(second.others(), &["fsb run ext4", "fsb run btrfs"]);
        named(third.others(), &["fsb run xfs", "fsb run ext4"]);
        drop(first);
        drop(second);
        let refusal = alone("fsb run ntfs").unwrap_err().to_string();
        assert!(refusal.contains("--allow-concurrent"), "{refusal}");
        drop(third);
        named(alone("fsb run ntfs").unwrap().others(), &[]);
        named(beside("fsb run ntfs").others(), &[]);
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        let path = directory.path().join("fsb.lock");
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}
