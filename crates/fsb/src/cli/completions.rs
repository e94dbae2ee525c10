//! `fsb completions`: completion scripts for shells.

use std::fmt::Write;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, Id};
use clap_complete::{Shell, generate};
use fsb_testbed::{control, fs};

use super::list;
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
    tree = with_names(tree);
    if arguments.shell == Shell::Bash {
        tree = with_targets(tree);
    }
    generate(arguments.shell, &mut tree, "fsb", &mut text);
    let mut text = String::from_utf8(text)?;
    if arguments.shell == Shell::Bash {
        text += &mount_options();
    }
    print(&text)?;
    Ok(exit::DONE)
}

/// Adds the names of the registries to arguments. The parser does not use them: it also accepts
/// text that begins with a name.
fn with_names(tree: Command) -> Command {
    let controls = || {
        control::REGISTRY
            .iter()
            .map(|control| control.name().to_owned())
            .collect()
    };
    let suites = || {
        fsb_runner::suite::REGISTRY
            .iter()
            .map(|suite| suite.name.to_owned())
            .collect()
    };
    tree.mut_subcommand("run", |run| {
        with_values(run, [("suite", suites()), ("control", controls())])
    })
    .mut_subcommand("choose", |choose| {
        with_values(choose, [("suite", suites())])
    })
    .mut_subcommand("export", |export| {
        with_values(export, [("suite", suites())])
    })
    .mut_subcommand("list", |list| {
        with_values(
            list,
            [("family", list::families()), ("member", list::members())],
        )
    })
}

/// Adds the names of file systems to targets. Other shells would then complete no paths there.
fn with_targets(tree: Command) -> Command {
    let file_systems = || {
        fs::REGISTRY
            .iter()
            .map(|member| member.name().to_owned())
            .collect()
    };
    let raced = |command| with_values(command, [("targets", file_systems())]);
    tree.mut_subcommand("run", raced)
        .mut_subcommand("choose", raced)
        .mut_subcommand("bisect", |bisect| {
            with_values(bisect, [("target", file_systems())])
        })
}

/// Gives arguments of a command these values.
fn with_values<const N: usize>(
    mut command: Command,
    values: [(&'static str, Vec<String>); N],
) -> Command {
    let positionals: Vec<Id> = command
        .get_positionals()
        .map(|argument| argument.get_id().clone())
        .collect();
    for (argument, values) in values {
        command = command.mut_arg(argument, |argument| {
            argument.value_parser(PossibleValuesParser::new(values))
        });
    }
    // clap moves a changed argument to the end, and the order of positional ones is their meaning.
    positionals
        .into_iter()
        .fold(command, |command, positional| {
            command.mut_arg(positional, |argument| argument)
        })
}

/// Returns the bash functions that complete mount options after the name of a file system:
/// `ext4,noat`.
fn mount_options() -> String {
    let mut cases = String::new();
    for member in fs::REGISTRY {
        let common: &[_] = if member.home() == fs::Home::Nowhere {
            &[]
        } else {
            &fs::COMMON
        };
        let names: Vec<&str> = member
            .options()
            .iter()
            .chain(common)
            .map(|option| option.name)
            .collect();
        let _ = writeln!(
            cases,
            "        {}) options=\"{}\" ;;",
            member.name(),
            names.join(" ")
        );
    }
    format!(
        r#"
_fsb_mount_options() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" option options=""
    case "${{word%%,*}}" in
{cases}    esac
    if [[ "$word" != *,* || -z "$options" ]]; then
        _fsb "$@"
        return
    fi
    COMPREPLY=()
    for option in $options; do
        if [[ "${{word%,*}},$option" == "$word"* ]]; then
            COMPREPLY+=("${{word%,*}},$option")
        fi
    done
}}

if [[ "${{BASH_VERSINFO[0]}}" -eq 4 && "${{BASH_VERSINFO[1]}}" -ge 4 || "${{BASH_VERSINFO[0]}}" -gt 4 ]]; then
    complete -F _fsb_mount_options -o nosort -o bashdefault -o default fsb
else
    complete -F _fsb_mount_options -o bashdefault -o default fsb
fi
"#
    )
}
