//! Files of commands.

use std::path::{Path, PathBuf};

use fsb_store::input::LARGEST_SCRIPT;

use crate::{code, exit};

/// The lines of a file.
#[derive(Debug)]
pub struct Script {
    /// The path as the user named it.
    pub path: PathBuf,
    /// The lines in their order.
    pub lines: Vec<String>,
}

/// Reads a file of commands, or a pipe of the shell.
pub fn read(path: &Path) -> anyhow::Result<Script> {
    let refused =
        |error| exit::failure(&code::UNREADABLE, format!("cannot read commands from {}: {error}", path.display()));
    let text = fsb_store::input::read_text_or_pipe(path, LARGEST_SCRIPT).map_err(refused)?;
    Ok(Script { path: path.to_owned(), lines: text.lines().map(str::to_owned).collect() })
}

impl Script {
    /// Returns the place of a line for messages: `FILE:LINE`.
    pub fn place(&self, index: usize) -> String {
        format!("{}:{}", self.path.display(), index + 1)
    }
}
