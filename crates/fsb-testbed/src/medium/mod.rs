//! The family of media: what file systems with a device live on. One file a member, one line in [`REGISTRY`].

mod device;
#[cfg(any(test, feature = "faults"))]
mod fault;
mod image;
mod loop_image;
mod open_device;
mod partitions;
mod parts;
mod probe;
mod raid0;
mod ram;
mod signatures;
mod vm_disk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsb_model::Medium;
use fsb_model::host::DeviceId;
use fsb_model::run::MediumRecord;

use crate::error::{Refusal, TestbedError};
use crate::ledger::Ledger;
use crate::progress::Progress;
use crate::sys::Roots;

/// Every medium that fsb can make.
pub static REGISTRY: &[&dyn MediumKind] =
    &[&loop_image::LoopImage, &ram::Ram, &device::Device, &raid0::Raid0, &vm_disk::VmDisk];

pub use device::named_devices;
pub(crate) use device::{Claimed, claim};
#[cfg(any(test, feature = "faults"))]
pub(crate) use fault::fault_members;
pub(crate) use loop_image::{backing, make_filled_image};
pub(crate) use parts::{GRAIN, layout};
pub use parts::{Part, part_bytes, size_for};
pub(crate) use probe::probe;
pub(crate) use raid0::{Member, check_members, members, shared_disk, stands_on};
pub(crate) use vm_disk::SERIAL as VM_SERIAL;

/// Images are whole multiples of the largest sectors, in bytes: direct I/O takes nothing less.
pub(crate) const GRANULE: u64 = 4096;

/// A medium as it is asked for.
#[derive(Debug)]
pub struct MediumRequest<'a> {
    /// Its name and argument.
    pub medium: &'a Medium,
    /// Bytes of an image, a multiple of 4096.
    pub size: u64,
    /// Where an image lives.
    pub dir: &'a Path,
    /// Decides what it is filled with.
    pub seed: u64,
    /// Block devices whose content the user gave up.
    pub wipe: &'a [PathBuf],
    /// A target mounts with `discard`, so it is the subject and stays possible.
    pub keep_discard: bool,
    /// Which devices the names led to when they were resolved; absent where nobody looked before.
    pub devices: Option<&'a BTreeMap<PathBuf, DeviceId>>,
    /// Where private device nodes are made; absent where nothing is formatted.
    pub nodes: Option<&'a Path>,
    /// Where all processes of the machine are seen; absent where the usual places show them.
    pub outside: Option<&'a Roots>,
}

impl<'a> MediumRequest<'a> {
    /// Of no size, filled with the bytes of seed 0; nothing was resolved before and nothing given up.
    pub fn new(medium: &'a Medium, dir: &'a Path) -> Self {
        let (size, seed, wipe, keep_discard) = (0, 0, [].as_slice(), false);
        MediumRequest { medium, size, dir, seed, wipe, keep_discard, devices: None, nodes: None, outside: None }
    }
}

/// A sort of medium.
pub trait MediumKind: Sync {
    /// Its name in plans.
    fn name(&self) -> &'static str;
    /// One line for `fsb list media`.
    fn about(&self) -> &'static str;
    /// Kernel modules that it needs, where they are not built in.
    fn modules(&self) -> &'static [&'static str] {
        &[]
    }
    /// Everything that can be known before anything is touched. The answer is the size that file systems will see.
    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError>;
    /// Makes it, and writes it over once.
    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError>;
    /// Bytes of the whole, as far as that is known without opening anything.
    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        let _ = request;
        None
    }
    /// Whether it can be divided into parts that are media of their own; why not. Nothing is touched.
    fn divisible(&self, request: &MediumRequest<'_>) -> Result<(), Refusal> {
        Err(format!("@{} is not divided", request.medium).into())
    }
    /// Makes it, writes it over once, and divides it as `layout` has it.
    fn open_parts(
        &self,
        request: &MediumRequest<'_>,
        parts: u32,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let _ = (parts, ledger, progress);
        let refused = TestbedError::request(format!("@{} cannot be divided", request.medium));
        Err(match self.divisible(request) {
            Err(why) => refused.tried(why),
            Ok(()) => refused,
        })
    }
}

/// A medium that was divided.
pub struct Divided {
    /// The parts, in their order.
    pub parts: Vec<Box<dyn OpenMedium>>,
    /// Where each of them lies; empty where the one part is the whole.
    pub layout: Vec<Part>,
    /// What the whole is.
    pub record: MediumRecord,
}

/// A medium in use. Dropping it lets go of device and image, but leaves the ledger's entries.
pub trait OpenMedium {
    /// A private node of the device: what programs and the kernel are given to open.
    fn device(&self) -> &Path;
    /// The device as people know it: as it was named, or `/dev/loop3`.
    fn shown(&self) -> &Path;
    /// Whether the node is still the device's: asked before and after others open it.
    fn verify(&self) -> Result<(), TestbedError>;
    /// What it is.
    fn record(&self) -> &MediumRecord;
    /// Whether the device would obey a discard.
    fn can_discard(&self) -> bool;
    /// Lets mkfs open it exclusively, and lock it.
    fn lend(&mut self);
    /// Lets mount open it exclusively; locked against udev it stays.
    fn lock(&mut self);
    /// Makes it ours alone after mkfs or an unmount. Fails where somebody else holds it.
    fn take_back(&mut self) -> Result<(), TestbedError>;
    /// Lets go of everything and undoes what was changed. The answer holds what could not be undone.
    fn close(&mut self, ledger: &Ledger) -> Vec<String>;
}

/// What is no choice of a user's: disks that fail on purpose.
static HIDDEN: &[&dyn MediumKind] = &[
    #[cfg(any(test, feature = "faults"))]
    &fault::Fault,
];

/// As a person knows a medium: a virtual machine has no loop device, but a disk.
pub fn called(medium: &Medium, in_vm: bool) -> String {
    if in_vm && medium.name == "loop" { "the VM's disk".to_owned() } else { medium.to_string() }
}

/// The medium of that name, or the nearest name.
pub fn find(name: &str) -> Result<&'static dyn MediumKind, TestbedError> {
    REGISTRY.iter().chain(HIDDEN).copied().find(|member| member.name() == name).ok_or_else(|| {
        let known = REGISTRY.iter().map(|member| member.name());
        TestbedError::request(fsb_model::nearest::unknown("medium", name, known))
            .coded(&fsb_model::error::UNKNOWN_MEDIUM)
            .field("name", name)
            .advice("use @loop (an image in a file), @ram (in memory), @/dev/NAME (a block device) or @raid0:loop+loop")
    })
}

/// Says how far the filling is, in the words of all media, and not more often than anybody reads.
fn filling<'a>(text: &'a str, total: u64, progress: &'a mut dyn FnMut(Progress)) -> impl FnMut(u64) + 'a {
    let mut last: Option<Instant> = None;
    move |done| {
        let due = last.is_none_or(|last| last.elapsed() >= Duration::from_millis(100));
        if due || done == total {
            last = Some(Instant::now());
            progress(Progress { what: format!("writing {text} over once"), done, total });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_unique_and_described() {
        let mut names = std::collections::BTreeSet::new();
        for member in REGISTRY {
            assert!(names.insert(member.name()), "{} twice", member.name());
            assert!(!member.about().is_empty() && !member.about().contains('\n'), "{}", member.name());
        }
        for text in ["ext4", "ext4@ram", "ext4@/dev/sdb1", "ext4@raid0:loop+loop"] {
            let target: fsb_model::Target = text.parse().unwrap();
            assert!(find(&target.file_system().unwrap().medium.name).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert!(find("tape").err().unwrap().to_string().contains("@raid0:loop+loop"));
        assert!(find("lop").err().unwrap().to_string().contains("did you mean 'loop'"));
    }
}
