//! Events between tasks: they create each other, run programs, wait, wake and end.

use super::{Resolver, Shared, Sink, Times, World};
use crate::TraceError;
use crate::call::{Call, CallKind};

impl<W: World> Resolver<W> {
    /// Adds a task that another one creates.
    pub fn spawn(
        &mut self,
        task: u32,
        child: u32,
        shared: Shared,
        now: u64,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let (lane, other) = self.tables.spawn(task, child, shared);
        sink.call(&Call { lane, other, start_ns: now, ..Call::new(CallKind::Spawn) })
    }

    /// Handles a task that runs another program.
    pub fn exec(&mut self, task: u32, now: u64, sink: &mut impl Sink) -> Result<(), TraceError> {
        for held in self.tables.exec(task) {
            self.let_go(task, &held, now, sink)?;
        }
        Ok(())
    }

    /// Gives a task its own copies of descriptors or working directory.
    pub fn unshare(&mut self, task: u32, own: Shared) {
        self.tables.unshare(task, own);
    }

    /// Handles exec by a thread that is not the leader: it takes the process's number and keeps its own descriptors.
    pub fn take_place(&mut self, thread: u32, process: u32, now: u64, sink: &mut impl Sink) -> Result<(), TraceError> {
        self.tables.exchange(thread, process);
        self.exit(thread, now, sink)
    }

    /// Handles the end of a task.
    pub fn exit(&mut self, task: u32, now: u64, sink: &mut impl Sink) -> Result<(), TraceError> {
        if !self.tables.knows(task) {
            return Ok(());
        }
        for held in self.tables.let_all_go(task) {
            self.let_go(task, &held, now, sink)?;
        }
        let lane = self.tables.exit(task);
        sink.call(&Call { lane, start_ns: now, ..Call::new(CallKind::Exit) })
    }

    /// Adds the wait of a task until another one had ended.
    pub fn wait(&mut self, task: u32, ended: u32, times: Times, sink: &mut impl Sink) -> Result<(), TraceError> {
        let Some(other) = self.tables.ended(ended) else { return Ok(()) };
        let lane = self.tables.lane(task);
        let Times { start_ns, took_ns, lost_ns } = times;
        sink.call(&Call { lane, other, start_ns, took_ns, lost_ns, ..Call::new(CallKind::Wait) })
    }

    /// Adds the wake-up of a task by another one.
    pub fn wake(&mut self, task: u32, other: u32, times: Times, sink: &mut impl Sink) -> Result<(), TraceError> {
        let (Some(lane), Some(other)) = (self.lane(task), self.lane(other)) else { return Ok(()) };
        let Times { start_ns, took_ns, lost_ns } = times;
        sink.call(&Call { lane, other, start_ns, took_ns, lost_ns, ..Call::new(CallKind::Wake) })
    }

    /// Returns the lane of a task, or `None` if the task is unknown.
    pub fn lane(&mut self, task: u32) -> Option<u32> {
        self.tables.knows(task).then(|| self.tables.lane(task))
    }

    /// Adds a wait that a task of that lane ended, some nanoseconds after it began.
    pub fn woken(
        &mut self,
        task: u32,
        (other, after_ns): (u32, u64),
        times: Times,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let Some(lane) = self.lane(task) else { return Ok(()) };
        let Times { start_ns, took_ns, lost_ns } = times;
        sink.call(&Call { lane, other, start_ns, took_ns, lost_ns, offset: after_ns, ..Call::new(CallKind::Woken) })
    }

    /// Sets the working directory of a task.
    pub fn change_directory(&mut self, task: u32, fd: i32, path: Option<&[u8]>) {
        if let Some(path) = self.path_of(task, fd, path, true) {
            self.tables.change_directory(task, path);
        }
    }
}
