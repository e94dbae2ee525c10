//! Moves one item after the other through one loop: the common part of create and fallocate.

use fsb_model::Durability;

use super::spec::Spec;
use crate::EngineError;
use crate::backend::Purpose;
use crate::clock::OperationKind;
use crate::context::Context;
use crate::io_loop::{IoLoop, OpenFileSet};
use crate::order::Visits;
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// Threads that call `act` for each of their items, and flush everything at the end if the durability requires it.
pub(super) struct ItemThreads<'s, F> {
    pub(super) spec: &'s Spec,
    pub(super) set: &'s OpenFileSet,
    pub(super) context: &'s Context,
    pub(super) purpose: Purpose,
    /// Does an item, and returns the bytes that it wrote.
    pub(super) act: F,
}

impl<'s, F> ThreadJob for ItemThreads<'s, F>
where
    F: Fn(&mut IoLoop<'s>, u64) -> Result<u64, EngineError> + Sync,
{
    type ThreadState = (IoLoop<'s>, Visits);
    type Report = ();

    fn init(&self, rank: u32) -> Result<Self::ThreadState, EngineError> {
        let io = IoLoop::new(self.set, self.spec.io_options(self.purpose, rank))?;
        Ok((io, self.spec.visits(self.context, rank)))
    }

    fn run(&self, (io, visits): &mut Self::ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        recorder.start();
        for item in visits {
            let bytes = (self.act)(io, item)?;
            if !recorder.lap(OperationKind::Create, bytes) {
                break;
            }
        }
        io.close_current()
    }

    fn report(&self, _state: Self::ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.spec.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        (io, _): &mut Self::ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        recorder.sync(bytes, || io.flush_all())
    }
}
