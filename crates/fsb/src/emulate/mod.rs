//! The command lines of other programs, run by the engine of this one.

pub mod filebench;
pub mod fio;
pub mod iozone;
pub mod micro;
mod own_directory;
pub mod postmark;
mod promises;
mod run_directory;
