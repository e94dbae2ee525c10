//! A block device of the user's. Whatever can be wrong with that must end in a refusal.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use rustix::fs::{FlockOperation, OFlags, flock};

use super::{MediumKind, MediumRequest, OpenMedium, filling};
use crate::error::{TestbedError, attempt};
use crate::host;
use crate::ledger::Ledger;
use crate::sys::block::{self, DeviceNumber};
use crate::sys::{Roots, fill, mountinfo, program};
use crate::testbed::Progress;

pub(super) struct Device;

impl MediumKind for Device {
    fn name(&self) -> &'static str {
        "device"
    }

    fn about(&self) -> &'static str {
        "A block device, all of it, by its path; one with anything on it needs --wipe."
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        examine(request).map(|candidate| candidate.size)
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        _: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        // Again, for minutes may lie between the check and now; and from here on it is ours.
        let candidate = examine(request)?;
        let Candidate { path, number, size, claim } = candidate;
        let failed = |error: &std::io::Error| {
            TestbedError::machine(format!("{} could not be written over", path.display()))
                .tried(attempt("write to", &path, error))
                .advice("check the device (dmesg)")
        };
        flock(&claim, FlockOperation::NonBlockingLockExclusive).map_err(|errno| in_use(&path, &errno.into()))?;
        let flags = rustix::fs::fcntl_getfl(&claim).map_err(|errno| failed(&errno.into()))?;
        rustix::fs::fcntl_setfl(&claim, flags | OFlags::DIRECT).map_err(|errno| failed(&errno.into()))?;
        let name = path.display().to_string();
        fill::fill(claim.as_fd(), size, request.seed, filling(&name, size, progress)).map_err(|error| failed(&error))?;
        block::flush_buffers(&claim).map_err(|error| failed(&error))?;
        // Held open and locked against udev while the exclusive descriptor is lent.
        let lock = block::open(&path, false, false).map_err(|error| failed(&error))?;
        flock(&lock, FlockOperation::Unlock).map_err(|errno| failed(&errno.into()))?;
        let shown = show_bytes(size as f64);
        let roots = Roots::default();
        let limit = number.directory(&roots).map(|directory| queue_of(&directory).join("discard_max_bytes"));
        let can_discard = limit.and_then(|path| crate::sys::read_trimmed(&path)).is_some_and(|text| text != "0");
        let record = MediumRecord {
            device: host::device_manifest(&roots, (number.0, number.1)),
            direct: None,
            filled: Some(format!("{shown} of incompressible bytes, O_DIRECT")),
            summary: format!("{name} {shown}"),
        };
        Ok(Box::new(OpenDevice { path, number, claim: Some(claim), lock: Some(lock), can_discard, record }))
    }
}
