//! The workers: each its own pool, stage after stage, all of them together.

use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::Durability;
use fsb_model::postmark::{Draw, Operation, Pool};

use super::options::Options;
use super::report::{PoolStage, Report, kind};
use crate::EngineError;
use crate::backend::{Backend, Directory};
use crate::clock::Kind;
use crate::context::Context;
use crate::hash::{Stream, hash};
use crate::postmark::{FileContent, FileOps, FileOpsOptions};
use crate::rendezvous::Rendezvous;
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// Numbers that belong to one worker in one repetition.
#[derive(Debug)]
struct Numbers {
    seed: u64,
    drawn: u64,
}

impl Draw for Numbers {
    #[inline]
    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        (hash(self.seed, Stream::Pool, self.drawn) >> 32) as u32
    }
}

/// The threads of one measurement.
pub(super) struct PostmarkThreads<'s> {
    options: &'s Options,
    context: &'s Context,
    backend: &'static dyn Backend,
    rendezvous: &'s Rendezvous,
    /// What is synced at the end.
    root: Directory,
    /// A thread has failed; processes are ended by their parent.
    failed: AtomicBool,
}

/// What one worker works with.
pub(super) struct ThreadState {
    ops: FileOps<'static>,
    pool: Pool<Numbers>,
    report: Report,
}

impl<'s> PostmarkThreads<'s> {
    pub(super) fn new(
        options: &'s Options,
        context: &'s Context,
        backend: &'static dyn Backend,
        rendezvous: &'s Rendezvous,
        root: Directory,
    ) -> PostmarkThreads<'s> {
        PostmarkThreads { options, context, backend, rendezvous, root, failed: AtomicBool::new(false) }
    }

    fn stage(
        &self,
        stage: PoolStage,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        match stage {
            PoolStage::Create => {
                while !self.over() && state.pool.tally().created < u64::from(state.pool.shape().number) {
                    let operation = state.pool.create();
                    self.perform(operation, state, recorder)?;
                }
                state.report.alone[0] = state.pool.tally().created;
            }
            PoolStage::Transact => self.transact(state, recorder)?,
            PoolStage::Delete => {
                state.report.alone[1] = state.pool.tally().left();
                while let (false, Some(operation)) = (self.over(), state.pool.remove_next()) {
                    self.perform(Some(operation), state, recorder)?;
                }
            }
        }
        Ok(())
    }

    fn transact(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let transactions = state.pool.shape().transactions;
        for transaction in 0..transactions {
            if self.over() {
                break;
            }
            if state.pool.is_exhausted() {
                let message = format!(
                    "the pool ran out of files after {transaction} of {transactions} transactions: take more files \
                     (number), fewer transactions, or a higher bias_create"
                );
                return Err(EngineError::new(message));
            }
            let begun = recorder.last();
            let operation = state.pool.use_one();
            let mut bytes = self.perform(operation, state, recorder)?;
            let operation = state.pool.exchange();
            bytes += self.perform(operation, state, recorder)?;
            recorder.complete(begun, bytes);
        }
        Ok(())
    }

    /// Whether another thread has failed: it is no use to go on, and the error is for that one to tell.
    #[inline]
    fn over(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Does an operation, where there is one, and reads the clock: bytes that were moved.
    #[inline]
    fn perform(
        &self,
        operation: Option<Operation>,
        state: &mut ThreadState,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<u64, EngineError> {
        let Some(operation) = operation else { return Ok(0) };
        let begun = recorder.last();
        state.ops.perform(&operation)?;
        let kind = kind(operation.act);
        recorder.tick(kind, u64::from(operation.bytes));
        state.report.record(operation.act, recorder.last() - begun);
        Ok(if kind == Kind::Delete { 0 } else { u64::from(operation.bytes) })
    }

    /// Everything on the file system is on the device.
    fn sync(&self, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let set = self.context.set();
        let synced = recorder.sync(0, || self.backend.namespace().sync_file_system(&self.root));
        synced.map_err(|errno| EngineError::call("syncfs of", set, errno))
    }
}

impl ThreadJob for PostmarkThreads<'_> {
    type ThreadState = ThreadState;
    type Report = Report;

    fn init(&self, rank: u32) -> Result<ThreadState, EngineError> {
        let options = self.options;
        let shape = &options.shape;
        let io_options = FileOpsOptions {
            backend: self.backend,
            read_block: options.read,
            write_block: options.write,
            sync: options.durability == Durability::Each,
            verify: options.verify && self.backend.capabilities().real,
        };
        let seed = self.context.seed;
        let content =
            FileContent::addressed(self.context.data(), shape.size_high, options.read.max(options.write), rank);
        let own = u64::from(self.context.repetition) << 32 | u64::from(rank);
        let numbers = Numbers { seed: hash(seed, Stream::Pool, own), drawn: 0 };
        Ok(ThreadState {
            ops: FileOps::new(self.options.names(self.context, rank), io_options, content, shape.size_high)?,
            pool: Pool::new(shape.clone(), numbers),
            report: Report::new(),
        })
    }

    fn run(&self, state: &mut ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let options = self.options;
        let mut result = Ok(());
        for stage in PoolStage::ALL {
            // Threads meet even where one has failed, or the others would wait for it; of processes all are ended.
            self.rendezvous.wait();
            if stage == PoolStage::Transact {
                recorder.forget();
            }
            if result.is_ok() && !self.over() {
                recorder.start();
                state.report.begun(stage, recorder.last());
                result = self.stage(stage, state, recorder);
            }
            if result.is_err() && options.processes > 1 {
                return result;
            }
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if options.durability == Durability::End {
                self.rendezvous.wait();
                if recorder.rank == 0 && !self.over() {
                    result = self.sync(recorder);
                    self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
                }
            }
            state.report.ended(stage, recorder.last());
            if stage == PoolStage::Transact {
                recorder.pause();
            }
        }
        state.report.tally = *state.pool.tally();
        result
    }

    fn report(&self, state: ThreadState) -> Report {
        state.report
    }

    fn encode_report(&self, report: Report) -> Option<String> {
        Some(report.to_text())
    }

    fn decode_report(&self, encoded: &str) -> Result<Option<Report>, EngineError> {
        Report::from_text(encoded).map(Some)
    }
}
