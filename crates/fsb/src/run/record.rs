//! The record of a run, new or resumed, its segments, and its journal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsb_model::error::Tried;
use fsb_model::run::Segment;
use fsb_model::target::is_mkfs;
use fsb_model::{
    FileSystemSpec, Geometry, Place, Plan, RunRecord, TargetKind, Trial, code, errno, failure,
};
use fsb_runner::event::Journal;
use fsb_runner::plan_file::Resolved;
use fsb_runner::work::Work;
use fsb_runner::{resume as resuming, vm};
use fsb_store::owner::{holder, result_owner};
use fsb_store::{RunDirectory, StoreError, owner};
use fsb_testbed::{fs, host, medium};

use super::next_command::advise_on_unwritable;

/// Makes the paths of a plan absolute, because a run may be resumed from another working directory.
pub(super) fn make_absolute(plan: &mut Plan) -> anyhow::Result<()> {
    plan.dir = absolute(&plan.dir)?;
    for path in &mut plan.wipe {
        *path = absolute(path)?;
    }
    for target in &mut plan.targets {
        match &mut target.kind {
            TargetKind::Directory(path) => *path = absolute(path)?,
            TargetKind::FileSystem(spec) => make_programs_absolute(spec)?,
        }
    }
    Ok(())
}

/// Makes the paths of the programs absolute that the user named for a target.
pub fn make_programs_absolute(spec: &mut FileSystemSpec) -> anyhow::Result<()> {
    let commands = [&mut spec.server, &mut spec.init].into_iter();
    let programs = commands.filter_map(|words| words.first_mut());
    let mkfs = spec.mkfs.first_mut().filter(|word| is_mkfs(word));
    for program in programs.chain(mkfs) {
        if program.contains('/') {
            let path = absolute(Path::new(program.as_str()))?;
            *program = path.to_string_lossy().into_owned();
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let path = owner::absolute(path)?;
    // run.json is text; a path that is not UTF-8 could not be found again.
    path.to_str().ok_or_else(|| {
        failure::error(
            &code::INVALID_VALUE,
            format!("{}: the path is not UTF-8", path.display()),
        )
    })?;
    Ok(path)
}

/// Returns the record, the trials with those of the unfinished block marked, and the number of
/// marked trials; or the reason why the run cannot be resumed.
pub(super) fn resumable(
    contents: fsb_store::Contents,
    path: &Path,
) -> anyhow::Result<(RunRecord, Vec<Trial>, usize)> {
    let (record, mut trials) = (contents.record, contents.trials);
    if let Some(tool) = &record.emulation_of {
        let message = format!("{}: 'fsb {}' made the run", path.display(), tool.command);
        return Err(failure::advised(
            &code::NOT_RESUMABLE,
            message,
            "give its command a new directory: --out DIR",
        ));
    }
    let again = resuming::supersede(&record, &mut trials);
    if resuming::complete(&record, &trials) {
        return Err(failure::error(
            &code::RUN_COMPLETE,
            format!(
                "{}: the run is complete; 'fsb report' shows it",
                path.display()
            ),
        ));
    }
    resuming::same_kernel(&record, &kernel(&record.plan)?)
        .map_err(|why| failure::error(&fsb_runner::schedule::OTHER_KERNEL, why))?;
    Ok((record, trials, again))
}

/// Returns the record of a new run, and the work that it measures.
pub fn new_record(resolved: Resolved) -> anyhow::Result<(RunRecord, Work)> {
    let Resolved {
        plan,
        work,
        placement,
    } = resolved;
    let record = RunRecord {
        name: format!("{} · {}", run_name(&plan), plan.name),
        devices: medium::named_devices(&plan.targets, &plan.wipe),
        large_disk: large_disks(&plan),
        cells: work.cells(),
        placement: Some(placement),
        ..RunRecord::new(plan.clone(), segment(&plan)?)
    };
    Ok((record, work))
}

/// Returns the geometry that each target's mkfs command gives a large disk, by the target's name.
fn large_disks(plan: &Plan) -> BTreeMap<String, Geometry> {
    let mut known: Vec<(&FileSystemSpec, Option<Geometry>)> = Vec::new();
    let mut found = BTreeMap::new();
    for target in &plan.targets {
        let Some(spec) = target.file_system() else {
            continue;
        };
        let same = known
            .iter()
            .find(|(other, _)| (&other.fs, &other.mkfs) == (&spec.fs, &spec.mkfs));
        let geometry = match same {
            Some((_, geometry)) => geometry.clone(),
            None => {
                known.push((spec, fs::large_disk(spec, plan.like_disk.0)));
                known.last().and_then(|(_, geometry)| geometry.clone())
            }
        };
        found.extend(geometry.map(|geometry| (target.name.clone(), geometry)));
    }
    found
}

/// Returns the segment of the run that begins now, on this boot.
pub fn segment(plan: &Plan) -> anyhow::Result<Segment> {
    Ok(Segment {
        boot_id: host::boot_id(),
        kernel: kernel(plan)?,
        fsb_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now(),
        ended: None,
    })
}

/// Returns the kernel or kernels that targets are measured on: those of the virtual machine, if the
/// plan uses one.
fn kernel(plan: &Plan) -> anyhow::Result<String> {
    match plan.place {
        Place::Host => Ok(rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned()),
        Place::Vm => Ok(vm::releases(&plan.kernels)?.join(" and ")),
    }
}

fn now() -> String {
    fsb_runner::wall_clock::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Starts the clock of records no earlier than the last time in the record of the resumed run.
pub(super) fn continue_clock(record: &RunRecord, trials: &[Trial]) {
    let of_segments = record
        .segments
        .iter()
        .flat_map(|segment| segment.ended.iter().chain([&segment.started]));
    let times = of_segments.chain(trials.iter().map(|trial| &trial.started));
    if let Some(latest) = times
        .filter_map(|text| text.parse::<jiff::Timestamp>().ok())
        .max()
    {
        fsb_runner::wall_clock::start_no_earlier_than(latest);
    }
}

/// Records the end of the segment.
pub(super) fn end_segment(record: &mut RunRecord) {
    if let Some(segment) = record.segments.last_mut() {
        segment.ended = Some(now());
    }
}

/// Records the end of the segment, and writes the record.
pub fn close_segment(directory: &mut RunDirectory, record: &mut RunRecord) -> anyhow::Result<()> {
    end_segment(record);
    Ok(directory.write_record(record)?)
}

/// Returns a name such as `ext4-xfs-btrfs` with characters that a shell does not interpret.
pub fn run_name(plan: &Plan) -> String {
    name_of(plan.targets.iter().map(|target| target.name.as_str()))
}

fn name_of<'n>(targets: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = targets
        .map(|name| match name.trim_matches(['.', '/']) {
            "" => "directory",
            name => name,
        })
        .collect();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.,=".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = names.join("-").chars().map(plain).take(60).collect();
    name.trim_matches(['-', '.']).to_owned()
}

/// Writes to a run directory.
pub struct DirectoryJournal(pub RunDirectory);

impl Journal for DirectoryJournal {
    fn record(&mut self, record: &RunRecord) -> Result<(), Tried> {
        self.0.write_record(record).map_err(tried)
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), Tried> {
        self.0.append(trial).map_err(tried)
    }

    fn rewrite(&mut self, trials: &[Trial]) -> Result<(), Tried> {
        self.0.rewrite_trials(trials).map_err(tried)
    }
}

/// Holds a run in memory, and writes it to a run directory as well if there is one.
#[derive(Default)]
pub struct MemoryJournal {
    /// The directory that is created when the run begins.
    pub out: Option<PathBuf>,
    pub record: Option<RunRecord>,
    pub trials: Vec<Trial>,
    pub directory: Option<DirectoryJournal>,
}

impl MemoryJournal {
    /// Creates the run directory, if the user named one.
    pub(super) fn open(&mut self, record: &RunRecord) -> anyhow::Result<()> {
        if let Some(out) = &self.out {
            self.directory = Some(DirectoryJournal(create(out, record)?));
        }
        Ok(())
    }
}

impl Journal for MemoryJournal {
    fn record(&mut self, record: &RunRecord) -> Result<(), Tried> {
        self.record = Some(record.clone());
        match &mut self.directory {
            Some(directory) => directory.record(record),
            None => Ok(()),
        }
    }

    fn trial(&mut self, trial: &Trial) -> Result<(), Tried> {
        self.trials.push(trial.clone());
        match &mut self.directory {
            Some(directory) => directory.trial(trial),
            None => Ok(()),
        }
    }

    fn rewrite(&mut self, trials: &[Trial]) -> Result<(), Tried> {
        self.trials = trials.to_vec();
        match &mut self.directory {
            Some(directory) => directory.rewrite(trials),
            None => Ok(()),
        }
    }
}

/// Creates the directory of a run, and writes the record.
pub fn create(out: &Path, record: &RunRecord) -> anyhow::Result<RunDirectory> {
    RunDirectory::create(out, record, result_owner(), &holder()).map_err(advise_on_unwritable)
}

fn tried(error: StoreError) -> Tried {
    let text = error.to_string();
    match error {
        StoreError::Io { source, .. } => Tried {
            text,
            errno: errno::number(&source),
        },
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_name_whatever_its_targets_are() {
        let of = |names: &[&str]| name_of(names.iter().copied());
        assert_eq!(of(&["ext4", "xfs,noatime"]), "ext4-xfs,noatime");
        assert_eq!(
            (of(&["."]), of(&["./d1", "./d2/"])),
            ("directory".to_owned(), "d1-d2".to_owned())
        );
        assert_eq!(of(&["/srv/a b", "ext4@/dev/sdb"]), "srv-a-b-ext4--dev-sdb");
    }
}
