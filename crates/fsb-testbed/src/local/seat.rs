//! The seat of a target: a target that is ready, on its part of its medium, in a directory or on the null file system,
//! and the cgroup that counts the processes of its programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::run::{ControlRecord, TargetRecord};
use fsb_model::{FileSystemSpec, Target};
use fsb_sys::Roots;
use fsb_sys::cgroup::{self, Hierarchy, PROCESSES};
use fsb_sys::error::TestbedError;

use super::directory::DirectoryVisit;
use super::file_system::FileSystemVisit;
use super::quiet;
use crate::control::{ActiveControls, Held};
use crate::fs::{self, Journal, Null};
use crate::ledger::{Action, EntryHandle, Ledger};
use crate::medium::OpenMedium;
use crate::testbed::{Abilities, ColdMethod, ColdReach, Provisioned, Quiet};

/// The open media by their text, each by its parts.
pub(super) type Media = BTreeMap<String, Vec<Box<dyn OpenMedium>>>;

/// A target that is being made ready, or is.
pub(super) struct Seated {
    pub visit: Visit,
    /// Which part of its medium it has.
    pub part: u32,
    /// What was set for the processes that measure it; what was set on its device is [`super::visit_controls`]'s.
    pub controls: ActiveControls,
    /// Counts the processes of its workers' programs; absent where none ran or no cgroup can.
    pub processes: Option<ProcessCount>,
}

/// How the target is made ready.
pub(super) enum Visit {
    /// It is not, yet.
    None,
    Null,
    FileSystem(Box<FileSystemVisit>),
    Directory(Box<DirectoryVisit>),
}

impl Seated {
    pub fn new(part: u32) -> Seated {
        Seated { visit: Visit::None, part, controls: ActiveControls::default(), processes: None }
    }

    /// The text of the medium that it has a part of.
    pub fn medium(&self) -> Option<&str> {
        match &self.visit {
            Visit::FileSystem(visit) => visit.medium(),
            Visit::None | Visit::Null | Visit::Directory(_) => None,
        }
    }

    /// The target's root and its device's directory below /sys.
    pub fn place(&self) -> Option<(&Path, Option<&Path>)> {
        match &self.visit {
            Visit::None | Visit::Null => None,
            Visit::FileSystem(visit) => Some((visit.root(), visit.device_directory())),
            Visit::Directory(visit) => Some((visit.root(), visit.device_directory())),
        }
    }

    /// What tells how often the journal of the file system was written.
    pub fn journal(&self) -> Option<Journal> {
        match &self.visit {
            Visit::FileSystem(visit) => visit.journal(),
            Visit::None | Visit::Null | Visit::Directory(_) => None,
        }
    }

    /// Bytes that may still be filled of a file system of the target's own.
    pub fn free_bytes(&self) -> Option<u64> {
        match &self.visit {
            Visit::FileSystem(visit) => visit.free_bytes(),
            Visit::None | Visit::Null | Visit::Directory(_) => None,
        }
    }

    pub fn make_cold(&mut self, media: &mut Media, reach: ColdReach) -> Result<(), TestbedError> {
        match &mut self.visit {
            Visit::None | Visit::Null => Ok(()),
            Visit::Directory(visit) => visit.make_cold(),
            Visit::FileSystem(visit) => {
                let medium = visit.medium().and_then(|text| part_of(media, text, self.part));
                visit.make_cold(medium, reach)
            }
        }
    }

    pub fn quiesce(&self, left: Duration) -> Result<Quiet, TestbedError> {
        match &self.visit {
            Visit::None | Visit::Null => Ok(Quiet { waited_seconds: 0.0, settled: true }),
            // One syncfs may take seconds.
            _ if left.is_zero() => Ok(Quiet { waited_seconds: 0.0, settled: false }),
            Visit::FileSystem(visit) => visit.quiesce(left),
            Visit::Directory(visit) => quiet::quiesce(visit.root(), visit.device_directory(), left),
        }
    }

    /// Writes out what the target has to write.
    pub fn sync(&self) -> Result<(), TestbedError> {
        match &self.visit {
            Visit::None | Visit::Null => Ok(()),
            Visit::FileSystem(visit) => visit.sync(),
            Visit::Directory(visit) => quiet::sync(visit.root()),
        }
    }

    /// Takes down the target alone.
    pub fn take_down(&mut self, media: &mut Media, ledger: Option<&Ledger>) -> Result<(), TestbedError> {
        match std::mem::replace(&mut self.visit, Visit::None) {
            Visit::None | Visit::Null => Ok(()),
            Visit::Directory(visit) => ledger.map_or(Ok(()), |ledger| visit.end(ledger)),
            Visit::FileSystem(visit) => {
                let medium = visit.medium().and_then(|text| part_of(media, text, self.part));
                visit.end(medium)
            }
        }
    }
}

/// That part of the medium, where both are there.
pub(super) fn part_of<'m>(media: &'m mut Media, text: &str, part: u32) -> Option<&'m mut dyn OpenMedium> {
    let part = media.get_mut(text)?.get_mut(part as usize)?;
    Some(part.as_mut())
}

/// The file of a cgroup that holds its limit.
pub(super) const LIMIT: &str = "pids.max";

/// A cgroup of the pids controller, and the ledger entry that removes it.
pub(super) struct ProcessCount {
    path: PathBuf,
    entry: EntryHandle,
}

impl ProcessCount {
    /// Makes one. `None` without a pids controller, or if the unified hierarchy does not hand it down already.
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

    /// Allows `most` processes. The file to which a process writes itself to be counted; `None` where the kernel refused the
    /// limit.
    pub fn limit(&self, most: u64) -> Option<PathBuf> {
        cgroup::write(&self.path.join(LIMIT), &most.to_string()).ok()?;
        Some(self.path.join("cgroup.procs"))
    }

    /// Kills what is in it and removes it; why that failed.
    pub fn remove(self, ledger: &Ledger) -> Result<(), TestbedError> {
        ledger.undo(self.entry).map(drop)
    }
}

/// The made-up target, or the failure that its options ask for.
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
        },
        free_bytes: u64::MAX,
        free_inodes: u64::MAX,
        held: Held::default(),
        device: None,
        warnings: Vec::new(),
    })
}

/// Where nothing is real nothing is set, and the record says so.
pub(super) fn not_set(requested: &BTreeMap<String, String>) -> BTreeMap<String, ControlRecord> {
    let record = |value: &String| ControlRecord {
        requested: value.clone(),
        observed: "not set: the null file system is a simulation".to_owned(),
        effective: false,
    };
    requested.iter().map(|(name, value)| (name.clone(), record(value))).collect()
}
