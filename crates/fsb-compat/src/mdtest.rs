//! mdtest 1.9 to 4.x: the summary of its rates.

use std::io::BufRead;

use fsb_model::metric::OPERATION_RATE;
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::message::{self, Found, Messages, Pattern, Severity, ends_early};
use crate::options;
use crate::text::{Line, Lines, fixed, holds, shortened, whole};
use crate::tool::{ReadError, Tool};

/// Reads mdtest's summaries.
pub(crate) const TOOL: Tool = Tool {
    name: "mdtest",
    title: "mdtest",
    about: "summaries of rates of 1.9 to 4.x: one run per summary, the mean of its iterations",
    looks_for: "the banner 'mdtest-4.0.0 was launched with'",
    values: "operations/s",
    repetition: "a summary, which has the means of its iterations",
    recognise,
    read,
};

/// The rows of the summary, and our names. Until 3.3 a rate is the mean over iterations and tasks;
/// since 4.0 it is the mean over iterations of the rate of the slowest task, times the number of
/// tasks.
#[rustfmt::skip] // a table reads as one
static ROWS: [(&str, &str); 11] = [
    ("Directory creation", "directory_create"),
    ("Directory stat", "directory_stat"),
    ("Directory read", "directory_read"),
    ("Directory rename", "directory_rename"),
    ("Directory removal", "directory_remove"),
    ("File creation", "file_create"),
    ("File stat", "file_stat"),
    ("File read", "file_read"),
    ("File removal", "file_remove"),
    ("Tree creation", "tree_create"),
    ("Tree removal", "tree_remove"),
];

/// The messages of mdtest 1.9 to 4.1. Since 3.3 a call that fails is a warning: mdtest counts it as
/// an operation and continues.
#[rustfmt::skip] // a table reads as one
static MESSAGES: &Messages = &[
    (Pattern::Start("WARNING: unable to "), Severity::Failure),
    (Pattern::Start("WARNING: Unable to "), Severity::Failure),
    (Pattern::Start("WARNING: "), Severity::Warning),
    (Pattern::Start("ERROR: "), Severity::Failure),
    (Pattern::Start("Error, "), Severity::Failure),
    (Pattern::Part("error could not create directory"), Severity::Failure),
    (Pattern::Part(": FAILED in "), Severity::Failure),
    (Pattern::Part("verification error in file"), Severity::Failure),
];

/// Options that change what is printed, or where the files are, but not the work. The number of
/// iterations has a remark, and the number of tasks is part of the name.
static IRRELEVANT: [&str; 8] = ["-d", "-i", "-v", "-V", "-P", "-Z", "-f", "-l"];

fn recognise(head: &[u8]) -> bool {
    holds(head, b"mdtest-") && holds(head, b" was launched with ")
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut execution = Execution::default();
    while let Some(line) = lines.next()? {
        execution.take(&line, &line.text(), &mut runs)?;
    }
    execution.finish(&mut runs)?;
    runs.finish(|| {
        let none =
            "it holds no summary of rates: the run did not end, or its last lines are missing";
        execution.obstacle.unwrap_or_else(|| none.to_owned())
    })
}

/// One execution of mdtest while it is read. It prints a summary for each number of tasks.
#[derive(Default)]
struct Execution {
    version: Option<String>,
    command: Option<String>,
    /// `2 tasks, 200 files/directories`.
    workload: Option<String>,
    /// Messages that precede the summary of their work.
    messages: Vec<Found>,
    summary: Option<Summary>,
    /// The line at which work began that has no summary yet.
    started: Option<u32>,
    /// The reason why a summary was not read.
    obstacle: Option<String>,
}

/// A summary while it is read.
struct Summary {
    draft: Draft,
    /// The column of the mean over iterations, and the number of columns. `None` before the
    /// heading, and after one that is not known.
    columns: Option<(usize, usize)>,
}

impl Execution {
    fn take(&mut self, line: &Line, text: &str, runs: &mut Runs) -> Result<(), ReadError> {
        if let Some((version, _)) = text
            .strip_prefix("mdtest-")
            .and_then(|text| text.split_once(" was launched with "))
        {
            self.finish(runs)?;
            let version = Some(version.to_owned());
            *self = Execution {
                version,
                obstacle: self.obstacle.take(),
                ..Execution::default()
            };
        } else if let Some(command) = text.strip_prefix("Command line used: ") {
            self.command = Some(command.to_owned());
        } else if text.contains(" tasks, ")
            && (text.ends_with(" files") || text.ends_with("directories"))
        {
            self.workload = Some(text.to_owned());
            self.started = Some(line.number);
        } else if let Some(heading) = text.strip_prefix("SUMMARY") {
            self.end_summary(runs)?;
            self.started = None;
            if heading.starts_with(" time") {
                let text =
                    "its summary holds times; run mdtest without -Z, so that it prints rates";
                self.obstacle = Some(text.to_owned());
            } else {
                self.summary = Some(self.start_summary(line, heading));
            }
        } else if text.starts_with("-- finished") {
            self.end_summary(runs)?;
        } else if let Some(message) = message::find(MESSAGES, line) {
            match &mut self.summary {
                Some(summary) => message.report(self.workload.as_deref(), &mut summary.draft),
                None if self.messages.len() < MOST_MESSAGES => self.messages.push(message),
                None => {}
            }
        } else if let Some(summary) = &mut self.summary {
            match text.strip_prefix("Operation ") {
                Some(heading) => {
                    self.obstacle = summary.heading(line, heading).or(self.obstacle.take())
                }
                None => summary.row(line, text, self.workload.as_deref())?,
            }
        }
        Ok(())
    }

    fn start_summary(&mut self, line: &Line, heading: &str) -> Summary {
        let mut draft = self.start_draft();
        let iterations = heading
            .split_once("(of ")
            .and_then(|(_, text)| text.strip_suffix(" iterations)"));
        if let Some(iterations) = iterations
            .and_then(|text| whole(text.as_bytes()))
            .filter(|iterations| *iterations > 1)
        {
            let text = format!(
                "mdtest prints means of its {iterations} iterations, which count as one run; for verdicts, run it \
                 several times with -i 1"
            );
            draft.remark(line.number, text);
        }
        Summary {
            draft,
            columns: None,
        }
    }

    /// Returns a run with the facts and messages that were printed before its summary.
    fn start_draft(&mut self) -> Draft {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version.clone_from(&self.version);
        draft.run.command.clone_from(&self.command);
        for (name, value) in options::split(self.command.as_deref().unwrap_or_default()) {
            if !IRRELEVANT.contains(&name.as_str()) {
                draft.setting(None, &name, value);
            }
        }
        self.messages
            .drain(..)
            .for_each(|message| message.report(self.workload.as_deref(), &mut draft));
        draft
    }

    fn end_summary(&mut self, runs: &mut Runs) -> Result<(), ReadError> {
        self.summary
            .take()
            .map_or(Ok(()), |summary| runs.push(summary.draft))
    }

    /// Ends an execution without its last line. Failures of work without a summary become a run of
    /// their own.
    fn finish(&mut self, runs: &mut Runs) -> Result<(), ReadError> {
        if let Some(summary) = &mut self.summary {
            summary
                .draft
                .remark(None, ends_early(TOOL.name, "the line '-- finished at'"));
        } else if !self.messages.is_empty() || self.started.is_some() {
            let started = self.started.take();
            let mut draft = self.start_draft();
            started.into_iter().for_each(|line| draft.begin(line));
            runs.push(draft)?;
        }
        self.end_summary(runs)
    }
}

/// Characters of a heading that a message shows.
const LONGEST_HEADING: usize = 120;

/// Messages that are kept until their summary.
const MOST_MESSAGES: usize = 1000;

impl Summary {
    /// Takes the heading of the columns. Returns the reason if they are not known.
    fn heading(&mut self, line: &Line, heading: &str) -> Option<String> {
        self.columns = mean_column(heading);
        if self.columns.is_some() {
            return None;
        }
        let heading = shortened(
            &heading.split_whitespace().collect::<Vec<_>>().join(" "),
            LONGEST_HEADING,
        );
        let text = format!("the columns of its heading '{heading}' are not known");
        self.draft
            .remark(line.number, format_args!("{text}; the rows are left out"));
        Some(format!("{text} (line {})", line.number))
    }

    /// Reads `File creation : 5099.706 5099.706 5099.706 0.000` by the heading above it.
    fn row(&mut self, line: &Line, text: &str, workload: Option<&str>) -> Result<(), ReadError> {
        let Some((label, operation)) = ROWS.iter().find(|(label, _)| text.starts_with(label))
        else {
            return Ok(());
        };
        let numbers: Vec<&str> = text[label.len()..]
            .trim_start_matches([' ', ':'])
            .split_whitespace()
            .collect();
        let known = self
            .columns
            .filter(|(_, count)| line.ended && numbers.len() == *count);
        let Some(mean) = known.and_then(|(column, _)| fixed(numbers[column], 3..=3)) else {
            self.draft.remark(
                line.number,
                format_args!("no row of the summary, left out: '{}'", line.excerpt()),
            );
            return Ok(());
        };
        if mean.comma {
            self.draft
                .remark_once(line.number, "numbers have a decimal comma; read as such");
        }
        let place = Position {
            line: line.number,
            ..Position::default()
        };
        self.draft.add(
            Name {
                workload,
                operation,
            },
            &OPERATION_RATE,
            "ops/sec",
            place,
            rate(mean.value),
        )
    }
}

/// Returns the column of the mean over iterations and the number of columns. Versions print `Max
/// Min Mean Std Dev` in different orders, and some print the columns of single ranks (`per Rank:`)
/// before those of iterations (`per Iteration:`). Returns `None` if a heading has another word.
fn mean_column(heading: &str) -> Option<(usize, usize)> {
    let heading = heading
        .replace("Std Dev", "StdDev")
        .replace("per Rank:", " ranks ")
        .replace("per Iteration:", " iterations ");
    let (mut count, mut mean, mut of_ranks) = (0, None, false);
    for word in heading.split_whitespace() {
        match word {
            "ranks" | "iterations" => of_ranks = word == "ranks",
            "Mean" | "Max" | "Min" | "StdDev" => {
                if word == "Mean" && !of_ranks && mean.replace(count).is_some() {
                    return None; // two means of the same kind
                }
                count += 1;
            }
            _ => return None,
        }
    }
    Some((mean?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headings of the commits in which mdtest's repository changed them, and forms that no
    /// version prints.
    #[test]
    fn the_mean_over_iterations_is_found_by_the_heading() {
        for (heading, expected) in [
            (
                "                     Max            Min           Mean        Std Dev",
                Some((2, 4)),
            ),
            (
                "        per Rank:      Max            Min           Mean          Std Dev     per Iteration: Max            \
                 Min           Mean",
                Some((6, 7)),
            ),
            (
                "        per Rank: Max            Min           Mean       per Iteration: Max            Min           \
                 Mean         Std Dev",
                Some((5, 7)),
            ),
            (
                "     per Rank: Max            Min           Mean      per Iteration: Max     Min   Mean   Std Dev",
                Some((5, 7)),
            ),
            (
                "                     Mean            Max           Min        Std Dev",
                Some((0, 4)),
            ),
            (
                "                     Max            Min           Median        Std Dev",
                None,
            ),
            (
                "                     Max            Min        Std Dev",
                None,
            ),
            ("                     Mean   Max   Mean", None),
        ] {
            assert_eq!(mean_column(heading), expected, "{heading}");
        }
    }
}
