//! Whole runs of the program that need neither root nor a device nor another program: on the null file system, whose
//! results are exact, and in directories.

#![expect(clippy::print_stderr, reason = "long tests report their progress")]

mod arrows;
mod bad_input;
mod choose;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod controls;
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
mod inputs;
mod iozone;
mod macro_faults;
mod matrix;
mod micro;
mod mistakes;
mod mixtures;
mod null_run;
mod optional;
mod options;
mod ownership;
mod postmark;
mod published;
mod records;
mod regimes;
mod replays;
mod report_files;
mod resume;
mod run_sets;
mod schemas;
mod shell;
mod side_by_side;
mod terminal;
mod traces;
mod vm;
