//! The lock of a run directory: one run writes there at a time.
//!
//! Only the owner may open the lock file. Otherwise every user who can read the directory could hold the lock.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::{FileType, FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

use crate::StoreError;
use crate::place::HeldDirectory;

/// The file that is locked while a run writes.
pub(crate) const LOCK_FILE: &str = ".lock";

/// Number of attempts after which the lock counts as busy. An attempt fails if the locked file was removed meanwhile.
const ATTEMPTS: usize = 16;
/// Number of bytes of the holder's description that are read for the message.
const MOST: u64 = 300;

/// The lock. Dropping the value releases it; [`Lock::release`] also removes the file.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock of a run directory. Writes `holder` into the lock file, for the message of the next process that
    /// tries.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Busy`] with the holder's description if another process has the lock.
    pub fn take(place: &HeldDirectory, holder: &str) -> Result<Lock, StoreError> {
        let name = OsStr::new(LOCK_FILE);
        let path = place.join(name);
        let fail = |what| {
            let path = path.clone();
            move |error| StoreError::io(what, &path, error)
        };
        for _ in 0..ATTEMPTS {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK;
            let mut file = place.open_file(name, flags, 0o600).map_err(fail("open the lock"))?;
            let stat = fstat(&file).map_err(|errno| fail("examine")(errno.into()))?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
                || stat.st_uid != place.result_owner().uid()
                || stat.st_nlink > 1
            {
                return Err(StoreError::Planted(path));
            }
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    let mut said = String::new();
                    let _ = (&file).take(MOST).read_to_string(&mut said);
                    return Err(StoreError::Busy { path: place.path().to_owned(), holder: one_line(&said) });
                }
                // The file system has no locks. The run continues without one.
                Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {}
                Err(errno) => return Err(fail("lock")(errno.into())),
            }
            // The previous holder may have removed the file between the open and the lock.
            let there = place.stat(name).map_err(fail("examine"))?;
            if there.is_some_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)) {
                // The description only improves a message, so an error is ignored. If the disk is full, writing the
                // results fails.
                let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                return Ok(Lock(file));
            }
        }
        Err(StoreError::Busy { path: place.path().to_owned(), holder: String::new() })
    }

    /// Removes the lock file if it is still this one. The lock itself ends when the value is dropped.
    pub fn release(&self, place: &HeldDirectory) {
        let (Ok(own), Ok(Some(there))) = (fstat(&self.0), place.stat(OsStr::new(LOCK_FILE))) else { return };
        if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) {
            let _ = place.remove(OsStr::new(LOCK_FILE));
        }
    }
}

fn one_line(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
