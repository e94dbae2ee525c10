//! `fsb watch`: a run while it is measured, in a terminal.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fsb_report::WIDTH;
use fsb_report::live::{LiveRun, RunState};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::run::live::WatchedRun;
use crate::{exit, results, terminal};

const EXAMPLES: &str = "\
Examples:
  fsb watch                              the newest run in fsb-results
  fsb watch fsb-results/20261120T150405Z-ext4-xfs
  fsb watch /srv/run | head -2           progress and time, once";

/// Show a run while it is measured: table, intervals, interference, time left
///
/// Reads the directory that another fsb writes, and shows it anew after each trial until the run
/// ends. Ctrl-C ends only the view. Without a terminal, it prints the present state once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Run directory [default: the newest in fsb-results]
    #[arg(value_name = "RUN")]
    run: Option<PathBuf>,
}

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let directory = results::given_or_last(arguments.run.as_deref(), "watch")?;
    let stdout = std::io::stdout();
    let columns = terminal::columns_of_terminal(&stdout);
    let mut run = WatchedRun::new(&directory, columns.unwrap_or(WIDTH));
    let mut live = run.look()?;
    if stdout.is_terminal() && live.state == RunState::Measuring {
        live = follow(&mut run, live)?;
    }
    results::print(&live.to_text())?;
    let directory = directory.display();
    match live.state {
        RunState::Measuring => {}
        RunState::Complete => results::print(&format!("report: fsb report {directory}\n"))?,
        RunState::Interrupted | RunState::Killed => {
            results::print(&format!("resume with: fsb run --resume {directory}\n"))?;
        }
    }
    Ok(exit::DONE)
}

/// Shows the run in the same place of the terminal until it ends, and returns its last state.
fn follow(run: &mut WatchedRun, mut live: LiveRun) -> anyhow::Result<LiveRun> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
    bar.set_style(ProgressStyle::with_template("{msg}")?);
    while live.state == RunState::Measuring {
        bar.set_message(fitted(&live.to_text()));
        bar.tick();
        std::thread::sleep(EVERY);
        live = run.look()?;
    }
    bar.finish_and_clear();
    Ok(live)
}

/// Returns as much of a text as the terminal has room for.
fn fitted(text: &str) -> String {
    let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) else {
        return text.to_owned();
    };
    let (rows, columns) = (usize::from(size.ws_row), usize::from(size.ws_col));
    let line = |line: &str| {
        line.chars()
            .take(columns.saturating_sub(1))
            .collect::<String>()
    };
    let lines: Vec<String> = text
        .lines()
        .take(rows.saturating_sub(1))
        .map(line)
        .collect();
    lines.join("\n")
}
