//! Out of cache: the files do not fit the memory that may hold them, so the device must do the work.
//!
//! The thresholds come from trials on ext2, ext3, ext4, xfs and btrfs (Linux 6.18, cgroup v1, limits of 32 and 64 MiB,
//! files of 1, 2 and 4 times the limit, records of 4 KiB to 1 MiB). One pass that begins remounted reads at least 1.00
//! of the file, in whichever order: what was read ahead and thrown away again only adds to it (up to 2.6 with strides).
//! A file that is read again from its start is read from the device to the last byte (1.00), already at 1 time the limit:
//! what comes next is always what was dropped last. Only at random would a second pass find some of the first (0.56 to
//! 0.98 of a file as large as the limit), which is why every pass begins remounted. Of writes 0.19 to 1.05 had left the
//! cache when the calls had returned, and 1.00 to 1.07 after the flush: so writes are durable. What was left in memory was
//! 0.80 to 0.99 of the limit, never more.

use fsb_engine::Profile;
use fsb_model::units::show_bytes;

use super::seen::{COLD_RESIDENT, Seen};
use crate::agent::protocol::Measured;

/// Share of the bytes asked for that the device must have moved. Far from the 1.00 that was always seen, far above what a
/// file finds that half fits.
const MOVED: f64 = 0.9;
/// The largest share of the limit that the examined files may hold afterwards. More than all of it would be charged to
/// somebody else: then the limit held nothing.
const RESIDENT: f64 = 1.0;

/// Whether the trial was out of cache; if not, why.
pub(super) fn proved(profile: &Profile, seen: &Seen, measured: &Measured) -> Result<(), String> {
    let show = |bytes: f64| show_bytes(bytes);
    let Some(limit) = seen.limit else {
        return Err("not out of cache: the memory that may cache the files is unknown".to_owned());
    };
    let files = profile.files * profile.file_size;
    if files < limit {
        return Err(format!(
            "not out of cache: files of {} fit a memory of {}",
            show(files as f64),
            show(limit as f64)
        ));
    }
    if let Some(resident) = seen.resident_before
        && resident as f64 > seen.file_bytes as f64 * COLD_RESIDENT
    {
        let (found, all) = (show(resident as f64), show(seen.file_bytes as f64));
        return Err(format!("not out of cache: {found} of {all} were in memory before it began"));
    }
    match seen.resident_after {
        Some(resident) if resident as f64 > limit as f64 * RESIDENT => {
            let (found, limit) = (show(resident as f64), show(limit as f64));
            return Err(format!("not out of cache: {found} were in memory afterwards, with a limit of {limit}"));
        }
        _ => {}
    }
    let Some((read, written)) = seen.device else {
        return Err("out of cache cannot be verified: the device under the directory is not known".to_owned());
    };
    let reads = profile.cold_bytes_per_operation as f64 * profile.device_share * measured.operations as f64;
    let (did, moved, asked) = match reads > 0.0 {
        true => ("read", read as f64, reads),
        false => ("wrote", written as f64, measured.bytes as f64 * profile.device_share),
    };
    if moved < asked * MOVED {
        let (moved, asked) = (show(moved), show(asked));
        return Err(format!("not out of cache: the device {did} {moved} of {asked} requested"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_engine::{Sizing, workload};
    use fsb_model::WorkloadSpec;
    use serde_json::json;

    const MIB: u64 = 1 << 20;

    /// A file of 64 MiB, a limit of 32 MiB.
    fn trial(workload: serde_json::Value, seen: Seen) -> Result<(), String> {
        let spec: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let profile = workload::parse(&spec, &Sizing { size: 1 << 30, cpus: 1 }).unwrap().profile();
        let measured = Measured { operations: 64, bytes: 64 * MIB, ..Measured::default() };
        proved(&profile, &seen, &measured)
    }

    fn seen(device: (u64, u64), resident_after: u64) -> Seen {
        Seen {
            resident_before: Some(0),
            resident_after: Some(resident_after * MIB),
            file_bytes: 64 * MIB,
            device: Some((device.0 * MIB, device.1 * MIB)),
            limit: Some(32 * MIB),
            ..Seen::default()
        }
    }

    #[test]
    fn the_device_must_do_the_work() {
        let read = || json!({"name": "read", "file_size": "64M", "block_size": "1M", "cache": "out"});
        let write =
            || json!({"name": "rewrite", "file_size": "64M", "block_size": "1M", "cache": "out", "durability": "end"});
        assert_eq!(trial(read(), seen((64, 0), 31)), Ok(()));
        assert_eq!(trial(read(), seen((120, 0), 32)), Ok(()), "what was read ahead in vain is not a fault");
        assert_eq!(trial(write(), seen((0, 66), 31)), Ok(()));
        let cached = trial(read(), seen((40, 64), 31)).unwrap_err();
        assert_eq!(cached, "not out of cache: the device read 40.0 MiB of 64.0 MiB requested");
        let cached = trial(write(), seen((64, 20), 31)).unwrap_err();
        assert_eq!(cached, "not out of cache: the device wrote 20.0 MiB of 64.0 MiB requested");
    }

    #[test]
    fn what_lies_in_memory_is_charged_to_the_limit() {
        let read = || json!({"name": "read", "file_size": "64M", "block_size": "1M", "cache": "out"});
        let before = Seen { resident_before: Some(8 * MIB), ..seen((64, 0), 31) };
        assert!(trial(read(), before).unwrap_err().contains("8.00 MiB of 64.0 MiB were in memory before"));
        let outside = trial(read(), seen((64, 0), 60)).unwrap_err();
        assert_eq!(outside, "not out of cache: 60.0 MiB were in memory afterwards, with a limit of 32.0 MiB");
        let unlimited = Seen { limit: Some(1 << 36), ..seen((64, 0), 64) };
        assert!(trial(read(), unlimited).unwrap_err().contains("fit a memory of 64.0 GiB"));
        assert!(trial(read(), Seen { limit: None, ..seen((64, 0), 1) }).is_err());
        assert!(trial(read(), Seen { device: None, ..seen((64, 0), 1) }).unwrap_err().contains("cannot be verified"));
    }
}
