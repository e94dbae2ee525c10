//! One argument of a comparison: its files and run directories, and the sets of its targets.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fsb_model::set::{Run, Series};
use fsb_model::shell;
use fsb_model::stop::Analyses;
use fsb_report::show::some_of;
use fsb_stats::compare::{Collected, Variation, is_named_by_command, variation};
use fsb_stats::in_parallel;
use rayon::prelude::*;

use super::argument::{Argument, Wish, is_glob};
use super::ignored::Ignored;
use super::own::OwnRun;
use crate::Latencies;
use crate::directory::{SET_FILE, results_directory, unchanged_runs};
use crate::matrices::Workloads;
use crate::run::StoredRun;

/// One argument, with its files found and its run directories read.
pub(super) struct Source {
    pub(super) argument: Argument,
    pub(super) files: Vec<PathBuf>,
    pub(super) runs: Vec<OwnRun>,
}

/// Returns the directory that `--runs` made for these runs: the set has its name, and not that of
/// the first run.
fn directory_of_set(runs: &[OwnRun]) -> Option<PathBuf> {
    let mut parents = runs.iter().map(|run| run.stored.identity.parent());
    let first = parents.next()??;
    let is_set = runs.len() > 1
        && first.join(SET_FILE).is_file()
        && parents.all(|parent| parent == Some(first));
    is_set.then(|| first.to_owned())
}

/// Returns the targets of the source's run directories. Several directories with one name are runs
/// of one set for each target. Blocks are numbered consecutively over the directories, so that
/// blocks of different runs are not paired.
pub(super) fn own_sets(
    source: &mut Source,
    workloads: &Workloads,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Vec<(Wish, Collected)>> {
    let typed = source.argument.text.display().to_string();
    let pairing: Vec<String> = source
        .runs
        .iter()
        .map(|run| run.stored.identity.display().to_string())
        .collect();
    let mut sets: Vec<(Wish, Collected)> = Vec::new();
    // Each of several runs was analysed on its own.
    let analyses = if let [run] = &source.runs[..] {
        run.stored.record.analyses()
    } else {
        Analyses::default()
    };
    let set_directory = directory_of_set(&source.runs);
    let (mut first_block, mut first_slice) = (0u32, 0u32);
    for run in &mut source.runs {
        let (targets, said) = run.targets();
        warnings.extend(said);
        for target in targets {
            if target.blocks.is_empty() {
                warnings.push(format!(
                    "{}: no trial of {} has a value: left out",
                    run.stored.path.display(),
                    target.name
                ));
                continue;
            }
            let place = sets
                .iter()
                .position(|(_, set)| set.name == target.name)
                .unwrap_or_else(|| {
                    let wish = match &source.argument.name {
                        Some(name) => Wish::given(format!("{name}/{}", target.name), typed.clone()),
                        None => Wish::target(
                            set_directory.as_deref().unwrap_or(&run.stored.identity),
                            &target.name,
                            typed.clone(),
                        ),
                    };
                    let mut set = Collected::new(target.name.clone(), Some(pairing.join(" + ")));
                    set.analyses.clone_from(&analyses);
                    sets.push((wish, set));
                    sets.len() - 1
                });
            let set = &mut sets[place].1;
            let (risks, may_win) = run.risks(&target.name);
            set.has_risks |= !risks.is_empty();
            set.barred |= !may_win;
            for trial in target.blocks.values().flatten() {
                if !trial.extras().unproven.is_empty() {
                    set.unproven.insert(trial.what.workload.clone());
                }
            }
            set.expect_runs(target.blocks.len());
            let mut series = run.block_series(workloads);
            for (block, trials) in target.blocks {
                // One at a time: the names of thousands of blocks would fill the memory.
                let block = first_block.saturating_add(block);
                let mut one = run.run(block, &trials, workloads);
                one.slice = one.slice.map(|slice| first_slice.saturating_add(slice));
                series.fill(&trials);
                one.series = std::mem::take(&mut series.list);
                set.push(&one).context("cannot compare these trials")?;
                series.list = one.series;
            }
        }
        first_block = first_block.saturating_add(run.last_block());
        first_slice = first_slice.saturating_add(run.slices());
        run.latencies(workloads, |target, histogram| {
            if let Some((_, set)) = sets.iter_mut().find(|(_, set)| set.name == target) {
                set.push_latencies(&histogram);
            }
        });
        // The values are in the sets now.
        run.stored.trials = Vec::new();
    }
    Ok(sets)
}

// Earlier runs of the same plan on the same machine: the variation between runs when nothing was
// changed between them.

/// The largest number of earlier runs that are read, the last ones.
const MOST_EARLIER_RUNS: usize = 12;

/// Estimates the variation from finished runs in the same results directories that had the same
/// plan, kernel and geometry as the compared runs. Returns `None` if there are too few. Directories
/// that cannot be read are skipped: only the width of intervals depends on them, and the result
/// contains the number of runs.
pub fn earlier_runs(compared: &[StoredRun]) -> Option<Variation> {
    let first = &compared.first()?.record;
    let known: BTreeSet<&PathBuf> = compared.iter().map(|run| &run.identity).collect();
    let directories: BTreeSet<PathBuf> = known
        .iter()
        .filter_map(|path| results_directory(path))
        .collect();
    let found = directories
        .iter()
        .flat_map(|directory| unchanged_runs(first, directory));
    let mut paths: Vec<PathBuf> = found
        .map(|run| run.path)
        .filter(|path| !known.contains(path))
        .collect();
    let paths = paths.split_off(paths.len().saturating_sub(MOST_EARLIER_RUNS));
    let mut runs = Vec::new();
    for path in &paths {
        if let Ok(run) = StoredRun::read(path, Latencies::LeftOut) {
            runs.push(OwnRun::new(run));
        }
    }
    if runs.len() < fsb_stats::FEWEST_RUNS_JUDGED {
        return None;
    }
    let argument = Argument {
        text: "earlier runs".into(),
        name: None,
        paths,
    };
    let mut source = Source {
        argument,
        files: Vec::new(),
        runs,
    };
    let workloads = Workloads::from_cells(source.runs.iter().flat_map(|run| &run.cells.list));
    let sets = own_sets(&mut source, &workloads, &mut Vec::new()).ok()?;
    variation(sets.into_iter().map(|(_, set)| set).collect()).ok()
}

// The contents of sets, for the message that they have nothing in common.

/// The number of operations that the message names of a set.
const NAMED: usize = 13;

/// The number of problems that the message names of a set.
const NAMED_PROBLEMS: usize = 4;

/// Returns the operations of each set, and why operations of the same name are not comparable.
pub fn contents(sets: &[Contents]) -> String {
    let lines: Vec<String> = sets.iter().map(contents_line).collect();
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let shared = sets
        .iter()
        .flat_map(|set| &set.operations)
        .find(|name| !seen.insert(name));
    let sizes = shared.map_or_else(String::new, |name| {
        format!(
            "; {name} was measured at different sizes, or at sizes that a file does not name; fsb compare \
             --ignore block_size and --ignore file_size compare it nevertheless"
        )
    });
    // The paths of file systems are in the commands.
    let hint = match sets.iter().all(|set| is_named_by_command(&set.tool)) {
        true => "; give the commands the same names in both files: hyperfine --command-name NAME",
        false => "",
    };
    format!("{}{sizes}{hint}", lines.join("; "))
}

/// The contents of a set as text.
#[derive(Debug)]
pub struct Contents {
    name: String,
    tool: String,
    /// The operations, each once, in the order of the tables.
    operations: Vec<String>,
    /// Failures that the files report, or else the first places without a value and the remarks.
    problems: Vec<String>,
}

impl Contents {
    /// Returns the contents of a set that was read.
    pub fn from_set(set: &Collected) -> Contents {
        let mut seen = BTreeSet::new();
        let operations = set.measured().map(|(workload, operation, metric)| {
            let workload = workload
                .map(|workload| format!("{workload}: "))
                .unwrap_or_default();
            format!("{workload}{operation} ({metric})")
        });
        let operations: Vec<String> = operations
            .filter(|name| seen.insert(name.clone()))
            .collect();
        let mut problems = set.failure_texts();
        if operations.is_empty() {
            problems.extend(set.gap_texts());
            problems.extend(set.remark_texts());
        }
        let tool = set.tool().unwrap_or("no tool").to_owned();
        Contents {
            name: set.name.clone(),
            tool,
            operations,
            problems,
        }
    }

    /// Returns the name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the operations, each with its metric.
    pub fn operations(&self) -> &[String] {
        &self.operations
    }

    /// Returns the failures that the files report, and the other reasons why values are missing.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

fn contents_line(set: &Contents) -> String {
    let Contents {
        name,
        tool,
        operations,
        problems,
        ..
    } = set;
    let named = operations
        .iter()
        .take(NAMED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let line = match operations.len().saturating_sub(NAMED) {
        _ if operations.is_empty() => format!("{name} ({tool}) has no values"),
        0 => format!("{name} ({tool}) has {named}"),
        more => format!("{name} ({tool}) has {named} and {more} more"),
    };
    if problems.is_empty() {
        line
    } else {
        format!("{line} ({})", some_of(problems, NAMED_PROBLEMS))
    }
}

// Files of other tools.

/// Characters between a name and a number, or at the end of a name.
const SEPARATORS: [char; 4] = ['_', '-', '.', ' '];

/// The number of files that are read in parallel and then added to the set before the next ones are
/// read.
const AT_ONCE: usize = 128;

/// Reads the files of one argument into one set, or into one set per system if a file holds several
/// systems. Returns each set with its possible names. The commands of hyperfine are alternatives to
/// each other: each is a set if the argument `is_alone`.
pub(super) fn foreign_sets(
    argument: &Argument,
    files: &[PathBuf],
    is_alone: bool,
    ignored: &mut Ignored,
) -> anyhow::Result<Vec<(Wish, Collected)>> {
    let mut set = Collected::default();
    let mut by_system: Vec<(String, Vec<Run>)> = Vec::new();
    let mut is_split = false;
    for executions in fsb_compat::executions(files).chunks(AT_ONCE) {
        // Report the first bad file in the order of the arguments, regardless of which reader fails
        // first.
        let read: Vec<_> = in_parallel(|| {
            executions
                .par_iter()
                .map(|files| fsb_compat::read_execution(files))
                .collect()
        });
        for read in read {
            let runs = if is_alone { by_command(read?) } else { read? };
            is_split |= runs.windows(2).any(|pair| pair[0].system != pair[1].system);
            for mut run in runs {
                ignored.take_from_run(&argument.shown(), &mut run)?;
                match run.system.take() {
                    None => push(&mut set, &run)?,
                    Some(system) => {
                        match by_system.iter_mut().find(|(known, _)| *known == system) {
                            Some((_, runs)) => runs.push(run),
                            None => by_system.push((system, vec![run])),
                        }
                    }
                }
            }
        }
    }
    // Only a name of the user's makes one set of several systems.
    is_split |= argument.name.is_none() && by_system.len() > 1;
    let typed = argument.text.display().to_string();
    let path = called(&argument.paths, files);
    let mut sets = Vec::new();
    let only = by_system.len() == 1 && set.is_empty();
    if is_split || only {
        for (system, runs) in by_system.drain(..) {
            let wish = match &argument.name {
                Some(name) if only => Wish::given(name.clone(), typed.clone()),
                Some(name) => Wish::given(format!("{name}/{system}"), typed.clone()),
                None => Wish::target(&path, &system, typed.clone()),
            };
            let mut set = Collected::default();
            runs.iter().try_for_each(|run| push(&mut set, run))?;
            sets.push((wish, set));
        }
    }
    by_system
        .iter()
        .flat_map(|(_, runs)| runs)
        .try_for_each(|run| push(&mut set, run))?;
    if !set.is_empty() {
        let wish = match &argument.name {
            Some(name) => Wish::given(name.clone(), typed),
            None => Wish::derived(&path, typed),
        };
        sets.insert(0, (wish, set));
    }
    Ok(sets)
}

/// Returns one run for each command, if hyperfine measured several. The command is its system.
fn by_command(runs: Vec<Run>) -> Vec<Run> {
    let mut commands: Vec<&String> = Vec::new();
    for command in runs
        .iter()
        .flat_map(|run| &run.series)
        .filter_map(|series| series.workload.as_ref())
    {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    if commands.len() < 2 || runs.iter().any(|run| !is_named_by_command(&run.tool)) {
        return runs;
    }
    let mut by_command = Vec::new();
    for command in &commands {
        by_command.extend(runs.iter().map(|run| of_command(run, command)));
    }
    // A command with fewer repetitions than others has no part in the last runs.
    by_command.retain(|run| !(run.series.is_empty() && run.failures.is_empty()));
    by_command
}

/// Returns the part of a run that is about a command, with the command as its system.
fn of_command(run: &Run, command: &str) -> Run {
    let is_meant = |workload: &Option<String>| {
        workload
            .as_deref()
            .is_none_or(|workload| workload == command)
    };
    let series = run
        .series
        .iter()
        .filter(|series| is_meant(&series.workload));
    Run {
        system: Some(command.to_owned()),
        series: series
            .map(|series| Series {
                workload: None,
                ..series.clone()
            })
            .collect(),
        failures: run
            .failures
            .iter()
            .filter(|failure| is_meant(&failure.workload))
            .cloned()
            .collect(),
        ..run.clone()
    }
}

fn push(set: &mut Collected, run: &Run) -> anyhow::Result<()> {
    set.push(run)
        .with_context(|| format!("cannot compare {}", run.path))
}

/// Returns the path whose end names the set: the file without its extension, the directory, or the
/// text before the wildcard.
fn called(paths: &[PathBuf], files: &[PathBuf]) -> PathBuf {
    match paths {
        [path] if path.is_dir() => path.canonicalize().unwrap_or_else(|_| path.clone()),
        [path] if is_glob(path) && !path.exists() => before_wildcard(path),
        [path] if fsb_compat::built_in(path).is_some() => path.clone(),
        [path] => path.with_extension(""),
        _ => family(files).unwrap_or_else(|| files[0].with_extension("")),
    }
}

/// Returns `runs/ext4` for `runs/ext4_*.iozone`, and `ext4` for `ext4/*.iozone`.
fn before_wildcard(pattern: &Path) -> PathBuf {
    let directory = pattern
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = pattern.file_name().unwrap_or_default().to_string_lossy();
    let stem = name
        .split(['*', '?', '['])
        .next()
        .unwrap_or_default()
        .trim_end_matches(SEPARATORS);
    match stem {
        "" if is_glob(directory) => before_wildcard(directory),
        "" => directory
            .canonicalize()
            .unwrap_or_else(|_| directory.to_owned()),
        stem => directory.join(stem),
    }
}

/// Returns the common part of several file names before their numbers: `a/xfs` for `a/xfs1.iozone`
/// and `a/xfs2.iozone`.
fn family(files: &[PathBuf]) -> Option<PathBuf> {
    let first = split_numbered(files.first()?)?;
    files
        .iter()
        .all(|path| split_numbered(path).as_ref() == Some(&first))
        .then(|| first.0.join(first.1))
}

/// Returns the directory, the name without its number, and the extension.
fn split_numbered(path: &Path) -> Option<(PathBuf, String, Option<String>)> {
    let stem = path.file_stem()?.to_str()?;
    let name = stem
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .trim_end_matches(SEPARATORS);
    let ending = path
        .extension()
        .map(|ending| ending.to_string_lossy().into_owned());
    (!name.is_empty()).then(|| {
        (
            path.parent().unwrap_or(Path::new("")).to_owned(),
            name.to_owned(),
            ending,
        )
    })
}

/// Warns of several files without names, which are mostly a pattern that the shell expanded, and
/// how to quote it.
pub(super) fn bare_files(arguments: &[Argument]) -> Vec<String> {
    let rows = arguments.chunk_by(|one, other| one.is_bare_file() && other.is_bare_file());
    rows.filter(|row| row.len() > 1).map(warning).collect()
}

fn warning(row: &[Argument]) -> String {
    let paths: Vec<&Path> = row
        .iter()
        .map(|argument| argument.paths[0].as_path())
        .collect();
    let groups: Vec<&[&Path]> = paths
        .chunk_by(|one, other| {
            split_numbered(one).is_some_and(|one| Some(one) == split_numbered(other))
        })
        .collect();
    let example = if groups.iter().any(|group| group.len() > 1) {
        groups
            .iter()
            .map(|group| shell::word(&pattern(group)))
            .collect::<Vec<_>>()
            .join(" ")
    } else {
        let typed: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        shell::word(&format!("NAME={}", typed.join(",")))
    };
    format!(
        "{} files without a name: fsb compares each as a set. If they are runs of one set, quote the pattern, or \
         separate the files by commas: fsb compare {example}",
        row.len()
    )
}

/// Returns `xfs=xfs*.iozone` for several files that differ in their number, `NAME=FILE` for one.
fn pattern(group: &[&Path]) -> String {
    let [path, more @ ..] = group else {
        return String::new();
    };
    let stem = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    match split_numbered(path).filter(|_| !more.is_empty()) {
        None => format!("{}={}", stem(path), path.display()),
        Some((directory, name, ending)) => {
            let ending = ending.map_or_else(String::new, |ending| format!(".{ending}"));
            let first = stem(path);
            let separator: String = first[name.len()..]
                .chars()
                .take_while(|c| SEPARATORS.contains(c))
                .collect();
            format!(
                "{name}={}{separator}*{ending}",
                directory.join(&name).display()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::THROUGHPUT;
    use fsb_model::set::{Point, Run, Series, Set};

    use super::*;

    fn set(name: &str, operations: &[&str]) -> Contents {
        let series = operations.iter().map(|operation| Series {
            workload: None,
            operation: (*operation).to_owned(),
            metric: THROUGHPUT.name.to_owned(),
            unit: THROUGHPUT.unit,
            better: THROUGHPUT.better,
            found_unit: "kB/s".to_owned(),
            points: vec![Point {
                file_size: None,
                record_size: None,
                value: 1.0,
                line: 1,
            }],
            gaps: Vec::new(),
        });
        let run = Run {
            tool: "iozone".to_owned(),
            series: series.collect(),
            ..Run::default()
        };
        let set = Set {
            name: name.to_owned(),
            pairing: None,
            analyses: Analyses::default(),
            runs: vec![run.clone(), run],
        };
        Contents::from_set(&Collected::from_set(&set).unwrap())
    }

    #[test]
    fn each_set_is_told_with_its_operations_and_why_shared_ones_do_not_meet() {
        let said = contents(&[
            set("a", &["write", "read"]),
            set("b", &["create"]),
            set("c", &[]),
        ]);
        let expected = "a (iozone) has write (throughput), read (throughput); b (iozone) has create (throughput); \
                        c (iozone) has no values";
        assert_eq!(said, expected);
        let said = contents(&[set("a", &["write"]), set("b", &["write"])]);
        assert!(
            said.contains("; write (throughput) was measured at different sizes"),
            "{said}"
        );
    }

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn sets_are_called_after_what_their_paths_share() {
        let name = |typed: &[&str], files: &[&str]| {
            called(&paths(typed), &paths(files)).display().to_string()
        };
        assert_eq!(name(&["a/before.iozone"], &["a/before.iozone"]), "a/before");
        assert_eq!(name(&["no/xfs*.iozone"], &[]), "no/xfs");
        assert_eq!(name(&["no/ext4_?.iozone"], &[]), "no/ext4");
        assert_eq!(name(&["no/ext4/*.iozone"], &[]), "no/ext4");
        assert_eq!(name(&["no/ext4*/*.iozone"], &[]), "no/ext4");
        let two = ["d/xfs_1.iozone", "d/xfs_2.iozone"];
        assert_eq!(name(&two, &two), "d/xfs");
        assert_eq!(name(&["d/a.x", "d/b.x"], &["d/a.x", "d/b.x"]), "d/a");
    }

    #[test]
    fn the_quoted_form_is_what_the_shell_expanded() {
        let group = paths(&["d/ext4_1.iozone", "d/ext4_2.iozone"]);
        let group: Vec<&Path> = group.iter().map(PathBuf::as_path).collect();
        assert_eq!(pattern(&group), "ext4=d/ext4_*.iozone");
        assert_eq!(pattern(&group[..1]), "ext4_1=d/ext4_1.iozone");
        assert_eq!(pattern(&[Path::new("xfs1"), Path::new("xfs2")]), "xfs=xfs*");
    }

    #[test]
    fn only_rows_of_bare_files_are_warned_of() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            path.display().to_string()
        };
        let (one, two, other) = (at("xfs1.iozone"), at("xfs2.iozone"), at("ext4_1.iozone"));
        let said = |texts: &[&str]| {
            let arguments: Vec<Argument> = texts
                .iter()
                .map(|text| Argument::parse(text.as_ref()).unwrap())
                .collect();
            bare_files(&arguments)
        };
        assert!(said(&[&one]).is_empty());
        assert!(said(&[&format!("a={one}"), &two]).is_empty());
        let row = said(&[&one, &two, &other]);
        assert_eq!(row.len(), 1);
        let dir = directory.path().display();
        assert!(
            row[0].contains(&format!(
                "fsb compare 'xfs={dir}/xfs*.iozone' ext4_1={dir}/ext4_1.iozone"
            )),
            "{row:?}"
        );
        assert!(said(&[&two, &other])[0].contains("NAME="));
    }
}
