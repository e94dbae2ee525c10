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
            Some(value) => value.as_u64().ok_or_else(|| format!("{value} is not a whole number")),
        };
        self.known.push(key);
        let value = value.map_err(|message| self.error(key, message))?;
        let (least, most) = (range.start(), range.end());
        if value < *least {
            return Err(self.error(key, format!("{value} is too few: at least {least}")));
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
        value.as_i64().filter(|value| range.contains(value)).ok_or_else(|| self.error(key, wanted))
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
        value.as_f64().filter(|value| range.contains(value)).ok_or_else(|| self.error(key, wanted))
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
            Some(value) => value.as_bool().ok_or_else(|| self.error(key, format!("{value} is not true or false"))),
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
