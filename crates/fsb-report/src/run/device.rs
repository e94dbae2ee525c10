//! What the raw devices beneath did in each block, and whether they changed.

use fsb_model::RunRecord;
use fsb_model::host::DeviceRates;
use fsb_model::units::{show_bytes, show_count};

/// A change of this share between warm-up and blocks is told.
const CHANGED: f64 = 0.15;

/// The four rates, what they are called, and how they are shown.
type Kind = (fn(&DeviceRates) -> f64, &'static str, fn(f64) -> String);
const KINDS: [Kind; 4] = [
    (|rates| rates.read, "read", show_bytes),
    (|rates| rates.write, "written", show_bytes),
    (|rates| rates.random_reads, "random reads", show_count),
    (|rates| rates.flushed_writes, "flushed writes", show_count),
];

/// `raw device, one request at a time: 1.20 GiB/s read, 800 MiB/s written, 12.0 k/s random reads, 1.40 k/s flushed writes`.
pub(super) fn fact(record: &RunRecord) -> Option<String> {
    let said = KINDS
        .iter()
        .filter_map(|(rate, what, show)| Some(format!("{}/s {what}", show(mean(record, |block| block > 0, *rate)?))));
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("raw device, one request at a time: {}", said.join(", ")))
}

/// A device that was another one in the warm-up than in the blocks: amounts were planned for the former.
pub(super) fn warning(record: &RunRecord) -> Option<String> {
    let changed = KINDS.iter().filter_map(|(rate, what, _)| {
        let (before, after) = (mean(record, |block| block == 0, *rate)?, mean(record, |block| block > 0, *rate)?);
        let change = after / before - 1.0;
        (change.abs() > CHANGED).then(|| format!("{what} {:+.0} %", change * 100.0))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| {
        format!(
            "the raw device changed between warm-up and blocks: {}; ratios of targets hold, values less so",
            changed.join(", ")
        )
    })
}

/// The geometric mean over the probes of some blocks.
fn mean(record: &RunRecord, blocks: impl Fn(u32) -> bool, rate: fn(&DeviceRates) -> f64) -> Option<f64> {
    let probes =
        record.devices_probed.iter().filter(|(block, _)| blocks(**block)).flat_map(|(_, probes)| probes.values());
    let rates: Vec<f64> = probes.map(rate).filter(|rate| rate.is_finite() && *rate > 0.0).collect();
    let logs: f64 = rates.iter().map(|rate| rate.ln()).sum();
    (!rates.is_empty()).then(|| (logs / rates.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn devices_are_told_and_so_are_their_changes() {
        let (mut record, _) = sample::run(&["ext4", "xfs"], 5);
        assert_eq!((fact(&record), warning(&record)), (None, None));
        let rates = |factor: f64| DeviceRates {
            read: 1e9,
            write: 500e6 * factor,
            random_reads: 12_000.0,
            flushed_writes: 1_400.0,
        };
        for block in 0..=5 {
            let factor = if block == 0 { 1.0 } else { 0.75 };
            record.devices_probed.insert(block, [("ext4".to_owned(), rates(factor))].into());
        }
        assert_eq!(
            fact(&record).unwrap(),
            "raw device, one request at a time: 954 MiB/s read, 358 MiB/s written, 12.0 k/s random reads, 1.40 k/s \
             flushed writes"
        );
        let warned = warning(&record).unwrap();
        assert!(warned.contains("warm-up and blocks: written -25 %; "), "{warned}");
    }
}
