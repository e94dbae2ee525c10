//! O_DIRECT: its requirements, and whether it really bypasses the page cache.
//!
//! File systems that cannot bypass the page cache often accept the flag and use the page cache. The
//! kernel reports through statx the alignment of offsets and lengths (0: the file does not support
//! it), but not every file system fills that in. In that case the backend makes a trial.
//!
//! For reads it is enough to look at the page cache afterwards, which the runner does. A write may
//! go through the page cache and be evicted again before the call returns (btrfs does so for files
//! with checksums). That eviction spares mapped pages, but a direct write evicts them as well. So
//! the trial maps and touches a page, then overwrites it: if the page is still resident, the write
//! went through the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;

use fsb_model::Bytes;
use fsb_model::trial::NOT_DIRECT;
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::session::ProbeFile;
use super::{Capabilities, Direct, KernelNamespace, Namespace, ProbeTarget, Verb};
use crate::data::{Memory, PAGE};
use crate::error::EngineError;
use crate::memory;

/// Every device moves at least a sector. The file system may need more and reports that in
/// `examine`.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    direct: true,
    granule: 512,
    sequential: false,
    ..Capabilities::PLAIN
};

/// The largest sector of a device, in bytes.
const LARGEST_SECTOR: u64 = 4096;

/// The binary logarithm of the largest number of bytes that a trial moves.
const LARGEST_TRIAL: u32 = 20;

/// Refuses a place where O_DIRECT cannot work, and finds out whether it bypasses the page cache.
pub(super) fn examine(place: &ProbeTarget<'_>) -> Result<Direct, EngineError> {
    let trial = ProbeFile::create(place)?;
    let file = open(&trial, place.verb)?;
    match alignment(&file, trial.path())? {
        Some(Alignment { memory: 0, .. } | Alignment { offset: 0, .. }) => Ok(Direct {
            alignment: None,
            buffered: Some(true),
        }),
        Some(alignment) => {
            check(place, trial.path(), alignment)?;
            Ok(Direct {
                alignment: Some(alignment.offset),
                buffered: Some(false),
            })
        }
        None => {
            let buffered = match place.verb {
                Verb::Read => try_read(place, trial.path(), &file).map(|()| None),
                Verb::Write => try_write(place),
            }?;
            Ok(Direct {
                alignment: None,
                buffered,
            })
        }
    }
}

fn open(trial: &ProbeFile, verb: Verb) -> Result<File, EngineError> {
    trial.open(verb, OFlags::DIRECT).map_err(|error| {
        let mut refusal = EngineError::io("open with O_DIRECT", trial.path(), &error);
        if error.raw_os_error() == Some(libc::EINVAL) {
            refusal.message +=
                ": this file system cannot bypass the page cache; use another backend";
            refusal = refusal.coded(&NOT_DIRECT);
        }
        refusal
    })
}

/// The alignments of memory and offsets from statx. Zeros mean that direct I/O is not possible.
#[derive(Debug, Clone, Copy)]
struct Alignment {
    memory: u32,
    offset: u32,
}

/// Returns `None` if the file system does not report the alignment.
fn alignment(file: &File, path: &Path) -> Result<Option<Alignment>, EngineError> {
    match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(told) if told.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => Ok(Some(Alignment {
            memory: told.stx_dio_mem_align,
            offset: told.stx_dio_offset_align,
        })),
        // Without statx, the trial decides as well.
        Ok(_) | Err(Errno::NOSYS) => Ok(None),
        Err(errno) => Err(EngineError::call("ask (statx) about", path, errno)),
    }
}

fn check(
    place: &ProbeTarget<'_>,
    path: &Path,
    Alignment { memory, offset }: Alignment,
) -> Result<(), EngineError> {
    let wanted = u64::from(offset);
    let message = if !place.record_size.is_multiple_of(wanted) {
        let size = place.record_size;
        format!(
            "direct I/O needs records of a multiple of {}, not of {size} bytes",
            Bytes(wanted)
        )
    } else if memory as usize > PAGE {
        format!("direct I/O needs memory in multiples of {memory} bytes, which is more than a page")
    } else {
        return Ok(());
    };
    let message = format!("{}: {message}", path.display());
    Err(EngineError {
        path: Some(path.to_owned()),
        ..EngineError::new(message).coded(&NOT_DIRECT)
    })
}

/// Returns the bytes of a trial: the largest power of two that divides the record size, up to a
/// limit.
pub(crate) fn trial_length(record_size: u64) -> usize {
    1 << record_size.trailing_zeros().min(LARGEST_TRIAL)
}

/// Reads a little at the start of the second record, so that the kernel can refuse it.
fn try_read(place: &ProbeTarget<'_>, path: &Path, file: &File) -> Result<(), EngineError> {
    let length = trial_length(place.record_size);
    let mut memory = Memory::new(length);
    file.read_at(memory.as_mut(), length as u64)
        .map(drop)
        .map_err(|error| cannot(place, "read with O_DIRECT from", path, &error))
}

/// Overwrites a temporary file. Returns whether the write went through the page cache, or `None` if
/// that is unknown.
fn try_write(place: &ProbeTarget<'_>) -> Result<Option<bool>, EngineError> {
    let (trial, plain) = ProbeFile::new(place.directory, "trial-write")?;
    let path = trial.path();
    let length = trial_length(place.record_size);
    let mut memory = Memory::new(length);
    plain
        .write_all_at(memory.as_mut(), 0)
        .and_then(|()| plain.sync_all())
        .map_err(|error| EngineError::io("write to", path, &error))?;
    let direct = open(&trial, Verb::Write)?;
    let buffered = overwrite(&plain, &direct, memory.as_mut())
        .map_err(|error| cannot(place, "write with O_DIRECT to", path, &error))?;
    drop((plain, direct, trial));
    // The changes of the trial must not be written back while the clock runs.
    let settled = KernelNamespace
        .open_root(place.directory)
        .and_then(|root| KernelNamespace.sync_file_system(&root));
    settled.map_err(|errno| EngineError::call("syncfs of", place.directory, errno))?;
    Ok(buffered)
}

/// Overwrites the start of a file through `direct`, which is open with O_DIRECT. Returns whether
/// the write went through the page cache, or `None` if that is unknown. The file must have the
/// bytes already.
pub(crate) fn overwrite(
    plain: &File,
    direct: &File,
    bytes: &[u8],
) -> std::io::Result<Option<bool>> {
    let touched = Touched::new(plain, bytes.len());
    direct.write_at(bytes, 0)?;
    let resident = memory::resident_bytes(plain, bytes.len() as u64);
    Ok(match (resident, touched) {
        (Some(1..), _) => Some(true),
        (Some(0), Ok(_)) => Some(false),
        // Not every file system supports mmap. Then a write that was evicted at once looks like a
        // direct one.
        (Some(0), Err(_)) | (None, _) => None,
    })
}

fn cannot(place: &ProbeTarget<'_>, call: &str, path: &Path, error: &std::io::Error) -> EngineError {
    let refusal = EngineError::io(call, path, error);
    if error.raw_os_error() != Some(libc::EINVAL) {
        return refusal;
    }
    let size = place.record_size;
    if !size.is_multiple_of(LARGEST_SECTOR) {
        let message = format!(
            "{refusal}: the file system does not take direct I/O of {size} bytes; use records of a \
             multiple of {LARGEST_SECTOR}"
        );
        return EngineError { message, ..refusal }.coded(&NOT_DIRECT);
    }
    // Not the size of the sectors: some FUSE servers pass on buffers that their own file system
    // refuses.
    let message = format!(
        "{refusal}: this file system accepts O_DIRECT, and refuses direct I/O of {size} bytes from \
         aligned memory; use another backend"
    );
    EngineError {
        message,
        inapplicable: true,
        ..refusal
    }
    .coded(&NOT_DIRECT)
}

/// A mapping of a file's first bytes, with every page touched.
struct Touched {
    start: *mut libc::c_void,
    length: usize,
}

impl Touched {
    fn new(file: &File, length: usize) -> Result<Touched, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other memory.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let touched = Touched { start, length };
        for page in (0..length).step_by(PAGE) {
            // SAFETY: the file has `length` bytes, is this process's own, and all of it is mapped.
            unsafe { start.cast::<u8>().add(page).read_volatile() };
        }
        Ok(touched)
    }
}

impl Drop for Touched {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing points into it. It cannot fail,
        // because it is a whole mapping of this process.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path, verb: Verb, record_size: u64) -> ProbeTarget<'_> {
        ProbeTarget {
            directory,
            file: None,
            verb,
            record_size,
        }
    }

    #[test]
    fn a_file_system_in_memory_is_caught() {
        let memory = fsb_testkit::wants!(fsb_testkit::memory_directory());
        match examine(&place(memory.path(), Verb::Write, 4096)) {
            // Older kernels refuse the flag on tmpfs.
            Err(refusal) => assert!(
                refusal.message.contains("cannot bypass the page cache"),
                "{refusal}"
            ),
            Ok(direct) => assert_eq!(
                direct,
                Direct {
                    alignment: None,
                    buffered: Some(true)
                }
            ),
        }
        assert_eq!(
            std::fs::read_dir(memory.path()).unwrap().count(),
            0,
            "the trial left something behind"
        );
    }

    #[test]
    fn an_unaligned_record_is_refused_with_the_granule() {
        let path = Path::new("/x/y");
        let alignment = Alignment {
            memory: 512,
            offset: 4096,
        };
        let error = check(&place(path, Verb::Read, 512), path, alignment).unwrap_err();
        assert_eq!(
            error.message,
            "/x/y: direct I/O needs records of a multiple of 4K, not of 512 bytes"
        );
        assert!(check(&place(path, Verb::Read, 8192), path, alignment).is_ok());
        let error = check(
            &place(path, Verb::Read, 8192),
            path,
            Alignment {
                memory: 8192,
                offset: 512,
            },
        )
        .unwrap_err();
        assert!(error.message.ends_with("more than a page"), "{error}");
    }

    #[test]
    fn a_trial_is_as_odd_as_the_records() {
        for (record, length) in [
            (512, 512),
            (3 * 512, 512),
            (12_288, 4096),
            (1 << 20, 1 << 20),
            (1 << 26, 1 << 20),
        ] {
            assert_eq!(trial_length(record), length);
        }
    }
}
