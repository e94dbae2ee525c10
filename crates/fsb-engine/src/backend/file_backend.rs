//! Backends that open files with flags and leave the rest to their sessions.

use fsb_model::observed::Direct;
use rustix::fs::OFlags;

use super::direct;
use super::files::SessionSetup;
use super::session::{Backend, Capabilities, ProbeTarget, Session};
use crate::error::EngineError;

/// Opens a session whose files are opened with these flags.
type OpenSession = fn(OFlags, &SessionSetup) -> Result<Box<dyn Session>, EngineError>;

/// A backend that opens files with flags of its own. Backends that differ in these flags alone are
/// constants of it.
#[derive(Debug)]
pub(crate) struct FileBackend {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) flags: OFlags,
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
        if self.capabilities.direct {
            direct::examine(place).map(Some)
        } else {
            Ok(None)
        }
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        (self.session)(self.flags, setup)
    }
}
