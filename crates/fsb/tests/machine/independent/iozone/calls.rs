//! The system calls are those of real IOzone 3.471: phases, sizes, offsets, flags, and the places
//! of fsync and close.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::testdata;
use crate::common::{FSB, scratch};

const TRACED: &str = "trace=open,openat,creat,read,write,pread64,pwrite64,lseek,fsync,fdatasync,ftruncate,close,unlink,\
                      unlinkat,mmap,munmap,msync";

/// The directory in the traces of the real tool.
const THEIRS: &str = "/mnt/test";

/// Returns the command of a trace and the recorded calls.
fn theirs(name: &str) -> (String, String) {
    let text = std::fs::read_to_string(testdata("iozone-strace").join(name)).unwrap();
    let command = text
        .lines()
        .next()
        .unwrap()
        .strip_prefix("# iozone ")
        .unwrap()
        .to_owned();
    (command, text)
}

/// Runs the same command on files in `directory` under strace.
fn ours(directory: &Path, command: &str) -> String {
    let root = directory.to_str().unwrap();
    let log = directory.with_extension("strace");
    let output = Command::new("strace")
        .args(["-f", "-s", "0", "-e", "signal=none", "-e", TRACED, "-o"])
        .arg(&log)
        .args([FSB, "iozone"])
        .args(command.replace(THEIRS, root).split_whitespace())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(log).unwrap();
    text
}

fn agree(name: &str) {
    needs!(program "strace");
    let (command, text) = theirs(name);
    let directory = scratch();
    let mut theirs = in_time(&text, THEIRS);
    let mut ours = in_time(
        &ours(directory.path(), &command),
        directory.path().to_str().unwrap(),
    );
    sort_random(&mut theirs);
    sort_random(&mut ours);
    assert!(
        theirs.len() > 10,
        "{name}: the trace of the real tool was not understood"
    );
    if let Some(at) = theirs
        .iter()
        .zip(&ours)
        .position(|(theirs, ours)| theirs != ours)
    {
        let around = |events: &[Event]| {
            format!(
                "{:#?}",
                &events[at.saturating_sub(2)..events.len().min(at + 3)]
            )
        };
        panic!(
            "{name}, call {at}: IOzone\n{}\nfsb\n{}",
            around(&theirs),
            around(&ours)
        );
    }
    assert_eq!(
        theirs.len(),
        ours.len(),
        "{name}: one goes on: {:?}",
        theirs.get(ours.len()).or(ours.get(theirs.len()))
    );
}

macro_rules! same_calls {
    ($($test:ident $file:literal)*) => { $(#[test] fn $test() { agree($file); })* };
}

same_calls! {
    write_and_rewrite "00-write-rewrite.strace"
    read_and_reread "01-read-reread.strace"
    random_read_and_write "02-random-read-write.strace"
    backward_read "03-backward-read.strace"
    record_rewrite "04-record-rewrite.strace"
    stride_read "05-stride-read.strace"
    fwrite_and_frewrite "06-fwrite-frewrite.strace"
    fread_and_freread "07-fread-freread.strace"
    automatic_mode "auto-4k-16k.strace"
    direct "direct.strace"
    flush_and_close "flush-and-close.strace"
    mapping "mmap.strace"
    mapping_with_msync "mmap-msync.strace"
    mapping_mixed_with_write "mmap-mixed.strace"
    pwrite_and_pread "pwrite-pread.strace"
    o_sync "osync.strace"
}

/// The calls of a process of throughput mode, however soon it was stopped. After it opened its
/// file, it read or wrote `records` records from the start on, and then made the calls `after`.
#[derive(Debug, PartialEq)]
struct Member {
    file: String,
    open: Call,
    reads: bool,
    records: usize,
    after: Vec<Call>,
}

fn member(events: &[Event]) -> Option<Member> {
    let (first, rest) = events.split_first()?;
    let moved = rest
        .iter()
        .take_while(|event| matches!(event.call, Call::Read { .. } | Call::Write { .. }))
        .count();
    for (at, event) in rest[..moved].iter().enumerate() {
        let (Call::Read { offset, length } | Call::Write { offset, length }) = event.call else {
            unreachable!()
        };
        assert_eq!((offset, length), (at as u64 * 65_536, 65_536), "{event:?}");
    }
    matches!(first.call, Call::Open(..)).then(|| Member {
        file: first.file.clone(),
        open: first.call.clone(),
        reads: matches!(
            rest.first(),
            Some(Event {
                call: Call::Read { .. },
                ..
            })
        ),
        records: moved,
        after: rest[moved..]
            .iter()
            .map(|event| event.call.clone())
            .collect(),
    })
}

/// Returns each phase of each file, and the removals at the end.
fn members(text: &str, root: &str) -> (Vec<Member>, Vec<String>) {
    let processes = parse(text, root);
    let mut members: Vec<Member> = processes
        .iter()
        .filter_map(|events| member(events))
        .collect();
    // Stable: phases of one file stay in order, regardless of which process of a phase was seen
    // first.
    members.sort_by(|a, b| a.file.cmp(&b.file));
    let removed = processes
        .concat()
        .into_iter()
        .filter(|event| event.call == Call::Unlink)
        .map(|event| event.file);
    (members, removed.collect())
}

/// Options without a recorded trace are compared with the tool itself, if it is installed.
#[test]
fn options_without_a_trace_agree_with_the_tool_itself() {
    let tool = Path::new("/usr/bin/iozone");
    needs!(program "strace");
    if !tool.exists() {
        skip!("IOzone is not installed");
    }
    for line in [
        "-e -s 64 -r 16 -f DIR/f -i 0 -i 1 -i 2 -i 4 -i 6 -i 7",
        "-c -s 64 -r 16 -f DIR/f -i 0 -i 1 -i 2 -i 4 -i 6 -i 7",
        "-N -s 64 -r 16 -f DIR/f -i 0 -i 1",
        "-j 3 -s 256 -r 16 -f DIR/f -i 0 -i 5",
        "-W -s 64 -r 16 -f DIR/f -i 0 -i 1 -i 2 -i 3 -i 4 -i 5",
        "-t 1 -s 64 -r 16 -F DIR/a -i 0 -i 6 -i 7",
        "-t 1 -T -s 64 -r 16 -F DIR/a -i 6 -i 7 -i 9 -i 10",
    ] {
        let directory = scratch();
        let root = directory.path().to_str().unwrap();
        let command = line.replace("DIR", root);
        let calls = |program: &Path, first: &[&str]| {
            let log = directory.path().with_extension("strace");
            let strace = Command::new("timeout")
                .args([
                    "60",
                    "strace",
                    "-f",
                    "-s",
                    "0",
                    "-e",
                    "signal=none",
                    "-e",
                    &format!("{TRACED},fcntl"),
                    "-o",
                ])
                .arg(&log)
                .arg(program)
                .args(first)
                .args(command.split_whitespace())
                .output()
                .unwrap();
            assert!(strace.status.success(), "{line}: {strace:?}");
            let text = std::fs::read_to_string(&log).unwrap();
            std::fs::remove_file(log).unwrap();
            let mut events = in_time(&text, root);
            sort_random(&mut events);
            if line.starts_with("-t") {
                // Other processes remove the files; the order of the lists does not show that.
                events.retain(|event| event.call != Call::Unlink);
            }
            (events, text.matches("F_SETLKW").count())
        };
        let (theirs, ours) = (calls(tool, &[]), calls(Path::new(FSB), &["iozone"]));
        assert!(
            theirs.0.len() > 10,
            "{line}: the trace of the real tool was not understood"
        );
        assert_eq!(ours, theirs, "{line}");
    }
}

/// Returns the transfers of asynchronous modes: their direction and offset. Threads of the C
/// library make them in an order of their own.
fn transfers(log: &str, record: &str) -> Vec<(bool, u64)> {
    let before = format!(", {record}, ");
    let mut found: Vec<(bool, u64)> = log
        .lines()
        .filter_map(|line| {
            let reads = line.contains("pread64");
            // Before each reading operation the tool reads the first record once with a plain call.
            if line.contains(&format!(", {record})")) && line.contains(" read(") {
                return Some((true, 0));
            }
            let (_, rest) = line
                .split_once(&before)
                .filter(|_| reads || line.contains("pwrite64"))?;
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            Some((reads, rest[..digits].parse().ok()?))
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn asynchronous_modes_move_what_the_tool_itself_moves() {
    let tool = Path::new("/usr/bin/iozone");
    needs!(program "strace");
    for mode in ["-H 4", "-k 4"] {
        let directory = scratch();
        let file = directory.path().join("f");
        let moved = |program: &Path, first: &[&str]| {
            let log = directory.path().with_extension("strace");
            let strace = Command::new("timeout")
                .args([
                    "60",
                    "strace",
                    "-f",
                    "-s",
                    "0",
                    "-e",
                    "signal=none",
                    "-e",
                    "trace=read,pread64,pwrite64",
                    "-o",
                ])
                .arg(&log)
                .arg(program)
                .args(first)
                .args(mode.split_whitespace())
                .args(["-s", "256", "-r", "16", "-i", "0", "-i", "1", "-f"])
                .arg(&file)
                .output()
                .unwrap();
            assert!(strace.status.success(), "{mode}: {strace:?}");
            let text = std::fs::read_to_string(&log).unwrap();
            std::fs::remove_file(log).unwrap();
            transfers(&text, "16384")
        };
        let ours = moved(Path::new(FSB), &["iozone"]);
        // Each of four operations transfers each of sixteen records once, and two read the first
        // one before.
        let mut expected: Vec<_> = [false, true]
            .into_iter()
            .flat_map(|reads| (0..16).flat_map(move |record| [(reads, record * 16_384); 2]))
            .chain([(true, 0); 2])
            .collect();
        expected.sort_unstable();
        assert_eq!(ours, expected, "{mode}");
        if tool.exists() {
            assert_eq!(ours, moved(tool, &[]), "{mode}");
        }
    }
    if !tool.exists() {
        skip!("the calls of fsb agree; IOzone is not installed, and its calls were not compared");
    }
}

#[test]
fn throughput_mode() {
    needs!(program "strace");
    let (command, text) = theirs("throughput.strace");
    let directory = scratch();
    let (theirs, their_removals) = members(&text, THEIRS);
    let (ours, our_removals) = members(
        &ours(directory.path(), &command),
        directory.path().to_str().unwrap(),
    );
    assert_eq!(theirs.len(), 8);
    assert_eq!(our_removals, their_removals);
    assert_eq!(ours.len(), theirs.len());
    for (theirs, ours) in theirs.iter().zip(ours) {
        let creates = matches!(&ours.open, Call::Open(flags, _) if flags.contains("O_CREAT"));
        // The phase that creates the file completes it for the other phases. Each of those ends for
        // all processes when the first one is done.
        if creates {
            assert_eq!((ours.records, theirs.records), (4, 4));
        }
        // A process that was stopped before its first record does not show its direction.
        let reads = if ours.records == 0 {
            theirs.reads
        } else {
            ours.reads
        };
        let expected = Member {
            file: theirs.file.clone(),
            open: theirs.open.clone(),
            reads: theirs.reads,
            records: ours.records,
            after: theirs.after.clone(),
        };
        assert_eq!(Member { reads, ..ours }, expected);
    }
}

#[test]
fn a_random_order_visits_each_record_once_and_is_not_the_order_of_the_file() {
    needs!(program "strace");
    let (command, _) = theirs("02-random-read-write.strace");
    let directory = scratch();
    let events = in_time(
        &ours(directory.path(), &command),
        directory.path().to_str().unwrap(),
    );
    let start = events.iter().position(
        |event| matches!(&event.call, Call::Open(flags, _) if flags.contains("O_CREAT") && flags.contains("O_RDWR")),
    );
    let offsets = |events: &[Event]| -> Vec<u64> {
        let transfers = events.iter().filter_map(|event| match event.call {
            Call::Read { offset, .. } | Call::Write { offset, .. } => Some(offset / 65_536),
            _ => None,
        });
        transfers.collect()
    };
    let visited = offsets(&events[start.unwrap()..]);
    let (reads, writes) = visited.split_at(16);
    assert_eq!(reads, writes);
    let mut sorted = reads.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..16).collect::<Vec<_>>());
    assert_ne!(sorted, reads);
}

// System calls on files under test, from a trace of strace, in a form that real IOzone and fsb can
// be compared in. Seeks are offsets here, not calls: a read after a seek and a pread are the same.
// Comments in the code name the other differences that are ignored; `docs/methods/iozone.md`
// describes them for users.

/// A call on a file under test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    /// Flags in order, and the mode where it creates.
    Open(BTreeSet<String>, Option<String>),
    Read {
        offset: u64,
        length: u64,
    },
    Write {
        offset: u64,
        length: u64,
    },
    Fsync,
    Close,
    Truncate(u64),
    Unlink,
    Map {
        length: u64,
        access: String,
        sharing: String,
    },
    Msync {
        length: u64,
        flags: String,
    },
    Unmap {
        length: u64,
    },
}

/// A call, its file, and the index of its descriptor among the open ones of the process (0 for the
/// oldest).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    file: String,
    descriptor: usize,
    call: Call,
}

/// Returns the calls of each process, in the order of their first call.
fn parse(text: &str, root: &str) -> Vec<Vec<Event>> {
    timed(text, root)
        .into_iter()
        .map(|events| events.into_iter().map(|(_, event)| event).collect())
        .collect()
}

/// Returns the calls of all processes in the order of time: a worker of fsb uses the files, and its
/// coordinator removes them.
fn in_time(text: &str, root: &str) -> Vec<Event> {
    let mut events = timed(text, root).concat();
    events.sort_by_key(|(line, _)| *line);
    events.into_iter().map(|(_, event)| event).collect()
}

/// Like [`parse`], each call with the number of its line.
fn timed(text: &str, root: &str) -> Vec<Vec<(usize, Event)>> {
    let mut order: Vec<String> = Vec::new();
    let mut processes: BTreeMap<String, Process> = BTreeMap::new();
    let mut lines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#'))
    {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let (id, rest) = line.split_at(digits);
        if !order.iter().any(|known| known == id) {
            order.push(id.to_owned());
        }
        let process = processes.entry(id.to_owned()).or_default();
        process.line(rest.trim_start(), root);
        lines
            .entry(id.to_owned())
            .or_default()
            .resize(process.events.len(), number);
    }
    let events = |id: String| {
        Some(
            lines
                .remove(&id)?
                .into_iter()
                .zip(processes.remove(&id)?.events)
                .collect(),
        )
    };
    order.into_iter().filter_map(events).collect()
}

#[derive(Default)]
struct Process {
    events: Vec<Event>,
    /// File and offset by descriptor.
    open: BTreeMap<i64, (String, u64)>,
    /// Address, length and file of mappings. In real traces all mappings have the same address.
    maps: Vec<(String, u64, String)>,
    unfinished: String,
}

impl Process {
    fn line(&mut self, line: &str, root: &str) {
        if let Some((begun, _)) = line.split_once(" <unfinished ...>") {
            self.unfinished = begun.to_owned();
            return;
        }
        let resumed = line
            .strip_prefix("<... ")
            .and_then(|rest| rest.split_once(" resumed>"));
        let whole = resumed.map_or_else(
            || line.to_owned(),
            |(_, rest)| format!("{}{rest}", self.unfinished),
        );
        let Some((call, result)) = whole.rsplit_once(" = ") else {
            return;
        };
        let Some((name, arguments)) = call.trim_end().split_once('(') else {
            return;
        };
        let arguments: Vec<&str> = arguments
            .strip_suffix(')')
            .unwrap_or(arguments)
            .split(", ")
            .collect();
        let value = result.split_whitespace().next().unwrap_or_default();
        // IOzone closes a descriptor twice and seeks before the start of the file: both calls fail
        // and change nothing.
        if !value.starts_with('-') {
            self.call(name, &arguments, value, root);
        }
    }

    fn call(&mut self, name: &str, arguments: &[&str], value: &str, root: &str) {
        match name {
            "openat" | "open" | "creat" => self.opened(name, arguments, value, root),
            "unlink" | "unlinkat" => {
                if let Some(file) = arguments.iter().find_map(|argument| under(argument, root)) {
                    self.events.push(Event {
                        file,
                        descriptor: 0,
                        call: Call::Unlink,
                    });
                }
            }
            "msync" | "munmap" => self.mapped(name, arguments),
            "mmap" => self.maps_in(arguments, value),
            _ => self.on_descriptor(name, arguments, value),
        }
    }

    fn opened(&mut self, name: &str, arguments: &[&str], value: &str, root: &str) {
        let arguments = if name == "openat" {
            &arguments[1..]
        } else {
            arguments
        };
        let Some(file) = under(arguments[0], root) else {
            return;
        };
        let (flags, mode) = match name {
            "creat" => ("O_WRONLY|O_CREAT|O_TRUNC", arguments.get(1)),
            _ => (arguments[1], arguments.get(2)),
        };
        // Ignore close-on-exec flags, and the flag that the C library adds for large files.
        let flags: BTreeSet<String> = flags
            .split('|')
            .filter(|flag| !["O_CLOEXEC", "O_LARGEFILE"].contains(flag))
            .map(str::to_owned)
            .collect();
        let mode = mode
            .filter(|_| flags.contains("O_CREAT"))
            .map(|mode| (*mode).to_owned());
        self.open.insert(value.parse().unwrap(), (file, 0));
        self.push(value.parse().unwrap(), Call::Open(flags, mode));
    }

    fn push(&mut self, descriptor: i64, call: Call) {
        let Some((file, _)) = self.open.get(&descriptor) else {
            return;
        };
        let place = self
            .open
            .keys()
            .position(|known| *known == descriptor)
            .unwrap();
        self.events.push(Event {
            file: file.clone(),
            descriptor: place,
            call,
        });
    }

    fn on_descriptor(&mut self, name: &str, arguments: &[&str], value: &str) {
        let Ok(descriptor) = arguments[0].parse::<i64>() else {
            return;
        };
        let Some((_, place)) = self.open.get_mut(&descriptor) else {
            return;
        };
        let value: u64 = value.parse().unwrap_or(0);
        let at = *place;
        let explicit = || arguments[3].parse().unwrap();
        let call = match name {
            "lseek" => {
                *place = value;
                return;
            }
            "read" | "write" => {
                *place += value;
                if name == "read" {
                    Call::Read {
                        offset: at,
                        length: value,
                    }
                } else {
                    Call::Write {
                        offset: at,
                        length: value,
                    }
                }
            }
            "pread64" => Call::Read {
                offset: explicit(),
                length: value,
            },
            "pwrite64" => Call::Write {
                offset: explicit(),
                length: value,
            },
            "fsync" => Call::Fsync,
            "ftruncate" => Call::Truncate(arguments[1].parse().unwrap()),
            "close" => Call::Close,
            _ => return,
        };
        self.push(descriptor, call.clone());
        if call == Call::Close {
            self.open.remove(&descriptor);
        }
    }

    fn maps_in(&mut self, arguments: &[&str], address: &str) {
        let Ok(descriptor) = arguments[4].parse::<i64>() else {
            return;
        };
        let Some((file, _)) = self.open.get(&descriptor).cloned() else {
            return;
        };
        let length = arguments[1].parse().unwrap();
        self.maps.push((address.to_owned(), length, file));
        let (access, sharing) = (arguments[2].to_owned(), arguments[3].to_owned());
        self.push(
            descriptor,
            Call::Map {
                length,
                access,
                sharing,
            },
        );
    }

    /// Handles msync and munmap; ignores memory that is not mapped from a file under test.
    fn mapped(&mut self, name: &str, arguments: &[&str]) {
        let length: u64 = arguments[1].parse().unwrap();
        let (address, same) = (arguments[0], |known: &str| {
            known == "ADDR" || known == arguments[0]
        });
        let within = |(start, size, _): &&(String, u64, String)| {
            same(start)
                || hex(address)
                    .zip(hex(start))
                    .is_some_and(|(at, start)| (start..start + size).contains(&at))
        };
        let Some((_, size, file)) = self.maps.iter().find(within).cloned() else {
            return;
        };
        let call = match name {
            "msync" => Call::Msync {
                length,
                flags: arguments[2].to_owned(),
            },
            _ if length == size => Call::Unmap { length },
            _ => return,
        };
        if matches!(call, Call::Unmap { .. }) {
            self.maps
                .retain(|(start, size, _)| !(same(start) && *size == length));
        }
        self.events.push(Event {
            file,
            descriptor: 0,
            call,
        });
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the name below `root`, if the argument is a path there. The directory itself is not one:
/// the tool tries O_DIRECT there on a file without a name, before anything is measured.
fn under(argument: &str, root: &str) -> Option<String> {
    let path = argument.strip_prefix('"')?.strip_suffix('"')?;
    let name = path.strip_prefix(root)?.trim_start_matches('/');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Sorts the transfers of random passes: each visits every record once, in an order of IOzone or of
/// fsb. Such a pass opens the file for reading and writing, creates it, and does not sync it first.
fn sort_random(events: &mut [Event]) {
    let mut at = 0;
    while at < events.len() {
        let random = matches!(&events[at].call, Call::Open(flags, _) if flags.contains("O_RDWR") && flags.contains("O_CREAT"))
            && events
                .get(at + 1)
                .is_some_and(|event| is_transfer(&event.call));
        at += 1;
        if random {
            let length = events[at..]
                .iter()
                .take_while(|event| is_transfer(&event.call))
                .count();
            events[at..at + length].sort_by(|a, b| a.call.cmp(&b.call));
        }
    }
}

fn is_transfer(call: &Call) -> bool {
    matches!(call, Call::Read { .. } | Call::Write { .. })
}
