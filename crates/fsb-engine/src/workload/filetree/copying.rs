//! The calls that bring one file's bytes into its copy.

use std::path::Path;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::options::CopyMethod;
use crate::EngineError;
use crate::backend::{Backend, Directory, OpenFlags, Session, Setup, Slot};

/// Where bytes are copied from.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopySource {
    pub(super) slot: Slot,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Copies the bytes of a source into a file that is new and empty. `Err` has the call's verb.
pub(super) fn copy(
    how: CopyMethod,
    session: &mut dyn Session,
    source: CopySource,
    destination: Slot,
    memory: &mut [u8],
) -> Result<(), (&'static str, Errno)> {
    match how {
        CopyMethod::ReadWrite => read_write(session, source, destination, memory),
        CopyMethod::CopyFileRange => in_kernel(session, source, destination),
        CopyMethod::Reflink => {
            session.share_blocks(source.slot, destination).map_err(|errno| ("share the blocks of", errno))
        }
    }
}

fn read_write(
    session: &mut dyn Session,
    CopySource { slot, offset, length }: CopySource,
    destination: Slot,
    memory: &mut [u8],
) -> Result<(), (&'static str, Errno)> {
    let mut done = 0;
    while done < length {
        let wanted = (memory.len() as u64).min(length - done) as usize;
        let read = session.read_at(slot, &mut memory[..wanted], offset + done, offset + length);
        let read = read.map_err(|errno| ("read", errno))?;
        if read == 0 {
            // Shorter than it was made.
            return Err(("read", Errno::NODATA));
        }
        let mut written = 0;
        while written < read {
            let wrote = session.write(destination, &memory[written..read]);
            written += wrote.map_err(|errno| ("write", errno))?;
        }
        done += read as u64;
    }
    Ok(())
}

fn in_kernel(
    session: &mut dyn Session,
    CopySource { slot, offset, length }: CopySource,
    destination: Slot,
) -> Result<(), (&'static str, Errno)> {
    const CALL: &str = "copy_file_range to";
    let mut done = 0;
    while done < length {
        let left = (length - done).min(1 << 30) as usize;
        match session.copy_range(slot, offset + done, destination, left) {
            Ok(0) => return Err((CALL, Errno::NODATA)),
            Ok(copied) => done += copied as u64,
            Err(errno) => return Err((CALL, errno)),
        }
    }
    Ok(())
}

/// Copies one block as all files shall be copied. What this file system cannot do is no failure of it.
pub(super) fn probe(
    how: CopyMethod,
    within: bool,
    backend: &dyn Backend,
    root: &Directory,
    set: &Path,
) -> Result<(), EngineError> {
    const SIZE: u64 = 4096;
    if how == CopyMethod::ReadWrite {
        return Ok(());
    }
    let flags = OpenFlags::READ_WRITE.creating(0o644);
    let mut session = backend.session(&Setup::plain(2))?;
    let create = |session: &mut dyn Session, name| {
        let opened = session.open(root, name, flags, SIZE);
        opened.map_err(|errno| EngineError::call("create a file in", set, errno))
    };
    let slot = if within {
        create(&mut *session, c"probe-source")?
    } else {
        let refused = |errno| EngineError::system("make a file in memory", errno);
        let file = rustix::fs::memfd_create(c"fsb-probe", MemfdFlags::CLOEXEC).map_err(refused)?;
        session.adopt(file, OpenFlags::READ_WRITE).map_err(refused)?
    };
    let mut block = [7; SIZE as usize];
    let written = session.write_at(slot, &block, 0);
    written.map_err(|errno| EngineError::call("write to a file in", set, errno))?;
    let destination = create(&mut *session, c"probe-copy")?;
    let source = CopySource { slot, offset: 0, length: SIZE };
    let copied = copy(how, &mut *session, source, destination, &mut block);
    drop(session);
    for name in [c"probe-source", c"probe-copy"].into_iter().skip(usize::from(!within)) {
        let gone = backend.namespace().unlink(root, name);
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
