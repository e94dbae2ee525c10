//! The harness of integration tests.
//!
//! Tests are plain functions under `#[test]`; `#[macro_use] extern crate fsb_testkit;` at the top of a test program makes
//! that attribute ours. Three things libtest cannot do:
//!
//! * A test that finds out that it cannot run here ([`skip`]) is shown as ignored, with the reason. In CI it fails.
//! * `FSB_TESTS=quick` leaves out tests that need root, programs or a kernel; `FSB_TESTS=machine` runs only those.
//! * Each test program has places of its own for the run lock and the undo ledger (`isolate`), so two checkouts on one
//!   machine do not see each other. `FSB_TEST_JOBS=N` runs N parts of a program beside each other, each with its own
//!   processes: only for tests that measure nothing real.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the harness reports to the terminal")]

mod isolate;

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

pub use fsb_testkit_macros::test;
#[doc(hidden)]
pub use inventory;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A test.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// With the path of its module, the test program's own name first.
    pub name: &'static str,
    /// Whether it needs root, programs or a kernel.
    pub machine: bool,
    /// Whether it runs only where it is asked for (`--ignored`).
    pub ignored: bool,
    /// The function.
    pub run: fn(),
}

inventory::collect!(Case);

/// How a test ends that cannot run here.
struct Skipped(String);

/// Ends the test that calls this: it is shown as ignored. In CI nothing may be left out, and it fails.
pub fn skip(reason: impl Into<String>) -> ! {
    let reason = reason.into();
    assert!(std::env::var_os("CI").is_none(), "not run: {reason}; CI must not leave it out");
    // No panic's message: nothing is wrong.
    std::panic::resume_unwind(Box::new(Skipped(reason)))
}

/// Like [`skip`], and in CI too: for what no package of the distribution's free part and no kernel of CI has.
pub fn skip_everywhere(reason: impl Into<String>) -> ! {
    std::panic::resume_unwind(Box::new(Skipped(reason.into())))
}

/// For unit tests, which libtest cannot show as ignored: whether this is root, whom the rest of `part` needs. Elsewhere that
/// stands in the list of what was left out, and in CI it fails.
pub fn root_for(part: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("CI").is_none(), "not run: needs root; CI must not leave it out");
        left_out(part, "needs root");
    }
    root
}

/// Says that a part of a unit test was left out, and why. In CI too: for what not every kernel has.
pub fn left_out(part: &str, reason: &str) {
    // Not the macro: libtest would keep it from whoever runs the test.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {part}: {reason}");
    note(part, reason);
}

/// Skips the test that calls this unless it is root's.
pub fn needs_root() {
    if !rustix::process::geteuid().is_root() {
        skip("needs root");
    }
}

/// Skips the test that calls this unless the program is there.
pub fn needs_program(program: &str) {
    if !has_program(program) {
        skip(format!("needs the program {program}"));
    }
}

/// Whether a program is where programs are.
pub fn has_program(program: &str) -> bool {
    let directories = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
    directories.iter().any(|directory| std::path::Path::new(directory).join(program).exists())
}

/// Runs all tests that stand under `#[test]`, so many at once.
pub fn main(threads: Option<usize>) -> ExitCode {
    run(inventory::iter::<Case>().copied().collect(), threads)
}

/// Runs these tests.
pub fn run(mut cases: Vec<Case>, threads: Option<usize>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    if !arguments.list
        && let Some(code) = isolate::in_places_of_its_own()
    {
        return code;
    }
    arguments.test_threads = arguments.test_threads.or(threads);
    cases.sort_by_key(|case| case.name);
    let kind = std::env::var("FSB_TESTS").unwrap_or_default();
    cases.retain(|case| (kind != "quick" || !case.machine) && (kind != "machine" || case.machine));
    let part = isolate::part();
    let cases = cases.into_iter().enumerate().filter(|(at, _)| part.is_none_or(|(this, all)| at % all == this));
    libtest_mimic::run(&arguments, cases.map(|(_, case)| trial(case)).collect()).exit_code()
}

fn trial(case: Case) -> Trial {
    let name = case.name.split_once("::").map_or(case.name, |(_, name)| name);
    Trial::ignorable_test(name, move || perform(name, case.run)).with_ignored_flag(case.ignored)
}

/// In a thread of its own, as libtest does: what a test sets for its thread is not the next one's.
fn perform(name: &str, run: fn()) -> Result<Completion, Failed> {
    let began = Instant::now();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| error.to_string())?;
    let ended = thread.join();
    line("FSB_TESTS_TOOK", &format!("{:.1} {name}", began.elapsed().as_secs_f64()));
    match ended {
        Ok(()) => Ok(Completion::Completed),
        Err(payload) => match payload.downcast::<Skipped>() {
            Ok(skipped) => {
                note(name, &skipped.0);
                Ok(Completion::ignored_with(skipped.0))
            }
            // The message was printed where it happened.
            Err(_) => Err("panicked".into()),
        },
    }
}

/// Says that a test was left out, to whoever reads when all test programs have ended.
fn note(name: &str, reason: &str) {
    line("FSB_TESTS_LEFT_OUT", &format!("{name}: {reason}"));
}

/// Leaves a line in the file that `variable` names; `make test` shows both such files at its end.
fn line(variable: &str, text: &str) {
    let Some(path) = std::env::var_os(variable) else { return };
    let file = File::options().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
    if let Err(error) = written {
        eprintln!("{}: {error}", path.display());
    }
}
