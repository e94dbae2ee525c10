//! Numbers that a command prints.

use std::collections::BTreeMap;
use std::fmt;

use fsb_model::Better;
use regex::Regex;
use serde_json::{Value, json};

use super::program::Ended;
use crate::EngineError;

/// A number that the command prints.
#[derive(Debug, Clone)]
pub(super) struct PrintedMetric {
    pub(super) name: String,
    pub(super) pattern: Pattern,
    pub(super) better: Better,
}

/// Where it stands.
#[derive(Debug, Clone)]
pub(super) enum Pattern {
    /// The first group of the last match of a regular expression, in standard output or else in standard error.
    Expression(Regex),
    /// A place in JSON (RFC 6901), of the whole standard output or else of its last line.
    Pointer(String),
}

impl Pattern {
    pub(super) fn expression(text: &str) -> Result<Pattern, String> {
        let expression = regex::RegexBuilder::new(text).multi_line(true).size_limit(1 << 20).build();
        let expression = expression.map_err(|error| format!("'{text}' is not a regular expression: {error}"))?;
        if expression.captures_len() < 2 {
            return Err(format!("'{text}' has no group: put the number in parentheses, as in 'tps = ([0-9.]+)'"));
        }
        Ok(Pattern::Expression(expression))
    }

    pub(super) fn pointer(text: &str) -> Result<Pattern, String> {
        match text.starts_with('/') {
            true => Ok(Pattern::Pointer(text.to_owned())),
            false => Err(format!("'{text}' is not a JSON pointer: it begins with /, as in '/jobs/0/write/iops'")),
        }
    }

    fn find(&self, ended: &Ended) -> Option<f64> {
        match self {
            Pattern::Expression(expression) => [&ended.stdout, &ended.stderr].into_iter().find_map(|bytes| {
                let text = String::from_utf8_lossy(bytes);
                let last = expression.captures_iter(&text).last()?;
                last.get(1)?.as_str().trim().replace(',', "").parse().ok()
            }),
            Pattern::Pointer(pointer) => {
                let whole = serde_json::from_slice::<Value>(&ended.stdout).ok();
                let text = String::from_utf8_lossy(&ended.stdout);
                let last_line = || serde_json::from_str(text.lines().rev().find(|line| !line.trim().is_empty())?).ok();
                let found = whole.or_else(last_line)?;
                match found.pointer(pointer)? {
                    Value::Number(number) => number.as_f64(),
                    Value::String(text) => text.trim().parse().ok(),
                    _ => None,
                }
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Expression(expression) => write!(f, "'{expression}'"),
            Pattern::Pointer(pointer) => write!(f, "JSON with a number at '{pointer}'"),
        }
    }
}

impl PrintedMetric {
    pub(super) fn value(&self) -> Value {
        let better = if self.better == Better::Higher { "higher" } else { "lower" };
        let mut value = json!({ "name": self.name, "better": better });
        match &self.pattern {
            Pattern::Expression(expression) => value["pattern"] = expression.as_str().into(),
            Pattern::Pointer(pointer) => value["pointer"] = pointer.as_str().into(),
        }
        value
    }
}

/// All of them, of what a command printed.
pub(super) fn find(metrics: &[PrintedMetric], ended: &Ended) -> Result<BTreeMap<String, f64>, EngineError> {
    let each = metrics.iter().map(|metric| match metric.pattern.find(ended) {
        Some(value) if value.is_finite() && value > 0.0 => Ok((metric.name.clone(), value)),
        Some(value) => {
            Err(EngineError::new(format!("{}: {value} cannot be compared: it must be above 0", metric.name)))
        }
        None => {
            let said = ended.last_words();
            Err(EngineError::new(format!(
                "{}: the output does not match {}; its last lines: {said}",
                metric.name, metric.pattern
            )))
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printing(stdout: &str, stderr: &str) -> Ended {
        Ended { stdout: stdout.into(), stderr: stderr.into(), ..Ended::default() }
    }

    #[test]
    fn the_last_match_counts_wherever_it_stands() {
        let tps = Pattern::expression(r"^tps = ([0-9.,]+)").unwrap();
        assert_eq!(tps.find(&printing("tps = 1\ntps = 1,234.5 (without)\n", "")), Some(1234.5));
        assert_eq!(tps.find(&printing("nothing\n", "tps = 7\n")), Some(7.0));
        assert_eq!(tps.find(&printing("", "")), None);
        assert!(Pattern::expression("tps = [0-9]+").unwrap_err().contains("parentheses"));
        assert!(Pattern::expression("(").unwrap_err().contains("not a regular expression"));
    }

    #[test]
    fn json_is_the_whole_or_the_last_line() {
        let iops = Pattern::pointer("/jobs/0/iops").unwrap();
        assert_eq!(iops.find(&printing("{\"jobs\": [\n{\"iops\": 12.5}]}", "")), Some(12.5));
        assert_eq!(iops.find(&printing("note\n{\"jobs\": [{\"iops\": \"3\"}]}\n\n", "")), Some(3.0));
        assert_eq!(iops.find(&printing("{\"jobs\": []}", "")), None);
        assert!(Pattern::pointer("jobs").is_err());
    }

    #[test]
    fn what_cannot_be_compared_is_told() {
        let metric = |better| PrintedMetric {
            name: "tps".to_owned(),
            pattern: Pattern::expression("tps = ([-0-9.]+)").unwrap(),
            better,
        };
        let of = |text: &str| find(&[metric(Better::Higher)], &printing(text, "")).map_err(|error| error.message);
        assert_eq!(of("tps = 5").unwrap()["tps"], 5.0);
        assert!(of("tps = 0").unwrap_err().contains("above 0"));
        assert!(
            of("oops\n").unwrap_err().contains("the output does not match 'tps = ([-0-9.]+)'; its last lines: oops")
        );
    }
}
