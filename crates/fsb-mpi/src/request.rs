//! The request of a job, which rank 0 sends to all ranks.

use fsb_model::Target;
use serde::{Deserialize, Serialize};

use crate::suite::Suite;

/// The directories, the suite and the repetition of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The directories, with their names in tables. The first one is the baseline.
    pub targets: Vec<Target>,
    /// The name of the suite.
    pub suite_name: String,
    /// The suite.
    pub suite: Suite,
    /// Measured blocks. A block of warm-up comes before them.
    pub blocks: u32,
    /// The numbers of ranks that take part in a case.
    pub ranks: Vec<usize>,
    /// Decides the content of files and random orders.
    pub seed: u64,
}
