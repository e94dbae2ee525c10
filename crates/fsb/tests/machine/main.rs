//! Whole runs of the program on real file systems and devices, in virtual machines, and beside other programs.

#[macro_use]
extern crate fsb_testkit;

mod asked_root;
mod attacks;
mod background;
mod bad_input;
mod browser;
mod cache_warm_up;
mod choose;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod controls;
mod deferred;
mod devices;
mod directories;
mod disk;
mod explain;
mod export;
mod failures;
mod filebench;
mod filetree;
mod fio;
mod flow;
mod geometry;
mod history;
mod honesty;
mod hostile;
mod interference;
mod iozone;
mod killed;
mod kills;
mod macro_faults;
mod maintenance;
mod matrix;
mod mixtures;
mod neighbours;
mod open_loop;
mod options;
mod ownership;
mod past_the_cache;
mod postmark;
mod quiet;
mod real_file_systems;
mod recorded_hostile;
mod regimes;
mod remote;
mod replays;
mod resume;
mod shell;
mod side_by_side;
mod sustained;
mod terminal;
mod traces;
mod vm;
