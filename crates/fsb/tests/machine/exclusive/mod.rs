//! Tests that need the page cache, the disks or the settings of the host for themselves: they
//! observe or change them, or wait for every write to the disk.

mod command;
mod controls;
mod deferred;
mod directories;
mod failures;
mod five_works;
mod fuse;
mod honesty;
mod interference;
pub mod kills;
mod long_trials;
mod neighbours;
mod regimes;
mod replays;
mod side_by_side;
mod workloads;
