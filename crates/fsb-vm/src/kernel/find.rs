//! Finds the kernels of this machine and this user, and those in the directories in which they were
//! built.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fsb_store::input::LARGEST_SCRIPT;

use super::{Kernel, Origin, cache, has_modules, image};
use crate::error::{VmError, refused};
use crate::modules::BUILD_TREE_MARK;

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
            running: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
        }
    }

    /// Returns all kernels, newest first. For one release, the host's own kernel precedes the
    /// fetched one if it is usable.
    pub fn list(&self) -> Vec<Kernel> {
        let mut found: BTreeMap<String, Kernel> = BTreeMap::new();
        for kernel in self.installed().into_iter().chain(self.fetched()) {
            let better = found
                .get(&kernel.release)
                .is_none_or(|known| known.usable().is_err() && kernel.usable().is_ok());
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
            images.extend(image::in_name(&name).map(|release| (release, path)));
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
            let modules = self
                .modules
                .iter()
                .map(|directory| directory.join(&release));
            let found = modules
                .clone()
                .find(|path| has_modules(path))
                .or_else(|| modules.clone().next());
            let modules = found.unwrap_or_default();
            let origin = if release == self.running {
                Origin::Host
            } else {
                Origin::Installed
            };
            Kernel {
                release,
                image,
                modules,
                origin,
            }
        };
        images.into_iter().map(kernel).collect()
    }

    fn fetched(&self) -> Vec<Kernel> {
        let Some(directory) = &self.cache else {
            return Vec::new();
        };
        let entries = entries(directory)
            .into_iter()
            .filter(|(name, _)| !name.starts_with('.'));
        entries
            .map(|(release, path)| fetched(release, &path))
            .filter(|kernel| kernel.image.exists())
            .collect()
    }
}

/// Returns the kernel in a directory of the cache.
pub(super) fn fetched(release: String, directory: &Path) -> Kernel {
    let (image, modules) = (directory.join("vmlinuz"), directory.join("modules"));
    Kernel {
        release,
        image,
        modules,
        origin: Origin::Fetched,
    }
}

/// Returns the directory of kernels in the user's cache.
pub(super) fn kernels(cache: &Path) -> PathBuf {
    cache.join("kernels")
}

fn entries(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// Returns every kernel that `resolve` finds by its release, newest first: the host's, the
/// installed and the fetched ones. Some may not be usable: see [`Kernel::usable`].
pub fn list() -> Vec<Kernel> {
    Places::here().list()
}

/// The paths below a build directory of images that QEMU boots.
const IMAGES: [&str; 2] = ["arch/x86/boot/bzImage", "arch/arm64/boot/Image"];

/// Returns the kernel that was built in the directory.
pub(super) fn built_kernel(directory: &Path) -> Result<Kernel, VmError> {
    let Some(image) = IMAGES
        .map(|image| directory.join(image))
        .into_iter()
        .find(|image| image.is_file())
    else {
        return Err(
            VmError::request(format!("{} holds no built kernel", directory.display()))
                .tried(format!("looked for {}", IMAGES.join(" and ")))
                .advice("build it first: make, which makes its modules too"),
        );
    };
    super::readable(&image)?;
    // Prefer the release in the image. The file may belong to a build that was started later.
    let release = image::release(&image).or_else(|_| {
        let mark = directory.join(BUILD_TREE_MARK);
        let text = crate::input::read_text(&mark, LARGEST_SCRIPT)
            .map_err(|error| refused("read", &mark, error))?;
        Ok(text.trim().to_owned())
    })?;
    let kernel = Kernel {
        release,
        image,
        modules: directory.to_path_buf(),
        origin: Origin::Named,
    };
    kernel.usable()?;
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::{is_build_tree, modules_of_build_tree};

    fn write(directory: &Path, name: &str, bytes: &[u8]) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_built_kernel_is_found_in_its_tree() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path();
        assert!(!is_build_tree(tree));
        write(tree, BUILD_TREE_MARK, b"6.19.0-rc1+\n");
        assert!(is_build_tree(tree));
        let error = built_kernel(tree).unwrap_err().to_string();
        assert!(
            error.contains("holds no built kernel") && error.contains("make"),
            "{error}"
        );
        write(tree, IMAGES[0], &image::fake("6.19.0-rc1-dirty"));
        write(tree, "modules.builtin", b"kernel/fs/ext4/ext4.ko\n");
        let found = built_kernel(tree).unwrap();
        assert_eq!(
            (found.release.as_str(), found.modules.as_path()),
            ("6.19.0-rc1-dirty", tree)
        );
    }

    #[test]
    fn images_that_do_not_say_what_they_are_are_what_was_built() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), BUILD_TREE_MARK, b"6.19.0-arm\n");
        write(tree.path(), "kernel/fork.c", b"");
        let mut image = vec![0; 0x100];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        write(tree.path(), IMAGES[1], &image);
        assert_eq!(built_kernel(tree.path()).unwrap().release, "6.19.0-arm");
    }

    #[test]
    fn its_modules_are_those_of_its_list_that_are_there() {
        let tree = tempfile::tempdir().unwrap();
        write(
            tree.path(),
            "modules.order",
            b"fs/xfs/xfs.o\nkernel/fs/jfs/jfs.ko\nfs/gone.o\n",
        );
        for name in ["fs/xfs/xfs.ko", "fs/jfs/jfs.ko", "fs/stray.ko"] {
            write(tree.path(), name, b"");
        }
        let found = |names: &[&str]| {
            let expected: Vec<_> = names.iter().map(|name| tree.path().join(name)).collect();
            assert_eq!(modules_of_build_tree(tree.path()).unwrap(), expected);
        };
        found(&["fs/xfs/xfs.ko", "fs/jfs/jfs.ko"]);
        fs::remove_file(tree.path().join("modules.order")).unwrap();
        for name in [".git/x.ko", "Documentation/x.ko", "fs/xfs/xfs.o"] {
            write(tree.path(), name, b"");
        }
        std::os::unix::fs::symlink(tree.path(), tree.path().join("source")).unwrap();
        found(&["fs/jfs/jfs.ko", "fs/stray.ko", "fs/xfs/xfs.ko"]);
        fs::create_dir(tree.path().join("modules.order")).unwrap();
        assert!(
            modules_of_build_tree(tree.path())
                .unwrap_err()
                .to_string()
                .contains("modules.order")
        );
    }
}
