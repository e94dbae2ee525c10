//! `fsb doctor`: what this machine can measure, and what would disturb it.

use std::path::PathBuf;

use clap::Args;
use fsb_testbed::doctor::{self, State};

use super::COMPACT_HELP;
use crate::exit;
use crate::results::print;

const MORE: &str = "\
Examples:
  fsb doctor                    what can be measured here, and what is missing
  sudo fsb doctor               the same with the privileges that formatting needs
  sudo fsb doctor --dir /data   whether /data can hold the image";

/// Say what this machine can measure, what is missing, and what would disturb a run
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP)]
pub struct Arguments {
    /// Where images would live
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let findings = doctor::examine(&arguments.dir);
    let width = findings.iter().map(|finding| finding.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in &findings {
        let state = match finding.state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Missing => "missing",
        };
        text += &format!("{state}  {:width$}  {}\n", finding.topic, finding.text);
        if !finding.advice.is_empty() {
            text += &format!("         {:width$}  → {}\n", "", finding.advice);
        }
    }
    print(&text)?;
    Ok(exit::DONE)
}
