//! `fsb compare`: compares sets of results of fsb or of other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use clap::{Args, ValueEnum};
use fsb_model::metric::THROUGHPUT;
use fsb_model::setting::THETA;
use fsb_model::units::parse_percent;
use fsb_model::{code, failure, nearest, shell};
use fsb_report::csv::values;
use fsb_report::{DataFile, Report, WIDTH, condition_text, find, mark, text};
use fsb_results::Latencies;
use fsb_results::acknowledged::{Acknowledgements, LARGEST, today};
use fsb_results::comparison::{Choices, Comparison, NothingInCommon};
use fsb_results::sets::{self, Sets, Trust};
use fsb_stats::compare::{Collected, Document, Single};
use fsb_store::{input, owner};
use serde_json::json;

use super::settings::{self, SettingArguments};
use crate::message::{notify, say, say_warning};
use crate::output::{Destination, Destinations, make_directory, report_forms};
use crate::results::{self, print_exactly, print_report};
use crate::{exit, terminal};

/// The format for a terminal.
const TEXT: &str = "text";

/// The format with charts.
const HTML: &str = "html";

const EXAMPLES: &str = "\
Examples:
  fsb compare 'xfs=runs/xfs*.iozone' 'ext4=runs/ext4*.iozone' -o report.html
  fsb compare old=RUN1,RUN2,RUN3 new=RUN4,RUN5,RUN6
  fsb compare xfs/ ext4/ btrfs/ --baseline ext4 --detail random_read
  fsb compare 'old=old*.json' 'new=new*.json' --fail-if slower --theta 5%";

const FILES_HELP: &str = "Report file, such as a.html, a.pdf, a.csv, a.summary.csv: its name implies the \
    format; DIR/ for statistics.csv and the values of every operation, one CSV file each; repeatable";

/// Returns the text of `--help`, with the tools of the registry.
fn long_about() -> String {
    format!(
        "Compare sets of results: fsb's, fio's, IOzone's and others\n\nReads results of fsb, {}. A PATH is a file, a \
         directory, a quoted pattern, or a run directory or published page of fsb, which holds one set per target.",
        fsb_compat::tool_titles()
    )
}

/// Compare sets of results: fsb's, fio's, IOzone's and others
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, long_about = long_about())]
#[command(mut_args(|argument| argument.help_heading(None::<&'static str>)))]
#[command(mut_arg("files", |argument| argument.help(FILES_HELP)))]
#[command(override_usage = "fsb compare [OPTIONS] [NAME=]PATH[,PATH…] …")]
pub struct Arguments {
    /// Set of results to compare
    #[arg(value_name = "SET", required = true, hide_short_help = true)]
    sets: Vec<OsString>,
    /// Set that others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Operation to show size by size, such as random_read or randrd; html and csv include every
    /// value
    #[arg(long, value_name = "OP")]
    detail: Option<String>,
    /// Setting in which results differ, such as block_size, iodepth or threads: rows that differ in
    /// it alone are compared; repeatable
    #[arg(long, value_name = "SETTING", hide_short_help = true)]
    ignore: Vec<String>,
    #[command(flatten)]
    settings: SettingArguments<settings::Compare>,
    /// Relative standard deviation between runs, for sets that do not show it
    #[arg(long, value_name = "P")]
    between: Option<String>,
    /// Exit with 1 if a set is slower by more than --theta, 2 if that is not known
    ///
    /// 0 only if every case excludes such a slowdown. docs/guide.md has a table of all cases.
    #[arg(long, value_name = "slower", hide_possible_values = true)]
    fail_if: Option<FailIf>,
    /// TOML file with slowdowns that pass, up to an amount and a day
    #[arg(
        long,
        value_name = "FILE",
        hide_short_help = true,
        requires = "fail_if"
    )]
    acknowledge: Option<PathBuf>,
    #[command(flatten)]
    to: Destinations,
}

/// Gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailIf {
    /// An operation or a finding is slower by more than θ.
    Slower,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let destinations = arguments.to.resolve(&report_forms())?;
    let theta = arguments.settings.given.quantity("theta").unwrap_or(THETA);
    let between = arguments.between.as_deref().map(parse_percent).transpose();
    let between = between
        .map_err(|error| failure::error(&code::INVALID_VALUE, format!("--between: {error}")))?;
    let acknowledged = acknowledged(arguments.acknowledge.as_deref())?;
    let is_gate = arguments.fail_if.is_some() || has(&destinations, has_checks);
    let trust = if is_gate {
        Trust::Judged
    } else {
        Trust::Unknown
    };
    // The table of all sets on a terminal has none.
    let latencies = match arguments.detail.is_none() && destinations.iter().all(is_screen) {
        true => Latencies::LeftOut,
        false => Latencies::Added,
    };
    let read = sets::read(&arguments.sets, trust, latencies, &arguments.ignore)?;
    for destination in &destinations {
        if let Destination::File(path, _) = destination {
            spare_inputs(path, &read.files)?;
        }
    }
    note_fleet(&read);
    let asked = arguments.detail.as_deref().map(asked);
    // Only a reader of one operation, or of the chart of an operation with one cell, sees single
    // values.
    let single = match &asked {
        _ if has(&destinations, is_directory) => Single::Every,
        Some(asked) => Single::Of(asked),
        None if has(&destinations, is_page) => Single::Lone,
        None => Single::None,
    };
    let choices = Choices {
        theta,
        between,
        baseline: baseline(&read.sets, arguments.baseline.as_deref())?,
        single,
    };
    let comparison = Comparison::new(read, &choices)?
        .map_err(|NothingInCommon(contents)| nothing_to_compare(&contents))?;
    let detail = arguments
        .detail
        .as_deref()
        .map(|typed| detail(typed, &comparison.document))
        .transpose()?;
    let gate = is_gate.then(|| comparison.gate(&acknowledged, today()));
    let (answer, checks) = gate.transpose()?.unzip();
    let mut report = Report::of_comparison(&comparison.document, detail.as_deref());
    if let Some(checks) = &checks {
        report = report.with_checks(checks);
    }
    emit(
        &destinations,
        &comparison.document,
        &report,
        &comparison.read.files,
    )?;
    match (arguments.fail_if, answer) {
        (Some(FailIf::Slower), Some(answer)) => {
            notify(answer.notice, answer.fields, &answer.text);
            Ok(answer.exit)
        }
        _ => Ok(exit::DONE),
    }
}

/// Reads the file of acknowledged slowdowns; none without a file.
pub(super) fn acknowledged(path: Option<&Path>) -> anyhow::Result<Acknowledgements> {
    let Some(path) = path else {
        return Ok(Acknowledgements::default());
    };
    let refused = |why: String| {
        let message = format!("--acknowledge: cannot read {}: {why}", path.display());
        failure::error(&code::INVALID_INPUT, message)
    };
    let text = input::read_text(path, LARGEST).map_err(|error| refused(error.to_string()))?;
    Acknowledgements::parse(&text).map_err(refused)
}

/// Prints the command that compares runs of several hosts.
fn note_fleet(read: &Sets) {
    if read.hosts.len() < 2 {
        return;
    }
    let runs: Vec<String> = (read.runs.iter())
        .map(|run| run.path.display().to_string())
        .collect();
    let words = ["fsb", "fleet", "compare"].into_iter();
    let command = shell::line(words.chain(runs.iter().map(String::as_str)));
    say(&format!(
        "note: {} hosts made these runs; for one answer of all of them: {command}",
        read.hosts.len()
    ));
}

/// Returns the error of sets without a common value, with what each has and why one has none.
fn nothing_to_compare(contents: &[sets::Contents]) -> anyhow::Error {
    let has: BTreeMap<&str, &[String]> = contents
        .iter()
        .map(|set| (set.name(), set.operations()))
        .collect();
    let problems: BTreeMap<&str, &[String]> = contents
        .iter()
        .map(|set| (set.name(), set.problems()))
        .collect();
    let fields = [("has", json!(has)), ("problems", json!(problems))];
    failure::about(
        &code::NOTHING_TO_COMPARE,
        fields,
        format!("nothing to compare: {}", sets::contents(contents)),
    )
}

fn has(destinations: &[Destination], is_meant: fn(&Destination) -> bool) -> bool {
    destinations.iter().any(is_meant)
}

fn is_screen(destination: &Destination) -> bool {
    *destination == Destination::Standard(TEXT)
}

fn is_page(destination: &Destination) -> bool {
    matches!(
        destination,
        Destination::Standard(HTML) | Destination::File(_, HTML)
    )
}

/// Returns whether a destination prints the answers of a gate.
fn has_checks(destination: &Destination) -> bool {
    let (Destination::Standard(form) | Destination::File(_, form)) = destination else {
        return false;
    };
    find(form).is_some_and(|format| format.checks)
}

fn is_directory(destination: &Destination) -> bool {
    matches!(destination, Destination::Directory(_))
}

/// Refuses to overwrite an input file with a result, after a typing error.
fn spare_inputs(output: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    // A file that does not exist yet cannot be one of the inputs.
    let Some(there) = sets::identity(output) else {
        return Ok(());
    };
    match inputs
        .iter()
        .any(|input| sets::identity(input) == Some(there))
    {
        true => Err(failure::error(
            &code::CONFLICT,
            format!(
                "-o {} is one of the files to compare: name another",
                output.display()
            ),
        )),
        false => Ok(()),
    }
}

fn baseline(sets: &[Collected], name: Option<&str>) -> anyhow::Result<usize> {
    let Some(name) = name else { return Ok(0) };
    let names = sets.iter().map(|set| set.name.as_str());
    let found = names
        .clone()
        .position(|known| known == name || known.strip_suffix(mark::UNSAFE) == Some(name));
    found.ok_or_else(|| {
        failure::error(
            &code::UNKNOWN_SET,
            format!("--baseline: {}", nearest::unknown("set", name, names)),
        )
    })
}

/// Returns a predicate for operations and workloads that have the typed name. It accepts at least
/// the names that [`detail`] accepts, which is called later.
fn asked(typed: &str) -> impl Fn(Option<&str>, &str) -> bool + Sync {
    let names: Vec<String> = [Some(typed), fsb_compat::operation(typed)]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect();
    let is_named = move |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    move |workload, operation| workload.is_some_and(&is_named) || is_named(operation)
}

/// Returns the operation or workload that the user means, by the name in the document or by one of
/// its other names.
fn detail(typed: &str, document: &Document) -> anyhow::Result<String> {
    let mut names: Vec<&str> = Vec::new();
    for operation in &document.operations {
        let both = operation
            .workload
            .as_deref()
            .into_iter()
            .chain([operation.operation.as_str()]);
        both.for_each(|name| {
            if !names.contains(&name) {
                names.push(name)
            }
        });
    }
    let known = |name: &str| {
        names
            .iter()
            .find(|known| known.eq_ignore_ascii_case(name))
            .map(|name| (*name).to_owned())
    };
    let found = known(typed).or_else(|| known(fsb_compat::operation(typed)?));
    found.ok_or_else(|| {
        failure::error(
            &code::UNKNOWN_OPERATION,
            format!("--detail: {}", nearest::unknown("operation", typed, names)),
        )
    })
}

/// Prints and writes the comparison. Pages link to the tables that are written beside them.
fn emit(
    destinations: &[Destination],
    document: &Document,
    report: &Report<'_>,
    inputs: &[PathBuf],
) -> anyhow::Result<()> {
    // The first screen has the warnings on it, wherever it goes.
    if !has(destinations, is_screen) {
        document
            .conditions
            .iter()
            .map(condition_text)
            .chain(document.warnings.iter().cloned())
            .for_each(say_warning);
    }
    let mut tables = Vec::new();
    for destination in destinations {
        if let Destination::Directory(directory) = destination {
            let files = write_tables(directory, document, inputs)?;
            tables.push((owner::absolute(directory)?, files));
        }
    }
    for destination in destinations {
        let (Destination::Standard(form) | Destination::File(_, form)) = destination else {
            continue;
        };
        let format = results::format(form)?;
        let files = links(&tables, destination)?;
        let report = report.clone().with_files(&files);
        match destination {
            Destination::File(path, _) => {
                owner::replace_with(path, |file| (format.write)(&report, file))?;
            }
            _ if is_screen(destination) => {
                let width = terminal::columns_of_terminal(std::io::stdout()).unwrap_or(WIDTH);
                let colors = terminal::has_color(&std::io::stdout());
                print_exactly(&text::screen(&report, width, colors, true))?;
            }
            _ => print_report(format, &report)?,
        }
    }
    Ok(())
}

/// Returns the tables with their paths relative to the directory of a page, or to the working
/// directory.
fn links(
    tables: &[(PathBuf, Vec<DataFile>)],
    destination: &Destination,
) -> anyhow::Result<Vec<DataFile>> {
    let parent = match destination {
        Destination::File(path, _) => path.parent(),
        _ => None,
    };
    let page = parent
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let page = owner::absolute(page)?;
    let mut links = Vec::new();
    for (directory, files) in tables {
        let way = relative(&page, directory);
        for file in files {
            links.push(DataFile {
                content: file.content.clone(),
                path: way.join(&file.path).to_string_lossy().into_owned(),
            });
        }
    }
    Ok(links)
}

/// The file with the statistics in the directory of tables.
const STATISTICS: &str = "statistics.csv";

/// Returns the path of a directory relative to another one. Both are absolute.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

/// Writes the statistics, and the values of each operation that has cells, to a directory. Creates
/// the directory. Returns the files by their names.
fn write_tables(
    directory: &Path,
    document: &Document,
    inputs: &[PathBuf],
) -> anyhow::Result<Vec<DataFile>> {
    make_directory(directory)?;
    let write = |name: &str, content: &str| -> anyhow::Result<()> {
        let path = directory.join(name);
        spare_inputs(&path, inputs)?;
        Ok(owner::replace(&path, content.as_bytes())?)
    };
    let csv = find("csv").ok_or_else(|| anyhow::anyhow!("no format csv"))?;
    let mut statistics = Vec::new();
    (csv.write)(&Report::of_comparison(document, None), &mut statistics)?;
    write(STATISTICS, &String::from_utf8_lossy(&statistics))?;
    let mut names = BTreeSet::from([STATISTICS.to_owned()]);
    let mut files = vec![DataFile {
        content: "all statistics".to_owned(),
        path: STATISTICS.to_owned(),
    }];
    for operation in document
        .operations
        .iter()
        .filter(|operation| !operation.cells.is_empty())
    {
        let subject = operation
            .workload
            .as_deref()
            .unwrap_or(&operation.operation);
        let name = table_name(subject, &operation.metric, &names);
        write(&name, &values(document, operation))?;
        let content = format!(
            "every value of {subject}, {}",
            operation.metric.replace('_', " ")
        );
        files.push(DataFile {
            content,
            path: name.clone(),
        });
        names.insert(name);
    }
    Ok(files)
}

/// Returns a file name that is not taken: `write.csv`, `random-read-4k-latency_p99.csv`.
fn table_name(subject: &str, metric: &str, taken: &BTreeSet<String>) -> String {
    let text = if metric == THROUGHPUT.name {
        subject.to_owned()
    } else {
        format!("{subject}-{metric}")
    };
    let parts: Vec<&str> = text
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|part| !part.is_empty())
        .collect();
    let stem = parts.join("-");
    let numbered = (2..).map(|number| format!("{stem}-{number}.csv"));
    let mut all = std::iter::once(format!("{stem}.csv")).chain(numbered);
    all.find(|name| !taken.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_operations_have_names_of_their_own() {
        let mut taken = BTreeSet::new();
        for (subject, metric, expected) in [
            ("random_read", THROUGHPUT.name, "random_read.csv"),
            ("a/../b c", THROUGHPUT.name, "a-b-c.csv"),
            ("a b, c", THROUGHPUT.name, "a-b-c-2.csv"),
            ("read", "latency_p99", "read-latency_p99.csv"),
        ] {
            let name = table_name(subject, metric, &taken);
            assert_eq!(name, expected);
            taken.insert(name);
        }
    }
}
