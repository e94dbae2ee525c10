//! Helpers of integration tests: a test that cannot run here prints the reason, and fails in CI.
//!
//! `#[macro_use] extern crate fsb_testkit;` at the top of a test program brings [`needs!`] and
//! [`skip!`].

#![deny(unsafe_code)]

pub mod allocations;
pub mod five_works;
pub mod programs;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use tempfile::TempDir;

/// Leaves the test (the enclosing function, which returns nothing) if a requirement is missing. In
/// CI, which must run every test, it panics.
///
/// * `needs!(root)`: the effective user is root.
/// * `needs!(program "mkfs.ext4", "strace")`: the programs are installed.
/// * `needs!(EXPRESSION)`: a `Result`; its error names what is missing. Evaluates to the value.
#[macro_export]
macro_rules! needs {
    (root) => {
        $crate::needs!($crate::root())
    };
    (program $($program:expr),+) => {
        $crate::needs!($crate::programs(&[$($program),+]))
    };
    ($requirement:expr) => {
        match $requirement {
            Ok(value) => value,
            Err(missing) => {
                let reason = format!("needs {missing}");
                assert!(!$crate::in_ci(), "not run: {reason}; CI must not leave it out");
                $crate::skip!(reason)
            }
        }
    };
}

/// Leaves the test (the enclosing function, which returns nothing), also in CI: for requirements
/// that no kernel of CI and no package of the distribution's free part provides.
#[macro_export]
macro_rules! skip {
    ($reason:expr) => {{
        $crate::left_out(std::thread::current().name().unwrap_or("a test"), &$reason);
        return;
    }};
}

/// As [`needs!`], but leaves the test also in CI: for what neither a kernel of CI nor a package of
/// the distribution's free part provides.
#[macro_export]
macro_rules! wants {
    (program $($program:expr),+) => {
        $crate::wants!($crate::programs(&[$($program),+]))
    };
    ($requirement:expr) => {
        match $requirement {
            Ok(value) => value,
            Err(missing) => $crate::skip!(format!("needs {missing}")),
        }
    };
}

/// Returns whether CI runs the tests.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Returns a temporary directory on a file system in memory, or the error that there is none.
pub fn memory_directory() -> Result<TempDir, String> {
    /// TMPFS_MAGIC (include/uapi/linux/magic.h).
    const TMPFS: i64 = 0x0102_1994;
    let missing = || "a tmpfs at /dev/shm".to_owned();
    let directory = tempfile::tempdir_in("/dev/shm").map_err(|_| missing())?;
    match rustix::fs::statfs(directory.path()) {
        Ok(found) if found.f_type == TMPFS => Ok(directory),
        _ => Err(missing()),
    }
}

/// Returns an error unless the effective user is root.
pub fn root() -> Result<(), String> {
    rustix::process::geteuid()
        .is_root()
        .then_some(())
        .ok_or_else(|| "root".to_owned())
}

/// Returns an error that names the first of the programs that is not installed.
pub fn programs(names: &[&str]) -> Result<(), String> {
    let missing = names.iter().find(|name| !has_program(name));
    missing.map_or(Ok(()), |name| Err(format!("the program {name}")))
}

/// Returns whether a program is in one of the directories of system programs.
pub fn has_program(program: &str) -> bool {
    let directories = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    directories
        .iter()
        .any(|directory| Path::new(directory).join(program).exists())
}

/// Returns whether this process is root, which the rest of `part` requires. Otherwise the part is
/// listed as left out; CI fails.
pub fn root_for(part: &str) -> bool {
    let root = root().is_ok();
    if !root {
        assert!(!in_ci(), "not run: needs root; CI must not leave it out");
        left_out(part, "needs root");
    }
    root
}

/// Lists a test, or a part of one, as left out: on standard error, and in the file that
/// `FSB_TESTS_LEFT_OUT` names.
pub fn left_out(part: &str, reason: &str) {
    // `eprintln!` does not work: libtest hides its output if the test passes.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {part}: {reason}");
    let Some(path) = std::env::var_os("FSB_TESTS_LEFT_OUT") else {
        return;
    };
    let written = File::options().create(true).append(true).open(path);
    let _ = written.and_then(|mut file| file.write_all(format!("{part}: {reason}\n").as_bytes()));
}

/// A test of a program without libtest. The program also runs other roles, such as the init of a
/// guest or a supervisor.
pub type Test = (&'static str, fn());

/// Defines `tests()`, the tests of a module, for [`run`]. The compiler reports a function that is
/// not listed as unused.
#[macro_export]
macro_rules! tests {
    ($($name:ident,)*) => {
        pub fn tests() -> Vec<$crate::Test> {
            vec![$((concat!(module_path!(), "::", stringify!($name)), $name)),*]
        }
    };
}

/// Runs tests one at a time, each in a thread with the name of the test.
pub fn run(tests: Vec<Test>) -> ExitCode {
    let mut arguments = libtest_mimic::Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = tests.into_iter().map(|(name, test)| {
        let name = name.split_once("::").map_or(name, |(_, name)| name);
        libtest_mimic::Trial::test(name, move || {
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(test);
            let ended = thread.map_err(|error| error.to_string())?.join();
            // The panic printed its message already.
            ended.map_err(|_| "panicked".into())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
