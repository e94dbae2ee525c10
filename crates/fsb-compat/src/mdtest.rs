//! mdtest 1.9 to 4.x: the summary of its rates.

use std::io::BufRead;

use fsb_model::metric::OPERATION_RATE;
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::text::{Line, Lines, fixed, holds, whole};
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

/// The rows of the summary, and our names. Until 3.3 a rate is the mean over iterations and tasks; since 4.0 it is the
/// mean over iterations of the rate of the slowest task, times the number of tasks.
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
    execution.end_summary(&mut runs)?;
    runs.finish(|| match execution.has_times {
        true => "its summary holds times; run mdtest without -Z, so that it prints rates".to_owned(),
        false => "it holds no summary of rates: the run did not end, or its last lines are missing".to_owned(),
    })
}

/// One execution of mdtest while it is read. It prints a summary for each number of tasks.
#[derive(Default)]
struct Execution {
    version: Option<String>,
    command: Option<String>,
    /// `2 tasks, 200 files/directories`.
    workload: Option<String>,
    summary: Option<Draft>,
    /// Whether a summary held times, which are not read.
    has_times: bool,
}

impl Execution {
    fn take(&mut self, line: &Line, text: &str, runs: &mut Runs) -> Result<(), ReadError> {
        if let Some((version, _)) = text.strip_prefix("mdtest-").and_then(|text| text.split_once(" was launched with "))
        {
            self.end_summary(runs)?;
            let version = Some(version.to_owned());
            *self = Execution { version, has_times: self.has_times, ..Execution::default() };
        } else if let Some(command) = text.strip_prefix("Command line used: ") {
            self.command = Some(command.to_owned());
        } else if text.contains(" tasks, ") && (text.ends_with(" files") || text.ends_with("directories")) {
            self.workload = Some(text.to_owned());
        } else if let Some(heading) = text.strip_prefix("SUMMARY") {
            self.end_summary(runs)?;
            if heading.starts_with(" time") {
                self.has_times = true;
            } else {
                self.summary = Some(self.start_summary(line, heading));
            }
        } else if text.starts_with("-- finished") {
            self.end_summary(runs)?;
        } else if let Some(draft) = &mut self.summary {
            row(line, text, self.workload.as_deref(), draft)?;
        }
        Ok(())
    }

    fn start_summary(&self, line: &Line, heading: &str) -> Draft {
        let mut draft = Draft::new(TOOL.name);
        draft.run.version.clone_from(&self.version);
        draft.run.command.clone_from(&self.command);
        let iterations = heading.split_once("(of ").and_then(|(_, text)| text.strip_suffix(" iterations)"));
        if let Some(iterations) =
            iterations.and_then(|text| whole(text.as_bytes())).filter(|iterations| *iterations > 1)
        {
            let text = format!(
                "mdtest prints means of its {iterations} iterations, which count as one run; for verdicts, run it \
                 several times with -i 1"
            );
            draft.remark(line.number, text);
        }
        draft
    }

    fn end_summary(&mut self, runs: &mut Runs) -> Result<(), ReadError> {
        self.summary.take().map_or(Ok(()), |draft| runs.push(draft))
    }
}

/// Reads `File creation : 5099.706 5099.706 5099.706 0.000`: maximum, minimum, mean and standard deviation over the
/// iterations. Three numbers about single tasks can precede them.
fn row(line: &Line, text: &str, workload: Option<&str>, draft: &mut Draft) -> Result<(), ReadError> {
    let Some((label, operation)) = ROWS.iter().find(|(label, _)| text.starts_with(label)) else { return Ok(()) };
    let numbers: Vec<&str> = text[label.len()..].trim_start_matches([' ', ':']).split_whitespace().collect();
    let mean = match numbers[..] {
        [_, _, mean, _] | [_, _, _, _, _, mean, _] if line.ended => fixed(mean, 3..=3),
        _ => None,
    };
    let Some(mean) = mean else {
        draft.remark(line.number, format_args!("no row of the summary, left out: '{}'", line.excerpt()));
        return Ok(());
    };
    let place = Position { line: line.number, ..Position::default() };
    draft.add(Name { workload, operation }, &OPERATION_RATE, "ops/sec", place, rate(mean.value))
}
