//! Resolves a written plan: looks up suites, fills in defaults, and sweeps and scales sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use fsb_engine::{ParamError, Sizing, workload};
use fsb_model::plan::Plan;
use fsb_model::run::Placement;
use fsb_model::target::make_names_unique;
use fsb_model::units::parse_percent;
use fsb_model::{Place, Target, WorkloadSpec};
use toml::Spanned;

use super::error::{PLAN_CONFLICT, PLAN_NO_TARGET, PlanError};
use super::repetition::check_sample_time;
use super::{DEFAULT_SIZE, DEFAULT_SUITE, DEFAULT_THETA, PlanFile, place};
use crate::suite;
use crate::sweep::{self, Scope};
use crate::work::{ParsedCell, Work};
use crate::{placement, regime, scale};

/// A resolved plan.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The plan.
    pub plan: Plan,
    /// Its cells, in its order.
    pub work: Work,
    /// Whether targets are measured side by side.
    pub placement: Placement,
}

impl PlanFile {
    /// Resolves the plan: looks up the suite, fills in defaults, and has each workload parse its parameters.
    ///
    /// If targets are measured side by side, sizes of files refer to the slice of the medium that each has.
    pub fn resolve(self, cpus: u32, fresh_seed: u64) -> Result<Resolved, PlanError> {
        if self.suite.is_some() && !self.workloads.is_empty() {
            return Err(PlanError::known(&PLAN_CONFLICT, "a plan names a suite or workloads, not both"));
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
        let cells = self.cells(&workloads, &sizing, Full { size: full.0, scale, memory, cpus: sizing.cpus })?;
        let suite_name = self.suite.clone().unwrap_or_else(|| DEFAULT_SUITE.to_owned());
        let own = !self.workloads.is_empty();
        let repetition = self.repetition.clone().over(under.repetition);
        let mut targets = self.resolved_targets(place)?;
        let mut controls = under.controls;
        controls.extend(self.controls.clone());
        let own_controls = targets.iter_mut().map(|target| &mut target.controls);
        std::iter::once(&mut controls).chain(own_controls).for_each(|controls| scale::controls(controls, scale));
        let mut plan = Plan {
            name: self.name.clone().unwrap_or(if own { "plan".to_owned() } else { suite_name }),
            targets,
            workloads: Vec::new(),
            sample_time: repetition.resolve_sample_time()?,
            repetition: repetition.resolve()?,
            seed: self.seed.unwrap_or(fresh_seed),
            one_at_a_time: self.one_at_a_time,
            risky: self.risky,
            mkfs_defaults: self.mkfs_defaults,
            race: self.race.clone(),
            size,
            scale: scale * scaled,
            dir: self.dir.clone().unwrap_or_else(|| PathBuf::from(".")),
            theta: self.resolved_theta()?,
            controls,
            wipe: self.wipe.clone(),
            identity: self.identity.clone(),
            place,
            kernels: self.kernels.iter().map(|text| text.get_ref().clone()).collect(),
            vm,
            root: self.resolved_root(place, &cells)?,
        };
        let placement = placement(&plan, cells.iter().any(|cell| cell.unit.is_some()));
        let (cells, sizing) = match placement.divided() {
            Some((parts, part_bytes)) => {
                let sizing = Sizing { size: part_bytes, ..sizing };
                let full = Full { size: full.0 / u64::from(parts), scale, memory, cpus: sizing.cpus };
                (self.cells(&workloads, &sizing, full)?, sizing)
            }
            None => (cells, sizing),
        };
        plan.workloads = cells.iter().map(|parsed| parsed.cell.workload.clone()).collect();
        regime::check(&plan, &cells, memory).map_err(PlanError::Request)?;
        Ok(Resolved { plan, work: Work { cells, sizing }, placement })
    }

    fn resolved_targets(&self, place: Place) -> Result<Vec<Target>, PlanError> {
        let releases = self.releases()?;
        let mut targets = Vec::new();
        for written in &self.targets {
            let here = |message: &str| self.error_at(written.span(), message);
            let target = written.get_ref().resolve().map_err(|error| self.coded_at(written.span(), &error))?;
            targets.extend(place::on_each_kernel(target, place, &releases).map_err(|why| here(&why))?);
        }
        if targets.is_empty() {
            return Err(PlanError::known(
                &PLAN_NO_TARGET,
                "no target: name file systems or a directory, such as 'fsb run ext4 xfs' or 'fsb run /srv/data'",
            ));
        }
        make_names_unique(&mut targets);
        Ok(targets)
    }

    /// Returns the factor to multiply sizes with, and the factor that they were multiplied with already.
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

    fn cells(&self, workloads: &[WorkloadSpec], sizing: &Sizing, full: Full) -> Result<Vec<ParsedCell>, PlanError> {
        let mut cells: Vec<ParsedCell> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let swept = self.swept(workloads, full)?;
        let swept = if self.verify { verified(swept, sizing)? } else { swept };
        for (index, spec) in swept {
            let parsed = ParsedCell::parse(&spec, sizing).map_err(|error| self.workload_error(index, &error))?;
            if let Some(sample_time) = spec.sample_time {
                let here = |why: String| self.error_at(self.workload_span(index, Some("sample_time")), &why);
                check_sample_time(sample_time).map_err(here)?;
            }
            let label = &parsed.cell.label;
            match known.get(label) {
                // All threads of a machine with one processor are one thread: the same cell, once.
                Some(&same) if cells[same].cell.workload == parsed.cell.workload => continue,
                Some(_) => {
                    let message = format!("two workloads are called '{label}': give one another label = \"…\"");
                    return Err(self.error_at(self.workload_span(index, None), &message));
                }
                None => {}
            }
            known.insert(label.clone(), cells.len());
            cells.push(parsed);
        }
        Ok(cells)
    }

    /// Returns every combination of sizes, with the index of its workload in the plan.
    fn swept(&self, workloads: &[WorkloadSpec], full: Full) -> Result<Vec<(usize, WorkloadSpec)>, PlanError> {
        let scope = Scope { size: full.size, memory: full.memory, cpus: full.cpus };
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
                let message = format!("workload {}: at this scale every record is larger than its file", spec.name);
                return Err(self.error_at(self.workload_span(index, None), &message));
            }
        }
        Ok(swept)
    }

    fn workload_error(&self, index: usize, error: &ParamError) -> PlanError {
        self.error_at(self.workload_span(index, error.key.as_deref()), &error.to_string())
    }

    /// Returns the place of `key` of the workload in the file, or else the place of the workload's name.
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
}

/// Returns the workloads with verification switched on for those that can verify, or an error if none can.
fn verified(workloads: Vec<(usize, WorkloadSpec)>, sizing: &Sizing) -> Result<Vec<(usize, WorkloadSpec)>, PlanError> {
    const VERIFY: &str = "verify";
    let (mut able, mut names) = (false, BTreeSet::new());
    let mut verified = Vec::with_capacity(workloads.len());
    for (index, spec) in workloads {
        let mut with = spec.clone();
        with.params.insert(VERIFY.to_owned(), true.into());
        // Other errors are reported later, with their place.
        let refused = workload::parse(&with, sizing).is_err_and(|error| error.key.as_deref() == Some(VERIFY));
        able |= !refused;
        names.insert(spec.name.clone());
        verified.push((index, if refused { spec } else { with }));
    }
    if able {
        return Ok(verified);
    }
    let names: Vec<_> = names.into_iter().collect();
    let message = format!("--verify: {} reads nothing that fsb can compare: leave --verify out", names.join(", "));
    Err(PlanError::Request(message))
}

/// The base of sizes at full scale, and the scale.
#[derive(Debug, Clone, Copy)]
struct Full {
    size: u64,
    scale: f64,
    /// Bytes of memory of the machine that is measured on.
    memory: u64,
    /// Its processors.
    cpus: u32,
}

/// Returns the bytes of memory of this machine.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "the field has another width on other machines")]
    u64::from(system.totalram).saturating_mul(u64::from(system.mem_unit))
}
