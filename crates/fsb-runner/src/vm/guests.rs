//! Guests: boots them on the kernels of a run and observes them from outside; and the agent inside
//! of one.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fsb_model::error::Tried;
use fsb_model::host::{VmKernel, VmRecord};
use fsb_model::observed::Rpcs;
use fsb_model::units::show_size;
use fsb_model::{BackgroundLimit, Coded, Maintenance, OwnDirectory, Place, Plan, Target, Warning};
use fsb_testbed::ledger::Owner;
use fsb_testbed::vm::{HostDisk, HostShare, needs};
use fsb_testbed::watch::{DeviceTimeline, Watch};
use fsb_testbed::{
    Activity, Available, ColdReach, Counters, LimitLists, LocalTestbed, Maintained, Opened,
    Progress, Provisioned, Quiet, RepeatableMaintenance, Setup, Slot, Testbed, TestbedError,
    available_targets,
};
use fsb_vm::machine::{self, Architecture, Patience, find_qemu};
use fsb_vm::{
    Acceleration, Contents, Disk, Initramfs, Kernel, Machine, MachineSpec, Origin, Share,
    initramfs, kernel,
};

use crate::agent;

/// The path of this program.
const OWN: &str = "/proc/self/exe";

/// The variable that lets fsb's own tests wait less for a guest that hangs. It holds the seconds of
/// silence before the guest is asked for a sign of life, and again before it is ended.
const PATIENCE_VARIABLE: &str = "FSB_VM_PATIENCE";

/// Boots guests: with QEMU, or as threads in tests.
pub(super) trait Guests {
    /// Finds the kernels and the way in which this machine runs guests. The answer is for the
    /// record, and its accelerator is final.
    fn prepare(
        &mut self,
        setup: &Setup,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Prepared, TestbedError>;
    /// Boots a guest on the kernel of that release, or on the default one. It need not be up yet.
    fn boot(
        &mut self,
        release: Option<&str>,
        disks: Vec<HostDisk>,
        shares: Vec<HostShare>,
    ) -> Result<Booted, TestbedError>;
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
    fn prepare(
        &mut self,
        setup: &Setup,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Prepared, TestbedError> {
        let vm = setup
            .vm
            .ok_or_else(|| TestbedError::request("the plan asks for no virtual machine"))?;
        let qemu = qemu_version()?;
        let (kernels, available) = Kernels::prepare(on_this_machine(setup)?)?;
        self.kernels = kernels;
        let first: &Bootable = self.kernels.find(None)?;
        tell(begun(Activity::FindAcceleration));
        let cache = kernel::cache()?;
        let (acceleration, why) =
            machine::probe(&first.kernel, &first.initramfs, Path::new(OWN), &cache);
        self.root.clone_from(&setup.root);
        (self.accelerated, self.memory, self.cpus) = (Some(acceleration), vm.memory.0, vm.cpus);
        let emulated = acceleration == Acceleration::Emulated;
        let record = VmRecord {
            qemu,
            accelerator: if emulated { "tcg" } else { "kvm" }.to_owned(),
            acceleration: why,
            memory_bytes: vm.memory.0,
            cpus: vm.cpus,
            host_kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            kernels: self.kernels.record(),
        };
        Ok(Prepared {
            available,
            record,
            emulated,
            oldest_kernel: self.kernels.oldest(),
        })
    }

    fn boot(
        &mut self,
        release: Option<&str>,
        disks: Vec<HostDisk>,
        shares: Vec<HostShare>,
    ) -> Result<Booted, TestbedError> {
        let Bootable { kernel, initramfs } = self.kernels.find(release)?;
        let (stream, protocol) = UnixStream::pair().map_err(|error| {
            TestbedError::machine("the guest cannot be spoken to")
                .tried(Tried::call("socketpair", &error))
        })?;
        let spec = MachineSpec {
            kernel,
            initramfs,
            memory: self.memory,
            cpus: self.cpus,
            root: self.root.clone(),
            shares: shares
                .into_iter()
                .map(|share| Share {
                    path: share.path,
                    tag: share.tag,
                    virtiofsd: share.server,
                })
                .collect(),
            disks: disks
                .into_iter()
                .map(|disk| Disk {
                    file: disk.file,
                    serial: disk.serial,
                })
                .collect(),
            acceleration: self.accelerated.unwrap_or(Acceleration::Emulated),
            protocol,
            patience: patience(),
            launcher: OWN.into(),
        };
        let machine = Machine::boot(spec)?;
        Ok(Booted {
            stream,
            guest: Box::new(machine),
        })
    }

    fn release(&self, release: Option<&str>) -> String {
        self.kernels
            .find(release)
            .map(|bootable| bootable.kernel.release.clone())
            .unwrap_or_default()
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
    let seconds = std::env::var(PATIENCE_VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok());
    seconds.map_or_else(Patience::default, |seconds| {
        let time = Duration::from_secs(seconds);
        Patience {
            silence: time,
            answer: time,
        }
    })
}

/// Returns the progress of an activity of unknown length.
pub(super) fn begun(activity: Activity) -> Progress {
    Progress {
        activity,
        done: 0,
        total: 0,
    }
}

/// Returns the version that QEMU prints. The error of a missing program names its package.
pub(super) fn qemu_version() -> Result<String, TestbedError> {
    let program = find_qemu(Architecture::HERE)?;
    let answer = Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let answer = answer.map_err(|error| {
        TestbedError::machine(format!("{} cannot be executed", program.display()))
            .tried(&error)
            .advice("install it again")
    })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

// The kernels of a run, each with its initramfs.

/// A kernel and its initramfs.
#[derive(Debug, Clone)]
pub(super) struct Bootable {
    kernel: Kernel,
    initramfs: Initramfs,
}

/// All kernels of a run, the first the default of targets that name none.
#[derive(Debug, Clone, Default)]
pub(super) struct Kernels(Vec<Bootable>);

/// Returns the releases that the texts name, in their order. Without texts, returns that of the
/// default kernel.
pub fn releases(texts: &[String]) -> Result<Vec<String>, TestbedError> {
    Ok(resolve_kernels(texts)?
        .into_iter()
        .map(|kernel| kernel.release)
        .collect())
}

/// Replaces the kernels of the plan by the releases that they mean today. A run that is resumed
/// later then boots the same ones, even if newer ones were fetched. Names of files stay as they
/// are.
pub fn pin(plan: &mut Plan) -> Result<(), TestbedError> {
    if plan.place == Place::Vm {
        let qemu = machine::find_qemu(machine::Architecture::HERE);
        let kernels = match (qemu, resolve_kernels(&plan.kernels)) {
            (Err(qemu), Err(kernel)) => return Err(both_missing(&qemu, &kernel)),
            (_, kernels) => kernels?,
        };
        plan.kernels.resize(kernels.len(), String::new());
        for (text, kernel) in plan.kernels.iter_mut().zip(&kernels) {
            pin_text(text, kernel);
        }
    }
    Ok(())
}

/// Returns the error for a machine that has neither QEMU nor a kernel for it, with the commands for
/// both.
fn both_missing(qemu: &TestbedError, kernel: &TestbedError) -> TestbedError {
    let commands: Vec<String> = [qemu, kernel].into_iter().filter_map(Coded::help).collect();
    TestbedError::machine("a virtual machine needs QEMU and a kernel, and this machine has neither")
        .coded(qemu.code())
        .advice(commands.join(", then "))
}

fn pin_text(text: &mut String, kernel: &Kernel) {
    if kernel.origin != Origin::Named && !text.ends_with(".deb") {
        text.clone_from(&kernel.release);
    }
}

fn resolve_kernels(texts: &[String]) -> Result<Vec<Kernel>, TestbedError> {
    if texts.is_empty() {
        return Ok(vec![kernel::resolve(None)?]);
    }
    texts
        .iter()
        .map(|text| kernel::resolve(Some(text)))
        .collect()
}

/// Returns the setup without the optional targets that this machine cannot make in any guest. The
/// coordinator and the agent both call it, so the result must not depend on anything that changes
/// in between.
pub(super) fn on_this_machine(setup: &Setup) -> Result<Available, TestbedError> {
    available_targets(setup, fsb_testbed::vm::check_targets)
}

impl Kernels {
    /// Finds the kernels of a setup, and builds each initramfs that is not in the cache. Leaves out
    /// optional targets if their kernel has no driver for them, and kernels without remaining
    /// targets.
    pub fn prepare(available: Available) -> Result<(Kernels, Available), TestbedError> {
        let kernels = resolve_kernels(&available.setup.kernels)?;
        let available = available.and(|alone| check_kernels(&kernels, alone))?;
        let cache = kernel::cache()?;
        let kernels = wanted_kernels(kernels, &available.setup.targets);
        let kernels = kernels
            .into_iter()
            .map(|kernel: Kernel| {
                let contents = initramfs_contents(&available.setup, &kernel.release)?;
                let initramfs = initramfs::build(&kernel, &contents, &cache)
                    .map_err(|error| with_module_advice(error, &kernel))?;
                Ok(Bootable { kernel, initramfs })
            })
            .collect::<Result<_, _>>()
            .map(Kernels)?;
        Ok((kernels, available))
    }

    /// Returns the kernel of that release, or the default one for `None`.
    pub fn find(&self, release: Option<&str>) -> Result<&Bootable, TestbedError> {
        let found = match release {
            None => self.0.first(),
            Some(release) => self
                .0
                .iter()
                .find(|bootable| bootable.kernel.release == release),
        };
        found.ok_or_else(|| {
            TestbedError::machine(format!(
                "the run has no kernel {}",
                release.unwrap_or_default()
            ))
            .advice("begin a new run")
        })
    }

    /// Returns the oldest release, or `None` if there is only one.
    pub fn oldest(&self) -> Option<String> {
        let oldest = self
            .0
            .iter()
            .map(|bootable| &bootable.kernel.release)
            .min_by_key(|release| version(release));
        oldest.filter(|_| self.0.len() > 1).cloned()
    }

    /// Returns the kernels for the record of the run.
    pub fn record(&self) -> BTreeMap<String, VmKernel> {
        fn record(Bootable { kernel, initramfs }: &Bootable) -> (String, VmKernel) {
            let name = initramfs
                .path
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned());
            let image = kernel.image.display().to_string();
            let (image_hash, module_hashes) = (
                initramfs.image_hash.clone(),
                initramfs.module_hashes.clone(),
            );
            let initramfs = name.unwrap_or_default();
            (
                kernel.release.clone(),
                VmKernel {
                    image,
                    initramfs,
                    image_hash,
                    module_hashes,
                },
            )
        }
        self.0.iter().map(record).collect()
    }

    /// Refuses less memory than a guest boots with.
    pub fn check_memory(&self, setup: &Setup) -> Result<(), TestbedError> {
        let Some(vm) = setup.vm else { return Ok(()) };
        let least = self
            .0
            .iter()
            .map(|bootable| machine::least_memory(&bootable.initramfs))
            .max()
            .unwrap_or(0);
        if vm.memory.0 >= least {
            return Ok(());
        }
        let mebibytes = least.div_ceil(1 << 20);
        Err(
            TestbedError::machine("too little memory for the virtual machine")
                .coded(&fsb_model::error::NO_MEMORY)
                .field("needed_bytes", least)
                .tried(format!(
                    "{} asked for, {} needed to boot",
                    show_size(vm.memory.0),
                    show_size(least)
                ))
                .advice(format!("give --memory {mebibytes}M or more")),
        )
    }
}

/// Checks that the kernels have the drivers of their targets.
fn check_kernels(kernels: &[Kernel], setup: &Setup) -> Result<(), TestbedError> {
    let mut kernels = kernels.iter().filter(|kernel| {
        setup
            .targets
            .iter()
            .any(|target| target.runs_on(&kernel.release))
    });
    kernels.try_for_each(|kernel| {
        let contents = initramfs_contents(setup, &kernel.release)?;
        initramfs::check(kernel, &contents).map_err(|error| with_module_advice(error, kernel))
    })
}

/// Replaces the advice on a module that kernels of distributions lack.
fn with_module_advice(error: TestbedError, kernel: &Kernel) -> TestbedError {
    let module = error
        .fields
        .get("module")
        .and_then(|module| module.as_str());
    match module.and_then(fsb_testbed::fs::module_advice) {
        Some(advice) => {
            let place = kernel.modules.join("updates");
            error.advice(format!(
                "{advice}; modules that were built elsewhere belong into {}",
                place.display()
            ))
        }
        None => error,
    }
}

/// Returns the kernels that the targets are measured on. Targets that name none use the first.
fn wanted_kernels(kernels: Vec<Kernel>, targets: &[Target]) -> Vec<Kernel> {
    let is_wanted = |index: usize, kernel: &Kernel| {
        targets.iter().any(|target| {
            target
                .kernel
                .as_ref()
                .map_or(index == 0, |release| *release == kernel.release)
        })
    };
    let kernels = kernels
        .into_iter()
        .enumerate()
        .filter(|(index, kernel)| is_wanted(*index, kernel));
    kernels.map(|(_, kernel)| kernel).collect()
}

/// Returns the contents of the initramfs for the targets of that kernel. Another kernel may lack
/// the driver of another target.
fn initramfs_contents(setup: &Setup, release: &str) -> Result<Contents, TestbedError> {
    let mut own = setup.clone();
    own.targets.retain(|target| target.runs_on(release));
    let needs = needs(&own)?;
    let init = std::env::current_exe().map_err(|error| {
        TestbedError::machine("the program's own file is unknown")
            .tried(Tried::call("/proc/self/exe", &error))
    })?;
    let mut modules = needs.modules;
    if setup.root.is_some() {
        modules.extend(["9p", "9pnet_virtio"].map(str::to_owned));
    }
    Ok(Contents {
        init,
        programs: needs.programs,
        modules,
        optional_modules: needs.optional_modules,
        files: needs
            .files
            .into_iter()
            .map(|path| (path.to_string_lossy().into_owned(), path))
            .collect(),
    })
}

/// Returns the key by which versions are ordered: the numbers at the beginning of a release.
fn version(release: &str) -> Vec<u64> {
    let parts = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    parts.collect()
}

// The agent inside a guest. It is the agent of any machine, and also checks the guest itself, and
// fails if a test requests that.

/// Serves the host until it closes the connection.
pub fn serve_in_guest(stream: UnixStream) -> Result<(), String> {
    let inner = LocalTestbed::new(Owner::current()).in_guest();
    agent::serve(
        stream,
        &mut GuestTestbed {
            inner,
            fault: Fault::default(),
        },
    )
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

    /// Checks the setup before anything is made, because the host cannot examine this kernel and
    /// these processors.
    fn open(
        &mut self,
        setup: &Setup,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened, TestbedError> {
        self.fault.arm(&setup.fault);
        let warnings = self.inner.check(setup)?;
        let mut opened = self.inner.open(setup, progress)?;
        opened.warnings.splice(0..0, warnings);
        Ok(opened)
    }

    fn provision(
        &mut self,
        slot: Slot,
        slice: u32,
        target: &Target,
    ) -> Result<Provisioned, TestbedError> {
        let mut provisioned = self.inner.provision(slot, slice, target)?;
        // If the run is killed, a frozen file system ends with the guest.
        provisioned
            .abilities
            .no_maintenance
            .remove(&Maintenance::Freeze);
        Ok(provisioned)
    }

    fn make_cold(&mut self, slot: Slot, reach: ColdReach) -> Result<(), TestbedError> {
        self.inner.make_cold(slot, reach)
    }

    fn set_sealed(&mut self, slot: Slot, sealed: bool) -> Result<(), TestbedError> {
        self.inner.set_sealed(slot, sealed)
    }

    fn maintain(
        &mut self,
        slot: Slot,
        operation: Maintenance,
    ) -> Result<Option<Maintained>, TestbedError> {
        self.inner.maintain(slot, operation)
    }

    fn repeatable(&self, slot: Slot, operation: Maintenance) -> Option<RepeatableMaintenance> {
        self.inner.repeatable(slot, operation)
    }

    fn make_own_directory(
        &mut self,
        slot: Slot,
        own: OwnDirectory,
    ) -> Result<PathBuf, TestbedError> {
        self.inner.make_own_directory(slot, own)
    }

    fn remove_own_directory(&mut self, slot: Slot) -> Result<(), TestbedError> {
        self.inner.remove_own_directory(slot)
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

    fn device_number(&self, slot: Slot) -> Option<(u32, u32)> {
        self.inner.device_number(slot)
    }

    fn rpcs(&self, slot: Slot) -> Option<Rpcs> {
        self.inner.rpcs(slot)
    }

    fn server_failure(&mut self, slot: Slot, is_disconnected: bool) -> Option<String> {
        self.inner.server_failure(slot, is_disconnected)
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

    fn count_processes(&mut self, slot: Slot, most: u64) -> Option<PathBuf> {
        self.inner.count_processes(slot, most)
    }

    fn limit_background(
        &mut self,
        slot: Slot,
        limit: BackgroundLimit,
    ) -> Result<LimitLists, TestbedError> {
        self.inner.limit_background(slot, limit)
    }

    fn end_limits(&mut self) -> Result<(), TestbedError> {
        self.inner.end_limits()
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

// Guests that fail on purpose, for fsb's own tests. A build without the feature `faults` has none,
// and no release has the feature.

/// The failure that a guest triggers.
#[derive(Default)]
pub(super) struct Fault {
    #[cfg(feature = "faults")]
    kind: Option<String>,
    #[cfg(feature = "faults")]
    settled: u32,
}

#[cfg(not(feature = "faults"))]
impl Fault {
    /// Returns `None`: this build has no failures.
    pub(super) fn wanted() -> Option<String> {
        None
    }

    fn arm(&mut self, _: &Option<String>) {}

    fn strike_when_due(&mut self) {}
}

#[cfg(feature = "faults")]
impl Fault {
    /// Returns the failure that a variable of the host's environment requests.
    pub(super) fn wanted() -> Option<String> {
        std::env::var("FSB_VM_FAULT").ok()
    }

    /// Sets the failure when the run begins in the guest.
    fn arm(&mut self, kind: &Option<String>) {
        self.kind.clone_from(kind);
    }

    /// Triggers the failure when it is due. The guest calls it before it quiesces a target.
    fn strike_when_due(&mut self) {
        /// The call that triggers the failure, so that the first trials end well.
        const AFTER: u32 = 5;
        self.settled += 1;
        if self.settled >= AFTER && self.kind.as_deref() == Some("panic") {
            // The write does not return.
            let _ = std::fs::write("/proc/sysrq-trigger", "c");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str, origin: Origin) -> Kernel {
        Kernel {
            release: release.into(),
            image: "/v".into(),
            modules: "/m".into(),
            origin,
        }
    }

    #[test]
    fn kernels_whose_targets_were_all_left_out_are_not_booted() {
        let left = |on: &[Option<&str>]| -> Vec<String> {
            let target = |release: &Option<&str>| Target {
                kernel: release.map(str::to_owned),
                .."ext4".parse().unwrap()
            };
            let kernels = ["6.12", "6.1"]
                .map(|release| kernel(release, Origin::Named))
                .to_vec();
            let targets: Vec<Target> = on.iter().map(target).collect();
            wanted_kernels(kernels, &targets)
                .into_iter()
                .map(|kernel| kernel.release)
                .collect()
        };
        assert_eq!(left(&[Some("6.1"), Some("6.12")]), ["6.12", "6.1"]);
        assert_eq!(left(&[Some("6.1"), Some("6.1")]), ["6.1"]);
        assert_eq!(left(&[None]), ["6.12"]);
        assert_eq!(left(&[None, Some("6.1")]), ["6.12", "6.1"]);
    }

    #[test]
    fn a_plan_names_the_release_that_was_found() {
        let pinned = |text: &str, origin: Origin| {
            let kernel = kernel("6.1.0-56-amd64", origin);
            let mut text = text.to_owned();
            pin_text(&mut text, &kernel);
            text
        };
        for text in ["", "6.1", "linux-image-6.1.0-56-amd64"] {
            assert_eq!(pinned(text, Origin::Fetched), "6.1.0-56-amd64");
        }
        assert_eq!(
            pinned("/boot/vmlinuz:/lib/m", Origin::Named),
            "/boot/vmlinuz:/lib/m"
        );
        assert_eq!(pinned("/tmp/linux.deb", Origin::Fetched), "/tmp/linux.deb");
    }

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        let mut releases = [
            "6.12.90+deb12-amd64",
            "6.1.0-56-amd64",
            "5.10.0-9-amd64",
            "6.1.0-9-amd64",
        ];
        releases.sort_by_key(|release| version(release));
        assert_eq!(
            releases,
            [
                "5.10.0-9-amd64",
                "6.1.0-9-amd64",
                "6.1.0-56-amd64",
                "6.12.90+deb12-amd64"
            ]
        );
    }
}
