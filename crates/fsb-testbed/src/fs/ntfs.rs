//! NTFS through ntfs-3g, a FUSE server.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsb_model::Geometry;

use super::recipe::with_options;
use super::{FileSystem, Idle, Inspection, MountRequest, Mounted, Tools, ask_about};
use crate::error::{TestbedError, attempt, describe};
use crate::sys::mount::unmount_patiently;
use crate::sys::{Roots, apart, mountinfo, poll_until, program};

pub(super) struct Ntfs;

/// Makes it for any driver. `-F`: on a whole device too. `-Q`: without zeroing it and looking for bad sectors.
pub(super) static MAKING: Tools = Tools {
    package: "ntfs-3g",
    mkfs: "mkntfs",
    arguments: &["-F", "-Q", "-q"],
    version: "--version",
    others: &["ntfsinfo"],
};

static TOOLS: Tools = Tools { others: &["ntfs-3g", "ntfsinfo"], ..MAKING };

pub(super) const MINIMUM_SIZE: u64 = 4 << 20;

impl FileSystem for Ntfs {
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
        fit(large, user)
    }

    fn inspect(&self, device: &Path) -> Inspection {
        inspect(device)
    }

    /// The server stays in the foreground and our child, so that it is in our namespaces and can be waited for.
    /// Files belong to the worker's user unless the user of fsb decides about owners.
    fn mount(&self, request: &MountRequest<'_>) -> Result<Mounted, TestbedError> {
        let (uid, gid) = request.owner;
        let mut options = vec!["no_detach".to_owned()];
        let decided = |option: &String| {
            ["uid=", "gid=", "usermapping="].iter().any(|key| option.starts_with(key)) || option == "permissions"
        };
        if !request.options.iter().any(decided) {
            options.extend([format!("uid={uid}"), format!("gid={gid}")]);
        }
        options.extend_from_slice(request.options);
        let server = Server::start(&options.join(","), request.source, request.point)?;
        Ok(Mounted { server: Some(server) })
    }

    /// Beside the user's options: by hand the server may leave the terminal, and files belong to who mounts.
    fn mount_command(&self, options: &[String], _: u64) -> Vec<String> {
        with_options(&["ntfs-3g"], options)
    }

    /// The server writes through the block device's own pages, of which a syncfs of its mount knows nothing.
    fn finish_background_work(&self, idle: &Idle<'_>) -> Result<(), TestbedError> {
        File::open(idle.source).and_then(|device| device.sync_all()).map_err(|error| {
            TestbedError::trial("the target could not be written out").tried(attempt("fsync", idle.source, &error))
        })
    }

    fn own_read_ahead(&self, name: &str, roots: &Roots) -> Option<PathBuf> {
        let number = roots.sys_text(&format!("class/block/{name}/dev"))?;
        Some(roots.sys.join(format!("class/bdi/{number}-fuseblk/read_ahead_kb")))
    }

    fn served_by(&self, _: &Path) -> Option<String> {
        Some("ntfs-3g (FUSE)".to_owned())
    }
}

/// mkntfs chooses larger clusters on larger devices.
pub(super) fn fit(large: &Geometry, user: &[String]) -> Vec<String> {
    let decided = user.iter().any(|word| word.starts_with("-c") || word.starts_with("--cluster-size"));
    let size = large.block_size.filter(|_| !decided);
    size.map_or_else(Vec::new, |size| vec!["-c".to_owned(), size.to_string()])
}

pub(super) fn inspect(device: &Path) -> Inspection {
    parse(&ask_about("ntfsinfo", &["-m"], device))
}

fn parse(text: &str) -> Inspection {
    let value = |key: &str| {
        text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix(':')).map(str::trim)
    };
    Inspection {
        features: value("Volume Version").map(|version| format!("version {version}")).into_iter().collect(),
        geometry: Geometry {
            block_size: value("Cluster Size").and_then(|number| number.parse().ok()),
            inode_size: value("MFT Record Size").and_then(|number| number.parse().ok()),
            ..Geometry::default()
        },
    }
}

/// A FUSE server that lives as long as its mount.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    complaints: File,
}

/// How long the server may take to mount, and to write out and end.
const PATIENCE: Duration = Duration::from_secs(60);

impl Server {
    fn start(options: &str, device: &Path, point: &Path) -> Result<Server, TestbedError> {
        let path = program::require("ntfs-3g", TOOLS.package)?;
        // A file and not a pipe: nobody reads while the server runs, and a full pipe would stop it.
        let complaints = rustix::fs::memfd_create("ntfs-3g", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|errno| TestbedError::machine("no memory for a log").tried(describe(&errno.into())))?;
        let complaints = File::from(complaints);
        let log =
            complaints.try_clone().map_err(|error| TestbedError::machine("descriptor").tried(describe(&error)))?;
        let mut command = Command::new(&path);
        command.args(["-o", options]).args([device, point]).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let root = point.parent().unwrap_or(Path::new("/"));
        let child = apart::start_apart(&mut command, root)
            .and_then(|()| command.spawn())
            .map_err(|error| TestbedError::machine(attempt("cannot execute", &path, &error)))?;
        let mut server = Server { child, complaints };
        let mut ended = None;
        poll_until(PATIENCE, || {
            ended = server.child.try_wait().ok().flatten();
            ended.is_some() || mountinfo::at(point).is_some()
        });
        if ended.is_none() && mountinfo::at(point).is_some() {
            return match apart::let_go(server.child.id(), root, point) {
                Ok(()) => Ok(server),
                Err(error) => {
                    let _ = unmount_patiently(point, PATIENCE);
                    server.end(PATIENCE);
                    let tried = attempt("separate the server of", point, &error);
                    Err(TestbedError::trial("ntfs could not be mounted safely").tried(tried))
                }
            };
        }
        let why = ended.map_or_else(|| "it did not mount in time".to_owned(), |status| status.to_string());
        let complaint = server.complaint();
        server.end(Duration::ZERO);
        Err(TestbedError::trial("ntfs could not be mounted").tried(format!("ntfs-3g -o {options}: {why}: {complaint}")))
    }

    fn complaint(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.complaints.rewind().and_then(|()| self.complaints.read_to_end(&mut text));
        program::last_lines(&text)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the server of an unmounted file system has written everything and ended; past the limit it is
    /// killed. Whether it ended by itself.
    pub fn end(&mut self, limit: Duration) -> bool {
        let ended = poll_until(limit, || matches!(self.child.try_wait(), Ok(Some(_))));
        if !ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        ended
    }

    /// The same with as much time as a server may need.
    pub(crate) fn end_patiently(&mut self) -> bool {
        self.end(PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntfsinfo_is_read() {
        let text = "Volume Information \n\tVolume Version: 3.1\n\tSector Size: 512\n\tCluster Size: 4096\n\tMFT Record Size: 1024\n";
        let read = parse(text);
        assert_eq!((read.geometry.block_size, read.geometry.inode_size), (Some(4096), Some(1024)));
        assert_eq!(read.features, ["version 3.1"]);
    }
}
