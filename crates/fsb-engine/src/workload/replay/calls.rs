//! Calls that are ready to be replayed, and the code that makes them.

use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use fsb_trace::{Call, CallKind, Skimmed, flags};
use rustix::fs::{AtFlags, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid};
use rustix::io::Errno;

use crate::data::{Data, DataSource, Memory};
use crate::error::EngineError;

/// The maximum number of bytes that one call moves. A replay shortens a larger call to this size.
pub(super) const MOST_MOVED: u64 = 64 << 20;
/// The most bytes that Linux moves in one call (0x7ffff000, write(2)).
const MOST_COPIED: u64 = 0x7fff_f000;
/// Descriptors that may be open at once.
const MOST_OPEN: usize = 1 << 20;
/// The permissions that a replayed chmod sets: traces lack the recorded ones, and workers enter
/// directories.
const CHANGED: Mode = Mode::from_raw_mode(0o755);

/// The component that makes the calls.
pub(super) trait Target: Sync {
    /// Makes one call. Returns its result; an error is a number below 0.
    fn call(&self, step: &ReplayStep, buffers: &mut Buffers) -> i64;

    /// Returns whether the target makes no calls, and every result is as recorded.
    fn is_nothing(&self) -> bool {
        false
    }

    /// Closes the descriptors that are open, in the table of the calling thread.
    fn close_all(&self) {}

    /// Describes the file of a call, for messages.
    fn name(&self, call: &Call) -> Box<str>;
}

/// A target that makes no calls.
pub(super) struct Nothing;

impl Target for Nothing {
    #[inline]
    fn call(&self, step: &ReplayStep, _: &mut Buffers) -> i64 {
        step.call.result
    }

    fn is_nothing(&self) -> bool {
        true
    }

    fn name(&self, _: &Call) -> Box<str> {
        Box::default()
    }
}

/// Memory that one thread moves data from and to.
pub(super) struct Buffers {
    data: Data,
    address: u64,
    read: Memory,
    largest: usize,
}

impl Buffers {
    pub(super) fn new(source: DataSource, rank: u32, largest: usize) -> Buffers {
        let address = u64::from(rank) << 40;
        Buffers {
            data: Data::new(source, largest),
            address,
            read: Memory::new(largest),
            largest,
        }
    }

    fn into(&mut self, length: u64) -> &mut [u8] {
        &mut self.read.as_mut()[..self
            .largest
            .min(usize::try_from(length).unwrap_or(usize::MAX))]
    }

    /// Returns the bytes that no earlier call has written, from the beginning of a page.
    fn from(&mut self, length: u64) -> &[u8] {
        let length = self
            .largest
            .min(usize::try_from(length).unwrap_or(usize::MAX));
        self.address += (length as u64).next_multiple_of(4096).max(4096);
        self.data.window(self.address, length)
    }
}

/// Makes sleeps of this thread end on time: by default the kernel adds 50 microseconds.
pub(super) fn wake_exactly() {
    // SAFETY: a property of the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// The kernel's calls, below a directory.
pub(super) struct Kernel {
    root: OwnedFd,
    path: CString,
    names: Vec<CString>,
    open: Box<[AtomicI32]>,
}

impl Kernel {
    pub(super) fn new(set: &Path, skimmed: &Skimmed) -> Result<Kernel, EngineError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(set, flags, Mode::empty())
            .map_err(|errno| EngineError::call("open", set, errno))?;
        fn text(name: &[u8]) -> Result<CString, EngineError> {
            CString::new(name)
                .map_err(|_| EngineError::new("a name of the trace holds a zero byte"))
        }
        let names = (0..skimmed.names.len()).map(|number| match skimmed.names.get(number) {
            b"" => text(b"."),
            name => text(name),
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        // A lane keeps the places that it gave up, so more may be in use than descriptors are open.
        let lanes = skimmed.totals.lanes.max(1) as usize;
        let places = (skimmed.totals.descriptors as usize + 1)
            .saturating_mul(lanes + 1)
            .min(MOST_OPEN);
        raise_limit();
        let path = text(set.as_os_str().as_encoded_bytes())?;
        Ok(Kernel {
            root,
            path,
            names,
            open: (0..places).map(|_| AtomicI32::new(-1)).collect(),
        })
    }

    fn fd(&self, slot: u32) -> Result<BorrowedFd<'_>, Errno> {
        let number = self
            .open
            .get(slot as usize)
            .map_or(-1, |place| place.load(Ordering::Acquire));
        if number < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: only calls that the trace's order puts after this one close its descriptor. A
        // trace that breaks that rule gets an error from the kernel, for none of these numbers
        // belongs to anything else that matters here.
        Ok(unsafe { BorrowedFd::borrow_raw(number) })
    }

    fn name_of(&self, number: u32) -> &CString {
        self.names.get(number as usize).unwrap_or(&self.path)
    }

    /// Keeps a descriptor. If the recorded call failed, closes the descriptor at once.
    fn keep(&self, step: &ReplayStep, fd: OwnedFd) -> Result<i64, Errno> {
        let place = self
            .open
            .get(step.slot as usize)
            .filter(|_| step.call.result >= 0)
            .ok_or(Errno::MFILE);
        if let Ok(place) = place {
            let old = place.swap(fd.into_raw_fd(), Ordering::AcqRel);
            drop_raw(old);
        }
        Ok(0)
    }

    fn make(&self, step: &ReplayStep, buffers: &mut Buffers) -> Result<i64, Errno> {
        let ReplayStep {
            call, slot, other, ..
        } = step;
        let done = |result: Result<(), Errno>| result.map(|()| 0);
        let name = || self.name_of(call.name);
        match call.kind {
            CallKind::Open => {
                let mode = Mode::from_bits_truncate(call.length as u32 & 0o777 | 0o600);
                let fd = rustix::fs::openat(&self.root, name(), open_flags(call.flags), mode)?;
                self.keep(step, fd)
            }
            CallKind::Duplicate => {
                let fd = rustix::io::fcntl_dupfd_cloexec(self.fd(*other)?, 0)?;
                self.keep(step, fd)
            }
            CallKind::Close => {
                let number = self
                    .open
                    .get(*slot as usize)
                    .map_or(-1, |place| place.swap(-1, Ordering::AcqRel));
                if number < 0 {
                    return Err(Errno::BADF);
                }
                // SAFETY: the number was taken out of its place, so no other call closes it.
                done(unsafe { rustix::io::try_close(number) })
            }
            CallKind::Read | CallKind::ReadAt | CallKind::Write | CallKind::WriteAt => {
                transfer(call, self.fd(*slot)?, buffers)
            }
            CallKind::SetAttribute | CallKind::SetAttributeName => {
                self.set_attribute(step, buffers)
            }
            // MS_ASYNC has no effect on Linux, and MS_SYNC writes and waits as fdatasync does.
            CallKind::SyncMapping if call.flags & flags::WAIT == 0 => Ok(0),
            CallKind::SyncMapping => {
                let fd = rustix::fs::openat(
                    &self.root,
                    name(),
                    OFlags::RDONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                done(rustix::fs::fdatasync(fd))
            }
            CallKind::Sync => done(rustix::fs::fsync(self.fd(*slot)?)),
            CallKind::DataSync => done(rustix::fs::fdatasync(self.fd(*slot)?)),
            CallKind::SyncFileSystem if *slot == u32::MAX => done(rustix::fs::syncfs(&self.root)),
            CallKind::SyncFileSystem => done(rustix::fs::syncfs(self.fd(*slot)?)),
            CallKind::Truncate => done(rustix::fs::ftruncate(self.fd(*slot)?, call.length)),
            CallKind::TruncateName => {
                let fd = rustix::fs::openat(
                    &self.root,
                    name(),
                    OFlags::WRONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                done(rustix::fs::ftruncate(fd, call.length))
            }
            CallKind::Allocate => {
                let flags = FallocateFlags::from_bits_truncate(call.flags);
                done(rustix::fs::fallocate(
                    self.fd(*slot)?,
                    flags,
                    call.offset,
                    call.length,
                ))
            }
            CallKind::Rename => {
                let flags = RenameFlags::from_bits_truncate(call.flags);
                let to = self.name_of(call.second);
                // Not every file system takes flags.
                done(if flags.is_empty() {
                    rustix::fs::renameat(&self.root, name(), &self.root, to)
                } else {
                    rustix::fs::renameat_with(&self.root, name(), &self.root, to, flags)
                })
            }
            CallKind::Unlink => done(rustix::fs::unlinkat(&self.root, name(), AtFlags::empty())),
            CallKind::RemoveDirectory => {
                done(rustix::fs::unlinkat(&self.root, name(), AtFlags::REMOVEDIR))
            }
            CallKind::MakeDirectory => {
                let mode = Mode::from_bits_truncate(call.length as u32 & 0o777 | 0o700);
                done(rustix::fs::mkdirat(&self.root, name(), mode))
            }
            CallKind::Link => {
                let to = self.name_of(call.second);
                done(rustix::fs::linkat(
                    &self.root,
                    name(),
                    &self.root,
                    to,
                    AtFlags::empty(),
                ))
            }
            // Targets are names below the root, which lead only further down from any directory.
            CallKind::SymbolicLink => done(rustix::fs::symlinkat(
                self.name_of(call.second),
                &self.root,
                name(),
            )),
            CallKind::Stat => rustix::fs::fstat(self.fd(*slot)?).map(|_| 0),
            CallKind::StatName => {
                rustix::fs::statat(&self.root, name(), AtFlags::SYMLINK_NOFOLLOW).map(|_| 0)
            }
            CallKind::ReadLink => {
                rustix::fs::readlinkat(&self.root, name(), Vec::with_capacity(256))
                    .map(|text| text.as_bytes().len() as i64)
            }
            CallKind::AttributesName => done(match call.flags {
                flags::TIMES => {
                    rustix::fs::utimensat(&self.root, name(), &now(), AtFlags::SYMLINK_NOFOLLOW)
                }
                flags::OWNER => {
                    rustix::fs::chownat(&self.root, name(), None, None, AtFlags::SYMLINK_NOFOLLOW)
                }
                _ => rustix::fs::chmodat(&self.root, name(), CHANGED, AtFlags::empty()),
            }),
            CallKind::Attributes => done(match call.flags {
                flags::TIMES => rustix::fs::futimens(self.fd(*slot)?, &now()),
                flags::OWNER => rustix::fs::fchown(self.fd(*slot)?, None::<Uid>, None::<Gid>),
                _ => rustix::fs::fchmod(self.fd(*slot)?, CHANGED),
            }),
            CallKind::Seek
            | CallKind::SyncRange
            | CallKind::List
            | CallKind::Copy
            | CallKind::Advise => self.raw(step, buffers),
            CallKind::Map
            | CallKind::Spawn
            | CallKind::Wait
            | CallKind::Exit
            | CallKind::Wake
            | CallKind::Woken => Ok(call.result),
        }
    }

    /// Calls that have no safe wrapper with these arguments.
    fn raw(&self, step: &ReplayStep, buffers: &mut Buffers) -> Result<i64, Errno> {
        let ReplayStep {
            call, slot, other, ..
        } = step;
        let fd = self.fd(*slot)?.as_raw_fd();
        let (offset, length) = (
            call.offset as i64,
            usize::try_from(call.length).unwrap_or(usize::MAX),
        );
        // SAFETY: open descriptors, numbers, and our own memory with the stated length.
        let result = unsafe {
            match call.kind {
                CallKind::Seek => libc::lseek(fd, offset, call.flags as i32),
                CallKind::SyncRange => {
                    i64::from(libc::sync_file_range(fd, offset, length as i64, call.flags))
                }
                CallKind::Advise => -i64::from(libc::posix_fadvise(
                    fd,
                    offset,
                    length as i64,
                    call.flags as i32,
                )),
                CallKind::List => {
                    let into = buffers.into(call.length);
                    libc::syscall(libc::SYS_getdents64, fd, into.as_mut_ptr(), into.len())
                }
                _ => copy(fd, self.fd(*other)?.as_raw_fd(), call, length),
            }
        };
        if result != -1 {
            return Ok(result);
        }
        Err(last_error())
    }

    /// Sets or removes an extended attribute. Its name replaces the recorded one, which may need
    /// privileges.
    fn set_attribute(&self, step: &ReplayStep, buffers: &mut Buffers) -> Result<i64, Errno> {
        let ReplayStep { call, slot, .. } = step;
        let attribute = CString::new(format!("user.fsb-{}", call.second)).unwrap_or_default();
        let value = buffers.from(call.length);
        let (attribute, value, length) = (attribute.as_ptr(), value.as_ptr().cast(), value.len());
        let flags = call.flags as i32;
        // SAFETY: an open descriptor, texts that end with a zero byte, and our own memory with the
        // stated length.
        let result = unsafe {
            if call.kind == CallKind::SetAttribute {
                let fd = self.fd(*slot)?.as_raw_fd();
                match call.flags {
                    flags::REMOVE => libc::fremovexattr(fd, attribute),
                    _ => libc::fsetxattr(fd, attribute, value, length, flags),
                }
            } else {
                let path = self.path_of(call.name);
                match call.flags {
                    flags::REMOVE => libc::lremovexattr(path.as_ptr(), attribute),
                    _ => libc::lsetxattr(path.as_ptr(), attribute, value, length, flags),
                }
            }
        };
        if result == 0 {
            Ok(0)
        } else {
            Err(last_error())
        }
    }

    /// Returns a path to a name that leads through the descriptor of the root: these calls take no
    /// directory.
    fn path_of(&self, number: u32) -> CString {
        let mut path = format!("/proc/self/fd/{}/", self.root.as_raw_fd()).into_bytes();
        path.extend_from_slice(self.name_of(number).to_bytes());
        CString::new(path).unwrap_or_default()
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Copies from one open file to another one as the recorded program did.
fn copy(from: RawFd, to: RawFd, call: &Call, length: usize) -> i64 {
    let (mut offset, mut target) = (call.offset as i64, call.target as i64);
    let given = |flag: u32, place: &mut i64| match call.flags & flag {
        0 => std::ptr::null_mut(),
        _ => std::ptr::from_mut(place),
    };
    let from_offset = given(flags::FROM_OFFSET, &mut offset);
    let to_offset = given(flags::TO_OFFSET, &mut target);
    // SAFETY: open descriptors. The pointers are null, which means the positions, or lead to the
    // numbers above.
    unsafe {
        match call.flags & flags::HOW {
            flags::SEND => libc::sendfile(to, from, from_offset, length) as i64,
            flags::CLONE => i64::from(libc::ioctl(to, libc::FICLONE, from)),
            flags::CLONE_RANGE => {
                let range = CloneRange {
                    from: i64::from(from),
                    offset: call.offset,
                    length: call.length,
                    target: call.target,
                };
                i64::from(libc::ioctl(to, FICLONERANGE, &raw const range))
            }
            flags::DEDUPLICATE => {
                let mut range = DeduplicateRange::new(call, to);
                i64::from(libc::ioctl(from, FIDEDUPERANGE, &raw mut range))
            }
            _ => libc::copy_file_range(from, from_offset, to, to_offset, length, 0) as i64,
        }
    }
}

const FICLONERANGE: libc::Ioctl = 0x4020_940d;
const FIDEDUPERANGE: libc::Ioctl = 0xc018_9436;

/// `struct file_clone_range`.
#[repr(C)]
struct CloneRange {
    from: i64,
    offset: u64,
    length: u64,
    target: u64,
}

/// `struct file_dedupe_range` with one destination.
#[repr(C)]
struct DeduplicateRange {
    offset: u64,
    length: u64,
    count: u16,
    reserved: [u16; 3],
    to: i64,
    target: u64,
    done: u64,
    status: i32,
    reserved_info: u32,
}

impl DeduplicateRange {
    fn new(call: &Call, to: RawFd) -> DeduplicateRange {
        let (offset, length, target) = (call.offset, call.length, call.target);
        let to = i64::from(to);
        DeduplicateRange {
            offset,
            length,
            count: 1,
            reserved: [0; 3],
            to,
            target,
            done: 0,
            status: 0,
            reserved_info: 0,
        }
    }
}

/// Reads or writes. A copy from or to a file outside the trace may be larger than the buffer and is
/// made in pieces.
fn transfer(call: &Call, fd: BorrowedFd<'_>, buffers: &mut Buffers) -> Result<i64, Errno> {
    let wanted = if call.flags & flags::COPIED != 0 {
        u64::try_from(call.result).unwrap_or_default()
    } else {
        0
    };
    let wanted = wanted.min(MOST_COPIED);
    let mut moved = 0;
    loop {
        let (length, offset) = (
            call.length.saturating_sub(moved),
            call.offset.wrapping_add(moved),
        );
        let (piece, result) = match call.kind {
            CallKind::Read | CallKind::ReadAt => {
                let into = buffers.into(length);
                let piece = into.len();
                let at_position = call.kind == CallKind::Read;
                (
                    piece,
                    if at_position {
                        rustix::io::read(fd, into)
                    } else {
                        rustix::io::pread(fd, into, offset)
                    },
                )
            }
            _ => {
                let from = buffers.from(length);
                (from.len(), write(call, fd, from, offset))
            }
        };
        match result {
            Ok(count) => {
                moved += count as u64;
                if count < piece || moved >= wanted {
                    return Ok(moved as i64);
                }
            }
            Err(errno) if moved == 0 => return Err(errno),
            Err(_) => return Ok(moved as i64),
        }
    }
}

/// Writes, with the flags RWF_* of the recorded call.
fn write(call: &Call, fd: BorrowedFd<'_>, from: &[u8], offset: u64) -> Result<usize, Errno> {
    let known = [
        (flags::DATA_SYNC, libc::RWF_DSYNC),
        (flags::SYNC, libc::RWF_SYNC),
        (flags::APPEND, libc::RWF_APPEND),
    ];
    let given = known
        .iter()
        .filter(|(flag, _)| call.flags & flag != 0)
        .fold(0, |all, (_, bits)| all | bits);
    let at_position = call.kind == CallKind::Write;
    match (given, at_position) {
        (0, true) => rustix::io::write(fd, from),
        (0, false) => rustix::io::pwrite(fd, from, offset),
        _ => {
            let piece = libc::iovec {
                iov_base: from.as_ptr().cast_mut().cast(),
                iov_len: from.len(),
            };
            let offset = if at_position { -1 } else { offset as i64 };
            // SAFETY: an open descriptor, and our own memory with the stated length, which the
            // kernel only reads.
            let count =
                unsafe { libc::pwritev2(fd.as_raw_fd(), &raw const piece, 1, offset, given) };
            usize::try_from(count).map_err(|_| last_error())
        }
    }
}

impl Target for Kernel {
    fn call(&self, step: &ReplayStep, buffers: &mut Buffers) -> i64 {
        self.make(step, buffers)
            .unwrap_or_else(|errno| -i64::from(errno.raw_os_error()))
    }

    fn close_all(&self) {
        for place in &self.open {
            drop_raw(place.swap(-1, Ordering::AcqRel));
        }
    }

    fn name(&self, call: &Call) -> Box<str> {
        let text = match call.kind.is_about_names() {
            true => format!(" {}", self.name_of(call.name).to_string_lossy()),
            false => format!(" at {} of descriptor {}", call.offset, call.handle),
        };
        text.into()
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.close_all();
    }
}

fn drop_raw(number: RawFd) {
    if number >= 0 {
        // SAFETY: the number was taken out of its place, so it has no other owner.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

fn now() -> Timestamps {
    let now = rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: rustix::fs::UTIME_NOW,
    };
    Timestamps {
        last_access: now,
        last_modification: now,
    }
}

pub(super) fn open_flags(given: u32) -> OFlags {
    let access = match given & (flags::READ | flags::WRITE) {
        flags::WRITE => OFlags::WRONLY,
        flags::READ => OFlags::RDONLY,
        _ => OFlags::RDWR,
    };
    let known = [
        (flags::CREATE, OFlags::CREATE),
        (flags::EXCLUSIVE, OFlags::EXCL),
        (flags::TRUNCATE, OFlags::TRUNC),
        (flags::APPEND, OFlags::APPEND),
        (flags::DIRECT, OFlags::DIRECT),
        (flags::SYNC, OFlags::SYNC),
        (flags::DATA_SYNC, fsb_sys::open_flags::DSYNC),
        (flags::DIRECTORY, OFlags::DIRECTORY),
        (flags::NO_FOLLOW, OFlags::NOFOLLOW),
        (flags::PATH, OFlags::PATH),
        (flags::TEMPORARY, OFlags::TMPFILE),
    ];
    let all = known
        .iter()
        .filter(|(flag, _)| given & flag != 0)
        .fold(access, |all, (_, flag)| all | *flag);
    // Flags for terminals and pipes have no meaning for the files of a replay.
    all | OFlags::CLOEXEC | OFlags::NOCTTY
}

/// Raises the limit of descriptors to the maximum of this user.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the kernel refuses, an open returns the error.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
}

/// One call, and the calls that it waits for.
#[derive(Debug, Clone)]
pub(super) struct ReplayStep {
    pub(super) call: Call,
    /// The place of its descriptor.
    pub(super) slot: u32,
    /// The place of its second descriptor.
    pub(super) other: u32,
    /// Nanoseconds of think time before it, after the lane's last call.
    pub(super) think_ns: u64,
    /// Nanoseconds of think time after the last of the calls that it waits for.
    pub(super) after_ns: u64,
    /// Whether the trace never opened its descriptor.
    pub(super) unopened: bool,
    /// The range of its own waits among those of the batch.
    pub(super) waits: Range<u32>,
}

impl ReplayStep {
    /// Returns whether the replay makes this call.
    pub(super) fn is_made(&self) -> bool {
        self.call.kind.is_replayed()
    }

    /// Returns whether a result agrees with the recorded one: the amount or offset if the kind has
    /// one, otherwise only success or failure.
    pub(super) fn agrees(&self, result: i64) -> bool {
        let recorded = self.call.result;
        // A program tries FICLONE and copies the data if the file system refuses it.
        if recorded < 0 && self.call.clones() {
            return true;
        }
        let counts =
            self.call.kind.moves() || matches!(self.call.kind, CallKind::Seek | CallKind::Copy);
        if recorded < 0 || result < 0 || counts {
            recorded == result
        } else {
            true
        }
    }
}

/// The calls of one lane in one block of the trace.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) block: usize,
    pub(super) steps: Vec<ReplayStep>,
    pub(super) waits: Vec<(u32, u32)>,
}
