//! nfs-ganesha, an NFS server in user space: one process for each export.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::{network, program};

use super::server_process::ServerProcess;

/// The program and its Debian package.
pub(super) const PROGRAM: (&str, &str) = ("ganesha.nfsd", "nfs-ganesha");

/// The port of every process, at the address of its export. The kernel's server may have 2049 at all addresses.
pub(super) const PORT: u16 = 12049;

/// The library with which it serves directories of this machine, and its Debian package.
const LIBRARY: (&str, &str) = ("ganesha/libfsalvfs.so", "nfs-ganesha-vfs");

/// The transports that its RPC library knows.
const TRANSPORTS: &str = "/etc/netconfig";

/// The directory of its configuration and of its records of clients.
const STATE: &str = "/run/fsb-ganesha";

/// Returns the files that the program opens beside its libraries.
pub(super) fn files() -> Result<Vec<PathBuf>, TestbedError> {
    let (library, package) = LIBRARY;
    let of_architectures = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut directories = ["/usr/lib64", "/usr/lib"].into_iter().map(PathBuf::from).chain(of_architectures);
    let found = directories.find_map(|directory| Some(directory.join(library)).filter(|path| path.is_file()));
    let found = found.ok_or_else(|| {
        TestbedError::machine(format!("the library {library} is missing"))
            .coded(&fsb_model::error::TOOL_MISSING)
            .field("program", library)
            .field("package", package)
            .tried("looked in /usr/lib64, /usr/lib and its directories")
            .advice(format!("install the package {package} (apt-get install {package})"))
    })?;
    let transports = Some(PathBuf::from(TRANSPORTS)).filter(|path| path.exists());
    Ok([found].into_iter().chain(transports).collect())
}

/// Starts a server that exports `directory` as `/name` at `address`, and waits until it accepts connections.
pub(super) fn start(directory: &Path, name: &str, address: Ipv4Addr) -> Result<ServerProcess, TestbedError> {
    let (program, package) = PROGRAM;
    let path = program::require(program, package)?;
    let failed = |tried: String| TestbedError::trial("nfs-ganesha could not be started").tried(tried);
    let lo = |error| failed(attempt("set up", Path::new("lo"), &error));
    network::bring_loopback_up().map_err(lo)?;
    let state = Path::new(STATE).join(name);
    let file = state.join("ganesha.conf");
    std::fs::create_dir_all(&state)
        .and_then(|()| std::fs::write(&file, configuration(directory, name, address, &state)))
        .map_err(|error| failed(attempt("write", &file, &error)))?;
    let mut command = Command::new(path);
    // In the foreground, so that it is a child of this process.
    command.args(["-F", "-N", "CRIT", "-L", "STDERR", "-f"]).arg(&file).arg("-p").arg(state.join("pid"));
    let mut server = ServerProcess::start(&mut command)?;
    let socket = SocketAddr::from((address, PORT));
    server.wait_until(|| TcpStream::connect_timeout(&socket, Duration::from_secs(1)).is_ok()).map_err(|why| {
        let complaint = server.complaint();
        server.end(Duration::ZERO);
        failed(format!("{program} at {socket}: {why}: {complaint}"))
    })?;
    Ok(server)
}

/// Returns the configuration: version 4 only, which needs no other services, and no grace period.
fn configuration(directory: &Path, name: &str, address: Ipv4Addr, state: &Path) -> String {
    format!(
        "NFS_CORE_PARAM {{ Bind_addr = {address}; NFS_Port = {PORT}; Protocols = 4; Enable_NLM = false; \
         Enable_RQUOTA = false; }}\n\
         NFSV4 {{ Graceless = true; Minor_Versions = 0, 1, 2; Only_Numeric_Owners = true; RecoveryRoot = \"{}\"; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{}\"; Pseudo = \"/{name}\"; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n",
        state.display(),
        directory.display(),
    )
}
