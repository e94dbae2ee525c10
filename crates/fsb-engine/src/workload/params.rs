//! Reading a workload's parameters, each exactly once, and refusing what is left over.

use std::ops::RangeInclusive;

use fsb_model::nearest::unknown;
use fsb_model::{Bytes, Params, expression};
use serde_json::Value;

use crate::backend::{self, Backend};
use crate::{ParamError, Sizing};

/// Takes parameters one by one.
pub(crate) struct Reader<'p> {
    workload: &'p str,
    params: &'p Params,
    sizing: &'p Sizing,
    known: Vec<&'static str>,
}

impl<'p> Reader<'p> {
    pub(crate) fn new(workload: &'p str, params: &'p Params, sizing: &'p Sizing) -> Reader<'p> {
        Reader { workload, params, sizing, known: Vec::new() }
    }

    /// An error about one parameter.
    pub(crate) fn error(&self, key: &str, message: impl Into<String>) -> ParamError {
        let message = format!("{key}: {}", message.into());
        ParamError { workload: self.workload.to_owned(), key: Some(key.to_owned()), message, known: Vec::new() }
    }

    /// Whatever was written down.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<&'p Value> {
        self.known.push(key);
        self.params.get(key)
    }

    /// Whether a parameter is a number or a size that somebody wrote down, and not one that follows from another.
    pub(crate) fn is_literal(&self, key: &str) -> bool {
        match self.params.get(key) {
            None => false,
            Some(Value::String(text)) => text.parse::<Bytes>().is_ok(),
            Some(_) => true,
        }
    }

    /// A whole number, or an expression of the image's size; `default` is an expression too.
    pub(crate) fn number(
        &mut self,
        key: &'static str,
        default: &str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, ParamError> {
        let evaluate = |text: &str| expression::evaluate(text, self.sizing.size).map_err(|error| error.to_string());
        let value = match self.params.get(key) {
            None => evaluate(default),
            Some(Value::String(text)) => evaluate(text),
            Some(value) => whole(value).ok_or_else(|| format!("{value} is not a whole number")),
        };
        self.known.push(key);
        let value = value.map_err(|message| self.error(key, message))?;
        let (least, most) = (range.start(), range.end());
        if value < *least {
            let written = self.params.get(key).and_then(Value::as_str);
            let of_size = written.filter(|text| text.contains("size"));
            let because = of_size.map_or(String::new(), |text| match self.sizing.size {
                0 => format!(" ({text}: a target's part of the medium would hold nothing; a larger --size is needed)"),
                size => format!(" ({text}, where size is {}: a larger --size is needed)", Bytes(size)),
            });
            return Err(self.error(key, format!("{value} is too few: at least {least}{because}")));
        }
        if value > *most {
            return Err(self.error(key, format!("{value} is too many: at most {most}")));
        }
        Ok(value)
    }

    /// A whole number that may be below 0.
    pub(crate) fn integer(
        &mut self,
        key: &'static str,
        default: i64,
        range: RangeInclusive<i64>,
    ) -> Result<i64, ParamError> {
        let Some(value) = self.take(key) else { return Ok(default) };
        let (least, most) = (range.start(), range.end());
        let wanted = format!("{value} is not a whole number from {least} to {most}");
        let typed = value.as_str().map_or_else(|| value.as_i64(), |text| text.trim().parse().ok());
        typed.filter(|value| range.contains(value)).ok_or_else(|| self.error(key, wanted))
    }

    /// A number that need not be whole.
    pub(crate) fn fraction(
        &mut self,
        key: &'static str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, ParamError> {
        let Some(value) = self.take(key) else { return Ok(default) };
        let (least, most) = (range.start(), range.end());
        let wanted = format!("{value} is not a number from {least} to {most}");
        let typed = value.as_str().map_or_else(|| value.as_f64(), fraction);
        typed.filter(|value| range.contains(value)).ok_or_else(|| self.error(key, wanted))
    }

    /// Threads; 0 means all hardware threads.
    pub(crate) fn threads(&mut self) -> Result<u32, ParamError> {
        let threads = self.number("threads", "1", 0..=1024)?;
        Ok(if threads == 0 { self.sizing.cpus.max(1) } else { threads as u32 })
    }

    /// The backend of a workload that makes any call, at a file's own position too.
    pub(crate) fn sequential_backend(&mut self) -> Result<&'static dyn Backend, ParamError> {
        let name = self.text("backend")?;
        let found = name.map_or(Ok(backend::CALLS), |name| backend::find(&name));
        let found = found.map_err(|error| self.error("backend", error.message))?;
        if found.capabilities().sequential {
            return Ok(found);
        }
        let fits = backend::REGISTRY.iter().filter(|other| other.capabilities().sequential);
        let fits: Vec<_> = fits.map(|other| other.name()).collect();
        Err(self.error("backend", format!("'{}' cannot be: {}", found.name(), fits.join(" or "))))
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &'static str,
        allowed: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<Option<T>, ParamError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let Some(text) = value.as_str() else {
            return Err(self.error(key, format!("{value} is not a word")));
        };
        let names = allowed.iter().map(|&one| name(one));
        match allowed.iter().find(|&&one| name(one) == text) {
            Some(&one) => Ok(Some(one)),
            None => {
                let names: Vec<_> = names.collect();
                Err(self.error(key, format!("'{text}' cannot be: {}", names.join(" or "))))
            }
        }
    }

    /// Yes or no.
    pub(crate) fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, ParamError> {
        match self.take(key) {
            None => Ok(default),
            Some(value) => flag(value).ok_or_else(|| self.error(key, format!("{value} is not true or false"))),
        }
    }

    /// A text of at least one character, on one line.
    pub(crate) fn text(&mut self, key: &'static str) -> Result<Option<String>, ParamError> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() && !text.contains(char::is_control) => {
                Ok(Some(text.clone()))
            }
            Some(value) => Err(self.error(key, format!("{value} is not a text of one line"))),
        }
    }

    /// A text of any number of lines.
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

    /// Refuses parameters that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), ParamError> {
        match self.params.keys().find(|key| !self.known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(ParamError {
                workload: self.workload.to_owned(),
                key: Some(key.clone()),
                message: unknown("parameter", key, self.known.iter().copied()),
                known: self.known,
            }),
        }
    }
}

/// A whole number, though it was written as `8.0`.
fn whole(value: &Value) -> Option<u64> {
    let rounded = || value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..1e15).contains(number));
    value.as_u64().or_else(|| rounded().map(|number| number as u64))
}

/// `0.5`, `1/2` or `50%`.
fn fraction(text: &str) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    match (text.split_once('/'), text.trim().strip_suffix('%')) {
        (Some((above, below)), _) => Some(number(above)? / number(below)?),
        (None, Some(percent)) => Some(number(percent)? / 100.0),
        (None, None) => number(text),
    }
}

/// `true`, also as a text, and the words that people write for it.
fn flag(value: &Value) -> Option<bool> {
    match value.as_str() {
        None => value.as_bool(),
        Some("true" | "yes" | "on") => Some(true),
        Some("false" | "no" | "off") => Some(false),
        Some(_) => None,
    }
}

/// Adds a backend that is not the usual one: a plan of an earlier version resolves to the same cell.
pub(crate) fn add_backend(params: &mut Params, backend: &dyn Backend) {
    if backend.name() != backend::CALLS.name() {
        params.insert("backend".to_owned(), backend.name().into());
    }
}

/// Parameters from pairs, for examples and resolved forms.
pub(crate) fn of<const N: usize>(pairs: [(&str, Value); N]) -> Params {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_however_they_are_written_where_that_is_clear() {
        let params = of([
            ("threads", json!(4.0)),
            ("files", json!("1K")),
            ("bias_read", json!("-1")),
            ("scale", json!("1/8")),
            ("share", json!("50%")),
            ("verify", json!("yes")),
            ("close", json!("false")),
        ]);
        let sizing = Sizing { size: 1 << 30, cpus: 2 };
        let mut reader = Reader::new("any", &params, &sizing);
        assert_eq!(reader.number("threads", "1", 1..=8).unwrap(), 4);
        assert_eq!(reader.number("files", "1", 1..=9999).unwrap(), 1024);
        assert_eq!(reader.integer("bias_read", 5, -1..=10).unwrap(), -1);
        assert_eq!(reader.fraction("scale", 1.0, 0.0..=1.0).unwrap(), 0.125);
        assert_eq!(reader.fraction("share", 1.0, 0.0..=1.0).unwrap(), 0.5);
        assert_eq!((reader.flag("verify", false).unwrap(), reader.flag("close", true).unwrap()), (true, false));
        reader.finish().unwrap();
    }

    #[test]
    fn what_is_not_clear_is_refused_with_its_key() {
        let params = of([
            ("threads", json!(4.5)),
            ("bias_read", json!("many")),
            ("scale", json!("1/0")),
            ("verify", json!("perhaps")),
        ]);
        let sizing = Sizing { size: 1 << 30, cpus: 2 };
        let mut reader = Reader::new("any", &params, &sizing);
        let errors = [
            reader.number("threads", "1", 1..=8).unwrap_err(),
            reader.integer("bias_read", 5, -1..=10).unwrap_err(),
            reader.fraction("scale", 1.0, 0.0..=1.0).unwrap_err(),
            reader.flag("verify", false).unwrap_err(),
        ];
        for (error, key) in errors.iter().zip(["threads", "bias_read", "scale", "verify"]) {
            assert!(error.message.starts_with(key), "{}", error.message);
        }
    }
}
