//! The one error of this crate, under its name, and what fills it where the operating system refused a step.

use std::io;
use std::path::Path;

pub use fsb_model::error::{Error as VmError, Kind};

/// `cannot read /boot/vmlinuz: Permission denied (os error 13)`, for a step that the operating system refused.
pub(crate) fn refused(verb: &str, path: &Path, error: impl Into<io::Error>) -> VmError {
    VmError::machine(format!("cannot {verb} {}", path.display())).tried(error.into().to_string())
}

/// What to do where the user's cache cannot be written.
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
        assert_eq!(error.to_string(), "cannot read /x: Permission denied (os error 13)");
    }
}
