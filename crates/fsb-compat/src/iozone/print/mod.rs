//! IOzone 3.471's text, piece by piece, so that it can be printed during the measurement.
//!
//! Words, widths and blanks are those of IOzone, because programs read them by position. Only the name differs: the
//! banner names the program that measured, in a line that readers of IOzone's output skip.

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
/// The line before the reports of `-R`.
pub const REPORTS: &str = "Excel output is below:\n";

#[cfg(test)]
mod tests;
