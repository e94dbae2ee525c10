//! The command line: one file a subcommand.

mod choose;
mod clean;
mod compare;
mod completions;
mod doctor;
mod export;
mod filebench;
pub mod iozone;
mod kernel;
mod list;
mod man;
mod micro;
mod plan_text;
pub mod postmark;
mod record;
mod report;
mod run;
mod trace;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use fsb_model::nearest;
use fsb_report::visible;

use crate::columns;
use crate::exit;
use crate::progress::say;

/// Compare Linux file systems: measure fairly, say which is faster and how surely
#[derive(Debug, Parser)]
#[command(name = "fsb", version, max_term_width = 100, disable_help_subcommand = true, after_help = EXAMPLES,
    help_template = ROOT_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// As [`COMPACT_HELP`], with the subcommands.
const ROOT_HELP: &str = "{about-with-newline}{usage-heading} {usage}\n\n{subcommands}{after-help}";

const EXAMPLES: &str = "\
  sudo fsb run ext4 xfs btrfs        which is faster, by how much, how surely
  fsb run /srv/data                  a directory as it is, without root
  fsb compare old.json new.json      results of fio, IOzone and others
Exit: 0 done, 1 gate failed, 2 wrong request, 3 machine cannot, 4 trials failed (also: -h, -V)";

/// Where run directories go unless `--out` says otherwise.
pub const RESULTS: &str = "fsb-results";

/// Help in few lines: options without their own heading, for the whole must fit a terminal.
const COMPACT_HELP: &str = "{about-with-newline}{usage-heading} {usage}\n\n{options}{after-help}";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure targets against each other, or run a plan
    Run(Box<run::Arguments>),
    /// Find the fastest of many file systems and options
    Choose(Box<choose::Arguments>),
    /// Micro-benchmark one directory, with the options of the 2023 tool
    Micro(micro::Arguments),
    /// Measure a file with IOzone's options, operations and output
    Iozone(iozone::Arguments),
    /// Simulate a mail server with PostMark's commands and report
    Postmark(postmark::Arguments),
    /// Do what a filebench file says, with its results
    Filebench(filebench::Arguments),
    /// Compare sets of results, ours or other tools'
    Compare(compare::Arguments),
    /// Write a plan for another tool, such as fio
    Export(export::Arguments),
    /// Show a run again, in any form
    Report(report::Arguments),
    /// Record a program's file calls, to replay them elsewhere
    Record(record::Arguments),
    /// Show, reduce and import traces of programs
    Trace(trace::Arguments),
    /// List what fsb knows: file systems, media, workloads, suites, …
    List(list::Arguments),
    /// Say what this machine can measure and what would disturb it
    Doctor(doctor::Arguments),
    /// List or fetch the kernels that micro-VMs boot
    Kernel(kernel::Arguments),
    /// Undo what a killed run left behind
    Clean(clean::Arguments),
    /// Print completions for bash, zsh or fish
    Completions(completions::Arguments),
    /// Write manual pages into a directory
    #[command(hide = true)]
    Man(man::Arguments),
}

/// Reads the command line and does what it says.
pub fn main(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(error) => return Ok(refuse(&error, arguments)),
    };
    if takes_command(&cli.command) && ends_with_dashes(arguments) {
        return Err(exit::request("nothing follows --: write the command there, or leave -- out"));
    }
    let code = match cli.command {
        Command::Run(arguments) => run::main(*arguments)?,
        Command::Choose(arguments) => choose::main(*arguments)?,
        Command::Micro(arguments) => micro::main(&arguments)?,
        Command::Iozone(arguments) => iozone::main(&arguments)?,
        Command::Postmark(arguments) => postmark::main(&arguments)?,
        Command::Filebench(arguments) => filebench::main(&arguments)?,
        Command::Compare(arguments) => compare::main(&arguments)?,
        Command::Export(arguments) => export::main(arguments)?,
        Command::Report(arguments) => report::main(&arguments)?,
        Command::Record(arguments) => record::main(&arguments)?,
        Command::Trace(arguments) => trace::main(&arguments)?,
        Command::List(arguments) => list::main(&arguments)?,
        Command::Doctor(arguments) => doctor::main(&arguments)?,
        Command::Kernel(arguments) => kernel::main(&arguments)?,
        Command::Clean(arguments) => clean::main(&arguments)?,
        Command::Completions(arguments) => completions::main(&arguments)?,
        Command::Man(arguments) => man::main(&arguments)?,
    };
    Ok(ExitCode::from(code))
}

/// Whether a command of the user's own may follow `--`.
fn takes_command(command: &Command) -> bool {
    matches!(command, Command::Run(_) | Command::Choose(_))
}

/// Whether the last argument is the first `--`, which clap takes for nothing at all: a script whose variable is empty would
/// measure the default suite.
fn ends_with_dashes(arguments: &[OsString]) -> bool {
    arguments.iter().position(|argument| argument == "--") == arguments.len().checked_sub(1)
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = tree().try_get_matches_from(arguments).map_err(suggesting)?;
    Cli::from_arg_matches(&matches)
}

/// The whole command line, from which help, completions and manual pages come.
fn tree() -> clap::Command {
    Cli::command()
}

/// The same for manual pages and completions: with the options that help names in a line of text only, for there is room
/// for them, and without the subcommands that are hidden.
fn unabridged() -> clap::Command {
    let shown = |argument: clap::Arg| {
        let told = argument.get_help().is_some();
        argument.hide(!told)
    };
    let tree = tree();
    let visible = tree.get_subcommands().filter(|command| !command.is_hide_set());
    let visible: Vec<_> = visible.map(|command| command.clone().mut_args(shown)).collect();
    // clap takes no subcommand away again.
    clap::Command::new("fsb")
        .about(tree.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(EXAMPLES)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(visible)
}

/// clap measures the likeness of words by their beginnings, and finds nothing like `rnu`. It takes what follows `--` for
/// values, which here is a command.
fn suggesting(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    let typed = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(typed)) if error.get(ContextKind::SuggestedSubcommand).is_none() => typed.clone(),
        _ => return error,
    };
    let tree = tree();
    let known = tree.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    if let Some(near) = nearest::nearest(&typed, known) {
        let near = ContextValue::Strings(vec![near.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
    error
}

/// Help and version are answers; everything else is a wrong request.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    // clap styles the message for the terminal, repeats arguments as they are and does not wrap: those that would act on
    // the terminal or hide there, and long lines, are written without styles. A closed pipe is nobody to complain to.
    let text = error.to_string();
    let is_wide = text.lines().any(|line| line.chars().count() > columns::of(std::io::stderr()));
    let hides = || arguments.iter().any(|argument| argument.to_string_lossy().contains(visible::is_hidden));
    if error.use_stderr() && (is_wide || hides()) {
        say(text.trim_end());
    } else {
        let _ = error.print();
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::from(exit::DONE),
        _ => ExitCode::from(exit::REQUEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Forms and files are what the command is for.
    #[test]
    fn help_of_report_names_form_and_file() {
        let mut root = Cli::command();
        root.build();
        let help = root.find_subcommand("report").cloned().expect("a subcommand").render_help().to_string();
        assert!(help.contains("--format <FORMAT>") && help.contains("-o, --output-file <FILE>"), "{help}");
    }

    /// A terminal has 24 lines: help that scrolls away teaches nobody.
    #[test]
    fn help_fits_a_terminal_and_has_three_examples() {
        let mut root = Cli::command();
        root.build();
        let names: Vec<_> = root.get_subcommands().map(|command| command.get_name().to_owned()).collect();
        let mut commands = vec![root.clone()];
        commands.extend(names.iter().filter_map(|name| root.find_subcommand(name).cloned()));
        let inner: Vec<_> = commands[1..].iter().flat_map(|command| command.get_subcommands().cloned()).collect();
        commands.extend(inner);
        for mut command in commands {
            let help = command.render_help().to_string();
            let lines = help.lines().count();
            assert!(lines <= 24, "{}: {lines} lines\n{help}", command.get_name());
            // Many terminals have 80 columns.
            if ["fsb", "run"].contains(&command.get_name()) {
                let narrow = command.clone().term_width(80).render_help().to_string();
                assert!(narrow.lines().count() <= 25, "{}: in 80 columns\n{narrow}", command.get_name());
            }
            if ["postmark", "filebench", "micro", "export"].contains(&command.get_name()) {
                let narrow = command.clone().term_width(80).render_help().to_string();
                assert!(narrow.lines().count() <= 24, "{}: in 80 columns\n{narrow}", command.get_name());
                let wide = narrow.lines().find(|line| line.chars().count() > 80);
                assert!(wide.is_none(), "{}: {wide:?}", command.get_name());
            }
            let wide = help.lines().find(|line| line.chars().count() > 100);
            assert!(wide.is_none(), "{}: {wide:?}", command.get_name());
            let examples = help.lines().filter(|line| line.starts_with("  ") && line.contains("fsb ")).count();
            assert!(examples >= 3, "{}: {examples} examples\n{help}", command.get_name());
            for option in command.get_opts().filter_map(|option| option.get_long()) {
                assert!(
                    help.contains(&format!("--{option}")) || option == "output-file",
                    "--{option} is not in\n{help}"
                );
            }
        }
    }
}
