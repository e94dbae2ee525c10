//! Runs that were held differently: by another mechanism, to another limit, at another scale.

use std::collections::BTreeSet;

use fsb_model::units::show_bytes;
use serde_json::Value;

use super::own::OwnRun;

/// What a comparison of these runs must say, and why nothing may be judged, if nothing may.
#[derive(Debug, Default)]
pub(super) struct Regimes {
    /// Limits or scales that differ.
    pub(super) warnings: Vec<String>,
    /// Memory that was limited in ways that do not compare.
    pub(super) apart: Option<String>,
}

/// Looks at all runs that take part.
pub(super) fn of<'r>(runs: impl Iterator<Item = &'r OwnRun>) -> Regimes {
    let (mut mechanisms, mut limits, mut scales) = (Kinds::default(), Kinds::default(), Kinds::default());
    for run in runs {
        let path = run.path.display().to_string();
        scales.note(format!("{}", run.contents.record.plan.scale), &path);
        for (_, trial) in run.trials() {
            let memory = trial.observed.get("memory_limit");
            let limit = memory.and_then(|memory| memory.get("limit_bytes")).and_then(Value::as_u64);
            limits.note(limit.map_or_else(|| "none".to_owned(), |bytes| show_bytes(bytes as f64)), &path);
            if let Some(mechanism) = memory.and_then(|memory| memory.get("mechanism")).and_then(Value::as_str) {
                mechanisms.note(mechanism.to_owned(), &path);
            }
        }
    }
    let apart = mechanisms.differ().map(|kinds| {
        format!("nothing is judged: memory was limited by different means, which charge differently ({kinds})")
    });
    let limits = limits.differ().map(|kinds| format!("the sets had different memory limits ({kinds})"));
    let scales = scales.differ().map(|kinds| {
        format!("the sets were measured at different scales ({kinds}): other files, another image, the same records")
    });
    Regimes { warnings: limits.into_iter().chain(scales).collect(), apart }
}

/// Values with the runs that have them.
#[derive(Debug, Default)]
struct Kinds(BTreeSet<(String, String)>);

impl Kinds {
    fn note(&mut self, kind: String, path: &str) {
        self.0.insert((kind, path.to_owned()));
    }

    /// Which there are and where, if there are several.
    fn differ(&self) -> Option<String> {
        let kinds: BTreeSet<&String> = self.0.iter().map(|(kind, _)| kind).collect();
        let all = self.0.iter().map(|(kind, path)| format!("{path}: {kind}"));
        (kinds.len() > 1).then(|| all.collect::<Vec<_>>().join("; "))
    }
}
