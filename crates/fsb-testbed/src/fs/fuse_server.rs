//! The process of a FUSE file system.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsb_sys::error::{TestbedError, attempt, describe};
use fsb_sys::mount::unmount_patiently;
use fsb_sys::{mount_isolation, mountinfo, poll_until, program};

/// A FUSE server that lives as long as its mount.
#[derive(Debug)]
pub(crate) struct FuseServer {
    child: Child,
    complaints: File,
}

/// The limit for mounting, and for writing everything and ending.
const PATIENCE: Duration = Duration::from_secs(60);

impl FuseServer {
    /// Starts ntfs-3g, from the Debian package `package`, and waits until it has mounted `device`.
    pub(super) fn start(package: &str, options: &str, device: &Path, point: &Path) -> Result<FuseServer, TestbedError> {
        let path = program::require("ntfs-3g", package)?;
        // A file, because a full pipe would block the server.
        let complaints = rustix::fs::memfd_create("ntfs-3g", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|errno| TestbedError::machine("no memory for a log").tried(describe(&errno.into())))?;
        let complaints = File::from(complaints);
        let log =
            complaints.try_clone().map_err(|error| TestbedError::machine("descriptor").tried(describe(&error)))?;
        let mut command = Command::new(&path);
        command.args(["-o", options]).args([device, point]).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let root = point.parent().unwrap_or(Path::new("/"));
        let child = mount_isolation::start_apart(&mut command, root)
            .and_then(|()| command.spawn())
            .map_err(|error| TestbedError::machine(attempt("cannot execute", &path, &error)))?;
        let mut server = FuseServer { child, complaints };
        let mut ended = None;
        poll_until(PATIENCE, || {
            ended = server.child.try_wait().ok().flatten();
            ended.is_some() || mountinfo::at(point).is_some()
        });
        if ended.is_none() && mountinfo::at(point).is_some() {
            return match mount_isolation::let_go(server.child.id(), root, point) {
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

    /// Waits until the server of an unmounted file system has written everything and ended, and kills it at the limit.
    /// Returns whether it ended by itself.
    pub fn end(&mut self, limit: Duration) -> bool {
        let ended = poll_until(limit, || matches!(self.child.try_wait(), Ok(Some(_))));
        if !ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        ended
    }

    /// Like [`FuseServer::end`], with the limit of a slow server.
    pub(crate) fn end_patiently(&mut self) -> bool {
        self.end(PATIENCE)
    }
}
