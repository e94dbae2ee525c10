//! Slices of a whole disk: partitions that exist only in the kernel. The disk's own table is not
//! written, so they do not survive a reboot. They survive a kill, so the undo ledger records them
//! before they are made.
//!
//! While there are slices, the disk is locked against udev, which would read its table again. It is
//! not claimed: the kernel refuses a claim on a disk if one of its partitions is claimed, and each
//! of them is always claimed or mounted.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use fsb_model::run::MediumRecord;
use fsb_sys::blkpg::{self, Partition};
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::pinned::Pinned;
use fsb_sys::{Roots, read_trimmed};

use super::kind::{Divided, MediumRequest, OpenDevice, OpenMedium};
use super::slices::Slice;
use super::sparse::{SparseRange, UsedPlaces};
use crate::host;
use crate::ledger::{Action, EntryHandle, Ledger};

/// Checks whether the kernel would accept partitions on the disk of that number.
pub(super) fn divisible(number: DeviceNumber, roots: &Roots) -> Result<(), Refusal> {
    let directory = number
        .directory(roots)
        .ok_or("the device is not known to the kernel")?;
    let name = directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if directory.join("partition").exists() {
        return Err(format!("{name} is a partition, and only a whole disk can be divided").into());
    }
    for (stack, what) in [("dm", "a device of the device mapper"), ("md", "an array")] {
        if directory.join(stack).exists() {
            return Err(format!("{name} is {what}, and only a whole disk can be divided").into());
        }
    }
    if blkpg::has_any(&directory) {
        return Err(format!("{name} has partitions").into());
    }
    // The kernel marks devices that never have partitions this way.
    match read_trimmed(&directory.join("ext_range")).as_deref() {
        Some("0" | "1") => Err(format!("{name} cannot have partitions").into()),
        _ => Ok(()),
    }
}

/// A disk that this run holds.
pub(super) struct Disk {
    /// Kept open and locked.
    pub device: Pinned,
    pub can_discard: bool,
    pub record: MediumRecord,
}

impl Disk {
    /// Divides it. `claim`, which keeps others from the disk until then, is dropped when the
    /// partitions exist. Removes all of them on failure.
    pub fn divide<C>(
        self,
        layout: Vec<Slice>,
        claim: C,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Divided, TestbedError> {
        self.device.lock_against_udev();
        let disk = Rc::new(self);
        let mut made: Vec<OpenPartition> = Vec::new();
        let added = (1..).zip(&layout).try_for_each(|(number, slice)| {
            let partition = Partition {
                number,
                start: slice.start,
                bytes: slice.bytes,
            };
            made.push(OpenPartition::record(&disk, partition, request, ledger)?);
            blkpg::add(disk.device.descriptor(), &partition)
                .map_err(|error| disk.refused("BLKPG_ADD_PARTITION", &error))
        });
        drop(claim);
        let opened = added.and_then(|()| made.iter_mut().try_for_each(OpenPartition::open));
        if let Err(error) = opened {
            // The first error is the one that explains.
            made.iter_mut().for_each(|slice| drop(slice.close(ledger)));
            return Err(error);
        }
        let record = disk.record.clone();
        let slices = made
            .into_iter()
            .map(|slice| Box::new(slice) as Box<dyn OpenMedium>)
            .collect();
        Ok(Divided {
            slices,
            layout,
            record,
        })
    }

    fn removal_of(&self, partition: Partition) -> Action {
        let DeviceNumber(major, minor) = self.device.number();
        Action::RemovePartition {
            major,
            minor,
            partition,
        }
    }

    fn refused(&self, step: &str, error: &std::io::Error) -> TestbedError {
        let shown = self.device.shown();
        TestbedError::machine(format!("{} cannot be divided", shown.display()))
            .tried(attempt(step, shown, error))
            .advice("measure one target at a time on the whole device (fsb run --one-at-a-time)")
    }
}

/// One partition, also before it is made.
struct OpenPartition {
    disk: Rc<Disk>,
    partition: Partition,
    handle: Option<EntryHandle>,
    /// `None` before it is opened and after it is closed.
    open: Option<OpenDevice>,
    /// The device as the user knows it.
    shown: PathBuf,
    record: MediumRecord,
    /// The directory of private device nodes.
    nodes: Option<PathBuf>,
    range: Option<SparseRange>,
}

impl OpenPartition {
    fn record(
        disk: &Rc<Disk>,
        partition: Partition,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
    ) -> Result<OpenPartition, TestbedError> {
        let slice = Slice {
            start: partition.start,
            bytes: partition.bytes,
        };
        Ok(OpenPartition {
            handle: Some(ledger.record(disk.removal_of(partition))?),
            open: None,
            shown: disk.device.shown().to_owned(),
            record: disk.record.clone(),
            nodes: request.nodes.map(Path::to_owned),
            range: request
                .range
                .map(|_| SparseRange::new(slice, &UsedPlaces::default())),
            disk: Rc::clone(disk),
            partition,
        })
    }

    fn open(&mut self) -> Result<(), TestbedError> {
        let roots = Roots::default();
        let disk = self.disk.device.number().directory(&roots);
        let own = disk.and_then(|disk| blkpg::find(&disk, self.partition.number));
        let found = own
            .as_deref()
            .and_then(block::number_in)
            .zip(own.as_deref().and_then(Path::file_name));
        let Some((number, name)) = found else {
            let lost = std::io::Error::other("the partition did not appear");
            return Err(self.disk.refused("look for a part of", &lost));
        };
        self.shown = Path::new("/dev").join(name);
        self.record.device = host::device_manifest(&roots, (number.0, number.1));
        let (can_discard, record) = (self.disk.can_discard, self.record.clone());
        self.open = Some(OpenDevice::of_number(
            (&self.shown, number),
            self.nodes.as_deref(),
            can_discard,
            record,
        )?);
        Ok(())
    }
}

impl OpenMedium for OpenPartition {
    fn device(&self) -> &Path {
        self.open.as_ref().map_or(Path::new(""), OpenMedium::device)
    }

    fn shown(&self) -> &Path {
        &self.shown
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.open.as_ref().map_or(Ok(()), OpenMedium::verify)
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn can_discard(&self) -> bool {
        self.disk.can_discard
    }

    fn lend(&mut self) {
        if let Some(open) = &mut self.open {
            open.lend();
        }
    }

    fn lock(&mut self) {
        if let Some(open) = &mut self.open {
            open.lock();
        }
    }

    fn take_back(&mut self) -> Result<(), TestbedError> {
        self.open.as_mut().map_or(Ok(()), OpenMedium::take_back)
    }

    fn range(&mut self) -> Option<&mut SparseRange> {
        self.range.as_mut()
    }

    /// Replaces the partition: the kernel moves none.
    fn show(&mut self, window: Slice, ledger: &Ledger) -> Result<(), TestbedError> {
        if self
            .range
            .as_ref()
            .is_none_or(|range| range.shown() == window && self.open.is_some())
        {
            return Ok(());
        }
        // The kernel does not remove an open partition.
        self.open = None;
        self.handle
            .take()
            .map_or(Ok(()), |handle| ledger.undo(handle).map(drop))?;
        self.partition = Partition {
            number: self.partition.number,
            start: window.start,
            bytes: window.bytes,
        };
        self.handle = Some(ledger.record(self.disk.removal_of(self.partition))?);
        blkpg::add(self.disk.device.descriptor(), &self.partition)
            .map_err(|error| self.disk.refused("BLKPG_ADD_PARTITION", &error))?;
        self.open()?;
        self.range.iter_mut().for_each(|range| range.show(window));
        Ok(())
    }

    fn close(&mut self, ledger: &Ledger) -> Vec<String> {
        // The kernel does not remove an open partition.
        self.open = None;
        let undone = self.handle.take().map(|handle| ledger.undo(handle));
        undone
            .and_then(Result::err)
            .map(|error| error.to_string())
            .into_iter()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_disks_without_partitions_are_divided() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        let make = |file: &str| {
            let path = tree.path().join("devices").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "1\n").unwrap();
        };
        std::fs::create_dir_all(tree.path().join("dev/block")).unwrap();
        [
            "sda/size",
            "sdb/sdb1/partition",
            "dm-0/dm/name",
            "md0/md/level",
            "zram0/ext_range",
        ]
        .into_iter()
        .for_each(make);
        let answer = |minor: u32, directory: &str| {
            let link = tree.path().join(format!("dev/block/8:{minor}"));
            std::os::unix::fs::symlink(tree.path().join("devices").join(directory), link).unwrap();
            divisible(DeviceNumber(8, minor), &roots)
        };
        assert_eq!(answer(0, "sda"), Ok(()));
        for (minor, directory, word) in [
            (1, "sdb", "has partitions"),
            (2, "sdb/sdb1", "is a partition"),
            (3, "dm-0", "device mapper"),
            (4, "md0", "an array"),
            (5, "zram0", "cannot have"),
        ] {
            let why = answer(minor, directory).unwrap_err().to_string();
            assert!(why.contains(word), "{directory}: {why}");
        }
        assert!(
            divisible(DeviceNumber(8, 9), &roots)
                .unwrap_err()
                .to_string()
                .contains("not known")
        );
    }
}
