//! The 2023 tool: Pokorný's `fsb`, a micro-benchmark of creating, reading and writing files.
//!
//! M. Pokorný, bachelor's thesis, Faculty of Information Technology, CTU in Prague, 2023. Its command line is
//! [`Options`]; its published results are [`appendix_c`]; [`samples_csv`] writes samples as it does.

mod options;
mod published;
mod samples;

pub use options::{Benchmark, KEYS, Key, Level, OptionError, Options, Sinks};
pub use published::{NOTE, PublishedMean, PublishedTest, RateTable, TITLE, appendix_c};
pub use samples::samples_csv;
