//! Cells that all CSV tables have in common.

use std::borrow::Cow;

/// The column with the reason why nothing is judged, in tables of such runs and comparisons.
pub(super) const UNJUDGED: &str = "unjudged";

/// Returns a text as a cell of a table that a spreadsheet may open. A text that would begin a formula there gets an
/// apostrophe in coordinator, which spreadsheets take as the sign of text. Numbers are written without this function.
pub(in crate::format) fn text(text: &str) -> Cow<'_, str> {
    const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];
    // A text that begins with apostrophes before a formula gets one more, so that it differs from a quoted one.
    let begins = text.trim_start_matches('\'').starts_with(FORMULAS);
    if begins { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}
