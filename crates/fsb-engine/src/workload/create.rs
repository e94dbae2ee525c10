//! Creating files: the name, the inode and, where files are not empty, their data.

use fsb_model::metric::OPERATION_RATE;
use fsb_model::{Access, CacheState, Durability};

use super::measure::{Subject, measure_set};
use super::params;
use super::simple::SimpleWorkload;
use super::spec::{Records, Rules, Spec};
use crate::EngineError;
use crate::backend::{Flush, Purpose, Verb};
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::{Content, Interest};
use crate::io_loop::{IoLoop, OpenFileSet};
use crate::order::Visits;
use crate::profile::{Profile, Renewal};
use crate::thread_recorder::ThreadRecorder;
use crate::threads::ThreadJob;

/// The member.
pub(super) static CREATE: SimpleWorkload = SimpleWorkload {
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
        let set = spec.open_set(context)?;
        let threads = CreateThreads { spec, set: &set, context };
        let verb = (spec.layout.file_size > 0).then_some(Verb::Write);
        let subject = Subject { interest: Interest::Names, content: Content::Directories, verb };
        Ok(measure_set(&threads, &set, subject, profile, context, gate)?.0)
    },
};

struct CreateThreads<'s> {
    spec: &'s Spec,
    set: &'s OpenFileSet,
    context: &'s Context,
}

impl<'s> ThreadJob for CreateThreads<'s> {
    type ThreadState = (IoLoop<'s>, Visits);
    type Report = ();

    fn init(&self, rank: u32) -> Result<Self::ThreadState, EngineError> {
        Ok((IoLoop::new(self.set, self.spec.io_options(Purpose::Create))?, self.spec.visits(self.context, rank)))
    }

    fn run(&self, (io, visits): &mut Self::ThreadState, recorder: &mut ThreadRecorder<'_>) -> Result<(), EngineError> {
        let size = self.spec.layout.file_size;
        recorder.start();
        for file in visits {
            let slot = io.open(file)?;
            let mut offset = 0;
            while offset < size {
                let length = self.spec.block_size.min(size - offset);
                io.transfer(slot, file, offset, length)?;
                offset += length;
            }
            if self.spec.durability == Durability::Each {
                io.flush(slot, file, Flush::All)?;
            }
            io.close(slot, file)?;
            if !recorder.lap(Kind::Create, size) {
                break;
            }
        }
        Ok(())
    }

    fn report(&self, _state: Self::ThreadState) {}

    fn syncs_at_end(&self) -> bool {
        self.spec.durability == Durability::End
    }

    fn sync_at_end(
        &self,
        (io, _): &mut Self::ThreadState,
        bytes: u64,
        recorder: &mut ThreadRecorder<'_>,
    ) -> Result<(), EngineError> {
        io.flush_all()?;
        recorder.tick(Kind::Sync, bytes);
        Ok(())
    }
}
