//! The durability of a flow's writes, as its own steps define it.

use super::{Flow, Op, Thread};

impl Flow {
    /// Returns whether the flow writes, and each write is on the device before its thread closes the file: the write
    /// goes with O_DSYNC, or an fsync follows before the close.
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
