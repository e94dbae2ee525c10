//! Resolves a written plan: looks up suites, fills in defaults, and sweeps and scales sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use fsb_engine::{ParamError, Sizing, workload};
use fsb_model::plan::{VISIT, VmSize};
use fsb_model::run::Placement;
use fsb_model::target::make_names_unique;
use fsb_model::units::{Seconds, percent_text};
use fsb_model::{
    BACKGROUND, Background, Bytes, Place, Plan, Repetition, Target, WorkloadSpec, nearest, setting,
    variant,
};
use fsb_testbed::control::processors_left;
#[cfg(feature = "vm")]
use fsb_vm::{Kernel, Origin};
use toml::Spanned;

use super::text::write;
use super::{PLAN_CONFLICT, PLAN_NO_TARGET, PlanError, PlanFile};
use crate::planner::LONGEST;
use crate::sweep::{self, Scope};
use crate::target_file::TargetFile;
use crate::work::{ParsedCell, Work, placement};
use crate::{memory, scale, suite};

/// A resolved plan.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The plan.
    pub plan: Plan,
    /// The cells, in the order of the plan.
    pub work: Work,
    /// Whether targets are measured side by side.
    pub placement: Placement,
}

impl PlanFile {
    /// Resolves the plan: looks up the suite, fills in defaults, and has each workload parse its
    /// parameters.
    ///
    /// If targets are measured side by side, sizes of files refer to the slice of the medium that
    /// each has.
    pub fn resolve(mut self, cpus: u32, fresh_seed: u64) -> Result<Resolved, PlanError> {
        let named = self.settings.text("suite").map(str::to_owned);
        let has_workloads = !self.workloads.is_empty();
        if named.is_some() && has_workloads {
            return Err(PlanError::known(
                &PLAN_CONFLICT,
                "a plan names a suite or workloads, not both",
            ));
        }
        let suite_name = named.as_deref().unwrap_or(setting::SUITE);
        let under = if has_workloads {
            PlanFile::default()
        } else {
            suite::find(suite_name)?
        };
        let name = match self.settings.text("name") {
            Some(name) => name.to_owned(),
            None if has_workloads => "plan".to_owned(),
            None => suite_name.to_owned(),
        };
        let workloads = if has_workloads {
            self.workloads.clone()
        } else {
            under.workloads
        };
        self.settings = self.settings.over(under.settings);
        let settings = &self.settings;
        let full = settings.number("size").map_or(setting::IMAGE, Bytes);
        let scale = settings.quantity("scale").unwrap_or(1.0);
        let scaled = settings.quantity("scaled").unwrap_or(1.0);
        let size = scale::image(full, scale);
        let (place, vm) = self.resolved_place(cpus)?;
        let memory = vm.map_or_else(memory, |vm| vm.memory.0);
        let sizing = Sizing {
            size: size.0,
            cpus: processors(vm, &self.controls).unwrap_or(cpus),
        };
        let beside = settings
            .quantity("sample_time")
            .filter(|seconds| *seconds >= LONGEST)
            .unwrap_or(VISIT);
        let full_size = Full {
            size: full.0,
            scale,
            memory,
            cpus: sizing.cpus,
            beside: Seconds(beside),
        };
        let cells = self.cells(&workloads, &sizing, full_size)?;
        let mut targets = self.resolved_targets(place)?;
        check_variants(&targets, &cells)?;
        let mut controls = under.controls;
        controls.extend(self.controls.clone());
        let own_controls = targets.iter_mut().map(|target| &mut target.controls);
        std::iter::once(&mut controls)
            .chain(own_controls)
            .for_each(|controls| scale::controls(controls, scale));
        let base = Plan {
            name,
            targets,
            controls,
            repetition: self.resolved_repetition()?,
            race: self.race.clone(),
            seed: fresh_seed,
            size,
            scale: scale * scaled,
            vm,
            root: self.resolved_root(place, &cells)?,
            ..Plan::default()
        };
        let mut plan = base
            .with_settings(&self.settings)
            .map_err(|error| PlanError::Request(error.to_string()))?;
        let placement = placement(&plan, &cells);
        self.check_targets_of_backgrounds(&workloads, &plan, &placement)?;
        let (cells, sizing) = match placement.divided() {
            Some((slices, slice_bytes)) => {
                let sizing = Sizing {
                    size: slice_bytes,
                    ..sizing
                };
                let full = Full {
                    size: full.0 / u64::from(slices),
                    ..full_size
                };
                (self.cells(&workloads, &sizing, full)?, sizing)
            }
            None => (cells, sizing),
        };
        plan.workloads = cells
            .iter()
            .map(|parsed| parsed.cell.workload.clone())
            .collect();
        memory::check_limit(&plan, &cells, memory).map_err(PlanError::Request)?;
        Ok(Resolved {
            plan,
            work: Work { cells, sizing },
            placement,
        })
    }

    fn resolved_targets(&self, place: Place) -> Result<Vec<Target>, PlanError> {
        let releases = self.releases()?;
        let mut targets = Vec::new();
        for written in &self.targets {
            let target = written
                .get_ref()
                .resolve()
                .map_err(|error| self.coded_at(written.span(), &error))?;
            targets.extend(
                on_each_kernel(target, place, &releases)
                    .map_err(|why| self.error_at(written.span(), &why))?,
            );
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

    /// Returns how many blocks the plan asks for.
    fn resolved_repetition(&self) -> Result<Repetition, PlanError> {
        let settings = &self.settings;
        let seconds = settings.quantity("budget").unwrap_or(setting::BUDGET);
        match (settings.number("blocks"), settings.has("precision")) {
            (Some(_), true) => Err(PlanError::known(
                &PLAN_CONFLICT,
                "blocks and precision exclude each other: precision decides how many blocks are made",
            )),
            (Some(blocks), false) => Ok(Repetition::Blocks {
                blocks: blocks as u32,
                seconds: settings.has("budget").then_some(seconds),
            }),
            (None, true) => Ok(Repetition::Precision {
                half_width: settings.quantity("precision").unwrap_or_default(),
                seconds,
            }),
            (None, false) => Ok(Repetition::Budget { seconds }),
        }
    }

    fn cells(
        &self,
        workloads: &[WorkloadSpec],
        sizing: &Sizing,
        full: Full,
    ) -> Result<Vec<ParsedCell>, PlanError> {
        let mut cells: Vec<ParsedCell> = Vec::new();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let swept = self.swept(workloads, full)?;
        let swept = if self.verify {
            verified(swept, sizing)?
        } else {
            swept
        };
        let swept = swept.into_iter().flat_map(|(index, spec)| {
            alone_and_beside(spec, full.beside).map(move |spec| (index, spec))
        });
        for (index, spec) in swept {
            let parsed = ParsedCell::parse(&spec, sizing)
                .map_err(|error| self.workload_error(index, &error))?;
            if let Some(Seconds(seconds)) = spec.sample_time
                && let Err(why) = check_sample_time(seconds)
            {
                let span = self.workload_span(index, Some("sample_time"));
                return Err(self.error_at(span, &why));
            }
            let label = &parsed.cell.label;
            match known.get(label) {
                // All threads of a machine with one processor are one thread: the same cell, once.
                Some(&same) if cells[same].cell.workload == parsed.cell.workload => continue,
                Some(_) => {
                    let message = format!(
                        "two workloads are called '{label}': give one another label = \"…\""
                    );
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
    fn swept(
        &self,
        workloads: &[WorkloadSpec],
        full: Full,
    ) -> Result<Vec<(usize, WorkloadSpec)>, PlanError> {
        let scope = Scope {
            size: full.size,
            memory: full.memory,
            cpus: full.cpus,
        };
        let mut swept = Vec::new();
        for (index, spec) in workloads.iter().enumerate() {
            let all = sweep::expand(spec, scope).map_err(|error| {
                let message = format!("workload {}: {}", spec.name, error.message);
                self.error_at(self.workload_span(index, Some(error.key)), &message)
            })?;
            let before = swept.len();
            let background = self.background(index, spec, full.scale, scope)?;
            let all = all
                .into_iter()
                .filter_map(|one| scale::of_workload(one, full.scale, scope))
                .map(|one| WorkloadSpec {
                    background: background.clone(),
                    ..one
                });
            swept.extend(all.map(|one| (index, one)));
            if swept.len() == before {
                let message = format!(
                    "workload {}: at this scale every record is larger than its file",
                    spec.name
                );
                return Err(self.error_at(self.workload_span(index, None), &message));
            }
        }
        Ok(swept)
    }

    /// Returns the background of a workload, or else of all, at this scale.
    fn background(
        &self,
        index: usize,
        spec: &WorkloadSpec,
        scale: f64,
        scope: Scope,
    ) -> Result<Option<Background>, PlanError> {
        let Some(background) = spec.background.as_ref().or(self.background.as_ref()) else {
            return Ok(None);
        };
        let refuse = |why: &str| self.background_error(index, spec, why);
        let mut all =
            sweep::expand(&background.spec(), scope).map_err(|error| refuse(&error.message))?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(scale::of_workload(one, scale, scope).map(
                |WorkloadSpec { params, .. }| Background {
                    params,
                    ..background.clone()
                },
            )),
            _ => Err(refuse(
                "it accepts no lists or ranges: write the workload once for each background",
            )),
        }
    }

    fn background_error(&self, index: usize, spec: &WorkloadSpec, why: &str) -> PlanError {
        let message = format!("workload {}: background: {why}", spec.name);
        self.error_at(self.workload_span(index, Some(BACKGROUND)), &message)
    }

    /// Checks that the target of each background is in the plan, and ready while the other targets
    /// are measured.
    fn check_targets_of_backgrounds(
        &self,
        workloads: &[WorkloadSpec],
        plan: &Plan,
        placement: &Placement,
    ) -> Result<(), PlanError> {
        for (index, spec) in workloads.iter().enumerate() {
            let background = spec.background.as_ref().or(self.background.as_ref());
            let Some(name) = background.and_then(|background| background.target.as_deref()) else {
                continue;
            };
            let names = plan.targets.iter().map(|target| target.name.as_str());
            if !names.clone().any(|known| known == name) {
                return Err(self.background_error(
                    index,
                    spec,
                    &nearest::unknown("target", name, names),
                ));
            }
            if plan.targets.len() < 2 {
                let why = format!("no other target than {name} is measured: add one");
                return Err(self.background_error(index, spec, &why));
            }
            if plan.race.is_some() || !matches!(placement, Placement::SideBySide { .. }) {
                let why = format!(
                    "{name} is not ready while other targets are measured: let all be on one medium and have the same \
                     controls, without --one-at-a-time, races and memory limits"
                );
                return Err(self.background_error(index, spec, &why));
            }
        }
        Ok(())
    }

    fn workload_error(&self, index: usize, error: &ParamError) -> PlanError {
        self.error_at(
            self.workload_span(index, error.key.as_deref()),
            &error.to_string(),
        )
    }

    /// Returns the place of `key` of the workload in the file, or else the place of the workload's
    /// name.
    fn workload_span(&self, index: usize, key: Option<&str>) -> Range<usize> {
        let nowhere = 0..0;
        let Some((text, _)) = &self.source else {
            return nowhere;
        };
        let Ok(table) = toml::de::DeTable::parse(text) else {
            return nowhere;
        };
        let find = |table: &toml::de::DeTable<'_>, key: &str| {
            table
                .iter()
                .find(|(name, _)| name.get_ref().as_ref() == key)
                .map(|(name, _)| name.span())
        };
        let entry = table
            .get_ref()
            .get("workload")
            .and_then(|list| list.get_ref().as_array()?.get(index));
        let Some(entry) = entry.and_then(|entry| entry.get_ref().as_table()) else {
            return nowhere;
        };
        key.and_then(|key| find(entry, key))
            .or_else(|| find(entry, "name"))
            .unwrap_or(nowhere)
    }
}

/// Refuses a length of samples that the setting of the plan would refuse, too.
fn check_sample_time(seconds: f64) -> Result<(), String> {
    let setting = setting::find("sample_time").ok_or("no setting is called sample_time")?;
    setting.read(&format!("{seconds}s")).map(drop)
}

/// Returns the workload alone and beside its background, both in samples of the same length, by
/// default `beside`; a workload without one as it is.
fn alone_and_beside(spec: WorkloadSpec, beside: Seconds) -> impl Iterator<Item = WorkloadSpec> {
    let sample_time = match spec.background {
        Some(_) => spec.sample_time.or(Some(beside)),
        None => spec.sample_time,
    };
    let spec = WorkloadSpec {
        sample_time,
        ..spec
    };
    let alone = spec.background.is_some().then(|| spec.alone());
    alone.into_iter().chain([spec])
}

/// Returns the workloads with verification switched on for those that can verify, or an error if
/// none can.
fn verified(
    workloads: Vec<(usize, WorkloadSpec)>,
    sizing: &Sizing,
) -> Result<Vec<(usize, WorkloadSpec)>, PlanError> {
    const VERIFY: &str = "verify";
    let (mut able, mut names) = (false, BTreeSet::new());
    let mut verified = Vec::with_capacity(workloads.len());
    for (index, spec) in workloads {
        let mut with = spec.clone();
        with.params.insert(VERIFY.to_owned(), true.into());
        // Other errors are reported later, with their place.
        let refused =
            workload::parse(&with, sizing).is_err_and(|error| error.key.as_deref() == Some(VERIFY));
        able |= !refused;
        names.insert(spec.name.clone());
        verified.push((index, if refused { spec } else { with }));
    }
    if able {
        return Ok(verified);
    }
    let names: Vec<_> = names.into_iter().collect();
    let message = format!(
        "--verify: {} reads nothing that fsb can compare: leave --verify out",
        names.join(", ")
    );
    Err(PlanError::Request(message))
}

/// The base of sizes at full scale, and the scale.
#[derive(Debug, Clone, Copy)]
struct Full {
    size: u64,
    scale: f64,
    /// Bytes of memory of the machine that is measured on.
    memory: u64,
    /// The processors.
    cpus: u32,
    /// The default length of samples of cases with a background, and of the same cases alone.
    beside: Seconds,
}

/// Returns the bytes of memory of this machine.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    #[expect(
        clippy::useless_conversion,
        reason = "the field has another width on other machines"
    )]
    u64::from(system.totalram).saturating_mul(u64::from(system.mem_unit))
}

// The place where a plan runs: `in = "vm"`, its kernels, memory and processors.

impl PlanFile {
    /// Returns the place where the plan runs, and the size of the virtual machine. `cpus` are those
    /// of this machine.
    fn resolved_place(&self, cpus: u32) -> Result<(Place, Option<VmSize>), PlanError> {
        let settings = &self.settings;
        let place = Place::ALL
            .into_iter()
            .find(|place| settings.text("in") == Some(place.name()))
            .unwrap_or_default();
        if place == Place::Vm {
            let vm = VmSize {
                memory: settings.number("memory").map_or(setting::VM_MEMORY, Bytes),
                cpus: settings.number("cpus").map_or(cpus, |cpus| cpus as u32),
            };
            return Ok((place, Some(vm)));
        }
        if let Some(kernel) = settings.list("kernel").first() {
            let message = format!(
                "kernel {kernel}: only a virtual machine can boot it; add --in vm (in = \"vm\")"
            );
            return Err(self.error_at(settings.span("kernel"), &message));
        }
        if settings.has("memory") || settings.has("cpus") {
            let message = "memory and cpus set the size of a virtual machine: add --in vm (in = \"vm\"), or use \
                           --control memory-limit=SIZE and cpus=LIST on this machine";
            return Err(PlanError::Request(message.to_owned()));
        }
        Ok((place, None))
    }

    /// Returns the directory that commands see as their root in a virtual machine, or `None` if no
    /// command runs in one.
    fn resolved_root(
        &self,
        place: Place,
        cells: &[ParsedCell],
    ) -> Result<Option<PathBuf>, PlanError> {
        let profiles = cells
            .iter()
            .flat_map(|parsed| [Some(&parsed.profile), parsed.background.as_ref()])
            .flatten();
        let mut programs = profiles.filter_map(|profile| profile.program.as_ref());
        let refuse = |message: String| Err(PlanError::Request(message));
        let named = self.settings.text("root");
        match (place, named) {
            (Place::Host, None) => Ok(None),
            (Place::Host, Some(root)) => refuse(format!(
                "root {root}: commands on this machine see its files as they are; add --in vm (in = \"vm\")"
            )),
            (Place::Vm, root) => {
                if let Some(writable) = programs
                    .clone()
                    .find_map(|program| program.writable.first())
                {
                    return refuse(format!(
                        "writable {}: a virtual machine sees this machine's files read-only; \
                         a command may write into the target and TMPDIR",
                        writable.display()
                    ));
                }
                let root = root.unwrap_or("/");
                if programs.next().is_none() {
                    return match named {
                        Some(root) => refuse(format!("root {root}: no workload is a command")),
                        None => Ok(None),
                    };
                }
                match std::fs::canonicalize(root) {
                    Ok(path) if path.is_dir() => Ok(Some(path)),
                    Ok(_) => refuse(format!("root {root}: it is not a directory")),
                    Err(error) => refuse(format!("root {root}: {error}")),
                }
            }
        }
    }

    /// Returns the releases of the plan's kernels if there are several, because targets are named
    /// after them.
    #[cfg(feature = "vm")]
    fn releases(&self) -> Result<Vec<String>, PlanError> {
        let kernels = self.settings.list("kernel");
        if kernels.len() < 2 {
            return Ok(Vec::new());
        }
        let mut releases: Vec<String> = Vec::new();
        for text in kernels {
            let kernel = fsb_vm::kernel::resolve(Some(text));
            let Kernel {
                release, origin, ..
            } = kernel.map_err(PlanError::Kernel)?;
            if releases.contains(&release) {
                let advice = match origin {
                    Origin::Named => {
                        ": build one with another (CONFIG_LOCALVERSION, or make LOCALVERSION=-NAME)"
                    }
                    _ => "",
                };
                let message =
                    format!("kernel {text}: its release {release} is named twice{advice}");
                return Err(self.error_at(self.settings.span("kernel"), &message));
            }
            releases.push(release);
        }
        Ok(releases)
    }

    /// Returns no releases: [`crate::vm`] refuses the plan, and its kernels with it.
    #[cfg(not(feature = "vm"))]
    fn releases(&self) -> Result<Vec<String>, PlanError> {
        Ok(Vec::new())
    }
}

/// Checks that every target has a variant or none has, and that every workload runs a command with
/// the placeholder. Without it, the variants would all measure the same.
fn check_variants(targets: &[Target], cells: &[ParsedCell]) -> Result<(), PlanError> {
    let without = targets.iter().find(|target| target.variant.is_none());
    if targets.iter().all(|target| target.variant.is_none()) {
        return Ok(());
    }
    if let Some(target) = without {
        let message = format!(
            "{}: other targets have a variant, and this one has none: give all of them one",
            target.name
        );
        return Err(PlanError::known(&PLAN_CONFLICT, message));
    }
    let same = cells
        .iter()
        .find(|parsed| !variant::has_placeholder(&parsed.cell.workload));
    let Some(same) = same else { return Ok(()) };
    let message = format!(
        "{}: variants replace {{}} in a command, and this has none: write it where they differ, such as -- '{{}} --selftest'",
        same.cell.label
    );
    Err(PlanError::known(&PLAN_CONFLICT, message))
}

/// Returns the processors that workers may use in a virtual machine, or `None` on this machine.
fn processors(vm: Option<VmSize>, controls: &BTreeMap<String, String>) -> Option<u32> {
    let vm = vm?;
    Some(processors_left(controls).unwrap_or(vm.cpus))
}

/// Returns the target once for each kernel, or only on the kernel that it names. Without `releases`
/// the plan has one kernel, and the target stays as it is.
fn on_each_kernel(
    target: Target,
    place: Place,
    releases: &[String],
) -> Result<Vec<Target>, String> {
    if place == Place::Vm && target.directory().is_some() {
        let name = &target.name;
        return Err(format!(
            "{name} is a directory of this machine, and a virtual machine does not see it: name a file system such as \
             ext4, or leave out --in vm"
        ));
    }
    match &target.kernel {
        Some(release) if releases.contains(release) => Ok(vec![target]),
        Some(release) => {
            let known = releases.iter().map(String::as_str);
            Err(match releases {
                [] => format!(
                    "kernel {release}: name several kernels for the plan (kernel = [\"…\", \"…\"]) first"
                ),
                _ => nearest::unknown("kernel of this plan", release, known),
            })
        }
        None if releases.is_empty() => Ok(vec![target]),
        None => {
            let on = |release: &String| Target {
                name: format!("{}%{release}", target.name),
                kernel: Some(release.clone()),
                ..target.clone()
            };
            Ok(releases.iter().map(on).collect())
        }
    }
}

/// Returns the resolved plan as a file that resolves to it again. `--print-plan` prints it.
pub fn print(plan: &Plan) -> Result<String, PlanError> {
    let settings = plan
        .settings()
        .map_err(|error| PlanError::Request(format!("cannot print the plan: {error}")))?;
    let settings = match plan.repetition.budget() {
        Some(budget) => settings.with_text("budget", format!("{}s", budget.as_secs_f64())),
        None => settings,
    };
    let settings = match plan.repetition {
        Repetition::Budget { .. } => settings,
        Repetition::Blocks { blocks, .. } => settings.with_number("blocks", blocks.into()),
        Repetition::Precision { half_width, .. } => {
            settings.with_text("precision", percent_text(half_width))
        }
    };
    let file = PlanFile {
        settings,
        targets: plan
            .targets
            .iter()
            .map(|target| Spanned::new(0..0, TargetFile::from_target(target)))
            .collect(),
        controls: plan.controls.clone(),
        workloads: plan.workloads.clone(),
        ..PlanFile::default()
    };
    write(&file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_file;

    fn resolve(text: &str) -> Result<fsb_model::Plan, PlanError> {
        plan_file::parse(text, "plan.toml")?
            .resolve(2, 7)
            .map(|resolved| resolved.plan)
    }

    /// Between two runs of a background, `setup` would be part of the load.
    #[test]
    fn a_background_repeats_its_command_in_one_directory() {
        let text = |reuse: &str| {
            format!(
                "targets = ['null']\n[[workload]]\nname = 'append'\ndurability = 'each'\n\
                 background = {{ command = 'tar xf a.tar'{reuse} }}\n"
            )
        };
        let resolved = plan_file::parse(&text(""), "plan.toml")
            .unwrap()
            .resolve(2, 7)
            .unwrap();
        let cells = resolved.work.cells();
        let background = cells[1].workload.background.as_ref().unwrap();
        assert_eq!(background.params["reuse"], true);
        assert_eq!(
            cells[1].label,
            "append 4K, durable each, beside tar xf a.tar, durable"
        );
        let error = resolve(&text(", reuse = false")).unwrap_err().to_string();
        assert!(
            error.contains("it repeats its command in one directory: leave 'reuse' out"),
            "{error}"
        );
    }

    #[test]
    fn a_background_makes_two_cases_and_several_share_the_one_alone() {
        let text = "targets = ['null']\n\
            [[workload]]\nname = 'append'\ndurability = 'each'\nbackground = { name = 'write', block_size = '1M' }\n\
            [[workload]]\nname = 'append'\ndurability = 'each'\nbackground = { command = 'yes > /dev/null' }\n\
            [[workload]]\nname = 'stat'\n";
        let resolved = plan_file::parse(text, "plan.toml")
            .unwrap()
            .resolve(2, 7)
            .unwrap();
        let labels: Vec<String> = resolved
            .work
            .cells()
            .into_iter()
            .map(|cell| cell.label)
            .collect();
        let append = "append 4K, durable each";
        let beside = |what: &str| format!("{append}, beside {what}");
        let expected = [
            append.to_owned(),
            beside("write 1M"),
            beside("yes > /dev/null, durable"),
            "stat".to_owned(),
        ];
        assert_eq!(labels[..3], expected[..3], "{labels:?}");
        let samples: Vec<Option<f64>> = resolved
            .plan
            .workloads
            .iter()
            .map(|spec| spec.sample_time.map(|time| time.0))
            .collect();
        assert_eq!(samples, [Some(2.0), Some(2.0), Some(2.0), None]);
        let printed = plan_file::print(&resolved.plan).unwrap();
        assert_eq!(
            resolve(&printed).unwrap().workloads,
            resolved.plan.workloads,
            "{printed}"
        );
    }

    #[test]
    fn a_background_that_makes_no_sense_is_refused_with_the_reason() {
        for (line, word) in [
            ("background = 'wriet'", "did you mean 'write'"),
            (
                "background = { block_size = '1M' }",
                "needs the name of a workload",
            ),
            (
                "background = { name = 'write', block_size = ['4K', '1M'] }",
                "no lists or ranges",
            ),
            ("background = { name = 'write', colour = 'red' }", "colour"),
            (
                "background = { name = 'read', cache = 'cold' }",
                "cold only once",
            ),
            (
                "background = 'fsck'",
                "cannot be repeated beside other work",
            ),
            (
                "background = 'write'\nsample_time = '50ms'",
                "a second or more",
            ),
            (
                "background = 'write'\nsustain = 2",
                "sustained work has no background",
            ),
            (
                "background = { name = 'write', limit = { wbps = '1M' } }",
                "unknown field `wbps`",
            ),
            (
                "background = { name = 'snapshot', limit = { cpus = 0.5 } }",
                "has neither a cgroup nor files",
            ),
            (
                "background = { name = 'snapshot', subvolume = true }",
                "leave 'subvolume' out",
            ),
            (
                "background = { name = 'snapshot', same_files = true }",
                "the case uses up its files",
            ),
            (
                "background = { name = 'write', same_files = true, subvolume = true }",
                "or 'target', 'subvolume' and",
            ),
            (
                "background = { name = 'record-rewrite', same_files = true }",
                "the case uses up its files",
            ),
        ] {
            let text = format!("targets = ['null']\n[[workload]]\nname = 'rename'\n{line}\n");
            let error = resolve(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn a_background_works_on_the_files_of_a_case_that_keeps_them() {
        let resolve = |case: &str, background: &str| {
            let text = format!(
                "targets = ['null']\n[[workload]]\n{case}\nbackground = {{ {background}, same_files = true }}\n"
            );
            let resolved = plan_file::parse(&text, "plan.toml")?.resolve(2, 7)?;
            Ok::<_, PlanError>(resolved.work.cells().pop().expect("a case").label)
        };
        let read = "name = 'read'\nfile_size = '4M'\ncache = 'warm'";
        let label =
            resolve(read, "name = 'record-rewrite', file_size = '4M'").expect("both keep the file");
        assert!(label.ends_with(" on the same files"), "{label}");
        resolve(read, "command = 'cat * > /dev/null'").expect("a command keeps what it likes");
        for (case, background, word) in [
            (
                read,
                "name = 'record-rewrite', file_size = '3M'",
                "the same 'files'",
            ),
            (
                read,
                "name = 'record-rewrite', file_size = '4M', backend = 'direct'",
                "the same 'backend'",
            ),
            (read, "name = 'write', file_size = '4M'", "makes new ones"),
            (
                read,
                "name = 'stat', files = 1, file_size = '4M'",
                "makes new ones",
            ),
            (read, "command = 'true', prepare = 'rm -f *'", "'prepare'"),
            (
                "name = 'read'\nfile_size = '4M'\ncache = 'cold'",
                "command = 'true'",
                "into memory",
            ),
            (
                "name = 'append'\nfile_size = '4M'",
                "name = 'record-rewrite', file_size = '4M'",
                "the case uses up",
            ),
        ] {
            let error = resolve(case, background)
                .expect_err("it makes no sense")
                .to_string();
            assert!(error.contains(word), "{case}, {background}: {error}");
        }
    }

    #[test]
    fn backgrounds_that_differ_in_their_limits_are_cases_of_their_own() {
        let text = "targets = ['null']\n\
            [[workload]]\nname = 'append'\ndurability = 'each'\nbackground = { name = 'write', block_size = '1M' }\n\
            [[workload]]\nname = 'append'\ndurability = 'each'\n\
            background = { name = 'write', block_size = '1M', limit = { write_bps = '20M', cpus = 0.5 } }\n";
        let resolved = plan_file::parse(text, "plan.toml")
            .unwrap()
            .resolve(2, 7)
            .unwrap();
        let labels: Vec<String> = resolved
            .work
            .cells()
            .into_iter()
            .map(|cell| cell.label)
            .collect();
        let beside = "append 4K, durable each, beside write 1M";
        let limited = format!("{beside} limited to cpus 0.5, write_bps 20M");
        assert_eq!(labels, ["append 4K, durable each", beside, &limited]);
        assert_eq!(resolved.plan.background_limits().count(), 1);
        let printed = plan_file::print(&resolved.plan).unwrap();
        assert_eq!(
            resolve(&printed).unwrap().workloads,
            resolved.plan.workloads,
            "{printed}"
        );
    }

    #[test]
    fn a_background_on_another_target_needs_targets_side_by_side() {
        let plan = |first: &str, targets: &str, on: &str| {
            format!(
                "{first}\ntargets = [{targets}]\n[[workload]]\nname = 'append'\ndurability = 'each'\n\
                 background = {{ name = 'write', block_size = '1M', target = '{on}' }}\n"
            )
        };
        let text = plan("", "'null', 'noise=null'", "noise");
        let resolved = plan_file::parse(&text, "plan.toml")
            .unwrap()
            .resolve(2, 7)
            .unwrap();
        assert_eq!(
            resolved.work.cells()[1].label,
            "append 4K, durable each, beside write 1M on noise"
        );
        assert!(
            matches!(resolved.placement, Placement::SideBySide { .. }),
            "{:?}",
            resolved.placement
        );
        let printed = plan_file::print(&resolved.plan).unwrap();
        assert_eq!(
            resolve(&printed).unwrap().workloads,
            resolved.plan.workloads,
            "{printed}"
        );
        for (text, word) in [
            (
                plan("", "'null', 'noise=null'", "noize"),
                "did you mean 'noise'",
            ),
            (
                plan("", "'noise=null'", "noise"),
                "no other target than noise",
            ),
            (
                plan("one_at_a_time = true", "'null', 'noise=null'", "noise"),
                "not ready while other targets",
            ),
        ] {
            let error = resolve(&text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_virtual_machine_has_memory_and_processors_of_its_own() {
        let plan =
            resolve("in = 'vm'\ntargets = ['ext4']\nmemory = '512M'\ncpus = 3\nkernel = ['6.1']")
                .unwrap();
        assert_eq!(
            plan.vm,
            Some(VmSize {
                memory: Bytes(512 << 20),
                cpus: 3
            })
        );
        assert_eq!(
            (plan.kernels.as_slice(), &plan.targets[0].kernel),
            (["6.1".to_owned()].as_slice(), &None)
        );
        let printed = plan_file::print(&plan).unwrap();
        assert_eq!(resolve(&printed).unwrap(), plan, "{printed}");
        assert_eq!(
            resolve("in = 'vm'\ntargets = ['ext4']").unwrap().vm,
            Some(VmSize {
                memory: setting::VM_MEMORY,
                cpus: 2
            })
        );
    }

    #[test]
    fn this_machine_runs_no_other_kernel() {
        for (line, word) in [
            ("kernel = ['6.1']", "line 2"),
            ("memory = '1G'", "memory-limit"),
            ("cpus = 2", "--in vm"),
            ("in = 'wm'", "did you mean 'vm'"),
            ("in = 'vm'\ncpus = 0", "between 1"),
        ] {
            let error = resolve(&format!("targets = ['ext4']\n{line}"))
                .unwrap_err()
                .to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
        let error = resolve("in = 'vm'\ntargets = ['/srv']")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("line 2") && error.contains("does not see it"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_is_not_a_kernel_is_refused() {
        let error =
            resolve("in = 'vm'\ntargets = ['ext4']\nkernel = ['/etc/passwd', '/etc/passwd']")
                .unwrap_err();
        assert_eq!(
            fsb_model::Coded::code(&error),
            &fsb_model::error::INVALID_KERNEL,
            "{error}"
        );
    }

    #[test]
    fn kernels_that_were_built_under_one_release_need_another() {
        let scratch = tempfile::tempdir().unwrap();
        let mut image = vec![0; 0x100];
        image[0x38..0x3c].copy_from_slice(b"ARM\x64");
        let tree = |name: &str| {
            let tree = scratch.path().join(name);
            let files = [
                ("include/config/kernel.release", &b"6.19.0-rc1+"[..]),
                ("arch/arm64/boot/Image", &image),
                ("modules.builtin", b""),
            ];
            for (name, bytes) in files {
                std::fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
                std::fs::write(tree.join(name), bytes).unwrap();
            }
            tree.display().to_string()
        };
        let text = format!(
            "in = 'vm'\ntargets = ['ext4']\nkernel = ['{}', '{}']",
            tree("good"),
            tree("bad")
        );
        let error = resolve(&text).unwrap_err().to_string();
        assert!(
            error.contains("6.19.0-rc1+ is named twice") && error.contains("LOCALVERSION=-NAME"),
            "{error}"
        );
    }

    #[test]
    fn the_size_of_the_large_disk_is_printed_again_and_has_limits() {
        let with = |size: &str| resolve(&format!("targets = ['btrfs']\nlike_disk = '{size}'"));
        let plan = with("1T").unwrap();
        assert_eq!(plan.like_disk, Bytes(1 << 40));
        let printed = print(&plan).unwrap();
        assert_eq!(
            resolve(&printed).unwrap().like_disk,
            plan.like_disk,
            "{printed}"
        );
        assert_eq!(
            resolve("targets = ['btrfs']").unwrap().like_disk,
            Plan::default().like_disk
        );
        for size in ["1M", "17T"] {
            let error = with(size).map(drop).unwrap_err().to_string();
            assert!(error.contains("use 1G to 16T"), "{error}");
        }
    }

    #[test]
    fn kernels_are_a_dimension_of_targets() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        let releases = ["6.1.0-1".to_owned(), "6.12.0-1".to_owned()];
        let made = on_each_kernel(target("ext4,noatime"), Place::Vm, &releases).unwrap();
        let names: Vec<_> = made
            .iter()
            .map(|target| (target.name.as_str(), target.kernel.as_deref()))
            .collect();
        assert_eq!(
            names,
            [
                ("ext4,noatime%6.1.0-1", Some("6.1.0-1")),
                ("ext4,noatime%6.12.0-1", Some("6.12.0-1"))
            ]
        );
        // As a plan prints it, each names its own.
        let printed = crate::target_file::TargetFile::from_target(&made[1]);
        let again = printed.resolve().unwrap();
        assert_eq!(
            on_each_kernel(again, Place::Vm, &releases).unwrap(),
            [made[1].clone()]
        );
        let other = Target {
            kernel: Some("6.2".to_owned()),
            ..target("ext4")
        };
        assert!(
            on_each_kernel(other.clone(), Place::Vm, &releases)
                .unwrap_err()
                .contains("kernel of this plan")
        );
        assert!(
            on_each_kernel(other, Place::Vm, &[])
                .unwrap_err()
                .contains("several kernels")
        );
    }
}
