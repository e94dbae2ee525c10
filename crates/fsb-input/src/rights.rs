//! The privileges that files are opened with.
//!
//! Root may read everything, and often reads for a user who may not. A message must not quote a file that this user
//! cannot open. This crate does not know users: the program sets once how to work with the privileges of the invoking
//! user.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

/// Runs a piece of work with the privileges of the invoking user, and returns that user's id. Without an invoking user,
/// runs it with this process's own privileges and returns `None`.
pub type Act = fn(&mut dyn FnMut()) -> io::Result<Option<u32>>;

static ASKER: OnceLock<Act> = OnceLock::new();

thread_local! {
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Makes `act` open all files from now on. Only the first call has an effect.
pub fn open_by(act: Act) {
    let _ = ASKER.set(act);
}

/// Runs `work` with this process's own privileges. It opens files that the program itself created or found, not
/// user-supplied ones.
pub fn with_own_rights<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the flag, however the work ends.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN.set(self.0);
        }
    }
    let _before = Before(OWN.replace(true));
    work()
}

/// Opens something with the privileges of the invoking user.
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
