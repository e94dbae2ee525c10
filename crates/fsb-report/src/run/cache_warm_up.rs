//! The warm-up of a cold cache: the rate of reads over the bytes that were read, with its time constant.

use fsb_model::timeline::Timeline;
use fsb_model::units::{show_bytes, show_seconds};
use fsb_stats::{CacheWarmUp, Estimate, NoWarmUp, ReadBin, cache_warm_up};
use serde::Serialize;

use super::report_trial::ReportTrial;

/// The operation of the workload `cache-warm-up`.
const OPERATION: &str = "warm_up_read";

/// The warm-up of the cache in the trials of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarmUps {
    /// The time constants in bytes, one per repetition whose rate rises; absent if none does.
    pub bytes: Option<Estimate>,
    /// The time constants in seconds; absent if no rate rises.
    pub seconds: Option<Estimate>,
    /// The reason of each repetition that has no time constant.
    pub without: Vec<NoWarmUp>,
    /// The repetition with the median time constant, or the first one if none has a time constant.
    #[serde(skip)]
    pub shown: ShownWarmUp,
}

/// One repetition, as the chart draws it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShownWarmUp {
    /// The block of the trial.
    pub block: u32,
    /// By bin: the bytes that were read up to its middle, and bytes per second.
    pub points: Vec<[f64; 2]>,
    /// The fit.
    pub fit: Option<CacheWarmUp>,
}

impl WarmUps {
    /// Returns the warm-ups of the trials of a cell, which are in run order. Returns `None` if the workload is another
    /// one.
    pub(super) fn from_trials<'a>(trials: impl Iterator<Item = &'a ReportTrial>) -> Option<WarmUps> {
        let trials = trials.filter(|trial| trial.what.operation == OPERATION);
        let fits: Vec<(u32, Vec<ReadBin>, Result<CacheWarmUp, NoWarmUp>)> = trials
            .flat_map(|trial| {
                let record_size = trial.what.params.get("block_size").and_then(serde_json::Value::as_f64);
                let lines = trial.extras().timelines.iter().filter(|line| line.is_sound());
                let lines: Vec<_> = lines.map(|line| bins(line, record_size.unwrap_or(0.0))).collect();
                // A short trial has no timeline.
                let lines = if lines.is_empty() { vec![Vec::new()] } else { lines };
                lines.into_iter().map(|bins| (trial.block, bins.clone(), cache_warm_up(&bins)))
            })
            .collect();
        let of = |value: fn(&CacheWarmUp) -> f64| {
            let values: Vec<f64> = fits.iter().filter_map(|(_, _, fit)| Some(value(fit.as_ref().ok()?))).collect();
            Estimate::from_values(&values).ok()
        };
        let (bytes, seconds) = (of(|fit| fit.bytes), of(CacheWarmUp::seconds));
        let without = fits.iter().filter_map(|(_, _, fit)| fit.err()).collect();
        let mut risen: Vec<_> = fits.iter().filter(|(_, _, fit)| fit.is_ok()).collect();
        let constant = |fit: &Result<CacheWarmUp, NoWarmUp>| fit.map_or(0.0, |fit| fit.bytes);
        risen.sort_by(|a, b| constant(&a.2).total_cmp(&constant(&b.2)));
        let (block, bins, fit) = risen.get(risen.len().saturating_sub(1) / 2).copied().or(fits.first())?;
        let mut read = 0.0;
        let point = |bin: &ReadBin| {
            read += bin.bytes;
            [read - bin.bytes / 2.0, bin.bytes / bin.seconds]
        };
        let shown = ShownWarmUp { block: *block, points: bins.iter().map(point).collect(), fit: fit.ok() };
        Some(WarmUps { bytes, seconds, without, shown })
    }

    /// Describes the time constant: `64.0 MiB [60.1 MiB, 69.5 MiB], 812 ms`, or the reason why there is none.
    pub(crate) fn describe(&self) -> String {
        match (&self.bytes, &self.seconds) {
            (Some(bytes), Some(seconds)) => {
                format!("{}, {}", interval_text(bytes, show_bytes), interval_text(seconds, show_seconds))
            }
            _ => self.without.first().map_or("not measured", |reason| reason_text(*reason)).to_owned(),
        }
    }
}

/// Returns the bins of a timeline that have a rate. A missing bin at the start moves the origin only, which leaves the
/// time constant as it is.
fn bins(line: &Timeline, record_size: f64) -> Vec<ReadBin> {
    let seconds = line.bin_ns as f64 * 1e-9;
    let bin = |rate: &u64| ReadBin { bytes: *rate as f64 * record_size * seconds, seconds };
    line.rates.iter().flatten().map(bin).collect()
}

/// Formats an estimate with its interval, if there are enough values for one.
pub(crate) fn interval_text(estimate: &Estimate, show: fn(f64) -> String) -> String {
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let interval = interval.map(|found| format!(" [{}, {}]", show(found.lo), show(found.hi))).unwrap_or_default();
    format!("{}{interval}", show(estimate.value))
}

/// Returns the reason why a repetition has no time constant.
fn reason_text(reason: NoWarmUp) -> &'static str {
    match reason {
        NoWarmUp::FewBins => "no fit: it lasted less than ten bins of 20 ms; use larger files",
        NoWarmUp::NoRise => "no fit: the rate did not rise",
        NoWarmUp::Unfinished => "no fit: the rate still rose at the end",
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Trial;
    use serde_json::json;

    use super::*;
    use crate::sample;

    /// Returns trials of six blocks. The rate is a function of the block and of the reads so far, in units of 100,000.
    fn trials(rate: impl Fn(u32, f64) -> f64) -> Vec<Trial> {
        let (_, mut trials) = sample::run(&["ext4"], 6);
        trials.retain(|trial| trial.workload == "random read 4K, cold");
        for trial in &mut trials {
            trial.operation = OPERATION.to_owned();
            trial.params.insert("block_size".to_owned(), json!(4096));
            let mut read = 0.0;
            let mut rates = Vec::new();
            while read < 6.0 && rates.len() < 1000 {
                let found = rate(trial.block, read);
                read += found * 0.02 / 100_000.0;
                rates.push(Some(found as u64));
            }
            let longest_us = vec![1; rates.len()];
            trial.timelines = vec![Timeline { start_ns: 0, bin_ns: 20_000_000, rates, longest_us, device: None }];
        }
        trials
    }

    #[test]
    fn the_time_constant_has_an_interval_between_blocks() {
        // The time of a read falls from 100 µs to 1 µs with a constant of 100,000 reads and a tenth more in odd blocks.
        let rate = |block: u32, read: f64| {
            let size = if block % 2 == 1 { 1.1 } else { 1.0 };
            1.0 / (1e-6 + 99e-6 * (-read / size).exp())
        };
        let all = ReportTrial::all(&trials(rate));
        let found = WarmUps::from_trials(all.iter()).unwrap();
        let bytes = found.bytes.as_ref().unwrap();
        let expected = 4096.0 * 100_000.0 * 1.1f64.sqrt();
        assert!((bytes.value / expected - 1.0).abs() < 0.05, "{bytes:?}");
        let interval = bytes.interval.unwrap();
        assert!(interval.lo < expected && expected < interval.hi, "{bytes:?}");
        assert_eq!((bytes.n, found.without.len()), (6, 0));
        assert!(found.shown.points.len() > 100 && found.shown.fit.is_some(), "{:?}", found.shown);
        assert!(found.describe().contains("MiB ["), "{}", found.describe());
    }

    #[test]
    fn a_rate_that_does_not_rise_and_a_short_trial_have_a_reason() {
        let mut constant = trials(|_, _| 50_000.0);
        let found = WarmUps::from_trials(ReportTrial::all(&constant).iter()).unwrap();
        assert_eq!((found.bytes.is_none(), found.describe().as_str()), (true, "no fit: the rate did not rise"));
        constant.iter_mut().for_each(|trial| trial.timelines.clear());
        let found = WarmUps::from_trials(ReportTrial::all(&constant).iter()).unwrap();
        assert_eq!(found.without, [NoWarmUp::FewBins; 6]);
    }

    #[test]
    fn other_workloads_have_no_warm_up() {
        let (_, trials) = sample::run(&["ext4"], 6);
        assert_eq!(WarmUps::from_trials(ReportTrial::all(&trials).iter()), None);
    }
}
