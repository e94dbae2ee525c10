//! `docs/errors.md`: every error code.

use std::fmt::Write;

use fsb_codes::code;
use fsb_model::ErrorCode;

/// Returns the page.
pub fn text() -> String {
    let mut page = include_str!("errors.md").to_owned();
    let mut codes: Vec<&ErrorCode> = code::all().collect();
    codes.sort_by_key(|code| code.name);
    for ErrorCode { name, exit, meaning, help } in codes {
        let _ = writeln!(page, "| `{name}` | {exit} | {meaning} | {help} |");
    }
    page
}
