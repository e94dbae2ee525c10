//! Work that continues until it is steady: the file system has written back the first writes, and new writes pay their
//! full cost.

use serde::{Deserialize, Serialize};

use crate::timeline::{DeviceSample, Timeline};

/// The share of the requested journal writes before the steady part begins: one of four.
const LED_IN: f64 = 0.25;

/// The result of a sequential trial that continued until its journal had been written a requested number of times.
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
    /// Returns the result that `timeline` shows, given the samples of the device and its journal. Without a journal to
    /// count, or if it was not written often enough, the steady part is the later half. Returns `None` if the rate of a
    /// half of the steady part is unknown.
    pub fn from_timeline(asked: f64, timeline: &Timeline, samples: &[DeviceSample]) -> Option<Sustained> {
        let bins = timeline.len() as u64;
        let (start, end) = (timeline.start_ns, timeline.start_ns + bins * timeline.bin_ns);
        let known = |sample: &DeviceSample| Some((sample.at_ns, sample.journal_turns?));
        let meanwhile = samples.iter().filter(|sample| (start..=end).contains(&sample.at_ns)).filter_map(known);
        let turns_made: Vec<(u64, f64)> = meanwhile.collect();
        let turned = |turns: f64| turns_made.first().map_or(0.0, |(_, first)| turns - first);
        let turns = turns_made.last().map(|(_, last)| turned(*last));
        let half = start + bins / 2 * timeline.bin_ns;
        let written = turns_made.iter().find(|(_, turns)| turned(*turns) >= asked * LED_IN).map(|(at, _)| *at);
        let begins = written.map_or(half, |at| at.min(half));
        let first = (begins - start).div_ceil(timeline.bin_ns);
        let middle = first + (bins - first) / 2;
        let (early, late) = (timeline.mean_rate(first, middle)?, timeline.mean_rate(middle, bins)?);
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

    fn timeline(rates: &[u64]) -> Timeline {
        let rates: Vec<_> = rates.iter().map(|rate| Some(*rate)).collect();
        Timeline { start_ns: 100, bin_ns: 10, longest_us: vec![0; rates.len()], rates, device: None }
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
        let line = timeline(&[90, 90, 30, 30, 30, 30, 30, 30]);
        let found =
            Sustained::from_timeline(4.0, &line, &samples(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0])).unwrap();
        assert_eq!((found.turns, found.first_rate, found.rate, found.drift), (Some(4.0), Some(90.0), 30.0, 0.0));
    }

    #[test]
    fn of_what_was_not_held_long_enough_the_later_half_counts() {
        let line = timeline(&[90, 90, 90, 90, 60, 60, 30, 30]);
        let short = Sustained::from_timeline(4.0, &line, &samples(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])).unwrap();
        assert_eq!((short.rate, short.first_rate), (45.0, Some(90.0)));
        assert_eq!((short.turns.map(|turns| turns < 1.0), short.drift), (Some(true), -0.5));
        let unknown = Sustained::from_timeline(4.0, &line, &[]).unwrap();
        assert_eq!((unknown.turns, unknown.rate), (None, 45.0));
        assert_eq!(Sustained::from_timeline(4.0, &timeline(&[]), &[]), None);
    }
}
