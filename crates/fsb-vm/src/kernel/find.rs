//! Finds the kernels of this machine and this user.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Kernel, Origin, cache, has_modules, header};

/// The directories to search.
#[derive(Debug)]
pub(super) struct Places {
    pub boot: PathBuf,
    pub modules: Vec<PathBuf>,
    pub cache: Option<PathBuf>,
    /// The running release.
    pub running: String,
}

impl Places {
    pub fn here() -> Places {
        Places {
            boot: "/boot".into(),
            modules: vec!["/lib/modules".into(), "/usr/lib/modules".into()],
            cache: cache().ok().map(|cache| kernels(&cache)),
            running: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }

    /// Returns all kernels, newest first. For one release, the host's own kernel precedes the fetched one if it is
    /// usable.
    pub fn list(&self) -> Vec<Kernel> {
        let mut found: BTreeMap<String, Kernel> = BTreeMap::new();
        for kernel in self.installed().into_iter().chain(self.fetched()) {
            let better =
                found.get(&kernel.release).is_none_or(|known| known.usable().is_err() && kernel.usable().is_ok());
            if better {
                found.insert(kernel.release.clone(), kernel);
            }
        }
        let mut kernels: Vec<_> = found.into_values().collect();
        kernels.sort_by(|one, other| alphanumeric_sort::compare_str(&other.release, &one.release));
        kernels
    }

    fn installed(&self) -> Vec<Kernel> {
        let mut images: Vec<(String, PathBuf)> = Vec::new();
        for (name, path) in entries(&self.boot) {
            images.extend(header::in_name(&name).map(|release| (release, path)));
        }
        for directory in &self.modules {
            for (release, path) in entries(directory) {
                let image = path.join("vmlinuz");
                if image.exists() {
                    images.push((release, image));
                }
            }
        }
        let kernel = |(release, image): (String, PathBuf)| {
            let modules = self.modules.iter().map(|directory| directory.join(&release));
            let found = modules.clone().find(|path| has_modules(path)).or_else(|| modules.clone().next());
            let modules = found.unwrap_or_default();
            let origin = if release == self.running { Origin::Host } else { Origin::Installed };
            Kernel { release, image, modules, origin }
        };
        images.into_iter().map(kernel).collect()
    }

    fn fetched(&self) -> Vec<Kernel> {
        let Some(directory) = &self.cache else { return Vec::new() };
        let entries = entries(directory).into_iter().filter(|(name, _)| !name.starts_with('.'));
        entries.map(|(release, path)| fetched(release, &path)).filter(|kernel| kernel.image.exists()).collect()
    }
}

/// Returns the kernel in a directory of the cache.
pub(super) fn fetched(release: String, directory: &Path) -> Kernel {
    let (image, modules) = (directory.join("vmlinuz"), directory.join("modules"));
    Kernel { release, image, modules, origin: Origin::Fetched }
}

/// Returns the directory of kernels in the user's cache.
pub(super) fn kernels(cache: &Path) -> PathBuf {
    cache.join("kernels")
}

fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

/// Returns every kernel that `resolve` finds by its release, newest first: the host's, the installed and the fetched
/// ones. Some may not be usable: see [`Kernel::usable`].
pub fn list() -> Vec<Kernel> {
    Places::here().list()
}
