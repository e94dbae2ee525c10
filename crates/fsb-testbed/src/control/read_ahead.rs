//! The read-ahead of the kernel.
//!
//! A file system takes over the device's value when it is mounted, unless it has its own: btrfs
//! reads 4 MiB ahead and FUSE 128 KiB, regardless of the device. The control therefore sets those
//! again after every mount. Their old value disappears with the mount.

use std::path::{Path, PathBuf};

use fsb_model::units::show_bytes;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, read_trimmed};

use super::interface::{
    Context, Control, KEEP, Scope, Stop, TargetDevice, Value, device_settings, invalid,
    is_device_setting, parse,
};
use crate::declared::{OptionKind, OptionValue};
use crate::fs;
use crate::ledger::Action;

pub(super) struct ReadAhead;

/// The largest value. More has no measurable effect, and a page cache full of read-ahead affects
/// other processes.
const MOST: u64 = 1 << 30;

/// Returns the file of the device's own setting.
pub(super) fn file(device: &Path) -> PathBuf {
    device.join("queue/read_ahead_kb")
}

const VALUES: &[Value] = &[
    Value::word(KEEP, "unchanged (default)"),
    Value::form(
        "SIZE",
        OptionKind::Size(0..=MOST),
        "a size, such as 128K; 0 for none",
    ),
];

fn bytes_of(value: &str) -> Result<u64, Refusal> {
    let OptionValue::Number(bytes) = parse(VALUES, value)? else {
        return Err("a size is missing".into());
    };
    let page = rustix::param::page_size() as u64;
    if !bytes.is_multiple_of(page) {
        return Err(format!("the kernel reads ahead in whole pages of {page} bytes").into());
    }
    Ok(bytes)
}

fn bytes_in(path: &Path) -> Option<u64> {
    Some(read_trimmed(path)?.parse::<u64>().ok()? * 1024)
}

/// Sets the read-ahead that a file system just mounted from the block device `name` has of its own.
/// If it has none, checks that the device's setting still holds. The former disappears with the
/// mount, so it needs no undo entry.
pub(crate) fn after_mount(bytes: u64, name: &str, roots: &Roots) -> Result<(), TestbedError> {
    let Some(path) = fs::own_read_ahead(name, roots) else {
        let device = bytes_in(
            &roots
                .sys
                .join(format!("class/block/{name}/queue/read_ahead_kb")),
        );
        return match device.filter(|now| *now != bytes) {
            None => Ok(()),
            Some(now) => Err(TestbedError::trial(format!(
                "the read-ahead of {name} was changed to {now} bytes meanwhile"
            ))
            .advice("another program changes this device: check udev rules and tuned")),
        };
    };
    fn fail(tried: Refusal) -> TestbedError {
        TestbedError::trial("the file system keeps its own read-ahead").tried(tried)
    }
    std::fs::write(&path, (bytes / 1024).to_string())
        .map_err(|error| fail(attempt("write to", &path, &error)))?;
    match bytes_in(&path) {
        Some(now) if now == bytes => Ok(()),
        now => Err(fail(
            format!("{} holds {now:?} bytes", path.display()).into(),
        )),
    }
}

impl Control for ReadAhead {
    fn name(&self) -> &'static str {
        "read-ahead"
    }

    fn about(&self) -> &'static str {
        "Read-ahead of the kernel on the target's device, also for btrfs and FUSE."
    }

    fn scope(&self) -> Scope {
        Scope::Target
    }

    fn values(&self) -> &'static [Value] {
        VALUES
    }

    fn check(&self, value: &str, _: &Roots) -> Result<(), TestbedError> {
        if value == KEEP {
            return Ok(());
        }
        match bytes_of(value) {
            Ok(_) => Ok(()),
            Err(why) => Err(invalid("read-ahead", value, why)
                .advice("or use keep, which leaves the setting unchanged")),
        }
    }

    fn probe(&self, _: &Roots) -> Result<(), Refusal> {
        device_settings()
    }

    fn apply(&self, value: &str, context: &mut Context<'_>) -> Result<String, Stop> {
        let wanted = bytes_of(value)?;
        let device = context.place.device()?.to_owned();
        context.change_file(&file(&device), &(wanted / 1024).to_string())?;
        match bytes_in(&file(&device)) {
            Some(now) if now == wanted => {
                context.held.read_ahead = Some(wanted);
                Ok(self.observe(context.roots, context.place))
            }
            _ => Err(Stop::Lacks("the kernel kept another value".into())),
        }
    }

    fn owns(&self, action: &Action, roots: &Roots) -> bool {
        is_device_setting(action, roots, file)
    }

    fn concerns_device(&self) -> bool {
        true
    }

    fn observe(&self, _: &Roots, place: &TargetDevice) -> String {
        let device = match place.device() {
            Ok(device) => device,
            Err(why) => return why.to_string(),
        };
        bytes_in(&file(device)).map_or_else(
            || "the device has no queue".to_owned(),
            |now| show_bytes(now as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::Bench;

    #[test]
    fn the_device_is_set_and_comes_back() {
        let bench = Bench::with_disk();
        bench.write("sys/devices/disk/queue/read_ahead_kb", "128");
        let held = bench.set(&ReadAhead, "1M", |applied, _| {
            assert_eq!(bench.read("sys/devices/disk/queue/read_ahead_kb"), "1024");
            assert_eq!(applied.observed, "1.00 MiB");
        });
        assert_eq!(bench.read("sys/devices/disk/queue/read_ahead_kb"), "128");
        assert_eq!(held.read_ahead, Some(1 << 20));
    }

    #[test]
    fn read_ahead_is_set_after_the_mount_on_file_systems_with_their_own() {
        let bench = Bench::new();
        after_mount(1 << 20, "loop3", &bench.roots).unwrap();
        bench.write("sys/class/block/loop3/dev", "7:3");
        bench.write("sys/class/bdi/7:3/read_ahead_kb", "1024");
        after_mount(1 << 20, "loop3", &bench.roots).unwrap();
        bench.write("sys/class/block/loop3/queue/read_ahead_kb", "1024");
        after_mount(1 << 20, "loop3", &bench.roots).unwrap();
        assert!(
            after_mount(2 << 20, "loop3", &bench.roots)
                .unwrap_err()
                .to_string()
                .contains("meanwhile")
        );
        bench.write("sys/class/bdi/7:3-fuseblk/read_ahead_kb", "128");
        after_mount(1 << 20, "loop3", &bench.roots).unwrap();
        assert_eq!(
            bench.read("sys/class/bdi/7:3-fuseblk/read_ahead_kb"),
            "1024"
        );
        bench.write("sys/fs/btrfs/0a0b/devices/loop2/size", "1");
        bench.write("sys/fs/btrfs/0a0b/bdi/read_ahead_kb", "4096");
        bench.write("sys/class/block/loop2/dev", "7:2");
        after_mount(0, "loop2", &bench.roots).unwrap();
        assert_eq!(bench.read("sys/fs/btrfs/0a0b/bdi/read_ahead_kb"), "0");
    }

    #[test]
    fn nonsense_is_refused() {
        for (value, word) in [
            ("100", "whole pages"),
            ("2T", "at most"),
            ("far", "'far'"),
            ("-4K", "'-4K'"),
        ] {
            let refused = ReadAhead.check(value, &Roots::default()).unwrap_err();
            assert_eq!(refused.kind, crate::Kind::Request);
            assert!(refused.to_string().contains(word), "{refused}");
        }
        ReadAhead.check("0", &Roots::default()).unwrap();
    }
}
