//! Private device nodes on a tmpfs that no other process sees. mkfs programs, mount and FUSE servers open a device by
//! its path, and some resolve the path once more themselves. A link below /proc/self/fd would lead them back to the
//! name, which other users may change. A device node holds only the device number.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::Roots;
use super::block::{self, DeviceNumber};
use crate::error::{Refusal, TestbedError, attempt};

/// A private node. Dropping the value removes it.
#[derive(Debug)]
pub struct Node {
    path: PathBuf,
    number: DeviceNumber,
}

impl Node {
    /// Makes a node in `directory` under the kernel's name of the device. `shown` is the name for messages.
    ///
    /// # Errors
    ///
    /// Fails if no device node can be made. A path is not an alternative, because it can change between its check and
    /// its use.
    pub fn make(directory: Option<&Path>, number: DeviceNumber, shown: &Path) -> Result<Node, TestbedError> {
        let fail = |tried: Refusal| {
            TestbedError::machine(format!("{} cannot be formatted safely: nothing was changed", shown.display()))
                .tried(tried)
                .advice("run as root where device nodes can be made (CAP_MKNOD; not in a user namespace)")
        };
        let directory = directory.ok_or_else(|| fail("no place for a private device node".into()))?;
        let path = directory.join(name_of(number));
        // Removes the node of a medium that has been closed.
        let _ = std::fs::remove_file(&path);
        mknodat(CWD, &path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, makedev(number.0, number.1))
            .map_err(|errno| fail(attempt("mknod", &path, &errno.into())))?;
        let node = Node { path, number };
        // On a tmpfs of a user namespace, or with a seccomp profile that only pretends to run mknod, the node does not
        // work.
        match block::open(&node.path, false, false) {
            Ok(_) if node.is_intact() => Ok(node),
            Ok(_) => Err(fail(format!("mknod {}: it is another device", node.path.display()).into())),
            Err(error) => Err(fail(attempt("open", &node.path, &error))),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the path still holds the node that was made.
    pub fn verify(&self, shown: &Path) -> Result<(), TestbedError> {
        if self.is_intact() {
            return Ok(());
        }
        let what = format!("the private node of {} was replaced by another", shown.display());
        Err(TestbedError::machine(what).tried(format!("stat {}", self.path.display())))
    }

    fn is_intact(&self) -> bool {
        let is_link = std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.is_symlink());
        !is_link && block::number_of(&self.path) == Some(self.number)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // An error is ignored: the node is on a private tmpfs that goes away anyway.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns a name such as `sda1`, by which drivers, tools and /sys know the device.
fn name_of(number: DeviceNumber) -> String {
    let directory = number.directory(&Roots::default());
    let name = directory.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("{}-{}", number.0, number.1))
}
