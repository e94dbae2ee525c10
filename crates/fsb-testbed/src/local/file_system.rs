//! A file system as a target: formatted, mounted, made cold, unmounted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::host::DeviceRates;
use fsb_model::observed::Rpcs;
use fsb_model::run::{Risk, SmallDevice, TargetRecord};
use fsb_model::units::show_bytes;
use fsb_model::{FileSystemSpec, Geometry, Maintenance, Medium, OwnDirectory};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::space::FreeSpace;
use fsb_sys::{Roots, block, encryption, mount as kernel, mountinfo, poll_until, program, quota};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::quiet;
use crate::control::{ColdMethod, Held, cold_method, set_read_ahead};
use crate::fs::{
    self, DeviceSize, Export, ExternalJournal, FileSystem, Formatted, Home, Inspection, Journal,
    MaintenanceCommands, MountRequest, Mounted, SubvolumeCommands, Version,
};
use crate::ledger::{EntryHandle, Ledger};
use crate::medium::{OpenMedium, probe};
use crate::storage::{self, Storage, is_memory_medium};
use crate::testbed::{Abilities, ColdReach, Maintained, Provisioned, Quiet, RepeatableMaintenance};

/// The time limit for an unmount while processes on it still end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The directory on the target that belongs to the worker's user.
const ROOT: &str = "fsb";

/// The parameters of a [`ReadyFileSystem`].
pub(super) struct FileSystemRequest<'a> {
    /// The name of the target.
    pub name: &'a str,
    pub member: &'static dyn FileSystem,
    pub spec: &'a FileSystemSpec,
    pub point: PathBuf,
    pub size: u64,
    pub user: (u32, u32),
    pub page_cache: &'a str,
    pub held: &'a Held,
    /// The oldest kernel that must be able to mount the file system.
    pub oldest: Option<Version>,
    /// The geometry of a large disk, which the slice gets. `None` if mkfs chooses.
    pub large: Option<Geometry>,
    /// See [`Setup::like_disk`](crate::testbed::Setup::like_disk).
    pub like_disk: u64,
    /// The seed of the data with which places of a sparse medium are written over.
    pub seed: u64,
    pub ledger: &'a Ledger,
}

/// Returns whether the plan itself asks for memory: a file system in memory, or a medium.
fn asks_for_memory(member: &dyn FileSystem, spec: &FileSystemSpec) -> bool {
    member.home() == Home::Memory || is_memory_medium(&spec.medium)
}

/// A formatted file system, which is mounted from `begin` to `end`.
pub(super) struct ReadyFileSystem {
    member: &'static dyn FileSystem,
    medium: Option<String>,
    source: PathBuf,
    /// The source as the user knows it.
    shown: PathBuf,
    point: PathBuf,
    root: PathBuf,
    options: Vec<String>,
    size: u64,
    user: (u32, u32),
    /// Bytes of the slice of a sparse medium, on which the device is larger.
    slice: Option<u64>,
    /// Free bytes of the empty file system beyond those of the slice.
    beyond_slice: u64,
    mounted: Option<Mounted>,
    /// Whether prepared files are served read-only.
    sealed: bool,
    device_directory: Option<PathBuf>,
    cold: Option<ColdMethod>,
    held: Held,
    journal: Option<ReadyJournal>,
    /// The key of its files, if they are encrypted.
    key: Option<encryption::Key>,
    /// The commands that remove the directory of a background, if there is one.
    remove_own: Option<Vec<Vec<String>>>,
    /// The entry of the undo ledger that closes its pool, if it has one.
    pool: Option<EntryHandle>,
}

/// The external journal of a target. Its medium is not claimed while the target is ready, because
/// the mount claims it.
struct ReadyJournal {
    /// The key of its medium.
    key: String,
    /// The private node of its device, and the device as the user knows it.
    names: (PathBuf, PathBuf),
    arguments: ExternalJournal,
}

impl ReadyJournal {
    fn from_request(
        request: &FileSystemRequest<'_>,
        medium: &dyn OpenMedium,
    ) -> Option<ReadyJournal> {
        let FileSystemRequest { member, spec, .. } = request;
        Some(ReadyJournal {
            key: journal_key(spec.journal.as_ref()?),
            names: (medium.device().to_owned(), medium.shown().to_owned()),
            arguments: member.external_journal(medium.device(), spec.mkfs_words())?,
        })
    }

    /// Replaces the private node in a text by the name that the user knows.
    fn reword(&self, text: &str) -> String {
        let (node, shown) = &self.names;
        text.replace(&*node.to_string_lossy(), &shown.to_string_lossy())
    }
}

impl ReadyFileSystem {
    /// Formats and mounts. Unmounts again on failure.
    pub fn begin(
        request: &FileSystemRequest<'_>,
        mut medium: Option<&mut dyn OpenMedium>,
        mut journal: Option<&mut Box<dyn OpenMedium>>,
    ) -> Result<(ReadyFileSystem, Provisioned), TestbedError> {
        let FileSystemRequest {
            member,
            spec,
            point,
            size,
            user,
            page_cache,
            held,
            ..
        } = request;
        let key = spec
            .is_encrypted()
            .then(encryption::Key::random)
            .transpose()
            .map_err(|error| {
                TestbedError::machine("encrypted files need a random key").tried(&error)
            })?;
        let own_journal = journal
            .as_deref()
            .and_then(|medium| ReadyJournal::from_request(request, &**medium));
        let pool = match (medium.as_deref(), member.pooled()) {
            (Some(medium), Some(pooled)) => {
                let action = pooled.close_action(medium.device())?;
                Some(request.ledger.record(action)?)
            }
            _ => None,
        };
        let (formatted, inspection, probed) = match medium.as_deref_mut() {
            Some(medium) => {
                if let Some(journal) = journal.as_deref_mut() {
                    journal.verify()?;
                    journal.lend();
                }
                let made = format(request, medium, own_journal.as_ref());
                journal.into_iter().for_each(|journal| journal.lock());
                match made {
                    Ok(made) => made,
                    Err(error) => {
                        // The first error is the one that explains.
                        let _ = close_pool(pool, request.ledger);
                        return Err(error);
                    }
                }
            }
            None => (
                Formatted::default(),
                member.inspect(Path::new(member.name())),
                None,
            ),
        };
        // The node may be another one than before.
        let source = match (&medium, member.home()) {
            (Some(medium), _) => medium.device().to_owned(),
            (None, Home::Host) => {
                PathBuf::from(spec.medium.argument.as_deref().unwrap_or_default())
            }
            (None, _) => PathBuf::from(member.name()),
        };
        let shown = medium
            .as_ref()
            .map_or_else(|| source.clone(), |medium| medium.shown().to_owned());
        let roots = Roots::default();
        let on_device = member.home() == Home::Device;
        let mut ready = ReadyFileSystem {
            member: *member,
            medium: on_device.then(|| spec.medium.to_string()),
            device_directory: block::number_of(&source).and_then(|number| number.directory(&roots)),
            root: point.join(ROOT),
            point: point.clone(),
            options: options(*member, spec, medium.as_deref())
                .into_iter()
                .chain(
                    own_journal
                        .iter()
                        .flat_map(|journal| journal.arguments.mount.clone()),
                )
                .collect(),
            journal: own_journal,
            source,
            shown,
            size: *size,
            user: *user,
            slice: medium
                .as_deref_mut()
                .and_then(OpenMedium::range)
                .map(|range| range.slice().bytes),
            beyond_slice: 0,
            mounted: None,
            sealed: false,
            cold: on_device
                .then(|| cold_method(page_cache, true, &roots))
                // An export empties the cache of a pool, and nothing else does.
                .filter(|method| member.pooled().is_none() || *method == ColdMethod::Remount),
            held: (*held).clone(),
            key,
            remove_own: None,
            pool,
        };
        let provisioned = ready
            .mount(again(&mut medium))
            .and_then(|()| ready.make_root())
            .and_then(|()| ready.set_sealed(true))
            .and_then(|()| ready.describe(request, formatted, inspection));
        match provisioned {
            Ok(mut provisioned) => {
                match probed {
                    Some(Ok(rates)) => provisioned.device = Some(rates),
                    Some(Err(error)) => provisioned
                        .record
                        .notes
                        .push(format!("the raw device was not probed: {error}")),
                    None => {}
                }
                Ok((ready, provisioned))
            }
            Err(error) => {
                // The first error is the one that explains.
                let _ = ready.end(medium, Some(request.ledger));
                Err(error)
            }
        }
    }

    /// Returns whether its files are in a directory of the host of this virtual machine.
    pub fn is_of_host(&self) -> bool {
        self.member.home() == Home::Host
    }

    pub fn point(&self) -> &Path {
        &self.point
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn device_directory(&self) -> Option<&Path> {
        self.device_directory.as_deref()
    }

    /// Returns a counter of the passes over its journal.
    pub fn journal(&self) -> Option<Journal> {
        let name = self.device_directory.as_ref()?.file_name()?.to_str()?;
        self.member.journal(&self.source, name, &Roots::default())
    }

    /// Returns the key of the medium of its external journal.
    pub fn journal_medium(&self) -> Option<&str> {
        self.journal.as_ref().map(|journal| journal.key.as_str())
    }

    /// Returns the directory below /sys of the device of its external journal.
    pub fn journal_directory(&self) -> Option<PathBuf> {
        block::number_of(&self.journal.as_ref()?.names.0)?.directory(&Roots::default())
    }

    /// Returns the bytes that can still be filled. On a sparse medium, files belong into the bytes
    /// of the slice.
    pub fn free_bytes(&self) -> Option<u64> {
        self.free_space()
            .ok()
            .and_then(|space| space.bytes)
            .map(|bytes| bytes.saturating_sub(self.beyond_slice))
    }

    /// Returns the use of its FUSE server.
    pub fn server_use(&self) -> Option<fs::ServerUse> {
        let server = self.mounted.as_ref()?.server.as_ref()?;
        Some(server.usage())
    }

    /// Returns how its FUSE server failed. The kernel ends the connection before the server's
    /// processes can be seen to have ended, so that their end is waited for after a call that found
    /// none. A server that is silent is not asked.
    pub fn server_failure(&mut self, is_disconnected: bool) -> Option<String> {
        /// The limit for the end of a server without a connection.
        const ENDING: Duration = Duration::from_secs(5);
        let server = self.mounted.as_mut()?.server.as_mut()?;
        if is_disconnected {
            poll_until(ENDING, || !server.is_running());
        }
        let failure = server.failure()?;
        let name = self.member.served_by(&self.source);
        let name = name.as_deref().unwrap_or(self.member.name());
        Some(format!("the server {name} ended: {failure}"))
    }

    /// Returns the text of its medium.
    pub fn medium(&self) -> Option<&str> {
        self.medium.as_deref()
    }

    /// Mounts the device. Releases the medium's claim only for the mount, which takes a claim of
    /// its own.
    fn mount(&mut self, mut medium: Option<&mut dyn OpenMedium>) -> Result<(), TestbedError> {
        if let Some(medium) = again(&mut medium) {
            medium.verify()?;
            medium.lock();
        }
        let made = self
            .member
            .mount(&self.request())
            .map_err(|error| as_shown(error, &self.source, &self.shown))
            .map_err(
                |error| match fs::advice_on_features(self.member.name(), &error.tried) {
                    Some(advice) => error.advice(advice),
                    None => error,
                },
            )?;
        let mounted = self.mounted.insert(made);
        if let Some(key) = &self.key {
            encryption::unlock(&self.point, key).map_err(|errno| {
                not_encrypted(self.member, "FS_IOC_ADD_ENCRYPTION_KEY", &self.point, errno)
            })?;
        }
        medium.map_or(Ok(()), |medium| medium.verify())?;
        if let (Some(memory), Some(server)) = (&self.held.memory, &mounted.server) {
            // Charges the page cache of the server to the worker's memory limit.
            server
                .processes()
                .into_iter()
                .try_for_each(|id| memory.add(id))?;
        }
        match (
            self.held.read_ahead,
            self.source.file_name().filter(|_| self.medium.is_some()),
        ) {
            (Some(bytes), Some(name)) => {
                set_read_ahead(bytes, &name.to_string_lossy(), &Roots::default())
            }
            _ => Ok(()),
        }
    }

    fn request(&self) -> MountRequest<'_> {
        MountRequest {
            source: &self.source,
            point: &self.point,
            options: &self.options,
            size: self.size,
            owner: self.user,
            sealed: self.sealed,
        }
    }

    /// Changes between sealed and not, if the file system has a seal. After an error, the target is
    /// not mounted.
    pub fn set_sealed(&mut self, sealed: bool) -> Result<(), TestbedError> {
        if self.member.sealing().is_none() || self.sealed == sealed {
            return Ok(());
        }
        self.sealed = sealed;
        let again = self.member.mount_again(&self.request());
        self.mounted = Some(again.map_err(|error| as_shown(error, &self.source, &self.shown))?);
        Ok(())
    }

    /// Returns the directory whose file system holds what is written to the target.
    fn holder(&self) -> &Path {
        let mounted = self.mounted.as_ref();
        mounted
            .and_then(|mounted| mounted.beneath.as_deref())
            .unwrap_or(&self.root)
    }

    /// Returns the free space of the target. Sealed files need theirs several times.
    fn free_space(&self) -> Result<FreeSpace, TestbedError> {
        let copies = self.member.sealing().map_or(1, |sealing| sealing.copies);
        let space = free_space(self.holder())?;
        Ok(FreeSpace {
            bytes: space.bytes.map(|bytes| bytes / copies),
            inodes: space.inodes.map(|inodes| inodes / copies),
            ..space
        })
    }

    /// Creates a directory that the worker's user owns. The root directory of the file system stays
    /// root's.
    fn make_root(&self) -> Result<(), TestbedError> {
        // A directory of the host keeps its files, and nothing formats it.
        if self.member.home() == Home::Host && self.root.exists() {
            std::fs::remove_dir_all(&self.root)
                .map_err(|error| self.not_made(&self.root, "remove", &error))?;
        }
        self.make_directory(&self.root)?;
        self.give_to_user(&self.root)
    }

    /// Creates a directory, which is encrypted if the files of the target are.
    fn make_directory(&self, directory: &Path) -> Result<(), TestbedError> {
        std::fs::create_dir(directory).map_err(|error| self.not_made(directory, "make", &error))?;
        if let Some(key) = &self.key {
            encryption::encrypt(directory, key).map_err(|errno| {
                not_encrypted(
                    self.member,
                    "FS_IOC_SET_ENCRYPTION_POLICY",
                    directory,
                    errno,
                )
            })?;
        }
        Ok(())
    }

    fn give_to_user(&self, directory: &Path) -> Result<(), TestbedError> {
        let fail = |verb: &str, error: &std::io::Error| self.not_made(directory, verb, error);
        let (uid, gid) = self.user;
        // File systems without owners refuse this, and show the owner from the mount options.
        let changed = std::os::unix::fs::chown(directory, Some(uid), Some(gid));
        let shown = std::fs::metadata(directory).map_err(|error| fail("stat", &error))?;
        if std::os::unix::fs::MetadataExt::uid(&shown) != uid {
            changed.map_err(|error| fail("chown", &error))?;
        }
        rustix::fs::chmod(directory, 0o755.into()).map_err(|errno| fail("chmod", &errno.into()))
    }

    fn not_made(&self, directory: &Path, verb: &str, error: &std::io::Error) -> TestbedError {
        TestbedError::trial(format!("{} cannot be written to", self.member.name()))
            .tried(attempt(verb, directory, error))
    }

    fn describe(
        &mut self,
        request: &FileSystemRequest<'_>,
        formatted: Formatted,
        inspection: Inspection,
    ) -> Result<Provisioned, TestbedError> {
        let spec = request.spec;
        let space = self.free_space()?;
        let free_bytes = space.bytes.unwrap_or(u64::MAX);
        self.beyond_slice = self
            .slice
            .map_or(0, |slice| free_bytes.saturating_sub(slice));
        let mut notes = space.notes();
        let external = self.journal.as_ref();
        let shown = |option: &String| {
            external.map_or_else(|| option.clone(), |journal| journal.reword(option))
        };
        let options: Vec<String> = self.options.iter().map(shown).collect();
        if options.len()
            > spec.mount_options().len()
                + external.map_or(0, |journal| journal.arguments.mount.len())
        {
            notes.push(format!(
                "mounted with {} so that nothing is discarded behind a measurement",
                options.join(",")
            ));
        }
        notes.extend(external.map(|journal| {
            let device = journal.names.1.display();
            format!("its journal is on {device}: bytes and flushes of the device are those of its own device alone")
        }));
        if self.key.is_some() {
            notes.push("encrypted: AES-256-XTS and AES-256-CTS, with a random key that ends with the mount".to_owned());
        }
        notes.extend(self.member.note().map(str::to_owned));
        notes.extend(
            self.member
                .server_version()
                .map(|version| format!("version of the server: {version}")),
        );
        if !self.client_points().is_empty() {
            let clients = self.points().count();
            notes.push(format!(
                "{clients} clients: thread n of a workload uses client n modulo {clients}"
            ));
        }
        let device = self.device_directory.as_deref().and_then(block::size);
        if let Some((device, slice)) = device
            .zip(self.slice)
            .filter(|(device, slice)| device > slice)
        {
            let [device, slice] = [device, slice].map(|bytes| show_bytes(bytes as f64));
            notes.push(format!(
                "a sparse device of {device}, so that it behaves as on a large disk; files have {slice}"
            ));
        }
        let mount_options = mountinfo::at(&self.point)
            .map(|mount| mount.all_options())
            .unwrap_or_default();
        let mount_options: Vec<String> = mount_options.iter().map(shown).collect();
        let record = TargetRecord {
            risks: self.risks(spec, &mount_options, &inspection.features),
            mkfs_version: formatted.version,
            mkfs_command: formatted.command,
            tune_commands: formatted.changes,
            mount_commands: self.member.by_hand(&spec.mount_options()),
            features: inspection.features,
            block_size: inspection.geometry.block_size,
            small_device: device.and_then(|device| self.small_device(device, &inspection.geometry)),
            geometry: Some(inspection.geometry).filter(|geometry| *geometry != Geometry::default()),
            requested_options: spec.options.clone(),
            mount_options,
            driver: self.member.served_by(&self.source),
            medium: self.medium.clone(),
            device: None,
            storage: Vec::new(),
            unproven: Vec::new(),
            over: None,
            notes,
            failed: None,
            unavailable: None,
            controls: Default::default(),
            kernel: None,
        };
        let why = |known: bool, why: &str| {
            if known {
                String::new()
            } else {
                format!("{} {why}", self.member.name())
            }
        };
        let home = self.member.home();
        let durable = matches!(home, Home::Device | Home::Host);
        let abilities = Abilities {
            cold: self.cold,
            kernel_caches_only: !self.is_served()
                && self.member.pooled().is_none()
                && (self.member.server_program().is_none() || self.member.sealing().is_some())
                && self.cold.is_some_and(ColdMethod::empties_kernel_caches),
            durable,
            counters: self.device_directory.is_some(),
            why_not_cold: why(
                self.cold.is_some(),
                match self.member.pooled() {
                    Some(_) => {
                        "has a cache that only an export of its pool empties: it needs root and page-cache=remount"
                    }
                    None if home == Home::Host => {
                        "is served from the page cache of the host, which no guest empties: it is not known to be cold"
                    }
                    None => "keeps its files in memory: they are never cold",
                },
            ),
            why_not_durable: why(durable, "keeps its files in memory: they are never durable"),
            no_maintenance: self.no_maintenance(),
            no_space_limit: self.no_space_limit(),
            own_cache: self.member.pooled().is_some(),
            why_not_warm: self.member.why_not_warm(&spec.options).unwrap_or_default(),
            sealing: self.member.sealing(),
            ..Abilities::default()
        };
        let mut provisioned = Provisioned {
            record,
            root: self.root.clone(),
            client_roots: self
                .client_points()
                .iter()
                .map(|point| point.join(ROOT))
                .collect(),
            abilities,
            free_bytes: free_bytes - self.beyond_slice,
            free_inodes: space.inodes.unwrap_or(u64::MAX),
            device: None,
            held: Held::default(),
            warnings: Vec::new(),
        };
        let storage = Storage::beneath_path(
            &self.point,
            self.device_directory.as_deref(),
            &Roots::default(),
        );
        if asks_for_memory(self.member, spec) {
            provisioned.record.storage = storage.layers();
        } else {
            storage.restrict(request.name, &mut provisioned);
        }
        Ok(provisioned)
    }

    /// Returns the limit of a device of `bytes`, if it is too small for the file system to behave
    /// as on a large disk.
    fn small_device(&self, bytes: u64, geometry: &Geometry) -> Option<SmallDevice> {
        let size = self
            .member
            .device_size()
            .filter(|size| bytes < size.least)?;
        let name = self
            .device_directory
            .as_ref()?
            .file_name()?
            .to_string_lossy();
        let new_files = (size.new_files)(&name, geometry, &Roots::default());
        Some(SmallDevice {
            bytes,
            least: size.least,
            new_files,
        })
    }

    /// Returns the risks of the file system, of a control, and of the devices beneath.
    fn risks(
        &self,
        spec: &FileSystemSpec,
        mount_options: &[String],
        features: &[String],
    ) -> Vec<Risk> {
        // Without its tools a file system shows no feature at all.
        let is_known = !features.is_empty();
        let used = is_known.then(|| self.member.used_features(&self.source, features));
        let mut risks = fs::risks_found(self.member, spec, mount_options, used.as_deref());
        if self.held.no_flushes {
            risks.push(Risk {
                cause: "barriers=off".to_owned(),
                loss: fs::UNFLUSHED.to_owned(),
            });
        }
        risks.extend(
            self.device_directory
                .as_deref()
                .map_or_else(Vec::new, storage::risks_of_device),
        );
        risks
    }

    fn is_served(&self) -> bool {
        self.mounted
            .as_ref()
            .is_some_and(|mounted| mounted.server.is_some())
    }

    /// Empties the caches with the method of the control. The root path stays valid.
    pub fn make_cold(
        &mut self,
        medium: Option<&mut dyn OpenMedium>,
        reach: ColdReach,
    ) -> Result<(), TestbedError> {
        let roots = Roots::default();
        match self.cold {
            None => Err(TestbedError::trial(format!(
                "{} is never cold",
                self.member.name()
            ))),
            Some(ColdMethod::Evict) => self.sync_clients(),
            Some(ColdMethod::DropCaches) => {
                self.sync_clients()?;
                quiet::drop_caches(&roots)
            }
            Some(ColdMethod::Remount) => {
                let medium = medium.ok_or_else(|| TestbedError::machine("the medium is closed"))?;
                self.unmount()?;
                medium.take_back()?;
                match reach {
                    ColdReach::Target if self.bypasses_caches_beneath() => self.empty_buffers()?,
                    _ => quiet::drop_caches(&roots)?,
                }
                self.mount(Some(medium))
            }
        }
    }

    /// Returns the maintenance operations that are not measured on it, with the reasons.
    fn no_maintenance(&self) -> BTreeMap<Maintenance, String> {
        let frozen =
            "a run that is killed would leave the file system frozen: add --in vm".to_owned();
        let (tools, name) = (self.member.tools(), self.member.name());
        let why = |operation| match operation {
            Maintenance::Freeze => Some(frozen.clone()),
            Maintenance::Scrub => {
                (!self.member.scrubs()).then(|| format!("fsb knows no online check of {name}"))
            }
            Maintenance::Check => tools
                .is_none_or(|tools| tools.check.is_empty())
                .then(|| format!("fsb knows no program that checks {name} without repairs")),
            _ => match self.member.maintenance(operation, &self.point) {
                Some(commands) => {
                    let program = &commands.timed[0];
                    let package = tools.map_or("", |tools| tools.package);
                    program::find(program)
                        .is_none()
                        .then(|| format!("{program} is missing: install {package}"))
                }
                None => Some(match operation {
                    Maintenance::Shrink => format!("{name} does not shrink while it is mounted"),
                    Maintenance::Defragment => {
                        format!("fsb knows no program that defragments a mounted {name}")
                    }
                    _ => format!("{name} has no subvolumes and snapshots"),
                }),
            },
        };
        Maintenance::ALL
            .into_iter()
            .filter_map(|operation| Some((operation, why(operation)?)))
            .collect()
    }

    /// Returns the reason why no quota limits the space of a directory. Returns an empty text if
    /// one can.
    fn no_space_limit(&self) -> String {
        if self.has_project_quotas() || self.subvolume(OwnDirectory::default()).is_some() {
            return String::new();
        }
        let name = self.member.name();
        match self.member.project_quotas() {
            Some(target) => format!("its project quotas are off: use {target}"),
            None => format!("fsb knows no quota that limits a directory of {name}"),
        }
    }

    fn has_project_quotas(&self) -> bool {
        let options = mountinfo::at(&self.point)
            .map(|mount| mount.all_options())
            .unwrap_or_default();
        options.iter().any(|option| option == "prjquota")
    }

    /// Returns the directory of a background. Only root can exchange it, because the directory
    /// above it is root's.
    fn own_directory(&self) -> PathBuf {
        self.point.join("fsb-own")
    }

    fn subvolume(&self, own: OwnDirectory) -> Option<SubvolumeCommands> {
        let space = own.space.map(|space| space.0);
        self.member
            .subvolume(&self.point, &self.source, &self.own_directory(), space)
    }

    /// Creates a directory for the files of a background: a subvolume if it is to be one or if only
    /// those are limited here, otherwise the root of a project.
    pub fn make_own_directory(&mut self, own: OwnDirectory) -> Result<PathBuf, TestbedError> {
        /// Any number but 0, which all other files have.
        const PROJECT: u32 = 1;
        let directory = self.own_directory();
        let SubvolumeCommands { make, remove } = self.subvolume(own).unwrap_or_default();
        self.remove_own = Some(remove);
        if !make.is_empty() {
            make.iter().try_for_each(|words| self.run(words))?;
        } else if own.subvolume {
            return Err(TestbedError::trial(format!(
                "{} has no subvolumes",
                self.member.name()
            )));
        } else {
            self.make_directory(&directory)?;
            if let Some(space) = own.space {
                let name = self.member.name();
                quota::limit_project(&directory, &self.source, PROJECT, space.0).map_err(
                    |error| {
                        TestbedError::trial(format!(
                            "the space of a background cannot be limited on {name}"
                        ))
                        .tried(attempt(
                            "set the project quota of",
                            &directory,
                            &error,
                        ))
                    },
                )?;
            }
        }
        self.give_to_user(&directory)?;
        Ok(directory)
    }

    /// Removes the directory of a background with its files. Takes all steps, and returns the first
    /// error.
    pub fn remove_own_directory(&mut self) -> Result<(), TestbedError> {
        let directory = self.own_directory();
        // If it is not there, the first step of making it failed.
        let Some(commands) = self.remove_own.take().filter(|_| directory.exists()) else {
            return Ok(());
        };
        let all: Vec<_> = commands.iter().map(|words| self.run(words)).collect();
        if directory.exists() {
            fsb_store::remove_tree(&directory).map_err(|error| {
                TestbedError::trial("the directory of a background remains")
                    .tried(attempt("remove", &directory, &error))
            })?;
        }
        all.into_iter().collect()
    }

    fn run(&self, words: &[String]) -> Result<(), TestbedError> {
        let package = self.member.tools().map_or("", |tools| tools.package);
        run(words, package, &self.point, &self.held).map(drop)
    }

    /// Performs an operation on the whole file system. The root path stays valid.
    pub fn maintain(
        &mut self,
        operation: Maintenance,
        medium: Option<&mut dyn OpenMedium>,
    ) -> Result<Option<Maintained>, TestbedError> {
        match (operation, medium) {
            (Maintenance::Freeze, _) => match kernel::freeze_and_thaw(&self.point) {
                Ok(time) => Ok(Some(Maintained {
                    time,
                    ..Maintained::default()
                })),
                Err(Errno::OPNOTSUPP | Errno::NOTTY) => Ok(None),
                Err(errno) => Err(TestbedError::trial(
                    "the file system could not be frozen and thawed",
                )
                .tried(attempt("FIFREEZE and FITHAW", &self.point, &errno.into()))),
            },
            (Maintenance::Scrub, _) if self.member.scrubs() => {
                // Dirty data would not be on the device yet.
                quiet::sync(&self.point)?;
                match kernel::scrub(&self.point) {
                    Ok((time, 0)) => Ok(Some(Maintained {
                        time,
                        ..Maintained::default()
                    })),
                    Ok((_, errors)) => Err(TestbedError::trial(format!(
                        "the scrub found {errors} errors"
                    ))),
                    Err(errno) => Err(TestbedError::trial("the file system could not be scrubbed")
                        .tried(attempt("BTRFS_IOC_SCRUB", &self.point, &errno.into()))),
                }
            }
            (Maintenance::Check, Some(medium)) => {
                self.unmount()?;
                medium.take_back()?;
                self.empty_buffers()?;
                if !self.bypasses_caches_beneath() {
                    quiet::drop_caches(&Roots::default())?;
                }
                let checked = self.check(medium);
                self.mount(Some(medium))?;
                checked
            }
            (Maintenance::Check, None) => Ok(None),
            (operation, _) => self
                .repeatable(operation)
                .map(|perform| perform())
                .transpose(),
        }
    }

    /// Returns an operation that its commands perform on the mounted file system. Returns `None` if
    /// it has none.
    pub fn repeatable(&self, operation: Maintenance) -> Option<RepeatableMaintenance> {
        let commands = self.member.maintenance(operation, &self.point)?;
        let package = self.member.tools().map_or("", |tools| tools.package);
        let (point, held) = (self.point.clone(), self.held.clone());
        Some(Box::new(move || perform(&commands, package, &point, &held)))
    }

    /// Runs the checking program on the unmounted device.
    fn check(&self, medium: &mut dyn OpenMedium) -> Result<Option<Maintained>, TestbedError> {
        let Some(tools) = self.member.tools() else {
            return Ok(None);
        };
        let Some((name, arguments)) = tools.check.split_first() else {
            return Ok(None);
        };
        let path = program::require(name, tools.package)?;
        // Reads the program itself into memory, which is not part of the check.
        program::run(&path, &["-V"])?;
        let journal = self
            .journal
            .iter()
            .flat_map(|journal| &journal.arguments.check)
            .map(OsStr::new);
        let arguments = arguments.iter().map(OsStr::new).chain(journal);
        let arguments: Vec<&OsStr> = arguments.chain([self.source.as_os_str()]).collect();
        medium.lend();
        let run = program::run_timed(&path, &arguments, &self.source, |command| {
            self.held.start(command, &[])
        });
        medium.take_back()?;
        medium.verify()?;
        let (output, time, cpu_seconds) = run?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let error = TestbedError::trial(format!("{name} found errors ({})", output.status));
            return Err(as_shown(
                error.tried(program::last_lines(&said)),
                &self.source,
                &self.shown,
            ));
        }
        Ok(Some(Maintained { time, cpu_seconds }))
    }

    /// Empties the kernel's buffers of the unmounted device. A FUSE server reads through them, and
    /// they hold metadata blocks.
    fn empty_buffers(&self) -> Result<(), TestbedError> {
        let opened = rustix::fs::open(
            &self.source,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        opened
            .map_err(std::io::Error::from)
            .and_then(|device| block::flush_buffers(&device))
            .map_err(|error| {
                TestbedError::trial("the device's buffers could not be emptied").tried(attempt(
                    "BLKFLSBUF",
                    &self.source,
                    &error,
                ))
            })
    }

    /// Returns whether no file system beneath caches its data: no loop device beneath is without
    /// direct I/O.
    fn bypasses_caches_beneath(&self) -> bool {
        self.device_directory.as_ref().is_some_and(|device| {
            Storage::beneath_device(device, &Roots::default())
                .buffered()
                .is_none()
        })
    }

    /// Writes all dirty data out and completes the deferred work.
    pub fn quiesce(&self, left: Duration) -> Result<Quiet, TestbedError> {
        self.client_points()
            .iter()
            .try_for_each(|point| quiet::sync(&point.join(ROOT)))?;
        let idle = fs::Idle {
            point: &self.point,
            source: &self.source,
        };
        match &self.device_directory {
            Some(device) => quiet::quiesce_own(
                &self.root,
                device,
                &|| self.member.finish_background_work(&idle),
                left,
            ),
            None => quiet::quiesce(&self.root, None, left),
        }
    }

    /// Writes all dirty data out. Does not complete the deferred work of the file system.
    pub fn sync(&self) -> Result<(), TestbedError> {
        self.sync_clients()?;
        // A FUSE server writes through the device's own pages, which a syncfs of its mount does not
        // cover.
        let idle = fs::Idle {
            point: &self.point,
            source: &self.source,
        };
        if self.is_served() {
            self.member.finish_background_work(&idle)?;
        }
        self.export().map_or(Ok(()), Export::sync)
    }

    /// Writes out what each client holds. Without further clients, that is all dirty data.
    fn sync_clients(&self) -> Result<(), TestbedError> {
        self.points()
            .try_for_each(|point| quiet::sync(&point.join(ROOT)))
    }

    fn export(&self) -> Option<Export> {
        self.mounted.as_ref()?.export
    }

    /// Returns the mount points of all its clients. A file system without a server has one.
    fn points(&self) -> impl Iterator<Item = &Path> {
        [self.point.as_path()]
            .into_iter()
            .chain(self.client_points().iter().map(PathBuf::as_path))
    }

    fn client_points(&self) -> &[PathBuf] {
        self.mounted
            .as_ref()
            .map_or(&[], |mounted| &mounted.client_points)
    }

    /// Returns the remote procedure calls of its NFS clients since they were mounted.
    pub fn rpcs(&self) -> Option<Rpcs> {
        self.export()?;
        rpcs_of_mounts(&Roots::default(), &self.points().collect::<Vec<_>>())
    }

    /// Unmounts and waits until the device is free. A mount that remains is an error, because it
    /// would make the next one warm.
    fn unmount(&mut self) -> Result<(), TestbedError> {
        let Some(mounted) = self.mounted.take() else {
            return Ok(());
        };
        let points = mounted.client_points.iter().chain([&self.point]);
        let unmounted: Vec<_> = points
            .map(|point| kernel::unmount_patiently(point, PATIENCE))
            .collect();
        for point in &mounted.client_points {
            // An empty directory on fsb's tmpfs.
            let _ = std::fs::remove_dir(point);
        }
        let ended = mounted
            .server
            .map_or(Ok(()), |mut server| match server.end_patiently() {
                true => Ok(()),
                false => Err(self.did_not_end(&server.complaint())),
            });
        let beneath = mounted
            .beneath
            .map_or(Ok(None), |point| fs::unmount_beneath(&point));
        let unexported = mounted.export.map_or(Ok(()), Export::end);
        let closed = mounted.pool.map_or(Ok(()), |pool| pool.export());
        let lazily: Vec<_> = unmounted
            .into_iter()
            .chain([beneath])
            .collect::<Result<_, _>>()?;
        match lazily.into_iter().flatten().next() {
            Some(note) => Err(TestbedError::trial("the target is still in use").tried(note)),
            None => ended.and(unexported).and(closed),
        }
    }

    /// Returns the error of a server that did not end with its mount. `complaint` is the end of its
    /// standard error.
    fn did_not_end(&self, complaint: &str) -> TestbedError {
        let served = self.member.served_by(&self.source);
        let name = served.as_deref().unwrap_or(self.member.name());
        TestbedError::trial(format!(
            "the server {name} did not end after the unmount and was killed"
        ))
        .tried(match complaint {
            "" => "it wrote no message".to_owned(),
            complaint => complaint.to_owned(),
        })
        .advice("a server must end when its file system is unmounted: until then its caches are not cold")
    }

    /// Unmounts and returns the device to the medium.
    pub fn end(
        mut self,
        medium: Option<&mut dyn OpenMedium>,
        ledger: Option<&Ledger>,
    ) -> Result<(), TestbedError> {
        let unmounted = self.unmount();
        let closed = ledger.map_or(Ok(()), |ledger| close_pool(self.pool.take(), ledger));
        let unmounted = unmounted.and(closed);
        // An empty directory on fsb's tmpfs.
        let _ = std::fs::remove_dir(&self.point);
        unmounted.and(medium.map_or(Ok(()), |medium| {
            medium.note_used();
            medium.take_back()
        }))
    }
}

/// Closes the pool of a target, if it has one, and removes the entry of the undo ledger.
fn close_pool(pool: Option<EntryHandle>, ledger: &Ledger) -> Result<(), TestbedError> {
    pool.map_or(Ok(()), |entry| ledger.undo(entry).map(drop))
}

/// Reborrows the medium. An `Option` around a mutable reference is not reborrowed implicitly.
fn again<'a>(medium: &'a mut Option<&mut dyn OpenMedium>) -> Option<&'a mut dyn OpenMedium> {
    match medium {
        Some(medium) => Some(&mut **medium),
        None => None,
    }
}

/// The result of formatting, the features and geometry, and the rates of the raw device before it.
type Made = (Formatted, Inspection, Option<std::io::Result<DeviceRates>>);

/// Probes the raw device. Fails if a page cache beneath it would answer.
fn probe_past_caches(
    request: &FileSystemRequest<'_>,
    device: &Path,
) -> std::io::Result<DeviceRates> {
    let roots = Roots::default();
    let directory = block::number_of(device).and_then(|number| number.directory(&roots));
    let buffered =
        directory.and_then(|directory| Storage::beneath_device(&directory, &roots).buffered());
    match buffered.filter(|_| !asks_for_memory(request.member, request.spec)) {
        Some(flaw) => Err(std::io::Error::other(flaw.to_string())),
        None => probe(device),
    }
}

fn format(
    request: &FileSystemRequest<'_>,
    medium: &mut dyn OpenMedium,
    journal: Option<&ReadyJournal>,
) -> Result<Made, TestbedError> {
    let FileSystemRequest {
        member,
        spec,
        point,
        oldest,
        large,
        ..
    } = request;
    let prepared_with = options(*member, spec, Some(&*medium));
    let complete = |device: &Path| {
        member.prepare(&MountRequest {
            source: device,
            point,
            options: &prepared_with,
            size: request.size,
            owner: request.user,
            sealed: false,
        })
    };
    let Some(tools) = member.tools() else {
        medium.renew()?;
        show_size(request, medium, None)?;
        medium.verify()?;
        lend(medium, &mut |device| complete(device))?;
        return Ok((Formatted::default(), Inspection::default(), None));
    };
    // Checked again, because a path that did not exist or was a directory may be a device by now.
    fs::check_foreign(spec)?;
    let mkfs = fs::mkfs(tools, spec)?;
    let program = fs::version_of(&mkfs, tools).and_then(|text| Version::find(&text));
    let mut user = spec.mkfs_arguments();
    if let Some(oldest) = oldest {
        user = member.mkfs_for(&user, *oldest, program);
    }
    let of_journal = journal.iter().map(|journal| &journal.arguments.mkfs);
    user.extend(of_journal.flatten().cloned());
    let large_size = request
        .member
        .device_size()
        .filter(|size| is_smaller_slice(medium, size));
    medium.renew()?;
    show_size(request, medium, large_size.map(|_| 0))?;
    let bytes = block::number_of(medium.device())
        .and_then(|number| block::size(&number.directory(&Roots::default())?));
    let fitted = bytes.map_or_else(Vec::new, |bytes| {
        fs::fit(*member, large.as_ref(), (bytes, request.like_disk), &user)
    });
    let arguments: Vec<String> = fitted.into_iter().chain(user).collect();
    medium.verify()?;
    // mkfs overwrites the data that the probe writes.
    let probed = Some(probe_past_caches(request, medium.device()));
    if let Some(size) = large_size {
        prepare(request, medium, size, ((tools, &mkfs), &arguments))?;
    }
    let (mut formatted, inspection) = lend(medium, &mut |device| {
        if let Some(pooled) = member.pooled() {
            let (command, inspection) = pooled.make(device, &spec.options, &arguments)?;
            let formatted = Formatted {
                command,
                changes: Vec::new(),
                version: fs::version_of(&mkfs, tools),
            };
            return Ok((formatted, Some(inspection)));
        }
        journal.map_or(Ok(()), |journal| {
            fs::make_journal(*member, &journal.arguments, &journal.names.0)
        })?;
        let made = fs::format((tools, &mkfs), device, &arguments)?;
        let changes = fs::tune(*member, device, point, &spec.tune)?;
        complete(device)?;
        Ok((Formatted { changes, ..made }, None))
    })?;
    for word in formatted
        .command
        .iter_mut()
        .chain(formatted.changes.iter_mut().flatten())
    {
        *word = word.replace(
            &*medium.device().to_string_lossy(),
            &medium.shown().to_string_lossy(),
        );
        *word = journal.map_or_else(|| word.clone(), |journal| journal.reword(word));
    }
    let inspection = inspection.unwrap_or_else(|| member.inspect(medium.device()));
    Ok((formatted, inspection, probed))
}

/// Lends the device of a medium to programs and takes it back.
fn lend<T>(
    medium: &mut dyn OpenMedium,
    use_device: &mut dyn FnMut(&Path) -> Result<T, TestbedError>,
) -> Result<T, TestbedError> {
    medium.lend();
    let used = use_device(medium.device());
    let taken = medium.take_back().and_then(|()| medium.verify());
    // The first error is the one that explains.
    let used = used.map_err(|error| as_shown(error, medium.device(), medium.shown()))?;
    taken.map(|()| used)
}

/// Returns whether the device has holes and a slice on which the file system does not behave as on
/// a large disk.
fn is_smaller_slice(medium: &mut dyn OpenMedium, size: &DeviceSize) -> bool {
    medium
        .range()
        .is_some_and(|range| range.slice().bytes < size.least)
}

/// Gives a device with holes its size: that of a large disk with `lead` bytes before the slice, or
/// that of the slice for `None`.
fn show_size(
    request: &FileSystemRequest<'_>,
    medium: &mut dyn OpenMedium,
    lead: Option<u64>,
) -> Result<(), TestbedError> {
    let Some(range) = medium.range() else {
        return Ok(());
    };
    let window = lead.map_or(range.slice(), |lead| range.window(lead, request.like_disk));
    medium.show(window, request.ledger)
}

/// Prepares a device with holes for a file system that depends on its size. Makes it to find the
/// places that it writes first, and moves its first data to the slice. Then writes over those
/// places that are holes.
fn prepare(
    request: &FileSystemRequest<'_>,
    medium: &mut dyn OpenMedium,
    size: &DeviceSize,
    (made_by, arguments): ((&fs::Tools, &Path), &[String]),
) -> Result<(), TestbedError> {
    if let Some(lead) = medium.range().and_then(|range| range.lead_of(arguments)) {
        show_size(request, medium, Some(lead))?;
        return write_over_missing(request, medium, &[]);
    }
    let slice = medium.range().map_or(0, |range| range.slice().bytes);
    let find_first = &mut |device: &Path| {
        fs::format(made_by, device, arguments)?;
        Ok((size.first_writes)(device, slice).unwrap_or_default())
    };
    let first = lend(medium, find_first)?;
    show_size(request, medium, Some(first.data))?;
    let first = lend(medium, find_first)?;
    write_over_missing(request, medium, &first.places)?;
    medium
        .range()
        .into_iter()
        .for_each(|range| range.prepare_for(arguments));
    Ok(())
}

/// Writes over those of these places, and of the places that file systems used before, that are
/// holes.
fn write_over_missing(
    request: &FileSystemRequest<'_>,
    medium: &mut dyn OpenMedium,
    places: &[Range<u64>],
) -> Result<(), TestbedError> {
    let Some(range) = medium.range() else {
        return Ok(());
    };
    let missing = range.missing(&[places, &range.used()].concat());
    write_over(medium.device(), &missing, request.seed).map_err(|error| {
        TestbedError::trial("a sparse device could not be written over")
            .tried(attempt("write to", medium.shown(), &error))
            .advice("choose a smaller --size, or a --dir with more space")
    })?;
    medium
        .range()
        .into_iter()
        .for_each(|range| range.add(&missing));
    Ok(())
}

/// Writes incompressible bytes to these places of an unused device, past its page cache.
fn write_over(device: &Path, places: &[Range<u64>], seed: u64) -> std::io::Result<()> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    if places.is_empty() {
        return Ok(());
    }
    let device = rustix::fs::open(device, flags, Mode::empty())?;
    block::fill(device.as_fd(), places, seed, &mut |_| {})
}

/// Replaces the private node in the program's messages by the name that the user knows.
fn as_shown(error: TestbedError, node: &Path, shown: &Path) -> TestbedError {
    let reword = |text: String| text.replace(&*node.to_string_lossy(), &shown.to_string_lossy());
    TestbedError {
        what: reword(error.what),
        tried: reword(error.tried),
        advice: reword(error.advice),
        ..error
    }
}

/// Returns the error of a file system whose files cannot be encrypted.
fn not_encrypted(member: &dyn FileSystem, call: &str, path: &Path, errno: Errno) -> TestbedError {
    let error = TestbedError::trial(format!("{} could not encrypt its files", member.name()));
    let error = error.tried(attempt(call, path, &errno.into()));
    match errno {
        Errno::OPNOTSUPP | Errno::NOTTY => {
            error.advice("leave out encrypt: this kernel has no fscrypt for it")
        }
        _ => error,
    }
}

/// Returns the user's options, and the option that prevents discards on a device that supports
/// them.
fn options(
    member: &dyn FileSystem,
    spec: &FileSystemSpec,
    medium: Option<&dyn OpenMedium>,
) -> Vec<String> {
    let mut options = spec.mount_options();
    let decided = options.iter().any(|option| is_about_discard(option));
    if let Some(option) = member
        .discard_off()
        .filter(|_| !decided && medium.is_some_and(OpenMedium::can_discard))
    {
        options.push(option.to_owned());
    }
    options
}

/// Returns the key of the medium of an external journal among the media of a run.
pub(super) fn journal_key(medium: &Medium) -> String {
    format!("journal:{medium}")
}

/// Returns whether an option is `discard`, `discard=async` or `nodiscard`.
pub(super) fn is_about_discard(option: &str) -> bool {
    matches!(option.split('=').next(), Some("discard" | "nodiscard"))
}

pub(super) fn free_space(root: &Path) -> Result<FreeSpace, TestbedError> {
    FreeSpace::at(root).map_err(|error| {
        TestbedError::trial("the target's free space is unknown")
            .tried(attempt("statvfs", root, &error))
    })
}

// The remote procedure calls of a mounted NFS client, as /proc/self/mountstats counts them.

/// Returns the calls of the NFS clients at these mount points since they were mounted. Returns
/// `None` if no NFS client is there.
fn rpcs_of_mounts(roots: &Roots, points: &[&Path]) -> Option<Rpcs> {
    parse_rpcs(&roots.proc_text("self/mountstats")?, points)
}

/// Parses the counters of each procedure: calls, transmissions, timeouts, bytes sent, bytes
/// received, and times (`rpc_clnt_show_stats` of net/sunrpc/stats.c).
fn parse_rpcs(text: &str, points: &[&Path]) -> Option<Rpcs> {
    let is_own = |device: &str| {
        points.iter().any(|point| {
            device.contains(&format!(" mounted on {} with fstype nfs", point.display()))
        })
    };
    let mut found = None;
    // The first part is before the first device.
    for mount in text
        .split("device ")
        .skip(1)
        .filter(|mount| is_own(mount.lines().next().unwrap_or_default()))
    {
        add_rpcs(found.get_or_insert_default(), mount);
    }
    found
}

fn add_rpcs(rpcs: &mut Rpcs, mount: &str) {
    for line in mount
        .lines()
        .skip_while(|line| line.trim() != "per-op statistics")
        .skip(1)
    {
        let Some((name, counters)) = line.trim().split_once(": ") else {
            continue;
        };
        let counters: Vec<u64> = counters
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let [calls, transmissions, _timeouts, sent, received, ..] = counters[..] else {
            continue;
        };
        if calls == 0 {
            continue;
        }
        rpcs.calls += calls;
        rpcs.retransmissions += transmissions.saturating_sub(calls);
        rpcs.sent_bytes += sent;
        rpcs.received_bytes += received;
        if name == "READ" {
            rpcs.read_bytes += received;
        }
        *rpcs.procedures.entry(name.to_owned()).or_default() += calls;
    }
}

/// Runs the commands of an operation on the mounted file system, and times one of them.
fn perform(
    commands: &MaintenanceCommands,
    package: &str,
    point: &Path,
    held: &Held,
) -> Result<Maintained, TestbedError> {
    let run = |words: &Vec<String>| run(words, package, point, held);
    commands
        .before
        .iter()
        .try_for_each(|words| run(words).map(drop))?;
    let done = run(&commands.timed)?;
    commands
        .after
        .iter()
        .try_for_each(|words| run(words).map(drop))?;
    Ok(done)
}

/// Runs a command on the file system that is mounted at `point`.
fn run(
    words: &[String],
    package: &str,
    point: &Path,
    held: &Held,
) -> Result<Maintained, TestbedError> {
    let program = program::require(&words[0], package)?;
    // Named by its mount point, the target is the one that the program sees.
    let run = program::run_timed(&program, &words[1..], point, |command| {
        held.start(command, &[])
    });
    let (output, time, cpu_seconds) = run?;
    match output.status.success() {
        true => Ok(Maintained { time, cpu_seconds }),
        false => {
            Err(
                TestbedError::trial(format!("{} failed ({})", words.join(" "), output.status))
                    .tried(program::complaint(&output)),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
    device proc mounted on /proc with fstype proc
device 127.1.0.1:/254-1 mounted on /run/fsb/1 with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576
\tage:\t7
\tevents:\t1 2 0 0 0 5 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
\tbytes:\t0 0 0 0 0 0 0 0
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 1 0 7 20 20 0 20 0 2 0 0
\tper-op statistics
\t        NULL: 0 0 0 0 0 0 0 0 0
\t        READ: 3 4 0 600 12600 0 1 1 0
\t     GETATTR: 2 2 0 400 480 0 0 0 0

device 127.1.0.2:/254-2 mounted on /run/fsb/12 with fstype nfs4 statvers=1.1
\tper-op statistics
\t       WRITE: 1 1 0 4300 120 0 0 0 0
";

    fn of(points: &[&str]) -> Option<Rpcs> {
        parse_rpcs(TEXT, &points.iter().map(Path::new).collect::<Vec<_>>())
    }

    #[test]
    fn calls_and_bytes_of_mounts_are_added_up() {
        let rpcs = of(&["/run/fsb/1"]).unwrap();
        assert_eq!((rpcs.calls, rpcs.retransmissions), (5, 1));
        assert_eq!(
            (rpcs.sent_bytes, rpcs.received_bytes, rpcs.read_bytes),
            (1000, 13_080, 12_600)
        );
        assert_eq!(
            rpcs.procedures,
            [("GETATTR".to_owned(), 2), ("READ".to_owned(), 3)].into()
        );
        assert_eq!(of(&["/run/fsb/12"]).unwrap().sent_bytes, 4300);
        assert_eq!(of(&["/run/fsb/1", "/run/fsb/12"]).unwrap().sent_bytes, 5300);
    }

    #[test]
    fn a_mount_that_is_not_nfs_has_no_calls() {
        assert_eq!(of(&["/proc"]), None);
        assert_eq!(of(&["/run/fsb"]), None);
        assert_eq!(parse_rpcs("", &[Path::new("/")]), None);
    }
}
