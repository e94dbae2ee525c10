//! New tasks: each is registered before it runs.

use std::fs;
use std::io::{self, Write};

use fsb_sys::trace;
use fsb_trace::{Shared, Unseen};

use super::{RecordError, Tracer};
use crate::processes;
use crate::task::{Making, Pending, Task};

impl<W: Write> Tracer<W> {
    /// Handles the entry of a call that makes a task.
    pub(super) fn makes(&mut self, task: i32, flags: u64, place: Option<u64>) -> Pending {
        self.births.makers.insert(task);
        Pending::Make(Making::begin(task, flags, place))
    }

    /// Registers the task that this one has made.
    pub(super) fn made(&mut self, task: i32, seen_ns: u64) -> Result<(), RecordError> {
        self.births.makers.remove(&task);
        let child = trace::event_message(task).unwrap_or_default() as i32;
        let making = match self.tasks.get_mut(&task).and_then(|task| task.pending.as_mut()) {
            Some(Pending::Make(making)) => {
                making.seen = true;
                Some(*making)
            }
            _ => None,
        };
        making.iter().for_each(|making| making.put_back(task));
        let has = |flag| making.is_some_and(|making| making.has(flag));
        if self.watch.is_some() && !has(libc::CLONE_THREAD) && is_in_other_namespace(child) {
            self.resolver.unseen(Unseen::Namespace);
        }
        let shared = Shared { files: has(libc::CLONE_FILES), directory: has(libc::CLONE_FS) };
        self.resolver.spawn(task as u32, child as u32, shared, seen_ns, &mut self.writer)?;
        self.see(child);
        self.tasks.insert(child, Task { born: making, ..Task::default() });
        if self.births.early.remove(&child) {
            self.begins_to_run(child);
        }
        self.resume(task, making.is_some(), 0);
        Ok(())
    }

    /// Resumes a task after a stop that every new task begins with. A task that is not registered yet waits for its
    /// maker's event.
    pub(super) fn begins_to_run(&mut self, task: i32) {
        let Some(state) = self.tasks.get_mut(&task) else {
            self.births.early.insert(task);
            return;
        };
        if let Some(making) = state.born.take() {
            making.put_back(task);
        }
        self.resume(task, false, 0);
    }

    /// Handles the exit of a call that makes a task.
    pub(super) fn has_made(&mut self, task: i32, making: &Making, result: i64) {
        self.births.makers.remove(&task);
        if making.seen {
            return;
        }
        making.put_back(task);
        if result > 0 {
            // Another thread has set CLONE_UNTRACED again after it was cleared.
            self.resolver.unseen(Unseen::Untraced);
        }
    }

    /// Forgets a maker that has ended. The kernel reports no task that it made at that moment.
    pub(super) fn makes_no_more(&mut self, task: i32) {
        self.births.makers.remove(&task);
    }

    /// Registers new tasks whose makers were killed within the call, so that the kernel will never report them.
    pub(super) fn take_in_orphans(&mut self) -> Result<(), RecordError> {
        if self.births.early.is_empty() || !self.births.makers.is_empty() {
            return Ok(());
        }
        for task in std::mem::take(&mut self.births.early) {
            let process = processes::process_of(task).filter(|process| self.tasks.contains_key(process));
            match process.filter(|process| *process != task) {
                Some(process) => {
                    let (shared, now) = (Shared { files: true, directory: true }, self.now());
                    self.resolver.spawn(process as u32, task as u32, shared, now, &mut self.writer)?;
                }
                None => self.adopt(task),
            }
            self.see(task);
            self.tasks.insert(task, Task::default());
            self.begins_to_run(task);
        }
        Ok(())
    }
}

/// Returns whether the task is in another PID namespace, where eBPF knows it by another number.
fn is_in_other_namespace(task: i32) -> bool {
    match (fs::read_link(format!("/proc/{task}/ns/pid")), fs::read_link("/proc/self/ns/pid")) {
        (Ok(its), Ok(ours)) => its != ours,
        // NotFound: it was killed in between.
        (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
        _ => true,
    }
}
