//! Controls of devices while several targets are ready. Two targets may share one disk: each setting of the disk is
//! made for the first of them, and undone with the last.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use fsb_sys::error::TestbedError;

use crate::control::{ActiveControls, Control, REGISTRY, Scope, TargetDevice, value_of};
use crate::ledger::Ledger;
use crate::testbed::Slot;

/// The controls that are set on the devices of the ready targets, by the device's directory below /sys.
#[derive(Default)]
pub(super) struct DeviceControls {
    devices: BTreeMap<PathBuf, Shared>,
}

#[derive(Default)]
struct Shared {
    controls: ActiveControls,
    slots: BTreeSet<Slot>,
}

fn of_visits(device: bool) -> impl Iterator<Item = &'static dyn Control> {
    REGISTRY.iter().copied().filter(move |it| it.scope() == Scope::Visit && it.concerns_device() == device)
}

impl DeviceControls {
    /// Sets the requested controls for the target of that slot: those of its device here, all others in `own`. In the
    /// end `own` has the records and warnings of both, and the restrictions on the target's processes.
    pub fn set(
        &mut self,
        slot: Slot,
        own: &mut ActiveControls,
        requested: &BTreeMap<String, String>,
        place: &TargetDevice,
        ledger: &Ledger,
    ) -> Result<(), TestbedError> {
        match &place.device {
            None => own.set_each(of_visits(true), requested, place, ledger, &mut |_| {})?,
            Some(device) => {
                let shared = self.devices.entry(device.clone()).or_default();
                let is_first = shared.slots.is_empty();
                if !is_first {
                    refuse_another(&shared.controls, requested)?;
                }
                shared.slots.insert(slot);
                if is_first {
                    shared.controls.set_each(of_visits(true), requested, place, ledger, &mut |_| {})?;
                }
                own.records.clone_from(&shared.controls.records);
                own.warnings.clone_from(&shared.controls.warnings);
                own.held = shared.controls.held.clone();
            }
        }
        own.set_each(of_visits(false), requested, place, ledger, &mut |_| {})
    }

    /// Undoes the changes that no other slot needs. Returns the errors of changes that could not be undone; they stay
    /// in the ledger.
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
fn refuse_another(set: &ActiveControls, requested: &BTreeMap<String, String>) -> Result<(), TestbedError> {
    for control in of_visits(true) {
        let (wanted, name) = (value_of(control, requested), control.name());
        let Some(record) = set.records.get(name).filter(|record| record.requested != wanted) else { continue };
        return Err(TestbedError::trial(format!("{name}={wanted} cannot be set for this target"))
            .tried(format!("another target that is ready on the same disk has {name}={}", record.requested))
            .advice("measure one target at a time (fsb run --one-at-a-time)"));
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
        let (mut controls, mut own) = (DeviceControls::default(), [(); 2].map(|()| ActiveControls::default()));
        for (slot, own) in (0..).zip(&mut own) {
            controls.set(slot, own, &requested, &disk, &bench.ledger).unwrap();
            assert_eq!(own.records["scheduler"].requested, "none");
            assert!(own.records.contains_key("cpus"));
        }
        let other = BTreeMap::from([("scheduler".to_owned(), "kyber".to_owned())]);
        let refused = controls.set(2, &mut ActiveControls::default(), &other, &disk, &bench.ledger).unwrap_err();
        assert!(refused.to_string().contains("scheduler=none"), "{refused}");
        assert!(controls.restore(2, &bench.ledger).is_empty());
        assert!(controls.restore(0, &bench.ledger).is_empty());
        assert_eq!(bench.read(file), "none");
        assert!(controls.restore(1, &bench.ledger).is_empty());
        assert_eq!(bench.read(file), "mq-deadline");
    }
}
