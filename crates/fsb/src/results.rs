//! Results of a run: tables, the report, and the first screen.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use fsb_model::{Outcome, RunRecord, Trial, WidestInterval, code, failure, nearest, notice};
use fsb_report::choice::{self, Choice};
use fsb_report::summary::{CaseNow, ReportTrial, Summary, SummaryInputs, case_states};
use fsb_report::{FORMATS, Format, Report, WIDTH, find_by_file_name, text, visible};
use fsb_store::{RunDirectory, owner};
use serde::Serialize;

use crate::cli::help::heading;
use crate::message::notify;
use crate::{exit, published, sets, stored, terminal};

/// Parent directory of run directories, unless `--out` names one.
const RESULTS: &str = "fsb-results";
/// The name of the table in the run directory.
pub const TABLE_FILE: &str = "trials.csv";
/// The name of the report for people in the run directory.
pub const REPORT_FILE: &str = "report.html";

/// Returns the run directory that the user named for `fsb COMMAND`, or the last one in
/// `fsb-results`, which it prints.
pub fn given_or_last(given: Option<&Path>, command: &str) -> anyhow::Result<PathBuf> {
    if let Some(directory) = given {
        return Ok(directory.to_owned());
    }
    let newest = newest_directory().ok_or_else(|| {
        let help = format!("name the directory of a run: fsb {command} DIR");
        failure::advised(&code::MISSING, "no run in fsb-results", help)
    })?;
    let path = newest.display().to_string();
    notify(
        &notice::LAST_RUN,
        [("path", path.as_str().into())],
        &format!("run: {path}"),
    );
    Ok(newest)
}

/// Returns the run directory that began last in `fsb-results`, by its name.
fn newest_directory() -> Option<PathBuf> {
    let entries = std::fs::read_dir(RESULTS).ok()?.filter_map(Result::ok);
    let runs = entries
        .map(|entry| entry.path())
        .filter(|path| path.join(fsb_store::RUN_FILE).is_file());
    runs.max_by_key(|path| path.file_name().map(ToOwned::to_owned))
}

/// Returns a path such as `fsb-results/20261120T150405Z-NAME` that does not exist: the name ends
/// with a number if the path without it does.
pub fn default_directory(name: &str) -> PathBuf {
    let name = format!(
        "{}-{name}",
        jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")
    );
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut paths = std::iter::once(name.clone())
        .chain(numbered)
        .map(|name| Path::new(RESULTS).join(name));
    // A parent without search permission fails when the directory is created.
    paths
        .find(|path| std::fs::symlink_metadata(path).is_err())
        .unwrap_or_default()
}

/// Returns the summary of a run, with published results for the same workloads.
pub fn summary(record: &RunRecord, trials: &[Trial]) -> Summary {
    summary_of_shown(record, &ReportTrial::all(trials))
}

/// Returns the same summary from trials that hold only the data of reports.
pub fn summary_of_shown(record: &RunRecord, trials: &[ReportTrial]) -> Summary {
    summary_beside(record, trials, None)
}

/// Returns the same summary beside an earlier run of the same plan.
pub fn summary_beside(
    record: &RunRecord,
    trials: &[ReportTrial],
    earlier: Option<&stored::Stored>,
) -> Summary {
    Summary::new(&SummaryInputs {
        record,
        trials,
        matrices: &sets::of_matrices(record, trials),
        published: published::beside(record).as_ref(),
        claims: published::claims_beside(record, trials).as_ref(),
        earlier: earlier.map(|run| (&run.record, &run.trials[..])),
    })
}

/// Returns the workload whose ratios (of one target: whose values) have the widest 95 % interval,
/// or `None` if none has a value.
pub fn widest_interval(record: &RunRecord, trials: &[Trial]) -> Option<WidestInterval> {
    let widths = case_states(record, trials)
        .into_iter()
        .filter_map(|row| Some((row.state.half_width?, row.workload)));
    let (half_width, workload) = widths.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(WidestInterval {
        half_width: Some(half_width).filter(|half_width| half_width.is_finite()),
        workload,
    })
}

/// Returns the workloads that need no more blocks after an interim analysis, including those that
/// have no interval.
pub fn analyse_interim(record: &RunRecord, trials: &[Trial]) -> Vec<String> {
    let enough = |row: &CaseNow| row.state.enough || row.state.half_width.is_none();
    case_states(record, trials)
        .into_iter()
        .filter(enough)
        .map(|row| row.workload)
        .collect()
}

/// Returns the format of that name, or of that file extension.
///
/// # Errors
///
/// `output/unknown-format` with the nearest name.
pub fn format(name: &str) -> anyhow::Result<&'static Format> {
    let known = FORMATS
        .iter()
        .find(|format| format.name == name || format.extension == name);
    known.ok_or_else(|| {
        failure::error(
            &code::UNKNOWN_FORMAT,
            nearest::unknown("format", name, FORMATS.iter().map(|format| format.name)),
        )
    })
}

/// Returns the format that the user names, else the one that the name of the file implies, else
/// text.
///
/// # Errors
///
/// `output/unknown-format` if no format has that name, or if the file has an extension of no
/// format.
pub fn format_of(name: Option<&str>, file: Option<&Path>) -> anyhow::Result<&'static Format> {
    let file_name = file
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let extension = file
        .and_then(Path::extension)
        .and_then(|extension| extension.to_str());
    match (name, find_by_file_name(file_name)) {
        (Some(name), _) => format(name),
        (None, Some(found)) => Ok(found),
        (None, None) => format(extension.unwrap_or("text")),
    }
}

/// Checks that standard output may get the format.
///
/// # Errors
///
/// `arguments/conflict` if the format is binary and standard output is a terminal.
pub fn check_terminal(format: &Format, file: Option<&Path>) -> anyhow::Result<()> {
    if format.binary && file.is_none() && std::io::stdout().is_terminal() {
        let name = format.name;
        let message = format!(
            "--format {name} is not text: name a file with -o FILE.{}",
            format.extension
        );
        return Err(failure::error(&code::CONFLICT, message));
    }
    Ok(())
}

/// Writes `trials.csv` and `report.html` into the run directory.
pub fn write(directory: &RunDirectory, report: &Report<'_>) -> anyhow::Result<PathBuf> {
    let table = format("csv")?;
    directory.write_file_with(TABLE_FILE, |file| (table.write)(report, file))?;
    let page = format("html")?;
    Ok(directory.write_file_with(REPORT_FILE, |file| (page.write)(report, file))?)
}

/// Writes the same files of a run whose results are not printed.
pub fn write_report(
    directory: &RunDirectory,
    record: &RunRecord,
    trials: &[Trial],
) -> anyhow::Result<PathBuf> {
    write(directory, &Report::of_run(&summary(record, trials), trials))
}

/// Writes `trials.csv`, `choice.json` and `choice.txt` into the directory of a race.
pub fn write_choice(
    directory: &RunDirectory,
    choice: &Choice,
    report: &Report<'_>,
) -> anyhow::Result<PathBuf> {
    let table = format("csv")?;
    directory.write_file_with(TABLE_FILE, |file| (table.write)(report, file))?;
    directory.write_file("choice.json", json_text(choice)?.as_bytes())?;
    Ok(directory.write_file("choice.txt", choice::screen(choice, 0).as_bytes())?)
}

/// Destination and format of the report.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Output {
    /// Format, such as html or xlsx: see fsb list formats
    #[arg(long, value_name = "FORMAT", hide_short_help = true, help_heading = heading::OUTPUT)]
    pub format: Option<String>,
    /// Report file, such as a.html, a.pdf, a.csv (all values), a.summary.csv: its name implies the
    /// format
    #[arg(short = 'o', long = "output-file", value_name = "FILE", help_heading = heading::OUTPUT)]
    pub file: Option<PathBuf>,
    /// Print the latencies of the slowest operations
    #[arg(long, hide_short_help = true, help_heading = heading::OUTPUT)]
    pub tails: bool,
    /// Print all notes and warnings below the first screen
    #[arg(long, hide_short_help = true, help_heading = heading::OUTPUT)]
    pub notes: bool,
}

impl Output {
    /// Returns the requested format: by name, else by the suffix of the file, else text.
    pub fn resolve(&self) -> anyhow::Result<&'static Format> {
        let found = self.named()?;
        for (is_set, option, contents) in [
            (self.tails, "--tails", "latencies"),
            (self.notes, "--notes", "notes"),
        ] {
            if is_set && found.name != "text" {
                let message = format!(
                    "{option} adds to the first screen; {} has all {contents} without it",
                    found.name
                );
                return Err(failure::error(&code::CONFLICT, message));
            }
        }
        Ok(found)
    }

    fn named(&self) -> anyhow::Result<&'static Format> {
        let file = self.file.as_deref();
        let found = match (&self.format, file) {
            (None, Some(file)) if file.extension().is_none() => Err(failure::advised(
                &code::UNKNOWN_FORMAT,
                format!("-o {}: the report file has no extension", file.display()),
                format!(
                    "write -o {0}.html; a mount option is part of a target: ext4,{0}",
                    file.display()
                ),
            )),
            (name, file) => format_of(name.as_deref(), file),
        }?;
        check_terminal(found, file)?;
        Ok(found)
    }

    /// Returns whether standard output gets the first screen.
    pub fn is_first_screen(&self) -> bool {
        self.file.is_none() && self.format.as_deref().is_none_or(|name| name == "text")
    }

    /// Returns whether a choice is printed as JSON, or as text for people: it has no other forms.
    pub fn of_choice(&self) -> anyhow::Result<bool> {
        match self.named()?.name {
            "json" => Ok(true),
            "text" => Ok(false),
            other => Err(failure::error(
                &code::CONFLICT,
                format!(
                    "--format {other}: a choice is text or json; its trials are in {TABLE_FILE} of its directory"
                ),
            )),
        }
    }

    /// Prints or writes the results of a race.
    pub fn emit_choice(&self, choice: &Choice) -> anyhow::Result<()> {
        let text = match self.of_choice()? {
            true => json_text(choice)?,
            false => choice::screen(choice, 0),
        };
        match &self.file {
            Some(path) => Ok(owner::replace(path, text.as_bytes())?),
            None if self.of_choice()? => print_data(&text),
            None => print(&text),
        }
    }

    /// Prints or writes the report.
    pub fn emit(&self, report: &Report<'_>) -> anyhow::Result<()> {
        let format = self.resolve()?;
        let tails = if self.tails {
            text::tails(report, 0)
        } else {
            String::new()
        };
        if let Some(path) = &self.file {
            return Ok(owner::replace_with(path, |file| {
                (format.write)(report, file)?;
                file.write_all(tails.as_bytes())
            })?);
        }
        match format.name {
            "text" => {
                let stdout = std::io::stdout();
                let width = terminal::columns_of_terminal(&stdout).unwrap_or(WIDTH);
                print_exactly(
                    &(text::screen(report, width, terminal::has_color(&stdout), self.notes)
                        + &tails),
                )
            }
            _ => print_report(format, report),
        }
    }
}

/// Prints text for people, and escapes characters that affect a terminal or are invisible there. A
/// closed pipe is an error that [`exit::report`] treats as success.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_exactly(&visible::lines(text))
}

/// Formats of a document for people and for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DocumentFormat {
    Text,
    Json,
}

/// Returns a document as the text of a JSON file.
pub fn json_text(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(document)? + "\n")
}

/// Prints text for programs unchanged, but as [`print`] does on a terminal.
pub fn print_data(text: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        print(text)
    } else {
        print_exactly(text)
    }
}

/// Prints a report as [`print_data`] does. It is never whole in memory unless standard output is a
/// terminal.
pub fn print_report(format: &Format, report: &Report<'_>) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() && !format.binary {
        return print(&format.render(report));
    }
    let mut output = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    (format.write)(report, &mut output)?;
    output.flush()?;
    Ok(())
}

/// Prints text of a renderer unchanged, with its colors.
pub fn print_exactly(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()?;
    Ok(())
}

/// Returns the exit code for the trials.
pub fn code(trials: &[Trial]) -> u8 {
    let bad = |trial: &&Trial| {
        trial.counts() && matches!(trial.outcome, Outcome::Failed | Outcome::Invalid)
    };
    // The budget may end before the first trial, or no workload may apply to a target.
    let none = !trials
        .iter()
        .any(|trial| trial.counts() && trial.outcome == Outcome::Ok);
    if none || trials.iter().any(|trial| bad(&trial)) {
        exit::TRIALS
    } else {
        exit::DONE
    }
}
