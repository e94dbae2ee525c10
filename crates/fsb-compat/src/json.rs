//! Elements of a JSON array, one by one: a document that is cut gives those before its end.

use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::text::LineIndex;

/// The elements of an array, up to its end or to the damage in it.
pub(crate) struct Elements<'a> {
    text: &'a str,
    at: usize,
    /// The offset of the damage that ended the array, and the reason.
    pub damage: Option<(usize, String)>,
}

impl<'a> Elements<'a> {
    /// Starts behind the bracket that opens the array.
    pub fn new(text: &'a str, at: usize) -> Self {
        Elements {
            text,
            at,
            damage: None,
        }
    }

    /// Returns the offset behind the bracket that closes the array, or that of the damage.
    pub fn end(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a RawValue;

    fn next(&mut self) -> Option<&'a RawValue> {
        let text = self.text;
        let rest = text.get(self.at..)?.trim_start();
        let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        self.at = text.len() - rest.len();
        if self.damage.is_some() {
            return None;
        }
        if rest.starts_with(']') {
            // A call after the end finds the end again.
            return None;
        }
        let mut values = Deserializer::from_str(rest).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Some(value)
            }
            Some(Err(error)) => {
                self.damage = Some((self.at, error.to_string()));
                None
            }
            None => {
                self.damage = Some((self.at, "the end of the array is missing".to_owned()));
                None
            }
        }
    }
}

/// A text with the lines of the values in it.
pub(crate) struct Source<'a> {
    pub text: &'a str,
    lines: LineIndex,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Self {
        Source {
            text,
            lines: LineIndex::new(text),
        }
    }

    /// Returns the line of an offset.
    pub fn line(&self, offset: usize) -> u32 {
        self.lines.line(offset)
    }

    /// Returns the line of a value that was read out of this text.
    pub fn line_of(&self, raw: &RawValue) -> u32 {
        self.lines
            .line((raw.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize))
    }
}

/// Returns a number that is not a text, a list or `null`.
pub(crate) fn number(raw: &RawValue) -> Option<f64> {
    raw.get()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_before_a_cut_are_read_and_the_cut_is_named() {
        let text = "[{\"a\": 1},\n {\"b\": [2]}, {\"c\"";
        let mut elements = Elements::new(text, 1);
        let found: Vec<&str> = elements.by_ref().map(RawValue::get).collect();
        assert_eq!(found, ["{\"a\": 1}", "{\"b\": [2]}"]);
        assert_eq!(
            elements.damage.as_ref().unwrap().0,
            text.find("{\"c\"").unwrap()
        );
    }

    #[test]
    fn an_array_that_ends_has_no_damage() {
        let mut elements = Elements::new("[1, 2 ] [3]", 1);
        assert_eq!(elements.by_ref().count(), 2);
        assert!(elements.damage.is_none() && &elements.text[elements.end()..] == "] [3]");
        let mut elements = Elements::new("[1,", 1);
        assert_eq!(elements.by_ref().count(), 1);
        assert!(elements.damage.unwrap().1.contains("missing"));
    }
}
