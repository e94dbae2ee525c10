//! The slot of a target: a target that is ready, on its slice of its medium, in a directory or on the null file system,
//! and the cgroup that counts the processes of its programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::observed::Rpcs;
use fsb_model::run::{ControlRecord, TargetRecord};
use fsb_model::{FileSystemSpec, Maintenance, Target};
use fsb_sys::Roots;
use fsb_sys::cgroup::{self, Hierarchy, PROCESSES};
use fsb_sys::error::TestbedError;

use super::directory::ReadyDirectory;
use super::file_system::ReadyFileSystem;
use super::quiet;
use crate::control::{ActiveControls, Held};
use crate::fs::{self, Journal, Null};
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::medium::OpenMedium;
use crate::testbed::{Abilities, ColdMethod, ColdReach, Maintained, Provisioned, Quiet};

/// The open media by their text, each with its slices.
pub(super) type Media = BTreeMap<String, Vec<Box<dyn OpenMedium>>>;

/// A target that is ready or being prepared.
pub(super) struct OccupiedSlot {
    pub state: SlotState,
    /// The index of its slice of the medium.
    pub slice: u32,
    /// The controls that are set for the processes that measure it. Those on its device are in
    /// [`super::devices`].
    pub controls: ActiveControls,
    /// Counts the processes of its workers' programs. `None` if none ran or no cgroup is available.
    pub processes: Option<ProcessCount>,
}

/// The state of the target.
pub(super) enum SlotState {
    /// It is not ready yet.
    None,
    Null,
    FileSystem(Box<ReadyFileSystem>),
    Directory(Box<ReadyDirectory>),
}

impl OccupiedSlot {
    pub fn new(slice: u32) -> OccupiedSlot {
        OccupiedSlot { state: SlotState::None, slice, controls: ActiveControls::default(), processes: None }
    }

    /// Returns the text of its medium.
    pub fn medium(&self) -> Option<&str> {
        match &self.state {
            SlotState::FileSystem(ready) => ready.medium(),
            SlotState::None | SlotState::Null | SlotState::Directory(_) => None,
        }
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

    pub fn make_cold(&mut self, media: &mut Media, reach: ColdReach) -> Result<(), TestbedError> {
        match &mut self.state {
            SlotState::None | SlotState::Null => Ok(()),
            SlotState::Directory(ready) => ready.make_cold(),
            SlotState::FileSystem(ready) => {
                let medium = ready.medium().and_then(|text| slice_of(media, text, self.slice));
                ready.make_cold(medium, reach)
            }
        }
    }

    pub fn maintain(&mut self, media: &mut Media, operation: Maintenance) -> Result<Option<Maintained>, TestbedError> {
        match &mut self.state {
            SlotState::None | SlotState::Null | SlotState::Directory(_) => {
                Err(TestbedError::trial(format!("{} needs a file system of this run", operation.name())))
            }
            SlotState::FileSystem(ready) => {
                let medium = ready.medium().and_then(|text| slice_of(media, text, self.slice));
                ready.maintain(operation, medium)
            }
        }
    }

    pub fn quiesce(&self, left: Duration) -> Result<Quiet, TestbedError> {
        match &self.state {
            SlotState::None | SlotState::Null => Ok(Quiet { waited_seconds: 0.0, settled: true }),
            // One syncfs may take seconds.
            _ if left.is_zero() => Ok(Quiet { waited_seconds: 0.0, settled: false }),
            SlotState::FileSystem(ready) => ready.quiesce(left),
            SlotState::Directory(ready) => quiet::quiesce(ready.root(), ready.device_directory(), left),
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
    pub fn take_down(&mut self, media: &mut Media, ledger: Option<&Ledger>) -> Result<(), TestbedError> {
        match std::mem::replace(&mut self.state, SlotState::None) {
            SlotState::None | SlotState::Null => Ok(()),
            SlotState::Directory(ready) => ledger.map_or(Ok(()), |ledger| ready.end(ledger)),
            SlotState::FileSystem(ready) => {
                let journal = ready.journal_medium().map(str::to_owned);
                let medium = ready.medium().and_then(|text| slice_of(media, text, self.slice));
                let ended = ready.end(medium);
                let journal = journal.and_then(|key| slice_of(media, &key, 0));
                ended.and(journal.map_or(Ok(()), OpenMedium::take_back))
            }
        }
    }
}

/// Returns that slice of the medium. Returns `None` if the medium or the slice does not exist.
pub(super) fn slice_of<'m>(media: &'m mut Media, text: &str, slice: u32) -> Option<&'m mut dyn OpenMedium> {
    let slice = media.get_mut(text)?.get_mut(slice as usize)?;
    Some(slice.as_mut())
}

/// The file of a cgroup that holds its limit.
pub(super) const LIMIT: &str = "pids.max";

/// A cgroup of the pids controller, and the ledger entry that removes it.
pub(super) struct ProcessCount {
    path: PathBuf,
    entry: EntryHandle,
}

impl ProcessCount {
    /// Creates one. Returns `None` without a pids controller, or if the unified hierarchy does not delegate it already.
    pub fn make(ledger: &Ledger) -> Option<ProcessCount> {
        let hierarchy = Hierarchy::find(&Roots::default(), PROCESSES).ok().filter(|found| found.enable.is_none())?;
        let path = cgroup::free_name(&hierarchy.parent, ledger.owner().pid);
        let entry = ledger.record(Action::RemoveCgroup { path: path.clone() }).ok()?;
        let count = ProcessCount { path, entry };
        if std::fs::create_dir(&count.path).is_ok() {
            return Some(count);
        }
        let _ = count.remove(ledger);
        None
    }

    /// Allows `most` processes. Returns the file to which a process writes itself to be counted. Returns `None` if the
    /// kernel refused the limit.
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
pub(super) fn provision(target: &Target, spec: &FileSystemSpec) -> Result<Provisioned, TestbedError> {
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
        abilities: Abilities {
            cold: Some(ColdMethod::Remount),
            kernel_caches_only: true,
            durable: true,
            counters: false,
            fake: Some(options.fake),
            why_not_cold: String::new(),
            why_not_durable: String::new(),
            no_maintenance: BTreeMap::new(),
        },
        free_bytes: u64::MAX,
        free_inodes: u64::MAX,
        held: Held::default(),
        device: None,
        warnings: Vec::new(),
    })
}

/// Records each requested control as not set, because the null file system is a simulation.
pub(super) fn not_set(requested: &BTreeMap<String, String>) -> BTreeMap<String, ControlRecord> {
    let record = |value: &String| ControlRecord {
        requested: value.clone(),
        observed: "not set: the null file system is a simulation".to_owned(),
        effective: false,
    };
    requested.iter().map(|(name, value)| (name.clone(), record(value))).collect()
}
