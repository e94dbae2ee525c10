//! RWF_NOWAIT: calls that return EAGAIN instead of waiting for a device or a lock.
//!
//! Programs that may not block make such a call first, and hand it to a thread if it is refused.
//! Sessions count the refused calls, and make each again without the flag.

use std::io::{IoSlice, IoSliceMut};

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::direct::trial_length;
use super::session::ProbeFile;
use super::{Capabilities, Completion, IoRequest, ProbeTarget, SessionSetup, Verb};
use crate::data::Memory;
use crate::error::EngineError;

/// The capabilities of a backend with the flag whose calls finish before they return.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    // A part of an appended record would be written at another end.
    appends: false,
    sequential: false,
    ..Capabilities::PLAIN
};

/// Refuses a file system without the flag.
pub(super) fn examine(place: &ProbeTarget<'_>) -> Result<(), EngineError> {
    let mut memory = Memory::new(trial_length(place.record_size));
    let bytes = memory.as_mut();
    let (call, answer) = match place.verb {
        Verb::Read => {
            let trial = ProbeFile::create(place)?;
            let file = trial
                .open(Verb::Read, OFlags::empty())
                .map_err(|error| EngineError::io("open", trial.path(), &error))?;
            let parts = &mut [IoSliceMut::new(bytes)];
            ("read", preadv2(&file, parts, 0, ReadWriteFlags::NOWAIT))
        }
        Verb::Write => {
            let (_trial, file) = ProbeFile::new(place.directory, "trial-write")?;
            let parts = &[IoSlice::new(bytes)];
            ("write", pwritev2(&file, parts, 0, ReadWriteFlags::NOWAIT))
        }
    };
    match answer {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => {
            let refusal =
                EngineError::call(format!("{call} with RWF_NOWAIT in"), place.directory, errno);
            Err(EngineError {
                inapplicable: errno == Errno::OPNOTSUPP,
                ..refusal
            })
        }
    }
}

/// Returns the bytes that a call moved which the kernel refused or cut short. Returns `None` if it
/// is finished, or failed for another reason.
#[inline]
pub(super) fn moved_of_unfinished(
    request: &IoRequest,
    result: Result<usize, Errno>,
) -> Option<usize> {
    match result {
        Err(Errno::AGAIN) => Some(0),
        Ok(moved) if moved < request.length => Some(moved),
        _ => None,
    }
}

/// Returns the rest of a request.
#[inline]
pub(super) fn rest_of(request: &IoRequest, moved: usize) -> IoRequest {
    IoRequest {
        offset: request.offset + moved as u64,
        memory: request.memory.wrapping_add(moved),
        length: request.length - moved,
        ..*request
    }
}

/// The requests in flight of a session that queues them, and whose calls may not wait. Empty for
/// other flags.
#[derive(Debug)]
pub(super) struct RequestsWithoutWaiting {
    /// By tag.
    requests: Vec<Option<InFlight>>,
    would_wait: u64,
}

#[derive(Debug, Clone, Copy)]
enum InFlight {
    /// With the flag.
    First(IoRequest),
    /// Without it, after a call that moved this number of bytes.
    Rest(usize),
}

impl RequestsWithoutWaiting {
    /// Makes room for the requests of a session, if its calls have the flag.
    pub(super) fn new(are_noted: bool, setup: &SessionSetup) -> RequestsWithoutWaiting {
        let places = if are_noted { setup.depth as usize } else { 0 };
        RequestsWithoutWaiting {
            requests: vec![None; places],
            would_wait: 0,
        }
    }

    /// Notes a request that was queued with the flag.
    #[inline]
    pub(super) fn note(&mut self, request: &IoRequest) {
        if let Some(place) = self.requests.get_mut(request.tag as usize) {
            *place = Some(InFlight::First(*request));
        }
    }

    /// Takes completions out of `done`, from the index `next` on, until one is of a request that
    /// the kernel refused or cut short. Returns the rest of that request, which the caller queues
    /// without the flag.
    pub(super) fn next_rest(
        &mut self,
        next: &mut usize,
        done: &mut Vec<Completion>,
    ) -> Option<IoRequest> {
        if self.requests.is_empty() {
            return None;
        }
        while let Some(completion) = done.get_mut(*next) {
            if let Some(rest) = self.take(completion) {
                done.swap_remove(*next);
                return Some(rest);
            }
            *next += 1;
        }
        None
    }

    /// Takes a completion. Returns the rest of its request if the kernel refused it or cut it
    /// short. Otherwise the completion becomes that of the whole request.
    fn take(&mut self, completion: &mut Completion) -> Option<IoRequest> {
        let place = self.requests.get_mut(completion.tag as usize)?;
        match place.take()? {
            InFlight::Rest(moved) => {
                completion.result = completion.result.map(|more| moved + more);
                None
            }
            InFlight::First(request) => {
                let moved = moved_of_unfinished(&request, completion.result)?;
                *place = Some(InFlight::Rest(moved));
                self.would_wait += 1;
                Some(rest_of(&request, moved))
            }
        }
    }

    /// Returns the number of requests that were refused or cut short.
    pub(super) fn would_wait(&self) -> u64 {
        self.would_wait
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::backend::FileSlot;

    #[test]
    fn a_refused_or_short_request_is_made_again_and_counted_once() {
        let setup = SessionSetup {
            depth: 2,
            ..SessionSetup::plain(1)
        };
        let mut requests = RequestsWithoutWaiting::new(true, &setup);
        let request = IoRequest {
            slot: FileSlot(0),
            verb: Verb::Read,
            offset: 4096,
            memory: ptr::null_mut(),
            length: 4096,
            tag: 1,
        };
        let completion = |result| Completion { tag: 1, result };
        for (first, rest, again, whole) in [
            (Err(Errno::AGAIN), Some((4096, 4096)), Ok(4096), Ok(4096)),
            (Ok(1024), Some((5120, 3072)), Ok(3072), Ok(4096)),
            (Ok(1024), Some((5120, 3072)), Ok(0), Ok(1024)),
            (Ok(1024), Some((5120, 3072)), Err(Errno::IO), Err(Errno::IO)),
            (Ok(4096), None, Ok(0), Ok(4096)),
            (Err(Errno::IO), None, Ok(0), Err(Errno::IO)),
        ] {
            let before = requests.would_wait();
            requests.note(&request);
            // An earlier completion is not touched.
            let mut done = vec![completion(Ok(7)), completion(first)];
            let mut next = 1;
            let found = requests.next_rest(&mut next, &mut done);
            assert_eq!(found.map(|rest| (rest.offset, rest.length)), rest);
            if rest.is_some() {
                assert_eq!(done.len(), 1);
                done.push(completion(again));
                assert!(requests.next_rest(&mut next, &mut done).is_none());
            }
            assert_eq!((done[0].result, done[1].result), (Ok(7), whole));
            assert_eq!(requests.would_wait() - before, u64::from(rest.is_some()));
        }
        let mut others = RequestsWithoutWaiting::new(false, &setup);
        others.note(&request);
        let mut done = vec![completion(Ok(1))];
        assert!(others.next_rest(&mut 0, &mut done).is_none() && done.len() == 1);
    }
}
