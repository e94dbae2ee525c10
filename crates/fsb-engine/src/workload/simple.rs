//! Workloads that take the shared parameters and no others: their rules, and their work on a set of files.

use fsb_model::Params;

use super::job::{Job, Unit, Workload};
use super::parameter::Parameter;
use super::spec::{Rules, Spec};
use super::unit::{self, Change};
use crate::backend::Backend;
use crate::context::Context;
use crate::fileset::{self, Content};
use crate::profile::Profile;
use crate::task::{Gate, Measurement};
use crate::{EngineError, ParamError, Sizing};

/// A member of the registry.
#[derive(Clone, Copy)]
pub(super) struct SimpleWorkload {
    pub(super) rules: Rules,
    pub(super) about: &'static str,
    pub(super) example: fn() -> Params,
    /// The content of the files before the clock starts.
    pub(super) content: Content,
    /// The change that the measurement makes to these files.
    pub(super) change: Change,
    pub(super) profile: fn(&Spec) -> Profile,
    pub(super) measure: fn(&Spec, &Profile, &Context, &mut dyn Gate) -> Result<Measurement, EngineError>,
}

impl Workload for SimpleWorkload {
    fn name(&self) -> &'static str {
        self.rules.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn example(&self) -> Params {
        (self.example)()
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.rules.parameters()
    }

    fn parse(&self, params: &Params, sizing: &Sizing) -> Result<Box<dyn Job>, ParamError> {
        Ok(Box::new(SimpleJob { member: *self, spec: Spec::parse(self.rules, params, sizing)? }))
    }
}

struct SimpleJob {
    member: SimpleWorkload,
    spec: Spec,
}

impl Job for SimpleJob {
    fn profile(&self) -> Profile {
        (self.member.profile)(&self.spec)
    }

    fn params(&self) -> Params {
        self.spec.params()
    }

    fn backend(&self) -> &'static dyn Backend {
        self.spec.backend
    }

    fn unit(&self) -> Option<Unit> {
        unit::of_set(self, &self.spec, self.member.change, |params| {
            let sizing = Sizing { size: 0, cpus: 1 };
            Some(SimpleJob { member: self.member, spec: Spec::parse(self.member.rules, params, &sizing).ok()? })
        })
    }

    fn prepare(&self, context: &Context) -> Result<(), EngineError> {
        self.spec.prepare(context, self.member.content)
    }

    fn measure(&self, context: &Context, gate: &mut dyn Gate) -> Result<Measurement, EngineError> {
        (self.member.measure)(&self.spec, &self.profile(), context, gate)
    }

    fn cleanup(&self, context: &Context) -> Result<(), EngineError> {
        fileset::remove(&context.set(), &context.progress)
    }
}
