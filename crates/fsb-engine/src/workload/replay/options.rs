//! What a plan says about a replay.

use fsb_model::{CacheState, Params};
use fsb_trace::{Overhead, Totals};
use serde_json::Value;

use super::source::Source;
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

impl Options {
    pub(super) fn parse(name: &str, params: &Params, sizing: &Sizing) -> Result<Options, ParamError> {
        let mut reader = Reader::new(name, params, sizing);
        let source = reader.text("trace")?.map(|text| Source::of(&text));
        let pace = pace(&mut reader)?;
        let cache = reader.word("cache", &super::caches(), CacheState::name)?.unwrap_or_default();
        let force = reader.flag("force", false)?;
        let calls = reader.take("calls").and_then(Value::as_u64);
        let label = reader.text("label")?;
        let source = source
            .ok_or_else(|| reader.error("trace", "say which trace is replayed, such as trace = \"app.trace\""))?;
        let unfit = |reader: &Reader<'_>, message: String| Err(reader.error("trace", message));
        let skimmed = source.skim().map_err(|error| reader.error("trace", error.message))?;
        let (totals, overhead) = (skimmed.totals, skimmed.header.overhead);
        if calls.is_some_and(|calls| calls != totals.calls) {
            return unfit(&reader, format!("{} is another trace than before", source.text()));
        }
        if totals.replayed == 0 {
            return unfit(&reader, format!("{} holds no call that could be replayed", source.text()));
        }
        if totals.lanes > MOST_LANES {
            let message = format!("{} threads at once are too many: at most {MOST_LANES}", totals.lanes);
            return unfit(&reader, message);
        }
        if let Some(reason) = totals.incomplete.first().filter(|_| !force) {
            let message = format!(
                "{} is incomplete: {reason} could not be seen, so a ranking by it may be wrong; force = true (--force) replays \
                 it all the same",
                source.text()
            );
            return unfit(&reader, message);
        }
        reader.finish()?;
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
            0.0 => ", without thought".to_owned(),
            1.0 => String::new(),
            factor => format!(", thought × {factor}"),
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
    let Some(value) = reader.take("pace") else { return Ok(Pace(1.0)) };
    let number = || value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let factor = match value.as_str() {
        Some("recorded") => Some(1.0),
        Some("none") => Some(0.0),
        _ => number().filter(|factor| (0.0..=1000.0).contains(factor)),
    };
    let wanted = || reader.error("pace", format!("{value} is neither recorded nor none nor a factor such as 0.5"));
    factor.map(Pace).ok_or_else(wanted)
}
