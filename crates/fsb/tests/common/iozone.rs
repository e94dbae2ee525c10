//! `fsb iozone`: the calls, the text and the behaviour of IOzone.

use std::path::Path;
use std::process::Output;

use crate::common::{expect_code, fsb, fsb_json};

/// Runs `fsb iozone` with the words of a line in a directory.
pub fn iozone(directory: &Path, line: &str) -> Output {
    let mut arguments = vec!["iozone"];
    arguments.extend(line.split_whitespace());
    fsb(directory, &arguments)
}

/// Runs the same with messages as JSON.
pub fn iozone_json(directory: &Path, line: &str) -> Output {
    fsb_json(
        directory,
        &std::iter::once("iozone")
            .chain(line.split_whitespace())
            .collect::<Vec<_>>(),
    )
}

/// Runs the same, which must succeed. Returns its standard output.
pub fn done(directory: &Path, line: &str) -> String {
    let output = iozone(directory, line);
    expect_code(&output, 0);
    crate::common::stdout(&output)
}

/// Returns the names in a directory, sorted.
pub fn listing(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
