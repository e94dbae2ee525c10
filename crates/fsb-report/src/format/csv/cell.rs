//! What all our tables in CSV have in common.

use std::borrow::Cow;

/// The column of runs and comparisons by which nothing is judged.
pub(super) const UNJUDGED: &str = "unjudged";

/// A text as a cell of a table that a spreadsheet may open: what would begin a formula there has an apostrophe before
/// it, which spreadsheets take for the sign of text. Numbers are no text and stay as they are.
pub(in crate::format) fn text(text: &str) -> Cow<'_, str> {
    const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    // Quoted as well: a name that begins like one that was quoted stays another name.
    let begins = text.trim_start_matches('\'').starts_with(FORMULAS);
    if begins { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}
