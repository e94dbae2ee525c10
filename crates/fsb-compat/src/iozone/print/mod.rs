//! IOzone 3.471's text, piece by piece, so that it can be printed as the measurement goes on.
//!
//! Words, widths and blanks are IOzone's, for programs read them by place. What it must not borrow is its name: the
//! banner says which program really measured, in a line that readers made for IOzone pass over.

mod banner;
mod help;
pub(super) mod report;
mod table;
mod throughput;

pub use banner::{Facts, banner};
pub use help::{list, version};
pub use report::{Report, reports, throughput_report};
pub use table::{blank, heading, number, row, zero};
pub use throughput::{Child, ThroughputTest, block, intro, without_stonewall};

/// The line after which nothing but reports follows.
pub const COMPLETE: &str = "\niozone test complete.\n";
/// What stands before the reports of `-R`.
pub const REPORTS: &str = "Excel output is below:\n";

#[cfg(test)]
mod tests;
