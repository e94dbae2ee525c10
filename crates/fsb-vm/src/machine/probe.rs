//! Checks with a boot whether KVM works on this host. On some hosts the device exists and every guest hangs.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use fsb_model::units::show_duration;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::qemu::{Plan, name, text};
use super::{Acceleration, Architecture, Machine, least_memory, lock, qemu};
use crate::error::VmError;
use crate::guest;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;

const DEVICE: &str = "/dev/kvm";
/// Time limit for the first output. A kernel prints its first line within tenths of a second.
const SILENCE: Duration = Duration::from_secs(5);
/// Time limit for the boot.
const LIMIT: Duration = Duration::from_secs(20);

/// Time for which a failed probe is cached. A busy host may have been the only reason.
const DOUBT: Duration = Duration::from_secs(3600);

/// The cached result, valid until the host boots again.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Memory {
    boot_id: String,
    acceleration: Acceleration,
    how: String,
    /// Time of the probe in seconds since 1970.
    #[serde(default)]
    found: u64,
}

/// Determines how this host can run guests. If KVM is available, boots that kernel with it within a time limit, and
/// chooses emulation if the boot fails. Caches the result below `cache` until the host boots again, a failure for an
/// hour. The returned text describes the result for the record.
pub fn probe(kernel: &Kernel, initramfs: &Initramfs, launcher: &Path, cache: &Path) -> (Acceleration, String) {
    if !Path::new(DEVICE).exists() {
        return (Acceleration::Emulated, format!("no {DEVICE}"));
    }
    // The permission can change at any time, and the check is cheap, so it is not cached.
    if let Err(error) = access(DEVICE, Access::READ_OK | Access::WRITE_OK) {
        return (Acceleration::Emulated, format!("{DEVICE} cannot be opened: {error}"));
    }
    let path = cache.join("acceleration.json");
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if let Some(known) = recall(&path, boot_id.trim(), now) {
        return (known.acceleration, known.how);
    }
    let (acceleration, how) = match boots(kernel, initramfs, launcher) {
        Ok(time) => (Acceleration::Kvm, format!("a guest came up with KVM in {}", show_duration(time))),
        Err(why) => (Acceleration::Emulated, format!("{DEVICE} is there, but {why}")),
    };
    let memory = Memory { boot_id: boot_id.trim().to_owned(), acceleration, how: how.clone(), found: now };
    remember(&path, &memory);
    (acceleration, how)
}

fn recall(path: &Path, boot_id: &str, now: u64) -> Option<Memory> {
    let memory: Memory = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    // The difference is absolute, so that a clock that was set back does not extend the validity.
    let holds = memory.acceleration == Acceleration::Kvm || now.abs_diff(memory.found) < DOUBT.as_secs();
    (!boot_id.is_empty() && memory.boot_id == boot_id && holds).then_some(memory)
}

/// Caches the result. An error is ignored: it only costs another probe.
fn remember(path: &Path, memory: &Memory) {
    let write = || -> Option<()> {
        let directory = path.parent()?;
        fs::create_dir_all(directory).ok()?;
        let file = tempfile::NamedTempFile::new_in(directory).ok()?;
        serde_json::to_writer(file.as_file(), memory).ok()?;
        file.persist(path).ok()?;
        Some(())
    };
    let _ = write();
}

/// Boots a guest until it prints that it is ready.
fn boots(kernel: &Kernel, initramfs: &Initramfs, launcher: &Path) -> Result<Duration, String> {
    let start = Instant::now();
    let mut machine = start_with(Acceleration::Kvm, kernel, initramfs, launcher).map_err(|error| error.to_string())?;
    loop {
        let (ready, spoke) = {
            let console = lock(&machine.console);
            (console.ready(), console.spoke())
        };
        if ready {
            return Ok(start.elapsed());
        }
        if let Some(stop) = machine.stopped() {
            // The last line may have arrived after the check.
            return if lock(&machine.console).ready() {
                Ok(start.elapsed())
            } else {
                Err(format!("the guest stopped: {stop}"))
            };
        }
        if start.elapsed() > LIMIT || (!spoke && start.elapsed() > SILENCE) {
            return Err(format!("a guest did not come up in {}", show_duration(start.elapsed())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a machine for the probe only: no disks, no port, and the kernel's own messages as a sign of life.
fn start_with(
    acceleration: Acceleration,
    kernel: &Kernel,
    initramfs: &Initramfs,
    launcher: &Path,
) -> Result<Machine, VmError> {
    let qemu = qemu::find_qemu(Architecture::HERE)?;
    let plan = Plan {
        architecture: Architecture::HERE,
        acceleration,
        memory: least_memory(initramfs),
        cpus: 1,
        name: name(kernel),
        kernel: text(&initramfs.kernel)?,
        initramfs: text(&initramfs.path)?,
        words: vec![guest::WORD.to_owned(), guest::PROBE_WORD.to_owned()],
        protocol: false,
        root: None,
        disks: Vec::new(),
    };
    Machine::start(&qemu, launcher, &plan.arguments(), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_result_holds_until_the_next_boot() {
        let cache = tempfile::tempdir().unwrap();
        let path = cache.path().join("deep/acceleration.json");
        let kvm =
            Memory { boot_id: "a".into(), acceleration: Acceleration::Kvm, how: "it came up".into(), found: 1_000_000 };
        remember(&path, &kvm);
        assert_eq!(recall(&path, "b", 1_000_000), None);
        assert_eq!(recall(&path, "a", 9_000_000), Some(kvm));
        let none = Memory {
            boot_id: "a".into(),
            acceleration: Acceleration::Emulated,
            how: "it did not".into(),
            found: 1_000_000,
        };
        remember(&path, &none);
        assert_eq!((recall(&path, "a", 1_003_600), recall(&path, "a", 996_000)), (None, None));
        assert_eq!(recall(&path, "a", 1_003_599), Some(none));
        fs::write(&path, "garbage").unwrap();
        assert_eq!(recall(&path, "a", 1_000_000), None);
        assert_eq!(recall(&path, "", 1_000_000), None);
    }
}
