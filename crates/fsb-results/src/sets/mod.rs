//! Reads the sets that the command line names: `[NAME=]PATH[,PATH…]`.
//!
//! A path is a file of another tool, a directory of such files, a pattern, a run directory of fsb,
//! or a page of `fsb publish`. Patterns are expanded here, so that they may be quoted. A run
//! contains one set per target.

mod argument;
mod conditions;
mod ignored;
mod own;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fsb_report::mark;
use fsb_stats::compare::{Collected, ConditionDifference};
use fsb_store::{RUN_FILE, TRIALS_FILE};

use fsb_model::{code, failure};

use crate::Latencies;
use crate::matrices::Workloads;
use crate::run::{Results, StoredRun};
use crate::summary::low_trust;
use argument::Argument;
use conditions::SidedRun;
use ignored::Ignored;
use own::OwnRun;
use source::{Source, own_sets};

pub use argument::Found;
pub use conditions::Apart;
pub use source::{Contents, contents, earlier_runs};

/// The sets that the command line names.
#[derive(Debug)]
pub struct Sets {
    /// In the order of the arguments; a run directory's in the order of its targets.
    pub sets: Vec<Collected>,
    /// The origin of each set.
    pub origins: Vec<Origin>,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
    /// Every file that was read, so that none is written over.
    pub files: Vec<PathBuf>,
    /// The reason why nothing may be judged, if there is one.
    pub apart: Option<Apart>,
    /// Workloads that are not judged, each with a reason and the runs that it is about.
    pub withheld: BTreeMap<(String, &'static str), Vec<String>>,
    /// Files that were written to while they were read.
    pub changed: Vec<PathBuf>,
    /// Runs that are not trusted enough to decide a gate, each with the reason, if it was asked
    /// for.
    pub of_low_trust: Vec<(PathBuf, String)>,
    /// Conditions in which runs of fsb differ.
    pub conditions: Vec<ConditionDifference>,
    /// The runs of fsb, in the order of the arguments, without their trials.
    pub runs: Vec<StoredRun>,
    /// The files with values, each with the number of its argument: those of other tools, journals
    /// and published pages.
    pub inputs: Vec<(usize, PathBuf)>,
    /// The hosts of `--on` that made runs of several targets.
    pub hosts: BTreeSet<String>,
}

/// Whether the trust in runs is judged, which takes a summary of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// For a gate.
    Judged,
    /// For numbers alone.
    Unknown,
}

/// The origin of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The number of its argument.
    pub argument: usize,
    /// The target, if the set comes from a run of fsb.
    pub target: Option<String>,
}

/// Reads the sets that the arguments name, without the settings `ignored`: rows that differ in them
/// alone become the same. Without `latencies`, those of fsb's runs are left out; their percentiles
/// are values and stay. Wrong arguments and unreadable files are errors of the request.
pub fn read(
    arguments: &[OsString],
    trust: Trust,
    latencies: Latencies,
    ignored: &[String],
) -> anyhow::Result<Sets> {
    let arguments = arguments
        .iter()
        .map(|text| Argument::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    read_arguments(arguments, trust, latencies, Ignored::new(ignored))
}

/// The state of a file that a writer changes.
type Stamp = (u64, u64, u64, i64, i64);

/// Files as they were before they were read.
#[derive(Debug, Default)]
struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

impl Stamps {
    fn take(&mut self, path: &Path) {
        self.0.push((path.to_owned(), stamp(path)));
    }

    /// Returns the files that are not as they were.
    fn changed(self) -> Vec<PathBuf> {
        let changed = self.0.into_iter().filter(|(path, was)| stamp(path) != *was);
        changed.map(|(path, _)| path).collect()
    }
}

/// Returns the device, the inode, the length and the time of the last write; `None` if the file
/// cannot be found.
fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
    ))
}

/// Reads sets that have names, each from its paths.
///
/// # Errors
///
/// A path cannot be read, or holds no results.
pub fn read_named(sets: &[(&str, &[PathBuf])]) -> anyhow::Result<Sets> {
    let arguments = sets.iter().map(|(name, paths)| Argument {
        text: OsString::from(name),
        name: Some((*name).to_owned()),
        paths: paths.to_vec(),
    });
    read_arguments(
        arguments.collect(),
        Trust::Unknown,
        Latencies::Added,
        Ignored::default(),
    )
}

fn read_arguments(
    arguments: Vec<Argument>,
    trust: Trust,
    latencies: Latencies,
    mut ignored: Ignored,
) -> anyhow::Result<Sets> {
    let mut warnings = source::bare_files(&arguments);
    let mut sources = Vec::new();
    let mut stamps = Stamps::default();
    for argument in arguments {
        sources.push(find(argument, latencies, &mut stamps, &mut warnings)?);
    }
    warnings.extend(in_two_sets(&sources));
    let of_runs = sources
        .iter()
        .flat_map(|source| &source.runs)
        .flat_map(|run| run.stored.files());
    let files = sources
        .iter()
        .flat_map(|source| &source.files)
        .cloned()
        .chain(of_runs)
        .collect();
    let others = sources.iter().any(|source| !source.files.is_empty());
    let regimes = conditions::regimes_of(sources.iter().flat_map(|source| &source.runs), others);
    warnings.extend(regimes.warnings);
    let mut withheld: BTreeMap<(String, &'static str), Vec<String>> = BTreeMap::new();
    for run in sources.iter().flat_map(|source| &source.runs) {
        for reason in run.withheld() {
            withheld
                .entry(reason)
                .or_default()
                .push(run.stored.path.display().to_string());
        }
    }
    let own: Vec<(usize, &OwnRun)> = sources
        .iter()
        .enumerate()
        .flat_map(|(argument, source)| source.runs.iter().map(move |run| (argument, run)))
        .collect();
    let paths: Vec<String> = own
        .iter()
        .map(|(_, run)| run.stored.path.display().to_string())
        .collect();
    let several = own.iter().any(|(argument, _)| *argument != own[0].0);
    let sided = own
        .iter()
        .zip(&paths)
        .enumerate()
        .map(|(place, ((argument, run), path))| SidedRun {
            side: if several { *argument } else { place },
            path,
            record: &run.stored.record,
        });
    let conditions = conditions::differences(&sided.collect::<Vec<_>>());
    let with_baseline = own
        .iter()
        .filter(|(_, run)| run.stored.record.plan.targets.len() > 1);
    let hosts = with_baseline
        .filter_map(|(_, run)| run.stored.record.on.clone())
        .collect();
    let inputs = sources.iter().enumerate().flat_map(|(argument, source)| {
        let journals = source
            .runs
            .iter()
            .map(|run| run.stored.journal_path.as_path());
        source
            .files
            .iter()
            .map(PathBuf::as_path)
            .chain(journals)
            .map(move |path| (argument, path.to_owned()))
    });
    let inputs = inputs.collect();
    let mut of_low_trust = Vec::new();
    if trust == Trust::Judged {
        for run in sources.iter().flat_map(|source| &source.runs) {
            let why = low_trust(&run.stored);
            of_low_trust.extend(why.map(|why| (run.stored.path.clone(), why)));
        }
    }
    for source in &mut sources {
        let name = source.argument.shown();
        for run in &mut source.runs {
            let path = run.stored.path.display().to_string();
            ignored.take_from_cells(&name, &path, &mut run.cells)?;
        }
    }
    let (sets, origins) = assemble(&mut sources, &mut warnings, &mut ignored)?;
    warnings.splice(0..0, ignored.finish()?);
    let changed = stamps.changed();
    if !changed.is_empty() {
        warnings.push(format!(
            "written to while it was read, so the numbers may be of a part: {}; compare again",
            argument::list_files(&changed)
        ));
    }
    let runs = sources
        .into_iter()
        .flat_map(|source| source.runs)
        .map(|run| run.stored)
        .collect();
    Ok(Sets {
        sets,
        origins,
        warnings,
        files,
        apart: regimes.apart,
        withheld,
        changed,
        of_low_trust,
        conditions,
        runs,
        inputs,
        hosts,
    })
}

/// Returns two files of different arguments that have the same content, if there are such.
pub fn same_content(inputs: &[(usize, PathBuf)]) -> anyhow::Result<Option<[&Path; 2]>> {
    let mut by_length: BTreeMap<u64, Vec<&(usize, PathBuf)>> = BTreeMap::new();
    for input in inputs {
        // A file without a length cannot be read either.
        let length = fs::metadata(&input.1).map_or(0, |metadata| metadata.len());
        by_length.entry(length).or_default().push(input);
    }
    for (_, alike) in by_length
        .iter()
        .filter(|(length, alike)| **length > 0 && alike.len() > 1)
    {
        let mut first: BTreeMap<Vec<u8>, &(usize, PathBuf)> = BTreeMap::new();
        for input in alike {
            let read = fsb_store::input::read(&input.1, fsb_store::input::LARGEST_RESULT);
            let content = read.with_context(|| format!("cannot read {}", input.1.display()))?;
            let known = first.entry(content).or_insert(input);
            if known.0 != input.0 {
                return Ok(Some([&known.1, &input.1]));
            }
        }
    }
    Ok(None)
}

/// The files and runs behind an argument.
#[derive(Debug)]
pub struct Named {
    /// The name that the argument gives.
    pub name: Option<String>,
    /// The files and runs, in natural order.
    pub found: Vec<Found>,
    /// Warnings for the reader.
    pub warnings: Vec<String>,
}

/// Returns the name that an argument gives, and the files and runs behind it.
///
/// # Errors
///
/// The argument is not a set, or nothing is behind it.
pub fn results_of(text: &OsStr) -> anyhow::Result<Named> {
    let argument = Argument::parse(text)?;
    let (mut found, mut warnings) = (Vec::new(), Vec::new());
    for path in &argument.paths {
        found.extend(argument::expand(path, &mut warnings)?);
    }
    Ok(Named {
        name: argument.name,
        found,
        warnings,
    })
}

/// Finds the files and runs behind an argument, each once.
fn find(
    argument: Argument,
    latencies: Latencies,
    stamps: &mut Stamps,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Source> {
    let (mut files, mut runs) = (Vec::new(), Vec::new());
    let (mut seen, mut again) = (BTreeSet::new(), Vec::new());
    for path in &argument.paths {
        for found in argument::expand(path, warnings)? {
            let (Found::File(path) | Found::Run(path)) = &found;
            if identity(path).is_some_and(|file| !seen.insert(file)) {
                again.push(path.clone());
                continue;
            }
            match found {
                Found::File(path) => {
                    stamps.take(&path);
                    files.push(path);
                }
                Found::Run(path) => {
                    if path.is_file() {
                        stamps.take(&path);
                    } else {
                        stamps.take(&path.join(RUN_FILE));
                        stamps.take(&path.join(TRIALS_FILE));
                    }
                    runs.push(path);
                }
            }
        }
    }
    if !again.is_empty() {
        let text = argument.text.display();
        warnings.push(format!(
            "'{text}' names the same file twice, which is read once: {}",
            argument::list_files(&again)
        ));
    }
    if !files.is_empty() && !runs.is_empty() {
        return Err(failure::error(
            &code::INVALID_SET,
            format!(
                "'{}' mixes a run of fsb ({}) with files of other tools ({}): make them sets of their own",
                argument.text.display(),
                runs[0].display(),
                files[0].display()
            ),
        ));
    }
    let runs = Results::open(&runs, latencies)?.runs;
    Ok(Source {
        argument,
        files,
        runs: runs.into_iter().map(OwnRun::new).collect(),
    })
}

/// Returns the device and inode of a file, which do not depend on the path; `None` if the file
/// cannot be found.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path)
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Warns of files that are in two sets, which is hardly intended.
fn in_two_sets(sources: &[Source]) -> Vec<String> {
    let mut first: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let mut shared: BTreeMap<(usize, usize), Vec<PathBuf>> = BTreeMap::new();
    for (number, source) in sources.iter().enumerate() {
        for path in source
            .files
            .iter()
            .chain(source.runs.iter().map(|run| &run.stored.path))
        {
            let holder = identity(path).map_or(number, |file| *first.entry(file).or_insert(number));
            if holder != number {
                shared
                    .entry((holder, number))
                    .or_default()
                    .push(path.clone());
            }
        }
    }
    let mut warnings = Vec::new();
    for ((one, other), files) in shared {
        let [one, other] = [one, other].map(|number| sources[number].argument.text.display());
        let files = argument::list_files(&files);
        warnings.push(format!(
            "'{one}' and '{other}' have files in common: {files}"
        ));
    }
    warnings
}

fn assemble(
    sources: &mut [Source],
    warnings: &mut Vec<String>,
    ignored: &mut Ignored,
) -> anyhow::Result<(Vec<Collected>, Vec<Origin>)> {
    warnings.extend(conditions::take_units(sources));
    let runs = sources.iter().flat_map(|source| &source.runs);
    let workloads = Workloads::from_cells(runs.clone().flat_map(|run| &run.cells.list));
    warnings.extend(own::relabelled(runs));
    warnings.extend(conditions::of_other_sizes(sources));
    let (mut sets, mut wishes, mut origins) = (Vec::new(), Vec::new(), Vec::new());
    let is_alone = sources.len() == 1;
    // One after another: the trials of a run take more memory than its sets.
    for (argument, source) in sources.iter_mut().enumerate() {
        let ours = !source.runs.is_empty();
        let made = if source.runs.is_empty() {
            source::foreign_sets(&source.argument, &source.files, is_alone, ignored)?
        } else {
            own_sets(source, &workloads, warnings)?
        };
        for (wish, set) in made {
            wishes.push(wish);
            // It is still called as its target.
            origins.push(Origin {
                argument,
                target: ours.then(|| set.name.clone()),
            });
            sets.push(set);
        }
    }
    if sets.is_empty() {
        return Err(failure::error(
            &code::NOTHING_TO_COMPARE,
            format!("nothing to compare: {}", warnings.join("; ")),
        ));
    }
    for (set, name) in sets.iter_mut().zip(argument::settle_names(&wishes)?) {
        set.name = if set.has_risks {
            name + mark::UNSAFE
        } else {
            name
        };
    }
    Ok((sets, origins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_written_to_or_replaced_have_changed() {
        let directory = tempfile::tempdir().unwrap();
        let [same, longer, replaced, gone] =
            ["same", "longer", "replaced", "gone"].map(|name| directory.path().join(name));
        let mut stamps = Stamps::default();
        for path in [&same, &longer, &replaced, &gone] {
            fs::write(path, "1").unwrap();
            stamps.take(path);
        }
        fs::write(&longer, "12").unwrap();
        fs::write(directory.path().join("other"), "2").unwrap();
        fs::rename(directory.path().join("other"), &replaced).unwrap();
        fs::remove_file(&gone).unwrap();
        assert_eq!(stamps.changed(), [longer, replaced, gone]);
    }
}
