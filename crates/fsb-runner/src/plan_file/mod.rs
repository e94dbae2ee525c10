//! Plans as people write them: TOML in which everything is optional. They resolve to plans that can be run.
//!
//! The written form (a plan file, a suite, the command line) and its meaning ([`fsb_model::Plan`]) are two types.
//! Written plans are merged. Only the resolved plan is ever run.

mod error;
mod place;
mod print;
mod repetition;
mod resolve;
mod written;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use fsb_model::code::Coded;
use fsb_model::plan::Identity;
use fsb_model::{Bytes, WorkloadSpec, nearest};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::target_file::TargetFile;

pub use error::{CODES, PlanError};
use error::{PLAN_VALUE, UNKNOWN_KEY};
pub use print::print;
pub use repetition::RepetitionFile;
pub use resolve::Resolved;

/// The suite when none is named.
pub(crate) const DEFAULT_SUITE: &str = "quick";
/// The size of an image when none is given.
pub(crate) const DEFAULT_SIZE: Bytes = Bytes(2 << 30);
/// The default of the smallest ratio that matters.
pub(crate) const DEFAULT_THETA: &str = "3%";

/// A plan as written: every field may be missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The name of the run; by default that of the suite or of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Targets, each as on the command line, or as a table with controls of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Spanned<TargetFile>>,
    /// A suite, instead of workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// The seed, which decides order and data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Size of the image, such as `2G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Multiplies sizes of files, the image and the memory limit: `1/8`, `0.125` or `12.5%`.
    #[serde(default, deserialize_with = "written::factor_at", skip_serializing_if = "Option::is_none")]
    pub scale: Option<Spanned<String>>,
    /// The factor that all sizes here were multiplied with already, for the record.
    #[serde(default, deserialize_with = "written::factor_at", skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Spanned<String>>,
    /// The directory of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The smallest ratio that matters, such as `3%`.
    #[serde(default, deserialize_with = "written::share_at", skip_serializing_if = "Option::is_none")]
    pub theta: Option<Spanned<String>>,
    /// Block devices whose content the user allowed to be destroyed. Only the command line sets them.
    #[serde(skip)]
    pub wipe: Vec<PathBuf>,
    /// The user that workers run as. Only the command line sets it.
    #[serde(skip)]
    pub identity: Identity,
    /// Targets take turns, though they could be measured side by side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_at_a_time: bool,
    /// Targets that weaken durability may win against targets that do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub risky: bool,
    /// Every mkfs program chooses the geometry by the size of its slice.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mkfs_defaults: bool,
    /// The race that chooses one of the targets. Only the command line sets it.
    #[serde(skip)]
    pub race: Option<fsb_model::Race>,
    /// Whether every workload that can do so compares the data that it reads with the data that was written. Only the
    /// command line sets it. In a printed plan, the workloads have the parameter.
    #[serde(skip)]
    pub verify: bool,
    /// The number of blocks, the budget and the length of samples.
    #[serde(default, skip_serializing_if = "RepetitionFile::is_empty")]
    pub repetition: RepetitionFile,
    /// Controls by name.
    #[serde(default, deserialize_with = "written::controls", skip_serializing_if = "BTreeMap::is_empty")]
    pub controls: BTreeMap<String, String>,
    /// `host`, or `vm`: a virtual machine.
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub place: Option<Spanned<String>>,
    /// Kernels of the virtual machine; several are a dimension of the plan.
    #[serde(default, rename = "kernel", skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<Spanned<String>>,
    /// Memory of the virtual machine, such as `512M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Processors of the virtual machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// A directory of this machine that commands in the virtual machine see as their root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// Workloads.
    #[serde(default, rename = "workload", skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadSpec>,
    /// The text that this came from and its name, so that late errors can point into it.
    #[serde(skip)]
    pub source: Option<(String, String)>,
}

/// Parses a plan. `origin` is its name in errors.
pub fn parse(text: &str, origin: &str) -> Result<PlanFile, PlanError> {
    let mut plan: PlanFile =
        toml::from_str(text).map_err(|error| at(text, origin, error.span(), &suggesting(error.message())))?;
    plan.source = Some((text.to_owned(), origin.to_owned()));
    Ok(plan)
}

impl PlanFile {
    /// Merges this plan over another one. The values of this plan take precedence.
    pub fn over(self, under: PlanFile) -> PlanFile {
        let workloads_here = !self.workloads.is_empty() || self.suite.is_some();
        let (suite, workloads) =
            if workloads_here { (self.suite, self.workloads) } else { (under.suite, under.workloads) };
        let mut controls = under.controls;
        controls.extend(self.controls);
        PlanFile {
            name: self.name.or(under.name),
            targets: if self.targets.is_empty() { under.targets } else { self.targets },
            suite,
            seed: self.seed.or(under.seed),
            size: self.size.or(under.size),
            scale: self.scale.or(under.scale),
            scaled: self.scaled.or(under.scaled),
            dir: self.dir.or(under.dir),
            theta: self.theta.or(under.theta),
            wipe: if self.wipe.is_empty() { under.wipe } else { self.wipe },
            identity: self.identity,
            one_at_a_time: self.one_at_a_time || under.one_at_a_time,
            risky: self.risky || under.risky,
            mkfs_defaults: self.mkfs_defaults || under.mkfs_defaults,
            race: self.race.or(under.race),
            verify: self.verify || under.verify,
            repetition: self.repetition.over(under.repetition),
            controls,
            workloads,
            place: self.place.or(under.place),
            kernels: if self.kernels.is_empty() { under.kernels } else { self.kernels },
            memory: self.memory.or(under.memory),
            cpus: self.cpus.or(under.cpus),
            root: self.root.or(under.root),
            source: under.source.or(self.source),
        }
    }

    fn error_at(&self, span: Range<usize>, message: &str) -> PlanError {
        match &self.source {
            Some((text, origin)) if span != (0..0) => at(text, origin, Some(span), message),
            _ => PlanError::Request(message.to_owned()),
        }
    }

    /// Returns the error of a text that has a code of its own. In a plan file the place is more useful than that code.
    fn coded_at(&self, span: Range<usize>, error: &(impl Coded + ToString)) -> PlanError {
        match self.error_at(span, &error.to_string()) {
            PlanError::Request(message) => PlanError::known(error.code(), message),
            placed => placed,
        }
    }
}

/// Returns serde's message of an unknown field with the field that was probably meant, or else with all known fields.
fn suggesting(message: &str) -> String {
    let Some((typed, known)) = unknown_field(message) else { return message.to_owned() };
    if let Some(near) = nearest::nearest(typed, known.iter().copied()) {
        return format!("unknown field `{typed}`: did you mean `{near}`?");
    }
    let elsewhere = RepetitionFile::FIELDS.iter().copied().filter(|field| !known.contains(field));
    match nearest::nearest(typed, elsewhere) {
        Some(near) if near == typed => format!("unknown field `{typed}`: it belongs in [repetition]"),
        Some(near) => format!("unknown field `{typed}`: did you mean `{near}`? It belongs in [repetition]"),
        None => message.to_owned(),
    }
}

/// Returns the unknown field, and the fields that serde expects in its place.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let (typed, expected) = message.strip_prefix("unknown field `")?.split_once("`, expected ")?;
    Some((typed, expected.split('`').skip(1).step_by(2).collect()))
}

/// Returns a value from the command line, which has no place in a file.
pub fn typed<T: From<String>>(text: &str) -> Spanned<T> {
    Spanned::new(0..0, text.to_owned().into())
}

fn at(text: &str, origin: &str, span: Option<Range<usize>>, message: &str) -> PlanError {
    let start = span.map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    let code = if message.starts_with("unknown field `") { &UNKNOWN_KEY } else { &PLAN_VALUE };
    PlanError::At { origin: origin.to_owned(), line, column, message: message.trim_end().to_owned(), code }
}
