//! Other users who own directories of results and put files in the way.

use std::fs;
use std::path::Path;
use std::time::Duration;

pub const WAIT: Duration = Duration::from_secs(60);

/// Returns everything below a directory; does not follow links.
pub fn below(directory: &Path) -> Vec<std::path::PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}
