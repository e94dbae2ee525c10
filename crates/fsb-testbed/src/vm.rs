//! The host's half of a testbed in a virtual machine: it checks the setup and makes and lends the
//! disks before the guest makes targets.
//!
//! This code needs no root, does not change the machine and does not start a virtual machine. Disks
//! are files without a name, or block devices of the user. A file disappears with the last process
//! that holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fsb_model::run::MediumRecord;
use fsb_model::target::{COMPOSED, is_setting};
use fsb_model::units::{show_bytes, show_size};
use fsb_model::{FileSystemSpec, Medium, Target, TargetKind, Warning};
use fsb_sys::error::{TestbedError, attempt};
use fsb_sys::{Roots, memory, program};

use crate::control;
use crate::fs::{self, FileSystem, Home};
use crate::ledger::{self, EntryHandle, Ledger, Owner};
use crate::medium::{self, Claimed, MediumRequest, Member, VM_SERIAL};
use crate::storage::Storage;
use crate::testbed::{Opened, Provisioned, Setup};
use crate::{Progress, host, local};

// The checks of a run in a virtual machine that are possible on this machine before anything is
// changed.
//
// The guest checks the requirements on its kernel and processors when it has booted, before
// anything is made in it.

/// Checks for invalid requests first, then for missing features of this machine. Returns warnings.
pub fn check(setup: &Setup) -> Result<Vec<Warning>, TestbedError> {
    if setup.targets.is_empty() {
        return Err(TestbedError::request("there is nothing to measure")
            .coded(&fsb_model::error::NO_TARGET)
            .advice("name a target, such as ext4"));
    }
    let asked = setup.targets.iter().flat_map(|target| &target.controls);
    for (name, value) in setup.controls.iter().chain(asked) {
        check_control(name, value)?;
    }
    check_targets(setup)?;
    local::check_cache_limits(setup)?;
    check_memory(setup)?;
    let sizes = medium_sizes(setup)?;
    local::check_sizes(setup, &sizes)?;
    let mut warnings = Vec::new();
    if sizes.len() > 1 {
        warnings.push(Warning::DifferentMedia);
    }
    Ok(warnings)
}

/// Checks whether the targets can be made in a guest, as far as requests and the programs of this
/// machine decide. The result does not depend on free memory and space, so it stays the same until
/// the last boot.
pub fn check_targets(setup: &Setup) -> Result<(), TestbedError> {
    for target in &setup.targets {
        check_target(target).map_err(|error| local::naming(target, error))?;
    }
    needs(setup).map(drop)
}

/// Checks the free memory. A guest takes all of its memory at its start, and the hypervisor process
/// takes some more.
fn check_memory(setup: &Setup) -> Result<(), TestbedError> {
    const BESIDE: u64 = 128 << 20;
    let Some(vm) = setup.vm else { return Ok(()) };
    let roots = Roots::default();
    let available = memory::meminfo(&roots, "MemAvailable").unwrap_or(u64::MAX);
    let available = memory::cgroup_headroom(&roots).map_or(available, |limit| available.min(limit));
    let needed = vm.memory.0.saturating_add(BESIDE);
    if available >= needed {
        return Ok(());
    }
    Err(
        TestbedError::machine("too little memory for the virtual machine")
            .coded(&fsb_model::error::NO_MEMORY)
            .field("needed_bytes", needed)
            .tried(format!(
                "{} available, {} needed: --memory {} and what QEMU takes",
                show_size(available),
                show_size(needed),
                vm.memory
            ))
            .advice("choose a smaller --memory, or end what uses memory here"),
    )
}

/// Checks names and values by the tables. The guest checks what depends on its processors and
/// devices.
fn check_control(name: &str, value: &str) -> Result<(), TestbedError> {
    control::check_declared(control::find(name)?, value)
}

fn check_target(target: &Target) -> Result<(), TestbedError> {
    let Some(spec) = target.file_system() else {
        return Err(TestbedError::request(
            "a virtual machine does not see the directories of this one",
        )
        .advice("name a file system such as ext4, or leave out --in vm"));
    };
    let member = fs::of_target(spec)?;
    fs::check(member, spec)?;
    fs::check_foreign(spec)?;
    if spec.journal.is_some() {
        return Err(
            TestbedError::request("a virtual machine has no external journals")
                .advice("leave out journal=, or --in vm and --kernel"),
        );
    }
    match member.home() {
        Home::Device => {
            medium::check(&spec.medium)?;
        }
        Home::Host => {
            fs::refuse_medium(spec, "its files are in a directory of the host")?;
            share_server(member)?;
        }
        Home::Memory | Home::Nowhere => {}
    }
    Ok(())
}

/// Returns the program that serves the directory of a target. Returns `None` if QEMU itself does.
fn share_server(member: &dyn FileSystem) -> Result<Option<PathBuf>, TestbedError> {
    let Some(server) = member.share_server() else {
        return Ok(None);
    };
    if !is_root() {
        let what = format!("{} needs root", member.name());
        return Err(TestbedError::machine(what)
            .coded(&fsb_model::error::NEEDS_ROOT)
            .tried("its server opens the files of every user")
            .advice("run it as root, or measure 9p"));
    }
    for place in server.places {
        let path = Path::new(place).join(server.name);
        if path.is_file() {
            return Ok(Some(path));
        }
    }
    program::require(server.name, server.package).map(Some)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns whether a run of `setup` in a virtual machine can leave changes on this machine that
/// the kernel does not revert: directories that guests share.
pub fn may_leave(setup: &Setup) -> bool {
    setup.targets.iter().any(|target| shared(target).is_some())
}

/// Returns the file system of a target whose files are in a directory of this machine.
fn shared(target: &Target) -> Option<&'static dyn FileSystem> {
    let member = fs::of_target(target.file_system()?).ok()?;
    (member.home() == Home::Host).then_some(member)
}

/// Files that programs read if they exist: the features that mkfs gives to ext2, ext3 and ext4.
const FILES: [&str; 1] = ["/etc/mke2fs.conf"];

/// The requirements on a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Programs of this machine.
    pub programs: Vec<PathBuf>,
    /// Kernel modules by name, or what must be built in.
    pub modules: Vec<String>,
    /// Modules that the guest loads if its kernel has them.
    pub optional_modules: Vec<String>,
    /// Files, at the same paths as on this machine.
    pub files: Vec<PathBuf>,
}

/// Modules of ciphers and hashes that fscrypt requests at run time.
const CIPHERS: &[&str] = &[
    "aes_generic",
    "aesni_intel",
    "cbc",
    "cts",
    "ecb",
    "xts",
    "hmac",
    "sha256_generic",
    "sha512_generic",
];

/// Directories of this machine in whose place a guest has others.
const HIDDEN: [&str; 5] = ["/tmp", "/run", "/dev", "/proc", "/sys"];

/// Refuses a mkfs program that a guest does not see.
fn check_visible(spec: &FileSystemSpec) -> Result<(), TestbedError> {
    let path = Path::new(spec.mkfs_program().unwrap_or_default());
    match HIDDEN.iter().find(|hidden| path.starts_with(hidden)) {
        None => Ok(()),
        Some(hidden) => Err(TestbedError::request(format!(
            "{}: a virtual machine has a {hidden} of its own",
            path.display()
        ))
        .advice("copy the program to another directory")),
    }
}

/// Returns the requirements of the targets of `setup` on a guest. If this machine lacks a program,
/// the error names its package.
pub fn needs(setup: &Setup) -> Result<Needs, TestbedError> {
    let mut programs = BTreeSet::new();
    let mut files: BTreeSet<_> = FILES
        .iter()
        .map(PathBuf::from)
        .filter(|path| path.exists())
        .collect();
    let (mut modules, mut optional) = (BTreeSet::new(), BTreeSet::new());
    for spec in setup
        .targets
        .iter()
        .filter_map(|target| target.file_system())
    {
        let member = fs::of_target(spec)?;
        if let Some(tools) = member.tools() {
            programs.extend(fs::programs(tools, spec)?);
            check_visible(spec)?;
        }
        if let Some((name, package)) = member.server_program() {
            programs.insert(fs::require_server(name, package)?);
        }
        for (name, package) in member.server_helpers() {
            programs.insert(program::require(name, package)?);
        }
        files.extend(member.server_files()?);
        programs.extend(
            member
                .maintenance_programs()
                .iter()
                .filter_map(|name| program::find(name)),
        );
        let of_options = member.modules_of_options(&spec.options);
        modules.extend(
            fs::with_beneath(member)
                .flat_map(|member| member.modules().iter().copied())
                .chain(of_options)
                .map(str::to_owned),
        );
        let ciphers = if spec.is_encrypted() { CIPHERS } else { &[] };
        optional.extend(
            fs::with_beneath(member)
                .flat_map(|member| member.helper_modules())
                .chain(ciphers)
                .map(|name| (*name).to_owned()),
        );
        // Images in files become disks of the guest.
        let members = Some(&spec.medium).filter(|medium| medium.is_composed());
        let media = std::iter::once(spec.medium.name.as_str())
            .chain(members.into_iter().flat_map(Medium::members));
        for name in media.filter(|name| *name != "loop" && !name.starts_with('/')) {
            modules.extend(
                medium::find(name)?
                    .modules()
                    .iter()
                    .map(|name| (*name).to_owned()),
            );
        }
    }
    Ok(Needs {
        programs: programs.into_iter().collect(),
        modules: modules.into_iter().collect(),
        optional_modules: optional.into_iter().collect(),
        files: files.into_iter().collect(),
    })
}

// The guest's disks: the image or device behind each, and the names that the guest's targets use.
//
// The one image of a run becomes disk 0 and the medium `vm:0`. Members of an array and block
// devices become disks of their own. The guest's results are translated back to the names of the
// plan, which the record contains.

/// A disk to lend to a guest.
#[derive(Debug)]
pub struct HostDisk {
    /// Open for reading and writing, past the page cache.
    pub file: OwnedFd,
    /// The serial number by which the guest finds it.
    pub serial: String,
}

/// A directory of this machine to share with a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostShare {
    pub path: PathBuf,
    /// The name by which the guest mounts it.
    pub tag: String,
    /// The program that serves it. QEMU does if there is none.
    pub server: Option<PathBuf>,
}

impl HostShare {
    /// Adds what is beneath a shared directory on this machine, and how it is served.
    fn provisioned(&self, target: &str, provisioned: &mut Provisioned) {
        let storage = Storage::beneath_path(&self.path, None, &Roots::default());
        storage.restrict_guest(1, target, provisioned);
        let note = match (&self.server, is_root()) {
            (Some(server), _) => format!("served by {} as it is by default", server.display()),
            (None, true) => "served by QEMU with security_model=passthrough".to_owned(),
            (None, false) => {
                "served by QEMU with security_model=mapped-xattr: owners and modes are extended attributes of the host's files".to_owned()
            }
        };
        provisioned.record.notes.push(note);
    }
}

/// The directory behind a target.
#[derive(Debug)]
struct SharedDirectory {
    target: String,
    share: HostShare,
    handle: EntryHandle,
}

/// The directories of a run that guests share. They are removed with this value.
#[derive(Debug)]
struct Shares {
    ledger: Ledger,
    directories: Vec<SharedDirectory>,
}

impl Shares {
    /// Makes a directory for each target that needs one. Returns `None` if none does.
    fn make(setup: &Setup, owner: Owner) -> Result<Option<Shares>, TestbedError> {
        if !may_leave(setup) {
            return Ok(None);
        }
        let mut shares = Shares {
            ledger: Ledger::open(&ledger::default_directory()?, owner, control::RULES)?,
            directories: Vec::new(),
        };
        for target in &setup.targets {
            if let Some(member) = shared(target) {
                shares.add(&target.name, member, &setup.dir)?;
            }
        }
        Ok(Some(shares))
    }

    fn add(
        &mut self,
        target: &str,
        member: &dyn FileSystem,
        within: &Path,
    ) -> Result<(), TestbedError> {
        let unusable = |path: &Path, verb: &str, error: std::io::Error| {
            TestbedError::machine(format!("no directory for {target} in {}", within.display()))
                .tried(attempt(verb, path, &error))
                .advice("choose another directory of the host with --dir")
        };
        let within = within
            .canonicalize()
            .map_err(|error| unusable(within, "resolve", error))?;
        let uid = rustix::process::geteuid().as_raw();
        let (path, handle) = self.ledger.record_directory(&within, uid)?;
        // Users of this machine stay out, and those of the guest get in.
        let shared = path.join("shared");
        let share = HostShare {
            path: shared.clone(),
            tag: format!("{SHARE_TAG}{}", self.directories.len()),
            server: share_server(member)?,
        };
        self.directories.push(SharedDirectory {
            target: target.to_owned(),
            share,
            handle,
        });
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| unusable(&path, "make", error))?;
        std::fs::create_dir(&shared).map_err(|error| unusable(&shared, "make", error))?;
        rustix::fs::chmod(&shared, 0o755.into())
            .map_err(|errno| unusable(&shared, "chmod", errno.into()))
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        for directory in self.directories.drain(..) {
            // What cannot be removed stays in the ledger, for the coordinator or 'fsb clean'.
            let _ = self.ledger.undo(directory.handle);
        }
    }
}

/// The name of the medium of a target in a guest whose files are in a shared directory.
const SHARED: &str = "shared";

/// The beginning of the tags of shared directories.
const SHARE_TAG: &str = "fsbshare";

/// The image or the device behind a disk of the guest.
#[derive(Debug)]
struct HostMedium {
    file: OwnedFd,
    record: MediumRecord,
    /// The storage of the image or the device on this machine.
    storage: Storage,
}

/// All disks of a run, overwritten once.
#[derive(Debug, Default)]
pub struct Disks {
    disks: Vec<HostMedium>,
    /// The names of each medium in the plan and in the guest.
    names: Vec<(String, Medium)>,
    /// The reasons why arrays are not ranked, by their names in the guest, which does not know the
    /// devices behind its disks.
    unjudged: BTreeMap<String, String>,
    shares: Option<Shares>,
}

/// Returns the bytes of each medium of `setup`, by its text. Fails if one cannot be made.
fn medium_sizes(setup: &Setup) -> Result<BTreeMap<String, u64>, TestbedError> {
    local::check_same_device(setup)?;
    let mut sizes = BTreeMap::new();
    for (text, request) in local::media(setup) {
        let size = match request.medium.name.as_str() {
            // The guest's kernel joins them.
            _ if request.medium.is_composed() => medium::find(&request.medium.name)?
                .composed()
                .map_or(Ok(0), |composed| composed.check_members(&request))?,
            #[cfg(any(test, feature = "faults"))]
            "fault" => medium::fault_members(&request).map(|(_, members)| members[0].1)?,
            name => medium::find(name)?.check(&request)?,
        };
        sizes.insert(text, size);
    }
    Ok(sizes)
}

impl Disks {
    /// Creates images and claims devices, overwrites each once, and makes the directories that
    /// guests share, which belong to `owner` in the ledger. `outside` shows all processes of the
    /// machine.
    pub fn open(
        setup: &Setup,
        owner: Owner,
        outside: Option<&Roots>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Disks, TestbedError> {
        let mut disks = Disks::default();
        for (text, request) in local::media(setup) {
            let request = MediumRequest { outside, ..request };
            let medium = disks.medium(&request, progress)?;
            disks.names.push((text, medium));
        }
        disks.shares = Shares::make(setup, owner)?;
        Ok(disks)
    }

    /// Returns the guest's name of a medium.
    fn medium(
        &mut self,
        request: &MediumRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Medium, TestbedError> {
        match request.medium.name.as_str() {
            "loop" => {
                let file = medium::make_filled_image(request, progress)?;
                Ok(self.add(HostMedium {
                    file,
                    record: image_record(request),
                    storage: Storage::beneath_path(request.dir, None, &Roots::default()),
                }))
            }
            "device" => {
                let Claimed {
                    device,
                    file,
                    record,
                } = medium::claim(request, progress)?;
                let roots = Roots::default();
                let storage = device
                    .number()
                    .directory(&roots)
                    .map(|device| Storage::beneath_device(&device, &roots));
                Ok(self.add(HostMedium {
                    file,
                    record,
                    storage: storage.unwrap_or_default(),
                }))
            }
            _ if request.medium.is_composed() => self.composed(request, progress),
            #[cfg(any(test, feature = "faults"))]
            "fault" => {
                let (kind, members) = medium::fault_members(request)?;
                let mut argument = kind.to_owned();
                for (medium, size) in &members {
                    let request = MediumRequest {
                        medium,
                        size: *size,
                        ..*request
                    };
                    argument += &format!("+{}", self.medium(&request, progress)?);
                }
                Ok(Medium {
                    name: "fault".to_owned(),
                    argument: Some(argument),
                })
            }
            // Memory of the guest, which needs nothing from this machine.
            _ => Ok(request.medium.clone()),
        }
    }

    /// Makes the members of a medium that the guest's kernel makes of them.
    fn composed(
        &mut self,
        request: &MediumRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Medium, TestbedError> {
        let kind = medium::find(&request.medium.name)?;
        let members = kind
            .composed()
            .map_or(Ok(Vec::new()), |composed| composed.members(request))?;
        let settings = request.medium.settings();
        let mut texts: Vec<String> = settings
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        for (place, Member { medium, size }) in (0..).zip(&members) {
            let seed = request.seed.wrapping_add(place);
            let request = MediumRequest {
                medium,
                size: *size,
                seed,
                ..*request
            };
            texts.push(self.medium(&request, progress)?.to_string());
        }
        let inside = Medium {
            name: request.medium.name.clone(),
            argument: Some(texts.join("+")),
        };
        if let Some(why) = medium::shared_disk(&request.medium.to_string(), &members, request.dir) {
            self.unjudged.insert(inside.to_string(), why);
        }
        Ok(inside)
    }

    fn add(&mut self, medium: HostMedium) -> Medium {
        let number = self.disks.len();
        self.disks.push(medium);
        Medium {
            name: "vm".to_owned(),
            argument: Some(number.to_string()),
        }
    }

    /// Duplicates each disk for a guest.
    pub fn lend(&self) -> Result<Vec<HostDisk>, TestbedError> {
        let lend = |(number, HostMedium { file, .. }): (usize, &HostMedium)| {
            let file = file.try_clone().map_err(|error| {
                TestbedError::machine("a disk cannot be lent to the virtual machine").tried(&error)
            })?;
            Ok(HostDisk {
                file,
                serial: format!("{VM_SERIAL}{number}"),
            })
        };
        self.disks.iter().enumerate().map(lend).collect()
    }

    /// Returns the directories that every guest can mount.
    pub fn shares(&self) -> Vec<HostShare> {
        let all = self.shared().iter();
        all.map(|directory| directory.share.clone()).collect()
    }

    fn shared(&self) -> &[SharedDirectory] {
        self.shares
            .as_ref()
            .map_or(&[], |shares| &shares.directories)
    }

    /// Returns the directory behind a target.
    fn share_of(&self, target: &str) -> Option<&HostShare> {
        let mut all = self.shared().iter();
        let found = all.find(|directory| directory.target == target)?;
        Some(&found.share)
    }

    /// Returns the target with the guest's name of its medium, or the tag of its directory.
    pub fn for_guest(&self, target: &Target) -> Target {
        let mut target = target.clone();
        if let (Some(share), TargetKind::FileSystem(spec)) =
            (self.share_of(&target.name), &mut target.kind)
        {
            spec.medium = Medium {
                name: SHARED.to_owned(),
                argument: Some(share.tag.clone()),
            };
            return target;
        }
        if let TargetKind::FileSystem(spec) = &mut target.kind
            && let Some((_, medium)) = self
                .names
                .iter()
                .find(|(text, _)| *text == spec.medium.to_string())
        {
            spec.medium = medium.clone();
        }
        target
    }

    /// Returns the plan's name of the medium of that text.
    fn in_plan(&self, guest: &str) -> String {
        let known = self
            .names
            .iter()
            .find(|(_, medium)| medium.to_string() == guest);
        known.map_or_else(|| guest.to_owned(), |(text, _)| text.clone())
    }

    /// Renames the guest's media to the plan's names, and completes their records.
    pub fn opened(&self, opened: &mut Opened) {
        let media = std::mem::take(&mut opened.media);
        opened.media = media
            .into_iter()
            .map(|(text, found)| (self.in_plan(&text), self.record(&text, found)))
            .collect();
        let slices = std::mem::take(&mut opened.slices);
        opened.slices = slices
            .into_iter()
            .map(|(text, slices)| (self.in_plan(&text), slices))
            .collect();
    }

    /// Renames the medium to the plan's name, and adds what is beneath the guest's disks on this
    /// machine.
    pub fn provisioned(&self, target: &str, provisioned: &mut Provisioned) {
        if let Some(share) = self.share_of(target) {
            share.provisioned(target, provisioned);
        }
        let Some(medium) = provisioned.record.medium.clone() else {
            return;
        };
        let depth = provisioned
            .record
            .storage
            .iter()
            .map(|layer| layer.depth + 1)
            .max()
            .unwrap_or(0);
        let numbers = medium
            .split('+')
            .filter_map(|part| part.rsplit_once("vm:")?.1.parse::<usize>().ok());
        for disk in numbers.filter_map(|number| self.disks.get(number)) {
            disk.storage.restrict_guest(depth, target, provisioned);
        }
        provisioned.record.medium = Some(self.in_plan(&medium));
    }

    /// Adds the identity of the device behind a disk of the guest to its record. A resume compares
    /// that.
    fn record(&self, guest: &str, mut found: MediumRecord) -> MediumRecord {
        let number = guest
            .strip_prefix("vm:")
            .and_then(|number| number.parse::<usize>().ok());
        if let Some(HostMedium { record: own, .. }) =
            number.and_then(|number| self.disks.get(number))
        {
            found.device.serial.clone_from(&own.device.serial);
            found.device.backing.clone_from(&own.device.backing);
            found.device.beneath.clone_from(&own.device.beneath);
            found.direct = own.direct;
            found.filled.clone_from(&own.filled);
            found.summary.clone_from(&own.summary);
        }
        let composed = guest
            .split_once(':')
            .filter(|(name, _)| COMPOSED.contains(name));
        if let Some((_, argument)) = composed {
            let members = argument.split('+').filter(|part| !is_setting(part));
            for (member, text) in found.device.beneath.iter_mut().zip(members) {
                let inside = MediumRecord {
                    device: std::mem::take(member),
                    ..MediumRecord::default()
                };
                *member = self.record(text, inside).device;
            }
            found.device.backing = Some(medium::stands_on(found.device.beneath.iter()));
        }
        found.unjudged = found.unjudged.or_else(|| self.unjudged.get(guest).cloned());
        found
    }
}

/// Returns the record of an image as far as this machine knows it. The guest knows the device that
/// it becomes.
fn image_record(request: &MediumRequest<'_>) -> MediumRecord {
    let shown = show_bytes(request.size as f64);
    let (backing, number) = medium::backing(request.dir);
    let beneath =
        number.map(|number| host::device_manifest(&Roots::default(), (number.0, number.1)));
    let device = fsb_model::host::DeviceManifest {
        size_bytes: request.size,
        backing: Some(backing),
        beneath: beneath.into_iter().collect(),
        ..Default::default()
    };
    MediumRecord {
        device,
        direct: Some(true),
        filled: Some(format!("{shown} of incompressible bytes, O_DIRECT")),
        summary: format!("vm disk {shown}, direct"),
        unjudged: None,
    }
}

#[cfg(test)]
pub(crate) use tests::setup as setup_of;

#[cfg(test)]
mod tests {
    use fsb_model::Identity;

    use super::*;

    pub(crate) fn setup(targets: &[&str]) -> Setup {
        let targets = targets
            .iter()
            .map(|text| text.parse().expect("a target"))
            .collect();
        Setup {
            targets,
            size: 64 << 20,
            slices: 1,
            dir: "/var/tmp".into(),
            wipe: Vec::new(),
            devices: Default::default(),
            controls: Default::default(),
            identity: Identity::default(),
            patience: None,
            memory_needed: None,
            seed: 1,
            vm: None,
            root: None,
            kernels: Vec::new(),
            oldest_kernel: None,
            large_disk: Default::default(),
            like_disk: 0,
            fault: None,
            background_limits: Vec::new(),
        }
    }

    #[test]
    fn errors_known_on_the_host_are_reported_before_a_boot() {
        let refusal = |targets: &[&str]| check(&setup(targets)).unwrap_err().to_string();
        assert!(refusal(&["/srv"]).contains("does not see the directories"));
        assert!(refusal(&["btfrs"]).contains("did you mean 'btrfs'"));
        assert!(refusal(&["ext4@/dev/null"]).contains("is not a block device"));
        assert!(refusal(&[r#"ext4,mkfs="-J device=/dev/null""#]).contains("reaches beyond"));
        let mut small = setup(&["xfs"]);
        small.size = 1 << 20;
        assert!(
            check(&small)
                .unwrap_err()
                .to_string()
                .contains("needs at least")
        );
        let mut large = setup(&["ext4"]);
        large.vm = Some(fsb_model::plan::VmSize {
            memory: fsb_model::Bytes(1 << 50),
            cpus: 1,
        });
        let error = check(&large).unwrap_err();
        assert!(
            error.kind == crate::Kind::Machine && error.to_string().contains("--memory 1P"),
            "{error}"
        );
        assert_eq!(
            check_targets(&large),
            Ok(()),
            "what is left of memory says nothing about a target"
        );
        assert!(check_targets(&setup(&["btfrs"])).is_err());
        let mut asked = setup(&["ext4"]);
        asked.controls = [("page-cache".to_owned(), "sideways".to_owned())].into();
        assert!(
            check(&asked)
                .unwrap_err()
                .to_string()
                .contains("page-cache")
        );
    }

    #[test]
    fn programs_and_drivers_of_the_targets_are_named() {
        let needs = needs(&setup(&[
            "ext4",
            "ext4,noatime",
            "ext4@raid0:loop+loop",
            "tmpfs",
        ]))
        .unwrap();
        let names: Vec<_> = needs
            .programs
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        assert!(
            names.contains(&"mkfs.ext4") && names.contains(&"dumpe2fs"),
            "{names:?}"
        );
        assert!(
            ["ext4", "raid0"]
                .iter()
                .all(|name| needs.modules.contains(&(*name).to_owned()))
        );
        assert!(
            !needs.modules.contains(&"loop".to_owned()),
            "loop images become disks: {:?}",
            needs.modules
        );
    }

    #[test]
    fn media_have_two_names() {
        let dir = tempfile::Builder::new()
            .prefix("fsb-vm-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let mut setup = setup(&["ext4", "xfs", "ext4@ram"]);
        setup.dir = dir.path().to_owned();
        setup.size = 1 << 20;
        let disks = Disks::open(&setup, Owner::current(), None, &mut |_| {}).unwrap();
        let texts: Vec<_> = setup
            .targets
            .iter()
            .map(|target| disks.for_guest(target).to_string())
            .collect();
        assert!(
            texts[0].ends_with("ext4@vm:0") && texts[1].ends_with("xfs@vm:0"),
            "one image for both: {texts:?}"
        );
        assert!(texts[2].ends_with("ext4@ram"), "{texts:?}");
        let lent = disks.lend().unwrap();
        assert_eq!(
            lent.iter()
                .map(|disk| disk.serial.as_str())
                .collect::<Vec<_>>(),
            ["fsb0"]
        );
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            0,
            "the image has no name"
        );

        let mut opened = Opened::default();
        opened
            .media
            .insert("vm:0".to_owned(), MediumRecord::default());
        opened.slices.insert("vm:0".to_owned(), Vec::new());
        disks.opened(&mut opened);
        assert!(opened.slices.contains_key("loop"), "{:?}", opened.slices);
        let record = &opened.media["loop"];
        assert_eq!(
            (record.summary.as_str(), record.direct),
            ("vm disk 1.00 MiB, direct", Some(true))
        );
        assert!(record.device.backing.is_some() && record.device.serial.is_none());
        // An array is identified by the devices behind its members, because its own number is new
        // each time.
        let numbered = |serial: &str| fsb_model::host::DeviceManifest {
            serial: Some(serial.to_owned()),
            ..Default::default()
        };
        let mut array = MediumRecord::default();
        array.device.beneath = vec![numbered("fsb0"), numbered("fsb0")];
        let found = disks.record("raid0:vm:0+vm:0", array).device;
        let one = opened.media["loop"].device.backing.clone().unwrap();
        assert_eq!(found.backing, Some(format!("{one} + {one}")));
    }
}
