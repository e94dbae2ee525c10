//! Numbers in fio's text, with their lines.

use serde_json::value::RawValue;

use super::document::Fields;
use crate::draft::Draft;
use crate::json::number;
use crate::text::LineIndex;

/// Characters of a value in a remark.
const EXCERPT: usize = 40;

/// The text of a file, and the same with [repairs](super::lenient), from which values are borrowed.
pub(super) struct Source<'t> {
    pub original: &'t str,
    pub repaired: &'t str,
    pub lines: LineIndex,
}

/// A number and its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub value: f64,
    pub line: u32,
}

impl Found {
    pub fn divided_by(self, unit: f64) -> Found {
        Found {
            value: self.value / unit,
            ..self
        }
    }
}

impl Source<'_> {
    fn offset(&self, raw: &RawValue) -> usize {
        raw.get().as_ptr() as usize - self.repaired.as_ptr() as usize
    }

    /// Returns the line of a value.
    pub fn line(&self, raw: &RawValue) -> u32 {
        self.lines.line(self.offset(raw))
    }

    /// Returns a value as fio printed it.
    pub fn printed(&self, raw: &RawValue) -> String {
        let start = self.offset(raw);
        self.original[start..start + raw.get().len()]
            .chars()
            .take(EXCERPT)
            .collect()
    }

    /// Parses a number. Adds a remark if it is none.
    pub fn parse(&self, raw: &RawValue, draft: &mut Draft) -> Option<Found> {
        let line = self.line(raw);
        let value = number(raw);
        if value.is_none() {
            draft.remark(
                line,
                format_args!("'{}' is not a number; left out", self.printed(raw)),
            );
        }
        Some(Found {
            value: value?,
            line,
        })
    }

    /// Returns the number of a key. Adds a remark if it is none, or if the key has two of them.
    pub fn number(&self, fields: &Fields, key: &str, draft: &mut Draft) -> Option<Found> {
        let raw = fields.get(key)?;
        if let Some(other) = fields.other(key) {
            let (first, second) = (self.printed(raw), self.printed(other));
            draft.remark(
                self.line(other),
                format_args!("'{key}' is printed as {first} and as {second}; left out"),
            );
            return None;
        }
        self.parse(raw, draft)
    }
}
