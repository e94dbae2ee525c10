//! Where resolved calls go.

use std::io::Write;

use crate::call::Call;
use crate::initial::Initial;
use crate::{TraceError, Writer};

/// Takes names, states and calls.
pub trait Sink {
    /// The number of a name.
    fn name(&mut self, name: &[u8]) -> Result<u32, TraceError>;
    /// What a name was before.
    fn initial(&mut self, initial: Initial) -> Result<(), TraceError>;
    /// The next call.
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
