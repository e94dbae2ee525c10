//! Builds the initramfs of the guest.

mod archive;
mod cache;

use crate::kernel::{FETCH, Kernel, Origin};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use archive::Archive;

use crate::error::{VmError, refused};
use crate::guest;
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
    /// The kernel that QEMU starts: unpacked if possible, which halves an emulated boot, otherwise a copy.
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
    pub held: Held,
}

/// Files of the cache that other processes do not remove as long as this value lives.
#[derive(Debug, Clone, Default)]
pub struct Held(#[expect(dead_code, reason = "they hold locks")] Vec<cache::Hold>);

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
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\n"),
    ("/etc/hostname", "guest\n"),
];

/// Builds the initramfs for that kernel below the directory `cache`, or finds it there by the hash of its contents.
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
        let mode = fs::metadata(path).map_err(|error| refused("read", path, error))?.permissions().mode() & 0o7777;
        let bytes = fs::read(path).map_err(|error| refused("read", path, error))?;
        archive.file(&archive::guest_path(name), bytes, mode);
    }
    let kept = cache::keep(&archive, cache)?;
    let image = cache::keep_kernel(&kernel.image, cache)?;
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
        held: Held(kept.hold.into_iter().chain(image.hold).collect()),
    })
}

/// Checks that the kernel has the modules that a guest needs and those of `contents`, without building anything.
pub fn check(kernel: &Kernel, contents: &Contents) -> Result<(), VmError> {
    order(kernel, contents).map(drop)
}

/// Returns the modules to load.
fn order(kernel: &Kernel, contents: &Contents) -> Result<Order, VmError> {
    let directory = &kernel.modules;
    let index = Index::read(directory)?;
    let advice = |error: VmError| error.tried(format!("kernel {}, modules in {}", kernel.release, directory.display()));
    let always = ALWAYS.map(str::to_owned);
    index.order(&always, &[]).map_err(|error| {
        advice(error).advice("a guest needs virtio: choose another kernel, as with --kernel (fsb kernel list)")
    })?;
    let required: Vec<_> = always.into_iter().chain(contents.modules.iter().cloned()).collect();
    index
        .order(&required, &contents.optional_modules)
        .map_err(|error| advice(error).advice("choose a kernel that has it with --kernel (fsb kernel list)"))
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

/// Adds the modules unpacked and under their names alone, because not every kernel can unpack them. Returns their
/// hashes.
fn add_modules(archive: &mut Archive, kernel: &Kernel, order: &Order) -> Result<BTreeMap<String, String>, VmError> {
    let (mut list, mut hashes) = (String::new(), BTreeMap::new());
    for step in &order.steps {
        let path = format!("/usr/lib/modules/{}.ko", step.name);
        let module = modules::read_module(&kernel.modules.join(&step.path)).map_err(|error| torn(kernel, error))?;
        hashes.insert(step.name.clone(), cache::hash(&module));
        // Installed modules stay as their distribution made them.
        let module = if modules::is_build_tree(&kernel.modules) { modules::without_debug(module) } else { module };
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
        Origin::Fetched => format!("fetch the kernel {release} again: fsb kernel fetch linux-image-{release}"),
        _ => format!("the modules of the kernel {release} are incomplete: install them again, or {FETCH}"),
    };
    error.advice(advice + "; or choose another kernel with --kernel (fsb kernel list)")
}

#[cfg(test)]
mod tests {
    use super::archive::tests::read_back;
    use super::*;

    /// A kernel with virtio_pci built in, and modules whose content this crate does not parse.
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
        let built = build(&kernel(directory.path()), &contents(directory.path()), directory.path()).unwrap();
        assert_eq!(built.modules, ["virtio_blk", "virtio_console", "crc32c", "jbd2", "ext4"]);
        assert_eq!(built.missing, ["jfs"]);
        let entries = read_back(&fs::read(&built.path).unwrap());
        let content = |name: &str| {
            let entry = entries.iter().find(|(path, ..)| path == name);
            String::from_utf8_lossy(&entry.unwrap_or_else(|| panic!("no {name}")).2).into_owned()
        };
        let list: Vec<_> = ["virtio_blk", "virtio_console", "crc32c", "jbd2", "ext4"].map(module_line).to_vec();
        assert_eq!(content("etc/fsb/modules"), list.concat());
        assert_eq!(content("usr/lib/modules/jbd2.ko"), "jbd2");
        assert_eq!(content("etc/note"), "a note");
        assert_eq!(content("sbin"), "usr/sbin");
        assert!(content("etc/passwd").contains("nobody:x:65534"));
        for name in ["init", "dev/console", "proc", "sys", "usr/lib/libc.so.6", "usr/bin/sh"] {
            content(name);
        }
        let mode = |name: &str| entries.iter().find(|(path, ..)| path == name).unwrap().1;
        assert_eq!((mode("dev/console"), mode("tmp"), mode("init")), (0o020600, 0o041777, 0o100755));
    }

    fn module_line(name: &str) -> String {
        guest::module_line(&format!("/usr/lib/modules/{name}.ko"), name != "crc32c")
    }

    #[test]
    fn missing_programs_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let (kernel, contents) = (kernel(directory.path()), contents(directory.path()));
        let refusal =
            |kernel: &Kernel, contents: &Contents| build(kernel, contents, directory.path()).unwrap_err().to_string();
        let without = Contents { modules: vec!["reiserfs".into()], ..contents.clone() };
        let text = refusal(&kernel, &without);
        assert_eq!(check(&kernel, &without).unwrap_err().to_string(), text);
        assert_eq!(check(&kernel, &contents), Ok(()));
        assert!(
            text.contains("no module reiserfs") && text.contains("kernel 6.1") && text.contains("--kernel"),
            "{text}"
        );
        let without = Contents { programs: vec!["/sbin/mkfs.absent".into()], ..contents.clone() };
        assert!(refusal(&kernel, &without).contains("/sbin/mkfs.absent"));
        fs::remove_file(directory.path().join("kernel/jbd2.ko")).unwrap();
        let text = refusal(&kernel, &contents);
        assert!(text.contains("jbd2.ko") && text.contains("the kernel 6.1") && text.contains("fsb kernel"), "{text}");
        let fetched = Kernel { origin: Origin::Fetched, ..kernel.clone() };
        assert!(refusal(&fetched, &contents).contains("fsb kernel fetch linux-image-6.1;"));
        fs::write(directory.path().join("modules.dep"), "kernel/ext4.ko:\n").unwrap();
        assert!(refusal(&kernel, &contents).contains("a guest needs virtio"));
    }
}
