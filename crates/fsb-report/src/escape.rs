//! Escapes for pages, so that names neither become markup or script nor hide.

use std::{fmt, io};

use askama::filters::{Escaper, Html};
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

use crate::visible::{line, lines};

/// The escaper of the templates, set in `askama.toml`. It replaces markup by character references,
/// and writes out control characters and hidden characters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Escape;

impl Escaper for Escape {
    fn write_escaped_str<W: fmt::Write>(&self, dest: W, string: &str) -> fmt::Result {
        Html.write_escaped_str(dest, &lines(string))
    }
}

/// Returns JSON that is safe inside a `<script>` element whatever names it contains. Charts show
/// hidden characters written out.
pub(crate) fn script_safe(value: &impl Serialize) -> String {
    let mut json = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut json, InScript))
        .expect("charts and tables have text keys and finite numbers");
    String::from_utf8(json).expect("JSON is text")
}

/// Displays a value as [`script_safe`] does, without a copy of the text.
pub(crate) struct ScriptSafe<T>(pub(crate) T);

impl<T: Serialize> fmt::Display for ScriptSafe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .serialize(&mut Serializer::with_formatter(TextWriter(f), InScript))
            .map_err(|_| fmt::Error)
    }
}

/// Passes text on to a formatter.
struct TextWriter<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl io::Write for TextWriter<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compact JSON without `<` and without hidden characters.
struct InScript;

impl Formatter for InScript {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // The escapes that `visible` adds begin with a backslash, which JSON doubles.
        let shown = match line(fragment) {
            std::borrow::Cow::Borrowed(shown) => shown.replace('<', "\\u003c"),
            std::borrow::Cow::Owned(shown) => shown.replace('\\', "\\\\").replace('<', "\\u003c"),
        };
        writer.write_all(shown.as_bytes())
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let text: &[u8] = match escape {
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"\\/",
            CharEscape::LineFeed => b"\\\\n",
            CharEscape::CarriageReturn => b"\\\\r",
            CharEscape::Tab => b"\\\\t",
            CharEscape::Backspace => b"\\\\u{8}",
            CharEscape::FormFeed => b"\\\\u{c}",
            CharEscape::AsciiControl(byte) => return write!(writer, "\\\\u{{{byte:x}}}"),
        };
        writer.write_all(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visible::is_hidden;

    proptest! {
        #[test]
        fn json_in_a_script_reads_back_as_what_a_person_may_see(text in "(\\PC|[<>\"'&/\\\\\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}-\u{202e}\u{feff}]|</script|<!--){0,12}") {
            let json = script_safe(&[&text]);
            prop_assert!(!json.contains('<') && !json.contains(is_hidden), "{}", json);
            let back: Vec<String> = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(back, [line(&text)]);
        }

        #[test]
        fn text_of_a_page_is_neither_markup_nor_hidden(text in "(\\PC|[<>\"'&\u{0}-\u{1f}\u{7f}-\u{9f}\u{2028}-\u{202e}\u{feff}]){0,12}") {
            let mut written = String::new();
            Escape.write_escaped_str(&mut written, &text).unwrap();
            prop_assert!(!written.contains(['<', '>', '"', '\'']));
            prop_assert!(!written.contains(|c| is_hidden(c) && c != '\n' && c != '\t'), "{}", written);
        }
    }
}
