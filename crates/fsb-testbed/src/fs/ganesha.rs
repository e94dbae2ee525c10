//! nfs-ganesha, an NFS server in user space: one process for each export.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{network, program};

use super::server_process::ServerProcess;

/// The program and its Debian package.
pub(super) const PROGRAM: (&str, &str) = ("ganesha.nfsd", "nfs-ganesha");

/// The libraries that it opens by name, and their Debian packages: for directories of this machine,
/// and for names of users.
const LIBRARIES: [(&str, &str); 2] = [
    ("ganesha/libfsalvfs.so", "nfs-ganesha-vfs"),
    ("libnfsidmap/nsswitch.so", "libnfsidmap1"),
];

/// The transports that its RPC library knows.
const TRANSPORTS: &str = "/etc/netconfig";

/// The directory of its configuration and of its records of clients.
const STATE: &str = "/run/fsb-ganesha";

/// Returns the files that the program opens beside the libraries that it is linked to.
pub(super) fn files() -> Result<Vec<PathBuf>, TestbedError> {
    let mut files = LIBRARIES
        .map(|(name, package)| library(name, package))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    files.extend(Some(PathBuf::from(TRANSPORTS)).filter(|path| path.exists()));
    Ok(files)
}

/// Finds a library below the directories of libraries of this machine. The error names its package.
fn library(name: &str, package: &str) -> Result<PathBuf, TestbedError> {
    let of_architectures = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    // Libraries of other architectures may be installed beside those of this one.
    let own = format!("/{}-", std::env::consts::ARCH);
    let mut directories: Vec<_> = ["/usr/lib64", "/usr/lib"]
        .into_iter()
        .map(PathBuf::from)
        .chain(of_architectures)
        .collect();
    directories.sort_by_key(|path| !path.to_string_lossy().contains(&own));
    let found = directories
        .iter()
        .find_map(|directory| Some(directory.join(name)).filter(|path| path.is_file()));
    found.ok_or_else(|| {
        TestbedError::machine(format!("the library {name} is missing"))
            .coded(&fsb_model::error::TOOL_MISSING)
            .field("program", name)
            .field("package", package)
            .tried("looked in /usr/lib64, /usr/lib and its directories")
            .advice(format!(
                "install the package {package} (apt-get install {package})"
            ))
    })
}

/// Returns the version in the text that the option `-v` prints.
pub(super) fn version(text: &str) -> Option<&str> {
    Some(text.lines().next()?.split_once("Release = V")?.1.trim())
}

/// Starts a server that exports `directory` as `/name` at that port of all addresses, and waits
/// until it accepts connections.
pub(super) fn start(
    directory: &Path,
    name: &str,
    port: u16,
) -> Result<ServerProcess, TestbedError> {
    let (program, package) = PROGRAM;
    let path = program::require(program, package)?;
    fn failed(tried: Refusal) -> TestbedError {
        TestbedError::trial("nfs-ganesha could not be started").tried(tried)
    }
    network::bring_loopback_up()
        .map_err(|error| failed(attempt("set up", Path::new("lo"), &error)))?;
    let state = Path::new(STATE).join(name);
    let file = state.join("ganesha.conf");
    std::fs::create_dir_all(&state)
        .and_then(|()| std::fs::write(&file, configuration(directory, name, port, &state)))
        .map_err(|error| failed(attempt("write", &file, &error)))?;
    let mut command = Command::new(path);
    // In the foreground, so that it is a child of this process.
    command
        .args(["-F", "-N", "CRIT", "-L", "STDERR", "-f"])
        .arg(&file)
        .arg("-p")
        .arg(state.join("pid"));
    let mut server = ServerProcess::start(&mut command)?;
    let socket = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    server
        .wait_until(|| TcpStream::connect_timeout(&socket, Duration::from_secs(1)).is_ok())
        .map_err(|why| {
            let complaint = server.complaint();
            server.end(Duration::ZERO);
            failed(format!("{program} at {socket}: {why}: {complaint}").into())
        })?;
    Ok(server)
}

/// Returns the configuration: version 4 only, which needs no other services, and no grace period.
/// `Bind_addr` is left out, because the program takes no address on a machine that has only the
/// loopback interface (`AI_ADDRCONFIG`).
fn configuration(directory: &Path, name: &str, port: u16, state: &Path) -> String {
    format!(
        "NFS_CORE_PARAM {{ NFS_Port = {port}; Protocols = 4; Enable_NLM = false; \
         Enable_RQUOTA = false; }}\n\
         NFSV4 {{ Graceless = true; Minor_Versions = 0, 1, 2; Only_Numeric_Owners = true; RecoveryRoot = \"{}\"; }}\n\
         EXPORT {{ Export_Id = 1; Path = \"{}\"; Pseudo = \"/{name}\"; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys; Protocols = 4; Transports = TCP; FSAL {{ Name = VFS; }} }}\n",
        state.display(),
        directory.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read() {
        assert_eq!(
            version("NFS-Ganesha Release = V4.3\nnfs-ganesha compiled on\n"),
            Some("4.3")
        );
        assert_eq!((version("usage"), version("")), (None, None));
    }

    #[test]
    fn an_export_has_its_own_configuration() {
        let text = configuration(
            "/run/fsb-nfs/254-1".as_ref(),
            "254-1",
            22_001,
            "/run/fsb-ganesha/254-1".as_ref(),
        );
        for part in [
            "NFS_Port = 22001;",
            "Path = \"/run/fsb-nfs/254-1\"; Pseudo = \"/254-1\";",
            "Graceless = true;",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(
            text.matches('{').count(),
            text.matches('}').count(),
            "{text}"
        );
    }
}
