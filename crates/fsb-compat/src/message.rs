//! Messages that tools print among their results. Each reader has a table of those that its tool
//! prints.

use std::fmt::Display;

use crate::draft::Draft;
use crate::text::{Line, shortened};

/// The meaning of a message for the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    /// It says nothing about the results.
    Harmless,
    /// The results may be affected. The report repeats the message.
    Warning,
    /// The work did not succeed, so that its results are not judged.
    Failure,
}

/// The part of a line that identifies a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pattern {
    /// The text at the start of the line.
    Start(&'static str),
    /// A text anywhere in the line: some tools print messages at the end of a line of progress.
    Part(&'static str),
}

/// Messages of a tool and their meaning. The first pattern that a line has decides, so special
/// messages precede general ones.
pub(crate) type Messages = [(Pattern, Severity)];

/// Messages of the programs that start tools: MPI, Slurm and shells.
#[rustfmt::skip] // a table reads as one
static STARTERS: &Messages = &[
    (Pattern::Part("srun: error: "), Severity::Failure),
    (Pattern::Part("slurmstepd: error: "), Severity::Failure),
    (Pattern::Part("DUE TO TIME LIMIT"), Severity::Failure),
    (Pattern::Part("MPI_ABORT was invoked"), Severity::Failure),
    (Pattern::Part("mpirun noticed that process"), Severity::Failure),
    (Pattern::Part("BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"), Severity::Failure),
    (Pattern::Part("Segmentation fault"), Severity::Failure),
    (Pattern::Start("Killed"), Severity::Failure),
];

/// A message that a reader found, until it is known which results it concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub line: u32,
    pub severity: Severity,
    /// The line.
    pub text: String,
}

/// Returns the message in a line. Harmless messages are returned too, so that readers can skip
/// them.
pub(crate) fn find(messages: &Messages, line: &Line) -> Option<Found> {
    let text = line.text();
    let is_in = |pattern: &Pattern| match pattern {
        Pattern::Start(start) => text.starts_with(start),
        Pattern::Part(part) => text.contains(part),
    };
    let (_, severity) = messages
        .iter()
        .chain(STARTERS)
        .find(|(pattern, _)| is_in(pattern))?;
    Some(Found {
        line: line.number,
        severity: *severity,
        text: shortened(&text, LONGEST),
    })
}

impl Found {
    /// Adds the message to a run: a warning as a remark, a failure as a failure of a workload or of
    /// the whole run.
    pub fn report(&self, workload: Option<&str>, draft: &mut Draft) {
        match self.severity {
            Severity::Harmless => {}
            Severity::Warning => draft.remark_once(self.line, &self.text),
            Severity::Failure => draft.fail(self.line, workload, &self.text),
        }
    }
}

/// Returns the remark about output without its last lines. Every reader uses these words.
pub(crate) fn ends_early(tool: &str, missing: impl Display) -> String {
    format!("the output ends early: {missing} is missing; {tool} was stopped, or the file is cut")
}

/// Characters of a message that are kept.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Lines;

    const MESSAGES: &Messages = &[
        (Pattern::Start("WARNING: usual"), Severity::Harmless),
        (Pattern::Start("WARNING: "), Severity::Warning),
        (Pattern::Part("Error: "), Severity::Failure),
    ];

    #[test]
    fn the_first_pattern_decides() {
        let mut draft = Draft::new("tool");
        let mut input: &[u8] = b"WARNING: usual\n  WARNING: rare\nWARNING: rare\n....Error: no space\nresult\nKilled\n";
        let (mut lines, mut found) = (Lines::new(&mut input), 0);
        while let Some(line) = lines.next().unwrap() {
            if let Some(message) = find(MESSAGES, &line) {
                message.report(None, &mut draft);
                found += 1;
            }
        }
        assert_eq!(found, 5);
        let warnings: Vec<_> = draft
            .run
            .warnings
            .iter()
            .map(|remark| (remark.line, remark.text.as_str()))
            .collect();
        assert_eq!(warnings, [(Some(2), "WARNING: rare")]);
        let failures: Vec<_> = draft
            .run
            .failures
            .iter()
            .map(|failed| (failed.line, failed.text.as_str()))
            .collect();
        assert_eq!(
            failures,
            [(Some(4), "....Error: no space"), (Some(6), "Killed")]
        );
    }
}
