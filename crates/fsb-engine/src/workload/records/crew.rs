//! The workers that move records: each its share, pass by pass or in one go.
//!
//! Where something must be restored before a pass or done after it, each pass is a round: the files are closed, opened,
//! made anew outside the clock, all workers start together, and what belongs to the work (a flush, a close, a lock) is
//! inside the clock of each. Elsewhere passes follow each other without a pause, and nothing is shared while they do.

use std::sync::atomic::AtomicU64;

use fsb_model::Durability;

use super::{RecordsJob, Restore};
use crate::EngineError;
use crate::backend::Purpose;
use crate::board::{Board, State};
use crate::clock::Kind;
use crate::context::Context;
use crate::hash::{Stream, hash, unit};
use crate::lane::Lane;
use crate::order::Visits;
use crate::pump::{Files, Manner, Pump, Stage};
use crate::team::Crew;

/// The crew of one measurement.
pub(super) struct Movers<'s> {
    pub(super) job: &'s RecordsJob,
    pub(super) stage: &'s Stage,
    pub(super) context: &'s Context,
    pub(super) board: &'s Board,
}

/// What one worker works with.
pub(super) struct Kit<'s> {
    pump: Pump<'s>,
    /// Writes, where the other one reads.
    writer: Option<Pump<'s>>,
    visits: Visits,
    /// Operations of a mix so far.
    turns: u64,
    /// The files are closed.
    closed: bool,
}

impl<'s> Movers<'s> {
    fn visits(&self, rank: u32) -> Visits {
        let visits = self.job.spec.visits(self.context, rank);
        let visits = self.job.options.stride.map_or(visits.clone(), |stride| visits.with_stride(stride));
        if self.job.in_rounds() { visits.resting() } else { visits }
    }

    fn pump(&self, purpose: Purpose, rank: u32) -> Result<Pump<'s>, EngineError> {
        let job = self.job;
        let count = job.files_of_a_worker();
        let first = if job.spec.processes > 1 { u64::from(rank) * count } else { 0 };
        let manner = Manner {
            // Files that are created before the clock are not what is measured.
            kind: if purpose == Purpose::Read { Kind::Read } else { Kind::Write },
            files: Files { first, count },
            hold: true,
            verify: job.options.verify,
            lock: job.options.lock,
            ..job.spec.manner(purpose)
        };
        Pump::new(self.stage, manner)
    }

    /// Visits every record of this worker once, without a clock.
    fn visit_once(&self, kit: &mut Kit<'s>, rank: u32) -> Result<(), EngineError> {
        let spec = &self.job.spec;
        let mut whole = self.context.clone();
        whole.operations = spec.items();
        kit.pump.pass_over(spec.visits(&whole, rank))
    }

    fn each_pump(
        kit: &mut Kit<'s>,
        mut act: impl FnMut(&mut Pump<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(&mut kit.pump)?;
        kit.writer.as_mut().map_or(Ok(()), act)
    }

    /// Brings the state of the first pass back.
    fn restore(&self, kit: &mut Kit<'s>, rank: u32) -> Result<(), EngineError> {
        let restore = self.job.restore();
        if restore == Restore::Nothing && !kit.closed {
            return Ok(());
        }
        if !kit.closed {
            Self::each_pump(kit, Pump::close_held)?;
        }
        if restore == Restore::Anew {
            kit.pump.unlink_held()?;
        }
        Self::each_pump(kit, Pump::open_held)?;
        if restore == Restore::Anew && self.job.spec.durability != Durability::None {
            // The removal must not be part of the next flush.
            kit.pump.sync_set()?;
        }
        kit.closed = false;
        if self.job.member.again { self.visit_once(kit, rank) } else { Ok(()) }
    }

    /// Moves what is left, or what is left of the pass.
    fn go(&self, kit: &mut Kit<'s>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let Kit { pump, writer, visits, turns, .. } = kit;
        let Some(writer) = writer else { return pump.run(visits, lane) };
        let record_size = self.job.spec.block_size;
        let seed =
            hash(self.context.seed, Stream::Mix, u64::from(self.context.repetition) << 32 | u64::from(lane.rank));
        lane.start();
        for item in visits {
            *turns += 1;
            let reads = unit(hash(seed, Stream::Mix, *turns)) < self.job.options.reads();
            let (pump, kind) = if reads { (&mut *pump, Kind::Read) } else { (&mut *writer, Kind::Write) };
            pump.step(item)?;
            if !lane.lap(kind, record_size) {
                break;
            }
        }
        pump.close_current()?;
        writer.close_current()
    }

    /// One pass with all that belongs to it, against the clock.
    fn round(&self, kit: &mut Kit<'s>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let spec = &self.job.spec;
        let before = lane.bytes();
        lane.start();
        Self::each_pump(kit, Pump::lock_files)?;
        self.go(kit, lane)?;
        Self::each_pump(kit, Pump::unlock_files)?;
        if spec.durability == Durability::End && spec.threads == 1 {
            Self::each_writer(kit, Pump::flush_all)?;
            lane.tick(Kind::Sync, lane.bytes() - before);
        }
        if self.job.options.close && spec.threads == 1 {
            self.close(kit, lane)?;
        }
        Ok(())
    }

    /// What threads that share files do at the end of a pass when all of them are there: the first brings everything
    /// onto the device, and each closes its files.
    fn finish_shared(&self, kit: &mut Kit<'s>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        if self.job.spec.durability == Durability::End && lane.rank == 0 {
            Self::each_writer(kit, Pump::flush_all)?;
            lane.tick(Kind::Sync, self.board.moved());
        }
        if self.job.options.close { self.close(kit, lane) } else { Ok(()) }
    }

    fn close(&self, kit: &mut Kit<'s>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        kit.closed = true;
        Self::each_pump(kit, Pump::close_held)?;
        lane.tick(Kind::Close, 0);
        Ok(())
    }

    /// The pump that writes: nothing that was read needs flushing.
    fn each_writer(
        kit: &mut Kit<'s>,
        act: impl FnOnce(&mut Pump<'s>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        act(kit.writer.as_mut().unwrap_or(&mut kit.pump))
    }

    /// Round after round until everything is done, the time is up or somebody has failed. Who has failed still comes to
    /// each meeting, or the others would wait for ever.
    fn rounds(&self, kit: &mut Kit<'s>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let shared = self.job.spec.threads > 1;
        let mut result = Ok(());
        for round in 0u64.. {
            if round > 0 {
                let rank = lane.rank;
                result = lane.aside(|| self.restore(kit, rank));
            }
            self.board.meet();
            if result.is_ok() {
                result = self.round(kit, lane);
            }
            if shared {
                self.board.meet();
                if result.is_ok() {
                    result = self.finish_shared(kit, lane);
                }
            }
            let state = match result {
                Err(_) => State::Over,
                Ok(()) if lane.over() => State::Over,
                Ok(()) if kit.visits.more() => State::More,
                Ok(()) => State::Done,
            };
            let start = lane.pause();
            self.board.through(lane.rank, (start, lane.last()), state);
            if !self.board.settle_together() {
                break;
            }
        }
        result
    }
}

impl<'s> Crew for Movers<'s> {
    type Kit = Kit<'s>;
    type Report = ();

    fn equip(&self, rank: u32) -> Result<Kit<'s>, EngineError> {
        let (purpose, second) = self.job.purposes();
        let mut kit = Kit {
            pump: self.pump(purpose, rank)?,
            writer: second.map(|purpose| self.pump(purpose, rank)).transpose()?,
            visits: self.visits(rank),
            turns: 0,
            closed: false,
        };
        if purpose == Purpose::Create && self.job.spec.durability != Durability::None {
            kit.pump.sync_set()?;
        }
        if self.job.member.again {
            self.visit_once(&mut kit, rank)?;
        }
        Ok(kit)
    }

    fn work(&self, kit: &mut Kit<'s>, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        if self.job.in_rounds() {
            return self.rounds(kit, lane);
        }
        let result = self.go(kit, lane);
        let start = lane.pause();
        self.board.through(lane.rank, (start, lane.last()), State::Done);
        result
    }

    fn progress(&self, rank: u32) -> Option<&AtomicU64> {
        Some(self.board.progress(rank))
    }

    fn report(&self, _kit: Kit<'s>) {}
}
