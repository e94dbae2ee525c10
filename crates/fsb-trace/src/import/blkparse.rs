//! blkparse's text of a block trace. The requests of processes to a device become reads and writes
//! of one file.
//!
//! A disk is larger than its accessed part. Pieces of a mebibyte follow each other in the file in
//! the order of their first access, so that neighbours within a piece stay neighbours.

use std::collections::HashMap;
use std::io::BufRead;

use super::importer::{each, nanoseconds};
use super::{Any, Imported, Importer};
use crate::call::{CallKind, flags};
use crate::resolve::{Past, RawCall, Resolver, Shared, Sink, Times};
use crate::{Remarks, TraceError, TraceNote};

pub(super) const IMPORTER: Importer = Importer {
    name: "blkparse",
    about: "its usual text",
    recognise: |head| {
        let text = String::from_utf8_lossy(head);
        text.lines()
            .take(3)
            .any(|line| Event::parse(line).is_some())
    },
    read,
};

const SECTOR: u64 = 512;
const PIECE: u64 = 1 << 20;

/// A line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event<'l> {
    device: &'l str,
    time_ns: u64,
    process: u32,
    action: &'l str,
    how: &'l str,
    sector: u64,
    sectors: u64,
}

impl Event<'_> {
    /// Parses `8,0 1 12 0.000123456 4711 Q WS 2048 + 8 [app]`. A flush has no sectors.
    fn parse(line: &str) -> Option<Event<'_>> {
        let words: Vec<&str> = line.split_whitespace().take(10).collect();
        let [device, _, _, time, process, action, how, rest @ ..] = &words[..] else {
            return None;
        };
        let (major, minor) = device.split_once(',')?;
        let _ = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
        let (sector, sectors) = match rest {
            [sector, "+", sectors, ..] => (sector.parse().ok()?, sectors.parse().ok()?),
            _ => (0, 0),
        };
        let process = process.parse().ok()?;
        Some(Event {
            device,
            time_ns: nanoseconds(time)?,
            process,
            action,
            how,
            sector,
            sectors,
        })
    }
}

fn read(from: &mut dyn BufRead, _: &[u8], sink: &mut dyn Sink) -> Result<Imported, TraceError> {
    let mut sink = Any(sink);
    let mut log = Log::default();
    let mut skipped = 0;
    each(from, |_, text| match Event::parse(text) {
        Some(event) => log.event(&event, &mut sink),
        None => {
            skipped += u64::from(!text.is_empty());
            Ok(())
        }
    })?;
    log.finish(&mut sink)?;
    let Remarks {
        incomplete,
        mut notes,
    } = log.resolver.finish(&mut sink)?;
    notes.push(TraceNote::DeviceRequests.into());
    Ok(Imported {
        tasks: log.resolver.tasks(),
        incomplete,
        notes,
        skipped,
        ..Imported::default()
    })
}

/// A request that was queued and is not done.
struct Queued {
    process: u32,
    kind: CallKind,
    offset: u64,
    length: u64,
    start_ns: u64,
}

struct Log {
    resolver: Resolver<Past>,
    first: Option<u32>,
    open: HashMap<String, i32>,
    pieces: HashMap<u64, u64>,
    queued: HashMap<(u64, bool), Queued>,
    last_ns: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log {
            resolver: Resolver::new(b"/", Past),
            first: None,
            open: HashMap::new(),
            pieces: HashMap::new(),
            queued: HashMap::new(),
            last_ns: 0,
        }
    }
}

impl Log {
    fn event(&mut self, event: &Event<'_>, sink: &mut Any<'_>) -> Result<(), TraceError> {
        self.last_ns = self.last_ns.max(event.time_ns);
        let writes = event.how.contains('W');
        let key = (event.sector, writes);
        match event.action {
            "Q" if event.sectors == 0 && event.how.contains('F') => {
                self.process(event, sink)?;
                let flush = Queued {
                    process: event.process,
                    kind: CallKind::DataSync,
                    offset: 0,
                    length: 0,
                    start_ns: event.time_ns,
                };
                self.make(&flush, event.time_ns, sink)
            }
            "Q" if event.sectors > 0 && (writes || event.how.contains('R')) => {
                self.process(event, sink)?;
                let kind = if writes {
                    CallKind::WriteAt
                } else {
                    CallKind::ReadAt
                };
                let (offset, length) = (
                    self.place(event.sector),
                    event.sectors.saturating_mul(SECTOR),
                );
                let queued = Queued {
                    process: event.process,
                    kind,
                    offset,
                    length,
                    start_ns: event.time_ns,
                };
                match self.queued.insert(key, queued) {
                    Some(lost) => self.make(&lost, event.time_ns, sink),
                    None => Ok(()),
                }
            }
            "C" => match self.queued.remove(&key) {
                Some(queued) => self.make(&queued, event.time_ns, sink),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Returns the offset of a sector in the file.
    fn place(&mut self, sector: u64) -> u64 {
        let at = sector.saturating_mul(SECTOR);
        let next = self.pieces.len() as u64;
        *self.pieces.entry(at / PIECE).or_insert(next) * PIECE + at % PIECE
    }

    /// Registers a process that was not seen before. All processes share the descriptor of the
    /// device.
    fn process(&mut self, event: &Event<'_>, sink: &mut Any<'_>) -> Result<(), TraceError> {
        let first = *self.first.get_or_insert(event.process);
        if !self.resolver.knows(event.process) {
            if first == event.process {
                self.resolver.task(first, b"/");
            } else {
                let shared = Shared {
                    files: true,
                    directory: true,
                };
                self.resolver
                    .spawn(first, event.process, shared, event.time_ns, sink)?;
            }
        }
        if !self.open.contains_key(event.device) {
            let fd = self.open.len() as i32;
            self.open.insert(event.device.to_owned(), fd);
            let path = format!("device-{}", event.device.replace(',', "-"));
            let flags = flags::READ | flags::WRITE;
            let raw = RawCall {
                path: Some(path.as_bytes()),
                flags,
                length: 0o644,
                ..RawCall::new(CallKind::Open)
            };
            if let Some(begun) = self.resolver.begin(first, &raw, sink)? {
                let times = Times {
                    start_ns: event.time_ns,
                    ..Times::default()
                };
                self.resolver
                    .end(first, begun, i64::from(fd), times, sink)?;
            }
        }
        Ok(())
    }

    fn make(&mut self, queued: &Queued, end_ns: u64, sink: &mut Any<'_>) -> Result<(), TraceError> {
        let Queued {
            process,
            kind,
            offset,
            length,
            start_ns,
        } = *queued;
        let raw = RawCall {
            fd: 0,
            offset: Some(offset),
            length,
            ..RawCall::new(kind)
        };
        let times = Times {
            start_ns,
            took_ns: end_ns.saturating_sub(start_ns),
            lost_ns: 0,
        };
        let result = if kind.moves() { length as i64 } else { 0 };
        match self.resolver.begin(process, &raw, sink)? {
            Some(begun) => self.resolver.end(process, begun, result, times, sink),
            None => Ok(()),
        }
    }

    /// Adds the requests whose end was not seen.
    fn finish(&mut self, sink: &mut Any<'_>) -> Result<(), TraceError> {
        let mut left: Vec<Queued> = std::mem::take(&mut self.queued).into_values().collect();
        left.sort_by_key(|queued| queued.start_ns);
        left.iter()
            .try_for_each(|queued| self.make(queued, queued.start_ns, sink))
    }
}
