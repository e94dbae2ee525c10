//! A directory as a target. fsb uses only a sub-directory of its own in it.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::Maintenance;
use fsb_model::run::TargetRecord;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::{Roots, mount as kernel, mountinfo};

use super::file_system::free_space;
use super::mounts::MountRoot;
use super::quiet;
use crate::control::{ColdMethod, Held, cold_method};
use crate::fs;
use crate::fuse::{self, Findings, Probes};
use crate::host;
use crate::ledger::{EntryHandle, Ledger, shown_by_file_system};
use crate::privilege;
use crate::probe;
use crate::storage::{self, Storage, risks_of_device};
use crate::testbed::{Abilities, Provisioned};

/// The parts of the testbed that a directory needs.
pub(super) struct Surroundings<'a> {
    pub ledger: &'a Ledger,
    pub mounts: Option<&'a mut MountRoot>,
    /// The /proc and /sys of the machine.
    pub outside: &'a Roots,
    pub probed: &'a mut Probes,
}

/// A sub-directory that fsb made.
pub(super) struct ReadyDirectory {
    root: PathBuf,
    /// The bind mount of the sub-directory, for workers that may not traverse the directories above
    /// it.
    bound: Option<PathBuf>,
    handle: EntryHandle,
    device_directory: Option<PathBuf>,
    device: Option<DeviceNumber>,
    cold: ColdMethod,
    is_fuse: bool,
}

impl ReadyDirectory {
    /// Creates the sub-directory, and probes the server of a FUSE mount that was not probed yet.
    /// Removes the sub-directory again on failure.
    pub fn begin(
        (target, path): (&str, &Path),
        user: (u32, u32),
        page_cache: &str,
        surroundings: Surroundings<'_>,
    ) -> Result<(ReadyDirectory, Provisioned), TestbedError> {
        let Surroundings {
            ledger,
            mounts,
            outside,
            probed,
        } = surroundings;
        let path = path
            .canonicalize()
            .map_err(|error| unusable("resolve", path, &error))?;
        let (own, handle) = ledger.record_directory(&path, user.0)?;
        let made = make(&own, user).map_err(|(verb, error)| unusable(verb, &own, &error));
        let mount = mountinfo::holding(&mountinfo::read(), &path);
        let bound = made.and_then(|()| bind(&own, mounts));
        let roots = Roots::default();
        let number = mount.as_ref().and_then(storage::number_of_mount);
        let directory = number.and_then(|number| number.directory(&roots));
        let storage = Storage::beneath_path(&path, directory.as_deref(), outside);
        let directory = directory.or_else(|| storage.only_device().map(Path::to_owned));
        let device = number.or_else(|| block::number_in(directory.as_deref()?));
        let mut ready = ReadyDirectory {
            root: own,
            bound: None,
            handle,
            device_directory: directory,
            device,
            cold: cold_method(page_cache, false, &roots),
            is_fuse: mount.as_ref().is_some_and(fuse::is_fuse),
        };
        let described = bound.and_then(|bound| {
            if let Some(point) = bound {
                ready.root.clone_from(&point);
                ready.bound = Some(point);
            }
            let fuse = mount.as_ref().filter(|mount| fuse::is_fuse(mount));
            let findings = fuse.map(|mount| {
                let own = &ready.root;
                probed.entry(target.to_owned()).or_insert_with(|| {
                    fuse::probe_mount(own, mount, storage.store(), outside, &mut |_| {})
                })
            });
            ready.describe(
                target,
                mount.as_ref(),
                &storage,
                findings.map(|found| &*found),
            )
        });
        match described {
            Ok(provisioned) => Ok((ready, provisioned)),
            Err(error) => {
                // The first error is the one that explains.
                let _ = ready.end(ledger);
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

    fn describe(
        &self,
        target: &str,
        mount: Option<&mountinfo::Mount>,
        storage: &Storage,
        findings: Option<&Findings>,
    ) -> Result<Provisioned, TestbedError> {
        let space = free_space(&self.root)?;
        let mut notes = vec!["a directory: neither formatted nor remounted".to_owned()];
        notes.extend(space.notes());
        if storage.loss().is_none() {
            match self.cold {
                ColdMethod::Evict => {
                    notes.push("only data is cold: metadata stays cached without root".to_owned())
                }
                ColdMethod::DropCaches => notes.push("cold by drop_caches".to_owned()),
                ColdMethod::Remount => {}
            }
            if self.device_directory.is_none() {
                notes.push("its device is unknown: no counters".to_owned());
            }
        }
        notes.extend(mount.and_then(fs::unseen_risk).map(str::to_owned));
        let facts = facts(mount, self.device, self.device_directory.as_deref());
        let record = TargetRecord {
            block_size: Some(space.block_size),
            notes,
            ..facts
        };
        let abilities = Abilities {
            cold: Some(self.cold),
            // For a file system without a device, other caches than the kernel's are unknown.
            kernel_caches_only: self.device_directory.is_some()
                && findings.is_none()
                && self.cold.empties_kernel_caches(),
            durable: true,
            counters: self.device_directory.is_some(),
            no_maintenance: Maintenance::ALL
                .into_iter()
                .map(|operation| {
                    (
                        operation,
                        "the file system of a directory is in use by others".to_owned(),
                    )
                })
                .collect(),
            no_space_limit: "the file system of a directory is in use by others".to_owned(),
            ..Abilities::default()
        };
        let mut provisioned = Provisioned {
            record,
            root: self.root.clone(),
            client_roots: Vec::new(),
            abilities,
            free_bytes: space.bytes.unwrap_or(u64::MAX),
            free_inodes: space.inodes.unwrap_or(u64::MAX),
            held: Held::default(),
            device: None,
            warnings: Vec::new(),
        };
        storage.restrict(target, &mut provisioned);
        if mount.is_some_and(has_own_cache) {
            restrict_to_own_cache(&mut provisioned);
        }
        if let Some(findings) = findings {
            storage.restrict_server(findings, &mut provisioned);
        }
        if let Some(reason) = storage.elsewhere() {
            let unproven = Findings::unknown(reason).unproven();
            provisioned.abilities.unproven.clone_from(&unproven);
            provisioned.record.unproven = unproven;
        }
        Ok(provisioned)
    }

    /// Empties the caches as far as possible. With [`ColdMethod::Evict`] the worker does the rest.
    pub fn make_cold(&self) -> Result<(), TestbedError> {
        match self.cold {
            ColdMethod::Evict => quiet::sync(&self.root),
            ColdMethod::DropCaches | ColdMethod::Remount => {
                quiet::sync(&self.root)?;
                // The kernel drops no dirty pages, and syncfs of a FUSE mount leaves those of the
                // files that the server keeps the data in.
                if self.is_fuse {
                    rustix::fs::sync();
                }
                quiet::drop_caches(&Roots::default())
            }
        }
    }

    /// Removes the sub-directory with its contents, and nothing else.
    pub fn end(self, ledger: &Ledger) -> Result<(), TestbedError> {
        if let Some(point) = &self.bound {
            kernel::unmount_patiently(point, Duration::from_secs(10))?;
            let _ = std::fs::remove_dir(point);
        }
        ledger.undo(self.handle).map(drop)
    }
}

/// Returns whether the data of a mount is in a cache of its own (ZFS), which outlives drop_caches.
fn has_own_cache(mount: &mountinfo::Mount) -> bool {
    fs::of_mount(mount).is_some_and(|member| member.pooled().is_some())
}

/// Takes cold and warm cases from a directory whose data is in a cache that neither can be emptied
/// here nor shows its contents.
fn restrict_to_own_cache(provisioned: &mut Provisioned) {
    let Provisioned {
        record, abilities, ..
    } = provisioned;
    abilities.own_cache = true;
    abilities.kernel_caches_only = false;
    abilities.cold = None;
    abilities.why_not_cold =
        "only an export of the pool empties the cache of ZFS: use the target zfs".to_owned();
    abilities.why_not_warm =
        "the cache of ZFS does not show whether it holds a file: use the target zfs".to_owned();
    record.notes.retain(|note| !note.contains("cold"));
}

/// Returns the error of a directory that a call on `path` failed in.
fn unusable(verb: &str, path: &Path, error: &std::io::Error) -> TestbedError {
    let failed = TestbedError::trial(format!("the directory {} cannot be used", path.display()))
        .tried(attempt(verb, path, error));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            failed.advice(privilege::advice_on_directory(error))
        }
        _ => failed,
    }
}

/// Returns the record of a directory that a program other than the agent measures. The server of a
/// FUSE mount is probed with a few small files, by a process of its own: the program must dispatch
/// [`PROBE_ARGUMENT`](crate::probe::PROBE_ARGUMENT).
///
/// # Errors
/// Fails if the directory cannot be resolved.
pub fn directory_record(path: &Path) -> Result<TargetRecord, TestbedError> {
    let path = path.canonicalize().map_err(|error| {
        TestbedError::trial(format!("the directory {} cannot be used", path.display()))
            .tried(attempt("resolve", path, &error))
    })?;
    let space = free_space(&path)?;
    let mount = mountinfo::holding(&mountinfo::read(), &path);
    let roots = Roots::default();
    let device = mount.as_ref().and_then(storage::number_of_mount);
    let device_directory = device.and_then(|number| number.directory(&roots));
    let mut notes = vec!["a directory: neither formatted nor remounted".to_owned()];
    notes.extend(space.notes());
    notes.extend(mount.as_ref().and_then(fs::unseen_risk).map(str::to_owned));
    let facts = facts(mount.as_ref(), device, device_directory.as_deref());
    let storage = Storage::beneath_path(&path, device_directory.as_deref(), &roots);
    let risks = facts.risks.iter().cloned().chain(storage.risk()).collect();
    let fuse = mount.as_ref().filter(|mount| fuse::is_fuse(mount));
    let findings = match storage.elsewhere() {
        Some(reason) => Some(Findings::unknown(reason)),
        None => fuse.map(|_| probe::probe_server(&path, &mut notes)),
    };
    Ok(TargetRecord {
        unproven: findings.map_or_else(Vec::new, |findings| findings.unproven()),
        block_size: Some(space.block_size),
        notes,
        storage: storage.layers(),
        risks,
        ..facts
    })
}

/// Returns what the mount and the device of a directory tell.
fn facts(
    mount: Option<&mountinfo::Mount>,
    device: Option<DeviceNumber>,
    device_directory: Option<&Path>,
) -> TargetRecord {
    let mut risks = mount.map_or_else(Vec::new, fs::risks_of_mount);
    risks.extend(device_directory.map_or_else(Vec::new, risks_of_device));
    TargetRecord {
        risks,
        mount_options: mount.map(mountinfo::Mount::all_options).unwrap_or_default(),
        driver: mount.map(|mount| mount.kind.clone()),
        device: device.map(|DeviceNumber(major, minor)| {
            host::device_manifest(&Roots::default(), (major, minor))
        }),
        ..TargetRecord::default()
    }
}

/// Creates the directory, which only the worker's user can access. Fails if the name exists.
fn make(own: &Path, (uid, gid): (u32, u32)) -> Result<(), (&'static str, std::io::Error)> {
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(own)
        .map_err(|error| ("make", error))?;
    if rustix::process::geteuid().is_root() {
        hand_over(own, uid, gid).map_err(|error| ("chown", error))?;
    }
    Ok(())
}

/// Gives the sub-directory to the worker's user. Fails if another process has replaced it, or if
/// the file system gives it to a user other than the worker's and keeps that one out.
fn hand_over(own: &Path, uid: u32, gid: u32) -> std::io::Result<()> {
    use rustix::fs::{Dir, Gid, Mode, OFlags, Uid, fchown, fstat, open};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(own, flags, Mode::empty())?;
    let stat = fstat(&directory)?;
    let empty = Dir::read_from(&directory)?
        .flatten()
        .all(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."));
    let found = (stat.st_uid, stat.st_mode & 0o7777 & !0o2000);
    // A directory that another user has put in its place differs from a new one of this process,
    // also where the file system shows other owners and modes than it was given.
    let is_as_made = || match found == (0, 0o700) {
        true => Ok(true),
        false => shown_by_file_system(&directory).map(|(uid, mode)| found == (uid, mode & !0o2000)),
    };
    if !empty || !is_as_made()? {
        return Err(std::io::Error::other(
            "another process replaced the directory",
        ));
    }
    let changed = fchown(
        &directory,
        Some(Uid::from_raw(uid)),
        Some(Gid::from_raw(gid)),
    );
    let stat = fstat(&directory)?;
    if uid == 0 || lets_in(&stat, uid, gid) {
        return Ok(());
    }
    if found == (0, 0o700) {
        changed?;
    }
    let advice = match stat.st_uid {
        0 => "add --force-root-user".to_owned(),
        owner => format!("add --uid {owner}, or --force-root-user"),
    };
    Err(std::io::Error::other(format!(
        "this file system gives the directory to user {}, not to user {uid}, who measures: {advice}",
        stat.st_uid
    )))
}

/// Returns whether the permissions let a user make files in a directory.
fn lets_in(stat: &rustix::fs::Stat, uid: u32, gid: u32) -> bool {
    let needed = match (stat.st_uid == uid, stat.st_gid == gid) {
        (true, _) => 0o700,
        (false, true) => 0o070,
        (false, false) => 0o007,
    };
    stat.st_mode & needed == needed
}

fn bind(own: &Path, mounts: Option<&mut MountRoot>) -> Result<Option<PathBuf>, TestbedError> {
    let Some(mounts) = mounts else {
        return Ok(None);
    };
    let point = mounts.point()?;
    rustix::mount::mount_bind(own, &point).map_err(|errno| {
        TestbedError::trial("the directory cannot be bound").tried(attempt(
            "bind",
            own,
            &errno.into(),
        ))
    })?;
    Ok(Some(point))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn only_what_was_made_is_handed_over() {
        if !fsb_testkit::root_for("only_what_was_made_is_handed_over") {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        make(&at("own"), (4711, 4711)).unwrap();
        assert_eq!(std::fs::metadata(at("own")).unwrap().uid(), 4711);
        // Files that another process could have put in its place.
        std::fs::write(at("secret"), "").unwrap();
        std::fs::create_dir(at("root")).unwrap();
        std::fs::write(at("root/file"), "").unwrap();
        std::os::unix::fs::symlink(at("root"), at("link")).unwrap();
        // An empty one, which differs from what this file system gives root.
        std::fs::create_dir(at("open")).unwrap();
        for name in ["secret", "root", "link", "own", "open"] {
            assert!(hand_over(&at(name), 4712, 4712).is_err(), "{name}");
        }
        for name in ["secret", "root", "root/file"] {
            assert_eq!(std::fs::metadata(at(name)).unwrap().uid(), 0, "{name}");
        }
    }
}
