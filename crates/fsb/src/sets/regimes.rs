//! Runs in different conditions: another memory-limit mechanism, another limit, another scale.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::RunRecord;
use fsb_model::run::ControlRecord;
use fsb_model::units::show_bytes;

use super::own::OwnRun;

/// Warnings of a comparison of runs, and the reason why nothing may be judged, if there is one.
#[derive(Debug, Default)]
pub(super) struct Regimes {
    /// Warnings about limits, scales or controls that differ.
    pub(super) warnings: Vec<String>,
    /// The reason: memory limits that do not compare, or runs that are not judged.
    pub(super) apart: Option<Apart>,
}

/// The reason why nothing may be judged.
#[derive(Debug, Clone)]
pub struct Apart {
    /// The reason as a warning.
    pub why: String,
    /// A short reason, if not even ratios and p-values are printed.
    pub unjudged: Option<String>,
}

/// Looks at all runs that take part, beside which there may be results of `others`.
pub(super) fn of<'r>(runs: impl Iterator<Item = &'r OwnRun>, others: bool) -> Regimes {
    let mut controls = Controls::default();
    let (mut mechanisms, mut limits, mut scales) = (Kinds::default(), Kinds::default(), Kinds::default());
    let mut unjudged = Unjudged { native: others, ..Unjudged::default() };
    for run in runs {
        let path = run.path.display().to_string();
        unjudged.note(&run.record, &path);
        controls.note(&run.record.controls, &path);
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
    Regimes { warnings: limits.into_iter().chain(scales).chain(controls.differ()).collect(), apart }
}

/// The recorded controls of each run.
#[derive(Debug, Default)]
struct Controls<'r> {
    runs: Vec<(String, &'r BTreeMap<String, ControlRecord>)>,
}

impl<'r> Controls<'r> {
    fn note(&mut self, controls: &'r BTreeMap<String, ControlRecord>, path: &str) {
        self.runs.push((path.to_owned(), controls));
    }

    /// Returns a line for each control that was not the same in all runs.
    fn differ(&self) -> impl Iterator<Item = String> {
        /// Controls that affect the honesty of a run, not the measured quantity, and that differ from run to run.
        const OF_NO_INTEREST: [&str; 2] = ["guest-memory", "page-cache"];
        let names: BTreeSet<&String> = self.runs.iter().flat_map(|(_, controls)| controls.keys()).collect();
        let asked = names.into_iter().filter(|name| !OF_NO_INTEREST.contains(&name.as_str()));
        asked.filter_map(|name| {
            let mut kinds = Kinds::default();
            let of = |controls: &'r BTreeMap<String, ControlRecord>| controls.get(name);
            // A run that did not know the control left the condition alone, like one that kept it.
            let kept = |control: &ControlRecord| control.requested == "keep";
            let is_set = self.runs.iter().filter_map(|(_, controls)| of(controls)).any(|control| !kept(control));
            for (path, controls) in &self.runs {
                match of(controls) {
                    Some(control) => kinds.note(control.observed.clone(), path),
                    None if is_set => kinds.note("not recorded".to_owned(), path),
                    None => {}
                }
            }
            kinds.differ().map(|kinds| format!("the sets were measured with another {name} ({kinds})"))
        })
    }
}

/// Runs that report numbers but judge nothing, and whether there are other runs.
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

/// Values, each with the run that has it.
#[derive(Debug, Default)]
struct Kinds(BTreeSet<(String, String)>);

impl Kinds {
    fn note(&mut self, kind: String, path: &str) {
        self.0.insert((kind, path.to_owned()));
    }

    /// Lists the values and their runs if there is more than one value.
    fn differ(&self) -> Option<String> {
        let kinds: BTreeSet<&String> = self.0.iter().map(|(kind, _)| kind).collect();
        let all = self.0.iter().map(|(kind, path)| format!("{path}: {kind}"));
        (kinds.len() > 1).then(|| all.collect::<Vec<_>>().join("; "))
    }
}
