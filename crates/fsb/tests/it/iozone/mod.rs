//! `fsb iozone`: the calls, the text and the behaviour of IOzone.

mod behaviour;
mod calls;
mod modes;
mod refusals;
mod text;
mod trace;
mod verification;

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common::{expect_code, fsb};

/// Real traces and outputs.
fn testdata(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata")).join(path)
}

/// Runs `fsb iozone` with the words of a line, in a directory.
fn iozone(directory: &Path, line: &str) -> Output {
    let mut arguments = vec!["iozone"];
    arguments.extend(line.split_whitespace());
    fsb(directory, &arguments)
}

/// The same, which must succeed: what it printed.
fn done(directory: &Path, line: &str) -> String {
    let output = iozone(directory, line);
    expect_code(&output, 0);
    crate::common::stdout(&output)
}

/// What lies in a directory, by name.
fn listing(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
