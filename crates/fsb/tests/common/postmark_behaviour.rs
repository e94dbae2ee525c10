//! It removes what it made, however it ends, and touches nothing else.

use std::path::Path;
use std::time::Duration;

use super::postmark::listing;
use crate::common::{Running, wait_until};

/// A run that goes on and has made some files.
pub fn start(directory: &Path, lines: &str) -> Running {
    std::fs::write(directory.join("script"), lines).unwrap();
    let running = Running::start(directory, &["postmark", "script"]);
    wait_until("files are there", Duration::from_secs(30), || listing(directory).len() > 2);
    running
}
