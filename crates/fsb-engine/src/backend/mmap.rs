//! Loads and stores in a shared mapping of the file.
//!
//! The backends differ in the `msync` after each written record and are constants of one type. A
//! whole file is mapped when it is opened. For writing, the file first gets its full size, because
//! a mapping cannot make a file longer.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::files::{self, SlotTable};
use super::session::ProbeFile;
use super::{
    Backend, Capabilities, Direct, Directory, FileSlot, Flush, IoRequest, OpenFlags, ProbeTarget,
    Queued, Session, SessionSetup, Verb,
};
use crate::error::EngineError;
use crate::memory::PAGE;

/// A backend of mapped files.
#[derive(Debug)]
pub(crate) struct Mmap {
    name: &'static str,
    about: &'static str,
    after_record: Option<MsyncFlags>,
    capabilities: Capabilities,
}

const CAPABILITIES: Capabilities = Capabilities {
    appends: false,
    remembers: true,
    sequential: false,
    ..Capabilities::PLAIN
};

/// The kernel writes pages back at its own time.
pub(crate) static MMAP: Mmap = Mmap {
    name: "mmap",
    about: "copies to and from a shared mapping; msync and fsync where durability is asked for",
    after_record: None,
    capabilities: CAPABILITIES,
};

/// With an asynchronous msync after each record.
pub(crate) static MMAP_ASYNC: Mmap = Mmap {
    name: "mmap-async",
    about: "as mmap, with msync(MS_ASYNC) after each written record, which on Linux checks its arguments and no more",
    after_record: Some(MsyncFlags::ASYNC),
    capabilities: CAPABILITIES,
};

/// With a synchronous msync after each record.
pub(crate) static MMAP_SYNC: Mmap = Mmap {
    name: "mmap-sync",
    about: "as mmap, with msync(MS_SYNC) after each written record, which returns when its data is durable",
    after_record: Some(MsyncFlags::SYNC),
    capabilities: Capabilities {
        synced: true,
        ..CAPABILITIES
    },
};

impl Backend for Mmap {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Some file systems cannot map a file for writing, some not at all.
    fn examine(&self, place: &ProbeTarget<'_>) -> Result<Option<Direct>, EngineError> {
        let trial = ProbeFile::create(place)?;
        let opened = trial.open(place.verb, OFlags::empty());
        let file = opened.map_err(|error| EngineError::io("open", trial.path(), &error))?;
        shared(&file, PAGE, place.verb == Verb::Write)
            .map(|_| None)
            .map_err(|errno| {
                let mut refusal = EngineError::call("map into memory", trial.path(), errno);
                refusal.message += ": this file system does not support mmap; use another backend";
                refusal
            })
    }

    fn session(&self, setup: &SessionSetup) -> Result<Box<dyn Session>, EngineError> {
        install_handler();
        Ok(Box::new(MmapSession {
            files: SlotTable::new(setup),
            after_record: self.after_record,
        }))
    }
}

struct MmapSession {
    files: SlotTable<Mapped>,
    after_record: Option<MsyncFlags>,
}

impl Session for MmapSession {
    fn open(
        &mut self,
        at: &Directory,
        path: &CStr,
        flags: OpenFlags,
        size: u64,
    ) -> Result<FileSlot, Errno> {
        let slot = self.files.free()?;
        if flags.flags.contains(OFlags::APPEND) {
            return Err(Errno::OPNOTSUPP);
        }
        let writes = flags.writes();
        // A shared mapping for writing needs a file that can be read too.
        let access = if writes { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = OpenFlags {
            flags: flags.flags.difference(OFlags::RWMODE).union(access),
            ..flags
        };
        let file = files::open(at, path, flags)?;
        if writes && (rustix::fs::fstat(&file)?.st_size as u64) < size {
            retry_on_intr(|| rustix::fs::ftruncate(&file, size))?;
        }
        let length = usize::try_from(size).map_err(|_| Errno::FBIG)?;
        self.files.put(slot, Mapped::new(file, length, writes)?);
        Ok(slot)
    }

    fn close(&mut self, slot: FileSlot) -> Result<(), Errno> {
        self.files.take(slot)?.close()
    }

    #[inline]
    unsafe fn queue(&mut self, request: &IoRequest) -> Result<Queued, Errno> {
        let mapping = self.files.get_mut(request.slot)?;
        // SAFETY: the caller vouches for the memory until this call returns.
        let moved = unsafe { mapping.copy(request) }?;
        if let (Verb::Write, Some(how)) = (request.verb, self.after_record) {
            mapping.sync(request.offset as usize, moved, how)?;
        }
        Ok(Queued::Done(moved))
    }

    fn flush(&mut self, slot: FileSlot, what: Flush) -> Result<(), Errno> {
        let mapping = self.files.get(slot)?;
        mapping.sync(0, mapping.mapping.len(), MsyncFlags::SYNC)?;
        if what == Flush::All {
            files::flush(&mapping.file, what)
        } else {
            Ok(())
        }
    }

    fn descriptor(&self, slot: FileSlot) -> Result<BorrowedFd<'_>, Errno> {
        self.files.get(slot).map(|mapped| mapped.file.as_fd())
    }
}

/// A file and its mapping.
#[derive(Debug)]
struct Mapped {
    mapping: Mapping,
    file: OwnedFd,
    /// Whether a page could not be read or written. The mapping then no longer shows the file.
    broken: bool,
}

impl Mapped {
    /// Maps the first `length` bytes.
    fn new(file: OwnedFd, length: usize, writes: bool) -> Result<Mapped, Errno> {
        Ok(Mapped {
            mapping: shared(&file, length, writes)?,
            file,
            broken: false,
        })
    }

    /// Moves a record, or the part of it that is in the mapping.
    ///
    /// # Safety
    ///
    /// As of [`Session::queue`].
    #[inline]
    unsafe fn copy(&mut self, request: &IoRequest) -> Result<usize, Errno> {
        let offset = usize::try_from(request.offset).map_err(|_| Errno::FBIG)?;
        let length = request
            .length
            .min(self.mapping.len().saturating_sub(offset));
        if self.broken {
            return Err(Errno::IO);
        }
        // SAFETY: the mapping has `length` bytes there, and the caller vouches for the other side.
        // The session installed the handler, and a mapping that failed is not used again.
        let copied = unsafe {
            match request.verb {
                Verb::Read => self.mapping.load(offset, request.memory, length),
                Verb::Write => self.mapping.store(request.memory, offset, length),
            }
        };
        if copied {
            return Ok(length);
        }
        self.broken = true;
        // SAFETY: as above.
        unsafe { self.explain(request) }
    }

    /// Makes an ordinary call to find out from the kernel why a record cannot be accessed.
    ///
    /// # Safety
    ///
    /// As of [`Session::queue`].
    #[cold]
    unsafe fn explain(&self, request: &IoRequest) -> Result<usize, Errno> {
        // SAFETY: the caller vouches for the memory.
        let memory = unsafe { std::slice::from_raw_parts_mut(request.memory, request.length) };
        let moved = match request.verb {
            Verb::Read => files::read_at(&self.file, memory, request.offset)?,
            Verb::Write => files::write_at(&self.file, memory, request.offset)?,
        };
        // A short read is returned as such. If the ordinary call succeeds, the access through the
        // mapping still failed.
        if request.verb == Verb::Read && moved < request.length {
            Ok(moved)
        } else {
            Err(Errno::IO)
        }
    }

    /// Writes the pages of a range to the device, synchronously or in the background, depending on
    /// `how`.
    fn sync(&self, offset: usize, length: usize, how: MsyncFlags) -> Result<(), Errno> {
        if self.broken {
            return Err(Errno::IO);
        }
        self.mapping.sync(offset, length, how)
    }

    /// Unmaps and closes the file, and returns the kernel's result.
    fn close(self) -> Result<(), Errno> {
        let Mapped { mapping, file, .. } = self;
        drop(mapping);
        files::close(file)
    }
}

fn shared(file: impl AsFd, length: usize, writes: bool) -> Result<Mapping, Errno> {
    let access = if writes {
        ProtFlags::READ | ProtFlags::WRITE
    } else {
        ProtFlags::READ
    };
    Mapping::new(file, length, access, MapFlags::SHARED)
}

/// Memory that maps a file, until it is dropped.
///
/// The page cache keeps a file in folios of up to [`SPAN`] bytes. The first store to a page faults.
/// Linux then maps the whole folio at once, unless it crosses the border of a page table. In that
/// case each of its pages faults separately, and the file system examines the whole folio each
/// time. The address of a mapping decides between the two, and it is random in each process. A file
/// of 1 MiB in one folio has one fault or 256, and stores are fifty times faster or slower. So no
/// mapping here crosses the border of a page table without need.
///
/// A load or a store has no result. If the kernel cannot read a page, finds no space for one, or
/// the file has become shorter, it sends SIGBUS. The handler here replaces the mapping from the
/// failing page on with empty memory, so that the copying ends, and records the failure. The copier
/// then asks the kernel by an ordinary call what is wrong. Signals from anywhere else go to the
/// handler that was installed before.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Dangling if nothing is mapped.
    start: *mut u8,
    length: usize,
}

impl Mapping {
    /// Maps the first `length` bytes of a file.
    ///
    /// # Errors
    /// The kernel's reason.
    pub(crate) fn new(
        file: impl AsFd,
        length: usize,
        access: ProtFlags,
        flags: MapFlags,
    ) -> Result<Mapping, Errno> {
        let start = if length == 0 {
            ptr::dangling_mut()
        } else {
            map(file.as_fd(), length, access, flags)?
        };
        Ok(Mapping { start, length })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the address of a byte of the file, which may be beyond the end.
    #[inline]
    fn at(&self, offset: usize) -> *mut u8 {
        self.start.wrapping_add(offset)
    }

    /// Copies bytes out of the file. Returns whether all pages were accessible. If not, the mapping
    /// must not be used again.
    ///
    /// # Safety
    ///
    /// `to` is valid for `length` bytes and is outside of the mapping. The mapping has `length`
    /// bytes from `offset` on.
    #[inline]
    pub(crate) unsafe fn load(&self, offset: usize, to: *mut u8, length: usize) -> bool {
        // SAFETY: the caller's; nothing but this value points into the mapping, and `new` of its
        // user installed the handler.
        unsafe { copy(self.at(offset), to, length, (self.start, self.length)) }
    }

    /// Copies bytes into the file. Returns whether all pages were accessible. If not, the mapping
    /// must not be used again.
    ///
    /// # Safety
    ///
    /// As of [`Mapping::load`]; the mapping was made for writing.
    #[inline]
    pub(crate) unsafe fn store(&self, from: *const u8, offset: usize, length: usize) -> bool {
        // SAFETY: as in `load`.
        unsafe { copy(from, self.at(offset), length, (self.start, self.length)) }
    }

    /// Writes the pages of a range to the device, synchronously or in the background, depending on
    /// `how`.
    pub(crate) fn sync(&self, offset: usize, length: usize, how: MsyncFlags) -> Result<(), Errno> {
        if length == 0 {
            return Ok(());
        }
        // msync needs the start of a page, but a record smaller than a page may begin elsewhere.
        let lead = offset % PAGE;
        // SAFETY: the range is in the mapping, which begins on a page; msync changes no memory.
        retry_on_intr(|| unsafe {
            rustix::mm::msync(self.at(offset - lead).cast(), length + lead, how)
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the mapping was made by `new`, and nothing else points into it. Unmapping the
            // whole of a mapping that exists cannot fail.
            let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
        }
    }
}

/// Bytes that one page table maps on systems with 4 KiB pages.
const SPAN: usize = 2 << 20;

/// Maps the first `length` bytes of a file, at least one.
fn map(
    file: BorrowedFd<'_>,
    length: usize,
    access: ProtFlags,
    flags: MapFlags,
) -> Result<*mut u8, Errno> {
    let wish = if length > PAGE {
        free_place(length)?
    } else {
        ptr::null_mut()
    };
    // SAFETY: a new mapping that replaces none disturbs no other memory: the address is only a
    // hint. If another thread has taken it in between, the kernel chooses another one.
    let start = unsafe { rustix::mm::mmap(wish, length, access, flags, file, 0)? };
    Ok(start.cast())
}

/// Returns an unmapped address where a page table begins. It reserves a larger range first and
/// releases it again.
fn free_place(length: usize) -> Result<*mut c_void, Errno> {
    let room = length.checked_add(SPAN).ok_or(Errno::NOMEM)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: as in `map`; no other code knows the mapping before it is unmapped again.
    unsafe {
        let first = rustix::mm::mmap_anonymous(ptr::null_mut(), room, ProtFlags::empty(), flags)?;
        rustix::mm::munmap(first, room)?;
        Ok(first.map_addr(|address| address.next_multiple_of(SPAN)))
    }
}

/// Memory that a thread is copying to or from.
#[derive(Debug, Clone, Copy)]
struct Guard {
    start: usize,
    end: usize,
    failed: bool,
}

const NOTHING: Guard = Guard {
    start: 0,
    end: 0,
    failed: false,
};

thread_local! {
    // A constant that needs no destructor: the handler may touch it.
    static GUARD: Cell<Guard> = const { Cell::new(NOTHING) };
}

/// The handler before ours.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Makes [`copy`] safe to use in this process, once.
pub(crate) fn install_handler() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zeros are a valid sigaction. The handler touches only what a handler may: a
        // constant of its thread, mmap and errno.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGBUS, &raw const action, &raw mut before);
            before
        }
    });
}

/// Copies `length` bytes. Returns whether it succeeded. If it did not, `mapped` has lost the file
/// from the failing page on and must not be used again.
///
/// # Safety
///
/// As of [`ptr::copy_nonoverlapping`], but that the pages of `mapped`, a part of one shared mapping
/// that begins on a page and that nothing else points into, may have no file behind them.
/// [`install_handler`] was called.
#[inline]
pub(crate) unsafe fn copy(
    from: *const u8,
    to: *mut u8,
    length: usize,
    mapped: (*mut u8, usize),
) -> bool {
    let start = mapped.0 as usize;
    GUARD.set(Guard {
        start,
        end: start + mapped.1,
        failed: false,
    });
    // The handler runs in this thread: the compiler alone could bring things out of order.
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the caller's; a page without a file behind it is replaced by the handler before the
    // copy touches it again.
    unsafe { ptr::copy_nonoverlapping(from, to, length) };
    compiler_fence(Ordering::SeqCst);
    !GUARD.replace(NOTHING).failed
}

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid siginfo to a handler that asked for it; of SIGBUS it holds
    // an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let guard = GUARD.get();
    if (guard.start..guard.end).contains(&address) && replace_from(address & !(PAGE - 1), guard.end)
    {
        GUARD.set(Guard {
            failed: true,
            ..guard
        });
        return;
    }
    hand_on(signal, info, context);
}

/// Puts empty memory where a mapping was.
fn replace_from(start: usize, end: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller of `copy` vouches that this is a part of one mapping that nothing else
    // points into. errno is the interrupted code's and is put back.
    unsafe {
        let errno = *libc::__errno_location();
        let placed = libc::mmap(
            ptr::without_provenance_mut(start),
            end - start,
            access,
            flags,
            -1,
            0,
        );
        *libc::__errno_location() = errno;
        placed != libc::MAP_FAILED
    }
}

/// Does what would have been done without us.
fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: with SA_SIGINFO the field holds a function of this type.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(before.sa_sigaction) };
        handler(signal, info, context);
    } else {
        // Back to the old action; the failing instruction runs again and meets it.
        // SAFETY: this is what the kernel gave us.
        unsafe { libc::sigaction(libc::SIGBUS, before, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn crosses(start: usize, length: usize) -> bool {
        let before = start % SPAN;
        if length >= SPAN {
            before != 0
        } else {
            before + length > SPAN
        }
    }

    /// The kernel puts one below the other, so that without care some would cross, whatever the
    /// first address was.
    #[test]
    fn no_mapping_crosses_and_all_show_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 300 * 1024]).unwrap();
        for length in [300 * 1024, 1, PAGE, 3 * PAGE + 5] {
            let places: Vec<*mut u8> = (0..64)
                .map(|_| {
                    map(
                        file.as_fd(),
                        length,
                        ProtFlags::READ | ProtFlags::WRITE,
                        MapFlags::SHARED,
                    )
                    .unwrap()
                })
                .collect();
            for place in places {
                assert!(!crosses(place.addr(), length), "{place:?} + {length}");
                // SAFETY: the mapping has `length` bytes, of a file that is at least as long.
                unsafe {
                    assert_eq!((place.read(), place.add(length - 1).read()), (7, 7));
                    rustix::mm::munmap(place.cast(), length).unwrap();
                }
            }
        }
    }

    #[test]
    fn files_that_cannot_be_mapped_are_refused() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(
            map(reader.as_fd(), 4096, ProtFlags::READ, MapFlags::SHARED),
            Err(Errno::NODEV)
        );
        assert_eq!(
            map(reader.as_fd(), 5000, ProtFlags::READ, MapFlags::SHARED),
            Err(Errno::NODEV)
        );
    }
}
