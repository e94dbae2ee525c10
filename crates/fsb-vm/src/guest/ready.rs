//! Prepares the guest in its first process: mounts, modules, the port to the host.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use rustix::system::{finit_module, sethostname};

use crate::error::{VmError, refused};

/// The name of the port to the host.
pub(crate) const PORT: &str = "fsb";

/// The name of the port whose bytes are echoed.
pub(crate) const HEARTBEAT_PORT: &str = "fsb.heartbeat";

/// Time limit for the bus to find the port.
const PORT_LIMIT: Duration = Duration::from_secs(30);

/// Source and type, mount point, options, and whether the guest cannot run without the mount.
const MOUNTS: [(&str, &str, &str, bool); 8] = [
    ("devtmpfs", "/dev", "mode=0755", true),
    ("proc", "/proc", "", true),
    ("sysfs", "/sys", "", true),
    ("tmpfs", "/run", "mode=0755", true),
    ("tmpfs", "/tmp", "mode=1777", true),
    ("devpts", "/dev/pts", "", false),
    ("tmpfs", "/dev/shm", "mode=1777", false),
    ("cgroup2", "/sys/fs/cgroup", "", false),
];

pub(super) fn mount_all() -> Result<(), VmError> {
    for (kind, place, options, needed) in MOUNTS {
        let _ = fs::create_dir_all(place);
        let options = std::ffi::CString::new(options).unwrap_or_default();
        match mount(kind, place, kind, MountFlags::empty(), Some(options.as_c_str())) {
            // The kernel may have mounted /dev itself.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) if needed => return Err(refused(&format!("mount {kind} on"), Path::new(place), error)),
            Err(_) => {}
        }
    }
    let _ = fs::create_dir_all("/run/lock");
    // The name appears only in messages.
    let _ = sethostname(b"guest");
    Ok(())
}

/// Loads the modules of the list, in its order, and removes their files. The root file system is in memory, and guests
/// of two kernels must have the same amount of it.
pub(super) fn load_modules(list: &Path) -> Result<(), VmError> {
    let text = fs::read_to_string(list).map_err(|error| refused("read", list, error))?;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (path, required) = line.strip_prefix('-').map_or((line, true), |path| (path, false));
        match load(Path::new(path)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) if required => return Err(refused("load the module", Path::new(path), error)),
            // An optional module may be an implementation for another processor.
            Err(_) => {}
        }
        let _ = fs::remove_file(path);
    }
    Ok(())
}

fn load(path: &Path) -> Result<(), Errno> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    finit_module(file, c"", 0)
}

/// Waits for the port with this name and opens it.
pub(super) fn port(name: &str) -> Result<File, VmError> {
    let start = Instant::now();
    loop {
        if let Some(path) = find_port(Path::new("/sys/class/virtio-ports"), name) {
            match File::options().read(true).write(true).open(&path) {
                Ok(file) => return Ok(file),
                Err(error) if start.elapsed() > PORT_LIMIT => return Err(refused("open", &path, error)),
                Err(_) => {}
            }
        } else if start.elapsed() > PORT_LIMIT {
            return Err(VmError::machine("no virtio port to the host: this kernel lacks virtio_pci or virtio_console"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Finds the device of a port. Without udev only sysfs knows the names.
fn find_port(class: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(class).ok()?;
    entries.flatten().find_map(|entry| {
        let found = fs::read_to_string(entry.path().join("name")).ok()?;
        (found.trim() == name).then(|| Path::new("/dev").join(entry.file_name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_modules_do_not_stay_in_memory() {
        let scratch = tempfile::tempdir().unwrap();
        let (list, module) = (scratch.path().join("modules"), scratch.path().join("x.ko"));
        fs::write(&module, "no module").unwrap();
        fs::write(&list, format!("-{}\n", module.display())).unwrap();
        load_modules(&list).unwrap();
        assert!(!module.exists() && list.exists());
    }

    #[test]
    fn a_port_is_found_by_its_name() {
        let class = tempfile::tempdir().unwrap();
        for (port, name) in [("vport1p1", "fsb.heartbeat\n"), ("vport1p2", "fsb\n")] {
            fs::create_dir(class.path().join(port)).unwrap();
            fs::write(class.path().join(port).join("name"), name).unwrap();
        }
        assert_eq!(find_port(class.path(), PORT), Some(PathBuf::from("/dev/vport1p2")));
        assert_eq!(find_port(class.path(), HEARTBEAT_PORT), Some(PathBuf::from("/dev/vport1p1")));
        assert_eq!(find_port(Path::new("/nonexistent"), PORT), None);
    }
}
