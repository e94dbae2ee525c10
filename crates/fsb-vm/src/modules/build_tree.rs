//! Finds the modules in a directory in which a kernel was built.

use std::path::{Path, PathBuf};
use std::{fs, io};

use fsb_input::LARGEST_SCRIPT;

use crate::error::{VmError, refused};

/// The file that every version of `make` writes first. It contains the release of the kernel that is built here.
pub(crate) const MARK: &str = "include/config/kernel.release";

/// Returns whether kernels are built in that directory: the source tree, or the directory of `make O=DIRECTORY`.
pub(crate) fn is_one(directory: &Path) -> bool {
    directory.join(MARK).is_file()
}

/// Returns the modules that were built in the directory. `modules.order` lists modules, or since Linux 6.3 their object
/// files. A listed module without a file was never built. `make fs/x/x.ko` removes the list; then all existing modules
/// are returned.
pub(crate) fn modules(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
    let path = directory.join("modules.order");
    let list = match crate::input::read_text(&path, LARGEST_SCRIPT) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return below(directory),
        Err(error) => return Err(refused("read", &path, error)),
    };
    Ok(list.lines().filter_map(|line| built(directory, line.trim())).collect())
}

pub(super) fn built(directory: &Path, line: &str) -> Option<PathBuf> {
    // Before Linux 5.3 the list contains the paths of the installed modules.
    let lines = [Some(line), line.strip_prefix("kernel/")];
    lines.into_iter().flatten().map(|line| directory.join(line).with_extension("ko")).find(|path| path.is_file())
}

/// Returns all modules below the directory. Does not follow links, such as the `source` of `make O=DIRECTORY`.
pub(super) fn below(directory: &Path) -> Result<Vec<PathBuf>, VmError> {
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
