//! Plans as people write them: TOML with everything optional, and what it resolves to.
//!
//! What was typed (a plan file, a suite, the command line) and what it means ([`Plan`]) are two types. Layers of the
//! first kind are laid over each other; only the resolved plan is ever run.

mod place;
mod print;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use fsb_engine::{ParamError, Sizing, workload};
use fsb_model::plan::{BLOCK_LIMIT, Identity, Plan, Repetition, STRETCH};
use fsb_model::target::make_names_unique;
use fsb_model::units::{parse_duration, parse_percent};
use fsb_model::{Bytes, Cell, Place, Target, WorkloadSpec};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::suite;
use crate::sweep::{self, Scope};
use crate::target_file::TargetFile;
use crate::{regime, scale};

pub use print::print;

/// The suite when none is named.
pub const DEFAULT_SUITE: &str = "quick";
/// The size of an image when none is given.
pub const DEFAULT_SIZE: Bytes = Bytes(2 << 30);
/// The time a run may take when nothing is said.
pub const DEFAULT_BUDGET: &str = "5m";
/// The smallest ratio that matters when nothing is said.
pub const DEFAULT_THETA: &str = "3%";

/// Why a plan is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A text that is no plan, with the place.
    #[error("{origin}, line {line}, column {column}: {message}")]
    At {
        /// The file, or the suite.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A request that makes no sense.
    #[error("{0}")]
    Request(String),
    /// The machine cannot: a kernel that was named is not there.
    #[error("{0}")]
    Machine(String),
}

/// A plan as written: every field may be missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// What the run is called; the suite's or the file's name otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Targets, each as on the command line, or as a table with controls of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Spanned<TargetFile>>,
    /// A suite, instead of workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
    /// Decides order and data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Size of the image, such as `2G`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Multiplies sizes of files, the image and the memory limit: `1/8`, `0.125` or `12.5%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Spanned<String>>,
    /// What all sizes here were multiplied with already: for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<Spanned<String>>,
    /// Where the image lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// The smallest ratio that matters, such as `3%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theta: Option<Spanned<String>>,
    /// Block devices whose content is given up. Only the command line may say so.
    #[serde(skip)]
    pub wipe: Vec<PathBuf>,
    /// Whom workers run as. Only the command line may say so.
    #[serde(skip)]
    pub identity: Identity,
    /// What is read is compared with what was written, by every workload that can. Only the command line may say so: of a
    /// plan that is printed the workloads say it themselves.
    #[serde(skip)]
    pub verify: bool,
    /// How often.
    #[serde(default, skip_serializing_if = "RepetitionFile::is_empty")]
    pub repetition: RepetitionFile,
    /// Controls by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
    /// Workloads.
    #[serde(default, rename = "workload", skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadSpec>,
    /// The text this came from and its name, so that late errors can point into it.
    #[serde(skip)]
    pub source: Option<(String, String)>,
}

/// The table `[repetition]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepetitionFile {
    /// Exactly so many blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Time for the whole run, such as `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Half-width to reach, such as `2%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// Time that a timed stretch should last where something reaches the device, such as `2s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stretch: Option<String>,
}

impl RepetitionFile {
    fn is_empty(&self) -> bool {
        *self == RepetitionFile::default()
    }

    fn resolve(&self) -> Result<Repetition, PlanError> {
        let request = |error: fsb_model::units::UnitError| PlanError::Request(error.to_string());
        let budget = self.budget.as_deref().unwrap_or(DEFAULT_BUDGET);
        let seconds = parse_duration(budget).map_err(request)?.as_secs_f64();
        if !(1.0..=30.0 * 86_400.0).contains(&seconds) {
            return Err(PlanError::Request(format!("budget {budget}: give between 1 second and 30 days")));
        }
        match (self.blocks, &self.precision) {
            (Some(_), Some(_)) => Err(PlanError::Request(
                "blocks and precision exclude each other: precision decides how many blocks are made".to_owned(),
            )),
            (Some(_), None) if self.budget.is_some() => Err(PlanError::Request(
                "blocks and budget exclude each other: the budget decides how many blocks are made".to_owned(),
            )),
            (Some(blocks), None) if (1..=BLOCK_LIMIT).contains(&blocks) => Ok(Repetition::Blocks { blocks }),
            (Some(blocks), None) => {
                Err(PlanError::Request(format!("{blocks} blocks: give between 1 and {BLOCK_LIMIT}")))
            }
            (None, Some(precision)) => {
                let half_width = parse_percent(precision).map_err(request)?;
                Ok(Repetition::Precision { half_width, seconds })
            }
            (None, None) => Ok(Repetition::Budget { seconds }),
        }
    }

    fn resolve_stretch(&self) -> Result<f64, PlanError> {
        let Some(text) = &self.stretch else { return Ok(STRETCH) };
        let seconds = parse_duration(text).map_err(|error| PlanError::Request(error.to_string()))?.as_secs_f64();
        if (0.001..=3600.0).contains(&seconds) {
            Ok(seconds)
        } else {
            Err(PlanError::Request(format!("stretch {text}: give between 1 millisecond and an hour")))
        }
    }

    /// `blocks` replaces the other two ways of saying how many blocks are made, and they replace it.
    fn over(self, under: RepetitionFile) -> RepetitionFile {
        let stretch = self.stretch.or(under.stretch);
        if self.blocks.is_some() {
            return RepetitionFile { stretch, blocks: self.blocks, budget: self.budget, precision: self.precision };
        }
        let says_time = self.budget.is_some() || self.precision.is_some();
        RepetitionFile {
            blocks: if says_time { None } else { under.blocks },
            budget: self.budget.or(under.budget),
            precision: self.precision.or(under.precision),
            stretch,
        }
    }
}

/// Reads a plan. `origin` is what errors call it.
pub fn parse(text: &str, origin: &str) -> Result<PlanFile, PlanError> {
    let mut plan: PlanFile = toml::from_str(text).map_err(|error| at(text, origin, error.span(), error.message()))?;
    plan.source = Some((text.to_owned(), origin.to_owned()));
    Ok(plan)
}

impl PlanFile {
    /// Lays this plan over another: what this one says wins.
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
            verify: self.verify || under.verify,
            repetition: self.repetition.over(under.repetition),
            controls,
            workloads,
            place: self.place.or(under.place),
            kernels: if self.kernels.is_empty() { under.kernels } else { self.kernels },
            memory: self.memory.or(under.memory),
            cpus: self.cpus.or(under.cpus),
            source: under.source.or(self.source),
        }
    }

    /// Everything decided: the suite looked up, defaults filled in, every parameter read by its workload.
    pub fn resolve(self, cpus: u32, fresh_seed: u64) -> Result<(Plan, Vec<Cell>), PlanError> {
        if self.suite.is_some() && !self.workloads.is_empty() {
            return Err(PlanError::Request("a plan names a suite or workloads, not both".to_owned()));
        }
        let under = match &self.suite {
            Some(name) => suite::find(name)?,
            None if self.workloads.is_empty() => suite::find(DEFAULT_SUITE)?,
            None => PlanFile::default(),
        };
        let workloads = if self.workloads.is_empty() { under.workloads.clone() } else { self.workloads.clone() };
        let full = self.size.or(under.size).unwrap_or(DEFAULT_SIZE);
        let (scale, scaled) = self.scales()?;
        let size = scale::image(full, scale);
        let (place, vm) = self.resolved_place(cpus)?;
        let memory = vm.map_or_else(memory, |vm| vm.memory.0);
        let sizing = Sizing { size: size.0, cpus: place::processors(vm, &self.controls).unwrap_or(cpus) };
        let cells = self.cells(&workloads, &sizing, Full { size: full.0, scale, memory })?;
        let suite_name = self.suite.clone().unwrap_or_else(|| DEFAULT_SUITE.to_owned());
        let own = !self.workloads.is_empty();
        let repetition = self.repetition.clone().over(under.repetition);
        let mut targets = self.resolved_targets(place)?;
        let mut controls = under.controls;
        controls.extend(self.controls.clone());
        let own_controls = targets.iter_mut().map(|target| &mut target.controls);
        std::iter::once(&mut controls).chain(own_controls).for_each(|controls| scale::controls(controls, scale));
        let plan = Plan {
            name: self.name.clone().unwrap_or(if own { "plan".to_owned() } else { suite_name }),
            targets,
            workloads: cells.iter().map(|cell| cell.workload.clone()).collect(),
            stretch: repetition.resolve_stretch()?,
            repetition: repetition.resolve()?,
            seed: self.seed.unwrap_or(fresh_seed),
            size,
            scale: scale * scaled,
            dir: self.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
            theta: self.resolved_theta()?,
            controls,
            wipe: self.wipe,
            identity: self.identity,
            place,
            kernels: self.kernels.iter().map(|text| text.get_ref().clone()).collect(),
            vm,
        };
        regime::check(&plan, &cells, &sizing, memory).map_err(PlanError::Request)?;
        Ok((plan, cells))
    }

    fn resolved_targets(&self, place: Place) -> Result<Vec<Target>, PlanError> {
        let releases = self.releases()?;
        let mut targets = Vec::new();
        for written in &self.targets {
            let here = |message: &str| self.error_at(written.span(), message);
            let target = written.get_ref().resolve().map_err(|error| here(&error.to_string()))?;
            targets.extend(place::on_each_kernel(target, place, &releases).map_err(|why| here(&why))?);
        }
        if targets.is_empty() {
            return Err(PlanError::Request(
                "no target: name file systems or a directory, such as 'fsb run ext4 xfs' or 'fsb run /srv/data'".into(),
            ));
        }
        make_names_unique(&mut targets);
        Ok(targets)
    }

    /// What to multiply sizes with, and what they were multiplied with already.
    fn scales(&self) -> Result<(f64, f64), PlanError> {
        let read = |text: &Option<Spanned<String>>| match text {
            None => Ok(1.0),
            Some(text) => scale::parse(text.get_ref()).map_err(|why| self.error_at(text.span(), &why)),
        };
        Ok((read(&self.scale)?, read(&self.scaled)?))
    }

    fn resolved_theta(&self) -> Result<f64, PlanError> {
        let (text, span) = match &self.theta {
            Some(theta) => (theta.get_ref().as_str(), theta.span()),
            None => (DEFAULT_THETA, 0..0),
        };
        parse_percent(text).map_err(|error| self.error_at(span, &error.to_string()))
    }

    fn cells(&self, workloads: &[WorkloadSpec], sizing: &Sizing, full: Full) -> Result<Vec<Cell>, PlanError> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let swept = self.swept(workloads, full)?;
        let swept = if self.verify { verified(swept, sizing)? } else { swept };
        for (index, spec) in swept {
            let job = workload::parse(&spec, sizing).map_err(|error| self.workload_error(index, &error))?;
            let label = job.profile().label;
            let workload = WorkloadSpec { name: spec.name, params: job.params() };
            match known.get(&label) {
                // All threads of a machine with one processor are one thread: the same cell, once.
                Some(&same) if cells[same].workload == workload => continue,
                Some(_) => {
                    let message = format!("two workloads are called '{label}': give one another label = \"…\"");
                    return Err(self.error_at(self.workload_span(index, None), &message));
                }
                None => {}
            }
            known.insert(label.clone(), cells.len());
            cells.push(Cell { label, workload });
        }
        Ok(cells)
    }

    /// Every combination of sizes, with the place of its workload in the plan.
    fn swept(&self, workloads: &[WorkloadSpec], full: Full) -> Result<Vec<(usize, WorkloadSpec)>, PlanError> {
        let scope = Scope { size: full.size, memory: full.memory };
        let mut swept = Vec::new();
        for (index, spec) in workloads.iter().enumerate() {
            let all = sweep::expand(spec, scope).map_err(|error| {
                let message = format!("workload {}: {}", spec.name, error.message);
                self.error_at(self.workload_span(index, Some(error.key)), &message)
            })?;
            let before = swept.len();
            let all = all.into_iter().filter_map(|one| scale::of_workload(one, full.scale, scope));
            swept.extend(all.map(|one| (index, one)));
            if swept.len() == before {
                let message = format!("workload {}: at this scale no record is as small as a file", spec.name);
                return Err(self.error_at(self.workload_span(index, None), &message));
            }
        }
        Ok(swept)
    }

    fn workload_error(&self, index: usize, error: &ParamError) -> PlanError {
        self.error_at(self.workload_span(index, error.key.as_deref()), &error.to_string())
    }

    /// Where the file says `key` of the workload, or where it names the workload.
    fn workload_span(&self, index: usize, key: Option<&str>) -> Range<usize> {
        let nowhere = 0..0;
        let Some((text, _)) = &self.source else { return nowhere };
        let Ok(table) = toml::de::DeTable::parse(text) else { return nowhere };
        let find = |table: &toml::de::DeTable<'_>, key: &str| {
            table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(name, _)| name.span())
        };
        let entry = table.get_ref().get("workload").and_then(|list| list.get_ref().as_array()?.get(index));
        let Some(entry) = entry.and_then(|entry| entry.get_ref().as_table()) else { return nowhere };
        key.and_then(|key| find(entry, key)).or_else(|| find(entry, "name")).unwrap_or(nowhere)
    }

    fn error_at(&self, span: Range<usize>, message: &str) -> PlanError {
        match &self.source {
            Some((text, origin)) if span != (0..0) => at(text, origin, Some(span), message),
            _ => PlanError::Request(message.to_owned()),
        }
    }
}

/// The workloads, of which those verify that can.
fn verified(workloads: Vec<(usize, WorkloadSpec)>, sizing: &Sizing) -> Result<Vec<(usize, WorkloadSpec)>, PlanError> {
    const VERIFY: &str = "verify";
    let (mut able, mut names) = (false, BTreeSet::new());
    let mut verified = Vec::with_capacity(workloads.len());
    for (index, spec) in workloads {
        let mut with = spec.clone();
        with.params.insert(VERIFY.to_owned(), true.into());
        // What is wrong otherwise is said later, with its place.
        let refused = workload::parse(&with, sizing).is_err_and(|error| error.key.as_deref() == Some(VERIFY));
        able |= !refused;
        names.insert(spec.name.clone());
        verified.push((index, if refused { spec } else { with }));
    }
    if able {
        return Ok(verified);
    }
    let names: Vec<_> = names.into_iter().collect();
    let message = format!("--verify: nothing that could be compared is read by {}: leave it out", names.join(", "));
    Err(PlanError::Request(message))
}

/// What sizes are at full scale, and the scale.
#[derive(Debug, Clone, Copy)]
struct Full {
    size: u64,
    scale: f64,
    /// Of the machine that is measured on.
    memory: u64,
}

/// Bytes of memory that this machine has.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "the field has another width on other machines")]
    u64::from(system.totalram).saturating_mul(u64::from(system.mem_unit))
}

/// What came from the command line and so from no place in a file.
pub fn typed<T: From<String>>(text: &str) -> Spanned<T> {
    Spanned::new(0..0, text.to_owned().into())
}

fn at(text: &str, origin: &str, span: Option<Range<usize>>, message: &str) -> PlanError {
    let start = span.map_or(0, |span| span.start).min(text.len());
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    PlanError::At { origin: origin.to_owned(), line, column, message: message.trim_end().to_owned() }
}
