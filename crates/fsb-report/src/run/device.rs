//! What the raw devices beneath did in each block, and whether they changed.

use fsb_model::RunRecord;
use fsb_model::host::DeviceRates;
use fsb_model::units::{show_bytes, show_count};

/// A change of this share between warm-up and blocks is told, where it is more than the probes scatter.
const CHANGED: f64 = 0.15;
/// Standard errors that a change must exceed: some 95 % of what scatter alone does lies within.
const SURE: f64 = 2.0;

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
        let (before, after) = (logs(record, |block| block == 0, *rate), logs(record, |block| block > 0, *rate));
        let difference = average(&after)? - average(&before)?;
        let change = difference.exp() - 1.0;
        let sure = difference.abs() > SURE * standard_error(&before, &after);
        (sure && change.abs() > CHANGED).then(|| format!("{what} {:+.0} %", change * 100.0))
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
    average(&logs(record, blocks, rate)).map(f64::exp)
}

fn average(logs: &[f64]) -> Option<f64> {
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

/// Of the difference of two averages whose values scatter alike.
fn standard_error(before: &[f64], after: &[f64]) -> f64 {
    let squares = |logs: &[f64]| {
        let average = average(logs).unwrap_or(0.0);
        logs.iter().map(|log| (log - average).powi(2)).sum::<f64>()
    };
    let freedom = (before.len() + after.len()).saturating_sub(2).max(1) as f64;
    let variance = (squares(before) + squares(after)) / freedom;
    (variance * (1.0 / before.len().max(1) as f64 + 1.0 / after.len().max(1) as f64)).sqrt()
}

/// Logarithms of the rates of some blocks.
fn logs(record: &RunRecord, blocks: impl Fn(u32) -> bool, rate: fn(&DeviceRates) -> f64) -> Vec<f64> {
    let probes =
        record.devices_probed.iter().filter(|(block, _)| blocks(**block)).flat_map(|(_, probes)| probes.values());
    probes.map(rate).filter(|rate| rate.is_finite() && *rate > 0.0).map(f64::ln).collect()
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
        // Probes that scatter by a half say nothing of a quarter.
        for block in 1..=5 {
            let factor = if block % 2 == 0 { 0.4 } else { 1.1 };
            record.devices_probed.insert(block, [("ext4".to_owned(), rates(factor))].into());
        }
        assert_eq!(warning(&record), None);
    }
}
