//! The readers, on real output: each value, and the effect of damage.

mod dead;
mod every_file;
mod faults;
mod fio;
mod fio_log;
mod hyperfine;
mod iozone;
mod micro;
mod others;
mod ours;
mod pgbench;
mod small_tools;

use std::path::{Path, PathBuf};

use fsb_compat::{TOOLS, read_file};
use fsb_model::set::{Point, Run, Series};

/// Returns the path of real output that other crates' tests use too.
fn shared(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

/// Returns the path of real output that only these tests use.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Returns every golden file, with the tool that wrote it.
fn every_file() -> Vec<(&'static str, PathBuf)> {
    let mut files = Vec::new();
    for directory in [
        "tool-output",
        "iozone-2010/ext4",
        "iozone-2010/xfs",
        "iozone-aa/ext4",
    ] {
        for entry in std::fs::read_dir(shared(directory)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.contains("help") {
                continue; // IOzone's list of options holds no results
            }
            let tool = TOOLS
                .iter()
                .find(|tool| name.starts_with(tool.name))
                .map_or("iozone", |tool| tool.name);
            files.push((tool, path));
        }
    }
    for tool in TOOLS {
        let Ok(entries) = std::fs::read_dir(golden(tool.name)) else {
            continue;
        };
        files.extend(entries.map(|entry| (tool.name, entry.unwrap().path())));
    }
    files.sort();
    files
}

/// Returns the only run of a file.
fn only(path: &Path) -> Run {
    let mut runs = read_file(path).unwrap();
    assert_eq!(runs.len(), 1, "{}", path.display());
    runs.remove(0)
}

/// Returns the only run of a text.
fn parse(tool: &str, text: &str) -> Run {
    let mut runs = parse_all(tool, text);
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

/// Returns the runs of a text.
fn parse_all(tool: &str, text: &str) -> Vec<Run> {
    let tool = TOOLS.iter().find(|known| known.name == tool).unwrap();
    (tool.read)(&mut text.as_bytes()).unwrap()
}

/// Returns a series of a run.
fn series<'a>(run: &'a Run, operation: &str, metric: &str) -> &'a Series {
    let found = run
        .series
        .iter()
        .find(|series| series.operation == operation && series.metric == metric);
    found.unwrap_or_else(|| panic!("no {operation} {metric} in {}", run.path))
}

/// Returns the value of a series at a file size and record size in KiB.
fn at(series: &Series, file: u64, record: u64) -> Option<Point> {
    let here = |point: &&Point| {
        point.file_size == Some(file << 10) && point.record_size == Some(record << 10)
    };
    series.points.iter().find(here).copied()
}

/// Returns the only value of a series.
fn value(run: &Run, operation: &str, metric: &str) -> f64 {
    let points = &series(run, operation, metric).points;
    assert_eq!(points.len(), 1);
    points[0].value
}

/// Returns the remarks of a run as texts with their lines.
fn remarks(run: &Run) -> Vec<String> {
    let line = |line: Option<u32>| line.map_or(String::new(), |line| format!("{line}: "));
    run.warnings
        .iter()
        .map(|remark| format!("{}{}", line(remark.line), remark.text))
        .collect()
}

/// Checks the properties of every run, for any input.
fn check(run: &Run) {
    assert!(!run.series.is_empty() || !run.histograms.is_empty() || !run.failures.is_empty());
    assert!(TOOLS.iter().any(|tool| tool.name == run.tool));
    assert!(run.warnings.len() <= 64);
    for series in &run.series {
        assert!(!series.operation.is_empty() || series.workload.is_some() || run.tool == "fio");
        assert!(!(series.points.is_empty() && series.gaps.is_empty()));
        assert!(
            series
                .points
                .iter()
                .all(|point| point.value.is_finite() && point.value > 0.0 && point.line > 0)
        );
        assert!(series.gaps.iter().all(|gap| gap.line > 0));
    }
    for histogram in &run.histograms {
        assert!(histogram.bins.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(histogram.bins.iter().all(|bin| bin.1 > 0));
    }
}
