//! The three steps as all workloads over a file set do them.

use fsb_model::CacheState;

use super::spec::Spec;
use crate::EngineError;
use crate::backend::{Backend, Purpose, Verb};
use crate::clock::Kind;
use crate::context::Context;
use crate::fileset::{self, Content, Interest, Layout};
use crate::lane::Lane;
use crate::order::{self, Visits};
use crate::profile::Profile;
use crate::pump::{Manner, Pump, Stage};
use crate::task::{Gate, Measurement, Ready};
use crate::team::{self, Crew};

impl Spec {
    fn backend_for(&self, context: &Context) -> &'static dyn Backend {
        context.backend(self.backend)
    }

    /// Makes the files, unless the backend touches none.
    pub(crate) fn prepare(&self, context: &Context, content: Content) -> Result<(), EngineError> {
        if !self.backend_for(context).capabilities().real {
            return Ok(());
        }
        let settle = self.cache != CacheState::Any;
        fileset::build(&context.set(), &self.layout, content, settle, context.seed)
    }

    /// Removes the files, unless the backend touches none.
    pub(crate) fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        if self.backend_for(context).capabilities().real { fileset::remove(&context.set()) } else { Ok(()) }
    }

    /// The set that [`Spec::prepare`] made, open.
    pub(crate) fn stage(&self, context: &Context) -> Result<Stage, EngineError> {
        Stage::open(self.backend_for(context), context.set(), self.layout, context.seed)
    }

    /// The items that a thread visits.
    pub(crate) fn visits(&self, context: &Context, rank: u32) -> Visits {
        let items = self.items();
        let share = order::share(items, context.operations, rank, self.threads);
        Visits::new(items, share, self.access, context.seed, context.repetition)
    }
}

/// Runs a crew over a set: brings the cache into its state, waits at the gate, measures, examines the cache again.
/// `content` is what the files hold before. The threads' reports come beside the measurement.
pub(crate) fn conduct<C: Crew>(
    crew: &C,
    stage: &Stage,
    (interest, content): (Interest, Content),
    profile: &Profile,
    context: &Context,
    gate: &mut dyn Gate,
) -> Result<(Measurement, Vec<C::Report>), EngineError> {
    check_operations(profile, context.operations)?;
    let real = stage.backend.capabilities().real;
    let ready = if real {
        if interest == Interest::Data {
            stage.backend.examine(&stage.set.join(stage.layout.path(0)), profile.record_size)?;
        }
        fileset::ready(&stage.set, &stage.layout, interest, profile.cache, context.evict)?
    } else {
        pretend(&stage.layout, (interest, content), profile.cache)
    };
    let outcome = team::run(crew, context, profile, ready, gate)?;
    let mut measurement = outcome.measurement(profile.operation);
    measurement.resident_after = if real {
        fileset::resident_after(&stage.set, &stage.layout, interest)
    } else {
        pretend(&stage.layout, (interest, Content::Full), CacheState::Warm).resident_bytes
    };
    Ok((measurement, outcome.reports))
}

/// What a backend that touches nothing would find.
fn pretend(layout: &Layout, (interest, content): (Interest, Content), cache: CacheState) -> Ready {
    let whole = if content == Content::Full { fileset::examined(layout) * layout.file_size } else { 0 };
    match interest {
        Interest::Names => Ready { resident_bytes: None, file_bytes: 0 },
        Interest::Data => {
            let resident = if cache == CacheState::Cold { 0 } else { whole };
            Ready { resident_bytes: Some(resident), file_bytes: whole }
        }
    }
}

/// An amount that the job cannot do is the caller's mistake, and must not become a wrong number.
fn check_operations(profile: &Profile, operations: u64) -> Result<(), EngineError> {
    let Profile { label, operations: whole, .. } = profile;
    if operations < *whole && !profile.divisible {
        return Err(EngineError::new(format!("{label}: {operations} operations, but it does {whole} or none")));
    }
    if operations > *whole && !profile.repeats_in_place {
        return Err(EngineError::new(format!("{label}: {operations} operations, but one repetition has {whole}")));
    }
    Ok(())
}

/// A crew that moves the records of a set, each thread its share.
pub(crate) struct DataCrew<'s> {
    pub(crate) stage: &'s Stage,
    pub(crate) spec: &'s Spec,
    pub(crate) context: &'s Context,
    pub(crate) manner: Manner,
    /// Bring everything onto the device at the end, inside the clock.
    pub(crate) flush_at_end: bool,
}

impl Spec {
    /// How a pump moves this job's records.
    pub(crate) fn manner(&self, purpose: Purpose) -> Manner {
        let (verb, kind) = match purpose {
            Purpose::Read => (Verb::Read, Kind::Read),
            Purpose::Write | Purpose::Append => (Verb::Write, Kind::Write),
            Purpose::Create => (Verb::Write, Kind::Create),
        };
        Manner {
            purpose,
            verb,
            kind,
            record_size: self.block_size,
            access: self.access,
            hold: purpose != Purpose::Create,
            flush_each: self.durability == fsb_model::Durability::Each,
            depth: self.depth,
        }
    }

    /// Measures the moving of records.
    pub(crate) fn measure_data(
        &self,
        purpose: Purpose,
        content: Content,
        profile: &Profile,
        context: &Context,
        gate: &mut dyn Gate,
    ) -> Result<Measurement, EngineError> {
        let stage = self.stage(context)?;
        let flush_at_end = self.durability == fsb_model::Durability::End;
        let crew = DataCrew { stage: &stage, spec: self, context, manner: self.manner(purpose), flush_at_end };
        Ok(conduct(&crew, &stage, (Interest::Data, content), profile, context, gate)?.0)
    }
}

impl<'s> Crew for DataCrew<'s> {
    type Kit = (Pump<'s>, Visits);
    type Report = ();

    fn equip(&self, rank: u32) -> Result<Self::Kit, EngineError> {
        Ok((Pump::new(self.stage, self.manner)?, self.spec.visits(self.context, rank)))
    }

    fn work(&self, (pump, visits): &mut Self::Kit, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        pump.run(visits, lane)
    }

    fn report(&self, _kit: Self::Kit) {}

    fn closes(&self) -> bool {
        self.flush_at_end
    }

    fn close(&self, (pump, _): &mut Self::Kit, bytes: u64, lane: &mut Lane<'_>) -> Result<(), EngineError> {
        pump.flush_all()?;
        lane.tick(Kind::Sync, bytes);
        Ok(())
    }
}
