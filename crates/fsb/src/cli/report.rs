//! `fsb report`: prints the report of a run again.

use std::path::{Path, PathBuf};

use clap::Args;
use fsb_compat::identify_file;
use fsb_model::{code, failure, nearest};
use fsb_report::choice::Choice;
use fsb_report::{Report, commands};
use fsb_results::{Latencies, StoredRun, directory, summary};
use fsb_store::{NO_RUN, StoreError, owner};

use crate::message::say_warning;
use crate::results::{self, Output};
use crate::run::bisect;
use crate::{exit, wrong_kind};

const EXAMPLES: &str = "\
Examples:
  fsb report            the first screen of the last run
  fsb report --notes    with all notes and warnings
  fsb report fsb-results/20261120T150405Z-ext4 --format csv | column -ts,
  fsb report fsb-results/20261120T150405Z-ext4 -o figures/
  fsb report fsb-results/20261120T150405Z-ext4 --commands";

/// Print the report of a run, finished or not
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_args(|argument| argument.help_heading(None::<&'static str>).hide_short_help(false)))]
pub struct Arguments {
    /// Run, or page of 'fsb publish' [default: the last one in fsb-results]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Print the mkfs, mount and fstab lines of targets
    #[arg(long, value_name = "TARGET", num_args = 0..=1, conflicts_with_all = ["format", "files", "tails", "notes"])]
    commands: Option<Option<String>>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    arguments.output.resolve()?;
    let directory = results::given_or_last(arguments.directory.as_deref(), "report")?;
    if directory.join(bisect::FILE).is_file() {
        return report_bisection(&directory, arguments);
    }
    let run = StoredRun::read(&directory, Latencies::Added)
        .map_err(|error| of_no_run(&directory, error))?;
    run.warnings.iter().for_each(say_warning);
    if let Some(only) = &arguments.commands {
        print_commands(&run, only.as_deref())?;
        return Ok(exit::DONE);
    }
    if let Some(choice) = Choice::from_run(&run.record, &run.trials) {
        arguments.output.emit_choice(&choice)?;
        return Ok(exit::DONE);
    }
    let summary = summary::of_stored(&run);
    let report = Report::of_shown(&summary, &run.trials);
    arguments.output.emit(&report)?;
    Ok(exit::DONE)
}

/// Prints the answer of a bisection, or what is known so far.
fn report_bisection(directory: &Path, arguments: &Arguments) -> anyhow::Result<u8> {
    let is_plain = arguments.output.is_first_screen() && arguments.commands.is_none();
    if !is_plain {
        return Err(failure::advised(
            &code::CONFLICT,
            format!(
                "{} is a bisection, which has no other format",
                directory.display()
            ),
            "leave the options out; its file bisect.json holds all data",
        ));
    }
    results::print(&bisect::read(directory)?.screen(0))?;
    Ok(exit::DONE)
}

/// Returns the error for a path that is not a run, with a description of the path.
fn of_no_run(path: &Path, error: StoreError) -> anyhow::Error {
    if !matches!(error, StoreError::NoRun(_)) {
        return error.into();
    }
    let shown = path.display();
    if owner::looking(|| std::fs::symlink_metadata(path).is_err()).unwrap_or(true) {
        let help = match path.extension() {
            Some(_) => format!("name the run before the file to write: fsb report RUN -o {shown}"),
            None => "name the directory of a run, such as one in fsb-results".to_owned(),
        };
        return failure::advised(&NO_RUN, format!("{shown} does not exist"), help);
    }
    if let Some(failure) = wrong_kind::failure(path, identify_file(path), "fsb report", &NO_RUN) {
        return failure;
    }
    match directory::run_directories(path).into_iter().max() {
        Some(run) => failure::advised(
            &NO_RUN,
            format!("{shown} is a directory of several runs"),
            format!(
                "print one of them, such as fsb report {}, or compare it with another set: fsb compare {shown} SET",
                run.display()
            ),
        ),
        None => error.into(),
    }
}

/// Prints the commands of all targets, the winner first, or of one.
fn print_commands(run: &StoredRun, only: Option<&str>) -> anyhow::Result<()> {
    let mut targets = match Choice::from_run(&run.record, &run.trials) {
        Some(choice) => choice.ranked(),
        None => commands::by_wins(&summary::of_trials(&run.record, &run.trials, None)),
    };
    if let Some(name) = only {
        let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        targets.retain(|target| target.name == name);
        if targets.is_empty() {
            let message = nearest::unknown("target", name, names.iter().map(String::as_str));
            // The run directory is easily put behind the option.
            let first = if Path::new(name).is_dir() {
                "; the run directory comes before --commands"
            } else {
                ""
            };
            return Err(failure::error(
                &code::UNKNOWN_TARGET,
                format!("--commands: {message}{first}"),
            ));
        }
    }
    results::print(&commands::text(&run.record, &targets))
}
