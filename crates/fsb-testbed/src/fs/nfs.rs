//! NFS: a server exports another file system of this list, and one or more clients of the kernel
//! mount it.
//!
//! Clients and server are in one guest of a virtual machine, which has no other NFS server and no
//! network. Each client has a network namespace of its own, and therefore its own connections,
//! caches and state at the server. `nfs_server.rs` configures the kernel's server, and `ganesha.rs`
//! starts nfs-ganesha.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::target::{last_value, nfs_client_options};
use fsb_model::units::parse_duration;
use fsb_model::{FileSystemSpec, Geometry};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::network::Link;
use fsb_sys::{Roots, mount as kernel, program};

use super::file_system::{
    Cause, FileSystem, Hazard, Idle, Inspection, Journal, MountRequest, Mounted, Tools, Tune,
    with_options,
};
use super::kernel_compatibility::Version;
use super::nfs_server::{Export, NfsServer, serve};
use super::option_table::OptionTable;
use super::{btrfs, ext, ganesha, rpc_services, xfs};
use crate::declared::{DeclaredOption, bit_rate, key};

/// NFS on a file system of this list.
pub(super) struct Nfs {
    exported: &'static dyn FileSystem,
    server: NfsServer,
}

pub(super) static NFS: Nfs = Nfs::new(NfsServer::Kernel, &ext::EXT4);

impl Nfs {
    const fn new(server: NfsServer, exported: &'static dyn FileSystem) -> Nfs {
        Nfs { exported, server }
    }
}

/// The file systems that `export=` names, by the servers that `server=` names.
static EXPORTS: [Nfs; 8] = [
    Nfs::new(NfsServer::Kernel, &ext::EXT4),
    Nfs::new(NfsServer::Kernel, &ext::EXT3),
    Nfs::new(NfsServer::Kernel, &xfs::Xfs),
    Nfs::new(NfsServer::Kernel, &btrfs::Btrfs),
    Nfs::new(NfsServer::Ganesha, &ext::EXT4),
    Nfs::new(NfsServer::Ganesha, &ext::EXT3),
    Nfs::new(NfsServer::Ganesha, &xfs::Xfs),
    Nfs::new(NfsServer::Ganesha, &btrfs::Btrfs),
];

/// The words of `server=`; the first one is the default.
const SERVERS: [&str; 2] = [NfsServer::Kernel.name(), NfsServer::Ganesha.name()];

/// Returns the member for these mount options. Returns `None` if `export=` or `server=` has an
/// unknown value.
fn exporting(options: &[String]) -> Option<&'static Nfs> {
    let exported = last_value(options, "export").unwrap_or(NFS.exported.name());
    let server = last_value(options, "server").unwrap_or(SERVERS[0]);
    EXPORTS
        .iter()
        .find(|nfs| nfs.exported.name() == exported && nfs.server.name() == server)
}

impl FileSystem for Nfs {
    fn name(&self) -> &'static str {
        "nfs"
    }

    fn about(&self) -> &'static str {
        "NFS: the kernel's server and ext4 unless server= and export= name others; only in a virtual machine."
    }

    fn variant(&self, spec: &FileSystemSpec) -> Option<&'static dyn FileSystem> {
        exporting(&spec.options).map(|nfs| nfs as &dyn FileSystem)
    }

    fn only_in_a_guest(&self) -> Option<&'static str> {
        Some("fsb would configure and start the NFS server of this machine")
    }

    fn tools(&self) -> Option<&'static Tools> {
        self.exported.tools()
    }

    fn driver(&self) -> Option<&'static str> {
        Some(if self.server == NfsServer::Kernel {
            "nfsd"
        } else {
            "nfs4"
        })
    }

    fn modules(&self) -> &'static [&'static str] {
        match (self.server, self.exported.name()) {
            (NfsServer::Ganesha, _) => self.exported.modules(),
            (_, "xfs") => &["xfs", "nfsd"],
            (_, "btrfs") => &["btrfs", "nfsd"],
            _ => &["ext4", "nfsd"],
        }
    }

    fn server_program(&self) -> Option<(&'static str, &'static str)> {
        (self.server == NfsServer::Ganesha).then_some(ganesha::PROGRAM)
    }

    fn server_files(&self) -> Result<Vec<PathBuf>, TestbedError> {
        if self.server == NfsServer::Ganesha {
            ganesha::files()
        } else {
            Ok(Vec::new())
        }
    }

    fn served_by(&self, _: &Path) -> Option<String> {
        self.server_program().map(|(name, package)| {
            let text = program::ask(name, &["-v".as_ref()]).unwrap_or_default();
            ganesha::version(&text).map_or_else(
                || package.to_owned(),
                |version| format!("{package} {version}"),
            )
        })
    }

    fn modules_of_options(&self, options: &[String]) -> Vec<&'static str> {
        let mut modules = vec![
            if version(options) == "3" {
                "nfsv3"
            } else {
                "nfsv4"
            },
            "veth",
        ];
        modules.extend(link(options).map(|_| "sch_netem"));
        modules
    }

    fn helper_modules(&self) -> &'static [&'static str] {
        self.exported.helper_modules()
    }

    fn mkfs_for(&self, user: &[String], oldest: Version, program: Option<Version>) -> Vec<String> {
        self.exported.mkfs_for(user, oldest, program)
    }

    fn fit(&self, large: &Geometry, bytes: u64, user: &[String]) -> Vec<String> {
        self.exported.fit(large, bytes, user)
    }

    fn tune(&self) -> Option<&'static Tune> {
        self.exported.tune()
    }

    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn hazards(&self) -> &'static [Hazard] {
        const HAZARDS: &[Hazard] = &[Hazard {
            cause: Cause::Options(&["async"]),
            loss: "a crash of the server may lose synced data",
        }];
        HAZARDS
    }

    fn note(&self) -> Option<&'static str> {
        Some("clients and server share one guest and its processors")
    }

    fn minimum_size(&self) -> u64 {
        self.exported.minimum_size()
    }

    fn check(&self, spec: &FileSystemSpec) -> Result<(), TestbedError> {
        fn refused(option: &str, why: String) -> TestbedError {
            TestbedError::request(format!("nfs refuses the option '{option}'"))
                .coded(&fsb_model::error::UNKNOWN_OPTION)
                .field("option", option)
                .tried(why)
                .advice("'fsb list file-systems nfs' shows its options")
        }
        for option in &spec.options {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if name == "export" && exporting(std::slice::from_ref(option)).is_none() {
                let of_kernel = EXPORTS
                    .iter()
                    .filter(|export| export.server == NfsServer::Kernel);
                let known: Vec<_> = of_kernel.map(|export| export.exported.name()).collect();
                return Err(refused(
                    option,
                    format!("it exports one of {}", known.join(", ")),
                ));
            }
            if name == "server" && !SERVERS.contains(&value) {
                return Err(refused(
                    option,
                    format!("it has the servers {}", SERVERS.join(", ")),
                ));
            }
            if self.server == NfsServer::Ganesha && option == "async" {
                return Err(refused(
                    option,
                    "nfs-ganesha always answers when changes are on its device".to_owned(),
                ));
            }
            if self.server == NfsServer::Ganesha && option == "vers=3" {
                return Err(refused(
                    option,
                    "fsb starts nfs-ganesha for version 4 only".to_owned(),
                ));
            }
            if name == "vers" && !VERSIONS.contains(&value) {
                return Err(refused(
                    option,
                    format!("it has the versions {}", VERSIONS.join(", ")),
                ));
            }
            if SET_BY_FSB.contains(&name) {
                return Err(refused(option, format!("fsb sets {name} itself")));
            }
        }
        if clients(&spec.options) > 1 && spec.options.iter().any(|option| option == "nocto") {
            return Err(refused(
                "nocto",
                "several clients would not see that the files were made anew".to_owned(),
            ));
        }
        if spec.options.iter().any(|option| option == "sync")
            && spec.options.iter().any(|option| option == "async")
        {
            return Err(refused("async", "it contradicts sync".to_owned()));
        }
        Ok(())
    }

    fn discard_off(&self) -> Option<&'static str> {
        self.exported.discard_off()
    }

    fn inspect(&self, device: &Path) -> Inspection {
        self.exported.inspect(device)
    }

    /// Mounts the file system for the server, exports it, and mounts the export for each client.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        if self.server == NfsServer::Kernel {
            serve()?;
        }
        let export = Export::of_device(request.source)?;
        let directory = export.make_directory()?;
        let options = ExportOptions::split(request.options, self.exported.discard_off());
        self.exported.mount(&MountRequest {
            point: &directory,
            options: &options.server,
            ..*request
        })?;
        let mut mounted = Mounted {
            export: Some(export),
            ..Mounted::default()
        };
        match self.mount_clients(request.point, export, &options, &mut mounted.client_points) {
            Ok(()) => Ok(mounted),
            Err(error) => {
                // The first error is the one that explains.
                let _ = kernel::unmount_patiently(request.point, Duration::ZERO);
                for point in &mounted.client_points {
                    let _ = kernel::unmount_patiently(point, Duration::ZERO);
                    let _ = std::fs::remove_dir(point);
                }
                let _ = export.end();
                Err(error)
            }
        }
    }

    fn mount_command(&self, options: &[String], _: u64) -> Vec<String> {
        let options = ExportOptions::split(options, self.discard_off());
        with_options(&["mount", "-t", options.driver()], &options.client)
    }

    /// Writes out the exported file system, which an asynchronous export leaves dirty, and
    /// completes its own deferred work.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        let export = Export::of_device(idle.source)?;
        export.sync()?;
        self.exported.finish_background_work(&Idle {
            point: &export.directory(),
            source: idle.source,
        })
    }

    fn journal(&self, device: &Path, name: &str, roots: &Roots) -> Option<Journal> {
        self.exported.journal(device, name, roots)
    }
}

impl Nfs {
    /// Exports the file system, and mounts the export for the first client at `point` and for each
    /// further one at a point beside it, which is added to `client_points`.
    fn mount_clients(
        &self,
        point: &Path,
        export: Export,
        options: &ExportOptions,
        client_points: &mut Vec<PathBuf>,
    ) -> Result<(), TestbedError> {
        let networks = export.begin(
            self.server,
            options.asynchronous,
            options.link,
            options.clients,
        )?;
        for (client, network) in (1..).zip(&networks) {
            let mut point = point.to_owned();
            if client > 1 {
                point.add_extension(client.to_string());
                client_points.push(point.clone());
            }
            let failed = |verb, error: std::io::Error| {
                TestbedError::trial("a client of NFS could not be set up")
                    .tried(attempt(verb, &point, &error))
            };
            std::fs::create_dir_all(&point).map_err(|error| failed("make", error))?;
            let source = export.source(network);
            let of_client = options.of_client(export, self.server, network.near(), network.far());
            network
                .run(&export.host_name(client), || {
                    kernel::mount(options.driver(), Path::new(&source), &point, &of_client)
                })
                .map_err(|error| failed("enter the network of", error))??;
        }
        Ok(())
    }
}

/// The versions of the protocol; the first one is the default.
const VERSIONS: [&str; 4] = ["4.2", "4.1", "4.0", "3"];

/// Returns the version of the protocol that mount options select.
fn version(options: &[String]) -> &str {
    last_value(options, "vers").unwrap_or(VERSIONS[0])
}

/// Returns the network that mount options describe. Returns `None` if packets are not delayed.
fn link(options: &[String]) -> Option<Link> {
    let round_trip = last_value(options, "delay").and_then(|text| parse_duration(text).ok());
    let rate = last_value(options, "rate").and_then(bit_rate);
    (round_trip.is_some() || rate.is_some()).then(|| Link {
        round_trip: round_trip.unwrap_or(Duration::ZERO),
        rate,
    })
}

/// Returns the number of clients that mount options request.
fn clients(options: &[String]) -> usize {
    last_value(options, "clients")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1)
}

/// The client's options that describe the connection, and those of the lock manager, which has no
/// services here.
const SET_BY_FSB: [&str; 15] = [
    "addr",
    "clientaddr",
    "local_lock",
    "lock",
    "minorversion",
    "mountaddr",
    "mounthost",
    "mountport",
    "mountproto",
    "mountvers",
    "nfsvers",
    "nolock",
    "port",
    "proto",
    "sec",
];

/// The options of a target, by who reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ExportOptions {
    /// Mount options of the exported file system.
    server: Vec<String>,
    client: Vec<String>,
    asynchronous: bool,
    link: Option<Link>,
    clients: usize,
}

impl ExportOptions {
    /// Divides the options. `discard_off` belongs to the exported file system.
    fn split(options: &[String], discard_off: Option<&str>) -> ExportOptions {
        let (server, others): (Vec<String>, _) = options
            .iter()
            .cloned()
            .partition(|option| Some(option.as_str()) == discard_off);
        ExportOptions {
            server,
            client: nfs_client_options(&others),
            asynchronous: others.iter().any(|option| option == "async"),
            link: link(options),
            clients: clients(options),
        }
    }

    /// Returns the kernel's name of the client's file system.
    fn driver(&self) -> &'static str {
        if version(&self.client) == "3" {
            "nfs"
        } else {
            "nfs4"
        }
    }

    /// Returns the mount options of a client with the address `own` for an export of that server,
    /// which it reaches at `address`.
    fn of_client(
        &self,
        export: Export,
        server: NfsServer,
        address: Ipv4Addr,
        own: Ipv4Addr,
    ) -> Vec<String> {
        let mut all = self.client.clone();
        if !all.iter().any(|option| key(option) == "vers") {
            all.push(format!("vers={}", VERSIONS[0]));
        }
        // Without `sec` the client would ask for Kerberos first.
        all.extend([
            "proto=tcp".to_owned(),
            "sec=sys".to_owned(),
            format!("addr={address}"),
        ]);
        match self.driver() {
            // With its ports the client does not ask rpcbind for them. Locks would need rpc.statd.
            "nfs" => {
                let mount = format!("mountport={}", rpc_services::MOUNT_PORT);
                all.extend([
                    "port=2049".to_owned(),
                    "mountproto=tcp".to_owned(),
                    mount,
                    "nolock".to_owned(),
                ]);
            }
            _ => all.push(format!("clientaddr={own}")),
        }
        if server == NfsServer::Ganesha {
            all.push(format!("port={}", export.port_of_ganesha()));
        }
        all
    }
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("nfs.options"));

#[cfg(test)]
mod tests {
    use fsb_sys::block::DeviceNumber;

    use super::super::{check, of_target};
    use super::*;

    fn spec(text: &str) -> FileSystemSpec {
        text.parse::<fsb_model::Target>()
            .unwrap()
            .file_system()
            .unwrap()
            .clone()
    }

    fn refusal(text: &str) -> Option<String> {
        let spec = spec(text);
        check(of_target(&spec).unwrap(), &spec)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn the_exported_file_system_decides_programs_and_modules() {
        let of = |text: &str| of_target(&spec(text)).unwrap();
        assert_eq!(of("nfs").tools().unwrap().mkfs, "mkfs.ext4");
        assert_eq!(of("nfs,async,export=xfs").tools().unwrap().mkfs, "mkfs.xfs");
        assert!(of("nfs,export=btrfs").modules().contains(&"btrfs"));
        assert_eq!(of("nfs,export=ext3").name(), "nfs");
        let of_options = |text: &str| of(text).modules_of_options(&spec(text).options);
        assert_eq!(
            (of_options("nfs"), of_options("nfs,vers=3")),
            (vec!["nfsv4", "veth"], vec!["nfsv3", "veth"])
        );
        assert_eq!(of_options("nfs,rate=1G"), ["nfsv4", "veth", "sch_netem"]);
        for export in &EXPORTS {
            assert_eq!(
                export.modules().contains(&"nfsd"),
                export.server == NfsServer::Kernel
            );
            assert!(
                !export.modules().is_empty()
                    && export.server_program().is_some() == (export.server == NfsServer::Ganesha)
            );
        }
        assert_eq!(
            of("nfs,server=ganesha,export=xfs").tools().unwrap().mkfs,
            "mkfs.xfs"
        );
    }

    #[test]
    fn options_that_would_reach_beyond_the_guest_are_refused() {
        for (target, said) in [
            (
                "nfs,export=reiserfs",
                "it exports one of ext4, ext3, xfs, btrfs",
            ),
            ("nfs,vers=2", "4.2, 4.1, 4.0, 3"),
            ("nfs,server=knfsd", "it has the servers kernel, ganesha"),
            ("nfs,server=ganesha,vers=3", "for version 4 only"),
            ("nfs,async,server=ganesha", "always answers when"),
            ("nfs,vers=3,lock", "fsb sets lock itself"),
            ("nfs,addr=192.0.2.1", "fsb sets addr itself"),
            ("nfs,sec=krb5", "fsb sets sec itself"),
            ("nfs,sync,async", "contradicts"),
            ("nfs,nocto,clients=2", "made anew"),
            ("nfs,rsize=2M", "1.00 MiB at most"),
            ("nfs,nconnect=17", "number from 1 to 16"),
            ("nfs,clients=0", "number from 1 to 16"),
            ("nfs,delay=1h", "give between 0us and 10s"),
            ("nfs,rate=1K", "give between 8K and 32G"),
        ] {
            let text = refusal(target).unwrap_or_else(|| panic!("{target} is accepted"));
            assert!(text.contains(said), "{target}: {text}");
        }
        for target in [
            "nfs",
            "nfs,vers=3",
            "nfs,vers=4.0",
            "nfs,vers=4.1,async,rsize=64K,nconnect=4,export=xfs,noatime",
            "nfs,timeo=600",
            "nfs,server=ganesha,vers=4.0,sync,delay=1ms",
        ] {
            assert_eq!(refusal(target), None, "{target}");
        }
    }

    #[test]
    fn an_asynchronous_export_is_unsafe() {
        let risks = |text: &str| super::super::requested_risks(&spec(text));
        assert_eq!(risks("nfs,sync"), []);
        assert_eq!(risks("nfs,async")[0].cause, "async");
    }

    #[test]
    fn delay_and_rate_describe_the_network_and_do_not_reach_the_client() {
        let split = |text: &str| ExportOptions::split(&spec(text).options, None);
        let slow = split("nfs,delay=1ms,rate=100M");
        assert_eq!(
            slow.link,
            Some(Link {
                round_trip: Duration::from_millis(1),
                rate: Some(100_000_000)
            })
        );
        assert!(slow.client.is_empty() && slow.server.is_empty());
        assert_eq!(
            split("nfs,delay=0").link,
            Some(Link {
                round_trip: Duration::ZERO,
                rate: None
            })
        );
        assert_eq!(split("nfs").link, None);
    }

    #[test]
    fn options_go_to_the_server_the_export_or_the_client() {
        let options = [
            "export=btrfs",
            "async",
            "nodiscard",
            "rsize=64K",
            "vers=4.1",
            "clients=4",
        ]
        .map(str::to_owned);
        let split = ExportOptions::split(&options, Some("nodiscard"));
        assert_eq!(
            (split.server.as_slice(), split.asynchronous),
            (&["nodiscard".to_owned()][..], true)
        );
        assert_eq!(
            (split.clients, ExportOptions::split(&[], None).clients),
            (4, 1)
        );
        let export = Export(DeviceNumber(0, 7));
        let (near, far) = (Ipv4Addr::new(10, 0, 0, 9), Ipv4Addr::new(10, 0, 0, 10));
        let client = split
            .of_client(export, NfsServer::Kernel, near, far)
            .join(",");
        assert_eq!(
            client,
            "rsize=65536,vers=4.1,proto=tcp,sec=sys,addr=10.0.0.9,clientaddr=10.0.0.10"
        );
        let other = ExportOptions::split(&["server=ganesha".to_owned()], None);
        let usual = other.of_client(export, NfsServer::Ganesha, near, far);
        assert_eq!(
            (usual[0].as_str(), usual.last().unwrap().as_str()),
            ("vers=4.2", "port=22007")
        );
        let old = ExportOptions::split(&["vers=3".to_owned()], None);
        assert_eq!(
            old.of_client(export, NfsServer::Kernel, near, far)
                .join(","),
            "vers=3,proto=tcp,sec=sys,addr=10.0.0.9,port=2049,mountproto=tcp,mountport=20048,nolock"
        );
        assert_eq!(
            (old.driver(), ExportOptions::default().driver()),
            ("nfs", "nfs4")
        );
    }
}
