//! `fsb clean`: undoes changes that killed runs left behind.

use clap::Args;
use fsb_model::notice;

use crate::exit;
use crate::message::{self, MessageFormat, notify};
use crate::results::print;
use crate::run::stage;
use crate::run::stage::Leftover;

const EXAMPLES: &str = "\
Examples:
  sudo fsb clean            undo the changes of killed runs
  sudo fsb clean --list     list them only
  sudo fsb clean && sudo fsb run ext4 xfs";

/// Undo the changes that killed runs left behind
///
/// The kernel removes mounts, loop devices, images and processes of a killed run. The watcher of
/// the run reverts other changes: settings, swap, services and directories. If the watcher was
/// killed too, or the power failed, the undo ledger still lists them. Each measuring run cleans up
/// first.
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
    let (changes, complete) = if arguments.list {
        stage::leftovers()
    } else {
        stage::replay()
    };
    let json = message::format() == MessageFormat::Json;
    if changes.is_empty() && !json {
        print("nothing to undo\n")?;
    }
    for Leftover { state, file, text } in changes {
        match json {
            true => notify(
                &notice::CHANGE,
                [
                    ("state", state.into()),
                    ("path", file.to_string_lossy().into()),
                ],
                &text,
            ),
            false => print(&format!("{text}\n"))?,
        }
    }
    Ok(if complete { exit::DONE } else { exit::MACHINE })
}
