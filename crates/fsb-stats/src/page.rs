//! All rows of a page together.
//!
//! Each row may exclude equality once in twenty though there is nothing; of twelve rows of equal targets every second page
//! would tell some apart. Where intervals are as narrow as the smallest ratio that matters, none of that goes beyond it; where
//! they are wide, it does. So Holm's procedure over all pairs of all rows must confirm every difference: of pages of equal
//! targets at most one in twenty shows a significant difference.

use crate::LEVEL;
use crate::ranking::{Pair, Ranking};

/// Adjusts the p-values of all judged pairs over the page. A pair whose interval excludes equality without being
/// confirmed becomes *perhaps* faster or slower. Letters and outcomes follow.
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
        if largest > 1.0 - LEVEL {
            pair.comparison.verdict = pair.comparison.verdict.unconfirmed();
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

#[cfg(test)]
mod tests {
    use fsb_model::Better;

    use super::*;
    use crate::block_value::BlockValue;
    use crate::ranking::Outcome;
    use crate::verdict::Verdict;

    /// Two targets whose second one is faster by `gain`, with a scatter of a few per cent.
    fn row(gain: f64) -> Ranking {
        let scatter = [0.02, -0.03, 0.01, 0.03, -0.02, -0.01, 0.025, -0.025];
        let values = |center: f64, sign: f64| {
            let value = |(block, noise): (u32, &f64)| BlockValue::new(block, center * libm::exp(sign * noise));
            (1..).zip(&scatter).map(value).collect::<Vec<_>>()
        };
        Ranking::of(&[values(100.0, 1.0), values(100.0 * gain, -0.5)], Better::Higher, 0.03).unwrap()
    }

    #[test]
    fn what_a_page_does_not_confirm_keeps_its_direction() {
        let verdicts = |rows: usize| {
            let mut page: Vec<Ranking> = (0..rows).map(|_| row(1.05)).collect();
            page.iter_mut().skip(1).for_each(|other| *other = row(1.0));
            hold_over_page(&mut page);
            (page[0].verdict(0, 1), page[0].verdict(1, 0), page[0].outcome.clone())
        };
        assert_eq!(verdicts(1).0, Verdict::ProbablyFaster);
        let (there, back, outcome) = verdicts(12);
        assert_eq!((there, back), (Verdict::PerhapsFaster, Verdict::PerhapsSlower));
        assert_eq!(outcome, Outcome::Undecided(vec![1, 0]));
        assert_eq!(row(1.05).pairs[0].comparison.interval.map(|interval| interval.lo > 1.0), Some(true));
    }
}
