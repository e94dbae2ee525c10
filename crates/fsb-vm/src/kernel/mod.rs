//! Where kernels and their modules come from.

use std::path::PathBuf;

use crate::error::VmError;

/// Where a kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is the one that runs here.
    Host,
    /// It is installed here: in /boot or in its directory of modules.
    Installed,
    /// It was unpacked into the user's cache.
    Fetched,
    /// The request named its files.
    Named,
}

/// A kernel image with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` will say: `6.1.0-56-amd64`.
    pub release: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// The directory that holds `kernel/` and `modules.builtin`; absent where nothing but the image is known.
    pub modules: Option<PathBuf>,
    /// Where it was found.
    pub origin: Origin,
}

/// The kernel that `--kernel` names; without one the host's if it and its modules can be read, else the newest
/// installed or fetched one.
///
/// A name is a release (`6.1.0-56-amd64`), the beginning of one (`6.1`; the newest that fits), the path of an image
/// (its modules are those of its release, or `IMAGE:DIRECTORY` says where they are), or a Debian package (`….deb`).
pub fn resolve(text: Option<&str>) -> Result<Kernel, VmError> {
    let _ = text;
    Err(VmError::machine("no kernel"))
}

/// Every kernel that `resolve` knows by its release, newest first: the host's, the installed, the fetched ones.
pub fn list() -> Vec<Kernel> {
    Vec::new()
}

/// Downloads a Debian package with `apt-get download`, follows a metapackage to the image that it stands for, and
/// unpacks it into the user's cache; a path that ends in `.deb` is unpacked as it is. `progress` is told what happens.
pub fn fetch(package: &str, progress: &mut dyn FnMut(&str)) -> Result<Kernel, VmError> {
    progress(package);
    Err(VmError::machine("cannot fetch"))
}

/// The user's cache of kernels and initramfs: `$XDG_CACHE_HOME/fsb`, or `~/.cache/fsb`.
pub fn cache() -> Result<PathBuf, VmError> {
    Err(VmError::machine("no cache"))
}
