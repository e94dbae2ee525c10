//! PostMark's calls: which file is meant comes from a [`Pool`](fsb_model::postmark::Pool), how it is touched is here.
//!
//! The calls are those of PostMark 1.53, flags, sizes and order: streams of the C library as it opens them, or plain
//! calls with a last one of what does not fill a block, even where that is nothing. Traces of the real tool hold this
//! module to it. What PostMark overlooks (a disk that is full, a file that vanished) ends a run here.
//!
//! [`run`] is for `fsb postmark`; the workload of the registry does the same with a latency for each operation.

mod file_ops;
mod run;

pub(crate) use file_ops::PoolNames;
pub(crate) use file_ops::{FileContent, FileOps, FileOpsOptions};
pub use run::{Ended, Moment, RunOptions, Times, run};
