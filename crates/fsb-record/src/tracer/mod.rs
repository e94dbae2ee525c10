//! Follows a program from stop to stop and records its file calls.

mod events;
mod making;
mod outcome;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Child;

use fsb_sys::trace;
use fsb_sys::trace::{CallInfo, Event, Stop, Until, Watch};
use fsb_trace::{CallKind, Header, LOST_UNIT, Resolver, Shared, Times, Totals, Unseen, Writer};

use crate::cost::Cost;
use crate::syscalls::{Act, Seen, seen};
use crate::task::{Pending, Task};
use crate::world::Live;
use crate::{child, memory, processes};

pub use outcome::{RecordError, RecordOutcome};

pub(crate) struct Tracer<W: Write> {
    resolver: Resolver<Live>,
    writer: Writer<W>,
    tasks: HashMap<i32, Task>,
    births: Births,
    /// On the clock of the kernel's events.
    began_ns: u64,
    cost: Cost,
    /// The eBPF watch. With it, most calls do not stop.
    watch: Option<Watch>,
    /// Every call stops, because the process has no filter.
    every: bool,
    /// The program has begun.
    running: bool,
    leader: i32,
    code: Option<i32>,
    counts: Counts,
    /// Kept to reuse its memory.
    events: Vec<Event>,
    /// Count of setuid and setgid programs, which run without those rights.
    without_rights: u64,
}

/// The counts of a recording.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Times that a task was stopped.
    pub(crate) stops: u64,
    /// Nanoseconds from the stops that begin or end a call until the task resumes.
    pub(crate) spent_ns: u64,
}

/// The note on a program with several tasks if wake-ups between them were not recorded.
const NO_WAKES: &str = "wake-ups between threads were not recorded (eBPF records them, as root outside containers): \
    waits for other threads count as think time";

/// A call that a signal interrupted and that begins again; no program ever sees these numbers.
const BEGINS_AGAIN: std::ops::RangeInclusive<i64> = -516..=-512;

impl<W: Write> Tracer<W> {
    pub(crate) fn new(
        root: &Path,
        header: &Header,
        out: W,
        cost: Cost,
        watch: Option<Watch>,
    ) -> Result<Tracer<W>, RecordError> {
        Ok(Tracer {
            resolver: Resolver::new(root.as_os_str().as_bytes(), Live::default()),
            writer: Writer::new(out, header)?,
            tasks: HashMap::new(),
            births: Births::default(),
            began_ns: trace::monotonic_ns(),
            cost,
            watch,
            every: false,
            running: true,
            leader: 0,
            code: None,
            counts: Counts::default(),
            events: Vec::new(),
            without_rights: 0,
        })
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn into_watch(self) -> Option<Watch> {
        self.watch
    }

    fn now(&self) -> u64 {
        self.at(trace::monotonic_ns())
    }

    fn at(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_sub(self.began_ns)
    }

    /// Returns the time that stopping adds before a call, to it, and after it. It is 0 if the header states it for all
    /// calls.
    fn taken_off(&self) -> [u64; 3] {
        match self.watch {
            Some(_) => [self.cost.stop.gap_ns / 2, self.cost.stop.call_ns, self.cost.stop.gap_ns.div_ceil(2)],
            None => [0; 3],
        }
    }

    pub(crate) fn launch(&mut self, words: &[OsString]) -> io::Result<()> {
        let child = child::start(words, self.watch.is_none())?;
        self.running = false;
        self.take(&child)
    }

    /// Traces a child that waits for the tracer.
    pub(crate) fn take(&mut self, child: &Child) -> io::Result<()> {
        self.leader = child.id() as i32;
        trace::seize(self.leader, true)?;
        self.tasks.insert(self.leader, Task::default());
        self.see(self.leader);
        self.adopt(self.leader);
        rustix::process::kill_process(pid(self.leader)?, rustix::process::Signal::CONT)?;
        Ok(())
    }

    /// Registers the working directory and the open files of a process.
    fn adopt(&mut self, process: i32) {
        let directory = processes::directory(process).unwrap_or_else(|| PathBuf::from("/"));
        self.resolver.task(process as u32, directory.as_os_str().as_bytes());
        if processes::has_ring(process) {
            self.resolver.unseen(Unseen::Uring);
        }
        for path in processes::shared_mappings(process) {
            if self.resolver.is_below_root(&path) {
                self.resolver.unseen(Unseen::SharedMapping);
            }
        }
        for file in processes::open_files(process) {
            let opened = (file.flags, file.place);
            // If the trace cannot be written, the next call returns the error.
            let _ = self.resolver.opened_before(process as u32, file.fd, &file.path, opened, &mut self.writer);
        }
    }

    pub(crate) fn attach(&mut self, process: i32) -> Result<(), RecordError> {
        (self.every, self.leader) = (true, process);
        for process in processes::with_children(process) {
            for (at, thread) in processes::threads(process).into_iter().enumerate() {
                match trace::seize(thread, false).and_then(|()| trace::interrupt(thread)) {
                    // It has ended meanwhile. Only the requested process must exist.
                    Err(error) if thread == self.leader => return Err(RecordError::Refused(error)),
                    Err(_) => continue,
                    Ok(()) => {}
                }
                self.tasks.insert(thread, Task::default());
                if at == 0 {
                    self.adopt(process);
                } else {
                    let shared = Shared { files: true, directory: true };
                    let now = self.now();
                    self.resolver.spawn(process as u32, thread as u32, shared, now, &mut self.writer)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn follow(&mut self) -> Result<(), RecordError> {
        while !self.tasks.is_empty() {
            let (task, stop) = match trace::wait() {
                Ok(stopped) => stopped,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.take_events()?;
                    if trace::asked_to_end() && self.every {
                        self.let_go();
                        return Ok(());
                    }
                    // A signal from a terminal reaches the program as well, and the program ends as it likes.
                    continue;
                }
                Err(_) => break,
            };
            let seen_ns = self.now();
            self.counts.stops += 1;
            // The events of a task before its stop are recorded first, and the task waits for that.
            self.take_events()?;
            self.stopped(task, stop, seen_ns)?;
        }
        Ok(())
    }

    fn stopped(&mut self, task: i32, stop: Stop, seen_ns: u64) -> Result<(), RecordError> {
        match stop {
            Stop::Ended { code } => {
                if task == self.leader {
                    self.code = Some(code);
                }
                self.resolver.exit(task as u32, seen_ns, &mut self.writer)?;
                self.tasks.remove(&task);
                self.makes_no_more(task);
                self.see_no_more(task);
                self.take_in_orphans()?;
            }
            Stop::Filtered => self.begins(task, seen_ns)?,
            Stop::Call if self.tasks.get(&task).is_some_and(|task| task.pending.is_some()) => {
                self.ends(task, seen_ns)?;
            }
            Stop::Call if self.every => self.begins(task, seen_ns)?,
            Stop::Call => self.resume(task, false, 0),
            Stop::Made => self.made(task, seen_ns)?,
            Stop::Executed => {
                let before = trace::event_message(task).unwrap_or_default() as i32;
                if before != task && before != 0 {
                    // A thread became the whole process; the others are gone.
                    self.resolver.take_place(before as u32, task as u32, seen_ns, &mut self.writer)?;
                    self.tasks.remove(&before);
                    self.see_no_more(before);
                }
                self.tasks.insert(task, Task::default());
                self.see(task);
                if !self.running {
                    self.running = true;
                    self.began_ns = trace::monotonic_ns();
                }
                self.without_rights += u64::from(processes::lacks_rights(task));
                let now = self.now();
                self.resolver.exec(task as u32, now, &mut self.writer)?;
                self.resume(task, false, 0);
            }
            Stop::Paused { job: true } => drop(trace::resume(task, Until::Continued, 0)),
            Stop::Paused { job: false } => {
                self.begins_to_run(task);
                self.take_in_orphans()?;
            }
            Stop::Signal(signal) => self.resume(task, false, signal),
        }
        Ok(())
    }

    /// Resumes a task, up to the end of its call if requested. A task that was killed meanwhile does not resume.
    fn resume(&self, task: i32, to_end: bool, signal: i32) {
        let until = if to_end || self.every { Until::Call } else { Until::Event };
        let _ = trace::resume(task, until, signal);
    }

    /// Handles the beginning of a call.
    fn begins(&mut self, task: i32, seen_ns: u64) -> Result<(), RecordError> {
        let pending = match trace::call_info(task) {
            Ok(CallInfo::Entry { architecture, .. }) if architecture != trace::HERE => {
                self.resolver.unseen(Unseen::Foreign);
                None
            }
            // Most kernels have no such calls.
            Ok(CallInfo::Entry { number, .. }) if number as u32 & trace::X32 != 0 => {
                Some(Pending::Hides(Unseen::Foreign))
            }
            Ok(CallInfo::Entry { number, arguments, .. }) if self.running => match seen(number, arguments) {
                Some(seen) => self.pending(task, seen)?,
                None => None,
            },
            _ => None,
        };
        let now = self.now();
        let (switches, [before, _, _]) = (self.cost.stop.gap_ns, self.taken_off());
        let state = self.tasks.entry(task).or_default();
        let waits = pending.is_some();
        self.counts.spent_ns += now - seen_ns;
        state.lost_ns += (now - seen_ns) + if waits { before } else { switches };
        (state.pending, state.start_ns) = (pending, now);
        self.resume(task, waits, 0);
        Ok(())
    }

    /// Returns the state that is kept until the end of a call, or `None` if the end does not matter.
    fn pending(&mut self, task: i32, mut seen: Seen) -> Result<Option<Pending>, RecordError> {
        let fd = seen.raw.fd;
        match seen.act {
            Act::File => {}
            Act::ChangeDirectory => {
                let path = seen.path.and_then(|path| memory::text(task, path));
                return Ok(Some(Pending::Directory(fd, path)));
            }
            Act::CloseRange(first, last, flags) => return Ok(Some(Pending::CloseRange(first, last, flags))),
            Act::CloseOnExec(closes) => return Ok(Some(Pending::CloseOnExec(fd, closes))),
            Act::Clone(flags, place) => return Ok(Some(self.makes(task, flags, place))),
            Act::Unshare(flags) => return Ok(Some(Pending::Unshare(flags))),
            Act::Wait => return Ok(Some(Pending::Wait)),
            Act::Hides(what) => return Ok(Some(Pending::Hides(what))),
            Act::Nothing => return Ok(None),
        }
        if let Some([flags, mode]) = seen.how.and_then(|at| memory::numbers::<2>(task, at)) {
            seen.set_open_flags(flags as i32);
            seen.raw.length = mode & 0o7777;
        }
        if let Some((at, count)) = seen.pieces.filter(|_| self.resolver.follows(task as u32, fd)) {
            seen.raw.length = memory::length_of_pieces(task, at, count);
        }
        // A path that cannot be read makes the call fail.
        let text = |address: Option<u64>| match address {
            Some(address) => memory::text(task, address).map(Some),
            None => Some(None),
        };
        let (Some(mut path), Some(second)) = (text(seen.path), text(seen.second)) else { return Ok(None) };
        if seen.empty_path && path.as_ref().is_some_and(Vec::is_empty) {
            path = None;
            seen.raw.kind = match seen.raw.kind {
                CallKind::StatName => CallKind::Stat,
                CallKind::AttributesName => CallKind::Attributes,
                kind => kind,
            };
        }
        if path.as_ref().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let raw = fsb_trace::RawCall { path: path.as_deref(), second: second.as_deref(), ..seen.raw };
        let moves_names = matches!(
            raw.kind,
            CallKind::Rename | CallKind::SymbolicLink | CallKind::RemoveDirectory | CallKind::MakeDirectory
        );
        let begun = self.resolver.begin(task as u32, &raw, &mut self.writer)?;
        Ok(begun.map(|begun| Pending::File { begun, moves_names }))
    }

    /// Handles the end of a call.
    fn ends(&mut self, task: i32, seen_ns: u64) -> Result<(), RecordError> {
        let result = match trace::call_info(task) {
            Ok(CallInfo::Exit { result }) => result,
            // With every call stopping, the filter's stop is followed by one of its own.
            _ => {
                self.resume(task, true, 0);
                return Ok(());
            }
        };
        let [_, within, after] = self.taken_off();
        let state = self.tasks.entry(task).or_default();
        let (pending, lost) = (state.pending.take(), state.lost_ns);
        let took_ns = seen_ns.saturating_sub(state.start_ns).saturating_sub(within);
        let times = Times { start_ns: state.start_ns, took_ns, lost_ns: lost / LOST_UNIT * LOST_UNIT };
        let id = task as u32;
        let mut written = false;
        match pending {
            Some(Pending::Make(making)) => {
                self.has_made(task, &making, result);
                self.take_in_orphans()?;
            }
            _ if BEGINS_AGAIN.contains(&result) => {}
            Some(Pending::File { begun, moves_names }) => {
                written = true;
                self.resolver.end(id, begun, result, times, &mut self.writer)?;
                if moves_names {
                    self.resolver.world().forget();
                }
            }
            Some(Pending::Wait) if result > 0 => {
                written = true;
                self.resolver.wait(id, result as u32, times, &mut self.writer)?;
            }
            Some(Pending::Directory(fd, path)) if result >= 0 => {
                self.resolver.change_directory(id, fd, path.as_deref());
            }
            Some(Pending::CloseRange(first, last, flags)) if result >= 0 => {
                let at_exec = flags & libc::CLOSE_RANGE_CLOEXEC != 0;
                if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
                    self.resolver.unshare(id, Shared { files: true, directory: false });
                }
                self.resolver.close_range(id, (first, last), at_exec, seen_ns, &mut self.writer)?;
            }
            Some(Pending::CloseOnExec(fd, closes)) if result >= 0 => self.resolver.close_on_exec(id, fd, closes),
            Some(Pending::Unshare(flags)) if result >= 0 => {
                // A mount or user namespace brings a working directory of one's own.
                let directory = libc::CLONE_FS | libc::CLONE_NEWNS | libc::CLONE_NEWUSER;
                let has = |some: libc::c_int| flags & some as u64 != 0;
                self.resolver.unshare(id, Shared { files: has(libc::CLONE_FILES), directory: has(directory) });
            }
            Some(Pending::Hides(what)) if result >= 0 => self.resolver.unseen(what),
            _ => {}
        }
        let spent = self.now() - seen_ns;
        self.counts.spent_ns += spent;
        let switches = self.cost.stop.gap_ns + self.cost.stop.call_ns;
        let state = self.tasks.entry(task).or_default();
        state.lost_ns = if written { spent + within + after } else { state.lost_ns + spent + switches };
        self.resume(task, false, 0);
        Ok(())
    }

    /// Lets all tasks continue without the tracer.
    fn let_go(&mut self) {
        let tasks: Vec<i32> = self.tasks.keys().copied().collect();
        let mut left: HashSet<i32> = tasks.into_iter().filter(|task| trace::interrupt(*task).is_ok()).collect();
        while !left.is_empty() {
            let Ok((task, stop)) = trace::wait() else { break };
            match stop {
                Stop::Ended { .. } => drop(left.remove(&task)),
                Stop::Signal(signal) => {
                    let _ = trace::resume(task, Until::Free, signal);
                    left.remove(&task);
                }
                _ => {
                    let _ = trace::resume(task, Until::Free, 0);
                    left.remove(&task);
                }
            }
        }
    }

    pub(crate) fn finish(mut self) -> Result<RecordOutcome, RecordError> {
        self.take_events()?;
        if self.watch.as_ref().is_some_and(|watch| watch.lost() > 0) {
            self.resolver.unseen(Unseen::Lost);
        }
        let seconds = self.now() as f64 * 1e-9;
        let is_root_used = self.resolver.is_root_used();
        let used_outside = self.resolver.used_outside().map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let (incomplete, mut notes) = self.resolver.finish(&mut self.writer)?;
        if self.resolver.tasks() > 1 && !self.watch.as_ref().is_some_and(Watch::sees_wakes) {
            notes.push(NO_WAKES.to_owned());
        }
        if self.without_rights > 0 {
            let times =
                if self.without_rights == 1 { "once".to_owned() } else { format!("{} times", self.without_rights) };
            notes.push(format!(
                "a setuid or setgid program ran {times} without its privileges: a recorded program gains none"
            ));
        }
        let known = Totals {
            tasks: self.resolver.tasks(),
            outside: self.resolver.outside(),
            incomplete,
            notes,
            recording_seconds: seconds,
            ..Totals::default()
        };
        let (_, totals, bytes) = self.writer.finish(known)?;
        let by_ebpf = self.watch.is_some();
        Ok(RecordOutcome {
            code: self.code,
            is_root_used,
            used_outside,
            begun: self.running,
            totals,
            bytes,
            overhead: self.cost.stop,
            by_ebpf,
            stops: self.counts.stops,
            seconds,
        })
    }
}

fn pid(task: i32) -> io::Result<rustix::process::Pid> {
    rustix::process::Pid::from_raw(task).ok_or_else(|| io::Error::other("no process has this process id"))
}

/// New tasks whose makers were not reported yet, and tasks within a call that makes one.
#[derive(Debug, Default)]
pub(crate) struct Births {
    /// New tasks that stopped before the kernel reported their makers' calls.
    early: HashSet<i32>,
    /// Tasks within a call that makes one.
    makers: HashSet<i32>,
}
