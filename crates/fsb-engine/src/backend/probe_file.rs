//! Files for trying out what a file system can do.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{ProbeTarget, Verb};
use crate::EngineError;

/// A file that is there, or one that was made for a trial and is gone when this is dropped.
#[derive(Debug)]
pub(super) struct ProbeFile {
    path: PathBuf,
    ours: bool,
}

impl ProbeFile {
    /// The place's own file, where it has one.
    pub(super) fn of(place: &ProbeTarget<'_>) -> Result<ProbeFile, EngineError> {
        match place.file {
            Some(path) => Ok(ProbeFile { path: path.to_owned(), ours: false }),
            None => ProbeFile::new(place.directory, "trial").map(|(trial, _)| trial),
        }
    }

    /// A new file and its descriptor for reading and writing.
    pub(super) fn new(directory: &Path, name: &str) -> Result<(ProbeFile, File), EngineError> {
        let path = directory.join(name);
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = opened.map_err(|error| EngineError::io("create", &path, &error))?;
        Ok((ProbeFile { path, ours: true }, file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for a direction; always for reading too, as a mapping needs it.
    pub(super) fn open(&self, verb: Verb, flags: OFlags) -> io::Result<File> {
        let writes = verb == Verb::Write;
        OpenOptions::new().read(true).write(writes).custom_flags(flags.bits() as i32).open(&self.path)
    }
}

impl Drop for ProbeFile {
    fn drop(&mut self) {
        if self.ours {
            // Nobody is left to tell; what remains is removed with the set that it lies in.
            let _ = fs::remove_file(&self.path);
        }
    }
}
