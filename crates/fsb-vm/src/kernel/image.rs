//! A kernel: its image, its modules and its origin.

use std::io;
use std::path::{Path, PathBuf};

use super::header;
use crate::error::{VmError, refused};
use crate::modules::{Index, normal};

/// The place where a kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The kernel runs on this host.
    Host,
    /// The kernel is installed on this host: in /boot or in its directory of modules.
    Installed,
    /// The kernel was unpacked into the user's cache.
    Fetched,
    /// The request named the kernel's files.
    Named,
}

impl Origin {
    /// Returns one word for a table.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Host => "host",
            Origin::Installed => "installed",
            Origin::Fetched => "fetched",
            Origin::Named => "named",
        }
    }
}

/// A kernel image with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The release as `uname -r` prints it: `6.1.0-56-amd64`.
    pub release: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// The directory that holds `kernel/` and `modules.builtin`, or the directory in which the kernel was built.
    pub modules: PathBuf,
    pub origin: Origin,
}

impl Kernel {
    /// Checks that a guest can use the kernel: the image can be read and is complete, and the modules exist.
    pub fn usable(&self) -> Result<(), VmError> {
        readable(&self.image)?;
        header::check_whole(&self.image)?;
        match look_for_modules(&self.modules) {
            Ok(true) => Ok(()),
            Ok(false) => Err(VmError::machine(format!(
                "the kernel {} has no modules in {}",
                self.release,
                self.modules.display()
            ))
            .advice(FETCH)),
            Err(error) => Err(unreadable(&self.modules, error)),
        }
    }

    /// Returns those of `names` that the kernel has neither as a module nor built in.
    pub fn lacking<'n>(&self, names: &[&'n str]) -> Result<Vec<&'n str>, VmError> {
        let index = Index::of(&self.modules)?;
        let has = |name: &str| {
            let name = normal(name);
            index.modules.contains_key(&name) || index.builtin.contains(&name)
        };
        Ok(names.iter().copied().filter(|name| !has(name)).collect())
    }
}

/// The advice if no kernel of this host is usable.
pub(crate) const FETCH: &str = "fetch one: fsb kernel fetch linux-image-amd64";

/// Checks that the image can be opened.
pub(super) fn readable(image: &Path) -> Result<(), VmError> {
    let Err(error) = crate::input::open(image) else { return Ok(()) };
    let advice = if error.kind() == io::ErrorKind::PermissionDenied {
        format!("make it readable for all users (sudo chmod 0644 {}), or {FETCH}", image.display())
    } else {
        FETCH.to_owned()
    };
    Err(refused("read the kernel", image, error).advice(advice))
}

/// Returns whether the directory holds modules. A kernel may have only built-in ones.
pub(super) fn look_for_modules(directory: &Path) -> io::Result<bool> {
    for name in ["kernel", "modules.dep", "modules.builtin"] {
        match directory.join(name).try_exists() {
            Ok(true) => return Ok(true),
            Err(error) if error.kind() != io::ErrorKind::NotADirectory => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

/// Calls [`look_for_modules`] and ignores errors, so that the next candidate is tried.
pub(super) fn has_modules(directory: &Path) -> bool {
    look_for_modules(directory).unwrap_or(false)
}

pub(super) fn unreadable(modules: &Path, error: io::Error) -> VmError {
    refused("read the modules in", modules, error).advice(format!("make them readable for all users, or {FETCH}"))
}
