//! Settings that a comparison ignores on request: rows that differ in them alone are compared, and
//! the report names the values.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::set::Run;
use fsb_model::units::Bytes;
use fsb_model::{code, failure, nearest};

use crate::matrices::{Cells, FILE_SIZE, RECORD_SIZE};

/// Names of the sizes that have values in every tool, with the names in options of tools.
const SIZES: [(&str, &[&str]); 2] = [
    (RECORD_SIZE, &["bs", "blocksize", "record_size"]),
    (FILE_SIZE, &["size", "filesize"]),
];

/// A value and the workload that has it.
type ValueOf = (String, Option<String>);

/// A workload, an operation and a metric.
type Subject<'r> = (Option<&'r str>, &'r str, &'r str);

/// The settings that the user wants to ignore, with their values by argument.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    names: Vec<String>,
    /// Every setting that some set has.
    known: BTreeSet<String>,
    /// By setting, then in the order of the arguments.
    values: BTreeMap<String, Vec<(String, BTreeSet<ValueOf>)>>,
}

/// Returns the name that all tools share: `block_size` for `bs`.
fn usual(name: &str) -> &str {
    let size = SIZES
        .iter()
        .find(|(usual, others)| *usual == name || others.contains(&name));
    size.map_or(name, |(usual, _)| usual)
}

impl Ignored {
    /// Returns the settings of these names.
    pub(super) fn new(names: &[String]) -> Ignored {
        Ignored {
            names: names.iter().map(|name| usual(name).to_owned()).collect(),
            ..Ignored::default()
        }
    }

    /// Returns whether no setting is ignored.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|ignored| ignored == name)
    }

    /// Keeps a value of an ignored setting.
    fn note(&mut self, argument: &str, name: &str, value: ValueOf) {
        let values = self.values.entry(name.to_owned()).or_default();
        match values.last_mut() {
            Some((known, values)) if known == argument => _ = values.insert(value),
            _ => values.push((argument.to_owned(), BTreeSet::from([value]))),
        }
    }

    /// Removes the settings from a run of another tool.
    ///
    /// # Errors
    ///
    /// The run has rows that differ in the setting alone.
    pub(super) fn take_from_run(&mut self, argument: &str, run: &mut Run) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        for (name, value) in take_sizes(&self.names, run)? {
            self.note(argument, name, value);
        }
        let sized = run.series.iter().flat_map(|series| &series.points).next();
        self.known.extend(
            sized
                .map(|_| SIZES.map(|(name, _)| name.to_owned()))
                .into_iter()
                .flatten(),
        );
        for setting in std::mem::take(&mut run.settings) {
            let name = usual(&setting.name);
            self.known.insert(name.to_owned());
            if !self.has(name) {
                run.settings.push(setting);
                continue;
            }
            let value = match SIZES.iter().any(|(size, _)| *size == name) {
                true => setting.value.parse().map(|bytes| Bytes(bytes).to_string()),
                false => Ok(setting.value.clone()),
            };
            let name = name.to_owned();
            let value = value.unwrap_or(setting.value);
            self.note(argument, &name, (value, setting.workload));
        }
        Ok(())
    }

    /// Removes the settings from the work of a run of fsb.
    ///
    /// # Errors
    ///
    /// The run has cases that differ in the setting alone.
    pub(super) fn take_from_cells(
        &mut self,
        argument: &str,
        path: &str,
        cells: &mut Cells,
    ) -> anyhow::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        for work in &cells.list {
            self.known.extend(work.parameters());
        }
        let mut seen: Vec<String> = Vec::new();
        for (name, value, label) in cells.forget_parameters(&self.names) {
            self.note(argument, &name, (value, Some(label)));
        }
        for work in &cells.list {
            let identity = work.identity();
            if seen.contains(&identity) {
                return Err(distinguishes(&self.names.join(", "), path, &work.workload));
            }
            seen.push(identity);
        }
        Ok(())
    }

    /// Returns a warning for each setting with its values.
    ///
    /// # Errors
    ///
    /// No set has a setting of that name, or all sets have the same value of it.
    pub(super) fn finish(self) -> anyhow::Result<Vec<String>> {
        let mut warnings = Vec::new();
        for name in &self.names {
            let known = self.known.iter().map(String::as_str);
            let Some(values) = self.values.get(name) else {
                let text = nearest::unknown("setting", name, known);
                return Err(failure::error(
                    &code::UNKNOWN_SETTING,
                    format!("--ignore: {text}"),
                ));
            };
            let mut sets: Vec<String> = Vec::new();
            for (argument, values) in values {
                let values: BTreeSet<&str> =
                    values.iter().map(|(value, _)| value.as_str()).collect();
                let values: Vec<&str> = values.into_iter().collect();
                sets.push(format!("{argument}: {}", values.join(" and ")));
            }
            let first = &values[0].1;
            if values.len() > 1 && values.iter().all(|(_, values)| values == first) {
                let text = format!(
                    "--ignore {name}: no set differs in it ({})",
                    sets.join("; ")
                );
                return Err(failure::error(&code::UNKNOWN_SETTING, text));
            }
            warnings.push(format!("ignored on request: {name} ({})", sets.join("; ")));
        }
        Ok(warnings)
    }
}

/// Removes ignored sizes from the values of a run. Returns the sizes.
fn take_sizes(names: &[String], run: &mut Run) -> anyhow::Result<Vec<(&'static str, ValueOf)>> {
    let mut taken = Vec::new();
    for (size, _) in SIZES {
        if !names.iter().any(|name| name == size) {
            continue;
        }
        let mut seen: BTreeMap<Subject<'_>, BTreeSet<u64>> = BTreeMap::new();
        for series in &mut run.series {
            let subject = (
                series.workload.as_deref(),
                series.operation.as_str(),
                series.metric.as_str(),
            );
            let values = seen.entry(subject).or_default();
            let points = series.points.iter_mut();
            let of_points = points.map(|point| (&mut point.file_size, &mut point.record_size));
            let gaps = series.gaps.iter_mut();
            let of_gaps = gaps.map(|gap| (&mut gap.file_size, &mut gap.record_size));
            for (file_size, record_size) in of_points.chain(of_gaps) {
                let own = if size == FILE_SIZE {
                    file_size
                } else {
                    record_size
                };
                values.extend(own.take());
            }
        }
        for ((workload, operation, _), values) in &seen {
            if values.len() > 1 {
                let row = workload.unwrap_or(operation);
                return Err(distinguishes(size, &run.path, row));
            }
        }
        for ((workload, ..), values) in seen {
            for bytes in values {
                taken.push((
                    size,
                    (Bytes(bytes).to_string(), workload.map(str::to_owned)),
                ));
            }
        }
    }
    Ok(taken)
}

fn distinguishes(name: &str, path: &str, row: &str) -> anyhow::Error {
    failure::error(
        &code::INVALID_VALUE,
        format!(
            "--ignore {name}: {path} has several values of it at {row}, which would become one row"
        ),
    )
}

#[cfg(test)]
mod tests {
    use fsb_model::metric::THROUGHPUT;
    use fsb_model::set::{Point, Series, Setting};

    use super::*;

    fn run(records: &[u64], depth: &str) -> Run {
        let point = |record: &u64| Point {
            file_size: Some(1 << 20),
            record_size: Some(*record),
            value: 1.0,
            line: 1,
        };
        Run {
            path: "a.json".to_owned(),
            series: vec![Series {
                workload: Some("job".to_owned()),
                operation: "read".to_owned(),
                metric: THROUGHPUT.name.to_owned(),
                unit: THROUGHPUT.unit,
                better: THROUGHPUT.better,
                found_unit: "kB/s".to_owned(),
                points: records.iter().map(point).collect(),
                gaps: Vec::new(),
            }],
            settings: vec![Setting {
                workload: Some("job".to_owned()),
                name: "iodepth".to_owned(),
                value: depth.to_owned(),
            }],
            ..Run::default()
        }
    }

    /// Returns the warnings of two runs in which the settings are ignored, or the message.
    fn ignoring(names: &[&str], runs: [&Run; 2]) -> Result<(Vec<String>, [Run; 2]), String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut ignored = Ignored::new(&names);
        let mut runs = runs.map(Run::clone);
        for (name, run) in ["old", "new"].iter().zip(&mut runs) {
            ignored
                .take_from_run(name, run)
                .map_err(|error| error.to_string())?;
        }
        let warnings = ignored.finish().map_err(|error| error.to_string())?;
        Ok((warnings, runs))
    }

    #[test]
    fn sizes_and_settings_are_removed_and_named() {
        let (one, other) = (run(&[4096], "1"), run(&[8192], "4"));
        let (warnings, [one, other]) = ignoring(&["bs", "iodepth"], [&one, &other]).unwrap();
        let expected = [
            "ignored on request: block_size (old: 4K; new: 8K)",
            "ignored on request: iodepth (old: 1; new: 4)",
        ];
        assert_eq!(warnings, expected);
        for run in [one, other] {
            assert_eq!(run.series[0].points[0].record_size, None);
            assert_eq!(run.series[0].points[0].file_size, Some(1 << 20));
            assert!(run.settings.is_empty());
        }
    }

    #[test]
    fn workloads_that_exchange_their_values_differ() {
        let with = |depths: [&str; 2]| {
            let [one, other] = depths.map(|depth| run(&[4096], depth));
            let mut settings = one.settings.clone();
            settings.extend(other.settings.into_iter().map(|setting| Setting {
                workload: Some("other".to_owned()),
                ..setting
            }));
            Run { settings, ..one }
        };
        let (warnings, _) = ignoring(&["iodepth"], [&with(["1", "4"]), &with(["4", "1"])]).unwrap();
        assert_eq!(
            warnings,
            ["ignored on request: iodepth (old: 1 and 4; new: 1 and 4)"]
        );
    }

    #[test]
    fn a_size_that_makes_rows_an_unknown_setting_and_an_equal_one_are_refused() {
        let grid = run(&[4096, 8192], "1");
        let one = run(&[4096], "1");
        let message = |names: &[&str], runs| ignoring(names, runs).unwrap_err();
        let several = message(&["block_size"], [&grid, &grid]);
        assert!(
            several.contains("a.json has several values of it at job"),
            "{several}"
        );
        let unknown = message(&["io_depth"], [&one, &one]);
        assert!(unknown.contains("did you mean 'iodepth'"), "{unknown}");
        let equal = message(&["iodepth"], [&one, &one]);
        assert!(
            equal.contains("no set differs in it (old: 1; new: 1)"),
            "{equal}"
        );
    }
}
