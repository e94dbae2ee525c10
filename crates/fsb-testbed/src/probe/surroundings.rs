//! Facts about the probed directory that the answers need.

use std::cell::OnceCell;
use std::path::Path;

use fsb_sys::Roots;
use fsb_sys::mountinfo::{self, Mount};

use crate::fuse::{self, Findings};
use crate::storage::{self, Storage};

/// The probed directory. The working directory of the process is the one in which the cells make
/// their files.
pub(super) struct Surroundings {
    /// The permissions that the directory of the probe got, which was made with mode 0700.
    pub mode: u32,
    /// The mount that holds the directory.
    pub mount: Option<Mount>,
    /// The layers beneath it.
    pub storage: Storage,
    findings: OnceCell<Findings>,
}

impl Surroundings {
    /// Looks at the mount and the storage of a directory.
    pub fn new(path: &Path, mode: u32) -> Surroundings {
        let roots = Roots::default();
        let mount = mountinfo::holding(&mountinfo::read(), path);
        let device = mount
            .as_ref()
            .and_then(storage::number_of_mount)
            .and_then(|number| number.directory(&roots));
        Surroundings {
            mode,
            mount,
            storage: Storage::beneath_path(path, device.as_deref(), &roots),
            findings: OnceCell::new(),
        }
    }

    /// Returns whether a FUSE server makes the calls.
    pub fn is_fuse(&self) -> bool {
        self.mount.as_ref().is_some_and(fuse::is_fuse)
    }

    /// Returns whether the file system has a block device as its source, if a FUSE server makes the
    /// calls.
    pub fn is_fuse_of_device(&self) -> bool {
        let kind = self.mount.as_ref().map(|mount| mount.kind.as_str());
        kind.is_some_and(|kind| kind.split('.').next() == Some("fuseblk"))
    }

    /// Returns what the FUSE server does on its side of the mount. `None` for other file systems.
    pub fn findings(&self) -> Option<&Findings> {
        if self.findings.get().is_none() {
            let found = self.probe_server(&mut |_| {})?;
            self.findings.get_or_init(|| found);
        }
        self.findings.get()
    }

    /// Probes the FUSE server. Calls `begin` before each finding, as [`fuse::probe_mount`] does.
    /// Returns `None` for other file systems.
    pub fn probe_server(&self, begin: &mut dyn FnMut(&'static str)) -> Option<Findings> {
        let mount = self.mount.as_ref().filter(|mount| fuse::is_fuse(mount))?;
        let (store, roots) = (self.storage.store(), Roots::default());
        let own = Path::new(".");
        Some(fuse::probe_mount(own, mount, store, &roots, begin))
    }
}
