//! Annotations of GitHub Actions: workflow commands, which a step prints.
//!
//! Source: the toolkit of GitHub Actions, `packages/core/src/command.ts`, for the characters that
//! are escaped.

use std::io::{self, Write};

use super::member::Format;
use crate::check::{Check, CheckOutcome};
use crate::report::Report;
use crate::show::counted;
use crate::visible;

pub(super) const FORMAT: Format = Format {
    name: "annotations",
    extension: "annotations.txt",
    about: "annotations of GitHub Actions: print the file in a step (gate.annotations.txt)",
    binary: false,
    checks: true,
    write,
};

/// A step shows 10 annotations of each level. One line is for the others.
const MOST: usize = 9;

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    let checks = report.checks();
    for level in ["error", "warning"] {
        let of_level = checks.iter().filter(|check| self::level(check) == level);
        let mut of_level: Vec<&Check> = of_level.collect();
        of_level.sort_by_key(|check| check.outcome.rank());
        for check in of_level.iter().take(MOST) {
            let title = format!("{}: {}", check.outcome.words(), check.case);
            command(output, level, &title, &check.text)?;
        }
        if let Some(more) = of_level.len().checked_sub(MOST).filter(|more| *more > 0) {
            command(output, level, "fsb", &format!("{more} more in the report"))?;
        }
    }
    let passed = checks.iter().filter(|check| check.outcome.passes()).count();
    let all = counted(checks.len(), "comparison");
    command(
        output,
        "notice",
        "fsb",
        &format!("{passed} of {all} passed"),
    )
}

/// Returns the level of a check; passed ones have only a line together.
fn level(check: &Check) -> &'static str {
    match check.outcome {
        CheckOutcome::Slower | CheckOutcome::SlowerAtSizes => "error",
        CheckOutcome::CannotTell
        | CheckOutcome::NotJudged
        | CheckOutcome::Lost(_)
        | CheckOutcome::Missing => "warning",
        CheckOutcome::Passed | CheckOutcome::Acknowledged => "notice",
    }
}

fn command(output: &mut dyn Write, level: &str, title: &str, text: &str) -> io::Result<()> {
    writeln!(
        output,
        "::{level} title={}::{}",
        property(title),
        data(text)
    )
}

/// Returns the text with the characters escaped that end a message.
fn data(text: &str) -> String {
    visible::line(text)
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Returns the text with the characters escaped that end a property, too.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};
    use crate::summary::Summary;

    #[test]
    fn a_name_cannot_end_a_command() {
        assert_eq!(property("a:b,c%::error::"), "a%3Ab%2Cc%25%3A%3Aerror%3A%3A");
        let document = compared(&iozone(&["a", "x\n::error::no"], 5, 2, 1 << 20));
        let text = FORMAT.render(&Report::of_comparison(&document, None));
        assert!(
            text.lines().all(|line| line.starts_with("::error title=")
                || line.starts_with("::warning title=")
                || line.starts_with("::notice title=")),
            "{text}"
        );
    }

    #[test]
    fn a_step_shows_all_annotations_of_a_level() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        let text = FORMAT.render(&Report::of_run(&summary, &trials));
        for level in ["::error ", "::warning ", "::notice "] {
            let lines = text.lines().filter(|line| line.starts_with(level)).count();
            assert!((1..=10).contains(&lines), "{text}");
        }
        insta::assert_snapshot!(text);
    }
}
