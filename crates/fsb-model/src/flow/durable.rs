//! When what a flow writes is on the device, as its own steps have it.

use super::{Flow, Op, Thread};

impl Flow {
    /// Whether all that is written is on the device before its thread does anything else to it: each write goes with
    /// O_DSYNC, or is followed by an fsync before the file is closed.
    pub fn is_durable_each(&self) -> bool {
        let mut writes = false;
        for thread in &self.threads {
            writes |= thread.steps.iter().any(|step| step.op.writes());
            if !thread.is_durable_each() {
                return false;
            }
        }
        writes
    }
}

impl Thread {
    fn is_durable_each(&self) -> bool {
        self.steps.iter().enumerate().filter(|(_, step)| step.op.writes() && !step.dsync).all(|(index, step)| {
            let rest = &self.steps[index + 1..];
            let dsync = self.steps[..index]
                .iter()
                .rev()
                .find(|open| matches!(open.op, Op::Create | Op::Open) && open.descriptor() == step.descriptor());
            let same = |other: &&super::Step| {
                other.descriptor() == step.descriptor() || (other.op == Op::SyncSet && other.set.is_some())
            };
            let next = rest.iter().filter(same).find(|other| matches!(other.op, Op::Sync | Op::SyncSet | Op::Close));
            dsync.is_some_and(|open| open.dsync) || next.is_some_and(|next| next.op != Op::Close)
        })
    }
}
