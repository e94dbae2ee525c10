//! An importer: how it recognises its input, and the trace that it returns.

use crate::TraceError;
use crate::resolve::Sink;
use std::io::BufRead;

/// Facts for the end of the trace that are known after an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// Threads and processes.
    pub tasks: u64,
    /// Calls outside the root.
    pub outside: u64,
    /// Calls that the tool could not see.
    pub incomplete: Vec<String>,
    /// Further notes.
    pub notes: Vec<String>,
    /// Lines that were not understood, and the first of them.
    pub skipped: u64,
}

/// A tool whose traces can be read.
#[derive(Debug)]
pub struct Importer {
    /// The name of the tool.
    pub name: &'static str,
    /// The options that the tool must have been run with.
    pub about: &'static str,
    /// Whether a file that begins like this is its own.
    pub recognise: fn(&[u8]) -> bool,
    pub read: Read,
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

/// Reads a tool's text: names below this directory, and relative ones begin there.
pub type Read = fn(&mut dyn BufRead, &[u8], &mut dyn Sink) -> Result<Imported, TraceError>;
