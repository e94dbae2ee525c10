//! Checks before the boot that the guest has enough memory and that this host can provide it.

use std::fs;

use fsb_model::units::show_bytes;

use crate::error::VmError;
use crate::initramfs::Initramfs;

const MIB: u64 = 1 << 20;

/// Memory that a distribution's kernel takes before its first program runs, in bytes.
const KERNEL: u64 = 160 * MIB;

/// Returns the least memory in bytes with which a guest with that initramfs boots.
/// [`Machine::boot`](super::Machine::boot) refuses less. While the kernel unpacks the archive, memory holds it twice.
pub fn least_memory(initramfs: &Initramfs) -> u64 {
    (KERNEL + 2 * initramfs.size).next_multiple_of(32 * MIB)
}

/// Refuses a machine with too little memory, or with more than this host has available.
pub(super) fn check(memory: u64, initramfs: &Initramfs) -> Result<(), VmError> {
    let least = least_memory(initramfs);
    if memory < least {
        return Err(VmError::machine(format!("{} is too little memory for the guest", show_bytes(memory as f64)))
            .tried(format!("its kernel and programs take {}", show_bytes(least as f64)))
            .advice(format!("use --memory {}M", least / MIB)));
    }
    match available(&fs::read_to_string("/proc/meminfo").unwrap_or_default()) {
        Some(free) if free < memory => Err(VmError::machine(format!(
            "the guest's {} of memory do not fit this machine",
            show_bytes(memory as f64)
        ))
        .tried(format!("{} are available", show_bytes(free as f64)))
        .advice("give it less with --memory, or end what uses memory here")),
        _ => Ok(()),
    }
}

/// Returns `MemAvailable` in bytes.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_and_too_much_are_refused() {
        let path = std::path::PathBuf::new();
        let initramfs = Initramfs {
            kernel: path.clone(),
            path,
            modules: Vec::new(),
            image_hash: String::new(),
            module_hashes: Default::default(),
            missing: Vec::new(),
            size: 40 * MIB,
            reused: false,
            held: Default::default(),
        };
        let least = least_memory(&initramfs);
        assert_eq!(least % (32 * MIB), 0);
        let little = check(least - 1, &initramfs).unwrap_err().to_string();
        assert!(little.ends_with(&format!("use --memory {}M", least / MIB)), "{little}");
        let much = check(u64::MAX, &initramfs).unwrap_err().to_string();
        assert!(much.contains("do not fit this machine") && much.contains("are available"), "{much}");
    }

    #[test]
    fn available_memory_is_read() {
        assert_eq!(available("MemTotal: 5 kB\nMemAvailable:   23 kB\n"), Some(23 * 1024));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert_eq!(available("MemAvailable: 99999999999999999999 kB\n"), None);
    }
}
