//! The QEMU program: the parameters of a machine, the command line, and the I/O modes for a disk.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use fsb_model::error::TOOL_MISSING;

use super::launch::LAUNCH_ARGUMENT;
use super::share::{Share, shared_text};
use crate::error::{VmError, refused};
use crate::guest;
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;

/// The component that executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceleration {
    /// The processor, through KVM.
    Kvm,
    /// QEMU's translator: a functional run, whose numbers are not compared with native ones.
    Emulated,
}

/// A disk of the guest: the host's file or block device behind it.
#[derive(Debug)]
pub struct Disk {
    /// Open for reading and writing. QEMU gets this open file description, so the file needs no
    /// name. QEMU sets O_DIRECT on it if possible: to read the file too, open it again.
    pub file: OwnedFd,
    /// The serial number by which the guest finds the disk, at most 20 bytes: `fsb0`.
    pub serial: String,
}

/// Time limits for a silent guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Silence before the host asks.
    pub silence: Duration,
    /// Time from the question to the answer. PID 1 of an emulated guest on a busy host, which is
    /// busy itself, answers within seconds.
    pub answer: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            silence: Duration::from_secs(30),
            answer: Duration::from_secs(90),
        }
    }
}

/// The parameters of a machine.
#[derive(Debug)]
pub struct MachineSpec<'a> {
    /// The kernel to boot.
    pub kernel: &'a Kernel,
    /// The initramfs of the guest.
    pub initramfs: &'a Initramfs,
    /// Memory in bytes, all of it backed before the guest starts.
    pub memory: u64,
    /// Number of processors.
    pub cpus: u32,
    /// The disks, in the order of their serial numbers.
    pub disks: Vec<Disk>,
    /// A directory that the guest sees read-only as
    /// [`GUEST_ROOT`](fsb_model::plan::GUEST_ROOT). The guest runs programs from it.
    pub root: Option<PathBuf>,
    /// The directories of the host that the guest can mount.
    pub shares: Vec<Share>,
    /// The acceleration that [`probe`](super::probe()) chose.
    pub acceleration: Acceleration,
    /// The socket that QEMU connects to the guest's port `fsb`.
    pub protocol: UnixStream,
    /// Time limits for a silent guest.
    pub patience: Patience,
    /// The program that runs the role [`LAUNCH_ARGUMENT`], so that QEMU dies with the thread
    /// that boots it: `/proc/self/exe`.
    pub launcher: PathBuf,
}

/// Architectures of guests, which are those of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit PCs.
    X86,
    /// 64-bit Arm.
    Arm,
}

impl Architecture {
    /// The architecture of this host.
    pub const HERE: Architecture = if cfg!(target_arch = "aarch64") {
        Architecture::Arm
    } else {
        Architecture::X86
    };

    fn program(self) -> (&'static str, &'static str) {
        match self {
            Architecture::X86 => ("qemu-system-x86_64", "qemu-system-x86"),
            Architecture::Arm => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }
}

/// QEMU's I/O mode for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aio {
    /// Whether QEMU bypasses the host's page cache (O_DIRECT).
    pub direct: bool,
    /// QEMU's name of the engine: `io_uring`, `native` or `threads`.
    pub engine: &'static str,
}

/// I/O modes from best to worst. Native AIO is only asynchronous with O_DIRECT.
const WAYS: [Aio; 5] = [
    Aio {
        direct: true,
        engine: "io_uring",
    },
    Aio {
        direct: true,
        engine: "native",
    },
    Aio {
        direct: true,
        engine: "threads",
    },
    Aio {
        direct: false,
        engine: "io_uring",
    },
    Aio {
        direct: false,
        engine: "threads",
    },
];

/// Finds QEMU for that architecture. The error names the package that contains it.
pub fn find_qemu(architecture: Architecture) -> Result<PathBuf, VmError> {
    let (name, package) = architecture.program();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let searched =
        std::env::join_paths(absolute.chain(["/usr/bin", "/usr/local/bin"].map(PathBuf::from)))
            .ok();
    which::which_in(name, searched, "/").map_err(|_| {
        VmError::machine(format!("a micro-VM needs {name}, which is missing"))
            .coded(&TOOL_MISSING)
            .field("program", name)
            .field("package", package)
            .tried("looked on PATH")
            .advice(format!(
                "install the package {package} (apt-get install {package})"
            ))
    })
}

/// Returns the options of the block device behind that set of descriptors.
fn blockdev(driver: &str, set: usize, node: &str, aio: Aio) -> String {
    let direct = if aio.direct { "on" } else { "off" };
    format!(
        "driver={driver},node-name={node},filename=/dev/fdset/{set},cache.direct={direct},aio={},discard=ignore",
        aio.engine
    )
}

/// Returns the name of QEMU's driver for the file of a disk.
fn driver(disk: &Disk) -> Result<&'static str, VmError> {
    let stat = rustix::fs::fstat(&disk.file).map_err(|error| {
        VmError::machine(format!("cannot look at the disk {}", disk.serial))
            .tried(&std::io::Error::from(error))
    })?;
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::BlockDevice => Ok("host_device"),
        rustix::fs::FileType::RegularFile => Ok("file"),
        other => Err(VmError::request(format!(
            "the disk {} is neither a file nor a block device: {other:?}",
            disk.serial
        ))),
    }
}

/// Returns the best I/O mode that works for a disk. Starts QEMU to open the disk with each mode,
/// because kernels may refuse io_uring, and file systems O_DIRECT, in ways that show only on use.
pub(super) fn probe_disk(qemu: &Path, launcher: &Path, disk: &Disk) -> Result<Aio, VmError> {
    let driver = driver(disk)?;
    let mut refusal = String::new();
    for aio in WAYS {
        let file = disk.file.as_fd().try_clone_to_owned();
        let file =
            file.map_err(|error| VmError::machine("cannot duplicate a descriptor").tried(&error))?;
        let mut command = Command::new(launcher);
        command
            .arg(LAUNCH_ARGUMENT)
            .arg(std::process::id().to_string())
            .arg(qemu);
        command.args([
            "-machine",
            "none",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-S",
            "-monitor",
            "stdio",
        ]);
        command.args([
            "-add-fd",
            "fd=3,set=1",
            "-blockdev",
            &blockdev(driver, 1, "disk", aio),
        ]);
        let mapping = FdMapping {
            parent_fd: file,
            child_fd: 3,
        };
        command.fd_mappings(vec![mapping]).map_err(|error| {
            VmError::machine("cannot hand over a disk").tried(error.to_string())
        })?;
        // The monitor ends with its input, and QEMU ends with its monitor.
        let output = command
            .stdin(Stdio::from(quit()?))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| refused("execute", qemu, error))?;
        if output.status.success() {
            return Ok(aio);
        }
        refusal = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    }
    Err(VmError::machine(format!("QEMU cannot open the disk {}", disk.serial)).tried(refusal))
}

/// Returns a pipe that contains the command `quit`.
fn quit() -> Result<std::io::PipeReader, VmError> {
    let make = || -> std::io::Result<std::io::PipeReader> {
        let (reader, mut writer) = std::io::pipe()?;
        std::io::Write::write_all(&mut writer, b"quit\n")?;
        Ok(reader)
    };
    make().map_err(|error| VmError::machine("cannot make a pipe").tried(&error))
}

/// The descriptor of the protocol in QEMU. Those of the heartbeat and the disks follow.
const PROTOCOL: i32 = 3;
const HEARTBEAT: i32 = PROTOCOL + 1;

/// The contents of QEMU's command line.
#[derive(Debug)]
pub(super) struct Plan {
    pub architecture: Architecture,
    pub acceleration: Acceleration,
    pub memory: u64,
    pub cpus: u32,
    /// The name that lists of processes show.
    pub name: String,
    pub kernel: String,
    pub initramfs: String,
    /// Additional words for the guest kernel's command line.
    pub words: Vec<String>,
    pub protocol: bool,
    /// The directory of the host that the guest sees.
    pub root: Option<String>,
    /// Driver, serial number and I/O mode of each disk.
    pub disks: Vec<(&'static str, String, Aio)>,
    /// The arguments of the shared directories, and whether other processes serve any.
    pub shares: (Vec<String>, bool),
}

impl Plan {
    pub fn new(spec: &MachineSpec<'_>, aio: &[Aio]) -> Result<Plan, VmError> {
        let mut disks = Vec::new();
        for (disk, aio) in spec.disks.iter().zip(aio) {
            if disk.serial.is_empty()
                || disk.serial.len() > 20
                || !disk.serial.bytes().all(|b| b.is_ascii_alphanumeric())
            {
                return Err(VmError::request(format!(
                    "a disk cannot have the serial number {:?}",
                    disk.serial
                )));
            }
            disks.push((driver(disk)?, disk.serial.clone(), *aio));
        }
        let root = spec.root.as_deref().map(shared_text).transpose()?;
        let (mut shares, mut served) = (Vec::new(), 0);
        for (index, share) in spec.shares.iter().enumerate() {
            let fd = HEARTBEAT + 1 + spec.disks.len() as i32 + served;
            shares.extend(share.arguments(index, fd)?);
            served += i32::from(share.virtiofsd.is_some());
        }
        Ok(Plan {
            architecture: Architecture::HERE,
            acceleration: spec.acceleration,
            memory: spec.memory,
            cpus: spec.cpus.max(1),
            name: name(spec.kernel),
            kernel: text(&spec.initramfs.kernel)?,
            initramfs: text(&spec.initramfs.path)?,
            words: [guest::WORD, "quiet"]
                .into_iter()
                .chain(root.as_ref().map(|_| guest::ROOT_WORD))
                .map(str::to_owned)
                .collect(),
            root,
            protocol: true,
            disks,
            shares: (shares, served > 0),
        })
    }

    /// Returns the descriptors that the arguments refer to. `sockets` lead to the servers of shared
    /// directories.
    pub fn descriptors(
        &self,
        spec: MachineSpec<'_>,
        heartbeat: UnixStream,
        sockets: Vec<OwnedFd>,
    ) -> Vec<FdMapping> {
        let disks = spec.disks.into_iter().map(|disk| disk.file);
        [OwnedFd::from(spec.protocol), OwnedFd::from(heartbeat)]
            .into_iter()
            .chain(disks)
            .chain(sockets)
            .zip(PROTOCOL..)
            .map(|(parent_fd, child_fd)| FdMapping {
                parent_fd,
                child_fd,
            })
            .collect()
    }

    pub fn arguments(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| all.extend(words.iter().map(|word| (*word).to_owned()));
        let machine = match self.architecture {
            Architecture::X86 => "q35,memory-backend=ram",
            Architecture::Arm => "virt,gic-version=max,memory-backend=ram",
        };
        let (acceleration, processor) = match self.acceleration {
            Acceleration::Kvm => ("kvm", "host"),
            Acceleration::Emulated => ("tcg,thread=multi", "max"),
        };
        let (mebibytes, cpus) = (self.memory >> 20, self.cpus);
        add(&[
            "-name",
            &self.name,
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        add(&[
            "-machine",
            machine,
            "-accel",
            acceleration,
            "-cpu",
            processor,
            "-smp",
            &cpus.to_string(),
        ]);
        // Memory that is backed before the guest starts causes no page faults in the host during a
        // sample.
        add(&["-m", &format!("{mebibytes}M"), "-object"]);
        let (shares, served) = &self.shares;
        // A server of another process reads and writes the guest's memory.
        let memory = if *served {
            "memory-backend-memfd,share=on"
        } else {
            "memory-backend-ram"
        };
        add(&[&format!(
            "{memory},id=ram,size={mebibytes}M,prealloc=on,prealloc-threads={}",
            cpus.min(8)
        )]);
        add(&[
            "-kernel",
            &self.kernel,
            "-initrd",
            &self.initramfs,
            "-append",
            &self.command_line(),
        ]);
        add(&[
            "-chardev",
            "stdio,id=console,signal=off",
            "-serial",
            "chardev:console",
        ]);
        if self.protocol {
            add(&["-device", "virtio-serial-pci"]);
            for (name, fd, port) in [
                ("protocol", PROTOCOL, guest::PORT),
                ("heartbeat", HEARTBEAT, guest::HEARTBEAT_PORT),
            ] {
                add(&["-chardev", &format!("socket,id={name},fd={fd}")]);
                add(&[
                    "-device",
                    &format!("virtserialport,chardev={name},name={port}"),
                ]);
            }
        }
        if let Some(root) = &self.root {
            add(&[
                "-fsdev",
                &format!(
                    "local,id=root,path={root},security_model=none,readonly=on,multidevs=remap"
                ),
            ]);
            add(&[
                "-device",
                &format!("virtio-9p-pci,fsdev=root,mount_tag={}", guest::ROOT_TAG),
            ]);
        }
        add(&shares.iter().map(String::as_str).collect::<Vec<_>>());
        for (index, (driver, serial, aio)) in self.disks.iter().enumerate() {
            let set = index + 1;
            add(&[
                "-add-fd",
                &format!("fd={},set={set}", HEARTBEAT as usize + set),
            ]);
            add(&[
                "-blockdev",
                &blockdev(driver, set, &format!("disk{index}"), *aio),
            ]);
            // QEMU must not turn written blocks into holes: the next target would have to allocate
            // them again.
            add(&[
                "-device",
                &format!(
                    "virtio-blk-pci,drive=disk{index},serial={serial},discard=off,write-zeroes=off"
                ),
            ]);
        }
        all
    }

    /// Returns the guest's kernel command line. The guest ends itself when it panics. It panics on
    /// an oops, on a processor that does not schedule for two minutes, and on a task that waits for
    /// a disk for five minutes.
    fn command_line(&self) -> String {
        let console = match self.architecture {
            Architecture::X86 => "console=ttyS0",
            Architecture::Arm => "console=ttyAMA0",
        };
        let mut words = vec![console, "panic=-1", "oops=panic", "random.trust_cpu=on"];
        words.extend([
            "softlockup_panic=1",
            "hung_task_panic=1",
            "sysctl.kernel.watchdog_thresh=60",
        ]);
        words.push("sysctl.kernel.hung_task_timeout_secs=300");
        if self.acceleration == Acceleration::Emulated && self.architecture == Architecture::X86 {
            // The kernel calibrates clocks against each other for a second. The emulated clocks are
            // one clock.
            words.extend(["tsc=reliable", "no_timer_check"]);
        }
        words.extend(self.words.iter().map(String::as_str));
        words.join(" ")
    }
}

/// Returns the name of a guest, which contains the release of its kernel.
pub(super) fn name(kernel: &Kernel) -> String {
    format!(
        "fsb-{}",
        kernel.release.replace(
            |c: char| !c.is_ascii_alphanumeric() && !"._-+".contains(c),
            "-"
        )
    )
}

/// Converts a path to text. In most options of QEMU a comma starts the next property; `-kernel` and
/// `-initrd` take it literally.
pub(super) fn text(path: &std::path::Path) -> Result<String, VmError> {
    let text = path
        .to_str()
        .ok_or_else(|| VmError::request(format!("{} is not a name in UTF-8", path.display())))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(architecture: Architecture, acceleration: Acceleration) -> Plan {
        let direct = Aio {
            direct: true,
            engine: "io_uring",
        };
        let disks = vec![
            ("file", "fsb0".to_owned(), direct),
            ("host_device", "fsb1".to_owned(), direct),
        ];
        let words = vec!["fsb.guest".to_owned(), "quiet".to_owned()];
        let name = "fsb-6.1".to_owned();
        let (kernel, initramfs) = ("/boot/vmlinuz".to_owned(), "/c/i.cpio".to_owned());
        Plan {
            architecture,
            acceleration,
            memory: 512 << 20,
            cpus: 2,
            name,
            kernel,
            initramfs,
            words,
            protocol: true,
            disks,
            root: None,
            shares: (Vec::new(), false),
        }
    }

    fn after<'a>(arguments: &'a [String], option: &str) -> Vec<&'a str> {
        let pairs = arguments.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].as_str()).collect()
    }

    #[test]
    fn a_pc() {
        let arguments = plan(Architecture::X86, Acceleration::Emulated).arguments();
        assert_eq!(after(&arguments, "-machine"), ["q35,memory-backend=ram"]);
        assert_eq!(after(&arguments, "-accel"), ["tcg,thread=multi"]);
        assert_eq!(after(&arguments, "-m"), ["512M"]);
        assert!(after(&arguments, "-object")[0].contains("size=512M,prealloc=on"));
        assert_eq!(after(&arguments, "-add-fd"), ["fd=5,set=1", "fd=6,set=2"]);
        let disks = after(&arguments, "-blockdev");
        assert_eq!(
            after(&arguments, "-chardev")[1..],
            ["socket,id=protocol,fd=3", "socket,id=heartbeat,fd=4"]
        );
        assert!(disks[0].starts_with(
            "driver=file,node-name=disk0,filename=/dev/fdset/1,cache.direct=on,aio=io_uring"
        ));
        assert!(disks[1].starts_with("driver=host_device,node-name=disk1,filename=/dev/fdset/2"));
        assert!(
            arguments
                .iter()
                .any(|word| word.contains("drive=disk1,serial=fsb1,discard=off"))
        );
        let line = after(&arguments, "-append")[0];
        assert!(
            line.starts_with("console=ttyS0 panic=-1 oops=panic")
                && line.contains(" tsc=reliable "),
            "{line}"
        );
        assert!(line.ends_with(" fsb.guest quiet"), "{line}");
    }

    #[test]
    fn an_arm_host() {
        let arguments = plan(Architecture::Arm, Acceleration::Kvm).arguments();
        assert_eq!(
            after(&arguments, "-machine"),
            ["virt,gic-version=max,memory-backend=ram"]
        );
        assert_eq!(after(&arguments, "-accel"), ["kvm"]);
        assert_eq!(after(&arguments, "-cpu"), ["host"]);
        let line = after(&arguments, "-append")[0];
        assert!(
            line.starts_with("console=ttyAMA0 ") && !line.contains("tsc"),
            "{line}"
        );
    }
}
