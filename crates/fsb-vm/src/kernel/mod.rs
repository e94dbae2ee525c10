//! Finds, fetches and examines kernels and their modules.

mod deb;
mod fetch;
mod find;
mod image;

use std::path::{Path, PathBuf};

use fsb_model::error::{INVALID_KERNEL, NO_KERNEL};

use crate::error::{VmError, refused};
use crate::modules::is_build_tree;
use find::Places;
use image::{has_modules, look_for_modules, readable};

pub use crate::input::{cache, cache_path};
pub(crate) use fetch::ADDED_LATER;
pub use fetch::{fetch, tidy, unpacked};
pub use find::list;
pub(crate) use image::{FETCH, bare_kernel};
pub use image::{Kernel, Origin};

/// Returns the kernel that `--kernel` names. Without the option, returns the host's kernel if it
/// and its modules can be read, otherwise the newest installed or fetched one.
///
/// A name is one of these:
///
/// * a release (`6.1.0-56-amd64`), or the beginning of one (`6.1`; the newest match)
/// * the path of an image, whose modules are those of its release, installed or fetched
/// * `IMAGE:DIRECTORY`, which also names the directory of the modules
/// * the directory in which a kernel was built
/// * a Debian package (`….deb`), which is unpacked into the user's cache
pub fn resolve(text: Option<&str>) -> Result<Kernel, VmError> {
    let places = Places::here();
    match text {
        None => default(&places),
        Some(text) if text.trim().is_empty() => {
            Err(VmError::request("the name of the kernel is empty")
                .coded(&INVALID_KERNEL)
                .advice(NAMES))
        }
        Some(text) if text.ends_with(".deb") => unpacked(text, &mut |_| {}, &|| false),
        Some(text) => named(text, &places).unwrap_or_else(|| by_release(text, &places)),
    }
}

/// The advice for an invalid name.
const NAMES: &str = "name a release (fsb kernel list), an image (IMAGE or IMAGE:DIRECTORY-OF-MODULES), the \
                     directory in which one was built, or a .deb";

fn default(places: &Places) -> Result<Kernel, VmError> {
    let mut kernels = places.list();
    kernels.sort_by_key(|kernel| kernel.origin != Origin::Host);
    let mut refusal = None;
    for kernel in kernels {
        match kernel.usable() {
            Ok(()) => return Ok(kernel),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| {
        VmError::machine("no kernel for a micro-VM")
            .coded(&NO_KERNEL)
            .tried(format!(
                "looked in {}, in directories of modules and in the cache",
                places.boot.display()
            ))
            .advice(FETCH)
    }))
}

/// Returns whether the text names a file, or the directory in which a kernel was built, and not a
/// release.
pub fn is_path(text: &str) -> bool {
    text.contains('/') || Path::new(text).is_file() || is_build_tree(Path::new(text))
}

/// Resolves an image that is named by its path. Returns `None` if the text is not a path.
fn named(text: &str, places: &Places) -> Option<Result<Kernel, VmError>> {
    if !is_path(text)
        && !text
            .split_once(':')
            .is_some_and(|(image, _)| is_path(image))
    {
        return None;
    }
    // The name of the image itself may contain a colon.
    let (image, directory) = match text.rsplit_once(':') {
        Some((image, directory)) if !Path::new(text).is_file() => (image, Some(directory)),
        _ => (text, None),
    };
    Some(by_files(Path::new(image), directory.map(Path::new), places))
}

fn by_files(image: &Path, directory: Option<&Path>, places: &Places) -> Result<Kernel, VmError> {
    fn absolute(path: &Path) -> PathBuf {
        std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
    }
    let image = absolute(image);
    if image.is_dir() && directory.is_none() && is_build_tree(&image) {
        return find::built_kernel(&image);
    }
    if image.is_dir() {
        let text = format!(
            "{} is a directory, and --kernel names an image",
            image.display()
        );
        return Err(VmError::request(text)
            .coded(&INVALID_KERNEL)
            .advice(format!(
                "if it holds modules, use --kernel IMAGE:{}",
                image.display()
            )));
    }
    if !image.is_file() {
        return Err(
            VmError::request(format!("no kernel image {}", image.display()))
                .coded(&INVALID_KERNEL)
                .advice(NAMES),
        );
    }
    readable(&image)?;
    let release = image::release(&image)?;
    let modules = match directory {
        Some(directory) => modules_in(&absolute(directory), &release)?,
        None => modules_of(&image, &release, places)?,
    };
    let kernel = Kernel {
        release,
        image,
        modules,
        origin: Origin::Named,
    };
    kernel.usable()?;
    Ok(kernel)
}

/// Finds the modules of that release: in the build directory of the image, installed, beside the
/// image, or fetched.
fn modules_of(image: &Path, release: &str, places: &Places) -> Result<PathBuf, VmError> {
    // The build directory of `TREE/arch/x86/boot/bzImage`.
    let mut candidates: Vec<_> = image
        .ancestors()
        .nth(4)
        .filter(|tree| is_build_tree(tree))
        .map(Path::to_path_buf)
        .into_iter()
        .collect();
    candidates.extend(
        places
            .modules
            .iter()
            .map(|directory| directory.join(release)),
    );
    candidates.extend(image.parent().map(|parent| parent.join("modules")));
    candidates.extend(
        places
            .cache
            .as_ref()
            .map(|kernels| kernels.join(release).join("modules")),
    );
    let mut unread = None;
    for directory in candidates {
        match look_for_modules(&directory) {
            Ok(true) => return Ok(directory),
            Ok(false) => {}
            Err(error) => unread = unread.or(Some((directory, error))),
        }
    }
    let advice = format!(
        "name their directory (--kernel {}:DIRECTORY), or name a kernel with modules: --kernel RELEASE (fsb kernel \
         list)",
        image.display()
    );
    Err(match unread {
        Some((directory, error)) => {
            refused("read the modules in", &directory, error).advice(advice)
        }
        None => VmError::machine(format!("no modules of the kernel {release} were found"))
            .tried(
                "looked where it was built, at those installed, beside the image and in the cache",
            )
            .advice(advice),
    })
}

/// Returns the directory itself, or the one that `make modules_install` or a package made below it.
fn modules_in(directory: &Path, release: &str) -> Result<PathBuf, VmError> {
    let below = ["", "modules", "lib/modules", "usr/lib/modules"].map(|part| directory.join(part));
    let candidates = [directory.to_path_buf()]
        .into_iter()
        .chain(below.map(|path| path.join(release)));
    candidates
        .clone()
        .find(|path| has_modules(path))
        .ok_or_else(|| {
            VmError::request(format!(
                "{} holds no modules of the kernel {release}",
                directory.display()
            ))
            .advice("name the directory that holds modules.dep or kernel/")
        })
}

fn by_release(text: &str, places: &Places) -> Result<Kernel, VmError> {
    let text = text.strip_prefix("linux-image-").unwrap_or(text);
    let kernels = places.list();
    let fitting: Vec<_> = kernels
        .iter()
        .filter(|kernel| fits(&kernel.release, text))
        .collect();
    let exact = fitting.iter().find(|kernel| kernel.release == text);
    let usable = fitting.iter().find(|kernel| kernel.usable().is_ok());
    if let Some(kernel) = exact.or(usable).or(fitting.first()) {
        kernel.usable()?;
        return Ok((**kernel).clone());
    }
    let known: Vec<_> = kernels
        .iter()
        .map(|kernel| kernel.release.as_str())
        .collect();
    let known = if known.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    };
    Err(VmError::machine(format!("no kernel {text} here")).coded(&NO_KERNEL).field("kernel", text).tried(known).advice(
        "fetch it (fsb kernel fetch DEBIAN-PACKAGE), or name an image, a .deb or another release (fsb kernel list)",
    ))
}

/// Returns whether `text` is the beginning of a release: `6.1` matches `6.1.0-56-amd64` but not
/// `6.12.0`.
fn fits(release: &str, text: &str) -> bool {
    fn digit(c: char) -> bool {
        c.is_ascii_digit()
    }
    !text.is_empty()
        && release
            .strip_prefix(text)
            .is_some_and(|rest| !(rest.starts_with(digit) && text.ends_with(digit)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::Kind;

    /// Returns a machine with kernels 6.1.0-9 and 6.1.0-56 installed, and 6.12.1 fetched.
    fn places(directory: &Path) -> Places {
        for release in ["6.1.0-9-amd64", "6.1.0-56-amd64"] {
            fs::create_dir_all(directory.join("boot")).unwrap();
            fs::create_dir_all(directory.join("lib").join(release).join("kernel")).unwrap();
            fs::write(
                directory.join("boot").join(format!("vmlinuz-{release}")),
                image::fake(release),
            )
            .unwrap();
        }
        let fetched = directory.join("kernels/6.12.1-amd64");
        fs::create_dir_all(fetched.join("modules/kernel")).unwrap();
        fs::write(fetched.join("vmlinuz"), image::fake("6.12.1-amd64")).unwrap();
        Places {
            boot: directory.join("boot"),
            modules: vec![directory.join("lib")],
            cache: Some(directory.join("kernels")),
            running: "6.1.0-9-amd64".into(),
        }
    }

    #[test]
    fn kernels_are_listed_newest_first() {
        let directory = tempfile::tempdir().unwrap();
        let list = places(directory.path()).list();
        let list: Vec<_> = list
            .iter()
            .map(|kernel| (kernel.release.as_str(), kernel.origin.word()))
            .collect();
        assert_eq!(
            list,
            [
                ("6.12.1-amd64", "fetched"),
                ("6.1.0-56-amd64", "installed"),
                ("6.1.0-9-amd64", "host")
            ]
        );
    }

    #[test]
    fn the_hosts_own_comes_first_and_then_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        assert_eq!(default(&places).unwrap().release, "6.1.0-9-amd64");
        fs::remove_dir_all(directory.path().join("lib/6.1.0-9-amd64")).unwrap();
        assert_eq!(default(&places).unwrap().release, "6.12.1-amd64");
        fs::remove_dir_all(directory.path().join("kernels")).unwrap();
        assert_eq!(default(&places).unwrap().release, "6.1.0-56-amd64");
        fs::remove_dir_all(directory.path().join("lib")).unwrap();
        assert!(
            default(&places)
                .unwrap_err()
                .to_string()
                .contains("fsb kernel fetch linux-image-amd64")
        );
        fs::remove_dir_all(directory.path().join("boot")).unwrap();
        assert!(
            default(&places)
                .unwrap_err()
                .to_string()
                .contains("no kernel")
        );
    }

    #[test]
    fn a_release_may_be_begun() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        assert_eq!(
            by_release("6.1", &places).unwrap().release,
            "6.1.0-56-amd64"
        );
        assert_eq!(by_release("6.12", &places).unwrap().release, "6.12.1-amd64");
        assert_eq!(
            by_release("linux-image-6.1.0-9-amd64", &places)
                .unwrap()
                .origin,
            Origin::Host
        );
        let error = by_release("5.10", &places).unwrap_err().to_string();
        assert!(
            error.contains("there are 6.12.1-amd64, 6.1.0-56-amd64, 6.1.0-9-amd64"),
            "{error}"
        );
        assert!(!fits("6.12.0", "6.1") && fits("6.1.0-5", "6.1.") && !fits("6.1", ""));
    }

    #[test]
    fn files_are_named_with_their_modules() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let image = directory.path().join("boot/vmlinuz-6.1.0-9-amd64");
        let kernel = named(image.to_str().unwrap(), &places).unwrap().unwrap();
        assert_eq!(kernel.modules, directory.path().join("lib/6.1.0-9-amd64"));
        assert_eq!(
            (kernel.release.as_str(), kernel.origin),
            ("6.1.0-9-amd64", Origin::Named)
        );
        let with = |modules: &str| {
            format!(
                "{}:{}/{modules}",
                image.display(),
                directory.path().display()
            )
        };
        let kernel = named(&with("lib/6.1.0-56-amd64"), &places)
            .unwrap()
            .unwrap();
        assert_eq!(kernel.modules, directory.path().join("lib/6.1.0-56-amd64"));
        assert!(
            named(&with("boot"), &places)
                .unwrap()
                .unwrap_err()
                .to_string()
                .contains("holds no modules")
        );
        assert!(named("/no/such/image", &places).unwrap().is_err());
        let error = named(directory.path().to_str().unwrap(), &places)
            .unwrap()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("is a directory") && error.contains("IMAGE:/"),
            "{error}"
        );
        assert_eq!(resolve(Some("")).unwrap_err().kind, Kind::Request);
        assert!(named("6.1", &places).is_none() && !is_path("6.1"));
        // The directory of the tests is not a kernel tree.
        assert!(named(".", &places).is_none() && is_path("./linux") && is_path("Cargo.toml"));
    }

    #[test]
    fn an_image_without_modules_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let image = |release: &str| {
            fs::create_dir_all(directory.path().join("own")).unwrap();
            let path = directory.path().join("own/bzImage");
            fs::write(&path, image::fake(release)).unwrap();
            named(path.to_str().unwrap(), &places).unwrap()
        };
        // An image of the same release as the fetched one.
        assert_eq!(
            image("6.12.1-amd64").unwrap().modules,
            directory.path().join("kernels/6.12.1-amd64/modules")
        );
        let tree = directory.path().join("linux");
        for (name, bytes) in [
            ("arch/x86/boot/bzImage", image::fake("6.12.1-amd64")),
            ("include/config/kernel.release", vec![]),
        ] {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        fs::write(tree.join("modules.builtin"), "").unwrap();
        for named_so in ["linux", "linux/arch/x86/boot/bzImage"] {
            let text = directory.path().join(named_so);
            assert_eq!(
                named(text.to_str().unwrap(), &places)
                    .unwrap()
                    .unwrap()
                    .modules,
                tree,
                "{named_so}"
            );
        }
        let error = image("6.13.0").unwrap_err();
        assert_eq!(error.kind, Kind::Machine);
        let text = error.to_string();
        assert!(
            text.contains("no modules of the kernel 6.13.0")
                && text.contains("own/bzImage:DIRECTORY"),
            "{text}"
        );
        // An error while searching is not the same as an absent directory.
        let circle = directory.path().join("lib/6.14.0");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        assert!(
            image("6.14.0")
                .unwrap_err()
                .to_string()
                .contains("cannot read the modules in")
        );
    }
}
