//! The consumer of resolved calls.

use std::io::Write;

use crate::call::{Call, Initial};
use crate::{TraceError, Writer};

/// Takes names, states and calls.
pub trait Sink {
    /// Returns the number of a name.
    fn name(&mut self, name: &[u8]) -> Result<u32, TraceError>;
    /// Adds the state of a name before the first call.
    fn initial(&mut self, initial: Initial) -> Result<(), TraceError>;
    /// Adds the next call.
    fn call(&mut self, call: &Call) -> Result<(), TraceError>;
}

impl<W: Write> Sink for Writer<W> {
    fn name(&mut self, name: &[u8]) -> Result<u32, TraceError> {
        Writer::name(self, name)
    }

    fn initial(&mut self, initial: Initial) -> Result<(), TraceError> {
        Writer::initial(self, initial)
    }

    fn call(&mut self, call: &Call) -> Result<(), TraceError> {
        Writer::call(self, call)
    }
}
