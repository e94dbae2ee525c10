//! Whole runs of the program on real file systems and devices, in virtual machines, and beside
//! other programs.

#[macro_use]
extern crate fsb_testkit;

mod attacks;
mod background;
mod bad_input;
mod browser;
mod choose;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod controls;
mod deferred;
mod devices;
mod devtools;
mod directories;
mod explain;
mod export;
mod failures;
mod fio;
mod history;
mod honesty;
mod hostile;
mod interference;
mod iozone;
mod killed;
mod kills;
mod long_trials;
mod maintenance;
mod neighbours;
mod options;
mod ownership;
mod postmark;
mod real_file_systems;
mod recorded_hostile;
mod regimes;
mod remote;
mod replays;
mod serve_runs;
mod side_by_side;
mod storage;
mod terminal;
mod traces;
mod vm;
mod workloads;
