//! RWF_DONTCACHE: I/O through the page cache that does not keep what it read or wrote.
//!
//! The kernel drops pages that a read brought in when the call returns. It begins to write back
//! what a call wrote, and drops those pages when they are on the device. A file system that lacks
//! the flag refuses each call with EOPNOTSUPP. One that has it may keep pages all the same: ext4
//! ends the writeback of blocks that exist in an interrupt, where the kernel does not drop pages
//! (Linux 6.18). A trial shows which, because no call reports it.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};

use fsb_sys::call_flags::DONTCACHE;
use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::direct::trial_length;
use super::session::ProbeFile;
use super::{Capabilities, Direct, ProbeTarget, Verb};
use crate::data::Memory;
use crate::error::EngineError;
use crate::memory;

/// The capabilities of a backend with the flag whose calls finish before they return.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    uncached: true,
    sequential: false,
    ..Capabilities::PLAIN
};

/// Bytes that a trial writes.
const TRIAL: usize = 1 << 20;

/// The most bytes of one call of a trial. Pages of one call may be released together, after the
/// sync has returned.
const LARGEST_CALL: usize = 64 << 10;

/// Refuses a file system without the flag. For writes, finds out whether written pages stay; for
/// reads, the page cache shows that after the work.
pub(super) fn examine(place: &ProbeTarget<'_>) -> Result<Direct, EngineError> {
    let buffered = match place.verb {
        Verb::Read => try_read(place).map(|()| None),
        Verb::Write => try_write(place),
    }?;
    Ok(Direct {
        alignment: None,
        buffered,
    })
}

fn try_read(place: &ProbeTarget<'_>) -> Result<(), EngineError> {
    let trial = ProbeFile::create(place)?;
    let path = trial.path();
    let file = trial
        .open(Verb::Read, OFlags::empty())
        .map_err(|error| EngineError::io("open", path, &error))?;
    let mut memory = Memory::new(trial_length(place.record_size));
    preadv2(&file, &mut [IoSliceMut::new(memory.as_mut())], 0, DONTCACHE)
        .map(drop)
        .map_err(|errno| refused("read with RWF_DONTCACHE from", place, errno))
}

/// Writes a temporary file: over existing data if the file of the work has data, or else new data.
/// Returns whether most of it stayed in the page cache after it was synced, or `None` if the kernel
/// does not tell.
fn try_write(place: &ProbeTarget<'_>) -> Result<Option<bool>, EngineError> {
    let (trial, file) = ProbeFile::new(place.directory, "trial-write")?;
    let path = trial.path();
    let call = trial_length(place.record_size).min(LARGEST_CALL);
    let memory = Memory::new(call);
    let has_data = place
        .file
        .and_then(|path| path.metadata().ok())
        .is_some_and(|metadata| metadata.len() > 0);
    if has_data {
        write(&file, memory.as_ref(), ReadWriteFlags::empty())
            .and_then(|()| fadvise(&file, 0, None, Advice::DontNeed))
            .map_err(|errno| EngineError::call("write to", path, errno))?;
    }
    write(&file, memory.as_ref(), DONTCACHE)
        .map_err(|errno| refused("write with RWF_DONTCACHE to", place, errno))?;
    let resident = memory::resident_bytes(&file, TRIAL as u64);
    Ok(resident.map(|resident| resident > TRIAL as u64 / 2))
}

/// Writes a trial, and returns when its data is on the device.
fn write(file: &File, bytes: &[u8], flags: ReadWriteFlags) -> Result<(), Errno> {
    (0..TRIAL)
        .step_by(bytes.len())
        .try_for_each(|offset| {
            pwritev2(file, &[IoSlice::new(bytes)], offset as u64, flags).map(drop)
        })
        .and_then(|()| rustix::fs::fdatasync(file))
}

/// Returns the error of a call with the flag. EOPNOTSUPP means that the file system or the kernel
/// lacks it.
fn refused(call: &str, place: &ProbeTarget<'_>, errno: Errno) -> EngineError {
    let refusal = EngineError::call(call, place.directory, errno);
    if !matches!(errno, Errno::OPNOTSUPP | Errno::INVAL) {
        return refusal;
    }
    EngineError {
        message: format!("{refusal}: this file system has no uncached I/O; use another backend"),
        inapplicable: true,
        ..refusal
    }
}
