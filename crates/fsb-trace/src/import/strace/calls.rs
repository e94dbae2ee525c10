//! The meaning of calls, by their names.

use super::line::{Call, text};
use crate::call::{CallKind, flags};
use crate::resolve::{AT_CWD, RawCall, Shared};

#[derive(Debug)]
pub(super) enum Meaning {
    File(Owned),
    Make(Shared),
    Wait,
    Execute,
    Directory(i32, Option<Vec<u8>>),
    CloseOnExec(i32, bool),
    CloseRange(i32, i32),
    Uring,
    Asynchronous,
}

/// A call on files, with its own paths.
#[derive(Debug)]
pub(super) struct Owned {
    raw: RawCall<'static>,
    path: Option<Vec<u8>>,
    second: Option<Vec<u8>>,
}

impl Owned {
    pub(super) fn raw(&self) -> RawCall<'_> {
        RawCall { path: self.path.as_deref(), second: self.second.as_deref(), ..self.raw.clone() }
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
        if word == "AT_FDCWD" { Some(AT_CWD) } else { word.parse().ok() }
    }

    fn number(&self, at: usize) -> Option<u64> {
        let word = self.word(at)?;
        if let Some(hex) = word.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16).ok();
        }
        if word.len() > 1 && word.starts_with('0') {
            return u64::from_str_radix(word, 8).ok();
        }
        word.parse::<u64>().ok().or_else(|| word.parse::<i64>().ok().map(|number| number as u64))
    }

    fn has(&self, at: usize, flag: &str) -> bool {
        self.word(at).is_some_and(|word| word.split(['|', '=', ',', '{', '}', ' ']).any(|one| one == flag))
    }

    fn path(&self, at: usize) -> Option<Vec<u8>> {
        text(self.word(at)?)
    }

    fn on(&self, kind: CallKind) -> Option<RawCall<'static>> {
        Some(RawCall { fd: self.fd(0)?, ..RawCall::new(kind) })
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
        known.iter().filter(|(name, _)| self.has(at, name)).fold(0, |all, (_, flag)| all | flag)
    }
}

fn file(raw: RawCall<'static>) -> Option<Meaning> {
    Some(Meaning::File(Owned { raw, path: None, second: None }))
}

fn named(raw: RawCall<'static>, path: Vec<u8>) -> Option<Meaning> {
    Some(Meaning::File(Owned { raw, path: Some(path), second: None }))
}

fn shared(call: &Call<'_>) -> Shared {
    let has = |flag: &str| call.arguments.iter().any(|word| word.contains(flag));
    Shared { files: has("CLONE_FILES"), directory: has("CLONE_FS") }
}

/// Returns the properties that a new process shares, if the text begins a call that creates one.
pub(super) fn makes(text: &str) -> Option<Shared> {
    let name = text.split('(').next()?;
    let has = |flag: &str| text.contains(flag);
    let is = matches!(name, "clone" | "clone3" | "fork" | "vfork");
    is.then(|| Shared { files: has("CLONE_FILES"), directory: has("CLONE_FS") })
}

/// Returns the meaning of a call, or `None` if it concerns neither files nor processes.
pub(super) fn meaning(call: &Call<'_>) -> Option<Meaning> {
    let at = At(call);
    let result = call.result;
    // Vectored calls count as complete: the log does not give the requested length, only the result.
    let length = |place: usize| at.number(place).unwrap_or(result.max(0) as u64);
    let moved = |kind: CallKind| Some(RawCall { length: length(2), ..at.on(kind)? });
    let pieces = |kind: CallKind| Some(RawCall { length: result.max(0) as u64, ..at.on(kind)? });
    let placed = |raw: Option<RawCall<'static>>| Some(RawCall { offset: Some(at.number(3)?), ..raw? });
    let name = |kind: CallKind, place: usize| named(RawCall::new(kind), at.path(place)?);
    let name_at = |kind: CallKind| {
        let path = at.path(1)?;
        let mut raw = at.on(kind)?;
        if !path.is_empty() {
            return named(raw, path);
        }
        raw.kind = if kind == CallKind::StatName { CallKind::Stat } else { CallKind::Attributes };
        file(raw)
    };
    let names = |kind: CallKind, [directory, path, other, second]: [Option<usize>; 4], flags: u32| {
        let fd = |place: Option<usize>| place.map_or(Some(AT_CWD), |place| at.fd(place));
        let raw = RawCall { fd: fd(directory)?, other: fd(other)?, flags, ..RawCall::new(kind) };
        Some(Meaning::File(Owned { raw, path: Some(at.path(path?)?), second: Some(at.path(second?)?) }))
    };
    let opens = |raw: RawCall<'static>, path: Vec<u8>, place: usize| {
        let flags = at.open_flags(place);
        let close_on_exec = at.has(place, "O_CLOEXEC");
        named(RawCall { flags, close_on_exec, length: at.number(place + 1).unwrap_or(0o644), ..raw }, path)
    };
    let attributes = |raw: Option<RawCall<'static>>, flags: u32| file(RawCall { flags, ..raw? });
    match call.name {
        "open" => opens(RawCall::new(CallKind::Open), at.path(0)?, 1),
        "openat" | "openat2" => opens(at.on(CallKind::Open)?, at.path(1)?, 2),
        "creat" => {
            let flags = flags::CREATE | flags::WRITE | flags::TRUNCATE;
            named(RawCall { flags, length: 0o644, ..RawCall::new(CallKind::Open) }, at.path(0)?)
        }
        "close" => file(at.on(CallKind::Close)?),
        "close_range" => Some(Meaning::CloseRange(at.fd(0)?, at.number(1)?.min(i32::MAX as u64) as i32)),
        "dup" | "dup2" => file(at.on(CallKind::Duplicate)?),
        "dup3" => file(RawCall { close_on_exec: at.has(2, "O_CLOEXEC"), ..at.on(CallKind::Duplicate)? }),
        "fcntl" | "fcntl64" => match at.word(1)? {
            "F_DUPFD" => file(at.on(CallKind::Duplicate)?),
            "F_DUPFD_CLOEXEC" => file(RawCall { close_on_exec: true, ..at.on(CallKind::Duplicate)? }),
            "F_SETFD" => Some(Meaning::CloseOnExec(at.fd(0)?, at.has(2, "FD_CLOEXEC"))),
            _ => None,
        },
        "read" => file(moved(CallKind::Read)?),
        "write" => file(moved(CallKind::Write)?),
        "readv" => file(pieces(CallKind::Read)?),
        "writev" => file(pieces(CallKind::Write)?),
        "pread64" | "pread" => file(placed(moved(CallKind::ReadAt))?),
        "pwrite64" | "pwrite" => file(placed(moved(CallKind::WriteAt))?),
        "preadv" | "preadv2" => file(placed(pieces(CallKind::ReadAt))?),
        "pwritev" | "pwritev2" => file(placed(pieces(CallKind::WriteAt))?),
        "lseek" | "_llseek" => {
            let whence = ["SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"];
            let flags = whence.iter().position(|word| at.has(2, word)).unwrap_or_default() as u32;
            file(RawCall { offset: Some(at.number(1)?), flags, ..at.on(CallKind::Seek)? })
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
        "ftruncate" | "ftruncate64" => file(RawCall { length: at.number(1)?, ..at.on(CallKind::Truncate)? }),
        "truncate" | "truncate64" => {
            named(RawCall { length: at.number(1)?, ..RawCall::new(CallKind::TruncateName) }, at.path(0)?)
        }
        "fallocate" => {
            let known = [("FALLOC_FL_KEEP_SIZE", 1), ("FALLOC_FL_PUNCH_HOLE", 2), ("FALLOC_FL_ZERO_RANGE", 16)];
            let flags = known.iter().filter(|(name, _)| at.has(1, name)).fold(0, |all, (_, flag)| all | flag);
            file(RawCall { offset: Some(at.number(2)?), length: at.number(3)?, flags, ..at.on(CallKind::Allocate)? })
        }
        "rename" => names(CallKind::Rename, [None, Some(0), None, Some(1)], 0),
        "renameat" => names(CallKind::Rename, [Some(0), Some(1), Some(2), Some(3)], 0),
        "renameat2" => {
            let flag = |name: &str, flag: u32| if at.has(4, name) { flag } else { 0 };
            let flags = flag("RENAME_NOREPLACE", flags::NO_REPLACE) | flag("RENAME_EXCHANGE", flags::EXCHANGE);
            names(CallKind::Rename, [Some(0), Some(1), Some(2), Some(3)], flags)
        }
        "unlink" => name(CallKind::Unlink, 0),
        "rmdir" => name(CallKind::RemoveDirectory, 0),
        "unlinkat" if at.has(2, "AT_REMOVEDIR") => name_at(CallKind::RemoveDirectory),
        "unlinkat" => name_at(CallKind::Unlink),
        "mkdir" => named(RawCall { length: 0o755, ..RawCall::new(CallKind::MakeDirectory) }, at.path(0)?),
        "mkdirat" => named(RawCall { length: 0o755, ..at.on(CallKind::MakeDirectory)? }, at.path(1)?),
        "link" => names(CallKind::Link, [None, Some(0), None, Some(1)], 0),
        "linkat" => names(CallKind::Link, [Some(0), Some(1), Some(2), Some(3)], 0),
        "symlink" => names(CallKind::SymbolicLink, [None, Some(1), None, Some(0)], 0),
        "symlinkat" => names(CallKind::SymbolicLink, [Some(1), Some(2), None, Some(0)], 0),
        "stat" | "lstat" | "access" | "stat64" | "lstat64" => name(CallKind::StatName, 0),
        "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" => name_at(CallKind::StatName),
        "fstat" | "fstat64" => file(at.on(CallKind::Stat)?),
        "readlink" => name(CallKind::ReadLink, 0),
        "readlinkat" => named(at.on(CallKind::ReadLink)?, at.path(1)?),
        "getdents64" | "getdents" => file(RawCall { length: length(2), ..at.on(CallKind::List)? }),
        "copy_file_range" => file(RawCall { other: at.fd(2)?, length: at.number(4)?, ..at.on(CallKind::Copy)? }),
        "sendfile" | "sendfile64" => {
            let raw = RawCall { fd: at.fd(1)?, other: at.fd(0)?, flags: flags::SEND, ..RawCall::new(CallKind::Copy) };
            file(RawCall { length: at.number(3)?, ..raw })
        }
        "ioctl" if at.has(1, "FICLONE") => {
            file(RawCall { fd: at.fd(2)?, other: at.fd(0)?, flags: flags::CLONE, ..RawCall::new(CallKind::Copy) })
        }
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
        "fadvise64" => file(RawCall { offset: at.number(1), length: at.number(2)?, ..at.on(CallKind::Advise)? }),
        "fchmod" => attributes(at.on(CallKind::Attributes), flags::MODE),
        "fchown" => attributes(at.on(CallKind::Attributes), flags::OWNER),
        "chmod" => named(RawCall { flags: flags::MODE, ..RawCall::new(CallKind::AttributesName) }, at.path(0)?),
        "chown" | "lchown" => {
            named(RawCall { flags: flags::OWNER, ..RawCall::new(CallKind::AttributesName) }, at.path(0)?)
        }
        "utime" | "utimes" => {
            named(RawCall { flags: flags::TIMES, ..RawCall::new(CallKind::AttributesName) }, at.path(0)?)
        }
        "fchmodat" => named(RawCall { flags: flags::MODE, ..at.on(CallKind::AttributesName)? }, at.path(1)?),
        "fchownat" => named(RawCall { flags: flags::OWNER, ..at.on(CallKind::AttributesName)? }, at.path(1)?),
        "utimensat" if at.word(1) == Some("NULL") => attributes(at.on(CallKind::Attributes), flags::TIMES),
        "utimensat" => named(RawCall { flags: flags::TIMES, ..at.on(CallKind::AttributesName)? }, at.path(1)?),
        "chdir" => Some(Meaning::Directory(AT_CWD, Some(at.path(0)?))),
        "fchdir" => Some(Meaning::Directory(at.fd(0)?, None)),
        "clone" | "clone3" | "fork" | "vfork" => Some(Meaning::Make(shared(call))),
        "wait4" | "waitid" | "waitpid" => Some(Meaning::Wait),
        "execve" | "execveat" => Some(Meaning::Execute),
        "io_uring_setup" => Some(Meaning::Uring),
        "io_submit" => Some(Meaning::Asynchronous),
        _ => None,
    }
}
