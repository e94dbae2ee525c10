//! `fsb man`: manual pages from the same description as `--help`, for whoever makes a package.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use super::COMPACT_HELP;
use crate::exit;

const MORE: &str = "\
Examples:
  fsb man /usr/local/share/man/man1     for all users of this machine
  fsb man ~/.local/share/man/man1       for one
  fsb man . && man -l ./fsb-run.1       to look at";

/// Write manual pages into a directory: fsb.1, and one a subcommand
#[derive(Debug, Args)]
#[command(after_help = MORE, help_template = COMPACT_HELP)]
pub struct Arguments {
    /// Where they go; it is made if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments) -> anyhow::Result<u8> {
    let directory = &arguments.directory;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut root = super::unabridged();
    root.build();
    write(&root, directory)?;
    Ok(exit::DONE)
}

/// The page of a command, and those of its subcommands.
fn write(command: &Command, directory: &Path) -> anyhow::Result<()> {
    let subcommands = || command.get_subcommands().filter(|inner| !inner.is_hide_set());
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?).with_context(|| format!("cannot write {}", path.display()))?;
    subcommands().try_for_each(|inner| write(inner, directory))
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let man = Man::new(command.clone()).manual("FSBench");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend(synopsis(command));
    man.render_description_section(&mut text)?;
    if command.get_opts().next().is_some() || command.get_positionals().next().is_some() {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    // Lines of examples keep their breaks.
    text.extend(verbatim(command));
    Ok(text)
}

/// As `--help` has it: the usage that a command states itself.
fn synopsis(command: &Command) -> Vec<u8> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    format!(".SH SYNOPSIS\n{}\n", escaped(usage)).into_bytes()
}

fn verbatim(command: &Command) -> Vec<u8> {
    let Some(after) = command.get_after_help() else { return Vec::new() };
    let lines: String = after.to_string().lines().map(|line| escaped(line) + "\n").collect();
    format!(".SH NOTES AND EXAMPLES\n.nf\n{lines}.fi\n").into_bytes()
}

/// A line that troff prints as it is. A dot or an apostrophe at its beginning would be a command.
fn escaped(line: &str) -> String {
    let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
    format!("{guard}{}", line.replace('\\', "\\e").replace('-', "\\-"))
}
