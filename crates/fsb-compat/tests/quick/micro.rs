//! Results of `fsb micro`: samples, reports, and the published samples of 2023.

use std::path::Path;

use fsb_compat::{built_in, read_file};
use fsb_model::set::{Run, UNKNOWN_WORK};

use crate::golden;

fn read(name: &str) -> Vec<Run> {
    read_file(&golden(&format!("micro/{name}"))).unwrap()
}

#[test]
fn samples_are_within_one_run_and_name_no_work() {
    let runs = read("create-samples.csv");
    let [run] = &runs[..] else {
        panic!("{} runs", runs.len())
    };
    let (series, samples) = (&run.series[0], &run.samples[0]);
    assert_eq!(samples.values.len(), 12);
    assert_eq!(
        (
            series.workload.as_deref(),
            series.operation.as_str(),
            series.metric.as_str()
        ),
        (None, UNKNOWN_WORK, "iteration_time")
    );
    assert!(run.warnings[0].text.contains("name no benchmark"));
    // The report of the same run has the same mean, and its name.
    let report = read("create-report.json");
    let named = &report[0].series[0];
    assert_eq!(
        (named.workload.as_deref(), named.operation.as_str()),
        (Some("micro create 20 files"), "create")
    );
    let ratio = series.points[0].value / named.points[0].value;
    assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
}

#[test]
fn trials_of_a_report_are_blocks() {
    let trials = read("random-read-trials.csv");
    assert!(trials.len() > 1);
    assert!(
        trials
            .iter()
            .all(|run| run.series.len() == 1 && run.block.is_some())
    );
    assert_eq!(
        trials[0].series[0].workload.as_deref(),
        Some("micro random read 16K in 4K blocks")
    );
}

#[test]
fn reports_of_other_runs_are_refused_with_the_way_to_read_them() {
    let directory = tempfile::tempdir().unwrap();
    let micro = std::fs::read_to_string(golden("micro/create-report.json")).unwrap();
    let trials = std::fs::read_to_string(golden("micro/random-read-trials.csv")).unwrap();
    for (name, text) in [
        ("run.json", micro.replace("iteration_time", "throughput")),
        ("run.csv", trials.replace("iteration_time", "throughput")),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let error = read_file(&path).unwrap_err().to_string();
        assert!(error.contains("name the directory of its run"), "{error}");
    }
}

#[test]
fn published_samples_are_read_by_their_name() {
    let all = read_file(Path::new("pokorny-2023")).unwrap();
    let mut systems: Vec<&str> = Vec::new();
    for system in all.iter().filter_map(|run| run.system.as_deref()) {
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    assert_eq!(systems, ["ext2", "ext4", "btrfs", "ntfs"]);
    assert!(all.iter().all(|run| run.path == "pokorny-2023"));
    let ext4 = read_file(Path::new("pokorny-2023/ext4/C.2")).unwrap();
    assert_eq!(
        (ext4[0].samples[0].values.len(), &ext4[0].system),
        (30, &None)
    );
    for other in ["pokorny-2023/xfs", "pokorny", "pokorny-2023/"] {
        assert!(built_in(Path::new(other)).is_none(), "{other}");
    }
}

#[test]
fn blocks_of_a_file_are_joined_to_one_run() {
    let trials = read("random-read-trials.csv");
    let blocks = trials.len();
    let joined = Run::join_blocks(trials);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].series[0].points.len(), blocks);
}
