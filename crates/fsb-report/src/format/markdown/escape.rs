//! Text that Markdown leaves alone.

use crate::visible;

/// Text that is nothing but text: it breaks no table, and no name in it becomes a link, an image, a list or HTML. What
/// would hide is written out.
pub(crate) fn escape(text: &str) -> String {
    let text = visible::line(text);
    let text = text.trim_start();
    let mut result = String::with_capacity(text.len());
    // A number with a point behind it begins a list.
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    for (at, c) in text.char_indices() {
        let behind = &text[at + c.len_utf8()..];
        let acts = match c {
            '|' | '*' | '_' | '`' | '<' | '[' | ']' | '~' | '\\' => true,
            '&' => behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '#'),
            // Some readers make a link of a bare address.
            ':' => behind.starts_with("//"),
            '.' => text[..at].to_ascii_lowercase().ends_with("www") || at == digits && at > 0,
            '#' | '+' | '-' | '>' | '=' => at == 0,
            ')' => at == digits && at > 0,
            _ => false,
        };
        if acts {
            result.push('\\');
        }
        result.push(c);
    }
    result
}
