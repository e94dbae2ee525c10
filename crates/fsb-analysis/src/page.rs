//! All rows of a page together.
//!
//! Each row may exclude equality once in twenty though there is nothing; of twelve rows of equal targets every second page
//! would tell some apart. Where intervals are as narrow as the smallest ratio that matters, none of that goes beyond it; where
//! they are wide, it does. So whatever a page tells apart must be borne out by Holm's procedure over all pairs of all rows:
//! of pages of equals at most one in twenty names anybody.

use crate::LEVEL;
use crate::ranking::{Pair, Ranking};
use crate::verdict::Verdict;

/// Adjusts the p-values of all judged pairs over the page, and takes back what it does not bear out: such a pair is
/// inconclusive, and its row says how large a difference could still be. Letters and outcomes follow.
pub fn hold_over_page<'a>(rankings: impl IntoIterator<Item = &'a mut Ranking>) {
    let mut rankings: Vec<&mut Ranking> = rankings.into_iter().collect();
    let judged = |pair: &&mut Pair| pair.adjusted_p.is_some() && pair.comparison.p_value.is_some();
    let mut pairs: Vec<&mut Pair> = rankings.iter_mut().flat_map(|ranking| &mut ranking.pairs).filter(judged).collect();
    pairs.sort_by(|a, b| f64::total_cmp(&p_value(a), &p_value(b)));
    let count = pairs.len();
    let mut largest: f64 = 0.0;
    for (place, pair) in pairs.into_iter().enumerate() {
        largest = largest.max(p_value(pair) * (count - place) as f64).min(1.0);
        pair.page_p = Some(largest);
        if pair.comparison.verdict.differs() && largest > 1.0 - LEVEL {
            pair.comparison.verdict = Verdict::Inconclusive;
        }
    }
    rankings.iter_mut().filter(|ranking| !ranking.pairs.is_empty()).for_each(|ranking| ranking.conclude());
}

/// Whether this pair is told apart on a page of so many, whatever the other pairs turn out to be.
pub(crate) fn is_borne_out(pair: &Pair, of: usize) -> bool {
    p_value(pair) * of as f64 <= 1.0 - LEVEL
}

fn p_value(pair: &Pair) -> f64 {
    pair.comparison.p_value.unwrap_or(1.0)
}
