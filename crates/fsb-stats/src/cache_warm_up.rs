//! The time constant with which a cold cache warms up.
//!
//! Records are drawn at random with replacement. After b bytes, a share exp(−b/τ) of the reads
//! misses the cache. Without read-ahead, τ is the size of the file set. The *time* per byte is
//! linear in that share, and the rate is not. The model is therefore t(b) = w + (c − w)·exp(−b/τ),
//! with the time c of a byte from the device and w from memory, and the rate is 1/t(b).
//!
//! The time of a bin that begins after b₀ bytes and ends after b₁ is w·(b₁ − b₀) + (c −
//! w)·τ·(exp(−b₀/τ) − exp(−b₁/τ)). For a given τ this is linear in w and c − w, so ordinary least
//! squares over the bins leaves a search in one dimension (variable projection: Golub and Pereyra
//! 1973).

use serde::Serialize;

/// The fewest bins for a fit.
const FEWEST_BINS: usize = 10;
/// The greatest probability, by an F test, of a rise that is chance.
const CHANCE: f64 = 0.01;
/// The greatest share of the squared deviations from a constant rate that the fit may leave.
const UNEXPLAINED: f64 = 0.5;
/// The least time constant of the search, as a share of all bytes.
const LEAST: f64 = 1e-4;
/// Points of the search on a grid, before it is refined.
const GRID: usize = 200;

/// Bytes that were read, and the time that this took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadBin {
    /// Bytes.
    pub bytes: f64,
    /// Seconds.
    pub seconds: f64,
}

/// The rise of a rate of reads while a cache warms up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheWarmUp {
    /// Bytes per second at the start.
    pub cold: f64,
    /// Bytes per second that the rate approaches.
    pub warm: f64,
    /// Bytes after which the share of misses has fallen to 1/e.
    pub bytes: f64,
}

/// The reason why a measurement has no time constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoWarmUp {
    /// There are fewer than ten bins.
    FewBins,
    /// The rate does not rise, or not more than chance explains.
    NoRise,
    /// The rate was still rising at the end.
    Unfinished,
}

impl CacheWarmUp {
    /// Returns the rate in bytes per second after this number of bytes.
    pub fn rate(&self, bytes: f64) -> f64 {
        1.0 / (1.0 / self.warm
            + (1.0 / self.cold - 1.0 / self.warm) * libm::exp(-bytes / self.bytes))
    }

    /// Returns the seconds in which the first [`CacheWarmUp::bytes`] are read.
    pub fn seconds(&self) -> f64 {
        let (warm, cold) = (1.0 / self.warm, 1.0 / self.cold);
        self.bytes * (warm + (cold - warm) * (1.0 - libm::exp(-1.0)))
    }
}

/// Fits the model to the bins of one measurement, in the order of time.
///
/// # Errors
///
/// Returns the reason if the bins show no rise or do not determine its time constant.
pub fn cache_warm_up(bins: &[ReadBin]) -> Result<CacheWarmUp, NoWarmUp> {
    let bins: Vec<ReadBin> = bins
        .iter()
        .filter(|bin| bin.bytes >= 0.0 && bin.bytes.is_finite() && bin.seconds > 0.0)
        .copied()
        .collect();
    let total: f64 = bins.iter().map(|bin| bin.bytes).sum();
    if bins.len() < FEWEST_BINS || total <= 0.0 {
        return Err(NoWarmUp::FewBins);
    }
    let bins: Vec<ReadBin> = bins
        .iter()
        .map(|bin| ReadBin {
            bytes: bin.bytes / total,
            ..*bin
        })
        .collect();

    let squares = |at: f64| fit(&bins, constant(at)).map_or(f64::INFINITY, |fit| fit.squares);
    let grid = (0..=GRID).map(|at| at as f64);
    let best = grid
        .min_by(|a, b| squares(*a).total_cmp(&squares(*b)))
        .unwrap_or_default();
    let place = golden_section(best - 1.0, best + 1.0, squares);
    let Some(found) = fit(&bins, constant(place)) else {
        return Err(NoWarmUp::NoRise);
    };
    let Fit {
        warm,
        excess,
        squares: left,
    } = found;
    let without = squares_of_constant(&bins);
    // With two more parameters, the tail of the F distribution has this closed form.
    let chance = libm::pow(left / without, (bins.len() - 3) as f64 / 2.0);
    if excess <= 0.0 || best == 0.0 || left > UNEXPLAINED * without || chance > CHANCE {
        return Err(NoWarmUp::NoRise);
    }
    if warm <= 0.0 || best == GRID as f64 {
        return Err(NoWarmUp::Unfinished);
    }
    Ok(CacheWarmUp {
        cold: total / (warm + excess),
        warm: total / warm,
        bytes: total * constant(place),
    })
}

fn constant(at: f64) -> f64 {
    libm::exp(libm::log(LEAST) * (1.0 - at / GRID as f64))
}

/// A fit for one time constant.
struct Fit {
    /// Seconds of a unit from memory.
    warm: f64,
    /// Additional seconds of a unit from the device.
    excess: f64,
    /// The sum of squared deviations.
    squares: f64,
}

/// Fits the two times by least squares. Returns `None` if the bins do not determine both.
fn fit(bins: &[ReadBin], constant: f64) -> Option<Fit> {
    let mut before = 0.0;
    let rows: Vec<[f64; 3]> = bins
        .iter()
        .map(|bin| {
            let after = before + bin.bytes;
            let missed = constant * (libm::exp(-before / constant) - libm::exp(-after / constant));
            before = after;
            [bin.bytes, missed, bin.seconds]
        })
        .collect();
    let sum = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    let (aa, ab, bb, ac, bc) = (sum(0, 0), sum(0, 1), sum(1, 1), sum(0, 2), sum(1, 2));
    let determinant = aa * bb - ab * ab;
    if determinant <= 1e-12 * aa * bb {
        return None;
    }
    let (warm, excess) = (
        (ac * bb - bc * ab) / determinant,
        (bc * aa - ac * ab) / determinant,
    );
    let squares = rows
        .iter()
        .map(|row| (row[2] - warm * row[0] - excess * row[1]).powi(2))
        .sum();
    Some(Fit {
        warm,
        excess,
        squares,
    })
}

/// Returns the sum of squared deviations from the best constant rate.
fn squares_of_constant(bins: &[ReadBin]) -> f64 {
    let each = bins.iter().map(|bin| bin.bytes * bin.seconds).sum::<f64>()
        / bins.iter().map(|bin| bin.bytes.powi(2)).sum::<f64>();
    bins.iter()
        .map(|bin| (bin.seconds - each * bin.bytes).powi(2))
        .sum()
}

/// Returns the place of the minimum of a function with one minimum between the two (Kiefer 1953).
fn golden_section(mut lo: f64, mut hi: f64, function: impl Fn(f64) -> f64) -> f64 {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let (left, right) = (hi - ratio * (hi - lo), lo + ratio * (hi - lo));
        if function(left) <= function(right) {
            hi = right
        } else {
            lo = left
        }
    }
    f64::midpoint(lo, hi)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MiB and seconds.
    const BINS: [(f64, f64); 43] = [
        (1.0, 0.01985),
        (1.0, 0.02119),
        (1.0, 0.0178),
        (1.0, 0.01974),
        (1.0, 0.01814),
        (1.0, 0.01815),
        (1.0, 0.01632),
        (1.0, 0.01614),
        (1.0, 0.01919),
        (1.0, 0.01622),
        (2.0, 0.03213),
        (2.0, 0.03611),
        (2.0, 0.03029),
        (2.0, 0.02904),
        (2.0, 0.0328),
        (2.0, 0.02639),
        (2.0, 0.02541),
        (2.0, 0.02732),
        (4.0, 0.05025),
        (4.0, 0.05069),
        (4.0, 0.0425),
        (4.0, 0.0478),
        (4.0, 0.04203),
        (4.0, 0.04249),
        (4.0, 0.03337),
        (4.0, 0.03513),
        (8.0, 0.0599),
        (8.0, 0.05713),
        (8.0, 0.0452),
        (8.0, 0.04109),
        (8.0, 0.04392),
        (8.0, 0.03457),
        (16.0, 0.05972),
        (16.0, 0.05347),
        (16.0, 0.03953),
        (16.0, 0.03217),
        (16.0, 0.03011),
        (16.0, 0.02155),
        (40.0, 0.04065),
        (40.0, 0.03472),
        (40.0, 0.02491),
        (40.0, 0.0232),
        (40.0, 0.01982),
    ];

    fn bins(pairs: &[(f64, f64)]) -> Vec<ReadBin> {
        pairs
            .iter()
            .map(|&(bytes, seconds)| ReadBin { bytes, seconds })
            .collect()
    }

    /// `scipy.optimize.curve_fit` 1.10.1 of w·(b1 − b0) + d·tau·(exp(−b0/tau) − exp(−b1/tau)) with
    /// tolerances of 1e-15.
    #[test]
    fn the_fit_is_that_of_scipy() {
        let found = cache_warm_up(&bins(&BINS)).unwrap();
        let is_near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
        assert!(is_near(found.bytes, 64.94634268385124), "{found:?}");
        assert!(is_near(found.warm, 2183.633828996428), "{found:?}");
        assert!(is_near(found.cold, 50.99180064118067), "{found:?}");
        assert!(is_near(found.seconds(), 0.8160498205899965), "{found:?}");
        assert!(
            is_near(found.rate(0.0), found.cold) && is_near(found.rate(1e9), found.warm),
            "{found:?}"
        );
    }

    #[test]
    fn a_constant_and_a_falling_rate_do_not_rise() {
        let constant: Vec<_> = (0..40)
            .map(|at| (1.0 + 0.05 * f64::from(at * at % 7), 0.02))
            .collect();
        let falling: Vec<_> = BINS.iter().rev().copied().collect();
        for pairs in [constant, falling] {
            assert_eq!(cache_warm_up(&bins(&pairs)), Err(NoWarmUp::NoRise));
        }
    }

    #[test]
    fn too_few_bins_and_a_rise_that_goes_on_have_no_time_constant() {
        assert_eq!(cache_warm_up(&bins(&BINS[..9])), Err(NoWarmUp::FewBins));
        assert_eq!(
            cache_warm_up(&bins(&[(0.0, 0.02); 20])),
            Err(NoWarmUp::FewBins)
        );
        let rising: Vec<_> = (0..40)
            .map(|at| (1.0, 0.05 - 0.001 * f64::from(at)))
            .collect();
        assert_eq!(cache_warm_up(&bins(&rising)), Err(NoWarmUp::Unfinished));
    }
}
