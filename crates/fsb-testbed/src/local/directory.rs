//! A visit to a directory: only our own sub-directory in it exists for us.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::run::TargetRecord;

use super::file_system::free_space;
use super::mounts::MountRoot;
use super::quiet;
use crate::control::{Held, cold_method};
use crate::error::{TestbedError, attempt};
use crate::host;
use crate::ledger::{Ledger, Ticket};
use crate::sys::{Roots, magic, mount as kernel, mountinfo};
use crate::testbed::{Abilities, ColdMethod, Provisioned};

/// A sub-directory that is ours.
pub(super) struct DirectoryVisit {
    root: PathBuf,
    /// Where it is bound, for workers that may not walk through the directories above it.
    bound: Option<PathBuf>,
    ticket: Ticket,
    device_directory: Option<PathBuf>,
    cold: Option<ColdMethod>,
}

impl DirectoryVisit {
    /// Makes the sub-directory. On failure nothing is left.
    pub fn begin(
        path: &Path,
        user: (u32, u32),
        page_cache: &str,
        ledger: &Ledger,
        mounts: Option<&mut MountRoot>,
    ) -> Result<(DirectoryVisit, Provisioned), TestbedError> {
        let fail = |verb: &str, path: &Path, error: &std::io::Error| {
            TestbedError::trial(format!("the directory {} cannot be used", path.display()))
                .tried(attempt(verb, path, error))
        };
        let path = path.canonicalize().map_err(|error| fail("resolve", path, &error))?;
        let (own, ticket) = ledger.record_directory(&path, user.0)?;
        let made = make(&own, user).map_err(|(verb, error)| fail(verb, &own, &error));
        let mount = mountinfo::holding(&mountinfo::read(), &path);
        let bound = made.and_then(|()| bind(&own, mounts));
        let memory = magic::is_memory(&path);
        let roots = Roots::default();
        let mut visit = DirectoryVisit {
            root: own,
            bound: None,
            ticket,
            device_directory: mount
                .as_ref()
                .and_then(host::device_of_mount)
                .and_then(|number| number.directory(&roots)),
            cold: (!memory).then(|| cold_method(page_cache, false, &roots)),
        };
        let described = bound.and_then(|bound| {
            if let Some(point) = bound {
                visit.root.clone_from(&point);
                visit.bound = Some(point);
            }
            visit.describe(mount.as_ref(), memory)
        });
        match described {
            Ok(provisioned) => Ok((visit, provisioned)),
            Err(error) => {
                // The first error is the one that explains.
                let _ = visit.end(ledger);
                Err(error)
            }
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn device_directory(&self) -> Option<&Path> {
        self.device_directory.as_deref()
    }

    fn describe(&self, mount: Option<&mountinfo::Mount>, memory: bool) -> Result<Provisioned, TestbedError> {
        let space = free_space(&self.root)?;
        let mut notes = vec!["a directory: as it is, not formatted, never remounted".to_owned()];
        match self.cold {
            Some(ColdMethod::Evict) => notes.push("data cold only: metadata stay cached without root".to_owned()),
            Some(ColdMethod::DropCaches) => notes.push("cold by drop_caches".to_owned()),
            Some(ColdMethod::Remount) | None => {}
        }
        if self.device_directory.is_none() && !memory {
            notes.push("its device is unknown: no counters".to_owned());
        }
        let record = TargetRecord {
            block_size: Some(space.block_size),
            mount_options: mount.map(mountinfo::Mount::all_options).unwrap_or_default(),
            driver: mount.map(|mount| mount.kind.clone()),
            notes,
            ..TargetRecord::default()
        };
        let why =
            |known: bool, why: &str| if known { String::new() } else { format!("the directory is in memory: {why}") };
        let abilities = Abilities {
            cold: self.cold,
            durable: !memory,
            counters: self.device_directory.is_some(),
            fake: None,
            why_not_cold: why(self.cold.is_some(), "its files are never cold"),
            why_not_durable: why(!memory, "its files are never durable"),
        };
        Ok(Provisioned {
            record,
            root: self.root.clone(),
            abilities,
            free_bytes: space.bytes,
            free_inodes: space.inodes,
            held: Held::default(),
            warnings: Vec::new(),
        })
    }

    /// Empties what can be emptied; with [`ColdMethod::Evict`] the worker does the rest.
    pub fn make_cold(&self) -> Result<(), TestbedError> {
        match self.cold {
            None => Err(TestbedError::trial("the directory is in memory: its files are never cold")),
            Some(ColdMethod::Evict) => quiet::sync(&self.root),
            Some(ColdMethod::DropCaches | ColdMethod::Remount) => {
                quiet::sync(&self.root)?;
                quiet::drop_caches(&Roots::default())
            }
        }
    }

    /// Removes the sub-directory and everything in it, and nothing else.
    pub fn end(self, ledger: &Ledger) -> Result<(), TestbedError> {
        if let Some(point) = &self.bound {
            kernel::unmount_patiently(point, Duration::from_secs(10))?;
            let _ = std::fs::remove_dir(point);
        }
        ledger.undo(self.ticket).map(drop)
    }
}

/// Nobody but the worker's user can look into it. `create` fails where the name exists.
fn make(own: &Path, (uid, gid): (u32, u32)) -> Result<(), (&'static str, std::io::Error)> {
    std::fs::DirBuilder::new().mode(0o700).create(own).map_err(|error| ("make", error))?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(own, Some(uid), Some(gid)).map_err(|error| ("chown", error))?;
    }
    Ok(())
}

fn bind(own: &Path, mounts: Option<&mut MountRoot>) -> Result<Option<PathBuf>, TestbedError> {
    let Some(mounts) = mounts else { return Ok(None) };
    let point = mounts.point()?;
    rustix::mount::mount_bind(own, &point).map_err(|errno| {
        TestbedError::trial("the directory cannot be bound").tried(attempt("bind", own, &errno.into()))
    })?;
    Ok(Some(point))
}
