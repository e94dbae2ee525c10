//! The user whose privileges the store uses for writing results.

use std::io;

use rustix::process::geteuid;

/// Runs a closure with another user's file privileges, and restores the privileges of this process.
pub type Act = fn(&mut dyn FnMut()) -> io::Result<()>;

/// The owner of the results. The store opens directories, and creates and renames files, with this user's privileges.
#[derive(Debug, Clone, Copy)]
pub struct ResultOwner {
    uid: u32,
    act: Option<Act>,
}

impl ResultOwner {
    /// Returns the user that this process runs as. If this is root, the store writes only in directories that no other
    /// user can change.
    pub fn this_user() -> ResultOwner {
        ResultOwner { uid: geteuid().as_raw(), act: None }
    }

    /// Returns the user on whose behalf root works. `act` runs a closure with that user's privileges.
    pub fn invoking_user(uid: u32, act: Act) -> ResultOwner {
        ResultOwner { uid, act: Some(act) }
    }

    /// Returns the owner of the files that the store creates.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns whether the store acts with another user's privileges than those of this process.
    pub(crate) fn is_invoking_user(&self) -> bool {
        self.act.is_some()
    }

    /// Returns whether root must own every component of the path to a directory.
    pub(crate) fn is_root(&self) -> bool {
        self.act.is_none() && self.uid == 0
    }

    /// Runs `work` with the owner's privileges.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let Some(act) = self.act else { return Ok(work()) };
        let (mut work, mut answer) = (Some(work), None);
        act(&mut || answer = work.take().map(|work| work()))?;
        answer.ok_or_else(|| io::Error::other("nothing ran with the privileges of the invoking user"))
    }

    /// Runs fallible work as [`ResultOwner::act`] does.
    pub(crate) fn attempt<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.act(work).flatten()
    }
}
