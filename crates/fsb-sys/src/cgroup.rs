//! Finds the directory in which a cgroup with a limit can be made.

use std::path::{Path, PathBuf};

use fsb_model::units::show_bytes;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::{Roots, read_trimmed};
use crate::error::Refusal;

/// The version of the hierarchy that has a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

impl Version {
    /// Returns the name that records use.
    pub fn mechanism(self) -> &'static str {
        match self {
            Version::V1 => "cgroup v1",
            Version::V2 => "cgroup v2",
        }
    }

    fn limit_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }
}

/// A directory in which a cgroup can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// The directory to make the cgroup in.
    pub parent: PathBuf,
    /// The mount point of the hierarchy.
    root: PathBuf,
    /// Set if the parent does not give its children the controller yet.
    pub enable: Option<Enable>,
}

/// A file to write to so that children get a controller, with the texts that switch it on and off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enable {
    pub file: PathBuf,
    pub on: String,
    pub off: String,
}

/// The controller that limits memory.
pub const MEMORY: &str = "memory";
/// The controller that counts processes.
pub const PROCESSES: &str = "pids";
/// The prefix of the names of our cgroups.
pub const PREFIX: &str = "fsb-";
const SUBTREE: &str = "cgroup.subtree_control";

/// Returns the directory of the mounted hierarchies.
fn mounts(roots: &Roots) -> PathBuf {
    roots.sys.join("fs/cgroup")
}

/// Returns whether the path lies below the mounted hierarchies.
pub fn is_below(path: &Path, roots: &Roots) -> bool {
    path.starts_with(mounts(roots))
}

/// Returns whether the name of a cgroup has the prefix that only fsb uses.
pub fn is_own(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Returns a path in `parent` for a cgroup of process `pid`. Processes of other PID namespaces may
/// have the same number, and their cgroups must not be removed.
pub fn unique_path(parent: &Path, pid: u32) -> PathBuf {
    parent.join(format!("{PREFIX}{pid}-{}", super::random_name()))
}

/// Writes to a file of a cgroup. `fs::write` would create the file if the kernel has none of that
/// name.
pub fn write(path: &Path, value: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).open(path)?;
    std::io::Write::write_all(&mut file, value.as_bytes())
}

/// Returns the file that gives the children of the unified hierarchy's root their controllers.
pub fn switch(roots: &Roots) -> PathBuf {
    mounts(roots).join(SUBTREE)
}

/// Returns the file that switches on, for each disk, the division of its time by the weights of
/// cgroups.
pub fn io_cost_switch(roots: &Roots) -> PathBuf {
    mounts(roots).join("io.cost.qos")
}

impl Hierarchy {
    /// Finds the hierarchy that has the controller, and a writable directory in it.
    pub fn find(roots: &Roots, controller: &'static str) -> Result<Hierarchy, Refusal> {
        let membership = roots.proc_text("self/cgroup").unwrap_or_default();
        let unified = mounts(roots);
        let old = unified.join(controller);
        let found = if has_word(&unified.join("cgroup.controllers"), controller) {
            unified_place(&unified, &own(&membership, ""), controller)
        } else if old.join("cgroup.procs").exists() {
            // A container may see only its own subtree, under another path.
            let parent = Some(old.join(own(&membership, controller))).filter(|path| path.is_dir());
            let parent = parent.unwrap_or_else(|| old.clone());
            Ok(Hierarchy {
                version: Version::V1,
                parent,
                root: old,
                enable: None,
            })
        } else {
            Err(format!("neither /sys/fs/cgroup nor /sys/fs/cgroup/{controller} has a {controller} controller").into())
        }?;
        access(&found.parent, Access::WRITE_OK).map_err(|errno| {
            crate::error::attempt("make a cgroup in", &found.parent, &errno.into())
        })?;
        Ok(found)
    }

    /// Checks that no cgroup above has a lower memory limit than `bytes`.
    pub fn allows(&self, bytes: u64) -> Result<(), Refusal> {
        let file = self.version.limit_file();
        let above = self
            .parent
            .ancestors()
            .take_while(|path| path.starts_with(&self.root));
        for directory in above {
            let limit =
                read_trimmed(&directory.join(file)).and_then(|text| text.parse::<u64>().ok());
            if let Some(limit) = limit.filter(|limit| *limit < bytes) {
                let (limit, shown) = (show_bytes(limit as f64), directory.display());
                return Err(format!("the parent cgroup {shown} has a limit of {limit}").into());
            }
        }
        Ok(())
    }
}

/// Returns the path of our own cgroup, without its first `/`, in the hierarchy of a controller. The
/// unified hierarchy has the empty name.
fn own(membership: &str, controller: &str) -> String {
    membership
        .lines()
        .find_map(|line: &str| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            controllers
                .split(',')
                .any(|name| name == controller)
                .then(|| path.trim_start_matches('/').to_owned())
        })
        .unwrap_or_default()
}

/// Finds a place in the unified hierarchy. A cgroup with processes in it gives its children no
/// controller, so the place is the nearest ancestor that gives them the controller. If there is
/// none, it is the root, which may have both.
fn unified_place(root: &Path, own: &str, controller: &'static str) -> Result<Hierarchy, Refusal> {
    let place = |parent: &Path, enable| Hierarchy {
        version: Version::V2,
        parent: parent.to_owned(),
        root: root.to_owned(),
        enable,
    };
    let start = root.join(own);
    let above = start.ancestors().take_while(|path| path.starts_with(root));
    if let Some(parent) = above
        .into_iter()
        .find(|path| has_word(&path.join(SUBTREE), controller))
    {
        return Ok(place(parent, None));
    }
    let file = root.join(SUBTREE);
    match access(&file, Access::WRITE_OK) {
        Ok(()) => Ok(place(
            root,
            Some(Enable {
                file,
                on: format!("+{controller}"),
                off: format!("-{controller}"),
            }),
        )),
        Err(errno) => Err(crate::error::attempt(
            "switch the controller on in",
            &file,
            &errno.into(),
        )),
    }
}

/// Returns whether a list of controllers contains this one.
fn has_word(file: &Path, controller: &str) -> bool {
    std::fs::read_to_string(file)
        .is_ok_and(|text| text.split_whitespace().any(|word| word == controller))
}
