//! The checks of a run before anything is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsb_model::error::SAME_DEVICE;
use fsb_model::run::PlacementReason;
use fsb_model::units::{show_bytes, show_size};
use fsb_model::{FileSystemSpec, Target, TargetKind, Warning};
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, magic, memory, mount, mountinfo, program};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::devices;
use super::file_system::{is_about_discard, journal_key};
use crate::access::{self, Obstacle};
use crate::control::ARC_LIMIT;
use crate::control::memory_limit::{MEMORY_LIMIT, limit_of};
use crate::fs::{self, FileSystem, Home};
use crate::medium::{self, GRANULE, MediumRequest, size_for};
use crate::privilege::worker_identity;
use crate::testbed::Setup;
use crate::{control, host, privilege};

/// Directories that belong to fsb itself.
const OWN: [&str; 2] = ["/run/fsb", "/var/lib/fsb"];

/// Checks for invalid requests first, independent of the machine, and then checks the machine.
/// Returns warnings.
pub(super) fn check(setup: &Setup, in_guest: bool) -> Result<Vec<Warning>, TestbedError> {
    if setup.targets.is_empty() {
        return Err(TestbedError::request("no target is named")
            .coded(&fsb_model::error::NO_TARGET)
            .advice("name a target, such as ext4 or /srv/data"));
    }
    check_controls(setup)?;
    for (target, spec, member) in file_systems(setup)? {
        fs::check(member, spec).map_err(|error| naming(target, error))?;
        fs::check_foreign(spec).map_err(|error| naming(target, error))?;
        if member.home() == Home::Device {
            medium::check(&spec.medium)?;
        }
    }
    check_cache_limits(setup)?;
    check_same_device(setup)?;
    check_places(setup)?;
    worker_identity(&setup.identity)?;
    for (target, _, member) in file_systems(setup)? {
        check_place_of(member, in_guest).map_err(|error| naming(target, error))?;
    }
    setup
        .targets
        .iter()
        .filter_map(Target::directory)
        .try_for_each(check_directory)?;
    check_workers(setup)?;
    check_privileges(setup)?;
    for (target, spec, member) in file_systems(setup)? {
        check_tools(spec, member)?;
        check_kernel(member)?;
        // A server reads its own options. Those of a stacked file system are read by two drivers.
        if member.driver() == Some(member.name())
            && member.server_program().is_none()
            && member.beneath().is_none()
        {
            let options = member.mount_options(&spec.mount_options());
            mount::check_options(member.name(), &options, &|option| {
                fs::suggestion(member, option)
            })
            .map_err(|error| naming(target, error))?;
        }
    }
    for request in journals(setup).values() {
        medium::find(&request.medium.name)?.check(request)?;
    }
    let sizes = media(setup)
        .into_iter()
        .map(|(text, request)| Ok((text, medium::find(&request.medium.name)?.check(&request)?)))
        .collect::<Result<BTreeMap<_, _>, TestbedError>>()?;
    check_divisible(setup)?;
    check_sizes(setup, &sizes)?;
    Ok(warnings(setup))
}

/// Checks names, values and mutual exclusions of the controls of the run and of each target.
fn check_controls(setup: &Setup) -> Result<(), TestbedError> {
    let roots = Roots::default();
    control::check(&setup.controls, &roots)?;
    for target in setup
        .targets
        .iter()
        .filter(|target| !target.controls.is_empty())
    {
        let own = control::check_target(&target.controls, &roots);
        own.and_then(|()| control::check(&target.controls_over(&setup.controls), &roots))
            .map_err(|error| naming(target, error))?;
    }
    Ok(())
}

/// Checks the requested controls against the devices of the targets.
fn check_places(setup: &Setup) -> Result<(), TestbedError> {
    for target in &setup.targets {
        let requested = target.controls_over(&setup.controls);
        if !requested.is_empty() {
            control::check_place(&requested, &devices::of_target(target), &Roots::default())
                .map_err(|error| naming(target, error))?;
        }
    }
    Ok(())
}

/// Checks that a memory limit also holds for the cache of a file system that has one of its own.
pub(crate) fn check_cache_limits(setup: &Setup) -> Result<(), TestbedError> {
    for (target, _, member) in file_systems(setup)? {
        let requested = target.controls_over(&setup.controls);
        let bytes_of = |control: &str| limit_of(requested.get(control)?);
        let limit = bytes_of(MEMORY_LIMIT).filter(|_| member.pooled().is_some());
        let Some(limit) = limit else { continue };
        if bytes_of(ARC_LIMIT).is_none_or(|cache| cache > limit) {
            let what = format!(
                "the control {MEMORY_LIMIT} does not hold for the cache of {}",
                member.name()
            );
            let error = TestbedError::request(what)
                .coded(&fsb_model::error::CONTROL_CONFLICT)
                .advice(format!(
                    "add --control {ARC_LIMIT}=SIZE with at most that size"
                ));
            return Err(naming(target, error));
        }
    }
    Ok(())
}

/// Adds the target's name to the error, if the target has a name of its own.
pub(crate) fn naming(target: &Target, error: TestbedError) -> TestbedError {
    let what = format!("target {}: {}", target.name, error.what);
    TestbedError { what, ..error }
}

fn file_systems(
    setup: &Setup,
) -> Result<Vec<(&Target, &FileSystemSpec, &'static dyn FileSystem)>, TestbedError> {
    setup
        .targets
        .iter()
        .filter_map(|target| target.file_system().map(|spec| (target, spec)))
        .map(|(target, spec)| Ok((target, spec, fs::of_target(spec)?)))
        .collect()
}

fn homes(setup: &Setup) -> impl Iterator<Item = Home> {
    let specs = setup.targets.iter().filter_map(Target::file_system);
    specs
        .filter_map(|spec| fs::of_target(spec).ok())
        .map(FileSystem::home)
}

/// Returns whether the run changes the machine. Null targets do not.
pub(super) fn touches_something(setup: &Setup) -> bool {
    mounts_something(setup)
        || setup
            .targets
            .iter()
            .any(|target| target.directory().is_some())
}

/// Returns whether a target must be mounted.
pub(super) fn mounts_something(setup: &Setup) -> bool {
    homes(setup).any(|home| home != Home::Nowhere)
}

/// Refuses two names of one device, because the targets would overwrite each other.
pub(crate) fn check_same_device(setup: &Setup) -> Result<(), TestbedError> {
    let mut seen: BTreeMap<block::DeviceNumber, String> = BTreeMap::new();
    for (text, request) in media(setup).into_iter().chain(journals(setup)) {
        // Each member of an array counts.
        let paths = request.medium.members();
        for number in paths.filter_map(|path| block::number_of(Path::new(path))) {
            if let Some(other) = seen.insert(number, text.clone()) {
                return Err(match other == text {
                    true => {
                        TestbedError::request(format!("two members of {text} are the same device"))
                            .coded(&SAME_DEVICE)
                    }
                    false => {
                        TestbedError::request(format!("{other} and {text} are the same device"))
                            .coded(&SAME_DEVICE)
                    }
                }
                .advice("use one name for it, so that the targets take turns on it"));
            }
        }
    }
    Ok(())
}

/// Returns the spelling to use instead of the bare name of a device.
fn advice_on_device(path: &Path, DeviceNumber(major, minor): DeviceNumber) -> String {
    let shown = path.display();
    match mountinfo::read()
        .into_iter()
        .find(|mount| mount.device == (major, minor))
    {
        // fsb never formats a mounted device.
        Some(mount) => format!(
            "it is mounted: name its directory to measure it: {}",
            mount.point.display()
        ),
        None => format!("to measure a device, say which file system: ext4@{shown}"),
    }
}

/// Returns the error of a directory that stat failed on.
fn not_examined(path: &Path, error: &std::io::Error) -> TestbedError {
    let shown = path.display();
    if path.starts_with("/dev") && error.kind() == std::io::ErrorKind::NotFound {
        return TestbedError::request(format!("{shown} does not exist"))
            .coded(&fsb_model::error::NO_DIRECTORY)
            .field("path", shown.to_string())
            .advice("name a device that lsblk shows, with its file system: ext4@/dev/sdb1");
    }
    let refused = |tried: Refusal| {
        TestbedError::request(format!("the directory {shown} cannot be measured"))
            .coded(&fsb_model::error::NO_DIRECTORY)
            .field("path", shown.to_string())
            .tried(tried)
    };
    match (access::obstacle(path, error), error.kind()) {
        (Some(Obstacle { why, advice }), _) => refused(why.into())
            .coded(&fsb_model::error::DIRECTORY_NOT_WRITABLE)
            .advice(advice),
        (None, std::io::ErrorKind::PermissionDenied) => refused(attempt("stat", path, error))
            .coded(&fsb_model::error::DIRECTORY_NOT_WRITABLE)
            .advice(privilege::advice_on_directory(error)),
        (None, _) => refused(attempt("stat", path, error)).advice("name a directory that exists"),
    }
}

fn check_directory(path: &Path) -> Result<(), TestbedError> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| not_examined(path, &error))?;
    if !metadata.is_dir() {
        let advice = match block::number_of(path) {
            Some(number) => advice_on_device(path, number),
            None => "name a directory".to_owned(),
        };
        return Err(TestbedError::request(format!("{shown} is not a directory"))
            .coded(&fsb_model::error::NO_DIRECTORY)
            .field("path", shown.to_string())
            .advice(advice));
    }
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if OWN.iter().any(|own| real.starts_with(own)) {
        return Err(
            TestbedError::request(format!("{shown} belongs to fsb itself"))
                .advice("name another directory"),
        );
    }
    if magic::is_pseudo(path) {
        return Err(TestbedError::request(format!(
            "{shown} is a virtual file system such as /proc"
        ))
        .advice("name another directory"));
    }
    accessat(
        CWD,
        path,
        Access::WRITE_OK | Access::EXEC_OK,
        AtFlags::EACCESS,
    )
    .map_err(|errno| {
        TestbedError::machine(format!("the directory {shown} cannot be written to"))
            .coded(&fsb_model::error::DIRECTORY_NOT_WRITABLE)
            .field("path", shown.to_string())
            .tried(attempt("access", path, &errno.into()))
            .advice(privilege::advice_on_directory(&errno.into()))
    })
}

/// Checks that the mounts of directories let the workers in. A FUSE mount without `allow_other`
/// admits only the user who mounted it.
fn check_workers(setup: &Setup) -> Result<(), TestbedError> {
    let paths: Vec<&Path> = setup.targets.iter().filter_map(Target::directory).collect();
    if paths.is_empty() {
        return Ok(());
    }
    let user = worker_identity(&setup.identity)?;
    for path in paths {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let Some(Obstacle { why, advice }) = access::obstacle_of_workers(&real, user) else {
            continue;
        };
        let shown = path.display();
        return Err(TestbedError::machine(format!(
            "user {}, who measures, cannot use the directory {shown}",
            user.0
        ))
        .coded(&fsb_model::error::DIRECTORY_NOT_WRITABLE)
        .field("path", shown.to_string())
        .tried(why)
        .advice(advice));
    }
    Ok(())
}

fn check_privileges(setup: &Setup) -> Result<(), TestbedError> {
    if !mounts_something(setup) || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(TestbedError::machine(privilege::NEEDS_ROOT)
        .coded(&fsb_model::error::NEEDS_ROOT)
        .advice(format!(
            "{}, or measure a directory (fsb run /path)",
            privilege::advice()
        )))
}

fn check_tools(spec: &FileSystemSpec, member: &dyn FileSystem) -> Result<(), TestbedError> {
    if let Some((name, package)) = member.server_program() {
        fs::require_server(name, package)?;
    }
    for (name, package) in member.server_helpers() {
        program::require(name, package)?;
    }
    let Some(tools) = member.tools() else {
        return Ok(());
    };
    fs::programs(tools, spec).map(drop)
}

/// Checks that the file system can be measured on this machine itself.
fn check_place_of(member: &dyn FileSystem, in_guest: bool) -> Result<(), TestbedError> {
    match member.only_in_a_guest() {
        Some(why) if !in_guest => Err(TestbedError::machine(format!(
            "{} is measured only in a virtual machine",
            member.name()
        ))
        .coded(&fsb_model::error::ONLY_IN_A_GUEST)
        .field("file_system", member.name())
        .tried(why)
        .advice("add --in vm")),
        _ => Ok(()),
    }
}

/// Checks that the driver, and that of the file system beneath, is built in, loaded, or available
/// as a module.
fn check_kernel(member: &dyn FileSystem) -> Result<(), TestbedError> {
    member
        .beneath()
        .map_or(Ok(()), |beneath| check_kernel(beneath.member))?;
    let Some(driver) = member.driver() else {
        return Ok(());
    };
    let roots = Roots::default();
    if fs::kernel_has(&roots, driver) {
        return Ok(());
    }
    let answer = load_module(&format!("fs-{driver}"));
    if fs::kernel_has(&roots, driver) {
        return Ok(());
    }
    Err(
        TestbedError::machine(format!("this kernel has no {}", member.name()))
            .tried(format!("{driver} is not in /proc/filesystems; {answer}"))
            .advice(member.module_advice().unwrap_or(
                "add --in vm: a kernel that has it is booted in a virtual machine; or leave it out",
            )),
    )
}

/// Runs modprobe and returns its result.
fn load_module(alias: &str) -> String {
    let Some(modprobe) = program::find("modprobe") else {
        return "modprobe is missing".to_owned();
    };
    match program::run(&modprobe, &[alias]) {
        Ok(output) => format!("modprobe {alias}: {}", program::last_lines(&output.stderr)),
        Err(error) => error.to_string(),
    }
}

/// Checks that each file system fits on its medium or its slice. `sizes` are those of the whole
/// media.
pub(crate) fn check_sizes(
    setup: &Setup,
    sizes: &BTreeMap<String, u64>,
) -> Result<(), TestbedError> {
    for (target, spec, member) in file_systems(setup)? {
        let size = match member.home() {
            Home::Device => sizes
                .get(&spec.medium.to_string())
                .copied()
                .unwrap_or(setup.size),
            Home::Memory => setup.size,
            Home::Host | Home::Nowhere => continue,
        };
        let least = member.minimum_size();
        if medium::slice_bytes(size, setup.slices) < least {
            let (tried, advice) = enlarge(setup, spec, size, least);
            let what = format!(
                "{} needs at least {}",
                member.name(),
                show_bytes(least as f64)
            );
            let error = TestbedError::request(what).tried(tried).advice(advice);
            return Err(if target.name == member.name() {
                error
            } else {
                naming(target, error)
            });
        }
    }
    Ok(())
}

fn warnings(setup: &Setup) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if media(setup).len() > 1 {
        warnings.push(Warning::DifferentMedia);
    }
    let available = memory::meminfo(&Roots::default(), "MemAvailable").unwrap_or(u64::MAX);
    if homes(setup).any(|home| home == Home::Memory) && available < setup.size {
        warnings.push(Warning::LargeTmpfs {
            size: setup.size,
            available,
        });
    }
    if let Some(name) = host::manifest()
        .container
        .filter(|_| touches_something(setup))
    {
        warnings.push(Warning::Container { name });
    }
    warnings
}

/// Returns the number of slices into which the medium must be divided so that all targets of the
/// setup are ready at once. It is 1 for a target alone on the whole medium. It is 0 if nothing is
/// divided: directories, a target alone in memory, the null file system.
///
/// # Errors
///
/// The reason why the targets cannot be ready at once.
///
/// In a virtual machine the medium is the guest's disk, which is divided as whole disks are.
///
/// Changes nothing, and ignores [`Setup::slices`]. [`Testbed::check`](crate::Testbed::check) checks
/// that each slice is large enough for its target, with the number of slices in the setup.
pub fn side_by_side(setup: &Setup) -> Result<u32, PlacementReason> {
    if setup
        .targets
        .iter()
        .any(|target| target.kernel != setup.targets[0].kernel)
    {
        return Err(PlacementReason::DifferentKernels);
    }
    if setup.targets.len() > 1 && !journals(setup).is_empty() {
        return Err(PlacementReason::ExternalJournal);
    }
    agree_in_controls(setup)?;
    let slices = u32::try_from(setup.targets.len()).map_err(|_| PlacementReason::TooManyTargets)?;
    let homes: BTreeSet<Sort> = setup.targets.iter().map(sort).collect();
    match homes.iter().collect::<Vec<_>>()[..] {
        [Sort::Null | Sort::Directory] => Ok(0),
        [Sort::Device] if slices == 1 => Ok(1),
        [Sort::Device] => one_divisible_medium(setup).map(|()| slices),
        [Sort::Memory] if slices == 1 => Ok(0),
        [Sort::Memory] => Err(PlacementReason::SharedMemory),
        [] => Err(PlacementReason::NoTargets),
        _ => Err(PlacementReason::MixedKinds),
    }
}

/// Returns the bytes of each slice if the one medium of the setup is divided into `parts`. The size
/// of a device is its own, regardless of [`Setup::size`]. Returns `None` if there are several
/// media, or if the size is unknown. Changes nothing.
pub fn slice_size(setup: &Setup, slices: u32) -> Option<u64> {
    let media = media(setup);
    let (_, request) = media.first_key_value().filter(|_| media.len() == 1)?;
    let size = medium::find(&request.medium.name).ok()?.size(request)?;
    Some(medium::slice_bytes(size, slices))
}

/// The kind of place that a target needs.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Device,
    Memory,
    Null,
    Directory,
}

fn sort(target: &Target) -> Sort {
    match &target.kind {
        TargetKind::Directory(_) => Sort::Directory,
        TargetKind::FileSystem(spec) => match fs::of_target(spec).map(|member| member.home()) {
            Ok(Home::Nowhere) => Sort::Null,
            Ok(Home::Memory) => Sort::Memory,
            Ok(Home::Host) => Sort::Directory,
            // [`check`] refuses an unknown file system.
            Ok(Home::Device) | Err(_) => Sort::Device,
        },
    }
}

/// Checks that all targets have the same controls, because a disk has one setting of each kind, and
/// that none limits memory, which is limited for one target at a time.
fn agree_in_controls(setup: &Setup) -> Result<(), PlacementReason> {
    let mut all = setup
        .targets
        .iter()
        .map(|target| target.controls_over(&setup.controls));
    let Some(first) = all.next() else {
        return Ok(());
    };
    if all.any(|other| other != first) {
        return Err(PlacementReason::DifferentControls);
    }
    match first
        .get(MEMORY_LIMIT)
        .is_some_and(|value| limit_of(value).is_some())
    {
        true => Err(PlacementReason::MemoryLimit),
        false => Ok(()),
    }
}

fn one_divisible_medium(setup: &Setup) -> Result<(), PlacementReason> {
    fn indivisible(cause: String) -> PlacementReason {
        PlacementReason::IndivisibleMedium { cause }
    }
    let media = media(setup);
    match media.first_key_value() {
        Some(_) if media.len() > 1 => Err(PlacementReason::DifferentMedia),
        Some((_, request)) => medium::find(&request.medium.name)
            .map_err(|error| indivisible(error.to_string()))?
            .divisible(request)
            .map_err(|refusal| indivisible(refusal.into())),
        None => Ok(()),
    }
}

/// Refuses to divide a medium that cannot be divided.
fn check_divisible(setup: &Setup) -> Result<(), TestbedError> {
    if setup.slices <= 1 {
        return Ok(());
    }
    for (text, request) in media(setup) {
        medium::find(&request.medium.name)?
            .divisible(&request)
            .map_err(|why| {
                TestbedError::request(format!(
                    "@{text} cannot be divided into {} slices",
                    setup.slices
                ))
                .tried(why)
                .advice("measure one target at a time (fsb run --one-at-a-time)")
            })?;
    }
    Ok(())
}

/// The second remedy for slices that are too small, which races do not have.
pub const ONE_AT_A_TIME: &str = ", or measure one target at a time (fsb run --one-at-a-time)";

/// Returns the remedy for a slice of a medium of `size` bytes that is too small for a file system
/// that needs `least` bytes.
fn enlarge(setup: &Setup, spec: &FileSystemSpec, size: u64, least: u64) -> (String, String) {
    let needed = size_for(least, setup.slices);
    let has = medium::slice_bytes(size, setup.slices);
    let medium = medium::called(&spec.medium, setup.vm.is_some());
    let tried = match setup.slices {
        0 | 1 => format!("{medium} has {}", show_size(size)),
        slices => format!(
            "{medium} has {}: {} for each of {slices} targets side by side",
            show_size(size),
            show_size(has)
        ),
    };
    let alone = if setup.slices > 1 { ONE_AT_A_TIME } else { "" };
    let advice = match spec.medium.name.as_str() {
        "device" if setup.slices > 1 => format!("choose a device of {}{alone}", show_size(needed)),
        "device" => "choose a larger device".to_owned(),
        _ => format!("choose --size {} or more{alone}", fsb_model::Bytes(needed)),
    };
    (tried, advice)
}

/// The smallest image of an external journal: mkfs.xfs makes no smaller log.
const SMALLEST_JOURNAL: u64 = 64 << 20;
/// The largest image of an external journal: mke2fs makes no larger journal for a disk.
const LARGEST_JOURNAL: u64 = 1 << 30;

/// Returns the media of external journals, each once, by their keys. Targets whose journals have
/// the same text take turns on one medium. An image has an eighth of [`Setup::size`], within
/// limits.
pub(crate) fn journals(setup: &Setup) -> BTreeMap<String, MediumRequest<'_>> {
    let journals = setup
        .targets
        .iter()
        .filter_map(|target| target.file_system()?.journal.as_ref());
    let size = (setup.size / 8).clamp(SMALLEST_JOURNAL, LARGEST_JOURNAL) / GRANULE * GRANULE;
    let request = |medium| MediumRequest {
        size,
        seed: setup.seed.wrapping_add(1),
        wipe: &setup.wipe,
        devices: (!setup.devices.is_empty()).then_some(&setup.devices),
        ..MediumRequest::new(medium, &setup.dir)
    };
    journals
        .map(|medium| (journal_key(medium), request(medium)))
        .collect()
}

/// Returns the media of the run, each once, by their text. All targets with the same text share
/// one.
pub(crate) fn media(setup: &Setup) -> BTreeMap<String, MediumRequest<'_>> {
    let mut media: BTreeMap<String, MediumRequest<'_>> = BTreeMap::new();
    for spec in setup.targets.iter().filter_map(Target::file_system) {
        if !fs::of_target(spec).is_ok_and(|member| member.home() == Home::Device) {
            continue;
        }
        let discards = spec
            .options
            .iter()
            .any(|option| is_about_discard(option) && !option.starts_with("no"));
        media
            .entry(spec.medium.to_string())
            .or_insert_with(|| MediumRequest {
                size: setup.size / GRANULE * GRANULE,
                slices: setup.slices,
                seed: setup.seed,
                wipe: &setup.wipe,
                devices: (!setup.devices.is_empty()).then_some(&setup.devices),
                ..MediumRequest::new(&spec.medium, &setup.dir)
            })
            .keep_discard |= discards;
    }
    for (text, request) in &mut media {
        request.range = range(setup, text, request);
    }
    media
}

/// Returns whether a target of the setup behaves as on a large disk: its behaviour does not follow
/// the size of its device, its slice is large enough, or it gets a sparse device. The size of an
/// unknown device is [`Setup::size`].
pub fn behaves_as_large(setup: &Setup, spec: &FileSystemSpec) -> bool {
    let Some(size) = fs::of_target(spec).ok().and_then(FileSystem::device_size) else {
        return true;
    };
    let media = media(setup);
    let Some(request) = media.get(&spec.medium.to_string()) else {
        return true;
    };
    let whole = medium::find(&request.medium.name)
        .ok()
        .and_then(|kind| kind.size(request))
        .unwrap_or(setup.size);
    request.range.is_some() || medium::slice_bytes(whole, setup.slices) >= size.least
}

/// Returns the bytes of the sparse range of each slice of a medium. Returns `None` if no target of
/// it needs one, because its slice is large enough or its behaviour does not follow the size.
fn range(setup: &Setup, medium: &str, request: &MediumRequest<'_>) -> Option<u64> {
    let slice = medium::slice_bytes(request.size, setup.slices);
    let specs = setup.targets.iter().filter_map(Target::file_system);
    let own = specs
        .filter(|spec| spec.medium.to_string() == medium)
        .filter_map(|spec| fs::of_target(spec).ok());
    let is_needed = own
        .filter_map(FileSystem::device_size)
        .any(|size| slice < size.least);
    let range = Some(setup.like_disk).filter(|range| *range > slice);
    let kind = medium::find(&request.medium.name).ok()?;
    range.filter(|_| kind.is_sparse(&MediumRequest { range, ..*request }, is_needed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::setup_of;

    fn unique_setup(targets: &[&str]) -> Setup {
        let mut setup = setup_of(targets);
        fsb_model::target::make_names_unique(&mut setup.targets);
        setup
    }

    fn refused(setup: &Setup) -> PlacementReason {
        side_by_side(setup).unwrap_err()
    }

    #[test]
    fn targets_of_one_medium_directories_and_nothing_real_can() {
        assert_eq!(
            side_by_side(&unique_setup(&["ext4", "xfs", "btrfs"])),
            Ok(3)
        );
        assert_eq!(
            side_by_side(&unique_setup(&["ext4@ram", "ext4@ram"])),
            Ok(2)
        );
        assert_eq!(side_by_side(&unique_setup(&["ext4,discard", "xfs"])), Ok(2));
        assert_eq!(side_by_side(&unique_setup(&["ext4"])), Ok(1));
        assert_eq!(side_by_side(&unique_setup(&["/srv", "/home", "/"])), Ok(0));
        assert_eq!(
            side_by_side(&unique_setup(&["null", "null,noise=1%"])),
            Ok(0)
        );
        assert_eq!(side_by_side(&unique_setup(&["tmpfs"])), Ok(0));
        let images = unique_setup(&["ext4", "xfs", "btrfs"]);
        assert_eq!(
            slice_size(&images, 3),
            Some(medium::slice_bytes(images.size, 3))
        );
        assert_eq!(slice_size(&unique_setup(&["ext4", "ext4@ram"]), 2), None);
        assert_eq!(slice_size(&unique_setup(&["ext4@/dev/null"]), 2), None);
    }

    #[test]
    fn other_targets_take_turns_for_a_reason() {
        let cause = "@raid0:loop+loop cannot be divided".to_owned();
        for (targets, reason) in [
            (
                ["ext4", "ext4@ram"].as_slice(),
                PlacementReason::DifferentMedia,
            ),
            (&["ext4", "/srv"], PlacementReason::MixedKinds),
            (&["null", "ext4"], PlacementReason::MixedKinds),
            (&["ext4", "tmpfs"], PlacementReason::MixedKinds),
            (
                &["tmpfs", "tmpfs,huge=always"],
                PlacementReason::SharedMemory,
            ),
            (
                &["ext4@raid0:loop+loop", "xfs@raid0:loop+loop"],
                PlacementReason::IndivisibleMedium { cause },
            ),
            (
                &["ext4", "ext4,journal=loop"],
                PlacementReason::ExternalJournal,
            ),
            (&[], PlacementReason::NoTargets),
        ] {
            assert_eq!(refused(&unique_setup(targets)), reason, "{targets:?}");
        }
        let mut setup = unique_setup(&["ext4", "xfs"]);
        setup.targets[1]
            .controls
            .insert("scheduler".to_owned(), "none".to_owned());
        assert_eq!(refused(&setup), PlacementReason::DifferentControls);
        setup.targets[0]
            .controls
            .insert("scheduler".to_owned(), "none".to_owned());
        assert_eq!(side_by_side(&setup), Ok(2));
        setup
            .controls
            .insert(MEMORY_LIMIT.to_owned(), "512M".to_owned());
        assert_eq!(refused(&setup), PlacementReason::MemoryLimit);
        setup
            .controls
            .insert(MEMORY_LIMIT.to_owned(), "keep".to_owned());
        assert_eq!(side_by_side(&setup), Ok(2));
        setup.vm = Some(fsb_model::plan::VmSize {
            memory: fsb_model::Bytes(1 << 30),
            cpus: 1,
        });
        assert_eq!(
            side_by_side(&setup),
            Ok(2),
            "the guest's disk is divided there"
        );
        setup.targets[1].kernel = Some("6.12".to_owned());
        assert_eq!(refused(&setup), PlacementReason::DifferentKernels);
    }

    #[test]
    fn a_file_system_that_follows_the_size_of_its_device_gets_a_range_on_a_sparse_medium() {
        let range = |targets: &[&str], like_disk: u64, size: u64| {
            let setup = Setup {
                like_disk,
                size,
                slices: targets.len() as u32,
                ..unique_setup(targets)
            };
            let media = media(&setup);
            media
                .values()
                .map(|request| request.range)
                .collect::<Vec<_>>()
        };
        const LARGE: u64 = 100 << 30;
        assert_eq!(range(&["ext4", "btrfs"], LARGE, 2 << 30), [Some(LARGE)]);
        assert_eq!(range(&["btrfs@ram"], LARGE, 2 << 30), [Some(LARGE)]);
        assert_eq!(range(&["ext4", "xfs"], LARGE, 2 << 30), [None]);
        assert_eq!(
            range(&["btrfs"], LARGE, 30 << 30),
            [None],
            "it is large enough"
        );
        assert_eq!(range(&["btrfs"], 0, 2 << 30), [None], "mkfs chooses");
        assert_eq!(
            range(&["btrfs@/dev/null"], LARGE, 2 << 30),
            [None],
            "a device has no holes"
        );
        let behaves = |target: &str| {
            let setup = Setup {
                like_disk: LARGE,
                ..unique_setup(&[target])
            };
            behaves_as_large(&setup, setup.targets[0].file_system().unwrap())
        };
        let targets = [
            "ext4",
            "btrfs",
            "btrfs@raid0:loop+loop",
            "ext4@raid0:loop+loop",
        ];
        assert_eq!(targets.map(behaves), [true, true, false, true]);
    }

    #[test]
    fn a_memory_limit_needs_a_limit_of_the_cache_of_zfs() {
        let refused = |controls: &[(&str, &str)], target: &str| {
            let mut setup = unique_setup(&[target]);
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            setup.controls = controls.iter().map(owned).collect();
            check_cache_limits(&setup).err().map(|error| error.code)
        };
        let conflict = Some("control/conflict".to_owned());
        let memory = ("memory-limit", "512M");
        assert_eq!(refused(&[memory], "zfs"), conflict);
        assert_eq!(refused(&[memory, ("arc-limit", "1G")], "zfs"), conflict);
        assert_eq!(refused(&[memory, ("arc-limit", "256M")], "zfs"), None);
        assert_eq!(refused(&[("memory-limit", "keep")], "zfs"), None);
        assert_eq!(refused(&[memory], "ext4"), None);
    }

    #[test]
    fn a_slice_that_is_too_small_names_the_size_that_would_do() {
        let mut setup = unique_setup(&["xfs"; 8]);
        (setup.size, setup.slices) = (2 << 30, 8);
        let refusal =
            |setup: &Setup| super::super::check_sizes(setup, &Default::default()).unwrap_err();
        let error = refusal(&setup);
        assert_eq!(error.kind, crate::Kind::Request);
        let size = size_for(300 << 20, 8);
        assert!(
            error
                .to_string()
                .contains(&format!("--size {} or more", fsb_model::Bytes(size))),
            "{error}"
        );
        assert!(error.to_string().contains("each of 8 targets"), "{error}");
        setup.size = size;
        assert_eq!(
            super::super::check_sizes(&setup, &Default::default()),
            Ok(())
        );
        let mut array = unique_setup(&["ext4@raid0:loop+loop", "xfs@raid0:loop+loop"]);
        array.slices = 2;
        assert!(
            check_divisible(&array)
                .unwrap_err()
                .to_string()
                .contains("one target at a time")
        );
    }
}
