//! The error type of this crate, and constructors for steps that the operating system refused.

use std::io;
use std::path::Path;

pub use fsb_model::error::{Error as VmError, Kind, Tried};

/// Makes the error of a step that the operating system refused: `cannot read /boot/vmlinuz:
/// Permission denied (EACCES)`.
pub(crate) fn refused(verb: &str, path: &Path, error: impl Into<io::Error>) -> VmError {
    VmError::machine(format!("cannot {verb} {}", path.display())).tried(&error.into())
}

/// Returns the advice for a cache that cannot be written.
pub(crate) fn cache_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or set XDG_CACHE_HOME to a directory with more space"
        }
        _ => "name a directory for them: export XDG_CACHE_HOME=$(mktemp -d)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_refused_reads_as_a_sentence() {
        let error = refused("read", Path::new("/x"), io::Error::from_raw_os_error(13));
        assert_eq!(error.fields["errno"], "EACCES");
        assert_eq!(
            error.to_string(),
            "cannot read /x: Permission denied (EACCES)"
        );
    }
}
