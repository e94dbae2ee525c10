//! Marks beside values and names.

use fsb_model::run::Risk;
use fsb_stats::{RankingOutcome, Verdict};

use crate::show::{capital, listed, percent};

/// Marks contenders of a row that has no winner.
const OPEN: char = '?';
/// Marks a difference that the page does not confirm.
const UNCONFIRMED: char = '†';
/// Marks a target that is faster or slower than the baseline by more than the smallest difference
/// that matters.
const DIFFERENT: char = '*';
/// Marks a target whose difference from the baseline is smaller than that.
const EQUAL: char = '=';
/// Marks a value whose samples have a trend or are of two kinds.
pub(crate) const NOT_STATIONARY: char = '~';
/// Marks a value that is not known to be what the name of its case says.
pub(crate) const UNPROVEN: char = '‡';
/// Marks the name of a target that may lose synced data.
pub const UNSAFE: &str = " (unsafe)";

/// Returns the mark of a value: its letters, then `†` if its difference from the baseline is not
/// confirmed, or else `?` if it may be the best of a row without a winner.
pub(crate) fn of_value(
    outcome: &RankingOutcome,
    place: usize,
    letters: Option<&str>,
    against: Option<Verdict>,
) -> String {
    let mut mark = letters.unwrap_or_default().to_owned();
    if against.is_some_and(Verdict::is_unconfirmed) {
        mark.push(UNCONFIRMED);
    } else if matches!(outcome, RankingOutcome::Undecided(contenders) if contenders.contains(&place))
    {
        mark.push(OPEN);
    }
    mark
}

/// Returns the mark of a change between two targets, which need no letters: one of the four signs.
pub(crate) fn of_change(verdict: Verdict) -> String {
    let mark = match verdict {
        Verdict::Faster | Verdict::Slower => DIFFERENT,
        Verdict::Equivalent => EQUAL,
        Verdict::PerhapsFaster | Verdict::PerhapsSlower => UNCONFIRMED,
        Verdict::ProbablyFaster | Verdict::ProbablySlower | Verdict::Inconclusive => OPEN,
        Verdict::NotJudged => return String::new(),
    };
    mark.to_string()
}

/// The way in which a legend names the comparisons that letters, [`DIFFERENT`] and [`UNCONFIRMED`]
/// are corrected for. The intervals beside them hold for each row alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Covered<'a> {
    /// Those of a single row.
    OneRow,
    /// Those of all rows, in the words of a screen.
    AllRows,
    /// These, in full.
    Named(&'a str),
}

/// Returns whether a mark has letters, which compare a target with all others of its row.
pub(crate) fn has_letter(mark: &str) -> bool {
    mark.contains(|c: char| c.is_ascii_lowercase())
}

/// Explains the letters and signs that occur among marks.
pub(crate) fn legend(marks: &[&str], theta: f64, covered: Covered<'_>) -> Option<String> {
    let theta = percent(theta);
    let has_letters = marks.iter().any(|mark| has_letter(mark));
    let (best, unconfirmed) = match covered {
        Covered::Named(_) => (
            "may be the best of its row",
            "its interval excludes 0, but not if tested over all of them",
        ),
        Covered::OneRow | Covered::AllRows => ("may be best", "differs per row only"),
    };
    let sign = |sign: char, text: String| {
        marks
            .iter()
            .any(|mark| mark.contains(sign))
            .then(|| format!("{sign} {text}"))
    };
    let letters = has_letters.then(|| format!("no common letter, >{theta} apart"));
    let tested = [
        letters,
        sign(DIFFERENT, format!("more than {theta} faster or slower")),
        sign(UNCONFIRMED, unconfirmed.to_owned()),
    ];
    let others = [
        sign(EQUAL, format!("equal within {theta}, per row")),
        sign(
            OPEN,
            if has_letters { best } else { "undecided" }.to_owned(),
        ),
        sign(NOT_STATIONARY, "not stationary".to_owned()),
        sign(UNPROVEN, "not known to be what the row says".to_owned()),
    ];
    let start = match covered {
        _ if tested.iter().all(Option::is_none) => String::new(),
        Covered::OneRow => String::new(),
        Covered::AllRows => "tested over all rows: ".to_owned(),
        Covered::Named(covered) => format!("tested over {covered}: "),
    };
    let texts: Vec<String> = tested.into_iter().chain(others).flatten().collect();
    (!texts.is_empty()).then(|| format!("{}.", capital(&format!("{start}{}", texts.join("; ")))))
}

/// Returns a target's name as every output shows it.
pub fn name(name: &str, risks: &[Risk]) -> String {
    if risks.is_empty() {
        name.to_owned()
    } else {
        format!("{name}{UNSAFE}")
    }
}

/// Returns a target's name with the possible loss: `ext4,barrier=0 (unsafe: a power failure may
/// lose synced data)`.
pub(crate) fn name_with_loss(name: &str, risks: &[Risk]) -> String {
    if risks.is_empty() {
        name.to_owned()
    } else {
        format!("{name} (unsafe: {})", losses(risks))
    }
}

/// Returns a sentence such as `ext4,barrier=0 is unsafe: a power failure may lose synced data
/// (barrier=0)`.
pub(crate) fn statement(name: &str, risks: &[Risk]) -> String {
    format!("{name} is unsafe: {}", reason(risks))
}

/// Returns text such as `a power failure may lose synced data (barrier=0)`.
pub(crate) fn reason(risks: &[Risk]) -> String {
    format!("{} ({})", losses(risks), causes(risks))
}

/// Returns the causes as one field of a table: `barrier=0, no journal`.
pub(crate) fn causes(risks: &[Risk]) -> String {
    risks
        .iter()
        .map(|risk| risk.cause.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns each possible loss once.
fn losses(risks: &[Risk]) -> String {
    let mut losses: Vec<&str> = Vec::new();
    for risk in risks {
        if !losses.contains(&risk.loss.as_str()) {
            losses.push(&risk.loss);
        }
    }
    listed(&losses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_keep_their_letters() {
        let open = RankingOutcome::Undecided(vec![0, 2]);
        assert_eq!(of_value(&open, 0, Some("ab"), None), "ab?");
        assert_eq!(of_value(&open, 1, Some("b"), Some(Verdict::Slower)), "b");
        assert_eq!(
            of_value(&open, 2, Some("a"), Some(Verdict::PerhapsFaster)),
            "a†"
        );
        assert_eq!(
            of_value(
                &RankingOutcome::Winner(1),
                0,
                Some("b"),
                Some(Verdict::PerhapsSlower)
            ),
            "b†"
        );
        assert_eq!(of_value(&RankingOutcome::Alone(0), 0, None, None), "");
    }

    /// An interval that excludes 0 may have either sign: the legend says which of the two tests
    /// decided.
    #[test]
    fn a_legend_says_what_holds_per_row_and_what_over_all_rows() {
        let shown = |marks: &[&str], covered| legend(marks, 0.03, covered).unwrap();
        let all = "Tested over all rows: no common letter, >3 % apart; † differs per row only; ? may be best.";
        assert_eq!(shown(&["a?", "a†", "b"], Covered::AllRows), all);
        let signs = "Tested over all rows: * more than 3 % faster or slower; = equal within 3 %, per row; ? undecided.";
        assert_eq!(shown(&["*", "=", "?"], Covered::AllRows), signs);
        let full =
            "Tested over 12 cases: † its interval excludes 0, but not if tested over all of them.";
        assert_eq!(shown(&["†"], Covered::Named("12 cases")), full);
        assert_eq!(shown(&["?"], Covered::AllRows), "? undecided.");
        assert_eq!(legend(&[""], 0.03, Covered::AllRows), None);
    }

    #[test]
    fn every_loss_is_named_once() {
        let risk = |cause: &str, loss: &str| Risk {
            cause: cause.to_owned(),
            loss: loss.to_owned(),
        };
        let power = "a power failure may lose synced data";
        let risks = [
            risk("barrier=0", power),
            risk("cache", power),
            risk("no journal", "a crash may lose files"),
        ];
        assert_eq!(
            (name("ext4", &[]), name("ext4", &risks)),
            ("ext4".to_owned(), "ext4 (unsafe)".to_owned())
        );
        assert_eq!(
            name_with_loss("ext4", &risks),
            format!("ext4 (unsafe: {power} and a crash may lose files)")
        );
    }
}
