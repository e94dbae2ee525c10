//! `fsb publish`: one file with the report of a run and the run itself, without what identifies the
//! host.

use fsb_results::summary;
use std::path::{Path, PathBuf};

use clap::Args;
use fsb_engine::workload::{self, parameter::ParameterKind};
use fsb_model::anonymise::{Anonymiser, Vocabulary};
use fsb_model::publication::{Identifying, Publication, Removal, SCHEMA};
use fsb_model::{code, failure, nearest};
use fsb_report::Report;
use fsb_report::html::{self, PublishedRun};
use fsb_report::show::entry;
use fsb_runner::shipped_plan;
use fsb_runner::suite;
use fsb_store::owner;
use fsb_testbed::control;

use crate::message::say_warning;
use crate::results::{self, print};
use crate::run::record;
use crate::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  fsb publish                               the last run, as a page here
  fsb publish fsb-results/20261120T150405Z-ext4 -o ext4.html
  fsb publish RUN --keep names,commands     with the names that you gave
  fsb compare ext4.html xfs.html            reads pages, too";

/// Publish a run as one page that others can compare
///
/// The page holds the report, the record of the run and every trial. The commands report and
/// compare read them from it. Names of the host, the command line of its kernel, users, serial
/// numbers and paths are removed. So are commands, their output, names that you gave, and sentences
/// that may quote any of these. The page lists what was removed. Models of processor and disks,
/// kernel, distribution, versions and options stay, because results depend on them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_args(|argument| argument.help_heading(None::<&'static str>).hide_short_help(false)))]
pub struct Arguments {
    /// Run directory [default: the last one in fsb-results]
    #[arg(value_name = "RUN")]
    directory: Option<PathBuf>,
    /// Page to write [default: the time and the targets of the run]
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep these: host, user, serials, devices, paths, commands, names, texts
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    keep: Vec<String>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let keep = arguments
        .keep
        .iter()
        .map(|word| identifying(word))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(output) = &arguments.output {
        check_output(output)?;
    }
    let directory = results::given_or_last(arguments.directory.as_deref(), "publish")?;
    if fsb_store::is_page(&directory) {
        let message = format!("{} is a published page already", directory.display());
        return Err(failure::advised(
            &code::CONFLICT,
            message,
            "copy it, or name the directory of a run",
        ));
    }
    let fsb_store::Contents {
        mut record,
        mut trials,
        warnings,
    } = fsb_store::read(&directory)?;
    warnings.iter().for_each(say_warning);
    if record.plan.race.is_some() {
        let message = "the result of fsb choose has no page";
        let help = "publish its winner against others: fsb run, then fsb publish";
        return Err(failure::advised(&code::CONFLICT, message, help));
    }
    let vocabulary = Vocabulary {
        parameter: &is_plain_parameter,
        control: &is_plain_control,
        plan: &is_shipped,
    };
    let mut anonymiser = Anonymiser::new(vocabulary, keep.iter().copied());
    anonymiser.record(&mut record)?;
    for trial in &mut trials {
        anonymiser.trial(trial)?;
    }
    let publication = Publication {
        schema: SCHEMA.to_owned(),
        fsb_version: env!("CARGO_PKG_VERSION").to_owned(),
        removed: anonymiser.removed(),
        kept: keep.iter().map(|class| class.name().to_owned()).collect(),
    };
    let element = fsb_store::page_element(&publication, &record, &trials)?;
    let removed: Vec<String> = publication.removed.iter().map(Removal::line).collect();
    let run = PublishedRun {
        element: &element,
        removed: &removed,
        kept: &publication.kept,
    };
    let summary = summary::of_run_in_memory(&record, &trials);
    let report = Report::of_run(&summary, &trials);
    let started = record
        .segments
        .first()
        .map(|segment| segment.started.as_str())
        .unwrap_or_default();
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| default_output(started, &record::run_name(&record.plan)));
    owner::replace_with(&output, |file| html::write_published(&report, &run, file))?;
    print(&listed(&output, &removed, &publication.kept))?;
    Ok(exit::DONE)
}

/// Returns the class of values of that name.
fn identifying(word: &str) -> anyhow::Result<Identifying> {
    let known = Identifying::ALL
        .into_iter()
        .find(|class| class.name() == word);
    known.ok_or_else(|| {
        let names = Identifying::ALL.into_iter().map(Identifying::name);
        failure::error(
            &code::INVALID_VALUE,
            format!(
                "--keep: {}",
                nearest::unknown("class of values", word, names)
            ),
        )
    })
}

/// Refuses a name that implies another format.
fn check_output(output: &Path) -> anyhow::Result<()> {
    match output.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Ok(()),
        _ => Err(failure::advised(
            &code::CONFLICT,
            format!("-o {}: a published run is a page", output.display()),
            format!("write -o {}.html", output.with_extension("").display()),
        )),
    }
}

/// Returns a path such as `20261120T150405Z-ext4-xfs.html`.
fn default_output(started: &str, targets: &str) -> PathBuf {
    let time: String = started
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    let names = [time.as_str(), targets]
        .into_iter()
        .filter(|part| !part.is_empty());
    format!("{}.html", names.collect::<Vec<_>>().join("-")).into()
}

/// Returns the report for the terminal: the page, and what is not in it.
fn listed(output: &Path, removed: &[String], kept: &[String]) -> String {
    let columns = terminal::columns(std::io::stdout());
    let mut text = format!("{}\n", output.display());
    match removed {
        [] => text += "removed: nothing\n",
        removed => removed
            .iter()
            .for_each(|line| text += &format!("{}\n", entry("removed: ", line, columns))),
    }
    if !kept.is_empty() {
        text += &format!("{}\n", entry("kept: ", &kept.join(", "), columns));
    }
    text
}

// The vocabularies of the registries.

/// Returns whether values of the parameter are words, numbers, sizes and the like.
fn is_plain_parameter(workload: &str, parameter: &str) -> bool {
    let found = workload::REGISTRY
        .iter()
        .find(|member| member.name() == workload);
    let declared = found.and_then(|member| {
        member
            .parameters()
            .into_iter()
            .find(|known| known.name == parameter)
    });
    declared.is_some_and(|declared| match declared.kind {
        ParameterKind::Size(_)
        | ParameterKind::Number(_)
        | ParameterKind::Integer(_)
        | ParameterKind::Fraction(_)
        | ParameterKind::Flag
        | ParameterKind::Word(_)
        | ParameterKind::Duration(_)
        | ParameterKind::Percent
        | ParameterKind::Rate(_)
        | ParameterKind::Pace
        | ParameterKind::ExitCodes => true,
        // The engine refuses every text that is not a distribution.
        ParameterKind::Text => parameter == "distribution",
        ParameterKind::Lines
        | ParameterKind::Path
        | ParameterKind::Paths
        | ParameterKind::Command
        | ParameterKind::Table(_)
        | ParameterKind::Tables(_) => false,
    })
}

/// Returns whether values of the control are words and numbers: those of `services` are names of
/// units.
fn is_plain_control(name: &str) -> bool {
    name != "services" && control::find(name).is_ok()
}

/// Returns whether a suite or a plan of the program has this name.
fn is_shipped(name: &str) -> bool {
    let own = format!("name = \"{name}\"");
    suite::REGISTRY.iter().any(|suite| suite.name == name)
        || shipped_plan::REGISTRY.iter().any(|plan| {
            plan.name.strip_suffix(".toml") == Some(name)
                || plan.text.lines().any(|line| line == own)
        })
}
