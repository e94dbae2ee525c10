//! A block device of the user's. Whatever can be wrong with that must end in a refusal.
//!
//! Its `discard_max_bytes` stays as it is: since Linux 6.9 a 0 there also makes the discard granularity 0, and no later
//! value is accepted until the device goes away. mkfs and mount options keep discards out instead.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use rustix::fs::OFlags;

use super::{MediumKind, MediumRequest, OpenMedium, filling};
use crate::error::{TestbedError, attempt};
use crate::host;
use crate::ledger::Ledger;
use crate::sys::block::{self, DeviceNumber};
use crate::sys::{Roots, fill, mountinfo, poll_until, program};
use crate::testbed::Progress;

pub(super) struct Device;

/// How long the last user may take to go after an unmount.
const IDLE: Duration = Duration::from_secs(10);

impl MediumKind for Device {
    fn name(&self) -> &'static str {
        "device"
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
        let Claimed { path, file: claim, record } = claim(request, progress)?;
        let limit = record.device.queue.get("discard_max_bytes");
        let can_discard = limit.is_some_and(|text| text != "0");
        Ok(Box::new(OpenDevice { path, claim: Some(claim), can_discard, record }))
    }
}

/// A device that is ours and written over once.
pub(crate) struct Claimed {
    /// Its path.
    pub path: PathBuf,
    /// Opened O_EXCL, for direct I/O.
    pub file: OwnedFd,
    /// What it is.
    pub record: MediumRecord,
}

/// Claims the device and writes it over once.
pub(crate) fn claim(request: &MediumRequest<'_>, progress: &mut dyn FnMut(Progress)) -> Result<Claimed, TestbedError> {
    // Again, for minutes may lie between the check and now; and from here on it is ours.
    let Candidate { path, number, size, claim } = examine(request)?;
    let failed = |error: &io::Error| {
        TestbedError::machine(format!("{} could not be written over", path.display()))
            .tried(attempt("write to", &path, error))
            .advice("check the device (dmesg)")
    };
    let flags = rustix::fs::fcntl_getfl(&claim).map_err(|errno| failed(&errno.into()))?;
    rustix::fs::fcntl_setfl(&claim, flags | OFlags::DIRECT).map_err(|errno| failed(&errno.into()))?;
    let name = path.display().to_string();
    fill::fill(claim.as_fd(), size, request.seed, filling(&name, size, progress)).map_err(|error| failed(&error))?;
    block::flush_buffers(&claim).map_err(|error| failed(&error))?;
    let shown = show_bytes(size as f64);
    let record = MediumRecord {
        device: host::device_manifest(&Roots::default(), (number.0, number.1)),
        direct: None,
        filled: Some(format!("{shown} of incompressible bytes, O_DIRECT")),
        summary: format!("{name} {shown}"),
        unjudged: None,
    };
    Ok(Claimed { path, file: claim, record })
}

/// A device that passed every check, claimed.
struct Candidate {
    path: PathBuf,
    number: DeviceNumber,
    size: u64,
    /// Opened O_EXCL.
    claim: OwnedFd,
}

/// Every reason to keep one's hands off a device, the strongest first.
fn examine(request: &MediumRequest<'_>) -> Result<Candidate, TestbedError> {
    let path = PathBuf::from(request.medium.argument.as_deref().unwrap_or_default());
    let shown = path.display();
    let number = block::number_of(&path).ok_or_else(|| {
        let what = if path.exists() { "is no block device" } else { "does not exist" };
        TestbedError::request(format!("{shown} {what}")).advice("name a block device such as /dev/sdb1 (see lsblk)")
    })?;
    refuse_mounted(&path, number)?;
    let claim = block::open(&path, true, true).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => in_use(&path, number),
        Some(libc::EROFS) => read_only(&path),
        _ => TestbedError::machine(format!("{shown} cannot be opened for writing"))
            .tried(attempt("open", &path, &error))
            .advice("formatting needs root: run with sudo, or measure a directory (fsb run /path)"),
    })?;
    if block::is_read_only(&claim).unwrap_or(true) {
        return Err(read_only(&path));
    }
    if !request.wipe.iter().any(|wiped| block::number_of(wiped) == Some(number)) {
        refuse_signatures(&path)?;
    }
    let directory = number.directory(&Roots::default());
    let size = directory.and_then(|directory| block::size(&directory)).unwrap_or(0);
    if size == 0 {
        return Err(TestbedError::machine(format!("{shown} has no size")).advice("is a medium inserted?"));
    }
    Ok(Candidate { path, number, size, claim })
}

fn read_only(path: &Path) -> TestbedError {
    TestbedError::machine(format!("{} is read-only", path.display())).advice("choose another device")
}

/// The kernel's claim holds in every mount namespace, also those that we cannot see.
fn in_use(path: &Path, number: DeviceNumber) -> TestbedError {
    let roots = Roots::default();
    let holders = number.directory(&roots).and_then(|directory| std::fs::read_dir(directory.join("holders")).ok());
    let names: Vec<_> = holders
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    let by = match names[..] {
        [] => "mounted somewhere, swap, part of an array, or a disk with a partition in use".to_owned(),
        _ => format!("part of {}", names.join(", ")),
    };
    TestbedError::request(format!("{} is in use: nothing was changed", path.display()))
        .tried(format!("open with O_EXCL: Device or resource busy (EBUSY): {by}"))
        .advice("choose another device; --wipe does not change this")
}

/// By number, by the path it was mounted from (btrfs hides the number), and for a disk by its partitions' numbers.
fn refuse_mounted(path: &Path, number: DeviceNumber) -> Result<(), TestbedError> {
    for mount in mountinfo::read_everywhere() {
        let same = DeviceNumber(mount.device.0, mount.device.1) == number
            || (mount.source.is_absolute() && block::number_of(&mount.source) == Some(number));
        if same {
            return Err(TestbedError::request(format!("{} is mounted: nothing was changed", path.display()))
                .tried(format!("it is mounted at {}", mount.point.display()))
                .advice("unmount it first, or choose another device; --wipe does not change this"));
        }
    }
    Ok(())
}

/// What is known to be on the device: `wipefs` knows best; `blkid` knows the same in older places.
fn refuse_signatures(path: &Path) -> Result<(), TestbedError> {
    let refused = |what: String, tried: String| {
        TestbedError::request(what)
            .tried(tried)
            .advice(format!("to destroy all that is on it: --wipe {}", path.display()))
    };
    match signatures(path) {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(found) => Err(refused(
            format!("{} is not empty: nothing was changed", path.display()),
            format!("it holds {}", found.join(", ")),
        )),
        Err(tried) => Err(refused(format!("cannot tell whether {} is empty", path.display()), tried)),
    }
}

/// Names of the signatures on a device; an error where nothing could look.
fn signatures(path: &Path) -> Result<Vec<String>, String> {
    let mut tried = Vec::new();
    for (name, arguments) in [("wipefs", ["-n", "-p"].as_slice()), ("blkid", &["-p", "-o", "udev"])] {
        let Some(program) = program::find(name) else {
            tried.push(format!("{name} is missing (package util-linux)"));
            continue;
        };
        let mut words: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        words.push(path.as_os_str());
        let output = program::run(&program, &words).map_err(|error| error.to_string())?;
        match (name, output.status.code()) {
            ("wipefs", Some(0)) => return Ok(wipefs_types(&String::from_utf8_lossy(&output.stdout))),
            // 0: found, 8: found several, 2: found nothing, but also where it could not read.
            ("blkid", Some(0 | 8)) => return Ok(vec![blkid_type(&String::from_utf8_lossy(&output.stdout))]),
            ("blkid", Some(2)) if output.stderr.is_empty() => return Ok(Vec::new()),
            _ => tried.push(format!("{name}: {}: {}", output.status, program::last_lines(&output.stderr))),
        }
    }
    Err(tried.join("; "))
}

/// `offset,uuid,label,type` lines; a heading starts with `#`. A line of any other form is a signature too.
fn wipefs_types(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.rsplit(',').find(|part| !part.is_empty()).unwrap_or(line).to_owned()).collect()
}

fn blkid_type(text: &str) -> String {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
    value("ID_FS_TYPE=").or_else(|| value("ID_PART_TABLE_TYPE=")).unwrap_or_else(|| "something that blkid knows".into())
}

/// A device that is ours until it is closed.
pub(super) struct OpenDevice {
    path: PathBuf,
    /// Exclusive and locked while idle, only locked while mounted, absent while it is formatted.
    claim: Option<OwnedFd>,
    can_discard: bool,
    record: MediumRecord,
}

impl OpenDevice {
    /// Takes a device that needs no checks and no filling.
    pub(super) fn adopt(path: PathBuf, can_discard: bool, record: MediumRecord) -> Result<Self, TestbedError> {
        let mut device = OpenDevice { path, claim: None, can_discard, record };
        device.take_back()?;
        Ok(device)
    }
}

impl OpenMedium for OpenDevice {
    fn device(&self) -> &Path {
        &self.path
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn can_discard(&self) -> bool {
        self.can_discard
    }

    fn lend(&mut self) {
        self.claim = None;
    }

    fn lock(&mut self) {
        self.claim = block::open(&self.path, true, false).ok();
        if let Some(claim) = &self.claim {
            super::lock_against_udev(claim);
        }
    }

    fn take_back(&mut self) -> Result<(), TestbedError> {
        self.claim = None;
        let mut answer = Err(io::ErrorKind::TimedOut.into());
        poll_until(IDLE, || {
            answer = block::open(&self.path, true, true);
            answer.is_ok()
        });
        let claim = answer.map_err(|error| {
            TestbedError::machine(format!("{} was taken by somebody else", self.path.display())).tried(attempt(
                "open with O_EXCL",
                &self.path,
                &error,
            ))
        })?;
        super::lock_against_udev(&claim);
        self.claim = Some(claim);
        Ok(())
    }

    fn close(&mut self, _: &Ledger) -> Vec<String> {
        self.claim = None;
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_wipefs_is_a_signature() {
        assert_eq!(wipefs_types("# offset,uuid,label,type\n0x438,6bcb,a\\x20b,ext4\n0x1fe,,,dos\n"), ["ext4", "dos"]);
        assert_eq!(wipefs_types("weird\n"), ["weird"]);
        assert!(wipefs_types("\n# offset,uuid,label,type\n").is_empty());
    }

    #[test]
    fn what_blkid_names_is_repeated() {
        assert_eq!(blkid_type("ID_FS_UUID=1\nID_FS_TYPE=swap\n"), "swap");
        assert_eq!(blkid_type("ID_PART_TABLE_TYPE=gpt\n"), "gpt");
        assert!(blkid_type("").contains("blkid"));
    }
}
