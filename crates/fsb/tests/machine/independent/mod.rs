//! Tests that neither use the page cache of the host nor empty it, because guests have caches of
//! their own. They run beside any other test.

mod browser;
mod iozone;
mod postmark;
mod recorded_hostile;
mod terminal;
mod traces;
pub mod vm;
