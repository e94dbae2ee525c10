//! Boots real guests. The tests need QEMU and a Debian kernel. `FSB_TEST_KERNEL` names a kernel as `--kernel` does;
//! otherwise the default rule finds one. Without a kernel the tests print that they are skipped, and fail in CI.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "guests answer on standard output")]

use std::ffi::OsString;
use std::process::ExitCode;

#[macro_use]
extern crate fsb_testkit;

mod boots;
mod guest;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = guest::play(&arguments) {
        return code;
    }
    // Each guest uses all processors.
    fsb_testkit::run(boots::tests())
}
