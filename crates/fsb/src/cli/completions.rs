//! `fsb completions`: what a shell needs to complete the command line.

use clap::Args;
use clap_complete::{Shell, generate};

use super::COMPACT_HELP;
use crate::exit;
use crate::results::print;

const MORE: &str = "\
Examples:
  eval \"$(fsb completions bash)\"                       for this shell
  fsb completions bash > ~/.local/share/bash-completion/completions/fsb
  fsb completions zsh > ~/.zfunc/_fsb                  with ~/.zfunc in fpath
  fsb completions fish > ~/.config/fish/completions/fsb.fish";

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP, override_usage = "fsb completions bash|zsh|fish")]
pub struct Arguments {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    generate(arguments.shell, &mut super::unabridged(), "fsb", &mut text);
    print(&String::from_utf8(text)?)?;
    Ok(exit::DONE)
}
