//! Options of the command line that the table of settings declares.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use fsb_model::setting::{
    Setting, SettingCommand, SettingKind, SettingValue, Settings, find, of_command,
};
use fsb_model::{code, failure};
use fsb_sys::account;

/// A command with options of the table.
pub trait TakesSettings {
    /// The command.
    const COMMAND: SettingCommand;

    /// Texts that describe settings of this command better than those of the table. Its short help
    /// page has them.
    const ABOUT: &'static [(&'static str, &'static str)] = &[];

    /// Returns the defaults in which the command differs from the table.
    fn defaults() -> Settings {
        Settings::default()
    }
}

/// `fsb run`.
#[derive(Debug)]
pub enum Run {}

impl TakesSettings for Run {
    const COMMAND: SettingCommand = SettingCommand::Run;
}

/// `fsb compare`, and the analyses of `fsb history`.
#[derive(Debug)]
pub enum Compare {}

impl TakesSettings for Compare {
    const COMMAND: SettingCommand = SettingCommand::Compare;
}

/// The settings that the command line gives.
#[derive(Debug)]
pub struct SettingArguments<C> {
    /// The values, without defaults.
    pub given: Settings,
    command: PhantomData<C>,
}

impl<C> Clone for SettingArguments<C> {
    fn clone(&self) -> SettingArguments<C> {
        SettingArguments {
            given: self.given.clone(),
            command: PhantomData,
        }
    }
}

impl<C: TakesSettings> Args for SettingArguments<C> {
    fn augment_args(command: Command) -> Command {
        command.args(of_command(C::COMMAND).map(argument::<C>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: TakesSettings> FromArgMatches for SettingArguments<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Settings::default();
        for setting in of_command(C::COMMAND) {
            if let Some(value) = value(setting, matches) {
                given.set_at(setting, value, 0..0);
            }
        }
        Ok(SettingArguments {
            given,
            command: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns the option of a setting.
fn argument<C: TakesSettings>(setting: &'static Setting) -> Arg {
    let own = C::ABOUT.iter().find(|(name, _)| *name == setting.name);
    let default = C::defaults()
        .shown(setting.name)
        .or_else(|| setting.default_text())
        .map_or_else(String::new, |text| format!(" [default: {text}]"));
    let about = own.map_or_else(|| setting.description(), |(_, about)| (*about).to_owned());
    // Only the command line takes names: a plan may run on another machine.
    let accounts = match setting.name {
        "uid" | "gid" => ", by number or name",
        _ => "",
    };
    let excluded = setting
        .excludes
        .iter()
        .filter(|name| find(name).is_some_and(|other| other.commands.contains(&C::COMMAND)));
    let argument = Arg::new(setting.name)
        .long(setting.option().trim_start_matches('-').to_owned())
        .help(format!("{about}{accounts}{default}"))
        .help_heading(setting.group.title())
        .hide_short_help(!setting.is_common && own.is_none())
        .conflicts_with_all(excluded.copied());
    match setting.kind {
        SettingKind::Flag => argument.action(ArgAction::SetTrue),
        SettingKind::Texts | SettingKind::Paths => {
            with_value(argument, setting).action(ArgAction::Append)
        }
        _ => with_value(argument, setting),
    }
}

fn with_value(argument: Arg, setting: &'static Setting) -> Arg {
    argument
        .value_name(setting.placeholder())
        .value_parser(move |text: &str| {
            let number = match setting.name {
                "uid" => account::uid(text),
                "gid" => account::gid(text),
                _ => return setting.read(text),
            };
            match number {
                Ok(number) => setting.read(&number.to_string()),
                Err(refusal) => Err(refusal.to_string()),
            }
        })
}

/// Returns the value of an option that is given.
fn value(setting: &Setting, matches: &ArgMatches) -> Option<SettingValue> {
    match setting.kind {
        SettingKind::Flag => matches
            .get_flag(setting.name)
            .then_some(SettingValue::Flag(true)),
        SettingKind::Texts | SettingKind::Paths => {
            let mut all = Vec::new();
            for item in matches.get_many::<SettingValue>(setting.name)? {
                if let SettingValue::List(texts) = item {
                    all.extend(texts.iter().cloned());
                }
            }
            Some(SettingValue::List(all))
        }
        _ => matches.get_one::<SettingValue>(setting.name).cloned(),
    }
}

/// Returns the options that only a new run has, for `conflicts_with_all` of options that name an
/// existing one: the settings, except the permission to overwrite devices, and `others`.
pub fn of_new_run(others: &[&'static str]) -> Vec<&'static str> {
    let settings = of_command(SettingCommand::Run).map(|setting| setting.name);
    settings
        .filter(|name| *name != "wipe")
        .chain(others.iter().copied())
        .collect()
}

/// Adds the values of environment variables for settings that have none.
///
/// # Errors
///
/// A variable has a value that its setting does not accept.
pub fn add_environment(settings: &mut Settings) -> anyhow::Result<()> {
    for setting in of_command(SettingCommand::Run) {
        let Some(variable) = setting.variable.filter(|_| !settings.has(setting.name)) else {
            continue;
        };
        let Some(text) = std::env::var_os(variable) else {
            continue;
        };
        let value = match setting.kind {
            SettingKind::Flag => SettingValue::Flag(true),
            _ => setting.read(&text.to_string_lossy()).map_err(|why| {
                failure::error(&code::INVALID_VALUE, format!("{variable}: {why}"))
            })?,
        };
        settings.set_at(setting, value, 0..0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_a_command_is_an_option_that_gives_its_value() {
        for setting in of_command(SettingCommand::Run) {
            let value = match setting.kind {
                SettingKind::Flag => "",
                SettingKind::Size(..) => "2G",
                SettingKind::Whole(..) => "7",
                SettingKind::Share => "5%",
                SettingKind::Time(..) => "10s",
                SettingKind::Factor => "1/2",
                SettingKind::Word(words) => words[words.len() - 1],
                SettingKind::Text | SettingKind::Texts => "quick",
                SettingKind::Path | SettingKind::Paths => "/dev/null",
            };
            let option = setting.option();
            let line = ["fsb", &option, value].into_iter();
            let command = SettingArguments::<Run>::augment_args(Command::new("fsb"));
            let matches = command
                .try_get_matches_from(line.filter(|word| !word.is_empty()))
                .unwrap_or_else(|error| panic!("{option}: {error}"));
            let arguments = SettingArguments::<Run>::from_arg_matches(&matches).unwrap();
            let names: Vec<&str> = arguments.given.names().collect();
            assert_eq!(names, [setting.name]);
        }
    }

    #[test]
    fn a_value_that_a_setting_refuses_is_an_error_of_its_option() {
        for (option, value, word) in [
            ("--size", "2GB", "ambiguous"),
            ("--like-disk", "1M", "use 1G to 16T"),
            ("--blocks", "0", "between 1 and 10000"),
            ("--budget", "soon", "not a duration"),
            ("--in", "wm", "did you mean 'vm'"),
        ] {
            let command = SettingArguments::<Run>::augment_args(Command::new("fsb"));
            let error = command
                .try_get_matches_from(["fsb", option, value])
                .expect_err(value)
                .to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
