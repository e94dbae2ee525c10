//! Validity checks: a trial whose state differs from its name is invalid and is not ranked
//! (docs/methods/method.md, "Measuring", 5).

use fsb_engine::{EXAMINED_FILES, Measurement, Profile, Ready};
use fsb_model::observed::{Direct, Observed};
use fsb_model::trial::{NOT_COLD, NOT_DIRECT, NOT_OUT_OF_CACHE, NOT_UNCACHED, NOT_WARM, Reason};
use fsb_model::units::show_bytes;
use fsb_model::{CacheState, Durability};
use fsb_testbed::{Abilities, ColdMethod};

use super::protocol::Measured;

/// Share of the requested bytes that the device must have served in a cold trial. It is below 1,
/// because the last bytes of a file may be read together with blocks of others.
const COLD_SHARE: f64 = 0.95;
/// Share of the data that may be in memory after direct I/O.
const DIRECT_RESIDENT: f64 = 0.01;
/// Share of the data that may be in memory after uncached I/O. The kernel releases pages of the
/// last writes after it wakes the sync, and not every device tells how many were read ahead. File
/// systems that keep pages keep all of them (ext4 after overwriting, Linux 6.18).
const UNCACHED_RESIDENT: f64 = 0.1;
/// Share of the bytes moved past the page cache that the device must have moved.
const DIRECT_SHARE: f64 = 0.95;
/// Share of the data that must be in memory before a warm trial, if it is there before, and after
/// it.
const WARM_RESIDENT: f64 = 0.99;
/// Share of the requested bytes that the device may have served in a warm trial, besides
/// [`WARM_SLACK`].
const WARM_SHARE: f64 = 0.01;
/// Bytes of metadata that a warm trial may read: opening a file must find it.
const WARM_SLACK: u64 = 1 << 20;

/// Checks that the observations agree with the trial's name. Returns the reason as an error if they
/// do not.
pub fn verdict(
    profile: &Profile,
    abilities: &Abilities,
    seen: &Seen,
    measured: &Measured,
) -> Result<(), Reason> {
    if abilities.fake.is_some() {
        return Ok(());
    }
    if let Some(found) = seen.direct.filter(|_| profile.is_uncached()) {
        let unread = unread(profile, abilities, seen, measured);
        let kept = seen
            .resident_after
            .map(|resident| resident.saturating_sub(unread));
        uncached(profile, found, kept).map_err(|why| Reason::new(&NOT_UNCACHED, why))?;
    } else if let Some(found) = seen.direct {
        direct_beneath(abilities)
            .and_then(|()| direct(profile, found, seen.resident_after))
            .and_then(|()| direct_device(profile, abilities, seen, measured))
            .map_err(|why| Reason::new(&NOT_DIRECT, why))?;
    }
    match profile.cache {
        CacheState::Any => Ok(()),
        CacheState::Cold => {
            cold(profile, seen, measured).map_err(|why| Reason::new(&NOT_COLD, why))
        }
        CacheState::Warm => {
            warm(abilities, seen, measured).map_err(|why| Reason::new(&NOT_WARM, why))
        }
        CacheState::Out => {
            out_of_cache(profile, seen, measured).map_err(|why| Reason::new(&NOT_OUT_OF_CACHE, why))
        }
    }
}

/// Checks that no layer beneath the target puts direct I/O into a page cache again.
fn direct_beneath(abilities: &Abilities) -> Result<(), String> {
    if abilities.why_not_direct.is_empty() {
        Ok(())
    } else {
        Err(abilities.why_not_direct.clone())
    }
}

/// Checks that direct I/O leaves nothing in the page cache. `found` is the examination before the
/// work, and `resident_after` are the bytes of the files in memory afterwards.
///
/// # Errors
/// The reason why the work was not direct.
pub fn direct(profile: &Profile, found: Direct, resident_after: Option<u64>) -> Result<(), String> {
    if found.buffered == Some(true) {
        return Err(
            "buffered despite O_DIRECT: the file system takes the flag and goes through the page cache".to_owned()
        );
    }
    let all = profile.file_size * profile.files.min(EXAMINED_FILES);
    match resident_after {
        Some(resident) if resident as f64 > all as f64 * DIRECT_RESIDENT => {
            let (resident, all) = (show_bytes(resident as f64), show_bytes(all as f64));
            Err(format!(
                "buffered despite O_DIRECT: {resident} of {all} were in the page cache afterwards"
            ))
        }
        None if found.buffered.is_none() => Err(
            "O_DIRECT cannot be verified: the kernel does not report what is in the page cache"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Returns whether the device serves the target alone. That under a directory serves others, too.
fn is_private(abilities: &Abilities) -> bool {
    abilities.cold == Some(ColdMethod::Remount)
}

/// Returns the bytes of the examined files that the kernel read ahead and the workload did not
/// read: what the device served beyond what was asked for. The kernel releases pages of uncached
/// I/O when they are read, so these stay (ext4 with requests in flight, Linux 6.18). Returns 0
/// where the device serves others, too.
fn unread(profile: &Profile, abilities: &Abilities, seen: &Seen, measured: &Measured) -> u64 {
    match seen.device {
        Some((read, _)) if is_private(abilities) && profile.reads_only => {
            // All bytes: a share that a file system might compress would excuse pages that it kept.
            let asked = measured.work.bytes as f64;
            let examined = profile.files.min(EXAMINED_FILES) as f64 / profile.files.max(1) as f64;
            ((read as f64 - asked).max(0.0) * examined) as u64
        }
        _ => 0,
    }
}

/// Checks that uncached I/O leaves nothing in the page cache. `found` is the examination before the
/// work, and `resident_after` are the bytes of the files in memory afterwards, without those that
/// were only read ahead. Pages that are yet to be written back are in memory, so that after writes
/// that are not durable only the examination counts.
///
/// # Errors
/// The reason why the work was not uncached.
pub fn uncached(
    profile: &Profile,
    found: Direct,
    resident_after: Option<u64>,
) -> Result<(), String> {
    if found.buffered == Some(true) {
        return Err(
            "cached despite RWF_DONTCACHE: the file system takes the flag and keeps written pages"
                .to_owned(),
        );
    }
    if !profile.reads_only && profile.durability == Durability::None {
        return Ok(());
    }
    let all = profile.file_size * profile.files.min(EXAMINED_FILES);
    match resident_after {
        Some(resident) if resident as f64 > all as f64 * UNCACHED_RESIDENT => {
            let (resident, all) = (show_bytes(resident as f64), show_bytes(all as f64));
            Err(format!(
                "cached despite RWF_DONTCACHE: {resident} of {all} were in the page cache afterwards"
            ))
        }
        Some(_) => Ok(()),
        None => Err(
            "uncached cannot be verified: the kernel does not report what is in the page cache"
                .to_owned(),
        ),
    }
}

/// Checks that direct I/O does not stay in another cache either: that of a FUSE server, or of the
/// block device.
fn direct_device(
    profile: &Profile,
    abilities: &Abilities,
    seen: &Seen,
    measured: &Measured,
) -> Result<(), String> {
    let private = is_private(abilities);
    let asked = measured.work.bytes as f64 * profile.device_share;
    match seen.device {
        Some((read, written)) if private && ((read + written) as f64) < asked * DIRECT_SHARE => {
            let [moved, asked] = [(read + written) as f64, asked].map(show_bytes);
            Err(format!(
                "buffered despite O_DIRECT: the device moved {moved} of {asked}"
            ))
        }
        _ => Ok(()),
    }
}

fn cold(profile: &Profile, seen: &Seen, measured: &Measured) -> Result<(), String> {
    if let Some(resident) = seen.resident_before
        && resident as f64 > seen.file_bytes as f64 * COLD_RESIDENT
    {
        let (found, all) = (
            show_bytes(resident as f64),
            show_bytes(seen.file_bytes as f64),
        );
        return Err(format!(
            "not cold: {found} of {all} were in memory before it began"
        ));
    }
    let asked = profile.cold_bytes_per_operation as f64
        * profile.device_share
        * measured.work.operations as f64;
    // A mount reads ahead in the very tables that hold the inodes: for metadata its reads count as
    // well.
    let read = seen
        .since_cold
        .filter(|_| profile.metadata_only)
        .or(seen.device.map(|(read, _)| read));
    // What the client had in memory, the server's device need not have read again.
    if let Some(rpcs) = measured.rpcs.as_ref().filter(|_| !profile.metadata_only)
        && (rpcs.read_bytes as f64) < asked * COLD_SHARE
    {
        let (read, asked) = (show_bytes(rpcs.read_bytes as f64), show_bytes(asked));
        return Err(format!(
            "not cold: the NFS client read {read} of {asked} requested from the server"
        ));
    }
    match read {
        Some(read) if (read as f64) < asked * COLD_SHARE => {
            let (read, asked) = (show_bytes(read as f64), show_bytes(asked));
            Err(format!(
                "not cold: the device read {read} of {asked} requested"
            ))
        }
        Some(_) => Ok(()),
        None if seen.resident_before.is_some() => Ok(()),
        None => {
            Err("cold cannot be verified: the device under the directory is not known".to_owned())
        }
    }
}

fn warm(abilities: &Abilities, seen: &Seen, measured: &Measured) -> Result<(), String> {
    // What the device read is the only evidence then.
    let in_page_cache = !abilities.own_cache;
    if let Some(resident) = seen.resident_before.filter(|_| in_page_cache)
        && (resident as f64) < seen.file_bytes as f64 * WARM_RESIDENT
    {
        let (found, all) = (
            show_bytes(resident as f64),
            show_bytes(seen.file_bytes as f64),
        );
        return Err(format!(
            "not warm: only {found} of {all} were in memory when it began"
        ));
    }
    if let Some(resident) = seen.resident_after.filter(|_| in_page_cache)
        && (resident as f64) < seen.file_bytes_after as f64 * WARM_RESIDENT
    {
        let (found, all) = (
            show_bytes(resident as f64),
            show_bytes(seen.file_bytes_after as f64),
        );
        return Err(format!(
            "not in cache: only {found} of {all} were in memory afterwards"
        ));
    }
    // Pages that the NFS client had, but did not trust, are read from the server again.
    if let Some(rpcs) = &measured.rpcs
        && rpcs.read_bytes as f64 > measured.work.bytes as f64 * WARM_SHARE + WARM_SLACK as f64
    {
        let read = show_bytes(rpcs.read_bytes as f64);
        return Err(format!(
            "not warm: the NFS client read {read} from the server"
        ));
    }
    // Elsewhere, only residency is evidence.
    let private = is_private(abilities);
    match seen.device {
        Some((read, _))
            if private
                && read as f64 > measured.work.bytes as f64 * WARM_SHARE + WARM_SLACK as f64 =>
        {
            Err(format!(
                "not warm: the device read {}",
                show_bytes(read as f64)
            ))
        }
        _ => Ok(()),
    }
}

/// Share of the requested bytes that the device must have moved. It is far below 1.00, which was
/// always observed, and far above the share of a file that fits by half.
const OUT_OF_CACHE_MOVED: f64 = 0.9;
/// The largest share of the limit that the examined files may hold afterwards. More than the limit
/// would be charged to another group, and the limit would have held nothing.
const OUT_OF_CACHE_RESIDENT: f64 = 1.0;

/// Checks that the trial was out of cache. Returns the reason as an error if it was not.
///
/// The thresholds come from trials on ext2, ext3, ext4, xfs and btrfs (Linux 6.18, cgroup v1). The
/// limits were 32 and 64 MiB, the files 1, 2 and 4 times the limit, and the records 4 KiB to 1 MiB:
///
/// * One pass that begins remounted reads at least 1.00 of the file, in whichever order. Data that
///   was read ahead and dropped again only adds to it (up to 2.6 with strides).
/// * A file that is read again from its start is read from the device to the last byte (1.00),
///   already at 1 time the limit. The reason is that the next bytes are always those that were
///   dropped last.
/// * Only at random would a second pass find some of the first (0.56 to 0.98 of a file as large as
///   the limit). Every pass therefore begins remounted.
/// * Of writes, 0.19 to 1.05 had left the cache when the calls had returned, and 1.00 to 1.07 after
///   the flush. Writes are therefore durable.
/// * Memory kept 0.80 to 0.99 of the limit, never more.
fn out_of_cache(profile: &Profile, seen: &Seen, measured: &Measured) -> Result<(), String> {
    fn show(bytes: f64) -> String {
        show_bytes(bytes)
    }
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
        return Err(format!(
            "not out of cache: {found} of {all} were in memory before it began"
        ));
    }
    match seen.resident_after {
        Some(resident) if resident as f64 > limit as f64 * OUT_OF_CACHE_RESIDENT => {
            let (found, limit) = (show(resident as f64), show(limit as f64));
            return Err(format!(
                "not out of cache: {found} were in memory afterwards, with a limit of {limit}"
            ));
        }
        _ => {}
    }
    let Some((read, written)) = seen.device else {
        return Err(
            "out of cache cannot be verified: the device under the directory is not known"
                .to_owned(),
        );
    };
    let reads = profile.cold_bytes_per_operation as f64
        * profile.device_share
        * measured.work.operations as f64;
    let (did, moved, asked) = match reads > 0.0 {
        true => ("read", read as f64, reads),
        false => (
            "wrote",
            written as f64,
            measured.work.bytes as f64 * profile.device_share,
        ),
    };
    if moved < asked * OUT_OF_CACHE_MOVED {
        let (moved, asked) = (show(moved), show(asked));
        return Err(format!(
            "not out of cache: the device {did} {moved} of {asked} requested"
        ));
    }
    Ok(())
}

/// Share of the data that may be in memory before a cold trial.
const COLD_RESIDENT: f64 = 0.01;
/// The observations of the repetitions of a trial.
#[derive(Debug, Default)]
pub struct Seen {
    resident_before: Option<u64>,
    resident_after: Option<u64>,
    file_bytes: u64,
    file_bytes_after: u64,
    /// Bytes that the page cache of the work may hold.
    limit: Option<u64>,
    device: Option<(u64, u64)>,
    since_cold: Option<u64>,
    direct: Option<Direct>,
    clock_cost_ns: f64,
}

impl Seen {
    /// Adds the observations of a worker that is ready to start.
    pub fn ready(&mut self, ready: &Ready) {
        if let Some(bytes) = ready.resident_bytes {
            *self.resident_before.get_or_insert(0) += bytes;
        }
        self.file_bytes += ready.file_bytes;
        self.direct = ready.direct.or(self.direct);
    }

    /// Adds the observations of a measurement.
    pub fn measured(&mut self, measurement: &Measurement) {
        self.resident_after = measurement.resident_after;
        self.file_bytes_after = measurement.file_bytes_after;
        self.clock_cost_ns = measurement.clock_cost_ns;
    }

    /// Sets the memory for the work: the limit, or all memory of the machine.
    pub fn limited(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// Adds the bytes that the device read and wrote during a repetition.
    pub fn device(&mut self, read: u64, written: u64) {
        let (reads, writes) = self.device.get_or_insert((0, 0));
        *reads += read;
        *writes += written;
    }

    /// Adds the bytes that the device read since the caches were emptied, including the mount. In
    /// rounds, which empty the caches without a mount, the value is unknown.
    pub(crate) fn since_cold(&mut self, read: u64) {
        *self.since_cold.get_or_insert(0) += read;
    }

    /// Returns the evidence for the trial's record.
    pub fn observed(&self) -> Observed {
        Observed {
            resident_bytes_before: self.resident_before,
            resident_bytes_after: self.resident_after,
            clock_cost_seconds: Some(self.clock_cost_ns * 1e-9),
            device_read_bytes: self.device.map(|(read, _)| read),
            device_write_bytes: self.device.map(|(_, written)| written),
            direct: self.direct,
            ..Observed::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_engine::{Sizing, workload};
    use fsb_model::WorkloadSpec;
    use fsb_model::observed::Rpcs;
    use serde_json::json;

    use super::*;

    fn abilities(cold: Option<ColdMethod>) -> Abilities {
        Abilities {
            cold,
            durable: true,
            counters: true,
            kernel_caches_only: true,
            ..Abilities::default()
        }
    }

    fn profile_of_reads() -> Profile {
        let params = json!({"file_size": "1M", "backend": "direct", "cache": "any"});
        let spec = WorkloadSpec::new("read", serde_json::from_value(params).unwrap());
        workload::parse(
            &spec,
            &Sizing {
                size: 1 << 30,
                cpus: 1,
            },
        )
        .unwrap()
        .profile()
    }

    /// Checks direct reads of 1 MiB after which `resident` bytes are in the page cache.
    fn of_direct(buffered: Option<bool>, resident: u64) -> Result<(), String> {
        let profile = profile_of_reads();
        let direct = Direct {
            alignment: None,
            buffered,
        };
        super::direct(&profile, direct, Some(resident))
    }

    /// Work that moved these bytes.
    fn moved(bytes: u64) -> Measured {
        Measured {
            work: Measurement {
                bytes,
                ..Measurement::default()
            },
            ..Measured::default()
        }
    }

    /// A device that read and wrote these bytes meanwhile.
    fn seen_on_device(device: Option<(u64, u64)>) -> Seen {
        Seen {
            device,
            ..Seen::default()
        }
    }

    #[test]
    fn pages_that_were_read_ahead_and_never_read_are_not_kept() {
        let of = |profile: &Profile, cold, read| {
            let seen = seen_on_device(Some((read, 0)));
            unread(profile, &abilities(cold), &seen, &moved(512 << 10))
        };
        let (private, reads) = (Some(ColdMethod::Remount), profile_of_reads());
        assert_eq!(of(&reads, private, 640 << 10), 128 << 10);
        assert_eq!(
            of(&reads, private, 256 << 10),
            0,
            "some came from the cache"
        );
        let compressible = Profile {
            device_share: 0.1,
            ..profile_of_reads()
        };
        assert_eq!(of(&compressible, private, 512 << 10), 0);
        assert_eq!(of(&reads, None, 640 << 10), 0, "others use that device too");
    }

    #[test]
    fn io_past_all_caches_is_seen_on_the_device() {
        let of = |cold, device| {
            let (profile, seen) = (profile_of_reads(), seen_on_device(device));
            direct_device(&profile, &abilities(cold), &seen, &moved(1 << 20))
        };
        let private = Some(ColdMethod::Remount);
        assert_eq!(of(private, Some((1 << 20, 0))), Ok(()));
        assert_eq!(of(private, None), Ok(()));
        assert_eq!(of(None, Some((0, 0))), Ok(()), "others use that device too");
        let cached = of(private, Some((4096, 0))).unwrap_err();
        assert_eq!(
            cached,
            "buffered despite O_DIRECT: the device moved 4.00 KiB of 1.00 MiB"
        );
    }

    #[test]
    fn nothing_is_direct_above_a_layer_that_caches() {
        let verdict_of = |why: &str, direct| {
            let abilities = Abilities {
                why_not_direct: why.to_owned(),
                ..abilities(None)
            };
            let seen = Seen {
                direct,
                resident_before: Some(0),
                ..Seen::default()
            };
            verdict(&profile_of_reads(), &abilities, &seen, &Measured::default())
        };
        let direct = Some(Direct {
            alignment: None,
            buffered: Some(false),
        });
        assert_eq!(verdict_of("", direct), Ok(()));
        assert_eq!(
            verdict_of("not direct: loop3", direct).unwrap_err(),
            Reason::new(&NOT_DIRECT, "not direct: loop3".to_owned())
        );
        assert_eq!(
            verdict_of("not direct: loop3", None),
            Ok(()),
            "the workload does not use O_DIRECT"
        );
    }

    #[test]
    fn direct_reads_leave_nothing_in_the_page_cache() {
        assert_eq!(of_direct(Some(false), 0), Ok(()));
        assert_eq!(of_direct(None, 4096), Ok(()));
        let cached = of_direct(None, 512 << 10).unwrap_err();
        assert_eq!(
            cached,
            "buffered despite O_DIRECT: 512 KiB of 1.00 MiB were in the page cache afterwards"
        );
        assert!(
            of_direct(Some(true), 0)
                .unwrap_err()
                .starts_with("buffered despite O_DIRECT: the file system takes")
        );
    }

    #[test]
    fn reads_over_nfs_are_those_of_the_client() {
        let with = |read_bytes| Measured {
            work: Measurement {
                operations: 64,
                bytes: 64 * MIB,
                ..Measurement::default()
            },
            rpcs: Some(Rpcs {
                read_bytes,
                ..Rpcs::default()
            }),
            ..Measured::default()
        };
        let profile = |cache: &str| {
            let params = json!({"file_size": "64M", "block_size": "1M", "cache": cache});
            let spec = WorkloadSpec::new("read", serde_json::from_value(params).unwrap());
            workload::parse(
                &spec,
                &Sizing {
                    size: 1 << 30,
                    cpus: 1,
                },
            )
            .unwrap()
            .profile()
        };
        let seen = |device| Seen {
            resident_before: Some(0),
            device: Some((device, 0)),
            ..Seen::default()
        };
        assert_eq!(
            cold(&profile("cold"), &seen(64 * MIB), &with(65 * MIB)),
            Ok(())
        );
        let kept = cold(&profile("cold"), &seen(64 * MIB), &with(MIB)).unwrap_err();
        assert_eq!(
            kept,
            "not cold: the NFS client read 1.00 MiB of 64.0 MiB requested from the server"
        );
        let served = cold(&profile("cold"), &seen(MIB), &with(65 * MIB)).unwrap_err();
        assert_eq!(
            served,
            "not cold: the device read 1.00 MiB of 64.0 MiB requested"
        );
        let in_memory = |measured| warm(&abilities(None), &Seen::default(), &measured);
        assert_eq!(in_memory(with(MIB)), Ok(()));
        assert!(
            in_memory(with(65 * MIB))
                .unwrap_err()
                .starts_with("not warm: the NFS client read 65.0 MiB")
        );
    }

    #[test]
    fn the_device_shows_whether_a_cache_of_its_own_was_warm() {
        let own = Abilities {
            own_cache: true,
            ..abilities(Some(ColdMethod::Remount))
        };
        let read = |bytes| Seen {
            resident_before: Some(0),
            resident_after: Some(0),
            file_bytes: MIB,
            file_bytes_after: MIB,
            device: Some((bytes, 0)),
            ..Seen::default()
        };
        let measured = Measured::default();
        assert_eq!(warm(&own, &read(0), &measured), Ok(()));
        let missed = warm(&own, &read(64 * MIB), &measured).unwrap_err();
        assert_eq!(missed, "not warm: the device read 64.0 MiB");
        let in_page_cache = abilities(Some(ColdMethod::Remount));
        assert!(warm(&in_page_cache, &read(0), &measured).is_err());
    }

    const MIB: u64 = 1 << 20;

    /// Checks a trial on a file of 64 MiB under a limit of 32 MiB.
    fn trial(workload: serde_json::Value, seen: Seen) -> Result<(), String> {
        let spec: WorkloadSpec = serde_json::from_value(workload).unwrap();
        let profile = workload::parse(
            &spec,
            &Sizing {
                size: 1 << 30,
                cpus: 1,
            },
        )
        .unwrap()
        .profile();
        let measured = Measured {
            work: Measurement {
                operations: 64,
                bytes: 64 * MIB,
                ..Measurement::default()
            },
            ..Measured::default()
        };
        out_of_cache(&profile, &seen, &measured)
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
        let read =
            || json!({"name": "read", "file_size": "64M", "block_size": "1M", "cache": "out"});
        let write = || json!({"name": "rewrite", "file_size": "64M", "block_size": "1M", "cache": "out", "durability": "end"});
        assert_eq!(trial(read(), seen((64, 0), 31)), Ok(()));
        assert_eq!(
            trial(read(), seen((120, 0), 32)),
            Ok(()),
            "what was read ahead in vain is not a fault"
        );
        assert_eq!(trial(write(), seen((0, 66), 31)), Ok(()));
        let cached = trial(read(), seen((40, 64), 31)).unwrap_err();
        assert_eq!(
            cached,
            "not out of cache: the device read 40.0 MiB of 64.0 MiB requested"
        );
        let cached = trial(write(), seen((64, 20), 31)).unwrap_err();
        assert_eq!(
            cached,
            "not out of cache: the device wrote 20.0 MiB of 64.0 MiB requested"
        );
    }

    #[test]
    fn files_in_memory_are_charged_to_the_limit() {
        let read =
            || json!({"name": "read", "file_size": "64M", "block_size": "1M", "cache": "out"});
        let before = Seen {
            resident_before: Some(8 * MIB),
            ..seen((64, 0), 31)
        };
        assert!(
            trial(read(), before)
                .unwrap_err()
                .contains("8.00 MiB of 64.0 MiB were in memory before")
        );
        let outside = trial(read(), seen((64, 0), 60)).unwrap_err();
        assert_eq!(
            outside,
            "not out of cache: 60.0 MiB were in memory afterwards, with a limit of 32.0 MiB"
        );
        let unlimited = Seen {
            limit: Some(1 << 36),
            ..seen((64, 0), 64)
        };
        assert!(
            trial(read(), unlimited)
                .unwrap_err()
                .contains("fit a memory of 64.0 GiB")
        );
        assert!(
            trial(
                read(),
                Seen {
                    limit: None,
                    ..seen((64, 0), 1)
                }
            )
            .is_err()
        );
        assert!(
            trial(
                read(),
                Seen {
                    device: None,
                    ..seen((64, 0), 1)
                }
            )
            .unwrap_err()
            .contains("cannot be verified")
        );
    }
}
