//! RAID-0 by the kernel's md, over members that are media themselves. It has no superblock, so the
//! members are striped from their first byte to their last whole chunk.

use std::path::{Path, PathBuf};

use fsb_model::Medium;
use fsb_model::host::DeviceManifest;
use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::{Roots, md, read_trimmed};

use super::kind::{
    FindMedium, GRANULE, MediumArgument, MediumKind, MediumRequest, OpenDevice, OpenMedium,
    check_argument,
};
use super::loop_image::backing;
use crate::Progress;
use crate::host;
use crate::ledger::{Action, EntryHandle, Ledger};

/// An array of other media.
pub(crate) struct Raid0 {
    /// Finds the media of its members.
    pub(super) find: FindMedium,
}

/// Bytes of a chunk, as in Fedorchuk's arrays and many others.
const CHUNK: u64 = 64 << 10;

/// The reason why an array on one disk is not ranked.
const WHY: &str = "share one disk";

/// A member of an array, with the bytes of an image for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub medium: Medium,
    pub size: u64,
}

/// Returns the medium that a text between `+` names.
pub(super) fn member(text: &str) -> Medium {
    match text.split_once(':') {
        _ if text.starts_with('/') => Medium {
            name: "device".to_owned(),
            argument: Some(text.to_owned()),
        },
        Some((name, argument)) => Medium {
            name: name.to_owned(),
            argument: Some(argument.to_owned()),
        },
        None => Medium {
            name: text.to_owned(),
            argument: None,
        },
    }
}

impl Raid0 {
    /// Parses the members that the argument names: `loop+loop`, `/dev/sda+/dev/sdb`. Images share
    /// the image size of the run.
    pub(crate) fn members(&self, request: &MediumRequest<'_>) -> Result<Vec<Member>, TestbedError> {
        let argument = request.medium.argument.as_deref().unwrap_or_default();
        let texts: Vec<&str> = argument.split('+').collect();
        let refused = |what: String| {
            TestbedError::request(format!("raid0:{argument}: {what}"))
                .advice("name at least two members: raid0:loop+loop, or raid0:/dev/sdb+/dev/sdc")
        };
        if texts.len() < 2 {
            return Err(refused("an array has at least two members".to_owned()));
        }
        let size = request.size / texts.len() as u64 / GRANULE * GRANULE;
        let member = |text: &str| {
            let medium = member(text);
            match medium.name.as_str() {
                "" => Err(refused("a member is missing".to_owned())),
                "raid0" => Err(refused(
                    "an array cannot be a member of an array".to_owned(),
                )),
                _ => {
                    check_argument((self.find)(&medium.name)?, &medium)?;
                    Ok(Member { medium, size })
                }
            }
        };
        let members = texts
            .iter()
            .map(|text| member(text))
            .collect::<Result<Vec<_>, _>>()?;
        let twice = (1..texts.len())
            .find(|at| texts[*at].starts_with('/') && texts[..*at].contains(&texts[*at]));
        match twice {
            Some(at) => Err(refused(format!("{} is there twice", texts[at]))),
            None => Ok(members),
        }
    }

    /// Returns the size of the array in whole chunks. Does not check whether the kernel can join
    /// the members.
    ///
    /// # Errors
    ///
    /// Fails if a member cannot be made.
    pub(crate) fn check_members(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let (mut total, mut images) = (0, 0);
        for member in self.members(request)? {
            let own = MediumRequest {
                medium: &member.medium,
                size: member.size,
                ..*request
            };
            total += (self.find)(&member.medium.name)?.check(&own)? / CHUNK * CHUNK;
            images += if member.medium.argument.is_none() {
                member.size
            } else {
                0
            };
        }
        // Each image fits alone; they must also fit together.
        if images > 0 {
            let image = self
                .members(request)?
                .into_iter()
                .find(|member| member.medium.argument.is_none());
            if let Some(Member { medium, .. }) = image {
                (self.find)(&medium.name)?.check(&MediumRequest {
                    medium: &medium,
                    size: images,
                    ..*request
                })?;
            }
        }
        Ok(total)
    }

    /// Makes the members. Each of them is filled with data of its own.
    fn open_members(
        &self,
        array: &mut Array,
        members: &[Member],
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        for (place, member) in (0..).zip(members) {
            let seed = request.seed.wrapping_add(place);
            let own = MediumRequest {
                medium: &member.medium,
                size: member.size,
                seed,
                ..*request
            };
            array
                .members
                .push((self.find)(&member.medium.name)?.open(&own, ledger, progress)?);
        }
        Ok(())
    }
}

/// Returns the reason why targets on an array of these members are not ranked: two members are on
/// one disk. Returns `None` if no two are.
pub(crate) fn shared_disk(text: &str, members: &[Member], dir: &Path) -> Option<String> {
    let roots = Roots::default();
    let disk_of = |number: DeviceNumber| {
        number
            .directory(&roots)
            .map(|directory| block::whole_disk(&directory))
    };
    let mut images = 0;
    let mut disks: Vec<PathBuf> = Vec::new();
    for member in members {
        match member.medium.argument.as_deref() {
            Some(path) if member.medium.name == "device" => {
                disks.extend(block::number_of(Path::new(path)).and_then(disk_of));
            }
            Some(_) => {}
            None => images += 1,
        }
    }
    if images > 0 {
        disks.extend(backing(dir).1.and_then(disk_of));
    }
    disks.sort();
    let twice = images > 1 || disks.windows(2).any(|pair| pair[0] == pair[1]);
    twice.then(|| format!("members of {text} {WHY}"))
}

impl MediumKind for Raid0 {
    fn name(&self) -> &'static str {
        "raid0"
    }

    fn argument(&self) -> Option<&'static MediumArgument> {
        Some(&MediumArgument {
            form: "MEMBER+MEMBER…",
            about: "at least two media: loop, ram, or paths of devices",
            example: "@raid0:loop+loop",
            required: true,
        })
    }

    fn about(&self) -> &'static str {
        "Media striped by the kernel's md: raid0:/dev/sdb+/dev/sdc; on one disk (raid0:loop+loop) numbers, no ranks."
    }

    fn modules(&self) -> &'static [&'static str] {
        &["raid0"]
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let size = self.check_members(request)?;
        md::has_raid0(&Roots::default()).map_err(|why| {
            TestbedError::machine(format!("RAID-0 is not available here: {why}"))
                .tried("/proc/mdstat, and modprobe raid0")
                .advice("add --in vm: a kernel that has it is booted in a virtual machine; or leave it out")
        })?;
        Ok(size)
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let members = self.members(request)?;
        let mut array = Array {
            members: Vec::new(),
            device: None,
            handles: Vec::new(),
            record: MediumRecord::default(),
        };
        let made = self
            .open_members(&mut array, &members, request, ledger, progress)
            .and_then(|()| join(&mut array, request, ledger));
        if let Err(error) = made {
            // The first error is the one that explains.
            let _ = array.close(ledger);
            return Err(error);
        }
        array.record.unjudged = shared_disk(&request.medium.to_string(), &members, request.dir);
        Ok(Box::new(array))
    }
}

fn join(
    array: &mut Array,
    request: &MediumRequest<'_>,
    ledger: &Ledger,
) -> Result<(), TestbedError> {
    let text = request.medium.to_string();
    let fail = |tried: Refusal| {
        TestbedError::machine(format!("{text} could not be made")).tried(tried).advice(
            "check that this kernel has md with raid0 (/proc/mdstat), or add --in vm: a kernel that has it is booted",
        )
    };
    let roots = Roots::default();
    let mut numbers = Vec::new();
    for member in &array.members {
        let number = block::number_of(member.device());
        member.verify()?;
        numbers.push(number.ok_or_else(|| {
            fail(format!("{} is not a block device", member.shown().display()).into())
        })?);
    }
    let sizes: Vec<Option<u64>> = numbers
        .iter()
        .map(|number| {
            number
                .directory(&roots)
                .and_then(|directory| block::size(&directory))
        })
        .collect();
    if sizes.windows(2).any(|pair| pair[0] != pair[1]) {
        array.handles.extend(allow_different_sizes(&roots, ledger)?);
    }
    let number =
        md::free_number(&roots).ok_or_else(|| fail("no md device number is free".into()))?;
    let mut names: Vec<String> = array
        .members
        .iter()
        .filter_map(|member| name_of(member.device()))
        .collect();
    names.sort();
    array.handles.push(ledger.record(Action::StopArray {
        number,
        members: names,
    })?);
    // The array itself holds its members. A claim of this process would prevent that.
    array.members.iter_mut().for_each(|member| member.lend());
    md::start(number, &numbers, CHUNK as u32).map_err(fail)?;
    array.members.iter_mut().for_each(|member| member.lock());

    let path = md::path(number);
    let found = block::number_in(&roots.sys.join(format!("block/md{number}")));
    let found = found.ok_or_else(|| fail(format!("{} did not appear", path.display()).into()))?;
    let mut device = host::device_manifest(&roots, (found.0, found.1));
    let chunk = read_trimmed(&roots.sys.join(format!("block/md{number}/md/chunk_size")));
    if chunk.as_deref() != Some(&CHUNK.to_string()) {
        return Err(fail(
            format!("its chunks are {} bytes", chunk.unwrap_or_default()).into(),
        ));
    }
    device
        .queue
        .insert("chunk_size".to_owned(), CHUNK.to_string());
    device.beneath = array
        .members
        .iter()
        .map(|member| member.record().device.clone())
        .collect();
    // The kernel assigns each array a new random number, so its members identify it.
    device.serial = None;
    device.backing = Some(stands_on(device.beneath.iter()));
    let records = || array.members.iter().map(|member| member.record());
    let direct: Vec<bool> = records().filter_map(|record| record.direct).collect();
    let summaries: Vec<&str> = records().map(|record| record.summary.as_str()).collect();
    array.record = MediumRecord {
        summary: format!(
            "RAID-0 of {}, chunks of {}",
            alike(&summaries),
            show_bytes(CHUNK as f64)
        ),
        filled: records()
            .all(|record| record.filled.is_some())
            .then(|| "each member: see beneath".to_owned()),
        direct: (!direct.is_empty()).then(|| direct.iter().all(|direct| *direct)),
        device,
        unjudged: None,
    };
    let limit = array.record.device.queue.get("discard_max_bytes");
    let can_discard = limit.is_some_and(|text| text != "0");
    array.device = Some(OpenDevice::adopt(
        (&path, found),
        request.nodes,
        can_discard,
        array.record.clone(),
    )?);
    Ok(())
}

/// Describes the members, for the comparison on resume.
pub(crate) fn stands_on<'a>(members: impl Iterator<Item = &'a DeviceManifest>) -> String {
    members
        .map(
            |member: &DeviceManifest| match (&member.serial, &member.backing) {
                (Some(serial), _) => format!("serial {serial}"),
                (None, Some(backing)) => backing.clone(),
                (None, None) => member.name.clone(),
            },
        )
        .collect::<Vec<_>>()
        .join(" + ")
}

fn name_of(device: &Path) -> Option<String> {
    Some(
        device
            .canonicalize()
            .ok()?
            .file_name()?
            .to_string_lossy()
            .into_owned(),
    )
}

/// Joins summaries: `2 × loop 1 GiB, direct`.
fn alike(summaries: &[&str]) -> String {
    match summaries {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            format!("{} × {first}", summaries.len())
        }
        _ => summaries.join(" + "),
    }
}

/// Allows members of different sizes. Since Linux 5.4 the kernel refuses such an array until one of
/// two layouts is chosen. 2 is the layout of all kernels since 3.14.
fn allow_different_sizes(
    roots: &Roots,
    ledger: &Ledger,
) -> Result<Option<EntryHandle>, TestbedError> {
    let path = roots.sys.join(md::LAYOUT);
    let Some(value) = read_trimmed(&path).filter(|value| value == "0") else {
        return Ok(None);
    };
    let handle = ledger.record(Action::WriteFile {
        path: path.clone(),
        value,
    })?;
    std::fs::write(&path, "2").map_err(|error| {
        TestbedError::machine("members of different sizes cannot be joined")
            .tried(attempt("write to", &path, &error))
    })?;
    Ok(Some(handle))
}

/// A running array.
struct Array {
    members: Vec<Box<dyn OpenMedium>>,
    device: Option<OpenDevice>,
    /// In the order of the changes.
    handles: Vec<EntryHandle>,
    record: MediumRecord,
}

impl Array {
    fn device_mut(&mut self) -> Option<&mut OpenDevice> {
        self.device.as_mut()
    }
}

impl OpenMedium for Array {
    fn device(&self) -> &Path {
        self.device
            .as_ref()
            .map_or(Path::new("/nonexistent"), |device| device.device())
    }

    fn shown(&self) -> &Path {
        self.device
            .as_ref()
            .map_or(Path::new("/nonexistent"), |device| device.shown())
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.device
            .as_ref()
            .map_or(Ok(()), |device| device.verify())
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn can_discard(&self) -> bool {
        self.device
            .as_ref()
            .is_some_and(|device| device.can_discard())
    }

    fn lend(&mut self) {
        if let Some(device) = self.device_mut() {
            device.lend();
        }
    }

    fn lock(&mut self) {
        if let Some(device) = self.device_mut() {
            device.lock();
        }
    }

    fn take_back(&mut self) -> Result<(), TestbedError> {
        self.device_mut()
            .map_or(Ok(()), |device| device.take_back())
    }

    /// Closes the array before its members.
    fn close(&mut self, ledger: &Ledger) -> Vec<String> {
        let mut failures = Vec::new();
        if let Some(mut device) = self.device.take() {
            failures.extend(device.close(ledger));
        }
        for handle in self.handles.drain(..).rev() {
            failures.extend(ledger.undo(handle).err().map(|error| error.to_string()));
        }
        for member in &mut self.members {
            failures.extend(member.close(ledger));
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::super::RAID0;
    use super::*;

    fn request<'a>(medium: &'a Medium, dir: &'a Path) -> MediumRequest<'a> {
        MediumRequest {
            size: 64 << 20,
            seed: 1,
            ..MediumRequest::new(medium, dir)
        }
    }

    fn array(argument: &str) -> Medium {
        Medium {
            name: "raid0".to_owned(),
            argument: Some(argument.to_owned()),
        }
    }

    #[test]
    fn members_are_media_and_share_the_size() {
        let medium = array("loop+ram+/dev/sdb+vm:3");
        let found = RAID0.members(&request(&medium, Path::new("/"))).unwrap();
        let texts: Vec<_> = found
            .iter()
            .map(|member| member.medium.to_string())
            .collect();
        assert_eq!(texts, ["loop", "ram", "/dev/sdb", "vm:3"]);
        assert!(found.iter().all(|member| member.size == 16 << 20));
    }

    #[test]
    fn invalid_arrays_are_refused() {
        for (argument, says) in [
            ("loop", "at least two members"),
            ("", "at least two members"),
            ("loop+", "a member is missing"),
            ("loop+lop", "did you mean 'loop'"),
            ("raid0:a+loop", "cannot be a member of an array"),
            ("/dev/sdb+/dev/sdb", "/dev/sdb is there twice"),
        ] {
            let medium = array(argument);
            let error = RAID0
                .members(&request(&medium, Path::new("/")))
                .unwrap_err();
            assert_eq!(error.kind, crate::Kind::Request, "{argument}");
            assert!(error.to_string().contains(says), "{argument}: {error}");
        }
    }

    #[test]
    fn images_beside_each_other_share_a_disk() {
        let dir = Path::new("/var/tmp");
        let why = |argument: &str| {
            let medium = array(argument);
            shared_disk(
                "raid0:x",
                &RAID0.members(&request(&medium, dir)).unwrap(),
                dir,
            )
        };
        assert_eq!(
            why("loop+loop").as_deref(),
            Some("members of raid0:x share one disk")
        );
        assert_eq!(why("/dev/nosuch1+/dev/nosuch2"), None);
        assert_eq!(
            why("vm:0+vm:1"),
            None,
            "the host knows the devices behind them"
        );
        if let Some(number) = backing(dir).1 {
            let disk = format!("/dev/block/{}:{}", number.0, number.1);
            if block::number_of(Path::new(&disk)).is_some() {
                assert!(why(&format!("loop+{disk}")).is_some());
            }
        }
    }

    #[test]
    fn equal_members_are_counted() {
        assert_eq!(
            alike(&["loop 1 GiB, direct", "loop 1 GiB, direct"]),
            "2 × loop 1 GiB, direct"
        );
        assert_eq!(alike(&["a", "b"]), "a + b");
    }
}
