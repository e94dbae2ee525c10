//! What a plan says about a replay.

use fsb_model::{CacheState, Params};
use fsb_trace::{Overhead, Totals};
use serde_json::Value;

use super::source::Source;
use crate::workload::parameter::{self, Parameter, ParameterDefault, ParameterGroup, ParameterKind, group};
use crate::workload::params::Reader;
use crate::{ParamError, Sizing};

/// More threads than these are not started.
const MOST_LANES: u32 = 1024;

/// How long thought takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace(pub(super) f64);

/// Resolved parameters, and what the trace says of itself.
pub(super) struct Options {
    pub(super) source: Source,
    pub(super) pace: Pace,
    pub(super) cache: CacheState,
    force: bool,
    label: Option<String>,
    pub(super) totals: Totals,
    pub(super) overhead: Overhead,
}

/// The table of parameters.
pub(super) fn parameters() -> Vec<Parameter> {
    let trace = ParameterDefault::Required("trace = \"app.trace\"");
    let mut all = group(
        ParameterGroup::Work,
        [
            Parameter::new("trace", ParameterKind::Path, trace, "trace to replay: a file that 'fsb record' wrote"),
            Parameter::new("pace", ParameterKind::Pace, "recorded", "think time between calls"),
            Parameter::flag("force", "replay a trace although it is incomplete"),
        ],
    );
    all.extend(group(ParameterGroup::State, [parameter::cache(&caches())]));
    all.extend(group(ParameterGroup::Results, [parameter::label()]));
    let calls = ParameterDefault::Derived("counted in the trace");
    let about = "calls of the trace, so that a different one is refused";
    all.extend(group(
        ParameterGroup::Resolved,
        [Parameter::new("calls", ParameterKind::Number(0..=u64::MAX), calls, about)],
    ));
    all
}

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, parameters(), params, sizing)?;
        let trace = reader.text("trace")?.unwrap_or_default();
        let pace = pace(&mut reader)?;
        let cache = reader.word("cache", CacheState::ALL, CacheState::name)?;
        let force = reader.flag("force")?;
        let calls = reader.take("calls").and_then(Value::as_u64);
        let label = reader.text("label")?;
        let source = Source::of(&trace);
        let unfit = |reader: &Reader<'_>, message: String| Err(reader.error("trace", message));
        let skimmed = source.skim().map_err(|error| reader.error("trace", error.message))?;
        let (totals, overhead) = (skimmed.totals, skimmed.header.overhead);
        if calls.is_some_and(|calls| calls != totals.calls) {
            return unfit(&reader, format!("{} is not the trace that the run began with", source.text()));
        }
        if totals.replayed == 0 {
            return unfit(&reader, format!("{} holds no call that fsb can replay", source.text()));
        }
        if totals.lanes > MOST_LANES {
            let message = format!("{} threads at once are too many: at most {MOST_LANES}", totals.lanes);
            return unfit(&reader, message);
        }
        if let Some(reason) = totals.incomplete.first().filter(|_| !force) {
            let message = format!(
                "{} is incomplete: {reason} were not recorded, so a ranking may be wrong; replay it with --force \
                 (force = true)",
                source.text()
            );
            return unfit(&reader, message);
        }
        reader.finish();
        Ok(Options { source, pace, cache, force, label, totals, overhead })
    }

    pub(super) fn params(&self) -> Params {
        let mut params = crate::workload::params::of([
            ("trace", self.source.text().into()),
            ("calls", self.totals.calls.into()),
            ("cache", self.cache.name().into()),
            ("pace", self.pace.value()),
        ]);
        if self.force {
            params.insert("force".to_owned(), true.into());
        }
        if let Some(label) = &self.label {
            params.insert("label".to_owned(), label.as_str().into());
        }
        params
    }

    pub(super) fn label(&self) -> String {
        if let Some(label) = &self.label {
            return label.clone();
        }
        let mut label = format!("replay of {}", self.source.shown());
        label.push_str(&match self.pace.0 {
            0.0 => ", without think times".to_owned(),
            1.0 => String::new(),
            factor => format!(", think times × {factor}"),
        });
        if self.cache == CacheState::Cold {
            label.push_str(", cold");
        }
        if !self.totals.incomplete.is_empty() {
            label.push_str(", incomplete");
        }
        label
    }
}

impl Pace {
    fn value(self) -> Value {
        match self.0 {
            0.0 => "none".into(),
            1.0 => "recorded".into(),
            factor => factor.into(),
        }
    }
}

fn pace(reader: &mut Reader<'_>) -> Result<Pace, ParamError> {
    let Some(value) = reader.value("pace") else { return Ok(Pace(1.0)) };
    let number = || value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let factor = match value.as_str() {
        Some("recorded") => Some(1.0),
        Some("none") => Some(0.0),
        _ => number().filter(|factor| (0.0..=1000.0).contains(factor)),
    };
    let wanted = || reader.error("pace", format!("{value} is neither recorded nor none nor a factor such as 0.5"));
    factor.map(Pace).ok_or_else(wanted)
}

/// Returns the states of the cache that a replay can start with.
fn caches() -> [CacheState; 2] {
    [CacheState::Any, CacheState::Cold]
}
