//! Builds the initramfs of the guest.

mod archive;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use archive::Archive;
use fsb_store::input::LARGEST_BINARY;
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::error::{VmError, cache_advice, refused};
use crate::guest;
use crate::kernel::{ADDED_LATER, FETCH, Kernel, Origin, bare_kernel};
use crate::modules::{self, Index, Order};

/// The contents of an initramfs.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The program that becomes `/init`: fsb itself.
    pub init: PathBuf,
    /// Other programs, at the same path in the guest, with the libraries that they need.
    pub programs: Vec<PathBuf>,
    /// Modules that the kernel must have or have built in, by name. Their dependencies are added.
    pub modules: Vec<String>,
    /// Modules that are added if the kernel has them.
    pub optional_modules: Vec<String>,
    /// Other files: the path in the guest, the path on the host.
    pub files: Vec<(String, PathBuf)>,
}

/// An initramfs on disk.
#[derive(Debug, Clone)]
pub struct Initramfs {
    /// The archive that QEMU hands to the kernel.
    pub path: PathBuf,
    /// The kernel that QEMU starts: unpacked if possible, which halves an emulated boot, otherwise
    /// a copy.
    pub kernel: PathBuf,
    /// The modules in the initramfs, in the order in which the guest loads them.
    pub modules: Vec<String>,
    /// The beginning of the SHA-256 of the kernel's image.
    pub image_hash: String,
    /// The beginning of the SHA-256 of each module, by name.
    pub module_hashes: BTreeMap<String, String>,
    /// The optional modules that this kernel does not have.
    pub missing: Vec<String>,
    /// The bytes that the archive takes of the guest's memory.
    pub size: u64,
    /// Whether the cache already had the archive.
    pub reused: bool,
    /// Keeps both files in the cache as long as this value lives.
    pub held: HeldFiles,
}

/// Files of the cache that other processes do not remove as long as this value lives.
#[derive(Debug, Clone, Default)]
pub struct HeldFiles(#[expect(dead_code, reason = "they hold locks")] Vec<Hold>);

/// Modules that every guest needs: the bus, its disks and the port to the host.
const ALWAYS: [&str; 3] = ["virtio_pci", "virtio_blk", "virtio_console"];

/// Directories that programs expect, with their modes.
const DIRECTORIES: [(&str, u32); 14] = [
    ("/dev", 0o755),
    ("/etc", 0o755),
    ("/lib/modules", 0o755),
    ("/mnt", 0o755),
    ("/proc", 0o555),
    ("/root", 0o700),
    ("/run", 0o755),
    ("/sys", 0o555),
    ("/tmp", 0o1777),
    ("/usr/bin", 0o755),
    ("/usr/lib", 0o755),
    ("/usr/sbin", 0o755),
    ("/var/lib", 0o755),
    ("/var/tmp", 0o1777),
];

/// Links that merge directories which distributions keep apart.
const LINKS: [(&str, &str); 7] = [
    ("/bin", "usr/bin"),
    ("/sbin", "usr/sbin"),
    ("/lib", "usr/lib"),
    ("/lib64", "usr/lib"),
    ("/usr/lib64", "lib"),
    ("/etc/mtab", "../proc/self/mounts"),
    ("/var/run", "../run"),
];

/// A minimal user database. Programs look up its users by name.
const ETC: [(&str, &str); 4] = [
    (
        "/etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\n"),
    ("/etc/hostname", "guest\n"),
];

/// Builds the initramfs for that kernel below the directory `cache`, or finds it there by the hash
/// of its contents.
pub fn build(kernel: &Kernel, contents: &Contents, cache: &Path) -> Result<Initramfs, VmError> {
    let order = order(kernel, contents)?;
    let mut archive = Archive::default();
    base(&mut archive);
    archive::add_as(&mut archive, &contents.init, "/init")?;
    for program in &contents.programs {
        archive::add_program(&mut archive, program)?;
    }
    let module_hashes = add_modules(&mut archive, kernel, &order)?;
    for (name, path) in &contents.files {
        let mode = fs::metadata(path)
            .map_err(|error| refused("read", path, error))?
            .permissions()
            .mode()
            & 0o7777;
        let bytes = fs::read(path).map_err(|error| refused("read", path, error))?;
        archive.file(&archive::guest_path(name), bytes, mode);
    }
    let kept = keep(&archive, cache)?;
    let image = keep_kernel(&kernel.image, cache)?;
    let modules = order.steps.into_iter().map(|step| step.name).collect();
    Ok(Initramfs {
        path: kept.path,
        kernel: image.path,
        modules,
        image_hash: image.hash,
        module_hashes,
        missing: order.missing,
        size: kept.size,
        reused: kept.reused,
        held: HeldFiles(kept.hold.into_iter().chain(image.hold).collect()),
    })
}

/// Checks that the kernel has the modules that a guest needs and those of `contents`, without
/// building anything.
pub fn check(kernel: &Kernel, contents: &Contents) -> Result<(), VmError> {
    order(kernel, contents).map(drop)
}

/// Returns the modules to load.
fn order(kernel: &Kernel, contents: &Contents) -> Result<Order, VmError> {
    let directory = &kernel.modules;
    let index = Index::read(directory)?;
    let advice = |error: VmError| {
        error.tried(format!(
            "kernel {}, modules in {}",
            kernel.release,
            directory.display()
        ))
    };
    let always = ALWAYS.map(str::to_owned);
    index.order(&always, &[]).map_err(|error| {
        advice(error).advice(
            "a guest needs virtio: choose another kernel, as with --kernel (fsb kernel list)",
        )
    })?;
    let required: Vec<_> = always
        .into_iter()
        .chain(contents.modules.iter().cloned())
        .collect();
    index
        .order(&required, &contents.optional_modules)
        .map_err(|error| {
            let was_left_out = error
                .fields
                .get("module")
                .is_some_and(|module| module == ADDED_LATER);
            let again = match kernel.origin {
                Origin::Fetched if was_left_out => {
                    format!(
                        "fetch it again (fsb kernel fetch linux-image-{}), or ",
                        kernel.release
                    )
                }
                _ => String::new(),
            };
            advice(error).advice(format!(
                "{again}choose a kernel that has it with --kernel (fsb kernel list)"
            ))
        })
}

fn base(archive: &mut Archive) {
    for (path, mode) in DIRECTORIES {
        archive.directory(&archive::guest_path(path), mode);
    }
    for (path, target) in LINKS {
        archive.link(path, target);
    }
    for (path, text) in ETC {
        archive.file(path, text.into(), 0o644);
    }
    // PID 1 gets its console before it can mount anything.
    archive.character("/dev/console", 5, 1);
    archive.character("/dev/null", 1, 3);
}

/// Adds the modules unpacked and under their names alone, because not every kernel can unpack them.
/// Returns their hashes.
fn add_modules(
    archive: &mut Archive,
    kernel: &Kernel,
    order: &Order,
) -> Result<BTreeMap<String, String>, VmError> {
    let (mut list, mut hashes) = (String::new(), BTreeMap::new());
    for step in &order.steps {
        let path = format!("/usr/lib/modules/{}.ko", step.name);
        let module = modules::read_module(&kernel.modules.join(&step.path))
            .map_err(|error| torn(kernel, error))?;
        hashes.insert(step.name.clone(), hash(&module));
        // Installed modules stay as their distribution made them.
        let module = if modules::is_build_tree(&kernel.modules) {
            modules::without_debug(module)
        } else {
            module
        };
        archive.file(&path, module, 0o644);
        list.push_str(&guest::module_line(&path, step.required));
    }
    archive.file(guest::MODULES, list.into(), 0o644);
    Ok(hashes)
}

/// Adds the advice for a module that the index names but that cannot be read.
fn torn(kernel: &Kernel, error: VmError) -> VmError {
    let release = &kernel.release;
    let advice = match kernel.origin {
        Origin::Fetched => {
            format!("fetch the kernel {release} again: fsb kernel fetch linux-image-{release}")
        }
        _ => format!(
            "the modules of the kernel {release} are incomplete: install them again, or {FETCH}"
        ),
    };
    error.advice(advice + "; or choose another kernel with --kernel (fsb kernel list)")
}

// The cache of archives and of unpacked kernels. A file is named by the hash of its content or
// source. The cache keeps the last few files.

/// Number of archives, and of kernels, that the cache keeps. Each combination of a kernel and
/// programs has its own archive.
const KEPT: usize = 8;

/// Extensions of the file names.
const ARCHIVE: &str = "cpio";
const KERNEL: &str = "vmlinux";

/// A file of the cache in use. Other processes do not prune it while this value or a clone lives.
/// The lock ends with the process.
#[derive(Debug, Clone)]
struct Hold(#[expect(dead_code, reason = "it holds the lock")] Arc<File>);

impl Hold {
    /// Holds the file at that path. Returns `None` if it does not exist.
    fn take(path: &Path) -> Option<Hold> {
        Hold::new(File::open(path).ok()?)
    }

    /// Holds an open file. Returns `None` if another process removed it between its opening and the
    /// lock. On a file system without locks the file is not protected.
    fn new(file: File) -> Option<Hold> {
        let _ = flock(&file, FlockOperation::LockShared);
        let there = file.metadata().is_ok_and(|metadata| metadata.nlink() > 0);
        there.then(|| Hold(Arc::new(file)))
    }
}

/// An archive in the cache.
#[derive(Debug)]
struct Kept {
    pub path: PathBuf,
    pub size: u64,
    pub reused: bool,
    pub hold: Option<Hold>,
}

/// Writes the archive below `cache`, unless the cache already has one with the same contents.
fn keep(archive: &Archive, cache: &Path) -> Result<Kept, VmError> {
    let directory = own_directory(cache)?;
    let mut digest = Digesting {
        hash: Sha256::new(),
        size: 0,
    };
    archive
        .write(&mut digest)
        .map_err(|error| VmError::machine("cannot pack the initramfs").tried(&error))?;
    let path = directory.join(format!("{}.{ARCHIVE}", name(digest.hash)));
    let size = digest.size;
    let mut hold = Hold::take(&path)
        .filter(|_| fs::metadata(&path).is_ok_and(|metadata| metadata.len() == size));
    let reused = hold.is_some();
    if reused {
        touch(&path);
    } else {
        hold = put(&directory, &path, |out| archive.write(out))?;
    }
    prune(&directory, &path);
    Ok(Kept {
        path,
        size,
        reused,
        hold,
    })
}

/// A kernel in the cache.
#[derive(Debug)]
struct KeptKernel {
    pub path: PathBuf,
    /// The hash of the image that the kernel was made from.
    pub hash: String,
    pub hold: Option<Hold>,
}

/// Stores the kernel in the form that QEMU starts fastest: unpacked if possible, otherwise a copy
/// of the image. The image itself may be rebuilt while the run lasts.
fn keep_kernel(image: &Path, cache: &Path) -> Result<KeptKernel, VmError> {
    let bytes = crate::input::read(image, LARGEST_BINARY)
        .map_err(|error| refused("read the kernel", image, error))?;
    let directory = own_directory(cache)?;
    let hash = hash(&bytes);
    let path = directory.join(format!("{hash}.{KERNEL}"));
    let mut hold = Hold::take(&path);
    if hold.is_some() {
        touch(&path);
    } else {
        let bare = bare_kernel(&bytes).unwrap_or(bytes);
        hold = put(&directory, &path, |out| out.write_all(&bare))?;
    }
    prune(&directory, &path);
    Ok(KeptKernel { path, hash, hold })
}

/// Returns a hash that identifies the bytes: the beginning of their SHA-256.
fn hash(bytes: &[u8]) -> String {
    name(Sha256::new_with_prefix(bytes))
}

fn own_directory(cache: &Path) -> Result<PathBuf, VmError> {
    let directory = cache.join("initramfs");
    fs::create_dir_all(&directory).map_err(|error| {
        let advice = cache_advice(&error);
        refused("make the directory", &directory, error).advice(advice)
    })?;
    Ok(directory)
}

fn name(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Sets the modification time, which pruning uses as the time of last use.
fn touch(path: &Path) {
    let _ = File::options()
        .append(true)
        .open(path)
        .and_then(|file| file.set_modified(SystemTime::now()));
}

/// Writes a file under a temporary name first, because an incomplete file must never have the final
/// name. Holds the file before renaming it.
fn put(
    directory: &Path,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<Option<Hold>, VmError> {
    let put = || -> io::Result<Option<Hold>> {
        let file = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(directory)?;
        let mut out = BufWriter::new(file.as_file());
        write(&mut out)?;
        out.flush()?;
        drop(out);
        let hold = Hold::new(File::open(file.path())?);
        file.persist(path).map_err(|error| error.error)?;
        Ok(hold)
    };
    put().map_err(|error| {
        let advice = cache_advice(&error);
        refused("write", path, error).advice(advice)
    })
}

/// Removes all but the last few files, except those in use. Also removes temporary files of crashed
/// writers after a day.
fn prune(directory: &Path, current: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in entries.flatten() {
        let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified()) else {
            continue;
        };
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(".new-") {
            if modified.elapsed().is_ok_and(|age| age.as_secs() > 86_400) {
                let _ = fs::remove_file(path);
            }
        } else if path.extension() == current.extension() && path != current {
            files.push((modified, path));
        }
    }
    files.sort_by_key(|(modified, _)| std::cmp::Reverse(*modified));
    for (_, path) in files.into_iter().skip(KEPT - 1) {
        // Keep the lock until the file is removed, so that a process that waits for it sees the
        // removal.
        let Ok(file) = File::options().read(true).write(true).open(&path) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// A writer that only computes the hash and the size of the bytes.
struct Digesting {
    hash: Sha256,
    size: u64,
}

impl Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::archive::tests::read_back;
    use super::*;

    /// Returns a kernel with virtio_pci built in, and modules whose content this crate does not
    /// parse.
    fn kernel(directory: &Path) -> Kernel {
        let file = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for module in ["virtio_blk", "virtio_console", "jbd2", "ext4", "crc32c"] {
            file(&format!("kernel/{module}.ko"), module);
        }
        file("modules.builtin", "kernel/drivers/virtio/virtio_pci.ko\n");
        let dep = "kernel/virtio_blk.ko:\nkernel/virtio_console.ko:\nkernel/jbd2.ko:\nkernel/crc32c.ko:\n\
                   kernel/ext4.ko: kernel/jbd2.ko\n";
        file("modules.dep", dep);
        file("modules.softdep", "softdep ext4 pre: crc32c\n");
        Kernel {
            release: "6.1".into(),
            image: directory.join("modules.dep"),
            modules: directory.into(),
            origin: Origin::Named,
        }
    }

    fn contents(directory: &Path) -> Contents {
        fs::write(directory.join("note"), "a note").unwrap();
        Contents {
            init: std::env::current_exe().unwrap(),
            programs: vec!["/bin/sh".into()],
            modules: vec!["ext4".into()],
            optional_modules: vec!["jfs".into()],
            files: vec![("/etc/note".into(), directory.join("note"))],
        }
    }

    #[test]
    fn an_initramfs_holds_what_a_guest_needs() {
        let directory = tempfile::tempdir().unwrap();
        let built = build(
            &kernel(directory.path()),
            &contents(directory.path()),
            directory.path(),
        )
        .unwrap();
        assert_eq!(
            built.modules,
            ["virtio_blk", "virtio_console", "crc32c", "jbd2", "ext4"]
        );
        assert_eq!(built.missing, ["jfs"]);
        let entries = read_back(&fs::read(&built.path).unwrap());
        let content = |name: &str| {
            let entry = entries.iter().find(|(path, ..)| path == name);
            String::from_utf8_lossy(&entry.unwrap_or_else(|| panic!("no {name}")).2).into_owned()
        };
        let list: Vec<_> = ["virtio_blk", "virtio_console", "crc32c", "jbd2", "ext4"]
            .map(module_line)
            .to_vec();
        assert_eq!(content("etc/fsb/modules"), list.concat());
        assert_eq!(content("usr/lib/modules/jbd2.ko"), "jbd2");
        assert_eq!(content("etc/note"), "a note");
        assert_eq!(content("sbin"), "usr/sbin");
        assert!(content("etc/passwd").contains("nobody:x:65534"));
        for name in [
            "init",
            "dev/console",
            "proc",
            "sys",
            "usr/lib/libc.so.6",
            "usr/bin/sh",
        ] {
            content(name);
        }
        let mode = |name: &str| entries.iter().find(|(path, ..)| path == name).unwrap().1;
        assert_eq!(
            (mode("dev/console"), mode("tmp"), mode("init")),
            (0o020600, 0o041777, 0o100755)
        );
    }

    fn module_line(name: &str) -> String {
        guest::module_line(&format!("/usr/lib/modules/{name}.ko"), name != "crc32c")
    }

    #[test]
    fn missing_programs_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let (kernel, contents) = (kernel(directory.path()), contents(directory.path()));
        let refusal = |kernel: &Kernel, contents: &Contents| {
            build(kernel, contents, directory.path())
                .unwrap_err()
                .to_string()
        };
        let without = Contents {
            modules: vec!["reiserfs".into()],
            ..contents.clone()
        };
        let text = refusal(&kernel, &without);
        assert_eq!(check(&kernel, &without).unwrap_err().to_string(), text);
        assert_eq!(check(&kernel, &contents), Ok(()));
        assert!(
            text.contains("no module reiserfs")
                && text.contains("kernel 6.1")
                && text.contains("--kernel"),
            "{text}"
        );
        let fetched = Kernel {
            origin: Origin::Fetched,
            ..kernel.clone()
        };
        assert!(!refusal(&fetched, &without).contains("fsb kernel fetch"));
        let without = Contents {
            modules: vec![ADDED_LATER.into()],
            ..contents.clone()
        };
        assert!(refusal(&fetched, &without).contains("(fsb kernel fetch linux-image-6.1)"));
        let without = Contents {
            programs: vec!["/sbin/mkfs.absent".into()],
            ..contents.clone()
        };
        assert!(refusal(&kernel, &without).contains("/sbin/mkfs.absent"));
        fs::remove_file(directory.path().join("kernel/jbd2.ko")).unwrap();
        let text = refusal(&kernel, &contents);
        assert!(
            text.contains("jbd2.ko")
                && text.contains("the kernel 6.1")
                && text.contains("fsb kernel"),
            "{text}"
        );
        assert!(refusal(&fetched, &contents).contains("fsb kernel fetch linux-image-6.1;"));
        fs::write(directory.path().join("modules.dep"), "kernel/ext4.ko:\n").unwrap();
        assert!(refusal(&kernel, &contents).contains("a guest needs virtio"));
    }

    fn archive(text: &str) -> Archive {
        let mut archive = Archive::default();
        archive.file("/a", text.into(), 0o644);
        archive
    }

    #[test]
    fn the_same_contents_are_written_once() {
        let cache = tempfile::tempdir().unwrap();
        let first = keep(&archive("one"), cache.path()).unwrap();
        let again = keep(&archive("one"), cache.path()).unwrap();
        let other = keep(&archive("two"), cache.path()).unwrap();
        assert!(!first.reused && again.reused && !other.reused);
        assert_eq!(first.path, again.path);
        assert_ne!(first.path, other.path);
        assert_eq!(fs::metadata(&first.path).unwrap().len(), first.size);
        // A truncated file is written again.
        fs::write(&first.path, "half").unwrap();
        assert!(!keep(&archive("one"), cache.path()).unwrap().reused);
    }

    #[test]
    fn a_kernel_that_cannot_be_unpacked_is_booted_as_it_is() {
        let cache = tempfile::tempdir().unwrap();
        let image = cache.path().join("vmlinuz");
        fs::write(&image, "not packed").unwrap();
        let kept = keep_kernel(&image, cache.path()).unwrap();
        // A later build of the image is another kernel.
        fs::write(&image, "another").unwrap();
        let later = keep_kernel(&image, cache.path()).unwrap();
        assert_eq!(fs::read_to_string(&kept.path).unwrap(), "not packed");
        assert_eq!(fs::read_to_string(&later.path).unwrap(), "another");
        assert_ne!(kept.hash, later.hash);
        assert!(keep_kernel(&cache.path().join("absent"), cache.path()).is_err());
    }

    #[test]
    fn an_unwritable_cache_is_reported_with_a_remedy() {
        let said = |number: i32| cache_advice(&io::Error::from_raw_os_error(number));
        // ENOSPC, EACCES, EROFS
        assert!(
            said(28).starts_with("free some space")
                && !said(13).contains("space")
                && !said(30).contains("space")
        );
    }

    #[test]
    fn the_last_few_are_kept() {
        let cache = tempfile::tempdir().unwrap();
        let kept: Vec<_> = (0..KEPT + 3)
            .map(|n| keep(&archive(&n.to_string()), cache.path()).unwrap().path)
            .collect();
        assert_eq!(
            fs::read_dir(cache.path().join("initramfs"))
                .unwrap()
                .count(),
            KEPT
        );
        assert!(kept.last().unwrap().exists());
    }

    #[test]
    fn an_initramfs_in_use_is_kept() {
        let cache = tempfile::tempdir().unwrap();
        let held = keep(&archive("held"), cache.path()).unwrap();
        let found = keep(&archive("held"), cache.path()).unwrap();
        let others = || {
            (0..2 * KEPT).for_each(|n| drop(keep(&archive(&n.to_string()), cache.path()).unwrap()))
        };
        others();
        assert!(held.path.exists());
        drop(held);
        others();
        assert!(found.reused && found.path.exists());
        let path = found.path.clone();
        drop(found);
        others();
        assert!(!path.exists());
    }
}
