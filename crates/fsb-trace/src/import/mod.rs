//! Traces of other tools: a registry. A new one is a file beside this one and a line in [`REGISTRY`].
//!
//! Nobody looked at the files while those were written: what must have been there is guessed from what was done to it.

mod blkparse;
mod fio;
mod lines;
mod strace;
#[cfg(test)]
mod tests;

use std::io::BufRead;

use crate::TraceError;
use crate::resolve::Sink;

/// What is known after an import, for the end of the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Threads and processes.
    pub tasks: u64,
    /// Calls outside the root.
    pub outside: u64,
    /// What the tool could not see.
    pub incomplete: Vec<String>,
    /// What else must be said.
    pub notes: Vec<String>,
    /// Lines that were not understood, and the first of them.
    pub skipped: u64,
}

/// Reads a tool's text: names below this directory, and relative ones begin there.
pub type Read = fn(&mut dyn BufRead, &[u8], &mut dyn Sink) -> Result<Imported, TraceError>;

/// A tool whose traces can be read.
#[derive(Debug)]
pub struct Importer {
    /// As it is called.
    pub name: &'static str,
    /// What it must have been asked for.
    pub about: &'static str,
    /// Whether a file that begins like this is its own.
    pub recognise: fn(&[u8]) -> bool,
    /// Reads it.
    pub read: Read,
}

/// All of them. The first that recognises a file reads it.
pub static REGISTRY: &[Importer] = &[strace::IMPORTER, fio::IMPORTER, blkparse::IMPORTER];

/// Bytes that decide which tool wrote a file.
pub const HEAD: usize = 4096;

/// The importer of a file that begins like this.
///
/// # Errors
/// It is nobody's.
pub fn find(head: &[u8]) -> Result<&'static Importer, TraceError> {
    REGISTRY.iter().find(|importer| (importer.recognise)(head)).ok_or_else(|| {
        let known: Vec<String> =
            REGISTRY.iter().map(|importer| format!("{} ({})", importer.name, importer.about)).collect();
        TraceError::Unfit(format!("it is no trace of these: {}", known.join(", ")))
    })
}

/// A sink of any kind, where one of a certain kind is asked for.
pub(crate) struct Any<'s>(pub(crate) &'s mut dyn Sink);

impl Sink for Any<'_> {
    fn name(&mut self, name: &[u8]) -> Result<u32, TraceError> {
        self.0.name(name)
    }

    fn initial(&mut self, initial: crate::Initial) -> Result<(), TraceError> {
        self.0.initial(initial)
    }

    fn call(&mut self, call: &crate::Call) -> Result<(), TraceError> {
        self.0.call(call)
    }
}
