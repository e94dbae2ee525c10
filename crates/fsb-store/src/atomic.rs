//! Replacing a file so that a reader sees the old one or the new one, whatever dies in between.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes `content` beside `path`, syncs it, and renames it over `path`. What a symbolic link points at is replaced, not
/// the link; a device or a pipe is written to as it is.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let real = fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return File::options().write(true).open(path)?.write_all(content);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let temporary = directory.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = write_synced(&temporary, content)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| File::open(directory)?.sync_all());
    if written.is_err() {
        // The first error is the one to tell; a leftover that cannot be removed either adds nothing to it.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}
