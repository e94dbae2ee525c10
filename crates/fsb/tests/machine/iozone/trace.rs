//! System calls on files under test, from a trace of strace, in a form that real IOzone and fsb can be compared in.
//!
//! Seeks are offsets here, not calls: a read after a seek and a pread are the same. Comments in the code name the other
//! differences that are ignored; `docs/methods/iozone.md` describes them for users.

use std::collections::{BTreeMap, BTreeSet};

/// A call on a file under test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
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

/// A call, its file, and the index of its descriptor among the open ones of the process (0 for the oldest).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub file: String,
    pub descriptor: usize,
    pub call: Call,
}

/// Returns the calls of each process, in the order of their first call.
pub fn parse(text: &str, root: &str) -> Vec<Vec<Event>> {
    timed(text, root).into_iter().map(|events| events.into_iter().map(|(_, event)| event).collect()).collect()
}

/// Returns the calls of all processes in the order of time: a worker of fsb uses the files, and its coordinator removes
/// them.
pub fn in_time(text: &str, root: &str) -> Vec<Event> {
    let mut events = timed(text, root).concat();
    events.sort_by_key(|(line, _)| *line);
    events.into_iter().map(|(_, event)| event).collect()
}

/// Like [`parse`], each call with the number of its line.
fn timed(text: &str, root: &str) -> Vec<Vec<(usize, Event)>> {
    let mut order: Vec<String> = Vec::new();
    let mut processes: BTreeMap<String, Process> = BTreeMap::new();
    let mut lines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let (id, rest) = line.split_at(digits);
        if !order.iter().any(|known| known == id) {
            order.push(id.to_owned());
        }
        let process = processes.entry(id.to_owned()).or_default();
        process.line(rest.trim_start(), root);
        lines.entry(id.to_owned()).or_default().resize(process.events.len(), number);
    }
    let events = |id: String| Some(lines.remove(&id)?.into_iter().zip(processes.remove(&id)?.events).collect());
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
        let resumed = line.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>"));
        let whole = resumed.map_or_else(|| line.to_owned(), |(_, rest)| format!("{}{rest}", self.unfinished));
        let Some((call, result)) = whole.rsplit_once(" = ") else { return };
        let Some((name, arguments)) = call.trim_end().split_once('(') else { return };
        let arguments: Vec<&str> = arguments.strip_suffix(')').unwrap_or(arguments).split(", ").collect();
        let value = result.split_whitespace().next().unwrap_or_default();
        // IOzone closes a descriptor twice and seeks before the start of the file: both calls fail and change nothing.
        if !value.starts_with('-') {
            self.call(name, &arguments, value, root);
        }
    }

    fn call(&mut self, name: &str, arguments: &[&str], value: &str, root: &str) {
        match name {
            "openat" | "open" | "creat" => self.opened(name, arguments, value, root),
            "unlink" | "unlinkat" => {
                if let Some(file) = arguments.iter().find_map(|argument| under(argument, root)) {
                    self.events.push(Event { file, descriptor: 0, call: Call::Unlink });
                }
            }
            "msync" | "munmap" => self.mapped(name, arguments),
            "mmap" => self.maps_in(arguments, value),
            _ => self.on_descriptor(name, arguments, value),
        }
    }

    fn opened(&mut self, name: &str, arguments: &[&str], value: &str, root: &str) {
        let arguments = if name == "openat" { &arguments[1..] } else { arguments };
        let Some(file) = under(arguments[0], root) else { return };
        let (flags, mode) = match name {
            "creat" => ("O_WRONLY|O_CREAT|O_TRUNC", arguments.get(1)),
            _ => (arguments[1], arguments.get(2)),
        };
        // Ignore close-on-exec flags, and the flag that the C library adds for large files.
        let flags: BTreeSet<String> =
            flags.split('|').filter(|flag| !["O_CLOEXEC", "O_LARGEFILE"].contains(flag)).map(str::to_owned).collect();
        let mode = mode.filter(|_| flags.contains("O_CREAT")).map(|mode| (*mode).to_owned());
        self.open.insert(value.parse().unwrap(), (file, 0));
        self.push(value.parse().unwrap(), Call::Open(flags, mode));
    }

    fn push(&mut self, descriptor: i64, call: Call) {
        let Some((file, _)) = self.open.get(&descriptor) else { return };
        let place = self.open.keys().position(|known| *known == descriptor).unwrap();
        self.events.push(Event { file: file.clone(), descriptor: place, call });
    }

    fn on_descriptor(&mut self, name: &str, arguments: &[&str], value: &str) {
        let Ok(descriptor) = arguments[0].parse::<i64>() else { return };
        let Some((_, place)) = self.open.get_mut(&descriptor) else { return };
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
                    Call::Read { offset: at, length: value }
                } else {
                    Call::Write { offset: at, length: value }
                }
            }
            "pread64" => Call::Read { offset: explicit(), length: value },
            "pwrite64" => Call::Write { offset: explicit(), length: value },
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
        let Ok(descriptor) = arguments[4].parse::<i64>() else { return };
        let Some((file, _)) = self.open.get(&descriptor).cloned() else { return };
        let length = arguments[1].parse().unwrap();
        self.maps.push((address.to_owned(), length, file));
        let (access, sharing) = (arguments[2].to_owned(), arguments[3].to_owned());
        self.push(descriptor, Call::Map { length, access, sharing });
    }

    /// Handles msync and munmap; ignores memory that is not mapped from a file under test.
    fn mapped(&mut self, name: &str, arguments: &[&str]) {
        let length: u64 = arguments[1].parse().unwrap();
        let (address, same) = (arguments[0], |known: &str| known == "ADDR" || known == arguments[0]);
        let within = |(start, size, _): &&(String, u64, String)| {
            same(start) || hex(address).zip(hex(start)).is_some_and(|(at, start)| (start..start + size).contains(&at))
        };
        let Some((_, size, file)) = self.maps.iter().find(within).cloned() else { return };
        let call = match name {
            "msync" => Call::Msync { length, flags: arguments[2].to_owned() },
            _ if length == size => Call::Unmap { length },
            _ => return,
        };
        if matches!(call, Call::Unmap { .. }) {
            self.maps.retain(|(start, size, _)| !(same(start) && *size == length));
        }
        self.events.push(Event { file, descriptor: 0, call });
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the name below `root`, if the argument is a path there. The directory itself is not one: the tool tries
/// O_DIRECT there on a file without a name, before anything is measured.
fn under(argument: &str, root: &str) -> Option<String> {
    let path = argument.strip_prefix('"')?.strip_suffix('"')?;
    let name = path.strip_prefix(root)?.trim_start_matches('/');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Sorts the transfers of random passes: each visits every record once, in an order of IOzone or of fsb. Such a pass
/// opens the file for reading and writing, creates it, and does not sync it first.
pub fn sort_random(events: &mut [Event]) {
    let mut at = 0;
    while at < events.len() {
        let random = matches!(&events[at].call, Call::Open(flags, _) if flags.contains("O_RDWR") && flags.contains("O_CREAT"))
            && events.get(at + 1).is_some_and(|event| is_transfer(&event.call));
        at += 1;
        if random {
            let length = events[at..].iter().take_while(|event| is_transfer(&event.call)).count();
            events[at..at + length].sort_by(|a, b| a.call.cmp(&b.call));
        }
    }
}

fn is_transfer(call: &Call) -> bool {
    matches!(call, Call::Read { .. } | Call::Write { .. })
}
