//! The compact letter display: targets that share a letter are not significantly different.
//!
//! Insert and absorb, after Piepho 2004 ("An algorithm for a letter-based representation of all-pairwise comparisons",
//! J. Comput. Graph. Stat. 13). The first column holds all targets. Every pair that differs splits the columns that
//! hold both, and a column inside another is absorbed. Two targets then share a column exactly if they do not differ.

/// Returns the letters of each target. `order` is a permutation of the targets from best to worst.
pub(crate) fn letters(order: &[usize], differs: impl Fn(usize, usize) -> bool) -> Vec<String> {
    // Columns hold ranks, so that comparing them as sequences sorts them by merit.
    let mut columns: Vec<Vec<usize>> = vec![(0..order.len()).collect()];
    for better in 0..order.len() {
        for worse in better + 1..order.len() {
            if differs(order[better], order[worse]) {
                columns = absorb(split(columns, better, worse));
            }
        }
    }
    columns.sort();
    let mut result = vec![String::new(); order.len()];
    for (index, column) in columns.iter().enumerate() {
        for rank in column {
            result[order[*rank]].push_str(&letter(index));
        }
    }
    result
}

/// Splits every column that holds both targets into two, each without one of them.
fn split(columns: Vec<Vec<usize>>, first: usize, second: usize) -> Vec<Vec<usize>> {
    let without = |column: &[usize], gone: usize| column.iter().copied().filter(|rank| *rank != gone).collect();
    columns
        .into_iter()
        .flat_map(|column| {
            if column.contains(&first) && column.contains(&second) {
                vec![without(&column, second), without(&column, first)]
            } else {
                vec![column]
            }
        })
        .collect()
}

/// Drops columns that are subsets of another.
fn absorb(mut columns: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    columns.sort_by_key(|column| std::cmp::Reverse(column.len()));
    let mut kept: Vec<Vec<usize>> = Vec::with_capacity(columns.len());
    for column in columns {
        if !kept.iter().any(|larger| column.iter().all(|rank| larger.contains(rank))) {
            kept.push(column);
        }
    }
    kept
}

/// a, b, … z, a1, b1, …
fn letter(index: usize) -> String {
    let character = char::from(b'a' + (index % 26) as u8);
    match index / 26 {
        0 => character.to_string(),
        round => format!("{character}{round}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(order: &[usize], pairs: &[(usize, usize)]) -> Vec<String> {
        letters(order, |a, b| pairs.contains(&(a, b)) || pairs.contains(&(b, a)))
    }

    #[test]
    fn the_best_has_a() {
        assert_eq!(shown(&[1, 0, 2], &[(0, 1), (0, 2), (1, 2)]), ["b", "a", "c"]);
        assert_eq!(shown(&[0, 1, 2], &[]), ["a", "a", "a"]);
        assert_eq!(shown(&[0, 1, 2], &[(0, 2)]), ["a", "ab", "b"]);
        assert_eq!(shown(&[], &[]), Vec::<String>::new());
    }

    #[test]
    fn groups_may_overlap() {
        let pairs = [(0, 6), (0, 7), (1, 6), (1, 7), (3, 7)];
        let shown = shown(&[0, 1, 2, 3, 4, 5, 6, 7], &pairs);
        assert_eq!(shown, ["a", "a", "abc", "ab", "abc", "abc", "bc", "c"]);
    }

    #[test]
    fn there_are_more_letters_than_the_alphabet_has() {
        assert_eq!((letter(25), letter(26), letter(53)), ("z".into(), "a1".into(), "b2".into()));
    }

    proptest! {
        #[test]
        fn a_shared_letter_means_not_told_apart(bits in prop::collection::vec(any::<bool>(), 36)) {
            let n = 9;
            let differs = |a: usize, b: usize| {
                let (low, high) = (a.min(b), a.max(b));
                bits[high * (high - 1) / 2 + low]
            };
            let order: Vec<usize> = (0..n).rev().collect();
            let shown = letters(&order, differs);
            for high in 1..n {
                for low in 0..high {
                    let shared = shown[low].chars().any(|letter| shown[high].contains(letter));
                    prop_assert_eq!(shared, !differs(low, high));
                }
            }
            prop_assert!(shown[order[0]].contains('a'));
        }
    }
}
