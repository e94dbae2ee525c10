//! Evaluates the values after an `=`.

use std::collections::HashMap;

use fsb_model::Bytes;
use fsb_model::flow::Spread;
use fsb_model::nearest::{shortened, unknown};

use super::Remark;
use super::parser::{Attribute, Piece, Written};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Flag(bool),
    Text(String),
    Spread(Spread),
}

impl Value {
    /// Returns the text that is printed and that names are built from.
    pub(super) fn text(&self) -> String {
        match self {
            Value::Number(number) => number.to_string(),
            Value::Flag(flag) => flag.to_string(),
            Value::Text(text) => text.clone(),
            Value::Spread(spread) => spread.mean().to_string(),
        }
    }
}

/// Variables with their values: those of the file, and those of the composite flow operation that is being expanded.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) all: HashMap<String, Value>,
    pub(super) own: HashMap<String, Value>,
    /// Lines that were not understood may have set variables, so no variable counts as unknown.
    pub(super) incomplete: bool,
}

impl Scope {
    fn variable(&self, name: &str) -> Result<Value, String> {
        let found = self.own.get(name).or_else(|| self.all.get(name));
        if found.is_none() && self.incomplete {
            return Ok(Value::Number(1));
        }
        found.cloned().ok_or_else(|| {
            let known: Vec<&str> = self.all.keys().chain(self.own.keys()).map(String::as_str).collect();
            if known.is_empty() { format!("${name} was never set") } else { unknown("variable", name, known) }
        })
    }

    pub(super) fn pieces(&self, pieces: &[Piece]) -> Result<String, String> {
        pieces
            .iter()
            .map(|piece| match piece {
                Piece::Plain(text) => Ok(text.clone()),
                Piece::Variable(name) => self.variable(name).map(|value| value.text()),
            })
            .collect()
    }

    pub(super) fn evaluate(&self, written: &Written) -> Result<Value, String> {
        match written {
            Written::Number(number) => Ok(Value::Number(*number)),
            Written::Word(word) if word == "true" => Ok(Value::Flag(true)),
            Written::Word(word) if word == "false" => Ok(Value::Flag(false)),
            Written::Word(word) => Ok(Value::Text(word.clone())),
            Written::Text(pieces) => self.pieces(pieces).map(Value::Text),
            Written::Variable(name) => self.variable(name),
            Written::Sum(left, operator, right) => {
                let [left, right] = [left, right].map(|side| match self.evaluate(side)? {
                    Value::Number(number) => Ok(number),
                    other => Err(format!("'{}' is not a number that fsb can calculate with", shortened(&other.text()))),
                });
                let (left, right) = (left?, right?);
                let result = match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    _ => left.checked_div(right),
                };
                result.map(Value::Number).ok_or_else(|| format!("{left} {operator} {right} is not a number from 0 up"))
            }
            Written::Random(attributes) => self.random(attributes).map(Value::Spread),
            Written::Custom(attributes) => self.custom(attributes).map(Value::Spread),
            Written::Table => Err("a table of probabilities is not supported: give a size, or a gamma".to_owned()),
        }
    }

    /// Evaluates `randvar(type=gamma, mean=16k, gamma=1500)`.
    fn random(&self, attributes: &[Attribute]) -> Result<Spread, String> {
        const KNOWN: [&str; 8] = ["type", "mean", "min", "gamma", "round", "seed", "randsrc", "randtable"];
        known(attributes, "randvar", &KNOWN)?;
        let number = |name: &str| self.number_of(attributes, name);
        let kind = match self.word_of(attributes, "type")?.as_deref() {
            None | Some("gamma") => "gamma",
            Some("uniform") => "uniform",
            Some("tabular") => {
                return Err("type=tabular, a table of probabilities, is not supported: give a gamma".to_owned());
            }
            Some(other) => return Err(format!("randvar: {}", unknown("type", other, ["gamma", "uniform"]))),
        };
        let mean = number("mean")?.ok_or("a randvar needs a mean")?;
        let least = number("min")?.unwrap_or(0);
        if let Some(round) = number("round")?.filter(|round| *round > 1) {
            return Err(format!("round={round} is not supported: fsb does not round random values"));
        }
        if kind == "uniform" {
            let span = mean.checked_sub(least).ok_or_else(|| format!("mean={mean} is below min={least}"))?;
            return uniform(least, least.saturating_add(span.saturating_mul(2)));
        }
        if least > 0 {
            return Err(format!("min={least} of a gamma distribution is not supported: it begins at 0"));
        }
        // Thousandths.
        match number("gamma")?.unwrap_or(1500) {
            0 => Ok(Spread::Exact(Bytes(mean))),
            gamma => Ok(Spread::Gamma { mean: Bytes(mean), shape: gamma as f64 / 1000.0 }),
        }
    }

    /// Evaluates `cvar(type=cvar-gamma, parameters=mean:16384;gamma:1.5)`.
    fn custom(&self, attributes: &[Attribute]) -> Result<Spread, String> {
        known(attributes, "cvar", &["type", "parameters", "min", "max", "round"])?;
        for name in ["min", "max", "round"] {
            if let Some(bound) = self.number_of(attributes, name)?.filter(|bound| *bound > u64::from(name == "round")) {
                return Err(format!("{name}={bound} of a cvar is not supported: fsb does not limit random values"));
            }
        }
        let kind = self.word_of(attributes, "type")?.ok_or("a cvar needs a type such as cvar-gamma")?;
        let written = self.word_of(attributes, "parameters")?.unwrap_or_default();
        let mut parameters = HashMap::new();
        for pair in written.split(';').filter(|pair| !pair.is_empty()) {
            let read = pair.split_once(':').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
            let (name, value) = read
                .filter(|(_, value)| value.is_finite() && (0.0..=1e15).contains(value))
                .ok_or_else(|| format!("'{pair}' is not a parameter such as mean:16384"))?;
            parameters.insert(name, value);
        }
        let mut take = |name: &str| parameters.remove(name).ok_or_else(|| format!("{kind} needs a parameter '{name}'"));
        let spread = match kind.as_str() {
            "cvar-gamma" => {
                let (mean, shape) = (take("mean")?, take("gamma")?);
                Spread::Gamma { mean: Bytes(mean as u64), shape }
            }
            "cvar-uniform" => {
                let (lower, upper) = (take("lower")?, take("upper")?);
                uniform(lower as u64, upper as u64)?
            }
            other => {
                let supported = ["cvar-gamma", "cvar-uniform"];
                return Err(unknown("distribution", other, supported).to_string());
            }
        };
        match parameters.keys().next() {
            None => Ok(spread),
            Some(name) => Err(format!("{kind} has no parameter '{name}'")),
        }
    }

    fn number_of(&self, attributes: &[Attribute], name: &str) -> Result<Option<u64>, String> {
        match self.attribute(attributes, name)? {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(other) => Err(format!("{name}={} is not a number", shortened(&other.text()))),
        }
    }

    fn word_of(&self, attributes: &[Attribute], name: &str) -> Result<Option<String>, String> {
        match self.attribute(attributes, name)? {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{name}={} is not a word", other.text())),
        }
    }

    fn attribute(&self, attributes: &[Attribute], name: &str) -> Result<Option<Value>, String> {
        let Some(attribute) = attributes.iter().find(|attribute| attribute.name == name) else { return Ok(None) };
        let written = attribute.value.as_ref().ok_or_else(|| format!("{name} has no value"))?;
        self.evaluate(written).map(Some)
    }
}

fn uniform(low: u64, high: u64) -> Result<Spread, String> {
    if low == high {
        return Ok(Spread::Exact(Bytes(low)));
    }
    if low > high {
        return Err(format!("the range from {low} to {high} is empty"));
    }
    Ok(Spread::Uniform { low: Bytes(low), high: Bytes(high.saturating_add(1)) })
}

fn known(attributes: &[Attribute], what: &str, names: &[&str]) -> Result<(), String> {
    match attributes.iter().find(|attribute| !names.contains(&attribute.name.as_str())) {
        None => Ok(()),
        Some(attribute) => Err(format!("{what}: {}", unknown("attribute", &attribute.name, names.iter().copied()))),
    }
}

/// Reads the attributes of one definition, each once, and notes their problems.
pub(super) struct Given<'a> {
    /// The definition, for messages: `fileset`, `flowop read`.
    what: String,
    line: usize,
    attributes: &'a [Attribute],
    scope: &'a Scope,
    known: Vec<&'static str>,
    problems: &'a mut Vec<Remark>,
}

impl<'a> Given<'a> {
    pub(super) fn new(
        what: impl Into<String>,
        line: usize,
        attributes: &'a [Attribute],
        scope: &'a Scope,
        problems: &'a mut Vec<Remark>,
    ) -> Given<'a> {
        Given { what: what.into(), line, attributes, scope, known: Vec::new(), problems }
    }

    pub(super) fn say(&mut self, line: usize, message: impl Into<String>) {
        let message = format!("{}: {}", self.what, message.into());
        self.problems.push(Remark { line, message });
    }

    /// Returns the attribute's line and its value. An attribute without `=` is `true`.
    pub(super) fn value(&mut self, name: &'static str) -> Option<(usize, Value)> {
        self.known.push(name);
        // The last one counts, as in filebench.
        let attribute = self.attributes.iter().rev().find(|attribute| attribute.name == name)?;
        match attribute.value.as_ref().map_or(Ok(Value::Flag(true)), |written| self.scope.evaluate(written)) {
            Ok(value) => Some((attribute.line, value)),
            Err(why) => {
                self.say(attribute.line, format!("{name}: {why}"));
                None
            }
        }
    }

    fn typed<T>(&mut self, name: &'static str, what: &str, read: impl Fn(&Value) -> Option<T>) -> Option<(usize, T)> {
        let (line, value) = self.value(name)?;
        let read = read(&value).map(|read| (line, read));
        if read.is_none() {
            self.say(line, format!("{name}={} is not a {what}", shortened(&value.text())));
        }
        read
    }

    pub(super) fn number(&mut self, name: &'static str) -> Option<u64> {
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number),
            Value::Spread(Spread::Exact(size)) => Some(size.0),
            _ => None,
        };
        self.typed(name, "number, and it takes one", number).map(|(_, number)| number)
    }

    pub(super) fn small(&mut self, name: &'static str) -> Option<u32> {
        let number = |value: &Value| match value {
            Value::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        };
        self.typed(name, "number that it takes", number).map(|(_, number)| number)
    }

    pub(super) fn spread(&mut self, name: &'static str) -> Option<Spread> {
        let spread = |value: &Value| match value {
            Value::Number(number) => Some(Spread::Exact(Bytes(*number))),
            Value::Spread(spread) => Some(*spread),
            _ => None,
        };
        self.typed(name, "number", spread).map(|(_, spread)| spread)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Option<(usize, bool)> {
        let flag = |value: &Value| match value {
            Value::Flag(flag) => Some(*flag),
            Value::Number(number) => Some(*number != 0),
            _ => None,
        };
        self.typed(name, "true or false", flag)
    }

    pub(super) fn word(&mut self, name: &'static str) -> Option<String> {
        let word = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        self.typed(name, "name", word).map(|(_, word)| word)
    }

    /// Returns the attributes that are variables: the parameters or arguments of a composite flow operation.
    pub(super) fn variables(&mut self) -> Vec<(String, Option<Value>)> {
        let mut found = Vec::new();
        for attribute in self.attributes {
            let Some(name) = attribute.name.strip_prefix('$') else { continue };
            match attribute.value.as_ref().map(|written| self.scope.evaluate(written)).transpose() {
                Ok(value) => found.push((name.to_owned(), value)),
                Err(why) => self.say(attribute.line, format!("{}: {why}", attribute.name)),
            }
        }
        found
    }

    /// Reports the unknown attributes.
    pub(super) fn finish(mut self) {
        let known = self.known.clone();
        for attribute in self.attributes {
            let name = attribute.name.as_str();
            if !known.contains(&name) && !name.starts_with('$') {
                self.say(attribute.line, unknown("attribute", name, known.iter().copied()));
            }
        }
    }

    pub(super) fn line(&self) -> usize {
        self.line
    }
}
