//! All rows of a page together.
//!
//! Each row may be wrong once in twenty; of twelve rows of equal targets every second page would name somebody
//! *probably faster*. A difference that is certainly larger than what matters is far beyond such luck. One that is not
//! is printed as probable only where Holm's procedure over all pairs of all rows agrees.

use crate::LEVEL;
use crate::ranking::{Pair, Ranking};
use crate::verdict::Verdict;

/// Adjusts the p-values of all judged pairs over the page, and takes back *probably faster* and *probably slower* where
/// the page does not bear them out: such a pair is inconclusive. Winners and letters never rest on those.
pub fn hold_over_page<'a>(rankings: impl IntoIterator<Item = &'a mut Ranking>) {
    let judged = |pair: &&mut Pair| pair.adjusted_p.is_some() && pair.comparison.p_value.is_some();
    let mut pairs: Vec<&mut Pair> =
        rankings.into_iter().flat_map(|ranking| &mut ranking.pairs).filter(judged).collect();
    pairs.sort_by(|a, b| f64::total_cmp(&p_value(a), &p_value(b)));
    let count = pairs.len();
    let mut largest: f64 = 0.0;
    for (place, pair) in pairs.into_iter().enumerate() {
        largest = largest.max(p_value(pair) * (count - place) as f64).min(1.0);
        pair.page_p = Some(largest);
        let probable = matches!(pair.comparison.verdict, Verdict::ProbablyFaster | Verdict::ProbablySlower);
        if probable && largest > 1.0 - LEVEL {
            pair.comparison.verdict = Verdict::Inconclusive;
        }
    }
}

fn p_value(pair: &Pair) -> f64 {
    pair.comparison.p_value.unwrap_or(1.0)
}
