//! Fetches kernels from Debian packages without root: `apt-get download` gets a package, and this
//! module unpacks it.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use fsb_model::errno;
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use tempfile::TempDir;

use super::find::{fetched, kernels};
use super::{Kernel, cache, deb, image};
use crate::error::{Tried, VmError, cache_advice, refused};
use crate::modules::Index;

/// Maximum number of packages of one kernel: a metapackage, the image that it depends on, and
/// packages of modules.
const PACKAGES: usize = 6;

/// The file beside a kernel that identifies the `.deb` that it came from.
const NOTE: &str = "package";

/// The prefix of the names of work directories.
const WORK: &str = ".new-";

/// Downloads a Debian package with `apt-get download`, follows a metapackage to its image, and
/// unpacks it into the user's cache. A path that ends in `.deb` is unpacked directly. Calls
/// `progress` with a description of each step. Once `stopped` returns `true`, it removes its files
/// and returns an error.
pub fn fetch(
    package: &str,
    progress: &mut dyn FnMut(&str),
    stopped: &dyn Fn() -> bool,
) -> Result<Kernel, VmError> {
    check(package)?;
    fetch_into(&kernels(&cache()?), package, progress, stopped)
}

/// Returns the kernel of a `.deb` file. Unpacks it as [`fetch`] does, unless the cache already has
/// the kernel of this file.
pub fn unpacked(
    package: &str,
    progress: &mut dyn FnMut(&str),
    stopped: &dyn Fn() -> bool,
) -> Result<Kernel, VmError> {
    check(package)?;
    let kernels = kernels(&cache()?);
    noted(&kernels, package).map_or_else(|| fetch_into(&kernels, package, progress, stopped), Ok)
}

/// Removes the work directories of killed fetches from the user's cache.
pub fn tidy() {
    if let Ok(cache) = cache() {
        sweep(&kernels(&cache));
    }
}

/// Returns the kernel in the cache that came from that file.
fn noted(kernels: &Path, package: &str) -> Option<Kernel> {
    let mark = mark(package)?;
    let places = fs::read_dir(kernels)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let mut same =
        places.filter(|place| fs::read_to_string(place.join(NOTE)).is_ok_and(|note| note == mark));
    let place = same.find(|place| {
        !place
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    })?;
    let kernel = fetched(place.file_name()?.to_str()?.to_owned(), &place);
    kernel.usable().is_ok().then_some(kernel)
}

/// Returns a text that identifies the file of a package: its name, size and modification time.
fn mark(package: &str) -> Option<String> {
    let path = Path::new(package);
    let metadata = path.metadata().ok()?;
    let name = path.file_name()?.to_string_lossy();
    Some(format!(
        "{name}\n{} bytes\n{}.{:09}\n",
        metadata.len(),
        metadata.mtime(),
        metadata.mtime_nsec()
    ))
}

fn fetch_into(
    kernels: &Path,
    package: &str,
    progress: &mut dyn FnMut(&str),
    stopped: &dyn Fn() -> bool,
) -> Result<Kernel, VmError> {
    fs::create_dir_all(kernels).map_err(|error| no_place("make the directory", kernels, error))?;
    sweep(kernels);
    let (work, _lock) = workplace(kernels)?;
    let place = work.path().join("kernel");
    fs::create_dir(&place).map_err(|error| refused("make the directory", &place, error))?;
    let mut unpacking = Unpacking::into(&place);
    let mut wanted = VecDeque::from([package.to_owned()]);
    let mut seen: Vec<String> = Vec::new();
    while let Some(next) = wanted.pop_front() {
        if seen.contains(&next) || seen.len() == PACKAGES {
            continue;
        }
        let file = if next.ends_with(".deb") {
            PathBuf::from(&next)
        } else {
            download(&next, work.path(), progress, stopped)?
        };
        let control = deb::control(&file)?;
        check_kind(&control.package)?;
        seen.extend([next, control.package.clone()]);
        progress(&format!("unpacking {}", control.package));
        unpacking.take(&file, stopped)?;
        if unpacking.release.is_none() || !unpacking.modules {
            wanted.extend(control.depends.into_iter().filter(|name| {
                name.starts_with("linux-image-") || name.starts_with("linux-modules-")
            }));
        }
    }
    let lacking = match (&unpacking.release, unpacking.modules) {
        (None, _) => "image",
        (_, false) => "modules",
        _ => {
            if stopped() {
                return Err(
                    VmError::machine(format!("cannot fetch {package}")).tried("interrupted")
                );
            }
            progress("listing its modules");
            if let Some(mark) = mark(package).filter(|_| package.ends_with(".deb")) {
                let note = place.join(NOTE);
                fs::write(&note, mark).map_err(|error| no_place("write", &note, error))?;
            }
            let (release, place) = unpacking.finish(kernels)?;
            return Ok(fetched(release, &place));
        }
    };
    Err(
        VmError::machine(format!("the package {package} brings no kernel {lacking}"))
            .tried(format!("looked into {}", seen.join(", ")))
            .advice("name a package such as linux-image-amd64 (apt-cache search linux-image)"),
    )
}

/// Refuses a text that is neither a file nor the name of a package, before anything is changed.
fn check(package: &str) -> Result<(), VmError> {
    if package.contains("://") {
        Err(VmError::request(format!("{package} is a URL"))
            .advice("download the .deb file first, then name it: fsb kernel fetch ./FILE.deb"))
    } else if package.ends_with(".deb") {
        let there = Path::new(package).is_file();
        there.then_some(()).ok_or_else(|| {
            VmError::request(format!("no file {package}"))
                .advice("name a .deb file that exists, or a package such as linux-image-amd64")
        })
    } else if Path::new(package).exists() && package.contains(['/', '.', '_']) {
        Err(VmError::request(format!("{package} is not a .deb file"))
            .advice("name a .deb file or a package: fsb kernel fetch linux-image-amd64"))
    } else if package.starts_with(|first: char| first.is_ascii_digit()) && package.contains('.') {
        Err(
            VmError::request(format!("{package} is a release of Linux, and no package")).advice(
                format!(
                    "find the package of a release with apt-cache search linux-image-{package}"
                ),
            ),
        )
    } else if package.is_empty()
        || package.starts_with('-')
        || !package
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-._:=~/".contains(c))
    {
        Err(
            VmError::request(format!("{package:?} is not the name of a package"))
                .advice("name a package such as linux-image-amd64, or a .deb file"),
        )
    } else {
        check_kind(package)
    }
}

/// Refuses packages with a kernel's debugging symbols or headers, which are large and contain
/// nothing to boot. A name may be followed by `=VERSION`, `/SUITE` or `:ARCHITECTURE`.
fn check_kind(package: &str) -> Result<(), VmError> {
    let name = package.split(['=', '/', ':']).next().unwrap_or_default();
    let image = ["-dbg", "-dbgsym"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let headers = name
        .strip_prefix("linux-headers-")
        .map(|release| format!("linux-image-{release}"));
    match (image, headers) {
        (Some(image), _) => Err(VmError::request(format!(
            "{name} holds symbols for debuggers, and no kernel to boot"
        ))
        .advice(format!("fsb kernel fetch {image}"))),
        (_, Some(image)) => Err(VmError::request(format!(
            "{name} holds headers, and no kernel to boot"
        ))
        .advice(format!("fsb kernel fetch {image}"))),
        _ => Ok(()),
    }
}

/// Makes the error for a cache that cannot be written, with its advice.
fn no_place(verb: &str, path: &Path, error: io::Error) -> VmError {
    let advice = cache_advice(&error);
    refused(verb, path, error).advice(advice)
}

/// Downloads one package into the directory.
fn download(
    package: &str,
    directory: &Path,
    progress: &mut dyn FnMut(&str),
    stopped: &dyn Fn() -> bool,
) -> Result<PathBuf, VmError> {
    let place = tempfile::tempdir_in(directory)
        .map_err(|error| refused("write into", directory, error))?
        .keep();
    progress(&format!("downloading {package}"));
    // apt-get writes into a file, because a full pipe would block it while this function waits.
    let log = tempfile::tempfile_in(directory)
        .map_err(|error| no_place("write into", directory, error))?;
    let errors = log
        .try_clone()
        .map_err(|error| no_place("write into", directory, error))?;
    let mut apt = Command::new("apt-get")
        .args(["-q", "download", package])
        .current_dir(&place)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .map_err(|error| no_apt(package, &error))?;
    let status = loop {
        match apt.try_wait().map_err(|error| no_apt(package, &error))? {
            Some(status) => break status,
            None if stopped() => {
                let _ = apt.kill();
                let _ = apt.wait();
                return Err(
                    VmError::machine(format!("cannot download the package {package}"))
                        .tried("interrupted"),
                );
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let entries = fs::read_dir(&place).map_err(|error| refused("read", &place, error))?;
    let found = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension() == Some(OsStr::new("deb")));
    found.filter(|_| status.success()).ok_or_else(|| {
        let mut text = Vec::new();
        let _ = (&log).rewind().and_then(|()| (&log).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let errors: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("E:"))
            .map(str::trim)
            .collect();
        VmError::machine(format!("cannot download the package {package}"))
            .tried(format!(
                "apt-get download: {}",
                if errors.is_empty() {
                    text.trim().to_owned()
                } else {
                    errors.join(" / ")
                }
            ))
            .advice("sudo apt-get update, or name a .deb file that you have")
    })
}

fn no_apt(package: &str, error: &io::Error) -> VmError {
    let what = VmError::machine(format!("cannot download the package {package}"));
    if error.kind() == io::ErrorKind::NotFound {
        what.tried("no apt-get here")
            .advice("download a kernel's .deb elsewhere and name the file")
    } else {
        what.tried(Tried::call("apt-get", error))
    }
}

/// Locks a work directory. Returns `None` if another process has the lock. The lock ends with the
/// process that holds it.
fn lock(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Waits until no other process creates or sweeps work directories in `kernels`. Returns `None` on
/// a file system without locks, where sweeping is disabled too.
fn turn(kernels: &Path) -> Option<File> {
    let file = File::open(kernels).ok()?;
    retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).ok()?;
    Some(file)
}

/// Creates a work directory beside the final directory of the kernel, so that one rename can move
/// it there. The lock shows that the directory is in use.
fn workplace(kernels: &Path) -> Result<(TempDir, Option<File>), VmError> {
    // Between its creation and its lock the directory looks abandoned.
    let _turn = turn(kernels);
    let work = tempfile::Builder::new().prefix(WORK).tempdir_in(kernels);
    let work = work.map_err(|error| no_place("write into", kernels, error))?;
    let lock = lock(work.path());
    Ok((work, lock))
}

/// Removes the work directories of killed fetches.
fn sweep(kernels: &Path) {
    let Some(_turn) = turn(kernels) else { return };
    let Ok(entries) = fs::read_dir(kernels) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(WORK))
    {
        let held = lock(&entry.path());
        if held.is_some() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Drivers of devices that a guest does not have. They are three quarters of a distribution's
/// modules. (`net`, which network file systems need, holds no drivers but those of wireless
/// networks.)
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

/// The one of them that a guest needs: NFS clients are connected through it. Earlier versions of
/// fsb left it out.
pub(crate) const ADDED_LATER: &str = "veth";

/// A kernel that is being unpacked: `vmlinuz`, `config` and `modules/` in a directory that becomes
/// its own.
#[derive(Debug)]
struct Unpacking<'a> {
    directory: &'a Path,
    /// The release of the image, after it was found.
    pub release: Option<String>,
    /// Whether modules were found.
    pub modules: bool,
}

/// The role of a file of a package.
#[derive(Debug, PartialEq, Eq)]
enum ArchivePart<'a> {
    Image(&'a str),
    Config,
    Module(&'a str, &'a str),
    Nothing,
}

impl<'a> Unpacking<'a> {
    pub fn into(directory: &'a Path) -> Self {
        Unpacking {
            directory,
            release: None,
            modules: false,
        }
    }

    /// Unpacks the kernel's parts from a package, until `stopped`.
    pub fn take(&mut self, package: &Path, stopped: &dyn Fn() -> bool) -> Result<(), VmError> {
        deb::each_file(package, |path, content| {
            if stopped() {
                return Err(io::Error::other("interrupted"));
            }
            match part(path) {
                ArchivePart::Image(release) => {
                    copy(content, &self.directory.join("vmlinuz"))?;
                    self.release = Some(release.to_owned());
                }
                ArchivePart::Config => copy(content, &self.directory.join("config"))?,
                ArchivePart::Module(_, rest) => {
                    copy(content, &self.directory.join("modules").join(rest))?;
                    self.modules = true;
                }
                ArchivePart::Nothing => {}
            }
            Ok(())
        })
    }

    /// Writes the index of the modules, and renames the directory to `kernels/RELEASE`.
    pub fn finish(self, kernels: &Path) -> Result<(String, PathBuf), VmError> {
        let named = self.release.unwrap_or_default();
        let release = image::release(&self.directory.join("vmlinuz")).unwrap_or(named);
        let modules = self.directory.join("modules");
        if !modules.join("modules.dep").exists() {
            Index::read(&modules)?.save(&modules)?;
        }
        let place = kernels.join(&release);
        install(self.directory, &place).map_err(|error| refused("write", &place, error))?;
        Ok((release, place))
    }
}

fn part(path: &str) -> ArchivePart<'_> {
    // A path of the package must not lead outside the directory.
    if path.split('/').any(|part| part == "..") {
        return ArchivePart::Nothing;
    }
    if let Some(name) = path
        .strip_prefix("boot/")
        .or_else(|| path.strip_prefix("usr/lib/modules/").and_then(image_of))
    {
        return match name
            .strip_prefix("vmlinuz-")
            .or_else(|| name.strip_prefix("vmlinux-"))
        {
            Some(release) if !release.contains('/') => ArchivePart::Image(release),
            _ if name.starts_with("config-") => ArchivePart::Config,
            _ => ArchivePart::Nothing,
        };
    }
    let path = path.strip_prefix("usr/").unwrap_or(path);
    let Some((release, rest)) = path
        .strip_prefix("lib/modules/")
        .and_then(|path| path.split_once('/'))
    else {
        return ArchivePart::Nothing;
    };
    let wanted = match rest.strip_prefix("kernel/") {
        Some(inner) => {
            let of_network = inner
                .strip_prefix("drivers/net/")
                .and_then(|name| name.split('.').next());
            of_network == Some(ADDED_LATER)
                || !LEFT_OUT.iter().any(|prefix| inner.starts_with(prefix))
        }
        None => {
            rest.starts_with("modules.")
                || rest.starts_with("updates/")
                || rest.starts_with("extra/")
        }
    };
    if wanted {
        ArchivePart::Module(release, rest)
    } else {
        ArchivePart::Nothing
    }
}

/// Returns the name of an image that a distribution keeps beside its modules.
fn image_of(path: &str) -> Option<&str> {
    path.split_once('/')
        .map(|(_, rest)| rest)
        .filter(|rest| rest.starts_with("vmlinuz-"))
}

fn copy(content: &mut dyn io::Read, path: &Path) -> io::Result<()> {
    let context = |error: io::Error| {
        let text = format!("write {}: {error}", path.display());
        errno::explain(error, text)
    };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(context)?;
    }
    io::copy(content, &mut File::create(path).map_err(context)?).map_err(context)?;
    Ok(())
}

/// Moves a directory to its place in one step, and removes the previous one.
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
    fn names_that_are_none_are_refused() {
        for name in ["", "-o=x", "a b", "a;b", "/no/such.deb"] {
            assert!(check(name).is_err(), "{name}");
        }
        assert!(check("linux-image-6.12.117+deb12-amd64").is_ok());
        for name in [
            "linux-image-6.12-amd64-dbg",
            "linux-image-6.12-amd64-dbg=6.12",
            "linux-headers-6.12-amd64",
        ] {
            assert!(
                check(name)
                    .unwrap_err()
                    .to_string()
                    .ends_with("fsb kernel fetch linux-image-6.12-amd64"),
                "{name}"
            );
        }
    }

    /// Writes a package with a kernel that has the module `module`.
    fn package(path: &Path, module: &str) {
        let (image, path_of) = (
            image::fake("6.1.0-1-amd64"),
            format!("lib/modules/6.1.0-1-amd64/kernel/{module}.ko"),
        );
        let files = [
            ("boot/vmlinuz-6.1.0-1-amd64", image.as_slice()),
            (path_of.as_str(), b"no module"),
        ];
        deb::tests::package(path, "Package: k\n", &files);
    }

    #[test]
    fn a_file_is_unpacked_once() {
        let directory = tempfile::tempdir().unwrap();
        let (kernels, file) = (
            directory.path().join("kernels"),
            directory.path().join("k.deb"),
        );
        let name = file.to_str().unwrap();
        package(&file, "one");
        assert_eq!(noted(&kernels, name), None);
        let mut told = Vec::new();
        let kernel = fetch_into(
            &kernels,
            name,
            &mut |line| told.push(line.to_owned()),
            &|| false,
        )
        .unwrap();
        assert_eq!(told, ["unpacking k", "listing its modules"]);
        assert_eq!(noted(&kernels, name), Some(kernel.clone()));
        // Another file with the same name, and a kernel whose modules were removed.
        package(&file, "another");
        assert_eq!(noted(&kernels, name), None);
        fetch_into(&kernels, name, &mut |_| {}, &|| false).unwrap();
        assert!(
            noted(&kernels, name)
                .unwrap()
                .modules
                .join("kernel/another.ko")
                .exists()
        );
        fs::remove_dir_all(kernel.modules).unwrap();
        assert_eq!(noted(&kernels, name), None);
    }

    #[test]
    fn who_is_interrupted_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (kernels, file) = (
            directory.path().join("kernels"),
            directory.path().join("k.deb"),
        );
        package(&file, "one");
        let refusal =
            fetch_into(&kernels, file.to_str().unwrap(), &mut |_| {}, &|| true).unwrap_err();
        assert!(refusal.to_string().contains("interrupted"), "{refusal}");
        assert_eq!(fs::read_dir(&kernels).unwrap().count(), 0);
    }

    /// A sweep never removes a work directory that is in use.
    #[test]
    fn nobody_sweeps_away_what_is_worked_in() {
        let directory = tempfile::tempdir().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(directory.path());
                }
            });
            for _ in 0..300 {
                let (work, lock) = workplace(directory.path()).unwrap();
                let there = lock.is_some()
                    && fs::write(work.path().join("file"), "x").is_ok()
                    && work.path().exists();
                if !there {
                    done.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                assert!(there);
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn leftovers_of_dead_downloads_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join(".new-own");
        let dead = directory.path().join(".new-dead");
        let kernel = directory.path().join("6.1");
        for path in [&own, &dead, &kernel] {
            fs::create_dir(path).unwrap();
        }
        let _lock = lock(&own).unwrap();
        sweep(directory.path());
        assert!(own.exists() && !dead.exists() && kernel.exists());
    }

    #[test]
    fn parts_are_told_apart() {
        assert_eq!(
            part("boot/vmlinuz-6.1.0-56-amd64"),
            ArchivePart::Image("6.1.0-56-amd64")
        );
        assert_eq!(part("boot/config-6.1"), ArchivePart::Config);
        assert_eq!(part("boot/System.map-6.1"), ArchivePart::Nothing);
        assert_eq!(
            part("lib/modules/6.1/kernel/fs/jfs/jfs.ko"),
            ArchivePart::Module("6.1", "kernel/fs/jfs/jfs.ko")
        );
        assert_eq!(
            part("usr/lib/modules/6.1/modules.builtin"),
            ArchivePart::Module("6.1", "modules.builtin")
        );
        assert_eq!(
            part("lib/modules/6.1/kernel/drivers/net/tun.ko"),
            ArchivePart::Nothing
        );
        let veth = "kernel/drivers/net/veth.ko";
        assert_eq!(
            part("lib/modules/6.1/kernel/drivers/net/veth.ko"),
            ArchivePart::Module("6.1", veth)
        );
        assert_eq!(
            part("lib/modules/6.1/../../../etc/passwd"),
            ArchivePart::Nothing
        );
        assert_eq!(part("usr/share/doc/x"), ArchivePart::Nothing);
    }

    #[test]
    fn a_package_becomes_a_kernel_and_replaces_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let kernels = directory.path().join("kernels");
        fs::create_dir(&kernels).unwrap();
        for (round, module) in ["kernel/fs/old.ko", "kernel/fs/new.ko"]
            .into_iter()
            .enumerate()
        {
            let package = directory.path().join("k.deb");
            let image = image::fake("6.1.0-1-amd64");
            let path = format!("lib/modules/6.1.0-1-amd64/{module}");
            let files = [
                ("boot/vmlinuz-6.1.0-1-amd64", image.as_slice()),
                (path.as_str(), b"no module"),
            ];
            deb::tests::package(&package, "Package: k\n", &files);
            let place = directory.path().join(format!("new{round}"));
            fs::create_dir(&place).unwrap();
            let mut unpacking = Unpacking::into(&place);
            unpacking.take(&package, &|| false).unwrap();
            assert!(unpacking.modules);
            let (release, place) = unpacking.finish(&kernels).unwrap();
            assert_eq!(
                (release.as_str(), place.clone()),
                ("6.1.0-1-amd64", kernels.join("6.1.0-1-amd64"))
            );
            assert!(
                place.join("modules").join(module).exists()
                    && place.join("modules/modules.dep").exists()
            );
        }
        assert!(
            !kernels
                .join("6.1.0-1-amd64/modules/kernel/fs/old.ko")
                .exists()
        );
    }
}
