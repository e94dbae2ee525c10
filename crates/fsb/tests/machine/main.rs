//! Whole runs of the program on real file systems and devices, in virtual machines, and beside
//! other programs.
//!
//! The module of a test states how it shares the host with tests that run at the same time:
//! [`exclusive`] with none but [`independent`] ones, the others with all that are not exclusive.

#[macro_use]
extern crate fsb_testkit;

mod attacks;
mod background;
mod bad_input;
mod bisect;
mod choose;
mod command;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod devices;
mod devtools;
mod exclusive;
mod explain;
mod export;
mod failures;
mod fio;
mod fuse;
mod history;
mod hostile;
mod independent;
mod kernel_calls;
mod killed;
mod layers;
mod maintenance;
mod mounts;
mod options;
mod ownership;
mod plans;
mod pools;
mod presets;
mod programs;
mod real_file_systems;
mod remote;
mod serve_runs;
mod servers;
mod storage;
mod workloads;
