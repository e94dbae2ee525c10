//! Where kernels and their modules come from.

pub(crate) mod bare;
mod deb;
mod fetch;
mod find;
mod header;
mod resolve;
mod unpack;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

pub use fetch::fetch;
pub use find::list;
pub use resolve::resolve;

use crate::error::{VmError, refused};
use crate::modules::{Index, normal};

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

impl Origin {
    /// In a word, for a table.
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
    /// As `uname -r` will say: `6.1.0-56-amd64`.
    pub release: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// The directory that holds `kernel/` and `modules.builtin`; absent where nothing but the image is known.
    pub modules: Option<PathBuf>,
    /// Where it was found.
    pub origin: Origin,
}

impl Kernel {
    /// Whether a guest can be made of it: the image can be read, and the modules are there.
    pub fn usable(&self) -> Result<(), VmError> {
        if let Err(error) = File::open(&self.image) {
            let advice = if error.kind() == io::ErrorKind::PermissionDenied {
                format!("let everybody read it (sudo chmod 0644 {}), or {FETCH}", self.image.display())
            } else {
                FETCH.to_owned()
            };
            return Err(refused("read the kernel", &self.image, error).advice(advice));
        }
        match &self.modules {
            Some(modules) if self.origin != Origin::Named => has_modules(modules).then_some(()).ok_or_else(|| {
                VmError::machine(format!("the kernel {} has no modules in {}", self.release, modules.display()))
                    .advice(FETCH)
            }),
            _ => Ok(()),
        }
    }
}

impl Kernel {
    /// Which of `names` it has neither as a module nor built in. A kernel of which nothing but the image is known is
    /// taken to have built in what is asked for.
    pub fn lacking<'n>(&self, names: &[&'n str]) -> Result<Vec<&'n str>, VmError> {
        let Some(directory) = &self.modules else { return Ok(Vec::new()) };
        let index = Index::of(directory)?;
        let has = |name: &str| {
            let name = normal(name);
            index.modules.contains_key(&name) || index.builtin.contains(&name)
        };
        Ok(names.iter().copied().filter(|name| !has(name)).collect())
    }
}

/// The next step where no kernel here will do.
pub(super) const FETCH: &str = "fetch one: fsb kernel fetch linux-image-amd64";

/// Whether that is a directory of modules, though it be of a kernel that has none but built-in ones.
fn has_modules(directory: &Path) -> bool {
    ["kernel", "modules.dep", "modules.builtin"].iter().any(|name| directory.join(name).exists())
}

/// The user's cache of kernels and initramfs: `$XDG_CACHE_HOME/fsb`, or `~/.cache/fsb`.
pub fn cache() -> Result<PathBuf, VmError> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let cache = base.map(|base| base.join("fsb")).ok_or_else(|| {
        VmError::machine("there is no directory for kernels and initramfs")
            .tried("neither XDG_CACHE_HOME nor HOME is set")
            .advice("set XDG_CACHE_HOME to a directory of yours")
    })?;
    fs::create_dir_all(&cache).map_err(|error| {
        refused("make the directory", &cache, error).advice("set XDG_CACHE_HOME to a directory that you may write to")
    })?;
    Ok(cache)
}
