//! A declared setting: its values, and how they are read, stored and described.

use serde_json::Value;

use super::value::SettingValue;
use crate::nearest;
use crate::publication::Identifying;
use crate::units::{
    Bytes, parse_duration, parse_percent, parse_scale, percent_text, short_duration,
};

/// A setting of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// The key in plan files. The option of the command line has `-` for `_`.
    pub name: &'static str,
    /// The table of the plan file that has the key; absent if it is at the top.
    pub table: Option<&'static str>,
    /// The values that it accepts.
    pub kind: SettingKind,
    /// The value in a plan that does not give it.
    pub default: SettingDefault,
    /// The heading under which help lists it.
    pub group: SettingGroup,
    /// The name of its value in help; empty for that of its kind.
    pub value_name: &'static str,
    /// The effect of the setting, in one line.
    pub about: &'static str,
    /// A value for help and the schema; empty for none.
    pub example: &'static str,
    /// The name of its field in the form of `fsb serve`, if that is not made of the key.
    pub label: &'static str,
    /// The commands that have it as an option.
    pub commands: &'static [SettingCommand],
    /// Plan files have it. Otherwise only the command line gives it.
    pub is_written: bool,
    /// The form of `fsb serve` has it.
    pub is_in_form: bool,
    /// The short help page has it, too.
    pub is_common: bool,
    /// Settings that the command line does not accept together with it.
    pub excludes: &'static [&'static str],
    /// Settings of a plan below that it replaces, though they have other names.
    pub replaces: &'static [&'static str],
    /// The environment variable that gives the value if neither the command line nor the plan does.
    pub variable: Option<&'static str>,
    /// The place of the value in a resolved plan.
    pub stored: Stored,
    /// Two plans that differ in it request different measurements.
    pub is_work: bool,
    /// The treatment of its value in a published run.
    pub class: SettingClass,
}

/// The values that a setting accepts. Ranges include both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
    /// On or off; off is the default.
    Flag,
    /// Bytes: a number, or a size such as `4K`.
    Size(u64, u64),
    /// A whole number.
    Whole(u64, u64),
    /// A share above 0 %: `3%`, or a number of per cent from 1 on.
    Share,
    /// A length of time: `5m`, or a number of seconds. The range in seconds, and in words.
    Time(f64, f64, &'static str),
    /// A factor: `1/8`, `0.125` or `12.5%`.
    Factor,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A line of text.
    Text,
    /// A path.
    Path,
    /// Texts; the option is repeatable.
    Texts,
    /// Paths; the option is repeatable.
    Paths,
}

/// The value in a plan that does not give the setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingDefault {
    /// There is none: the flag is off, the list is empty, the feature is not used.
    Absent,
    /// Bytes.
    Bytes(u64),
    /// Seconds.
    Seconds(f64),
    /// A share.
    Share(f64),
    /// A text, as a plan would write it.
    Text(&'static str),
    /// `fsb` computes the value, as this text describes.
    Described(&'static str),
}

/// The place of a setting in a resolved plan, as a JSON pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// The plan holds what the setting was resolved to elsewhere.
    Nowhere,
    /// The plan holds the value as it is given.
    Copied(&'static str),
    /// The resolver computes the value from several settings.
    Computed(&'static str),
}

/// The headings under which help lists settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingGroup {
    /// Targets and how they are made.
    Targets,
    /// The measured operations.
    Workload,
    /// Budget, blocks and precision.
    Time,
    /// Image or device below the file systems.
    Medium,
    /// Host, virtual machine and users.
    Machine,
}

impl SettingGroup {
    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            SettingGroup::Targets => "Targets",
            SettingGroup::Workload => "Workload",
            SettingGroup::Time => "Time and precision",
            SettingGroup::Medium => "Medium",
            SettingGroup::Machine => "Machine",
        }
    }
}

/// Commands with options of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingCommand {
    /// `fsb run`.
    Run,
    /// `fsb choose`.
    Choose,
    /// `fsb bisect`.
    Bisect,
    /// `fsb export`.
    Export,
    /// `fsb compare`, and the analyses of `fsb history`.
    Compare,
}

/// The treatment of a value in a published run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingClass {
    /// It stays: it identifies neither the host nor its users.
    Plain,
    /// It is removed, and listed as this.
    Removed(Identifying, &'static str),
    /// A directory, which gets a stand-in, and is listed as this.
    Directory(&'static str),
    /// Paths of devices, which get stand-ins.
    Devices,
    /// Releases of kernels, which stay, and files that hold kernels, which get stand-ins.
    Kernels,
    /// A name, which stays if it is that of a suite or a plan of the program.
    PlanName,
}

impl Setting {
    /// A flag of `fsb run`, `choose`, plan files and forms, which resolved plans do not hold.
    pub(super) const PLAIN: Setting = Setting {
        name: "",
        table: None,
        kind: SettingKind::Flag,
        default: SettingDefault::Absent,
        group: SettingGroup::Machine,
        value_name: "",
        about: "",
        example: "",
        label: "",
        commands: &[SettingCommand::Run, SettingCommand::Choose],
        is_written: true,
        is_in_form: true,
        is_common: false,
        excludes: &[],
        replaces: &[],
        variable: None,
        stored: Stored::Nowhere,
        is_work: true,
        class: SettingClass::Plain,
    };

    /// Returns the place of the value in a resolved plan, as a JSON pointer.
    pub fn pointer(&self) -> Option<&'static str> {
        match self.stored {
            Stored::Nowhere => None,
            Stored::Copied(pointer) | Stored::Computed(pointer) => Some(pointer),
        }
    }

    /// Returns whether the form of `fsb serve` has it.
    pub fn is_offered(&self) -> bool {
        self.is_in_form && self.is_written
    }

    /// Returns the option of the command line: `--like-disk`.
    pub fn option(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// Returns the name of its field in a form: `Like disk`.
    pub fn title(&self) -> String {
        if !self.label.is_empty() {
            return self.label.to_owned();
        }
        let words = self.name.replace('_', " ");
        words[..1].to_uppercase() + &words[1..]
    }

    /// Returns the name of the value in help.
    pub fn placeholder(&self) -> &'static str {
        match self.kind {
            _ if !self.value_name.is_empty() => self.value_name,
            SettingKind::Size(..) => "SIZE",
            SettingKind::Whole(..) => "N",
            SettingKind::Share => "P",
            SettingKind::Time(..) => "TIME",
            SettingKind::Factor => "F",
            SettingKind::Path | SettingKind::Paths => "DIR",
            SettingKind::Flag | SettingKind::Word(_) | SettingKind::Text | SettingKind::Texts => {
                "NAME"
            }
        }
    }

    /// Returns the effect with an example and the variable that sets it.
    pub fn description(&self) -> String {
        let mut text = self.about.to_owned();
        if !self.example.is_empty() {
            text += &format!(", such as {}", self.example);
        }
        if let Some(variable) = self.variable {
            text += &format!("; also with {variable} in the environment");
        }
        text
    }

    /// Returns the default in words.
    pub fn default_text(&self) -> Option<String> {
        match self.default {
            SettingDefault::Absent => None,
            SettingDefault::Bytes(bytes) => Some(Bytes(bytes).to_string()),
            SettingDefault::Seconds(seconds) => Some(short_duration(seconds)),
            SettingDefault::Share(share) => Some(percent_text(share)),
            SettingDefault::Text(text) | SettingDefault::Described(text) => Some(text.to_owned()),
        }
    }

    /// Returns a value in words.
    pub(super) fn shown(&self, value: &SettingValue) -> String {
        match (self.kind, value) {
            (SettingKind::Size(..), SettingValue::Number(bytes)) => Bytes(*bytes).to_string(),
            (_, SettingValue::Number(number)) => number.to_string(),
            (_, SettingValue::Flag(flag)) => flag.to_string(),
            (_, SettingValue::Text(text)) => text.clone(),
            (_, SettingValue::List(texts)) => texts.join(", "),
        }
    }

    /// Reads a value that the command line or a form gives as text.
    ///
    /// # Errors
    ///
    /// The text is not a value of the setting.
    pub fn read(&self, text: &str) -> Result<SettingValue, String> {
        match self.kind {
            SettingKind::Flag => match text {
                "true" => Ok(SettingValue::Flag(true)),
                _ => Err(format!("'{text}' is not true")),
            },
            SettingKind::Whole(least, most) => match text.parse::<u64>() {
                Ok(number) => self.read_value(&number.into()),
                Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() => {
                    Err(format!("{}: give between {least} and {most}", self.name))
                }
                Err(_) => Err("not a whole number".to_owned()),
            },
            SettingKind::Texts | SettingKind::Paths => Ok(SettingValue::List(vec![text.into()])),
            _ => self.read_value(&text.into()),
        }
    }

    /// Reads a value of a plan file.
    ///
    /// # Errors
    ///
    /// It is not a value of the setting, or has two meanings: `theta = 0.05` may be five per cent
    /// or a twentieth of one per cent.
    pub fn read_value(&self, value: &Value) -> Result<SettingValue, String> {
        let wrong = || {
            format!(
                "{} cannot be {value}: expected {}",
                self.name,
                self.expected()
            )
        };
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        match (self.kind, value) {
            (SettingKind::Flag, Value::Bool(flag)) => Ok(SettingValue::Flag(*flag)),
            (SettingKind::Size(least, most), Value::Number(_) | Value::String(_)) => {
                let bytes: Bytes = match value.as_u64() {
                    Some(bytes) => Bytes(bytes),
                    None if value.is_string() => {
                        text.parse().map_err(|error| format!("{error}"))?
                    }
                    None => return Err(wrong()),
                };
                if (least..=most).contains(&bytes.0) {
                    return Ok(SettingValue::Number(bytes.0));
                }
                let [least, most] = [least, most].map(Bytes);
                Err(format!(
                    "{} cannot be {bytes}: use {least} to {most}",
                    self.name
                ))
            }
            (SettingKind::Whole(least, most), Value::Number(number)) => match number.as_u64() {
                Some(number) if (least..=most).contains(&number) => {
                    Ok(SettingValue::Number(number))
                }
                _ => Err(format!(
                    "{} {number}: give between {least} and {most}",
                    self.name
                )),
            },
            (SettingKind::Share, Value::Number(number))
                if number.is_f64() && number.as_f64().is_some_and(|number| number < 1.0) =>
            {
                let share = number.as_f64().unwrap_or_default();
                Err(format!(
                    "{number} may be a share or less than one per cent: write it with its sign, such as \"{}\"",
                    percent_text(share)
                ))
            }
            (SettingKind::Share, Value::Number(_) | Value::String(_)) => {
                parse_percent(&text).map_err(|error| error.to_string())?;
                Ok(SettingValue::Text(text))
            }
            (SettingKind::Time(least, most, range), Value::Number(_) | Value::String(_)) => {
                let time = parse_duration(&text).map_err(|error| error.to_string())?;
                if (least..=most).contains(&time.as_secs_f64()) {
                    return Ok(SettingValue::Text(text));
                }
                Err(format!("{} {text}: give between {range}", self.name))
            }
            (SettingKind::Factor, Value::Number(_) | Value::String(_)) => {
                parse_scale(&text)?;
                Ok(SettingValue::Text(text))
            }
            (SettingKind::Word(words), Value::String(text)) => {
                match words.contains(&text.as_str()) {
                    true => Ok(SettingValue::Text(text.clone())),
                    false => {
                        let words = words.iter().copied();
                        Err(nearest::unknown(&self.title().to_lowercase(), text, words))
                    }
                }
            }
            (SettingKind::Text | SettingKind::Path, Value::String(text)) => {
                Ok(SettingValue::Text(text.clone()))
            }
            (SettingKind::Texts | SettingKind::Paths, Value::Array(items)) => {
                let texts: Option<Vec<String>> = items
                    .iter()
                    .map(|item| item.as_str().map(str::to_owned))
                    .collect();
                texts.map(SettingValue::List).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    fn expected(&self) -> &'static str {
        match self.kind {
            SettingKind::Flag => "true or false",
            SettingKind::Size(..) => "a whole number of bytes or a string such as \"4K\"",
            SettingKind::Whole(..) => "a whole number",
            SettingKind::Share => "a string, such as \"3%\"",
            SettingKind::Time(..) => "a string, such as \"5m\"",
            SettingKind::Factor => "a string, such as \"1/8\"",
            SettingKind::Word(_) | SettingKind::Text | SettingKind::Path => "a string",
            SettingKind::Texts | SettingKind::Paths => "a list of strings",
        }
    }

    /// Returns the value as a resolved plan stores it: bytes, seconds and ratios as numbers.
    pub(super) fn stored(&self, value: &SettingValue) -> Value {
        let text = value.text().unwrap_or_default();
        match self.kind {
            SettingKind::Share => parse_percent(text).map_or(Value::Null, Value::from),
            SettingKind::Time(..) => {
                parse_duration(text).map_or(Value::Null, |time| Value::from(time.as_secs_f64()))
            }
            SettingKind::Factor => parse_scale(text).map_or(Value::Null, Value::from),
            _ => value.to_json(),
        }
    }

    /// Returns the default as a resolved plan stores it.
    pub(super) fn stored_default(&self) -> Option<Value> {
        match self.default {
            SettingDefault::Absent | SettingDefault::Described(_) => None,
            SettingDefault::Bytes(bytes) => Some(bytes.into()),
            SettingDefault::Seconds(number) | SettingDefault::Share(number) => Some(number.into()),
            SettingDefault::Text(text) => Some(text.into()),
        }
    }

    /// Returns a stored value as a plan file writes it.
    pub(super) fn written(&self, stored: &Value) -> Option<SettingValue> {
        let value = match self.kind {
            SettingKind::Share => percent_text(stored.as_f64()?).into(),
            SettingKind::Time(..) => format!("{}s", stored.as_f64()?).into(),
            SettingKind::Factor => stored.as_f64()?.to_string().into(),
            _ => stored.clone(),
        };
        self.read_value(&value).ok()
    }
}
