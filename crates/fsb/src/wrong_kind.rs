//! Messages about files that were given to the wrong command.

use std::path::Path;

use fsb_compat::FileKind;
use fsb_model::code::ErrorCode;

use crate::exit;

/// Returns the failure of a file of a kind that another command reads. Returns `None` if `command` reads it, or if the
/// kind is unknown: then the problem that `command` found is the message.
pub fn failure(path: &Path, kind: Option<FileKind>, command: &str, code: &'static ErrorCode) -> Option<anyhow::Error> {
    let kind = kind.filter(|kind| kind.command != command)?;
    let message = format!("cannot read {}: it is {}", path.display(), kind.name);
    Some(exit::advised(code, message, format!("'{}' reads it", kind.command)))
}
