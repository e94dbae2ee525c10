//! Resolves the observations of a tracer (numbers of processes, descriptors and paths) to calls of
//! a trace.
//!
//! The resolver follows descriptors through opening, duplicating, inheriting and closing. It closes
//! a descriptor of the trace when the last holder releases it. Paths become names below the root;
//! calls outside the root are counted and left out.

mod copies;
mod crossing;
mod guesses;
mod mappings;
mod observation;
mod outer;
mod sink;
mod tables;
mod world;

use std::collections::{BTreeMap, HashMap, HashSet};

use guesses::Guesses;
use mappings::Mappings;
use outer::{Crossing, Outer};
use tables::{Held, Tables};

use crate::call::{
    Call, CallKind, Initial, State, below, flags, is_inside, leads_down, normal, parent,
};
use crate::{Gap, Remark, Remarks, TraceError, TraceNote, Unseen};

pub use observation::{AT_CWD, RawCall, Times};
pub use sink::Sink;
pub use tables::Shared;
pub(crate) use world::Past;
pub use world::{Before, World};

/// A call that has begun.
#[derive(Debug)]
pub struct Begun {
    call: Call,
    fd: i32,
    /// The destination of a copy.
    other: i32,
    path: Vec<u8>,
    close_on_exec: bool,
    appends: bool,
    /// The call moves all requested bytes if it succeeds, and its result is 0.
    moves_all: bool,
    /// The names are on both sides of the border of the root.
    crossing: Option<Crossing>,
    /// The names of a rename within the root.
    renamed: Option<(Vec<u8>, Vec<u8>)>,
    /// The link that gives an open file a name, which a replay cannot make.
    unnamed: Option<Vec<u8>>,
}

/// Events of one kind whose calls the tracer cannot see.
#[derive(Debug, Default)]
struct Missed {
    times: u64,
    /// The first of the files that they concern.
    files: Vec<String>,
}

/// Returns the text of an attribute in the names of a trace.
fn attribute(name: &[u8]) -> Vec<u8> {
    let text: Vec<u8> = name
        .iter()
        .take(255)
        .map(|byte| if *byte == b'/' { b'_' } else { *byte })
        .collect();
    if !text.is_empty() && is_inside(&text) {
        text
    } else {
        b"attribute".to_vec()
    }
}

/// Converts the observations of a tracer to calls.
#[derive(Debug)]
pub struct Resolver<W> {
    root: Vec<u8>,
    world: W,
    tables: Tables,
    known: HashSet<Box<[u8]>>,
    listed: HashSet<u32>,
    files: HashMap<(u64, u64), u32>,
    guesses: Guesses,
    outer: Outer,
    mappings: Mappings,
    unseen: BTreeMap<Unseen, Missed>,
    mapped: u64,
    /// The calls that copied between the root and other files or pipes, and their bytes.
    copies: (u64, u64),
    outside: u64,
    /// Whether a call named anything below the root but the root itself.
    is_root_used: bool,
    /// Directories outside the root with the number of times that a file in them was opened for
    /// writing, and at all.
    opened_outside: HashMap<Box<[u8]>, (u64, u64)>,
}

impl<W: World> Resolver<W> {
    /// Creates a resolver for calls below `root`, a normalized path.
    pub fn new(root: &[u8], world: W) -> Resolver<W> {
        Resolver {
            root: root.to_vec(),
            world,
            tables: Tables::default(),
            known: HashSet::new(),
            listed: HashSet::new(),
            files: HashMap::new(),
            guesses: Guesses::default(),
            outer: Outer::default(),
            mappings: Mappings::default(),
            unseen: BTreeMap::new(),
            mapped: 0,
            copies: (0, 0),
            outside: 0,
            is_root_used: false,
            opened_outside: HashMap::new(),
        }
    }

    /// Returns the access to the files themselves.
    pub fn world(&mut self) -> &mut W {
        &mut self.world
    }

    /// Registers a process that exists from the beginning, with its working directory.
    pub fn task(&mut self, task: u32, directory: &[u8]) {
        self.tables.add(task, directory);
    }

    /// Returns whether that task is known.
    pub fn knows(&self, task: u32) -> bool {
        self.tables.knows(task)
    }

    /// Returns the number of threads and processes so far.
    pub fn tasks(&self) -> u64 {
        self.tables.tasks()
    }

    /// Returns the number of calls on files outside the root.
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// Returns whether a call named a file or directory below the root. Shells look at the root
    /// itself in any case.
    pub fn is_root_used(&self) -> bool {
        self.is_root_used
    }

    /// Returns the directory outside the root in which files were opened for writing most often,
    /// else for reading. Directories of the system do not count. Returns `None` if the program used
    /// only those.
    pub fn used_outside(&self) -> Option<&[u8]> {
        let most = self
            .opened_outside
            .iter()
            .max_by_key(|(directory, opened)| (**opened, std::cmp::Reverse(*directory)));
        most.map(|(directory, _)| &**directory)
    }

    /// Counts an event whose calls the tracer cannot see.
    pub fn unseen(&mut self, what: Unseen) {
        self.unseen.entry(what).or_default().times += 1;
    }

    /// Counts an event whose calls on that file the tracer cannot see.
    pub fn unseen_in(&mut self, what: Unseen, path: &[u8]) {
        let file = below(&self.root, path).map(|name| String::from_utf8_lossy(name).into_owned());
        let missed = self.unseen.entry(what).or_default();
        missed.times += 1;
        if let Some(file) =
            file.filter(|file| missed.files.len() < Gap::MOST_FILES && !missed.files.contains(file))
        {
            missed.files.push(file);
        }
    }

    /// Returns whether a path is below the root.
    pub fn is_below_root(&self, path: &[u8]) -> bool {
        below(&self.root, path).is_some()
    }

    /// Sets whether exec closes a descriptor.
    pub fn close_on_exec(&mut self, task: u32, fd: i32, closes: bool) {
        self.tables.close_on_exec(task, fd, closes);
    }

    /// Closes the descriptors from `first` to `last`, or marks them to be closed by exec.
    pub fn close_range(
        &mut self,
        task: u32,
        (first, last): (i32, i32),
        at_exec: bool,
        now: u64,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        for fd in self.tables.open_between(task, first, last) {
            if at_exec {
                self.tables.close_on_exec(task, fd, true);
            } else if let Some(held) = self.tables.close(task, fd) {
                self.let_go(task, &held, now, sink)?;
            }
        }
        Ok(())
    }

    /// Returns whether a call on that descriptor belongs to the trace.
    pub fn follows(&self, task: u32, fd: i32) -> bool {
        self.tables
            .held(task, fd)
            .is_some_and(|held| held.handle != 0)
    }

    /// Adds a descriptor that was open before the recording began.
    pub fn opened_before(
        &mut self,
        task: u32,
        fd: i32,
        path: &[u8],
        (flags, place): (u32, u64),
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let raw = RawCall {
            path: Some(path),
            flags: flags & !(flags::CREATE | flags::TRUNCATE | flags::EXCLUSIVE) | flags::BEFORE,
            ..RawCall::new(CallKind::Open)
        };
        if let Some(begun) = self.begin(task, &raw, sink)? {
            self.end(task, begun, i64::from(fd), Times::default(), sink)?;
            let held = self.tables.held(task, fd).filter(|held| held.handle != 0);
            if let Some((handle, at)) = held
                .map(|held| (held.handle, held.place.clone()))
                .filter(|_| place > 0)
            {
                at.set(place);
                let lane = self.tables.lane(task);
                let seek = Call {
                    lane,
                    handle,
                    offset: place,
                    result: place as i64,
                    ..Call::new(CallKind::Seek)
                };
                sink.call(&seek)?;
            }
        }
        Ok(())
    }

    /// Begins a call. Returns `None` if the end of the call does not matter, for example because
    /// its file is outside the root.
    pub fn begin(
        &mut self,
        task: u32,
        raw: &RawCall<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<Begun>, TraceError> {
        let call = Call {
            lane: self.tables.lane(task),
            length: raw.length,
            flags: raw.flags,
            ..Call::new(raw.kind)
        };
        let begun = Begun {
            call,
            fd: raw.fd,
            other: raw.other,
            path: Vec::new(),
            close_on_exec: raw.close_on_exec,
            appends: false,
            moves_all: false,
            crossing: None,
            renamed: None,
            unnamed: None,
        };
        match (raw.kind, raw.path) {
            (CallKind::Rename | CallKind::Link, Some(path)) => {
                self.begin_on_names(task, raw, path, begun, sink)
            }
            (CallKind::SyncMapping, _) => self.begin_on_mapping(task, raw, begun, sink),
            (_, Some(path)) => self.begin_on_name(task, raw, path, begun, sink),
            // sync(2): all file systems, so this one.
            (CallKind::SyncFileSystem, None) if raw.fd == AT_CWD => Ok(Some(begun)),
            (CallKind::Close, None) => Ok(self.begin_close(task, begun)),
            (CallKind::Copy, None) => Ok(self.begin_copy(task, raw, begun)),
            (_, None) => self.begin_on_descriptor(task, raw, begun, sink),
        }
    }

    /// Begins a call on one name.
    fn begin_on_name(
        &mut self,
        task: u32,
        raw: &RawCall<'_>,
        path: &[u8],
        mut begun: Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Begun>, TraceError> {
        let Some(whole) = self.path_of(task, raw.fd, Some(path), raw.follows) else {
            return Ok(self.is_outside());
        };
        let inside = below(&self.root, &whole)
            .filter(|name| is_inside(name))
            .map(<[u8]>::to_vec);
        if raw.kind == CallKind::Open {
            begun.path.clone_from(&whole);
        }
        let Some(name) = inside else {
            if raw.kind == CallKind::Open {
                begun.call.handle = u32::MAX;
                return Ok(Some(begun));
            }
            return Ok(self.is_outside());
        };
        self.is_root_used |= !name.is_empty();
        begun.call.name = self.know(&name, sink)?;
        if let Some(text) = raw.second {
            begun.call.second = match raw.kind {
                CallKind::SymbolicLink => sink.name(&self.link_text(&whole, text))?,
                _ => sink.name(&attribute(text))?,
            };
        }
        Ok(Some(begun))
    }

    /// Begins a close. The kernel may give the number to another thread before this call is seen to
    /// return.
    fn begin_close(&mut self, task: u32, mut begun: Begun) -> Option<Begun> {
        let held = self
            .tables
            .close(task, begun.fd)
            .filter(|held| held.handle != 0)?;
        (begun.call.handle, begun.call.offset) = (held.handle, held.place.get());
        Some(begun)
    }

    /// Begins a call on one descriptor.
    fn begin_on_descriptor(
        &mut self,
        task: u32,
        raw: &RawCall<'_>,
        mut begun: Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Begun>, TraceError> {
        // A duplicate of any descriptor, also of a pipe or a terminal, replaces the one that had
        // its number.
        let Some(held) = self.tables.held(task, raw.fd) else {
            if raw.kind == CallKind::Duplicate {
                return Ok(Some(begun));
            }
            self.meet_stranger(task, raw.fd);
            return Ok(None);
        };
        if held.handle == 0 && raw.kind != CallKind::Duplicate {
            return Ok(self.is_outside());
        }
        begun.call.handle = held.handle;
        begun.call.offset = raw.offset.unwrap_or_else(|| held.place.get());
        begun.appends = held.appends;
        let path = held.path.clone();
        match raw.kind {
            CallKind::List if self.listed.insert(begun.call.handle) => self.list(&path, sink)?,
            CallKind::Map => begun.path = path.to_vec(),
            CallKind::SetAttribute => {
                begun.call.second = sink.name(&attribute(raw.second.unwrap_or_default()))?
            }
            _ => {}
        }
        Ok(Some(begun))
    }

    /// Checks a descriptor that no call opened, for example one that another process has sent.
    fn meet_stranger(&mut self, task: u32, fd: i32) {
        if self.tables.is_new_stranger(task, fd)
            && let Some(path) = self.world.open_file(task, fd)
            && self.is_below_root(&path)
        {
            self.unseen_in(Unseen::Outside, &path);
        }
    }

    /// Begins an msync. Other tasks may have made the mapping.
    fn begin_on_mapping(
        &mut self,
        task: u32,
        raw: &RawCall<'_>,
        mut begun: Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Begun>, TraceError> {
        let Some((path, offset)) = self.mappings.find(task, raw.offset.unwrap_or_default()) else {
            return Ok(None);
        };
        let Some(name) = below(&self.root, &path).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        (begun.call.name, begun.call.offset) = (self.know(&name, sink)?, offset);
        Ok(Some(begun))
    }

    fn count_opened(&mut self, path: &[u8], writes: bool) {
        /// More directories than this are not counted.
        const MOST: usize = 1000;
        /// Libraries, settings and devices, which every program opens.
        const SYSTEM: [&[u8]; 9] = [
            b"/proc/", b"/sys/", b"/dev/", b"/usr/", b"/lib", b"/etc/", b"/bin/", b"/sbin/",
            b"/run/",
        ];
        let is_system = SYSTEM.iter().any(|place| path.starts_with(place));
        let directory = parent(path);
        if !is_system
            && (self.opened_outside.len() < MOST || self.opened_outside.contains_key(directory))
        {
            let (written, opened) = self.opened_outside.entry(directory.into()).or_default();
            *written += u64::from(writes);
            *opened += 1;
        }
    }

    fn is_outside(&mut self) -> Option<Begun> {
        self.outside += 1;
        None
    }

    /// Returns the absolute path, or `None` if the directory is not known.
    fn path_of(
        &mut self,
        task: u32,
        fd: i32,
        path: Option<&[u8]>,
        follows: bool,
    ) -> Option<Vec<u8>> {
        let path = path.unwrap_or(b"");
        let whole = if path.starts_with(b"/") {
            normal(b"/", path)
        } else {
            let directory = match fd {
                AT_CWD => self.tables.directory(task).to_vec(),
                fd => self.tables.held(task, fd)?.path.to_vec(),
            };
            normal(&directory, path)
        };
        Some(self.world.locate(whole, follows))
    }

    /// Returns the text that a replay puts into a symbolic link. A link that does not lead down
    /// gets a text that leads nowhere.
    fn link_text(&self, at: &[u8], text: &[u8]) -> Vec<u8> {
        let whole = normal(parent(at), text);
        let down = whole
            .strip_prefix(parent(at))
            .and_then(|rest| rest.strip_prefix(b"/"))
            .map(<[u8]>::to_vec);
        down.filter(|down| leads_down(down) && is_inside(down))
            .unwrap_or_else(|| vec![b'x'; text.len().clamp(1, 255)])
    }

    /// Returns the number of a name. Asks for the state of the name when it is seen first.
    fn know(&mut self, name: &[u8], sink: &mut impl Sink) -> Result<u32, TraceError> {
        if name.is_empty() {
            return Ok(0);
        }
        if self.outer.contains(name) {
            self.unseen(Unseen::Outside);
        }
        if self.known.contains(name) {
            return sink.name(name);
        }
        let directory = self.know(parent(name), sink)?;
        self.guesses.is_directory(directory);
        let number = sink.name(name)?;
        self.known.insert(name.into());
        let whole = normal(&self.root, name);
        let before = self.world.before(&whole);
        if before == Before::Unknown
            && let Some(origin) = self.guesses.origin(name)
        {
            let first = self.know_origin(&origin, sink)?;
            self.guesses.begins_at(number, first);
            return Ok(number);
        }
        self.begins_as(number, &whole, before, sink)?;
        Ok(number)
    }

    /// Returns the number of a name before the first call, whose file has another name now.
    fn know_origin(&mut self, name: &[u8], sink: &mut impl Sink) -> Result<u32, TraceError> {
        if name.is_empty() {
            return Ok(0);
        }
        let directory = self.know_origin(parent(name), sink)?;
        self.guesses.is_directory(directory);
        let number = sink.name(name)?;
        if self.known.insert(name.into()) {
            self.guesses.see(number);
        }
        Ok(number)
    }

    /// Adds the initial state of a name that is now at that path.
    fn begins_as(
        &mut self,
        number: u32,
        path: &[u8],
        before: Before,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let state = match before {
            Before::Unknown => {
                self.guesses.see(number);
                return Ok(());
            }
            Before::Absent => return Ok(()),
            Before::Directory => State::Directory,
            Before::File { size, data, id } => {
                match id.map(|id| *self.files.entry(id).or_insert(number)) {
                    Some(first) if first != number => State::Same { name: first },
                    _ => State::File { size, data },
                }
            }
            Before::Link { to } => State::Link {
                to: self.link_text(path, &to),
            },
        };
        sink.initial(Initial {
            name: number,
            state,
        })
    }

    /// Asks for the states of all names in a directory that is listed.
    fn list(&mut self, path: &[u8], sink: &mut impl Sink) -> Result<(), TraceError> {
        for entry in self.world.entries(path) {
            let name = below(&self.root, &normal(path, &entry)).map(<[u8]>::to_vec);
            if let Some(name) = name.filter(|name| is_inside(name)) {
                self.know(&name, sink)?;
            }
        }
        Ok(())
    }

    /// Ends a call.
    pub fn end(
        &mut self,
        task: u32,
        begun: Begun,
        result: i64,
        times: Times,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        if begun.crossing.is_some() {
            return self.end_crossing(begun, result, times, sink);
        }
        if let Some(link) = begun.unnamed {
            if result >= 0 {
                self.unseen_in(Unseen::Outside, &link);
            }
            return Ok(());
        }
        let Begun {
            mut call,
            fd,
            appends,
            ..
        } = begun;
        (call.start_ns, call.took_ns, call.lost_ns) =
            (times.start_ns, times.took_ns, times.lost_ns);
        call.result = result;
        if !self.tables.knows(task) {
            return Ok(());
        }
        let resolved = match call.kind {
            CallKind::Open => self.end_open(task, call, begun, sink)?,
            CallKind::Duplicate => self.end_duplicate(task, call, &begun, sink)?,
            _ => self.end_other(task, call, begun, sink)?,
        };
        let Some(call) = resolved else { return Ok(()) };
        self.guesses.learn(&call);
        if call.kind.is_positional()
            && result >= 0
            && let Some(held) = self.tables.held(task, fd)
        {
            match call.kind {
                CallKind::Seek => held.place.set(result as u64),
                CallKind::List => {}
                _ if appends && call.kind == CallKind::Write => {}
                _ => held.place.set(call.offset.wrapping_add(call.moved())),
            }
        }
        sink.call(&call)
    }

    /// Ends an open. Returns the call if it is part of the trace.
    fn end_open(
        &mut self,
        task: u32,
        mut call: Call,
        begun: Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Call>, TraceError> {
        let outside = call.handle == u32::MAX;
        self.outside += u64::from(outside);
        if call.result >= 0 {
            let fd = call.result as i32;
            if outside {
                self.count_opened(&begun.path, call.flags & flags::WRITE != 0);
            }
            if let Some(held) = self.tables.close(task, fd) {
                self.let_go(task, &held, call.start_ns, sink)?;
            }
            let new = Held::new(begun.path, call.flags, outside);
            call.handle = self.tables.open(task, fd, new, begun.close_on_exec);
            call.result = 0;
        }
        Ok((!outside).then_some(call))
    }

    /// Ends a duplication. Returns the call if it is part of the trace.
    fn end_duplicate(
        &mut self,
        task: u32,
        mut call: Call,
        begun: &Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Call>, TraceError> {
        if call.result < 0 || i64::from(begun.fd) == call.result {
            return Ok(None);
        }
        let fd = call.result as i32;
        if let Some(held) = self.tables.close(task, fd) {
            self.let_go(task, &held, call.start_ns, sink)?;
        }
        let old = call.handle;
        call.handle = self
            .tables
            .duplicate(task, begun.fd, fd, begun.close_on_exec);
        (call.other, call.result) = (old, 0);
        Ok((old != 0).then_some(call))
    }

    /// Ends a call that makes no descriptor. Returns the call if it is part of the trace.
    fn end_other(
        &mut self,
        task: u32,
        mut call: Call,
        begun: Begun,
        sink: &mut impl Sink,
    ) -> Result<Option<Call>, TraceError> {
        match call.kind {
            kind if kind.moves() && call.flags & flags::COPIED != 0 => {
                let Some(copied) = self.copied(call, begun.moves_all) else {
                    return Ok(None);
                };
                return self.last_part(copied, sink).map(Some);
            }
            CallKind::Map => {
                self.mapped += 1;
                if call.result >= 0 {
                    self.mappings
                        .add(task, call.result as u64, &call, &begun.path);
                    if call.flags & flags::SHARED_WRITABLE != 0 {
                        self.unseen_in(Unseen::SharedMapping, &begun.path);
                    }
                }
                call.result = call.result.min(0);
            }
            CallKind::Rename if call.result >= 0 => self.has_renamed(&call, begun.renamed, sink)?,
            CallKind::List => call.result = call.result.min(1),
            CallKind::Copy if call.result > 0 => self.advance(task, &call, (begun.fd, begun.other)),
            _ => {}
        }
        Ok(Some(call))
    }

    /// Closes a descriptor whose last holder has released it without a call of its own.
    fn let_go(
        &mut self,
        task: u32,
        held: &Held,
        now: u64,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        if held.handle == 0 {
            return Ok(());
        }
        let lane = self.tables.lane(task);
        sink.call(&Call {
            lane,
            handle: held.handle,
            start_ns: now,
            ..Call::new(CallKind::Close)
        })
    }

    /// Adds the states of files that are known only at the end, and returns the remarks on the
    /// trace.
    pub fn finish(&mut self, sink: &mut impl Sink) -> Result<Remarks, TraceError> {
        for initial in self.guesses.states() {
            sink.initial(initial)?;
        }
        let unseen = std::mem::take(&mut self.unseen).into_iter();
        let gaps = unseen.map(|(what, Missed { times, files })| Gap { what, times, files });
        let incomplete = gaps.map(Remark::Known).collect();
        let mut notes = Vec::new();
        if let (times @ 1.., bytes) = self.copies {
            notes.push(TraceNote::Copied { times, bytes }.into());
        }
        if let times @ 1.. = self.outer.crossed {
            notes.push(TraceNote::Crossed { times }.into());
        }
        if self.mapped > 0 {
            notes.push(TraceNote::Mapped { times: self.mapped }.into());
        }
        Ok(Remarks { incomplete, notes })
    }
}

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
        sink.call(&Call {
            lane,
            other,
            start_ns: now,
            ..Call::new(CallKind::Spawn)
        })
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

    /// Handles exec by a thread that is not the leader: it takes the process's number and keeps its
    /// own descriptors.
    pub fn take_place(
        &mut self,
        thread: u32,
        process: u32,
        now: u64,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
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
        sink.call(&Call {
            lane,
            start_ns: now,
            ..Call::new(CallKind::Exit)
        })
    }

    /// Adds the wait of a task until another one had ended.
    pub fn wait(
        &mut self,
        task: u32,
        ended: u32,
        times: Times,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let Some(other) = self.tables.ended(ended) else {
            return Ok(());
        };
        let lane = self.tables.lane(task);
        let Times {
            start_ns,
            took_ns,
            lost_ns,
        } = times;
        sink.call(&Call {
            lane,
            other,
            start_ns,
            took_ns,
            lost_ns,
            ..Call::new(CallKind::Wait)
        })
    }

    /// Adds the wake-up of a task by another one.
    pub fn wake(
        &mut self,
        task: u32,
        other: u32,
        times: Times,
        sink: &mut impl Sink,
    ) -> Result<(), TraceError> {
        let (Some(lane), Some(other)) = (self.lane(task), self.lane(other)) else {
            return Ok(());
        };
        let Times {
            start_ns,
            took_ns,
            lost_ns,
        } = times;
        sink.call(&Call {
            lane,
            other,
            start_ns,
            took_ns,
            lost_ns,
            ..Call::new(CallKind::Wake)
        })
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
        let Some(lane) = self.lane(task) else {
            return Ok(());
        };
        let Times {
            start_ns,
            took_ns,
            lost_ns,
        } = times;
        sink.call(&Call {
            lane,
            other,
            start_ns,
            took_ns,
            lost_ns,
            offset: after_ns,
            ..Call::new(CallKind::Woken)
        })
    }

    /// Sets the working directory of a task.
    pub fn change_directory(&mut self, task: u32, fd: i32, path: Option<&[u8]>) {
        if let Some(path) = self.path_of(task, fd, path, true) {
            self.tables.change_directory(task, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &[u8] = b"/srv/data";

    /// The output of a resolver.
    #[derive(Debug, Default)]
    struct Recorded {
        names: Vec<Vec<u8>>,
        initial: Vec<Initial>,
        calls: Vec<Call>,
    }

    impl Sink for Recorded {
        fn name(&mut self, name: &[u8]) -> Result<u32, TraceError> {
            let known = self.names.iter().position(|known| known == name);
            let place = known.unwrap_or_else(|| {
                self.names.push(name.to_vec());
                self.names.len() - 1
            });
            Ok(place as u32 + 1)
        }

        fn initial(&mut self, initial: Initial) -> Result<(), TraceError> {
            self.initial.push(initial);
            Ok(())
        }

        fn call(&mut self, call: &Call) -> Result<(), TraceError> {
            self.calls.push(*call);
            Ok(())
        }
    }

    /// A world in which names that end in `.d` are directories and all others are files of ten
    /// bytes.
    struct Files;

    impl World for Files {
        fn locate(&mut self, path: Vec<u8>, _: bool) -> Vec<u8> {
            path
        }

        fn before(&mut self, path: &[u8]) -> Before {
            match path.ends_with(b".d") {
                true => Before::Directory,
                false if path.starts_with(b"/srv/data/.fsb-outside") => Before::Absent,
                false => Before::File {
                    size: 10,
                    data: None,
                    id: None,
                },
            }
        }

        fn open_file(&mut self, _: u32, fd: i32) -> Option<Vec<u8>> {
            (fd >= 50).then(|| b"/srv/data/sent".to_vec())
        }

        fn entries(&mut self, _: &[u8]) -> Vec<Vec<u8>> {
            vec![b"a".to_vec(), b"b".to_vec()]
        }
    }

    /// A resolver that knows process 1 in the root, and its output.
    struct Case {
        resolver: Resolver<Files>,
        recorded: Recorded,
    }

    impl Case {
        fn new() -> Case {
            let mut resolver = Resolver::new(ROOT, Files);
            resolver.task(1, ROOT);
            Case {
                resolver,
                recorded: Recorded::default(),
            }
        }

        fn call(&mut self, task: u32, raw: &RawCall<'_>, result: i64) {
            let begun = self.resolver.begin(task, raw, &mut self.recorded).unwrap();
            if let Some(begun) = begun {
                self.resolver
                    .end(task, begun, result, Times::default(), &mut self.recorded)
                    .unwrap();
            }
        }

        fn open(&mut self, task: u32, path: &str, fd: i64) {
            self.call(
                task,
                &RawCall {
                    path: Some(path.as_bytes()),
                    ..RawCall::new(CallKind::Open)
                },
                fd,
            );
        }

        fn on(&mut self, task: u32, kind: CallKind, fd: i32, result: i64) {
            self.call(
                task,
                &RawCall {
                    fd,
                    ..RawCall::new(kind)
                },
                result,
            );
        }

        fn last(&self) -> Call {
            *self.recorded.calls.last().expect("a call")
        }

        fn kinds(&self) -> Vec<CallKind> {
            self.recorded.calls.iter().map(|call| call.kind).collect()
        }
    }

    #[test]
    fn reads_go_on_where_the_last_one_ended() {
        let mut case = Case::new();
        case.open(1, "f", 3);
        let handle = case.last().handle;
        assert_ne!(handle, 0);
        case.on(1, CallKind::Read, 3, 4);
        assert_eq!(
            (case.last().handle, case.last().offset, case.last().result),
            (handle, 0, 4)
        );
        case.on(1, CallKind::Read, 3, 6);
        assert_eq!(case.last().offset, 4);
        case.call(
            1,
            &RawCall {
                fd: 3,
                offset: Some(2),
                ..RawCall::new(CallKind::Seek)
            },
            2,
        );
        case.on(1, CallKind::Read, 3, 1);
        assert_eq!(case.last().offset, 2);
        // One that failed has moved nothing.
        case.on(1, CallKind::Read, 3, -5);
        case.on(1, CallKind::Read, 3, 1);
        assert_eq!(case.last().offset, 3);
    }

    #[test]
    fn duplicated_descriptors_share_an_offset_until_the_last_close() {
        let mut case = Case::new();
        case.open(1, "f", 3);
        case.on(1, CallKind::Duplicate, 3, 7);
        case.on(1, CallKind::Read, 7, 4);
        case.on(1, CallKind::Read, 3, 2);
        assert_eq!(case.last().offset, 4);
        case.resolver
            .spawn(1, 2, Shared::default(), 0, &mut case.recorded)
            .unwrap();
        case.on(2, CallKind::Read, 3, 1);
        assert_eq!(case.last().offset, 6);
        assert_ne!(
            case.last().lane,
            case.recorded.calls[0].lane,
            "a process of its own"
        );
        case.on(1, CallKind::Close, 3, 0);
        case.on(1, CallKind::Close, 7, 0);
        // The child's are copies: it reads on, and lets both go when it ends.
        case.on(2, CallKind::Read, 7, 1);
        assert_eq!(case.last().offset, 7);
        let before = case.recorded.calls.len();
        case.resolver.exit(2, 9, &mut case.recorded).unwrap();
        let ended: Vec<CallKind> = case.kinds().split_off(before);
        assert_eq!(ended.last(), Some(&CallKind::Exit));
        assert!(
            ended[..ended.len() - 1]
                .iter()
                .all(|kind| *kind == CallKind::Close)
                && ended.len() > 1,
            "{ended:?}"
        );
    }

    #[test]
    fn a_duplicate_of_an_unknown_descriptor_ends_a_redirection() {
        let mut case = Case::new();
        case.open(1, "log", 3);
        case.on(1, CallKind::Duplicate, 3, 1);
        case.on(1, CallKind::Close, 3, 0);
        case.on(1, CallKind::Write, 1, 6);
        assert_eq!(case.last().kind, CallKind::Write);
        // A failed duplicate leaves the redirection.
        case.on(1, CallKind::Duplicate, 10, -9);
        assert!(case.resolver.follows(1, 1));
        // The shell restores its standard output, a pipe that was open before.
        case.on(1, CallKind::Duplicate, 10, 1);
        case.on(1, CallKind::Write, 1, 575_000);
        let handle = case.recorded.calls[1].handle;
        assert_eq!(
            (case.last().kind, case.last().handle),
            (CallKind::Close, handle)
        );
        assert!(!case.resolver.follows(1, 1) && case.resolver.outside() == 0);
    }

    #[test]
    fn a_program_that_is_run_has_what_was_not_closed_by_exec() {
        let mut case = Case::new();
        case.call(
            1,
            &RawCall {
                path: Some(b"kept"),
                ..RawCall::new(CallKind::Open)
            },
            3,
        );
        case.call(
            1,
            &RawCall {
                path: Some(b"gone"),
                close_on_exec: true,
                ..RawCall::new(CallKind::Open)
            },
            4,
        );
        case.resolver.exec(1, 0, &mut case.recorded).unwrap();
        assert!(case.resolver.follows(1, 3) && !case.resolver.follows(1, 4));
        assert_eq!(
            case.kinds(),
            [CallKind::Open, CallKind::Open, CallKind::Close]
        );
    }

    #[test]
    fn paths_begin_in_the_working_directory_or_in_an_open_one() {
        let mut case = Case::new();
        case.call(
            1,
            &RawCall {
                path: Some(b"one.d"),
                ..RawCall::new(CallKind::Open)
            },
            5,
        );
        case.call(
            1,
            &RawCall {
                fd: 5,
                path: Some(b"x"),
                ..RawCall::new(CallKind::StatName)
            },
            0,
        );
        case.resolver.change_directory(1, AT_CWD, Some(b"two.d"));
        case.call(
            1,
            &RawCall {
                path: Some(b"./y"),
                ..RawCall::new(CallKind::StatName)
            },
            0,
        );
        case.call(
            1,
            &RawCall {
                path: Some(b"../z"),
                ..RawCall::new(CallKind::Unlink)
            },
            0,
        );
        let recorded = |call: &Call| {
            String::from_utf8_lossy(&case.recorded.names[call.name as usize - 1]).into_owned()
        };
        let names: Vec<String> = case.recorded.calls.iter().map(recorded).collect();
        assert_eq!(names, ["one.d", "one.d/x", "two.d/y", "z"]);
        let states: Vec<_> = case
            .recorded
            .initial
            .iter()
            .map(|initial| (initial.name, initial.state.clone()))
            .collect();
        assert_eq!(
            states.len(),
            4 + 1,
            "each once, and the directory that was gone into: {states:?}"
        );
    }

    #[test]
    fn calls_outside_the_root_are_counted_and_left_out() {
        let mut case = Case::new();
        case.open(1, "/etc/passwd", 3);
        case.on(1, CallKind::Read, 3, 100);
        case.on(1, CallKind::Close, 3, 0);
        case.call(
            1,
            &RawCall {
                path: Some(b"../../../etc/shadow"),
                ..RawCall::new(CallKind::StatName)
            },
            0,
        );
        let elsewhere = RawCall {
            path: Some(b"/tmp/e"),
            second: Some(b"/tmp/f"),
            ..RawCall::new(CallKind::Rename)
        };
        case.call(1, &elsewhere, 0);
        let failed = RawCall {
            path: Some(b"f"),
            second: Some(b"/tmp/f"),
            ..RawCall::new(CallKind::Rename)
        };
        case.call(1, &failed, -18);
        assert!(
            case.recorded.calls.is_empty() && case.recorded.names.iter().all(|name| name == b"f"),
            "{:?}",
            case.recorded
        );
        assert_eq!(case.resolver.outside(), 5);
        assert_eq!(case.resolver.used_outside(), None, "of the system");
        let write = |path| RawCall {
            path: Some(path),
            flags: flags::WRITE | flags::CREATE,
            ..RawCall::new(CallKind::Open)
        };
        for (path, fd) in [
            (&b"/srv/db/a"[..], 4),
            (b"/srv/db/b", 5),
            (b"/tmp/c", 6),
            (b"/dev/null", 7),
            (b"/dev/null", 8),
        ] {
            case.call(1, &write(path), fd);
        }
        assert_eq!(case.resolver.used_outside(), Some(&b"/srv/db"[..]));
        // Its number is free for a file of the trace.
        case.open(1, "f", 3);
        assert!(case.resolver.is_root_used());
        assert!(case.resolver.follows(1, 3));
    }

    fn names_of<'c>(case: &'c Case, call: &Call) -> [&'c [u8]; 2] {
        [call.name, call.second].map(|number| case.recorded.names[number as usize - 1].as_slice())
    }

    /// A directory that a rename brings into the root is there before the first call, with all that
    /// is in it.
    #[test]
    fn a_directory_from_outside_begins_outside_with_its_files() {
        let mut case = Case::new();
        let moved = RawCall {
            path: Some(b"/x/tree.d"),
            second: Some(b"tree.d"),
            ..RawCall::new(CallKind::Rename)
        };
        case.call(1, &moved, 0);
        assert_eq!(
            names_of(&case, &case.last()),
            [&b".fsb-outside/1"[..], b"tree.d"]
        );
        case.call(
            1,
            &RawCall {
                path: Some(b"tree.d/a"),
                ..RawCall::new(CallKind::StatName)
            },
            0,
        );
        let name = |initial: &Initial| case.recorded.names[initial.name as usize - 1].clone();
        let mut names: Vec<Vec<u8>> = case.recorded.initial.iter().map(name).collect();
        names.sort();
        let expected = [
            &b".fsb-outside"[..],
            b".fsb-outside/1",
            b".fsb-outside/1/a",
            b".fsb-outside/1/b",
            b"tree.d",
        ];
        assert_eq!(
            names, expected,
            "the name in the root was a directory that the rename replaced"
        );
    }

    /// The files of a directory that is renamed may not have been used before.
    #[test]
    fn a_renamed_directory_brings_its_files() {
        let mut case = Case::new();
        case.call(
            1,
            &RawCall {
                path: Some(b"old.d"),
                second: Some(b"new.d"),
                ..RawCall::new(CallKind::Rename)
            },
            0,
        );
        case.open(1, "new.d/a", 3);
        let names: Vec<_> = case
            .recorded
            .initial
            .iter()
            .map(|one| case.recorded.names[one.name as usize - 1].clone())
            .collect();
        for name in [&b"old.d/a"[..], b"old.d/b"] {
            assert!(names.iter().any(|known| known == name), "{names:?}");
        }
        assert!(!names.iter().any(|known| known == b"new.d/a"), "{names:?}");
    }

    fn incomplete(case: &mut Case) -> Vec<Remark<Gap>> {
        case.resolver.finish(&mut case.recorded).unwrap().incomplete
    }

    /// Both directories have files of the same names.
    #[test]
    fn exchanged_directories_bring_their_files() {
        let mut case = Case::new();
        let exchange = RawCall {
            path: Some(b"one.d"),
            second: Some(b"two.d"),
            flags: flags::EXCHANGE,
            ..RawCall::new(CallKind::Rename)
        };
        case.call(1, &exchange, 0);
        let mut names: Vec<_> = case
            .recorded
            .initial
            .iter()
            .map(|one| case.recorded.names[one.name as usize - 1].clone())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                &b"one.d"[..],
                b"one.d/a",
                b"one.d/b",
                b"two.d",
                b"two.d/a",
                b"two.d/b"
            ]
        );
    }

    #[test]
    fn paths_follow_the_rename_of_an_open_directory() {
        let mut case = Case::new();
        case.open(1, "old.d", 5);
        case.call(
            1,
            &RawCall {
                path: Some(b"old.d"),
                second: Some(b"new.d"),
                ..RawCall::new(CallKind::Rename)
            },
            0,
        );
        case.call(
            1,
            &RawCall {
                fd: 5,
                path: Some(b"x"),
                ..RawCall::new(CallKind::Unlink)
            },
            0,
        );
        let name = case.last().name as usize;
        assert_eq!(case.recorded.names[name - 1], b"new.d/x");
    }

    #[test]
    fn a_link_of_an_open_file_has_the_name_that_was_opened() {
        for (path, fd) in [
            (&b""[..], 3),
            (b"/proc/self/fd/3", AT_CWD),
            (b"/proc/1/fd/3", AT_CWD),
        ] {
            let mut case = Case::new();
            case.open(1, "f", 3);
            let link = RawCall {
                fd,
                path: Some(path),
                second: Some(b"g"),
                ..RawCall::new(CallKind::Link)
            };
            case.call(1, &link, 0);
            assert_eq!(names_of(&case, &case.last()), [b"f", b"g"]);
            let Remarks { incomplete, notes } = case.resolver.finish(&mut case.recorded).unwrap();
            assert!(incomplete.is_empty() && notes.is_empty(), "{notes:?}");
        }
    }

    #[test]
    fn a_link_of_a_file_without_a_name_makes_a_trace_incomplete() {
        let mut case = Case::new();
        let flags = flags::WRITE | flags::TEMPORARY | flags::DIRECTORY;
        case.call(
            1,
            &RawCall {
                path: Some(b"tmp.d"),
                flags,
                ..RawCall::new(CallKind::Open)
            },
            3,
        );
        let link = RawCall {
            fd: 3,
            path: Some(b""),
            second: Some(b"g"),
            ..RawCall::new(CallKind::Link)
        };
        case.call(1, &link, -2);
        case.call(1, &link, 0);
        assert_eq!(case.kinds(), [CallKind::Open]);
        let expected = Gap {
            files: vec!["g".to_owned()],
            ..Gap::new(Unseen::Outside, 1)
        };
        assert_eq!(incomplete(&mut case), [expected.into()]);
    }

    #[test]
    fn outer_names_avoid_the_names_of_the_program() {
        let mut case = Case::new();
        case.open(1, ".fsb-outside", 3);
        let moved = RawCall {
            path: Some(b"/x/f"),
            second: Some(b"f"),
            ..RawCall::new(CallKind::Rename)
        };
        case.call(1, &moved, 0);
        assert_eq!(
            names_of(&case, &case.last()),
            [&b".fsb-outside-1/1"[..], b"f"]
        );
        case.open(1, ".fsb-outside-2", 4);
        assert_eq!(incomplete(&mut case), []);
        case.open(1, ".fsb-outside-1/1", 5);
        assert!(
            incomplete(&mut case).len() == 1,
            "a name that is used later cannot be avoided"
        );
    }

    /// Another process may send a descriptor, or a file may come into the root while it is open.
    #[test]
    fn writes_by_descriptors_from_elsewhere_make_a_trace_incomplete() {
        let mut case = Case::new();
        case.on(1, CallKind::Write, 9, 5);
        assert_eq!(incomplete(&mut case), [], "a pipe");
        case.on(1, CallKind::Write, 50, 5);
        case.on(1, CallKind::Write, 50, 5);
        let sent = Gap {
            files: vec!["sent".to_owned()],
            ..Gap::new(Unseen::Outside, 1)
        };
        assert_eq!(incomplete(&mut case), [sent.into()], "counted once");
        let write = RawCall {
            path: Some(b"/x/f"),
            flags: flags::WRITE,
            ..RawCall::new(CallKind::Open)
        };
        case.call(1, &write, 3);
        let moved = RawCall {
            path: Some(b"/x/f"),
            second: Some(b"f"),
            ..RawCall::new(CallKind::Rename)
        };
        case.call(1, &moved, 0);
        let moved = Gap {
            files: vec!["f".to_owned()],
            ..Gap::new(Unseen::Outside, 1)
        };
        assert_eq!(incomplete(&mut case), [moved.into()]);
    }

    #[test]
    fn copies_advance_both_positions() {
        let mut case = Case::new();
        case.open(1, "a", 3);
        case.open(1, "b", 4);
        let copy = RawCall {
            fd: 3,
            other: 4,
            length: 1 << 60,
            ..RawCall::new(CallKind::Copy)
        };
        case.call(1, &copy, 100);
        case.call(
            1,
            &RawCall {
                offset: Some(7),
                ..copy.clone()
            },
            50,
        );
        assert_eq!(
            (case.last().offset, case.last().target, case.last().flags),
            (7, 100, flags::FROM_OFFSET)
        );
        case.on(1, CallKind::Write, 4, 1);
        assert_eq!(case.last().offset, 150);
        case.on(1, CallKind::Read, 3, 1);
        assert_eq!(case.last().offset, 100);
    }

    #[test]
    fn a_clone_of_a_file_outside_writes_its_size() {
        let mut case = Case::new();
        case.open(1, "/x/big", 3);
        case.open(1, "f", 4);
        let clone = RawCall {
            fd: 3,
            other: 4,
            flags: flags::CLONE,
            ..RawCall::new(CallKind::Copy)
        };
        case.call(1, &clone, 0);
        let call = case.last();
        assert_eq!(
            (call.kind, call.offset, call.length, call.result),
            (CallKind::WriteAt, 0, 10, 10)
        );
        let before = case.recorded.calls.len();
        case.call(1, &clone, -95);
        case.call(
            1,
            &RawCall {
                fd: 4,
                other: 3,
                ..clone
            },
            0,
        );
        assert_eq!(
            case.recorded.calls.len(),
            before,
            "one that failed, and one that changes no file below the root"
        );
    }

    /// A log may contain any numbers.
    #[test]
    fn impossible_copies_make_a_trace_incomplete_and_end() {
        let mut case = Case::new();
        case.open(1, "/x/big", 3);
        case.open(1, "f", 4);
        let before = case.recorded.calls.len();
        let copy = RawCall {
            fd: 3,
            other: 4,
            flags: flags::SEND,
            ..RawCall::new(CallKind::Copy)
        };
        case.call(1, &copy, i64::MAX);
        assert_eq!(case.recorded.calls.len(), before);
        let target = Some(u64::MAX - 10);
        let range = RawCall {
            flags: flags::CLONE_RANGE,
            length: 1 << 32,
            offset: Some(0),
            target,
            ..copy.clone()
        };
        case.call(1, &range, 0);
        assert_eq!(
            (case.last().kind, case.last().offset),
            (CallKind::WriteAt, u64::MAX)
        );
        let Remarks { incomplete, .. } = case.resolver.finish(&mut case.recorded).unwrap();
        assert_eq!(incomplete, [Gap::new(Unseen::Outside, 1).into()]);
    }

    #[test]
    fn a_copy_that_finds_the_end_of_its_source_is_neither_recorded_nor_counted() {
        let mut case = Case::new();
        case.open(1, "/x/big", 3);
        case.open(1, "f", 4);
        let copy = RawCall {
            fd: 3,
            other: 4,
            length: 4096,
            ..RawCall::new(CallKind::Copy)
        };
        case.call(1, &copy, 10);
        case.call(1, &copy, 0);
        case.call(
            1,
            &RawCall {
                fd: 4,
                other: 3,
                ..copy
            },
            0,
        );
        assert_eq!(case.kinds(), [CallKind::Open, CallKind::Write]);
        let Remarks { notes, .. } = case.resolver.finish(&mut case.recorded).unwrap();
        assert_eq!(
            notes,
            [TraceNote::Copied {
                times: 1,
                bytes: 10
            }
            .into()]
        );
    }

    #[test]
    fn links_lead_nowhere_but_down() {
        let mut case = Case::new();
        for (text, expected) in [
            ("sub/f", &b"sub/f"[..]),
            ("../../etc/passwd", b"xxxxxxxxxxxxxxxx"),
            ("/etc", b"xxxx"),
        ] {
            let link = RawCall {
                path: Some(b"l"),
                second: Some(text.as_bytes()),
                ..RawCall::new(CallKind::SymbolicLink)
            };
            case.call(1, &link, 0);
            let second = case.last().second as usize;
            assert_eq!(case.recorded.names[second - 1], expected, "{text}");
        }
    }

    #[test]
    fn a_directory_that_is_listed_is_known_with_all_that_is_in_it() {
        let mut case = Case::new();
        case.open(1, "one.d", 3);
        case.on(1, CallKind::List, 3, 48);
        case.on(1, CallKind::List, 3, 0);
        assert_eq!(case.recorded.names, [&b"one.d"[..], b"one.d/a", b"one.d/b"]);
        let results: Vec<i64> = case
            .recorded
            .calls
            .iter()
            .skip(1)
            .map(|call| call.result)
            .collect();
        assert_eq!(
            results,
            [1, 0],
            "how many bytes a list takes is the file system's own"
        );
    }

    #[test]
    fn untraced_io_makes_a_trace_incomplete() {
        let mut case = Case::new();
        case.open(1, "f", 3);
        case.call(
            1,
            &RawCall {
                fd: 3,
                flags: flags::SHARED_WRITABLE,
                ..RawCall::new(CallKind::Map)
            },
            0x7f00,
        );
        case.resolver.unseen(Unseen::Uring);
        case.resolver.unseen(Unseen::Uring);
        let Remarks { incomplete, notes } = case.resolver.finish(&mut case.recorded).unwrap();
        let mapped = Gap {
            files: vec!["f".to_owned()],
            ..Gap::new(Unseen::SharedMapping, 1)
        };
        assert_eq!(
            incomplete,
            [mapped.into(), Gap::new(Unseen::Uring, 2).into()]
        );
        assert_eq!(notes, [TraceNote::Mapped { times: 1 }.into()]);
    }

    /// Two threads close and open at once: the kernel reuses the number before the tracer sees the
    /// first call return.
    #[test]
    fn a_number_that_is_closed_may_be_given_to_another_thread_at_once() {
        let mut case = Case::new();
        case.open(1, "one", 3);
        case.resolver
            .spawn(
                1,
                2,
                Shared {
                    files: true,
                    directory: true,
                },
                0,
                &mut case.recorded,
            )
            .unwrap();
        let close = RawCall {
            fd: 3,
            ..RawCall::new(CallKind::Close)
        };
        let closing = case
            .resolver
            .begin(1, &close, &mut case.recorded)
            .unwrap()
            .expect("a file of the trace");
        case.open(2, "two", 3);
        case.resolver
            .end(1, closing, 0, Times::default(), &mut case.recorded)
            .unwrap();
        case.on(2, CallKind::Read, 3, 4);
        case.on(2, CallKind::Close, 3, 0);
        assert_eq!(
            case.kinds(),
            [
                CallKind::Open,
                CallKind::Spawn,
                CallKind::Open,
                CallKind::Close,
                CallKind::Read,
                CallKind::Close
            ]
        );
        let handles: Vec<u32> = case.recorded.calls.iter().map(|call| call.handle).collect();
        assert_eq!(handles[3], handles[0], "the first one is closed");
        assert_eq!(
            [handles[4], handles[5]],
            [handles[2]; 2],
            "the second one is read and closed"
        );
    }

    #[test]
    fn descriptors_that_are_not_shared_any_more_are_closed_one_by_one() {
        let mut case = Case::new();
        case.open(1, "f", 3);
        case.resolver
            .spawn(
                1,
                2,
                Shared {
                    files: true,
                    directory: true,
                },
                0,
                &mut case.recorded,
            )
            .unwrap();
        case.resolver.unshare(
            2,
            Shared {
                files: true,
                directory: true,
            },
        );
        case.on(2, CallKind::Close, 3, 0);
        case.resolver.change_directory(2, AT_CWD, Some(b"sub"));
        assert!(case.resolver.follows(1, 3) && !case.resolver.follows(2, 3));
        case.call(
            1,
            &RawCall {
                path: Some(b"x"),
                ..RawCall::new(CallKind::StatName)
            },
            0,
        );
        let name = case.last().name as usize;
        assert_eq!(
            case.recorded.names[name - 1],
            b"x",
            "the other one works where it did"
        );
        // The thread's own descriptors are those of the process that it becomes.
        case.open(2, "g", 4);
        case.resolver
            .take_place(2, 1, 0, &mut case.recorded)
            .unwrap();
        assert!(
            case.resolver.follows(1, 4) && !case.resolver.follows(1, 3) && !case.resolver.knows(2)
        );
    }
}
