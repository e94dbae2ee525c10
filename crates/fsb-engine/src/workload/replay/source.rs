//! Where a trace comes from.

use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;

use fsb_trace::{Reader, Skimmed};

use super::example;
use crate::EngineError;

/// The name of a small trace that is made up.
pub(super) const EXAMPLE: &str = "example";

/// A file, or the made-up trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Example,
    File(PathBuf),
}

/// Bytes of a trace.
pub(super) trait Bytes: Read + Seek + Send {}
impl<T: Read + Seek + Send> Bytes for T {}

impl Source {
    pub(super) fn of(text: &str) -> Source {
        match text {
            EXAMPLE => Source::Example,
            // The agent works elsewhere.
            path => Source::File(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Source::Example => EXAMPLE.to_owned(),
            Source::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// What labels call it.
    pub(super) fn shown(&self) -> String {
        match self {
            Source::Example => EXAMPLE.to_owned(),
            Source::File(path) => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    fn open(&self) -> Result<Box<dyn Bytes>, EngineError> {
        match self {
            Source::Example => Ok(Box::new(Cursor::new(example::trace()))),
            Source::File(path) => {
                let file = fsb_input::open(path).map_err(|error| EngineError::io("read the trace", path, &error))?;
                Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
            }
        }
    }

    fn failed(&self, error: impl std::fmt::Display) -> EngineError {
        EngineError::new(format!("read the trace {}: {error}", self.text()))
    }

    /// Everything but the calls.
    pub(super) fn skim(&self) -> Result<Skimmed, EngineError> {
        Skimmed::read(self.open()?).map_err(|error| self.failed(error))
    }

    pub(super) fn reader(&self) -> Result<Reader<Box<dyn Bytes>>, EngineError> {
        let mut bytes = self.open()?;
        bytes.seek(SeekFrom::Start(0)).map_err(|error| self.failed(error))?;
        Reader::new(bytes).map_err(|error| self.failed(error))
    }
}
