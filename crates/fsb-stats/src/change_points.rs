//! Change points of a series of runs: one value per run, in the order of time.
//!
//! The method is the divisive one of E-divisive (Matteson and James, J. Am. Stat. Assoc. 109, 2014)
//! with a t-test in place of its permutations, as in Hunter (Fleming and others, ICPE 2023; now
//! Apache Otava). With the exponent 2 the energy distance of E-divisive is twice the squared
//! difference of two means, so the test statistic of a split is the difference of two mean
//! logarithms, studentized. Four rules differ from Hunter's:
//!
//! * **Sequential.** The series is read run by run, and each new run is the end of all splits that
//!   are tested, as in the changepoint model of Hawkins, Qiu and Kang (J. Qual. Technol. 35, 2003).
//!   After a change, the search starts anew behind it. A later run therefore never adds a change
//!   among the earlier ones.
//! * **Corrected for the search.** A split with `m` runs in the shorter part is a change if the
//!   two-sided p-value of its t-test is at most [`SPENT`] · min(`m`, [`WEIGHED`]). Short parts fit
//!   more places of a series than long ones, so each length spends about the same share of false
//!   alarms (Dümbgen and Spokoiny, Ann. Statist. 29, 2001, correct scales likewise). More than
//!   [`LONGEST`] runs after a split have the limit [`LATE`], because a larger change was found
//!   before.
//! * **No single run.** Without any one run of either part, the difference must still be
//!   significant.
//! * **Size.** A change is reported with its ratio and interval; a change that is shown to be
//!   smaller than θ is left out.
//!
//! Nothing is random: equal series have equal changes.
//!
//! A search that finds nothing states the change that it would have found:
//! [`RunVariation::detectable`].

use fsb_model::Better;
use serde::{Deserialize, Serialize};

use crate::description::{
    mean_and_sd, normal_below, normal_quantile, ratio_of_means, t_quantile, t_two_sided,
};
use crate::sample::{AnalysisError, logarithms};
use crate::verdict::exp;
use crate::{FEWEST_RUNS_JUDGED, Interval, LEVEL, Verdict};

/// The p-value that a split may have for each run of its shorter part. Simulated, so that fewer
/// than one in a hundred series of a hundred runs without a change shows one at any of its runs.
const SPENT: f64 = 2.4e-6;
/// The share of series of a hundred runs without a change that show one at this value of [`SPENT`].
const FALSE_ALARMS: f64 = 0.01;
/// The number of runs of the shorter part beyond which the limit grows no more: most steps are
/// found before, and what is saved here finds small steps sooner.
const WEIGHED: usize = 16;
/// The maximum number of runs after a split for which [`SPENT`] holds.
const LONGEST: usize = 30;
/// The p-value that a split with more runs after it may have.
const LATE: f64 = 1e-6;
/// No split with a smaller t is a change: its normal p-value is above `SPENT * WEIGHED`.
const SMALLEST_T: f64 = 4.0;
/// The fewest runs on each side of a change.
const FEWEST: usize = 2;
/// The p-value that a change keeps without any one of its runs.
const WITHOUT_ONE: f64 = 1e-3;
/// Runs scatter by at least this share of θ. Tools that round their results print equal values,
/// from which a smaller scatter would follow.
const SCATTER_OF_THETA: f64 = 1.0 / 3.0;
/// The drop of twice the logarithm of the likelihood within which a split may be the true one, at
/// 95 % or more: (1 − e^(−x/2))² = 0.95, because the likelihood on each side is a random walk
/// (Siegmund, Int. Stat. Rev. 56, 1988).
const LIKELIHOOD_DROP: f64 = 7.35;

/// The share of series in which the search finds a change of the detectable size.
const POWER: f64 = 0.8;
/// No larger change is called detectable, as a ratio less one. Runs that show only changes beyond a
/// factor of two show nothing.
const LARGEST_DETECTABLE: f64 = 1.0;
/// The number of equally probable standard deviations over which the power is averaged.
const QUANTILES: u32 = 20;

/// A change between two runs of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangePoint {
    /// The index of the first run after it.
    pub first: usize,
    /// The index of the first run after it, at the earliest, with 95 % confidence.
    pub earliest: usize,
    /// The index of the first run after it, at the latest, with 95 % confidence.
    pub latest: usize,
    /// The number of runs after it that were needed to find it.
    pub found_after: usize,
    /// The level after it over the level before it.
    pub ratio: f64,
    /// The 95 % interval of the ratio.
    pub interval: Interval,
    /// The probability that a series of a hundred runs without a change shows one as clear as this.
    pub p_value: f64,
    /// The verdict on the ratio.
    pub verdict: Verdict,
}

/// Runs between two changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Level {
    /// The index of the first run.
    pub first: usize,
    /// The number of runs.
    pub runs: usize,
    /// The geometric mean of their values.
    pub mean: f64,
}

/// The variation of single runs around the levels of a series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunVariation {
    /// The standard deviation of the logarithm of a run's value.
    pub sd: f64,
    /// The degrees of freedom of the estimate.
    pub degrees: f64,
}

/// The analysis of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangePoints {
    /// The changes, in the order of time.
    pub changes: Vec<ChangePoint>,
    /// The runs before the first change, between changes and after the last one.
    pub levels: Vec<Level>,
    /// The variation between runs, or `None` with fewer than three runs.
    pub variation: Option<RunVariation>,
}

/// Finds the changes in a series of values, one per run, in the order of time.
///
/// # Errors
///
/// A value that is not finite and above zero.
pub fn change_points(
    values: &[f64],
    better: Better,
    theta: f64,
) -> Result<ChangePoints, AnalysisError> {
    let logs = logarithms(values)?;
    let sums = Sums::new(&logs, smallest_sd(theta));
    let mut found = found_in_turn(&logs, &sums);
    // Runs that came later may show that a change is smaller than θ. Its two levels are then one.
    let changes = loop {
        let changes: Vec<ChangePoint> = (0..found.len())
            .map(|at| described(&logs, &sums, &found, at, better, theta))
            .collect();
        match changes.iter().position(|change| !change.verdict.differs()) {
            Some(small) => drop(found.remove(small)),
            None => break changes,
        }
    };
    let levels = levels(&logs, &changes);
    let variation = RunVariation::of_levels(
        levels
            .iter()
            .map(|level| &logs[level.first..level.first + level.runs]),
    );
    Ok(ChangePoints {
        changes,
        levels,
        variation,
    })
}

/// Returns the smallest standard deviation of a run that is assumed.
fn smallest_sd(theta: f64) -> f64 {
    libm::log1p(theta) * SCATTER_OF_THETA
}

/// A split and the number of runs after it when it was found.
#[derive(Debug, Clone, Copy)]
struct Found {
    first: usize,
    after: usize,
}

/// Reads the series run by run, and starts again behind each change.
fn found_in_turn(logs: &[f64], sums: &Sums) -> Vec<Found> {
    let (mut start, mut found) = (0, Vec::new());
    for end in 1..=logs.len() {
        if let Some(first) = split(logs, sums, start, end) {
            found.push(Found {
                first,
                after: end - first,
            });
            start = first;
        }
    }
    found
}

/// Returns the split of the runs from `start` to before `end` that is the clearest change, if one
/// is.
fn split(logs: &[f64], sums: &Sums, start: usize, end: usize) -> Option<usize> {
    let splits = sums.steep(start, end);
    let clear = splits.into_iter().filter_map(|first| {
        let t = sums.t(start, first, end);
        (t > SMALLEST_T)
            .then(|| (first, clearness(t, start, first, end)))
            .filter(|(_, clearness)| *clearness <= 1.0)
    });
    let lasting = clear.filter(|(first, _)| lasts_without_any_one(logs, sums, start, *first, end));
    lasting
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(first, _)| first)
}

/// Returns the p-value of a split over the one that it may have.
fn clearness(t: f64, start: usize, first: usize, end: usize) -> f64 {
    t_two_sided(t, (end - start - 2) as f64) / limit(first - start, end - first)
}

/// Returns the p-value that a split may have, with this many runs before and after it.
fn limit(before: usize, after: usize) -> f64 {
    match after {
        after if after <= LONGEST => SPENT * after.min(before).min(WEIGHED) as f64,
        _ => LATE,
    }
}

/// Returns whether the difference remains if the run that contributes most to it is left out, on
/// either side.
fn lasts_without_any_one(
    logs: &[f64],
    sums: &Sums,
    start: usize,
    first: usize,
    end: usize,
) -> bool {
    let rises = sums.mean(first, end) > sums.mean(start, first);
    let (before, after) = (&logs[start..first], &logs[first..end]);
    let [lowest_before, highest_before] = ends(before);
    let [lowest_after, highest_after] = ends(after);
    let (from, to) = if rises {
        (lowest_before, highest_after)
    } else {
        (highest_before, lowest_after)
    };
    let [all_before, all_after] =
        [(start, first), (first, end)].map(|(start, end)| sums.part(start, end));
    let degrees = (end - start - 3) as f64;
    [
        (all_before.without(from - sums.origin), all_after),
        (all_before, all_after.without(to - sums.origin)),
    ]
    .into_iter()
    .all(|(before, after)| {
        let same_direction = (after.mean() > before.mean()) == rises;
        same_direction && t_two_sided(sums.t_of(before, after), degrees) <= WITHOUT_ONE
    })
}

fn ends(logs: &[f64]) -> [f64; 2] {
    logs.iter()
        .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], log| {
            [low.min(*log), high.max(*log)]
        })
}

/// Returns a change with its size and place, from all runs between its neighbours.
fn described(
    logs: &[f64],
    sums: &Sums,
    found: &[Found],
    at: usize,
    better: Better,
    theta: f64,
) -> ChangePoint {
    let start = at.checked_sub(1).map_or(0, |before| found[before].first);
    let end = found.get(at + 1).map_or(logs.len(), |next| next.first);
    let Found { first, after } = found[at];
    let (ratio, interval) = ratio_of_means(&logs[start..first], &logs[first..end]).unwrap_or((
        1.0,
        Interval {
            lo: f64::MIN_POSITIVE,
            hi: f64::MAX,
        },
    ));
    let runs = (end - start) as f64;
    let least = sums.scatter(start, first, end);
    let mut splits = (start + 1..end).filter(|split: &usize| {
        runs * libm::log(sums.scatter(start, *split, end) / least) <= LIKELIHOOD_DROP
    });
    let earliest = splits.next().unwrap_or(first).min(first);
    ChangePoint {
        first,
        earliest,
        latest: splits.next_back().unwrap_or(first).max(first),
        found_after: after,
        ratio,
        interval,
        p_value: (FALSE_ALARMS * clearness(sums.t(start, first, end), start, first, end)).min(1.0),
        verdict: Verdict::of_ratio(interval, theta, better),
    }
}

fn levels(logs: &[f64], changes: &[ChangePoint]) -> Vec<Level> {
    let (mut levels, mut first) = (Vec::new(), 0);
    for end in changes
        .iter()
        .map(|change| change.first)
        .chain([logs.len()])
    {
        if first < end {
            levels.push(Level {
                first,
                runs: end - first,
                mean: exp(mean_and_sd(&logs[first..end]).0),
            });
        }
        first = end;
    }
    levels
}

impl RunVariation {
    /// Pools the variances of several levels, each given by the logarithms of its values. Returns
    /// `None` for fewer than three runs, or if no level repeats.
    pub fn of_levels<'l>(levels: impl IntoIterator<Item = &'l [f64]>) -> Option<RunVariation> {
        let (mut squares, mut degrees, mut runs) = (0.0, 0.0, 0);
        for level in levels.into_iter().filter(|level| !level.is_empty()) {
            let freedom = (level.len() - 1) as f64;
            squares += mean_and_sd(level).1.powi(2) * freedom;
            degrees += freedom;
            runs += level.len();
        }
        (runs >= FEWEST_RUNS_JUDGED && degrees > 0.0).then(|| RunVariation {
            sd: (squares / degrees).sqrt(),
            degrees,
        })
    }

    /// Pools estimates of several series.
    pub fn pooled(estimates: impl IntoIterator<Item = RunVariation>) -> Option<RunVariation> {
        let (mut squares, mut degrees) = (0.0, 0.0);
        for one in estimates {
            squares += one.sd.powi(2) * one.degrees;
            degrees += one.degrees;
        }
        (degrees > 0.0).then(|| RunVariation {
            sd: (squares / degrees).sqrt(),
            degrees,
        })
    }

    /// Returns the 95 % interval of a level: of the geometric mean of `runs` runs, exp(ln m ± t · s
    /// / √n).
    pub fn interval_of_level(self, mean: f64, runs: usize) -> Interval {
        let half = t_quantile(LEVEL, self.degrees) * self.sd / (runs.max(1) as f64).sqrt();
        Interval {
            lo: mean * exp(-half),
            hi: mean * exp(half),
        }
    }

    /// Returns the change, as a ratio less one, that the search finds in four of five series if it
    /// happens half-way through `runs` runs. It is at least `theta`, because smaller changes are
    /// left out. Returns `None` if no change up to a factor of two would be found: such runs cannot
    /// tell whether anything changed.
    pub fn detectable(self, runs: usize, theta: f64) -> Option<f64> {
        let before = runs / 2;
        let after = runs - before;
        if before < FEWEST || after < FEWEST {
            return None;
        }
        // The search looks after each run, and from `LONGEST` runs after a change on with another
        // limit.
        let ends = [after, after.min(LONGEST)].into_iter();
        let step = ends
            .map(|after| self.detectable_step(before, after, smallest_sd(theta)))
            .fold(f64::INFINITY, f64::min);
        let change = libm::expm1(step).max(theta);
        (change <= LARGEST_DETECTABLE).then_some(change)
    }

    /// Returns the difference of two levels, as a logarithm, for which the t-test of a split with
    /// this many runs before and after it reaches its limit with the probability [`POWER`].
    ///
    /// The statistic is the difference over the root of its estimated variance. Given that
    /// variance, the difference is normal. The power is the mean of that probability over two
    /// distributions: that of the variance which the test estimates, and that of
    /// [`RunVariation::sd`], with which the stated difference grows.
    fn detectable_step(self, before: usize, after: usize, smallest_sd: f64) -> f64 {
        let degrees = (before + after - 2) as f64;
        let width = (1.0 / before as f64 + 1.0 / after as f64).sqrt();
        let critical = t_quantile(1.0 - limit(before, after), degrees);
        // Below the smallest standard deviation neither the test nor the statement depends on the
        // estimate.

        let needed: Vec<f64> = relative_sds(degrees)
            .map(|tested| critical * width * (self.sd * tested).max(smallest_sd))
            .collect();
        let stated: Vec<f64> = relative_sds(self.degrees)
            .map(|found| (self.sd * found).max(smallest_sd) / self.sd.max(smallest_sd))
            .collect();
        let error = (self.sd * width).max(f64::MIN_POSITIVE);

        let smallest = stated
            .iter()
            .copied()
            .fold(f64::INFINITY, f64::min)
            .max(f64::EPSILON);
        let largest = needed.iter().copied().fold(0.0, f64::max) + 10.0 * error;
        let (mut low, mut high) = (0.0, largest / smallest);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            let mut power = 0.0;
            for stated in &stated {
                for needed in &needed {
                    power += normal_below((middle * stated - needed) / error);
                }
            }
            if power / ((stated.len() * needed.len()) as f64) < POWER {
                low = middle
            } else {
                high = middle
            }
        }
        high
    }

    /// Compares two single runs: the ratio `after` / `before` with its 95 % interval, exp(d ± t · s
    /// · √2), and the verdict.
    pub fn compare(
        self,
        before: f64,
        after: f64,
        better: Better,
        theta: f64,
    ) -> Result<(f64, Interval, Verdict), AnalysisError> {
        let logs = logarithms(&[before, after])?;
        let difference = logs[1] - logs[0];
        let half = t_quantile(LEVEL, self.degrees) * self.sd * std::f64::consts::SQRT_2;
        let interval = Interval::around(difference, half);
        let verdict = Verdict::from_interval(interval, theta, better);
        Ok((
            exp(difference),
            Interval {
                lo: exp(interval.lo),
                hi: exp(interval.hi),
            },
            verdict,
        ))
    }
}

/// Returns equally probable values of an estimated standard deviation over the true one: the root
/// of χ²/ν, by the cube root of Wilson and Hilferty (Proc. Natl. Acad. Sci. 17, 1931).
fn relative_sds(degrees: f64) -> impl Iterator<Item = f64> {
    let spread = 2.0 / (9.0 * degrees);
    (0..QUANTILES).map(move |place| {
        let z = normal_quantile((f64::from(place) + 0.5) / f64::from(QUANTILES));
        (1.0 - spread + z * spread.sqrt()).max(0.0).powf(1.5)
    })
}

/// The number, sum and sum of squares of some runs, about an origin.
#[derive(Debug, Clone, Copy)]
struct Part {
    runs: f64,
    sum: f64,
    squares: f64,
}

impl Part {
    fn mean(self) -> f64 {
        self.sum / self.runs
    }

    /// Returns the sum of squared deviations from the mean.
    fn scatter(self) -> f64 {
        (self.squares - self.sum * self.sum / self.runs).max(0.0)
    }

    fn without(self, log: f64) -> Part {
        Part {
            runs: self.runs - 1.0,
            sum: self.sum - log,
            squares: self.squares - log * log,
        }
    }
}

/// The number of splits that are excluded together.
const BLOCK: usize = 64;
/// The relative rounding error that the exclusion of splits allows for.
const ROUNDING: f64 = 1e-9;

/// Sums from the first run on, so that the sums of any part are two differences.
struct Sums {
    /// The first value, about which sums are taken, so that a small scatter at a large value keeps
    /// its digits.
    origin: f64,
    sums: Vec<[f64; 2]>,
    /// The sums about the mean of all runs.
    centred: Vec<f64>,
    /// The smallest and the largest of [`BLOCK`] centred sums.
    ranges: Vec<[f64; 2]>,
    /// The smallest standard deviation of a run that is assumed.
    smallest_sd: f64,
}

impl Sums {
    fn new(logs: &[f64], smallest_sd: f64) -> Sums {
        let origin = logs.first().copied().unwrap_or(0.0);
        let mut sums = vec![[0.0; 2]];
        let (mut sum, mut squares) = (0.0, 0.0);
        for log in logs {
            sum += log - origin;
            squares += (log - origin).powi(2);
            sums.push([sum, squares]);
        }
        let mean = sum / logs.len().max(1) as f64;
        let mut centred = Vec::with_capacity(sums.len());
        for (runs, [sum, _]) in sums.iter().enumerate() {
            centred.push(sum - mean * runs as f64);
        }
        let ranges = centred.chunks(BLOCK).map(ends).collect();
        Sums {
            origin,
            sums,
            centred,
            ranges,
            smallest_sd,
        }
    }

    /// Returns the splits of the runs from `start` to before `end` whose t may be above
    /// [`SMALLEST_T`]: all that are, and hardly any other.
    ///
    /// With b and a runs before and after the split, n together, t² is larger than T² if x² · n is
    /// larger than C · b · a: x is the sum of the deviations from the mean before the split, and C
    /// is the larger one of T² · S / (n − 2 + T²) and T² times the smallest variance. S is the sum
    /// of squared deviations from the mean, which is the same for all splits. So a range of x
    /// excludes a block of splits at once, and a series of n runs without a change takes about n
    /// · n / [`BLOCK`] steps.
    fn steep(&self, start: usize, end: usize) -> Vec<usize> {
        let (lowest, highest) = (start + FEWEST, end.saturating_sub(FEWEST));
        let mut found = Vec::new();
        if highest < lowest {
            return found;
        }
        let whole = self.part(start, end);
        let n = whole.runs;
        let squared_t = SMALLEST_T.powi(2);
        let scatter = (whole.scatter() - ROUNDING * whole.squares).max(0.0);
        let least = squared_t * (scatter / (n - 2.0 + squared_t)).max(self.smallest_sd.powi(2));
        let least = least * (1.0 - ROUNDING);
        let origin = self.centred[start];
        let mean = (self.centred[end] - origin) / n;
        let slack = ROUNDING * (whole.squares * n).sqrt();
        let runs_before = |first: usize| (first - start) as f64;
        let limit = |before: f64| least * before * (n - before);
        for block in lowest / BLOCK..=highest / BLOCK {
            let first = lowest.max(block * BLOCK);
            let last = highest.min(block * BLOCK + BLOCK - 1);
            let (fewest, most) = (runs_before(first), runs_before(last));
            let [low, high] = self.ranges[block];
            let trend = [mean * fewest, mean * most];
            let above = high - origin - trend[0].min(trend[1]) + slack;
            let below = low - origin - trend[0].max(trend[1]) - slack;
            let steepest = (above * above).max(below * below) * n;
            if steepest <= limit(fewest).min(limit(most)) {
                continue;
            }
            for split in first..=last {
                let before = runs_before(split);
                let x = (self.centred[split] - origin - mean * before).abs() + slack;
                if x * x * n > limit(before) {
                    found.push(split);
                }
            }
        }
        found
    }

    fn part(&self, start: usize, end: usize) -> Part {
        let ([sum_before, squares_before], [sum, squares]) = (self.sums[start], self.sums[end]);
        Part {
            runs: (end - start) as f64,
            sum: sum - sum_before,
            squares: squares - squares_before,
        }
    }

    fn mean(&self, start: usize, end: usize) -> f64 {
        self.part(start, end).mean()
    }

    /// Returns the sum of squared deviations from the means of both parts, at least that of the
    /// smallest scatter.
    fn scatter(&self, start: usize, first: usize, end: usize) -> f64 {
        let scatter = self.part(start, first).scatter() + self.part(first, end).scatter();
        scatter.max(self.smallest_sd.powi(2) * (end - start) as f64)
    }

    /// Returns the absolute t statistic of the difference of the two parts, with a common variance.
    fn t(&self, start: usize, first: usize, end: usize) -> f64 {
        self.t_of(self.part(start, first), self.part(first, end))
    }

    fn t_of(&self, before: Part, after: Part) -> f64 {
        let degrees = before.runs + after.runs - 2.0;
        let variance =
            ((before.scatter() + after.scatter()) / degrees).max(self.smallest_sd.powi(2));
        (after.mean() - before.mean()).abs()
            / (variance * (1.0 / before.runs + 1.0 / after.runs)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THETA: f64 = 0.03;

    fn firsts(values: &[f64]) -> Vec<usize> {
        let found = change_points(values, Better::Higher, THETA).unwrap();
        found.changes.iter().map(|change| change.first).collect()
    }

    /// Returns values that scatter by some 2 % in a fixed pattern around a level.
    fn around(level: f64, runs: usize) -> Vec<f64> {
        (0..runs)
            .map(|run| level * (1.0 + 0.02 * ((run * 7 % 11) as f64 / 5.0 - 1.0)))
            .collect()
    }

    #[test]
    fn a_step_is_found_with_its_size_and_place() {
        let values = [around(400.0, 30), around(360.0, 8)].concat();
        let found = change_points(&values, Better::Higher, THETA).unwrap();
        let [change] = &found.changes[..] else {
            panic!("{found:?}")
        };
        assert_eq!((change.first, change.verdict), (30, Verdict::Slower));
        assert!(
            change.earliest <= 30 && 30 <= change.latest && change.latest - change.earliest <= 2,
            "{change:?}"
        );
        assert!(
            change.interval.contains(0.9) && change.found_after <= 5 && change.p_value < 1e-4,
            "{change:?}"
        );
        assert_eq!(
            found
                .levels
                .iter()
                .map(|level| (level.first, level.runs))
                .collect::<Vec<_>>(),
            [(0, 30), (30, 8)]
        );
        let faster = change_points(&values, Better::Lower, THETA).unwrap();
        assert_eq!(faster.changes[0].verdict, Verdict::Faster);
    }

    #[test]
    fn a_step_and_its_return_are_two_changes() {
        let values = [around(400.0, 30), around(300.0, 10), around(400.0, 30)].concat();
        assert_eq!(firsts(&values), [30, 40]);
    }

    #[test]
    fn a_step_smaller_than_theta_is_ignored() {
        let steady: Vec<f64> = around(400.0, 200)
            .iter()
            .map(|value| 400.0 + (value - 400.0) / 20.0)
            .collect();
        let stepped: Vec<f64> = steady
            .iter()
            .enumerate()
            .map(|(run, value)| if run < 100 { *value } else { value * 0.985 })
            .collect();
        assert!(firsts(&stepped).is_empty());
        let bare = change_points(&stepped, Better::Higher, 0.0).unwrap();
        assert_eq!(bare.changes.len(), 1, "{bare:?}");
    }

    #[test]
    fn short_series_have_no_changes_and_say_when_the_variation_is_unknown() {
        assert_eq!(
            change_points(&[], Better::Higher, THETA).unwrap().levels,
            []
        );
        let two = change_points(&[400.0, 200.0], Better::Higher, THETA).unwrap();
        assert_eq!(
            (two.changes.len(), two.levels.len(), two.variation),
            (0, 1, None)
        );
        assert!(change_points(&[400.0, 0.0], Better::Higher, THETA).is_err());
    }

    #[test]
    fn two_runs_are_compared_with_the_variation_of_the_series() {
        let logs: Vec<f64> = around(1.0, 22).iter().map(|value| value.ln()).collect();
        let variation = RunVariation::of_levels([&logs[..]]).unwrap();
        let (_, wide, unsure) = variation
            .compare(400.0, 392.0, Better::Higher, THETA)
            .unwrap();
        assert!(
            wide.contains(1.0) && unsure == Verdict::Inconclusive,
            "{wide:?}"
        );
        let (ratio, _, sure) = variation
            .compare(400.0, 200.0, Better::Higher, THETA)
            .unwrap();
        assert!(
            (ratio - 0.5).abs() < 1e-12 && sure == Verdict::Slower,
            "{ratio} {sure:?}"
        );
        assert_eq!(RunVariation::of_levels([&logs[..1], &logs[..1]]), None);
    }

    #[test]
    fn the_interval_of_a_level_is_that_of_the_mean_of_its_runs() {
        let logs: Vec<f64> = around(400.0, 22).iter().map(|value| value.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let found = RunVariation::of_levels([&logs[..]])
            .unwrap()
            .interval_of_level(mean.exp(), logs.len());
        let expected = crate::t_interval(&logs, LEVEL).unwrap().unwrap();
        assert!(
            (found.lo.ln() - expected.lo).abs() < 1e-12
                && (found.hi.ln() - expected.hi).abs() < 1e-12,
            "{found:?}"
        );
    }

    fn series() -> impl Strategy<Value = Vec<f64>> {
        let part = (1usize..25, -1.0f64..1.0);
        let parts = prop::collection::vec(part, 1..4);
        (parts, prop::collection::vec(-0.05f64..0.05, 75)).prop_map(|(parts, noise)| {
            let levels = parts
                .into_iter()
                .flat_map(|(runs, level)| vec![level; runs]);
            levels
                .zip(noise)
                .map(|(level, noise)| (5.0 + level + noise).exp())
                .collect()
        })
    }

    proptest! {
        /// No split with a large t is excluded, whatever the level and the scatter are.
        #[test]
        fn no_steep_split_is_excluded(
            noise in prop::collection::vec(-1.0..1.0_f64, 2..300),
            level in -50.0..50.0_f64,
            scatter in prop::sample::select(vec![0.0, 1e-7, 1e-3, 0.05, 1.0]),
            steps in prop::collection::vec((0usize..300, -0.3..0.3_f64), 0..4),
            start in 0usize..100,
        ) {
            let mut logs: Vec<f64> = noise.iter().map(|noise| level + scatter * noise).collect();
            for (at, step) in steps {
                logs.iter_mut().skip(at).for_each(|log| *log += step);
            }
            let sums = Sums::new(&logs, smallest_sd(THETA));
            let start = start.min(logs.len() - 1);
            for end in start + 1..=logs.len() {
                let found = sums.steep(start, end);
                for first in start + FEWEST..(end + 1).saturating_sub(FEWEST) {
                    let is_steep = sums.t(start, first, end) > SMALLEST_T;
                    prop_assert!(!is_steep || found.contains(&first), "{start} {first} {end}");
                }
            }
        }


        #[test]
        fn one_run_makes_no_change(
            runs in 4usize..60, at in any::<prop::sample::Index>(), outlier in -5.0f64..5.0
        ) {
            let mut values = vec![100.0; runs];
            // Alternating signs keep the series itself without a change.
            values.iter_mut().enumerate().for_each(|(run, value)| *value *= if run % 2 == 0 { 1.01 } else { 0.99 });
            let at = at.index(runs);
            values[at] *= outlier.exp();
            prop_assert_eq!(firsts(&values), Vec::<usize>::new());
        }

        #[test]
        fn units_do_not_matter_and_direction_is_symmetric(values in series(), unit in 1e-6f64..1e6) {
            let found = change_points(&values, Better::Higher, THETA).unwrap();
            let scaled: Vec<f64> = values.iter().map(|value| value * unit).collect();
            prop_assert_eq!(&firsts(&scaled), &firsts(&values));
            let times: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
            let times = change_points(&times, Better::Lower, THETA).unwrap();
            prop_assert_eq!(times.changes.len(), found.changes.len());
            for (time, rate) in times.changes.iter().zip(&found.changes) {
                prop_assert_eq!((time.first, time.verdict), (rate.first, rate.verdict));
                prop_assert!((time.ratio * rate.ratio - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn later_runs_add_no_change_among_earlier_ones(values in series(), cut in any::<prop::sample::Index>()) {
            let cut = cut.index(values.len());
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let found = |logs: &[f64]| -> Vec<(usize, usize)> {
                let sums = Sums::new(logs, 0.01);
                found_in_turn(logs, &sums).iter().map(|found| (found.first, found.after)).collect()
            };
            let (short, long) = (found(&logs[..cut]), found(&logs));
            prop_assert_eq!(&short[..], &long[..short.len()]);
            prop_assert!(long[short.len()..].iter().all(|(first, after)| first + after > cut));
        }

        #[test]
        fn levels_cover_the_series_and_changes_separate_them(values in series()) {
            let found = change_points(&values, Better::Higher, THETA).unwrap();
            let mut next = 0;
            for level in &found.levels {
                prop_assert_eq!(level.first, next);
                next += level.runs;
            }
            prop_assert_eq!(next, values.len());
            prop_assert_eq!(found.levels.len(), found.changes.len() + 1);
            for change in &found.changes {
                prop_assert!(change.earliest <= change.first && change.first <= change.latest);
                prop_assert!(change.verdict.differs() && (0.0..=1.0).contains(&change.p_value));
            }
        }
    }
}
