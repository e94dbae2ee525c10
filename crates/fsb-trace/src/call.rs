//! One call, the properties of each kind of call, the states of names before the first call, and
//! the paths of names.

/// The version of traces that is written and read.
pub const VERSION: u16 = 1;

/// The kind of a call. The numbers are those on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CallKind {
    Open = 1,
    Close,
    Duplicate,
    Read,
    ReadAt,
    Write,
    WriteAt,
    Seek,
    Sync,
    DataSync,
    SyncRange,
    SyncFileSystem,
    Truncate,
    TruncateName,
    Allocate,
    Rename,
    Unlink,
    RemoveDirectory,
    MakeDirectory,
    Link,
    SymbolicLink,
    Stat,
    StatName,
    ReadLink,
    List,
    Copy,
    Attributes,
    AttributesName,
    Advise,
    Map,
    Spawn,
    Wait,
    Exit,
    Wake,
    Woken,
    SetAttribute,
    SetAttributeName,
    SyncMapping,
}

/// The fields of a call that carry information.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) handle: bool,
    pub(crate) other: bool,
    pub(crate) name: bool,
    pub(crate) second: bool,
    pub(crate) offset: bool,
    pub(crate) length: bool,
    pub(crate) flags: bool,
    pub(crate) target: bool,
}

/// The name, family and stored fields of a kind of call.
#[derive(Debug)]
pub struct About {
    pub kind: CallKind,
    /// The name that strace uses.
    pub name: &'static str,
    /// The family that a summary counts the kind in.
    pub family: &'static str,
    pub(crate) fields: Fields,
}

const fn about(
    kind: CallKind,
    name: &'static str,
    family: &'static str,
    letters: &'static [u8],
) -> About {
    let mut fields = Fields {
        handle: false,
        other: false,
        name: false,
        second: false,
        offset: false,
        length: false,
        flags: false,
        target: false,
    };
    let mut at = 0;
    while at < letters.len() {
        match letters[at] {
            b'h' => fields.handle = true,
            b'2' => fields.other = true,
            b'n' => fields.name = true,
            b's' => fields.second = true,
            b'o' => fields.offset = true,
            b'l' => fields.length = true,
            b't' => fields.target = true,
            _ => fields.flags = true,
        }
        at += 1;
    }
    About {
        kind,
        name,
        family,
        fields,
    }
}

/// Every kind, in the order of its numbers. Fields: h descriptor, 2 another one (or a lane), n
/// name, s second name, o offset, l length, f flags, t offset in the destination.
pub static ALL_KINDS: &[About] = &[
    about(CallKind::Open, "open", "open", b"hnlf"),
    about(CallKind::Close, "close", "close", b"h"),
    about(CallKind::Duplicate, "dup", "close", b"h2"),
    about(CallKind::Read, "read", "read", b"holf"),
    about(CallKind::ReadAt, "pread", "read", b"holf"),
    about(CallKind::Write, "write", "write", b"holf"),
    about(CallKind::WriteAt, "pwrite", "write", b"holf"),
    about(CallKind::Seek, "lseek", "seek", b"hof"),
    about(CallKind::Sync, "fsync", "sync", b"h"),
    about(CallKind::DataSync, "fdatasync", "sync", b"h"),
    about(CallKind::SyncRange, "sync_file_range", "sync", b"holf"),
    about(CallKind::SyncFileSystem, "syncfs", "sync", b"hf"),
    about(CallKind::Truncate, "ftruncate", "size", b"hl"),
    about(CallKind::TruncateName, "truncate", "size", b"nl"),
    about(CallKind::Allocate, "fallocate", "size", b"holf"),
    about(CallKind::Rename, "rename", "rename", b"nsf"),
    about(CallKind::Unlink, "unlink", "remove", b"n"),
    about(CallKind::RemoveDirectory, "rmdir", "remove", b"n"),
    about(CallKind::MakeDirectory, "mkdir", "make", b"nl"),
    about(CallKind::Link, "link", "make", b"ns"),
    about(CallKind::SymbolicLink, "symlink", "make", b"ns"),
    about(CallKind::Stat, "fstat", "stat", b"h"),
    about(CallKind::StatName, "stat", "stat", b"nf"),
    about(CallKind::ReadLink, "readlink", "stat", b"n"),
    about(CallKind::List, "getdents", "list", b"hl"),
    about(CallKind::Copy, "copy_file_range", "copy", b"h2olft"),
    about(CallKind::Attributes, "fchmod", "attributes", b"hf"),
    about(CallKind::AttributesName, "chmod", "attributes", b"nf"),
    about(CallKind::Advise, "fadvise", "advise", b"holf"),
    about(CallKind::Map, "mmap", "map", b"holf"),
    about(CallKind::Spawn, "clone", "process", b"2"),
    about(CallKind::Wait, "wait", "process", b"2"),
    about(CallKind::Exit, "exit", "process", b""),
    about(CallKind::Wake, "wake", "process", b"2"),
    // The lane that woke it, and after how many nanoseconds of waiting.
    about(CallKind::Woken, "woken", "process", b"2o"),
    // The second name is the one of the attribute.
    about(CallKind::SetAttribute, "fsetxattr", "attributes", b"hslf"),
    about(
        CallKind::SetAttributeName,
        "setxattr",
        "attributes",
        b"nslf",
    ),
    about(CallKind::SyncMapping, "msync", "sync", b"nolf"),
];

impl CallKind {
    /// Returns the properties of the kind.
    pub fn about(self) -> &'static About {
        &ALL_KINDS[self as usize - 1]
    }

    /// Returns the kind with that number.
    pub(crate) fn from_number(number: u8) -> Option<CallKind> {
        ALL_KINDS
            .get(usize::from(number).checked_sub(1)?)
            .map(|about| about.kind)
    }

    /// Returns whether it moves data between memory and a file. Its result is then the number of
    /// bytes moved.
    pub fn moves(self) -> bool {
        matches!(
            self,
            CallKind::Read | CallKind::ReadAt | CallKind::Write | CallKind::WriteAt
        )
    }

    /// Returns whether it uses the position of its descriptor.
    pub fn is_positional(self) -> bool {
        matches!(
            self,
            CallKind::Read | CallKind::Write | CallKind::Seek | CallKind::List
        )
    }

    /// Returns whether it has a name, and not a descriptor alone.
    pub fn is_about_names(self) -> bool {
        self.about().fields.name
    }

    /// Returns whether a replay makes the call. A replay leaves out the calls between processes,
    /// and mappings, because the accesses through a mapping are not recorded.
    pub fn is_replayed(self) -> bool {
        !matches!(
            self,
            CallKind::Spawn
                | CallKind::Wait
                | CallKind::Exit
                | CallKind::Wake
                | CallKind::Woken
                | CallKind::Map
        )
    }
}

/// The directory of a replay with the names outside the root that calls renamed or linked.
pub(crate) const OUTSIDE: &[u8] = b".fsb-outside";

/// The unit of lost time, in nanoseconds.
pub const LOST_UNIT: u64 = 64;

/// One call of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The lane that made it, from 0: a thread, or several that lived one after another.
    pub lane: u32,
    pub kind: CallKind,
    /// Nanoseconds from the beginning of the recording to its start.
    pub start_ns: u64,
    /// Nanoseconds that it took.
    pub took_ns: u64,
    /// Nanoseconds that recording itself took before it since the lane's last call, as far as the
    /// recorder knows: a multiple of [`LOST_UNIT`].
    pub lost_ns: u64,
    /// The return value: an amount, or a negative error number. 0 for calls that return a
    /// descriptor.
    pub result: i64,
    /// The descriptor that it is about, or makes; numbers are never used again. 0: none.
    pub handle: u32,
    /// Another descriptor (the source of a duplicate, the destination of a copy), or a lane.
    pub other: u32,
    /// The name that it is about; 0 is the root itself.
    pub name: u32,
    /// The other name: of a rename the new one, of a link the link, of a symbolic link the text.
    pub second: u32,
    /// The offset in the file. For a task that was woken, the nanoseconds from the start of its
    /// wait until then.
    pub offset: u64,
    /// The requested bytes, or the new size; of an open or mkdir the mode.
    pub length: u64,
    /// See [`flags`]; of a seek 0 from the start, 1 from there, 2 from the end.
    pub flags: u32,
    /// Of a copy: the offset in the destination.
    pub target: u64,
}

impl Call {
    /// Returns an empty call of a kind.
    pub fn new(kind: CallKind) -> Call {
        Call {
            lane: 0,
            kind,
            start_ns: 0,
            took_ns: 0,
            lost_ns: 0,
            result: 0,
            handle: 0,
            other: 0,
            name: 0,
            second: 0,
            offset: 0,
            length: 0,
            flags: 0,
            target: 0,
        }
    }

    /// Returns the name that strace uses. Calls of one kind have several names.
    pub fn name(&self) -> &'static str {
        match (self.kind, self.flags) {
            (CallKind::Copy, how) => match how & flags::HOW {
                flags::SEND => "sendfile",
                flags::CLONE => "FICLONE",
                flags::CLONE_RANGE => "FICLONERANGE",
                flags::DEDUPLICATE => "FIDEDUPERANGE",
                _ => "copy_file_range",
            },
            (CallKind::Attributes, flags::TIMES) => "futimens",
            (CallKind::Attributes, flags::OWNER) => "fchown",
            (CallKind::AttributesName, flags::TIMES) => "utimensat",
            (CallKind::AttributesName, flags::OWNER) => "chown",
            (CallKind::SetAttribute, flags::REMOVE) => "fremovexattr",
            (CallKind::SetAttributeName, flags::REMOVE) => "removexattr",
            (kind, _) => kind.about().name,
        }
    }

    /// Returns whether the call changes the position of its descriptor, or depends on it.
    pub fn uses_position(&self) -> bool {
        self.kind.is_positional() || self.kind == CallKind::Copy && self.copies_from_position()
    }

    /// Returns whether a copy begins at the position of its source.
    pub(crate) fn copies_from_position(&self) -> bool {
        self.flags & flags::HOW <= flags::SEND && self.flags & flags::FROM_OFFSET == 0
    }

    /// Returns whether a copy begins at the position of its destination.
    pub(crate) fn copies_to_position(&self) -> bool {
        self.flags & flags::HOW <= flags::SEND && self.flags & flags::TO_OFFSET == 0
    }

    /// Returns whether a copy adds the requested bytes, which is not its result.
    pub fn clones(&self) -> bool {
        self.kind == CallKind::Copy
            && matches!(self.flags & flags::HOW, flags::CLONE | flags::CLONE_RANGE)
    }

    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.took_ns)
    }

    /// Returns the number of bytes that it moved.
    pub fn moved(&self) -> u64 {
        if self.kind.moves() || self.kind == CallKind::Copy {
            self.result.max(0) as u64
        } else {
            0
        }
    }
}

/// Values of `flags`, the same on every machine.
pub mod flags {
    /// Open for reading.
    pub const READ: u32 = 1;
    /// Open for writing.
    pub const WRITE: u32 = 1 << 1;
    /// Create the file if it does not exist.
    pub const CREATE: u32 = 1 << 2;
    /// Fail if it exists.
    pub const EXCLUSIVE: u32 = 1 << 3;
    /// Empty it.
    pub const TRUNCATE: u32 = 1 << 4;
    /// All writes go to the end.
    pub const APPEND: u32 = 1 << 5;
    /// Past the page cache.
    pub const DIRECT: u32 = 1 << 6;
    /// Every write waits for the device, attributes too.
    pub const SYNC: u32 = 1 << 7;
    /// Every write waits for the device.
    pub const DATA_SYNC: u32 = 1 << 8;
    /// Directories only.
    pub const DIRECTORY: u32 = 1 << 9;
    /// Do not follow a symbolic link at the end.
    pub const NO_FOLLOW: u32 = 1 << 10;
    /// Only a place, not the file.
    pub const PATH: u32 = 1 << 11;
    /// A file without a name in that directory.
    pub const TEMPORARY: u32 = 1 << 12;
    /// The file was open before the recording began.
    pub const BEFORE: u32 = 1 << 13;

    /// Of reads and writes: the other side is a file or pipe outside the trace, and the kernel
    /// moved the data (copy_file_range, sendfile, splice, FICLONE). Writes also have [`APPEND`],
    /// [`SYNC`] and [`DATA_SYNC`] (RWF_*).
    pub const COPIED: u32 = 1 << 14;

    /// Of renames: fail if the new name exists.
    pub const NO_REPLACE: u32 = 1;
    /// Of renames: the names change places.
    pub const EXCHANGE: u32 = 2;
    /// Of copies: by sendfile, to the position of the destination.
    pub const SEND: u32 = 1;
    /// Of copies: as a shared extent (FICLONE).
    pub const CLONE: u32 = 2;
    /// Of copies: as a shared extent of a part (FICLONERANGE).
    pub const CLONE_RANGE: u32 = 3;
    /// Of copies: equal parts become a shared extent (FIDEDUPERANGE).
    pub const DEDUPLICATE: u32 = 4;
    /// Of copies: the bits of the values above.
    pub const HOW: u32 = 0xf;
    /// Of copies: the call has an offset in the source and leaves the position of the descriptor.
    pub const FROM_OFFSET: u32 = 1 << 4;
    /// Of copies: the call has an offset in the destination and leaves the position of the
    /// descriptor.
    pub const TO_OFFSET: u32 = 1 << 5;
    /// Of extended attributes: remove the attribute. The other values are XATTR_CREATE (1) and
    /// XATTR_REPLACE (2).
    pub const REMOVE: u32 = 4;
    /// Of msync: MS_SYNC, which waits for the data.
    pub const WAIT: u32 = 4;
    /// Of mappings: stores change the file.
    pub const SHARED_WRITABLE: u32 = 1;
    /// Of calls on attributes: permissions.
    pub const MODE: u32 = 0;
    /// Of calls on attributes: times.
    pub const TIMES: u32 = 1;
    /// Of calls on attributes: the owner.
    pub const OWNER: u32 = 2;
}

/// A name and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initial {
    pub name: u32,
    pub state: State,
}

/// The state of a name before the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Directory,
    /// A regular file.
    File {
        /// Bytes.
        size: u64,
        /// The ranges that held data, as offsets and lengths; `None` if the file had no holes.
        data: Option<Vec<(u64, u64)>>,
    },
    /// A symbolic link to another name below the same root, or to nothing that a replay needs.
    Link {
        to: Vec<u8>,
    },
    /// Another name of a file.
    Same {
        /// The name that came first.
        name: u32,
    },
}

/// Returns the absolute path of a path and the directory that it begins in. Resolves `.` and `..`
/// by text.
pub fn normal(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let begins = if path.starts_with(b"/") {
        &b""[..]
    } else {
        directory
    };
    for part in begins
        .split(|byte| *byte == b'/')
        .chain(path.split(|byte| *byte == b'/'))
    {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut whole = Vec::with_capacity(directory.len() + path.len() + 2);
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    if whole.is_empty() {
        b"/".to_vec()
    } else {
        whole
    }
}

/// Returns the name below `root` of an absolute path. Both are normalized.
pub(crate) fn below<'p>(root: &[u8], path: &'p [u8]) -> Option<&'p [u8]> {
    if root == b"/" {
        return path.strip_prefix(b"/");
    }
    match path.strip_prefix(root)? {
        b"" => Some(b""),
        rest => rest.strip_prefix(b"/"),
    }
}

/// Returns whether a name stays below the root in any tree whose links do not lead out: it is
/// empty, or of parts that are neither empty nor `.` nor `..`
pub fn is_inside(name: &[u8]) -> bool {
    name.len() < 4096
        && (name.is_empty()
            || name.split(|byte| *byte == b'/').all(|part| {
                !matches!(part, b"" | b"." | b"..") && !part.contains(&0) && part.len() <= 255
            }))
}

/// Returns whether the text of a symbolic link can be created: it leads only further down from the
/// link's directory.
pub(crate) fn leads_down(text: &[u8]) -> bool {
    !text.is_empty()
        && !text.starts_with(b"/")
        && !text.contains(&0)
        && text.split(|byte| *byte == b'/').all(|part| part != b"..")
}

/// Returns the directory of a name.
pub(crate) fn parent(name: &[u8]) -> &[u8] {
    name.iter()
        .rposition(|byte| *byte == b'/')
        .map_or(b"", |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_at_their_numbers() {
        for (at, about) in ALL_KINDS.iter().enumerate() {
            assert_eq!(about.kind as usize, at + 1, "{}", about.name);
            assert_eq!(CallKind::from_number(about.kind as u8), Some(about.kind));
        }
        assert_eq!(
            (
                CallKind::from_number(0),
                CallKind::from_number(ALL_KINDS.len() as u8 + 1)
            ),
            (None, None)
        );
    }

    #[test]
    fn paths_are_made_normal_by_text() {
        let of = |directory: &str, path: &str| {
            String::from_utf8(normal(directory.as_bytes(), path.as_bytes())).unwrap()
        };
        assert_eq!(of("/srv/data", "a//b/./c"), "/srv/data/a/b/c");
        assert_eq!(of("/srv/data", "../../../../etc"), "/etc");
        assert_eq!(of("/srv", "/x/../y/"), "/y");
        assert_eq!(of("/", "."), "/");
    }

    #[test]
    fn names_below_a_root_are_told_from_neighbours() {
        assert_eq!(below(b"/srv", b"/srv/a"), Some(&b"a"[..]));
        assert_eq!(below(b"/srv", b"/srv"), Some(&b""[..]));
        assert_eq!(below(b"/srv", b"/srv2/a"), None);
        assert_eq!(below(b"/", b"/etc/x"), Some(&b"etc/x"[..]));
    }

    #[test]
    fn paths_that_leave_the_root_are_found() {
        for inside in ["", "a", "a/b", "a/..b"] {
            assert!(is_inside(inside.as_bytes()), "{inside}");
        }
        for outside in ["/a", "..", "a/../b", "a//b", "a/", ".", "a\0b"] {
            assert!(!is_inside(outside.as_bytes()), "{outside}");
        }
        assert!(
            leads_down(b"a/b")
                && !leads_down(b"/etc")
                && !leads_down(b"a/../../b")
                && !leads_down(b"")
        );
        assert_eq!((parent(b"a/b/c"), parent(b"a")), (&b"a/b"[..], &b""[..]));
    }
}
