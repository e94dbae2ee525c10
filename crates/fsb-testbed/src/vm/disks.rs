//! The guest's disks: the image or device behind each, and the names that the guest's targets use.
//!
//! The one image of a run becomes disk 0 and the medium `vm:0`. Members of an array and block devices become disks of
//! their own. The guest's results are translated back to the names of the plan, which the record contains.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use fsb_model::run::MediumRecord;
use fsb_model::units::show_bytes;
use fsb_model::{Medium, Target, TargetKind};
use fsb_sys::Roots;
use fsb_sys::error::TestbedError;

use crate::host;
use crate::local;
use crate::medium::{self, Claimed, MediumRequest, Member, VM_SERIAL};
use crate::progress::Progress;
use crate::testbed::{Opened, Provisioned, Setup};

/// A disk to lend to a guest.
#[derive(Debug)]
pub struct HostDisk {
    /// Open for reading and writing, past the page cache.
    pub file: OwnedFd,
    /// The serial number by which the guest finds it.
    pub serial: String,
}

/// All disks of a run, overwritten once.
#[derive(Debug, Default)]
pub struct Disks {
    disks: Vec<(OwnedFd, MediumRecord)>,
    /// The names of each medium in the plan and in the guest.
    names: Vec<(String, Medium)>,
    /// The reasons why arrays are not ranked, by their names in the guest, which does not know the devices behind its
    /// disks.
    unjudged: BTreeMap<String, String>,
}

/// Returns the bytes of each medium of `setup`, by its text. Fails if one cannot be made.
pub(super) fn check(setup: &Setup) -> Result<BTreeMap<String, u64>, TestbedError> {
    local::check_same_device(setup)?;
    let mut sizes = BTreeMap::new();
    for (text, request) in local::media(setup) {
        let size = match request.medium.name.as_str() {
            // The guest's kernel joins them.
            "raid0" => medium::RAID0.check_members(&request)?,
            #[cfg(any(test, feature = "faults"))]
            "fault" => medium::fault_members(&request).map(|(_, members)| members[0].1)?,
            name => medium::find(name)?.check(&request)?,
        };
        sizes.insert(text, size);
    }
    Ok(sizes)
}

impl Disks {
    /// Creates images and claims devices, and overwrites each once. `outside` shows all processes of the machine.
    pub fn open(
        setup: &Setup,
        outside: Option<&Roots>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Disks, TestbedError> {
        let mut disks = Disks::default();
        for (text, request) in local::media(setup) {
            let request = MediumRequest { outside, ..request };
            let medium = disks.medium(&request, progress)?;
            disks.names.push((text, medium));
        }
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
                Ok(self.add(file, image_record(request)))
            }
            "device" => {
                let Claimed { file, record, .. } = medium::claim(request, progress)?;
                Ok(self.add(file, record))
            }
            "raid0" => {
                let members = medium::RAID0.members(request)?;
                let mut texts = Vec::new();
                for (place, Member { medium, size }) in (0..).zip(&members) {
                    let seed = request.seed.wrapping_add(place);
                    let request = MediumRequest { medium, size: *size, seed, ..*request };
                    texts.push(self.medium(&request, progress)?.to_string());
                }
                let array = Medium { name: "raid0".to_owned(), argument: Some(texts.join("+")) };
                if let Some(why) = medium::shared_disk(&request.medium.to_string(), &members, request.dir) {
                    self.unjudged.insert(array.to_string(), why);
                }
                Ok(array)
            }
            #[cfg(any(test, feature = "faults"))]
            "fault" => {
                let (kind, members) = medium::fault_members(request)?;
                let mut argument = kind.to_owned();
                for (medium, size) in &members {
                    let request = MediumRequest { medium, size: *size, ..*request };
                    argument += &format!("+{}", self.medium(&request, progress)?);
                }
                Ok(Medium { name: "fault".to_owned(), argument: Some(argument) })
            }
            // Memory of the guest, which needs nothing from this machine.
            _ => Ok(request.medium.clone()),
        }
    }

    fn add(&mut self, file: OwnedFd, record: MediumRecord) -> Medium {
        let number = self.disks.len();
        self.disks.push((file, record));
        Medium { name: "vm".to_owned(), argument: Some(number.to_string()) }
    }

    /// Duplicates each disk for a guest.
    pub fn lend(&self) -> Result<Vec<HostDisk>, TestbedError> {
        let lend = |(number, (file, _)): (usize, &(OwnedFd, MediumRecord))| {
            let file = file.try_clone().map_err(|error| {
                TestbedError::machine("a disk cannot be lent to the virtual machine").tried(error.to_string())
            })?;
            Ok(HostDisk { file, serial: format!("{VM_SERIAL}{number}") })
        };
        self.disks.iter().enumerate().map(lend).collect()
    }

    /// Returns the target with the guest's name of its medium.
    pub fn for_guest(&self, target: &Target) -> Target {
        let mut target = target.clone();
        if let TargetKind::FileSystem(spec) = &mut target.kind
            && let Some((_, medium)) = self.names.iter().find(|(text, _)| *text == spec.medium.to_string())
        {
            spec.medium = medium.clone();
        }
        target
    }

    /// Returns the plan's name of the medium of that text.
    fn in_plan(&self, guest: &str) -> String {
        let known = self.names.iter().find(|(_, medium)| medium.to_string() == guest);
        known.map_or_else(|| guest.to_owned(), |(text, _)| text.clone())
    }

    /// Renames the guest's media to the plan's names, and completes their records.
    pub fn opened(&self, opened: &mut Opened) {
        let media = std::mem::take(&mut opened.media);
        opened.media =
            media.into_iter().map(|(text, found)| (self.in_plan(&text), self.record(&text, found))).collect();
        let parts = std::mem::take(&mut opened.parts);
        opened.parts = parts.into_iter().map(|(text, parts)| (self.in_plan(&text), parts)).collect();
    }

    /// Renames the medium to the plan's name.
    pub fn provisioned(&self, provisioned: &mut Provisioned) {
        if let Some(medium) = &mut provisioned.record.medium {
            *medium = self.in_plan(medium);
        }
    }

    /// Adds the identity of the device behind a disk of the guest to its record. A resume compares that.
    fn record(&self, guest: &str, mut found: MediumRecord) -> MediumRecord {
        let number = guest.strip_prefix("vm:").and_then(|number| number.parse::<usize>().ok());
        if let Some((_, own)) = number.and_then(|number| self.disks.get(number)) {
            found.device.serial.clone_from(&own.device.serial);
            found.device.backing.clone_from(&own.device.backing);
            found.device.beneath.clone_from(&own.device.beneath);
            found.direct = own.direct;
            found.filled.clone_from(&own.filled);
            found.summary.clone_from(&own.summary);
        }
        if let Some(members) = guest.strip_prefix("raid0:") {
            for (member, text) in found.device.beneath.iter_mut().zip(members.split('+')) {
                let inside = MediumRecord { device: std::mem::take(member), ..MediumRecord::default() };
                *member = self.record(text, inside).device;
            }
            found.device.backing = Some(medium::stands_on(found.device.beneath.iter()));
        }
        found.unjudged = found.unjudged.or_else(|| self.unjudged.get(guest).cloned());
        found
    }
}

/// Returns the record of an image as far as this machine knows it. The guest knows the device that it becomes.
fn image_record(request: &MediumRequest<'_>) -> MediumRecord {
    let shown = show_bytes(request.size as f64);
    let (backing, number) = medium::backing(request.dir);
    let beneath = number.map(|number| host::device_manifest(&Roots::default(), (number.0, number.1)));
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
mod tests {
    use super::*;
    use crate::vm::check::tests::setup;

    #[test]
    fn media_have_two_names() {
        let dir = tempfile::Builder::new().prefix("fsb-vm-").tempdir_in("/var/tmp").unwrap();
        let mut setup = setup(&["ext4", "xfs", "ext4@ram"]);
        setup.dir = dir.path().to_owned();
        setup.size = 1 << 20;
        let disks = Disks::open(&setup, None, &mut |_| {}).unwrap();
        let texts: Vec<_> = setup.targets.iter().map(|target| disks.for_guest(target).to_string()).collect();
        assert!(texts[0].ends_with("ext4@vm:0") && texts[1].ends_with("xfs@vm:0"), "one image for both: {texts:?}");
        assert!(texts[2].ends_with("ext4@ram"), "{texts:?}");
        let lent = disks.lend().unwrap();
        assert_eq!(lent.iter().map(|disk| disk.serial.as_str()).collect::<Vec<_>>(), ["fsb0"]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the image has no name");

        let mut opened = Opened::default();
        opened.media.insert("vm:0".to_owned(), MediumRecord::default());
        opened.parts.insert("vm:0".to_owned(), Vec::new());
        disks.opened(&mut opened);
        assert!(opened.parts.contains_key("loop"), "{:?}", opened.parts);
        let record = &opened.media["loop"];
        assert_eq!((record.summary.as_str(), record.direct), ("vm disk 1.00 MiB, direct", Some(true)));
        assert!(record.device.backing.is_some() && record.device.serial.is_none());
        // An array is identified by the devices behind its members, because its own number is new each time.
        let numbered =
            |serial: &str| fsb_model::host::DeviceManifest { serial: Some(serial.to_owned()), ..Default::default() };
        let mut array = MediumRecord::default();
        array.device.beneath = vec![numbered("fsb0"), numbered("fsb0")];
        let found = disks.record("raid0:vm:0+vm:0", array).device;
        let one = opened.media["loop"].device.backing.clone().unwrap();
        assert_eq!(found.backing, Some(format!("{one} + {one}")));
    }
}
