//! NTFS: through ntfs-3g, a FUSE server, and by the kernel's own driver.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fsb_model::Geometry;
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::mount::unmount_patiently;
use fsb_sys::{Roots, mount_isolation, mountinfo, program};

use super::file_system::{
    FileSystem, Idle, Inspection, MountRequest, Mounted, Tools, ask_about, with_options,
};
use super::option_table::OptionTable;
use super::other::cluster_size;
use super::server_process::{PATIENCE, ServerProcess};
use crate::declared::DeclaredOption;

/// NTFS through ntfs-3g.
pub(super) struct Ntfs;

/// Makes it for any driver. `-F`: also on a whole device. `-Q`: without zeroing it and without a
/// search for bad sectors.
static MAKING: Tools = Tools {
    package: "ntfs-3g",
    mkfs: "mkntfs",
    arguments: &["-F", "-Q", "-q"],
    version: "--version",
    others: &["ntfsinfo"],
    check: &[],
};

static TOOLS: Tools = Tools {
    others: &["ntfs-3g", "ntfsinfo"],
    ..MAKING
};

const MINIMUM_SIZE: u64 = 4 << 20;

impl FileSystem for Ntfs {
    fn options(&self) -> &'static [DeclaredOption] {
        &OPTIONS
    }

    fn name(&self) -> &'static str {
        "ntfs"
    }

    fn about(&self) -> &'static str {
        "NTFS, served by ntfs-3g through FUSE."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&TOOLS)
    }

    fn driver(&self) -> Option<&'static str> {
        Some("fuseblk")
    }

    fn modules(&self) -> &'static [&'static str] {
        &["fuse"]
    }

    fn minimum_size(&self) -> u64 {
        MINIMUM_SIZE
    }

    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        cluster_size(large, user)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        inspect(device)
    }

    /// Keeps the server in the foreground as a child process, so that it is in this process's
    /// namespaces and can be waited for. Files belong to the worker's user unless the user's
    /// options set owners.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let (uid, gid) = request.owner;
        let mut options = vec!["no_detach".to_owned()];
        if !request.options.iter().any(|option: &String| {
            ["uid=", "gid=", "usermapping="]
                .iter()
                .any(|key| option.starts_with(key))
                || option == "permissions"
        }) {
            options.extend([format!("uid={uid}"), format!("gid={gid}")]);
        }
        options.extend_from_slice(request.options);
        let server = start(&options.join(","), request.source, request.point)?;
        Ok(Mounted {
            server: Some(server),
            ..Mounted::default()
        })
    }

    /// Returns the command with the user's options only: by hand the server may leave the terminal,
    /// and files belong to the user who mounts.
    fn mount_command(&self, options: &[String], _: u64) -> Vec<String> {
        with_options(&["ntfs-3g"], options)
    }

    /// Syncs the block device. The server writes through the device's own pages, which a syncfs of
    /// its mount does not cover.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        File::open(idle.source)
            .and_then(|device| device.sync_all())
            .map_err(|error| {
                TestbedError::trial("the target could not be written out").tried(attempt(
                    "fsync",
                    idle.source,
                    &error,
                ))
            })
    }

    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        let number = roots.sys_text(&format!("class/block/{name}/dev"))?;
        Some(
            roots
                .sys
                .join(format!("class/bdi/{number}-fuseblk/read_ahead_kb")),
        )
    }

    fn served_by(&self, _: &Path) -> Option<String> {
        Some("ntfs-3g (FUSE)".to_owned())
    }
}

/// Starts ntfs-3g and waits until it has mounted `device`.
fn start(options: &str, device: &Path, point: &Path) -> Result<ServerProcess, TestbedError> {
    let path = program::require("ntfs-3g", TOOLS.package)?;
    let mut command = Command::new(&path);
    command.args(["-o", options]).args([device, point]);
    let root = point.parent().unwrap_or(Path::new("/"));
    mount_isolation::start_apart(&mut command, root)
        .map_err(|error| TestbedError::machine(attempt("cannot execute", &path, &error)))?;
    let mut server = ServerProcess::start_apart(&mut command)?;
    match server.wait_until(|| mountinfo::at(point).is_some()) {
        Ok(()) => match server
            .namespace()
            .and_then(|namespace| mount_isolation::let_go(&namespace, root, point, &[]))
        {
            Ok(()) => Ok(server),
            Err(error) => {
                let _ = unmount_patiently(point, PATIENCE);
                server.end(PATIENCE);
                let tried = attempt("separate the server of", point, &error);
                Err(TestbedError::trial("ntfs could not be mounted safely").tried(tried))
            }
        },
        Err(why) => {
            let complaint = server.complaint();
            server.end(Duration::ZERO);
            let _ = mount_isolation::keep_private(root);
            let tried = format!("ntfs-3g -o {options}: {why}: {complaint}");
            Err(TestbedError::trial("ntfs could not be mounted").tried(tried))
        }
    }
}

fn inspect(device: &Path) -> Inspection {
    parse(&ask_about("ntfsinfo", &["-m"], device))
}

fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| {
                line.trim()
                    .strip_prefix(key)?
                    .trim_start()
                    .strip_prefix(':')
            })
            .map(str::trim)
    };
    Inspection {
        features: value("Volume Version")
            .map(|version| format!("version {version}"))
            .into_iter()
            .collect(),
        geometry: Geometry {
            block_size: value("Cluster Size").and_then(|number| number.parse().ok()),
            inode_size: value("MFT Record Size").and_then(|number| number.parse().ok()),
            ..Geometry::default()
        },
    }
}

static OPTIONS: OptionTable = OptionTable::new(include_str!("ntfs.options"));

/// NTFS by the kernel's own driver.
pub(super) struct Ntfs3;

impl FileSystem for Ntfs3 {
    fn options(&self) -> &'static [DeclaredOption] {
        &NTFS3_OPTIONS
    }

    fn name(&self) -> &'static str {
        "ntfs3"
    }

    fn about(&self) -> &'static str {
        "NTFS, served by the kernel's driver since Linux 5.15 (ntfs is the one through FUSE)."
    }

    fn tools(&self) -> Option<&'static Tools> {
        Some(&MAKING)
    }

    fn modules(&self) -> &'static [&'static str] {
        &["ntfs3"]
    }

    /// For `iocharset=`.
    fn helper_modules(&self) -> &'static [&'static str] {
        &["nls_utf8"]
    }

    fn minimum_size(&self) -> u64 {
        MINIMUM_SIZE
    }

    fn fit(&self, large: &Geometry, _: u64, user: &[String]) -> Vec<String> {
        cluster_size(large, user)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        inspect(device)
    }
}

static NTFS3_OPTIONS: OptionTable = OptionTable::new(include_str!("ntfs3.options"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntfsinfo_is_read() {
        let text = "Volume Information \n\tVolume Version: 3.1\n\tSector Size: 512\n\tCluster Size: 4096\n\tMFT Record Size: 1024\n";
        let read = parse(text);
        assert_eq!(
            (read.geometry.block_size, read.geometry.inode_size),
            (Some(4096), Some(1024))
        );
        assert_eq!(read.features, ["version 3.1"]);
    }
}
