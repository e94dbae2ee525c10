//! From packages to a directory of the cache that holds a kernel.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::deb;
use super::header;
use crate::error::{VmError, refused};
use crate::modules::Index;

/// Drivers that a guest has no device for, three quarters of a distribution's modules. (`net`, for the file systems of
/// networks, is no driver.)
const LEFT_OUT: [&str; 24] = [
    "sound/",
    "drivers/accel/",
    "drivers/bluetooth/",
    "drivers/comedi/",
    "drivers/gpu/",
    "drivers/hid/",
    "drivers/hwmon/",
    "drivers/iio/",
    "drivers/infiniband/",
    "drivers/input/",
    "drivers/isdn/",
    "drivers/leds/",
    "drivers/media/",
    "drivers/net/",
    "drivers/platform/",
    "drivers/power/",
    "drivers/regulator/",
    "drivers/rtc/",
    "drivers/soundwire/",
    "drivers/staging/",
    "drivers/thunderbolt/",
    "drivers/usb/",
    "drivers/video/",
    "net/wireless/",
];

/// A kernel that is being unpacked: `vmlinuz`, `config` and `modules/` in a directory that becomes its own.
#[derive(Debug)]
pub(super) struct Unpacking<'a> {
    directory: &'a Path,
    /// Of the image, once it was found.
    pub release: Option<String>,
    /// Whether modules were found.
    pub modules: bool,
}

/// What a file of a package is to us.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Image(&'a str),
    Config,
    Module(&'a str, &'a str),
    Nothing,
}

impl<'a> Unpacking<'a> {
    pub fn into(directory: &'a Path) -> Self {
        Unpacking { directory, release: None, modules: false }
    }

    /// Takes the kernel's parts from a package, until `stopped`.
    pub fn take(&mut self, package: &Path, stopped: &dyn Fn() -> bool) -> Result<(), VmError> {
        deb::each_file(package, |path, content| {
            if stopped() {
                return Err(io::Error::other("interrupted"));
            }
            match part(path) {
                Part::Image(release) => {
                    copy(content, &self.directory.join("vmlinuz"))?;
                    self.release = Some(release.to_owned());
                }
                Part::Config => copy(content, &self.directory.join("config"))?,
                Part::Module(_, rest) => {
                    copy(content, &self.directory.join("modules").join(rest))?;
                    self.modules = true;
                }
                Part::Nothing => {}
            }
            Ok(())
        })
    }

    /// Writes the index of the modules, and gives the directory its name: `kernels/RELEASE`.
    pub fn finish(self, kernels: &Path) -> Result<(String, PathBuf), VmError> {
        let named = self.release.unwrap_or_default();
        let release = header::release(&self.directory.join("vmlinuz")).unwrap_or(named);
        let modules = self.directory.join("modules");
        if !modules.join("modules.dep").exists() {
            Index::of(&modules)?.save(&modules)?;
        }
        let place = kernels.join(&release);
        install(self.directory, &place).map_err(|error| refused("write", &place, error))?;
        Ok((release, place))
    }
}

fn part(path: &str) -> Part<'_> {
    // Nothing is written outside, whatever a package says.
    if path.split('/').any(|part| part == "..") {
        return Part::Nothing;
    }
    if let Some(name) = path.strip_prefix("boot/").or_else(|| path.strip_prefix("usr/lib/modules/").and_then(image_of))
    {
        return match name.strip_prefix("vmlinuz-").or_else(|| name.strip_prefix("vmlinux-")) {
            Some(release) if !release.contains('/') => Part::Image(release),
            _ if name.starts_with("config-") => Part::Config,
            _ => Part::Nothing,
        };
    }
    let path = path.strip_prefix("usr/").unwrap_or(path);
    let Some((release, rest)) = path.strip_prefix("lib/modules/").and_then(|path| path.split_once('/')) else {
        return Part::Nothing;
    };
    let wanted = match rest.strip_prefix("kernel/") {
        Some(inner) => !LEFT_OUT.iter().any(|prefix| inner.starts_with(prefix)),
        None => rest.starts_with("modules.") || rest.starts_with("updates/") || rest.starts_with("extra/"),
    };
    if wanted { Part::Module(release, rest) } else { Part::Nothing }
}

/// Some distributions keep the image beside its modules.
fn image_of(path: &str) -> Option<&str> {
    path.split_once('/').map(|(_, rest)| rest).filter(|rest| rest.starts_with("vmlinuz-"))
}

fn copy(content: &mut dyn io::Read, path: &Path) -> io::Result<()> {
    let context = |error: io::Error| io::Error::new(error.kind(), format!("write {}: {error}", path.display()));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(context)?;
    }
    io::copy(content, &mut File::create(path).map_err(context)?).map_err(context)?;
    Ok(())
}

/// Puts a directory in a place in one step; what was there goes away.
fn install(from: &Path, place: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if !place.exists() {
        return fs::rename(from, place);
    }
    renameat_with(CWD, from, CWD, place, RenameFlags::EXCHANGE)?;
    fs::remove_dir_all(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        assert_eq!(part("boot/vmlinuz-6.1.0-56-amd64"), Part::Image("6.1.0-56-amd64"));
        assert_eq!(part("boot/config-6.1"), Part::Config);
        assert_eq!(part("boot/System.map-6.1"), Part::Nothing);
        assert_eq!(part("lib/modules/6.1/kernel/fs/jfs/jfs.ko"), Part::Module("6.1", "kernel/fs/jfs/jfs.ko"));
        assert_eq!(part("usr/lib/modules/6.1/modules.builtin"), Part::Module("6.1", "modules.builtin"));
        assert_eq!(part("lib/modules/6.1/kernel/drivers/net/tun.ko"), Part::Nothing);
        assert_eq!(part("lib/modules/6.1/../../../etc/passwd"), Part::Nothing);
        assert_eq!(part("usr/share/doc/x"), Part::Nothing);
    }

    #[test]
    fn a_package_becomes_a_kernel_and_replaces_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let kernels = directory.path().join("kernels");
        fs::create_dir(&kernels).unwrap();
        for (round, module) in ["kernel/fs/old.ko", "kernel/fs/new.ko"].into_iter().enumerate() {
            let package = directory.path().join("k.deb");
            let image = header::fake("6.1.0-1-amd64");
            let path = format!("lib/modules/6.1.0-1-amd64/{module}");
            let files = [("boot/vmlinuz-6.1.0-1-amd64", image.as_slice()), (path.as_str(), b"no module")];
            deb::tests::package(&package, "Package: k\n", &files);
            let place = directory.path().join(format!("new{round}"));
            fs::create_dir(&place).unwrap();
            let mut unpacking = Unpacking::into(&place);
            unpacking.take(&package, &|| false).unwrap();
            assert!(unpacking.modules);
            let (release, place) = unpacking.finish(&kernels).unwrap();
            assert_eq!((release.as_str(), place.clone()), ("6.1.0-1-amd64", kernels.join("6.1.0-1-amd64")));
            assert!(place.join("modules").join(module).exists() && place.join("modules/modules.dep").exists());
        }
        assert!(!kernels.join("6.1.0-1-amd64/modules/kernel/fs/old.ko").exists());
    }
}
