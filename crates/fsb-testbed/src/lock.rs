//! One measuring run a machine: two at once would measure each other.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{TestbedError, attempt};

/// The right to measure. Ends with the process that holds it, however that ends.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
    path: PathBuf,
}

impl RunLock {
    /// Takes the lock of this machine, or says who holds it. `command` is what the next one will be told.
    pub fn acquire(command: &str) -> Result<RunLock, TestbedError> {
        let mut refusals = Vec::new();
        for path in candidates() {
            match open(&path) {
                Ok(file) => return lock(file, path, command),
                Err(error) => refusals.push(attempt("open", &path, &error)),
            }
        }
        Err(TestbedError::machine("no lock file can be made").tried(refusals.join("; ")).advice("set XDG_STATE_HOME"))
    }

    /// Where the lock is.
    pub fn path(&self) -> &Path {
        &self.path
    }
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

fn lock(mut file: File, path: PathBuf, command: &str) -> Result<RunLock, TestbedError> {
    let mut answer = Ok(());
    // `current_holder` locks for an instant too, and that is no run.
    crate::sys::poll_until(Duration::from_millis(100), || {
        answer = flock(&file, FlockOperation::NonBlockingLockExclusive);
        answer != Err(Errno::AGAIN)
    });
    match answer {
        Ok(()) => {
            // The name is a courtesy; the lock holds without it.
            let _ = write_holder(&mut file, command);
            Ok(RunLock { _file: file, path })
        }
        Err(Errno::AGAIN) => {
            Err(TestbedError::machine(format!("another fsb is measuring on this machine: {}", holder(&mut file)))
                .tried(format!("lock {}", path.display()))
                .advice("wait for it to end: two runs at once would measure each other"))
        }
        Err(errno) => {
            Err(TestbedError::machine("the lock cannot be taken").tried(attempt("lock", &path, &errno.into())))
        }
    }
}

fn write_holder(file: &mut File, command: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {} ({command})", std::process::id())
}

/// At most a line, for anybody may have written it.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind();
    let _ = file.take(512).read_to_string(&mut text);
    let line: String = text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    if line.is_empty() { "an unknown process".to_owned() } else { line }
}

/// Who measures on this machine now; absent where nobody does.
pub fn current_holder() -> Option<String> {
    candidates().into_iter().find_map(|path| {
        let mut file = File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::AGAIN) => Some(holder(&mut file)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path, command: &str) -> Result<RunLock, TestbedError> {
        lock(open(path).unwrap(), path.to_owned(), command)
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
