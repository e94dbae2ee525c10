//! Backends that open files with flags, make calls with one, and leave the rest to their sessions.

use fsb_model::observed::Direct;
use rustix::fs::OFlags;

use super::call_flag::CallFlag;
use super::files::SessionSetup;
use super::session::{Backend, Capabilities, ProbeTarget, Session};
use crate::error::EngineError;

/// Opens a session whose files and calls have the flags of the backend.
type OpenSession = fn(&FileBackend, &SessionSetup) -> Result<Box<dyn Session>, EngineError>;

/// A backend with flags of its own. Backends that differ in these flags alone are constants of it.
#[derive(Debug)]
pub(crate) struct FileBackend {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The flags of open(2).
    pub(super) flags: OFlags,
    /// The flag of the calls that move data.
    pub(super) call_flag: CallFlag,
    pub(super) capabilities: Capabilities,
    pub(super) session: OpenSession,
}

impl Backend for FileBackend {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn examine(&self, place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        self.call_flag.examine(place, self.capabilities.direct)
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        (self.session)(self, setup)
    }
}
