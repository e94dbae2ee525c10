//! The calls that bring one file's bytes into its copy.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

use super::options::CopyMethod;
use crate::EngineError;
use crate::backend::Directory;

/// A copy of `length` bytes from `offset` of the source on; the destination is new and empty. `Err` has the call's verb.
pub(super) fn copy(
    how: CopyMethod,
    source: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    destination: BorrowedFd<'_>,
    memory: &mut [u8],
) -> Result<(), (&'static str, Errno)> {
    match how {
        CopyMethod::ReadWrite => read_write(source, offset, length, destination, memory),
        CopyMethod::CopyFileRange => in_kernel(source, offset, length, destination),
        CopyMethod::Reflink => {
            rustix::fs::ioctl_ficlone(destination, source).map_err(|errno| ("share the blocks of", errno))
        }
    }
}

fn read_write(
    source: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    destination: BorrowedFd<'_>,
    memory: &mut [u8],
) -> Result<(), (&'static str, Errno)> {
    let mut done = 0;
    while done < length {
        let wanted = (memory.len() as u64).min(length - done) as usize;
        let read = retry(|| rustix::io::pread(source, &mut memory[..wanted], offset + done));
        let read = read.map_err(|errno| ("read", errno))?;
        if read == 0 {
            // Shorter than it was made.
            return Err(("read", Errno::NODATA));
        }
        let mut written = 0;
        while written < read {
            let wrote = retry(|| rustix::io::write(destination, &memory[written..read]));
            written += wrote.map_err(|errno| ("write", errno))?;
        }
        done += read as u64;
    }
    Ok(())
}

fn in_kernel(
    source: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    destination: BorrowedFd<'_>,
) -> Result<(), (&'static str, Errno)> {
    const CALL: &str = "copy_file_range to";
    let mut from = offset;
    while from < offset + length {
        let left = (offset + length - from).min(1 << 30) as usize;
        match retry(|| rustix::fs::copy_file_range(source, Some(&mut from), destination, None, left)) {
            Ok(0) => return Err((CALL, Errno::NODATA)),
            Ok(_) => {}
            Err(errno) => return Err((CALL, errno)),
        }
    }
    Ok(())
}

#[inline]
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Copies one block as all files shall be copied. What this file system cannot do is no failure of it.
pub(super) fn probe(how: CopyMethod, within: bool, root: &Directory, set: &Path) -> Result<(), EngineError> {
    if how == CopyMethod::ReadWrite {
        return Ok(());
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let create = |name: &std::ffi::CStr| {
        let opened = rustix::fs::openat(root.fd(), name, flags, Mode::from_raw_mode(0o644));
        opened.map(File::from).map_err(|errno| EngineError::call("create a file in", set, errno))
    };
    let source = if within {
        create(c"probe-source")?
    } else {
        let refused = |errno| EngineError::system("make a file in memory", errno);
        File::from(rustix::fs::memfd_create(c"fsb-probe", MemfdFlags::CLOEXEC).map_err(refused)?)
    };
    let mut block = [7; 4096];
    source.write_all_at(&block, 0).map_err(|error| EngineError::io("write to a file in", set, &error))?;
    let destination = create(c"probe-copy")?;
    let copied = copy(how, source.as_fd(), 0, block.len() as u64, destination.as_fd(), &mut block);
    for name in [c"probe-source", c"probe-copy"].into_iter().skip(usize::from(!within)) {
        let gone = rustix::fs::unlinkat(root.fd(), name, rustix::fs::AtFlags::empty());
        gone.map_err(|errno| EngineError::call("remove a file from", set, errno))?;
    }
    match copied {
        Ok(()) => Ok(()),
        Err((_, Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS)) => {
            let why = match (how, within) {
                (CopyMethod::Reflink, _) => "this file system shares no blocks between files: reflink is not supported",
                (_, true) => "this kernel or file system does not know copy_file_range",
                (_, false) => "the kernel does not copy from memory into another file system by copy_file_range",
            };
            Err(EngineError { inapplicable: true, ..EngineError::new(why) })
        }
        Err((call, errno)) => Err(EngineError::call(format!("{call} a file in"), set, errno)),
    }
}
