//! `fsb report`: show a run again.

use std::path::PathBuf;

use clap::Args;
use fsb_report::Report;
use fsb_report::choice::Choice;

use crate::results::{self, Output};
use crate::stderr::say;
use crate::{code, earlier, exit, stored};

const EXAMPLES: &str = "\
Examples:
  fsb report            the first screen of the last run
  fsb report --notes    with all notes and warnings
  fsb report fsb-results/20261120T150405Z-ext4 -o report.html
  fsb report fsb-results/20261120T150405Z-ext4 --tails
  fsb report fsb-results/20261120T150405Z-ext4 --format csv | column -ts,";

/// Print the report of a run, finished or not
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_args(|argument| argument.help_heading(None::<&'static str>).hide_short_help(false)))]
pub struct Arguments {
    /// Run directory [default: the last one in fsb-results]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    arguments.output.resolve()?;
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => results::newest_directory().ok_or_else(|| {
            exit::failure(&code::MISSING, "no run directory in fsb-results: name the directory of a run")
        })?,
    };
    let run = stored::read(&directory)?;
    run.warnings.iter().for_each(|warning| say(&format!("warning: {warning}")));
    if let Some(choice) = Choice::of(&run.record, &run.trials) {
        arguments.output.of_choice()?;
        arguments.output.emit_choice(&choice)?;
        return Ok(exit::DONE);
    }
    let summary = results::summary_of_shown(&run.record, &run.trials);
    let summary = earlier::with_last_run(summary, &run.record, &directory);
    arguments.output.emit(&Report::of_shown(&summary, &run.trials))?;
    Ok(exit::DONE)
}
