//! The interface to the runner: a testbed makes targets ready, keeps them ready, and tears them
//! down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use fsb_model::host::{DeviceId, DeviceRates, HostManifest, VmRecord};
use fsb_model::observed::Rpcs;
use fsb_model::plan::VmSize;
use fsb_model::run::{ControlRecord, MediumRecord, MemoryTouched, TargetRecord};
use fsb_model::storage::Unproven;
use fsb_model::{BackgroundLimit, Geometry, Identity, Maintenance, OwnDirectory, Target, Warning};
use fsb_sys::error::{Kind, TestbedError};
use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::control::{ColdMethod, Held};
use crate::fs::{Fake, Sealing, ServerUse};
use crate::medium::{Slice, SpaceBeneath};
use crate::watch::{DeviceTimeline, Watch};

/// The number of the slot of a ready target. The caller of [`Testbed::provision`] chooses it;
/// several targets can be ready at once.
pub type Slot = u32;

/// The part of a plan that a testbed needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// All targets of the run.
    pub targets: Vec<Target>,
    /// Size of an image, in bytes.
    pub size: u64,
    /// The number of equal slices into which each medium is divided. With 1 it is whole.
    #[serde(default = "whole")]
    pub slices: u32,
    /// The directory of images.
    pub dir: PathBuf,
    /// Block devices whose content the user gave up.
    pub wipe: Vec<PathBuf>,
    /// The devices that the names among targets and in `wipe` led to when the coordinator resolved
    /// them. The testbed refuses a name that leads elsewhere later. Empty if the names were not
    /// resolved before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<PathBuf, DeviceId>,
    /// Requested controls, by name. All others have their defaults. Targets may override them.
    pub controls: BTreeMap<String, String>,
    /// Seconds that preparing the machine may take, as far as it can stop early: touching a guest's
    /// memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<f64>,
    /// Bytes of memory that the run may use at once. As many bytes of a guest's free memory are
    /// touched; all of it for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_needed: Option<u64>,
    /// The user that workers run as.
    pub identity: Identity,
    /// The seed of the data that fill the media.
    pub seed: u64,
    /// The virtual machine that targets are made in. `None` if they are made on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmSize>,
    /// Kernels of the virtual machine, as they were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// The directory of this machine that the user's programs see as their root in the virtual
    /// machine. `None` if there are no such programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Release of the oldest kernel, if the run has several. Every target gets only features that
    /// it can mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_kernel: Option<String>,
    /// The geometry that the targets' mkfs commands give a large disk, by target. Smaller slices
    /// get the same geometry. mkfs chooses for a target that is missing here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub large_disk: BTreeMap<String, Geometry>,
    /// Bytes of the large disk whose results targets are to have. File systems whose behaviour
    /// follows the size of the device get a sparse device of that size. 0 if each gets the device
    /// that it was given.
    #[serde(default)]
    pub like_disk: u64,
    /// The limits of the backgrounds of cases. The testbed refuses to open if this machine cannot
    /// set them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background_limits: Vec<BackgroundLimit>,
    /// The fault that the guest injects, in fsb's own tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

fn whole() -> u32 {
    1
}

/// The result of [`Testbed::open`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The records of the media, by their text.
    pub media: BTreeMap<String, MediumRecord>,
    /// The slices of the targets, by the text of their medium. Empty for a medium that is whole.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<String, Vec<OpenedSlice>>,
    /// The results of the run's controls, by name.
    pub controls: BTreeMap<String, ControlRecord>,
    /// The memory that was touched. `None` if that was not necessary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryTouched>,
    /// The machine.
    pub host: HostManifest,
    /// Conditions that the reader must know.
    pub warnings: Vec<Warning>,
    /// The virtual machine, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmRecord>,
    /// Whether its processors are emulated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
}

/// A slice of a divided medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedSlice {
    /// The device, as the user knows it: `/dev/loop3`.
    pub device: PathBuf,
    /// The place on the medium.
    pub place: Slice,
}

/// A target that is ready for workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provisioned {
    /// The record of the target.
    pub record: TargetRecord,
    /// The directory of the workers: it exists, is empty and belongs to the worker's user.
    pub root: PathBuf,
    /// The same directory as further clients of a network file system see it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_roots: Vec<PathBuf>,
    /// The operations and checks that the target supports.
    pub abilities: Abilities,
    /// Bytes that the worker's user can fill. `u64::MAX` if the file system does not report them.
    pub free_bytes: u64,
    /// Files that can be created. `u64::MAX` if the file system sets no limit.
    pub free_inodes: u64,
    /// The rates of the raw device just before it was formatted. `None` if the target has no device
    /// of its own.
    #[serde(default)]
    pub device: Option<DeviceRates>,
    /// The restrictions on the processes that measure.
    #[serde(default)]
    pub held: Held,
    /// Conditions of this target in this block that the reader must know.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl Provisioned {
    /// Returns the directory of the workers as each client sees it.
    pub fn roots(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.root].into_iter().chain(&self.client_roots)
    }
}

/// The operations and checks that a target supports. The default supports none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Abilities {
    /// The method that makes its data cold. `None` if they are never cold.
    pub cold: Option<ColdMethod>,
    /// Whether only the kernel caches its data, so that its caches can be emptied while it is
    /// mounted. False if a FUSE server has a cache of its own.
    pub kernel_caches_only: bool,
    /// Whether a cache of its own holds its data, so that the page cache shows nothing: that of
    /// ZFS.
    #[serde(default)]
    pub own_cache: bool,
    /// Whether data can be made durable at all.
    pub durable: bool,
    /// Whether device counters exist.
    pub counters: bool,
    /// The parameters of a null target, on which everything is simulated.
    pub fake: Option<Fake>,
    /// The reason why it cannot be made cold. Empty if it can.
    pub why_not_cold: String,
    /// The reason why its data cannot be made durable. Empty if they can.
    pub why_not_durable: String,
    /// The reason why direct I/O to it does not reach its storage past every page cache. Empty if
    /// it does.
    #[serde(default)]
    pub why_not_direct: String,
    /// The reason why a file's data is never in memory when it is opened. Empty if it may be.
    #[serde(default)]
    pub why_not_warm: String,
    /// The promises of case names that it has not been shown to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<Unproven>,
    /// The maintenance operations that are not measured on it, with the reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub no_maintenance: BTreeMap<Maintenance, String>,
    /// The reason why no quota limits the space of a directory. Empty if one can.
    #[serde(default)]
    pub no_space_limit: String,
    /// The way in which it serves prepared files from a read-only layer. `None` if it serves them
    /// as any other files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<Sealing>,
}

/// The caches that are emptied when a target is made cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColdReach {
    /// The caches of the whole machine.
    Machine,
    /// The caches of the target, if unmounting empties them: programs that the workload runs stay
    /// in memory. Otherwise those of the whole machine.
    Target,
}

/// Counters of device and machine since they were started. Only differences are meaningful.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes the device read.
    pub read_bytes: u64,
    /// Bytes the device wrote.
    pub write_bytes: u64,
    /// Cache flushes the device served.
    pub flushes: u64,
    /// Seconds that all processors were busy, kernel threads included.
    pub cpu_seconds: f64,
    /// Bytes that the sparse image under the device occupies; 0 if it has none.
    #[serde(default)]
    pub occupied_bytes: u64,
    /// The use of the target's FUSE server. `None` for a target without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
}

/// The result of a maintenance operation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Maintained {
    /// The time of the operation alone.
    pub time: Duration,
    /// CPU seconds of the programs that it ran, in user mode and in the kernel.
    pub cpu_seconds: [f64; 2],
}

/// Performs a maintenance operation once. The target must stay mounted.
pub type RepeatableMaintenance = Box<dyn Fn() -> Result<Maintained, TestbedError> + Send>;

/// The result of waiting for an idle device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quiet {
    /// Seconds waited, the syncfs included.
    pub waited_seconds: f64,
    /// Whether the device became idle. False if the time limit was reached first.
    pub idle: bool,
}

/// Owns the media and mounts of targets, and makes targets ready, each in a slot of its own.
///
/// Call order: `check`, `open`, then for each sequential trial `provision`, any of `make_cold`,
/// `drop_caches`, `quiesce`, `sync`, `counters`, `watch`, and `release`; `close` at the end.
pub trait Testbed {
    /// Checks all that can be checked before anything is changed. Returns warnings.
    fn check(&mut self, setup: &Setup) -> Result<Vec<Warning>, TestbedError>;
    /// Makes and fills the media and sets the controls of the run.
    fn open(
        &mut self,
        setup: &Setup,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened, TestbedError>;
    /// Sets the controls of the target, formats and mounts it on that slice of its medium, and
    /// assigns it to the slot. First releases the previous target of the slot; other slots stay
    /// unchanged. A target without a medium ignores the slice. An error of kind
    /// [`Kind::Trial`](crate::Kind::Trial) concerns this target only.
    fn provision(
        &mut self,
        slot: Slot,
        slice: u32,
        target: &Target,
    ) -> Result<Provisioned, TestbedError>;
    /// Empties the caches of the target, and others according to `reach`. Its root path stays
    /// valid, but open files do not.
    fn make_cold(&mut self, slot: Slot, reach: ColdReach) -> Result<(), TestbedError>;
    /// Serves the files that are prepared on the target from its read-only layer, or makes them
    /// writable again and discards what was written since. Does nothing on a target without such a
    /// layer, and on one that is in that state. No process uses the target.
    fn set_sealed(&mut self, slot: Slot, sealed: bool) -> Result<(), TestbedError>;
    /// Performs an operation on the whole file system, which is mounted before and after. Returns
    /// `None` if its driver does not support the operation. Fails if the operation found an error
    /// in it.
    fn maintain(
        &mut self,
        slot: Slot,
        operation: Maintenance,
    ) -> Result<Option<Maintained>, TestbedError>;
    /// Returns an operation on the whole file system for a thread that repeats it while the target
    /// is in use. Returns `None` if its driver does not support the operation.
    fn repeatable(&self, _slot: Slot, _operation: Maintenance) -> Option<RepeatableMaintenance> {
        None
    }
    /// Creates a directory for the files of a background beside the root of the target, which the
    /// worker's user owns, and returns its path. Fails if the abilities of the target exclude such
    /// a directory.
    fn make_own_directory(
        &mut self,
        slot: Slot,
        own: OwnDirectory,
    ) -> Result<PathBuf, TestbedError>;
    /// Removes the directory that [`Testbed::make_own_directory`] created, with its files. Does
    /// nothing if there is none.
    fn remove_own_directory(&mut self, slot: Slot) -> Result<(), TestbedError>;
    /// Empties the caches of the kernel for all targets, without a remount. Dirty pages stay.
    fn drop_caches(&mut self) -> Result<(), TestbedError>;
    /// Writes everything out and waits until the target's device is idle, at most ten seconds and
    /// no longer than `left`. Does nothing if `left` is zero.
    fn quiesce(&mut self, slot: Slot, left: Duration) -> Result<Quiet, TestbedError>;
    /// Writes out the target's dirty data and does nothing else. It is cheap enough to be called
    /// after each sample.
    fn sync(&mut self, slot: Slot) -> Result<(), TestbedError>;
    /// Returns the present counters of the target's own device. Returns `None` if they are unknown.
    /// The kernel counts the flushes of a partition only for its whole disk.
    fn counters(&self, slot: Slot) -> Option<Counters>;
    /// Returns major and minor number of the disk that serves the target's requests. Returns `None`
    /// if it is unknown.
    fn device_number(&self, _slot: Slot) -> Option<(u32, u32)> {
        None
    }
    /// Returns the remote procedure calls of the target's NFS client since it was mounted. Returns
    /// `None` for a target that is not mounted over NFS.
    fn rpcs(&self, _slot: Slot) -> Option<Rpcs> {
        None
    }
    /// Returns how the target's FUSE server failed: its end and its last messages. Returns `None`
    /// if it runs, and for a target without one. If a call found no connection to it
    /// (`is_disconnected`), its end is waited for.
    fn server_failure(&mut self, _slot: Slot, _is_disconnected: bool) -> Option<String> {
        None
    }
    /// Returns the space of the file system that holds the sparse image of the target, which files
    /// of the target could fill. Returns `None` for a target without one.
    fn space_beneath(&self, _slot: Slot) -> Option<SpaceBeneath> {
        None
    }
    /// Returns the bytes that the worker's user can still fill, if the file system is the target's
    /// own.
    fn free_bytes(&self, slot: Slot) -> Option<u64>;
    /// Starts to watch for interference with a measurement on the target. Returns `None` for a
    /// simulated target. I/O on the devices of all slots counts as the run's own.
    fn watch(&self, slot: Slot) -> Option<Watch>;
    /// Starts to read the counters of the target's device repeatedly. Returns `None` if it has no
    /// device.
    fn device_timeline(&self, slot: Slot) -> Option<DeviceTimeline>;
    /// Returns the file to which a worker of the target writes itself to be counted. It belongs to
    /// a cgroup that limits all workers of the target together to `most` processes. Returns `None`
    /// if no cgroup is available; each worker then has a limit of its own.
    fn count_processes(&mut self, slot: Slot, most: u64) -> Option<PathBuf>;
    /// Returns the files to which workers write themselves so that a background is limited. Empty
    /// for a simulated target.
    fn limit_background(
        &mut self,
        slot: Slot,
        limit: BackgroundLimit,
    ) -> Result<LimitLists, TestbedError>;
    /// Removes the limits of the last background, which would change what is measured without them.
    fn end_limits(&mut self) -> Result<(), TestbedError>;
    /// Tears down the target of that slot, and undoes the changes of its controls that no other
    /// slot still needs. Does nothing for an empty slot.
    fn release(&mut self, slot: Slot) -> Result<(), TestbedError>;
    /// Releases every slot, even if one of them fails. Returns the first error.
    fn release_all(&mut self) -> Result<(), TestbedError>;
    /// Tears down everything. Idempotent.
    fn close(&mut self);
}

/// The lists of processes of the cgroups with which a background is limited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitLists {
    /// Those of the background.
    pub background: Vec<PathBuf>,
    /// Those of the case beside it, which has a cgroup of its own if shares are compared.
    pub case: Vec<PathBuf>,
}

// Optional targets. If this machine cannot make one, fsb still measures the others.

/// A setup without the optional targets that cannot be made.
#[derive(Debug, Clone)]
pub struct Available {
    /// The setup without those optional targets that cannot be made.
    pub setup: Setup,
    /// The reason for each target that cannot be made, by its name.
    pub unavailable: BTreeMap<String, TestbedError>,
}

/// Calls `check` on each optional target alone, to find out whether this machine can make it. A
/// target with an invalid request stays in the setup. If no target remains, returns the first
/// reason.
pub fn available_targets(
    setup: &Setup,
    mut check: impl FnMut(&Setup) -> Result<(), TestbedError>,
) -> Result<Available, TestbedError> {
    Available {
        setup: setup.clone(),
        unavailable: BTreeMap::new(),
    }
    .and(&mut check)
}

impl Available {
    /// Also removes each remaining optional target that fails `check`.
    pub fn and(
        mut self,
        mut check: impl FnMut(&Setup) -> Result<(), TestbedError>,
    ) -> Result<Self, TestbedError> {
        let mut first = None;
        for target in self.setup.targets.iter().filter(|target| target.optional) {
            let alone = Setup {
                targets: vec![target.clone()],
                ..self.setup.clone()
            };
            if let Err(error) = check(&alone)
                && error.kind == Kind::Machine
            {
                first.get_or_insert_with(|| error.clone());
                self.unavailable.insert(target.name.clone(), error);
            }
        }
        self.setup
            .targets
            .retain(|target| !self.unavailable.contains_key(&target.name));
        match first {
            Some(first) if self.setup.targets.is_empty() => Err(first),
            _ => Ok(self),
        }
    }

    /// Returns a warning for each omitted target.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> {
        self.unavailable
            .iter()
            .map(|(name, error)| (name.clone(), error.to_string()))
            .map(|(target, reason)| Warning::TargetUnavailable { target, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(optional: &[&str]) -> Setup {
        let mut setup = crate::vm::setup_of(&["ext4", "xfs", "jfs"]);
        for target in &mut setup.targets {
            target.optional = optional.contains(&target.name.as_str());
        }
        setup
    }

    /// Refuses the target of that name, which is alone in the setup.
    fn without(
        name: &'static str,
        error: TestbedError,
    ) -> impl Fn(&Setup) -> Result<(), TestbedError> {
        move |alone| {
            assert_eq!(alone.targets.len(), 1);
            if alone.targets[0].name == name {
                Err(error.clone())
            } else {
                Ok(())
            }
        }
    }

    #[test]
    fn the_remaining_targets_pass_every_check() {
        let machine = |why: &str| TestbedError::machine(why);
        let here =
            available_targets(&setup(&["ext4", "jfs"]), without("jfs", machine("no jfs"))).unwrap();
        let here = here.and(without("xfs", machine("is not asked"))).unwrap();
        let here = here.and(without("ext4", machine("no ext4"))).unwrap();
        let left: Vec<_> = here
            .setup
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        assert_eq!(left, ["xfs"]);
        let unavailable = |target: &str, reason: &str| Warning::TargetUnavailable {
            target: target.to_owned(),
            reason: reason.to_owned(),
        };
        let warnings: Vec<_> = here.warnings().collect();
        assert_eq!(
            warnings,
            [unavailable("ext4", "no ext4"), unavailable("jfs", "no jfs")]
        );
    }

    #[test]
    fn a_wrong_request_stays_in_and_a_run_of_nothing_has_a_reason() {
        let here = available_targets(
            &setup(&["jfs"]),
            without("jfs", TestbedError::request("wrong")),
        )
        .unwrap();
        assert_eq!((here.setup.targets.len(), here.unavailable.len()), (3, 0));
        let refused = |alone: &Setup| {
            Err(TestbedError::machine(format!(
                "no {}",
                alone.targets[0].name
            )))
        };
        let error = available_targets(&setup(&["xfs", "ext4", "jfs"]), refused).unwrap_err();
        assert_eq!(error.to_string(), "no ext4", "the first of the plan");
    }
}
