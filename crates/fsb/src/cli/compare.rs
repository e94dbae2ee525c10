//! `fsb compare`: compares sets of results of fsb or of other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use fsb_model::metric::THROUGHPUT;
use fsb_model::units::parse_percent;
use fsb_model::{code, failure, nearest, shell};
use fsb_report::csv::values;
#[cfg(feature = "serve")]
use fsb_report::html;
use fsb_report::show::entry;
use fsb_report::{DataFile, Format, Report, WIDTH, change_of, condition_text, find, mark, text};
use fsb_stats::compare::{
    Collected, CompareRequest, ConditionDifference, Document, Single, Variation, compare_collected,
};
use fsb_stats::{Between, BetweenSource};
use fsb_store::owner;
use serde_json::json;

use crate::gate::{self, AbsentTarget, Judged};
use crate::message::{say, say_warning};
use crate::results::{self, print_data, print_exactly, print_report};
use crate::sets::{self, Apart, Origin, Sets};
use crate::{exit, terminal};

/// The default of the smallest difference that matters.
const THETA: &str = "3%";

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
    /// Smallest difference that matters
    #[arg(long, value_name = "P", default_value = THETA)]
    theta: String,
    /// Relative standard deviation between runs, for sets that do not show it
    #[arg(long, value_name = "P")]
    between: Option<String>,
    /// Exit with 1 if a set is slower by more than --theta, 2 if that is not known
    ///
    /// 0 only if every case excludes such a slowdown. docs/guide.md has a table of all cases.
    #[arg(long, value_name = "slower", hide_possible_values = true)]
    fail_if: Option<FailIf>,
    /// Format, such as html or xlsx: see fsb list formats
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Directory for statistics.csv and the values of every operation, one CSV file each
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    csv_dir: Option<PathBuf>,
    /// Report file, such as a.html, a.pdf, a.csv, a.summary.csv: its name implies the format
    #[arg(short = 'o', long = "output-file", value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailIf {
    /// An operation or a finding is slower by more than θ.
    Slower,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let format = format(arguments)?;
    let theta = parse_percent(&arguments.theta)
        .map_err(|error| failure::error(&code::INVALID_VALUE, format!("--theta: {error}")))?;
    let between = arguments.between.as_deref().map(parse_percent).transpose();
    let between = between
        .map_err(|error| failure::error(&code::INVALID_VALUE, format!("--between: {error}")))?;
    let mut read = sets::read(&arguments.sets)?;
    if let Some(output) = &arguments.output {
        spare_inputs("-o", output, &read.files)?;
    }
    if read.hosts.len() > 1 {
        let runs: Vec<String> = read
            .runs
            .iter()
            .map(|run| run.display().to_string())
            .collect();
        let command = shell::line(
            ["fsb", "fleet", "compare"]
                .into_iter()
                .chain(runs.iter().map(String::as_str)),
        );
        say(&format!(
            "note: {} hosts made these runs; for one answer of all of them: {command}",
            read.hosts.len()
        ));
    }
    let baseline = baseline(&read.sets, arguments.baseline.as_deref())?;
    let contents: Vec<sets::Contents> = read.sets.iter().map(sets::Contents::from_set).collect();
    let asked = arguments.detail.as_deref().map(asked);
    // Only a reader of one operation, or of the chart of an operation with one cell, sees single
    // values.
    let single = match &asked {
        _ if arguments.csv_dir.is_some() => Single::Every,
        Some(asked) => Single::Of(asked),
        None if format.name == HTML => Single::Lone,
        None => Single::None,
    };
    let targets = shared(&read.origins, baseline);
    let elsewhere = of_other_arguments(&read, baseline);
    let absent = absent_targets(&read, baseline);
    let all = std::mem::take(&mut read.sets);
    let requests = Requests::new(theta, between, &read.runs);
    let mut document = compared(all, &read, &requests.of_values(baseline), single)?;
    if !document.has_common_values() {
        return Err(nothing_to_compare(&contents));
    }
    let detail = arguments
        .detail
        .as_deref()
        .map(|typed| detail(typed, &document))
        .transpose()?;
    let is_text = arguments.output.is_none() && format.name == TEXT;
    let by_target = match is_text || arguments.fail_if.is_some() {
        true => compared_by_target(&arguments.sets, &targets, &requests)?,
        false => TargetByTarget::default(),
    };
    if is_text && !by_target.changes.is_empty() {
        // The answer to "what changed" comes before the table of all sets, and the conditions
        // before any number.
        let conditions = std::mem::take(&mut document.conditions);
        print_data(&by_target_text(&conditions, &by_target))?;
    }
    let mut tables = Vec::new();
    if let Some(directory) = &arguments.csv_dir {
        tables = write_tables(directory, &document, &read.files)?;
        let parent = arguments.output.as_deref().and_then(Path::parent);
        let page = parent
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let way = relative(&owner::absolute(page)?, &owner::absolute(directory)?);
        tables
            .iter_mut()
            .for_each(|table| table.path = way.join(&table.path).to_string_lossy().into_owned());
    }
    let report = Report::of_comparison(&document, detail.as_deref()).with_files(&tables);
    emit(arguments, format, &document, &report)?;
    if arguments.fail_if != Some(FailIf::Slower) {
        return Ok(exit::DONE);
    }
    if let Some(code) = gate::refused_copies(&read.inputs)? {
        return Ok(code);
    }
    if !document.withheld
        && let Some(code) = gate::refused(&read.runs)?
    {
        return Ok(code);
    }
    let of_targets = &by_target.changes;
    if of_targets.is_empty() {
        return Ok(gate::slower(&[Judged::all(&document)], &[]));
    }
    let mut judged: Vec<Judged<'_>> = of_targets.iter().map(Judged::all).collect();
    // Arguments that share no target with the baseline's run are compared with the baseline, as in
    // a comparison without targets.
    let is_met = |name: &str| {
        of_targets
            .iter()
            .any(|document| document.sets.iter().any(|set| set.name == name))
    };
    let met: BTreeSet<usize> = elsewhere
        .iter()
        .filter(|(_, name)| is_met(name))
        .map(|(argument, _)| *argument)
        .collect();
    let sets = elsewhere
        .iter()
        .filter(|(argument, _)| !met.contains(argument))
        .map(|(_, name)| name.as_str());
    let sets: Vec<&str> = sets.collect();
    if !sets.is_empty() {
        judged.push(Judged {
            document: &document,
            sets,
        });
    }
    let absent: Vec<AbsentTarget> = absent
        .into_iter()
        .filter(|(argument, _)| met.contains(argument))
        .map(|(_, target)| target)
        .collect();
    Ok(gate::slower(&judged, &absent))
}

/// Returns the comparison of sets, the first of which is the baseline, as a page.
#[cfg(feature = "serve")]
pub fn page(arguments: &[OsString]) -> anyhow::Result<String> {
    let theta = parse_percent(THETA)
        .map_err(|error| failure::error(&code::INVALID_VALUE, error.to_string()))?;
    let mut read = sets::read(arguments)?;
    let all = std::mem::take(&mut read.sets);
    let document = compared(
        all,
        &read,
        &Requests::new(theta, None, &read.runs).of_values(0),
        Single::Lone,
    )?;
    if !document.has_common_values() {
        return Err(failure::error(
            &code::NOTHING_TO_COMPARE,
            "nothing to compare: the runs share no operation",
        ));
    }
    Ok(html::render(&Report::of_comparison(&document, None)))
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

/// Returns the format of the report.
fn format(arguments: &Arguments) -> anyhow::Result<&'static Format> {
    let file = arguments.output.as_deref();
    let found = results::format_of(arguments.format.as_deref(), file)?;
    results::check_terminal(found, file)?;
    Ok(found)
}

/// Refuses to overwrite an input file with a result, after a typing error.
fn spare_inputs(option: &str, output: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
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
                "{option} {} is one of the files to compare: name another",
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

fn emit(
    arguments: &Arguments,
    format: &Format,
    document: &Document,
    report: &Report<'_>,
) -> anyhow::Result<()> {
    let is_text = arguments.output.is_none() && format.name == TEXT;
    // The first screen has the warnings on it, wherever it goes.
    if !is_text {
        let conditions = document.conditions.iter().map(condition_text);
        let warnings = conditions.chain(document.warnings.iter().cloned());
        warnings.for_each(say_warning);
    }
    match &arguments.output {
        Some(path) => Ok(owner::replace_with(path, |file| {
            (format.write)(report, file)
        })?),
        None if is_text => {
            let width = terminal::columns_of_terminal(std::io::stdout()).unwrap_or(WIDTH);
            print_exactly(&text::screen(
                report,
                width,
                terminal::has_color(&std::io::stdout()),
                true,
            ))
        }
        None => print_report(format, report),
    }
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
    let made = owner::result_owner()
        .act(|| std::fs::create_dir_all(directory))
        .and_then(|made| made);
    made.with_context(|| format!("cannot make {}", directory.display()))?;
    let write = |name: &str, content: &str| -> anyhow::Result<()> {
        let path = directory.join(name);
        spare_inputs("--csv-dir:", &path, inputs)?;
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
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let parts: Vec<&str> = text
        .split(|letter| !is_plain(letter))
        .filter(|part| !part.is_empty())
        .collect();
    let stem = parts.join("-");
    let numbered = (2..).map(|number| format!("{stem}-{number}.csv"));
    let mut all = std::iter::once(format!("{stem}.csv")).chain(numbered);
    all.find(|name| !taken.contains(name)).unwrap_or_default()
}

// Requests to the analysis, and comparisons of sets.

/// The known variation between runs.
#[derive(Debug, Clone, Copy)]
struct Requests {
    theta: f64,
    stated: Option<Between>,
    history: Variation,
}

impl Requests {
    /// Returns requests with the variation that the user states, or else with that of earlier runs
    /// beside `runs`.
    fn new(theta: f64, between: Option<f64>, runs: &[PathBuf]) -> Requests {
        let stated = between.map(|sd| Between {
            sd,
            source: BetweenSource::Stated,
        });
        let history = if stated.is_none() {
            sets::earlier_runs(runs)
        } else {
            None
        };
        Requests {
            theta,
            stated,
            history: history.unwrap_or_default(),
        }
    }

    /// Returns the request for values of one target. It uses the variation between sessions if
    /// earlier runs were made in several sessions. With one run on a side it uses only the
    /// variation that the user states.
    fn of_values(&self, baseline: usize) -> CompareRequest {
        let sessions = self.history.values.filter(|_| self.history.of_sessions);
        CompareRequest {
            between_runs: self.stated,
            between_sessions: self.stated.or(sessions),
            ..CompareRequest::new(baseline, self.theta)
        }
    }

    /// Returns the request for ratios of two targets; the first set is the baseline.
    fn of_ratios(&self) -> CompareRequest {
        let sessions = self.history.ratios.filter(|_| self.history.of_sessions);
        CompareRequest {
            between_runs: self.stated.or(self.history.ratios),
            between_sessions: self.stated.or(sessions),
            // The pool of 2011 is one of values.
            pooled: false,
            ..CompareRequest::new(0, self.theta)
        }
    }
}

/// Compares the sets, and adds the warnings and conditions of their runs to the document. Withholds
/// verdicts that the runs do not permit.
fn compared(
    sets: Vec<Collected>,
    read: &Sets,
    request: &CompareRequest,
    single: Single<'_>,
) -> anyhow::Result<Document> {
    let mut document =
        compare_collected(sets, request, single).context("cannot compare these sets")?;
    let after_urgent = document.urgent;
    document
        .warnings
        .splice(after_urgent..after_urgent, read.warnings.iter().cloned());
    document.conditions.clone_from(&read.conditions);
    match read.apart.clone() {
        Some(Apart {
            why,
            unjudged: Some(unjudged),
        }) => document.unjudge(unjudged, why),
        Some(Apart {
            why,
            unjudged: None,
        }) => document.withhold(why),
        None => {}
    }
    for ((workload, reason), runs) in &read.withheld {
        let why = format!("{workload}: not judged: {reason} in {}", runs.join(", "));
        document.withhold_at(workload, why);
    }
    Ok(document)
}

// Comparisons of runs with several targets: each target of `old` with the same target of `new`. The
// table of all sets would compare every other set with one target of one run.

/// Targets that are compared with themselves, with the argument that others are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shared {
    baseline: usize,
    targets: Vec<String>,
}

/// Returns the targets that the baseline's run shares with others; none where no run has several.
fn shared(origins: &[Origin], baseline: usize) -> Option<Shared> {
    let baseline = origins.get(baseline)?.argument;
    let of = |argument: usize| {
        origins
            .iter()
            .filter(move |origin| origin.argument == argument)
            .filter_map(|origin| origin.target.as_ref())
    };
    let arguments: BTreeSet<usize> = origins.iter().map(|origin| origin.argument).collect();
    let others = || arguments.iter().filter(|argument| **argument != baseline);
    let targets: Vec<String> = of(baseline)
        .filter(|target| others().any(|other| of(*other).any(|known| known == *target)))
        .cloned()
        .collect();
    let several = arguments.iter().any(|argument| of(*argument).count() > 1);
    (several && !targets.is_empty()).then_some(Shared { baseline, targets })
}

/// Names of the sets that come from other arguments than the baseline, with the numbers of these
/// arguments.
fn of_other_arguments(read: &Sets, baseline: usize) -> Vec<(usize, String)> {
    let own = read.origins.get(baseline).map(|origin| origin.argument);
    let others = read
        .sets
        .iter()
        .zip(&read.origins)
        .filter(|(_, origin)| Some(origin.argument) != own);
    others
        .map(|(set, origin)| (origin.argument, set.name.clone()))
        .collect()
}

/// Returns the targets of the baseline's argument that other arguments lack, with the numbers of
/// those.
fn absent_targets(read: &Sets, baseline: usize) -> Vec<(usize, AbsentTarget)> {
    let Some(own) = read.origins.get(baseline).map(|origin| origin.argument) else {
        return Vec::new();
    };
    let targets = |argument: usize| {
        let of_argument = read
            .origins
            .iter()
            .filter(move |origin| origin.argument == argument);
        of_argument.filter_map(|origin| origin.target.as_deref())
    };
    let mut absent = Vec::new();
    for (argument, name) in of_other_arguments(read, baseline) {
        if absent.iter().any(|(known, _)| *known == argument) {
            continue;
        }
        // The sets of an argument are named `ARGUMENT/TARGET`.
        let prefix = name
            .split_once('/')
            .map_or(name.as_str(), |(prefix, _)| prefix);
        let lacks = |target: &&str| targets(argument).all(|known| known != *target);
        let lacking = targets(own).filter(lacks).map(|target| AbsentTarget {
            set: format!("{prefix}/{target}"),
        });
        absent.extend(lacking.map(|target| (argument, target)));
    }
    absent
}

/// Comparisons of the targets of two runs.
#[derive(Debug, Default)]
struct TargetByTarget {
    /// Each target beside itself.
    changes: Vec<Document>,
    /// The ratio of each target to the first one beside the same ratio: differences of differences.
    ratios: Vec<Document>,
}

/// Compares each target with itself, and its ratio to the first target with the same ratio. Reads
/// the sets again, because a comparison consumes them; once, because each set has one target.
fn compared_by_target(
    arguments: &[OsString],
    shared: &Option<Shared>,
    requests: &Requests,
) -> anyhow::Result<TargetByTarget> {
    let Some(Shared { baseline, targets }) = shared else {
        return Ok(TargetByTarget::default());
    };
    let mut read = sets::read(arguments)?;
    let mut left: Vec<_> = std::mem::take(&mut read.sets)
        .into_iter()
        .zip(read.origins.clone())
        .collect();
    let mut found = TargetByTarget::default();
    let of = |target: &String, argument: usize, sets: &[(Collected, Origin)]| {
        sets.iter().position(|(_, origin)| {
            origin.argument == argument && origin.target.as_ref() == Some(target)
        })
    };
    let arguments: BTreeSet<usize> = left.iter().map(|(_, origin)| origin.argument).collect();
    let first = &targets[0];
    for target in &targets[1..] {
        let mut ratios = Vec::new();
        for argument in std::iter::once(baseline)
            .chain(arguments.iter().filter(|argument| *argument != baseline))
        {
            let Some((above, below)) =
                of(target, *argument, &left).zip(of(first, *argument, &left))
            else {
                continue;
            };
            let (above, below) = (&left[above].0, &left[below].0);
            ratios.push(above.over(below, format!("{} over {}", above.name, below.name))?);
        }
        if ratios.len() > 1 {
            found.ratios.push(compared(
                ratios,
                &read,
                &requests.of_ratios(),
                Single::None,
            )?);
        }
    }
    for target in targets {
        let (own, others): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|(_, origin)| origin.target.as_ref() == Some(target));
        left = others;
        let baseline = own
            .iter()
            .position(|(_, origin)| origin.argument == *baseline)
            .unwrap_or_default();
        let own = own.into_iter().map(|(set, _)| set).collect();
        found.changes.push(compared(
            own,
            &read,
            &requests.of_values(baseline),
            Single::None,
        )?);
    }
    Document::hold_together(&mut found.changes);
    Document::hold_together(&mut found.ratios);
    Ok(found)
}

/// Returns the conditions that differ, the changes of each target, then of each ratio, and the
/// title of the table that follows.
fn by_target_text(conditions: &[ConditionDifference], found: &TargetByTarget) -> String {
    let columns = terminal::columns(std::io::stdout());
    let mut text = String::new();
    for condition in conditions {
        let _ = writeln!(
            text,
            "{}",
            entry("warning: ", &condition_text(condition), columns)
        );
    }
    let parts = [
        ("Target by target:", &found.changes),
        (
            "Ratios of targets (difference in differences):",
            &found.ratios,
        ),
    ];
    let has_operations =
        |documents: &&Vec<Document>| documents.iter().any(|found| !found.operations.is_empty());
    for (title, documents) in parts
        .iter()
        .filter(|(_, documents)| has_operations(documents))
    {
        let _ = writeln!(text, "{title}");
        for document in *documents {
            for set in document
                .sets
                .iter()
                .filter(|set| set.name != document.baseline)
            {
                for (place, line) in change_of(document, &set.name).iter().enumerate() {
                    let indent = if place == 0 { "  " } else { "    " };
                    let _ = writeln!(text, "{}", entry(indent, line, columns));
                }
            }
        }
        text.push('\n');
    }
    // Without a part before it, the table needs no title.
    if parts.iter().any(|(_, documents)| has_operations(documents)) {
        text.push_str("All sets:\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(argument: usize, target: &str) -> Origin {
        Origin {
            argument,
            target: Some(target.to_owned()),
        }
    }

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

    #[test]
    fn targets_meet_themselves_where_a_run_has_several() {
        let two = [
            origin(0, "ext4"),
            origin(0, "xfs"),
            origin(1, "ext4"),
            origin(1, "btrfs"),
        ];
        let found = shared(&two, 0).unwrap();
        assert_eq!(
            (found.baseline, &found.targets[..]),
            (0, &["ext4".to_owned()][..])
        );
        assert_eq!(shared(&two, 2).unwrap().baseline, 1);
        assert_eq!(
            shared(&[origin(0, "ext4"), origin(1, "ext4")], 0),
            None,
            "the table says it"
        );
        assert_eq!(shared(&two[..2], 0), None, "one run");
        assert_eq!(
            shared(
                &[
                    Origin {
                        argument: 0,
                        target: None
                    },
                    origin(1, "ext4")
                ],
                0
            ),
            None
        );
    }
}
