//! Tests on the real kernel. Those that need root are skipped with a message elsewhere, and fail in
//! CI.

#![expect(unsafe_code, reason = "system calls without a safe interface")]
#![expect(clippy::print_stdout, reason = "actors answer on standard output")]

use std::ffi::OsString;
use std::process::ExitCode;

#[macro_use]
extern crate fsb_testkit;

mod confinement;
mod devices;
mod directories;
mod file_systems;
mod killed;
mod side_by_side;
mod stage;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = stage::play_role(&arguments) {
        return code;
    }
    let tests = [
        confinement::tests(),
        devices::tests(),
        directories::tests(),
        file_systems::tests(),
        killed::tests(),
        side_by_side::tests(),
    ];
    let tests = tests.into_iter().flatten().collect();
    // One at a time, as with real runs, because drop_caches empties the caches of all processes.
    fsb_testkit::run(tests)
}
