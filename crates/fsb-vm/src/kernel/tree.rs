//! Kernels in the directory in which they were built, without installation.

use std::path::Path;

use fsb_input::LARGEST_SCRIPT;

use super::{Kernel, Origin, header};
use crate::error::{VmError, refused};
use crate::modules::build_tree::MARK;
pub(crate) use crate::modules::build_tree::is_one;

/// The paths below a build directory of images that QEMU boots.
const IMAGES: [&str; 2] = ["arch/x86/boot/bzImage", "arch/arm64/boot/Image"];

/// Returns the kernel that was built in the directory.
pub(super) fn kernel(directory: &Path) -> Result<Kernel, VmError> {
    let Some(image) = IMAGES.map(|image| directory.join(image)).into_iter().find(|image| image.is_file()) else {
        return Err(VmError::request(format!("{} holds no built kernel", directory.display()))
            .tried(format!("looked for {}", IMAGES.join(" and ")))
            .advice("build it first: make, which makes its modules too"));
    };
    super::readable(&image)?;
    // Prefer the release in the image. The file may belong to a build that was started later.
    let release = header::release(&image).or_else(|_| {
        let mark = directory.join(MARK);
        let text = crate::input::read_text(&mark, LARGEST_SCRIPT).map_err(|error| refused("read", &mark, error))?;
        Ok(text.trim().to_owned())
    })?;
    let kernel = Kernel { release, image, modules: directory.to_path_buf(), origin: Origin::Named };
    kernel.usable()?;
    Ok(kernel)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::modules::build_tree::modules;

    fn write(directory: &Path, name: &str, bytes: &[u8]) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn a_built_kernel_is_found_in_its_tree() {
        let scratch = tempfile::tempdir().unwrap();
        let tree = scratch.path();
        assert!(!is_one(tree));
        write(tree, MARK, b"6.19.0-rc1+\n");
        assert!(is_one(tree));
        let error = kernel(tree).unwrap_err().to_string();
        assert!(error.contains("holds no built kernel") && error.contains("make"), "{error}");
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
