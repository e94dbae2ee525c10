//! Descriptors, working directories and paths of made-up processes.

use super::*;

const ROOT: &[u8] = b"/srv/data";

/// The output of a resolver.
#[derive(Debug, Default)]
struct Told {
    names: Vec<Vec<u8>>,
    initial: Vec<Initial>,
    calls: Vec<Call>,
}

impl Sink for Told {
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

/// A world in which names that end in `.d` are directories and all others are files of ten bytes.
struct Files;

impl World for Files {
    fn locate(&mut self, path: Vec<u8>, _: bool) -> Vec<u8> {
        path
    }

    fn before(&mut self, path: &[u8]) -> Before {
        match path.ends_with(b".d") {
            true => Before::Directory,
            false => Before::File { size: 10, data: None, id: None },
        }
    }

    fn entries(&mut self, _: &[u8]) -> Vec<Vec<u8>> {
        vec![b"a".to_vec(), b"b".to_vec()]
    }
}

/// A resolver that knows process 1 in the root, and its output.
struct Case {
    resolver: Resolver<Files>,
    told: Told,
}

impl Case {
    fn new() -> Case {
        let mut resolver = Resolver::new(ROOT, Files);
        resolver.task(1, ROOT);
        Case { resolver, told: Told::default() }
    }

    fn call(&mut self, task: u32, raw: &RawCall<'_>, result: i64) {
        let begun = self.resolver.begin(task, raw, &mut self.told).unwrap();
        if let Some(begun) = begun {
            self.resolver.end(task, begun, result, Times::default(), &mut self.told).unwrap();
        }
    }

    fn open(&mut self, task: u32, path: &str, fd: i64) {
        self.call(task, &RawCall { path: Some(path.as_bytes()), ..RawCall::new(CallKind::Open) }, fd);
    }

    fn on(&mut self, task: u32, kind: CallKind, fd: i32, result: i64) {
        self.call(task, &RawCall { fd, ..RawCall::new(kind) }, result);
    }

    fn last(&self) -> Call {
        *self.told.calls.last().expect("a call")
    }

    fn kinds(&self) -> Vec<CallKind> {
        self.told.calls.iter().map(|call| call.kind).collect()
    }
}

#[test]
fn reads_go_on_where_the_last_one_ended() {
    let mut case = Case::new();
    case.open(1, "f", 3);
    let handle = case.last().handle;
    assert_ne!(handle, 0);
    case.on(1, CallKind::Read, 3, 4);
    assert_eq!((case.last().handle, case.last().offset, case.last().result), (handle, 0, 4));
    case.on(1, CallKind::Read, 3, 6);
    assert_eq!(case.last().offset, 4);
    case.call(1, &RawCall { fd: 3, offset: Some(2), ..RawCall::new(CallKind::Seek) }, 2);
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
    case.resolver.spawn(1, 2, Shared::default(), 0, &mut case.told).unwrap();
    case.on(2, CallKind::Read, 3, 1);
    assert_eq!(case.last().offset, 6);
    assert_ne!(case.last().lane, case.told.calls[0].lane, "a process of its own");
    case.on(1, CallKind::Close, 3, 0);
    case.on(1, CallKind::Close, 7, 0);
    // The child's are copies: it reads on, and lets both go when it ends.
    case.on(2, CallKind::Read, 7, 1);
    assert_eq!(case.last().offset, 7);
    let before = case.told.calls.len();
    case.resolver.exit(2, 9, &mut case.told).unwrap();
    let ended: Vec<CallKind> = case.kinds().split_off(before);
    assert_eq!(ended.last(), Some(&CallKind::Exit));
    assert!(ended[..ended.len() - 1].iter().all(|kind| *kind == CallKind::Close) && ended.len() > 1, "{ended:?}");
}

#[test]
fn a_program_that_is_run_has_what_was_not_closed_by_exec() {
    let mut case = Case::new();
    case.call(1, &RawCall { path: Some(b"kept"), ..RawCall::new(CallKind::Open) }, 3);
    case.call(1, &RawCall { path: Some(b"gone"), close_on_exec: true, ..RawCall::new(CallKind::Open) }, 4);
    case.resolver.exec(1, 0, &mut case.told).unwrap();
    assert!(case.resolver.follows(1, 3) && !case.resolver.follows(1, 4));
    assert_eq!(case.kinds(), [CallKind::Open, CallKind::Open, CallKind::Close]);
}

#[test]
fn paths_begin_in_the_working_directory_or_in_an_open_one() {
    let mut case = Case::new();
    case.call(1, &RawCall { path: Some(b"one.d"), ..RawCall::new(CallKind::Open) }, 5);
    case.call(1, &RawCall { fd: 5, path: Some(b"x"), ..RawCall::new(CallKind::StatName) }, 0);
    case.resolver.change_directory(1, AT_CWD, Some(b"two.d"));
    case.call(1, &RawCall { path: Some(b"./y"), ..RawCall::new(CallKind::StatName) }, 0);
    case.call(1, &RawCall { path: Some(b"../z"), ..RawCall::new(CallKind::Unlink) }, 0);
    let told = |call: &Call| String::from_utf8_lossy(&case.told.names[call.name as usize - 1]).into_owned();
    let names: Vec<String> = case.told.calls.iter().map(told).collect();
    assert_eq!(names, ["one.d", "one.d/x", "two.d/y", "z"]);
    let states: Vec<_> = case.told.initial.iter().map(|initial| (initial.name, initial.state.clone())).collect();
    assert_eq!(states.len(), 4 + 1, "each once, and the directory that was gone into: {states:?}");
}

#[test]
fn calls_outside_the_root_are_counted_and_left_out() {
    let mut case = Case::new();
    case.open(1, "/etc/passwd", 3);
    case.on(1, CallKind::Read, 3, 100);
    case.on(1, CallKind::Close, 3, 0);
    case.call(1, &RawCall { path: Some(b"../../../etc/shadow"), ..RawCall::new(CallKind::StatName) }, 0);
    let inside_and_out = RawCall { path: Some(b"f"), second: Some(b"/tmp/f"), ..RawCall::new(CallKind::Rename) };
    case.call(1, &inside_and_out, 0);
    assert!(case.told.calls.is_empty() && case.told.names.iter().all(|name| name == b"f"), "{:?}", case.told);
    assert_eq!(case.resolver.outside(), 4);
    assert_eq!(case.resolver.used_outside(), None, "of the system");
    let write =
        |path| RawCall { path: Some(path), flags: flags::WRITE | flags::CREATE, ..RawCall::new(CallKind::Open) };
    for (path, fd) in [(&b"/srv/db/a"[..], 4), (b"/srv/db/b", 5), (b"/tmp/c", 6), (b"/dev/null", 7), (b"/dev/null", 8)]
    {
        case.call(1, &write(path), fd);
    }
    assert_eq!(case.resolver.used_outside(), Some(&b"/srv/db"[..]));
    // Its number is free for a file of the trace.
    case.open(1, "f", 3);
    assert!(case.resolver.is_root_used());
    assert!(case.resolver.follows(1, 3));
}

#[test]
fn links_lead_nowhere_but_down() {
    let mut case = Case::new();
    for (text, expected) in [("sub/f", &b"sub/f"[..]), ("../../etc/passwd", b"xxxxxxxxxxxxxxxx"), ("/etc", b"xxxx")] {
        let link = RawCall { path: Some(b"l"), second: Some(text.as_bytes()), ..RawCall::new(CallKind::SymbolicLink) };
        case.call(1, &link, 0);
        let second = case.last().second as usize;
        assert_eq!(case.told.names[second - 1], expected, "{text}");
    }
}

#[test]
fn a_directory_that_is_listed_is_known_with_all_that_is_in_it() {
    let mut case = Case::new();
    case.open(1, "one.d", 3);
    case.on(1, CallKind::List, 3, 48);
    case.on(1, CallKind::List, 3, 0);
    assert_eq!(case.told.names, [&b"one.d"[..], b"one.d/a", b"one.d/b"]);
    let results: Vec<i64> = case.told.calls.iter().skip(1).map(|call| call.result).collect();
    assert_eq!(results, [1, 0], "how many bytes a list takes is the file system's own");
}

#[test]
fn untraced_io_makes_a_trace_incomplete() {
    let mut case = Case::new();
    case.open(1, "f", 3);
    case.call(1, &RawCall { fd: 3, flags: flags::SHARED_WRITABLE, ..RawCall::new(CallKind::Map) }, 0x7f00);
    case.resolver.unseen(Unseen::Uring);
    case.resolver.unseen(Unseen::Uring);
    let Remarks { incomplete, notes } = case.resolver.finish(&mut case.told).unwrap();
    let gaps = [(Unseen::SharedMapping, 1), (Unseen::Uring, 2)].map(|(what, times)| Gap { what, times }.into());
    assert_eq!(incomplete, gaps);
    assert_eq!(notes, [TraceNote::Mapped { times: 1 }.into()]);
}

/// Two threads close and open at once: the kernel reuses the number before the tracer sees the first call return.
#[test]
fn a_number_that_is_closed_may_be_given_to_another_thread_at_once() {
    let mut case = Case::new();
    case.open(1, "one", 3);
    case.resolver.spawn(1, 2, Shared { files: true, directory: true }, 0, &mut case.told).unwrap();
    let close = RawCall { fd: 3, ..RawCall::new(CallKind::Close) };
    let closing = case.resolver.begin(1, &close, &mut case.told).unwrap().expect("a file of the trace");
    case.open(2, "two", 3);
    case.resolver.end(1, closing, 0, Times::default(), &mut case.told).unwrap();
    case.on(2, CallKind::Read, 3, 4);
    case.on(2, CallKind::Close, 3, 0);
    assert_eq!(
        case.kinds(),
        [CallKind::Open, CallKind::Spawn, CallKind::Open, CallKind::Close, CallKind::Read, CallKind::Close]
    );
    let handles: Vec<u32> = case.told.calls.iter().map(|call| call.handle).collect();
    assert_eq!(handles[3], handles[0], "the first one is closed");
    assert_eq!([handles[4], handles[5]], [handles[2]; 2], "the second one is read and closed");
}

#[test]
fn descriptors_that_are_not_shared_any_more_are_closed_one_by_one() {
    let mut case = Case::new();
    case.open(1, "f", 3);
    case.resolver.spawn(1, 2, Shared { files: true, directory: true }, 0, &mut case.told).unwrap();
    case.resolver.unshare(2, Shared { files: true, directory: true });
    case.on(2, CallKind::Close, 3, 0);
    case.resolver.change_directory(2, AT_CWD, Some(b"sub"));
    assert!(case.resolver.follows(1, 3) && !case.resolver.follows(2, 3));
    case.call(1, &RawCall { path: Some(b"x"), ..RawCall::new(CallKind::StatName) }, 0);
    let name = case.last().name as usize;
    assert_eq!(case.told.names[name - 1], b"x", "the other one works where it did");
    // The thread's own descriptors are those of the process that it becomes.
    case.open(2, "g", 4);
    case.resolver.take_place(2, 1, 0, &mut case.told).unwrap();
    assert!(case.resolver.follows(1, 4) && !case.resolver.follows(1, 3) && !case.resolver.knows(2));
}
