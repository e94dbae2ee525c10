//! `fsb man`: manual pages for packages, from the same definition as `--help`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use fsb_model::{code, failure};

use crate::exit;

const EXAMPLES: &str = "\
Examples:
  fsb man /usr/local/share/man/man1  for all users of this machine
  fsb man ~/.local/share/man/man1    for one user
  fsb man . && man -l ./fsb-run.1    to read one";

/// Write manual pages into a directory: fsb.1 and one per subcommand
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Directory of the pages; fsb creates it if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs the subcommand.
pub fn main(arguments: &Arguments, mut root: Command) -> anyhow::Result<u8> {
    let directory = &arguments.directory;
    if let Some(name) = directory
        .to_str()
        .filter(|name| root.find_subcommand(name).is_some() && !directory.is_dir())
    {
        return Err(failure::advised(
            &code::DIRECTORY,
            format!("{name} is a command, and fsb man writes its pages into a directory"),
            format!("write fsb man . && man -l ./fsb-{name}.1"),
        ));
    }
    if directory.exists() && !directory.is_dir() {
        return Err(failure::advised(
            &code::DIRECTORY,
            format!("{} is not a directory", directory.display()),
            "name a directory for the pages",
        ));
    }
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    root.build();
    write(&root, directory)?;
    Ok(exit::DONE)
}

/// Writes the pages of a command and of its subcommands.
fn write(command: &Command, directory: &Path) -> anyhow::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
        .try_for_each(|inner| write(inner, directory))
}

/// Renders the page of a command.
pub fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
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
    text.extend(verbatim(command));
    Ok(text)
}

/// Renders the usage as in `--help`.
fn synopsis(command: &Command) -> Vec<u8> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    format!(".SH SYNOPSIS\n{}\n", escaped(usage)).into_bytes()
}

/// Renders the sections after the options, such as the examples, with their line breaks.
fn verbatim(command: &Command) -> Vec<u8> {
    let Some(after) = command.get_after_help() else {
        return Vec::new();
    };
    let after = after.to_string();
    let sections = after
        .split("\n\n")
        .filter_map(|section| section.split_once(":\n"));
    sections
        .map(|(title, text)| {
            let lines: String = text.lines().map(|line| escaped(line) + "\n").collect();
            format!(".SH {}\n.nf\n{lines}.fi\n", title.to_uppercase())
        })
        .collect::<String>()
        .into_bytes()
}

/// Escapes a line for troff. A dot or an apostrophe at its beginning would be a command.
fn escaped(line: &str) -> String {
    let guard = if line.starts_with(['.', '\'']) {
        "\\&"
    } else {
        ""
    };
    format!("{guard}{}", line.replace('\\', "\\e").replace('-', "\\-"))
}
