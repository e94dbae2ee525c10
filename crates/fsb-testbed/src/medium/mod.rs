//! The family of media: what file systems with a device live on. One file a member, one line in [`REGISTRY`].

mod device;
#[cfg(any(test, feature = "faults"))]
mod fault;
mod image;
mod kind;
mod loop_image;
mod open_device;
mod partitions;
mod parts;
mod probe;
mod raid0;
mod ram;
mod vm_disk;

use fsb_model::Medium;

use crate::error::TestbedError;

pub use device::named_devices;
pub(crate) use device::{Claimed, claim};
#[cfg(any(test, feature = "faults"))]
pub(crate) use fault::fault_members;
pub(crate) use kind::GRANULE;
pub use kind::{Divided, MediumArgument, MediumKind, MediumRequest, OpenMedium};
pub(crate) use loop_image::{backing, make_filled_image};
pub(crate) use parts::GRAIN;
pub use parts::{Part, part_bytes, size_for};
pub(crate) use probe::probe;
pub(crate) use raid0::{Member, shared_disk, stands_on};
pub(crate) use vm_disk::SERIAL as VM_SERIAL;

/// Every medium that fsb can make.
pub static REGISTRY: &[&dyn MediumKind] =
    &[&loop_image::LoopImage, &ram::Ram, &device::Device, &RAID0, &vm_disk::VmDisk];

/// The member of the registry that is made of other members.
pub(crate) static RAID0: raid0::Raid0 = raid0::Raid0 { find };

/// What is no choice of a user's: disks that fail on purpose.
static HIDDEN: &[&dyn MediumKind] = &[
    #[cfg(any(test, feature = "faults"))]
    &fault::Fault { find },
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

/// Returns the medium of a target. Checks that it has an argument if and only if the medium takes one.
pub(crate) fn check(medium: &Medium) -> Result<&'static dyn MediumKind, TestbedError> {
    let kind = find(&medium.name)?;
    kind::check_argument(kind, medium)?;
    Ok(kind)
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
        let medium =
            |name: &str, argument: Option<&str>| Medium { name: name.into(), argument: argument.map(str::to_owned) };
        assert!(check(&medium("loop", Some("x"))).err().unwrap().to_string().contains("takes no argument"));
        assert!(check(&medium("raid0", None)).err().unwrap().to_string().contains("write @raid0:loop+loop"));
        assert!(check(&medium("device", Some("/dev/sdb"))).is_ok());
        assert!(find("lop").err().unwrap().to_string().contains("did you mean 'loop'"));
    }
}
