//! The settings that a plan file or a command line gives.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::declared::{Setting, Stored};
use super::table::{SETTINGS, find, of_table};
use super::value::SettingValue;

/// The settings that a plan file or a command line gives, by name.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    given: BTreeMap<&'static str, (SettingValue, Range<usize>)>,
}

/// Two plans are equal wherever their values are in their files.
impl PartialEq for Settings {
    fn eq(&self, other: &Settings) -> bool {
        self.given.len() == other.given.len()
            && self.given.iter().zip(&other.given).all(
                |((name, (value, _)), (other_name, (other_value, _)))| {
                    name == other_name && value == other_value
                },
            )
    }
}

impl Settings {
    /// Sets a value, which came from `span` of a plan file, or from elsewhere if that is empty.
    pub fn set_at(&mut self, setting: &'static Setting, value: SettingValue, span: Range<usize>) {
        self.given.insert(setting.name, (value, span));
    }

    /// Sets a value of the setting of that name. An unknown name sets nothing.
    pub fn set(&mut self, name: &str, value: SettingValue) {
        debug_assert!(find(name).is_some(), "no setting is called {name}");
        if let Some(setting) = find(name) {
            self.set_at(setting, value, 0..0);
        }
    }

    /// Sets the value that a text gives.
    ///
    /// # Errors
    ///
    /// No setting has the name, or the text is not a value of it.
    pub fn read(&mut self, name: &str, text: &str) -> Result<(), String> {
        let setting = find(name).ok_or_else(|| format!("no setting is called {name}"))?;
        self.set_at(setting, setting.read(text)?, 0..0);
        Ok(())
    }

    /// Returns the settings with a text as the value of another one.
    #[must_use]
    pub fn with_text(mut self, name: &str, text: impl Into<String>) -> Settings {
        self.set(name, SettingValue::Text(text.into()));
        self
    }

    /// Returns the settings with a whole number or bytes as the value of another one.
    #[must_use]
    pub fn with_number(mut self, name: &str, number: u64) -> Settings {
        self.set(name, SettingValue::Number(number));
        self
    }

    /// Removes a value.
    pub fn unset(&mut self, name: &str) {
        self.given.remove(name);
    }

    /// Returns whether the setting has a value.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Returns the names of the settings that have a value.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.given.keys().copied()
    }

    /// Returns whether a flag is on.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.given.get(name), Some((SettingValue::Flag(true), _)))
    }

    /// Returns a whole number, or bytes.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.given.get(name) {
            Some((SettingValue::Number(number), _)) => Some(*number),
            _ => None,
        }
    }

    /// Returns a text, a path or a quantity as it was written.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.given.get(name)?.0.text()
    }

    /// Returns the texts or paths of a list.
    pub fn list(&self, name: &str) -> &[String] {
        match self.given.get(name) {
            Some((SettingValue::List(texts), _)) => texts,
            _ => &[],
        }
    }

    /// Returns the value in words.
    pub fn shown(&self, name: &str) -> Option<String> {
        let setting = find(name)?;
        Some(setting.shown(&self.given.get(name)?.0))
    }

    /// Returns the number that a resolved plan stores: seconds, a ratio or a factor.
    pub fn quantity(&self, name: &str) -> Option<f64> {
        let setting = find(name)?;
        match self.given.get(name) {
            Some((value, _)) => setting.stored(value).as_f64(),
            None => setting.stored_default()?.as_f64(),
        }
    }

    /// Returns the place of the value in its plan file; empty if it came from elsewhere.
    pub fn span(&self, name: &str) -> Range<usize> {
        self.given.get(name).map_or(0..0, |(_, span)| span.clone())
    }

    /// Adds an item to a list.
    pub fn push(&mut self, name: &str, item: String) {
        let mut texts = self.list(name).to_vec();
        texts.push(item);
        self.set(name, SettingValue::List(texts));
    }

    /// Merges these settings over others. The values of these settings take precedence.
    #[must_use]
    pub fn over(self, under: Settings) -> Settings {
        let replaced: Vec<&str> = self
            .names()
            .filter_map(find)
            .flat_map(|setting| setting.replaces)
            .copied()
            .collect();
        let mut given = under.given;
        given.retain(|name, _| !replaced.contains(name));
        given.extend(self.given);
        Settings { given }
    }

    /// Returns the settings that plan files do not have.
    #[must_use]
    pub fn unwritten(&self) -> Settings {
        let mut settings = self.clone();
        settings
            .given
            .retain(|name, _| find(name).is_some_and(|setting| !setting.is_written));
        settings
    }

    /// Returns the values that plan files have in a table, or at the top, in the order of
    /// [`SETTINGS`].
    pub fn written(&self, table: Option<&'static str>) -> Vec<(&'static str, Value)> {
        of_table(table)
            .filter_map(|setting| {
                let (value, _) = self.given.get(setting.name)?;
                Some((setting.name, value.to_json()))
            })
            .collect()
    }

    /// Stores the values, and the defaults of settings without one, in the JSON of a resolved plan.
    pub(crate) fn store(&self, plan: &mut Value) {
        for setting in SETTINGS {
            let Stored::Copied(pointer) = setting.stored else {
                continue;
            };
            let value = match self.given.get(setting.name) {
                Some((value, _)) => Some(setting.stored(value)),
                None => setting.stored_default(),
            };
            if let Some(value) = value {
                insert(plan, pointer, value);
            }
        }
    }

    /// Returns the settings of plan files that resolve to the values in the JSON of a plan.
    pub(crate) fn from_stored(plan: &Value) -> Settings {
        let mut settings = Settings::default();
        for setting in SETTINGS.iter().filter(|setting| setting.is_written) {
            let value = setting.pointer().and_then(|pointer| plan.pointer(pointer));
            if let Some(value) = value.and_then(|value| setting.written(value)) {
                settings.set_at(setting, value, 0..0);
            }
        }
        settings
    }
}

/// Writes a value at a JSON pointer, and the objects about it.
fn insert(value: &mut Value, pointer: &str, new: Value) {
    let mut inner = value;
    for key in pointer.split('/').skip(1) {
        if !inner.is_object() {
            *inner = Value::Object(Map::new());
        }
        inner = &mut inner[key];
    }
    *inner = new;
}

/// Returns whether two plans, as JSON, have the same values of all settings that decide what is
/// measured.
pub(crate) fn same_work(one: &Value, other: &Value) -> bool {
    SETTINGS
        .iter()
        .filter(|setting| setting.is_work)
        .filter_map(Setting::pointer)
        .all(|pointer| one.pointer(pointer) == other.pointer(pointer))
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.given
                .iter()
                .map(|(name, (value, _))| (name, value.to_json())),
        )
    }
}

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Settings, D::Error> {
        let mut settings = Settings::default();
        for (name, value) in Map::deserialize(deserializer)? {
            let setting = find(&name)
                .ok_or_else(|| D::Error::custom(format!("no setting is called {name}")))?;
            let value = setting.read_value(&value).map_err(D::Error::custom)?;
            settings.set_at(setting, value, 0..0);
        }
        Ok(settings)
    }
}
