//! `fsb trace reduce`: a flow with a trace's mixes.

use std::path::PathBuf;

use clap::Args;
use fsb_trace::{Part, Reduction, reduce};

use crate::cli::COMPACT_HELP;
use crate::results::print_data;
use crate::{author, exit};

const MORE: &str = "\
A flow says what is done how often, to how many files of which size: no names,
no order, no times. In a plan it stands as flow = \"\"\"…\"\"\" of the workload flow.
Examples:
  fsb trace reduce app.trace
  fsb trace reduce app.trace -o app-flow.toml
  fsb list workloads flow                   what plans can say of flows";

/// Make a flow with the same mixes, for publication
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP)]
pub struct Arguments {
    /// A trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where the flow goes [standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let mut reader = super::open(&arguments.file)?;
    let mut reduction = Reduction::default();
    let mut totals = None;
    while let Some(part) = reader.next_part().map_err(|error| super::unread(&arguments.file, &error))? {
        match part {
            Part::Initial(states) => reduction.initial(&states),
            Part::Calls(calls) => calls.iter().for_each(|call| reduction.add(call)),
            Part::End(end) => totals = Some(*end),
        }
    }
    let text = reduce(&reduction, &totals.unwrap_or_default());
    match &arguments.output {
        Some(path) => author::replace(path, text.as_bytes())?,
        None => print_data(&text)?,
    }
    Ok(exit::DONE)
}
