//! Files of commands.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::exit;

/// More than this is no file of commands.
const LARGEST: u64 = 16 << 20;

/// The lines of a file.
#[derive(Debug)]
pub struct Script {
    /// As it was named.
    pub path: PathBuf,
    /// In their order.
    pub lines: Vec<String>,
}

/// Reads a file of commands.
pub fn read(path: &Path) -> anyhow::Result<Script> {
    let shown = path.display();
    let refused = |why: String| exit::request(format!("cannot read commands from {shown}: {why}"));
    let mut text = String::new();
    let file = File::open(path).map_err(|error| refused(error.to_string()))?;
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(refused("it is larger than any file of commands".to_owned()));
    }
    Ok(Script { path: path.to_owned(), lines: text.lines().map(str::to_owned).collect() })
}

impl Script {
    /// Where a line stands, for messages.
    pub fn place(&self, index: usize) -> String {
        format!("{}:{}", self.path.display(), index + 1)
    }
}
