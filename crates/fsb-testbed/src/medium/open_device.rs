//! A block device that is ours until it is closed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use fsb_model::run::MediumRecord;

use super::kind::OpenMedium;
use crate::error::{TestbedError, attempt};
use crate::ledger::Ledger;
use crate::sys::block::{self, DeviceNumber};
use crate::sys::node::Node;
use crate::sys::pinned::Pinned;
use crate::sys::poll_until;

/// How long the last user may take to go after an unmount.
const IDLE: Duration = Duration::from_secs(10);

fn cannot_use(path: &Path, error: &io::Error) -> TestbedError {
    TestbedError::machine(format!("{} cannot be used", path.display())).tried(attempt("open", path, error))
}

/// A device that is ours until it is closed.
pub(super) struct OpenDevice {
    pub(super) device: Pinned,
    pub(super) node: Node,
    /// Exclusive; absent while mkfs or a mount has it.
    pub(super) claim: Option<OwnedFd>,
    pub(super) can_discard: bool,
    pub(super) record: MediumRecord,
}

impl OpenDevice {
    /// Takes a device that needs no checks and no filling: the kernel's own of that name and number.
    pub(super) fn adopt(
        (path, number): (&Path, DeviceNumber),
        nodes: Option<&Path>,
        can_discard: bool,
        record: MediumRecord,
    ) -> Result<Self, TestbedError> {
        let device = Pinned::known(path, number).map_err(|error| cannot_use(path, &error))?;
        let node = Node::make(nodes, number, path)?;
        let mut device = OpenDevice { device, node, claim: None, can_discard, record };
        device.take_back()?;
        Ok(device)
    }

    /// The same for one that may have no name here, and that people call `shown`.
    pub(super) fn of_number(
        (shown, number): (&Path, DeviceNumber),
        nodes: Option<&Path>,
        can_discard: bool,
        record: MediumRecord,
    ) -> Result<Self, TestbedError> {
        let node = Node::make(nodes, number, shown)?;
        let opened = block::open(node.path(), false, false).and_then(|fd| Pinned::of(fd, shown.to_owned()));
        let device = opened.map_err(|error| cannot_use(shown, &error))?;
        let mut device = OpenDevice { device, node, claim: None, can_discard, record };
        device.take_back()?;
        Ok(device)
    }
}

impl OpenMedium for OpenDevice {
    fn device(&self) -> &Path {
        self.node.path()
    }

    fn shown(&self) -> &Path {
        self.device.shown()
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.node.verify(self.device.shown())
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn can_discard(&self) -> bool {
        self.can_discard
    }

    fn lend(&mut self) {
        self.claim = None;
        self.device.unlock();
    }

    fn lock(&mut self) {
        self.claim = None;
        self.device.lock_against_udev();
    }

    fn take_back(&mut self) -> Result<(), TestbedError> {
        self.claim = None;
        let mut answer = Err(io::ErrorKind::TimedOut.into());
        poll_until(IDLE, || {
            answer = self.device.open_again(true, true);
            answer.is_ok()
        });
        let shown = self.device.shown();
        let claim = answer.map_err(|error| {
            TestbedError::machine(format!("another process opened {}", shown.display())).tried(attempt(
                "open with O_EXCL",
                shown,
                &error,
            ))
        })?;
        self.device.lock_against_udev();
        self.claim = Some(claim);
        Ok(())
    }

    fn close(&mut self, _: &Ledger) -> Vec<String> {
        self.claim = None;
        self.device.unlock();
        Vec::new()
    }
}
