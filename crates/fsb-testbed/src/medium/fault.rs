//! A disk that fails on purpose, for fsb's own tests of failing runs. It works only in a virtual
//! machine: it does not endanger the host, and the changes of a killed run disappear with the
//! guest.

use std::path::Path;

use fsb_model::Medium;
use fsb_model::run::MediumRecord;
use fsb_sys::dm::{Line, Mapped};
use fsb_sys::error::{Refusal, TestbedError};
use fsb_sys::{Roots, block};

use super::composed::member;
use super::kind::{
    FindMedium, GRANULE, MediumArgument, MediumKind, MediumRequest, OpenDevice, OpenMedium,
};
use crate::Progress;
use crate::host;
use crate::ledger::Ledger;

/// `fault:KIND+MEDIUM`. The kind `log-writes` needs a second medium.
pub(super) struct Fault {
    /// Finds the media behind the disk.
    pub(super) find: FindMedium,
}

/// A way in which a disk fails.
struct FaultKind {
    name: &'static str,
    members: usize,
    /// Returns the device-mapper table for the members' device numbers and the size in sectors.
    table: fn(&[String], u64) -> Vec<Line>,
}

static KINDS: &[FaultKind] = &[
    FaultKind {
        name: "error",
        members: 1,
        table: error,
    },
    FaultKind {
        name: "flakey",
        members: 1,
        table: flakey,
    },
    FaultKind {
        name: "log-writes",
        members: 2,
        table: log_writes,
    },
];

/// From 15 % to 35 % of the disk every read and write fails. ext4 without a journal keeps its
/// essential metadata elsewhere.
fn error(devices: &[String], sectors: u64) -> Vec<Line> {
    let (from, to) = (sectors * 15 / 100, sectors * 35 / 100);
    let linear = |start: u64, end: u64| Line {
        start,
        length: end - start,
        target: "linear",
        parameters: format!("{} {start}", devices[0]),
    };
    let hole = Line {
        start: from,
        length: to - from,
        target: "error",
        parameters: String::new(),
    };
    vec![linear(0, from), hole, linear(to, sectors)]
}

/// The disk works for three seconds, then fails for ten minutes.
fn flakey(devices: &[String], sectors: u64) -> Vec<Line> {
    vec![Line {
        start: 0,
        length: sectors,
        target: "flakey",
        parameters: format!("{} 0 3 600", devices[0]),
    }]
}

/// The disk also writes every write to a log, for tests of crashes.
fn log_writes(devices: &[String], sectors: u64) -> Vec<Line> {
    let parameters = format!("{} {}", devices[0], devices[1]);
    vec![Line {
        start: 0,
        length: sectors,
        target: "log-writes",
        parameters,
    }]
}

/// Media with the bytes of an image for each.
type Members = Vec<(Medium, u64)>;

/// Returns the kind, and its members with the bytes of an image for each.
fn parts(request: &MediumRequest<'_>) -> Result<(&'static FaultKind, Members), TestbedError> {
    let argument = request.medium.argument.as_deref().unwrap_or_default();
    let mut words = argument.split('+');
    let name = words.next().unwrap_or_default();
    let kind = KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        TestbedError::request(fsb_model::nearest::unknown(
            "fault",
            name,
            KINDS.iter().map(|kind| kind.name),
        ))
    })?;
    let members: Vec<Medium> = words.map(member).collect();
    if members.len() != kind.members {
        return Err(TestbedError::request(format!(
            "fault:{argument}: {name} takes {} media",
            kind.members
        )));
    }
    let size = request.size / members.len() as u64 / GRANULE * GRANULE;
    Ok((
        kind,
        members.into_iter().map(|medium| (medium, size)).collect(),
    ))
}

/// Like [`Composed::members`](super::kind::Composed::members), with the name of the kind before
/// them.
pub(crate) fn fault_members(
    request: &MediumRequest<'_>,
) -> Result<(&'static str, Members), TestbedError> {
    parts(request).map(|(kind, members)| (kind.name, members))
}

impl MediumKind for Fault {
    fn name(&self) -> &'static str {
        "fault"
    }

    fn argument(&self) -> Option<&'static MediumArgument> {
        Some(&MediumArgument {
            form: "KIND+MEMBER",
            about: "kind of fault and the media behind it",
            example: "@fault:flakey+vm",
            required: true,
        })
    }

    fn about(&self) -> &'static str {
        "A disk that fails on purpose, for fsb's own tests in a virtual machine."
    }

    fn modules(&self) -> &'static [&'static str] {
        &["dm_mod", "dm_flakey", "dm_log_writes"]
    }

    fn check(&self, request: &MediumRequest<'_>) -> Result<u64, TestbedError> {
        let (_, members) = parts(request)?;
        if members.iter().any(|(medium, _)| medium.name != "vm") {
            return Err(
                TestbedError::request("a disk fails on purpose only in a virtual machine")
                    .coded(&fsb_model::error::ONLY_IN_VM)
                    .advice("add --in vm"),
            );
        }
        let (medium, size) = &members[0];
        (self.find)(&medium.name)?.check(&MediumRequest {
            medium,
            size: *size,
            ..*request
        })
    }

    fn open(
        &self,
        request: &MediumRequest<'_>,
        ledger: &Ledger,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Box<dyn OpenMedium>, TestbedError> {
        let sectors = self.check(request)? / 512;
        let (kind, members) = parts(request)?;
        let mut opened = Vec::new();
        for (medium, size) in &members {
            let own = MediumRequest {
                medium,
                size: *size,
                ..*request
            };
            opened.push((self.find)(&medium.name)?.open(&own, ledger, progress)?);
        }
        let fail = |tried: Refusal| {
            TestbedError::machine("the failing disk could not be made").tried(tried)
        };
        let mut numbers = Vec::new();
        for member in &opened {
            let number =
                block::number_of(member.device()).ok_or_else(|| fail("no block device".into()))?;
            numbers.push(format!("{}:{}", number.0, number.1));
        }
        // The mapped device holds its members. A claim of this process would prevent that.
        opened.iter_mut().for_each(|member| member.lend());
        // A run may have several such disks.
        let name = request.medium.to_string().replace(['+', ':'], "-");
        let mapped =
            Mapped::make(&format!("fsb-{name}"), &(kind.table)(&numbers, sectors)).map_err(fail)?;
        let number = block::number_of(&mapped.path)
            .ok_or_else(|| fail(format!("{:?}", mapped.path).into()))?;
        let record = MediumRecord {
            device: host::device_manifest(&Roots::default(), (number.0, number.1)),
            summary: format!("{} over {}", kind.name, opened[0].record().summary),
            unjudged: Some("a disk that fails on purpose".to_owned()),
            ..MediumRecord::default()
        };
        let device = OpenDevice::adopt((&mapped.path, number), request.nodes, false, record)?;
        Ok(Box::new(Failing {
            device,
            mapped,
            members: opened,
        }))
    }
}

struct Failing {
    device: OpenDevice,
    mapped: Mapped,
    members: Vec<Box<dyn OpenMedium>>,
}

impl OpenMedium for Failing {
    fn device(&self) -> &Path {
        self.device.device()
    }

    fn shown(&self) -> &Path {
        self.device.shown()
    }

    fn verify(&self) -> Result<(), TestbedError> {
        self.device.verify()
    }

    fn record(&self) -> &MediumRecord {
        self.device.record()
    }

    fn can_discard(&self) -> bool {
        false
    }

    fn lend(&mut self) {
        self.device.lend();
    }

    fn lock(&mut self) {
        self.device.lock();
    }

    fn take_back(&mut self) -> Result<(), TestbedError> {
        self.device.take_back()
    }

    fn close(&mut self, ledger: &Ledger) -> Vec<String> {
        let mut failures = self.device.close(ledger);
        failures.extend(self.mapped.remove().err().map(String::from));
        failures.extend(
            self.members
                .iter_mut()
                .flat_map(|member| member.close(ledger)),
        );
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(medium: &Medium) -> MediumRequest<'_> {
        MediumRequest {
            size: 64 << 20,
            seed: 1,
            ..MediumRequest::new(medium, Path::new("/"))
        }
    }

    fn fault(argument: &str) -> Medium {
        Medium {
            name: "fault".to_owned(),
            argument: Some(argument.to_owned()),
        }
    }

    #[test]
    fn tables_cover_the_disk_without_gaps() {
        let devices = ["254:0".to_owned(), "254:16".to_owned()];
        for kind in KINDS {
            let table = (kind.table)(&devices, 131_072);
            let mut next = 0;
            for line in &table {
                assert_eq!(line.start, next, "{}", kind.name);
                next += line.length;
            }
            assert_eq!(next, 131_072, "{}", kind.name);
        }
    }

    #[test]
    fn disks_of_the_host_never_fail_on_purpose() {
        for (argument, says) in [
            ("error+loop", "only in a virtual machine"),
            ("error+/dev/null", "only in a virtual machine"),
            ("eror+loop", "did you mean 'error'"),
            ("error", "error takes 1 media"),
            ("log-writes+loop", "log-writes takes 2 media"),
        ] {
            let medium = fault(argument);
            let error = Fault {
                find: super::super::find,
            }
            .check(&request(&medium))
            .unwrap_err();
            assert!(error.to_string().contains(says), "{argument}: {error}");
        }
    }
}
