//! Guests that really boot. They need QEMU and a Debian kernel: `FSB_TEST_KERNEL` names one as `--kernel` would, else
//! the default rule finds it. Where there is none they skip loudly, and fail in CI.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "guests answer on standard output")]

use std::ffi::OsString;
use std::process::ExitCode;

/// The tests of a module, for the harness. A test that is not listed is dead code, which the compiler reports.
macro_rules! tests {
    ($($name:ident,)*) => {
        pub fn tests() -> Vec<fsb_testkit::Case> {
            vec![$(fsb_testkit::Case {
                name: concat!(module_path!(), "::", stringify!($name)),
                machine: true,
                ignored: false,
                run: $name,
            }),*]
        }
    };
}

mod boots;
mod guest;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = guest::play(&arguments) {
        return code;
    }
    // Each guest takes all processors.
    fsb_testkit::run(boots::tests(), Some(1))
}
