//! How often a file system has written its journal: work is in its steady state only once what it wrote first is written home.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Tells how often the journal of a mounted file system has been written from end to end, since some time in the past.
pub struct Journal(Box<dyn Fn() -> Option<f64> + Send>);

impl Journal {
    /// One that is read so.
    pub(super) fn new(turns: impl Fn() -> Option<f64> + Send + 'static) -> Journal {
        Journal(Box::new(turns))
    }

    /// Differences mean something, absolute values do not.
    pub fn turns(&self) -> Option<f64> {
        (self.0)()
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Journal({:?})", self.turns())
    }
}

/// Returns the size of the journal on a slice of `bytes`: that of the large disk, but at most an eighth of the slice, in whole
/// mebibytes.
pub(super) fn journal_for(bytes: u64, large: u64) -> u64 {
    const SHARE: u64 = 8;
    large.min(bytes / SHARE) >> 20 << 20
}

/// `N` bytes of the device from `offset` on, as the file system's driver last wrote them.
pub(super) fn bytes_at<const N: usize>(device: &Path, offset: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open(device).ok()?.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}
