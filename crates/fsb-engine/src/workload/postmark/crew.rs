//! The workers: each its own pool, stage after stage, all of them together.

use std::sync::atomic::{AtomicBool, Ordering};

use fsb_model::Durability;
use fsb_model::postmark::{Draw, Operation, Pool};

use super::PostmarkJob;
use super::report::{Report, Stage, kind};
use crate::EngineError;
use crate::backend::Handle;
use crate::board::Board;
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset;
use crate::hash::{Stream, hash};
use crate::lane::Lane;
use crate::postmark::{Content, Hand, Manner, Means};
use crate::team::Crew;

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

/// The crew of one measurement.
pub(super) struct Mailmen<'s> {
    job: &'s PostmarkJob,
    context: &'s Context,
    means: Means,
    board: &'s Board,
    /// What is synced at the end.
    root: Handle,
    /// A thread has failed; processes are ended by their parent.
    failed: AtomicBool,
}

/// What one worker works with.
pub(super) struct Kit {
    hand: Hand<'static>,
    pool: Pool<Numbers>,
    report: Report,
}

impl<'s> Mailmen<'s> {
    pub(super) fn new(
        job: &'s PostmarkJob,
        context: &'s Context,
        means: Means,
        board: &'s Board,
        root: Handle,
    ) -> Mailmen<'s> {
        Mailmen { job, context, means, board, root, failed: AtomicBool::new(false) }
    }

    fn stage(&self, stage: Stage, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        match stage {
            Stage::Create => {
                while !self.over() && kit.pool.tally().created < u64::from(kit.pool.shape().number) {
                    let operation = kit.pool.create();
                    self.perform(operation, kit, lane)?;
                }
                kit.report.alone[0] = kit.pool.tally().created;
            }
            Stage::Transact => self.transact(kit, lane)?,
            Stage::Delete => {
                kit.report.alone[1] = kit.pool.tally().left();
                while let (false, Some(operation)) = (self.over(), kit.pool.remove_next()) {
                    self.perform(Some(operation), kit, lane)?;
                }
            }
        }
        Ok(())
    }

    fn transact(&self, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let transactions = kit.pool.shape().transactions;
        for transaction in 0..transactions {
            if self.over() {
                break;
            }
            if kit.pool.is_exhausted() {
                let message = format!(
                    "the pool ran out of files after {transaction} of {transactions} transactions: take more files \
                     (number), fewer transactions, or a higher bias_create"
                );
                return Err(EngineError::new(message));
            }
            let begun = lane.last();
            let operation = kit.pool.use_one();
            let mut bytes = self.perform(operation, kit, lane)?;
            let operation = kit.pool.exchange();
            bytes += self.perform(operation, kit, lane)?;
            lane.complete(begun, bytes);
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
    fn perform(&self, operation: Option<Operation>, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<u64, EngineError> {
        let Some(operation) = operation else { return Ok(0) };
        let begun = lane.last();
        kit.hand.perform(&operation)?;
        let kind = kind(operation.act);
        lane.tick(kind, u64::from(operation.bytes));
        kit.report.record(operation.act, lane.last() - begun);
        Ok(if kind == Kind::Delete { 0 } else { u64::from(operation.bytes) })
    }

    /// Everything on the file system is on the device.
    fn sync(&self, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        if self.means != Means::Nothing {
            fileset::sync_through(&self.root, &self.context.set())?;
        }
        lane.tick(Kind::Sync, 0);
        Ok(())
    }
}

impl Crew for Mailmen<'_> {
    type Kit = Kit;
    type Report = Report;

    fn equip(&self, rank: u32) -> Result<Kit, EngineError> {
        let options = &self.job.0;
        let shape = &options.shape;
        let manner = Manner {
            means: self.means,
            read_block: options.read,
            write_block: options.write,
            sync: options.durability == Durability::Each,
            verify: options.verify && self.means != Means::Nothing,
        };
        let seed = self.context.seed;
        let content = Content::addressed(seed, shape.size_high, options.read.max(options.write), rank);
        let own = u64::from(self.context.repetition) << 32 | u64::from(rank);
        let numbers = Numbers { seed: hash(seed, Stream::Pool, own), drawn: 0 };
        Ok(Kit {
            hand: Hand::new(self.job.names(self.context, rank), manner, content, shape.size_high),
            pool: Pool::new(shape.clone(), numbers),
            report: Report::new(),
        })
    }

    fn work(&self, kit: &mut Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let options = &self.job.0;
        let mut result = Ok(());
        for stage in Stage::ALL {
            // Threads meet even where one has failed, or the others would wait for it; of processes all are ended.
            self.board.meet();
            if stage == Stage::Transact {
                lane.forget();
            }
            if result.is_ok() && !self.over() {
                lane.start();
                kit.report.begun(stage, lane.last());
                result = self.stage(stage, kit, lane);
            }
            if result.is_err() && options.processes > 1 {
                return result;
            }
            self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if options.durability == Durability::End {
                self.board.meet();
                if lane.rank == 0 && !self.over() {
                    result = self.sync(lane);
                    self.failed.fetch_or(result.is_err(), Ordering::Relaxed);
                }
            }
            kit.report.ended(stage, lane.last());
            if stage == Stage::Transact {
                lane.pause();
            }
        }
        kit.report.tally = *kit.pool.tally();
        result
    }

    fn report(&self, kit: Kit) -> Report {
        kit.report
    }

    fn say(&self, report: Report) -> Option<String> {
        Some(report.to_text())
    }

    fn hear(&self, said: &str) -> Result<Option<Report>, EngineError> {
        Report::from_text(said).map(Some)
    }
}
