//! RWF_NOWAIT: calls that return EAGAIN instead of waiting for a device or a lock.
//!
//! Programs that may not block make such a call first, and hand it to a thread if it is refused.
//! This backend counts the refused calls, and makes each again without the flag.

use std::io::{IoSlice, IoSliceMut};

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::direct::trial_length;
use super::session::ProbeFile;
use super::vectored::CallFlags;
use super::{Backend, Capabilities, Direct, ProbeTarget, Session, SessionSetup, Verb, vectored};
use crate::data::Memory;
use crate::error::EngineError;

/// The member.
#[derive(Debug)]
pub(crate) struct Nowait;

impl Backend for Nowait {
    fn name(&self) -> &'static str {
        "nowait"
    }

    fn about(&self) -> &'static str {
        "preadv2 and pwritev2 with RWF_NOWAIT through the page cache; calls that would wait are counted and made again without it"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // A part of an appended record would be written at another end.
            appends: false,
            sequential: false,
            ..Capabilities::PLAIN
        }
    }

    /// Refuses a file system without the flag.
    fn examine(&self, place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
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
            Ok(_) | Err(Errno::AGAIN) => Ok(None),
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

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        let calls = CallFlags::both(ReadWriteFlags::NOWAIT);
        vectored::open_session(OFlags::empty(), setup, calls)
    }
}
