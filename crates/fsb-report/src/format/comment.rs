//! A short Markdown comment for a pull request: at most 20 lines. Intervals are drawn as text,
//! because code hosts remove pictures that are part of a comment.

use super::markdown::{escape, table_row};
use super::member::Format;
use crate::check::{Check, CheckOutcome};
use crate::report::Report;
use crate::show::{counted, percent};

pub(super) const FORMAT: Format = Format {
    name: "comment",
    extension: "comment.md",
    about: "at most 20 lines of Markdown to comment on a pull request (gate.comment.md)",
    binary: false,
    checks: true,
    write: |report, output| output.write_all(render(report).as_bytes()),
};

/// The number of rows of the table.
const MOST_ROWS: usize = 10;

/// The number of characters on each side of equality in the drawing of an interval.
const SIDE: usize = 10;

/// The largest ratio that the axis of a drawing shows. Points beyond it are at the end.
const WIDEST: f64 = 1.5;

fn render(report: &Report<'_>) -> String {
    let readable = report.readable();
    let view = readable.view();
    let checks = readable.checks();
    let mut lines = vec![
        format!("**{}**", headline(&checks, report.theta())),
        String::new(),
    ];
    let mut shown: Vec<&Check> = checks.iter().collect();
    shown.sort_by_key(|check| check.outcome.rank());
    shown.truncate(MOST_ROWS);
    if checks.is_empty() {
        lines.extend([escape(&view.headline()), String::new()]);
    } else {
        table(&mut lines, &shown);
    }
    if let Some(more) = checks.len().checked_sub(MOST_ROWS).filter(|more| *more > 0) {
        let passed = checks.iter().filter(|check| check.outcome.passes()).count();
        let line = format!("{more} more; {passed} of {} passed.", checks.len());
        lines.extend([line, String::new()]);
    }
    lines.push(format!("<sub>{}</sub>", escape(&view.facts.join(" · "))));
    lines.join("\n") + "\n"
}

/// Returns the answer of all checks together.
fn headline(checks: &[Check], theta: f64) -> String {
    let count = |wanted: fn(CheckOutcome) -> bool| {
        let found = checks.iter().filter(|check| wanted(check.outcome));
        found.count()
    };
    let (all, theta) = (counted(checks.len(), "comparison"), percent(theta));
    let (slower, passed) = (count(CheckOutcome::fails), count(CheckOutcome::passes));
    match (checks.len(), slower, checks.len() - passed - slower) {
        (0, ..) => "Nothing is compared".to_owned(),
        (_, 0, 0) => format!("Passed: a slowdown of more than {theta} is excluded in {all}"),
        (_, 0, open) => format!(
            "Cannot tell: a slowdown of more than {theta} is not excluded in {open} of {all}"
        ),
        (_, _, 0) => format!("Slower by more than {theta}: {slower} of {all}"),
        (_, _, open) => {
            format!("Slower by more than {theta}: {slower} of {all}; {open} cannot tell")
        }
    }
}

fn table(lines: &mut Vec<String>, checks: &[&Check]) {
    let intervals = checks.iter().filter_map(|check| Some(check.ratio?.1));
    let scale = intervals
        .flat_map(|interval| [interval.lo.ln().abs(), interval.hi.ln().abs()])
        .fold(f64::MIN_POSITIVE, f64::max)
        .min(WIDEST.ln());
    let heads = ["case", "compared", "change", "interval", "answer"].map(str::to_owned);
    lines.push(table_row(heads.into_iter()));
    let dashes = ["---", "---", "---:", "---", "---"].map(str::to_owned);
    lines.push(table_row(dashes.into_iter()));
    for check in checks {
        let cells = [
            escape(&check.case),
            escape(&check.pair()),
            check.change().unwrap_or_default(),
            drawing(check, scale).map_or_else(String::new, |text| format!("`{text}`")),
            answer(check),
        ];
        lines.push(table_row(cells.into_iter()));
    }
    lines.push(String::new());
}

fn answer(check: &Check) -> String {
    match check.verdict.filter(|verdict| verdict.is_better()) {
        Some(verdict) if check.outcome == CheckOutcome::Passed => verdict.words().to_owned(),
        _ if check.outcome == CheckOutcome::Passed => "not slower".to_owned(),
        _ if check.outcome.fails() => "**slower**".to_owned(),
        _ => check.outcome.words(),
    }
}

/// Draws the interval on a logarithmic axis of changes: `──●──` with `│` at equality. Better is on
/// the right.
fn drawing(check: &Check, scale: f64) -> Option<String> {
    let (ratio, interval) = check
        .ratio
        .filter(|(_, interval)| !interval.is_too_wide())?;
    let sign = match check.better {
        fsb_model::Better::Higher => 1.0,
        fsb_model::Better::Lower => -1.0,
    };
    let place = |ratio: f64| {
        let share = (sign * ratio.ln() / scale).clamp(-1.0, 1.0);
        ((share + 1.0) * SIDE as f64).round() as usize
    };
    let (one, other, center) = (place(interval.lo), place(interval.hi), place(ratio));
    let ends = one.min(other)..=one.max(other);
    let draw = |at: usize| match at {
        _ if at == center => '●',
        _ if at == SIDE => '│',
        _ if ends.contains(&at) => '─',
        _ => '·',
    };
    Some((0..=2 * SIDE).map(draw).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};
    use crate::summary::Summary;

    #[test]
    fn a_comment_has_at_most_20_lines() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let text = FORMAT.render(&Report::of_run(&summary, &trials));
        assert!(text.lines().count() <= 20, "{text}");
        let first = text.lines().next().expect("a line");
        assert!(first.starts_with("**Slower by more than 3 %: "), "{first}");
        let answers: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("**slower**"))
            .collect();
        assert!(!answers.is_empty() && answers[0].contains('●'), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_headline_claims_no_more_than_the_checks() {
        let document = compared(&iozone(&["xfs"], 5, 2, 1 << 20));
        let text = FORMAT.render(&Report::of_comparison(&document, None));
        assert!(text.starts_with("**Nothing is compared**"), "{text}");
        let document = compared(&iozone(&["xfs", "ext4"], 1, 2, 1 << 20));
        let text = FORMAT.render(&Report::of_comparison(&document, None));
        assert!(text.starts_with("**Cannot tell: "), "{text}");
    }
}
