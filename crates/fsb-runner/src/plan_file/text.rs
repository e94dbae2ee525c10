//! The text of a plan file, read and written.
//!
//! The keys of settings come from [`fsb_model::setting::SETTINGS`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use fsb_model::nearest;
use fsb_model::setting::{Setting, SettingValue, of_table};
use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use toml::Spanned;

use super::needs::WrittenWorkload;
use super::{PLAN_VALUE, PlanError, PlanFile, UNKNOWN_KEY, at};

/// The table of a plan file that says how often to measure.
const REPETITION: &str = "repetition";

/// The keys that hold more than one value.
const PARTS: [&str; 5] = ["targets", "background", "controls", "workload", REPETITION];

static KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let settings = of_table(None).map(|setting| setting.name);
    PARTS.into_iter().chain(settings).collect()
});

static REPETITION_KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    of_table(Some(REPETITION))
        .map(|setting| setting.name)
        .collect()
});

/// Parses a plan. `origin` is its name in errors.
pub fn parse(text: &str, origin: &str) -> Result<PlanFile, PlanError> {
    let mut plan: PlanFile = toml::from_str(text).map_err(|error| {
        let code = if error.message().starts_with("unknown field `") {
            &UNKNOWN_KEY
        } else {
            &PLAN_VALUE
        };
        at(
            text,
            origin,
            error.span(),
            &suggesting(error.message()),
            code,
        )
    })?;
    plan.source = Some((text.to_owned(), origin.to_owned()));
    Ok(plan)
}

/// Returns the text of a plan file.
pub fn write(file: &PlanFile) -> Result<String, PlanError> {
    toml::to_string(file)
        .map_err(|error| PlanError::Request(format!("cannot print the plan: {error}")))
}

/// Returns serde's message of an unknown field with the field that was probably meant, or else with
/// all known fields.
fn suggesting(message: &str) -> String {
    let Some((typed, known)) = unknown_field(message) else {
        return in_words_of_toml(message);
    };
    if let Some(near) = nearest::nearest(typed, known.iter().copied()) {
        return format!("unknown field `{typed}`: did you mean `{near}`?");
    }
    let elsewhere = REPETITION_KEYS
        .iter()
        .copied()
        .filter(|field| !known.contains(field));
    match nearest::nearest(typed, elsewhere) {
        Some(near) if near == typed => {
            format!("unknown field `{typed}`: it belongs in [repetition]")
        }
        Some(near) => {
            format!("unknown field `{typed}`: did you mean `{near}`? It belongs in [repetition]")
        }
        None => message.to_owned(),
    }
}

/// Returns serde's message with the words of TOML for types. Words of the file, which serde quotes
/// between the found and the expected type, stay as they are.
fn in_words_of_toml(message: &str) -> String {
    const FOUND: [[&str; 2]; 2] = [["sequence", "list"], ["map", "table"]];
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_owned();
    };
    if !found.contains("invalid ") {
        return message.to_owned();
    }
    let mut found = found.to_owned();
    for [serde, toml] in FOUND {
        if let Some(before) = found.strip_suffix(&format!("invalid type: {serde}")) {
            found = format!("{before}invalid type: {toml}");
        }
    }
    let expected = expected
        .replace("a sequence", "a list")
        .replace("a map", "a table");
    format!("{found}, expected {expected}")
}

/// Returns the unknown field, and the fields that serde expects in its place.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let (typed, expected) = message
        .strip_prefix("unknown field `")?
        .split_once("`, expected ")?;
    Some((typed, expected.split('`').skip(1).step_by(2).collect()))
}

/// A key of a table.
enum Key {
    Part(&'static str),
    Setting(&'static Setting),
}

/// Reads a key of the table of that name, or of the top.
struct KeySeed(Option<&'static str>);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        let name = String::deserialize(deserializer)?;
        let part = PARTS.into_iter().find(|part| *part == name);
        if let Some(part) = part.filter(|_| self.0.is_none()) {
            return Ok(Key::Part(part));
        }
        let keys = match self.0 {
            None => &KEYS,
            Some(_) => &REPETITION_KEYS,
        };
        of_table(self.0)
            .find(|setting| setting.name == name)
            .map(Key::Setting)
            .ok_or_else(|| D::Error::unknown_field(&name, keys))
    }
}

/// Reads the value of a setting.
struct ValueSeed(&'static Setting);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Spanned<SettingValue>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Spanned<SettingValue>, D::Error> {
        let written = Spanned::<Value>::deserialize(deserializer)?;
        let span = written.span();
        match self.0.read_value(written.get_ref()) {
            Ok(value) => Ok(Spanned::new(span, value)),
            Err(why) => Err(D::Error::custom(why)),
        }
    }
}

impl<'de> Deserialize<'de> for PlanFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PlanFile, D::Error> {
        let mut plan = PlanFile::default();
        let table = TableSeed {
            name: None,
            plan: &mut plan,
        };
        table.deserialize(deserializer)?;
        Ok(plan)
    }
}

/// Reads a table into a plan.
struct TableSeed<'p> {
    name: Option<&'static str>,
    plan: &'p mut PlanFile,
}

impl<'de> DeserializeSeed<'de> for TableSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for TableSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let plan = self.plan;
        while let Some(key) = map.next_key_seed(KeySeed(self.name))? {
            match key {
                Key::Setting(setting) => {
                    let value = map.next_value_seed(ValueSeed(setting))?;
                    let span = value.span();
                    plan.settings.set_at(setting, value.into_inner(), span);
                }
                Key::Part("targets") => plan.targets = map.next_value()?,
                Key::Part("background") => plan.background = map.next_value()?,
                Key::Part("workload") => {
                    for written in map.next_value::<Vec<WrittenWorkload>>()? {
                        plan.workloads.push(written.spec);
                        plan.needed.extend(written.needed);
                    }
                }
                Key::Part("controls") => plan.controls = map.next_value::<Controls>()?.0,
                Key::Part(name) => map.next_value_seed(TableSeed {
                    name: Some(name),
                    plan,
                })?,
            }
        }
        Ok(())
    }
}

/// Values of controls as plans write them: `swap = false` is `swap = "off"`.
struct Controls(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Controls {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Controls, D::Error> {
        let mut controls = BTreeMap::new();
        for (name, value) in Map::deserialize(deserializer)? {
            let text = match value {
                Value::Bool(flag) => if flag { "on" } else { "off" }.to_owned(),
                Value::Number(number) => number.to_string(),
                Value::String(text) => text,
                other => {
                    let why = format!("{name}: {other}: expected a string, such as \"off\"");
                    return Err(D::Error::custom(why));
                }
            };
            controls.insert(name, text);
        }
        Ok(Controls(controls))
    }
}

impl Serialize for PlanFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.settings.written(None) {
            map.serialize_entry(name, &value)?;
        }
        if !self.targets.is_empty() {
            map.serialize_entry("targets", &self.targets)?;
        }
        if let Some(background) = &self.background {
            map.serialize_entry("background", background)?;
        }
        let repetition: Map<String, Value> = self
            .settings
            .written(Some(REPETITION))
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        if !repetition.is_empty() {
            map.serialize_entry(REPETITION, &repetition)?;
        }
        if !self.controls.is_empty() {
            map.serialize_entry("controls", &self.controls)?;
        }
        if !self.workloads.is_empty() {
            map.serialize_entry("workload", &self.workloads)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::in_words_of_toml;

    #[test]
    fn messages_have_the_words_of_toml_and_keep_those_of_the_file() {
        let cases = [
            (
                "invalid type: sequence, expected a map",
                "invalid type: list, expected a table",
            ),
            (
                "invalid type: map, expected a string",
                "invalid type: table, expected a string",
            ),
            (
                "invalid type: string \"sequence of a map\", expected a sequence",
                "invalid type: string \"sequence of a map\", expected a list",
            ),
            (
                "no workload 'a map, sequence'",
                "no workload 'a map, sequence'",
            ),
        ];
        for (serde, toml) in cases {
            assert_eq!(in_words_of_toml(serde), toml);
        }
    }
}
