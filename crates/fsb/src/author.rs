//! Who writes what this program leaves: whoever asked root for it, else the user it runs as.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fsb_store::{Author, StoreError};
use fsb_sys::Caller;

use crate::{code, exit};

/// Whom results belong to.
pub fn author() -> Author {
    match Caller::current() {
        Some(caller) => Author::caller(caller.uid, act),
        None => Author::this_user(),
    }
}

fn act(work: &mut dyn FnMut()) -> io::Result<()> {
    match Caller::current() {
        Some(caller) => caller.act(work),
        None => {
            work();
            Ok(())
        }
    }
}

/// From now on all files that are given to read are opened with the rights of whoever asked root, so that no message
/// quotes what that user could not read.
pub fn read_as_caller() {
    fsb_input::open_by(|work| {
        act(work)?;
        Ok(Caller::current().map(|caller| caller.uid))
    });
}

/// Looks for files with the rights of whoever asked root: their names are told, too.
pub fn looking<T>(look: impl FnOnce() -> T) -> anyhow::Result<T> {
    author().act(look).map_err(|error| {
        exit::failure(&code::DIRECTORY_NOT_WRITABLE, format!("cannot read as the invoking user: {error}"))
    })
}

/// The command line of this process, as others are told it.
pub fn command_line() -> String {
    let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

/// What others are told who would write to the same directory.
pub fn holder() -> String {
    format!("process {} ({})", std::process::id(), command_line())
}

/// Puts `content` into the place of a file that the user named.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    fsb_store::replace(path, content, &author())
}

/// Replaces a file that the user named with what `write` writes.
pub fn replace_with(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), StoreError> {
    fsb_store::replace_with(path, &author(), write)
}

/// Opens a file that the user named, to add to it.
pub fn append(path: &Path) -> Result<File, StoreError> {
    fsb_store::append(path, &author())
}

/// Whether a file that the user named can be written at all: asked before anything is measured.
pub fn check(path: &Path) -> Result<(), StoreError> {
    fsb_store::check_output(path, &author())
}

/// Why a file that the user named cannot be written, without its name.
pub fn reason(error: StoreError) -> String {
    match error {
        StoreError::Io { source, .. } => source.to_string(),
        error => error.to_string(),
    }
}

/// The path from the root on.
pub fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    fsb_store::absolute(path)
}

/// Whether a file that is there already may be written to with these rights.
pub fn check_existing(path: &Path, rights: Rights) -> Result<(), StoreError> {
    let author = if rights == Rights::Caller { author() } else { Author::this_user() };
    fsb_store::check_existing(path, &author)
}

/// With whose rights files are made in directories that the user named, under names that others could guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Those of this process.
    Own,
    /// Those of whoever asked root.
    Caller,
}

impl Rights {
    /// For files in these directories: root works in those that are its own alone; in others only with the rights of
    /// whoever asked it.
    pub fn over<'p>(directories: impl IntoIterator<Item = &'p Path>) -> Result<Rights, StoreError> {
        Rights::checked(directories, fsb_store::check_private)
    }

    /// For a directory of a new name in that one, which may be `/tmp`.
    pub fn below(directory: &Path) -> Result<Rights, StoreError> {
        Rights::checked([directory], fsb_store::check_trusted)
    }

    fn checked<'p>(
        directories: impl IntoIterator<Item = &'p Path>,
        check: fn(&Path) -> Result<(), StoreError>,
    ) -> Result<Rights, StoreError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Rights::Own);
        }
        for directory in directories {
            match check(directory) {
                Err(StoreError::Untrusted { .. }) if Caller::current().is_some() => return Ok(Rights::Caller),
                // What is not there, or is no directory, is refused in the words of who needs it.
                Err(StoreError::Io { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Rights::Own)
    }

    /// Whose rights those are, where they are not those of this process.
    fn caller(self) -> Option<&'static Caller> {
        Caller::current().filter(|_| self == Rights::Caller)
    }

    /// Who owns what is made with these rights.
    pub fn uid(self) -> u32 {
        self.caller().map_or_else(|| rustix::process::geteuid().as_raw(), |caller| caller.uid)
    }

    /// Does `work` with these rights.
    pub fn act<T>(self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self.caller() {
            Some(caller) => caller.act(work),
            None => Ok(work()),
        }
    }

    /// This thread has these rights from now on, and the threads and workers that it starts.
    pub fn adopt(self) -> io::Result<()> {
        self.caller().map_or(Ok(()), Caller::adopt)
    }
}

/// Root boots no kernels out of a cache that others may change, and writes none there.
pub fn check_cache() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let Ok(cache) = fsb_runner::vm::cache_path() else { return Ok(()) };
    match fsb_store::check_trusted(&cache) {
        Err(StoreError::Untrusted { component, why, .. }) => Err(exit::failure(
            &code::CACHE_NOT_PRIVATE,
            format!(
                "root stores no kernels in {}: {}: {why}; run without sudo, which a virtual machine does not need, or \
                 set XDG_CACHE_HOME to a directory that only root may write to",
                cache.display(),
                component.display()
            ),
        )),
        checked => Ok(checked?),
    }
}
