//! The directory that `fsb filebench` and `fsb fio` make for the files of a run, below a directory
//! that the user named.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use fsb_testbed::access::{self, Obstacle};
use fsb_testbed::control;
use fsb_testbed::ledger::{self, EntryHandle, Ledger, Owner};
use rustix::fs::Access;

use fsb_model::{code, failure};
use fsb_store::owner::{self, Rights};

use crate::message::say_warning;

/// Checks that `tool` can make files in a directory.
pub fn check(directory: &Path, tool: &str) -> anyhow::Result<()> {
    let shown = directory.display();
    let metadata = std::fs::metadata(directory).map_err(|error| {
        failure::failed_call(
            &code::DIRECTORY,
            &error,
            format!(
                "the directory {shown} cannot be used: {}",
                reason(directory, &error)
            ),
        )
    })?;
    if metadata.file_type().is_block_device() {
        let advice = format!(
            "mount it first, or measure file systems on it: fsb run ext4@{shown} --suite fileserver"
        );
        let message =
            format!("{shown} is a block device, but {tool} makes files in a directory: {advice}");
        let fields = [
            ("path", shown.to_string().into()),
            ("kind", "block_device".into()),
        ];
        return Err(failure::about(&code::DIRECTORY, fields, message));
    }
    if !metadata.is_dir() {
        return Err(failure::error(
            &code::DIRECTORY,
            format!("{shown} is not a directory: name one with --dir DIR"),
        ));
    }
    rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| {
        failure::failed_call(
            &code::DIRECTORY_NOT_WRITABLE,
            &errno.into(),
            format!(
                "the directory {shown} cannot be written to: {}",
                reason(directory, &errno.into())
            ),
        )
    })
}

/// Returns why a call on a directory failed, and what to do.
pub fn reason(directory: &Path, error: &std::io::Error) -> String {
    match access::obstacle(directory, error) {
        Some(Obstacle { why, advice }) => format!("{why}: {advice}"),
        None => format!("{error}; name another one with --dir DIR"),
    }
}

/// The directory that a run has for itself, which goes with this value; of a killed run the undo
/// ledger knows it.
pub struct OwnDirectory {
    pub path: PathBuf,
    pub rights: Rights,
    ledger: Ledger,
    handle: Option<EntryHandle>,
}

impl OwnDirectory {
    /// Makes a directory with a new name.
    pub fn make(directory: &Path) -> anyhow::Result<OwnDirectory> {
        let within = owner::absolute(directory)?;
        let rights = Rights::below(&within)?;
        let ledger = Ledger::open(
            &ledger::default_directory()?,
            Owner::current(),
            control::RULES,
        )?;
        let (path, handle) = ledger.record_directory(&within, rights.uid())?;
        let own = OwnDirectory {
            path,
            rights,
            ledger,
            handle: Some(handle),
        };
        let made = rights.act(|| std::fs::create_dir(&own.path)).flatten();
        made.map_err(|error| {
            failure::failed_call(
                &code::OUTPUT_FAILED,
                &error,
                format!("cannot make the directory {}: {error}", own.path.display()),
            )
        })?;
        Ok(own)
    }

    /// Removes the directory with its files.
    pub fn remove(mut self) -> anyhow::Result<()> {
        self.handle
            .take()
            .map_or(Ok(()), |handle| self.ledger.undo(handle).map(drop))?;
        Ok(())
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.handle.take().map(|handle| self.ledger.undo(handle)) {
            say_warning(error);
        }
    }
}
