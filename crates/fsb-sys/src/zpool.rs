//! Pools of ZFS on one device. The kernel keeps a pool open after its last unmount, and after the
//! death of the process that imported it, until the pool is exported.
//!
//! Threads of the kernel open the device of a pool by its path, and see the /dev of the first mount
//! namespace. The pool therefore has a node of its own there: the private nodes of a run are on a
//! tmpfs that only the run sees. `zpool` partitions the disks whose names it knows, and uses a
//! device with any other name as it is.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use crate::block::{self, DeviceNumber};
use crate::error::{Refusal, TestbedError, attempt};
use crate::{Roots, poll_until, program};

/// The Debian package of the programs.
pub const PACKAGE: &str = "zfsutils-linux";
/// The program that makes, imports and exports pools.
pub const PROGRAM: &str = "zpool";

/// Time limit for the last mount of a pool to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pool on a device that only this run uses: `fsb-MAJOR-MINOR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    name: String,
    number: DeviceNumber,
}

impl Pool {
    /// Returns the pool of that device.
    pub fn of_number(number: DeviceNumber) -> Pool {
        Pool {
            name: format!("fsb-{}-{}", number.0, number.1),
            number,
        }
    }

    /// Returns the pool of the block device at `path`.
    pub fn of_device(path: &Path) -> Result<Pool, TestbedError> {
        let unknown = || TestbedError::machine(format!("{} is not a block device", path.display()));
        block::number_of(path)
            .map(Pool::of_number)
            .ok_or_else(unknown)
    }

    /// Returns the number of its device.
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the node of its device.
    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Makes the node of its device. A node of this device that exists already stays.
    pub fn make_node(&self) -> Result<(), TestbedError> {
        let node = self.node();
        let numbers = makedev(self.number.0, self.number.1);
        match mknodat(
            CWD,
            &node,
            FileType::BlockDevice,
            Mode::RUSR | Mode::WUSR,
            numbers,
        ) {
            Err(_) if self.is_own_node() => Ok(()),
            made => made.map_err(|errno| {
                TestbedError::machine("a pool of ZFS has no device node")
                    .tried(attempt("mknod", &node, &errno.into()))
                    .advice("run as root where device nodes can be made (CAP_MKNOD), or --in vm")
            }),
        }
    }

    fn is_own_node(&self) -> bool {
        let node = self.node();
        let is_link = std::fs::symlink_metadata(&node).is_ok_and(|metadata| metadata.is_symlink());
        !is_link && block::number_of(&node) == Some(self.number)
    }

    /// Returns whether the kernel has a pool of this name open.
    pub fn is_imported(&self, roots: &Roots) -> bool {
        roots.proc.join("spl/kstat/zfs").join(&self.name).is_dir()
    }

    /// Imports the pool without mounting it. Never forces the import of a pool that another machine
    /// may use.
    pub fn import(&self) -> Result<(), TestbedError> {
        self.make_node()?;
        let node = self.node();
        let words = ["import", "-N", "-o", "cachefile=none", "-d"].map(OsStr::new);
        let words = [&words[..], &[node.as_os_str(), OsStr::new(&self.name)]].concat();
        run(&words).and_then(|output| succeeded(&words, &output))
    }

    /// Exports the pool, which writes it out and empties its caches. Returns without effect if it
    /// is not imported.
    pub fn export(&self) -> Result<(), TestbedError> {
        if !self.is_imported(&Roots::default()) {
            return Ok(());
        }
        let words = [OsStr::new("export"), OsStr::new(&self.name)];
        let mut answer = Ok(());
        poll_until(PATIENCE, || {
            answer = run(&words).and_then(|output| succeeded(&words, &output));
            answer.is_ok() || !self.is_imported(&Roots::default())
        });
        answer
    }

    /// Exports the pool and removes its node. Leaves a pool of that name on another device alone.
    /// Describes the result.
    pub fn remove(&self) -> Result<String, Refusal> {
        if self.is_imported(&Roots::default()) {
            let words = ["list", "-H", "-v", "-P", &self.name].map(OsStr::new);
            let listed = run(&words).map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&listed.stdout);
            if listed.status.success() && !is_on(&text, &self.node()) {
                return Ok(format!("the pool {} is another pool now", self.name));
            }
            self.export().map_err(|error| error.to_string())?;
        }
        if self.is_own_node() {
            let node = self.node();
            std::fs::remove_file(&node).map_err(|error| attempt("remove", &node, &error))?;
        }
        Ok(format!("exported the pool {}", self.name))
    }
}

/// Runs `zpool` with these arguments.
pub fn run(words: &[impl AsRef<OsStr>]) -> Result<Output, TestbedError> {
    program::run(&program::require(PROGRAM, PACKAGE)?, words)
}

/// Turns the failure of a `zpool` command into an error with the program's message.
pub fn succeeded(words: &[impl AsRef<OsStr>], output: &Output) -> Result<(), TestbedError> {
    if output.status.success() {
        return Ok(());
    }
    let mut command = OsString::from(PROGRAM);
    for word in words {
        command.push(" ");
        command.push(word);
    }
    let tried = format!(
        "{}: {}",
        command.display(),
        program::last_lines(&output.stderr)
    );
    let what = words
        .first()
        .map(|word| word.as_ref().display().to_string());
    let what = format!("zpool {} failed", what.unwrap_or_default());
    Err(TestbedError::trial(format!("{what} ({})", output.status)).tried(tried))
}

/// Returns whether the output of `zpool list -H -v -P` lists that device.
fn is_on(text: &str, node: &Path) -> bool {
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .any(|name| Path::new(name) == node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_the_name_of_its_device() {
        let pool = Pool::of_number(DeviceNumber(7, 3));
        assert_eq!(pool.name(), "fsb-7-3");
        assert_eq!(pool.node(), Path::new("/dev/fsb-7-3"));
        assert!(Pool::of_device(Path::new("/dev/null")).is_err());
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc: tree.path().to_owned(),
            sys: tree.path().to_owned(),
        };
        assert!(!pool.is_imported(&roots));
        std::fs::create_dir_all(tree.path().join("spl/kstat/zfs/fsb-7-3")).unwrap();
        assert!(pool.is_imported(&roots));
    }

    #[test]
    fn a_pool_of_the_same_name_on_another_device_is_recognised() {
        let text = "fsb-7-3\t960M\t112K\t960M\t-\t-\t0%\t0%\t1.00x\tONLINE\t-\n\
            \t/dev/fsb-7-3\t1024M\t112K\t960M\t-\t-\t0%\t0.01%\t-\tONLINE\n";
        assert!(is_on(text, Path::new("/dev/fsb-7-3")));
        assert!(!is_on(text, Path::new("/dev/fsb-7-30")));
        assert!(!is_on("", Path::new("/dev/fsb-7-3")));
    }

    #[test]
    fn a_pool_that_is_not_imported_needs_no_export() {
        let pool = Pool::of_number(DeviceNumber(4000, 4000));
        assert!(pool.export().is_ok());
        assert!(pool.remove().unwrap().contains("fsb-4000-4000"));
    }
}
