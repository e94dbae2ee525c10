//! Runs that were held differently: by another mechanism, to another limit, at another scale.

use std::collections::BTreeSet;

use fsb_model::RunRecord;
use fsb_model::units::show_bytes;

use super::own::OwnRun;

/// What a comparison of these runs must say, and why nothing may be judged, if nothing may.
#[derive(Debug, Default)]
pub(super) struct Regimes {
    /// Limits or scales that differ.
    pub(super) warnings: Vec<String>,
    /// Memory that was limited in ways that do not compare, or runs by which nothing is judged.
    pub(super) apart: Option<Apart>,
}

/// Why nothing may be judged.
#[derive(Debug)]
pub struct Apart {
    /// As a warning.
    pub why: String,
    /// In few words, where the numbers do not even stand beside each other: no ratio, no p-value.
    pub unjudged: Option<String>,
}

/// Looks at all runs that take part, beside which there may be results of `others`.
pub(super) fn of<'r>(runs: impl Iterator<Item = &'r OwnRun>, others: bool) -> Regimes {
    let (mut mechanisms, mut limits, mut scales) = (Kinds::default(), Kinds::default(), Kinds::default());
    let mut unjudged = Unjudged { native: others, ..Unjudged::default() };
    for run in runs {
        let path = run.path.display().to_string();
        unjudged.note(&run.record, &path);
        scales.note(format!("{}", run.record.plan.scale), &path);
        for limit in &run.trials.limits {
            limits.note(limit.map_or_else(|| "none".to_owned(), |bytes| show_bytes(bytes as f64)), &path);
        }
        for mechanism in &run.trials.mechanisms {
            mechanisms.note(mechanism.clone(), &path);
        }
    }
    let apart = unjudged.why().or_else(|| {
        let kinds = mechanisms.differ()?;
        let why =
            format!("nothing is judged: memory was limited by different means, which charge differently ({kinds})");
        Some(Apart { why, unjudged: None })
    });
    let limits = limits.differ().map(|kinds| format!("the sets had different memory limits ({kinds})"));
    let scales = scales.differ().map(|kinds| {
        format!("the sets were measured at different scales ({kinds}): other files, another image, the same records")
    });
    Regimes { warnings: limits.into_iter().chain(scales).collect(), apart }
}

/// Runs that give numbers and judge nothing, and whether there are others.
#[derive(Debug, Default)]
struct Unjudged {
    native: bool,
    emulated: Vec<String>,
    media: Vec<String>,
}

impl Unjudged {
    fn note(&mut self, record: &RunRecord, path: &str) {
        if record.emulated {
            self.emulated.push(path.to_owned());
            return;
        }
        self.native = true;
        let targets = record.plan.targets.iter();
        let why: BTreeSet<String> = targets.filter_map(|target| record.unjudged_target(target)).collect();
        self.media.extend(why.into_iter().map(|why| format!("{path}: {why}")));
    }

    fn why(&self) -> Option<Apart> {
        let emulated = self.emulated.join(", ");
        if !self.emulated.is_empty() && self.native {
            let why = format!(
                "nothing is judged: {emulated} was made on emulated processors and others were not: emulation inflates \
                 what code costs against what the device costs, so the two are never compared"
            );
            return Some(Apart { why, unjudged: Some("emulated and native runs are never compared".to_owned()) });
        }
        if !self.emulated.is_empty() {
            let why = format!("nothing is judged: emulated: functional runs ({emulated})");
            return Some(Apart { why, unjudged: Some("emulated: a functional run".to_owned()) });
        }
        let why = format!("nothing is judged: {}", self.media.join("; "));
        (!self.media.is_empty()).then_some(Apart { why, unjudged: None })
    }
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
