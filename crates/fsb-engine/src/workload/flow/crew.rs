//! The threads of a flow: real ones, or pretended ones on a fake clock.
//!
//! On the fake clock one thread plays all: always the one whose clock is furthest behind has the next turn, and who waits
//! is woken at the time of whoever gave it what it waited for. So semaphores, limits and the order in which files are
//! taken are the same every time.

use std::thread;
use std::time::Duration;

use super::actor::{Actor, Turn};
use super::report::Report;
use super::stage::Stage;
use crate::EngineError;
use crate::clock::{self, Circumstances, Clock, Kind};
use crate::context::Context;
use crate::fileset;
use crate::lane::Lane;
use crate::profile::Profile;
use crate::progress::Live;
use crate::task::{Gate, Ready};
use crate::team::{Crew, Outcome};
use fsb_model::Durability;

/// The threads.
pub(super) struct Cast<'s> {
    pub(super) stage: &'s Stage,
    pub(super) durability: Durability,
}

impl Crew for Cast<'_> {
    type Kit = Actor;
    type Report = Report;

    fn equip(&self, rank: u32) -> Result<Actor, EngineError> {
        Actor::new(self.stage, rank)
    }

    fn work(&self, actor: &mut Actor, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        lane.start();
        let result = self.play(actor, lane);
        // Whatever happened, nobody waits for this thread.
        if result.is_err() {
            self.stage.end.finish();
        }
        result.and(actor.leave(self.stage))
    }

    fn report(&self, actor: Actor) -> Report {
        actor.report
    }

    fn closes(&self) -> bool {
        self.durability == Durability::End
    }

    fn close(&self, _actor: &mut Actor, bytes: u64, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        if let Some(root) = &self.stage.root {
            fileset::sync_through(root, &self.stage.path)?;
        }
        lane.tick(Kind::Sync, bytes);
        Ok(())
    }

    fn live(&self) -> Option<Live> {
        let of = self.stage.tickets.total();
        Some(Live { done: self.stage.tickets.taken(), of: if of == u64::MAX { 0 } else { of } })
    }
}

impl Cast<'_> {
    fn play(&self, actor: &mut Actor, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let stage = self.stage;
        loop {
            match actor.turn(stage, lane)? {
                Turn::Moved => continue,
                Turn::End => return Ok(()),
                Turn::Sleep(due) => stage.end.sleep(due.saturating_sub(lane.now())),
                Turn::Wait(counter, seen) => counter.sleep(seen, Duration::MAX),
                Turn::Yield => thread::yield_now(),
            }
            if lane.failed() || stage.end.is_over() || lane.is_late() {
                return Ok(());
            }
        }
    }

    /// As [`crate::team::run`], on a fake clock.
    pub(super) fn pretend(
        &self,
        context: &Context,
        profile: &Profile,
        ready: Ready,
        gate: &mut dyn Gate,
    ) -> Result<Outcome<Report>, EngineError> {
        let mut outcome = Outcome::new(clock::cost_ns(context.clock));
        let circumstances = Circumstances { cache: profile.cache, durability: profile.durability };
        let failed = std::sync::atomic::AtomicBool::new(false);
        let mut players = Vec::new();
        for rank in 0..profile.threads {
            let clock = Clock::new(context.clock, rank, circumstances);
            let lane = Lane::new(rank, clock, context.until_seconds, &failed, None);
            players.push(Player { actor: Actor::new(self.stage, rank)?, lane, state: State::Plays });
        }
        gate.ready(ready)?;
        players.iter_mut().for_each(|player| player.lane.start());
        let played = self.play_all(&mut players);
        let left: Result<Vec<()>, _> = players.iter_mut().map(|player| player.actor.leave(self.stage)).collect();
        played.and(left.map(drop))?;
        if self.closes() {
            let bytes = players.iter().map(|player| player.lane.bytes()).sum();
            let last = players.iter().map(|player| player.lane.last()).max().unwrap_or(0);
            let Player { actor, lane, .. } = &mut players[0];
            lane.pass_until(last);
            self.close(actor, bytes, lane)?;
        }
        for Player { actor, lane, .. } in players {
            let (span, histogram) = lane.finish();
            outcome.spans.push(span);
            outcome.histogram.add(histogram).expect("histograms of one size add up");
            outcome.reports.push(self.report(actor));
        }
        Ok(outcome.pretend_usage(context.clock))
    }

    fn play_all(&self, players: &mut [Player<'_>]) -> Result<(), EngineError> {
        loop {
            let next = players.iter_mut().filter(|player| player.is_playing()).min_by_key(|player| player.time());
            let Some(player) = next else { break };
            if let State::Sleeps(due) = player.state {
                player.lane.pass_until(due);
            }
            player.state = State::Plays;
            match player.actor.turn(self.stage, &mut player.lane)? {
                Turn::Moved => {
                    // What was done may be what others wait for.
                    let now = player.lane.now();
                    for other in players.iter_mut().filter(|other| other.state == State::Waits) {
                        other.state = State::Plays;
                        other.lane.pass_until(now);
                    }
                }
                Turn::Sleep(due) => player.state = State::Sleeps(due),
                Turn::Wait(..) | Turn::Yield => player.state = State::Waits,
                Turn::End => player.state = State::Ended,
            }
        }
        match players.iter().find(|player| player.state == State::Waits) {
            // Where the time of some is up, so it would be of those who wait for them.
            Some(player) if !self.stage.end.is_over() && !players.iter().any(|other| other.state == State::Ended) => {
                let act = player.actor.current(self.stage);
                if act.op.is_counted() {
                    return Err(player.actor.starved(act, self.stage));
                }
                Err(EngineError::new(format!(
                    "all threads wait for each other: thread {} of {} does so at {}",
                    player.actor.instance + 1,
                    self.stage.programs[player.actor.program].name,
                    act.op.name()
                )))
            }
            _ => Ok(()),
        }
    }
}

struct Player<'l> {
    actor: Actor,
    lane: Lane<'l>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plays,
    Sleeps(u64),
    Waits,
    Ended,
}

impl Player<'_> {
    fn is_playing(&self) -> bool {
        matches!(self.state, State::Plays | State::Sleeps(_))
    }

    /// When its next turn is; of those whose turn is at once, the first one comes first.
    fn time(&self) -> u64 {
        match self.state {
            State::Sleeps(due) => due.max(self.lane.now()),
            _ => self.lane.now(),
        }
    }
}
