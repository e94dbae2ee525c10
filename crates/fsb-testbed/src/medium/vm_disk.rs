//! A disk of the virtual machine that this process runs in. The host made it, overwrote it once,
//! and prevents other uses.

use std::path::{Path, PathBuf};

use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::pinned::Pinned;
use fsb_sys::{Roots, read_trimmed};

use super::kind::{Divided, MediumArgument, MediumKind, MediumRequest, OpenDevice, OpenMedium};
use super::partitions;
use super::slices::layout;
use crate::Progress;
use crate::host;
use crate::ledger::Ledger;

pub(super) struct VmDisk;

/// The prefix of the serial numbers of fsb's disks. Their number follows.
pub(crate) const SERIAL: &str = "fsb";

impl MediumKind for VmDisk {
    fn name(&self) -> &'static str {
        "vm"
    }

    /// Within a guest, media are named by the numbers that the coordinator gave them.
    fn argument(&self) -> Option<&'static MediumArgument> {
        const ABOUT: &str = "number of the disk, which fsb assigns";
        Some(&MediumArgument {
            form: "NUMBER",
            about: ABOUT,
            example: "@vm",
            required: false,
        })
    }

    fn about(&self) -> &'static str {
        "A disk of a virtual machine: @loop and @/dev/… become one with --in vm."
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        find(request, &Roots::default()).map(|disk| disk.size)
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        _: &Ledger,
        _: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let disk = find(request, &Roots::default())?;
        let (record, can_discard) = describe(&disk);
        Ok(Box::new(OpenDevice::adopt(
            (&disk.path, disk.number),
            request.nodes,
            can_discard,
            record,
        )?))
    }

    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        find(request, &Roots::default()).ok().map(|disk| disk.size)
    }

    /// The proxy on the host gives a sparse disk exactly the length that its slices need. The
    /// targets that need it may be in another guest.
    fn is_sparse(&self, request: &MediumRequest<'_>, _: bool) -> bool {
        find(request, &Roots::default()).is_ok_and(|disk| disk.size == request.length())
    }

    fn divisible(&self, request: &MediumRequest<'_>) -> Result<(), Refusal> {
        let roots = Roots::default();
        let disk = find(request, &roots).map_err(|error| error.to_string())?;
        partitions::divisible(disk.number, &roots)
    }

    fn open_slices(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        _: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let disk = find(request, &Roots::default())?;
        let (record, can_discard) = describe(&disk);
        let cannot = |error: &std::io::Error| {
            TestbedError::machine("a disk of the virtual machine cannot be used")
                .tried(attempt("open", &disk.path, error))
        };
        let device = Pinned::known(&disk.path, disk.number).map_err(|error| cannot(&error))?;
        let claim = device
            .open_again(true, true)
            .map_err(|error| cannot(&error))?;
        let layout = match request.range {
            Some(_) => request.layout(),
            None => layout(disk.size, request.slices, None),
        };
        partitions::Disk {
            device,
            can_discard,
            record,
        }
        .divide(layout, claim, request, ledger)
    }
}

/// Returns the record of the disk, and whether it supports discard.
fn describe(disk: &Disk) -> (MediumRecord, bool) {
    let record = MediumRecord {
        device: host::device_manifest(&Roots::default(), (disk.number.0, disk.number.1)),
        direct: None,
        filled: None,
        summary: format!("vm disk {}", show_bytes(disk.size as f64)),
        unjudged: None,
    };
    let can_discard = record
        .device
        .queue
        .get("discard_max_bytes")
        .is_some_and(|text| text != "0");
    (record, can_discard)
}

struct Disk {
    path: PathBuf,
    number: DeviceNumber,
    size: u64,
}

/// Returns the disk whose serial number contains the argument.
fn find(request: &MediumRequest<'_>, roots: &Roots) -> Result<Disk, TestbedError> {
    let number = request.medium.argument.as_deref().unwrap_or_default();
    let serial = format!("{SERIAL}{number}");
    let directory = with_serial(&serial, &roots.sys.join("block")).ok_or_else(|| {
        TestbedError::request(format!("no disk {number} of a virtual machine"))
            .tried(format!(
                "no device in /sys/block has the serial number {serial}"
            ))
            .advice("this medium is for fsb itself: write @loop or @/dev/NAME, with --in vm")
    })?;
    let path = Path::new("/dev").join(directory.file_name().unwrap_or_default());
    let missing = |what: &str| TestbedError::machine(format!("{} {what}", path.display()));
    let number = block::number_in(&directory).ok_or_else(|| missing("is not a block device"))?;
    let size = block::size(&directory)
        .filter(|size| *size > 0)
        .ok_or_else(|| missing("has no size"))?;
    Ok(Disk { path, number, size })
}

fn with_serial(serial: &str, disks: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(disks).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .find(|disk| read_trimmed(&disk.join("serial")).as_deref() == Some(serial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_found_by_its_serial_number() {
        let tree = tempfile::tempdir().unwrap();
        for (name, serial) in [("vda", "fsb0\n"), ("vdb", "fsb1\n"), ("sda", "WD-1234\n")] {
            std::fs::create_dir(tree.path().join(name)).unwrap();
            std::fs::write(tree.path().join(name).join("serial"), serial).unwrap();
        }
        std::fs::create_dir(tree.path().join("loop0")).unwrap();
        assert_eq!(
            with_serial("fsb1", tree.path()),
            Some(tree.path().join("vdb"))
        );
        assert_eq!(with_serial("fsb2", tree.path()), None);
    }

    #[test]
    fn on_a_host_there_is_none() {
        let medium = fsb_model::Medium {
            name: "vm".to_owned(),
            argument: Some("77".to_owned()),
        };
        let request = MediumRequest::new(&medium, Path::new("/"));
        let error = VmDisk.check(&request).unwrap_err();
        assert_eq!(error.kind, crate::Kind::Request);
        assert!(error.to_string().contains("--in vm"), "{error}");
    }
}
