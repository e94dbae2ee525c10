//! Guests that really boot. They need QEMU and a Debian kernel: `FSB_TEST_KERNEL` names one as `--kernel` would, else
//! the default rule finds it. Where there is none they skip loudly, and fail in CI.

use std::ffi::OsString;
use std::process::ExitCode;

/// The tests of a module, for the harness. A test that is not listed is dead code, which the compiler reports.
macro_rules! tests {
    ($($name:ident,)*) => {
        pub fn tests() -> Vec<libtest_mimic::Trial> {
            let path = module_path!().split_once("::").map_or("", |(_, path)| path);
            vec![$(libtest_mimic::Trial::test(format!("{path}::{}", stringify!($name)), || {
                $name();
                Ok(())
            })),*]
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
    let mut settings = libtest_mimic::Arguments::from_args();
    // Each guest takes all processors.
    settings.test_threads = Some(1);
    libtest_mimic::run(&settings, boots::tests()).exit_code()
}
