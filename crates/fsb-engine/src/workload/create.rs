//! Creating files: the name, the inode and, where files are not empty, their data.

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Access, CacheState, Durability};

use super::conduct::{Subject, conduct};
use super::params;
use super::plain::Plain;
use super::spec::{Records, Rules, Spec};
use crate::EngineError;
use crate::backend::{Flush, Purpose, Verb};
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::{Content, Interest};
use crate::lane::Lane;
use crate::order::Visits;
use crate::profile::{Profile, Renewal};
use crate::pump::{Pump, Stage};
use crate::team::Crew;

/// The member.
pub(super) static CREATE: Plain = Plain {
    rules: Rules {
        name: "create",
        files: "min(10000, size/64K)",
        file_size: "4K",
        records: Records::WholeFile,
        access: &[Access::Sequential],
        durability: Durability::ALL,
        cache: &[CacheState::Any],
    },
    about: "create files with their data: open, write, close, and fsync where each is durable",
    example: || params::of([("files", 12.into()), ("files_per_directory", 5.into()), ("durability", "each".into())]),
    content: Content::Directories,
    profile: |spec| Profile {
        renewal: Renewal::Recreate,
        repeats_in_place: false,
        primary: &OPERATION_RATE,
        cold_bytes_per_operation: 0,
        ..spec.profile("create", spec.files_label("create"))
    },
    measure: |spec, profile, context, gate| {
        let stage = spec.stage(context)?;
        let crew = Creators { spec, stage: &stage, context };
        let verb = (spec.layout.file_size > 0).then_some(Verb::Write);
        let subject = Subject { interest: Interest::Names, content: Content::Directories, verb };
        Ok(conduct(&crew, &stage, subject, profile, context, gate)?.0)
    },
};

struct Creators<'s> {
    spec: &'s Spec,
    stage: &'s Stage,
    context: &'s Context,
}

impl<'s> Crew for Creators<'s> {
    type Kit = (Pump<'s>, Visits);
    type Report = ();

    fn equip(&self, rank: u32) -> Result<Self::Kit, EngineError> {
        Ok((Pump::new(self.stage, self.spec.manner(Purpose::Create))?, self.spec.visits(self.context, rank)))
    }

    fn work(&self, (pump, visits): &mut Self::Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        let size = self.spec.layout.file_size;
        lane.start();
        for file in visits {
            let slot = pump.open(file)?;
            let mut offset = 0;
            while offset < size {
                let length = self.spec.block_size.min(size - offset);
                pump.transfer(slot, file, offset, length)?;
                offset += length;
            }
            if self.spec.durability == Durability::Each {
                pump.flush(slot, file, Flush::All)?;
            }
            pump.close(slot, file)?;
            if !lane.lap(Kind::Create, size) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _kit: Self::Kit) {}

    fn closes(&self) -> bool {
        self.spec.durability == Durability::End
    }

    fn close(&self, (pump, _): &mut Self::Kit, bytes: u64, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        pump.flush_all()?;
        lane.tick(Kind::Sync, bytes);
        Ok(())
    }
}
