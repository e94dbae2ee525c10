//! A block device of the user. Every possible problem with it must end in a refusal.
//!
//! Its `discard_max_bytes` stays unchanged: since Linux 6.9 a 0 there also makes the discard
//! granularity 0, and the kernel accepts no later value until the device is removed. mkfs and mount
//! options prevent discards instead.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::Target;
use fsb_model::host::DeviceId;
use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use fsb_sys::block::DeviceNumber;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::pinned::{Node, Pinned, Unpinned};
use fsb_sys::{Roots, block, pinned, poll_until, program, read_trimmed, stack};
use rustix::fs::OFlags;

use super::kind::{
    Divided, MediumArgument, MediumKind, MediumRequest, OpenDevice, OpenMedium, filling,
};
use super::partitions;
use super::partitions::Disk;
use super::slices::layout;
use crate::Progress;
use crate::ledger::Ledger;
use crate::{host, privilege};

pub(super) struct Device;

impl MediumKind for Device {
    fn name(&self) -> &'static str {
        "device"
    }

    fn argument(&self) -> Option<&'static MediumArgument> {
        Some(&MediumArgument {
            form: "/dev/NAME",
            about: "block device whose content is lost",
            example: "@/dev/sdb",
            required: true,
        })
    }

    fn about(&self) -> &'static str {
        "A block device, all of it, by its path; one with anything on it needs --wipe."
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        examine(request).map(|candidate| candidate.size)
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        _: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let candidate = examine(request)?;
        // Before the device is overwritten: without a node nothing is written.
        let node = Node::make(
            request.nodes,
            candidate.device.number(),
            candidate.device.shown(),
        )?;
        let Claimed {
            device,
            file: claim,
            record,
        } = write_over(candidate, request, progress)?;
        let limit = record.device.queue.get("discard_max_bytes");
        let can_discard = limit.is_some_and(|text| text != "0");
        device.lock_against_udev();
        Ok(Box::new(OpenDevice {
            device,
            node,
            claim: Some(claim),
            can_discard,
            record,
        }))
    }

    fn size(&self, request: &MediumRequest<'_>) -> Option<u64> {
        let number = block::number_of(Path::new(request.medium.argument.as_deref()?))?;
        block::size(&number.directory(&Roots::default())?)
    }

    fn divisible(&self, request: &MediumRequest<'_>) -> Result<(), Refusal> {
        let path = Path::new(request.medium.argument.as_deref().unwrap_or_default());
        let number = block::number_of(path)
            .ok_or_else(|| format!("{} is not a block device", path.display()))?;
        partitions::divisible(number, &Roots::default())
    }

    fn open_slices(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Divided, TestbedError> {
        let candidate = examine(request)?;
        let bytes = candidate.size;
        partitions::divisible(candidate.device.number(), &Roots::default()).map_err(|why| {
            TestbedError::request(format!(
                "@{} cannot be divided into {} slices",
                request.medium, request.slices
            ))
            .tried(why)
        })?;
        let Claimed {
            device,
            file: claim,
            record,
        } = write_over(candidate, request, progress)?;
        let can_discard = record
            .device
            .queue
            .get("discard_max_bytes")
            .is_some_and(|text| text != "0");
        Disk {
            device,
            can_discard,
            record,
        }
        .divide(layout(bytes, request.slices, None), claim, request, ledger)
    }
}

/// A device that this run has claimed and overwritten once.
pub(crate) struct Claimed {
    /// The device itself, independent of a later change of its name.
    pub device: Pinned,
    /// Opened O_EXCL, for direct I/O.
    pub file: OwnedFd,
    /// The record of the device.
    pub record: MediumRecord,
}

/// Claims the device and overwrites it once.
pub(crate) fn claim(
    request: &MediumRequest<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Claimed, TestbedError> {
    // Examined again, because minutes may have passed since the check. From here on the run holds
    // the device.
    write_over(examine(request)?, request, progress)
}

fn write_over(
    candidate: Candidate,
    request: &MediumRequest<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Claimed, TestbedError> {
    let Candidate {
        device,
        size,
        claim,
    } = candidate;
    let name = device.shown().display().to_string();
    let failed = |error: &io::Error| {
        TestbedError::machine(format!("{name} could not be written over"))
            .tried(attempt("write to", device.shown(), error))
            .advice("check the device (dmesg)")
    };
    let flags = rustix::fs::fcntl_getfl(&claim).map_err(|errno| failed(&errno.into()))?;
    rustix::fs::fcntl_setfl(&claim, flags | OFlags::DIRECT)
        .map_err(|errno| failed(&errno.into()))?;
    block::fill(
        claim.as_fd(),
        std::slice::from_ref(&(0..size)),
        request.seed,
        &mut filling(&name, size, progress),
    )
    .map_err(|error| failed(&error))?;
    block::flush_buffers(&claim).map_err(|error| failed(&error))?;
    let shown = show_bytes(size as f64);
    let number = device.number();
    let record = MediumRecord {
        device: host::device_manifest(&Roots::default(), (number.0, number.1)),
        direct: loop_is_direct(number),
        filled: Some(format!("{shown} of incompressible bytes, O_DIRECT")),
        summary: format!("{name} {shown}"),
        unjudged: None,
    };
    Ok(Claimed {
        device,
        file: claim,
        record,
    })
}

/// Returns whether a loop device bypasses the page cache beneath it. Returns `None` for other
/// devices.
fn loop_is_direct(number: DeviceNumber) -> Option<bool> {
    let flag = read_trimmed(&number.directory(&Roots::default())?.join("loop/dio"))?;
    Some(flag == "1")
}

/// Resolves the names in targets and in the consent to wipe to devices. Omits names that lead to no
/// device; the check refuses them.
pub fn named_devices(targets: &[Target], wipe: &[PathBuf]) -> BTreeMap<PathBuf, DeviceId> {
    let roots = Roots::default();
    let specs = targets.iter().filter_map(Target::file_system);
    // Each member of an array counts.
    let named = specs
        .flat_map(|spec| spec.media())
        .flat_map(fsb_model::Medium::members)
        .filter(|text| text.starts_with('/'));
    let paths = named.map(PathBuf::from).chain(wipe.iter().cloned());
    paths
        .filter_map(|path| Some((path.clone(), pinned::id_at(&path, &roots)?)))
        .collect()
}

/// A device that passed every check, with a claim on it.
struct Candidate {
    device: Pinned,
    size: u64,
    /// Opened O_EXCL.
    claim: OwnedFd,
}

/// Claims the device. Refuses it for every reason against its use, the strongest first. The name is
/// followed only once; all other checks use the device that it led to.
fn examine(request: &MediumRequest<'_>) -> Result<Candidate, TestbedError> {
    let path = PathBuf::from(request.medium.argument.as_deref().unwrap_or_default());
    let shown = path.display();
    let cannot_open = |error: &io::Error| {
        TestbedError::machine(format!("{shown} cannot be opened for writing"))
            .tried(attempt("open", &path, error))
            .advice(format!(
                "{}, or measure a directory (fsb run /path)",
                privilege::advice()
            ))
    };
    let device = Pinned::open(&path).map_err(|why| match why {
        Unpinned::Refused(error) => cannot_open(&error),
        Unpinned::Missing(error) if error.raw_os_error() == Some(libc::EACCES) => {
            cannot_open(&error)
        }
        Unpinned::Missing(_) => no_device(&path, "does not exist"),
        Unpinned::NoBlockDevice => no_device(&path, "is not a block device"),
    })?;
    refuse_another(request, &device)?;
    refuse_used(request, &device)?;
    let claim = device
        .open_again(true, true)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => claimed_by_others(&device),
            Some(libc::EROFS) => read_only(&path),
            _ => cannot_open(&error),
        })?;
    // The claim prevents new mounts. A use that needs no claim may have started since the first
    // check.
    refuse_used(request, &device)?;
    if block::is_read_only(&claim).unwrap_or(true) {
        return Err(read_only(&path));
    }
    if !is_given_up(request, &device) {
        refuse_content(&device)?;
    }
    let directory = device.number().directory(&Roots::default());
    let size = directory
        .and_then(|directory| block::size(&directory))
        .unwrap_or(0);
    if size == 0 {
        return Err(
            TestbedError::machine(format!("{shown} has no size")).advice("is a medium inserted?")
        );
    }
    Ok(Candidate {
        device,
        size,
        claim,
    })
}

fn no_device(path: &Path, what: &str) -> TestbedError {
    TestbedError::request(format!("{} {what}", path.display()))
        .coded(&fsb_model::error::NO_DEVICE)
        .field("path", path.to_string_lossy().into_owned())
        .advice("name a block device such as /dev/sdb1 (see lsblk)")
}

fn read_only(path: &Path) -> TestbedError {
    TestbedError::machine(format!("{} is read-only", path.display()))
        .coded(&fsb_model::error::READ_ONLY_DEVICE)
        .advice("choose another device")
}

/// Refuses a link that was changed since the names were resolved, because it leads to a device that
/// the user did not name.
fn refuse_another(request: &MediumRequest<'_>, device: &Pinned) -> Result<(), TestbedError> {
    let Some(known) = request.devices else {
        return Ok(());
    };
    let (before, now) = (
        known.get(device.shown()).copied(),
        device.id(&Roots::default()),
    );
    if before == Some(now) {
        return Ok(());
    }
    fn describe(id: &DeviceId) -> String {
        let disk = id.sequence.map_or_else(String::new, |sequence| {
            format!(", disk {sequence} of this boot")
        });
        format!("device {}:{}{disk}", id.major, id.minor)
    }
    let before = before
        .as_ref()
        .map_or_else(|| "nothing".to_owned(), describe);
    let shown = device.shown().display();
    Err(TestbedError::request(format!(
        "{shown} leads to another device than when it was named: nothing was changed"
    ))
    .coded(&fsb_model::error::DEVICE_CHANGED)
    .tried(format!(
        "it led to {before}, and now leads to {}",
        describe(&now)
    ))
    .advice("name the device itself (see lsblk), not a link that others can change"))
}

/// Returns whether the user gave up the content of this very device, both when the names were
/// resolved and now.
fn is_given_up(request: &MediumRequest<'_>, device: &Pinned) -> bool {
    let roots = Roots::default();
    let own = device.id(&roots);
    request.wipe.iter().any(|wiped| {
        let then = request
            .devices
            .is_none_or(|known| known.get(wiped) == Some(&own));
        then && pinned::id_at(wiped, &roots) == Some(own)
    })
}

/// The time limit for a program that only inspects a new device, as udev does whenever one is
/// closed.
const LOOK: Duration = Duration::from_secs(5);

/// Refuses a device that is in use, or that shares its bytes with one that is in use.
fn refuse_used(request: &MediumRequest<'_>, device: &Pinned) -> Result<(), TestbedError> {
    let usual = Roots::default();
    let roots = request.outside.unwrap_or(&usual);
    let (mut uses, mut openers) = (Vec::new(), Vec::new());
    poll_until(LOOK, || {
        let stack = stack::look(device.number(), roots);
        openers = stack::openers(&stack.shares, roots);
        uses = stack.uses;
        !uses.is_empty() || openers.is_empty()
    });
    let advice = match (&uses[..], &openers[..]) {
        ([], []) => return Ok(()),
        ([], _) => "end it, or choose another device; --wipe does not change this",
        _ => "unmount or detach it first, or choose another device; --wipe does not change this",
    };
    let (pids, openers): (Vec<u32>, Vec<String>) = openers.into_iter().unzip();
    Err(in_use(device)
        .field("uses", uses.len())
        .field("pids", pids)
        .tried([uses, openers].concat().join("; "))
        .advice(advice))
}

fn in_use(device: &Pinned) -> TestbedError {
    let shown = device.shown();
    TestbedError::request(format!(
        "{} is in use: nothing was changed",
        shown.display()
    ))
    .coded(&fsb_model::error::DEVICE_BUSY)
    .field("path", shown.to_string_lossy().into_owned())
}

/// The uses with which the kernel refuses a claim, without naming one of them.
pub(crate) const CLAIMED: &str =
    "mounted somewhere, swap, part of an array or pool, or a disk with a partition in use";

/// Describes a claim by another user. The kernel's claim holds in every mount namespace, including
/// those that this process cannot see, and for users that the kernel does not name.
fn claimed_by_others(device: &Pinned) -> TestbedError {
    let found = content(device).unwrap_or_default();
    let holds = if found.is_empty() {
        String::new()
    } else {
        format!("; it holds {}", found.join(", "))
    };
    in_use(device)
        .tried(format!(
            "open with O_EXCL: Device or resource busy (EBUSY): {CLAIMED}{holds}"
        ))
        .advice("choose another device; --wipe does not change this")
}

/// Refuses a device with anything on it.
fn refuse_content(device: &Pinned) -> Result<(), TestbedError> {
    let shown = device.shown().display();
    let refused = |what: String, found: Vec<String>, tried: Refusal| {
        TestbedError::request(what)
            .coded(&fsb_model::error::DEVICE_NOT_EMPTY)
            .field("path", shown.to_string())
            .field("signatures", found)
            .tried(tried)
    };
    let advice = format!("to destroy all that is on it: --wipe {shown}");
    match content(device) {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(found) => Err(refused(
            format!("{shown} is not empty: nothing was changed"),
            found.clone(),
            format!("it holds {}", found.join(", ")).into(),
        )
        .advice(advice)),
        Err(tried) => Err(refused(
            format!("cannot tell whether {shown} is empty: nothing was changed"),
            Vec::new(),
            tried,
        )
        .advice(format!("check the device (dmesg); {advice}"))),
    }
}

/// Returns the names of what is on a device: its signatures, or else other data. An empty list
/// means that nothing was found, and that the device could be read. Programs that look for
/// signatures find none in boot code and encrypted data, nor on a device that fails to read.
pub(crate) fn content(device: &Pinned) -> Result<Vec<String>, Refusal> {
    let found = signatures(device)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let directory = device.number().directory(&Roots::default());
    if directory.as_deref().is_some_and(block::has_partitions) {
        return Ok(vec!["partitions that only the kernel knows".to_owned()]);
    }
    let size = directory.as_deref().and_then(block::size).unwrap_or(0);
    match block::is_blank(device.descriptor().as_fd(), size) {
        Ok(true) => Ok(Vec::new()),
        Ok(false) => Ok(vec!["data of an unknown kind".to_owned()]),
        Err(error) => Err(attempt("read", device.shown(), &error)),
    }
}

/// Returns the names of the signatures on a device. `wipefs` knows the most; `blkid` finds the same
/// signatures on older systems. Fails if no program could inspect the device.
fn signatures(device: &Pinned) -> Result<Vec<String>, Refusal> {
    let mut tried = Vec::new();
    for (name, arguments) in [
        ("wipefs", ["-n", "-p"].as_slice()),
        ("blkid", &["-p", "-o", "udev"]),
    ] {
        let Some(program) = program::find(name) else {
            tried.push(format!("{name} is missing (package util-linux)"));
            continue;
        };
        let output = program::run_on(&program, arguments, device.descriptor())
            .map_err(|error| error.to_string())?;
        match (name, output.status.code()) {
            ("wipefs", Some(0)) => {
                return Ok(wipefs_types(&String::from_utf8_lossy(&output.stdout)));
            }
            // 0: found, 8: found several, 2: found nothing, or could not read the device.
            ("blkid", Some(0 | 8)) => {
                return Ok(vec![blkid_type(&String::from_utf8_lossy(&output.stdout))]);
            }
            ("blkid", Some(2)) if output.stderr.is_empty() => return Ok(Vec::new()),
            _ => tried.push(format!(
                "{name}: {}: {}",
                output.status,
                program::last_lines(&output.stderr)
            )),
        }
    }
    Err(tried.join("; ").into())
}

/// Parses lines of `offset,uuid,label,type`, each type once: a pool of ZFS has dozens of labels. A
/// heading starts with `#`. A line of any other form counts as a signature, too.
fn wipefs_types(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut types: Vec<String> = Vec::new();
    for line in lines {
        let kind = line.rsplit(',').find(|slice| !slice.is_empty());
        let kind = kind.unwrap_or(line);
        if !types.iter().any(|known| known == kind) {
            types.push(kind.to_owned());
        }
    }
    types
}

fn blkid_type(text: &str) -> String {
    let value = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(str::to_owned)
    };
    value("ID_FS_TYPE=")
        .or_else(|| value("ID_PART_TABLE_TYPE="))
        .unwrap_or_else(|| {
            "a signature that blkid \
        recognizes"
                .into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_wipefs_is_a_signature() {
        assert_eq!(
            wipefs_types("# offset,uuid,label,type\n0x438,6bcb,a\\x20b,ext4\n0x1fe,,,dos\n"),
            ["ext4", "dos"]
        );
        assert_eq!(wipefs_types("weird\n"), ["weird"]);
        let pool = "0x3f000,1,,zfs_member\n0x3e000,1,,zfs_member\n0x1fe,,,dos\n";
        assert_eq!(wipefs_types(pool), ["zfs_member", "dos"]);
        assert!(wipefs_types("\n# offset,uuid,label,type\n").is_empty());
    }

    #[test]
    fn the_signature_that_blkid_finds_is_reported() {
        assert_eq!(blkid_type("ID_FS_UUID=1\nID_FS_TYPE=swap\n"), "swap");
        assert_eq!(blkid_type("ID_PART_TABLE_TYPE=gpt\n"), "gpt");
        assert!(blkid_type("").contains("blkid"));
    }
}
