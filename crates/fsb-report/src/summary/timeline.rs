//! The timeline of a trial that lasted: its rate and its longest operations over time, and its
//! stalls.

use fsb_model::timeline::Timeline;
use fsb_model::units::{show_bytes, show_seconds};
use fsb_stats::{CacheWarmUp, Estimate, NoWarmUp, ReadBin, cache_warm_up};
use serde::Serialize;

use super::trial_value::CompactTrial;

/// A rate below this share of the typical one is a stall, if it lasts for [`FEWEST`] bins.
const STALLED: f64 = 0.1;
pub(crate) const FEWEST: usize = 2;

/// The timeline of one trial: the trial with the median value of its cell.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedTimeline {
    /// The block of the trial.
    pub block: u32,
    /// Seconds of a bin.
    pub bin: f64,
    /// By bin: seconds from the start of the first bin to the middle of the bin.
    pub seconds: Vec<f64>,
    /// By bin: operations per second. `None` if the clock did not run.
    pub rates: Vec<Option<f64>>,
    /// By bin: seconds of the longest operation. `None` if none ended.
    pub longest: Vec<Option<f64>>,
    /// The stalls.
    pub stalls: Vec<Stall>,
}

/// A period in which a target made almost no progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// Seconds since the first bin began.
    pub at: f64,
    /// Seconds that it lasted, in whole bins.
    pub lasted: f64,
    /// Bytes that the device read and wrote meanwhile, and flushes. `None` if it was not observed.
    pub device: Option<[u64; 3]>,
}

impl Stall {
    /// Describes the device during the stall: `the device read nothing, wrote 34.0 MiB, 3 flushes`.
    pub(crate) fn meanwhile(&self) -> String {
        let Some([read, written, flushes]) = self.device else {
            return "the device was not observed".to_owned();
        };
        let amount = |bytes: u64| {
            if bytes == 0 {
                "nothing".to_owned()
            } else {
                show_bytes(bytes as f64)
            }
        };
        let flushes = if flushes == 1 {
            "1 flush".to_owned()
        } else {
            format!("{flushes} flushes")
        };
        format!(
            "the device read {}, wrote {}, {flushes}",
            amount(read),
            amount(written)
        )
    }
}

impl JoinedTimeline {
    /// Returns the timeline of the trial whose value is the median of these, the lower one of two.
    /// Returns `None` if no trial has a sound timeline.
    pub(crate) fn join(trials: &[(&CompactTrial, f64)]) -> Option<JoinedTimeline> {
        let mut there: Vec<&(&CompactTrial, f64)> = trials
            .iter()
            .filter(|(trial, _)| trial.extras().timelines.iter().any(Timeline::is_sound))
            .collect();
        there.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (trial, _) = there.get(there.len().checked_sub(1)? / 2)?;
        Some(JoinedTimeline::joined(
            trial.block,
            &trial.extras().timelines,
        ))
    }

    /// Joins repetitions with a gap of one bin, without the time between them.
    fn joined(block: u32, timelines: &[Timeline]) -> JoinedTimeline {
        let lines = || timelines.iter().filter(|line| line.is_sound());
        let least = typical(&lines().flat_map(rates_of).collect::<Vec<_>>()) * STALLED;
        let bin = lines().map(bin_of).fold(0.0, f64::max);
        let (seconds, rates, longest, stalls) = Default::default();
        let mut timeline = JoinedTimeline {
            block,
            bin,
            seconds,
            rates,
            longest,
            stalls,
        };
        let mut start = 0.0;
        for line in lines() {
            if !timeline.rates.is_empty() {
                timeline.push(start, None, 0);
                start += bin;
            }
            let own = bin_of(line);
            timeline.stalls.extend(stalls_of(line, least, start));
            for (rate, longest_us) in rates_of(line).zip(&line.longest_us) {
                timeline.push(start + own / 2.0, rate, *longest_us);
                start += own;
            }
        }
        timeline
    }

    fn push(&mut self, seconds: f64, rate: Option<f64>, longest_us: u64) {
        self.seconds.push(seconds);
        self.rates.push(rate);
        self.longest
            .push((longest_us > 0).then_some(longest_us as f64 * 1e-6));
    }

    /// Returns the rate of the typical bin.
    pub(crate) fn typical(&self) -> f64 {
        typical(&self.rates)
    }

    /// Returns the seconds of the longest operation.
    pub(crate) fn longest(&self) -> f64 {
        self.longest.iter().flatten().copied().fold(0.0, f64::max)
    }
}

/// Returns the median rate of the bins in which the clock ran.
fn typical(rates: &[Option<f64>]) -> f64 {
    let mut there: Vec<f64> = rates.iter().flatten().copied().collect();
    there.sort_by(f64::total_cmp);
    there.get(there.len() / 2).copied().unwrap_or(0.0)
}

/// Returns the seconds of a bin.
fn bin_of(line: &Timeline) -> f64 {
    line.bin_ns as f64 * 1e-9
}

fn rates_of(line: &Timeline) -> impl Iterator<Item = Option<f64>> + '_ {
    line.rates.iter().map(|rate| rate.map(|rate| rate as f64))
}

/// Returns the stalls of a repetition that begins at `start`: periods with a rate below `least`.
fn stalls_of(line: &Timeline, least: f64, start: f64) -> Vec<Stall> {
    let bin = bin_of(line);
    // A target with few operations per bin has empty bins without a stall.
    if least * bin < 0.5 {
        return Vec::new();
    }
    let stands = |at: usize| line.rates[at].is_some_and(|rate| (rate as f64) < least);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < line.len() {
        let bins = (at..line.len()).take_while(|at| stands(*at)).count();
        if bins >= FEWEST {
            let sum = |list: &[u64], unit: u64| {
                list[at..at + bins]
                    .iter()
                    .fold(0, |sum: u64, more| sum.saturating_add(*more))
                    .saturating_mul(unit)
            };
            let device = line.device.as_ref().map(|device| {
                [
                    sum(&device.read_kib, 1024),
                    sum(&device.written_kib, 1024),
                    sum(&device.flushes, 1),
                ]
            });
            found.push(Stall {
                at: start + at as f64 * bin,
                lasted: bins as f64 * bin,
                device,
            });
        }
        at += bins.max(1);
    }
    found
}

// The warm-up of a cold cache: the rate of reads over the bytes that were read, with its time
// constant.

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
    /// Returns the warm-ups of the trials of a cell, which are in run order. Returns `None` if the
    /// workload is another one.
    pub(crate) fn from_trials<'a>(
        trials: impl Iterator<Item = &'a CompactTrial>,
    ) -> Option<WarmUps> {
        let trials = trials.filter(|trial| trial.what.operation == OPERATION);
        let fits: Vec<(u32, Vec<ReadBin>, Result<CacheWarmUp, NoWarmUp>)> = trials
            .flat_map(|trial| {
                let record_size = trial
                    .what
                    .params
                    .get("block_size")
                    .and_then(serde_json::Value::as_f64);
                let lines = trial
                    .extras()
                    .timelines
                    .iter()
                    .filter(|line| line.is_sound());
                let lines: Vec<_> = lines
                    .map(|line| bins(line, record_size.unwrap_or(0.0)))
                    .collect();
                // A short trial has no timeline.
                let lines = if lines.is_empty() {
                    vec![Vec::new()]
                } else {
                    lines
                };
                lines
                    .into_iter()
                    .map(|bins| (trial.block, bins.clone(), cache_warm_up(&bins)))
            })
            .collect();
        let of = |value: fn(&CacheWarmUp) -> f64| {
            let values: Vec<f64> = fits
                .iter()
                .filter_map(|(_, _, fit)| Some(value(fit.as_ref().ok()?)))
                .collect();
            Estimate::from_values(&values).ok()
        };
        let (bytes, seconds) = (of(|fit| fit.bytes), of(CacheWarmUp::seconds));
        let without = fits.iter().filter_map(|(_, _, fit)| fit.err()).collect();
        let mut risen: Vec<_> = fits.iter().filter(|(_, _, fit)| fit.is_ok()).collect();
        let constant = |fit: &Result<CacheWarmUp, NoWarmUp>| fit.map_or(0.0, |fit| fit.bytes);
        risen.sort_by(|a, b| constant(&a.2).total_cmp(&constant(&b.2)));
        let (block, bins, fit) = risen
            .get(risen.len().saturating_sub(1) / 2)
            .copied()
            .or(fits.first())?;
        let mut read = 0.0;
        let shown = ShownWarmUp {
            block: *block,
            points: bins
                .iter()
                .map(|bin| {
                    read += bin.bytes;
                    [read - bin.bytes / 2.0, bin.bytes / bin.seconds]
                })
                .collect(),
            fit: fit.ok(),
        };
        Some(WarmUps {
            bytes,
            seconds,
            without,
            shown,
        })
    }

    /// Describes the time constant: `64.0 MiB [60.1 MiB, 69.5 MiB], 812 ms`, or the reason why
    /// there is none.
    pub(crate) fn describe(&self) -> String {
        match (&self.bytes, &self.seconds) {
            (Some(bytes), Some(seconds)) => {
                format!(
                    "{}, {}",
                    interval_text(bytes, show_bytes),
                    interval_text(seconds, show_seconds)
                )
            }
            _ => self
                .without
                .first()
                .map_or("not measured", |reason| reason_text(*reason))
                .to_owned(),
        }
    }
}

/// Returns the bins of a timeline that have a rate. A missing bin at the start moves the origin
/// only, which leaves the time constant as it is.
fn bins(line: &Timeline, record_size: f64) -> Vec<ReadBin> {
    let seconds = line.bin_ns as f64 * 1e-9;
    line.rates
        .iter()
        .flatten()
        .map(|rate| ReadBin {
            bytes: *rate as f64 * record_size * seconds,
            seconds,
        })
        .collect()
}

/// Formats an estimate with its interval, if there are enough values for one.
pub(crate) fn interval_text(estimate: &Estimate, show: fn(f64) -> String) -> String {
    let interval = estimate.interval.filter(|_| estimate.is_judged());
    let interval = interval
        .map(|found| format!(" [{}, {}]", show(found.lo), show(found.hi)))
        .unwrap_or_default();
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
    use fsb_model::timeline::DeviceBins;
    use serde_json::json;

    use super::*;
    use crate::sample;

    fn line(rates: &[Option<u64>], written: &[u64]) -> Timeline {
        let bins = rates.len();
        Timeline {
            start_ns: 0,
            bin_ns: 20_000_000,
            rates: rates.to_vec(),
            longest_us: rates
                .iter()
                .map(|rate| rate.map_or(0, |rate| 1_000_000 / rate.max(1)))
                .collect(),
            device: Some(DeviceBins {
                read_kib: vec![0; bins],
                written_kib: written.to_vec(),
                flushes: vec![1; bins],
            }),
        }
    }

    #[test]
    fn stalls_are_found_with_the_device_io_beside_them() {
        let (some, none) = (Some(1000), Some(0));
        let timeline = JoinedTimeline::joined(
            3,
            &[line(
                &[
                    some,
                    some,
                    none,
                    none,
                    Some(50),
                    some,
                    none,
                    some,
                    None,
                    None,
                    some,
                ],
                &[0, 0, 5, 7, 0, 0, 9, 0, 0, 0, 0],
            )],
        );
        // Neither a single bin nor a pause of the clock is a stall.
        assert_eq!(timeline.stalls.len(), 1, "{timeline:?}");
        let stall = &timeline.stalls[0];
        assert!((stall.at - 0.04).abs() < 1e-9 && (stall.lasted - 0.06).abs() < 1e-9);
        assert_eq!(
            stall.meanwhile(),
            "the device read nothing, wrote 12.0 KiB, 3 flushes"
        );
    }

    #[test]
    fn unrecorded_timelines_are_left_out() {
        let good = line(&[Some(10)], &[1]);
        let short = Timeline {
            longest_us: Vec::new(),
            ..good.clone()
        };
        let blind = Timeline {
            device: Some(DeviceBins::default()),
            ..good.clone()
        };
        let endless = Timeline {
            bin_ns: 0,
            ..good.clone()
        };
        assert_eq!(
            JoinedTimeline::joined(1, &[short, blind, endless, good]).rates,
            [Some(10.0)]
        );
    }

    #[test]
    fn repetitions_follow_each_other_with_a_gap() {
        let timeline = JoinedTimeline::joined(
            1,
            &[
                line(&[Some(10), Some(10)], &[1, 1]),
                line(&[Some(20)], &[2]),
            ],
        );
        assert_eq!(timeline.rates, [Some(10.0), Some(10.0), None, Some(20.0)]);
        assert!(
            timeline.stalls.is_empty(),
            "ten operations a second leave most bins empty"
        );
    }

    /// Returns trials of six blocks. The rate is a function of the block and of the reads so far,
    /// in units of 100,000.
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
            trial.timelines = vec![Timeline {
                start_ns: 0,
                bin_ns: 20_000_000,
                rates,
                longest_us,
                device: None,
            }];
        }
        trials
    }

    #[test]
    fn the_time_constant_has_an_interval_between_blocks() {
        // The time of a read falls from 100 µs to 1 µs with a constant of 100,000 reads and a tenth
        // more in odd blocks.
        let rate = |block: u32, read: f64| {
            let size = if block % 2 == 1 { 1.1 } else { 1.0 };
            1.0 / (1e-6 + 99e-6 * (-read / size).exp())
        };
        let all = CompactTrial::all(&trials(rate));
        let found = WarmUps::from_trials(all.iter()).unwrap();
        let bytes = found.bytes.as_ref().unwrap();
        let expected = 4096.0 * 100_000.0 * 1.1f64.sqrt();
        assert!((bytes.value / expected - 1.0).abs() < 0.05, "{bytes:?}");
        let interval = bytes.interval.unwrap();
        assert!(
            interval.lo < expected && expected < interval.hi,
            "{bytes:?}"
        );
        assert_eq!((bytes.n, found.without.len()), (6, 0));
        assert!(
            found.shown.points.len() > 100 && found.shown.fit.is_some(),
            "{:?}",
            found.shown
        );
        assert!(found.describe().contains("MiB ["), "{}", found.describe());
    }

    #[test]
    fn a_rate_that_does_not_rise_and_a_short_trial_have_a_reason() {
        let mut constant = trials(|_, _| 50_000.0);
        let found = WarmUps::from_trials(CompactTrial::all(&constant).iter()).unwrap();
        assert_eq!(
            (found.bytes.is_none(), found.describe().as_str()),
            (true, "no fit: the rate did not rise")
        );
        constant
            .iter_mut()
            .for_each(|trial| trial.timelines.clear());
        let found = WarmUps::from_trials(CompactTrial::all(&constant).iter()).unwrap();
        assert_eq!(found.without, [NoWarmUp::FewBins; 6]);
    }

    #[test]
    fn other_workloads_have_no_warm_up() {
        let (_, trials) = sample::run(&["ext4"], 6);
        assert_eq!(
            WarmUps::from_trials(CompactTrial::all(&trials).iter()),
            None
        );
    }
}
