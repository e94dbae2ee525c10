//! A whole run: PostMark's stages, each against the clock.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::postmark::{Draw, Operation, Pool};
use serde::{Deserialize, Serialize};

use super::file_ops::PoolNames;
use super::file_ops::{FileContent, FileOps, FileOpsOptions};
use crate::clock::Clock;
use crate::{EngineError, backend};

/// The options of a run.
#[derive(Debug)]
pub struct RunOptions<'r> {
    /// The directories of the files, as many as the pool's shape has weights. If empty, files are in the working
    /// directory.
    pub locations: Vec<PathBuf>,
    /// Bytes of one read.
    pub read_block: u32,
    /// Bytes of one write.
    pub write_block: u32,
    /// Whether to use streams of the C library instead of plain calls.
    pub buffered: bool,
    /// The text that files are filled with, as many bytes as the largest has. If absent, their bytes depend on the file
    /// and on the offset in it, and read data is compared with them.
    pub text: Option<&'r [u8]>,
}

/// A progress event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    /// The run is about to create the directories.
    MakingDirectories,
    /// The directories exist.
    MadeDirectories,
    /// The run is about to create the first files.
    Creating,
    /// The files exist, and the transactions begin.
    Transacting,
    /// A tenth of the transactions is done.
    Tenth,
    /// All transactions are done.
    Transacted,
    /// No file is left for another transaction.
    OutOfFiles,
    /// The run is about to delete the remaining files.
    Deleting,
    /// The files are deleted.
    Deleted,
    /// The run is about to remove the directories.
    RemovingDirectories,
    /// The directories are removed.
    RemovedDirectories,
}

/// The durations of the stages, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// From the first file's creation to the last one's deletion.
    pub total: u64,
    /// Creating the first files.
    pub creation: u64,
    pub transactions: u64,
    /// Deleting the remaining files.
    pub deletion: u64,
    /// Files deleted after the transactions.
    pub deleted_alone: u64,
    /// Whether some of the transactions had no files.
    pub out_of_files: bool,
}

/// The reason why a run was aborted. Its files are removed, as far as that was possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Ended {
    /// The caller set the `interrupted` flag.
    #[error("interrupted")]
    Interrupted,
    /// A system call failed, or a file does not hold the bytes that were written to it.
    #[error(transparent)]
    Failed(#[from] EngineError),
    /// As before, and some of the files could not be removed either.
    #[error("{first}; and its files are not all removed: {second}")]
    Left {
        first: String,
        /// The error that kept files from being removed.
        second: EngineError,
    },
}

/// Performs a run. It calls `tell` for progress events while the clock runs, because PostMark prints while its clock
/// runs.
///
/// # Errors
/// Returns the first call that fails, or `Interrupted` if `interrupted` is set. The run checks it before each
/// operation.
pub fn run<D: Draw>(
    options: &RunOptions<'_>,
    pool: &mut Pool<D>,
    interrupted: &AtomicBool,
    tell: &mut dyn FnMut(Moment),
) -> Result<Times, Ended> {
    let shape = pool.shape();
    let names = PoolNames::new(&options.locations, shape.subdirectories);
    let largest = shape.size_high;
    let ops_options = FileOpsOptions {
        backend: if options.buffered { backend::STREAMS } else { backend::CALLS },
        read_block: options.read_block,
        write_block: options.write_block,
        sync: false,
        verify: options.text.is_none(),
    };
    let content = match options.text {
        Some(text) => FileContent::Text(text),
        None => FileContent::addressed(0.into(), largest, options.read_block.max(options.write_block), 0),
    };
    let ops = FileOps::new(names, ops_options, content, largest)?;
    let mut run = Run { ops, pool, interrupted, last: None };
    run.stages(tell).map_err(|ended| run.clear(ended))
}

struct Run<'r, D> {
    ops: FileOps<'r>,
    pool: &'r mut Pool<D>,
    interrupted: &'r AtomicBool,
    /// The last operation, whether it succeeded or failed.
    last: Option<Operation>,
}

impl<D: Draw> Run<'_, D> {
    fn stages(&mut self, tell: &mut dyn FnMut(Moment)) -> Result<Times, Ended> {
        let clock = Clock::Monotonic;
        let directories = self.pool.shape().subdirectories > 1;
        if directories {
            tell(Moment::MakingDirectories);
            self.ops.names().make_directories()?;
            tell(Moment::MadeDirectories);
        }
        let mut times = Times::default();
        let start = clock.now();
        tell(Moment::Creating);
        for _ in 0..self.pool.shape().number {
            let operation = self.pool.create();
            self.perform(operation)?;
        }
        tell(Moment::Transacting);
        let created = clock.now();
        times.out_of_files = !self.transactions(tell)?;
        let transacted = clock.now();
        tell(if times.out_of_files { Moment::OutOfFiles } else { Moment::Transacted });
        tell(Moment::Deleting);
        let before = self.pool.tally().deleted;
        while let Some(operation) = self.pool.remove_next() {
            self.perform(Some(operation))?;
        }
        tell(Moment::Deleted);
        let end = clock.now();
        times.deleted_alone = self.pool.tally().deleted - before;
        (times.total, times.creation) = (end - start, created - start);
        (times.transactions, times.deletion) = (transacted - created, end - transacted);
        if directories {
            tell(Moment::RemovingDirectories);
            self.ops.names().remove_directories()?;
            tell(Moment::RemovedDirectories);
        }
        Ok(times)
    }

    /// Performs the transactions. Returns whether there were files for all of them.
    fn transactions(&mut self, tell: &mut dyn FnMut(Moment)) -> Result<bool, Ended> {
        let (transactions, tenth) = (self.pool.shape().transactions, self.pool.shape().tenth());
        for transaction in 0..transactions {
            if self.pool.is_exhausted() {
                return Ok(false);
            }
            let operation = self.pool.use_one();
            self.perform(operation)?;
            let operation = self.pool.exchange();
            self.perform(operation)?;
            if transaction % tenth == 0 {
                tell(Moment::Tenth);
            }
        }
        Ok(true)
    }

    #[inline]
    fn perform(&mut self, operation: Option<Operation>) -> Result<(), Ended> {
        if self.interrupted.load(Ordering::Relaxed) {
            self.last = operation;
            return Err(Ended::Interrupted);
        }
        if let Some(operation) = operation {
            self.last = Some(operation);
            self.ops.perform(&operation)?;
        }
        Ok(())
    }

    /// Removes the created files, and the file whose deletion the pool has counted already.
    fn clear(&mut self, ended: Ended) -> Ended {
        let mut failed = None;
        let mut keep = |result: Result<(), EngineError>| {
            if let Err(error) = result {
                failed.get_or_insert(error);
            }
        };
        if let Some(last) = self.last {
            keep(self.ops.clear(last.file));
        }
        while let Some(operation) = self.pool.remove_next() {
            keep(self.ops.clear(operation.file));
        }
        keep(self.ops.names().remove_directories());
        match failed {
            Some(second) => Ended::Left { first: ended.to_string(), second },
            None => ended,
        }
    }
}
