//! What is run: a line for the shell, or a program with its arguments.

use serde_json::{Value, json};

/// What is run: a line for the shell, or a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Script {
    /// For `sh -c`.
    Line(String),
    /// Without a shell.
    Words(Vec<String>),
}

impl Script {
    /// As a person would type it.
    pub(super) fn shown(&self) -> String {
        match self {
            Script::Line(line) => line.clone(),
            Script::Words(words) => words.join(" "),
        }
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Script::Line(line) => json!(line),
            Script::Words(words) => json!(words),
        }
    }

    /// As a plan has it.
    pub(super) fn from_value(value: &Value) -> Result<Script, String> {
        match value {
            Value::String(line) if !line.trim().is_empty() && !line.contains('\0') => Ok(Script::Line(line.clone())),
            Value::Array(words) if !words.is_empty() => {
                let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(str::to_owned)).collect();
                let words = words.filter(|words| !words[0].is_empty() && !words.iter().any(|word| word.contains('\0')));
                words.map(Script::Words).ok_or_else(|| format!("{value} is not a list of words"))
            }
            other => Err(format!("{other} is not a command: give a line for the shell, or a list of words")),
        }
    }
}
