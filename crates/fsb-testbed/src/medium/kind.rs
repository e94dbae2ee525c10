//! The trait that every medium implements, the types of its methods, and a block device that this
//! run holds until it closes it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsb_model::Medium;
use fsb_model::host::DeviceId;
use fsb_model::run::MediumRecord;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::pinned::{Node, Pinned};
use fsb_sys::{Roots, poll_until};

use super::slices::{Slice, beside_slices, layout, length};
use super::space::SpaceBeneath;
use super::sparse::SparseRange;
use crate::ledger::Ledger;
use crate::{Activity, Progress};

/// The size of an image is a multiple of these bytes, the largest sector: direct I/O needs whole
/// sectors.
pub(crate) const GRANULE: u64 = 4096;

/// A requested medium.
#[derive(Debug)]
pub struct MediumRequest<'a> {
    /// The name and argument.
    pub medium: &'a Medium,
    /// Bytes of an image, a multiple of 4096. Those of a sparse image are the bytes of its slices.
    pub size: u64,
    /// The number of equal slices into which the medium is divided. With 1 it is whole.
    pub slices: u32,
    /// The bytes of the range that a sparse medium has for each slice. `None` for a medium without
    /// holes.
    pub range: Option<u64>,
    /// The directory of images.
    pub dir: &'a Path,
    /// The seed of the data that fill it.
    pub seed: u64,
    /// Block devices that the user allows to be overwritten.
    pub wipe: &'a [PathBuf],
    /// A target mounts with `discard`, so it is the subject and stays possible.
    pub keep_discard: bool,
    /// The devices that the names were resolved to; `None` if they were not resolved before.
    pub devices: Option<&'a BTreeMap<PathBuf, DeviceId>>,
    /// The directory of private device nodes; `None` if nothing is formatted.
    pub nodes: Option<&'a Path>,
    /// The /proc and /sys that show all processes of the machine; `None` for the default ones.
    pub outside: Option<&'a Roots>,
}

impl<'a> MediumRequest<'a> {
    /// Returns a request of size 0 and seed 0, without resolved devices and without devices to
    /// overwrite.
    pub fn new(medium: &'a Medium, dir: &'a Path) -> Self {
        let (size, seed, wipe, keep_discard) = (0, 0, [].as_slice(), false);
        MediumRequest {
            medium,
            size,
            slices: 1,
            range: None,
            dir,
            seed,
            wipe,
            keep_discard,
            devices: None,
            nodes: None,
            outside: None,
        }
    }

    /// Returns the slices. Returns none if the medium stays whole.
    pub(super) fn layout(&self) -> Vec<Slice> {
        layout(self.size, self.slices, self.range)
    }

    /// Returns the bytes of the medium, holes included.
    pub(crate) fn length(&self) -> u64 {
        length(self.size, self.slices, self.range)
    }

    /// Returns the bytes that an image may hold in the end: `size`, and what file systems write
    /// around their slices.
    pub(super) fn most_bytes(&self) -> u64 {
        self.size.saturating_add(
            self.range
                .map_or(0, |_| beside_slices(self.size, self.slices)),
        )
    }

    /// Returns the remedy for an image that has too little room.
    pub(super) fn smaller(&self, other: &str) -> String {
        let defaults = self.range.map_or(
            "",
            |_| ", or --mkfs-defaults, with which no target gets the device of a large disk",
        );
        format!("choose a smaller --size, or {other}{defaults}")
    }

    /// Returns the parts of an image that are written over before it is used.
    pub(super) fn filled_parts(&self) -> Vec<Range<u64>> {
        match self.range {
            Some(_) => self
                .layout()
                .iter()
                .map(|slice| slice.start..slice.start + slice.bytes)
                .collect(),
            None => std::iter::once(0..self.size).collect(),
        }
    }
}

/// The argument of a medium, which follows its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediumArgument {
    /// The form: `MEMBER+MEMBER…`.
    pub form: &'static str,
    /// The meaning, in one line.
    pub about: &'static str,
    /// The medium as a target names it.
    pub example: &'static str,
    /// Whether the medium cannot be made without it.
    pub required: bool,
}

/// A medium that is made of other media.
pub trait Composed {
    /// Returns its members, with the bytes of an image for each. Images share the image size of the
    /// run.
    fn members(&self, request: &MediumRequest<'_>) -> Result<Vec<Member>, TestbedError>;
    /// Returns its size. Does not check whether the kernel can make it.
    ///
    /// # Errors
    ///
    /// Fails if a member cannot be made.
    fn check_members(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError>;
}

/// A member of such a medium, with the bytes of an image for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The medium.
    pub medium: Medium,
    /// Bytes of an image, a multiple of 4096.
    pub size: u64,
}

/// A kind of medium.
pub trait MediumKind: Sync {
    /// Returns the name in plans.
    fn name(&self) -> &'static str;
    /// Returns one line for `fsb list media`.
    fn about(&self) -> &'static str;
    /// Returns the argument that it takes. Returns `None` if it takes none.
    fn argument(&self) -> Option<&'static MediumArgument> {
        None
    }
    /// Returns how it is made of other media. Returns `None` if it is not.
    fn composed(&self) -> Option<&dyn Composed> {
        None
    }
    /// Returns the kernel modules that it needs if they are not built in.
    fn modules(&self) -> &'static [&'static str] {
        &[]
    }
    /// Checks the request before anything is changed. Returns the size that file systems will see.
    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError>;
    /// Makes it, and overwrites it once.
    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError>;
    /// Returns its size in bytes, if that is known without opening anything.
    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        let _ = request;
        None
    }
    /// Returns whether each slice has the range of [`MediumRequest::range`] around it, which is
    /// mostly holes. `is_needed` if a target needs one.
    fn is_sparse(&self, request: &MediumRequest<'_>, is_needed: bool) -> bool {
        let _ = (request, is_needed);
        false
    }
    /// Returns the reason why it cannot be divided into slices that are media themselves. Changes
    /// nothing.
    fn divisible(&self, request: &MediumRequest<'_>) -> Result<(), Refusal> {
        Err(format!("@{} cannot be divided", request.medium).into())
    }
    /// Makes it, overwrites it once, and divides it as `layout` computes.
    fn open_slices(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let _ = (ledger, progress);
        let refused = TestbedError::request(format!("@{} cannot be divided", request.medium));
        Err(match self.divisible(request) {
            Err(why) => refused.tried(why),
            Ok(()) => refused,
        })
    }
}

/// A divided medium.
pub struct Divided {
    /// The slices, in their order.
    pub slices: Vec<Box<dyn OpenMedium>>,
    /// The place of each slice; empty for a single slice that is the whole medium.
    pub layout: Vec<Slice>,
    /// The record of the whole medium.
    pub record: MediumRecord,
}

/// A medium in use. Dropping it releases device and image, but keeps the entries of the ledger.
pub trait OpenMedium {
    /// Returns the private node of the device, which programs and the kernel open.
    fn device(&self) -> &Path;
    /// Returns the device as the user knows it: as requested, or `/dev/loop3`.
    fn shown(&self) -> &Path;
    /// Checks that the node still belongs to the device. Called before and after programs open it.
    fn verify(&self) -> Result<(), TestbedError>;
    /// Returns its record.
    fn record(&self) -> &MediumRecord;
    /// Returns whether the device supports discard.
    fn can_discard(&self) -> bool;
    /// Releases the exclusive claim and the lock so that mkfs can take them.
    fn lend(&mut self);
    /// Releases the exclusive claim so that mount can take it. The lock against udev remains.
    fn lock(&mut self);
    /// Claims it again after mkfs or an unmount. Fails if another process holds it.
    fn take_back(&mut self) -> Result<(), TestbedError>;
    /// Returns the sparse range around the slice. Returns `None` if the device has no holes.
    fn range(&mut self) -> Option<&mut SparseRange> {
        None
    }
    /// Lets the device show that part of its range. Nothing uses the device. Its node may be
    /// another one afterwards.
    fn show(&mut self, window: Slice, ledger: &Ledger) -> Result<(), TestbedError> {
        let _ = (window, ledger);
        Ok(())
    }
    /// Discards what earlier targets left beside their data, before the next one is formatted.
    fn renew(&mut self) -> Result<(), TestbedError> {
        Ok(())
    }
    /// Records the places of its range that a file system, which is unmounted now, wrote, or makes
    /// them holes again.
    fn note_used(&mut self) {}
    /// Returns the space beneath its image, if files on the device could fill it.
    fn space_beneath(&self) -> Option<SpaceBeneath> {
        None
    }
    /// Returns the bytes that the whole image occupies. Returns `None` if it may have no holes or
    /// is not known.
    fn occupied(&self) -> Option<u64> {
        None
    }
    /// Releases everything and undoes the changes. Returns the errors of changes that could not be
    /// undone.
    fn close(&mut self, ledger: &Ledger) -> Vec<String>;
}

/// Refuses a medium that lacks its argument or has one that it does not take.
pub(crate) fn check_argument(kind: &dyn MediumKind, medium: &Medium) -> Result<(), TestbedError> {
    match (kind.argument(), &medium.argument) {
        (None, Some(argument)) => Err(TestbedError::request(format!(
            "medium {} takes no argument",
            kind.name()
        ))
        .field("name", kind.name())
        .advice(format!("leave out ':{argument}'"))),
        (Some(argument), None) if argument.required => Err(TestbedError::request(format!(
            "medium {} needs an argument: {}",
            kind.name(),
            argument.form
        ))
        .field("name", kind.name())
        .advice(format!("write {}", argument.example))),
        _ => Ok(()),
    }
}

/// Returns the medium of a name. The registry gives it to media that are made of other media.
pub(crate) type FindMedium = fn(&str) -> Result<&'static dyn MediumKind, TestbedError>;

/// Returns a callback that reports the progress of filling a medium, at most ten times a second.
pub(super) fn filling<'a>(
    medium: &'a str,
    total: u64,
    progress: &'a mut dyn FnMut(Progress),
) -> impl FnMut(u64) + 'a {
    let mut last: Option<Instant> = None;
    move |done| {
        let due = last.is_none_or(|last| last.elapsed() >= Duration::from_millis(100));
        if due || done == total {
            last = Some(Instant::now());
            progress(Progress {
                activity: Activity::FillMedium {
                    medium: medium.to_owned(),
                },
                done,
                total,
            });
        }
    }
}

/// The time limit for the last user of the device to end after an unmount.
const IDLE: Duration = Duration::from_secs(10);

fn cannot_use(path: &Path, error: &io::Error) -> TestbedError {
    TestbedError::machine(format!("{} cannot be used", path.display()))
        .tried(attempt("open", path, error))
}

/// A device that this run holds until it closes it.
pub(super) struct OpenDevice {
    pub(super) device: Pinned,
    pub(super) node: Node,
    /// The exclusive claim. `None` while mkfs or a mount has the device.
    pub(super) claim: Option<OwnedFd>,
    pub(super) can_discard: bool,
    pub(super) record: MediumRecord,
}

impl OpenDevice {
    /// Takes a device that needs no checks and no filling: the kernel's own device of that name and
    /// number.
    pub(super) fn adopt(
        (path, number): (&Path, DeviceNumber),
        nodes: Option<&Path>,
        can_discard: bool,
        record: MediumRecord,
    ) -> Result<Self, TestbedError> {
        let device = Pinned::known(path, number).map_err(|error| cannot_use(path, &error))?;
        let node = Node::make(nodes, number, path)?;
        let mut device = OpenDevice {
            device,
            node,
            claim: None,
            can_discard,
            record,
        };
        device.take_back()?;
        Ok(device)
    }

    /// Like [`OpenDevice::adopt`], for a device that may have no name here and that is `shown` to
    /// users.
    pub(super) fn of_number(
        (shown, number): (&Path, DeviceNumber),
        nodes: Option<&Path>,
        can_discard: bool,
        record: MediumRecord,
    ) -> Result<Self, TestbedError> {
        let node = Node::make(nodes, number, shown)?;
        let opened =
            block::open(node.path(), false, false).and_then(|fd| Pinned::new(fd, shown.to_owned()));
        let device = opened.map_err(|error| cannot_use(shown, &error))?;
        let mut device = OpenDevice {
            device,
            node,
            claim: None,
            can_discard,
            record,
        };
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
            TestbedError::machine(format!("another process opened {}", shown.display()))
                .tried(attempt("open with O_EXCL", shown, &error))
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
