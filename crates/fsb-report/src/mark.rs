//! Marks beside values and names.

use fsb_model::run::Risk;
use fsb_stats::{RankingOutcome, Verdict};

use crate::show::{listed, percent};

/// Marks contenders of a row that has no winner.
const OPEN: char = '?';
/// Marks a difference that the page does not confirm.
const UNCONFIRMED: char = '†';
/// Marks a target that is faster or slower than the baseline by more than the smallest difference that matters.
const DIFFERENT: char = '*';
/// Marks a target whose difference from the baseline is smaller than that.
const EQUAL: char = '=';
/// Marks a value whose samples have a trend or are of two kinds.
pub(crate) const NOT_STATIONARY: char = '~';
/// Marks the name of a target that may lose synced data.
pub const UNSAFE: &str = " (unsafe)";

/// Returns the mark of a value: its letters, then `†` if its difference from the baseline is not confirmed, or else `?`
/// if it may be the best of a row without a winner.
pub(crate) fn of_value(
    outcome: &RankingOutcome,
    place: usize,
    letters: Option<&str>,
    against: Option<Verdict>,
) -> String {
    let mut mark = letters.unwrap_or_default().to_owned();
    if against.is_some_and(Verdict::is_unconfirmed) {
        mark.push(UNCONFIRMED);
    } else if matches!(outcome, RankingOutcome::Undecided(contenders) if contenders.contains(&place)) {
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

/// Explains the letters and signs that occur among marks. `covered` names the comparisons that the correction of
/// [`UNCONFIRMED`] covers; a screen has no room for it.
pub(crate) fn legend(marks: &[&str], theta: f64, covered: Option<&str>) -> Vec<String> {
    let theta = percent(theta);
    let occurs = |sign: char| marks.iter().any(|mark| mark.contains(sign));
    let unconfirmed = match covered {
        Some(covered) => format!("perhaps: not significant after correction for {covered}"),
        None => "significant alone".to_owned(),
    };
    let signs = [
        (DIFFERENT, format!("more than {theta} faster or slower")),
        (EQUAL, format!("equal within {theta}")),
        (OPEN, "undecided".to_owned()),
        (UNCONFIRMED, unconfirmed),
        (NOT_STATIONARY, "not stationary".to_owned()),
    ];
    let signs = signs.into_iter().filter(|(sign, _)| occurs(*sign)).map(|(sign, text)| format!("{sign} {text}"));
    let has_letters = marks.iter().any(|mark| mark.contains(|c: char| c.is_ascii_lowercase()));
    let letters = has_letters.then(|| format!("same letter: no significant difference above {theta}"));
    letters.into_iter().chain(signs).collect()
}

/// Returns a target's name as every output shows it.
pub fn name(name: &str, risks: &[Risk]) -> String {
    if risks.is_empty() { name.to_owned() } else { format!("{name}{UNSAFE}") }
}

/// Returns a target's name with the possible loss: `ext4,barrier=0 (unsafe: a power failure may lose synced data)`.
pub(crate) fn name_with_loss(name: &str, risks: &[Risk]) -> String {
    if risks.is_empty() { name.to_owned() } else { format!("{name} (unsafe: {})", losses(risks)) }
}

/// Returns a sentence such as `ext4,barrier=0 is unsafe: a power failure may lose synced data (barrier=0)`.
pub(crate) fn statement(name: &str, risks: &[Risk]) -> String {
    format!("{name} is unsafe: {}", reason(risks))
}

/// Returns text such as `a power failure may lose synced data (barrier=0)`.
pub(crate) fn reason(risks: &[Risk]) -> String {
    format!("{} ({})", losses(risks), causes(risks))
}

/// Returns the causes as one field of a table: `barrier=0, no journal`.
pub(crate) fn causes(risks: &[Risk]) -> String {
    risks.iter().map(|risk| risk.cause.as_str()).collect::<Vec<_>>().join(", ")
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
        assert_eq!(of_value(&open, 2, Some("a"), Some(Verdict::PerhapsFaster)), "a†");
        assert_eq!(of_value(&RankingOutcome::Winner(1), 0, Some("b"), Some(Verdict::PerhapsSlower)), "b†");
        assert_eq!(of_value(&RankingOutcome::Alone(0), 0, None, None), "");
    }

    #[test]
    fn every_loss_is_named_once() {
        let risk = |cause: &str, loss: &str| Risk { cause: cause.to_owned(), loss: loss.to_owned() };
        let power = "a power failure may lose synced data";
        let risks = [risk("barrier=0", power), risk("cache", power), risk("no journal", "a crash may lose files")];
        assert_eq!((name("ext4", &[]), name("ext4", &risks)), ("ext4".to_owned(), "ext4 (unsafe)".to_owned()));
        assert_eq!(name_with_loss("ext4", &risks), format!("ext4 (unsafe: {power} and a crash may lose files)"));
    }
}
