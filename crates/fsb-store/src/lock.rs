//! The lock of a run directory: one run writes there at a time.
//!
//! It is a file that only the author may open, or anybody who can read the directory could hold it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::{FileType, FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;

use crate::StoreError;
use crate::place::HeldDirectory;

/// The file that is locked while a run writes.
pub(crate) const LOCK_FILE: &str = ".lock";

/// Locks that turn out to be of a file that was removed, before somebody is said to be in the way.
const ATTEMPTS: usize = 16;
/// So much of what a holder says of itself is told.
const MOST: u64 = 300;

/// The lock; it ends with this value, and its file goes with [`Lock::release`].
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the lock of a run directory, or says who has it. `holder` is what the next one is told.
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
                || stat.st_uid != place.author().uid()
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
                // A file system without locks: nobody can be told from nobody.
                Ok(()) | Err(Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {}
                Err(errno) => return Err(fail("lock")(errno.into())),
            }
            // Whoever had it may have removed it in between.
            let there = place.stat(name).map_err(fail("examine"))?;
            if there.is_some_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)) {
                // What is told of the holder is a courtesy: a full disk is found out by the results.
                let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
                return Ok(Lock(file));
            }
        }
        Err(StoreError::Busy { path: place.path().to_owned(), holder: String::new() })
    }

    /// Gives the lock up and takes its file away.
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
