//! Absolute paths.

use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Returns the absolute path, without resolving links.
///
/// # Errors
///
/// Fails if the path is relative and the working directory was removed.
pub fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::NoWorkingDirectory(path.to_owned()),
        _ => StoreError::io("find", path, error),
    })
}
