//! The QEMU program: finds it, and probes its I/O modes for a disk.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};
use fsb_model::error::TOOL_MISSING;

use super::{Disk, LAUNCH_ARGUMENT};
use crate::error::{VmError, refused};

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
    pub const HERE: Architecture = if cfg!(target_arch = "aarch64") { Architecture::Arm } else { Architecture::X86 };

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
    Aio { direct: true, engine: "io_uring" },
    Aio { direct: true, engine: "native" },
    Aio { direct: true, engine: "threads" },
    Aio { direct: false, engine: "io_uring" },
    Aio { direct: false, engine: "threads" },
];

/// Finds QEMU for that architecture. The error names the package that contains it.
pub fn find(architecture: Architecture) -> Result<PathBuf, VmError> {
    let (name, package) = architecture.program();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let searched = std::env::join_paths(absolute.chain(["/usr/bin", "/usr/local/bin"].map(PathBuf::from))).ok();
    which::which_in(name, searched, "/").map_err(|_| {
        VmError::machine(format!("a micro-VM needs {name}, which is missing"))
            .coded(&TOOL_MISSING)
            .field("program", name)
            .field("package", package)
            .tried("looked on PATH")
            .advice(format!("install the package {package} (apt-get install {package})"))
    })
}

/// Returns the options of the block device behind that set of descriptors.
pub(super) fn blockdev(driver: &str, set: usize, node: &str, aio: Aio) -> String {
    let direct = if aio.direct { "on" } else { "off" };
    format!(
        "driver={driver},node-name={node},filename=/dev/fdset/{set},cache.direct={direct},aio={},discard=ignore",
        aio.engine
    )
}

/// Returns QEMU's driver for that file.
pub(super) fn driver(disk: &Disk) -> Result<&'static str, VmError> {
    let stat = rustix::fs::fstat(&disk.file).map_err(|error| {
        VmError::machine(format!("cannot look at the disk {}", disk.serial)).tried(error.to_string())
    })?;
    match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::BlockDevice => Ok("host_device"),
        rustix::fs::FileType::RegularFile => Ok("file"),
        other => {
            Err(VmError::request(format!("the disk {} is neither a file nor a block device: {other:?}", disk.serial)))
        }
    }
}

/// Returns the best I/O mode that works for a disk. Starts QEMU to open the disk with each mode, because kernels may
/// refuse io_uring, and file systems O_DIRECT, in ways that show only on use.
pub(super) fn probe_disk(qemu: &Path, launcher: &Path, disk: &Disk) -> Result<Aio, VmError> {
    let driver = driver(disk)?;
    let mut refusal = String::new();
    for aio in WAYS {
        let file = disk.file.as_fd().try_clone_to_owned();
        let file = file.map_err(|error| VmError::machine("cannot duplicate a descriptor").tried(error.to_string()))?;
        let mut command = Command::new(launcher);
        command.arg(LAUNCH_ARGUMENT).arg(std::process::id().to_string()).arg(qemu);
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
        command.args(["-add-fd", "fd=3,set=1", "-blockdev", &blockdev(driver, 1, "disk", aio)]);
        let mapping = FdMapping { parent_fd: file, child_fd: 3 };
        command
            .fd_mappings(vec![mapping])
            .map_err(|error| VmError::machine("cannot hand over a disk").tried(error.to_string()))?;
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
    make().map_err(|error| VmError::machine("cannot make a pipe").tried(error.to_string()))
}
