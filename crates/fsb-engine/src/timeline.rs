//! What a thread did when: operations and the longest of them, in bins of 20 ms.
//!
//! Everything is reserved and touched before the clock. A stretch that fills the bins gets longer ones: two become one, so that
//! a trial of any length keeps between half and all of them.

use fsb_model::timeline::Timeline;

/// Nanoseconds of a bin, as long as they suffice.
const BIN_NS: u64 = 20_000_000;
/// Bins that there are: 20 s.
const MOST: usize = 1024;
/// What is shorter than so many bins has no course.
const FEWEST: usize = 10;

/// The bins of one thread.
#[derive(Debug)]
pub(crate) struct Bins {
    bins: Box<[Bin]>,
    /// Nanoseconds of a bin.
    width: u64,
    /// Bins before the first one since the clock's zero.
    first: u64,
    /// The bin that is filled now, and when it ends.
    at: usize,
    end: u64,
    /// When what is counted in it began.
    since: u64,
    began: bool,
    /// What is told in the end: reserved, for a worker's thread allocates nothing once the clock has started.
    rates: Vec<Option<u64>>,
    longest_us: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Bin {
    operations: u64,
    longest_ns: u64,
    /// Nanoseconds within it that were measured.
    timed: u64,
}

const EMPTY: Bin = Bin { operations: 0, longest_ns: 0, timed: 0 };

impl Bins {
    /// Empty bins whose memory was touched.
    pub(crate) fn new() -> Bins {
        // Zeros alone would be pages that nobody has made yet.
        let bins = vec![Bin { operations: u64::MAX, ..EMPTY }; MOST].into_boxed_slice();
        let (rates, longest_us) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
        let mut bins =
            Bins { bins, width: BIN_NS, first: 0, at: 0, end: u64::MAX, since: 0, began: false, rates, longest_us };
        bins.clear();
        bins
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.bins.fill(EMPTY);
        (self.width, self.at, self.end, self.began) = (BIN_NS, 0, u64::MAX, false);
    }

    /// The clock starts, or starts again.
    pub(crate) fn start(&mut self, now: u64) {
        if !self.began {
            self.began = true;
            self.first = now / self.width;
            self.end = (self.first + 1) * self.width;
        }
        if now >= self.end {
            self.move_to(now);
        }
        self.since = now;
    }

    /// An operation that took `nanoseconds` ended.
    #[inline]
    pub(crate) fn record(&mut self, now: u64, nanoseconds: u64) {
        if now >= self.end {
            self.pass(now);
        }
        let bin = &mut self.bins[self.at];
        bin.operations += 1;
        bin.longest_ns = bin.longest_ns.max(nanoseconds);
        bin.timed += now.saturating_sub(self.since);
        self.since = now;
    }

    /// The clock runs on into another bin.
    #[cold]
    fn pass(&mut self, now: u64) {
        while now >= self.end {
            self.bins[self.at].timed += self.end - self.since;
            self.since = self.end;
            self.move_to(self.end);
        }
    }

    /// Goes to the bin of this time.
    fn move_to(&mut self, now: u64) {
        let mut place = now / self.width - self.first;
        while place as usize >= MOST {
            self.halve();
            place = now / self.width - self.first;
        }
        self.at = place as usize;
        self.end = (self.first + place + 1) * self.width;
    }

    /// Two bins become one. They begin at whole numbers of their length.
    fn halve(&mut self) {
        let odd = (self.first % 2) as usize;
        for at in 0..MOST {
            let bin = std::mem::replace(&mut self.bins[at], EMPTY);
            let sum = &mut self.bins[(at + odd) / 2];
            sum.operations += bin.operations;
            sum.longest_ns = sum.longest_ns.max(bin.longest_ns);
            sum.timed += bin.timed;
        }
        self.at = (self.at + odd) / 2;
        self.first /= 2;
        self.width *= 2;
        self.end = (self.first + self.at as u64 + 1) * self.width;
    }

    /// What they hold; nothing of what was short.
    pub(crate) fn finish(mut self) -> Option<Timeline> {
        let bins = &self.bins[..=self.at];
        if !self.began || bins.len() < FEWEST {
            return None;
        }
        // Of the few microseconds of a last bin no rate is known.
        let known = |bin: &Bin| bin.timed * 2 >= self.width;
        let rate = |bin: &Bin| known(bin).then(|| (bin.operations as f64 * 1e9 / bin.timed as f64).round() as u64);
        self.rates.extend(bins.iter().map(rate));
        self.longest_us.extend(bins.iter().map(|bin| bin.longest_ns.div_ceil(1000)));
        let Bins { rates, longest_us, .. } = self;
        Some(Timeline { start_ns: self.first * self.width, bin_ns: self.width, rates, longest_us, device: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn rates_follow_the_clock_and_pauses_are_no_stalls() {
        let mut bins = Bins::new();
        let mut now = 7 * BIN_NS + BIN_NS / 2;
        bins.start(now);
        // A thousand a second for 200 ms, then 100 ms in which the clock stands still, then one operation of 90 ms.
        for _ in 0..200 {
            now += MS;
            bins.record(now, MS);
        }
        now += 100 * MS;
        bins.start(now);
        now += 95 * MS;
        bins.record(now, 95 * MS);
        let line = bins.finish().unwrap();
        assert_eq!((line.start_ns, line.bin_ns, line.len()), (7 * BIN_NS, BIN_NS, 21));
        // An operation belongs to the bin in which it ends.
        assert_eq!((line.rates[0], line.rates[10]), (Some(900), Some(1100)));
        assert_eq!(line.rates[1..10], [Some(1000); 9]);
        assert_eq!(line.rates[11..15], [None; 4]);
        assert_eq!(line.rates[15..20], [Some(0); 5]);
        assert_eq!((line.rates[20], line.longest_us[20]), (None, 95_000));
    }

    #[test]
    fn what_is_short_has_no_course() {
        let mut bins = Bins::new();
        bins.start(0);
        (1..=9).for_each(|at| bins.record(at * BIN_NS - 1, MS));
        assert_eq!(bins.finish(), None);
        assert_eq!(Bins::new().finish(), None);
    }

    proptest! {
        /// However long it takes and wherever it begins, no operation and no time is lost.
        #[test]
        fn nothing_is_lost(begin in 0u64..1 << 40, steps in prop::collection::vec(1u64..2_000_000_000, 20..400)) {
            let mut bins = Bins::new();
            let mut now = begin;
            bins.start(now);
            for step in &steps {
                now += step;
                bins.record(now, *step);
            }
            let (operations, timed) = bins.bins.iter().fold((0, 0), |sum, bin| (sum.0 + bin.operations, sum.1 + bin.timed));
            prop_assert_eq!(operations, steps.len() as u64);
            prop_assert_eq!(timed, now - begin);
            if let Some(line) = bins.finish() {
                prop_assert!(line.start_ns <= begin && begin < line.start_ns + line.bin_ns);
                let last = line.start_ns + line.len() as u64 * line.bin_ns;
                prop_assert!(last - line.bin_ns <= now && now < last);
                let longest = steps.iter().max().unwrap().div_ceil(1000);
                prop_assert_eq!(line.longest_us.iter().max(), Some(&longest));
            }
        }
    }
}
