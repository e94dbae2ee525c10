//! Follows a program from stop to stop and records its file calls.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::{
    Begun, CallKind, Header, LOST_UNIT, Overhead, Remarks, Resolver, Shared, Times, Totals,
    TraceError, TraceNote, Unseen, Writer,
};
use fsb_sys::trace::{self, CallInfo, Ended, Event, Stop, Until, Watch, Woken};

use super::child;
use super::inspect::{self, Live};
use super::syscalls::{Act, Seen, seen};

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

    /// Returns the time that stopping adds before a call, to it, and after it. It is 0 if the
    /// header states it for all calls.
    fn taken_off(&self) -> [u64; 3] {
        match self.watch {
            Some(_) => [
                self.cost.stop.gap_ns / 2,
                self.cost.stop.call_ns,
                self.cost.stop.gap_ns.div_ceil(2),
            ],
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
        let directory = inspect::directory(process).unwrap_or_else(|| PathBuf::from("/"));
        self.resolver
            .task(process as u32, directory.as_os_str().as_bytes());
        if inspect::has_ring(process) {
            self.resolver.unseen(Unseen::Uring);
        }
        for path in inspect::shared_mappings(process) {
            if self.resolver.is_below_root(&path) {
                self.resolver.unseen_in(Unseen::SharedMapping, &path);
            }
        }
        for file in inspect::open_files(process) {
            let opened = (file.flags, file.place);
            // If the trace cannot be written, the next call returns the error.
            let _ = self.resolver.opened_before(
                process as u32,
                file.fd,
                &file.path,
                opened,
                &mut self.writer,
            );
        }
    }

    pub(crate) fn attach(&mut self, process: i32) -> Result<(), RecordError> {
        (self.every, self.leader) = (true, process);
        for process in inspect::with_children(process) {
            for (at, thread) in inspect::threads(process).into_iter().enumerate() {
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
                    let shared = Shared {
                        files: true,
                        directory: true,
                    };
                    let now = self.now();
                    self.resolver.spawn(
                        process as u32,
                        thread as u32,
                        shared,
                        now,
                        &mut self.writer,
                    )?;
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
                    // A signal from a terminal reaches the program as well, and the program ends as
                    // it likes.
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
            Stop::Call
                if self
                    .tasks
                    .get(&task)
                    .is_some_and(|task| task.pending.is_some()) =>
            {
                self.ends(task, seen_ns)?;
            }
            Stop::Call if self.every => self.begins(task, seen_ns)?,
            Stop::Call => self.resume(task, false, 0),
            Stop::Made => self.made(task, seen_ns)?,
            Stop::Executed => {
                let before = trace::event_message(task).unwrap_or_default() as i32;
                if before != task && before != 0 {
                    // A thread became the whole process; the others are gone.
                    self.resolver.take_place(
                        before as u32,
                        task as u32,
                        seen_ns,
                        &mut self.writer,
                    )?;
                    self.tasks.remove(&before);
                    self.see_no_more(before);
                }
                self.tasks.insert(task, Task::default());
                self.see(task);
                if !self.running {
                    self.running = true;
                    self.began_ns = trace::monotonic_ns();
                }
                self.without_rights += u64::from(inspect::lacks_rights(task));
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

    /// Resumes a task, up to the end of its call if requested. A task that was killed meanwhile
    /// does not resume.
    fn resume(&self, task: i32, to_end: bool, signal: i32) {
        let until = if to_end || self.every {
            Until::Call
        } else {
            Until::Event
        };
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
            Ok(CallInfo::Entry {
                number, arguments, ..
            }) if self.running => match seen(number, arguments) {
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

    /// Returns the state that is kept until the end of a call, or `None` if the end does not
    /// matter.
    fn pending(&mut self, task: i32, seen: Seen) -> Result<Option<Pending>, RecordError> {
        let fd = seen.raw.fd;
        Ok(Some(match seen.act {
            Act::File if seen.raw.kind == CallKind::Copy => {
                return self.pending_copies(task, &seen);
            }
            Act::File => return self.pending_call(task, seen),
            Act::ChangeDirectory => {
                Pending::Directory(fd, seen.path.and_then(|path| inspect::text(task, path)))
            }
            Act::CloseRange(first, last, flags) => Pending::CloseRange(first, last, flags),
            Act::CloseOnExec(closes) => Pending::CloseOnExec(fd, closes),
            Act::Clone(flags, place) => self.makes(task, flags, place),
            Act::Unshare(flags) => Pending::Unshare(flags),
            Act::Wait => Pending::Wait,
            Act::Hides(what) => Pending::Hides(what),
            Act::Nothing => return Ok(None),
        }))
    }

    /// Returns the state of a call that moves data between descriptors.
    fn pending_copies(&mut self, task: i32, seen: &Seen) -> Result<Option<Pending>, RecordError> {
        let mut begun = Vec::new();
        for raw in inspect::copies(task, seen) {
            begun.extend(self.resolver.begin(task as u32, &raw, &mut self.writer)?);
        }
        Ok((!begun.is_empty()).then_some(Pending::File {
            begun,
            moves_names: false,
        }))
    }

    /// Returns the state of any other call on files.
    fn pending_call(&mut self, task: i32, mut seen: Seen) -> Result<Option<Pending>, RecordError> {
        let fd = seen.raw.fd;
        if let Some([flags, mode]) = seen.how.and_then(|at| inspect::numbers::<2>(task, at)) {
            seen.set_open_flags(flags as i32);
            seen.raw.length = mode & 0o7777;
        }
        if let Some((at, count)) = seen
            .pieces
            .filter(|_| self.resolver.follows(task as u32, fd))
        {
            seen.raw.length = inspect::length_of_pieces(task, at, count);
        }
        // A path that cannot be read makes the call fail.
        let text = |address: Option<u64>| match address {
            Some(address) => inspect::text(task, address).map(Some),
            None => Some(None),
        };
        let (Some(mut path), Some(second)) = (text(seen.path), text(seen.second)) else {
            return Ok(None);
        };
        if seen.empty_path && path.as_ref().is_some_and(Vec::is_empty) {
            path = None;
            seen.raw.kind = match seen.raw.kind {
                CallKind::StatName => CallKind::Stat,
                CallKind::AttributesName => CallKind::Attributes,
                kind => kind,
            };
        }
        // linkat with AT_EMPTY_PATH names an open file, most often one without a name.
        if path.as_ref().is_some_and(Vec::is_empty) && seen.raw.kind != CallKind::Link {
            return Ok(None);
        }
        let raw = crate::RawCall {
            path: path.as_deref(),
            second: second.as_deref(),
            ..seen.raw
        };
        let moves_names = matches!(
            raw.kind,
            CallKind::Rename
                | CallKind::SymbolicLink
                | CallKind::RemoveDirectory
                | CallKind::MakeDirectory
        );
        let begun = self.resolver.begin(task as u32, &raw, &mut self.writer)?;
        Ok(begun.map(|begun| Pending::File {
            begun: vec![begun],
            moves_names,
        }))
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
        let took_ns = seen_ns
            .saturating_sub(state.start_ns)
            .saturating_sub(within);
        let times = Times {
            start_ns: state.start_ns,
            took_ns,
            lost_ns: lost / LOST_UNIT * LOST_UNIT,
        };
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
                let mut times = times;
                for begun in begun {
                    self.resolver
                        .end(id, begun, result, times, &mut self.writer)?;
                    // The first one has the time of all.
                    times = Times {
                        start_ns: seen_ns,
                        ..Times::default()
                    };
                }
                if moves_names {
                    self.resolver.world().forget();
                }
            }
            Some(Pending::Wait) if result > 0 => {
                written = true;
                self.resolver
                    .wait(id, result as u32, times, &mut self.writer)?;
            }
            Some(Pending::Directory(fd, path)) if result >= 0 => {
                self.resolver.change_directory(id, fd, path.as_deref());
            }
            Some(Pending::CloseRange(first, last, flags)) if result >= 0 => {
                let at_exec = flags & libc::CLOSE_RANGE_CLOEXEC != 0;
                if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
                    self.resolver.unshare(
                        id,
                        Shared {
                            files: true,
                            directory: false,
                        },
                    );
                }
                self.resolver
                    .close_range(id, (first, last), at_exec, seen_ns, &mut self.writer)?;
            }
            Some(Pending::CloseOnExec(fd, closes)) if result >= 0 => {
                self.resolver.close_on_exec(id, fd, closes)
            }
            Some(Pending::Unshare(flags)) if result >= 0 => {
                // A mount or user namespace brings a working directory of one's own.
                let directory = libc::CLONE_FS | libc::CLONE_NEWNS | libc::CLONE_NEWUSER;
                let has = |some: libc::c_int| flags & some as u64 != 0;
                self.resolver.unshare(
                    id,
                    Shared {
                        files: has(libc::CLONE_FILES),
                        directory: has(directory),
                    },
                );
            }
            Some(Pending::Hides(what)) if result >= 0 => self.resolver.unseen(what),
            _ => {}
        }
        let spent = self.now() - seen_ns;
        self.counts.spent_ns += spent;
        let switches = self.cost.stop.gap_ns + self.cost.stop.call_ns;
        let state = self.tasks.entry(task).or_default();
        state.lost_ns = if written {
            spent + within + after
        } else {
            state.lost_ns + spent + switches
        };
        self.resume(task, false, 0);
        Ok(())
    }

    /// Lets all tasks continue without the tracer.
    fn let_go(&mut self) {
        let tasks: Vec<i32> = self.tasks.keys().copied().collect();
        let mut left: HashSet<i32> = tasks
            .into_iter()
            .filter(|task| trace::interrupt(*task).is_ok())
            .collect();
        while !left.is_empty() {
            let Ok((task, stop)) = trace::wait() else {
                break;
            };
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
        let used_outside = self
            .resolver
            .used_outside()
            .map(|path| PathBuf::from(OsStr::from_bytes(path)));
        let Remarks {
            incomplete,
            mut notes,
        } = self.resolver.finish(&mut self.writer)?;
        if self.resolver.tasks() > 1 && !self.watch.as_ref().is_some_and(Watch::sees_wakes) {
            notes.push(TraceNote::WakesUnseen.into());
        }
        if self.without_rights > 0 {
            notes.push(
                TraceNote::WithoutPrivileges {
                    times: self.without_rights,
                }
                .into(),
            );
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
    rustix::process::Pid::from_raw(task)
        .ok_or_else(|| io::Error::other("no process has this process id"))
}

/// New tasks whose makers were not reported yet, and tasks within a call that makes one.
#[derive(Debug, Default)]
struct Births {
    /// New tasks that stopped before the kernel reported their makers' calls.
    early: HashSet<i32>,
    /// Tasks within a call that makes one.
    makers: HashSet<i32>,
}

impl<W: Write> Tracer<W> {
    /// Handles the entry of a call that makes a task.
    fn makes(&mut self, task: i32, flags: u64, place: Option<u64>) -> Pending {
        self.births.makers.insert(task);
        Pending::Make(Making::begin(task, flags, place))
    }

    /// Registers the task that this one has made.
    fn made(&mut self, task: i32, seen_ns: u64) -> Result<(), RecordError> {
        self.births.makers.remove(&task);
        let child = trace::event_message(task).unwrap_or_default() as i32;
        let making = match self
            .tasks
            .get_mut(&task)
            .and_then(|task| task.pending.as_mut())
        {
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
        let shared = Shared {
            files: has(libc::CLONE_FILES),
            directory: has(libc::CLONE_FS),
        };
        self.resolver
            .spawn(task as u32, child as u32, shared, seen_ns, &mut self.writer)?;
        self.see(child);
        self.tasks.insert(
            child,
            Task {
                born: making,
                ..Task::default()
            },
        );
        if self.births.early.remove(&child) {
            self.begins_to_run(child);
        }
        self.resume(task, making.is_some(), 0);
        Ok(())
    }

    /// Resumes a task after a stop that every new task begins with. A task that is not registered
    /// yet waits for its maker's event.
    fn begins_to_run(&mut self, task: i32) {
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
    fn has_made(&mut self, task: i32, making: &Making, result: i64) {
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
    fn makes_no_more(&mut self, task: i32) {
        self.births.makers.remove(&task);
    }

    /// Registers new tasks whose makers were killed within the call, so that the kernel will never
    /// report them.
    fn take_in_orphans(&mut self) -> Result<(), RecordError> {
        if self.births.early.is_empty() || !self.births.makers.is_empty() {
            return Ok(());
        }
        for task in std::mem::take(&mut self.births.early) {
            let process =
                inspect::process_of(task).filter(|process| self.tasks.contains_key(process));
            match process.filter(|process| *process != task) {
                Some(process) => {
                    let (shared, now) = (
                        Shared {
                            files: true,
                            directory: true,
                        },
                        self.now(),
                    );
                    self.resolver.spawn(
                        process as u32,
                        task as u32,
                        shared,
                        now,
                        &mut self.writer,
                    )?;
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
    match (
        fs::read_link(format!("/proc/{task}/ns/pid")),
        fs::read_link("/proc/self/ns/pid"),
    ) {
        (Ok(its), Ok(ours)) => its != ours,
        // NotFound: it was killed in between.
        (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
        _ => true,
    }
}

impl<W: Write> Tracer<W> {
    /// Watches the calls of this task that need no stop.
    fn see(&mut self, task: i32) {
        if let Some(watch) = &mut self.watch
            && watch.add(task).is_err()
        {
            self.resolver.unseen(Unseen::Lost);
        }
    }

    /// Stops watching a task that has ended or changed its number.
    fn see_no_more(&mut self, task: i32) {
        if let Some(watch) = &mut self.watch {
            watch.remove(task);
        }
    }

    /// Records the events that the kernel has seen meanwhile.
    fn take_events(&mut self) -> Result<(), RecordError> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
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

    /// Records that a task was woken. Its wait is recorded when its call ends. A wake-up by a call
    /// of the trace is left out, because files and names already order the two.
    fn woken(&mut self, woken: &Woken) -> Result<(), RecordError> {
        let Woken {
            task,
            by,
            at_ns,
            number,
            arguments,
        } = woken;
        if seen(*number, *arguments)
            .is_some_and(|seen| self.resolver.follows(*by as u32, seen.raw.fd))
        {
            return Ok(());
        }
        let (start_ns, event_ns) = (self.at(*at_ns), self.cost.event_ns);
        // Until the wait is over the other one may have ended.
        let Some(lane) = self.resolver.lane(*by as u32) else {
            return Ok(());
        };
        let Some(waiter) = self.tasks.get_mut(task) else {
            return Ok(());
        };
        waiter.woken = Some((lane, start_ns));
        let Some(waker) = self.tasks.get_mut(by) else {
            return Ok(());
        };
        let lost = std::mem::replace(&mut waker.lost_ns, event_ns);
        let times = Times {
            start_ns,
            took_ns: 0,
            lost_ns: lost / LOST_UNIT * LOST_UNIT,
        };
        Ok(self
            .resolver
            .wake(*by as u32, *task as u32, times, &mut self.writer)?)
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
        let times = Times {
            start_ns,
            took_ns: call.end_ns.saturating_sub(call.start_ns),
            lost_ns,
        };
        let woken = state.woken.take().filter(|(_, at_ns)| *at_ns >= start_ns);
        match (begun, woken) {
            (Some(begun), _) => {
                state.lost_ns = event_ns;
                self.resolver
                    .end(id, begun, call.result, times, &mut self.writer)?;
            }
            (None, Some((by, at_ns))) => {
                state.lost_ns = event_ns;
                self.resolver
                    .woken(id, (by, at_ns - start_ns), times, &mut self.writer)?;
            }
            (None, None) => state.lost_ns += event_ns,
        }
        Ok(())
    }
}

/// A call that has begun, and whose end the tracer waits for.
#[derive(Debug)]
enum Pending {
    /// A call on files. FIDEDUPERANGE is several calls.
    File {
        begun: Vec<Begun>,
        /// Afterwards a path may lead elsewhere.
        moves_names: bool,
    },
    /// A wait for a child.
    Wait,
    /// Another working directory: a descriptor, or a path.
    Directory(i32, Option<Vec<u8>>),
    /// Descriptors are closed, or will be by exec, depending on the flags.
    CloseRange(i32, i32, u32),
    /// The descriptor is closed by exec, or not.
    CloseOnExec(i32, bool),
    /// unshare(2), with its flags.
    Unshare(u64),
    /// A call that makes a task.
    Make(Making),
    /// A call whose success hides later calls from the tracer.
    Hides(Unseen),
}

const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;

/// A call that makes a task.
///
/// The tracer clears CLONE_UNTRACED during the call, as rr does. Otherwise the kernel would not
/// report the new task, and every call that the filter stops would fail with ENOSYS because no
/// tracer is attached.
#[derive(Debug, Clone, Copy)]
struct Making {
    /// The flags as the program passed them.
    flags: u64,
    /// The address of `struct clone_args`. `None` means that the flags are the first argument.
    place: Option<u64>,
    /// The kernel reported the new task.
    seen: bool,
}

impl Making {
    /// Reads the flags at the entry of the call and clears CLONE_UNTRACED. A failure shows at the
    /// exit: no task was reported.
    fn begin(task: i32, flags: u64, place: Option<u64>) -> Making {
        let flags = place
            .and_then(|at| inspect::numbers::<1>(task, at))
            .map_or(flags, |[flags]| flags);
        let making = Making {
            flags,
            place,
            seen: false,
        };
        if flags & UNTRACED != 0 {
            let _ = match place {
                Some(at) => trace::write_memory(task, at, flags & !UNTRACED),
                None => trace::set_first_argument(task, flags & !UNTRACED),
            };
        }
        making
    }

    /// Restores the flags in a stopped task: the maker or the new one.
    fn put_back(&self, task: i32) {
        if self.flags & UNTRACED == 0 {
            return;
        }
        let _ = match self.place {
            // The program may have reused the memory.
            Some(at) if inspect::numbers::<1>(task, at) == Some([self.flags & !UNTRACED]) => {
                trace::write_memory(task, at, self.flags)
            }
            None if trace::KEEPS_FIRST_ARGUMENT => trace::set_first_argument(task, self.flags),
            _ => Ok(()),
        };
    }

    fn has(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u64 != 0
    }
}

/// One traced task.
#[derive(Debug, Default)]
struct Task {
    pending: Option<Pending>,
    /// When the call began.
    start_ns: u64,
    /// The time that recording took since the last recorded call.
    lost_ns: u64,
    /// The lane that woke the task last during its current call, and the time.
    woken: Option<(u32, u64)>,
    /// The call that created the task, until the task runs.
    born: Option<Making>,
}

/// Nanoseconds that recording adds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// To a call that stops, and to the time between two: half of it each, because the call stops
    /// where it begins and where it ends.
    pub(crate) stop: Overhead,
    /// To the time around a call that the kernel writes down.
    pub(crate) event_ns: u64,
}

/// The outcome of a recording.
#[derive(Debug, Clone, Default)]
pub struct RecordOutcome {
    /// The program's exit code, as in a shell; `None` if the program still runs.
    pub code: Option<i32>,
    /// The totals of the trace.
    pub totals: Totals,
    /// Whether the program used a file or directory below the root.
    pub is_root_used: bool,
    /// The directory outside the root in which the program opened most files, those for writing
    /// first. `None` if it used only files of the system.
    pub used_outside: Option<PathBuf>,
    /// Bytes of the trace.
    pub bytes: u64,
    /// The time that a stop adds to each call that stops.
    pub overhead: Overhead,
    /// The program began to run.
    pub begun: bool,
    /// Most calls did not stop.
    pub by_ebpf: bool,
    /// Times that a task was stopped.
    pub stops: u64,
    /// Seconds from the first call to the end.
    pub seconds: f64,
}

/// The reason why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel refuses tracing.
    #[error("the program cannot be traced: {0}")]
    Refused(io::Error),
    /// eBPF cannot record the calls.
    #[error("eBPF cannot record the calls: {0}")]
    NoEbpf(io::Error),
    /// Something that the program must not inherit could not be taken away.
    #[error("cannot keep {what} from the program: {source}")]
    Kept {
        /// Names it in the message.
        what: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
