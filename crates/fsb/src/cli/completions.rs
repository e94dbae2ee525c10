//! `fsb completions`: completion scripts for shells.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::exit;
use crate::results::print;

const EXAMPLES: &str = "\
Examples:
  eval \"$(fsb completions bash)\"       for this shell
  fsb completions bash > ~/.local/share/bash-completion/completions/fsb
  fsb completions zsh > ~/.zfunc/_fsb  with ~/.zfunc in fpath
  fsb completions fish > ~/.config/fish/completions/fsb.fish";

/// Print completions for bash, zsh or fish
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "fsb completions bash|zsh|fish")]
pub struct Arguments {
    /// Shell: bash, zsh or fish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    shell: Shell,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, mut tree: Command) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    generate(arguments.shell, &mut tree, "fsb", &mut text);
    print(&String::from_utf8(text)?)?;
    Ok(exit::DONE)
}
