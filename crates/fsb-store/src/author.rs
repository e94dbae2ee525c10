//! With whose rights results are written.

use std::io;

use rustix::process::geteuid;

/// Does a piece of work with somebody's rights to files, and takes them back.
pub type Act = fn(&mut dyn FnMut()) -> io::Result<()>;

/// Whom results belong to, and with whose rights directories are opened, files made and renamed.
#[derive(Debug, Clone, Copy)]
pub struct Author {
    uid: u32,
    act: Option<Act>,
}

impl Author {
    /// The user whom this process runs as. Root by itself writes only where nobody else can interfere.
    pub fn this_user() -> Author {
        Author { uid: geteuid().as_raw(), act: None }
    }

    /// Another user, for whom root works; `act` does work with that user's rights.
    pub fn caller(uid: u32, act: Act) -> Author {
        Author { uid, act: Some(act) }
    }

    /// Whose files those are that are made.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether work is done with the rights of another user than this process has.
    pub(crate) fn is_caller(&self) -> bool {
        self.act.is_some()
    }

    /// Whether the path to a place must be root's own, every component of it.
    pub(crate) fn is_root(&self) -> bool {
        self.act.is_none() && self.uid == 0
    }

    /// Does `work` with the author's rights.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let Some(act) = self.act else { return Ok(work()) };
        let (mut work, mut answer) = (Some(work), None);
        act(&mut || answer = work.take().map(|work| work()))?;
        answer.ok_or_else(|| io::Error::other("nothing was done with the caller's rights"))
    }

    /// As [`Author::act`], for work that may fail.
    pub(crate) fn attempt<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.act(work).flatten()
    }
}
