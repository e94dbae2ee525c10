//! Directories of the host that a guest mounts: 9p, which QEMU serves, and virtiofs, which a
//! virtiofsd for each directory serves.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use command_fds::{CommandFdExt, FdMapping};

use super::launch::LAUNCH_ARGUMENT;
use crate::error::{VmError, refused};

/// A directory of the host that the guest can mount.
#[derive(Debug, Clone)]
pub struct Share {
    /// The directory.
    pub path: PathBuf,
    /// The name by which the guest mounts it.
    pub tag: String,
    /// The virtiofsd that serves it, as the guest's `virtiofs`. QEMU serves it as `9p` if there is
    /// none.
    pub virtiofsd: Option<PathBuf>,
}

/// A running virtiofsd. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Served(Child);

impl Served {
    /// Takes the stream of its error messages.
    pub fn errors(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The descriptor of the listening socket in virtiofsd.
const LISTENER: i32 = 3;

impl Share {
    /// Starts virtiofsd if it serves this directory. Returns it with QEMU's end of its socket.
    ///
    /// # Errors
    ///
    /// Fails if no socket can be made, or if the program cannot be executed.
    pub(super) fn serve(&self, launcher: &Path) -> Result<Option<(Served, OwnedFd)>, VmError> {
        let Some(program) = &self.virtiofsd else {
            return Ok(None);
        };
        let (listener, ours) = connected(&self.tag)
            .map_err(|error| VmError::machine("no socket for virtiofsd").tried(&error))?;
        let mut command = Command::new(launcher);
        command
            .arg(LAUNCH_ARGUMENT)
            .arg(std::process::id().to_string())
            .arg(program)
            .arg(format!("--fd={LISTENER}"))
            .args(["-o", &format!("source={}", shared_text(&self.path)?)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mapping = FdMapping {
            parent_fd: listener.into(),
            child_fd: LISTENER,
        };
        command.fd_mappings(vec![mapping]).map_err(|error| {
            VmError::machine("cannot hand over a socket").tried(error.to_string())
        })?;
        let child = command
            .spawn()
            .map_err(|error| refused("execute", program, error))?;
        Ok(Some((Served(child), ours.into())))
    }

    /// Returns QEMU's arguments for it; `index` is its place among all, and `fd` the descriptor of
    /// virtiofsd's socket.
    pub(super) fn arguments(&self, index: usize, fd: i32) -> Result<Vec<String>, VmError> {
        let (id, tag) = (format!("share{index}"), &self.tag);
        let words = if self.virtiofsd.is_some() {
            [
                "-chardev".to_owned(),
                format!("socket,id={id},fd={fd}"),
                "-device".to_owned(),
                format!("vhost-user-fs-pci,chardev={id},tag={tag}"),
            ]
        } else {
            // Without root, QEMU cannot give files to other users.
            let model = if rustix::process::geteuid().is_root() {
                "passthrough"
            } else {
                "mapped-xattr"
            };
            let path = shared_text(&self.path)?;
            [
                "-fsdev".to_owned(),
                format!("local,id={id},path={path},security_model={model},multidevs=remap"),
                "-device".to_owned(),
                format!("virtio-9p-pci,fsdev={id},mount_tag={tag}"),
            ]
        };
        Ok(words.into())
    }
}

/// Returns a listening socket and a connection to it, which nothing else can make first: its
/// abstract name is random.
fn connected(tag: &str) -> io::Result<(UnixListener, UnixStream)> {
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    let address = SocketAddr::from_abstract_name(format!("fsb-{tag}-{}", random.trim()))?;
    let listener = UnixListener::bind_addr(&address)?;
    let stream = UnixStream::connect_addr(&address)?;
    Ok((listener, stream))
}

/// Converts the path of a directory to text. It must have no comma, which begins the next property
/// in options of QEMU and of virtiofsd.
pub(super) fn shared_text(path: &Path) -> Result<String, VmError> {
    let refused = |why: &str| VmError::request(format!("{} {why}", path.display()));
    let text = path
        .to_str()
        .ok_or_else(|| refused("is not a name in UTF-8"))?;
    if text.contains(',') {
        return Err(refused("has a comma: QEMU shares no such directory"));
    }
    Ok(text.to_owned())
}
