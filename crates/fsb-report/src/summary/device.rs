//! The rates of the raw devices in each block, and changes between them.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::RunRecord;
use fsb_model::host::{DeviceManifest, DeviceRates, PartitionPlace};
use fsb_model::units::{show_bytes, show_count, show_seconds};
use fsb_stats::{Interval, LEVEL, ratio_of_means, t_interval};

use crate::record_text::different_media_text;
use crate::show::TOO_WIDE;

/// The report warns of a change if its interval lies beyond this share.
const CHANGED: f64 = 0.15;

/// A rate with its name and the function that formats it.
type RateKind = (fn(&DeviceRates) -> f64, &'static str, fn(f64) -> String);
const KINDS: [RateKind; 4] = [
    (|rates| rates.read, "read", show_bytes),
    (|rates| rates.write, "written", show_bytes),
    (|rates| rates.random_reads, "random reads", show_count),
    (|rates| rates.flushed_writes, "flushed writes", show_count),
];

/// Returns text such as `raw device, one request at a time: 1.20 GiB/s ±8 % read, 800 MiB/s ±12 %
/// written, …`. The numbers are geometric means over the blocks, with half-widths of their 95 %
/// intervals, and the mean time of a random read.
pub(super) fn fact(record: &RunRecord) -> Option<String> {
    let said = KINDS.iter().filter_map(|(rate, what, show)| {
        let logs = logs(record, |block| block > 0, *rate);
        let half = half_width(&logs).map(|half| match half {
            half if half > 1.0 => format!(" ({TOO_WIDE})"),
            half => format!(" ±{} %", significant(half * 100.0)),
        });
        Some(format!(
            "{}/s{} {what}",
            show(average(&logs)?.exp()),
            half.unwrap_or_default()
        ))
    });
    let mut said: Vec<String> = said.collect();
    // On a disk, most of it is the seek and half a rotation.
    let reads = average(&logs(record, |block| block > 0, |rates| rates.random_reads));
    said.extend(reads.map(|log| {
        format!(
            "access time of a random read {}",
            show_seconds((-log).exp())
        )
    }));
    (!said.is_empty()).then(|| format!("raw device, one request at a time: {}", said.join(", ")))
}

/// Returns a warning if a device was slower or faster in the warm-up than in the blocks, because
/// the amounts were planned for the warm-up.
pub(super) fn warning(record: &RunRecord) -> Option<String> {
    let changed = KINDS.iter().filter_map(|(rate, what, _)| {
        let (before, after) = (
            logs(record, |block| block == 0, *rate),
            logs(record, |block| block > 0, *rate),
        );
        let (ratio, interval) = ratio_of_means(&before, &after)?;
        let is_changed = interval.lo > 1.0 + CHANGED || interval.hi < 1.0 / (1.0 + CHANGED);
        is_changed.then(|| format!("{what} {}", shown(ratio, interval)))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| {
        format!(
            "the raw device changed between warm-up and blocks: {} (95 % intervals); ratios between targets stay \
             valid, absolute values less so",
            changed.join(", ")
        )
    })
}

/// Formats a change with its interval in two significant digits: `−25 % [−31, −19]`, or as factors
/// from twofold on: `×7.1 [3.2, 16]`.
fn shown(ratio: f64, Interval { lo, hi }: Interval) -> String {
    if !(0.5..=2.0).contains(&ratio) {
        return format!(
            "×{} [{}, {}]",
            significant(ratio),
            significant(lo),
            significant(hi)
        );
    }
    let percent = |ratio: f64| {
        let value = (ratio - 1.0) * 100.0;
        format!(
            "{}{}",
            if value < 0.0 { "-" } else { "+" },
            significant(value.abs())
        )
    };
    format!("{} % [{}, {}]", percent(ratio), percent(lo), percent(hi))
}

/// Formats a number with two significant digits and without an exponent.
fn significant(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    let digits = 1 - value.log10().floor() as i32;
    let scale = 10f64.powi(digits);
    format!(
        "{:.*}",
        digits.max(0) as usize,
        (value * scale).round() / scale
    )
}

/// Returns half the width of the 95 % t interval of a geometric mean, relative. Returns `None`
/// below three blocks, because two are thirteen standard errors wide.
fn half_width(logs: &[f64]) -> Option<f64> {
    let Interval { lo, hi } = t_interval(logs, LEVEL).ok()?.filter(|_| logs.len() > 2)?;
    Some(((hi - lo) / 2.0).exp_m1())
}

fn average(logs: &[f64]) -> Option<f64> {
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

/// Returns logarithms of the rates of some blocks, one per block, because the probes of a block see
/// the same state of the device.
fn logs(
    record: &RunRecord,
    blocks: impl Fn(u32) -> bool,
    rate: fn(&DeviceRates) -> f64,
) -> Vec<f64> {
    let of_block = |probes: &BTreeMap<String, DeviceRates>| {
        let rates = probes
            .values()
            .map(rate)
            .filter(|rate| rate.is_finite() && *rate > 0.0);
        average(&rates.map(f64::ln).collect::<Vec<_>>())
    };
    record
        .devices_probed
        .iter()
        .filter(|(block, _)| blocks(**block))
        .filter_map(|(_, probes)| of_block(probes))
        .collect()
}

/// A kind of disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskKind {
    Virtual,
    Rotating,
    SolidState,
}

impl DiskKind {
    pub(crate) fn to_text(self) -> &'static str {
        match self {
            DiskKind::Virtual => "virtual disk",
            DiskKind::Rotating => "rotating disk",
            DiskKind::SolidState => "solid-state disk",
        }
    }
}

/// Returns the kind of the disk at the end of the stack, or `None` if the kernel does not report
/// it.
pub(crate) fn disk_kind(record: &RunRecord, device: &DeviceManifest) -> Option<DiskKind> {
    match (
        record.host.hypervisor.is_some(),
        bottom_device(device)
            .queue
            .get("rotational")
            .map(String::as_str),
    ) {
        // The rotational flag of a virtual disk is arbitrary.
        (true, _) => Some(DiskKind::Virtual),
        (false, Some("1")) => Some(DiskKind::Rotating),
        (false, Some("0")) => Some(DiskKind::SolidState),
        _ => None,
    }
}

/// Returns text such as `on ext4 on vda (virtual disk, volatile write cache, writeback throttled
/// for reads within 75 ms); cold for this machine, but its host may cache`. Returns `None` if the
/// device has no name.
pub(super) fn storage_text(record: &RunRecord, device: &DeviceManifest) -> Option<String> {
    if device.name.is_empty() {
        return None;
    }
    let bottom = bottom_device(device);
    let is_virtual = record.host.hypervisor.is_some();
    let queue = |name: &str| bottom.queue.get(name).map(String::as_str);
    let kind = disk_kind(record, device);
    let cache = match queue("write_cache") {
        Some("write back") => Some("volatile write cache"),
        Some("write through") => Some("no volatile write cache"),
        _ => None,
    };
    let throttled = queue("wbt_lat_usec")
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|usec| *usec > 0.0);
    let throttled =
        throttled.map(|usec| format!("writeback throttled for reads within {} ms", usec / 1e3));
    // The speed of a rotating disk depends on the place; other disks have no inner tracks.
    let place = device
        .partition_place()
        .filter(|_| kind == Some(DiskKind::Rotating));
    let place = place.map(
        |PartitionPlace {
             shares: [from, to], ..
         }| {
            format!(
                "partition at {:.1} to {:.1} % of it",
                from * 100.0,
                to * 100.0
            )
        },
    );
    let properties: Vec<String> = kind
        .map(DiskKind::to_text)
        .into_iter()
        .chain(cache)
        .map(str::to_owned)
        .chain(throttled)
        .chain(place)
        .collect();
    let on = match &device.backing {
        Some(backing) => format!("on {}", backing.replace("/dev/", "")),
        None if bottom.name != device.name => format!("on {}", bottom.name),
        None => bottom.name.clone(),
    };
    let host = if is_virtual {
        "; cold for this machine, but its host may cache"
    } else {
        ""
    };
    let properties = if properties.is_empty() {
        String::new()
    } else {
        format!(" ({})", properties.join(", "))
    };
    Some(format!("{on}{properties}{host}"))
}

/// Returns the name of a device, and its place on its disk if it is on a partition: `vda1, sectors
/// 2048 to 4095, 50.0 % to 100.0 % of vda`.
pub fn device_text(device: &DeviceManifest) -> String {
    match device.partition_place() {
        Some(place) => format!("{}, {}", device.name, place_text(&place)),
        None => device.name.clone(),
    }
}

/// Returns `sectors 2048 to 4095, 50.0 % to 100.0 % of vda`.
pub(super) fn place_text(
    PartitionPlace {
        disk,
        sectors,
        shares,
    }: &PartitionPlace<'_>,
) -> String {
    let [from, to] = shares.map(|share| format!("{:.1} %", share * 100.0));
    format!(
        "sectors {} to {}, {from} to {to} of {disk}",
        sectors[0], sectors[1]
    )
}

/// Returns the disk at the end of the stack, the first one of several.
pub(crate) fn bottom_device(device: &DeviceManifest) -> &DeviceManifest {
    device.beneath.first().map_or(device, bottom_device)
}

/// Returns the warning if targets are on different media.
pub(super) fn different_media(record: &RunRecord) -> Option<String> {
    // The observed medium counts; for a target that was never made, the requested one does.
    let media: BTreeSet<String> = record
        .plan
        .targets
        .iter()
        .filter(|target| {
            record
                .targets
                .get(&target.name)
                .is_none_or(|found| found.unavailable.is_none())
        })
        .map(|target| match record.targets.get(&target.name) {
            Some(found) if found.failed.is_none() => found.medium.clone().unwrap_or_default(),
            _ => target
                .file_system()
                .map(|spec| spec.medium.to_string())
                .unwrap_or_default(),
        })
        .collect();
    (media.len() > 1).then(|| {
        format!(
            "{}; put all on one medium to compare file systems",
            different_media_text()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn rates(factor: f64) -> DeviceRates {
        DeviceRates {
            read: 1e9,
            write: 500e6 * factor,
            random_reads: 12_000.0,
            flushed_writes: 1_400.0,
        }
    }

    /// Returns a run whose device wrote at these factors in its blocks, the warm-up first.
    fn run(factors: &[f64]) -> RunRecord {
        let (mut record, _) = sample::run(&["ext4", "xfs"], 5);
        for (block, factor) in factors.iter().enumerate() {
            let probes = [
                ("ext4".to_owned(), rates(factor * 1.02)),
                ("xfs".to_owned(), rates(factor / 1.02)),
            ];
            record.devices_probed.insert(block as u32, probes.into());
        }
        record
    }

    #[test]
    fn devices_are_told_with_intervals_over_the_blocks() {
        let (unprobed, _) = sample::run(&["ext4", "xfs"], 5);
        assert_eq!((fact(&unprobed), warning(&unprobed)), (None, None));
        assert_eq!(
            fact(&run(&[1.0, 0.75, 0.8, 0.7])).unwrap(),
            "raw device, one request at a time: 954 MiB/s ±0 % read, 357 MiB/s ±18 % written, 12.0 k/s ±0 % random \
             reads, 1.40 k/s ±0 % flushed writes, access time of a random read 83.3 µs"
        );
        assert!(
            fact(&run(&[1.0, 0.75]))
                .unwrap()
                .contains(": 954 MiB/s read, 358 MiB/s written, ")
        );
        // Two blocks say nothing of the error, and three that scatter by factors little.
        assert!(
            fact(&run(&[1.0, 0.75, 0.8]))
                .unwrap()
                .contains(": 954 MiB/s read, 369 MiB/s written, ")
        );
        let wide = fact(&run(&[1.0, 0.2, 1.0, 0.5])).unwrap();
        assert!(wide.contains(" MiB/s (over ±100 %) written, "), "{wide}");
    }

    #[test]
    fn a_change_is_told_where_the_intervals_exclude_it_only() {
        let warned = |factors: &[f64]| warning(&run(factors));
        let changed = warned(&[1.0, 0.71, 0.7, 0.69, 0.7, 0.7]).unwrap();
        assert!(
            changed.contains("warm-up and blocks: written -30 % [-32, -28] (95 % intervals); "),
            "{changed}"
        );
        // Probes that scatter by a half do not show a change of a quarter, nor a sevenfold one in
        // one or two blocks.
        assert_eq!(warned(&[1.0, 0.4, 1.1, 0.4, 1.1, 0.4]), None);
        assert_eq!(warned(&[0.14, 0.5, 2.0]), None);
        assert_eq!(warned(&[0.14, 1.0]), None);
        let faster = warned(&[0.14, 1.0, 1.3, 0.8, 1.1, 0.9, 1.0, 1.0]).unwrap();
        assert!(faster.contains("written ×7.2 [4.8, 11] "), "{faster}");
    }

    #[test]
    fn numbers_have_two_significant_digits() {
        let numbers = [0.0, 0.0123, 1.234, 9.96, 99.6, 609.0].map(significant);
        assert_eq!(numbers, ["0", "0.012", "1.2", "10.0", "100", "610"]);
    }

    fn disk(name: &str, queue: &[(&str, &str)]) -> DeviceManifest {
        let queue = queue
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        DeviceManifest {
            name: name.to_owned(),
            queue,
            ..DeviceManifest::default()
        }
    }

    #[test]
    fn the_disk_at_the_end_of_the_stack_is_told() {
        let (mut record, _) = sample::run(&["ext4", "xfs"], 5);
        let queue = [
            ("rotational", "1"),
            ("write_cache", "write back"),
            ("wbt_lat_usec", "75000"),
        ];
        let image = DeviceManifest {
            backing: Some("ext4 on /dev/vda".to_owned()),
            beneath: vec![disk("vda", &queue)],
            ..disk("loop0", &[("rotational", "0")])
        };
        record.host.hypervisor = Some("kvm".to_owned());
        assert_eq!(
            storage_text(&record, &image).unwrap(),
            "on ext4 on vda (virtual disk, volatile write cache, writeback throttled for reads within 75 ms); cold \
             for this machine, but its host may cache"
        );
        record.host.hypervisor = None;
        let sda = DeviceManifest {
            size_bytes: 4096 * 512,
            ..disk("sda", &queue[..1])
        };
        let (size_bytes, partition_start) = (1024 * 512, Some(2048));
        let partition = DeviceManifest {
            size_bytes,
            partition_start,
            beneath: vec![sda],
            ..disk("sda1", &[])
        };
        assert_eq!(
            storage_text(&record, &partition).unwrap(),
            "on sda (rotating disk, partition at 50.0 to 75.0 % of it)"
        );
        assert_eq!(
            device_text(&partition),
            "sda1, sectors 2048 to 3071, 50.0 % to 75.0 % of sda"
        );
        // A file on a partition has its place.
        let file = DeviceManifest {
            beneath: vec![partition],
            ..disk("loop0", &[])
        };
        assert_eq!(file.partition_place().unwrap().sectors, [2048, 3071]);
        assert_eq!(
            storage_text(&record, &disk("nvme0n1", &[("rotational", "0")])).unwrap(),
            "nvme0n1 (solid-state disk)"
        );
        assert_eq!(storage_text(&record, &DeviceManifest::default()), None);
    }
}
