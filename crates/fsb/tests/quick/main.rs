//! Whole runs of the program that need neither root nor a device nor another program: on the null
//! file system, whose results are exact, and in directories.

#![expect(clippy::print_stderr, reason = "long tests report their progress")]

mod arrows;
mod bisect;
mod ci;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod controls;
mod documents;
mod export;
mod failures;
mod families;
mod filebench;
mod fio;
mod fleet;
mod history;
mod inputs;
mod interference;
mod iozone;
mod micro;
mod mistakes;
mod null_run;
mod options;
mod outputs;
mod ownership;
mod postmark;
mod publish;
mod regimes;
mod resume;
mod run_directories;
mod serve;
mod serve_runs;
mod targets;
mod terminal;
mod traces;
mod versus;
mod watch;
mod workloads;
