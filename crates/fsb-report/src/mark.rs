//! Marks beside values.

use fsb_analysis::{Outcome, Verdict};

use crate::show::counted;
use crate::view::Row;

/// Marks contenders of a row that has no winner.
pub(crate) const OPEN: char = '?';
/// Marks a difference that the page does not confirm.
pub(crate) const UNCONFIRMED: char = '†';

/// The mark of a value: its letters, `?` if it may be the best of a row without a winner, `†` if its difference from the
/// baseline is not confirmed.
pub(crate) fn of_value(outcome: &Outcome, place: usize, letters: Option<&str>, against: Option<Verdict>) -> String {
    let mut mark = letters.unwrap_or_default().to_owned();
    if matches!(outcome, Outcome::Undecided(contenders) if contenders.contains(&place)) {
        mark.push(OPEN);
    }
    if against.is_some_and(Verdict::is_unconfirmed) {
        mark.push(UNCONFIRMED);
    }
    mark
}

/// Explains the mark of unconfirmed differences, if it occurs.
pub(crate) fn legend(rows: &[Row<'_>]) -> Option<String> {
    let occurs = rows.iter().flat_map(|row| &row.cells).any(|cell| cell.mark.contains(UNCONFIRMED));
    let cases = rows.iter().filter(|row| row.cells.iter().any(|cell| cell.verdict().is_some())).count();
    let cases = counted(cases, "case");
    occurs.then(|| format!("{UNCONFIRMED} perhaps: the interval excludes 0 %, but not after correction for {cases}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_keep_their_letters() {
        let open = Outcome::Undecided(vec![0, 2]);
        assert_eq!(of_value(&open, 0, Some("ab"), None), "ab?");
        assert_eq!(of_value(&open, 1, Some("b"), Some(Verdict::Slower)), "b");
        assert_eq!(of_value(&open, 2, Some("a"), Some(Verdict::PerhapsFaster)), "a?†");
        assert_eq!(of_value(&Outcome::Winner(1), 0, Some("b"), Some(Verdict::PerhapsSlower)), "b†");
        assert_eq!(of_value(&Outcome::Alone(0), 0, None, None), "");
    }
}
