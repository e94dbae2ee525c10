//! `fsb history`: series of runs over time, and since when they changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use fsb_history::series::{self, LevelSpan};
use fsb_history::store::{NO_TIME, UNKNOWN_RUN, UNKNOWN_SERIES};
use fsb_history::text::{
    change_text, compared_text, differences_text, environment_text, minute, short, summary_text,
    unchanged_text, variation_text,
};
use fsb_history::{
    Document, Entry, Index, IndexedRun, IndexedSeries, Labels, Location, RunsCompared, SCHEMA,
    SeriesHistory, Store,
};
use fsb_model::set::Run;
use fsb_model::setting::THETA;
use fsb_model::{code, failure, notice};
use fsb_report::show::{self, counted, entry};
use fsb_store::owner;
use fsb_store::owner::Rights;
use fsb_sys::InvokingUser;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::settings::{self, SettingArguments};
use crate::message::{notify, say_warning};
use crate::output::make_directory;
use crate::results::{DocumentFormat, json_text, print, print_data};
use crate::{exit, terminal};
use fsb_results::sets::{self, Found};
use fsb_results::{Latencies, StoredRun};

const EXAMPLES: &str = "\
Examples:
  fsb history add fsb-results/*             index these runs
  fsb history changes                       since when is something slower
  fsb history show 'write 1M on xfs'        one series and its changes";

/// Index runs, and find out since when something is slower
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(AddArguments),
    List(ListArguments),
    Show(ShowArguments),
    Changes(ChangesArguments),
    Diff(DiffArguments),
    Export(ExportArguments),
    Prune(PruneArguments),
    Rebuild(RebuildArguments),
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    // The command needs no right of root, and SQLite makes files beside the store.
    Rights::InvokingUser.adopt()?;
    match &arguments.command {
        Command::Add(arguments) => add(arguments),
        Command::List(arguments) => list(arguments),
        Command::Show(arguments) => show_series(arguments),
        Command::Changes(arguments) => changes(arguments),
        Command::Diff(arguments) => diff(arguments),
        Command::Export(arguments) => export(arguments),
        Command::Prune(arguments) => prune(arguments),
        Command::Rebuild(arguments) => rebuild(arguments),
    }
}

/// The store of a command.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct StoreArguments {
    /// File of the index, or postgresql://HOST/DATABASE [default: fsb/history.sqlite in the user's
    /// data directory]
    #[arg(long, value_name = "FILE|URL")]
    store: Option<OsString>,
}

impl StoreArguments {
    /// Returns the store that the user named, or the one in the data directory.
    pub(super) fn location(&self) -> anyhow::Result<Location> {
        if let Some(text) = &self.store {
            return Ok(Location::parse(text));
        }
        if InvokingUser::current().is_some() {
            return Err(failure::advised(
                &code::UNABLE,
                "the data directory of the invoking user is not known",
                "run the command without sudo, or name the index with --store",
            ));
        }
        let set = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let data =
            set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
        let path = data.map(|data| data.join("fsb").join("history.sqlite"));
        let unset = "the data directory is not known: neither XDG_DATA_HOME nor HOME is set";
        let path = path
            .ok_or_else(|| failure::advised(&code::UNABLE, unset, "name the index with --store"))?;
        Ok(Location::File(path))
    }

    fn open(&self) -> anyhow::Result<Store> {
        Ok(Store::open(&self.location()?)?)
    }

    /// Opens the store, and makes it if it does not exist.
    pub(super) fn open_or_create(&self) -> anyhow::Result<Store> {
        let location = self.location()?;
        if let Location::File(path) = &location {
            if self.store.is_none()
                && let Some(directory) = path.parent()
            {
                std::fs::create_dir_all(directory).map_err(|error| {
                    failure::failed_call(
                        &code::UNWRITABLE,
                        &error,
                        format!("cannot make {}: {error}", directory.display()),
                    )
                })?;
            }
            owner::check(path)?;
        }
        Ok(Store::open_or_create(&location)?)
    }
}

/// The rules of the analysis.
#[derive(Debug, Args)]
struct AnalysisArguments {
    #[command(flatten)]
    settings: SettingArguments<settings::Compare>,
    /// Condition that may cause a change, such as kernel: runs that differ in it are one series
    #[arg(long, value_name = "NAME")]
    across: Vec<String>,
}

impl AnalysisArguments {
    fn theta(&self) -> f64 {
        self.settings.given.quantity("theta").unwrap_or(THETA)
    }

    /// Analyses all series by these rules.
    fn analyse_all(&self, index: &Index) -> anyhow::Result<Document> {
        self.check(index)?;
        Ok(index.analyse_all(&self.across, self.theta())?)
    }

    /// Checks that the index has the conditions of `--across`.
    fn check(&self, index: &Index) -> anyhow::Result<()> {
        let known: BTreeSet<&String> = index
            .environments
            .values()
            .flat_map(BTreeMap::keys)
            .collect();
        for name in &self.across {
            if !known.contains(name) {
                let names: Vec<&str> = known.iter().map(|name| name.as_str()).collect();
                let message = format!("--across: no run has the condition '{name}'");
                return Err(failure::advised(
                    &code::INVALID_VALUE,
                    message,
                    format!("use one of {}", names.join(", ")),
                ));
            }
        }
        Ok(())
    }
}

/// Finds the run with an identity that begins with `text`, or with that path.
fn find_run<'i>(index: &'i Index, text: &str) -> anyhow::Result<&'i IndexedRun> {
    let path = Path::new(text).canonicalize().ok();
    let found: Vec<&IndexedRun> = index
        .runs
        .values()
        .filter(|run| {
            run.id.starts_with(text) || path.as_ref().is_some_and(|path| run.source == *path)
        })
        .collect();
    match found[..] {
        [run] => Ok(run),
        [] => Err(failure::error(
            &UNKNOWN_RUN,
            format!("the history has no run '{text}'"),
        )),
        _ => Err(failure::error(
            &UNKNOWN_RUN,
            format!("{} runs match '{text}'", found.len()),
        )),
    }
}

/// Finds the series with an identity that begins with `text`, or else a name that contains it.
fn find_series(index: &Index, text: &str) -> anyhow::Result<IndexedSeries> {
    let all = index.series_by_name()?;
    let by_name = |series: &&IndexedSeries| series.key.name().contains(text);
    let exact = |series: &&IndexedSeries| series.key.name() == text;
    let mut found: Vec<&IndexedSeries> = all
        .iter()
        .filter(|series| series.id.starts_with(text))
        .collect();
    for filter in [&exact as &dyn Fn(&&IndexedSeries) -> bool, &by_name] {
        if found.is_empty() {
            found = all.iter().filter(filter).collect();
        }
    }
    match found[..] {
        [series] => Ok(series.clone()),
        [] => Err(failure::error(
            &UNKNOWN_SERIES,
            format!("the history has no series '{text}'"),
        )),
        _ => {
            let named = found
                .iter()
                .map(|series| format!("{} ({})", short(&series.id), series.key.name()));
            let named = show::some_of(&named.collect::<Vec<_>>(), SHOWN);
            Err(failure::error(
                &UNKNOWN_SERIES,
                format!("{} series match '{text}': {named}", found.len()),
            ))
        }
    }
}

/// The number of series that a message names.
const SHOWN: usize = 5;
// `fsb history add`.

const ADD_EXAMPLES: &str = "\
Examples:
  fsb history add fsb-results/*
  fsb history add RUN --label commit=abc123
  fsb history add xfs=fio.json --at 2026-01-31T18:00:00Z";

/// Add runs, or results of other tools, to the index
///
/// RESULT is a run directory, a set of runs, or what fsb compare reads; NAME= names the system that
/// another tool measured. A run that the index has already is replaced, so adding it again does no
/// harm.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
#[command(override_usage = "fsb history add [OPTIONS] [NAME=]RESULT …")]
struct AddArguments {
    /// Run directory, or results of another tool
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<OsString>,
    /// Time of results of another tool, such as 2026-01-31T18:00:00Z (UTC without a zone)
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Label of the runs, such as commit=abc123
    #[arg(long, value_name = "NAME=VALUE")]
    label: Vec<String>,
    #[command(flatten)]
    store: StoreArguments,
}

fn add(arguments: &AddArguments) -> anyhow::Result<u8> {
    let at = arguments
        .at
        .as_deref()
        .map(|text| time("--at", text))
        .transpose()?;
    let labels: Labels = arguments
        .label
        .iter()
        .map(|text| label(text))
        .collect::<anyhow::Result<_>>()?;
    let mut adding = Adding {
        store: arguments.store.open_or_create()?,
        waiting: Vec::new(),
        new: 0,
        known: 0,
    };
    let read = adding.read(&arguments.results, at.as_deref(), &labels);
    // The results before one that cannot be read are added.
    adding.commit()?;
    read?;
    let Adding { new, known, .. } = adding;
    let again = if known > 0 {
        format!(", {known} replaced")
    } else {
        String::new()
    };
    notify_change(
        "added",
        new + known,
        &format!("{} added{again}", counted(new, "run")),
    );
    Ok(exit::DONE)
}

/// Adds runs to a store, several in each transaction.
struct Adding {
    store: Store,
    /// The runs that were read and are not in the store yet.
    waiting: Vec<Entry>,
    /// The number of runs that were not in the store.
    new: usize,
    /// The number of runs that were replaced.
    known: usize,
}

impl Adding {
    /// The maximum number of runs in a transaction.
    const RUNS: usize = 16;

    /// Reads results, and adds them whenever there are enough for a transaction.
    fn read(
        &mut self,
        results: &[OsString],
        at: Option<&str>,
        labels: &Labels,
    ) -> anyhow::Result<()> {
        for text in results {
            let named = sets::results_of(text)?;
            named.warnings.iter().for_each(say_warning);
            for found in named.found {
                self.waiting.extend(entries(
                    &found,
                    named.name.as_deref().unwrap_or_default(),
                    at,
                    labels,
                )?);
                if self.waiting.len() >= Adding::RUNS {
                    self.commit()?;
                }
            }
        }
        Ok(())
    }

    /// Adds the waiting runs to the store, and reports them.
    fn commit(&mut self) -> anyhow::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let added = self.store.add_all(&self.waiting)?;
        self.new += added.iter().filter(|is_new| **is_new).count();
        self.known += added.iter().filter(|is_new| !**is_new).count();
        self.waiting
            .drain(..)
            .try_for_each(|entry| report_entry(&entry))
    }
}

fn time(option: &str, text: &str) -> anyhow::Result<String> {
    let zoned = text.parse::<Timestamp>();
    let at = zoned.or_else(|_| {
        text.parse::<DateTime>()?
            .to_zoned(TimeZone::UTC)
            .map(|zoned| zoned.timestamp())
    });
    let at = at.map_err(|error| {
        failure::error(&code::INVALID_VALUE, format!("{option} {text}: {error}"))
    })?;
    Ok(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn label(text: &str) -> anyhow::Result<(String, String)> {
    let split = text
        .split_once('=')
        .filter(|(name, value)| !name.trim().is_empty() && !value.is_empty());
    let (name, value) = split.ok_or_else(|| {
        failure::error(
            &code::INVALID_VALUE,
            format!("--label {text}: write NAME=VALUE, such as commit=abc123"),
        )
    })?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// Reads a run directory, or a file of another tool, which may hold several runs.
fn entries(
    found: &Found,
    name: &str,
    at: Option<&str>,
    labels: &Labels,
) -> anyhow::Result<Vec<Entry>> {
    match found {
        Found::Run(path) => {
            if at.is_some() {
                let message = format!("--at: {} records its own time", path.display());
                return Err(failure::error(&code::CONFLICT, message));
            }
            let run = StoredRun::read(path, Latencies::LeftOut)?;
            run.warnings.iter().for_each(say_warning);
            match series::entry_of_run(&run.record, &run.trials, &run.identity, labels.clone()) {
                Ok(entry) => Ok(vec![entry]),
                Err(why) => {
                    let text = format!("warning: {}: left out: {why}", path.display());
                    notify(
                        &notice::NOT_INDEXED,
                        [("path", path.to_string_lossy().into())],
                        &text,
                    );
                    Ok(Vec::new())
                }
            }
        }
        Found::File(path) => {
            let at = at.ok_or_else(|| {
                let message = format!("{}: the time of these results is not known", path.display());
                failure::advised(&NO_TIME, message, "name it: --at 2026-01-31T18:00:00Z")
            })?;
            let source = path.canonicalize().unwrap_or_else(|_| path.clone());
            let mut runs = Run::join_blocks(fsb_compat::read_file(path)?);
            let mut entries = Vec::new();
            for run in &mut runs {
                let line =
                    |line: Option<u32>| line.map(|line| format!(":{line}")).unwrap_or_default();
                for remark in &run.warnings {
                    say_warning(format!(
                        "{}{}: {}",
                        path.display(),
                        line(remark.line),
                        remark.text
                    ));
                }
                run.path = source.display().to_string();
                let entry = series::entry_of_results(run, name, at, labels.clone());
                if entry.points.is_empty() {
                    report_left_out(&entry);
                } else {
                    entries.push(entry);
                }
            }
            Ok(entries)
        }
    }
}

fn report_entry(entry: &Entry) -> anyhow::Result<()> {
    let Entry { run, points, .. } = entry;
    let values = counted(points.len(), "value");
    print(&format!(
        "{}  {}  {values}  {}\n",
        short(&run.id),
        minute(&run.at),
        run.source.display()
    ))?;
    report_left_out(entry);
    Ok(())
}

fn report_left_out(Entry { run, left_out, .. }: &Entry) {
    if !left_out.is_empty() {
        let path = run.source.display();
        let text = format!(
            "warning: {path}: left out: {}",
            show::some_of(left_out, SHOWN)
        );
        notify(
            &notice::NOT_INDEXED,
            [("path", run.source.to_string_lossy().into())],
            &text,
        );
    }
}

// `fsb history list`.

const LIST_EXAMPLES: &str = "\
Examples:
  fsb history list
  fsb history list --store team.sqlite
  fsb history list | less";

/// List the series of the index
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArguments {
    #[command(flatten)]
    store: StoreArguments,
}

fn list(arguments: &ListArguments) -> anyhow::Result<u8> {
    let index = Index::read(arguments.store.open()?)?;
    let columns = terminal::columns(io::stdout());
    let mut text = format!(
        "{:8}  {:>5}  {:16}  {:>12}  series\n",
        "id", "runs", "last run", "last value"
    );
    for series in index.series_by_name()? {
        let Some((last, runs)) = index.last_value(&series.id)? else {
            continue;
        };
        let value = series.key.show(last.log_mean.exp());
        let term = format!(
            "{}  {runs:>5}  {}  {value:>12}  ",
            short(&series.id),
            minute(&last.at)
        );
        text += &entry(&term, &series.key.name(), columns);
        text.push('\n');
    }
    print(&text)?;
    Ok(exit::DONE)
}

// `fsb history show`.

const SHOW_EXAMPLES: &str = "\
Examples:
  fsb history show 'write 1M on xfs'
  fsb history show 3f2a91c0 --points
  fsb history show 3f2a91c0 --across kernel   look for changes of kernels";

/// Show one series: its levels, changes and environments
///
/// A change is shown with its ratio, 95 % interval, the number of runs that were needed to find it,
/// and the labels that differ. Without one, the change that would have been found half-way through
/// the runs is shown. Runs in different environments (kernel, options, disk, version of fsb) are
/// not compared for changes.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct ShowArguments {
    /// Id of a series, or a part of its name
    #[arg(value_name = "SERIES")]
    series: String,
    /// Also print the value of each run
    #[arg(long)]
    points: bool,
    /// Format of the output: text or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    format: DocumentFormat,
    #[command(flatten)]
    rules: AnalysisArguments,
    #[command(flatten)]
    store: StoreArguments,
}

fn show_series(arguments: &ShowArguments) -> anyhow::Result<u8> {
    let index = Index::read(arguments.store.open()?)?;
    arguments.rules.check(&index)?;
    let theta = arguments.rules.theta();
    let across = arguments.rules.across.clone();
    let found = index.analyse(find_series(&index, &arguments.series)?, &across, theta)?;
    match arguments.format {
        DocumentFormat::Json => {
            let document = Document {
                schema: SCHEMA.to_owned(),
                theta,
                across,
                series: vec![found],
                unchanged: Vec::new(),
            };
            print_data(&json_text(&document)?)?;
        }
        DocumentFormat::Text => print(&series_text(
            &found,
            arguments.points,
            terminal::columns(io::stdout()),
        ))?,
    }
    Ok(exit::DONE)
}

/// Returns the levels of a series in the order of time, with the changes between them.
fn series_text(series: &SeriesHistory, with_points: bool, columns: usize) -> String {
    let key = &series.key;
    let direction = if key.higher_is_better {
        "higher"
    } else {
        "lower"
    };
    let machine = if key.machine.is_empty() {
        "machine not recorded"
    } else {
        &key.machine
    };
    let mut text = format!("{}\n", key.name());
    let about = format!(
        "{}, {direction} is better; {machine}",
        key.metric.replace('_', " ")
    );
    text += &entry(&format!("{}  ", short(&series.id)), &about, columns);
    let _ = write!(
        text,
        "\n\n{:16}  {:8}  {:>5}  {:>12}\n",
        "first run", "run", "runs", "level"
    );
    let mut levels: Vec<(usize, &LevelSpan)> = Vec::new();
    for (place, environment) in series.environments.iter().enumerate() {
        levels.extend(environment.levels.iter().map(|level| (place, level)));
    }
    levels.sort_by_key(|(_, level)| level.first);
    for (place, level) in levels {
        let environment = &series.environments[place];
        let change = environment
            .changes
            .iter()
            .find(|change| change.first_after == level.first);
        if let Some(change) = change {
            text += &indented(&change_text(series, change), columns);
        } else if let Some(since) = &environment.since {
            text += &indented(&environment_text(since), columns);
        }
        let first = &series.points[level.first];
        let mean = key.show(level.mean);
        let _ = writeln!(
            text,
            "{}  {}  {:>5}  {mean:>12}",
            minute(&first.at),
            short(&first.run),
            level.runs
        );
    }
    text.push('\n');
    text += &show::wrapped(
        &variation_text(series.variation, series.within_sd, series.points.len()),
        columns,
    );
    text.push('\n');
    if let Some(level) = series.newest_level() {
        text += &show::wrapped(
            &format!(
                "Newest runs of one environment and level: {}.",
                unchanged_text(level)
            ),
            columns,
        );
        text.push('\n');
    }
    if with_points {
        let _ = write!(
            text,
            "\n{:16}  {:8}  {:>6}  {:>12}  labels\n",
            "run", "id", "blocks", "value"
        );
        for point in &series.points {
            let value = key.show(point.value);
            let term = format!(
                "{}  {}  {:>6}  {value:>12}  ",
                minute(&point.at),
                short(&point.run),
                point.blocks
            );
            let labels: Vec<String> = point
                .labels
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            text += entry(&term, &labels.join(" "), columns).trim_end();
            text.push('\n');
        }
    }
    text
}

fn indented(text: &str, columns: usize) -> String {
    entry("  ", text, columns) + "\n"
}

// `fsb history changes`.

const CHANGES_EXAMPLES: &str = "\
Examples:
  fsb history changes
  fsb history changes --across kernel   since which kernel is it slower
  fsb history changes --theta 5%";

/// Show since when each series is slower or faster
///
/// Prints the changes of all series, the newest first, and the changes of the environment, which
/// are never called slower or faster. For each series without a change it prints the change that
/// would have been found.
#[derive(Debug, Args)]
#[command(after_help = CHANGES_EXAMPLES)]
struct ChangesArguments {
    /// Format of the output: text or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    format: DocumentFormat,
    #[command(flatten)]
    rules: AnalysisArguments,
    #[command(flatten)]
    store: StoreArguments,
}

fn changes(arguments: &ChangesArguments) -> anyhow::Result<u8> {
    let index = Index::read(arguments.store.open()?)?;
    let document = arguments.rules.analyse_all(&index)?;
    match arguments.format {
        DocumentFormat::Json => print_data(&json_text(&document.without_values_of_unchanged())?)?,
        DocumentFormat::Text => print(&changes_text(&document, terminal::columns(io::stdout())))?,
    }
    Ok(exit::DONE)
}

fn changes_text(document: &Document, columns: usize) -> String {
    // Lines with the time by which they are sorted. Series with the same change of environment
    // share a line.
    let mut lines: Vec<(&str, String)> = Vec::new();
    let mut environments: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for series in &document.series {
        for environment in &series.environments {
            for change in &environment.changes {
                let name = format!("{} ({})", series.key.name(), short(&series.id));
                lines.push((
                    &series.points[change.first_after].at,
                    format!("{name}: {}", change_text(series, change)),
                ));
            }
            if let (Some(since), Some(level)) = (&environment.since, environment.levels.first()) {
                let text = differences_text(&since.differences);
                *environments
                    .entry((&series.points[level.first].at, text))
                    .or_default() += 1;
            }
        }
    }
    for ((at, text), count) in environments {
        lines.push((at, format!("other environment ({count} series): {text}")));
    }
    lines.sort_by(|one, other| other.0.cmp(one.0).then_with(|| one.1.cmp(&other.1)));
    let mut text = String::new();
    for (at, line) in lines {
        text += &entry(&format!("{}  ", minute(at)), &line, columns);
        text.push('\n');
    }
    for series in document.series.iter().filter(|series| !series.is_changed()) {
        let Some(level) = series.newest_level() else {
            continue;
        };
        let term = format!("{} ({}): ", series.key.name(), short(&series.id));
        text += &show::wrapped(&format!("{term}{}", unchanged_text(level)), columns);
        text.push('\n');
    }
    text + &show::wrapped(&summary_text(document), columns) + "\n"
}

// `fsb history diff`.

const DIFF_EXAMPLES: &str = "\
Examples:
  fsb history diff 1f0c22aa 9d41b07e
  fsb history diff fsb-results/old fsb-results/new
  fsb history diff 1f0c22aa 9d41b07e --format json";

/// Show what differs between two runs of the index
///
/// Prints the conditions and labels that differ, and the change of each series. Its interval
/// follows from the variation between the other runs of the series: one run on each side cannot
/// show it.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
struct DiffArguments {
    /// Id or path of the first run
    #[arg(value_name = "BEFORE")]
    before: String,
    /// Id or path of the second run
    #[arg(value_name = "AFTER")]
    after: String,
    /// Format of the output: text or json
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    format: DocumentFormat,
    #[command(flatten)]
    settings: SettingArguments<settings::Compare>,
    #[command(flatten)]
    store: StoreArguments,
}

fn diff(arguments: &DiffArguments) -> anyhow::Result<u8> {
    let theta = arguments.settings.given.quantity("theta").unwrap_or(THETA);
    let index = Index::read(arguments.store.open()?)?;
    let (before, after) = (
        find_run(&index, &arguments.before)?,
        find_run(&index, &arguments.after)?,
    );
    let found = index.compare(before, after, theta)?;
    match arguments.format {
        DocumentFormat::Json => print_data(&json_text(&found)?)?,
        DocumentFormat::Text => print(&diff_text(&found, terminal::columns(io::stdout())))?,
    }
    Ok(exit::DONE)
}

fn diff_text(found: &RunsCompared, columns: usize) -> String {
    let mut text = String::new();
    for (side, run) in [("before  ", &found.before), ("after   ", &found.after)] {
        let about = format!("{}  {}  {}", short(&run.id), minute(&run.at), run.source);
        text += &entry(side, &about, columns);
        text.push('\n');
    }
    let labels = differences_text(&found.labels);
    let differing = found.conditions.iter().map(|condition| {
        let text = differences_text(std::slice::from_ref(&condition.difference));
        if condition.targets.is_empty() {
            text
        } else {
            format!("{text} ({})", condition.targets.join(", "))
        }
    });
    for line in (!labels.is_empty())
        .then_some(labels)
        .into_iter()
        .chain(differing)
    {
        text += &entry("differs ", &line, columns);
        text.push('\n');
    }
    if found.series.is_empty() {
        text += "the two runs have no series in common\n";
    }
    for series in &found.series {
        let (before, after) = (
            series.key.show(series.before),
            series.key.show(series.after),
        );
        let _ = writeln!(text, "\n{}", series.key.name());
        text += &indented(
            &format!("{before} → {after}  {}", compared_text(series)),
            columns,
        );
    }
    text
}

// `fsb history export`.

const EXPORT_EXAMPLES: &str = "\
Examples:
  fsb history export > history.csv
  fsb history export --format json
  fsb history export --format csv -o history.csv
  fsb history export --format otava -o otava/";

/// Export all values of the index
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
struct ExportArguments {
    /// Format: csv; json with levels and changes; otava: a directory with one table for each series
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = "csv",
        hide_possible_values = true
    )]
    format: ExportFormat,
    /// File to write, or the directory of otava [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    rules: AnalysisArguments,
    #[command(flatten)]
    store: StoreArguments,
}

/// Formats of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    Csv,
    Json,
    /// Tables and the configuration of Apache Otava.
    Otava,
}

fn export(arguments: &ExportArguments) -> anyhow::Result<u8> {
    let index = Index::read(arguments.store.open()?)?;
    let document = arguments.rules.analyse_all(&index)?;
    let text = match arguments.format {
        ExportFormat::Json => json_text(&document)?,
        ExportFormat::Csv => csv_text(&document)?,
        ExportFormat::Otava => {
            let directory = arguments.output.as_deref().ok_or_else(|| {
                let message = "--format otava writes several files: name a directory with -o DIR/";
                failure::error(&code::CONFLICT, message)
            })?;
            write_otava(directory, &document)?;
            return Ok(exit::DONE);
        }
    };
    match &arguments.output {
        Some(path) => owner::replace(path, text.as_bytes())?,
        None => print_data(&text)?,
    }
    Ok(exit::DONE)
}

/// Returns one line for each value.
fn csv_text(document: &Document) -> anyhow::Result<String> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record([
        "series",
        "tool",
        "case",
        "operation",
        "target",
        "metric",
        "unit",
        "machine",
        "run",
        "at",
        "source",
        "blocks",
        "value",
        "environment",
        "labels",
    ])?;
    for series in &document.series {
        let key = &series.key;
        for point in &series.points {
            let conditions = &series.environments[point.environment].conditions;
            table.write_record([
                &series.id,
                &key.tool,
                &key.case,
                &key.operation,
                &key.target,
                &key.metric,
                &key.unit,
                &key.machine,
                &point.run,
                &point.at,
                &point.source.display().to_string(),
                &point.blocks.to_string(),
                &point.value.to_string(),
                &serde_json::to_string(conditions)?,
                &serde_json::to_string(&point.labels)?,
            ])?;
        }
    }
    Ok(String::from_utf8(
        table.into_inner().map_err(|error| error.into_error())?,
    )?)
}

/// Writes one table for each series, and the configuration that names them as tests.
///
/// Otava 0.8 finds no change in a column with a missing value, and no series has a value of every
/// run, so that they cannot be columns of one table.
fn write_otava(directory: &Path, document: &Document) -> anyhow::Result<()> {
    make_directory(directory)?;
    let directory = owner::absolute(directory)?;
    let mut tests = String::from("tests:\n");
    for series in &document.series {
        let path = directory.join(format!("{}.csv", series.id));
        owner::replace(&path, otava_table(series)?.as_bytes())?;
        let key = &series.key;
        let name = format!("{}, {} [{}]", key.name(), key.metric, short(&series.id));
        let direction = if key.higher_is_better { 1 } else { -1 };
        // Strings of JSON are strings of YAML.
        let _ = write!(
            tests,
            "  {}:\n    type: csv\n    file: {}\n    time_column: time\n    attributes: [run, source]\n    metrics:\n      \
             value:\n        direction: {direction}\n",
            serde_json::to_string(&name)?,
            serde_json::to_string(&path)?,
        );
    }
    if document.series.is_empty() {
        tests = "tests: {}\n".to_owned();
    }
    Ok(owner::replace(
        &directory.join("otava.yaml"),
        tests.as_bytes(),
    )?)
}

fn otava_table(series: &SeriesHistory) -> anyhow::Result<String> {
    let mut table = csv::Writer::from_writer(Vec::new());
    table.write_record(["time", "run", "source", "value"])?;
    for point in &series.points {
        let source = point.source.display().to_string();
        let value = point.value.to_string();
        table.write_record([&point.at, &point.run, &source, &value])?;
    }
    let table = table.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8(table)?)
}

// `fsb history prune`.

const PRUNE_EXAMPLES: &str = "\
Examples:
  fsb history prune --missing
  fsb history prune --before 2026-01-01
  fsb history prune --run 1f0c22aa";

/// Remove runs from the index; run directories stay
#[derive(Debug, Args)]
#[command(after_help = PRUNE_EXAMPLES)]
#[group(id = "what", required = true, multiple = true, args = ["missing", "before", "run"])]
struct PruneArguments {
    /// Runs whose directory or file does not exist any more
    #[arg(long)]
    missing: bool,
    /// Runs that began before this time
    #[arg(long, value_name = "TIME")]
    before: Option<String>,
    /// Run with this id or path
    #[arg(long, value_name = "RUN")]
    run: Vec<String>,
    #[command(flatten)]
    store: StoreArguments,
}

fn prune(arguments: &PruneArguments) -> anyhow::Result<u8> {
    let before = arguments
        .before
        .as_deref()
        .map(|text| time("--before", text))
        .transpose()?;
    let index = Index::read(arguments.store.open()?)?;
    let named = arguments
        .run
        .iter()
        .map(|text| Ok(find_run(&index, text)?.id.clone()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let goes = |run: &&IndexedRun| {
        before.as_ref().is_some_and(|before| run.at < *before)
            || named.contains(&run.id)
            || (arguments.missing && !run.source.exists())
    };
    let gone: Vec<IndexedRun> = index.runs.values().filter(goes).cloned().collect();
    let ids: Vec<String> = gone.iter().map(|run| run.id.clone()).collect();
    drop(index);
    arguments.store.open()?.remove(&ids)?;
    for run in &gone {
        print(&format!(
            "{}  {}  {}\n",
            short(&run.id),
            minute(&run.at),
            run.source.display()
        ))?;
    }
    notify_change(
        "removed",
        gone.len(),
        &format!("{} removed from the index", counted(gone.len(), "run")),
    );
    Ok(exit::DONE)
}

// `fsb history rebuild`.

const REBUILD_EXAMPLES: &str = "\
Examples:
  fsb history rebuild
  fsb history rebuild --store team.sqlite
  fsb history rebuild && fsb history changes";

/// Read all runs of the index again from their directories
///
/// Labels, and the times of results of other tools, are kept. A run whose directory does not exist
/// any more stays as it is.
#[derive(Debug, Args)]
#[command(after_help = REBUILD_EXAMPLES)]
struct RebuildArguments {
    #[command(flatten)]
    store: StoreArguments,
}

fn rebuild(arguments: &RebuildArguments) -> anyhow::Result<u8> {
    let mut store = arguments.store.open()?;
    let mut read = 0;
    for run in store.runs()? {
        let is_own = run.source.is_dir();
        let found = if is_own {
            Found::Run(run.source.clone())
        } else {
            Found::File(run.source.clone())
        };
        let at = (!is_own).then_some(run.at.as_str());
        let again = entries(&found, &run.name, at, &run.labels);
        let again = again.map(|entries| entries.into_iter().find(|entry| entry.run.id == run.id));
        match again {
            Ok(Some(entry)) => {
                store.add(&entry)?;
                read += 1;
            }
            Ok(None) => stays(&run, "it is another run now"),
            Err(error) => stays(&run, &format!("{error:#}")),
        }
    }
    store.remove(&[])?;
    notify_change(
        "read",
        read,
        &format!("{} read again", counted(read, "run")),
    );
    Ok(exit::DONE)
}

/// Prints how many runs of the index changed.
fn notify_change(change: &str, runs: usize, text: &str) {
    notify(
        &notice::INDEXED,
        [("change", change.into()), ("runs", runs.into())],
        text,
    );
}

/// Warns of a run that the index keeps as it is.
fn stays(run: &IndexedRun, why: &str) {
    let text = format!("warning: {}: kept as it is: {why}", run.source.display());
    notify(
        &notice::NOT_INDEXED,
        [("path", run.source.to_string_lossy().into())],
        &text,
    );
}
