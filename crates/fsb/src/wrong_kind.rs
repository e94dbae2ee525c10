//! Messages about files that were given to the wrong command.

use fsb_model::failure;
use std::path::Path;

use fsb_compat::FileKind;
use fsb_model::code::ErrorCode;

/// Returns the failure of a file of a kind that `command` does not read. Returns `None` if it reads
/// the kind, or if the kind is unknown: then the problem that `command` found is the message.
pub fn failure(
    path: &Path,
    kind: Option<FileKind>,
    command: &str,
    code: &'static ErrorCode,
) -> Option<anyhow::Error> {
    let kind = kind.filter(|kind| !kind.is_read_by(command))?;
    let message = format!("cannot read {}: it is {}", path.display(), kind.name);
    Some(failure::advised(code, message, kind.remedy()))
}
