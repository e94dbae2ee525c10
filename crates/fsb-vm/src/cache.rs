//! The user's cache of kernels and initramfs.

use std::fs;
use std::path::PathBuf;

use crate::error::{VmError, cache_advice, refused};

/// Returns the path of the user's cache of kernels and initramfs: `$XDG_CACHE_HOME/fsb`, or `~/.cache/fsb`.
pub fn cache_path() -> Result<PathBuf, VmError> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("fsb")).ok_or_else(|| {
        VmError::machine("no directory for kernels and initramfs")
            .tried("neither XDG_CACHE_HOME nor HOME is set")
            .advice("name a directory for them: export XDG_CACHE_HOME=$(mktemp -d)")
    })
}

/// Returns the path of the user's cache, and creates the directory if necessary.
pub fn cache() -> Result<PathBuf, VmError> {
    let cache = cache_path()?;
    fs::create_dir_all(&cache).map_err(|error| {
        let advice = cache_advice(&error);
        refused("make the directory", &cache, error).advice(advice)
    })?;
    Ok(cache)
}
