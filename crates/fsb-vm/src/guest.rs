//! fsb as PID 1 of the guest.
//!
//! PID 1 only manages the machine. It mounts file systems, loads modules, copies bytes between the
//! port and its one child, echoes the bytes of the heartbeat port, reaps orphans, and switches the
//! guest off. The child is this program again and serves the run. It waits for its own children,
//! which is impossible in a PID 1 that reaps every process.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use fsb_model::plan::GUEST_ROOT;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{WaitOptions, WaitStatus, wait};
use rustix::system::{RebootCommand, finit_module, reboot, sethostname};

use crate::error::{VmError, refused};

/// The first argument of the one child of the guest's PID 1, which serves the run.
pub const GUEST_ARGUMENT: &str = "__vm-guest";

/// The word on the kernel's command line with which fsb, as PID 1, runs as a guest.
pub(crate) const WORD: &str = "fsb.guest";

/// The word on the kernel's command line that announces a shared directory of the host.
pub(crate) const ROOT_WORD: &str = "fsb.root";

/// The word on the kernel's command line with which the guest only prints [`READY`] and switches
/// off.
pub(crate) const PROBE_WORD: &str = "fsb.probe";

/// The prefix of every line that the guest itself prints on its console.
pub(crate) const PREFIX: &str = "fsb-guest: ";

/// The line of a guest that was started only to check that it boots.
pub(crate) const READY: &str = "ready";

/// The list of modules to load, in the initramfs.
pub(crate) const MODULES: &str = "/etc/fsb/modules";

/// Formats a module of that list: `-` precedes the path of an optional one.
pub(crate) fn module_line(path: &str, required: bool) -> String {
    format!("{}{path}\n", if required { "" } else { "-" })
}

/// Returns whether this process is PID 1 of a guest, or its child that serves the run, according to
/// its arguments.
pub fn is_guest(arguments: &[OsString]) -> bool {
    is_child(arguments) || is_first()
}

fn is_child(arguments: &[OsString]) -> bool {
    arguments
        .get(1)
        .is_some_and(|argument| argument == GUEST_ARGUMENT)
}

/// Returns whether the kernel started this process as PID 1. In a container, or in a run's own
/// namespace, PID 1 is another program.
fn is_first() -> bool {
    if std::process::id() != 1 {
        return false;
    }
    // Before anything is mounted /proc does not exist. Then only the kernel can have started this
    // process.
    let text = fs::read_to_string("/proc/cmdline");
    text.map_or_else(
        |_| fs::metadata(MODULES).is_ok(),
        |text| text.split_whitespace().any(|word| word == WORD),
    ) && std::env::args_os()
        .next()
        .is_some_and(|name| name == "/init")
}

/// Makes the guest ready and returns the stream to the host.
///
/// As PID 1 this never returns. It mounts the file systems that Linux programs expect, loads the
/// modules, and starts itself again as its one child. Then it reaps orphans and copies the stream's
/// bytes, and switches the guest off when that child ends. In the child it returns at once. The run
/// is therefore served by an ordinary process, which waits for its children itself.
pub fn begin() -> Result<UnixStream, VmError> {
    if std::process::id() == 1 {
        if let Err(error) = first() {
            say(&error.to_string());
        }
        power_off();
    }
    take_stream().map_err(|error| VmError::machine("the guest's port is not there").tried(&error))
}

/// Takes the stream from standard input, and replaces standard input so that a stray read cannot
/// take bytes from it.
fn take_stream() -> io::Result<UnixStream> {
    let stream: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
    Ok(UnixStream::from(stream))
}

/// Runs PID 1 until its child ends.
fn first() -> Result<(), VmError> {
    mount_all()?;
    let line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if line.split_whitespace().any(|word| word == PROBE_WORD) {
        say(READY);
        return Ok(());
    }
    load_modules(MODULES.as_ref())?;
    if line.split_whitespace().any(|word| word == ROOT_WORD) {
        mount_root(GUEST_ROOT.as_ref())?;
    }
    let port = open_port(PORT)?;
    give_back(open_port(HEARTBEAT_PORT)?)?;
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| VmError::machine("no socket pair").tried(&error))?;
    let child = Command::new("/proc/self/exe")
        .arg(GUEST_ARGUMENT)
        .env(
            "PATH",
            "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin",
        )
        .env("HOME", "/root")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(|error| VmError::machine("cannot start the guest's agent").tried(&error))?;
    let moved = connect(port, ours)?;
    let status = reap_until(child.id());
    if let Some(how) = status.map_or_else(|| Some("for an unknown reason".into()), unusual) {
        say(&format!("its agent ended: {how}"));
    }
    // The last answer may still be in transit.
    moved.wait(Duration::from_secs(5));
    Ok(())
}

/// Describes the end of a process. Returns `None` if it succeeded.
fn unusual(status: WaitStatus) -> Option<String> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(format!("{status:?}")),
    }
}

/// Reaps all children until that child ends.
fn reap_until(child: u32) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == child => {
                return Some(status);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Prints a line on the console, which the host reads.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stdout(), "{PREFIX}{text}");
    let _ = io::stdout().flush();
}

/// Writes all data back and switches the guest off.
pub fn power_off() -> ! {
    rustix::fs::sync();
    let _ = reboot(RebootCommand::PowerOff);
    // If the kernel cannot power off, the host ends the machine.
    let _ = reboot(RebootCommand::Restart);
    loop {
        std::thread::park();
    }
}

const CHUNK: usize = 32 * 1024;

/// Pause between attempts to reach the host.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits for the thread that copies to the port.
struct Moved(Receiver<()>);

impl Moved {
    pub fn wait(&self, limit: Duration) {
        // The thread sends nothing. It closes the channel when it ends.
        let _ = self.0.recv_timeout(limit);
    }
}

/// Copies bytes in both directions until one side ends.
fn connect(port: File, stream: UnixStream) -> Result<Moved, VmError> {
    let start = || -> io::Result<Moved> {
        let (from_port, to_stream) = (port.try_clone()?, stream.try_clone()?);
        std::thread::Builder::new()
            .name("from host".into())
            .spawn(move || {
                let _ = copy(from_port, &to_stream);
                // The host is gone, so the child must end too.
                let _ = to_stream.shutdown(Shutdown::Both);
            })?;
        let (alive, moved) = channel();
        std::thread::Builder::new()
            .name("to host".into())
            .spawn(move || {
                let _alive = alive;
                let _ = copy(&stream, port);
            })?;
        Ok(Moved(moved))
    };
    start().map_err(unserved)
}

/// Echoes the bytes of the heartbeat port in a thread that runs as long as the guest.
fn give_back(port: File) -> Result<(), VmError> {
    let start = || -> io::Result<()> {
        let out = port.try_clone()?;
        std::thread::Builder::new()
            .name("heartbeat".into())
            .spawn(move || echo(port, out, PAUSE))?;
        Ok(())
    };
    start().map_err(unserved)
}

fn unserved(error: io::Error) -> VmError {
    VmError::machine("cannot serve the guest's port").tried(&error)
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Echoes all bytes. The host asks only once, and takes a guest that does not answer for a hanging
/// one. A failed read or write, for example for lack of memory, is therefore retried.
fn echo(mut from: impl Read, mut to: impl Write, pause: Duration) {
    let mut buffer = [0; 64];
    loop {
        match from.read(&mut buffer) {
            Ok(count) if count > 0 => {
                while to.write_all(&buffer[..count]).is_err() {
                    std::thread::sleep(pause);
                }
            }
            // Without a listener no bytes arrive. A listener may return.
            _ => std::thread::sleep(pause),
        }
    }
}

// Prepares the guest in its first process: mounts, modules, the port to the host.

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

fn mount_all() -> Result<(), VmError> {
    for (kind, place, options, needed) in MOUNTS {
        let _ = fs::create_dir_all(place);
        let options = std::ffi::CString::new(options).unwrap_or_default();
        match mount(
            kind,
            place,
            kind,
            MountFlags::empty(),
            Some(options.as_c_str()),
        ) {
            // The kernel may have mounted /dev itself.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(error) if needed => {
                return Err(refused(
                    &format!("mount {kind} on"),
                    Path::new(place),
                    error,
                ));
            }
            Err(_) => {}
        }
    }
    let _ = fs::create_dir_all("/run/lock");
    // The name appears only in messages.
    let _ = sethostname(b"guest");
    Ok(())
}

/// Loads the modules of the list, in its order, and removes their files. The root file system is in
/// memory, and guests of two kernels must have the same amount of it.
fn load_modules(list: &Path) -> Result<(), VmError> {
    let text = fs::read_to_string(list).map_err(|error| refused("read", list, error))?;
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (path, required) = line
            .strip_prefix('-')
            .map_or((line, true), |path| (path, false));
        match load(Path::new(path)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) if required => {
                return Err(refused("load the module", Path::new(path), error));
            }
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
fn open_port(name: &str) -> Result<File, VmError> {
    let start = Instant::now();
    loop {
        if let Some(path) = find_port(Path::new("/sys/class/virtio-ports"), name) {
            match File::options().read(true).write(true).open(&path) {
                Ok(file) => return Ok(file),
                Err(error) if start.elapsed() > PORT_LIMIT => {
                    return Err(refused("open", &path, error));
                }
                Err(_) => {}
            }
        } else if start.elapsed() > PORT_LIMIT {
            return Err(VmError::machine(
                "no virtio port to the host: this kernel lacks virtio_pci or virtio_console",
            ));
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

// Makes the host's files visible to programs in the guest.

/// The mount point of the shared directory, below the root that is built from it.
const SHARED: &str = ".host";

/// Directories that belong to the guest and are never taken from the host.
const OWN: [&str; 5] = ["dev", "proc", "sys", "run", "tmp"];

/// Builds a root from the directory that the host shares: its entries, and empty directories for
/// those of the guest.
fn mount_root(root: &Path) -> Result<(), VmError> {
    let _ = fs::create_dir_all(root);
    mount(
        "fsb-root",
        root,
        "tmpfs",
        MountFlags::empty(),
        Some(c"mode=0755"),
    )
    .map_err(|error| refused("mount tmpfs on", root, error))?;
    let shared = root.join(SHARED);
    let made = OWN
        .iter()
        .map(|name| root.join(name))
        .chain([shared.clone()])
        .try_for_each(fs::create_dir);
    made.map_err(|error| refused("make directories in", root, error))?;
    // Large messages, because each one is a round trip through the emulator. The guest may cache
    // all data, because the mount is read-only.
    let options =
        CString::new("trans=virtio,version=9p2000.L,cache=loose,msize=262144").unwrap_or_default();
    mount(
        ROOT_TAG,
        &shared,
        "9p",
        MountFlags::RDONLY,
        Some(options.as_c_str()),
    )
    .map_err(|error| refused("mount the host's files (9p) on", &shared, error))?;
    let entries = fs::read_dir(&shared).map_err(|error| refused("list", &shared, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !OWN.iter().any(|own| name == *own) {
            show(&entry.path(), &root.join(&name))
                .map_err(|error| refused("show", &entry.path(), error))?;
        }
    }
    Ok(())
}

/// Adds one entry of the shared directory. Skips files at the top level, which programs do not
/// need.
fn show(from: &Path, to: &Path) -> io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        symlink(fs::read_link(from)?, to)
    } else if kind.is_dir() {
        fs::create_dir(to)?;
        Ok(mount_bind(from, to)?)
    } else {
        Ok(())
    }
}

/// The name of the shared directory on the bus.
pub(crate) const ROOT_TAG: &str = "fsbroot";

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream on which every other call fails.
    struct Failing(UnixStream, u32);

    impl Failing {
        fn turn(&mut self) -> io::Result<&mut UnixStream> {
            self.1 += 1;
            if self.1 % 2 == 1 {
                Err(rustix::io::Errno::NOMEM.into())
            } else {
                Ok(&mut self.0)
            }
        }
    }

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.turn()?.read(buffer)
        }
    }

    impl Write for Failing {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            self.turn()?.write(buffer)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_guest_short_of_memory_answers_all_the_same() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        host.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let (port, out) = (Failing(guest.try_clone().unwrap(), 0), Failing(guest, 0));
        std::thread::spawn(move || echo(port, out, Duration::from_millis(1)));
        for _ in 0..5 {
            host.write_all(b"?").unwrap();
            host.read_exact(&mut [0]).unwrap();
        }
    }

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
        assert_eq!(
            find_port(class.path(), PORT),
            Some(PathBuf::from("/dev/vport1p2"))
        );
        assert_eq!(
            find_port(class.path(), HEARTBEAT_PORT),
            Some(PathBuf::from("/dev/vport1p1"))
        );
        assert_eq!(find_port(Path::new("/nonexistent"), PORT), None);
    }
}
