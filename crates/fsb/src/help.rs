//! The help pages of a command: `-h` prints the short one, `--help` the complete one. Both come
//! from one clap definition: `hide_short_help` omits an option from the short page, `help_heading`
//! groups it on the complete page.

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command};

/// Headings of the complete page.
pub mod heading {
    /// Options that choose and prepare targets.
    pub const TARGETS: &str = "Targets";
    /// Options that choose the measured operations.
    pub const WORKLOAD: &str = "Workload";
    /// Budget, blocks and precision.
    pub const TIME: &str = "Time and precision";
    /// Image or device below the file systems.
    pub const MEDIUM: &str = "Medium";
    /// Host, virtual machine, users and controls.
    pub const MACHINE: &str = "Machine";
    /// Run directory, report and messages.
    pub const OUTPUT: &str = "Output";
    /// Options of a command as the workload.
    pub const COMMAND: &str = "Command after --";
}

/// A help page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The commonest options in one list; fits a terminal of 24 lines.
    Short,
    /// All options, grouped by headings, with the details of the command.
    Complete,
}

impl Page {
    /// Returns the page that a command line asks for, if it asks for help.
    pub fn asked_by(arguments: &[OsString]) -> Page {
        let mut own = arguments.iter().take_while(|argument| *argument != "--");
        if own.any(|argument| argument == "--help") {
            Page::Complete
        } else {
            Page::Short
        }
    }
}

/// The option that prints help.
const HELP: &str = "help";

/// The default template of clap, with the details between description and usage.
const COMPLETE: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// Adds the options `-h` and `--help` to a command and its subcommands, except to those that define
/// their own.
pub fn with_help(command: Command) -> Command {
    let command = command.mut_subcommands(with_help);
    if command.is_disable_help_flag_set() {
        return command;
    }
    let headings = || command.get_opts().map(Arg::get_help_heading);
    let heading = match headings().any(|heading| heading == Some(heading::OUTPUT)) {
        true => Some(heading::OUTPUT.to_owned()),
        false => headings().last().flatten().map(str::to_owned),
    };
    let heading = heading.map_or(Resettable::Reset, |heading| {
        Resettable::Value(heading.into())
    });
    let text = if is_abridged(&command) {
        "Print help; -h prints a short page"
    } else {
        "Print help"
    };
    let help = Arg::new(HELP)
        .short('h')
        .long(HELP)
        .action(ArgAction::Help)
        .help(text)
        .help_heading(heading);
    // The short page of fsb needs its lines for the commands.
    let help = help.hide_short_help(command.get_name() == "fsb");
    command.disable_help_flag(true).arg(help)
}

/// Returns whether the short page leaves anything out.
fn is_abridged(command: &Command) -> bool {
    command.get_long_about().is_some()
        || command.get_after_long_help().is_some()
        || command.get_arguments().any(Arg::is_hide_short_help_set)
}

/// Prepares a definition for printing one page.
///
/// clap itself would print each option of the complete page on two lines with a blank line after
/// it; this page has one line per option.
pub fn page(command: Command, page: Page) -> Command {
    let command = command.mut_subcommands(|inner| self::page(inner, page));
    match page {
        Page::Short => {
            let more = match command.get_arguments().any(Arg::is_hide_short_help_set) {
                true => "Print help; --help shows all options",
                false => "Print help; --help shows more",
            };
            let more = if is_abridged(&command) {
                more
            } else {
                "Print help"
            };
            let command = command.mut_args(|argument| argument.help_heading(None::<&'static str>));
            let command = command.mut_subcommands(|inner| {
                if RARE_COMMANDS.contains(&inner.get_name()) {
                    inner.hide(true)
                } else {
                    inner
                }
            });
            command.mut_args(|argument| {
                if argument.get_id() == HELP {
                    argument.help(more)
                } else {
                    argument
                }
            })
        }
        Page::Complete => {
            let details = details(&command);
            let after = command.get_after_long_help().cloned();
            let command = unabridged(command)
                .help_template(COMPLETE)
                .long_about(Resettable::Reset);
            let command = match details {
                Some(details) => command.before_help(details),
                None => command,
            };
            match after {
                Some(after) => command.after_help(after).after_long_help(Resettable::Reset),
                None => command,
            }
        }
    }
}

/// Commands that only the complete page lists, so that the short one fits a terminal.
const RARE_COMMANDS: [&str; 6] = ["completions", "export", "fleet", "kernel", "serve", "watch"];

/// Shows all options of a command wherever help is shown.
fn unabridged(command: Command) -> Command {
    command.mut_args(|argument| argument.hide_short_help(false))
}

/// Shows all options of a command and its subcommands wherever help is shown.
pub fn wholly_unabridged(command: Command) -> Command {
    unabridged(command).mut_subcommands(wholly_unabridged)
}

/// Returns the long description without its first line.
fn details(command: &Command) -> Option<String> {
    let (about, long) = (
        command.get_about()?.to_string(),
        command.get_long_about()?.to_string(),
    );
    long.strip_prefix(&about)
        .map(|details| details.trim().to_owned())
}
