//! `fsb compare`: compares sets of results of fsb or of other tools.

mod requests;
mod target_by_target;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fsb_model::nearest;
use fsb_model::units::parse_percent;
use fsb_report::mark;
use fsb_report::{Format, Report, WIDTH, condition_text, text};
use fsb_stats::compare::{Collected, Document, Single};

use crate::gate::Judged;
use crate::results::{self, print_data, print_exactly, print_report};
use crate::stderr::say;
use crate::{code, exit, gate, result_owner, sets};
use crate::{color, columns};
use requests::{Requests, compared};
use target_by_target::TargetByTarget;

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

/// Compare sets of results: fsb's, fio's, IOzone's and others
///
/// Reads results of fsb, fio, IOzone, bonnie++, PostMark, filebench, sysbench, IOR, mdtest and the Phoronix Test Suite. A
/// PATH is a file, a directory, a quoted pattern, or a run directory of fsb, which holds one set per target.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "fsb compare [OPTIONS] [NAME=]PATH[,PATH…] …")]
pub struct Arguments {
    /// Set of results to compare
    #[arg(value_name = "SET", required = true, hide_short_help = true)]
    sets: Vec<OsString>,
    /// Set that others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Operation to show size by size, such as random_read or randrd; html and csv include every value
    #[arg(long, value_name = "OP")]
    detail: Option<String>,
    /// Smallest difference that matters
    #[arg(long, value_name = "P", default_value = THETA)]
    theta: String,
    /// Relative standard deviation between runs, for sets that do not show it
    #[arg(long, value_name = "P")]
    between: Option<String>,
    /// Exit with 1 if a set is slower than the baseline by more than --theta
    #[arg(long, value_name = "slower", hide_possible_values = true)]
    fail_if: Option<FailIf>,
    /// Format, such as html or xlsx: see fsb list formats
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Report file, such as a.html, a.pdf, a.csv, a.summary.csv: its name implies the format
    #[arg(short = 'o', long = "output-file", value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailIf {
    /// An operation or a finding is slower for sure, by more than matters.
    Slower,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let format = format(arguments)?;
    let theta = parse_percent(&arguments.theta)
        .map_err(|error| exit::failure(&code::INVALID_VALUE, format!("--theta: {error}")))?;
    let between = arguments.between.as_deref().map(parse_percent).transpose();
    let between = between.map_err(|error| exit::failure(&code::INVALID_VALUE, format!("--between: {error}")))?;
    let mut read = sets::read(&arguments.sets)?;
    if let Some(output) = &arguments.output {
        spare_inputs(output, &read.files)?;
    }
    let baseline = baseline(&read.sets, arguments.baseline.as_deref())?;
    let contents: Vec<sets::Contents> = read.sets.iter().map(sets::Contents::of).collect();
    let asked = arguments.detail.as_deref().map(asked);
    // Only a reader of one operation, or of the chart of an operation with one cell, sees single values.
    let single = match &asked {
        Some(asked) => Single::Of(asked),
        None if format.name == HTML => Single::Lone,
        None => Single::None,
    };
    let targets = target_by_target::shared(&read.origins, baseline);
    let elsewhere = target_by_target::of_other_arguments(&read, baseline);
    let all = std::mem::take(&mut read.sets);
    let requests = Requests::of(theta, between, &read.runs);
    let mut document = compared(all, &read, &requests.of_values(baseline), single)?;
    if document.operations.is_empty() {
        return Err(exit::failure(
            &code::NOTHING_TO_COMPARE,
            format!("nothing to compare: {}", sets::contents(&contents)),
        ));
    }
    let detail = arguments.detail.as_deref().map(|typed| detail(typed, &document)).transpose()?;
    let is_text = arguments.output.is_none() && format.name == TEXT;
    let by_target = match is_text || arguments.fail_if.is_some() {
        true => target_by_target::compared_by_target(&arguments.sets, &targets, &requests)?,
        false => TargetByTarget::default(),
    };
    if is_text && !by_target.changes.is_empty() {
        // The answer to "what changed" comes before the table of all sets, and the conditions before any number.
        let conditions = std::mem::take(&mut document.conditions);
        print_data(&target_by_target::text(&conditions, &by_target))?;
    }
    emit(arguments, format, &document, &Report::of_comparison(&document, detail.as_deref()))?;
    if arguments.fail_if != Some(FailIf::Slower) {
        return Ok(exit::DONE);
    }
    if !document.withheld
        && let Some(code) = gate::refused(&read.runs)?
    {
        return Ok(code);
    }
    let of_targets = &by_target.changes;
    if of_targets.is_empty() {
        return Ok(gate::slower(&[Judged::all(&document)]));
    }
    let mut judged: Vec<Judged<'_>> = of_targets.iter().map(Judged::all).collect();
    // Sets that share no target with the baseline's run are compared with the baseline, as in a comparison without
    // targets.
    let met = |name: &str| of_targets.iter().any(|document| document.sets.iter().any(|set| set.name == name));
    let sets: Vec<&str> = elsewhere.iter().map(String::as_str).filter(|name| !met(name)).collect();
    if !sets.is_empty() {
        judged.push(Judged { document: &document, sets });
    }
    Ok(gate::slower(&judged))
}

/// Returns the format of the report.
fn format(arguments: &Arguments) -> anyhow::Result<&'static Format> {
    let file = arguments.output.as_deref();
    let found = results::format_of(arguments.format.as_deref(), file)?;
    results::check_terminal(found, file)?;
    Ok(found)
}

/// Refuses to overwrite an input file with the report, after a typing error.
fn spare_inputs(output: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    // A file that does not exist yet cannot be one of the inputs.
    let Some(there) = sets::identity(output) else { return Ok(()) };
    match inputs.iter().any(|input| sets::identity(input) == Some(there)) {
        true => Err(exit::failure(
            &code::CONFLICT,
            format!("-o {} is one of the files to compare: name another", output.display()),
        )),
        false => Ok(()),
    }
}

fn baseline(sets: &[Collected], name: Option<&str>) -> anyhow::Result<usize> {
    let Some(name) = name else { return Ok(0) };
    let names = sets.iter().map(|set| set.name.as_str());
    let found = names.clone().position(|known| known == name || known.strip_suffix(mark::UNSAFE) == Some(name));
    found.ok_or_else(|| {
        exit::failure(&code::UNKNOWN_SET, format!("--baseline: {}", nearest::unknown("set", name, names)))
    })
}

/// Returns a predicate for operations and workloads that have the typed name. It accepts at least the names that
/// [`detail`] accepts, which is called later.
fn asked(typed: &str) -> impl Fn(Option<&str>, &str) -> bool + Sync {
    let names: Vec<String> =
        [Some(typed), fsb_compat::operation(typed)].into_iter().flatten().map(str::to_owned).collect();
    let is_named = move |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    move |workload, operation| workload.is_some_and(&is_named) || is_named(operation)
}

/// Returns the operation or workload that the user means, by the name in the document or by one of its other names.
fn detail(typed: &str, document: &Document) -> anyhow::Result<String> {
    let mut names: Vec<&str> = Vec::new();
    for operation in &document.operations {
        let both = operation.workload.as_deref().into_iter().chain([operation.operation.as_str()]);
        both.for_each(|name| {
            if !names.contains(&name) {
                names.push(name)
            }
        });
    }
    let known = |name: &str| names.iter().find(|known| known.eq_ignore_ascii_case(name)).map(|name| (*name).to_owned());
    let found = known(typed).or_else(|| known(fsb_compat::operation(typed)?));
    found.ok_or_else(|| {
        exit::failure(&code::UNKNOWN_OPERATION, format!("--detail: {}", nearest::unknown("operation", typed, names)))
    })
}

fn emit(arguments: &Arguments, format: &Format, document: &Document, report: &Report<'_>) -> anyhow::Result<()> {
    let is_text = arguments.output.is_none() && format.name == TEXT;
    // The first screen has the warnings on it, wherever it goes.
    if !is_text {
        let conditions = document.conditions.iter().map(condition_text);
        let warnings = conditions.chain(document.warnings.iter().cloned());
        warnings.for_each(|warning| say(&format!("warning: {warning}")));
    }
    match &arguments.output {
        Some(path) => Ok(result_owner::replace_with(path, |file| (format.write)(report, file))?),
        None if is_text => {
            let width = columns::of_terminal(std::io::stdout()).unwrap_or(WIDTH);
            print_exactly(&text::screen(report, width, color::is_on(&std::io::stdout()), true))
        }
        None => print_report(format, report),
    }
}
