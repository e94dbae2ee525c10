//! The interface of a backend, and its capabilities.

use std::path::Path;

use fsb_model::observed::Direct;

use super::arguments::Setup;
use super::namespace::{KernelNamespace, Namespace};
use super::session::{Session, Verb};
use crate::EngineError;

/// The capabilities of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// It touches files. One that does not is for testing, and nothing is prepared or removed for it.
    pub real: bool,
    /// The most requests under way at once; 1 is synchronous.
    pub depth: u32,
    /// It goes past the page cache: data is never warm, and timed calls wait for the device.
    pub direct: bool,
    /// Written data is on the device when the call returns.
    pub synced: bool,
    /// It can write at the end of a file, wherever that is.
    pub appends: bool,
    /// Bytes that records must be multiples of.
    pub granule: u64,
    /// An open file is quicker the second time, for it remembers what was used: a mapping keeps its pages.
    pub remembers: bool,
    /// Other threads of this process make the calls for it: a descriptor must mean the same file in all of them.
    pub helped: bool,
    /// All calls of a session are its own, those at a file's own position too, and others see at once what they did: it
    /// serves workloads that make any call.
    pub sequential: bool,
}

impl Capabilities {
    /// The capabilities of plain calls through the page cache, from which others are derived.
    pub const PLAIN: Capabilities = Capabilities {
        real: true,
        depth: 1,
        direct: false,
        synced: false,
        appends: true,
        granule: 1,
        remembers: false,
        helped: false,
        sequential: true,
    };
}

/// The place and the requests that direct I/O is tried for.
#[derive(Debug, Clone, Copy)]
pub struct ProbeTarget<'p> {
    /// The directory that all files lie below. A file may be made in it for a trial, if it is removed again.
    pub directory: &'p Path,
    /// One of the files, unless all of them are yet to be made.
    pub file: Option<&'p Path>,
    /// The direction.
    pub verb: Verb,
    /// Bytes of a record.
    pub record_size: u64,
}

/// A member of the registry.
pub trait Backend: Sync {
    /// The name in plans, records and tables.
    fn name(&self) -> &'static str;

    /// One line on what it does.
    fn about(&self) -> &'static str;

    /// Returns its capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Returns the backend that makes calls on the same files for work that is not measured. Returns `None` for the plain
    /// calls of psync.
    fn plain(&self) -> Option<&'static dyn Backend> {
        None
    }

    /// The calls on names.
    fn namespace(&self) -> &'static dyn Namespace {
        &KernelNamespace
    }

    /// Refuses a place that it cannot serve, and says why. Asked once, before the clock. The answer is what a direct
    /// backend found out; others have none.
    fn examine(&self, _place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        Ok(None)
    }

    /// Creates the session that one thread moves its data through. Called in that thread, before the clock starts.
    fn session(&self, setup: &Setup) -> Result<Box<dyn Session>, EngineError>;
}
