//! With whose rights files are opened.
//!
//! Root may read everything, and often reads for somebody who may not: what a message quotes of a file must not be of one
//! that this user could not open. This crate knows no users; the program says once how work is done with the rights of
//! whoever asked for it.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

/// Does a piece of work with the rights of whoever asked root, and says who that is; with this process's own where nobody
/// did.
pub type Act = fn(&mut dyn FnMut()) -> io::Result<Option<u32>>;

static ASKER: OnceLock<Act> = OnceLock::new();

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// From now on all files are opened by `act`. The first call counts.
pub fn open_by(act: Act) {
    let _ = ASKER.set(act);
}

/// Does `work` with this process's own rights: it opens what the program itself made or found, and nobody named.
pub fn with_own_rights<T>(work: impl FnOnce() -> T) -> T {
    /// Sets the flag back, however the work ends.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN.set(self.0);
        }
    }
    let _before = Before(OWN.replace(true));
    work()
}

/// Opens something with the rights of whoever asked for it.
pub(crate) fn open<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let Some(act) = ASKER.get().filter(|_| !OWN.get()) else { return open() };
    let mut opened = None;
    let asker = act(&mut || opened = Some(open()))?;
    let opened = opened.unwrap_or_else(|| Err(io::Error::other("nothing was opened")));
    match (opened, asker) {
        // Root may read everything, so that a refusal needs to be explained.
        (Err(error), Some(uid)) if error.kind() == io::ErrorKind::PermissionDenied => {
            let why = format!("{error} to the invoking user {uid}: fsb opens it with that user's rights");
            Err(io::Error::new(error.kind(), why))
        }
        (opened, _) => opened,
    }
}
