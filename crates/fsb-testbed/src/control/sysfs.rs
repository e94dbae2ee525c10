//! Settings below /proc and /sys that controls write.

use std::path::{Path, PathBuf};

use fsb_sys::Roots;
use fsb_sys::error::Refusal;

use crate::ledger::Action;

/// Returns the entries of a directory whose names are `prefix` and a number, in the order of the numbers.
pub(crate) fn numbered(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|entry| Some((number(&entry.path(), prefix)?, entry.path()))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Whether [`numbered`] would return `path` if it existed.
pub(crate) fn is_numbered(path: &Path, directory: &Path, prefix: &str) -> bool {
    path.parent() == Some(directory) && number(path, prefix).is_some()
}

fn number(path: &Path, prefix: &str) -> Option<u32> {
    path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok()
}

/// Returns the reason why a file of /proc or /sys cannot be written, if there is one.
pub(crate) fn writable(path: &Path) -> Result<(), Refusal> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
        .map_err(|errno| fsb_sys::error::attempt("write to", path, &errno.into()))
}

/// Whether `action` writes the file that `file` returns for a device below /sys/devices.
pub(crate) fn is_device_setting(action: &Action, roots: &Roots, file: fn(&Path) -> PathBuf) -> bool {
    let Some(path) = action.written() else { return false };
    // DEVICE/queue/SETTING
    let device = path.ancestors().nth(2).filter(|device| device.starts_with(roots.sys.join("devices")));
    device.is_some_and(|device| file(device) == path)
}

/// Returns the reason why settings of a device cannot be changed, if there is one.
pub(crate) fn device_settings() -> Result<(), Refusal> {
    let flags = rustix::fs::statvfs("/sys").map_err(|errno| errno.to_string())?.f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err("/sys is mounted read-only, as in containers".into());
    }
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err("only root may set up devices".into()) }
}
