//! Arrays of the kernel's md, over members that are media themselves. They have no superblock, so
//! they use the members from their first byte to their last whole chunk.

use std::path::Path;

use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use fsb_model::{Bytes, Medium};
use fsb_sys::block;
use fsb_sys::error::{Refusal, TestbedError, attempt};
use fsb_sys::md::{self, Level};
use fsb_sys::{Roots, read_trimmed};

use super::composed::{
    OpenComposed, alike, check_images, fill, members, open_members, shared_disk, stands_on,
};
use super::kind::{
    Composed, FindMedium, MediumArgument, MediumKind, MediumRequest, Member, OpenDevice,
    OpenMedium, filling,
};
use crate::Progress;
use crate::host;
use crate::ledger::{Action, EntryHandle, Ledger};

/// An array of other media.
pub(super) struct Raid {
    level: &'static Level,
    /// Finds the media of its members.
    find: FindMedium,
}

/// Bytes of a chunk unless it is named: the default of mdadm(8) since its version 3.1.1.
const CHUNK: u64 = 512 << 10;
/// The setting of a chunk.
const SETTING: &str = "chunk";

impl Raid {
    pub(super) const fn new(level: &'static Level, find: FindMedium) -> Raid {
        Raid { level, find }
    }

    /// Returns the bytes of a chunk. RAID-1 has none, and is divided like the others.
    fn chunk(&self, medium: &Medium) -> Result<u64, TestbedError> {
        let Some((name, value)) = medium.settings().last() else {
            return Ok(CHUNK);
        };
        let refused = |why: String| {
            Err(TestbedError::request(format!("{medium}: {why}"))
                .advice("write a power of two from 4K to 64M, such as chunk=512K"))
        };
        match value.parse::<Bytes>() {
            _ if name != SETTING => refused(format!("an array has no setting '{name}'")),
            _ if !self.level.has_chunks => refused("RAID-1 has no chunks".to_owned()),
            Ok(Bytes(bytes))
                if bytes.is_power_of_two() && (4 << 10..=64 << 20).contains(&bytes) =>
            {
                Ok(bytes)
            }
            _ => refused(format!("'{value}' is not the size of a chunk")),
        }
    }
}

impl Composed for Raid {
    fn members(&self, request: &MediumRequest<'_>) -> Result<Vec<Member>, TestbedError> {
        members(request, self.find, self.level.least..=usize::MAX)
    }

    fn check_members(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let chunk = self.chunk(request.medium)?;
        let sizes = check_images(request, self.find, &self.members(request)?)?;
        let whole: Vec<u64> = sizes.iter().map(|size| size / chunk * chunk).collect();
        let least = whole.iter().min().copied().unwrap_or(0);
        Ok(match self.level.level {
            0 => whole.iter().sum(),
            1 => least,
            5 => least * (whole.len() as u64 - 1),
            // Two copies of each chunk.
            _ => least * whole.len() as u64 / 2 / chunk * chunk,
        })
    }
}

impl MediumKind for Raid {
    fn name(&self) -> &'static str {
        self.level.name
    }

    fn argument(&self) -> Option<&'static MediumArgument> {
        Some(match self.level.level {
            0 => &MediumArgument {
                form: "[chunk=SIZE+]MEMBER+MEMBER…",
                about: "at least two media: loop, ram, or paths of devices; chunks of 512K unless named",
                example: "@raid0:loop+loop",
                required: true,
            },
            1 => &MediumArgument {
                form: "MEMBER+MEMBER…",
                about: "at least two media: loop, ram, or paths of devices",
                example: "@raid1:loop+loop",
                required: true,
            },
            5 => &MediumArgument {
                form: "[chunk=SIZE+]MEMBER+MEMBER+MEMBER…",
                about: "at least three media: loop, ram, or paths of devices; chunks of 512K unless named",
                example: "@raid5:loop+loop+loop",
                required: true,
            },
            _ => &MediumArgument {
                form: "[chunk=SIZE+]MEMBER+MEMBER…",
                about: "at least two media: loop, ram, or paths of devices; chunks of 512K unless named",
                example: "@raid10:loop+loop+loop+loop",
                required: true,
            },
        })
    }

    fn about(&self) -> &'static str {
        match self.level.level {
            0 => {
                "Media striped by the kernel's md: raid0:/dev/sdb+/dev/sdc; on one disk (raid0:loop+loop) numbers, no ranks."
            }
            1 => "Media mirrored by the kernel's md: raid1:/dev/sdb+/dev/sdc.",
            5 => "Media striped with parity by the kernel's md: raid5:/dev/sdb+/dev/sdc+/dev/sdd.",
            _ => {
                "Media striped by the kernel's md with two copies of each chunk: raid10:/dev/sdb+/dev/sdc."
            }
        }
    }

    fn modules(&self) -> &'static [&'static str] {
        self.level.modules
    }

    fn composed(&self) -> Option<&dyn Composed> {
        Some(self)
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let size = self.check_members(request)?;
        md::has(self.level, &Roots::default()).map_err(|why| {
            TestbedError::machine(format!("{} is not available here: {why}", self.level.shown))
                .tried(format!("/proc/mdstat, and modprobe {}", self.level.modules[0]))
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
        let made = open_members(
            &mut array.members,
            self.find,
            &members,
            request,
            ledger,
            progress,
        )
        .and_then(|()| self.join(&mut array, request, ledger, progress));
        if let Err(error) = made {
            // The first error is the one that explains.
            let _ = array.close(ledger);
            return Err(error);
        }
        array.record.unjudged = shared_disk(&request.medium.to_string(), &members, request.dir);
        Ok(Box::new(array))
    }
}

impl Raid {
    fn join(
        &self,
        array: &mut Array,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        let (text, chunk) = (request.medium.to_string(), self.chunk(request.medium)?);
        let (level, chunks) = (self.level, self.level.has_chunks);
        let fail = |tried: Refusal| {
            TestbedError::machine(format!("{text} could not be made")).tried(tried).advice(
                "check that this kernel has md with this level (/proc/mdstat), or add --in vm: a kernel that has it is booted",
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
        if level.level == 0 && sizes.windows(2).any(|pair| pair[0] != pair[1]) {
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
        md::start(level, number, &numbers, chunk as u32).map_err(fail)?;
        array.members.iter_mut().for_each(|member| member.lock());

        let path = md::path(number);
        let found = block::number_in(&roots.sys.join(format!("block/md{number}")));
        let found =
            found.ok_or_else(|| fail(format!("{} did not appear", path.display()).into()))?;
        let mut device = host::device_manifest(&roots, (found.0, found.1));
        let found_chunk = read_trimmed(&roots.sys.join(format!("block/md{number}/md/chunk_size")));
        if chunks && found_chunk.as_deref() != Some(&chunk.to_string()) {
            return Err(fail(
                format!("its chunks are {} bytes", found_chunk.unwrap_or_default()).into(),
            ));
        }
        if chunks {
            device
                .queue
                .insert("chunk_size".to_owned(), chunk.to_string());
        }
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
            summary: match chunks {
                true => format!(
                    "{} of {}, chunks of {}",
                    level.shown,
                    alike(&summaries),
                    show_bytes(chunk as f64)
                ),
                false => format!("{} of {}", level.shown, alike(&summaries)),
            },
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
        if level.level > 0 {
            // The members hold different data. Copies and parity become those of the data.
            let size = array.record.device.size_bytes;
            fill(
                &path,
                size,
                request.seed,
                &mut filling(&text, size, progress),
            )
            .map_err(|error| fail(attempt("write to", &path, &error)))?;
        }
        Ok(())
    }
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

impl OpenComposed for Array {
    fn top(&self) -> Option<&OpenDevice> {
        self.device.as_ref()
    }

    fn top_mut(&mut self) -> &mut Option<OpenDevice> {
        &mut self.device
    }

    fn record(&self) -> &MediumRecord {
        &self.record
    }

    fn members_mut(&mut self) -> &mut [Box<dyn OpenMedium>] {
        &mut self.members
    }

    fn take_entries(&mut self) -> Vec<EntryHandle> {
        std::mem::take(&mut self.handles)
    }
}

#[cfg(test)]
mod tests {
    use super::super::loop_image::backing;
    use super::super::{RAID0, RAID1, RAID5, RAID10};
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
            ("loop", "at least 2 members"),
            ("", "at least 2 members"),
            ("loop+", "a member is missing"),
            ("loop+lop", "did you mean 'loop'"),
            ("raid0:a+loop", "cannot be a member"),
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
    fn levels_have_their_sizes_and_chunks() {
        for (raid, argument, chunk) in [
            (&RAID0, "loop+loop", 512 << 10),
            (&RAID0, "chunk=64K+loop+loop", 64 << 10),
            (&RAID5, "loop+loop+loop", 512 << 10),
            (&RAID10, "chunk=4K+loop+loop", 4 << 10),
        ] {
            let medium = array(argument);
            assert_eq!(raid.chunk(&medium).unwrap(), chunk, "{argument}");
            let members = raid.members(&request(&medium, Path::new("/"))).unwrap();
            assert!(members.iter().all(|member| member.medium.name == "loop"));
        }
        for (raid, argument, says) in [
            (&RAID0, "chunk=3K+loop+loop", "not the size of a chunk"),
            (&RAID1, "chunk=64K+loop+loop", "RAID-1 has no chunks"),
            (&RAID5, "level=6+loop+loop+loop", "no setting 'level'"),
        ] {
            let error = raid.chunk(&array(argument)).unwrap_err();
            assert!(error.to_string().contains(says), "{argument}: {error}");
        }
        let error = RAID5
            .members(&request(&array("loop+loop"), Path::new("/")))
            .unwrap_err();
        assert!(error.to_string().contains("at least 3 members"), "{error}");
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
