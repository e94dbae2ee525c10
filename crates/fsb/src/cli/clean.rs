//! `fsb clean`: undoes changes that killed runs left behind.

use clap::Args;

use crate::coordinator;
use crate::exit;
use crate::results::print;

const EXAMPLES: &str = "\
Examples:
  sudo fsb clean            undo the changes of killed runs
  sudo fsb clean --list     list them only
  sudo fsb clean && sudo fsb run ext4 xfs";

/// Undo the changes that killed runs left behind
///
/// The kernel removes mounts, loop devices, images and processes of a killed run. The watcher of the run reverts other
/// changes: settings, swap, services and directories. If the watcher was killed too, or the power failed, the undo ledger
/// still lists them. Each measuring run cleans up first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// List the changes, do not undo them
    #[arg(long)]
    list: bool,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    // Without a ledger directory, fail instead of printing that there is nothing to undo.
    fsb_testbed::ledger::default_directory()?;
    let (lines, complete) = if arguments.list { coordinator::leftovers() } else { coordinator::replay() };
    if lines.is_empty() {
        print("nothing to undo\n")?;
    }
    for line in lines {
        print(&format!("{line}\n"))?;
    }
    Ok(if complete { exit::DONE } else { exit::MACHINE })
}
