//! The work of a run: its cells, with the properties of their workloads. This module parses the
//! parameters of a request.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsb_engine::{ParamError, Profile, Sizing, WorkUnit, workload};
use fsb_model::host::DeviceId;
use fsb_model::run::{Placement, PlacementReason};
use fsb_model::workload::{REUSE, REUSED_DIRECTORY};
use fsb_model::{
    BACKGROUND, Background, CacheState, Cell, Durability, Params, Plan, RunRecord, Target,
    WorkloadSpec, metric,
};
use fsb_testbed::Setup;

use crate::planner::LONGEST;

/// A cell and the properties of its workload.
#[derive(Debug, Clone)]
pub struct ParsedCell {
    /// The label, and its parameters with all defaults filled in.
    pub cell: Cell,
    /// The properties of the whole workload that the runner needs.
    pub profile: Profile,
    /// The unit that rounds consist of; absent if only the whole workload has a meaningful result.
    pub unit: Option<CellUnit>,
    /// The properties of its background, if it has one.
    pub background: Option<Profile>,
}

/// The unit of a cell.
#[derive(Debug, Clone)]
pub struct CellUnit {
    /// The workload of one unit.
    pub workload: WorkloadSpec,
    /// Each unit has files of its own.
    pub own_files: bool,
    /// Whether a unit is in its original state again when the caches are emptied.
    pub only_warmed: bool,
    /// Operations of a unit.
    pub operations: u64,
    /// Bytes that it needs on the target.
    pub space: u64,
    /// Files and directories that it needs on the target.
    pub inodes: u64,
}

impl ParsedCell {
    /// Parses the parameters.
    pub fn parse(spec: &WorkloadSpec, sizing: &Sizing) -> Result<ParsedCell, ParamError> {
        let job = workload::parse(spec, sizing)?;
        let mut profile = job.profile();
        if let Some(turns) = spec.sustain {
            can_be_held(spec, &profile, turns)?;
            profile.label.push_str(", sustained");
        }
        if profile
            .program
            .as_ref()
            .is_some_and(|program| program.reuse && !program.here)
        {
            profile.label.push_str(REUSED_DIRECTORY);
        }
        let mut workload = WorkloadSpec {
            params: job.params(),
            ..spec.clone()
        };
        if let Some(background) = &spec.background {
            let (background, own) = beside(&workload, background, &mut profile, sizing)?;
            workload.background = Some(background);
            let cell = Cell {
                label: profile.label.clone(),
                workload,
            };
            return Ok(ParsedCell {
                cell,
                profile,
                unit: None,
                background: Some(own),
            });
        }
        let unit = job
            .unit()
            .map(|unit| CellUnit::parse(&spec.name, unit, sizing))
            .transpose()?;
        Ok(ParsedCell {
            cell: Cell {
                label: profile.label.clone(),
                workload,
            },
            profile,
            unit,
            background: None,
        })
    }
}

/// Checks that work can continue until a journal was written `turns` times: it must have no end of
/// its own, and its result must be a rate.
fn can_be_held(spec: &WorkloadSpec, profile: &Profile, turns: f64) -> Result<(), ParamError> {
    const MOST: f64 = 1000.0;
    let refuse = |message: &str| {
        let (key, message) = (Some("sustain".to_owned()), message.to_owned());
        Err(ParamError {
            workload: spec.name.clone(),
            key,
            message,
        })
    };
    if !(turns > 0.0 && turns <= MOST) {
        return refuse(&format!(
            "{turns} times: give how often the journal is to be written, at most {MOST} times"
        ));
    }
    if spec
        .sample_time
        .is_some_and(|sample_time| sample_time.0 < 1.0)
    {
        return refuse("sustained work needs samples of a second or more: leave 'sample_time' out");
    }
    let counts =
        [metric::THROUGHPUT.name, metric::OPERATION_RATE.name].contains(&profile.primary.name);
    let goes_on =
        profile.divisible && profile.repeats_in_place && profile.durability != Durability::End;
    if !counts || !goes_on || profile.rate.is_some() || profile.cache != CacheState::Any {
        return refuse(
            "the workload cannot be sustained: use 'flow', 'rename' or 'write' with overwrite = true, with durability \
             none or each, which change data without end",
        );
    }
    Ok(())
}

/// Returns all parameters of a background, and its profile. One that works on the files of the case
/// needs no space. A command is repeated in one directory: the load is the command, without `setup`
/// between its runs.
///
/// # Errors
/// Returns the error of its first invalid parameter.
pub(crate) fn parse_background(
    background: &Background,
    sizing: &Sizing,
) -> Result<(Params, Profile), ParamError> {
    let job = workload::parse(&background.spec(), sizing)?;
    let mut profile = job.profile();
    if background.same_files {
        (profile.space, profile.inodes) = (0, 0);
    }
    let mut params = job.params();
    if profile.program.is_some() {
        params.insert(REUSE.to_owned(), true.into());
    }
    Ok((params, profile))
}

/// Returns the background with all its parameters, and its profile. Adds what it needs and its name
/// to the profile of the case.
fn beside(
    spec: &WorkloadSpec,
    background: &Background,
    profile: &mut Profile,
    sizing: &Sizing,
) -> Result<(Background, Profile), ParamError> {
    let refuse = |message: &str| {
        let (key, message) = (
            Some(BACKGROUND.to_owned()),
            format!("background: {message}"),
        );
        Err(ParamError {
            workload: spec.name.clone(),
            key,
            message,
        })
    };
    let (params, own) = match parse_background(background, sizing) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error.to_string()),
    };
    if background.same_files
        && let Err(why) = on_same_files(background, (&params, &own), (&spec.params, profile))
    {
        return refuse(why);
    }
    match () {
        () if spec.sustain.is_some() => {
            return refuse("sustained work has no background: leave 'sustain' or 'background' out");
        }
        () if spec
            .sample_time
            .is_some_and(|sample_time| sample_time.0 < LONGEST) =>
        {
            return refuse(
                "shorter samples show no stalls: give a sample_time of a second or more, or leave it out",
            );
        }
        () if profile.maintenance.is_some() => {
            return refuse(
                "an operation on the whole file system cannot be measured beside other work on it",
            );
        }
        () if own
            .maintenance
            .is_some_and(|operation| !operation.goes_beside_work()) =>
        {
            return refuse(
                "this operation on the whole file system cannot be repeated beside other work: use 'snapshot-delete', \
                 'snapshot', 'subvolume' or 'send', another workload or a command",
            );
        }
        () if own.maintenance.is_some() && background.limit.is_some() => {
            return refuse(
                "an operation that needs root has neither a cgroup nor files: leave 'limit' out",
            );
        }
        () if own.maintenance.is_some() && background.subvolume => {
            return refuse(
                "an operation on the whole file system has no files of its own: leave 'subvolume' out",
            );
        }
        () if profile.cache == CacheState::Out => {
            return refuse(
                "the memory that may cache the files would be shared: use cache = \"cold\"",
            );
        }
        () if own.cache.begins_cold() => {
            return refuse(
                "it is repeated, and is cold only once: use cache = \"any\" with backend = \"direct\", or larger files",
            );
        }
        () if background
            .params
            .get(REUSE)
            .is_some_and(|value| *value == false) =>
        {
            return refuse("it repeats its command in one directory: leave 'reuse' out");
        }
        () if own.processes > 1 => return refuse("it has several processes: use threads instead"),
        () => {}
    }
    let elsewhere = background.target.as_ref().map(|name| format!(" on {name}"));
    let limit = background.limit.map(|limit| format!(" limited to {limit}"));
    let [elsewhere, limit] = [elsewhere, limit].map(Option::unwrap_or_default);
    let place = match (background.subvolume, background.same_files) {
        (true, _) => " in a subvolume",
        (_, true) => " on the same files",
        _ => "",
    };
    profile.label = format!(
        "{}, beside {}{elsewhere}{place}{limit}",
        profile.label, own.label
    );
    profile.space += own.space;
    profile.inodes += own.inodes;
    Ok((
        Background {
            params,
            ..background.clone()
        },
        own,
    ))
}

/// Checks that a background can work on the files of the case. Both are given by their parameters
/// and profiles.
///
/// # Errors
/// Returns the reason if one of the two changes which files there are, if the files of the two
/// differ, or if the background makes a validity check of the case meaningless.
fn on_same_files(
    background: &Background,
    (own_params, own): (&Params, &Profile),
    (params, case): (&Params, &Profile),
) -> Result<(), &'static str> {
    /// The parameters that decide the names and sizes of files.
    const FILES: [&str; 3] = ["files", "file_size", "files_per_directory"];
    /// The parameters of a command that prepare or remove files.
    const SCRIPTS: [&str; 4] = ["setup", "input", "prepare", "cleanup"];
    let is_command = own.program.is_some();
    let has_scripts = SCRIPTS
        .iter()
        .any(|key| background.params.contains_key(*key));
    match () {
        () if background.target.is_some() || background.own_directory().is_some() => Err(
            "it works on the files of the case: leave 'same_files' out, or 'target', 'subvolume' and 'space'",
        ),
        () if !case.in_place => {
            Err("the case uses up its files or makes new ones: leave 'same_files' out")
        }
        () if case.cache.begins_cold() => Err(
            "it reads the files of the case into memory: use cache = \"warm\" or \"any\", or leave 'same_files' out",
        ),
        () if is_command && has_scripts => Err(
            "the files are those of the case: leave 'setup', 'input', 'prepare' and 'cleanup' of the command out",
        ),
        () if is_command => Ok(()),
        () if !own.in_place => {
            Err("it uses up its files or makes new ones: leave 'same_files' out")
        }
        () if own.backend != case.backend => {
            Err("both work on the same files: give them the same 'backend'")
        }
        () if FILES
            .iter()
            .any(|key| own_params.get(*key) != params.get(*key)) =>
        {
            Err(
                "both work on the same files: give them the same 'files', 'file_size' and 'files_per_directory'",
            )
        }
        () => Ok(()),
    }
}

impl CellUnit {
    fn parse(name: &str, unit: WorkUnit, sizing: &Sizing) -> Result<CellUnit, ParamError> {
        let WorkUnit {
            params,
            own_files,
            only_warmed,
            operations,
        } = unit;
        let workload = WorkloadSpec::new(name, params);
        let Profile { space, inodes, .. } = workload::parse(&workload, sizing)?.profile();
        Ok(CellUnit {
            workload,
            own_files,
            only_warmed,
            operations,
            space,
            inodes,
        })
    }
}

/// All cells of a run.
#[derive(Debug, Clone)]
pub struct Work {
    /// The cells, in the plan's order.
    pub cells: Vec<ParsedCell>,
    /// The base of relative file sizes.
    pub sizing: Sizing,
}

impl Work {
    /// Returns the work of a run that was begun before. `cpus` are hardware threads.
    pub fn from_record(record: &RunRecord, cpus: u32) -> Result<Work, ParamError> {
        let sizing = sizing(record, cpus);
        let parsed = |cell: &Cell| {
            let parsed = ParsedCell::parse(&cell.workload, &sizing)?;
            // Its trials are known by this label.
            Ok(ParsedCell {
                cell: cell.clone(),
                ..parsed
            })
        };
        Ok(Work {
            cells: record
                .cells
                .iter()
                .map(parsed)
                .collect::<Result<_, ParamError>>()?,
            sizing,
        })
    }

    /// Returns the cells alone.
    pub fn cells(&self) -> Vec<Cell> {
        self.cells
            .iter()
            .map(|parsed| parsed.cell.clone())
            .collect()
    }

    /// Returns the unit of a cell, if the cell is measured in rounds.
    pub(crate) fn unit_in_rounds<'p>(
        &self,
        record: &RunRecord,
        parsed: &'p ParsedCell,
    ) -> Option<&'p CellUnit> {
        parsed
            .unit
            .as_ref()
            .filter(|_| in_rounds(record, &parsed.cell))
    }
}

// Decides whether targets are measured side by side. Sizes derive from the slice of the medium that
// each target has.

/// Returns the placement of a plan's targets, as far as it is known before anything is changed.
pub(crate) fn placement(plan: &Plan, cells: &[ParsedCell]) -> Placement {
    if plan.one_at_a_time {
        return Placement::InTurn {
            reason: PlacementReason::Requested,
        };
    }
    // A race round is measured side by side even where its workloads are unsplittable.
    if !cells.iter().any(|parsed| {
        let background = parsed.cell.workload.background.as_ref();
        parsed.unit.is_some() || background.is_some_and(|background| background.target.is_some())
    }) && plan.race.is_none()
    {
        return Placement::InTurn {
            reason: PlacementReason::UnsplittableWorkloads,
        };
    }
    let setup = setup_of(plan, &BTreeMap::new(), 1);
    let at_once = plan.at_once() as u32;
    match fsb_testbed::side_by_side(&setup).map(|slices| slices.min(at_once)) {
        Ok(slices) if slices > 1 => {
            // A slice of a large device is at most as large as a slice of an image would be. A
            // small device has smaller slices.
            let image = fsb_testbed::slice_bytes(plan.size.0, slices);
            let slice_bytes =
                fsb_testbed::slice_size(&setup, slices).map_or(image, |device| device.min(image));
            Placement::SideBySide {
                slices,
                slice_bytes,
            }
        }
        Ok(slices) => Placement::SideBySide {
            slices,
            slice_bytes: plan.size.0,
        },
        Err(reason) => Placement::InTurn { reason },
    }
}

/// Returns the base of relative file sizes in a run.
pub(crate) fn sizing(record: &RunRecord, cpus: u32) -> Sizing {
    let size = match record.placement {
        Some(Placement::SideBySide { slice_bytes, .. }) => slice_bytes,
        _ => record.plan.size.0,
    };
    Sizing { size, cpus }
}

/// Returns whether a cell that has units is measured in rounds of short samples.
pub(crate) fn in_rounds(record: &RunRecord, cell: &Cell) -> bool {
    if !record.amounts.is_empty() {
        // This was decided before the run was interrupted.
        return record.rounds.contains_key(&cell.label);
    }
    let sequential = record
        .plan
        .sample_time_of(&cell.workload)
        .is_some_and(|seconds| seconds >= LONGEST);
    matches!(record.placement, Some(Placement::SideBySide { .. })) && !sequential
}

/// Returns the number of slices of each medium of a run; 1 if the medium is not divided.
pub(crate) fn slices(record: &RunRecord) -> u32 {
    record
        .placement
        .as_ref()
        .and_then(Placement::divided)
        .map_or(1, |(slices, _)| slices)
}

/// Returns the names of the targets of a plan that do not behave as on a large disk, because their
/// devices are too small.
pub fn on_small_devices<'p>(plan: &'p Plan, placement: &Placement) -> Vec<&'p str> {
    let slices = placement.divided().map_or(1, |(slices, _)| slices);
    let setup = setup_of(plan, &BTreeMap::new(), slices);
    plan.targets
        .iter()
        .filter(|target: &&Target| {
            target
                .file_system()
                .is_some_and(|spec| !fsb_testbed::behaves_as_large(&setup, spec))
        })
        .map(|target| target.name.as_str())
        .collect()
}

/// Returns the setup for a plan with known devices. Each medium is divided into `slices` slices.
pub(crate) fn setup_of(plan: &Plan, devices: &BTreeMap<PathBuf, DeviceId>, slices: u32) -> Setup {
    /// Share of a budget for preparing the machine.
    const PREPARING: f64 = 0.2;
    Setup {
        memory_needed: None,
        patience: plan
            .repetition
            .budget()
            .map(|budget| budget.as_secs_f64() * PREPARING),
        targets: plan.targets.clone(),
        size: plan.size.0,
        dir: plan.dir.clone(),
        wipe: plan.wipe.clone(),
        devices: devices.clone(),
        controls: plan.controls.clone(),
        identity: plan.identity.clone(),
        seed: plan.seed,
        vm: plan.vm,
        kernels: plan.kernels.clone(),
        root: plan.root.clone(),
        oldest_kernel: None,
        large_disk: Default::default(),
        // In whole sectors of every size.
        like_disk: if plan.mkfs_defaults {
            0
        } else {
            plan.like_disk.0 / 4096 * 4096
        },
        fault: None,
        background_limits: plan.background_limits().collect(),
        slices,
    }
}
