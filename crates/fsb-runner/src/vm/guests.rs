//! Guests: boots them, and observes them from outside.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::place::VmRecord;
use fsb_testbed::optional::Available;
use fsb_testbed::vm::HostDisk;
use fsb_testbed::{Progress, Setup, TestbedError};
use fsb_vm::machine::Patience;
use fsb_vm::{Acceleration, Disk, Machine, MachineSpec, kernel, machine};

use super::kernels::{Bootable, Kernels, on_this_machine};
use super::qemu;

/// The path of this program.
const OWN: &str = "/proc/self/exe";

/// The variable that lets fsb's own tests wait less for a guest that hangs. It holds the seconds of silence before the
/// guest is asked for a sign of life, and again before it is ended.
const PATIENCE_VARIABLE: &str = "FSB_VM_PATIENCE";

/// Boots guests: with QEMU, or as threads in tests.
pub(super) trait Guests {
    /// Finds the kernels and the way in which this machine runs guests. The answer is for the record, and its
    /// accelerator is final.
    fn prepare(&mut self, setup: &Setup, tell: &mut dyn FnMut(Progress)) -> Result<Prepared, TestbedError>;
    /// Boots a guest on the kernel of that release, or on the default one. It need not be up yet.
    fn boot(&mut self, release: Option<&str>, disks: Vec<HostDisk>) -> Result<Booted, TestbedError>;
    /// Returns the release, or that of the default kernel if `release` is `None`.
    fn release(&self, release: Option<&str>) -> String;
}

/// The facts that are known before the first boot.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The setup that guests make, without the targets that no guest can make.
    pub available: Available,
    pub record: VmRecord,
    pub emulated: bool,
    pub oldest_kernel: Option<String>,
}

/// A guest that boots.
pub(super) struct Booted {
    pub stream: UnixStream,
    pub guest: Box<dyn Guest>,
}

/// A guest from outside. Dropping it ends it.
pub(super) trait Guest {
    /// Returns the reason why it stopped, or `None` while it runs.
    fn stopped(&mut self) -> Option<String>;
    /// Ends the guest if it hangs. Called repeatedly while a guest that is up owes an answer.
    fn look_after(&mut self);
    /// Restarts the time of silence: a message arrived, or an answer is due from now on.
    fn heard(&mut self);
    /// Returns the last lines of its console.
    fn last_words(&self) -> Vec<String>;
}

/// Guests of QEMU.
#[derive(Default)]
pub(super) struct Qemu {
    kernels: Kernels,
    accelerated: Option<Acceleration>,
    memory: u64,
    cpus: u32,
    /// The directory that programs in the guest see as their root.
    root: Option<PathBuf>,
}

impl Guests for Qemu {
    fn prepare(&mut self, setup: &Setup, tell: &mut dyn FnMut(Progress)) -> Result<Prepared, TestbedError> {
        let vm = setup.vm.ok_or_else(|| TestbedError::request("the plan asks for no virtual machine"))?;
        let qemu = qemu::version()?;
        let (kernels, available) = Kernels::prepare(on_this_machine(setup)?)?;
        self.kernels = kernels;
        let first: &Bootable = self.kernels.find(None)?;
        tell(step("looking for hardware acceleration"));
        let cache = kernel::cache()?;
        let (acceleration, why) = machine::probe(&first.kernel, &first.initramfs, Path::new(OWN), &cache);
        self.root.clone_from(&setup.root);
        (self.accelerated, self.memory, self.cpus) = (Some(acceleration), vm.memory.0, vm.cpus);
        let emulated = acceleration == Acceleration::Emulated;
        let record = VmRecord {
            qemu,
            accelerator: if emulated { "tcg" } else { "kvm" }.to_owned(),
            acceleration: why,
            memory_bytes: vm.memory.0,
            cpus: vm.cpus,
            host_kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            kernels: self.kernels.record(),
        };
        Ok(Prepared { available, record, emulated, oldest_kernel: self.kernels.oldest() })
    }

    fn boot(&mut self, release: Option<&str>, disks: Vec<HostDisk>) -> Result<Booted, TestbedError> {
        let Bootable { kernel, initramfs } = self.kernels.find(release)?;
        let (stream, protocol) = UnixStream::pair().map_err(|error| {
            TestbedError::machine("the guest cannot be spoken to").tried(format!("socketpair: {error}"))
        })?;
        let spec = MachineSpec {
            kernel,
            initramfs,
            memory: self.memory,
            cpus: self.cpus,
            root: self.root.clone(),
            disks: disks.into_iter().map(|disk| Disk { file: disk.file, serial: disk.serial }).collect(),
            acceleration: self.accelerated.unwrap_or(Acceleration::Emulated),
            protocol,
            patience: patience(),
            launcher: OWN.into(),
        };
        let machine = Machine::boot(spec)?;
        Ok(Booted { stream, guest: Box::new(machine) })
    }

    fn release(&self, release: Option<&str>) -> String {
        self.kernels.find(release).map(|bootable| bootable.kernel.release.clone()).unwrap_or_default()
    }
}

impl Guest for Machine {
    fn stopped(&mut self) -> Option<String> {
        Machine::stopped(self).map(|stop| stop.to_string())
    }

    fn look_after(&mut self) {
        Machine::look_after(self);
    }

    fn heard(&mut self) {
        Machine::heard(self);
    }

    fn last_words(&self) -> Vec<String> {
        const LINES: usize = 6;
        self.console_tail(LINES)
    }
}

/// Returns the patience with a silent guest, which a test may shorten.
fn patience() -> Patience {
    let seconds = std::env::var(PATIENCE_VARIABLE).ok().and_then(|text| text.parse().ok());
    seconds.map_or_else(Patience::default, |seconds| {
        let time = Duration::from_secs(seconds);
        Patience { silence: time, answer: time }
    })
}

/// Returns the progress of a step of unknown length.
pub(super) fn step(what: impl Into<String>) -> Progress {
    Progress { what: what.into(), done: 0, total: 0 }
}
