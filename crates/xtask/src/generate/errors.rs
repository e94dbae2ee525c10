//! `docs/errors.md`: every error code, and the codes of warnings and notes.

use std::fmt::Write;

use fsb_codes::code;
use fsb_codes::notice::{self, Notice};
use fsb_model::ErrorCode;

/// Returns the page.
pub fn text() -> String {
    let mut page = include_str!("errors.md").to_owned();
    let mut codes: Vec<&ErrorCode> = code::all().collect();
    codes.sort_by_key(|code| code.name);
    for ErrorCode { name, exit, meaning, help } in codes {
        let _ = writeln!(page, "| `{name}` | {exit} | {meaning} | {help} |");
    }
    page.push_str(include_str!("notices.md"));
    let mut notices: Vec<&Notice> = notice::ALL.to_vec();
    notices.sort_by_key(|notice| notice.name);
    for Notice { name, meaning, fields } in notices {
        let fields: Vec<String> =
            fields.split(", ").filter(|name| !name.is_empty()).map(|name| format!("`{name}`")).collect();
        let _ = writeln!(page, "| `{name}` | {meaning} | {} |", fields.join(", "));
    }
    page
}
