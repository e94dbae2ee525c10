//! Barriers off: the control marks the device's cache as not volatile, so that the kernel sends it
//! no flushes.
//!
//! The mount options for this are gone from xfs, and every published figure of 2011 was measured
//! this way. A power failure may then lose synced data. The control therefore refuses a device that
//! also holds other data.

use std::path::{Path, PathBuf};

use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, Scope, Stop, TargetDevice, Value, device_settings, is_device_setting,
};
use super::read_ahead;
use crate::ledger::Action;

pub(super) struct Barriers;

const OFF: &str = "off";
const NO_FLUSHES: &str = "write through";

fn file(device: &Path) -> PathBuf {
    device.join("queue/write_cache")
}

/// Makes `change` and then writes the read-ahead again, because new kernels reset the read-ahead
/// whenever a limit of the queue changes, in both directions. The undo entry is recorded *before*
/// the change, because the ledger undoes the last entry first.
fn keep_read_ahead(
    context: &mut Context<'_>,
    device: &Path,
    change: impl FnOnce(&mut Context<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let path = read_ahead::file(device);
    let Some(before) = read_trimmed(&path) else {
        return change(context);
    };
    context.record(Action::WriteFile {
        path: path.clone(),
        value: before.clone(),
    })?;
    change(context)?;
    if read_trimmed(&path).as_ref() == Some(&before) {
        return Ok(());
    }
    std::fs::write(&path, &before).map_err(|error| Stop::Lacks(attempt("write to", &path, &error)))
}

impl Control for Barriers {
    fn name(&self) -> &'static str {
        "barriers"
    }

    fn about(&self) -> &'static str {
        "Flushes of the write cache of the target's device."
    }

    fn scope(&self) -> Scope {
        Scope::Target
    }

    fn values(&self) -> &'static [Value] {
        const {
            &[
                Value::word(
                    KEEP,
                    "unchanged: the kernel flushes the device wherever data must be durable (default)",
                ),
                Value::word(OFF, "no flushes: a power failure may lose durable data"),
            ]
        }
    }

    fn check_place(
        &self,
        value: &str,
        place: &TargetDevice,
        _: &Roots,
    ) -> Result<(), TestbedError> {
        match &place.shared_with {
            Some(others) if value == OFF => {
                let what = format!(
                    "barriers=off would put others' data at risk: the device is shared with {others}"
                );
                let error = TestbedError::request(what).coded(&fsb_model::error::RISKS_DATA);
                let error = error
                    .field("control", "barriers")
                    .field("shared_with", others.as_str());
                Err(error.advice("use an image (@loop) or a disk of its own"))
            }
            _ => Ok(()),
        }
    }

    fn probe(&self, _: &Roots) -> Result<(), Refusal> {
        device_settings()
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        // Another user of the device may have appeared since the check.
        self.check_place(value, context.place, context.roots)?;
        let device = context.place.device()?.to_owned();
        if read_trimmed(&file(&device)).is_some_and(|now| now != NO_FLUSHES) {
            keep_read_ahead(context, &device, |context| {
                context.change_file(&file(&device), NO_FLUSHES)
            })?;
        }
        match read_trimmed(&file(&device)) {
            Some(now) if now == NO_FLUSHES => {
                context.held.no_flushes = true;
                Ok(self.observe(context.roots, context.place))
            }
            now => Err(Stop::Lacks(
                format!("the kernel kept '{}'", now.unwrap_or_default()).into(),
            )),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        [file, read_ahead::file]
            .iter()
            .any(|file| is_device_setting(action, roots, *file))
    }

    fn concerns_device(&self) -> bool {
        true
    }

    fn observe(&self, _: &Roots, place: &TargetDevice) -> String {
        let device = match place.device() {
            Ok(device) => device,
            Err(why) => return why.to_string(),
        };
        match read_trimmed(&file(device)).as_deref() {
            Some(NO_FLUSHES) => format!("off ({NO_FLUSHES}: no flushes)"),
            Some(now) => format!("on ({now})"),
            None => "the device has no queue".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn the_cache_is_denied_and_comes_back() {
        let bench = Bench::with_disk();
        bench.write("sys/devices/disk/queue/write_cache", "write back");
        bench.write("sys/devices/disk/queue/read_ahead_kb", "8192");
        let held = bench.set(&Barriers, OFF, |applied, handles| {
            assert_eq!(
                bench.read("sys/devices/disk/queue/write_cache"),
                "write through"
            );
            assert!(applied.effective);
            // Undone last, because undoing the other changes resets it.
            assert!(
                handles[0]
                    .action()
                    .to_string()
                    .starts_with("write '8192' back to"),
                "{handles:?}"
            );
            assert_eq!(handles.len(), 2);
        });
        assert!(held.no_flushes);
        assert_eq!(
            bench.read("sys/devices/disk/queue/write_cache"),
            "write back"
        );
        assert!(
            !bench
                .set(&Barriers, KEEP, |applied, _| assert_eq!(
                    applied.observed,
                    "on (write back)"
                ))
                .no_flushes
        );
    }

    #[test]
    fn a_device_without_a_cache_needs_nothing() {
        let bench = Bench::with_disk();
        bench.write("sys/devices/disk/queue/write_cache", "write through");
        let held = bench.set(&Barriers, OFF, |applied, handles| {
            assert!(applied.effective && handles.is_empty())
        });
        assert!(held.no_flushes);
    }

    #[test]
    fn others_on_the_device_are_not_put_at_risk() {
        let place = TargetDevice {
            shared_with: Some("sda1 in use".to_owned()),
            ..TargetDevice::default()
        };
        let refused = Barriers
            .check_place(OFF, &place, &Roots::default())
            .unwrap_err();
        assert_eq!(refused.kind, crate::Kind::Request);
        assert!(refused.to_string().contains("sda1 in use"), "{refused}");
        Barriers
            .check_place(KEEP, &place, &Roots::default())
            .unwrap();
    }
}
