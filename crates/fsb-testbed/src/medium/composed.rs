//! The members of media that are made of other media.

use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fsb_model::Medium;
use fsb_model::host::DeviceManifest;
use fsb_model::run::MediumRecord;
use fsb_sys::Roots;
use fsb_sys::block::{self, DeviceNumber};
use fsb_sys::error::TestbedError;
use rustix::fs::{Mode, OFlags};

use super::kind::{
    FindMedium, GRANULE, MediumRequest, Member, OpenDevice, OpenMedium, check_argument,
};
use super::loop_image::backing;
use crate::Progress;
use crate::ledger::{EntryHandle, Ledger};

/// The reason why an array on one disk is not ranked.
const WHY: &str = "share one disk";

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

/// Parses the members that the argument names: `loop+loop`, `/dev/sda+/dev/sdb`. Images share the
/// image size of the run.
pub(super) fn members(
    request: &MediumRequest<'_>,
    find: FindMedium,
    number: RangeInclusive<usize>,
) -> Result<Vec<Member>, TestbedError> {
    let medium = request.medium;
    let texts: Vec<&str> = medium.members().collect();
    let example = find(&medium.name)?
        .argument()
        .map_or("", |argument| argument.example);
    let refused = |what: String| {
        TestbedError::request(format!("{medium}: {what}"))
            .advice(format!("name its members as in {example}"))
    };
    let (least, most) = number.into_inner();
    if texts.len() < least {
        return Err(refused(format!("it has at least {least} members")));
    }
    if texts.len() > most {
        return Err(refused(format!("it has at most {most} members")));
    }
    let size = request.size / texts.len() as u64 / GRANULE * GRANULE;
    let member = |text: &str| {
        let medium = member(text);
        match medium.name.as_str() {
            "" => Err(refused("a member is missing".to_owned())),
            _ if medium.is_composed() => Err(refused(format!(
                "{} is made of media itself and cannot be a member",
                medium.name
            ))),
            _ => {
                check_argument(find(&medium.name)?, &medium)?;
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

/// Returns the sizes of the members.
///
/// # Errors
///
/// Fails if a member cannot be made, or if the images do not fit together.
pub(super) fn check_images(
    request: &MediumRequest<'_>,
    find: FindMedium,
    members: &[Member],
) -> Result<Vec<u64>, TestbedError> {
    let check = |medium: &Medium, size: u64| {
        find(&medium.name)?.check(&MediumRequest {
            medium,
            size,
            ..*request
        })
    };
    let sizes = members
        .iter()
        .map(|member| check(&member.medium, member.size))
        .collect::<Result<Vec<_>, _>>()?;
    let images: Vec<_> = members
        .iter()
        .filter(|member| member.medium.argument.is_none())
        .collect();
    if let Some(image) = images.first() {
        check(&image.medium, images.iter().map(|image| image.size).sum())?;
    }
    Ok(sizes)
}

/// Makes the members and adds them to `opened`. Each of them is filled with data of its own.
pub(super) fn open_members(
    opened: &mut Vec<Box<dyn OpenMedium>>,
    find: FindMedium,
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
        opened.push(find(&member.medium.name)?.open(&own, ledger, progress)?);
    }
    Ok(())
}

/// An open medium whose device lies above the devices of its members.
pub(super) trait OpenComposed {
    /// Returns the device on top. `None` before it is opened and after it is closed.
    fn top(&self) -> Option<&OpenDevice>;
    /// Returns the device on top to change it or to take it.
    fn top_mut(&mut self) -> &mut Option<OpenDevice>;
    /// Returns the record of the medium.
    fn record(&self) -> &MediumRecord;
    /// Returns the members.
    fn members_mut(&mut self) -> &mut [Box<dyn OpenMedium>];
    /// Returns the entries in the ledger of the devices above the members, in the order of the
    /// changes.
    fn take_entries(&mut self) -> Vec<EntryHandle>;
    /// As [`OpenMedium::renew`].
    fn renew(&mut self) -> Result<(), TestbedError> {
        Ok(())
    }
}

/// The path of a device that is not open.
const CLOSED: &str = "/nonexistent";

impl<T: OpenComposed> OpenMedium for T {
    fn device(&self) -> &Path {
        self.top().map_or(Path::new(CLOSED), OpenMedium::device)
    }

    fn shown(&self) -> &Path {
        self.top().map_or(Path::new(CLOSED), OpenMedium::shown)
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.top().map_or(Ok(()), OpenMedium::verify)
    }

    fn record(&self) -> &MediumRecord {
        OpenComposed::record(self)
    }

    fn can_discard(&self) -> bool {
        self.top().is_some_and(OpenMedium::can_discard)
    }

    fn lend(&mut self) {
        if let Some(device) = self.top_mut() {
            device.lend();
        }
    }

    fn lock(&mut self) {
        if let Some(device) = self.top_mut() {
            device.lock();
        }
    }

    fn take_back(&mut self) -> Result<(), TestbedError> {
        self.top_mut()
            .as_mut()
            .map_or(Ok(()), OpenMedium::take_back)
    }

    fn renew(&mut self) -> Result<(), TestbedError> {
        OpenComposed::renew(self)
    }

    /// Closes the devices from the highest one down, before the members.
    fn close(&mut self, ledger: &Ledger) -> Vec<String> {
        let mut failures = Vec::new();
        if let Some(mut device) = self.top_mut().take() {
            failures.extend(device.close(ledger));
        }
        for entry in self.take_entries().into_iter().rev() {
            failures.extend(ledger.undo(entry).err().map(|error| error.to_string()));
        }
        for member in self.members_mut() {
            failures.extend(member.close(ledger));
        }
        failures
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

/// Joins summaries: `2 × loop 1 GiB, direct`.
pub(super) fn alike(summaries: &[&str]) -> String {
    match summaries {
        [first, rest @ ..] if rest.iter().all(|other| other == first) => {
            format!("{} × {first}", summaries.len())
        }
        _ => summaries.join(" + "),
    }
}

/// Overwrites a device that nothing uses, past its page cache.
pub(super) fn fill(
    path: &Path,
    size: u64,
    seed: u64,
    tell: &mut dyn FnMut(u64),
) -> std::io::Result<()> {
    let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    let device = rustix::fs::open(path, flags, Mode::empty())?;
    block::fill(device.as_fd(), std::slice::from_ref(&(0..size)), seed, tell)?;
    Ok(rustix::fs::fdatasync(&device)?)
}
