//! Reads the parameters of a workload that its table declares.

use std::ops::RangeInclusive;

use fsb_model::nearest::unknown;
use fsb_model::units::parse_duration;
use fsb_model::{Bytes, Params, expression};
use serde_json::Value;

use super::parameter::{Needs, Parameter, ParameterDefault, ParameterKind};
use crate::backend::{self, Backend};
use crate::error::ParamError;
use crate::task::Sizing;

/// Reads parameters one by one. Defaults and ranges are those of the table.
pub(crate) struct Reader<'p> {
    workload: &'p str,
    table: Vec<Parameter>,
    params: &'p Params,
    sizing: &'p Sizing,
    /// The names that were read, so that a table cannot declare a parameter that has no effect.
    read: Vec<&'static str>,
}

impl<'p> Reader<'p> {
    /// Refuses names that the table does not declare, values whose condition does not hold, and
    /// missing values.
    pub(crate) fn new(
        workload: &'p str,
        table: Vec<Parameter>,
        params: &'p Params,
        sizing: &'p Sizing,
    ) -> Result<Reader<'p>, ParamError> {
        let reader = Reader {
            workload,
            table,
            params,
            sizing,
            read: Vec::new(),
        };
        let names = || reader.table.iter().map(|parameter| parameter.name);
        if let Some(key) = params
            .keys()
            .find(|key| names().all(|name| name != key.as_str()))
        {
            return Err(ParamError {
                workload: workload.to_owned(),
                key: Some(key.clone()),
                message: unknown("parameter", key, names()),
            });
        }
        for parameter in &reader.table {
            if let (false, ParameterDefault::Required(example)) =
                (reader.is_given(parameter), &parameter.default)
            {
                return Err(reader.error(
                    parameter.name,
                    format!("it is missing: give one, such as {example}"),
                ));
            }
            if let Some(needs) = parameter
                .needs
                .filter(|_| reader.is_given(parameter) && !reader.applies(parameter))
            {
                let advice = match needs {
                    Needs::Given(name) => format!("it applies {needs}: give {name} too"),
                    Needs::Absent(name) => format!("it does not apply with {name}: leave it out"),
                    Needs::Value(..) => format!("it applies {needs}: leave it out"),
                };
                return Err(reader.error(parameter.name, advice));
            }
        }
        Ok(reader)
    }

    /// Returns whether the plan gives the parameter. A flag that is `false` counts as not given.
    fn is_given(&self, parameter: &Parameter) -> bool {
        match self.params.get(parameter.name) {
            None => false,
            Some(value) => parameter.kind != ParameterKind::Flag || flag(value) != Some(false),
        }
    }

    /// Returns whether the parameter's condition on another one holds, or cannot be checked because
    /// the other one is wrong.
    fn applies(&self, parameter: &Parameter) -> bool {
        let Some(needs) = parameter.needs else {
            return true;
        };
        let Some(other) = self
            .table
            .iter()
            .find(|other| other.name == needs.parameter())
        else {
            return false;
        };
        match needs {
            Needs::Given(_) => self.is_given(other),
            Needs::Absent(_) => !self.is_given(other),
            Needs::Value(_, values) => {
                let value = self.given_or_default(other);
                let text = match (&other.kind, &value) {
                    (ParameterKind::Flag, Some(value)) => flag(value).map(|flag| flag.to_string()),
                    (ParameterKind::Word(words), Some(Value::String(word)))
                        if words.contains(&word.as_str()) =>
                    {
                        Some(word.clone())
                    }
                    _ => None,
                };
                text.is_none_or(|text| values.contains(&text.as_str()))
            }
        }
    }

    /// Returns the value that the plan gives, or the default as a plan would give it.
    fn given_or_default(&self, parameter: &Parameter) -> Option<Value> {
        self.params
            .get(parameter.name)
            .cloned()
            .or(match &parameter.default {
                ParameterDefault::Value(text) => Some(Value::String(text.to_string())),
                _ => None,
            })
    }

    /// Returns the declaration of a parameter that is read now.
    ///
    /// # Panics
    ///
    /// If the table does not declare it: a bug in the workload, which its tests find.
    fn declared(&mut self, key: &'static str) -> &Parameter {
        self.read.push(key);
        let found = self.table.iter().find(|parameter| parameter.name == key);
        found.unwrap_or_else(|| {
            panic!(
                "workload {} reads '{key}', which its table does not declare",
                self.workload
            )
        })
    }

    /// Returns an error about one parameter.
    pub(crate) fn error(&self, key: &str, message: impl Into<String>) -> ParamError {
        let message = format!("{key}: {}", message.into());
        ParamError {
            workload: self.workload.to_owned(),
            key: Some(key.to_owned()),
            message,
        }
    }

    /// Returns the value as the plan gives it.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'p Value> {
        self.declared(key);
        self.params.get(key)
    }

    /// Returns the value that the plan gives, or the default of the table.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<Value> {
        let parameter = self.declared(key).clone();
        self.given_or_default(&parameter)
    }

    /// Returns the keys of a table, or of each table of a list.
    pub(crate) fn keys(&mut self, key: &'static str) -> &'static [&'static str] {
        match self.declared(key).kind {
            ParameterKind::Table(keys) | ParameterKind::Tables(keys) => keys,
            _ => &[],
        }
    }

    /// Returns whether a parameter is a number or a size that the plan gives, and not one that
    /// follows from another.
    pub(crate) fn is_literal(&self, key: &str) -> bool {
        match self.params.get(key) {
            None => false,
            Some(Value::String(text)) => text.parse::<Bytes>().is_ok(),
            Some(_) => true,
        }
    }

    /// Reads a whole number, or an expression of the image's size.
    pub(crate) fn number(&mut self, key: &'static str) -> Result<u64, ParamError> {
        let value = self.value(key).unwrap_or(Value::Null);
        self.number_of(key, &value)
    }

    /// Like [`Reader::number`], with a default that the workload computes.
    pub(crate) fn number_or(&mut self, key: &'static str, default: u64) -> Result<u64, ParamError> {
        let value = self.value(key).unwrap_or_else(|| default.into());
        self.number_of(key, &value)
    }

    fn number_of(&mut self, key: &'static str, value: &Value) -> Result<u64, ParamError> {
        let number = match value {
            Value::String(text) => {
                expression::evaluate(text, self.sizing.size).map_err(|error| error.to_string())
            }
            value => whole(value).ok_or_else(|| format!("{value} is not a whole number")),
        };
        let number = number.map_err(|message| self.error(key, message))?;
        match self.declared(key).kind.clone() {
            ParameterKind::Number(range) | ParameterKind::Size(range) => {
                self.within(key, number, range)
            }
            _ => Ok(number),
        }
    }

    /// Returns the number, if it is within a range.
    pub(crate) fn within(
        &self,
        key: &str,
        number: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, ParamError> {
        let (least, most) = (range.start(), range.end());
        if number < *least {
            let written = self.params.get(key).and_then(Value::as_str);
            let of_size = written.filter(|text| text.contains("size"));
            let because = of_size.map_or(String::new(), |text| match self.sizing.size {
                0 => format!(
                    " ({text}: the slice of each target would be empty; use a larger --size)"
                ),
                size => format!(
                    " ({text}, where size is {}: use a larger --size)",
                    Bytes(size)
                ),
            });
            return Err(self.error(
                key,
                format!("{number} is too few: at least {least}{because}"),
            ));
        }
        if number > *most {
            return Err(self.error(key, format!("{number} is too many: at most {most}")));
        }
        Ok(number)
    }

    /// Reads a whole number that may be negative.
    pub(crate) fn integer(&mut self, key: &'static str) -> Result<i64, ParamError> {
        let value = self.value(key).unwrap_or(Value::Null);
        let number = value
            .as_str()
            .map_or_else(|| value.as_i64(), |text| text.trim().parse().ok());
        let ParameterKind::Integer(range) = self.declared(key).kind.clone() else {
            return number.ok_or_else(|| self.error(key, format!("{value} is not a whole number")));
        };
        let wanted = format!(
            "{value} is not a whole number from {} to {}",
            range.start(),
            range.end()
        );
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.error(key, wanted))
    }

    /// Reads a number that may have a fraction.
    pub(crate) fn fraction(&mut self, key: &'static str) -> Result<f64, ParamError> {
        let value = self.value(key).unwrap_or(Value::Null);
        let number = value.as_str().map_or_else(|| value.as_f64(), fraction);
        let ParameterKind::Fraction(range) = self.declared(key).kind.clone() else {
            return number.ok_or_else(|| self.error(key, format!("{value} is not a number")));
        };
        let wanted = format!(
            "{value} is not a number from {} to {}",
            range.start(),
            range.end()
        );
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| self.error(key, wanted))
    }

    /// Threads; 0 means all hardware threads.
    pub(crate) fn threads(&mut self) -> Result<u32, ParamError> {
        let threads = self.number("threads")?;
        Ok(if threads == 0 {
            self.cpus()
        } else {
            threads as u32
        })
    }

    /// Returns the backend, one of those in the table.
    pub(crate) fn backend(&mut self) -> Result<&'static dyn Backend, ParamError> {
        const KEY: &str = "backend";
        if let Some(name) = self.text(KEY)? {
            backend::find(&name).map_err(|error| self.error(KEY, error.message))?;
        }
        let all = backend::REGISTRY;
        let position = self.word(KEY, &(0..all.len()).collect::<Vec<_>>(), |index| {
            all[index].name()
        })?;
        Ok(all[position])
    }

    /// Returns one of the words in the table, as a value.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        values: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, ParamError> {
        let found = self.optional_word(key, values, name)?;
        found.ok_or_else(|| self.error(key, "it is missing"))
    }

    /// Like [`Reader::word`], but returns `None` if neither the plan nor the table gives a word.
    pub(crate) fn optional_word<T: Copy>(
        &mut self,
        key: &'static str,
        values: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, ParamError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let Some(text) = value.as_str() else {
            return Err(self.error(key, format!("{value} is not a word")));
        };
        let ParameterKind::Word(words) = &self.declared(key).kind else {
            return Ok(None);
        };
        if !words.contains(&text) {
            let words = words.join(" or ");
            return Err(self.error(key, format!("'{text}' is not allowed: use {words}")));
        }
        Ok(values.iter().copied().find(|&value| name(value) == text))
    }

    /// Returns a parameter that is `true` or `false`.
    pub(crate) fn flag(&mut self, key: &'static str) -> Result<bool, ParamError> {
        self.flag_or(key, false)
    }

    /// Like [`Reader::flag`], with a default that the workload computes.
    pub(crate) fn flag_or(&mut self, key: &'static str, default: bool) -> Result<bool, ParamError> {
        let value = self.value(key).unwrap_or_else(|| default.into());
        flag(&value).ok_or_else(|| self.error(key, format!("{value} is not true or false")))
    }

    /// Returns the seconds of a time such as `10ms`.
    pub(crate) fn duration(&mut self, key: &'static str) -> Result<Option<f64>, ParamError> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let parsed = value
            .as_str()
            .ok_or_else(|| format!("{value} is not a time"))
            .and_then(|text| {
                parse_duration(text)
                    .map(|time| time.as_secs_f64())
                    .map_err(|error| error.to_string())
            });
        let seconds = parsed.map_err(|message| self.error(key, message))?;
        let declared = self.declared(key);
        match &declared.kind {
            ParameterKind::Duration(range) if !range.contains(&seconds) => {
                let wanted = format!("{value} is not a {}", declared.values());
                Err(self.error(key, wanted))
            }
            _ => Ok(Some(seconds)),
        }
    }

    /// Reads a text of at least one character, on one line.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, ParamError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text))
                if !text.trim().is_empty() && !text.contains(char::is_control) =>
            {
                Ok(Some(text.clone()))
            }
            Some(value) => Err(self.error(key, format!("{value} is not a text of one line"))),
        }
    }

    /// Reads a text of any number of lines.
    pub(crate) fn long_text(&mut self, key: &'static str) -> Result<Option<String>, ParamError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(value) => Err(self.error(key, format!("{value} is not a text"))),
        }
    }

    /// Hardware threads of the machine.
    pub(crate) fn cpus(&self) -> u32 {
        self.sizing.cpus.max(1)
    }

    /// Checks in debug builds that the workload has read every parameter that applies.
    pub(crate) fn finish(self) {
        let unread = self
            .table
            .iter()
            .filter(|parameter| !self.read.contains(&parameter.name));
        // Read before the workload reads its own parameters.
        let unread: Vec<_> = unread
            .filter(|one| self.applies(one) && one.name != "data")
            .map(|one| one.name)
            .collect();
        debug_assert!(
            unread.is_empty(),
            "workload {} declares {unread:?} and does not read them",
            self.workload
        );
    }
}

/// Returns a whole number, even if it is written as `8.0`.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number))
            .map(|number| number as u64)
    })
}

/// Parses a fraction: `0.5`, `1/2` or `50%`. Returns `None` for other text.
fn fraction(text: &str) -> Option<f64> {
    fn number(text: &str) -> Option<f64> {
        text.trim().parse::<f64>().ok()
    }
    match (text.split_once('/'), text.trim().strip_suffix('%')) {
        (Some((above, below)), _) => Some(number(above)? / number(below)?),
        (None, Some(percent)) => Some(number(percent)? / 100.0),
        (None, None) => number(text),
    }
}

/// Parses a flag: `true` or `false`, also as text, and synonyms such as `yes`. Returns `None` for
/// other values.
fn flag(value: &Value) -> Option<bool> {
    match value.as_str() {
        None => value.as_bool(),
        Some("true" | "yes" | "on") => Some(true),
        Some("false" | "no" | "off") => Some(false),
        Some(_) => None,
    }
}

/// Adds a backend that is not the default, so that a plan of an earlier version resolves to the
/// same case.
pub(crate) fn add_backend(params: &mut Params, backend: &dyn Backend) {
    if backend.name() != backend::CALLS.name() {
        params.insert("backend".to_owned(), backend.name().into());
    }
}

/// Parameters from pairs, for examples and resolved forms.
pub(crate) fn from_pairs<const N: usize>(pairs: [(&str, Value); N]) -> Params {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SIZING: Sizing = Sizing {
        size: 1 << 30,
        cpus: 2,
    };

    fn table() -> Vec<Parameter> {
        use ParameterKind::{Fraction, Integer, Number};
        vec![
            Parameter::new("threads", Number(1..=8), "1", ""),
            Parameter::new("files", Number(1..=9999), "min(100, size/4K)", ""),
            Parameter::new("bias_read", Integer(-1..=10), "5", ""),
            Parameter::new("scale", Fraction(0.0..=1.0), "1", ""),
            Parameter::new("share", Fraction(0.0..=1.0), "1/2", ""),
            Parameter::flag("verify", ""),
            Parameter::flag("close", "")
                .default("true")
                .needs(Needs::Value("verify", &["true"])),
        ]
    }

    #[test]
    fn values_are_read_in_every_spelling_with_one_meaning() {
        let params = from_pairs([
            ("threads", json!(4.0)),
            ("files", json!("1K")),
            ("bias_read", json!("-1")),
            ("scale", json!("1/8")),
            ("share", json!("50%")),
            ("verify", json!("yes")),
            ("close", json!("false")),
        ]);
        let mut reader = Reader::new("any", table(), &params, &SIZING).unwrap();
        assert_eq!(reader.number("threads").unwrap(), 4);
        assert_eq!(reader.number("files").unwrap(), 1024);
        assert_eq!(reader.integer("bias_read").unwrap(), -1);
        assert_eq!(reader.fraction("scale").unwrap(), 0.125);
        assert_eq!(reader.fraction("share").unwrap(), 0.5);
        assert_eq!(
            (
                reader.flag("verify").unwrap(),
                reader.flag("close").unwrap()
            ),
            (true, false)
        );
        reader.finish();
    }

    #[test]
    fn defaults_come_from_the_table() {
        let params = Params::new();
        let mut reader = Reader::new("any", table(), &params, &SIZING).unwrap();
        assert_eq!(
            (
                reader.number("threads").unwrap(),
                reader.number("files").unwrap()
            ),
            (1, 100)
        );
        assert_eq!(
            (
                reader.integer("bias_read").unwrap(),
                reader.fraction("share").unwrap()
            ),
            (5, 0.5)
        );
        assert_eq!(
            (
                reader.flag("verify").unwrap(),
                reader.flag("close").unwrap()
            ),
            (false, true)
        );
    }

    #[test]
    fn ambiguous_values_are_refused_with_their_key() {
        let params = from_pairs([
            ("threads", json!(4.5)),
            ("bias_read", json!("many")),
            ("scale", json!("1/0")),
            ("verify", json!("perhaps")),
        ]);
        let mut reader = Reader::new("any", table(), &params, &SIZING).unwrap();
        let errors = [
            reader.number("threads").unwrap_err(),
            reader.integer("bias_read").unwrap_err(),
            reader.fraction("scale").unwrap_err(),
            reader.flag("verify").unwrap_err(),
        ];
        for (error, key) in errors
            .iter()
            .zip(["threads", "bias_read", "scale", "verify"])
        {
            assert!(error.message.starts_with(key), "{}", error.message);
        }
    }

    #[test]
    fn a_value_whose_condition_does_not_hold_is_refused() {
        let refusal = |key: &str, needs: Needs, others: &[(&str, Value)]| {
            let mut params: Params = others
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect();
            params.insert(key.to_owned(), 1.into());
            let needing = |one: Parameter| {
                if one.name == key {
                    one.needs(needs)
                } else {
                    one
                }
            };
            let table = table().into_iter().map(needing).collect();
            Reader::new("any", table, &params, &SIZING)
                .err()
                .map(|error| error.message)
        };
        let on = Needs::Value("verify", &["true"]);
        assert_eq!(refusal("files", on, &[("verify", json!("on"))]), None);
        assert_eq!(
            refusal("files", on, &[]).unwrap(),
            "files: it applies only with verify = true: leave it out"
        );
        let given = refusal("files", Needs::Given("scale"), &[]).unwrap();
        assert_eq!(given, "files: it applies only with scale: give scale too");
        let absent = refusal("files", Needs::Absent("scale"), &[("scale", 1.into())]).unwrap();
        assert_eq!(absent, "files: it does not apply with scale: leave it out");
    }

    #[test]
    #[should_panic(expected = "which its table does not declare")]
    fn reading_an_undeclared_parameter_is_a_bug() {
        let _ = Reader::new("any", table(), &Params::new(), &SIZING)
            .unwrap()
            .flag("durable");
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "does not read them")]
    fn declaring_a_parameter_without_reading_it_is_a_bug() {
        Reader::new("any", table(), &Params::new(), &SIZING)
            .unwrap()
            .finish();
    }
}
