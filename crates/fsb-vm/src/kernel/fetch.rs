//! Kernels from Debian packages, without root: `apt-get download`, and taken apart here.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::find::{fetched, kernels};
use super::unpack::Unpacking;
use super::{Kernel, cache, deb};
use crate::error::{VmError, refused};

/// A metapackage, what it stands for, and packages of modules: no kernel is spread over more.
const PACKAGES: usize = 6;

/// What the names of directories of work begin with.
const WORK: &str = ".new-";

/// Downloads a Debian package with `apt-get download`, follows a metapackage to the image that it stands for, and
/// unpacks it into the user's cache; a path that ends in `.deb` is unpacked as it is. `progress` is told what happens.
pub fn fetch(package: &str, progress: &mut dyn FnMut(&str)) -> Result<Kernel, VmError> {
    check(package)?;
    let kernels = kernels(&cache()?);
    fs::create_dir_all(&kernels).map_err(|error| refused("make the directory", &kernels, error))?;
    sweep(&kernels, Duration::from_secs(60));
    // Beside the place where it goes, so that it goes there whole; the lock says that somebody works in it.
    let work = tempfile::Builder::new()
        .prefix(WORK)
        .tempdir_in(&kernels)
        .map_err(|error| refused("write into", &kernels, error))?;
    let _lock = lock(work.path());
    let place = work.path().join("kernel");
    fs::create_dir(&place).map_err(|error| refused("make the directory", &place, error))?;
    let mut unpacking = Unpacking::into(&place);
    let mut wanted = VecDeque::from([package.to_owned()]);
    let mut seen: Vec<String> = Vec::new();
    while let Some(next) = wanted.pop_front() {
        if seen.contains(&next) || seen.len() == PACKAGES {
            continue;
        }
        let file = if next.ends_with(".deb") { PathBuf::from(&next) } else { download(&next, work.path(), progress)? };
        let control = deb::control(&file)?;
        seen.extend([next, control.package.clone()]);
        progress(&format!("unpacking {}", control.package));
        unpacking.take(&file)?;
        if unpacking.release.is_none() || !unpacking.modules {
            let parts = |name: &String| name.starts_with("linux-image-") || name.starts_with("linux-modules-");
            wanted.extend(control.depends.into_iter().filter(parts));
        }
    }
    let lacking = match (&unpacking.release, unpacking.modules) {
        (None, _) => "image",
        (_, false) => "modules",
        _ => {
            progress("listing its modules");
            let (release, place) = unpacking.finish(&kernels)?;
            return Ok(fetched(release, &place));
        }
    };
    Err(VmError::machine(format!("the package {package} brings no kernel {lacking}"))
        .tried(format!("looked into {}", seen.join(", ")))
        .advice("name a package such as linux-image-amd64 (apt-cache search linux-image)"))
}

/// Refuses what is neither a file nor the name of a package, before anything is touched.
fn check(package: &str) -> Result<(), VmError> {
    let named = |c: char| c.is_ascii_alphanumeric() || "+-._:=~/".contains(c);
    if package.ends_with(".deb") {
        let there = Path::new(package).is_file();
        there.then_some(()).ok_or_else(|| VmError::request(format!("there is no file {package}")))
    } else if package.is_empty() || package.starts_with('-') || !package.chars().all(named) {
        Err(VmError::request(format!("{package:?} is not the name of a package")))
    } else {
        Ok(())
    }
}

/// Downloads one package into the directory.
fn download(package: &str, directory: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, VmError> {
    let place = tempfile::tempdir_in(directory).map_err(|error| refused("write into", directory, error))?.keep();
    progress(&format!("downloading {package}"));
    let output = Command::new("apt-get")
        .args(["-q", "download", package])
        .current_dir(&place)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| no_apt(package, &error))?;
    let entries = fs::read_dir(&place).map_err(|error| refused("read", &place, error))?;
    let found = entries.flatten().map(|entry| entry.path()).find(|path| path.extension() == Some(OsStr::new("deb")));
    found.filter(|_| output.status.success()).ok_or_else(|| {
        let text = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<_> = text.lines().filter(|line| line.starts_with("E:")).map(str::trim).collect();
        VmError::machine(format!("cannot download the package {package}"))
            .tried(format!(
                "apt-get download: {}",
                if errors.is_empty() { text.trim().to_owned() } else { errors.join(" / ") }
            ))
            .advice("sudo apt-get update, or name a .deb file that you have")
    })
}

fn no_apt(package: &str, error: &io::Error) -> VmError {
    let what = VmError::machine(format!("cannot download the package {package}"));
    if error.kind() == io::ErrorKind::NotFound {
        what.tried("there is no apt-get here").advice("download a kernel's .deb elsewhere and name the file")
    } else {
        what.tried(format!("apt-get: {error}"))
    }
}

/// The lock of a directory of work, unless somebody else has it. It ends with whoever holds it.
fn lock(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Removes what those left behind who were killed while they fetched. One made a moment ago may not be locked yet.
fn sweep(kernels: &Path, age: Duration) {
    let Ok(entries) = fs::read_dir(kernels) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(WORK)) {
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|time| time.elapsed().is_ok_and(|elapsed| elapsed >= age));
        if old && lock(&entry.path()).is_some() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_none_are_refused() {
        for name in ["", "-o=x", "a b", "a;b", "/no/such.deb"] {
            assert!(check(name).is_err(), "{name}");
        }
        assert!(check("linux-image-6.12.117+deb12-amd64").is_ok());
    }

    #[test]
    fn what_the_dead_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join(".new-own");
        let dead = directory.path().join(".new-dead");
        let kernel = directory.path().join("6.1");
        for path in [&own, &dead, &kernel] {
            fs::create_dir(path).unwrap();
        }
        let _lock = lock(&own).unwrap();
        sweep(directory.path(), Duration::from_secs(60));
        assert!(dead.exists());
        sweep(directory.path(), Duration::ZERO);
        assert!(own.exists() && !dead.exists() && kernel.exists());
    }
}
