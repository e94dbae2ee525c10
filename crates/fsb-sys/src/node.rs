//! Device nodes of our own, on a tmpfs that nobody else sees. mkfs programs, mount and FUSE servers open what they are
//! given by its path, and some resolve it once more themselves: a link below /proc/self/fd would lead them back to the
//! name that others may change. A node is its number and nothing else.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::Roots;
use super::block::{self, DeviceNumber};
use crate::error::{Refusal, TestbedError, attempt};

/// A private node; gone when dropped.
#[derive(Debug)]
pub struct Node {
    path: PathBuf,
    number: DeviceNumber,
}

impl Node {
    /// Makes one in `directory`, under the kernel's name of the device. `shown` is what people call it.
    ///
    /// Where nodes may not be made the answer is a refusal: a path that is checked and used afterwards can be changed in
    /// between.
    pub fn make(directory: Option<&Path>, number: DeviceNumber, shown: &Path) -> Result<Node, TestbedError> {
        let fail = |tried: Refusal| {
            TestbedError::machine(format!("{} cannot be formatted safely: nothing was changed", shown.display()))
                .tried(tried)
                .advice("run as root where device nodes can be made (CAP_MKNOD; not in a user namespace)")
        };
        let directory = directory.ok_or_else(|| fail("no place for a private device node".into()))?;
        let path = directory.join(name_of(number));
        // One of a medium that is no longer open.
        let _ = std::fs::remove_file(&path);
        mknodat(CWD, &path, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, makedev(number.0, number.1))
            .map_err(|errno| fail(attempt("mknod", &path, &errno.into())))?;
        let node = Node { path, number };
        // A tmpfs of a user namespace, and seccomp profiles that pretend, make nodes that lead nowhere.
        match block::open(&node.path, false, false) {
            Ok(_) if node.is_intact() => Ok(node),
            Ok(_) => Err(fail(format!("mknod {}: it is another device", node.path.display()).into())),
            Err(error) => Err(fail(attempt("open", &node.path, &error))),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error where it is not the node that was made.
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
        // It lies on a tmpfs of ours that goes anyway.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `sda1`: drivers and tools know it by this name, in /sys too.
fn name_of(number: DeviceNumber) -> String {
    let directory = number.directory(&Roots::default());
    let name = directory.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| format!("{}-{}", number.0, number.1))
}
