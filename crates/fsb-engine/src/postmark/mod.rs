//! PostMark's calls. A [`Pool`](fsb_model::postmark::Pool) chooses the files, and this module performs the operations
//! on them.
//!
//! The calls are those of PostMark 1.53, with the same flags, sizes and order. They are streams of the C library as
//! PostMark opens them, or plain calls. The last plain call of a transfer moves the rest that does not fill a block,
//! even if that rest is empty. Tests compare the calls with traces of the real tool. Errors that PostMark overlooks (a
//! full disk, a file that vanished) end a run here.
//!
//! [`run`] is for `fsb postmark`. The workload of the registry does the same with a latency for each operation.

mod file_ops;
mod run;

pub(crate) use file_ops::PoolNames;
pub(crate) use file_ops::{FileContent, FileOps, FileOpsOptions};
pub use run::{Ended, Moment, RunOptions, Times, run};
