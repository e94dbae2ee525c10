//! The devices of targets, as far as controls act on them, and the controls of devices while
//! several targets are ready.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fsb_model::{Target, TargetKind};
use fsb_sys::error::TestbedError;
use fsb_sys::{Roots, block, mountinfo};

use crate::control::{ActiveControls, Control, REGISTRY, Scope, TargetDevice, value_of};
use crate::fs::{self, Home};
use crate::ledger::Ledger;
use crate::storage;
use crate::testbed::Slot;

fn none(why: &str) -> TargetDevice {
    TargetDevice {
        why_none: why.to_owned(),
        ..TargetDevice::default()
    }
}

/// Returns the device of a target before anything is made. The loop device of an image does not
/// exist yet.
pub(super) fn of_target(target: &Target) -> TargetDevice {
    match &target.kind {
        TargetKind::Directory(path) => of_directory(path),
        TargetKind::FileSystem(spec) => match fs::find(&spec.fs).map(|member| member.home()) {
            Ok(Home::Device) => match spec.medium.argument.as_deref() {
                Some(path) if spec.medium.name == "device" => of_device(Path::new(path)),
                _ => TargetDevice {
                    is_image: true,
                    ..none("the image is not attached yet")
                },
            },
            _ => none(&format!("{} has no device", spec.fs)),
        },
    }
}

/// Returns the device itself, or the disk that it is a partition of.
pub(super) fn of_device(path: &Path) -> TargetDevice {
    let roots = Roots::default();
    let Some(directory) = block::number_of(path).and_then(|number| number.directory(&roots)) else {
        return none("the device is not there");
    };
    let disk = block::whole_disk(&directory);
    let others = block::partitions_in_use(&disk, &directory);
    let shared_with = (!others.is_empty()).then(|| format!("{} in use", others.join(", ")));
    TargetDevice {
        device: Some(disk),
        shared_with,
        ..TargetDevice::default()
    }
}

/// Returns the disk under a directory, which holds the directory's whole file system.
pub(crate) fn of_directory(path: &Path) -> TargetDevice {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mount = mountinfo::holding(&mountinfo::read(), &path);
    let number = mount.as_ref().and_then(storage::number_of_mount);
    match number.and_then(|number| number.directory(&Roots::default())) {
        Some(directory) => TargetDevice {
            device: Some(block::whole_disk(&directory)),
            shared_with: Some("the file system that the directory is on".to_owned()),
            ..TargetDevice::default()
        },
        None => none("the device under the directory is not known"),
    }
}

/// The controls that are set on the devices of the ready targets, by the device's directory below
/// /sys. Two targets may share one disk: each setting of the disk is made for the first of them,
/// and undone with the last.
#[derive(Default)]
pub(super) struct DeviceControls {
    devices: BTreeMap<PathBuf, Shared>,
}

#[derive(Default)]
struct Shared {
    controls: ActiveControls,
    slots: BTreeSet<Slot>,
}

fn of_targets(device: bool) -> impl Iterator<Item = &'static dyn Control> {
    REGISTRY
        .iter()
        .copied()
        .filter(move |it| it.scope() == Scope::Target && it.concerns_device() == device)
}

impl DeviceControls {
    /// Sets the requested controls for the target of that slot: those of its device here, all
    /// others in `own`. In the end `own` has the records and warnings of both, and the restrictions
    /// on the target's processes.
    pub fn set(
        &mut self,
        slot: Slot,
        own: &mut ActiveControls,
        requested: &BTreeMap<String, String>,
        place: &TargetDevice,
        ledger: &Ledger,
    ) -> Result<(), TestbedError> {
        match &place.device {
            None => own.set_each(of_targets(true), requested, place, ledger, &mut |_| {})?,
            Some(device) => {
                let shared = self.devices.entry(device.clone()).or_default();
                let is_first = shared.slots.is_empty();
                if !is_first {
                    refuse_another(&shared.controls, requested)?;
                }
                shared.slots.insert(slot);
                if is_first {
                    shared.controls.set_each(
                        of_targets(true),
                        requested,
                        place,
                        ledger,
                        &mut |_| {},
                    )?;
                }
                own.records.clone_from(&shared.controls.records);
                own.warnings.clone_from(&shared.controls.warnings);
                own.held = shared.controls.held.clone();
            }
        }
        own.set_each(of_targets(false), requested, place, ledger, &mut |_| {})
    }

    /// Undoes the changes that no other slot needs. Returns the errors of changes that could not be
    /// undone; they stay in the ledger.
    pub fn restore(&mut self, slot: Slot, ledger: &Ledger) -> Vec<String> {
        let mut failures = Vec::new();
        self.devices.retain(|_, shared| {
            let was_its = shared.slots.remove(&slot);
            if was_its && shared.slots.is_empty() {
                failures.extend(shared.controls.restore(ledger));
            }
            !shared.slots.is_empty()
        });
        failures
    }
}

/// Refuses another value of a setting, because a disk has only one.
fn refuse_another(
    set: &ActiveControls,
    requested: &BTreeMap<String, String>,
) -> Result<(), TestbedError> {
    for control in of_targets(true) {
        let (wanted, name) = (value_of(control, requested), control.name());
        let Some(record) = set
            .records
            .get(name)
            .filter(|record| record.requested != wanted)
        else {
            continue;
        };
        return Err(
            TestbedError::trial(format!("{name}={wanted} cannot be set for this target"))
                .tried(format!(
                    "another target that is ready on the same disk has {name}={}",
                    record.requested
                ))
                .advice("measure one target at a time (fsb run --one-at-a-time)"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn a_disk_keeps_its_settings_until_its_last_target_is_gone() {
        let bench = Bench::with_disk();
        let (file, disk) = ("sys/devices/disk/queue/scheduler", bench.place.clone());
        bench.write(file, "none [mq-deadline] kyber");
        let requested = BTreeMap::from([("scheduler".to_owned(), "none".to_owned())]);
        let (mut controls, mut own) = (
            DeviceControls::default(),
            [(); 2].map(|()| ActiveControls::default()),
        );
        for (slot, own) in (0..).zip(&mut own) {
            controls
                .set(slot, own, &requested, &disk, &bench.ledger)
                .unwrap();
            assert_eq!(own.records["scheduler"].requested, "none");
            assert!(own.records.contains_key("cpus"));
        }
        let other = BTreeMap::from([("scheduler".to_owned(), "kyber".to_owned())]);
        let refused = controls
            .set(
                2,
                &mut ActiveControls::default(),
                &other,
                &disk,
                &bench.ledger,
            )
            .unwrap_err();
        assert!(refused.to_string().contains("scheduler=none"), "{refused}");
        assert!(controls.restore(2, &bench.ledger).is_empty());
        assert!(controls.restore(0, &bench.ledger).is_empty());
        assert_eq!(bench.read(file), "none");
        assert!(controls.restore(1, &bench.ledger).is_empty());
        assert_eq!(bench.read(file), "mq-deadline");
    }
}
