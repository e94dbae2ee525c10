//! Characters that act on a terminal or hide from its reader, written out.
//!
//! Names, paths and messages come from files, kernels and other programs. An escape sequence among
//! them would move the cursor or rename the window, a bidirectional override would reverse the text
//! after it, and characters without width make two names look alike. All text for people passes
//! through this module; text for programs keeps every character.

use std::borrow::Cow;
use std::{fmt, io};

use askama::filters::{Escaper, Html};
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

/// Returns the text as part of one line: hidden characters as escapes, a line break as `\n`.
pub fn line(text: &str) -> Cow<'_, str> {
    shown(text, is_hidden)
}

/// Returns the text in the same way, but keeps its line breaks and tabs.
pub fn lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

fn shown(text: &str, hides: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hides) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if hides(c) => result.extend(c.escape_default()),
            c => result.push(c),
        }
    }
    Cow::Owned(result)
}

/// Returns whether a character is a control, separates lines, changes the direction of writing, or
/// takes no place of its own: Unicode's categories Cc, Zl and Zp and its property
/// `Default_Ignorable_Code_Point`, with annotations between lines.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

// Escapes for pages, so that names neither become markup or script nor hide.

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

    #[test]
    fn invisible_characters_are_written_out() {
        for (text, expected) in [
            (
                "ext4,data=journal@/dev/sda1 — größer ×2 “漢字” 5\u{a0}% 1\u{202f}000 👍",
                None,
            ),
            ("\u{1b}[31mred\u{7}", Some("\\u{1b}[31mred\\u{7}")),
            ("a\u{9b}31mb\u{7f}", Some("a\\u{9b}31mb\\u{7f}")),
            (
                "exe\u{202e}txt\u{2066}\u{61c}\u{200f}",
                Some("exe\\u{202e}txt\\u{2066}\\u{61c}\\u{200f}"),
            ),
            (
                "a\u{200b}b\u{feff}c\u{e0041}",
                Some("a\\u{200b}b\\u{feff}c\\u{e0041}"),
            ),
            ("a\u{2028}b\u{85}c\rd", Some("a\\u{2028}b\\u{85}c\\rd")),
        ] {
            let expected = expected.unwrap_or(text);
            assert_eq!(
                (line(text).as_ref(), lines(text).as_ref()),
                (expected, expected)
            );
        }
        assert_eq!(line("a\nb\tc"), "a\\nb\\tc");
        assert_eq!(lines("a\nb\tc\r"), "a\nb\tc\\r");
    }

    #[test]
    fn once_is_enough() {
        let once = line("\u{1b}\u{202e}\n").into_owned();
        assert_eq!(line(&once), once);
    }

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
