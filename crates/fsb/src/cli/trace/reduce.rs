//! `fsb trace reduce`: reduces a trace to a flow with the same mixes.

use std::path::PathBuf;

use clap::Args;
use fsb_trace::{Reduction, TracePart, reduce};

use crate::results::print_data;
use crate::{exit, result_owner};

const EXAMPLES: &str = "\
Examples:
  fsb trace reduce app.trace
  fsb trace reduce app.trace -o app-flow.toml
  fsb list workloads flow                   the parameters of a flow";

/// Reduce a trace to a flow with the same mix of operations
///
/// A flow holds operations with their frequencies, and files with their sizes. It holds no names, no order and no times, so
/// it can be published. A plan contains it as flow = """…""" of the workload flow.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Trace to reduce
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Flow file to write [default: standard output]
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
            TracePart::Initial(states) => reduction.initial(&states),
            TracePart::Calls(calls) => calls.iter().for_each(|call| reduction.add(call)),
            TracePart::End(end) => totals = Some(*end),
        }
    }
    let text = reduce(&reduction, &totals.unwrap_or_default());
    match &arguments.output {
        Some(path) => result_owner::replace(path, text.as_bytes())?,
        None => print_data(&text)?,
    }
    Ok(exit::DONE)
}
