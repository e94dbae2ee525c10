//! A process that removes the files of a job that was killed.
//!
//! It has a process group of its own, so that the signals that end the ranks do not reach it. Its
//! standard input ends with the rank that started it. It removes then what that rank named there,
//! unless the rank has removed it already.

use std::ffi::OsStr;
use std::io::{self, BufRead, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The argument that starts this role.
pub const CLEANER_ARGUMENT: &str = "__cleaner";

/// The longest time for which ranks that are being killed may still add files.
const PATIENCE: Duration = Duration::from_secs(60);

/// The cleaner of this process.
#[derive(Debug)]
pub struct Cleaner(Child);

impl Cleaner {
    /// Starts the cleaner. It must not inherit what MPI opens, so it is started before MPI.
    ///
    /// # Errors
    /// Fails if the process cannot be started.
    pub fn start() -> io::Result<Cleaner> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(CLEANER_ARGUMENT).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().map(Cleaner)
    }

    /// Names a directory that will be removed.
    ///
    /// # Errors
    /// Fails if the cleaner has ended.
    pub fn add(&mut self, directory: &Path) -> io::Result<()> {
        let input = self.0.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(directory.as_os_str().as_bytes())?;
        input.write_all(b"\0")
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Removes the directories that `input` names, each of which ends with a zero, after its end.
///
/// # Errors
/// Fails if a directory cannot be removed.
pub fn main(input: &mut dyn BufRead) -> io::Result<()> {
    let mut directories = Vec::new();
    loop {
        let mut path = Vec::new();
        input.read_until(0, &mut path)?;
        // A name without its zero may be cut.
        match path.strip_suffix(b"\0") {
            Some(path) if !path.is_empty() => {
                directories.push(Path::new(OsStr::from_bytes(path)).to_owned())
            }
            _ => break,
        }
    }
    directories
        .iter()
        .try_for_each(|directory| remove(directory))
}

/// Removes a directory in which ranks may still create files. Nothing can be created in it after
/// that.
fn remove(directory: &Path) -> io::Result<()> {
    let since = Instant::now();
    loop {
        match fsb_store::remove_tree(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !directory.exists() => {
                return Ok(());
            }
            Err(error) if since.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_names_are_removed_and_others_stay() {
        let place = tempfile::tempdir().unwrap();
        let [one, cut, absent] = ["one", "cut", "absent"].map(|name| place.path().join(name));
        std::fs::create_dir_all(one.join("below")).unwrap();
        std::fs::write(one.join("below/file"), "").unwrap();
        std::fs::create_dir(&cut).unwrap();
        let input = format!("{}\0{}\0{}", absent.display(), one.display(), cut.display());
        main(&mut input.as_bytes()).unwrap();
        assert!(!one.exists() && cut.exists());
    }
}
