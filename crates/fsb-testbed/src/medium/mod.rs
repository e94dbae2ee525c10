//! The family of media: what file systems with a device live on. One file a member, one line in [`REGISTRY`].

mod device;
mod fault;
mod image;
mod loop_image;
mod raid0;
mod ram;
mod vm_disk;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsb_model::Medium;
use fsb_model::run::MediumRecord;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::TestbedError;
use crate::ledger::Ledger;
use crate::testbed::Progress;

/// Every medium that fsb can make.
pub static REGISTRY: &[&dyn MediumKind] =
    &[&loop_image::LoopImage, &ram::Ram, &device::Device, &raid0::Raid0, &vm_disk::VmDisk];

pub(crate) use device::{Claimed, claim};
pub(crate) use fault::fault_members;
pub(crate) use loop_image::{backing, make_filled_image};
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
}

/// A medium in use. Dropping it lets go of device and image, but leaves the ledger's entries.
pub trait OpenMedium {
    /// The block device.
    fn device(&self) -> &Path;
    /// What it is.
    fn record(&self) -> &MediumRecord;
    /// Whether the device would obey a discard.
    fn can_discard(&self) -> bool;
    /// Lets mkfs open it exclusively, and lock it.
    fn lend(&mut self);
    /// Locks it against udev, after mkfs and before the mount.
    fn lock(&mut self);
    /// Makes it ours alone after an unmount. Fails where somebody else holds it.
    fn take_back(&mut self) -> Result<(), TestbedError>;
    /// Lets go of everything and undoes what was changed. The answer holds what could not be undone.
    fn close(&mut self, ledger: &Ledger) -> Vec<String>;
}

/// What is no choice of a user's: disks that fail on purpose.
static HIDDEN: &[&dyn MediumKind] = &[&fault::Fault];

/// As a person knows a medium: a virtual machine has no loop device, but a disk.
pub fn called(medium: &Medium, in_vm: bool) -> String {
    if in_vm && medium.name == "loop" { "the VM's disk".to_owned() } else { medium.to_string() }
}

/// The medium of that name, or the nearest name.
pub fn find(name: &str) -> Result<&'static dyn MediumKind, TestbedError> {
    REGISTRY.iter().chain(HIDDEN).copied().find(|member| member.name() == name).ok_or_else(|| {
        let known = REGISTRY.iter().map(|member| member.name());
        TestbedError::request(fsb_model::nearest::unknown("medium", name, known))
            .advice("use @loop (an image in a file), @ram (in memory), @/dev/NAME (a block device) or @raid0:loop+loop")
    })
}

/// udev leaves locked devices alone. It may hold the lock itself for an instant; that it looks at the device once more
/// is not worth a failure.
fn lock_against_udev(device: &OwnedFd) {
    crate::sys::poll_until(Duration::from_secs(5), || {
        flock(device, FlockOperation::NonBlockingLockExclusive) != Err(Errno::AGAIN)
    });
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
