//! Events that eBPF records: calls that do not stop, and tasks that wake others.

use std::io::Write;

use fsb_sys::trace::{Ended, Event, Woken};
use fsb_trace::{LOST_UNIT, Times, Unseen};

use super::{BEGINS_AGAIN, RecordError, Tracer};
use crate::syscalls::seen;

impl<W: Write> Tracer<W> {
    /// Watches the calls of this task that need no stop.
    pub(super) fn see(&mut self, task: i32) {
        if let Some(watch) = &mut self.watch
            && watch.add(task).is_err()
        {
            self.resolver.unseen(Unseen::Lost);
        }
    }

    /// Stops watching a task that has ended or changed its number.
    pub(super) fn see_no_more(&mut self, task: i32) {
        if let Some(watch) = &mut self.watch {
            watch.remove(task);
        }
    }

    /// Records the events that the kernel has seen meanwhile.
    pub(super) fn take_events(&mut self) -> Result<(), RecordError> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let mut events = std::mem::take(&mut self.events);
        watch.drain(|event| events.push(event));
        for event in events.drain(..) {
            self.happened(&event)?;
        }
        self.events = events;
        Ok(())
    }

    fn happened(&mut self, event: &Event) -> Result<(), RecordError> {
        match event {
            _ if !self.running => Ok(()),
            Event::Ended(ended) => self.ended(ended),
            Event::Woken(woken) => self.woken(woken),
        }
    }

    /// Records that a task was woken. Its wait is recorded when its call ends. A wake-up by a call of the trace is left
    /// out, because files and names already order the two.
    fn woken(&mut self, woken: &Woken) -> Result<(), RecordError> {
        let Woken { task, by, at_ns, number, arguments } = woken;
        let in_trace = |fd| self.resolver.follows(*by as u32, fd);
        if seen(*number, *arguments).is_some_and(|seen| in_trace(seen.raw.fd)) {
            return Ok(());
        }
        let (start_ns, event_ns) = (self.at(*at_ns), self.cost.event_ns);
        // Until the wait is over the other one may have ended.
        let Some(lane) = self.resolver.lane(*by as u32) else { return Ok(()) };
        let Some(waiter) = self.tasks.get_mut(task) else { return Ok(()) };
        waiter.woken = Some((lane, start_ns));
        let Some(waker) = self.tasks.get_mut(by) else { return Ok(()) };
        let lost = std::mem::replace(&mut waker.lost_ns, event_ns);
        let times = Times { start_ns, took_ns: 0, lost_ns: lost / LOST_UNIT * LOST_UNIT };
        Ok(self.resolver.wake(*by as u32, *task as u32, times, &mut self.writer)?)
    }

    /// Records the end of a call that did not stop.
    fn ended(&mut self, call: &Ended) -> Result<(), RecordError> {
        if BEGINS_AGAIN.contains(&call.result) {
            return Ok(());
        }
        let id = call.task as u32;
        let begun = match seen(call.number, call.arguments) {
            Some(seen) => self.resolver.begin(id, &seen.raw, &mut self.writer)?,
            None => None,
        };
        let (start_ns, event_ns) = (self.at(call.start_ns), self.cost.event_ns);
        let state = self.tasks.entry(call.task).or_default();
        let lost_ns = state.lost_ns / LOST_UNIT * LOST_UNIT;
        let times = Times { start_ns, took_ns: call.end_ns.saturating_sub(call.start_ns), lost_ns };
        let woken = state.woken.take().filter(|(_, at_ns)| *at_ns >= start_ns);
        match (begun, woken) {
            (Some(begun), _) => {
                state.lost_ns = event_ns;
                self.resolver.end(id, begun, call.result, times, &mut self.writer)?;
            }
            (None, Some((by, at_ns))) => {
                state.lost_ns = event_ns;
                self.resolver.woken(id, (by, at_ns - start_ns), times, &mut self.writer)?;
            }
            (None, None) => state.lost_ns += event_ns,
        }
        Ok(())
    }
}
