//! The directory in which a kernel was built, as whoever works on one has it: nothing in it is installed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use fsb_input::LARGEST_SCRIPT;

use super::{Kernel, Origin, header};
use crate::error::{VmError, refused};

/// What `make` writes first, of any version: the release of the kernel that is built here.
const MARK: &str = "include/config/kernel.release";

/// Where a build leaves images that QEMU boots.
const IMAGES: [&str; 2] = ["arch/x86/boot/bzImage", "arch/arm64/boot/Image"];

/// Whether kernels are built in that directory: the sources themselves, or what `make O=DIRECTORY` made.
pub(crate) fn is_one(directory: &Path) -> bool {
    directory.join(MARK).is_file()
}

/// The kernel that was built there.
pub(super) fn kernel(directory: &Path) -> Result<Kernel, VmError> {
    let Some(image) = IMAGES.map(|image| directory.join(image)).into_iter().find(|image| image.is_file()) else {
        return Err(VmError::request(format!("{} holds no kernel that was built", directory.display()))
            .tried(format!("looked for {}", IMAGES.join(" and ")))
            .advice("build it first: make, which makes its modules too"));
    };
    super::readable(&image)?;
    // An image says itself what it is; the file may be of a build that was begun later.
    let release = header::release(&image).or_else(|_| {
        let mark = directory.join(MARK);
        let text = crate::input::read_text(&mark, LARGEST_SCRIPT).map_err(|error| refused("read", &mark, error))?;
        Ok(text.trim().to_owned())
    })?;
    let kernel = Kernel { release, image, modules: directory.to_path_buf(), origin: Origin::Named };
    kernel.usable()?;
    Ok(kernel)
}

/// The modules that were built there. The list of them names modules, or their object files since Linux 6.3; one that
/// is not there was never built. `make fs/x/x.ko` removes the list: then all modules are taken that there are.
pub(crate) fn modules(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
    let path = directory.join("modules.order");
    let list = match crate::input::read_text(&path, LARGEST_SCRIPT) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return below(directory),
        Err(error) => return Err(refused("read", &path, error)),
    };
    Ok(list.lines().filter_map(|line| built(directory, line.trim())).collect())
}

fn built(directory: &Path, line: &str) -> Option<PathBuf> {
    // Before Linux 5.3 the list says where they will be installed.
    let lines = [Some(line), line.strip_prefix("kernel/")];
    lines.into_iter().flatten().map(|line| directory.join(line).with_extension("ko")).find(|path| path.is_file())
}

/// All modules below the directory. What links lead to is not below it, as the `source` of `make O=DIRECTORY`.
fn below(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
    let mut directories = vec![directory.to_path_buf()];
    let mut modules = Vec::new();
    while let Some(next) = directories.pop() {
        let failed = |error| refused("read", &next, error);
        for entry in fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (name, path) = (entry.file_name(), entry.path());
            if !entry.file_type().map_err(failed)?.is_dir() {
                modules.extend(Some(path).filter(|path| path.extension().is_some_and(|end| end == "ko")));
            } else if !name.as_encoded_bytes().starts_with(b".") && name != "Documentation" {
                directories.push(path);
            }
        }
    }
    modules.sort();
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str, bytes: &[u8]) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn what_was_built_is_found_in_place() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path();
        assert!(!is_one(tree));
        write(tree, MARK, b"6.19.0-rc1+\n");
        assert!(is_one(tree));
        let error = kernel(tree).unwrap_err().to_string();
        assert!(error.contains("holds no kernel that was built") && error.contains("make"), "{error}");
        write(tree, IMAGES[0], &header::fake("6.19.0-rc1-dirty"));
        write(tree, "modules.builtin", b"kernel/fs/ext4/ext4.ko\n");
        let found = kernel(tree).unwrap();
        assert_eq!((found.release.as_str(), found.modules.as_path()), ("6.19.0-rc1-dirty", tree));
    }

    #[test]
    fn images_that_do_not_say_what_they_are_are_what_was_built() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), MARK, b"6.19.0-arm\n");
        write(tree.path(), "kernel/fork.c", b"");
        let mut image = vec![0; 0x100];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        write(tree.path(), IMAGES[1], &image);
        assert_eq!(kernel(tree.path()).unwrap().release, "6.19.0-arm");
    }

    #[test]
    fn its_modules_are_those_of_its_list_that_are_there() {
        let tree = tempfile::tempdir().unwrap();
        write(tree.path(), "modules.order", b"fs/xfs/xfs.o\nkernel/fs/jfs/jfs.ko\nfs/gone.o\n");
        for name in ["fs/xfs/xfs.ko", "fs/jfs/jfs.ko", "fs/stray.ko"] {
            write(tree.path(), name, b"");
        }
        let found = |names: &[&str]| {
            let expected: Vec<_> = names.iter().map(|name| tree.path().join(name)).collect();
            assert_eq!(modules(tree.path()).unwrap(), expected);
        };
        found(&["fs/xfs/xfs.ko", "fs/jfs/jfs.ko"]);
        fs::remove_file(tree.path().join("modules.order")).unwrap();
        for name in [".git/x.ko", "Documentation/x.ko", "fs/xfs/xfs.o"] {
            write(tree.path(), name, b"");
        }
        std::os::unix::fs::symlink(tree.path(), tree.path().join("source")).unwrap();
        found(&["fs/jfs/jfs.ko", "fs/stray.ko", "fs/xfs/xfs.ko"]);
        fs::create_dir(tree.path().join("modules.order")).unwrap();
        assert!(modules(tree.path()).unwrap_err().to_string().contains("modules.order"));
    }
}
