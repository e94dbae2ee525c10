//! Finds the place for a cgroup with a limit.

use std::path::{Path, PathBuf};

use fsb_model::units::show_bytes;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::{Roots, read_trimmed};
use crate::error::Refusal;

/// The kind of hierarchy that has a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy a controller.
    V1,
    /// The unified one.
    V2,
}

impl Version {
    /// As records have it.
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

/// A place for a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// The directory to make it in.
    pub parent: PathBuf,
    /// Where the hierarchy is mounted.
    root: PathBuf,
    /// The parent gives its children no memory controller yet: what to write into which file, and how to undo it.
    pub enable: Option<Enable>,
}

/// A controller that must be switched on for children.
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

/// Where hierarchies are mounted.
fn mounts(roots: &Roots) -> PathBuf {
    roots.sys.join("fs/cgroup")
}

/// Whether a directory is one of a hierarchy, by its path.
pub fn is_below(path: &Path, roots: &Roots) -> bool {
    path.starts_with(mounts(roots))
}

/// Whether a cgroup has a name that only fsb gives.
pub fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// A name in `parent` for a cgroup of process `pid`, which nothing has: a process of another PID namespace may have our
/// number, and its cgroup is not ours to remove.
pub fn free_name(parent: &Path, pid: u32) -> PathBuf {
    let path = parent.join(format!("{PREFIX}{pid}"));
    if path.exists() { parent.join(format!("{PREFIX}{pid}-{}", super::random_name())) } else { path }
}

/// Writes to a file of a cgroup. Not `fs::write`, which would make a file where the kernel has none.
pub fn write(path: &Path, value: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).open(path)?;
    std::io::Write::write_all(&mut file, value.as_bytes())
}

/// What gives the children of the unified hierarchy's root their controllers.
pub fn switch(roots: &Roots) -> PathBuf {
    mounts(roots).join(SUBTREE)
}

impl Hierarchy {
    /// The one that has the controller and can be written to; why there is none.
    pub fn find(roots: &Roots, controller: &'static str) -> Result<Hierarchy, Refusal> {
        let membership = roots.proc_text("self/cgroup").unwrap_or_default();
        let unified = mounts(roots);
        let old = unified.join(controller);
        let found = if has_word(&unified.join("cgroup.controllers"), controller) {
            unified_place(&unified, &own(&membership, ""), controller)
        } else if old.join("cgroup.procs").exists() {
            // A container may see its own part only, under another path.
            let parent = Some(old.join(own(&membership, controller))).filter(|path| path.is_dir());
            let parent = parent.unwrap_or_else(|| old.clone());
            Ok(Hierarchy { version: Version::V1, parent, root: old, enable: None })
        } else {
            Err(format!("neither /sys/fs/cgroup nor /sys/fs/cgroup/{controller} has a {controller} controller").into())
        }?;
        access(&found.parent, Access::WRITE_OK)
            .map_err(|errno| crate::error::attempt("make a cgroup in", &found.parent, &errno.into()))?;
        Ok(found)
    }

    /// Whether a limit of `bytes` of memory would be the one that counts; why not.
    pub fn allows(&self, bytes: u64) -> Result<(), Refusal> {
        let file = self.version.limit_file();
        let above = self.parent.ancestors().take_while(|path| path.starts_with(&self.root));
        for directory in above {
            let limit = read_trimmed(&directory.join(file)).and_then(|text| text.parse::<u64>().ok());
            if let Some(limit) = limit.filter(|limit| *limit < bytes) {
                let (limit, shown) = (show_bytes(limit as f64), directory.display());
                return Err(format!("the parent cgroup {shown} has a limit of {limit}").into());
            }
        }
        Ok(())
    }
}

/// The path of our own cgroup in the hierarchy of a controller (of the unified one: no controller), without its `/`.
fn own(membership: &str, controller: &str) -> String {
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then(|| path.trim_start_matches('/').to_owned())
    };
    membership.lines().find_map(of).unwrap_or_default()
}

/// A cgroup with processes in it gives its children no controller, so ours is made in the nearest one above us that
/// does; where none does, in the root, which may.
fn unified_place(root: &Path, own: &str, controller: &'static str) -> Result<Hierarchy, Refusal> {
    let place = |parent: &Path, enable| Hierarchy {
        version: Version::V2,
        parent: parent.to_owned(),
        root: root.to_owned(),
        enable,
    };
    let start = root.join(own);
    let above = start.ancestors().take_while(|path| path.starts_with(root));
    if let Some(parent) = above.into_iter().find(|path| has_word(&path.join(SUBTREE), controller)) {
        return Ok(place(parent, None));
    }
    let file = root.join(SUBTREE);
    match access(&file, Access::WRITE_OK) {
        Ok(()) => Ok(place(root, Some(Enable { file, on: format!("+{controller}"), off: format!("-{controller}") }))),
        Err(errno) => Err(crate::error::attempt("switch the controller on in", &file, &errno.into())),
    }
}

/// Whether a list of controllers has this one.
fn has_word(file: &Path, controller: &str) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|word| word == controller))
}
