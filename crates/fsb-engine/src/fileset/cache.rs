//! The page cache before and after the clock: filled for warm work, emptied for cold work, and examined as a proof.

use std::fs::File;
use std::path::Path;

use fsb_model::CacheState;
use rustix::fs::Advice;

use super::build;
use super::layout::Layout;
use crate::EngineError;
use crate::residency::resident_bytes;
use crate::task::Ready;

/// The most files whose pages are examined; of larger sets a sample of this size is.
pub const EXAMINED_FILES: u64 = 16;

/// Of files that were dropped one by one so many are examined: where none of them lies in memory, no more than 1 % of all
/// do, with 95 % confidence (the rule of three: Hanley and Lippman-Hand, JAMA 249, 1983). Elsewhere the device's own reads
/// prove every file, and looking at a file would warm its inode.
const EXAMINED_EVICTED: u64 = 300;

/// What the work is about to touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// The data of files.
    Data,
    /// Names and attributes only.
    Names,
}

/// Brings the cache into the state asked for, as far as this process can, and says what it holds then. `evict` empties
/// it of the files' data.
pub(crate) fn ready(
    set: &Path,
    layout: &Layout,
    interest: Interest,
    cache: CacheState,
    evict: bool,
) -> Result<Ready, EngineError> {
    if cache == CacheState::Warm {
        match interest {
            // It may still lie there from the last time.
            Interest::Data if is_resident(set, layout) => {}
            Interest::Data => build::read(set, layout)?,
            Interest::Names => build::list(set, layout)?,
        }
    }
    if evict {
        self::evict(set, layout)?;
    }
    match interest {
        Interest::Data => {
            let most = if evict { EXAMINED_EVICTED } else { EXAMINED_FILES };
            let (resident, bytes) = residency(set, layout, layout.files.min(most));
            Ok(Ready { resident_bytes: resident, file_bytes: bytes, direct: None })
        }
        Interest::Names => Ok(Ready::default()),
    }
}

/// Bytes of the examined files in the cache after the work, and all their bytes.
pub(crate) fn resident_after(set: &Path, layout: &Layout, interest: Interest) -> (Option<u64>, u64) {
    if interest == Interest::Data { residency(set, layout, examined(layout)) } else { (None, 0) }
}

/// Asks the kernel to drop the files' data. It drops clean pages only, which is why preparation is durable.
fn evict(set: &Path, layout: &Layout) -> Result<(), EngineError> {
    for file in 0..layout.files {
        let path = set.join(layout.path(file));
        let file = File::open(&path).map_err(|error| EngineError::io("open", &path, &error))?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|errno| EngineError::call("drop from the cache", &path, errno))?;
    }
    Ok(())
}

/// The number of files that are examined.
pub(crate) fn examined(layout: &Layout) -> u64 {
    layout.files.min(EXAMINED_FILES)
}

/// All bytes of all files lie in the cache, for sure.
fn is_resident(set: &Path, layout: &Layout) -> bool {
    let (resident, whole) = residency(set, layout, examined(layout));
    examined(layout) == layout.files && resident == Some(whole)
}

/// Resident and whole bytes of the examined files; `None` where the kernel does not tell.
fn residency(set: &Path, layout: &Layout, examined: u64) -> (Option<u64>, u64) {
    let mut resident = Some(0);
    let mut whole = 0;
    for index in 0..examined {
        // Evenly spread over the set, and all of it where it is small.
        let path = set.join(layout.path(index * layout.files / examined));
        let Ok(file) = File::open(&path) else { return (None, whole) };
        let Ok(size) = file.metadata().map(|metadata| metadata.len()) else { return (None, whole) };
        whole += size;
        resident = resident.zip(resident_bytes(&file, size)).map(|(sum, bytes)| sum + bytes);
    }
    (resident, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout { files: 20, file_size: 8192, files_per_directory: 8 };
        let set = directory.path().join("set");
        build::build(&set, &layout, build::Content::Full, true, 1.into()).unwrap();
        let before = ready(&set, &layout, Interest::Data, CacheState::Warm, false).unwrap();
        assert_eq!((before.resident_bytes, before.file_bytes), (Some(16 * 8192), 16 * 8192));
        let on_memory = rustix::fs::statfs(&set).unwrap().f_type == libc::TMPFS_MAGIC;
        let cold = ready(&set, &layout, Interest::Data, CacheState::Cold, true).unwrap();
        // A file system in memory has nowhere else to keep its data. Of dropped files more are looked at.
        assert_eq!(cold.resident_bytes, Some(if on_memory { 20 * 8192 } else { 0 }));
        assert_eq!(cold.file_bytes, 20 * 8192);
        assert_eq!(resident_after(&set, &layout, Interest::Names), (None, 0));
    }
}
