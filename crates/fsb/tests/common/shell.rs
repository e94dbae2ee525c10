//! Completions and manual pages, which come from the same definition as `--help`; and suggestions for typing errors.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs a script in a shell.
pub fn shell(program: &str, arguments: &[&str], script: &str) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the shell starts");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("the shell reads");
    child.wait_with_output().expect("the shell ends")
}
