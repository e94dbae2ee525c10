//! What a control works with, and what it may change.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::memory_limit::MemoryHold;
use crate::error::TestbedError;
use crate::ledger::{Action, Ledger, Ticket};
use crate::sys::Roots;
use crate::testbed::Progress;

/// Where a target lives, as far as controls act on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The directory of the device below /sys/devices: the loop device of an image, the whole disk of a partition.
    /// Absent where there is none, or none yet.
    pub device: Option<PathBuf>,
    /// Who else uses that device, in words; absent where it is the target's own.
    pub shared_with: Option<String>,
    /// Why there is no device; empty where there is one.
    pub why_none: String,
}

/// How the processes that measure are held: what controls of a visit ask of whoever starts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Held {
    /// What limits the memory that all steps of a trial share, and FUSE servers with them. It does not leave this
    /// process.
    #[serde(skip)]
    pub memory: Option<MemoryHold>,
}

/// What [`Control::set`](super::Control::set) works with.
pub struct Context<'a> {
    /// Where /proc and /sys are.
    pub roots: &'a Roots,
    /// Where undo entries go. [`Context::record`] writes there and remembers the ticket.
    pub ledger: &'a Ledger,
    /// Told of what takes long.
    pub progress: &'a mut dyn FnMut(Progress),
    /// The target's device; empty for [`Scope::Run`](super::Scope::Run).
    pub place: &'a Place,
    /// How workers will be held; of no effect for [`Scope::Run`](super::Scope::Run).
    pub held: &'a mut Held,
    tickets: Vec<Ticket>,
}

impl<'a> Context<'a> {
    /// A context in which nothing was changed yet.
    pub fn new(
        roots: &'a Roots,
        ledger: &'a Ledger,
        progress: &'a mut dyn FnMut(Progress),
        place: &'a Place,
        held: &'a mut Held,
    ) -> Context<'a> {
        Context { roots, ledger, progress, place, held, tickets: Vec::new() }
    }

    /// Writes down how to undo a change, durably. To be called *before* the change.
    pub fn record(&mut self, action: Action) -> Result<(), TestbedError> {
        self.tickets.push(self.ledger.record(action)?);
        Ok(())
    }

    /// Undoes the last change that was recorded, because it could not be made whole.
    pub fn take_back(&mut self) -> Result<(), TestbedError> {
        self.tickets.pop().map_or(Ok(()), |ticket| self.ledger.undo(ticket).map(drop))
    }

    /// How to undo everything, the first change first.
    pub fn into_tickets(self) -> Vec<Ticket> {
        self.tickets
    }
}
