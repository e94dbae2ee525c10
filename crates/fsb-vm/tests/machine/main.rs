//! Guests that really boot. They need QEMU and a Debian kernel: `FSB_TEST_KERNEL` names one as `--kernel` would, else
//! the default rule finds it. Where there is none they skip loudly, and fail in CI.

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
    // Each guest takes all processors.
    fsb_testkit::run(boots::tests())
}
