//! Characters that act on a terminal or hide from its reader, written out.
//!
//! Names, paths and messages come from files, kernels and other programs. An escape sequence among
//! them would move the cursor or rename the window, a bidirectional override would reverse the text
//! after it, and characters without width make two names look alike. All text for people passes
//! through this module; text for programs keeps every character.

use std::borrow::Cow;

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

#[cfg(test)]
mod tests {
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
}
