//! Tests on the real kernel. Those that need root skip loudly elsewhere, and fail in CI.

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

mod actor;
mod background;
mod confinement;
mod devices;
mod directories;
mod file_systems;
mod killed;
mod quiet;
mod stage;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = actor::play(&arguments) {
        return code;
    }
    let tests = [
        confinement::tests(),
        devices::tests(),
        directories::tests(),
        file_systems::tests(),
        killed::tests(),
        quiet::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    let mut settings = libtest_mimic::Arguments::from_args();
    // As with real runs, one at a time: drop_caches empties everybody's caches.
    settings.test_threads = Some(1);
    libtest_mimic::run(&settings, tests).exit_code()
}
