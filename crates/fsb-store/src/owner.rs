//! The owner of the files that this program writes: the invoking user under sudo, else the user it
//! runs as.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fsb_model::{code, failure};
use fsb_sys::InvokingUser;

use crate::{ResultOwner, StoreError};

/// Returns the owner of results.
pub fn result_owner() -> ResultOwner {
    match InvokingUser::current() {
        Some(invoking_user) => ResultOwner::invoking_user(invoking_user.uid, act),
        None => ResultOwner::this_user(),
    }
}

fn act(work: &mut dyn FnMut()) -> io::Result<()> {
    match InvokingUser::current() {
        Some(invoking_user) => invoking_user.act(work),
        None => {
            work();
            Ok(())
        }
    }
}

/// Makes every later read of a user-supplied file use the invoking user's privileges, so that no
/// message quotes a file that the invoking user cannot read.
pub fn read_as_invoking_user() {
    crate::input::open_by(|work| {
        act(work)?;
        Ok(InvokingUser::current().map(|invoking_user| invoking_user.uid))
    });
}

/// Looks for files with the invoking user's privileges, because messages print the names that are
/// found.
pub fn looking<T>(look: impl FnOnce() -> T) -> anyhow::Result<T> {
    result_owner().act(look).map_err(|error| {
        failure::failed_call(
            &code::DIRECTORY_NOT_WRITABLE,
            &error,
            format!("cannot read as the invoking user: {error}"),
        )
    })
}

/// Returns the command line of this process, as other processes print it.
pub fn command_line() -> String {
    let words: Vec<_> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// Returns the description of this process that others print when they find the directory in use.
pub fn holder() -> String {
    format!("process {} ({})", std::process::id(), command_line())
}

/// Checks, before a measurement, that the file of an option can be written. `example` is a name for
/// it.
pub fn check_option(option: &str, path: &Path, example: &str) -> anyhow::Result<()> {
    let shown = path.display();
    if path.is_dir() {
        let help = format!("name a file, such as {example}");
        return Err(failure::advised(
            &code::UNWRITABLE,
            format!("{option} {shown} is a directory"),
            help,
        ));
    }
    check(path).map_err(|error| unwritable(format_args!("cannot write {option} {shown}"), error))
}

/// Replaces a file that the user named by `content`.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    crate::replace(path, content, &result_owner())
}

/// Replaces a file that the user named by the output of `write`.
pub fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), StoreError> {
    crate::replace_with(path, &result_owner(), write)
}

/// Opens a file that the user named, to append to it.
pub fn append(path: &Path) -> Result<File, StoreError> {
    crate::append(path, &result_owner())
}

/// Checks that a file that the user named can be written; called before anything is measured.
pub fn check(path: &Path) -> Result<(), StoreError> {
    crate::check_output(path, &result_owner())
}

/// Returns the error of a file that cannot be written. The message is `failure`, which names the
/// file, and the reason without the name.
pub fn unwritable(failure: impl Display, error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Io { source, .. } => {
            failure::failed_call(&code::UNWRITABLE, &source, format!("{failure}: {source}"))
        }
        error => failure::error(&code::UNWRITABLE, format!("{failure}: {error}")),
    }
}

/// Returns the absolute path.
pub fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    crate::absolute(path)
}

/// Checks that an existing file can be written with these rights.
pub fn check_existing(path: &Path, rights: Rights) -> Result<(), StoreError> {
    let result_owner = if rights == Rights::InvokingUser {
        result_owner()
    } else {
        ResultOwner::this_user()
    };
    crate::check_existing(path, &result_owner)
}

/// The user whose privileges create files in directories that the user named, under names that
/// others could guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// The privileges of this process.
    Own,
    /// The privileges of the invoking user.
    InvokingUser,
}

impl Rights {
    /// Returns the rights for files in these directories. Root works in directories that only root
    /// can write to; in all others it uses the privileges of the invoking user.
    pub fn over<'p>(directories: impl IntoIterator<Item = &'p Path>) -> Result<Rights, StoreError> {
        Rights::checked(directories, crate::check_private)
    }

    /// Returns the rights for a directory with a new name in `directory`, which may be `/tmp`.
    pub fn below(directory: &Path) -> Result<Rights, StoreError> {
        Rights::checked([directory], crate::check_trusted)
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
                Err(StoreError::Untrusted { .. }) if InvokingUser::current().is_some() => {
                    return Ok(Rights::InvokingUser);
                }
                // The code that uses the directory reports a missing path or a path that is not a
                // directory.
                Err(StoreError::Io { .. }) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Rights::Own)
    }

    /// Returns the user whose privileges these are, or `None` if they are those of this process.
    fn invoking_user(self) -> Option<&'static InvokingUser> {
        InvokingUser::current().filter(|_| self == Rights::InvokingUser)
    }

    /// Returns the owner of files that are created with these rights.
    pub fn uid(self) -> u32 {
        self.invoking_user().map_or_else(
            || rustix::process::geteuid().as_raw(),
            |invoking_user| invoking_user.uid,
        )
    }

    /// Runs `work` with these rights.
    pub fn act<T>(self, work: impl FnOnce() -> T) -> io::Result<T> {
        match self.invoking_user() {
            Some(invoking_user) => invoking_user.act(work),
            None => Ok(work()),
        }
    }

    /// Gives these rights to this thread, and to the threads and workers that it starts from now
    /// on.
    pub fn adopt(self) -> io::Result<()> {
        self.invoking_user().map_or(Ok(()), InvokingUser::adopt)
    }
}
