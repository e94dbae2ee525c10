//! Results of a run: tables, the report, and the first screen.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fsb_model::{Outcome, RunRecord, Trial, code, failure, nearest, notice};
use fsb_report::choice::{self, Choice};
use fsb_report::gate::Gate;
use fsb_report::{FORMATS, Format, Report, WIDTH, figures, text, visible};
use fsb_results::acknowledged::Acknowledgements;
use fsb_results::summary;
use fsb_store::{RunDirectory, owner};
use serde::Serialize;

use crate::help::heading;
use crate::message::notify;
use crate::output::{Destination, Destinations, Form, make_directory, report_forms};
use crate::{exit, terminal};

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
    write(
        directory,
        &Report::of_run(&summary::of_run_in_memory(record, trials), trials),
    )
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

/// Formats of a choice: its trials are in a table of its directory.
const CHOICE_FORMS: [Form; 2] = [Form::text("text", "txt"), Form::text("json", "json")];

/// Destinations of the report, and what the first screen adds to it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Output {
    #[command(flatten)]
    pub to: Destinations,
    /// Print the latencies of the slowest operations
    #[arg(long, hide_short_help = true, help_heading = heading::OUTPUT)]
    pub tails: bool,
    /// Print all notes and warnings below the first screen
    #[arg(long, hide_short_help = true, help_heading = heading::OUTPUT)]
    pub notes: bool,
    /// The gate that decides the exit code. Reports print its checks instead of those of the speed.
    #[arg(skip)]
    pub gate: Option<Arc<RunGate>>,
}

/// The gate of a run, which decides its exit code.
#[derive(Debug)]
pub enum RunGate {
    /// Whether targets keep the bounds of cases.
    Bounds,
    /// Whether targets are worse than the baseline, and the slowdowns that pass.
    Worse {
        gate: Gate,
        acknowledged: Acknowledgements,
    },
}

impl Output {
    /// Returns the destinations of a report.
    pub fn resolve(&self) -> anyhow::Result<Vec<Destination>> {
        let found = self.to.resolve(&report_forms())?;
        for destination in &found {
            let (Destination::Standard(form) | Destination::File(_, form)) = destination else {
                continue;
            };
            for (is_set, option, contents) in [
                (self.tails, "--tails", "latencies"),
                (self.notes, "--notes", "notes"),
            ] {
                if is_set && *form != "text" {
                    let message = format!(
                        "{option} adds to the first screen; {form} has all {contents} without it"
                    );
                    return Err(failure::error(&code::CONFLICT, message));
                }
            }
        }
        Ok(found)
    }

    /// Returns whether standard output gets the first screen.
    pub fn is_first_screen(&self) -> bool {
        self.to.is_first_screen()
    }

    /// Returns the destinations of a choice, which has fewer forms than a report.
    pub fn of_choice(&self) -> anyhow::Result<Vec<Destination>> {
        self.resolve()?;
        match self.to.resolve(&CHOICE_FORMS) {
            Ok(found)
                if !found
                    .iter()
                    .any(|one| matches!(one, Destination::Directory(_))) =>
            {
                Ok(found)
            }
            _ => Err(failure::error(
                &code::CONFLICT,
                format!(
                    "a choice is text or json and has no figures; its trials are in {TABLE_FILE} of its directory"
                ),
            )),
        }
    }

    /// Prints and writes the results of a race.
    pub fn emit_choice(&self, choice: &Choice) -> anyhow::Result<()> {
        for destination in self.of_choice()? {
            let (Destination::Standard(form) | Destination::File(_, form)) = destination else {
                continue;
            };
            let text = match form {
                "json" => json_text(choice)?,
                _ => choice::screen(choice, 0),
            };
            match destination {
                Destination::File(path, _) => owner::replace(&path, text.as_bytes())?,
                _ if form == "json" => print_data(&text)?,
                _ => print(&text)?,
            }
        }
        Ok(())
    }

    /// Prints and writes the report.
    pub fn emit(&self, report: &Report<'_>) -> anyhow::Result<()> {
        let tails = if self.tails {
            text::tails(report, 0)
        } else {
            String::new()
        };
        for destination in self.resolve()? {
            match destination {
                Destination::Standard("text") => {
                    let stdout = std::io::stdout();
                    let width = terminal::columns_of_terminal(&stdout).unwrap_or(WIDTH);
                    let colors = terminal::has_color(&stdout);
                    let screen = text::screen(report, width, colors, self.notes);
                    print_exactly(&(screen + &tails))?;
                }
                Destination::Standard(form) => print_report(format(form)?, report)?,
                Destination::File(path, form) => {
                    let format = format(form)?;
                    owner::replace_with(&path, |file| {
                        (format.write)(report, file)?;
                        file.write_all(tails.as_bytes())
                    })?;
                }
                Destination::Directory(directory) => write_figures(report, &directory)?,
            }
        }
        Ok(())
    }
}

/// Writes every figure as SVG and PNG, and prints the names of the files.
fn write_figures(report: &Report<'_>, directory: &Path) -> anyhow::Result<()> {
    make_directory(directory)?;
    for figure in figures(report) {
        let [svg, png] =
            ["svg", "png"].map(|extension| directory.join(format!("{}.{extension}", figure.name)));
        owner::replace(&svg, figure.svg().as_bytes())?;
        owner::replace_with(&png, |file| figure.write_png(file))?;
        print(&format!("{}\n{}\n", svg.display(), png.display()))?;
    }
    Ok(())
}

/// Prints text for people, and escapes characters that affect a terminal or are invisible there. A
/// closed pipe is an error that [`exit::report`] treats as success.
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = visible::lines(text);
    if let Ok(mut printed) = PRINTED.lock()
        && let Some(printed) = &mut *printed
    {
        printed.push_str(&text);
    }
    print_exactly(&text)
}

/// The text that [`print`] printed, from [`keep_output`] on.
static PRINTED: Mutex<Option<String>> = Mutex::new(None);

/// Keeps a copy of the text that [`print`] prints from now on, for a run directory.
pub fn keep_output() {
    if let Ok(mut printed) = PRINTED.lock() {
        printed.get_or_insert_default();
    }
}

/// Returns that copy.
pub fn kept_output() -> String {
    let printed = PRINTED.lock().ok().and_then(|text| text.clone());
    printed.unwrap_or_default()
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

/// Prints text as [`print_data`] does, and other bytes unchanged.
pub fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => print_data(text),
        Err(_) => Ok(std::io::stdout().lock().write_all(bytes)?),
    }
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
