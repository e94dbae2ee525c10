//! RWF_ATOMIC: direct writes of which, after a crash, either all bytes or none are in the file.
//!
//! The kernel reports through statx which sizes a file takes. That is not enough: overlay passes on
//! the sizes of its upper layer and refuses the write (Linux 6.18). So a trial writes once.
//! Whether a write was atomic shows only after a crash, and no trial checks that.

use std::fs::File;
use std::io::IoSlice;

use fsb_model::Bytes;
use fsb_model::errno::describe;
use fsb_sys::call_flags::{ATOMIC, AtomicUnits};
use rustix::fs::OFlags;
use rustix::io::{Errno, pwritev2};

use super::session::ProbeFile;
use super::{Capabilities, KernelNamespace, Namespace, ProbeTarget, Verb, direct};
use crate::data::Memory;
use crate::error::EngineError;

/// The capabilities of a backend with the flag whose calls finish before they return.
pub(super) const CAPABILITIES: Capabilities = Capabilities {
    appends: false,
    ..direct::CAPABILITIES
};

/// Refuses a place whose files do not take atomic writes of the records.
pub(super) fn examine(place: &ProbeTarget<'_>) -> Result<(), EngineError> {
    match place.verb {
        Verb::Read => Ok(()),
        Verb::Write => try_write(place),
    }
}

/// Returns why records of this size are not applicable. Returns `None` if statx promises them.
fn refusal(AtomicUnits { min, max }: AtomicUnits, record_size: u64) -> Option<String> {
    if min == 0 || max == 0 {
        return Some("statx reports no atomic writes for files of this file system".to_owned());
    }
    let fits =
        record_size.is_power_of_two() && (u64::from(min)..=u64::from(max)).contains(&record_size);
    (!fits).then(|| {
        format!(
            "atomic writes take powers of two from {} to {}, not records of {record_size} bytes",
            Bytes(min.into()),
            Bytes(max.into())
        )
    })
}

/// Writes one record to a temporary file, if statx promises its size.
fn try_write(place: &ProbeTarget<'_>) -> Result<(), EngineError> {
    let (trial, _) = ProbeFile::new(place.directory, "trial-atomic")?;
    let path = trial.path();
    let file = trial
        .open(Verb::Write, OFlags::DIRECT)
        .map_err(|error| inapplicable(place, format!("open with O_DIRECT: {error}"), None))?;
    let units = AtomicUnits::from_file(&file)
        .map_err(|errno| EngineError::call("ask (statx) about", path, errno))?;
    if let Some(why) = refusal(units, place.record_size) {
        // The errno of the call itself is the reason where statx reports nothing.
        let errno = (units.min == 0).then(|| write(&file, place.record_size).err());
        return Err(inapplicable(place, why, errno.flatten()));
    }
    match write(&file, place.record_size) {
        Ok(()) => {}
        Err(errno @ (Errno::OPNOTSUPP | Errno::INVAL)) => {
            let why = "statx reports atomic writes of this size, and the file system refuses one";
            return Err(inapplicable(place, why.to_owned(), Some(errno)));
        }
        Err(errno) => {
            return Err(EngineError::call("write with RWF_ATOMIC to", path, errno));
        }
    }
    drop((file, trial));
    // The changes of the trial must not be written back while the clock runs.
    KernelNamespace
        .open_root(place.directory)
        .and_then(|root| KernelNamespace.sync_file_system(&root))
        .map_err(|errno| EngineError::call("syncfs of", place.directory, errno))
}

/// Writes a record at the start of a file.
fn write(file: &File, record_size: u64) -> Result<(), Errno> {
    let memory = Memory::new(record_size as usize);
    pwritev2(file, &[IoSlice::new(memory.as_ref())], 0, ATOMIC).map(drop)
}

fn inapplicable(place: &ProbeTarget<'_>, why: String, errno: Option<Errno>) -> EngineError {
    let number = errno.map(Errno::raw_os_error);
    let answer = number.map(|number| format!(": {}", describe(number)));
    let directory = place.directory.display();
    EngineError {
        inapplicable: true,
        errno: number,
        path: Some(place.directory.to_owned()),
        ..EngineError::new(format!("{directory}: {why}{}", answer.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_within_the_reported_sizes_are_taken() {
        let units = AtomicUnits {
            min: 4096,
            max: 65_536,
        };
        for record in [4096, 8192, 65_536] {
            assert_eq!(refusal(units, record), None, "{record}");
        }
        for record in [512, 12_288, 131_072] {
            assert_eq!(
                refusal(units, record).unwrap(),
                format!(
                    "atomic writes take powers of two from 4K to 64K, not records of {record} bytes"
                )
            );
        }
        let none = AtomicUnits { min: 0, max: 0 };
        assert!(refusal(none, 4096).unwrap().contains("no atomic writes"));
    }

    #[test]
    fn a_file_system_without_atomic_writes_is_not_applicable() {
        let memory = fsb_testkit::wants!(fsb_testkit::memory_directory());
        let place = ProbeTarget {
            directory: memory.path(),
            file: None,
            verb: Verb::Write,
            record_size: 4096,
        };
        let error = examine(&place).unwrap_err();
        assert!(error.inapplicable, "{error}");
        assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
    }
}
