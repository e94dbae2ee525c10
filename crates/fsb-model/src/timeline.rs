//! The timeline of a trial: rates and the longest operations over time.

use serde::{Deserialize, Serialize};

/// Rates and longest operations of one sample, bin by bin. All lists have the same length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// CLOCK_MONOTONIC at the beginning of the first bin: a whole number of bins.
    pub start_ns: u64,
    /// Nanoseconds of a bin.
    pub bin_ns: u64,
    /// Operations per second that finished in each bin, over the measured time within it; absent if
    /// the clock was stopped for more than half of the bin.
    pub rates: Vec<Option<u64>>,
    /// Microseconds of the longest operation that finished in each bin; 0 if none did.
    pub longest_us: Vec<u64>,
    /// The activity of the target's device in each bin; absent if it was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceBins>,
}

/// The activity of a device, bin by bin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceBins {
    /// KiB read.
    pub read_kib: Vec<u64>,
    /// KiB written.
    pub written_kib: Vec<u64>,
    /// Flushes served.
    pub flushes: Vec<u64>,
}

/// The counters of a device at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceSample {
    /// CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Flushes served.
    pub flushes: u64,
    /// The number of times that the journal of its file system had been written; absent if unknown.
    pub journal_turns: Option<f64>,
}

impl Timeline {
    /// Returns the number of bins.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Returns whether there are no bins.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// Returns whether all lists have the same length and bins have a duration, as in every
    /// recorded timeline.
    pub fn is_sound(&self) -> bool {
        let bins = self.len();

        self.bin_ns > 0
            && self.longest_us.len() == bins
            && self.device.as_ref().is_none_or(|device| {
                let lists = [&device.read_kib, &device.written_kib, &device.flushes];
                lists.iter().all(|list| list.len() == bins)
            })
    }

    /// Returns the mean rate of the bins from `first` to before `end`, or `None` if no rate is
    /// known.
    pub fn mean_rate(&self, first: u64, end: u64) -> Option<f64> {
        let known: Vec<u64> = self
            .rates
            .get(first as usize..end as usize)?
            .iter()
            .flatten()
            .copied()
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / known.len() as f64)
    }

    /// Merges the timeline of another worker of the same time: rates add up, and the longest
    /// operation is that of either. The bins get the longer of the two durations.
    pub fn join(&mut self, mut other: Timeline) {
        while self.bin_ns < other.bin_ns {
            self.halve();
        }
        while other.bin_ns < self.bin_ns {
            other.halve();
        }
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other;
            return;
        }
        let earlier = self.start_ns.saturating_sub(other.start_ns) / self.bin_ns;
        self.rates.splice(0..0, (0..earlier).map(|_| None));
        self.longest_us.splice(0..0, (0..earlier).map(|_| 0));
        self.start_ns = self.start_ns.min(other.start_ns);
        let offset = ((other.start_ns - self.start_ns) / self.bin_ns) as usize;
        let bins = self.len().max(offset + other.len());
        self.rates.resize(bins, None);
        self.longest_us.resize(bins, 0);
        for (at, (rate, longest)) in other.rates.into_iter().zip(other.longest_us).enumerate() {
            let place = &mut self.rates[offset + at];
            *place = match (*place, rate) {
                (Some(one), Some(another)) => Some(one + another),
                (one, another) => one.or(another),
            };
            let place = &mut self.longest_us[offset + at];
            *place = longest.max(*place);
        }
    }

    /// Merges each pair of bins into one.
    fn halve(&mut self) {
        // Bins begin at multiples of their duration.
        if (self.start_ns / self.bin_ns) % 2 == 1 {
            self.rates.insert(0, None);
            self.longest_us.insert(0, 0);
            self.start_ns -= self.bin_ns;
        }
        self.rates = self
            .rates
            .chunks(2)
            .map(|pair| {
                let there: Vec<u64> = pair.iter().flatten().copied().collect();
                (!there.is_empty()).then(|| there.iter().sum::<u64>() / there.len() as u64)
            })
            .collect();
        self.longest_us = self
            .longest_us
            .chunks(2)
            .map(|pair| pair.iter().copied().max().unwrap_or(0))
            .collect();
        self.bin_ns *= 2;
    }

    /// Adds the activity of the device, from samples in the order of time. It is assumed to be even
    /// between two samples.
    pub fn observe(&mut self, samples: &[DeviceSample]) {
        let ([first, .., _], false) = (samples, self.is_empty()) else {
            return;
        };
        let mut edges: Vec<[f64; 3]> = Vec::with_capacity(self.len() + 1);
        for bin in 0..=self.len() as u64 {
            let ns = self.start_ns + bin * self.bin_ns;
            let right = samples
                .partition_point(|sample| sample.at_ns < ns)
                .clamp(1, samples.len() - 1);
            let (from, to) = (&samples[right - 1], &samples[right]);
            let place = (ns.saturating_sub(from.at_ns) as f64
                / (to.at_ns - from.at_ns).max(1) as f64)
                .clamp(0.0, 1.0);
            let [from, to] = [from, to].map(|sample| {
                [
                    sample.read.saturating_sub(first.read),
                    sample.written.saturating_sub(first.written),
                    sample.flushes.saturating_sub(first.flushes),
                ]
            });
            edges.push([0, 1, 2].map(|which| {
                from[which] as f64 + to[which].saturating_sub(from[which]) as f64 * place
            }));
        }
        let list = |which: usize, scale: f64| -> Vec<u64> {
            // Sums stay exact: the rounding error of a bin goes into the next one.
            let sums: Vec<u64> = edges
                .iter()
                .map(|edge| (edge[which] / scale).round() as u64)
                .collect();
            sums.windows(2)
                .map(|pair| pair[1].saturating_sub(pair[0]))
                .collect()
        };
        self.device = Some(DeviceBins {
            read_kib: list(0, 1024.0),
            written_kib: list(1, 1024.0),
            flushes: list(2, 1.0),
        });
    }
}

// Work that continues until it is steady: the file system has written back the first writes, and
// new writes pay their full cost.

/// The share of the requested journal writes before the steady part begins: one of four.
const LED_IN: f64 = 0.25;

/// The result of a sequential trial that continued until its journal had been written a requested
/// number of times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sustained {
    /// The requested number of times that the journal is written.
    pub asked: f64,
    /// The number of times that it was written; absent if unknown.
    pub turns: Option<f64>,
    /// Seconds that the trial lasted.
    pub seconds: f64,
    /// Seconds before the steady part.
    pub lead_in: f64,
    /// Operations per second before the steady part; absent if nothing precedes it.
    pub first_rate: Option<f64>,
    /// Operations per second of the steady part.
    pub rate: f64,
    /// The rate of the later half of the steady part over that of its first half, less 1.
    pub drift: f64,
}

impl Sustained {
    /// Returns the result that `timeline` shows, given the samples of the device and its journal.
    /// Without a journal to count, or if it was not written often enough, the steady part is the
    /// later half. Returns `None` if the rate of a half of the steady part is unknown.
    pub fn from_timeline(
        asked: f64,
        timeline: &Timeline,
        samples: &[DeviceSample],
    ) -> Option<Sustained> {
        let bins = timeline.len() as u64;
        let (start, end) = (
            timeline.start_ns,
            timeline.start_ns + bins * timeline.bin_ns,
        );
        let meanwhile = samples
            .iter()
            .filter(|sample| (start..=end).contains(&sample.at_ns))
            .filter_map(|sample| Some((sample.at_ns, sample.journal_turns?)));
        let turns_made: Vec<(u64, f64)> = meanwhile.collect();
        let turned = |turns: f64| turns_made.first().map_or(0.0, |(_, first)| turns - first);
        let turns = turns_made.last().map(|(_, last)| turned(*last));
        let half = start + bins / 2 * timeline.bin_ns;
        let written = turns_made
            .iter()
            .find(|(_, turns)| turned(*turns) >= asked * LED_IN)
            .map(|(at, _)| *at);
        let begins = written.map_or(half, |at| at.min(half));
        let first = (begins - start).div_ceil(timeline.bin_ns);
        let middle = first + (bins - first) / 2;
        let (early, late) = (
            timeline.mean_rate(first, middle)?,
            timeline.mean_rate(middle, bins)?,
        );
        Some(Sustained {
            asked,
            turns,
            seconds: (end - start) as f64 * 1e-9,
            lead_in: (first * timeline.bin_ns) as f64 * 1e-9,
            first_rate: timeline.mean_rate(0, first),
            rate: timeline.mean_rate(first, bins)?,
            drift: late / early - 1.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(start_ns: u64, rates: &[Option<u64>]) -> Timeline {
        let longest_us = rates
            .iter()
            .map(|rate| rate.map_or(0, |rate| 1_000_000 / rate.max(1)))
            .collect();
        Timeline {
            start_ns,
            bin_ns: 10,
            rates: rates.to_vec(),
            longest_us,
            device: None,
        }
    }

    #[test]
    fn workers_that_overlap_add_up() {
        let mut all = timeline(20, &[Some(100), None, Some(100)]);
        all.join(timeline(10, &[Some(50), Some(50), Some(50)]));
        assert_eq!(
            (all.start_ns, &all.rates[..]),
            (10, &[Some(50), Some(150), Some(50), Some(100)][..])
        );
        assert_eq!(all.longest_us, [20_000, 20_000, 20_000, 10_000]);
        let mut nothing = Timeline {
            bin_ns: 10,
            ..Timeline::default()
        };
        nothing.join(all.clone());
        assert_eq!(nothing, all);
    }

    #[test]
    fn longer_bins_win() {
        let mut fine = timeline(10, &[Some(100), Some(200), Some(300)]);
        let coarse = Timeline {
            bin_ns: 20,
            ..timeline(20, &[Some(7)])
        };
        fine.join(coarse);
        assert_eq!((fine.start_ns, fine.bin_ns), (0, 20));
        assert_eq!(fine.rates, [Some(100), Some(257)]);
    }

    #[test]
    fn device_io_is_spread_over_the_bins_without_loss() {
        let mut line = timeline(100, &[Some(1); 4]);
        let sample = |at_ns, kib: u64, flushes| DeviceSample {
            at_ns,
            read: 0,
            written: 5 + (kib << 10),
            flushes,
            journal_turns: None,
        };
        line.observe(&[sample(100, 0, 9), sample(120, 8, 9), sample(140, 9, 11)]);
        let device = line.device.unwrap();
        assert_eq!(device.written_kib, [4, 4, 1, 0]);
        assert_eq!(
            (device.flushes, device.read_kib),
            (vec![0, 0, 1, 1], vec![0; 4])
        );
        let mut unseen = timeline(100, &[Some(1); 4]);
        unseen.observe(&[sample(100, 0, 0)]);
        assert_eq!(unseen.device, None);
    }

    fn line_of(rates: &[u64]) -> Timeline {
        let rates: Vec<_> = rates.iter().map(|rate| Some(*rate)).collect();
        Timeline {
            start_ns: 100,
            bin_ns: 10,
            longest_us: vec![0; rates.len()],
            rates,
            device: None,
        }
    }

    fn samples(turns: &[f64]) -> Vec<DeviceSample> {
        let sample = |(at, turns): (usize, &f64)| DeviceSample {
            at_ns: 100 + at as u64 * 10,
            read: 0,
            written: 0,
            flushes: 0,
            journal_turns: Some(7.0 + turns),
        };
        turns.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn the_time_before_the_first_turn_does_not_count() {
        let line = line_of(&[90, 90, 30, 30, 30, 30, 30, 30]);
        let found = Sustained::from_timeline(
            4.0,
            &line,
            &samples(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]),
        )
        .unwrap();
        assert_eq!(
            (found.turns, found.first_rate, found.rate, found.drift),
            (Some(4.0), Some(90.0), 30.0, 0.0)
        );
    }

    #[test]
    fn of_what_was_not_held_long_enough_the_later_half_counts() {
        let line = line_of(&[90, 90, 90, 90, 60, 60, 30, 30]);
        let short = Sustained::from_timeline(
            4.0,
            &line,
            &samples(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]),
        )
        .unwrap();
        assert_eq!((short.rate, short.first_rate), (45.0, Some(90.0)));
        assert_eq!(
            (short.turns.map(|turns| turns < 1.0), short.drift),
            (Some(true), -0.5)
        );
        let unknown = Sustained::from_timeline(4.0, &line, &[]).unwrap();
        assert_eq!((unknown.turns, unknown.rate), (None, 45.0));
        assert_eq!(Sustained::from_timeline(4.0, &line_of(&[]), &[]), None);
    }
}
