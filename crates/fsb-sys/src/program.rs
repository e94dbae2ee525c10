//! External programs: finds them, runs them and reads their messages.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::{mount_isolation, process};
use crate::error::{TestbedError, attempt};

/// Directories of mkfs programs that are not on the PATH of ordinary users, and of some sudo
/// set-ups.
const ADMIN_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Finds a program by name on PATH or in the administrators' directories.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Root must not run programs from the current directory.
    let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let searched = std::env::join_paths(absolute.chain(ADMIN_DIRECTORIES.map(PathBuf::from))).ok();
    which::which_in(name, searched, "/").ok()
}

/// Finds a program by name. The error names the package that contains it.
pub fn require(name: &str, package: &str) -> Result<PathBuf, TestbedError> {
    find(name).ok_or_else(|| {
        TestbedError::machine(format!("the program {name} is missing"))
            .coded(&fsb_model::error::TOOL_MISSING)
            .field("program", name)
            .field("package", package)
            .tried(format!(
                "looked on PATH and in {}",
                ADMIN_DIRECTORIES.join(", ")
            ))
            .advice(format!(
                "install the package {package} (apt-get install {package})"
            ))
    })
}

/// Runs a program to its end in the root directory, without input and in the C locale. Returns its
/// output.
pub fn run(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<Output, TestbedError> {
    finish(program, command(program, arguments))
}

/// Runs a program as [`run`] does for a device of fsb. The program sees no other mounted target.
pub fn run_alone(
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    device: &Path,
) -> Result<Output, TestbedError> {
    let mut command = command(program, arguments);
    mount_isolation::hide_from(&mut command, device);
    finish(program, command)
}

/// Runs a program as [`run_alone`] does, after `prepare` has changed its command. Returns its
/// output, the time from its start to its end, and its CPU seconds in user mode and in the kernel.
/// No other child may end meanwhile.
pub fn run_timed(
    program: &Path,
    arguments: &[impl AsRef<OsStr>],
    device: &Path,
    prepare: impl FnOnce(&mut Command) -> Result<(), TestbedError>,
) -> Result<(Output, Duration, [f64; 2]), TestbedError> {
    let mut command = command(program, arguments);
    mount_isolation::hide_from(&mut command, device);
    prepare(&mut command)?;
    let (began, before) = (Instant::now(), process::cpu_seconds_of_children());
    let output = finish(program, command)?;
    let (time, after) = (began.elapsed(), process::cpu_seconds_of_children());
    Ok((output, time, [after[0] - before[0], after[1] - before[1]]))
}

fn command(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        // rclone 1.60 makes a directory for its settings in the home directory to print its
        // version.
        .env("RCLONE_CONFIG", "/dev/null")
        .current_dir("/")
        .stdin(Stdio::null());
    command
}

fn finish(program: &Path, mut command: Command) -> Result<Output, TestbedError> {
    command
        .output()
        .map_err(|error| TestbedError::machine(attempt("cannot execute", program, &error)))
}

/// Runs a program as [`run`] does on an open file. The last argument is the path of the descriptor,
/// which leads to no other file.
pub fn run_on(program: &Path, arguments: &[&str], file: &OwnedFd) -> Result<Output, TestbedError> {
    let failed =
        |error: std::io::Error| TestbedError::machine(attempt("cannot execute", program, &error));
    let file = file.try_clone().map_err(failed)?;
    Command::new(program)
        .args(arguments)
        .arg("/proc/self/fd/0")
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(file)
        .output()
        .map_err(failed)
}

/// Returns the standard output of a program. Returns `None` if it cannot be run or fails.
pub fn ask(name: &str, arguments: &[&OsStr]) -> Option<String> {
    let output = run(&find(name)?, arguments).ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the last lines of a program's error output on one line, without the usage text that mkfs
/// programs print after it.
pub fn last_lines(text: &[u8]) -> String {
    const LINES: usize = 4;
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let usage = lines
        .iter()
        .position(|line| line.to_ascii_lowercase().starts_with("usage:"))
        .filter(|line| *line > 0);
    let lines = &lines[..usage.unwrap_or(lines.len())];
    lines[lines.len().saturating_sub(LINES)..].join(" / ")
}

/// Returns what a failed program complained of, on one line: its error output, or what it printed
/// if that is empty. Of a program that marks its errors, only these lines count.
pub fn complaint(output: &Output) -> String {
    let printed = match output.stderr.trim_ascii().is_empty() {
        true => &output.stdout,
        false => &output.stderr,
    };
    let text = String::from_utf8_lossy(printed);
    let is_error = |line: &&str| line.trim_start().to_ascii_lowercase().starts_with("error");
    let errors: Vec<&str> = text.lines().filter(is_error).collect();
    match errors.is_empty() {
        true => last_lines(printed),
        false => last_lines(errors.join("\n").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn a_complaint_is_found_on_either_output() {
        let output = |stdout: &str, stderr: &str| Output {
            status: ExitStatus::from_raw(255 << 8),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let f2fs = "Info: Trim is disabled\n\n\tError: f may not be a zoned block device \n";
        assert_eq!(
            complaint(&output(f2fs, "\n")),
            "Error: f may not be a zoned block device"
        );
        let xfs = "unknown option -X\nUsage: mkfs.xfs\n";
        assert_eq!(complaint(&output("words", xfs)), "unknown option -X");
    }

    #[test]
    fn the_shell_is_found_and_nonsense_is_not() {
        assert!(find("sh").is_some());
        let error = require("no-such-program-at-all", "some-package").unwrap_err();
        assert!(
            error.to_string().contains("apt-get install some-package"),
            "{error}"
        );
    }

    #[test]
    fn the_time_and_the_cpu_time_of_a_program_are_returned() {
        let run = |script: &str| {
            let (output, time, [user, kernel]) = run_timed(
                &find("sh").unwrap(),
                &["-c", script],
                Path::new("/dev/null"),
                |_| Ok(()),
            )
            .unwrap();
            assert!(output.status.success());
            (time, user + kernel)
        };
        let (time, busy) = run("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
        assert!(busy > 0.0 && time > Duration::ZERO, "{time:?} {busy}");
    }

    #[test]
    fn complaints_fit_a_line() {
        assert_eq!(last_lines(b"a\n\n b \nc\nd\ne\n"), "b / c / d / e");
        assert_eq!(last_lines(b""), "");
        let usage = b"Log size must be at least 64MB.\nUsage: mkfs.xfs\n[-b size=num]\n";
        assert_eq!(last_lines(usage), "Log size must be at least 64MB.");
        assert_eq!(
            last_lines(b"Usage: mkfs [-t type]\n"),
            "Usage: mkfs [-t type]"
        );
    }
}
