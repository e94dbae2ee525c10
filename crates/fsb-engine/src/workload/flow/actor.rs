//! One thread of a flow: it goes through its steps, one turn each.
//!
//! A turn never sleeps. Where a thread has to wait, the turn says for what, and whoever runs the thread lets it sleep: a
//! real thread on a futex, a pretended one until another's clock has come so far.

use fsb_model::flow::{Op, Quit};

use super::perform::Did;
use super::points::{Counter, PARTS};
use super::program::{Act, Program};
use super::report::Report;
use super::stage::Stage;
use super::tree::{LONGEST_PATH, Scratch};
use super::{aio::Aio, draw, perform::Opened};
use crate::EngineError;
use crate::data::{Data, Memory};
use crate::hash::{Stream, hash, mix};
use crate::lane::Lane;

/// Nanoseconds for which others may have all files that would do before it is an error.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Turns of a hog that the fake clock takes for a nanosecond.
const TURNS_A_NANOSECOND: u64 = 4;

/// How a turn ended.
pub(super) enum Turn<'s> {
    /// Something was done.
    Moved,
    /// It must sleep until this moment.
    Sleep(u64),
    /// It must wait while a counter has this value.
    Wait(&'s Counter, u32),
    /// Others have the files that it needs; they may give one back soon.
    Yield,
    /// There is nothing more to do.
    End,
}

/// What a thread works with.
pub(super) struct Actor {
    pub(super) rank: u32,
    pub(super) program: usize,
    pub(super) instance: u32,
    pub(super) at: usize,
    /// How often the step at hand was done.
    iteration: u64,
    /// Operations that were taken and not done yet.
    held: u64,
    /// The clock must be read before the next operation: it was not, while the thread waited.
    pub(super) stale: bool,
    waiting: Waiting,
    /// Since when no file was to be had.
    hungry: Option<u64>,
    /// Operations and bytes that limits have charged, by step.
    charged: Vec<u64>,
    drawn: u64,
    seed: u64,
    pub(super) slots: Vec<Slot>,
    pub(super) rotors: Vec<Rotor>,
    pub(super) aio: Option<Aio>,
    pub(super) data: Data,
    pub(super) memory: Memory,
    pub(super) listing: Vec<std::mem::MaybeUninit<u8>>,
    pub(super) scratch: Box<Scratch>,
    pub(super) report: Report,
}

/// A thread's own number of a file.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) open: Option<Opened>,
    /// The file that was open last.
    pub(super) last: Option<(usize, u64)>,
}

/// All files of a set, which are used one after another.
pub(super) struct Rotor {
    pub(super) files: Vec<Opened>,
    pub(super) next: usize,
}

/// Where it stands in a step that waits.
#[derive(Default)]
struct Waiting {
    /// When it may go on.
    due: Option<u64>,
    /// What a bell showed when it came.
    heard: Option<u32>,
    arrived: bool,
    /// Semaphores that were posted to.
    posted: usize,
}

impl Actor {
    pub(super) fn new(stage: &Stage, rank: u32) -> Result<Actor, EngineError> {
        let (program, instance) = stage.role(rank);
        let Program { acts, largest: [read, write], under_way, .. } = &stage.programs[program];
        let most = acts.iter().flat_map(|act| [Some(act.fd), act.from]).flatten().max().unwrap_or(0);
        let records = acts.iter().filter(|act| act.op == Op::AioWrite).map(|act| draw::largest(&act.size)).max();
        let mut actor = Actor {
            rank,
            program,
            instance,
            at: 0,
            iteration: 0,
            held: 0,
            stale: false,
            waiting: Waiting::default(),
            hungry: None,
            charged: vec![0; acts.len()],
            drawn: 0,
            seed: hash(stage.seed, Stream::Draw, u64::from(stage.repetition) << 32 | u64::from(rank)),
            slots: (0..=most).map(|_| Slot::default()).collect(),
            rotors: Vec::new(),
            aio: records.filter(|_| stage.root.is_some()).map(|record| Aio::new(*under_way, record)).transpose()?,
            data: Data::new(stage.seed, *if stage.verify { write.max(read) } else { write } as usize),
            memory: Memory::new(if stage.root.is_some() { *read as usize } else { 0 }),
            listing: vec![
                std::mem::MaybeUninit::uninit();
                if acts.iter().any(|act| act.op == Op::List) { 32 << 10 } else { 0 }
            ],
            scratch: Box::new([0; LONGEST_PATH]),
            report: Report::new(&stage.programs[program]),
        };
        actor.open_beforehand(stage)?;
        Ok(actor)
    }

    /// A number of 64 bits that looks random.
    #[inline]
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed ^ mix(self.drawn))
    }

    /// Does the next step, or says what it waits for.
    #[inline]
    pub(super) fn turn<'s>(&mut self, stage: &'s Stage, lane: &mut Lane<'_>) -> Result<Turn<'s>, EngineError> {
        let act = &stage.programs[self.program].acts[self.at];
        if act.op.is_counted() {
            return self.work(act, stage, lane);
        }
        if stage.end.is_over() {
            return Ok(Turn::End);
        }
        let turn = self.control(act, stage, lane);
        match turn {
            Turn::Moved => self.advance(act, stage),
            _ => self.stale = true,
        }
        Ok(turn)
    }

    /// An operation on files, against the clock.
    #[inline]
    fn work<'s>(&mut self, act: &'s Act, stage: &'s Stage, lane: &mut Lane<'_>) -> Result<Turn<'s>, EngineError> {
        if self.held == 0 {
            self.held = stage.tickets.take(act.ahead - self.iteration);
            if self.held == 0 {
                stage.end.finish();
                return Ok(Turn::End);
            }
        }
        if self.stale {
            lane.start();
            self.stale = false;
        }
        let begun = lane.last();
        match self.perform(act, stage)? {
            Did::Done(kind, bytes) => {
                lane.tick(kind, bytes);
                self.hungry = None;
                self.held -= 1;
                self.report.record(act.title, lane.last() - begun, bytes);
                self.report.tally.operations += 1;
                let more = lane.complete(begun, bytes);
                stage.show(self.rank, self.report.tally.operations, lane.bytes());
                self.advance(act, stage);
                Ok(if more { Turn::Moved } else { Turn::End })
            }
            Did::Skipped if stage.end.is_over() || lane.is_late() => Ok(Turn::End),
            Did::Skipped => {
                self.advance(act, stage);
                Ok(Turn::Yield)
            }
            Did::Nothing { there } => self.hunger(there, act, stage, lane),
        }
    }

    /// There is no file that would do.
    #[cold]
    fn hunger<'s>(
        &mut self,
        there: bool,
        act: &Act,
        stage: &'s Stage,
        lane: &Lane<'_>,
    ) -> Result<Turn<'s>, EngineError> {
        match stage.quit {
            Quit::FirstDone if !there => {
                stage.end.finish();
                Ok(Turn::End)
            }
            Quit::AllDone if !there => Ok(Turn::End),
            _ if stage.end.is_over() || lane.is_late() => Ok(Turn::End),
            _ => {
                let since = *self.hungry.get_or_insert(lane.now());
                self.stale = true;
                // Alone it would wait for itself.
                if stage.threads > 1 && lane.now() - since < PATIENCE_NS {
                    return Ok(Turn::Yield);
                }
                Err(self.starved(act, stage))
            }
        }
    }

    /// Why a thread cannot go on for want of files.
    pub(super) fn starved(&self, act: &Act, stage: &Stage) -> EngineError {
        let Some(set) = act.set.map(|set| &stage.sets[set].shape) else {
            return EngineError::new(format!("{}: no file", act.op.name()));
        };
        let why = match act.op {
            Op::Create | Op::MakeDirectory => "all of them exist already, or are being made",
            Op::Delete | Op::RemoveDirectory => "those that exist are open or being deleted",
            _ => "those that exist are being made or deleted",
        };
        let (what, count) = match act.op {
            Op::MakeDirectory | Op::RemoveDirectory => ("directories", set.directories),
            _ => ("files", set.files),
        };
        EngineError::new(format!(
            "too few files: {} finds none among the {count} {what} of the set {}: {why}; {} threads need a larger set \
             (files) or there must be fewer of them (threads)",
            act.op.name(),
            set.name,
            stage.threads
        ))
    }

    /// The step that the thread is at, for those who ask why nothing goes on.
    pub(super) fn current<'s>(&self, stage: &'s Stage) -> &'s Act {
        &stage.programs[self.program].acts[self.at]
    }

    /// Goes on to the next step, or to the next time of this one.
    #[inline]
    fn advance(&mut self, act: &Act, stage: &Stage) {
        self.iteration += 1;
        if self.iteration < act.iterations {
            return;
        }
        self.iteration = 0;
        self.at += 1;
        if self.at == stage.programs[self.program].acts.len() {
            self.at = 0;
        }
    }

    /// What is no work on files: limits, thinking, waiting for others.
    fn control<'s>(&mut self, act: &Act, stage: &'s Stage, lane: &mut Lane<'_>) -> Turn<'s> {
        match act.op {
            Op::EventLimit | Op::OperationLimit | Op::IoLimit | Op::BandwidthLimit => self.limit(act, stage, lane),
            Op::Delay => {
                let due = *self.waiting.due.get_or_insert(lane.now() + act.nanoseconds);
                self.until(due, lane)
            }
            Op::Hog => {
                let mut cell = 0u8;
                for _ in 0..if lane.pretends() { 0 } else { act.value } {
                    // SAFETY: a byte of this function's own.
                    unsafe { std::ptr::write_volatile(&raw mut cell, 1) };
                }
                lane.pass_until(lane.now() + act.value / TURNS_A_NANOSECOND);
                self.stale = true;
                Turn::Moved
            }
            Op::Block => {
                let bell = &stage.bells[act.targets[0]].0;
                let heard = *self.waiting.heard.get_or_insert(bell.value());
                if bell.value() == heard {
                    return Turn::Wait(bell, heard);
                }
                self.waiting.heard = None;
                Turn::Moved
            }
            Op::Wake => {
                act.targets.iter().for_each(|&bell| stage.bells[bell].ring());
                Turn::Moved
            }
            Op::SemaphoreWait => {
                let semaphore = &stage.semaphores[act.targets[self.instance as usize]];
                if !std::mem::replace(&mut self.waiting.arrived, true) {
                    semaphore.arrive();
                }
                match semaphore.try_take() {
                    Err(seen) => Turn::Wait(&semaphore.posts.0, seen),
                    Ok(()) => {
                        self.waiting.arrived = false;
                        Turn::Moved
                    }
                }
            }
            Op::SemaphorePost => self.post(act, stage),
            Op::FinishOnCount | Op::FinishOnBytes => self.finish(act, stage),
            _ => Turn::Moved,
        }
    }

    fn until<'s>(&mut self, due: u64, lane: &Lane<'_>) -> Turn<'s> {
        if lane.now() < due {
            return Turn::Sleep(due);
        }
        self.waiting.due = None;
        self.stale = true;
        Turn::Moved
    }

    fn limit<'s>(&mut self, act: &Act, stage: &'s Stage, lane: &Lane<'_>) -> Turn<'s> {
        let Some(events) = &stage.events else { return Turn::Moved };
        let due = match self.waiting.due {
            Some(due) => due,
            None => {
                let tally = &self.report.tally;
                let bytes = tally.bytes_read + tally.bytes_written;
                let (now, parts) = match (act.op, act.target) {
                    (Op::EventLimit, _) => (self.charged[self.at] + 1, PARTS),
                    (Op::BandwidthLimit, _) => (bytes, 1),
                    (_, Some(target)) => (self.report.count(stage.programs[self.program].acts[target].title), PARTS),
                    (Op::IoLimit, None) => (tally.transfers, PARTS),
                    (_, None) => (tally.operations, PARTS),
                };
                let more = now - std::mem::replace(&mut self.charged[self.at], now);
                *self.waiting.due.insert(events.book(more * parts, lane.now()))
            }
        };
        self.until(due, lane)
    }

    fn post<'s>(&mut self, act: &Act, stage: &'s Stage) -> Turn<'s> {
        let posts = u32::try_from(act.value).unwrap_or(u32::MAX / 4);
        while let Some(&number) = act.targets.get(self.waiting.posted) {
            let semaphore = &stage.semaphores[number];
            if let Err(seen) = semaphore.try_post(posts, act.blocking) {
                return Turn::Wait(&semaphore.room, seen);
            }
            self.waiting.posted += 1;
        }
        self.waiting.posted = 0;
        Turn::Moved
    }

    fn finish<'s>(&mut self, act: &Act, stage: &'s Stage) -> Turn<'s> {
        let [operations, bytes] = stage.shown();
        let tally = &self.report.tally;
        let reached = match (act.op, act.target) {
            (Op::FinishOnCount, Some(target)) => {
                self.report.count(stage.programs[self.program].acts[target].title) >= act.value
            }
            (Op::FinishOnCount, None) => operations >= act.value,
            (_, Some(_)) => tally.bytes_read + tally.bytes_written > act.value,
            (_, None) => bytes > act.value,
        };
        if reached {
            stage.end.finish();
            return Turn::End;
        }
        Turn::Moved
    }
}
