//! What has a seat: a target that is ready, on its part of its medium.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::directory::DirectoryVisit;
use super::file_system::FileSystemVisit;
use super::quiet;
use crate::control::ActiveControls;
use crate::error::TestbedError;
use crate::fs::Journal;
use crate::ledger::Ledger;
use crate::medium::OpenMedium;
use crate::testbed::{ColdReach, Quiet};

/// The open media by their text, each by its parts.
pub(super) type Media = BTreeMap<String, Vec<Box<dyn OpenMedium>>>;

/// A target that is being made ready, or is.
pub(super) struct Seated {
    pub visit: Visit,
    /// Which part of its medium it has.
    pub part: u32,
    /// What was set for the processes that measure it; what was set on its device is [`super::visit_controls`]'s.
    pub controls: ActiveControls,
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
        Seated { visit: Visit::None, part, controls: ActiveControls::default() }
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
