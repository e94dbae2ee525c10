//! The published results of the 2023 tool: the cycles of Appendix C, and the rates of tables 6.1 to
//! 6.3, which are means of these cycles.

use std::collections::BTreeMap;

use fsb_model::set::{Run, UNKNOWN_WORK};
use serde::Deserialize;

use crate::draft::{Draft, Name, Runs};
use crate::tool::{BuiltIn, ReadError};

use super::results::{TOOL, add_samples};

/// The title of the table.
pub const TITLE: &str = "Beside the published results (Pokorný 2023, tables 6.1 to 6.3)";

/// The facts that a reader of the table must know.
pub const NOTE: &str = "Rates from the mean time of one iteration, which creates 1000 files, or reads or writes 8 MiB. \
The published values come from the cycles of Appendix C. They were measured on eight virtual processors with network \
disks (section 6.1), so that only the order of the file systems can be compared, not the rates. In brackets: the number \
as printed in tables 6.1 to 6.3, if it differs. The MB/s printed in tables 6.2 and 6.3 are one divided by the seconds of \
an iteration, an eighth of the MiB/s moved.";

/// The mean of the published cycles of one test on one file system.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedMean {
    /// The test.
    pub test: &'static PublishedTest,
    /// The file system as printed.
    pub file_system: &'static str,
    /// Mean seconds an iteration.
    pub seconds: f64,
    /// The number of printed cycles.
    pub cycles: usize,
    /// The rate in the tables 6.1 to 6.3, as printed.
    pub printed: Option<String>,
}

/// The table of rates that a test is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateTable {
    /// Table 6.1: files created in a second.
    Created,
    /// Table 6.2: reading.
    Read,
    /// Table 6.3: writing.
    Written,
}

/// A published test.
#[derive(Debug, PartialEq, Eq)]
pub struct PublishedTest {
    /// The table of its cycles in Appendix C.
    appendix: &'static str,
    /// The label of the suite's workload.
    pub label: &'static str,
    /// The operation of that workload.
    operation: &'static str,
    /// The table of its rates.
    pub table: RateTable,
}

/// The tests, in the order of Appendix C.
#[rustfmt::skip] // a table reads as one
static TESTS: [PublishedTest; 9] = [
    PublishedTest { appendix: "C.1", label: "create 1000 files", operation: "create", table: RateTable::Created },
    PublishedTest { appendix: "C.2", label: "sequential read 512 KB", operation: "read", table: RateTable::Read },
    PublishedTest { appendix: "C.3", label: "sequential read 4096 KB", operation: "read", table: RateTable::Read },
    PublishedTest { appendix: "C.4", label: "random read 512 KB", operation: "read", table: RateTable::Read },
    PublishedTest { appendix: "C.5", label: "random read 4096 KB", operation: "read", table: RateTable::Read },
    PublishedTest { appendix: "C.6", label: "sequential write 512 KB", operation: "write", table: RateTable::Written },
    PublishedTest { appendix: "C.7", label: "sequential write 4096 KB", operation: "write", table: RateTable::Written },
    PublishedTest { appendix: "C.8", label: "random write 512 KB", operation: "write", table: RateTable::Written },
    PublishedTest { appendix: "C.9", label: "random write 4096 KB", operation: "write", table: RateTable::Written },
];

/// The file systems, in the order of the tables.
const FILE_SYSTEMS: [&str; 4] = ["ext2", "ext4", "btrfs", "ntfs"];

#[derive(Deserialize)]
struct CycleRow {
    table: String,
    file_system: String,
    microseconds_per_iteration: f64,
}

/// Returns the rows of Appendix C in the order of the tables, each with the places of its test and
/// its file system.
fn cycles() -> Vec<((usize, usize), CycleRow)> {
    let mut reader = csv::Reader::from_reader(include_str!("appendix-c.csv").as_bytes());
    let mut cycles = Vec::new();
    for row in reader.deserialize::<CycleRow>().flatten() {
        let test = TESTS.iter().position(|test| test.appendix == row.table);
        let file_system = FILE_SYSTEMS
            .iter()
            .position(|name| *name == row.file_system);
        cycles.extend(test.zip(file_system).map(|place| (place, row)));
    }
    cycles
}

/// Returns the printed rates by test and file system.
fn printed_rates() -> BTreeMap<(String, String), String> {
    /// The columns before those of the file systems: table, test, unit.
    const BEFORE: usize = 3;
    let mut reader = csv::Reader::from_reader(include_str!("tables-6.csv").as_bytes());
    let heads = reader.headers().cloned().unwrap_or_default();
    let rows = reader.records().flatten().flat_map(|row| {
        let test = row[1].to_owned();
        let rates = heads
            .iter()
            .zip(&row)
            .skip(BEFORE)
            .filter(|(_, rate)| !rate.is_empty());
        rates
            .map(|(fs, rate)| ((test.clone(), fs.to_owned()), rate.to_owned()))
            .collect::<Vec<_>>()
    });
    rows.collect()
}

/// Returns the means over the printed cycles, in the order of the tables. In print, C.1 has 29 rows
/// of btrfs, C.4 shows the same column for ext2 and ext4, and C.5 has no ntfs. The data keep these
/// defects. The mean of ext4 in C.4 comes from table 6.2.
pub fn appendix_c() -> Vec<PublishedMean> {
    let mut sums: BTreeMap<(usize, usize), (f64, usize)> = BTreeMap::new();
    for (place, row) in cycles() {
        let (sum, count) = sums.entry(place).or_default();
        *sum += row.microseconds_per_iteration;
        *count += 1;
    }
    let printed = printed_rates();
    let mean = |((test, file_system), (sum, cycles)): ((usize, usize), (f64, usize))| {
        let (test, file_system) = (&TESTS[test], FILE_SYSTEMS[file_system]);
        let printed = printed
            .get(&(test.label.to_owned(), file_system.to_owned()))
            .cloned();
        let seconds = match (
            test.appendix,
            file_system,
            printed.as_ref().and_then(|rate| rate.parse::<f64>().ok()),
        ) {
            ("C.4", "ext4", Some(rate)) => 1.0 / rate,
            _ => sum / cycles as f64 * 1e-6,
        };
        PublishedMean {
            test,
            file_system,
            seconds,
            cycles,
            printed,
        }
    };
    sums.into_iter().map(mean).collect()
}

/// The cycles of Appendix C as sets: each file system is one, with one run. Its cycles are
/// samples within the run.
pub(crate) const BUILT_IN: BuiltIn = BuiltIn {
    name: "pokorny-2023",
    about: "The cycles of M. Pokorný's thesis, Appendix C: nine tests on ext2, ext4, btrfs, ntfs",
    parts,
    read: read_parts,
};

/// Returns the names of the parts: file systems, and tables of tests.
fn parts() -> Vec<&'static str> {
    let tables = TESTS.iter().map(|test| test.appendix);
    FILE_SYSTEMS.into_iter().chain(tables).collect()
}

/// Whether a cell of the appendix is a defect of print: C.4 shows the column of ext2 for ext4.
fn is_misprint(test: &PublishedTest, file_system: &str) -> bool {
    (test.appendix, file_system) == ("C.4", "ext4")
}

/// Returns the parts that are among these names.
fn among<'p>(parts: &[&'p str], names: &[&str]) -> Vec<&'p str> {
    let mut among = parts.to_vec();
    among.retain(|part| names.contains(part));
    among
}

/// Returns whether a name is asked for. Without any, all are.
fn is_asked(asked: &[&str], name: &str) -> bool {
    asked.is_empty() || asked.contains(&name)
}

/// Returns the runs of some parts. A file system alone is one set, without a system of its own. A
/// test alone is the only case of its sets, so that samples without a name can be compared.
fn read_parts(parts: &[&str]) -> Result<Vec<Run>, ReadError> {
    let tables: Vec<&'static str> = TESTS.iter().map(|test| test.appendix).collect();
    let (asked_tables, asked_systems) = (among(parts, &tables), among(parts, &FILE_SYSTEMS));
    let (is_one_test, is_one_system) = (asked_tables.len() == 1, asked_systems.len() == 1);
    let mut drafts: BTreeMap<usize, Draft> = BTreeMap::new();
    let mut cells: BTreeMap<(usize, usize), (u32, Vec<f64>)> = BTreeMap::new();
    for (line, ((test, file_system), row)) in (2..).zip(cycles()) {
        if !is_asked(&asked_tables, TESTS[test].appendix)
            || !is_asked(&asked_systems, FILE_SYSTEMS[file_system])
        {
            continue;
        }
        let draft = drafts.entry(file_system).or_insert_with(|| {
            let mut draft = Draft::new(TOOL.name);
            let name = FILE_SYSTEMS[file_system];
            draft.run.system = (!is_one_system).then(|| name.to_owned());
            draft
        });
        if is_misprint(&TESTS[test], FILE_SYSTEMS[file_system]) {
            draft.remark_once(
                None,
                "table C.4 prints the values of ext2 for ext4; left out",
            );
            continue;
        }
        let seconds = row.microseconds_per_iteration * 1e-6;
        let cell = cells
            .entry((test, file_system))
            .or_insert((line, Vec::new()));
        cell.1.push(seconds);
    }
    for ((test, file_system), (line, values)) in cells {
        let test = &TESTS[test];
        let name = match is_one_test {
            true => Name {
                workload: None,
                operation: UNKNOWN_WORK,
            },
            false => Name {
                workload: Some(test.label),
                operation: test.operation,
            },
        };
        if let Some(draft) = drafts.get_mut(&file_system) {
            add_samples(draft, name, line, values)?;
        }
    }
    let mut runs = Runs::new(TOOL.name);
    for draft in drafts.into_values() {
        runs.push(draft)?;
    }
    runs.finish(|| "the appendix has no values of this test on this file system".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables 6.1 to 6.3 print the same means in other units: files a second, and one divided by
    /// seconds.
    #[test]
    fn the_means_agree_with_the_tables_of_the_text() {
        let means = appendix_c();
        assert!(!means.is_empty());
        for PublishedMean {
            test,
            file_system,
            seconds,
            printed,
            ..
        } in &means
        {
            let printed: f64 = printed
                .as_ref()
                .expect("every test is in a table")
                .parse()
                .unwrap();
            let (amount, tolerance) = match test.table {
                // His program kept more digits than the whole microseconds of the appendix, and the
                // appendix lacks a cycle of btrfs.
                RateTable::Created => (1000.0, 60.0),
                // The tables have one digit after the point, and two below 1.
                RateTable::Read | RateTable::Written => {
                    (1.0, if printed < 1.0 { 0.006 } else { 0.051 })
                }
            };
            let rate = amount / seconds;
            assert!(
                (rate - printed).abs() < tolerance,
                "{} on {file_system}: {rate}, printed {printed}",
                test.label
            );
        }
    }

    #[test]
    fn values_missing_in_print_stay_missing() {
        let means = appendix_c();
        assert_eq!(means.len(), 35);
        assert_eq!(means.iter().map(|mean| mean.cycles).sum::<usize>(), 1049);
        assert!(
            !means
                .iter()
                .any(|mean| mean.test.label == "random read 4096 KB" && mean.file_system == "ntfs")
        );
    }

    #[test]
    fn the_built_in_sets_are_the_printed_cycles() {
        let runs = read_parts(&[]).unwrap();
        let samples = runs.iter().flat_map(|run| &run.samples);
        let values: usize = samples.map(|samples| samples.values.len()).sum();
        // Without the thirty values of ext4 in C.4, which are those of ext2.
        assert_eq!(values, 1049 - 30);
        let first = &runs[0];
        let value = first.samples[0].values[0];
        assert_eq!(first.system.as_deref(), Some("ext2"));
        assert!((value - 0.144_738).abs() < 1e-12, "{value}");
        // The values of the runs are the published means.
        for mean in appendix_c() {
            let run = runs
                .iter()
                .find(|run| run.system.as_deref() == Some(mean.file_system));
            let series = &run.unwrap().series;
            let found = series
                .iter()
                .find(|series| series.workload.as_deref() == Some(mean.test.label));
            if let Some(found) = found {
                let ratio = found.points[0].value / mean.seconds;
                assert!((ratio - 1.0).abs() < 1e-12, "{}: {ratio}", mean.test.label);
            } else {
                assert!(is_misprint(mean.test, mean.file_system));
            }
        }
        let one = read_parts(&["ext4", "C.1"]).unwrap();
        assert_eq!((one.len(), one[0].system.as_deref()), (1, None));
        assert_eq!(one[0].series[0].operation, UNKNOWN_WORK);
        for missing in [["ntfs", "C.5"], ["ext4", "C.4"]] {
            assert!(read_parts(&missing).is_err(), "{missing:?}");
        }
    }
}
