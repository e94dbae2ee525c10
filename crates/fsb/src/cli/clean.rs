//! `fsb clean`: undo what a killed run left behind.

use clap::Args;

use super::COMPACT_HELP;
use crate::exit;
use crate::front;
use crate::results::print;

const MORE: &str = "\
A killed run's mounts, loop devices, images and processes go with it. What the kernel does not take
back (a setting, swap, a service, a directory of fsb's own) is undone by the run's watcher; where that
was killed too, or the power failed, it stands in the undo ledger.
Examples:
  sudo fsb clean            undo it
  sudo fsb clean --list     only say what would be undone
  sudo fsb clean && sudo fsb run ext4 xfs";

/// Undo what killed runs left behind; every measuring run does so before it begins
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP)]
pub struct Arguments {
    /// Only say what would be undone
    #[arg(long)]
    list: bool,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    // Whoever asks must be told where nothing can be found.
    fsb_testbed::ledger::default_directory()?;
    let (lines, complete) = if arguments.list { front::leftovers() } else { front::replay() };
    if lines.is_empty() {
        print("nothing to undo\n")?;
    }
    for line in lines {
        print(&format!("{line}\n"))?;
    }
    Ok(if complete { exit::DONE } else { exit::MACHINE })
}
