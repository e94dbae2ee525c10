//! The testbed of this machine: media, mounts and controls.

mod check;
mod devices;
mod directory;
mod file_system;
mod mounts;
mod quiet;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::observed::Rpcs;
use fsb_model::run::{ControlRecord, TargetRecord};
use fsb_model::{
    BackgroundLimit, FileSystemSpec, Geometry, Maintenance, OwnDirectory, Target, TargetKind,
    Warning,
};
use fsb_sys::cgroup::{self, Hierarchy, PROCESSES};
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, block, mountinfo};

use self::check::journals;
pub use self::check::{ONE_AT_A_TIME, behaves_as_large, side_by_side, slice_size};
pub(crate) use self::check::{check_cache_limits, check_same_device, check_sizes, media, naming};
use self::devices::DeviceControls;
pub(crate) use self::devices::of_directory as place_of_directory;
pub use self::directory::directory_record;
use self::directory::{ReadyDirectory, Surroundings};
use self::file_system::{ReadyFileSystem, journal_key};
use self::mounts::MountRoot;
use crate::control::memory_limit::MemoryHold;
use crate::control::{self, ActiveControls, ColdMethod, Held, PAGE_CACHE, Scope, TargetDevice};
use crate::fs::{self, Home, Journal, Null, Version};
use crate::fuse::{self, Findings, Probes};
use crate::ledger::{self, Action, EntryHandle, Ledger, Owner};
use crate::limit::{self, LimitedProcesses};
use crate::medium::{self, Divided, OpenMedium, SpaceBeneath};
use crate::privilege::worker_identity;
use crate::storage::Storage;
use crate::testbed::{
    Abilities, Available, ColdReach, Counters, LimitLists, Maintained, Opened, OpenedSlice,
    Provisioned, Quiet, RepeatableMaintenance, Setup, Slot, Testbed, available_targets,
};
use crate::watch::{self, DeviceTimeline, Watch};
use crate::{Progress, host};

/// Makes targets ready on this machine.
///
/// For file systems it must run in a process with its own mount namespace (the agent below
/// [`sandbox::launch`](fsb_sys::sandbox::launch)), because it mounts there. Targets on the null
/// file system change nothing, and directories need no root.
pub struct LocalTestbed {
    owner: Owner,
    ledger: Option<Ledger>,
    session: Option<LocalSession>,
    media: Media,
    controls: ActiveControls,
    mounts: Option<MountRoot>,
    slots: BTreeMap<Slot, OccupiedSlot>,
    device_controls: DeviceControls,
    /// Limits the last background that has limits, on that slot. There is one at a time, because
    /// the end of one switches controllers off that another one would need.
    limited: Option<(Slot, LimitedProcesses)>,
    /// Optional targets that this machine cannot make, with the reason.
    unavailable: BTreeMap<String, TestbedError>,
    /// The findings on the FUSE servers of targets.
    probed: Probes,
    /// The /proc and /sys outside this PID namespace, to observe other processes.
    outside: Roots,
    /// Keeps [`LocalTestbed::outside`] readable.
    _host_proc: Option<OwnedFd>,
    /// Whether this machine is a guest of fsb.
    in_guest: bool,
}

/// The settings that [`Testbed::open`] derived from the setup.
struct LocalSession {
    size: u64,
    user: (u32, u32),
    page_cache: String,
    controls: BTreeMap<String, String>,
    oldest: Option<Version>,
    /// All targets of the run.
    targets: Vec<Target>,
    /// See [`Setup::large_disk`].
    large_disk: BTreeMap<String, Geometry>,
    /// See [`Setup::like_disk`].
    like_disk: u64,
    seed: u64,
}

impl LocalTestbed {
    /// Returns a testbed whose undo entries belong to `owner`: a process that lives exactly as long
    /// as the run, as numbered in its own PID namespace. The coordinator passes itself.
    pub fn new(owner: Owner) -> LocalTestbed {
        LocalTestbed {
            owner,
            ledger: None,
            session: None,
            media: BTreeMap::new(),
            controls: ActiveControls::default(),
            mounts: None,
            slots: BTreeMap::new(),
            device_controls: DeviceControls::default(),
            limited: None,
            unavailable: BTreeMap::new(),
            probed: Probes::new(),
            outside: Roots::default(),
            _host_proc: None,
            in_guest: false,
        }
    }

    /// Allows the targets that are measured only in a guest of fsb.
    #[must_use]
    pub fn in_guest(mut self) -> LocalTestbed {
        self.in_guest = true;
        self
    }

    /// Gives it access to all processes of the machine through
    /// [`sandbox::host_proc`](fsb_sys::sandbox::host_proc).
    #[must_use]
    pub fn seeing(mut self, host_proc: Option<OwnedFd>) -> LocalTestbed {
        if let Some(proc) = &host_proc {
            self.outside = Roots::through(proc);
        }
        self._host_proc = host_proc;
        self
    }

    /// Returns whether a run of `setup` can leave changes that the kernel does not revert.
    pub fn may_leave(setup: &Setup) -> bool {
        check::touches_something(setup)
    }

    fn open_media(
        &mut self,
        setup: &Setup,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened, TestbedError> {
        let mut opened = Opened::default();
        let Some(ledger) = &self.ledger else {
            return Ok(opened);
        };
        for (text, mut request) in media(setup) {
            request.nodes = self.mounts.as_ref().map(MountRoot::nodes);
            request.outside = Some(&self.outside);
            let kind = medium::find(&request.medium.name)?;
            let Divided {
                slices,
                layout,
                record,
            } = if setup.slices > 1 || request.range.is_some() {
                kind.open_slices(&request, ledger, progress)?
            } else {
                let whole = kind.open(&request, ledger, progress)?;
                Divided {
                    record: whole.record().clone(),
                    slices: vec![whole],
                    layout: Vec::new(),
                }
            };
            if slices.iter().any(|slice| slice.can_discard()) && !request.keep_discard {
                opened.warnings.push(Warning::DiscardKeptOut {
                    medium: text.clone(),
                });
            }
            opened.media.insert(text.clone(), record);
            let devices = slices.iter().zip(layout);
            let devices = devices.map(|(slice, place)| OpenedSlice {
                device: slice.shown().to_owned(),
                place,
            });
            let devices: Vec<_> = devices.collect();
            if !devices.is_empty() {
                opened.slices.insert(text.clone(), devices);
            }
            self.media.insert(text, slices);
        }
        for (key, mut request) in journals(setup) {
            request.nodes = self.mounts.as_ref().map(MountRoot::nodes);
            request.outside = Some(&self.outside);
            let journal = medium::find(&request.medium.name)?.open(&request, ledger, progress)?;
            let mut record = journal.record().clone();
            record.summary = format!("journal on {}", record.summary);
            opened.media.insert(key.clone(), record);
            self.media.insert(key, vec![journal]);
        }
        Ok(opened)
    }

    /// Sets the controls of the target, and those of the run that it inherits, on the target's
    /// device and for its processes.
    fn set_target_controls(
        &mut self,
        slot: Slot,
        occupied: &mut OccupiedSlot,
        target: &Target,
    ) -> Result<(), TestbedError> {
        let requested = target.controls_over(&self.session()?.controls);
        let place = self.place_of(target, occupied.slice);
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        self.device_controls
            .set(slot, &mut occupied.controls, &requested, &place, ledger)
    }

    /// Returns the target's device: that of its slice of the medium, which is open by now.
    fn place_of(&self, target: &Target, slice: u32) -> TargetDevice {
        let medium = target
            .file_system()
            .filter(|spec| fs::of_target(spec).is_ok_and(|m| m.home() == Home::Device));
        let slices = medium.and_then(|spec| self.media.get(&spec.medium.to_string()));
        match slices.and_then(|slices| slices.get(slice as usize).zip(Some(slices.len() > 1))) {
            // Its neighbours on the disk belong to this run.
            Some((medium, true)) => TargetDevice {
                shared_with: None,
                ..devices::of_device(medium.device())
            },
            Some((medium, false)) => devices::of_device(medium.device()),
            None => devices::of_target(target),
        }
    }

    /// Tears the target down and restores its controls. Changes that cannot be restored stay in the
    /// ledger.
    fn vacate(&mut self, slot: Slot, mut occupied: OccupiedSlot) -> Result<(), TestbedError> {
        let taken_down = occupied.take_down(&mut self.media, self.ledger.as_ref());
        let Some(ledger) = &self.ledger else {
            return taken_down;
        };
        let mut failures = occupied.controls.restore(ledger);
        failures.extend(
            occupied
                .processes
                .take()
                .and_then(|count| count.remove(ledger).err())
                .map(|error| error.to_string()),
        );
        let limited = self.limited.take_if(|(of, _)| *of == slot);
        failures.extend(
            limited
                .and_then(|(_, limited)| limited.remove(ledger).err())
                .map(|error| error.to_string()),
        );
        failures.extend(self.device_controls.restore(slot, ledger));
        taken_down.and(match failures[..] {
            [] => Ok(()),
            ref failures => {
                Err(TestbedError::trial("a control was not restored").tried(failures.join("; ")))
            }
        })
    }

    fn occupied(&self, slot: Slot) -> Result<&OccupiedSlot, TestbedError> {
        self.slots.get(&slot).ok_or_else(|| nothing_on(slot))
    }

    fn session(&self) -> Result<&LocalSession, TestbedError> {
        self.session
            .as_ref()
            .ok_or_else(|| TestbedError::machine("the testbed is not open"))
    }

    fn provision_directory(
        &mut self,
        occupied: &mut OccupiedSlot,
        target: (&str, &Path),
    ) -> Result<Provisioned, TestbedError> {
        let session = self.session()?;
        let (user, page_cache) = (session.user, session.page_cache.clone());
        let ledger = self
            .ledger
            .as_ref()
            .ok_or_else(|| TestbedError::machine("the testbed is not open"))?;
        let (ready, provisioned) = ReadyDirectory::begin(
            target,
            user,
            &page_cache,
            Surroundings {
                ledger,
                mounts: self.mounts.as_mut(),
                outside: &self.outside,
                probed: &mut self.probed,
            },
        )?;
        occupied.state = SlotState::Directory(Box::new(ready));
        Ok(provisioned)
    }

    fn provision_file_system(
        &mut self,
        occupied: &mut OccupiedSlot,
        spec: &FileSystemSpec,
        name: &str,
    ) -> Result<Provisioned, TestbedError> {
        let session = self.session()?;
        let (size, user, page_cache) = (session.size, session.user, session.page_cache.clone());
        let (oldest, large) = (session.oldest, session.large_disk.get(name).cloned());
        let (like_disk, seed) = (session.like_disk, session.seed);
        let over = name_beneath(&session.targets, spec, name);
        let closed = || TestbedError::machine("the testbed is not open");
        let point = self.mounts.as_mut().ok_or_else(closed)?.point()?;
        let member = fs::of_target(spec)?;
        // The journal leaves the media meanwhile, because that of the target is borrowed from them.
        let key = spec.journal.as_ref().map(journal_key);
        let mut journal = key.as_ref().and_then(|key| self.media.remove(key));
        let medium =
            match member.home() {
                Home::Device => {
                    let (text, slice) = (spec.medium.to_string(), occupied.slice);
                    self.check_free(&text, slice)?;
                    Some(slice_of(&mut self.media, &text, slice).ok_or_else(|| {
                        TestbedError::machine(format!("no slice {slice} of {text}"))
                    })?)
                }
                Home::Memory | Home::Host | Home::Nowhere => None,
            };
        let ledger = self.ledger.as_ref().ok_or_else(closed)?;
        let request = file_system::FileSystemRequest {
            name,
            member,
            spec,
            point,
            size,
            user,
            page_cache: &page_cache,
            held: &occupied.controls.held,
            oldest,
            large,
            like_disk,
            seed,
            ledger,
        };
        let begun = ReadyFileSystem::begin(
            &request,
            medium,
            journal.as_mut().and_then(|journal| journal.first_mut()),
        );
        if let (Some(key), Some(mut journal)) = (key, journal) {
            if begun.is_err() {
                // The first error is the one that explains.
                journal
                    .iter_mut()
                    .for_each(|journal| drop(journal.take_back()));
            }
            self.media.insert(key, journal);
        }
        let (ready, mut provisioned) = begun?;
        self.restrict_server(name, &ready, &mut provisioned);
        provisioned.record.over = over;
        occupied.state = SlotState::FileSystem(Box::new(ready));
        Ok(provisioned)
    }

    /// Takes from a target what its FUSE server does not do, as from a directory.
    fn restrict_server(
        &mut self,
        name: &str,
        ready: &ReadyFileSystem,
        provisioned: &mut Provisioned,
    ) {
        let Some(mount) = mountinfo::at(ready.point()) else {
            return;
        };
        let device = ready.device_directory();
        let storage = Storage::beneath_path(ready.point(), device, &self.outside);
        let elsewhere = if ready.is_of_host() {
            storage.elsewhere()
        } else {
            storage.elsewhere_beneath()
        };
        if let Some(reason) = elsewhere {
            storage.restrict_server(&Findings::unknown(reason), provisioned);
        } else if fuse::is_fuse(&mount) {
            let findings = self.probed.entry(name.to_owned()).or_insert_with(|| {
                let (store, roots) = (storage.store(), &self.outside);
                fuse::probe_mount(ready.root(), &mount, store, roots, &mut |_| {})
            });
            storage.restrict_server(findings, provisioned);
        }
    }

    /// Fails if another slot uses that slice of the medium.
    fn check_free(&self, text: &str, slice: u32) -> Result<(), TestbedError> {
        match self
            .slots
            .iter()
            .find(|(_, other)| other.medium() == Some(text) && other.slice == slice)
        {
            Some((slot, _)) => {
                let message =
                    format!("slice {slice} of {text} belongs to the target of slot {slot}");
                Err(TestbedError::machine(message)
                    .field("slice", slice)
                    .field("slot", *slot))
            }
            None => Ok(()),
        }
    }
}

/// Returns the name of the target that is beneath the target `name`, with the same controls.
fn name_beneath(targets: &[Target], spec: &FileSystemSpec, name: &str) -> Option<String> {
    let beneath = fs::target_beneath(spec)?;
    let own = targets.iter().find(|target| target.name == name)?;
    let found = targets.iter().find(|target| {
        target.file_system() == Some(&beneath)
            && target.controls == own.controls
            && target.kernel == own.kernel
    })?;
    Some(found.name.clone())
}

fn nothing_on(slot: Slot) -> TestbedError {
    TestbedError::machine(format!("no target is provisioned in slot {slot}"))
}

/// Returns the setup without optional targets that this machine cannot make.
fn available(setup: &Setup, in_guest: bool) -> Result<Available, TestbedError> {
    available_targets(setup, |alone| check::check(alone, in_guest).map(drop))
}

impl Testbed for LocalTestbed {
    fn check(&mut self, setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
        let available = available(setup, self.in_guest)?;
        let mut warnings = check::check(&available.setup, self.in_guest)?;
        warnings.extend(available.warnings());
        // Fails before the run creates a directory of results, which would stay empty.
        if check::touches_something(&available.setup) {
            ledger::default_directory()?;
        }
        Ok(warnings)
    }

    fn open(
        &mut self,
        setup: &Setup,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened, TestbedError> {
        self.close();
        let Available { setup, unavailable } = available(setup, self.in_guest)?;
        self.unavailable = unavailable;
        let setup = &setup;
        let page_cache = control::REGISTRY
            .iter()
            .find(|member| member.name() == PAGE_CACHE)
            .map_or_else(String::new, |member| {
                control::value_of(*member, &setup.controls)
            });
        let (user, controls) = (worker_identity(&setup.identity)?, setup.controls.clone());
        // Without [`Setup::oldest_kernel`], the running kernel mounts, which may be older than the
        // tools.
        let release = setup
            .oldest_kernel
            .clone()
            .or_else(|| Roots::default().proc_text("sys/kernel/osrelease"));
        let oldest = release.and_then(|release| Version::find(&release));
        self.session = Some(LocalSession {
            size: setup.size,
            user,
            page_cache,
            controls,
            oldest,
            targets: setup.targets.clone(),
            large_disk: setup.large_disk.clone(),
            like_disk: setup.like_disk,
            seed: setup.seed,
        });
        if !check::touches_something(setup) {
            return Ok(Opened {
                host: host::manifest(),
                controls: not_set(&setup.controls),
                ..Opened::default()
            });
        }
        limit::check(setup, &Roots::default())?;
        let ledger = self.ledger.insert(Ledger::open(
            &ledger::default_directory()?,
            self.owner,
            control::RULES,
        )?);
        // Memory before media, because an image in memory needs backed memory.
        self.controls.patience = setup.patience.map(Duration::from_secs_f64);
        self.controls.memory_needed = setup.memory_needed;
        let set = self.controls.set_all(
            Scope::Run,
            &setup.controls,
            &TargetDevice::default(),
            ledger,
            progress,
        );
        let result = set.and_then(|()| {
            self.mounts = MountRoot::make_if_needed(setup)?;
            self.open_media(setup, progress)
        });
        match result {
            Ok(mut opened) => {
                opened.controls = self.controls.records.clone();
                opened.memory = self.controls.memory;
                opened
                    .warnings
                    .splice(0..0, self.controls.warnings.iter().cloned());
                opened.host = host::manifest();
                Ok(opened)
            }
            Err(error) => {
                self.close();
                Err(error)
            }
        }
    }

    fn provision(
        &mut self,
        slot: Slot,
        slice: u32,
        target: &Target,
    ) -> Result<Provisioned, TestbedError> {
        self.release(slot)?;
        if let Some(why) = self.unavailable.get(&target.name) {
            return Err(why.clone());
        }
        let mut occupied = OccupiedSlot::new(slice);
        let provisioned = match &target.kind {
            TargetKind::FileSystem(spec) if fs::of_target(spec)?.home() == Home::Nowhere => {
                let mut provisioned = provision(target, spec)?;
                provisioned.record.controls = not_set(&target.controls);
                occupied.state = SlotState::Null;
                self.slots.insert(slot, occupied);
                return Ok(provisioned);
            }
            TargetKind::FileSystem(spec) => self
                .set_target_controls(slot, &mut occupied, target)
                .and_then(|()| self.provision_file_system(&mut occupied, spec, &target.name)),
            TargetKind::Directory(path) => self
                .set_target_controls(slot, &mut occupied, target)
                .and_then(|()| self.provision_directory(&mut occupied, (&target.name, path))),
        };
        match provisioned {
            Ok(mut provisioned) => {
                provisioned.record.controls = occupied.controls.records.clone();
                provisioned.held = occupied.controls.held.clone();
                provisioned
                    .warnings
                    .extend(occupied.controls.warnings.iter().cloned());
                let device = occupied.place().and_then(|(_, device)| device);
                if let Some(why) =
                    device.and_then(|device| watch::blind_to_others(&self.outside, device))
                {
                    provisioned
                        .record
                        .notes
                        .push(format!("fsb cannot watch other load on its disk: {why}"));
                }
                self.slots.insert(slot, occupied);
                Ok(provisioned)
            }
            Err(error) => {
                // The first error is the one that explains.
                let _ = self.vacate(slot, occupied);
                Err(error)
            }
        }
    }

    fn make_cold(&mut self, slot: Slot, reach: ColdReach) -> Result<(), TestbedError> {
        let occupied = self.slots.get_mut(&slot).ok_or_else(|| nothing_on(slot))?;
        occupied.make_cold(&mut self.media, reach)
    }

    fn set_sealed(&mut self, slot: Slot, sealed: bool) -> Result<(), TestbedError> {
        match self
            .slots
            .get_mut(&slot)
            .map(|occupied| &mut occupied.state)
        {
            Some(SlotState::FileSystem(ready)) => ready.set_sealed(sealed),
            Some(SlotState::None | SlotState::Null | SlotState::Directory(_)) => Ok(()),
            None => Err(nothing_on(slot)),
        }
    }

    fn maintain(
        &mut self,
        slot: Slot,
        operation: Maintenance,
    ) -> Result<Option<Maintained>, TestbedError> {
        let occupied = self.slots.get_mut(&slot).ok_or_else(|| nothing_on(slot))?;
        occupied.maintain(&mut self.media, operation)
    }

    fn repeatable(&self, slot: Slot, operation: Maintenance) -> Option<RepeatableMaintenance> {
        self.slots.get(&slot)?.repeatable(operation)
    }

    fn make_own_directory(
        &mut self,
        slot: Slot,
        own: OwnDirectory,
    ) -> Result<PathBuf, TestbedError> {
        self.slots
            .get_mut(&slot)
            .ok_or_else(|| nothing_on(slot))?
            .file_system()?
            .make_own_directory(own)
    }

    fn remove_own_directory(&mut self, slot: Slot) -> Result<(), TestbedError> {
        self.slots
            .get_mut(&slot)
            .ok_or_else(|| nothing_on(slot))?
            .file_system()?
            .remove_own_directory()
    }

    fn drop_caches(&mut self) -> Result<(), TestbedError> {
        quiet::drop_caches(&Roots::default())
    }

    fn quiesce(&mut self, slot: Slot, left: Duration) -> Result<Quiet, TestbedError> {
        self.occupied(slot)?.quiesce(left)
    }

    fn sync(&mut self, slot: Slot) -> Result<(), TestbedError> {
        self.occupied(slot)?.sync()
    }

    fn counters(&self, slot: Slot) -> Option<Counters> {
        let device = self.slots.get(&slot)?.place()?.1?;
        let activity = block::activity(device)?;
        let disk = block::whole_disk(device);
        Some(Counters {
            read_bytes: activity.read_bytes,
            write_bytes: activity.write_bytes,
            // The kernel counts flushes only for whole disks. Those of a partition are always 0.
            flushes: if disk == device {
                activity.flushes
            } else {
                block::activity(&disk)?.flushes
            },
            cpu_seconds: quiet::busy_cpu_seconds(&Roots::default())?,
            occupied_bytes: self.slots.get(&slot)?.occupied(&self.media).unwrap_or(0),
            server: self.slots.get(&slot)?.server_use(),
        })
    }

    fn device_number(&self, slot: Slot) -> Option<(u32, u32)> {
        let device = self.slots.get(&slot)?.place()?.1?;
        block::number_in(&block::whole_disk(device)).map(|number| (number.0, number.1))
    }

    fn rpcs(&self, slot: Slot) -> Option<Rpcs> {
        self.slots.get(&slot)?.rpcs()
    }

    fn server_failure(&mut self, slot: Slot, is_disconnected: bool) -> Option<String> {
        self.slots.get_mut(&slot)?.server_failure(is_disconnected)
    }

    fn space_beneath(&self, slot: Slot) -> Option<SpaceBeneath> {
        self.slots.get(&slot)?.space_beneath(&self.media)
    }

    fn free_bytes(&self, slot: Slot) -> Option<u64> {
        self.slots.get(&slot)?.free_bytes()
    }

    fn watch(&self, slot: Slot) -> Option<Watch> {
        let (_, device) = self.slots.get(&slot)?.place()?;
        let others = self.slots.iter().filter(|(other, _)| **other != slot);
        let neighbours = others.filter_map(|(_, other)| Some(other.place()?.1?.to_owned()));
        // The journal of the target is its own.
        let journals = self
            .slots
            .values()
            .filter_map(OccupiedSlot::journal_directory);
        let neighbours: Vec<PathBuf> = neighbours.chain(journals).collect();
        let coordinator = self.owner.pid;
        Some(Watch::begin(&watch::Watched {
            roots: &self.outside,
            coordinator,
            device,
            neighbours: &neighbours,
        }))
    }

    fn device_timeline(&self, slot: Slot) -> Option<DeviceTimeline> {
        let occupied = self.slots.get(&slot)?;
        DeviceTimeline::begin(occupied.place()?.1?, occupied.journal())
    }

    fn count_processes(&mut self, slot: Slot, most: u64) -> Option<PathBuf> {
        let (occupied, ledger) = (self.slots.get_mut(&slot)?, self.ledger.as_ref()?);
        if let Some(MemoryHold::Cgroup(memory)) = &occupied.controls.held.memory
            && memory.version == cgroup::Version::V2
        {
            // A process has one cgroup of version 2, which for workers is that of the memory limit.
            let _ = cgroup::write(&memory.path.join(LIMIT), &most.to_string());
            return None;
        }
        if occupied.processes.is_none() {
            occupied.processes = ProcessCount::make(ledger);
        }
        occupied.processes.as_ref()?.limit(most)
    }

    fn limit_background(
        &mut self,
        slot: Slot,
        limit: BackgroundLimit,
    ) -> Result<LimitLists, TestbedError> {
        let (Some(occupied), Some(ledger)) = (self.slots.get(&slot), &self.ledger) else {
            return Ok(LimitLists::default());
        };
        let Some((_, device)) = occupied.place() else {
            return Ok(LimitLists::default());
        };
        if let Some((_, old)) = self
            .limited
            .take_if(|(of, limited)| *of != slot || limited.limit() != limit)
        {
            old.remove(ledger)?;
        }
        let limited = match self.limited.take() {
            Some((_, limited)) => limited,
            None => LimitedProcesses::make(limit, device, &Roots::default(), ledger)?,
        };
        Ok(self.limited.insert((slot, limited)).1.lists())
    }

    fn end_limits(&mut self) -> Result<(), TestbedError> {
        match (self.limited.take(), &self.ledger) {
            (Some((_, limited)), Some(ledger)) => limited.remove(ledger),
            _ => Ok(()),
        }
    }

    fn release(&mut self, slot: Slot) -> Result<(), TestbedError> {
        self.slots
            .remove(&slot)
            .map_or(Ok(()), |occupied| self.vacate(slot, occupied))
    }

    fn release_all(&mut self) -> Result<(), TestbedError> {
        let mut answer = Ok(());
        while let Some((slot, occupied)) = self.slots.pop_first() {
            answer = answer.and(self.vacate(slot, occupied));
        }
        answer
    }

    /// Releases everything. Changes that cannot be undone here stay in the ledger, and the next run
    /// or `fsb clean` reports them.
    fn close(&mut self) {
        let _ = self.release_all();
        if let Some(ledger) = self.ledger.take() {
            for mut slice in std::mem::take(&mut self.media).into_values().flatten() {
                slice.close(&ledger);
            }
            self.controls.restore(&ledger);
        }
        self.mounts = None;
        self.session = None;
    }
}

impl Drop for LocalTestbed {
    fn drop(&mut self) {
        self.close();
    }
}

// The slot of a target: a target that is ready, on its slice of its medium, in a directory or on
// the null file system, and the cgroup that counts the processes of its programs.

/// The open media by their text, each with its slices.
type Media = BTreeMap<String, Vec<Box<dyn OpenMedium>>>;

/// A target that is ready or being prepared.
struct OccupiedSlot {
    pub state: SlotState,
    /// The index of its slice of the medium.
    pub slice: u32,
    /// The controls that are set for the processes that measure it. Those on its device are in
    /// [`devices`].
    pub controls: ActiveControls,
    /// Counts the processes of its workers' programs. `None` if none ran or no cgroup is available.
    pub processes: Option<ProcessCount>,
}

/// The state of the target.
enum SlotState {
    /// The target is not ready yet.
    None,
    Null,
    FileSystem(Box<ReadyFileSystem>),
    Directory(Box<ReadyDirectory>),
}

impl OccupiedSlot {
    pub fn new(slice: u32) -> OccupiedSlot {
        OccupiedSlot {
            state: SlotState::None,
            slice,
            controls: ActiveControls::default(),
            processes: None,
        }
    }

    /// Returns the text of its medium.
    pub fn medium(&self) -> Option<&str> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.medium(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    /// Returns the bytes that the sparse image of its medium occupies.
    pub fn occupied(&self, media: &Media) -> Option<u64> {
        self.open_medium(media)?.occupied()
    }

    /// Returns the space beneath the sparse image of its medium.
    pub fn space_beneath(&self, media: &Media) -> Option<SpaceBeneath> {
        self.open_medium(media)?.space_beneath()
    }

    fn open_medium<'m>(&self, media: &'m Media) -> Option<&'m dyn OpenMedium> {
        Some(
            media
                .get(self.medium()?)?
                .get(self.slice as usize)?
                .as_ref(),
        )
    }

    /// Returns the target's root and its device's directory below /sys.
    pub fn place(&self) -> Option<(&Path, Option<&Path>)> {
        match &self.state {
            SlotState::None | SlotState::Null => None,
            SlotState::FileSystem(ready) => Some((ready.root(), ready.device_directory())),
            SlotState::Directory(ready) => Some((ready.root(), ready.device_directory())),
        }
    }

    /// Returns the directory below /sys of the device of its external journal.
    pub fn journal_directory(&self) -> Option<PathBuf> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.journal_directory(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    /// Returns a counter of the passes over the file system's journal.
    pub fn journal(&self) -> Option<Journal> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.journal(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    /// Returns the bytes that can still be filled, if the target has a file system of its own.
    pub fn free_bytes(&self) -> Option<u64> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.free_bytes(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    /// Returns the remote procedure calls of its NFS client.
    pub fn rpcs(&self) -> Option<Rpcs> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.rpcs(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    /// Returns the use of its FUSE server.
    pub fn server_use(&self) -> Option<fs::ServerUse> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.server_use(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    /// Returns how its FUSE server failed.
    pub fn server_failure(&mut self, is_disconnected: bool) -> Option<String> {
        match &mut self.state {
            SlotState::FileSystem(ready) => ready.server_failure(is_disconnected),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
    }

    pub fn make_cold(&mut self, media: &mut Media, reach: ColdReach) -> Result<(), TestbedError> {
        match &mut self.state {
            SlotState::None | SlotState::Null => Ok(()),
            SlotState::Directory(ready) => ready.make_cold(),
            SlotState::FileSystem(ready) => {
                let medium = ready
                    .medium()
                    .and_then(|text| slice_of(media, text, self.slice));
                ready.make_cold(medium, reach)
            }
        }
    }

    pub fn maintain(
        &mut self,
        media: &mut Media,
        operation: Maintenance,
    ) -> Result<Option<Maintained>, TestbedError> {
        match &mut self.state {
            SlotState::None | SlotState::Null | SlotState::Directory(_) => {
                Err(TestbedError::trial(format!(
                    "{} needs a file system of this run",
                    operation.name()
                )))
            }
            SlotState::FileSystem(ready) => {
                let medium = ready
                    .medium()
                    .and_then(|text| slice_of(media, text, self.slice));
                ready.maintain(operation, medium)
            }
        }
    }

    /// Returns the file system that this run made.
    fn file_system(&mut self) -> Result<&mut ReadyFileSystem, TestbedError> {
        match &mut self.state {
            SlotState::None | SlotState::Null | SlotState::Directory(_) => {
                Err(TestbedError::trial(
                    "only a file system of this run has subvolumes and quotas for a background",
                ))
            }
            SlotState::FileSystem(ready) => Ok(ready),
        }
    }

    pub fn repeatable(&self, operation: Maintenance) -> Option<RepeatableMaintenance> {
        match &self.state {
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
            SlotState::FileSystem(ready) => ready.repeatable(operation),
        }
    }

    pub fn quiesce(&self, left: Duration) -> Result<Quiet, TestbedError> {
        match &self.state {
            SlotState::None | SlotState::Null => Ok(Quiet {
                waited_seconds: 0.0,
                idle: true,
            }),
            // One syncfs may take seconds.
            _ if left.is_zero() => Ok(Quiet {
                waited_seconds: 0.0,
                idle: false,
            }),
            SlotState::FileSystem(ready) => ready.quiesce(left),
            SlotState::Directory(ready) => {
                quiet::quiesce(ready.root(), ready.device_directory(), left)
            }
        }
    }

    /// Writes out the target's dirty data.
    pub fn sync(&self) -> Result<(), TestbedError> {
        match &self.state {
            SlotState::None | SlotState::Null => Ok(()),
            SlotState::FileSystem(ready) => ready.sync(),
            SlotState::Directory(ready) => quiet::sync(ready.root()),
        }
    }

    /// Tears down the target alone.
    pub fn take_down(
        &mut self,
        media: &mut Media,
        ledger: Option<&Ledger>,
    ) -> Result<(), TestbedError> {
        match std::mem::replace(&mut self.state, SlotState::None) {
            SlotState::None | SlotState::Null => Ok(()),
            SlotState::Directory(ready) => ledger.map_or(Ok(()), |ledger| ready.end(ledger)),
            SlotState::FileSystem(ready) => {
                let journal = ready.journal_medium().map(str::to_owned);
                let medium = ready
                    .medium()
                    .and_then(|text| slice_of(media, text, self.slice));
                let ended = ready.end(medium, ledger);
                let journal = journal.and_then(|key| slice_of(media, &key, 0));
                ended.and(journal.map_or(Ok(()), OpenMedium::take_back))
            }
        }
    }
}

/// Returns that slice of the medium. Returns `None` if the medium or the slice does not exist.
fn slice_of<'m>(media: &'m mut Media, text: &str, slice: u32) -> Option<&'m mut dyn OpenMedium> {
    let slice = media.get_mut(text)?.get_mut(slice as usize)?;
    Some(slice.as_mut())
}

/// The file of a cgroup that holds its limit.
const LIMIT: &str = "pids.max";

/// A cgroup of the pids controller, and the ledger entry that removes it.
struct ProcessCount {
    path: PathBuf,
    entry: EntryHandle,
}

impl ProcessCount {
    /// Creates one. Returns `None` without a pids controller, or if the unified hierarchy does not
    /// delegate it already.
    pub fn make(ledger: &Ledger) -> Option<ProcessCount> {
        let hierarchy = Hierarchy::find(&Roots::default(), PROCESSES)
            .ok()
            .filter(|found| found.enable.is_none())?;
        let path = cgroup::unique_path(&hierarchy.parent, ledger.owner().pid);
        let entry = ledger
            .record(Action::RemoveCgroup { path: path.clone() })
            .ok()?;
        let count = ProcessCount { path, entry };
        if std::fs::create_dir(&count.path).is_ok() {
            return Some(count);
        }
        let _ = count.remove(ledger);
        None
    }

    /// Allows `most` processes. Returns the file to which a process writes itself to be counted.
    /// Returns `None` if the kernel refused the limit.
    pub fn limit(&self, most: u64) -> Option<PathBuf> {
        cgroup::write(&self.path.join(LIMIT), &most.to_string()).ok()?;
        Some(self.path.join("cgroup.procs"))
    }

    /// Kills the processes in the cgroup and removes it.
    pub fn remove(self, ledger: &Ledger) -> Result<(), TestbedError> {
        ledger.undo(self.entry).map(drop)
    }
}

/// Returns the simulated target, or the failure that its options request.
fn provision(target: &Target, spec: &FileSystemSpec) -> Result<Provisioned, TestbedError> {
    let options = Null::options(spec)?;
    if let Some(failure) = options.failure {
        return Err(failure.error());
    }
    let record = TargetRecord {
        requested_options: spec.options.clone(),
        risks: fs::requested_risks(spec),
        notes: vec!["null: a simulation with made-up times".to_owned()],
        ..Default::default()
    };
    Ok(Provisioned {
        record,
        root: PathBuf::from("/nonexistent/fsb-null").join(target.name.replace('/', "_")),
        client_roots: Vec::new(),
        abilities: Abilities {
            cold: Some(ColdMethod::Remount),
            kernel_caches_only: true,
            durable: true,
            fake: Some(options.fake),
            ..Abilities::default()
        },
        free_bytes: u64::MAX,
        free_inodes: u64::MAX,
        held: Held::default(),
        device: None,
        warnings: Vec::new(),
    })
}

/// Records each requested control as not set, because the null file system is a simulation.
fn not_set(requested: &BTreeMap<String, String>) -> BTreeMap<String, ControlRecord> {
    let mut records = BTreeMap::new();
    for (name, value) in requested {
        let record = ControlRecord {
            requested: value.clone(),
            observed: "not set: the null file system is a simulation".to_owned(),
            effective: false,
        };
        records.insert(name.clone(), record);
    }
    records
}
