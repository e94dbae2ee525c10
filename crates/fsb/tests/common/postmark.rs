//! `fsb postmark`: the calls, the text and the behaviour of PostMark.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::{JSON, Running, command, wait_until};

/// Runs `fsb postmark` on a file of commands, in a directory, with messages as JSON.
pub fn script(directory: &Path, lines: &str) -> Output {
    std::fs::write(directory.join("script"), lines).unwrap();
    command(directory, &["postmark", "script", JSON])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a program with commands from a pipe.
pub fn pipe(mut program: Command, lines: &str) -> Output {
    let program = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    // A program that has read enough closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    child.wait_with_output().unwrap()
}

/// Returns the names in a directory, sorted, without the file of commands.
pub fn listing(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name != "script");
    names.sort();
    names
}

/// Returns the command of PostMark itself.
pub fn theirs(directory: &Path) -> Command {
    let mut command = Command::new("postmark");
    command.current_dir(directory);
    command
}

/// Starts a run and waits until it has made some files.
pub fn start(directory: &Path, lines: &str) -> Running {
    std::fs::write(directory.join("script"), lines).unwrap();
    let running = Running::start(directory, &["postmark", "script", JSON]);
    wait_until("files are there", Duration::from_secs(30), || {
        listing(directory).len() > 2
    });
    running
}
