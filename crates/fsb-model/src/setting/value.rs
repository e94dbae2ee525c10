//! The value of a setting as it is given.

use serde_json::Value;

/// The value of a setting as it is given: quantities keep the text with their unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// On or off.
    Flag(bool),
    /// A whole number, or bytes.
    Number(u64),
    /// A text.
    Text(String),
    /// Texts or paths.
    List(Vec<String>),
}

impl SettingValue {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            SettingValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            SettingValue::Flag(flag) => (*flag).into(),
            SettingValue::Number(number) => (*number).into(),
            SettingValue::Text(text) => text.as_str().into(),
            SettingValue::List(texts) => texts.clone().into(),
        }
    }
}
