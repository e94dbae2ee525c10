//! `fsb doctor`: prints what this machine can measure, and what would interfere.

mod file_systems;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fsb_codes::notice;
use fsb_report::show::entry;
use fsb_testbed::doctor::{self, Finding, State};

use crate::columns;
use crate::exit;
use crate::results::print;
use crate::stderr::notify;

/// Long enough to observe periodic activity: journals commit every five seconds.
const LISTEN: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  fsb doctor                    check as an unprivileged user
  sudo fsb doctor               check with the privileges that formatting needs
  sudo fsb doctor --dir /data   check free space and other activity on /data
  fsb doctor --quick            skip the ten seconds of watching";

/// Check what this machine can measure and what would interfere
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of images
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Do not watch the machine's other activity for ten seconds
    #[arg(long)]
    quick: bool,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let mut findings = doctor::examine(&arguments.dir);
    if !arguments.quick {
        let text = "watching other load on this machine for ten seconds (--quick skips this)";
        notify(&notice::WATCHING, [("seconds", 10.into())], text);
        findings.extend(doctor::listen(&arguments.dir, LISTEN));
    }
    let root = rustix::process::geteuid().is_root();
    let columns = columns::of(std::io::stdout());
    let file_systems = file_systems::table(&doctor::file_systems(), &file_systems::Vm::look(), root, columns);
    print(&format!("{}\n{file_systems}", table(&findings, columns)))?;
    Ok(exit::DONE)
}

fn table(findings: &[Finding], columns: usize) -> String {
    let width = findings.iter().map(|finding| finding.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Missing => "missing",
            State::Absent => "absent ",
        };
        text += &entry(&format!("{state}  {:width$}  ", finding.topic), &finding.text, columns);
        text.push('\n');
        if !finding.advice.is_empty() {
            text += &entry(&format!("         {:width$}  → ", ""), &finding.advice, columns);
            text.push('\n');
        }
    }
    text
}
