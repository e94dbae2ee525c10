//! Writing records into new files, or over what fully written files hold.
//!
//! The two are different work: new data needs space found for it, old data is replaced where it lies. Random writes are
//! always of the second kind, or they would measure how holes are filled.

use fsb_model::{Access, CacheState, Durability, Params};

use super::params::{self, Reader};
use super::spec::{Records, Rules, Spec};
use super::{Job, Workload};
use crate::backend::Purpose;
use crate::context::Context;
use crate::fileset::Content;
use crate::profile::{Profile, Renewal};
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

const RULES: Rules = Rules {
    name: "write",
    files: "1",
    file_size: "size/8",
    records: Records::Each,
    access: Access::ALL,
    durability: Durability::ALL,
    cache: CacheState::ALL,
};

/// The member.
pub(super) struct Write;

impl Workload for Write {
    fn name(&self) -> &'static str {
        RULES.name
    }

    fn about(&self) -> &'static str {
        "write records: into new files, or at random (or with overwrite) over fully written ones"
    }

    fn example(&self) -> Params {
        params::of([("file_size", "64K".into()), ("block_size", "4K".into()), ("durability", "end".into())])
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        let mut reader = Reader::new(RULES.name, params, sizing);
        let spec = Spec::read(RULES, &mut reader)?;
        let random = spec.access == Access::Random;
        let overwrite = reader.flag("overwrite", random)?;
        if random && !overwrite {
            return Err(reader.error("overwrite", "random writes go over fully written files, so it cannot be false"));
        }
        if !overwrite && spec.cache != CacheState::Any {
            let message = format!("new files are never {}: leave it out, or set overwrite", spec.cache.name());
            return Err(reader.error("cache", message));
        }
        reader.finish()?;
        Ok(Box::new(WriteJob { spec, overwrite }))
    }
}

struct WriteJob {
    spec: Spec,
    overwrite: bool,
}

impl WriteJob {
    fn content(&self) -> Content {
        if self.overwrite { Content::Full } else { Content::Empty }
    }
}

impl Job for WriteJob {
    fn profile(&self) -> Profile {
        let sequential = self.spec.access == Access::Sequential;
        let verb = if self.overwrite && sequential { "overwrite" } else { "write" };
        let mut profile = self.spec.profile("write", self.spec.data_label(verb));
        if !self.overwrite {
            profile.renewal = Renewal::Recreate;
            profile.repeats_in_place = false;
        }
        // Whole blocks are replaced without being read.
        profile.cold_bytes_per_operation = 0;
        profile
    }

    fn params(&self) -> Params {
        let mut params = self.spec.params();
        params.insert("overwrite".to_owned(), self.overwrite.into());
        params
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, self.content())
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        self.spec.measure_data(Purpose::Write, self.content(), &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.cleanup(context)
    }
}
