//! The exports of NFS servers: of the kernel's, which is configured without the programs of
//! nfs-utils, and of nfs-ganesha.
//!
//! The kernel's server asks user space which addresses are which client, which directories it
//! exports, and which directory a file handle begins with. It keeps the answers in caches below
//! /proc/net/rpc, which are filled here before anything asks. Formats: `svc_export_parse` and
//! `expkey_parse` of fs/nfsd/export.c, `ip_map_parse` of net/sunrpc/svcauth_unix.c.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::network::{self, ConnectedNamespace, Link};
use fsb_sys::{mount as kernel, poll_until};
use rustix::fs::{Mode, OFlags};

use super::server_process::ServerProcess;
use super::{ganesha, rpc_services};

/// The directory with the mount points of the exported file systems, which is the root of the
/// server.
const ROOT: &str = "/run/fsb-nfs";

/// The server's own file system, where the kernel's module expects it.
const NFSD: &str = "/proc/fs/nfsd";

/// The threads of the server: the default of rpc.nfsd(8).
const THREADS: u32 = 8;

/// The shortest grace period that the server accepts, in seconds (`nfsd4_write_time` of
/// fs/nfsd/nfsctl.c).
const GRACE: u32 = 10;

/// The time limit for the end of the grace period, which emulated guests reach late.
const GRACE_LIMIT: Duration = Duration::from_secs(120);

/// The time limit for the unmount of the exported file system. The server closes files with a short
/// delay.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NfsServer {
    Kernel,
    Ganesha,
}

impl NfsServer {
    /// Returns the word of the option `server=`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            NfsServer::Kernel => "kernel",
            NfsServer::Ganesha => "ganesha",
        }
    }
}

/// An export that is served.
enum RunningServer {
    /// By the kernel, with these flags.
    Kernel(u32),
    /// By a process of nfs-ganesha.
    Ganesha(ServerProcess),
}

/// An exported file system, as a function of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Export(pub(super) DeviceNumber);

impl Export {
    pub(super) fn of_device(device: &Path) -> Result<Export, TestbedError> {
        block::number_of(device).map(Export).ok_or_else(|| {
            TestbedError::machine("the exported device is not there")
                .tried(device.display().to_string())
        })
    }

    fn name(self) -> String {
        format!("{}-{}", self.0.0, self.0.1)
    }

    /// Returns the mount point of the exported file system.
    pub(super) fn directory(self) -> PathBuf {
        Path::new(ROOT).join(self.name())
    }

    /// Creates the mount point and returns it.
    pub(super) fn make_directory(self) -> Result<PathBuf, TestbedError> {
        let directory = self.directory();
        std::fs::create_dir_all(&directory)
            .map_err(|error| unserved("make", &directory, &error))?;
        Ok(directory)
    }

    /// Returns the port at which nfs-ganesha serves it. The kernel's server has 2049, and each
    /// process needs another one, outside the range from which clients get theirs. Minor numbers of
    /// devices that are ready together are below 10,000.
    pub(super) fn port_of_ganesha(self) -> u16 {
        22_000 + (self.0.1 % 10_000) as u16
    }

    /// Returns the name of it for a client on that network: `10.0.0.9:/254-1`.
    pub(super) fn source(self, network: &ConnectedNamespace) -> String {
        format!("{}:/{}", network.near(), self.name())
    }

    /// Returns the name of the host of a client, from 1. A server takes clients with one name for
    /// one client that was restarted.
    pub(super) fn host_name(self, client: usize) -> String {
        format!("{}-{client}", self.name())
    }

    /// Returns the number by which file handles name it. 0 is the root of the server.
    fn fsid(self) -> u32 {
        // The kernel has 12 bits of major and 20 of minor numbers. The server reads the number as a
        // signed one.
        ((self.0.0 << 20) | self.0.1) & 0x7fff_ffff
    }

    /// Exports the file system that is mounted at its directory, and returns the networks of its
    /// clients, on which packets take the time that they need on `link`. If `asynchronous`, the
    /// kernel's server answers before changes are on the device. After an error, the export must be
    /// ended.
    pub(super) fn begin(
        self,
        server: NfsServer,
        asynchronous: bool,
        link: Option<Link>,
        clients: usize,
    ) -> Result<Vec<Arc<ConnectedNamespace>>, TestbedError> {
        let running = match server {
            NfsServer::Kernel => {
                RunningServer::Kernel(FLAGS | if asynchronous { FLAG_ASYNC } else { 0 })
            }
            NfsServer::Ganesha => RunningServer::Ganesha(ganesha::start(
                &self.directory(),
                &self.name(),
                self.port_of_ganesha(),
            )?),
        };
        let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        served.exports.insert(self.fsid(), (self, running));
        let networks = served.connect(self, clients, link)?;
        publish(&served)?;
        Ok(networks)
    }

    /// Returns the file handle of its root directory, as the client sends it. The server must
    /// export it.
    fn handle(self) -> Option<Vec<u8>> {
        /// The longest file handle of NFS 3, in bytes.
        const LONGEST: u32 = 64;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(Path::new(NFSD).join("filehandle"))
            .ok()?;
        file.write_all(format!("{CLIENT} {} {LONGEST}\n", self.directory().display()).as_bytes())
            .ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        parse_handle(&text)
    }

    /// Returns the directories in which the server describes the clients of this export. Clients of
    /// NFS 3 have none.
    fn clients(self) -> Vec<PathBuf> {
        let clients = std::fs::read_dir(Path::new(NFSD).join("clients"))
            .into_iter()
            .flatten()
            .flatten();
        clients
            .map(|client| client.path())
            .filter(|client| {
                fsb_sys::read_text(client.join("info"))
                    .is_ok_and(|info| is_client(&info, &self.name()))
            })
            .collect()
    }

    /// Writes out what the server holds of it.
    pub(crate) fn sync(self) -> Result<(), TestbedError> {
        let path = self.directory();
        let directory = rustix::fs::open(
            &path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        directory.and_then(rustix::fs::syncfs).map_err(|errno| {
            TestbedError::trial("the exported file system could not be written out").tried(attempt(
                "syncfs",
                &path,
                &errno.into(),
            ))
        })
    }

    /// Ends the export after the client has unmounted it, and unmounts the file system. The server
    /// then holds neither data nor open files of it.
    pub(crate) fn end(self) -> Result<(), TestbedError> {
        // An unmounted client still closes files. From NFS 4.1 on it says goodbye when it has
        // closed all. Version 4.0 has no such call, so the server is asked to forget a client
        // without open files.
        if !poll_until(PATIENCE, || {
            let mut clients = self.clients();
            clients.retain(|client| !forget_idle(client));
            clients.is_empty()
        }) {
            return Err(TestbedError::trial(
                "the NFS client still uses its server after the unmount",
            ));
        }
        let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        // The file system is unmounted even if a step before fails. The first error is the one that
        // explains.
        let ended = match served.exports.remove(&self.fsid()) {
            Some((_, RunningServer::Ganesha(mut process))) => {
                process.terminate();
                process
                    .end_patiently()
                    .then_some(())
                    .ok_or_else(|| TestbedError::trial("nfs-ganesha did not end and was killed"))
            }
            Some((_, RunningServer::Kernel(_))) => {
                served.empty_caches().and_then(|()| publish(&served))
            }
            None => Ok(()),
        };
        let unmounted = match kernel::unmount_patiently(&self.directory(), PATIENCE) {
            Ok(Some(note)) => Err(TestbedError::trial(
                "the NFS server still uses the exported file system",
            )
            .tried(note)),
            result => result.map(drop),
        };
        ended.and(unmounted)
    }
}

/// Parses a file handle in hexadecimal digits: `\x01000700`.
fn parse_handle(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end().strip_prefix("\\x")?;
    (0..digits.len())
        .step_by(2)
        .map(|at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
        .collect()
}

/// Returns whether the server's description of a client has the name of a host of that export
/// ([`Export::host_name`]). NFS 4.0 puts an address behind it.
fn is_client(info: &str, export: &str) -> bool {
    let mut names = info.lines().filter_map(|line| line.strip_prefix("name: "));
    names.any(|line| {
        line.split([' ', '/', '"']).any(|word| {
            word.rsplit_once('-')
                .is_some_and(|(name, _)| name == export)
        })
    })
}

/// Asks the server to forget a client of NFS 4.0 that has no open files. Returns whether it did.
fn forget_idle(client: &Path) -> bool {
    let text = |file: &str| fsb_sys::read_text(client.join(file));
    let is_old = text("info").is_ok_and(|info| info.lines().any(|line| line == "minor version: 0"));
    is_old
        && text("states").is_ok_and(|states| states.trim().is_empty())
        && write(&client.join("ctl"), "expire\n").is_ok()
}

/// Returns the file handle of an export for the service MOUNT. The path is the client's: `/254-1`.
fn handle_of(path: &str) -> Option<Vec<u8>> {
    let served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut exports = served.exports.values().map(|(export, _)| *export);
    exports
        .find(|export| path.strip_prefix('/') == Some(export.name().as_str()))?
        .handle()
}

/// Flags of include/uapi/linux/nfsd/export.h: any port, no check of subtrees, and the number of the
/// export in file handles. Users keep their identity, root included.
const FLAGS: u32 = 0x0002 | 0x0400 | 0x2000;
const FLAG_ASYNC: u32 = 0x0010;

/// The exports of this process.
static SERVED: Mutex<Served> = Mutex::new(Served {
    exports: BTreeMap::new(),
    networks: BTreeMap::new(),
    emptied: None,
});

struct Served {
    /// By number.
    exports: BTreeMap<u32, (Export, RunningServer)>,
    /// The networks of the clients of each export, by number. They stay for its next mount: a
    /// client that was unmounted may still close connections.
    networks: BTreeMap<u32, Vec<Arc<ConnectedNamespace>>>,
    /// The time when the server's caches were emptied.
    emptied: Option<Instant>,
}

impl Served {
    /// Returns the networks of that number of clients. Creates those that are missing.
    fn connect(
        &mut self,
        export: Export,
        clients: usize,
        link: Option<Link>,
    ) -> Result<Vec<Arc<ConnectedNamespace>>, TestbedError> {
        let failed = |verb, error| unserved(verb, Path::new("the network of a client"), &error);
        let networks = self.networks.entry(export.fsid()).or_default();
        while networks.len() < clients {
            networks.push(Arc::new(
                ConnectedNamespace::create().map_err(|error| failed("create", error))?,
            ));
        }
        let networks = networks[..clients].to_vec();
        networks
            .iter()
            .try_for_each(|network| network.set_link(link))
            .map_err(|error| failed("delay packets on", error))?;
        Ok(networks)
    }

    /// Empties the caches that hold the directories of exports. Emptying the second one also closes
    /// the server's files.
    fn empty_caches(&mut self) -> Result<(), TestbedError> {
        /// The kernel compares whole seconds (`write_flush` of net/sunrpc/cache.c). A second
        /// request within the same one would take effect up to 30 s later.
        const BETWEEN: Duration = Duration::from_millis(1100);
        if let Some(left) = self
            .emptied
            .and_then(|last| BETWEEN.checked_sub(last.elapsed()))
        {
            std::thread::sleep(left);
        }
        for cache in ["nfsd.export", "nfsd.fh"] {
            write(&Path::new("/proc/net/rpc").join(cache).join("flush"), "1\n")?;
        }
        self.emptied = Some(Instant::now());
        Ok(())
    }
}

/// Fills the caches of the kernel's server, if it serves anything.
fn publish(served: &Served) -> Result<(), TestbedError> {
    let of_kernel: Vec<_> = served
        .exports
        .values()
        .filter_map(|(export, running)| match running {
            RunningServer::Kernel(flags) => Some((*export, *flags)),
            RunningServer::Ganesha(_) => None,
        })
        .collect();
    if of_kernel.is_empty() {
        return Ok(());
    }
    fn channel(cache: &str) -> PathBuf {
        Path::new("/proc/net/rpc").join(cache).join("channel")
    }
    for network in served.networks.values().flatten() {
        write(&channel("auth.unix.ip"), &client_line(network.far()))?;
    }
    let exports = of_kernel
        .iter()
        .map(|(export, flags)| (export.fsid(), export.directory(), *flags));
    for (fsid, directory, flags) in [(0, PathBuf::from(ROOT), FLAGS)].into_iter().chain(exports) {
        write(
            &channel("nfsd.export"),
            &export_line(fsid, &directory, flags),
        )?;
        write(&channel("nfsd.fh"), &handle_line(fsid, &directory))?;
    }
    Ok(())
}

/// The name of all clients.
const CLIENT: &str = "fsb";

/// The time until which the answers are valid, in seconds since 1970. exportfs(8) writes the same.
const NEVER: u32 = i32::MAX as u32;

fn client_line(address: Ipv4Addr) -> String {
    format!("nfsd {address} {NEVER} {CLIENT}\n")
}

fn export_line(fsid: u32, directory: &Path, flags: u32) -> String {
    /// The user and group of anonymous clients, which do not exist here.
    const ANONYMOUS: u32 = 65_534;
    format!(
        "{CLIENT} {} {NEVER} {flags} {ANONYMOUS} {ANONYMOUS} {fsid}\n",
        directory.display()
    )
}

/// A file handle of type 1 begins with the number of the export, in the byte order of the
/// processor.
fn handle_line(fsid: u32, directory: &Path) -> String {
    let hex: String = fsid
        .to_ne_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{CLIENT} 1 \\x{hex} {NEVER} {}\n", directory.display())
}

/// Starts the kernel's server unless it runs. It ends with the guest.
pub(super) fn serve() -> Result<(), TestbedError> {
    fn control(name: &str) -> PathBuf {
        Path::new(NFSD).join(name)
    }
    let threads = fsb_sys::read_trimmed(&control("threads"));
    if threads.is_some_and(|threads| threads != "0") {
        return Ok(());
    }
    network::bring_loopback_up().map_err(|error| unserved("set up", Path::new("lo"), &error))?;
    if !control("threads").exists() {
        kernel::mount("nfsd", Path::new("nfsd"), Path::new(NFSD), &[])?;
    }
    // Linux 6.12 and later can bypass the RPC layer where client and server share a kernel.
    let bypass = Path::new("/sys/module/nfs/parameters/localio_enabled");
    if bypass.exists() {
        write(bypass, "N\n")?;
    }
    std::fs::create_dir_all(ROOT).map_err(|error| unserved("make", Path::new(ROOT), &error))?;
    // The server starts lockd for NFS 3, and lockd registers with rpcbind.
    rpc_services::start(handle_of)
        .map_err(|error| unserved("listen for", Path::new("rpcbind"), &error))?;
    // Before the socket, because the server then reads its versions.
    write(&control("versions"), "-2 +3 +4.0 +4.1 +4.2\n")?;
    write(&control("nfsv4gracetime"), &format!("{GRACE}\n"))?;
    write(&control("portlist"), "tcp 2049\n")?;
    write(&control("threads"), &format!("{THREADS}\n"))?;
    // Locks of all versions wait for the end of lockd's grace period, too.
    let _ = write(Path::new("/proc/fs/lockd/nlm_end_grace"), "Y\n");
    // No client from before a crash can claim its state. A server without a record of clients, as
    // here, refuses to end the grace period early in newer kernels, and opens wait for its end.
    let grace = control("v4_end_grace");
    let _ = write(&grace, "Y\n");
    match poll_until(GRACE_LIMIT, || {
        fsb_sys::read_trimmed(&grace).is_none_or(|ended| ended == "Y")
    }) {
        true => Ok(()),
        false => Err(
            TestbedError::trial("the grace period of the NFS server does not end").tried(format!(
                "waited {} s for Y in {}",
                GRACE_LIMIT.as_secs(),
                grace.display()
            )),
        ),
    }
}

/// Writes a line in one call, as the kernel's files require.
fn write(path: &Path, line: &str) -> Result<(), TestbedError> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| unserved(&format!("write '{}' to", line.trim_end()), path, &error))
}

fn unserved(verb: &str, path: &Path, error: &std::io::Error) -> TestbedError {
    TestbedError::trial("the NFS server could not be set up").tried(attempt(verb, path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_caches_are_those_that_the_kernel_parses() {
        let export = Export(DeviceNumber(254, 259));
        let directory = export.directory();
        assert_eq!(
            client_line(Ipv4Addr::new(10, 0, 0, 9)),
            "nfsd 10.0.0.9 2147483647 fsb\n"
        );
        assert_eq!(
            export_line(export.fsid(), &directory, FLAGS | FLAG_ASYNC),
            "fsb /run/fsb-nfs/254-259 2147483647 9234 65534 65534 266338563\n"
        );
        let hex = if cfg!(target_endian = "little") {
            "0301e00f"
        } else {
            "0fe00103"
        };
        assert_eq!(
            handle_line(export.fsid(), &directory),
            format!("fsb 1 \\x{hex} 2147483647 /run/fsb-nfs/254-259\n")
        );
    }

    #[test]
    fn file_handles_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_handle("\\x010007ff\n"), Some(vec![1, 0, 7, 255]));
        for invalid in ["", "010007", "\\x01000", "\\x0g"] {
            assert_eq!(parse_handle(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn clients_of_each_version_are_found_by_their_name() {
        let info = |name: &str| {
            format!("clientid: 0x1\naddress: \"127.0.0.1:9\"\nname: \"{name}\"\nminor version: 2\n")
        };
        for name in ["Linux NFSv4.2 254-25-1", "Linux NFSv4.0 254-25-12/10.0.0.9"] {
            assert!(is_client(&info(name), "254-25"), "{name}");
            assert!(!is_client(&info(name), "254-2"), "{name}");
        }
        assert!(!is_client("", "254-25"));
    }

    #[test]
    fn only_idle_clients_of_version_4_0_are_forgotten() {
        let client = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(client.path().join(name), text).unwrap();
        file("ctl", "");
        for (version, states, forgotten) in [
            (0, "", true),
            (0, "- 0x1: { type: open }\n", false),
            (2, "", false),
        ] {
            file("info", &format!("name: \"x\"\nminor version: {version}\n"));
            file("states", states);
            assert_eq!(forget_idle(client.path()), forgotten, "{version}: {states}");
        }
    }
}
