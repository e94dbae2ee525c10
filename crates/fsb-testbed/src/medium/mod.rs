//! The registry of media, which hold file systems that need a device. Each medium is one file and
//! one line in [`REGISTRY`].

mod composed;
mod device;
#[cfg(any(test, feature = "faults"))]
mod fault;
mod kind;
mod loop_image;
mod mapped;
mod partitions;
mod raid;
mod slices;
mod space;
mod sparse;
mod vm_disk;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use fsb_model::Medium;
use fsb_model::host::DeviceRates;
use fsb_sys::error::TestbedError;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use rustix::fs::{Mode, OFlags, SeekFrom};

pub(crate) use composed::{shared_disk, stands_on};
pub use device::named_devices;
pub(crate) use device::{CLAIMED, Claimed, claim, content};
#[cfg(any(test, feature = "faults"))]
pub(crate) use fault::fault_members;
pub(crate) use kind::GRANULE;
pub use kind::{Composed, Divided, MediumArgument, MediumKind, MediumRequest, Member, OpenMedium};
pub(crate) use loop_image::{backing, make_filled_image};
pub use slices::{Slice, size_for, slice_bytes};
pub use space::SpaceBeneath;
pub use sparse::SparseRange;
pub(crate) use vm_disk::SERIAL as VM_SERIAL;

/// Every medium that a user can choose.
pub static REGISTRY: &[&dyn MediumKind] = &[
    &loop_image::LoopImage,
    &loop_image::Ram,
    &device::Device,
    &RAID0,
    &RAID1,
    &RAID5,
    &RAID10,
    &LUKS,
    &LVM,
    &vm_disk::VmDisk,
];

// The members of the registry that are made of other members.
static RAID0: raid::Raid = raid::Raid::new(&fsb_sys::md::RAID0, find);
static RAID1: raid::Raid = raid::Raid::new(&fsb_sys::md::RAID1, find);
static RAID5: raid::Raid = raid::Raid::new(&fsb_sys::md::RAID5, find);
static RAID10: raid::Raid = raid::Raid::new(&fsb_sys::md::RAID10, find);
static LUKS: mapped::Mapper = mapped::Mapper::new(&mapped::CRYPT, find);
static LVM: mapped::Mapper = mapped::Mapper::new(&mapped::VOLUME, find);

/// Media that a user cannot choose: disks that fail on purpose.
static HIDDEN: &[&dyn MediumKind] = &[
    #[cfg(any(test, feature = "faults"))]
    &fault::Fault { find },
];

/// Returns the user's name of a medium: a virtual machine has a disk instead of a loop device.
pub fn called(medium: &Medium, in_vm: bool) -> String {
    if in_vm && medium.name == "loop" {
        "the VM's disk".to_owned()
    } else {
        medium.to_string()
    }
}

/// Returns the medium of that name. The error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static dyn MediumKind, TestbedError> {
    REGISTRY.iter().chain(HIDDEN).copied().find(|member| member.name() == name).ok_or_else(|| {
        let known = REGISTRY.iter().map(|member| member.name());
        TestbedError::request(fsb_model::nearest::unknown("medium", name, known))
            .coded(&fsb_model::error::UNKNOWN_MEDIUM)
            .field("name", name)
            .advice("use @loop (an image in a file), @ram (in memory), @/dev/NAME (a block device) or @raid0:loop+loop")
    })
}

/// Returns the medium of a target. Checks that it has an argument if and only if the medium takes
/// one.
pub(crate) fn check(medium: &Medium) -> Result<&'static dyn MediumKind, TestbedError> {
    let kind = find(&medium.name)?;
    kind::check_argument(kind, medium)?;
    Ok(kind)
}

/// Bytes of the device that the probe uses.
const REGION: u64 = 16 << 20;
/// The size of a large request; the small one follows.
const LARGE: usize = 1 << 20;
const SMALL: usize = 4096;
/// The least time of each of the four measurements. Three targets spend a quarter of a second on
/// them in each block; the report uses means over all blocks.
const LONG: Duration = Duration::from_millis(20);
/// The least number of requests of each, unless it takes [`LONGEST`].
const FEWEST: u32 = 8;
/// The greatest time of each, for very slow devices.
const LONGEST: Duration = Duration::from_secs(2);

/// Probes the device behind that node, which no other process uses.
pub(crate) fn probe(node: &Path) -> io::Result<DeviceRates> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let device = rustix::fs::open(node, flags, Mode::empty())?;
    let size = rustix::fs::seek(&device, SeekFrom::End(0))?;
    let region = REGION.min(size) / LARGE as u64 * LARGE as u64;
    if region < 2 * LARGE as u64 {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mut memory = vec![0u8; LARGE + SMALL];
    let start = memory.as_ptr().align_offset(SMALL);
    let buffer = &mut memory[start..start + LARGE];
    // Random bytes each time, because a device could detect that it already stores them.
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let mut random = Pcg64Mcg::seed_from_u64(now);
    random.fill_bytes(buffer);
    let write = |buffer: &[u8], at: u64| rustix::io::pwrite(device.as_fd(), buffer, at).map(drop);
    let mut sequential = (0..).map(|turn: u64| turn * LARGE as u64 % region);
    let mut place = || sequential.next().unwrap_or(0);
    let written = per_second(|| Ok(write(buffer, place())?))?;
    rustix::fs::fdatasync(&device)?;
    let read =
        per_second(|| Ok(rustix::io::pread(device.as_fd(), &mut *buffer, place()).map(drop)?))?;
    let mut anywhere = || random.next_u64() % (region / SMALL as u64) * SMALL as u64;
    let small = &mut buffer[..SMALL];
    let random_reads =
        per_second(|| Ok(rustix::io::pread(device.as_fd(), &mut *small, anywhere()).map(drop)?))?;
    let flushed_writes = per_second(|| {
        write(small, anywhere())?;
        Ok(rustix::fs::fdatasync(&device)?)
    })?;
    Ok(DeviceRates {
        read: read * LARGE as f64,
        write: written * LARGE as f64,
        random_reads,
        flushed_writes,
    })
}

/// Returns how many times per second `act` completes.
fn per_second(mut act: impl FnMut() -> io::Result<()>) -> io::Result<f64> {
    let started = Instant::now();
    let mut done = 0;
    loop {
        act()?;
        done += 1;
        let lasted = started.elapsed();
        if lasted >= LONG && done >= FEWEST || lasted >= LONGEST {
            return Ok(f64::from(done) / lasted.as_secs_f64());
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
            assert!(
                !member.about().is_empty() && !member.about().contains('\n'),
                "{}",
                member.name()
            );
        }
        for text in ["ext4", "ext4@ram", "ext4@/dev/sdb1", "ext4@raid0:loop+loop"] {
            let target: fsb_model::Target = text.parse().unwrap();
            assert!(
                find(&target.file_system().unwrap().medium.name).is_ok(),
                "{text}"
            );
        }
    }

    #[test]
    fn missing_devices_are_reported() {
        assert!(
            find("tape")
                .err()
                .unwrap()
                .to_string()
                .contains("@raid0:loop+loop")
        );
        let medium = |name: &str, argument: Option<&str>| Medium {
            name: name.into(),
            argument: argument.map(str::to_owned),
        };
        assert!(
            check(&medium("loop", Some("x")))
                .err()
                .unwrap()
                .to_string()
                .contains("takes no argument")
        );
        assert!(
            check(&medium("raid0", None))
                .err()
                .unwrap()
                .to_string()
                .contains("write @raid0:loop+loop")
        );
        assert!(check(&medium("device", Some("/dev/sdb"))).is_ok());
        assert!(
            find("lop")
                .err()
                .unwrap()
                .to_string()
                .contains("did you mean 'loop'")
        );
    }

    #[test]
    fn a_file_is_probed_as_a_device_is() {
        // Direct I/O works in the directory of this crate.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(4 << 20).unwrap();
        let rates = probe(file.path()).unwrap();
        for rate in [
            rates.read,
            rates.write,
            rates.random_reads,
            rates.flushed_writes,
        ] {
            assert!(rate.is_finite() && rate > 0.0, "{rates:?}");
        }
        let first = &std::fs::read(file.path()).unwrap()[..4096];
        assert!(
            first.iter().map(|byte| byte.count_ones()).sum::<u32>() > 15_000,
            "it was written to"
        );
        file.as_file().set_len(1 << 20).unwrap();
        assert!(probe(file.path()).is_err(), "no room");
        assert!(probe(Path::new("/nonexistent")).is_err());
    }
}
