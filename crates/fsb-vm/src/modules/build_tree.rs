//! A directory in which a kernel was built, and the modules in it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use fsb_input::LARGEST_SCRIPT;

use crate::error::{VmError, refused};

/// The file that every version of `make` writes first: the release of the kernel that is built here.
pub(crate) const MARK: &str = "include/config/kernel.release";

/// Whether kernels are built in that directory: the sources themselves, or what `make O=DIRECTORY` made.
pub(crate) fn is_one(directory: &Path) -> bool {
    directory.join(MARK).is_file()
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

pub(super) fn built(directory: &Path, line: &str) -> Option<PathBuf> {
    // Before Linux 5.3 the list says where they will be installed.
    let lines = [Some(line), line.strip_prefix("kernel/")];
    lines.into_iter().flatten().map(|line| directory.join(line).with_extension("ko")).find(|path| path.is_file())
}

/// All modules below the directory. What links lead to is not below it, as the `source` of `make O=DIRECTORY`.
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
