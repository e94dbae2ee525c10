//! fio's logs of I/O, `write_iolog=FILE`: version 2 without times, version 3 with microseconds
//! since the start of the job (fio 3.33).

use std::collections::HashMap;
use std::io::BufRead;

use super::importer::{LATEST, each};
use super::{Any, Imported, Importer};
use crate::call::{CallKind, flags};
use crate::resolve::{Past, RawCall, Resolver, Sink, Times};
use crate::{Remarks, TraceError, TraceNote};

pub(super) const IMPORTER: Importer = Importer {
    name: "fio",
    about: "write_iolog, version 2 or 3",
    recognise: |head| {
        head.starts_with(b"fio version 2 iolog") || head.starts_with(b"fio version 3 iolog")
    },
    read,
};

/// Begins to write the range, and does not wait.
const SYNC_FILE_RANGE_WRITE: u32 = 2;

/// The process of all calls.
const TASK: u32 = 1;

fn read(from: &mut dyn BufRead, _: &[u8], sink: &mut dyn Sink) -> Result<Imported, TraceError> {
    let mut sink = Any(sink);
    let mut log = Log {
        resolver: Resolver::new(b"/", Past),
        files: HashMap::new(),
        timed: false,
        now: 0,
        moved: 0,
    };
    log.resolver.task(TASK, b"/");
    each(from, |line, text| {
        if line == 1 {
            log.timed = text.starts_with("fio version 3");
            return Ok(());
        }
        match text.is_empty() {
            true => Ok(()),
            false => log.line(text, &mut sink)?.ok_or_else(|| TraceError::Line {
                line,
                message: "it is not a line of an iolog".to_owned(),
            }),
        }
    })?;
    log.resolver.exit(TASK, log.now, &mut sink)?;
    let Remarks {
        incomplete,
        mut notes,
    } = log.resolver.finish(&mut sink)?;
    if !log.timed {
        notes.push(TraceNote::NoTimes.into());
    }
    Ok(Imported {
        tasks: 1,
        incomplete,
        notes,
        ..Imported::default()
    })
}

struct Log {
    resolver: Resolver<Past>,
    files: HashMap<String, i32>,
    timed: bool,
    now: u64,
    moved: u64,
}

impl Log {
    /// Imports a line. Returns `None` if it is not a line of the log.
    fn line(&mut self, text: &str, sink: &mut Any<'_>) -> Result<Option<()>, TraceError> {
        let mut words = text.split_whitespace();
        if self.timed {
            let Some(time_us) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
                return Ok(None);
            };
            self.now = self.now.max(time_us.saturating_mul(1000).min(LATEST));
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else {
            return Ok(None);
        };
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (first, second) = (number(), number());
        if action == "wait" {
            // Microseconds, in place of the offset.
            let waited = first.unwrap_or_default().saturating_mul(1000);
            self.now = self.now.saturating_add(waited).min(LATEST);
            return Ok(Some(()));
        }
        if action == "add" {
            return Ok(Some(()));
        }
        let fd = match self.files.get(file) {
            Some(fd) => *fd,
            None => self.open(file, sink)?,
        };
        let on = |kind: CallKind| RawCall {
            fd,
            ..RawCall::new(kind)
        };
        let moves = |kind: CallKind| {
            Some(RawCall {
                offset: Some(first?),
                length: second?,
                ..on(kind)
            })
        };
        let raw = match action {
            "open" => return Ok(Some(())),
            "close" => {
                self.files.remove(file);
                Some(on(CallKind::Close))
            }
            "read" => moves(CallKind::ReadAt),
            "write" => moves(CallKind::WriteAt),
            // A hole, and the file keeps its size.
            "trim" => moves(CallKind::Allocate).map(|raw| RawCall { flags: 3, ..raw }),
            "sync" => Some(on(CallKind::Sync)),
            "datasync" => Some(on(CallKind::DataSync)),
            // The log has neither the range nor the flags: the whole file, as with
            // sync_file_range=write:N.
            "sync_file_range" => Some(RawCall {
                offset: Some(0),
                flags: SYNC_FILE_RANGE_WRITE,
                ..on(CallKind::SyncRange)
            }),
            _ => None,
        };
        let Some(raw) = raw else { return Ok(None) };
        let result = if raw.kind.moves() {
            raw.length as i64
        } else {
            0
        };
        self.moved += u64::from(raw.kind.moves());
        self.make(&raw, result, sink)?;
        Ok(Some(()))
    }

    fn open(&mut self, file: &str, sink: &mut Any<'_>) -> Result<i32, TraceError> {
        let fd = (0..)
            .find(|fd| self.files.values().all(|used| used != fd))
            .unwrap_or_default();
        self.files.insert(file.to_owned(), fd);
        let flags = flags::READ | flags::WRITE;
        let raw = RawCall {
            path: Some(file.as_bytes()),
            flags,
            length: 0o644,
            ..RawCall::new(CallKind::Open)
        };
        self.make(&raw, i64::from(fd), sink)?;
        Ok(fd)
    }

    fn make(
        &mut self,
        raw: &RawCall<'_>,
        result: i64,
        sink: &mut Any<'_>,
    ) -> Result<(), TraceError> {
        let times = Times {
            start_ns: self.now,
            ..Times::default()
        };
        if let Some(begun) = self.resolver.begin(TASK, raw, sink)? {
            self.resolver.end(TASK, begun, result, times, sink)?;
        }
        Ok(())
    }
}
