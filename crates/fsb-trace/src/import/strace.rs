//! strace's logs: `strace -f -ttt -T -o FILE`, with or without `-y`.

use std::collections::HashMap;
use std::io::BufRead;

use super::importer::{each, nanoseconds};
use super::{Any, Imported, Importer};
use crate::call::{CallKind, flags, normal};
use crate::resolve::{AT_CWD, Past, RawCall, Resolver, Shared, Sink, Times};
use crate::{Remarks, TraceError, TraceNote, Unseen};

pub(super) const IMPORTER: Importer = Importer {
    name: "strace",
    about: "-f -ttt -T",
    recognise: |head| {
        let text = String::from_utf8_lossy(head);
        text.lines()
            .take(5)
            .filter_map(Line::parse)
            .any(|line| matches!(line.what, What::Call(_) | What::Begun(_)))
    },
    read,
};

fn read(from: &mut dyn BufRead, root: &[u8], sink: &mut dyn Sink) -> Result<Imported, TraceError> {
    let mut log = Log {
        resolver: Resolver::new(root, Past),
        directory: normal(b"/", root),
        begun: HashMap::new(),
        making: Vec::new(),
        origin_ns: None,
    };
    let (mut skipped, mut sink) = (0, Any(sink));
    each(from, |_, text| match Line::parse(text) {
        Some(line) => log.line(line, &mut sink),
        None => {
            skipped += u64::from(!text.is_empty());
            Ok(())
        }
    })?;
    let Remarks {
        incomplete,
        mut notes,
    } = log.resolver.finish(&mut sink)?;
    notes.push(TraceNote::SizesAreLowerBounds.into());
    let (tasks, outside) = (log.resolver.tasks(), log.resolver.outside());
    Ok(Imported {
        tasks,
        outside,
        incomplete,
        notes,
        skipped,
    })
}

struct Log {
    resolver: Resolver<Past>,
    directory: Vec<u8>,
    /// The beginnings of calls that others interrupted, by process.
    begun: HashMap<u32, (u64, String)>,
    /// The processes that are creating another one, and the properties that both share.
    making: Vec<(u32, Shared)>,
    origin_ns: Option<u64>,
}

impl Log {
    fn line(&mut self, line: Line<'_>, sink: &mut Any<'_>) -> Result<(), TraceError> {
        let origin = *self.origin_ns.get_or_insert(line.time_ns);
        let now = line.time_ns.saturating_sub(origin);
        let process = line.process;
        self.meet(process, now, sink)?;
        match line.what {
            What::Ended => self.resolver.exit(process, now, sink),
            What::Other => Ok(()),
            What::Begun(text) => {
                if let Some(shared) = makes(text) {
                    self.making.push((process, shared));
                }
                self.begun.insert(process, (now, text.to_owned()));
                Ok(())
            }
            What::Resumed(rest) => match self.begun.remove(&process) {
                Some((start, begin)) => self.call(
                    process,
                    start,
                    &format!("{begin}{rest}"),
                    line.took_ns,
                    sink,
                ),
                None => Ok(()),
            },
            What::Call(text) => self.call(process, now, text, line.took_ns, sink),
        }
    }

    /// Registers a process that was not seen before as the child of a process that is creating one.
    fn meet(&mut self, process: u32, now: u64, sink: &mut Any<'_>) -> Result<(), TraceError> {
        if self.resolver.knows(process) {
            return Ok(());
        }
        match self.making.pop() {
            Some((parent, shared)) if parent != process => {
                self.resolver.spawn(parent, process, shared, now, sink)
            }
            _ => {
                self.resolver.task(process, &self.directory);
                Ok(())
            }
        }
    }

    fn call(
        &mut self,
        process: u32,
        start_ns: u64,
        text: &str,
        took_ns: u64,
        sink: &mut Any<'_>,
    ) -> Result<(), TraceError> {
        let Some(call) = Call::parse(text) else {
            return Ok(());
        };
        let times = Times {
            start_ns,
            took_ns,
            lost_ns: 0,
        };
        let worked = call.result >= 0;
        match meaning(&call) {
            None => Ok(()),
            Some(Meaning::File(owned)) => match self.resolver.begin(process, &owned.raw(), sink)? {
                Some(begun) => self.resolver.end(process, begun, call.result, times, sink),
                None => Ok(()),
            },
            Some(Meaning::Make(shared)) if worked => {
                self.making.retain(|(parent, _)| *parent != process);
                let child = u32::try_from(call.result).unwrap_or_default();
                if child == 0 || self.resolver.knows(child) {
                    return Ok(());
                }
                self.resolver.spawn(process, child, shared, start_ns, sink)
            }
            Some(Meaning::Wait) if call.result > 0 => self.resolver.wait(
                process,
                u32::try_from(call.result).unwrap_or_default(),
                times,
                sink,
            ),
            Some(Meaning::Execute) if worked => self.resolver.exec(process, start_ns, sink),
            Some(Meaning::Directory(fd, path)) if worked => {
                self.resolver.change_directory(process, fd, path.as_deref());
                Ok(())
            }
            Some(Meaning::CloseOnExec(fd, closes)) if worked => {
                self.resolver.close_on_exec(process, fd, closes);
                Ok(())
            }
            Some(Meaning::CloseRange(first, last)) if worked => {
                self.resolver
                    .close_range(process, (first, last), false, start_ns, sink)
            }
            Some(Meaning::Copies(copies)) => {
                for raw in copies {
                    if let Some(begun) = self.resolver.begin(process, &raw, sink)? {
                        self.resolver
                            .end(process, begun, call.result, times, sink)?;
                    }
                }
                Ok(())
            }
            Some(Meaning::Hides(what)) => {
                self.resolver.unseen(what);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line<'l> {
    process: u32,
    time_ns: u64,
    took_ns: u64,
    what: What<'l>,
}

/// The content of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum What<'l> {
    /// A whole call: `name(arguments) = result`.
    Call(&'l str),
    /// A call that others interrupt: `name(arguments`.
    Begun(&'l str),
    /// The remainder of an interrupted call.
    Resumed(&'l str),
    /// The process has ended.
    Ended,
    /// A signal.
    Other,
}

impl Line<'_> {
    fn parse(text: &str) -> Option<Line<'_>> {
        let mut text = text.trim();
        let mut process = 0;
        if let Some(rest) = text.strip_prefix("[pid") {
            let (number, rest) = rest.split_once(']')?;
            (process, text) = (number.trim().parse().ok()?, rest.trim_start());
        } else if let Some((number, rest)) = text.split_once(' ')
            && !number.contains('.')
            && let Ok(number) = number.parse()
        {
            (process, text) = (number, rest.trim_start());
        }
        let (time, rest) = text.split_once(' ')?;
        let time_ns = time.contains('.').then(|| nanoseconds(time))??;
        let rest = rest.trim();
        if rest.starts_with("+++ ") {
            return Some(Line {
                process,
                time_ns,
                took_ns: 0,
                what: What::Ended,
            });
        }
        if rest.starts_with("--- ") || rest.starts_with("strace: ") {
            return Some(Line {
                process,
                time_ns,
                took_ns: 0,
                what: What::Other,
            });
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            return Some(Line {
                process,
                time_ns,
                took_ns: 0,
                what: What::Begun(begun.trim_end()),
            });
        }
        let (body, took_ns) = match rest.rsplit_once(" <") {
            Some((body, took)) if took.ends_with('>') => {
                (body, nanoseconds(&took[..took.len() - 1])?)
            }
            _ => (rest, 0),
        };
        let what = match body.strip_prefix("<... ") {
            Some(resumed) => What::Resumed(resumed.split_once(" resumed>")?.1),
            None => {
                let name = body.split_once('(')?.0;
                let is_name = !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                What::Call(is_name.then_some(body)?)
            }
        };
        Some(Line {
            process,
            time_ns,
            took_ns,
            what,
        })
    }
}

/// A call, cut into its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call<'l> {
    name: &'l str,
    arguments: Vec<&'l str>,
    result: i64,
}

impl Call<'_> {
    fn parse(text: &str) -> Option<Call<'_>> {
        let (name, rest) = text.split_once('(')?;
        let (arguments, after) = cut(rest)?;
        let result = after.trim_start().strip_prefix('=')?.trim();
        let mut words = result.split_whitespace();
        let number = words.next()?;
        let result = match number.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
            // With -y, strace prints a path after a descriptor.
            None => number.split('<').next()?.parse().ok()?,
        };
        let result = if result == -1 {
            -i64::from(error(words.next()?))
        } else {
            result
        };
        Some(Call {
            name,
            arguments,
            result,
        })
    }
}

/// Splits the arguments up to the closing bracket. Returns them and the text after it.
fn cut(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut arguments, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[begin..at].trim();
                if !last.is_empty() || !arguments.is_empty() {
                    arguments.push(last);
                }
                return Some((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                arguments.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// Decodes a text as strace writes it, with its escapes. Returns `None` if strace shortened it.
fn text(argument: &str) -> Option<Vec<u8>> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while at < inner.len() {
        let byte = inner[at];
        at += 1;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let escape = *inner.get(at)?;
        at += 1;
        match escape {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            b'x' => {
                let digits = std::str::from_utf8(inner.get(at..at + 2)?).ok()?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                at += 2;
            }
            b'0'..=b'7' => {
                let mut number = u32::from(escape - b'0');
                for _ in 0..2 {
                    let Some(digit @ b'0'..=b'7') = inner.get(at).copied() else {
                        break;
                    };
                    number = number * 8 + u32::from(digit - b'0');
                    at += 1;
                }
                out.push(number as u8);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

/// Returns the number of an error, as Linux defines it on most machines.
fn error(name: &str) -> i32 {
    const NAMES: [(&str, i32); 26] = [
        ("EPERM", 1),
        ("ENOENT", 2),
        ("EINTR", 4),
        ("EIO", 5),
        ("EBADF", 9),
        ("EAGAIN", 11),
        ("ENOMEM", 12),
        ("EACCES", 13),
        ("EFAULT", 14),
        ("EBUSY", 16),
        ("EEXIST", 17),
        ("EXDEV", 18),
        ("ENOTDIR", 20),
        ("EISDIR", 21),
        ("EINVAL", 22),
        ("EMFILE", 24),
        ("ENOTTY", 25),
        ("EFBIG", 27),
        ("ENOSPC", 28),
        ("ESPIPE", 29),
        ("EROFS", 30),
        ("EMLINK", 31),
        ("ENAMETOOLONG", 36),
        ("ENOTEMPTY", 39),
        ("ELOOP", 40),
        ("EOPNOTSUPP", 95),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map_or(5, |(_, number)| *number)
}

#[derive(Debug)]
enum Meaning {
    File(Owned),
    /// Several copies by one call.
    Copies(Vec<RawCall<'static>>),
    Make(Shared),
    Wait,
    Execute,
    Directory(i32, Option<Vec<u8>>),
    CloseOnExec(i32, bool),
    CloseRange(i32, i32),
    /// Later calls or data that the log lacks.
    Hides(Unseen),
}

/// A call on files, with its own paths.
#[derive(Debug)]
struct Owned {
    raw: RawCall<'static>,
    path: Option<Vec<u8>>,
    second: Option<Vec<u8>>,
}

impl Owned {
    fn raw(&self) -> RawCall<'_> {
        RawCall {
            path: self.path.as_deref(),
            second: self.second.as_deref(),
            ..self.raw.clone()
        }
    }
}

/// The arguments of a call, by position.
struct At<'c>(&'c Call<'c>);

impl At<'_> {
    fn word(&self, at: usize) -> Option<&str> {
        self.0.arguments.get(at).copied()
    }

    fn fd(&self, at: usize) -> Option<i32> {
        let word = self.word(at)?;
        // With -y, strace prints a path after the number.
        let word = word.split('<').next()?;
        if word == "AT_FDCWD" {
            Some(AT_CWD)
        } else {
            word.parse().ok()
        }
    }

    fn number(&self, at: usize) -> Option<u64> {
        let word = self.word(at)?;
        if let Some(hex) = word.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16).ok();
        }
        if word.len() > 1 && word.starts_with('0') {
            return u64::from_str_radix(word, 8).ok();
        }
        word.parse::<u64>()
            .ok()
            .or_else(|| word.parse::<i64>().ok().map(|number| number as u64))
    }

    fn flag(&self, at: usize, name: &str, bit: u32) -> u32 {
        if self.has(at, name) { bit } else { 0 }
    }

    fn has(&self, at: usize, flag: &str) -> bool {
        self.word(at).is_some_and(|word| {
            word.split(['|', '=', ',', '{', '}', ' '])
                .any(|one| one == flag)
        })
    }

    /// Returns the offset that an argument points to: `[8192]`, or `[0] => [1000]` if the call
    /// changes it.
    fn pointed(&self, at: usize) -> Option<u64> {
        self.word(at)?
            .strip_prefix('[')?
            .split(']')
            .next()?
            .parse()
            .ok()
    }

    /// Returns the value of a field of a structure.
    fn field(&self, at: usize, name: &str) -> Option<u64> {
        field(self.word(at)?, name)
    }

    /// Returns the flags RWF_* of a write.
    fn write_flags(&self, at: usize) -> u32 {
        let known = [
            ("RWF_DSYNC", flags::DATA_SYNC),
            ("RWF_SYNC", flags::SYNC),
            ("RWF_APPEND", flags::APPEND),
        ];
        known
            .iter()
            .filter(|(name, _)| self.has(at, name))
            .fold(0, |all, (_, flag)| all | flag)
    }

    fn path(&self, at: usize) -> Option<Vec<u8>> {
        text(self.word(at)?)
    }

    fn on(&self, kind: CallKind) -> Option<RawCall<'static>> {
        Some(RawCall {
            fd: self.fd(0)?,
            ..RawCall::new(kind)
        })
    }

    fn open_flags(&self, at: usize) -> u32 {
        let known = [
            ("O_RDONLY", flags::READ),
            ("O_WRONLY", flags::WRITE),
            ("O_RDWR", flags::READ | flags::WRITE),
            ("O_CREAT", flags::CREATE),
            ("O_EXCL", flags::EXCLUSIVE),
            ("O_TRUNC", flags::TRUNCATE),
            ("O_APPEND", flags::APPEND),
            ("O_DIRECT", flags::DIRECT),
            ("O_SYNC", flags::SYNC),
            ("O_DSYNC", flags::DATA_SYNC),
            ("O_DIRECTORY", flags::DIRECTORY),
            ("O_NOFOLLOW", flags::NO_FOLLOW),
            ("O_PATH", flags::PATH),
            ("O_TMPFILE", flags::TEMPORARY),
        ];
        known
            .iter()
            .filter(|(name, _)| self.has(at, name))
            .fold(0, |all, (_, flag)| all | flag)
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let (_, rest) = text.split_once(&format!("{name}="))?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

fn file(raw: RawCall<'static>) -> Option<Meaning> {
    Some(Meaning::File(Owned {
        raw,
        path: None,
        second: None,
    }))
}

fn named(raw: RawCall<'static>, path: Vec<u8>) -> Option<Meaning> {
    Some(Meaning::File(Owned {
        raw,
        path: Some(path),
        second: None,
    }))
}

fn shared(call: &Call<'_>) -> Shared {
    let [files, directory] = ["CLONE_FILES", "CLONE_FS"]
        .map(|flag| call.arguments.iter().any(|word| word.contains(flag)));
    Shared { files, directory }
}

/// Returns the properties that a new process shares, if the text begins a call that creates one.
fn makes(text: &str) -> Option<Shared> {
    let name = text.split('(').next()?;
    let is = matches!(name, "clone" | "clone3" | "fork" | "vfork");
    is.then(|| Shared {
        files: text.contains("CLONE_FILES"),
        directory: text.contains("CLONE_FS"),
    })
}

/// Returns the meaning of a call, or `None` if it concerns neither files nor processes.
fn meaning(call: &Call<'_>) -> Option<Meaning> {
    let at = At(call);
    let result = call.result;
    // Vectored calls count as complete: the log does not give the requested length, only the
    // result.
    let length = |place: usize| at.number(place).unwrap_or(result.max(0) as u64);
    let moved = |kind: CallKind| {
        Some(RawCall {
            length: length(2),
            ..at.on(kind)?
        })
    };
    let pieces = |kind: CallKind| {
        Some(RawCall {
            length: result.max(0) as u64,
            ..at.on(kind)?
        })
    };
    let placed = |raw: Option<RawCall<'static>>| {
        Some(RawCall {
            offset: Some(at.number(3)?),
            ..raw?
        })
    };
    let name = |kind: CallKind, place: usize| named(RawCall::new(kind), at.path(place)?);
    let name_at = |kind: CallKind| {
        let path = at.path(1)?;
        let mut raw = at.on(kind)?;
        if !path.is_empty() {
            return named(raw, path);
        }
        raw.kind = if kind == CallKind::StatName {
            CallKind::Stat
        } else {
            CallKind::Attributes
        };
        file(raw)
    };
    let names =
        |kind: CallKind, [directory, path, other, second]: [Option<usize>; 4], flags: u32| {
            let fd = |place: Option<usize>| place.map_or(Some(AT_CWD), |place| at.fd(place));
            let raw = RawCall {
                fd: fd(directory)?,
                other: fd(other)?,
                flags,
                ..RawCall::new(kind)
            };
            Some(Meaning::File(Owned {
                raw,
                path: Some(at.path(path?)?),
                second: Some(at.path(second?)?),
            }))
        };
    let opens = |raw: RawCall<'static>, path: Vec<u8>, place: usize| {
        let flags = at.open_flags(place);
        let close_on_exec = at.has(place, "O_CLOEXEC");
        named(
            RawCall {
                flags,
                close_on_exec,
                length: at.number(place + 1).unwrap_or(0o644),
                ..raw
            },
            path,
        )
    };
    let attributes = |raw: Option<RawCall<'static>>, flags: u32| file(RawCall { flags, ..raw? });
    match call.name {
        "open" => opens(RawCall::new(CallKind::Open), at.path(0)?, 1),
        "openat" | "openat2" => opens(at.on(CallKind::Open)?, at.path(1)?, 2),
        "creat" => {
            let flags = flags::CREATE | flags::WRITE | flags::TRUNCATE;
            named(
                RawCall {
                    flags,
                    length: 0o644,
                    ..RawCall::new(CallKind::Open)
                },
                at.path(0)?,
            )
        }
        "close" => file(at.on(CallKind::Close)?),
        "close_range" => Some(Meaning::CloseRange(
            at.fd(0)?,
            at.number(1)?.min(i32::MAX as u64) as i32,
        )),
        "dup" | "dup2" => file(at.on(CallKind::Duplicate)?),
        "dup3" => file(RawCall {
            close_on_exec: at.has(2, "O_CLOEXEC"),
            ..at.on(CallKind::Duplicate)?
        }),
        "fcntl" | "fcntl64" => match at.word(1)? {
            "F_DUPFD" => file(at.on(CallKind::Duplicate)?),
            "F_DUPFD_CLOEXEC" => file(RawCall {
                close_on_exec: true,
                ..at.on(CallKind::Duplicate)?
            }),
            "F_SETFD" => Some(Meaning::CloseOnExec(at.fd(0)?, at.has(2, "FD_CLOEXEC"))),
            _ => None,
        },
        "read" => file(moved(CallKind::Read)?),
        "write" => file(moved(CallKind::Write)?),
        "readv" => file(pieces(CallKind::Read)?),
        "writev" => file(pieces(CallKind::Write)?),
        "pread64" | "pread" => file(placed(moved(CallKind::ReadAt))?),
        "pwrite64" | "pwrite" => file(placed(moved(CallKind::WriteAt))?),
        "preadv2" if at.word(3) == Some("-1") => file(pieces(CallKind::Read)?),
        "preadv" | "preadv2" => file(placed(pieces(CallKind::ReadAt))?),
        "pwritev2" if at.word(3) == Some("-1") => file(RawCall {
            flags: at.write_flags(4),
            ..pieces(CallKind::Write)?
        }),
        "pwritev" | "pwritev2" => file(RawCall {
            flags: at.write_flags(4),
            ..placed(pieces(CallKind::WriteAt))?
        }),
        "lseek" | "_llseek" => {
            let whence = ["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"];
            let flags = whence
                .iter()
                .position(|word| at.has(2, word))
                .unwrap_or_default() as u32;
            file(RawCall {
                offset: Some(at.number(1)?),
                flags,
                ..at.on(CallKind::Seek)?
            })
        }
        "fsync" => file(at.on(CallKind::Sync)?),
        "fdatasync" => file(at.on(CallKind::DataSync)?),
        "syncfs" => file(at.on(CallKind::SyncFileSystem)?),
        "sync" => file(RawCall::new(CallKind::SyncFileSystem)),
        "sync_file_range" => file(RawCall {
            offset: Some(at.number(1)?),
            length: at.number(2)?,
            flags: 7,
            ..at.on(CallKind::SyncRange)?
        }),
        "ftruncate" | "ftruncate64" => file(RawCall {
            length: at.number(1)?,
            ..at.on(CallKind::Truncate)?
        }),
        "truncate" | "truncate64" => named(
            RawCall {
                length: at.number(1)?,
                ..RawCall::new(CallKind::TruncateName)
            },
            at.path(0)?,
        ),
        "fallocate" => {
            let known = [
                ("FALLOC_FL_KEEP_SIZE", 1),
                ("FALLOC_FL_PUNCH_HOLE", 2),
                ("FALLOC_FL_ZERO_RANGE", 16),
            ];
            let flags = known
                .iter()
                .filter(|(name, _)| at.has(1, name))
                .fold(0, |all, (_, flag)| all | flag);
            file(RawCall {
                offset: Some(at.number(2)?),
                length: at.number(3)?,
                flags,
                ..at.on(CallKind::Allocate)?
            })
        }
        "rename" => names(CallKind::Rename, [None, Some(0), None, Some(1)], 0),
        "renameat" => names(CallKind::Rename, [Some(0), Some(1), Some(2), Some(3)], 0),
        "renameat2" => {
            let flags = at.flag(4, "RENAME_NOREPLACE", flags::NO_REPLACE)
                | at.flag(4, "RENAME_EXCHANGE", flags::EXCHANGE);
            names(
                CallKind::Rename,
                [Some(0), Some(1), Some(2), Some(3)],
                flags,
            )
        }
        "unlink" => name(CallKind::Unlink, 0),
        "rmdir" => name(CallKind::RemoveDirectory, 0),
        "unlinkat" if at.has(2, "AT_REMOVEDIR") => name_at(CallKind::RemoveDirectory),
        "unlinkat" => name_at(CallKind::Unlink),
        "mkdir" => named(
            RawCall {
                length: 0o755,
                ..RawCall::new(CallKind::MakeDirectory)
            },
            at.path(0)?,
        ),
        "mkdirat" => named(
            RawCall {
                length: 0o755,
                ..at.on(CallKind::MakeDirectory)?
            },
            at.path(1)?,
        ),
        "link" => names(CallKind::Link, [None, Some(0), None, Some(1)], 0),
        "linkat" => names(CallKind::Link, [Some(0), Some(1), Some(2), Some(3)], 0),
        "symlink" => names(CallKind::SymbolicLink, [None, Some(1), None, Some(0)], 0),
        "symlinkat" => names(CallKind::SymbolicLink, [Some(1), Some(2), None, Some(0)], 0),
        "stat" | "lstat" | "access" | "stat64" | "lstat64" => name(CallKind::StatName, 0),
        "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" => {
            name_at(CallKind::StatName)
        }
        "fstat" | "fstat64" => file(at.on(CallKind::Stat)?),
        "readlink" => name(CallKind::ReadLink, 0),
        "readlinkat" => named(at.on(CallKind::ReadLink)?, at.path(1)?),
        "getdents64" | "getdents" => file(RawCall {
            length: length(2),
            ..at.on(CallKind::List)?
        }),
        "mmap" | "mmap2" if at.fd(4).is_some_and(|fd| fd >= 0) => {
            let stores = at.has(2, "PROT_WRITE") && at.has(3, "MAP_SHARED");
            let flags = if stores { flags::SHARED_WRITABLE } else { 0 };
            file(RawCall {
                fd: at.fd(4)?,
                offset: at.number(5),
                length: at.number(1)?,
                flags,
                ..RawCall::new(CallKind::Map)
            })
        }
        "msync" => {
            let flags = if at.has(2, "MS_SYNC") { flags::WAIT } else { 0 };
            file(RawCall {
                offset: at.number(0),
                length: at.number(1)?,
                flags,
                ..RawCall::new(CallKind::SyncMapping)
            })
        }
        "fadvise64" => file(RawCall {
            offset: at.number(1),
            length: at.number(2)?,
            ..at.on(CallKind::Advise)?
        }),
        "fchmod" => attributes(at.on(CallKind::Attributes), flags::MODE),
        "fchown" => attributes(at.on(CallKind::Attributes), flags::OWNER),
        "chmod" => named(
            RawCall {
                flags: flags::MODE,
                ..RawCall::new(CallKind::AttributesName)
            },
            at.path(0)?,
        ),
        "chown" | "lchown" => named(
            RawCall {
                flags: flags::OWNER,
                ..RawCall::new(CallKind::AttributesName)
            },
            at.path(0)?,
        ),
        "utime" | "utimes" => named(
            RawCall {
                flags: flags::TIMES,
                ..RawCall::new(CallKind::AttributesName)
            },
            at.path(0)?,
        ),
        "fchmodat" => named(
            RawCall {
                flags: flags::MODE,
                ..at.on(CallKind::AttributesName)?
            },
            at.path(1)?,
        ),
        "fchownat" => named(
            RawCall {
                flags: flags::OWNER,
                ..at.on(CallKind::AttributesName)?
            },
            at.path(1)?,
        ),
        "utimensat" if at.word(1) == Some("NULL") => {
            attributes(at.on(CallKind::Attributes), flags::TIMES)
        }
        "utimensat" => named(
            RawCall {
                flags: flags::TIMES,
                ..at.on(CallKind::AttributesName)?
            },
            at.path(1)?,
        ),
        "chdir" => Some(Meaning::Directory(AT_CWD, Some(at.path(0)?))),
        "fchdir" => Some(Meaning::Directory(at.fd(0)?, None)),
        "clone" | "clone3" | "fork" | "vfork" => Some(Meaning::Make(shared(call))),
        "wait4" | "waitid" | "waitpid" => Some(Meaning::Wait),
        "execve" | "execveat" => Some(Meaning::Execute),
        "io_uring_setup" => Some(Meaning::Hides(Unseen::Uring)),
        "io_submit" => Some(Meaning::Hides(Unseen::Asynchronous)),
        "mknod" if result >= 0 && at.has(1, "S_IFREG") => Some(Meaning::Hides(Unseen::Outside)),
        "mknodat" if result >= 0 && at.has(2, "S_IFREG") => Some(Meaning::Hides(Unseen::Outside)),
        _ => copies(&at).or_else(|| extended_attribute(&at)),
    }
}

/// Returns the meaning of a call that moves data between two descriptors.
fn copies(at: &At<'_>) -> Option<Meaning> {
    let copy = |from: Option<i32>, to: Option<i32>, flags: u32| {
        Some(RawCall {
            fd: from?,
            other: to?,
            flags,
            ..RawCall::new(CallKind::Copy)
        })
    };
    match at.0.name {
        "copy_file_range" | "splice" => {
            let raw = RawCall {
                offset: at.pointed(1),
                target: at.pointed(3),
                ..copy(at.fd(0), at.fd(2), 0)?
            };
            file(RawCall {
                length: at.number(4)?,
                ..raw
            })
        }
        "sendfile" | "sendfile64" => {
            let raw = copy(at.fd(1), at.fd(0), flags::SEND)?;
            file(RawCall {
                offset: at.pointed(2),
                length: at.number(3)?,
                ..raw
            })
        }
        "ioctl" if at.has(1, "FICLONE") => file(copy(at.fd(2), at.fd(0), flags::CLONE)?),
        "ioctl" if at.has(1, "FICLONERANGE") => {
            let from = at.field(2, "src_fd").and_then(|fd| i32::try_from(fd).ok());
            let raw = copy(from, at.fd(0), flags::CLONE_RANGE)?;
            let (offset, target) = (at.field(2, "src_offset"), at.field(2, "dest_offset"));
            file(RawCall {
                offset,
                target,
                length: at.field(2, "src_length")?,
                ..raw
            })
        }
        "ioctl" if at.has(1, "FIDEDUPERANGE") => {
            let (offset, length) = (at.field(2, "src_offset"), at.field(2, "src_length")?);
            let destinations = at
                .word(2)?
                .split('{')
                .filter(|part| part.contains("dest_fd="));
            let copies = destinations.map(|part| {
                let to = field(part, "dest_fd").and_then(|fd| i32::try_from(fd).ok());
                let raw = copy(at.fd(0), to, flags::DEDUPLICATE)?;
                Some(RawCall {
                    offset,
                    length,
                    target: field(part, "dest_offset"),
                    ..raw
                })
            });
            copies.collect::<Option<Vec<_>>>().map(Meaning::Copies)
        }
        _ => None,
    }
}

/// Returns the meaning of a call that changes an extended attribute.
fn extended_attribute(at: &At<'_>) -> Option<Meaning> {
    let removes = at.0.name.contains("remove");

    let flags = if removes {
        flags::REMOVE
    } else {
        at.flag(4, "XATTR_CREATE", 1) | at.flag(4, "XATTR_REPLACE", 2)
    };
    let length = if removes { 0 } else { at.number(3)? };
    let (kind, fd, path) = match at.0.name {
        "setxattr" | "lsetxattr" | "removexattr" | "lremovexattr" => {
            (CallKind::SetAttributeName, AT_CWD, Some(at.path(0)?))
        }
        "fsetxattr" | "fremovexattr" => (CallKind::SetAttribute, at.fd(0)?, None),
        _ => return None,
    };
    let raw = RawCall {
        fd,
        length,
        flags,
        ..RawCall::new(kind)
    };
    Some(Meaning::File(Owned {
        raw,
        path,
        second: Some(at.path(1)?),
    }))
}
