//! Where a cgroup with a memory limit can be made.

use std::path::{Path, PathBuf};

use fsb_model::units::show_bytes;
use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::error::Refusal;
use crate::sys::{Roots, read_trimmed};

/// Which kind of hierarchy has the memory controller.
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
pub(super) struct Hierarchy {
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
pub(super) struct Enable {
    pub file: PathBuf,
    pub on: &'static str,
    pub off: &'static str,
}

const CONTROLLER: &str = "memory";
const SUBTREE: &str = "cgroup.subtree_control";

/// Where hierarchies are mounted.
fn mounts(roots: &Roots) -> PathBuf {
    roots.sys.join("fs/cgroup")
}

/// Whether a directory is one of a hierarchy, by its path.
pub(super) fn is_below(path: &Path, roots: &Roots) -> bool {
    path.starts_with(mounts(roots))
}

/// What gives the children of the unified hierarchy's root their controllers.
pub(super) fn switch(roots: &Roots) -> PathBuf {
    mounts(roots).join(SUBTREE)
}

impl Hierarchy {
    /// The one that has the memory controller and can be written to; why there is none.
    pub(super) fn find(roots: &Roots) -> Result<Hierarchy, Refusal> {
        let membership = roots.proc_text("self/cgroup").unwrap_or_default();
        let unified = mounts(roots);
        let old = unified.join(CONTROLLER);
        let found = if has_word(&unified.join("cgroup.controllers")) {
            unified_place(&unified, &own(&membership, ""))
        } else if old.join("cgroup.procs").exists() {
            // A container may see its own part only, under another path.
            let parent = Some(old.join(own(&membership, CONTROLLER))).filter(|path| path.is_dir());
            let parent = parent.unwrap_or_else(|| old.clone());
            Ok(Hierarchy { version: Version::V1, parent, root: old, enable: None })
        } else {
            Err("neither /sys/fs/cgroup nor /sys/fs/cgroup/memory has a memory controller".into())
        }?;
        access(&found.parent, Access::WRITE_OK)
            .map_err(|errno| crate::error::attempt("make a cgroup in", &found.parent, &errno.into()))?;
        Ok(found)
    }

    /// Whether a limit of `bytes` would be the one that counts; why not.
    pub(super) fn allows(&self, bytes: u64) -> Result<(), Refusal> {
        let file = self.version.limit_file();
        let above = self.parent.ancestors().take_while(|path| path.starts_with(&self.root));
        for directory in above {
            let limit = read_trimmed(&directory.join(file)).and_then(|text| text.parse::<u64>().ok());
            if let Some(limit) = limit.filter(|limit| *limit < bytes) {
                let (limit, shown) = (show_bytes(limit as f64), directory.display());
                return Err(format!("the cgroup {shown}, which it would be in, is itself held to {limit}").into());
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
fn unified_place(root: &Path, own: &str) -> Result<Hierarchy, Refusal> {
    let place = |parent: &Path, enable| Hierarchy {
        version: Version::V2,
        parent: parent.to_owned(),
        root: root.to_owned(),
        enable,
    };
    let start = root.join(own);
    let above = start.ancestors().take_while(|path| path.starts_with(root));
    if let Some(parent) = above.into_iter().find(|path| has_word(&path.join(SUBTREE))) {
        return Ok(place(parent, None));
    }
    let file = root.join(SUBTREE);
    match access(&file, Access::WRITE_OK) {
        Ok(()) => Ok(place(root, Some(Enable { file, on: "+memory", off: "-memory" }))),
        Err(errno) => Err(crate::error::attempt("switch the memory controller on in", &file, &errno.into())),
    }
}

/// Whether a list of controllers has the one for memory.
fn has_word(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|word| word == CONTROLLER))
}
