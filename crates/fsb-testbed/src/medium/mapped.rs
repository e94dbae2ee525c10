//! Media that the device mapper makes of another medium: an encrypted device as cryptsetup maps it,
//! and logical volumes as LVM maps them. They have no headers, so no other program finds them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsb_model::Medium;
use fsb_model::run::MediumRecord;
use fsb_sys::Roots;
use fsb_sys::block;
use fsb_sys::dm::{self, Line, Mapped};
use fsb_sys::error::{Refusal, TestbedError, attempt};

use super::composed::{OpenComposed, check_images, fill, members, open_members, stands_on};
use super::kind::{
    Composed, FindMedium, MediumArgument, MediumKind, MediumRequest, Member, OpenDevice,
    OpenMedium, filling,
};
use crate::Progress;
use crate::host;
use crate::ledger::{Action, EntryHandle, Ledger, MAPPING_PREFIX};

const SECTOR: u64 = 512;

/// Sectors of a LUKS2 header: its data begins at 16 MiB.
const HEADER: u64 = 16 << 11;

/// Sectors before the first extent of a physical volume: 1 MiB.
const EXTENTS: u64 = 1 << 11;

/// Sectors of a block of a thin pool: 64 KiB, the default of LVM.
const THIN_BLOCK: u64 = 64 << 1;

/// Sectors of a chunk of a snapshot: 4 KiB, the default of LVM.
const SNAPSHOT_CHUNK: u64 = 4 << 1;

/// The volume that a mapped device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Volume {
    Encrypted,
    Linear,
    Thin,
    Snapshot,
}

/// A family of mapped devices.
pub(super) struct MapperKind {
    name: &'static str,
    about: &'static str,
    argument: MediumArgument,
    modules: &'static [&'static str],
}

pub(super) static CRYPT: MapperKind = MapperKind {
    name: "luks",
    about: "A medium encrypted by dm-crypt as cryptsetup maps LUKS2: aes-xts-plain64, 512-bit key.",
    argument: MediumArgument {
        form: "MEMBER",
        about: "a medium: loop, ram, or the path of a device",
        example: "@luks:loop",
        required: true,
    },
    modules: &["dm_mod", "dm_crypt", "aes_generic", "xts", "ecb"],
};

pub(super) static VOLUME: MapperKind = MapperKind {
    name: "lvm",
    about: "A logical volume as LVM maps it: linear, thin, or with a snapshot that is made before mkfs.",
    argument: MediumArgument {
        form: "[kind=KIND+]MEMBER",
        about: "kind linear (default), thin or snapshot, and a medium: loop, ram, or the path of a device",
        example: "@lvm:kind=thin+loop",
        required: true,
    },
    modules: &["dm_mod", "dm_thin_pool", "dm_snapshot"],
};

/// A medium on another one.
pub(super) struct Mapper {
    kind: &'static MapperKind,
    /// Finds the medium of its member.
    find: FindMedium,
}

impl Mapper {
    pub(super) const fn new(kind: &'static MapperKind, find: FindMedium) -> Mapper {
        Mapper { kind, find }
    }

    fn volume(&self, medium: &Medium) -> Result<Volume, TestbedError> {
        let is_encrypted = self.kind.name == CRYPT.name;
        let kinds = [
            ("linear", Volume::Linear),
            ("thin", Volume::Thin),
            ("snapshot", Volume::Snapshot),
        ];
        let refused = |what: String| {
            TestbedError::request(format!("{medium}: {what}"))
                .advice(format!("write {}", self.kind.argument.example))
        };
        match medium.settings().last() {
            None if is_encrypted => Ok(Volume::Encrypted),
            None => Ok(Volume::Linear),
            Some(("kind", value)) if !is_encrypted => kinds
                .into_iter()
                .find(|(name, _)| *name == value)
                .map(|(_, volume)| volume)
                .ok_or_else(|| {
                    let names = kinds.iter().map(|(name, _)| *name);
                    refused(fsb_model::nearest::unknown("kind of volume", value, names))
                }),
            Some((name, _)) => Err(refused(format!("it has no setting '{name}'"))),
        }
    }
}

impl Volume {
    /// Returns the targets of the device mapper that it needs.
    fn targets(self) -> &'static [&'static str] {
        match self {
            Volume::Encrypted => &["crypt"],
            Volume::Linear => &["linear"],
            Volume::Thin => &["linear", "thin-pool", "thin"],
            Volume::Snapshot => &["linear", "snapshot", "snapshot-origin"],
        }
    }

    /// Returns the modules of these targets.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Volume::Encrypted => &["dm_crypt"],
            Volume::Linear => &["dm_mod"],
            Volume::Thin => &["dm_thin_pool"],
            Volume::Snapshot => &["dm_snapshot"],
        }
    }

    /// Returns its sectors on a medium of that many sectors.
    fn sectors(self, medium: u64) -> u64 {
        match self {
            Volume::Encrypted => medium.saturating_sub(HEADER),
            Volume::Linear => medium.saturating_sub(EXTENTS),
            Volume::Thin => {
                medium.saturating_sub(EXTENTS + thin_metadata(medium)) / THIN_BLOCK * THIN_BLOCK
            }
            Volume::Snapshot => snapshot_origin(medium),
        }
    }

    /// Describes it in front of the summary of its medium.
    fn describe(self) -> &'static str {
        match self {
            Volume::Encrypted => "aes-xts-plain64 on",
            Volume::Linear => "logical volume on",
            Volume::Thin => "thin volume, written over once, on",
            Volume::Snapshot => "volume with a snapshot from before mkfs on",
        }
    }
}

/// Returns the sectors of the metadata of a thin pool: LVM takes 64 bytes for each block, and 2 MiB
/// at least.
fn thin_metadata(medium: u64) -> u64 {
    let blocks = medium / THIN_BLOCK;
    (blocks * 64 / SECTOR).max(2 << 11).next_multiple_of(8)
}

/// Returns the sectors of a volume whose snapshot can hold a copy of all of it, with the list of
/// exceptions: 16 bytes for each chunk.
fn snapshot_origin(medium: u64) -> u64 {
    medium.saturating_sub(EXTENTS) * 100 / 201 / SNAPSHOT_CHUNK * SNAPSHOT_CHUNK
}

impl Composed for Mapper {
    fn members(&self, request: &MediumRequest<'_>) -> Result<Vec<Member>, TestbedError> {
        members(request, self.find, 1..=1)
    }

    fn check_members(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let volume = self.volume(request.medium)?;
        let sizes = check_images(request, self.find, &self.members(request)?)?;
        let medium: u64 = sizes.iter().sum();
        Ok(volume.sectors(medium / SECTOR) * SECTOR)
    }
}

impl MediumKind for Mapper {
    fn name(&self) -> &'static str {
        self.kind.name
    }

    fn about(&self) -> &'static str {
        self.kind.about
    }

    fn argument(&self) -> Option<&'static MediumArgument> {
        Some(&self.kind.argument)
    }

    fn modules(&self) -> &'static [&'static str] {
        self.kind.modules
    }

    fn composed(&self) -> Option<&dyn Composed> {
        Some(self)
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let size = self.check_members(request)?;
        let volume = self.volume(request.medium)?;
        dm::has(volume.targets(), volume.modules()).map_err(|why| {
            TestbedError::machine(format!("@{} is not available here: {why}", self.kind.name))
                .tried(format!("modprobe {}", volume.modules().join(" ")))
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
        let volume = self.volume(request.medium)?;
        let mut made = MappedMedium {
            members: Vec::new(),
            layers: Vec::new(),
            device: None,
            snapshot: None,
            record: MediumRecord::default(),
        };
        let parts = self.members(request)?;
        let opened = open_members(
            &mut made.members,
            self.find,
            &parts,
            request,
            ledger,
            progress,
        )
        .and_then(|()| made.map(volume, request, ledger, progress));
        match opened {
            Ok(()) => Ok(Box::new(made)),
            Err(error) => {
                // The first error is the one that explains.
                let _ = made.close(ledger);
                Err(error)
            }
        }
    }
}

/// A mapped device, the ones beneath it, and the medium beneath those.
struct MappedMedium {
    members: Vec<Box<dyn OpenMedium>>,
    /// The mapped devices, each above the earlier ones, with their entries in the ledger.
    layers: Vec<(Mapped, EntryHandle)>,
    device: Option<OpenDevice>,
    snapshot: Option<Snapshot>,
    record: MediumRecord,
}

/// The snapshot of a volume, which is made anew for each target.
struct Snapshot {
    /// The index of the device among the layers.
    layer: usize,
    table: Line,
    /// The device that holds the copies.
    copies: PathBuf,
}

fn failed(medium: &Medium, tried: Refusal) -> TestbedError {
    TestbedError::machine(format!("{medium} could not be made")).tried(tried)
}

fn line(length: u64, target: &'static str, parameters: String) -> Line {
    Line {
        start: 0,
        length,
        target,
        parameters,
    }
}

impl MappedMedium {
    /// Maps the volume over the member, and writes over a thin one once.
    fn map(
        &mut self,
        volume: Volume,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        let fail = |tried: Refusal| failed(request.medium, tried);
        let roots = Roots::default();
        let number = |path: &Path| {
            block::number_of(path)
                .map(|number| format!("{}:{}", number.0, number.1))
                .ok_or_else(|| fail(format!("{} is not a block device", path.display()).into()))
        };
        let member = self
            .members
            .first_mut()
            .ok_or_else(|| fail("it has no member".into()))?;
        member.verify()?;
        let below = number(member.device())?;
        let bytes = block::number_of(member.device())
            .and_then(|number| number.directory(&roots))
            .and_then(|directory| block::size(&directory))
            .ok_or_else(|| fail("the size of its member is unknown".into()))?;
        let (medium, sectors) = (bytes / SECTOR, volume.sectors(bytes / SECTOR));
        // The mapped device holds its member. A claim of this process would prevent that.
        member.lend();
        let linear = |start: u64, length: u64| line(length, "linear", format!("{below} {start}"));
        match volume {
            Volume::Encrypted => {
                let key = random_key().map_err(|error| fail(Refusal::call("getrandom", &error)))?;
                let table = format!("aes-xts-plain64 {key} 0 {below} {HEADER}");
                self.add(&line(sectors, "crypt", table), ledger)
                    .map_err(fail)?;
            }
            Volume::Linear => {
                self.add(&linear(EXTENTS, sectors), ledger).map_err(fail)?;
            }
            Volume::Thin => {
                let reserved = thin_metadata(medium);
                let metadata = self.add(&linear(EXTENTS, reserved), ledger).map_err(fail)?;
                clear(&metadata).map_err(|error| fail(attempt("write to", &metadata, &error)))?;
                let data = self
                    .add(&linear(EXTENTS + reserved, sectors), ledger)
                    .map_err(fail)?;
                let table = format!("{} {} {THIN_BLOCK} 0", number(&metadata)?, number(&data)?);
                let pool = self
                    .add(&line(sectors, "thin-pool", table), ledger)
                    .map_err(fail)?;
                self.top()
                    .map_err(fail)?
                    .message("create_thin 0")
                    .map_err(fail)?;
                let table = format!("{} 0", number(&pool)?);
                self.add(&line(sectors, "thin", table), ledger)
                    .map_err(fail)?;
            }
            Volume::Snapshot => {
                let copies_start = EXTENTS + sectors;
                let copies = linear(copies_start, medium - copies_start);
                let origin = self.add(&linear(EXTENTS, sectors), ledger).map_err(fail)?;
                let copies = self.add(&copies, ledger).map_err(fail)?;
                clear(&copies).map_err(|error| fail(attempt("write to", &copies, &error)))?;
                let (origin, held) = (number(&origin)?, number(&copies)?);
                let table = line(
                    sectors,
                    "snapshot",
                    format!("{origin} {held} P {SNAPSHOT_CHUNK}"),
                );
                self.add(&table, ledger).map_err(fail)?;
                self.snapshot = Some(Snapshot {
                    layer: self.layers.len() - 1,
                    table,
                    copies,
                });
                self.add(&line(sectors, "snapshot-origin", origin), ledger)
                    .map_err(fail)?;
            }
        }
        self.members.iter_mut().for_each(|member| member.lock());
        self.adopt(volume, request, progress)
    }

    /// Adds a mapped device with that table. Returns its path.
    fn add(&mut self, table: &Line, ledger: &Ledger) -> Result<PathBuf, Refusal> {
        let name = free_name().map_err(|error| Refusal::call("getrandom", &error))?;
        let entry = ledger
            .record(Action::RemoveMapping { name: name.clone() })
            .map_err(|error| error.to_string())?;
        match Mapped::make(&name, std::slice::from_ref(table)) {
            Ok(mapped) => {
                let path = mapped.path.clone();
                self.layers.push((mapped, entry));
                Ok(path)
            }
            Err(refusal) => {
                let _ = ledger.undo(entry);
                Err(refusal)
            }
        }
    }

    fn top(&self) -> Result<&Mapped, Refusal> {
        let top = self.layers.last().map(|(mapped, _)| mapped);
        top.ok_or_else(|| "nothing is mapped".into())
    }

    /// Takes the highest mapped device as the device of the medium.
    fn adopt(
        &mut self,
        volume: Volume,
        request: &MediumRequest<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), TestbedError> {
        let fail = |tried: Refusal| failed(request.medium, tried);
        let path = self.top().map_err(fail)?.path.clone();
        let number = block::number_of(&path)
            .ok_or_else(|| fail(format!("{} did not appear", path.display()).into()))?;
        let mut device = host::device_manifest(&Roots::default(), (number.0, number.1));
        let size = device.size_bytes;
        if volume == Volume::Thin {
            let text = request.medium.to_string();
            fill(
                &path,
                size,
                request.seed,
                &mut filling(&text, size, progress),
            )
            .map_err(|error| fail(attempt("write to", &path, &error)))?;
        }
        let records = || self.members.iter().map(|member| member.record());
        device.beneath = records().map(|record| record.device.clone()).collect();
        // The name of a mapped device changes, so its member identifies it.
        device.serial = None;
        device.backing = Some(stands_on(device.beneath.iter()));
        let summaries: Vec<_> = records().map(|record| record.summary.as_str()).collect();
        self.record = MediumRecord {
            summary: format!("{} {}", volume.describe(), summaries.join(" + ")),
            filled: records().find_map(|record| record.filled.clone()),
            direct: records().find_map(|record| record.direct),
            unjudged: records().find_map(|record| record.unjudged.clone()),
            device,
        };
        // Discards would make a thin volume another one, and dm-crypt has none by default.
        let can_discard = self
            .record
            .device
            .queue
            .get("discard_max_bytes")
            .is_some_and(|text| text != "0");
        self.device = Some(OpenDevice::adopt(
            (&path, number),
            request.nodes,
            can_discard,
            self.record.clone(),
        )?);
        Ok(())
    }

    /// Makes the snapshot anew, so that each target begins with one that holds no copies.
    fn renew_snapshot(&mut self) -> Result<(), Refusal> {
        let Some(snapshot) = &self.snapshot else {
            return Ok(());
        };
        let (mapped, _) = &mut self.layers[snapshot.layer];
        let name = mapped.name().to_owned();
        // udev may still read it.
        dm::remove(&name)?;
        clear(&snapshot.copies).map_err(|error| attempt("write to", &snapshot.copies, &error))?;
        *mapped = Mapped::make(&name, std::slice::from_ref(&snapshot.table))?;
        Ok(())
    }
}

/// Returns a name that no other mapped device has. Names belong to the whole machine, and process
/// ids to a container, so the name is random.
fn free_name() -> io::Result<String> {
    let mut name = [0u8; 8];
    rustix::rand::getrandom(&mut name, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{MAPPING_PREFIX}{:016x}", u64::from_le_bytes(name)))
}

/// Returns 512 random bits in hexadecimal digits.
fn random_key() -> io::Result<String> {
    let mut key = [0u8; 64];
    let length = rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
    if length != key.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes zeros over the first bytes of a device, with which a thin pool and a snapshot begin anew.
fn clear(device: &Path) -> io::Result<()> {
    let file = File::options().write(true).open(device)?;
    file.write_all_at(&[0; 4096], 0)?;
    file.sync_all()
}

impl OpenComposed for MappedMedium {
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
        self.layers.drain(..).map(|(_, entry)| entry).collect()
    }

    fn renew(&mut self) -> Result<(), TestbedError> {
        self.renew_snapshot().map_err(|refusal| {
            TestbedError::machine("the snapshot of the volume could not be made anew")
                .tried(refusal)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LUKS, LVM};
    use super::*;

    fn medium(name: &str, argument: &str) -> Medium {
        Medium {
            name: name.to_owned(),
            argument: Some(argument.to_owned()),
        }
    }

    #[test]
    fn kinds_of_volumes_are_settings() {
        for (argument, volume) in [
            ("loop", Volume::Linear),
            ("kind=thin+loop", Volume::Thin),
            ("kind=snapshot+/dev/sdb", Volume::Snapshot),
        ] {
            assert_eq!(LVM.volume(&medium("lvm", argument)).unwrap(), volume);
        }
        let luks = medium("luks", "loop");
        assert_eq!(LUKS.volume(&luks).unwrap(), Volume::Encrypted);
        for (mapper, name, argument, says) in [
            (
                &LVM,
                "lvm",
                "kind=thick+loop",
                "unknown kind of volume 'thick'",
            ),
            (&LVM, "lvm", "size=4+loop", "no setting 'size'"),
            (&LUKS, "luks", "kind=thin+loop", "no setting 'kind'"),
        ] {
            let error = mapper.volume(&medium(name, argument)).unwrap_err();
            assert!(error.to_string().contains(says), "{argument}: {error}");
        }
    }

    #[test]
    fn one_medium_holds_a_volume() {
        for (mapper, name, argument, says) in [
            (&LVM, "lvm", "loop+loop", "at most 1 members"),
            (&LVM, "lvm", "kind=thin", "at least 1 members"),
            (&LUKS, "luks", "raid0:x", "cannot be a member"),
        ] {
            let medium = medium(name, argument);
            let request = MediumRequest {
                size: 64 << 20,
                ..MediumRequest::new(&medium, Path::new("/"))
            };
            let error = mapper.members(&request).unwrap_err();
            assert!(error.to_string().contains(says), "{argument}: {error}");
        }
    }

    #[test]
    fn volumes_and_what_belongs_to_them_fit_on_the_medium() {
        for medium in [64 << 11, 1 << 21, 1 << 31] {
            let thin = Volume::Thin.sectors(medium);
            assert!(thin > medium / 2 && thin + EXTENTS + thin_metadata(medium) <= medium);
            let origin = Volume::Snapshot.sectors(medium);
            let copies = medium - EXTENTS - origin;
            // A header, and 16 bytes for each chunk beside its copy.
            let chunks = origin / SNAPSHOT_CHUNK;
            let lists = (chunks * 16 / (SNAPSHOT_CHUNK * SECTOR) + 2) * SNAPSHOT_CHUNK;
            assert!(copies >= origin + lists, "{medium}: {origin} {copies}");
        }
        assert_eq!(Volume::Encrypted.sectors(HEADER + 8), 8);
        assert_eq!(Volume::Linear.sectors(7), 0);
    }

    #[test]
    fn keys_are_512_bits_and_differ() {
        let keys = [random_key().unwrap(), random_key().unwrap()];
        assert!(keys.iter().all(|key| key.len() == 128) && keys[0] != keys[1]);
    }
}
