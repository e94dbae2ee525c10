//! Two kinds among the rates of a cell.

/// Fewer stretches than this are of no kind.
const FEWEST: usize = 20;
/// A kind has at least this share of them,
const SHARE: f64 = 0.1;
/// and differs from the other by more than this ratio,
const RATIO: f64 = 1.25;
/// which is this many times the scatter within the kinds. (Of a normal distribution cut in the middle it is 2.7 times, of
/// a uniform one 3.5 times.)
const SCATTERS: f64 = 5.0;

/// Logarithms that come in two kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kinds {
    /// How many are of the faster kind, as a share.
    pub fast_share: f64,
    /// The means of the faster and of the slower kind.
    pub fast: f64,
    pub slow: f64,
}

impl Kinds {
    /// Whether the rarer kind is found in a third of the blocks: what was slow in a block or two is an outlier of the run.
    pub(super) fn occur_throughout(&self, blocks: &[Vec<f64>]) -> bool {
        let (middle, rarer_is_fast) = (f64::midpoint(self.fast, self.slow), self.fast_share < 0.5);
        let has_rarer = |block: &&Vec<f64>| block.iter().any(|log| (*log > middle) == rarer_is_fast);
        3 * blocks.iter().filter(has_rarer).count() >= blocks.len()
    }
}

/// The split of the sorted logarithms that leaves the least scatter within, if it is one into kinds.
pub(super) fn kinds(logs: &[f64]) -> Option<Kinds> {
    let n = logs.len();
    if n < FEWEST {
        return None;
    }
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let center = sorted.iter().sum::<f64>() / n as f64;
    let total: f64 = sorted.iter().map(|log| log - center).sum();
    let squares: f64 = sorted.iter().map(|log| (log - center).powi(2)).sum();
    let fewest = (SHARE * n as f64).ceil() as usize;
    let mut below = 0.0;
    let mut best: Option<(f64, usize, f64)> = None;
    for (count, log) in sorted.iter().enumerate() {
        if count >= fewest && n - count >= fewest {
            let (low, high) = (below / count as f64, (total - below) / (n - count) as f64);
            let between = low * low * count as f64 + high * high * (n - count) as f64;
            if best.is_none_or(|(most, ..)| between > most) {
                best = Some((between, count, high - low));
            }
        }
        below += log - center;
    }
    let (between, count, apart) = best?;
    let within = ((squares - between).max(0.0) / (n - 2) as f64).sqrt();
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
    (apart > libm::log(RATIO) && within * SCATTERS < apart).then(|| Kinds {
        fast_share: (n - count) as f64 / n as f64,
        fast: mean(&sorted[count..]),
        slow: mean(&sorted[..count]),
    })
}
