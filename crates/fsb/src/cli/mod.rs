//! The command line: one file per subcommand.

mod advice;
mod bisect;
mod choose;
mod clean;
mod compare;
mod completions;
mod doctor;
mod export;
mod fleet;
#[cfg(feature = "history")]
mod history;
#[cfg(feature = "vm")]
pub mod kernel;
mod list;
mod man;
mod option_names;
mod plan_text;
mod publish;
#[cfg(feature = "traces")]
mod record;
mod report;
mod run;
#[cfg(feature = "serve")]
pub mod serve;
mod settings;
#[cfg(feature = "traces")]
mod trace;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::help::{Page, page, wholly_unabridged};
use fsb_model::{code, failure};

#[cfg(feature = "emulations")]
use crate::emulate;
use crate::exit;
use crate::message::{self, Level, Message, MessageFormat};
use crate::terminal::Color;

/// Compare the speed of Linux file systems, with confidence intervals
#[derive(Debug, Parser)]
#[command(name = "fsb", version, disable_version_flag = true, max_term_width = 100, disable_help_subcommand = true, after_help = SHORT_NOTE,
    after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Format of messages on standard error: text or json
    #[arg(long, value_name = "FORMAT", global = true, hide_short_help = true, hide_possible_values = true, help_heading = crate::help::heading::OUTPUT)]
    message_format: Option<MessageFormat>,
    /// Colour: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true, hide_short_help = true, hide_possible_values = true, help_heading = crate::help::heading::OUTPUT)]
    color: Color,
    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version, hide_short_help = true)]
    version: Option<bool>,
}

const SHORT_NOTE: &str = "Example: sudo fsb run ext4 xfs btrfs   More: fsb COMMAND -h, fsb --help";

const EXAMPLES: &str = "\
Examples:
  sudo fsb run ext4 xfs btrfs        which is faster, by how much, how certain
  fsb run /srv/data                  a directory as it is, without root
  fsb compare old.json new.json      results of fio, IOzone and others

Exit codes:
  0  done
  1  a requested check failed (--fail-if, --gate, --verify-same)
  2  the request is invalid, or a gate cannot tell
  3  the machine lacks a tool, a privilege or space
  4  some trials failed";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Arguments>),
    Choose(Box<choose::Arguments>),
    Bisect(Box<bisect::Arguments>),
    #[cfg(feature = "emulations")]
    Micro(emulate::micro::Arguments),
    #[cfg(feature = "emulations")]
    Iozone(emulate::iozone::Arguments),
    #[cfg(feature = "emulations")]
    Postmark(emulate::postmark::Arguments),
    #[cfg(feature = "emulations")]
    Filebench(emulate::filebench::Arguments),
    #[cfg(feature = "emulations")]
    Fio(emulate::fio::Arguments),
    Compare(compare::Arguments),
    Fleet(fleet::Arguments),
    Export(export::Arguments),
    Report(report::Arguments),
    Publish(publish::Arguments),
    #[cfg(feature = "history")]
    History(history::Arguments),
    #[cfg(feature = "serve")]
    Serve(serve::Arguments),
    #[cfg(feature = "traces")]
    Record(record::Arguments),
    #[cfg(feature = "traces")]
    Trace(trace::Arguments),
    List(list::Arguments),
    Doctor(doctor::Arguments),
    #[cfg(feature = "vm")]
    Kernel(kernel::Arguments),
    Clean(clean::Arguments),
    Watch(watch::Arguments),
    Completions(completions::Arguments),
    #[command(hide = true)]
    Man(man::Arguments),
}

/// Parses the command line and runs the subcommand.
pub fn main(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(error) => return Ok(refuse(&error, arguments)),
    };
    cli.color.choose();
    let typed = arguments.to_vec();
    message::note_options(Box::new(move |text| {
        let root = tree();
        option_names::note(text, &advice::command_name(&typed, &root), &root)
    }));
    if takes_command(&cli.command) && ends_with_dashes(arguments) {
        return Err(failure::error(
            &code::MISSING,
            "no command follows --: write one, or leave out --",
        ));
    }
    let code = match cli.command {
        Command::Run(arguments) => run::main(*arguments)?,
        Command::Choose(arguments) => choose::main(*arguments)?,
        Command::Bisect(arguments) => bisect::main(*arguments)?,
        #[cfg(feature = "emulations")]
        Command::Micro(arguments) => emulate::micro::main(&arguments)?,
        #[cfg(feature = "emulations")]
        Command::Iozone(arguments) => emulate::iozone::main(&arguments)?,
        #[cfg(feature = "emulations")]
        Command::Postmark(arguments) => emulate::postmark::main(&arguments)?,
        #[cfg(feature = "emulations")]
        Command::Filebench(arguments) => emulate::filebench::main(&arguments)?,
        #[cfg(feature = "emulations")]
        Command::Fio(arguments) => emulate::fio::main(&arguments)?,
        Command::Compare(arguments) => compare::main(&arguments)?,
        Command::Fleet(arguments) => fleet::main(arguments)?,
        Command::Export(arguments) => export::main(arguments)?,
        Command::Report(arguments) => report::main(&arguments)?,
        Command::Publish(arguments) => publish::main(&arguments)?,
        #[cfg(feature = "history")]
        Command::History(arguments) => history::main(&arguments)?,
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => serve::main(&arguments)?,
        #[cfg(feature = "traces")]
        Command::Record(arguments) => record::main(&arguments)?,
        #[cfg(feature = "traces")]
        Command::Trace(arguments) => trace::main(&arguments)?,
        Command::List(arguments) => list::main(&arguments)?,
        Command::Doctor(arguments) => doctor::main(&arguments)?,
        #[cfg(feature = "vm")]
        Command::Kernel(arguments) => kernel::main(&arguments)?,
        Command::Clean(arguments) => clean::main(&arguments)?,
        Command::Watch(arguments) => watch::main(&arguments)?,
        Command::Completions(arguments) => completions::main(&arguments, documented())?,
        Command::Man(arguments) => man::main(&arguments, documented())?,
    };
    Ok(ExitCode::from(code))
}

/// Returns whether a user's command may follow `--`.
fn takes_command(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_) | Command::Choose(_) | Command::Bisect(_)
    )
}

/// Returns whether the last argument is the first `--`. clap ignores it, so a script whose variable
/// is empty would measure the default suite.
fn ends_with_dashes(arguments: &[OsString]) -> bool {
    arguments.iter().position(|argument| argument == "--") == arguments.len().checked_sub(1)
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = page(tree(), Page::asked_by(arguments)).try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

/// Returns the definition of the command line. Parser, help, completions and manual pages come from
/// it.
fn tree() -> clap::Command {
    crate::help::with_help(Cli::command())
}

/// Returns the definition for manual pages and completions, without hidden subcommands.
fn documented() -> clap::Command {
    let tree = tree();
    let visible = tree
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let visible: Vec<_> = visible.cloned().map(wholly_unabridged).collect();
    let global = tree
        .get_arguments()
        .filter(|argument| argument.is_global_set());
    // clap cannot remove a subcommand.
    clap::Command::new("fsb")
        .args(
            global
                .cloned()
                .map(|argument| argument.hide_short_help(false)),
        )
        .about(tree.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .after_help(EXAMPLES)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(visible)
}

/// Prints an error of the parser and returns the exit code. Help and version are answers; all else
/// is a wrong request.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Ignores a closed pipe.
            let _ = error.print();
            return ExitCode::from(exit::DONE);
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if message::format() == MessageFormat::Text =>
        {
            let _ = error.print();
        }
        _ => {
            let own = advice::advice(error, arguments, &tree());
            let message = of_parser(error, own.clone());
            let mut lines = vec![format!("error: {}", message.message)];
            lines.extend(own.map(|help| format!("help: {help}")));
            message::emit(&message, &lines);
        }
    }
    ExitCode::from(exit::REQUEST)
}

/// Returns an error of the parser as a message for programs.
fn of_parser(error: &clap::Error, help: Option<String>) -> Message {
    let is_empty = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    let code = match error.kind() {
        ErrorKind::InvalidValue if is_empty => &code::MISSING,
        ErrorKind::InvalidSubcommand => &code::UNKNOWN_COMMAND,
        ErrorKind::UnknownArgument => &code::UNKNOWN_OPTION,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidUtf8 => {
            &code::INVALID_VALUE
        }
        ErrorKind::ArgumentConflict => &code::CONFLICT,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::TooFewValues
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => &code::MISSING,
        _ => &code::ARGUMENTS,
    };
    let text = error.to_string();
    // For a missing subcommand clap prints help, which does not mention that one is missing.
    let usage = text
        .lines()
        .find(|line| line.starts_with("Usage: "))
        .filter(|_| !text.starts_with("error: "));
    let usage = usage.map(|usage| format!("a subcommand is missing. {usage}"));
    let first = usage
        .as_deref()
        .unwrap_or_else(|| text.split("\n\n").next().unwrap_or_default());
    let lines: Vec<&str> = first
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("[possible values"))
        .collect();
    let message = lines.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    // The text of Rust's number parser.
    let message = message.replace("invalid digit found in string", "not a whole number");
    let named = [
        ("argument", ContextKind::InvalidArg),
        ("command", ContextKind::InvalidSubcommand),
        ("value", ContextKind::InvalidValue),
    ];
    let field = |(name, kind): (&str, ContextKind)| match error.get(kind)? {
        ContextValue::String(text) => Some((name.to_owned(), text.as_str().into())),
        ContextValue::Strings(texts) => Some((name.to_owned(), texts.join(", ").into())),
        _ => None,
    };
    Message {
        help: Some(help.unwrap_or_else(|| code.help.to_owned())),
        fields: named.into_iter().filter_map(field).collect(),
        ..Message::new(Level::Error, Some(code.name), message)
    }
}

#[cfg(test)]
mod tests {
    mod command_line_page;
    mod option_names;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Renders the help of a command at 80 columns.
    fn text(command: &clap::Command) -> String {
        command.clone().term_width(80).render_help().to_string()
    }

    /// Returns `fsb` and all its subcommands, as prepared for a page, with their full names.
    fn commands(page: Page) -> Vec<(String, clap::Command)> {
        fn collect(command: &clap::Command, found: &mut Vec<(String, clap::Command)>) {
            found.push((
                command
                    .get_bin_name()
                    .unwrap_or(command.get_name())
                    .to_owned(),
                command.clone(),
            ));
            command
                .get_subcommands()
                .for_each(|inner| collect(inner, found));
        }
        let mut root = super::page(tree(), page);
        root.build();
        let mut found = Vec::new();
        collect(&root, &mut found);
        assert!(found.len() > 20, "{}", found.len());
        found
    }

    fn page_of(name: &str, page: Page) -> String {
        let commands = commands(page);
        text(
            &commands
                .iter()
                .find(|(found, _)| found == name)
                .expect("a command")
                .1,
        )
    }

    #[test]
    fn short_pages_of_fsb_and_run_match_their_snapshots() {
        insta::assert_snapshot!("fsb_short", page_of("fsb", Page::Short));
        insta::assert_snapshot!("run_short", page_of("fsb run", Page::Short));
    }

    /// The page of the book has the help of every command. INSTA_UPDATE=always writes it, as it
    /// does snapshots.
    #[test]
    fn the_page_of_all_commands_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md");
        let commands: Vec<(String, String)> = commands(Page::Complete)
            .into_iter()
            .map(|(name, command)| (name, text(&command)))
            .collect();
        let page = command_line_page::page(&commands);
        if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
            std::fs::write(path, &page).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == page,
            "docs/command-line.md: INSTA_UPDATE=always cargo test -p fsb --bin fsb page_of_all"
        );
    }

    #[test]
    fn short_pages_fit_24_lines_of_80_columns() {
        for (name, command) in commands(Page::Short) {
            // `fsb iozone -h` prints IOzone's list of options.
            if name == "fsb iozone" {
                continue;
            }
            let text = text(&command);
            assert!(
                text.lines().count() <= 24,
                "{name}: {} lines\n{text}",
                text.lines().count()
            );
            let wide = text.lines().find(|line| line.chars().count() > 80);
            assert!(wide.is_none(), "{name}: {wide:?}");
            let is_abridged = command
                .get_arguments()
                .any(clap::Arg::is_hide_short_help_set);
            assert!(
                !is_abridged || text.contains("--help"),
                "{name} does not mention --help\n{text}"
            );
        }
    }

    #[test]
    fn complete_pages_show_every_option_in_80_columns() {
        for (name, command) in commands(Page::Complete) {
            let text = text(&command);
            let wide = text.lines().find(|line| line.chars().count() > 80);
            assert!(wide.is_none(), "{name}: {wide:?}");
            for argument in command.get_arguments() {
                let shown = match argument.get_long() {
                    Some(long) => format!("--{long}"),
                    None => argument.get_value_names().expect("a value name")[0].to_string(),
                };
                let is_word = |line: &str| {
                    line.split([' ', '=', '[', ']', '<', '>'])
                        .any(|word| word == shown)
                };
                let listed = text
                    .lines()
                    .any(|line| line.starts_with("  ") && is_word(line));
                assert!(listed, "{name}: {shown} is not in\n{text}");
                assert!(
                    !argument.is_hide_set() && !argument.is_hide_long_help_set(),
                    "{name}: {shown} is hidden"
                );
                assert!(argument.get_help().is_some(), "{name}: {shown} has no help");
            }
        }
    }

    #[test]
    fn help_flags_choose_the_page() {
        let printed = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            parse(&words).map(|_| ()).expect_err("help").to_string()
        };
        assert!(!printed("fsb run -h").contains("--mkfs-defaults"));
        assert!(printed("fsb run --help").contains("--mkfs-defaults"));
        assert!(printed("fsb run --help").contains("Time and precision:"));
        assert!(printed("fsb --help").contains("Exit codes:"));
    }

    /// Splits a shell line at pipes, lists and redirections, and returns its calls of fsb.
    fn calls(line: &str) -> Vec<Vec<String>> {
        let mut calls = Vec::new();
        let mut words = Vec::new();
        for word in shlex::split(line)
            .expect("a shell line")
            .into_iter()
            .chain(["|".to_owned()])
        {
            if let Some(inner) = word
                .strip_prefix("$(")
                .and_then(|word| word.strip_suffix(')'))
            {
                calls.extend(self::calls(inner));
            }
            let ends_list = word.ends_with(';');
            if ends_list {
                words.push(word.trim_end_matches(';').to_owned());
            }
            match ends_list || ["|", "&&"].contains(&word.as_str()) {
                true => calls.push(std::mem::take(&mut words)),
                false => words.push(word),
            }
        }
        for call in &mut calls {
            call.truncate(
                call.iter()
                    .position(|word| word == ">")
                    .unwrap_or(call.len()),
            );
            if call.first().is_some_and(|word| word == "sudo") {
                call.remove(0);
            }
        }
        calls.retain(|call| call.first().is_some_and(|word| word == "fsb"));
        calls
    }

    #[test]
    fn examples_are_indented_alike_and_parse() {
        for (name, command) in commands(Page::Complete) {
            let text = text(&command);
            let section = text.lines().skip_while(|line| *line != "Examples:").skip(1);
            let lines: Vec<&str> = section.take_while(|line| !line.is_empty()).collect();
            assert!(lines.len() >= 3, "{name}: {} examples\n{text}", lines.len());
            for line in lines {
                let example = line
                    .strip_prefix("  ")
                    .filter(|example| !example.starts_with(' '));
                let example = example.unwrap_or_else(|| panic!("{name}: indentation of {line:?}"));
                let (shell, _comment) = example.split_once("  ").unwrap_or((example, ""));
                let calls = calls(shell);
                assert!(!calls.is_empty(), "{name}: {line:?} does not call fsb");
                for call in calls {
                    let parsed = tree().try_get_matches_from(&call);
                    assert!(parsed.is_ok(), "{name}: {call:?}: {}", parsed.unwrap_err());
                    // clap passes the options of IOzone on as they are.
                    if call[1] == "iozone" {
                        let options = call[2..].iter().map(OsString::from);
                        let parsed = fsb_compat::iozone::parse(options, String::new());
                        assert!(parsed.is_ok(), "{name}: {call:?}: {}", parsed.unwrap_err());
                    }
                }
            }
        }
    }

    #[test]
    fn manual_pages_hold_every_option() {
        let mut root = documented();
        root.build();
        for command in root
            .get_subcommands()
            .flat_map(|command| [command].into_iter().chain(command.get_subcommands()))
        {
            let page = String::from_utf8(man::page(command).expect("a page"))
                .expect("UTF-8")
                .replace("\\*(Aq", "'");
            for option in command.get_opts() {
                let long = format!(
                    "\\-\\-{}",
                    option.get_long().expect("a long name").replace('-', "\\-")
                );
                let help = option
                    .get_help()
                    .expect("help")
                    .to_string()
                    .replace('-', "\\-");
                assert!(
                    page.contains(&long),
                    "{}: {long} is not in\n{page}",
                    command.get_name()
                );
                assert!(page.contains(&help), "{help} is not in\n{page}");
            }
        }
    }
}
