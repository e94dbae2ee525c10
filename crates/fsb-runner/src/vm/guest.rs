//! The agent inside a guest. It is the agent of any machine, and also checks the guest itself, and fails if a test
//! requests that.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use fsb_model::{Target, Warning};
use fsb_testbed::ledger::Owner;
use fsb_testbed::watch::{DeviceTimeline, Watch};
use fsb_testbed::{
    ColdReach, Counters, LocalTestbed, Opened, Progress, Provisioned, Quiet, Setup, Slot, Testbed, TestbedError,
};

use super::fault::Fault;
use crate::agent;

/// Serves the host until it closes the connection.
pub fn serve(stream: UnixStream) -> Result<(), String> {
    let inner = LocalTestbed::new(Owner::current());
    agent::serve(stream, &mut GuestTestbed { inner, fault: Fault::default() })
}

/// The testbed of the guest itself.
struct GuestTestbed {
    inner: LocalTestbed,
    fault: Fault,
}

impl Testbed for GuestTestbed {
    fn check(&mut self, setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
        self.inner.check(setup)
    }

    /// Checks the setup before anything is made, because the host cannot examine this kernel and these processors.
    fn open(&mut self, setup: &Setup, progress: &mut dyn FnMut(Progress)) -> Result<Opened, TestbedError> {
        self.fault.arm(&setup.fault);
        let warnings = self.inner.check(setup)?;
        let mut opened = self.inner.open(setup, progress)?;
        opened.warnings.splice(0..0, warnings);
        Ok(opened)
    }

    fn provision(&mut self, slot: Slot, part: u32, target: &Target) -> Result<Provisioned, TestbedError> {
        self.inner.provision(slot, part, target)
    }

    fn make_cold(&mut self, slot: Slot, reach: ColdReach) -> Result<(), TestbedError> {
        self.inner.make_cold(slot, reach)
    }

    fn drop_caches(&mut self) -> Result<(), TestbedError> {
        self.inner.drop_caches()
    }

    fn quiesce(&mut self, slot: Slot, left: Duration) -> Result<Quiet, TestbedError> {
        self.fault.strike_when_due();
        self.inner.quiesce(slot, left)
    }

    fn sync(&mut self, slot: Slot) -> Result<(), TestbedError> {
        self.inner.sync(slot)
    }

    fn counters(&self, slot: Slot) -> Option<Counters> {
        self.inner.counters(slot)
    }

    fn free_bytes(&self, slot: Slot) -> Option<u64> {
        self.inner.free_bytes(slot)
    }

    fn watch(&self, slot: Slot) -> Option<Watch> {
        self.inner.watch(slot)
    }

    fn device_timeline(&self, slot: Slot) -> Option<DeviceTimeline> {
        self.inner.device_timeline(slot)
    }

    fn release(&mut self, slot: Slot) -> Result<(), TestbedError> {
        self.inner.release(slot)
    }

    fn release_all(&mut self) -> Result<(), TestbedError> {
        self.inner.release_all()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}
