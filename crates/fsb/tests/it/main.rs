//! Whole runs of the program: on the null file system to the last digit, and on real ones as root.

#![expect(clippy::print_stderr, reason = "long tests report their progress")]

// Its `#[test]` instead of libtest's: what cannot run here is shown as ignored.
#[macro_use]
extern crate fsb_testkit;

mod arrows;
mod asked_root;
mod attacks;
mod bad_input;
mod browser;
mod choose;
mod command;
mod common;
mod compare;
mod controls;
mod deferred;
mod devices;
mod directories;
mod disturbed;
mod documents;
mod emulated;
mod export;
mod failures;
mod families;
mod filebench;
mod filetree;
mod flow;
mod geometry;
mod honesty;
mod hostile;
mod inputs;
mod iozone;
mod killed;
mod kills;
mod macro_faults;
mod matrix;
mod micro;
mod mistakes;
mod mixtures;
mod neighbours;
mod null_run;
mod open_loop;
mod optional;
mod options;
mod ownership;
mod past_the_cache;
mod postmark;
mod published;
mod quiet;
mod real_file_systems;
mod recorded_hostile;
mod records;
mod regimes;
mod replays;
mod report_files;
mod resume;
mod run_sets;
mod schemas;
mod shell;
mod side_by_side;
mod sustained;
mod terminal;
mod traces;
mod vm;

/// As with real runs, one at a time: they share the machine.
fn main() -> std::process::ExitCode {
    fsb_testkit::main(Some(1))
}
