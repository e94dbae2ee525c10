//! Calls that are ready to be replayed, and the code that makes them.

use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

use fsb_trace::{Call, CallKind, Skimmed, flags};
use rustix::fs::{AtFlags, FallocateFlags, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid};
use rustix::io::Errno;

use crate::EngineError;
use crate::data::{Data, DataSource, Memory};

/// The maximum number of bytes that one call moves. A replay shortens a larger call to this size.
pub(super) const MOST_MOVED: u64 = 64 << 20;
/// Descriptors that may be open at once.
const MOST_OPEN: usize = 1 << 20;

/// The component that makes the calls.
pub(super) trait Target: Sync {
    /// Makes one call. Returns its result; an error is a number below 0.
    fn call(&self, step: &ReplayStep, buffers: &mut Buffers) -> i64;

    /// Returns whether the target makes no calls, and every result is as recorded.
    fn is_nothing(&self) -> bool {
        false
    }

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
        Buffers { data: Data::new(source, largest), address, read: Memory::new(largest), largest }
    }

    fn into(&mut self, length: u64) -> &mut [u8] {
        &mut self.read.as_mut()[..self.largest.min(usize::try_from(length).unwrap_or(usize::MAX))]
    }

    /// Returns the bytes that no earlier call has written, from the beginning of a page.
    fn from(&mut self, length: u64) -> &[u8] {
        let length = self.largest.min(usize::try_from(length).unwrap_or(usize::MAX));
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
        let root =
            rustix::fs::open(set, flags, Mode::empty()).map_err(|errno| EngineError::call("open", set, errno))?;
        let text =
            |name: &[u8]| CString::new(name).map_err(|_| EngineError::new("a name of the trace holds a zero byte"));
        let names = (0..skimmed.names.len()).map(|number| match skimmed.names.get(number) {
            b"" => text(b"."),
            name => text(name),
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        // A lane keeps the places that it gave up, so more may be in use than descriptors are open.
        let lanes = skimmed.totals.lanes.max(1) as usize;
        let places = (skimmed.totals.descriptors as usize + 1).saturating_mul(lanes + 1).min(MOST_OPEN);
        raise_limit();
        let path = text(set.as_os_str().as_encoded_bytes())?;
        Ok(Kernel { root, path, names, open: (0..places).map(|_| AtomicI32::new(-1)).collect() })
    }

    fn fd(&self, slot: u32) -> Result<BorrowedFd<'_>, Errno> {
        let number = self.open.get(slot as usize).map_or(-1, |place| place.load(Ordering::Acquire));
        if number < 0 {
            return Err(Errno::BADF);
        }
        // SAFETY: only calls that the trace's order puts after this one close its descriptor. A trace that breaks that
        // rule gets an error from the kernel, for none of these numbers belongs to anything else that matters here.
        Ok(unsafe { BorrowedFd::borrow_raw(number) })
    }

    fn name_of(&self, number: u32) -> &CString {
        self.names.get(number as usize).unwrap_or(&self.path)
    }

    /// Keeps a descriptor. If the recorded call failed, closes the descriptor at once.
    fn keep(&self, step: &ReplayStep, fd: OwnedFd) -> Result<i64, Errno> {
        let place = self.open.get(step.slot as usize).filter(|_| step.call.result >= 0).ok_or(Errno::MFILE);
        if let Ok(place) = place {
            let old = place.swap(fd.into_raw_fd(), Ordering::AcqRel);
            drop_raw(old);
        }
        Ok(0)
    }

    fn make(&self, step: &ReplayStep, buffers: &mut Buffers) -> Result<i64, Errno> {
        let ReplayStep { call, slot, other, .. } = step;
        let done = |result: Result<(), Errno>| result.map(|()| 0);
        let moved = |result: Result<usize, Errno>| result.map(|count| count as i64);
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
                let number = self.open.get(*slot as usize).map_or(-1, |place| place.swap(-1, Ordering::AcqRel));
                if number < 0 {
                    return Err(Errno::BADF);
                }
                // SAFETY: the number was taken out of its place, so no other call closes it.
                done(unsafe { rustix::io::try_close(number) })
            }
            CallKind::Read => moved(rustix::io::read(self.fd(*slot)?, buffers.into(call.length))),
            CallKind::ReadAt => moved(rustix::io::pread(self.fd(*slot)?, buffers.into(call.length), call.offset)),
            CallKind::Write => moved(rustix::io::write(self.fd(*slot)?, buffers.from(call.length))),
            CallKind::WriteAt => moved(rustix::io::pwrite(self.fd(*slot)?, buffers.from(call.length), call.offset)),
            CallKind::Sync => done(rustix::fs::fsync(self.fd(*slot)?)),
            CallKind::DataSync => done(rustix::fs::fdatasync(self.fd(*slot)?)),
            CallKind::SyncFileSystem if *slot == u32::MAX => done(rustix::fs::syncfs(&self.root)),
            CallKind::SyncFileSystem => done(rustix::fs::syncfs(self.fd(*slot)?)),
            CallKind::Truncate => done(rustix::fs::ftruncate(self.fd(*slot)?, call.length)),
            CallKind::TruncateName => {
                let fd = rustix::fs::openat(&self.root, name(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                done(rustix::fs::ftruncate(fd, call.length))
            }
            CallKind::Allocate => {
                let flags = FallocateFlags::from_bits_truncate(call.flags);
                done(rustix::fs::fallocate(self.fd(*slot)?, flags, call.offset, call.length))
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
            CallKind::RemoveDirectory => done(rustix::fs::unlinkat(&self.root, name(), AtFlags::REMOVEDIR)),
            CallKind::MakeDirectory => {
                let mode = Mode::from_bits_truncate(call.length as u32 & 0o777 | 0o700);
                done(rustix::fs::mkdirat(&self.root, name(), mode))
            }
            CallKind::Link => {
                let to = self.name_of(call.second);
                done(rustix::fs::linkat(&self.root, name(), &self.root, to, AtFlags::empty()))
            }
            // Targets are names below the root, which lead only further down from any directory.
            CallKind::SymbolicLink => done(rustix::fs::symlinkat(self.name_of(call.second), &self.root, name())),
            CallKind::Stat => rustix::fs::fstat(self.fd(*slot)?).map(|_| 0),
            CallKind::StatName => rustix::fs::statat(&self.root, name(), AtFlags::SYMLINK_NOFOLLOW).map(|_| 0),
            CallKind::ReadLink => rustix::fs::readlinkat(&self.root, name(), Vec::with_capacity(256))
                .map(|text| text.as_bytes().len() as i64),
            CallKind::AttributesName => done(match call.flags {
                flags::TIMES => rustix::fs::utimensat(&self.root, name(), &now(), AtFlags::SYMLINK_NOFOLLOW),
                flags::OWNER => rustix::fs::chownat(&self.root, name(), None, None, AtFlags::SYMLINK_NOFOLLOW),
                _ => rustix::fs::chmodat(&self.root, name(), Mode::from(0o644), AtFlags::empty()),
            }),
            CallKind::Attributes => done(match call.flags {
                flags::TIMES => rustix::fs::futimens(self.fd(*slot)?, &now()),
                flags::OWNER => rustix::fs::fchown(self.fd(*slot)?, None::<Uid>, None::<Gid>),
                _ => rustix::fs::fchmod(self.fd(*slot)?, Mode::from(0o644)),
            }),
            CallKind::Seek | CallKind::SyncRange | CallKind::List | CallKind::Copy | CallKind::Advise => {
                self.raw(step, buffers)
            }
            CallKind::Map | CallKind::Spawn | CallKind::Wait | CallKind::Exit | CallKind::Wake | CallKind::Woken => {
                Ok(call.result)
            }
        }
    }

    /// Calls that have no safe wrapper with these arguments.
    fn raw(&self, step: &ReplayStep, buffers: &mut Buffers) -> Result<i64, Errno> {
        let ReplayStep { call, slot, other, .. } = step;
        let fd = self.fd(*slot)?.as_raw_fd();
        let (offset, length) = (call.offset as i64, usize::try_from(call.length).unwrap_or(usize::MAX));
        // SAFETY: open descriptors, numbers, and our own memory with the stated length.
        let result = unsafe {
            match call.kind {
                CallKind::Seek => libc::lseek(fd, offset, call.flags as i32),
                CallKind::SyncRange => i64::from(libc::sync_file_range(fd, offset, length as i64, call.flags)),
                CallKind::Advise => -i64::from(libc::posix_fadvise(fd, offset, length as i64, call.flags as i32)),
                CallKind::List => {
                    let into = buffers.into(call.length);
                    libc::syscall(libc::SYS_getdents64, fd, into.as_mut_ptr(), into.len())
                }
                _ => self.copy(fd, self.fd(*other)?, call, length),
            }
        };
        if result != -1 {
            return Ok(result);
        }
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    fn copy(&self, from: RawFd, to: BorrowedFd<'_>, call: &Call, length: usize) -> i64 {
        let (to, none) = (to.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: as above, and null pointers stand for the positions of the descriptors.
        unsafe {
            match call.flags {
                flags::SEND => libc::sendfile(to, from, none, length) as i64,
                flags::CLONE => i64::from(libc::ioctl(to, libc::FICLONE, from)),
                _ => libc::copy_file_range(from, none, to, none, length, 0) as i64,
            }
        }
    }
}

impl Target for Kernel {
    fn call(&self, step: &ReplayStep, buffers: &mut Buffers) -> i64 {
        self.make(step, buffers).unwrap_or_else(|errno| -i64::from(errno.raw_os_error()))
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
        self.open.iter().for_each(|place| drop_raw(place.swap(-1, Ordering::AcqRel)));
    }
}

fn drop_raw(number: RawFd) {
    if number >= 0 {
        // SAFETY: the number was taken out of its place, so it has no other owner.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }
}

fn now() -> Timestamps {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
}

fn open_flags(given: u32) -> OFlags {
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
        (flags::DATA_SYNC, OFlags::DSYNC),
        (flags::DIRECTORY, OFlags::DIRECTORY),
        (flags::NO_FOLLOW, OFlags::NOFOLLOW),
        (flags::PATH, OFlags::PATH),
        (flags::TEMPORARY, OFlags::TMPFILE),
    ];
    let all = known.iter().filter(|(flag, _)| given & flag != 0).fold(access, |all, (_, flag)| all | *flag);
    // Flags for terminals and pipes have no meaning for the files of a replay.
    all | OFlags::CLOEXEC | OFlags::NOCTTY
}

/// Raises the limit of descriptors to the maximum of this user.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the kernel refuses, an open returns the error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
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

    /// Returns whether a result agrees with the recorded one: the amount or offset if the kind has one, otherwise only
    /// success or failure.
    pub(super) fn agrees(&self, result: i64) -> bool {
        let recorded = self.call.result;
        let counts = self.call.kind.moves() || matches!(self.call.kind, CallKind::Seek | CallKind::Copy);
        if recorded < 0 || result < 0 || counts { recorded == result } else { true }
    }
}

/// The calls of one lane in one block of the trace.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) block: usize,
    pub(super) steps: Vec<ReplayStep>,
    pub(super) waits: Vec<(u32, u32)>,
}
