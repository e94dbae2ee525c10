//! Whole runs of the program: on the null file system to the last digit, and on real ones as root.

mod arrows;
mod bad_input;
mod browser;
mod common;
mod compare;
mod controls;
mod directories;
mod disturbed;
mod emulated;
mod failures;
mod families;
mod filetree;
mod honesty;
mod iozone;
mod killed;
mod matrix;
mod micro;
mod null_run;
mod past_the_cache;
mod postmark;
mod quiet;
mod real_file_systems;
mod regimes;
mod resume;
mod schemas;
mod vm;
