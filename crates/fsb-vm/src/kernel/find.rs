//! The kernels that this machine and this user have.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Kernel, Origin, cache, has_modules, header};

/// Where to look.
#[derive(Debug)]
pub(super) struct Places {
    pub boot: PathBuf,
    pub modules: Vec<PathBuf>,
    pub cache: Option<PathBuf>,
    /// The release that runs here.
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

    /// All kernels, newest first; of one release the host's own before the fetched one if it can be used.
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

/// The kernel in a directory of the cache.
pub(super) fn fetched(release: String, directory: &Path) -> Kernel {
    let (image, modules) = (directory.join("vmlinuz"), directory.join("modules"));
    Kernel { release, image, modules, origin: Origin::Fetched }
}

/// The part of the user's cache that holds kernels.
pub(super) fn kernels(cache: &Path) -> PathBuf {
    cache.join("kernels")
}

fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

/// Every kernel that `resolve` knows by its release, newest first: the host's, the installed, the fetched ones. Not all
/// can be used: [`Kernel::usable`] says.
pub fn list() -> Vec<Kernel> {
    Places::here().list()
}
