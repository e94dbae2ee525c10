//! fio's logs, from real files of fio 3.33.

use std::fs;
use std::path::{Path, PathBuf};

use fsb_compat::{read_execution, read_file};
use fsb_model::set::Run;

use crate::{golden, only, remarks, series, value};

fn log(name: &str) -> PathBuf {
    golden(&format!("fio-log/{name}.log"))
}

/// Reads a text as the log of this name.
fn parse(name: &str, text: &str) -> Result<Run, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    read_file(&path)
        .map(|mut runs| runs.remove(0))
        .map_err(|error| error.to_string())
}

#[test]
fn intervals_are_one_run_with_their_mean_over_time() {
    let run = only(&log("mix_bw.1"));
    // Intervals end at 500, 1000, 1500, 2001 and 2500 ms.
    let mean = (3200.0 * 500.0 + 3208.0 * 500.0 + 3200.0 * 500.0 + 3200.0 * 501.0 + 3206.0 * 499.0)
        / 2500.0;
    assert_eq!(value(&run, "read", "throughput"), mean * 1024.0);
    let read = series(&run, "read", "throughput");
    assert_eq!(
        (
            read.workload.as_deref(),
            read.found_unit.as_str(),
            read.points.len()
        ),
        (Some("job 1"), "KiB/s", 1)
    );
    assert!(series(&run, "write", "throughput").points[0].value < mean * 1024.0);
    let rates = [3200.0, 3208.0, 3200.0, 3200.0, 3206.0].map(|rate| rate * 1024.0);
    let ends = [0.5, 1.0, 1.5, 2.001, 2.5];
    let timeline = &run.timelines[0];
    assert_eq!(
        (timeline.operation.as_str(), timeline.metric.as_str()),
        ("read", "throughput")
    );
    assert_eq!(
        timeline.points,
        ends.into_iter().zip(rates).collect::<Vec<_>>()
    );
    assert!(run.warnings.is_empty() && run.version.is_none() && run.settings.is_empty());
    let times = only(&log("mix_clat.1"));
    let mean = value(&times, "write", "latency_over_time");
    assert!((6.9e-6..1.02e-5).contains(&mean), "{mean}");
    assert_eq!(
        only(&log("mix_lat.1")).series[0].metric,
        "total_latency_over_time"
    );
    assert_eq!(
        value(&only(&log("mix_iops.1")), "write", "operation_rate").round(),
        400.0
    );
}

#[test]
fn logs_of_one_execution_are_one_run() {
    let names =
        ["bw", "iops", "clat", "lat", "clat_hist"].map(|kind| log(&format!("mix_{kind}.1")));
    let mut files: Vec<&Path> = names.iter().map(PathBuf::as_path).collect();
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("mix_clat.2.log");
    fs::write(&empty, "").unwrap();
    let no_submissions = directory.path().join("mix_slat.2.log");
    fs::write(&no_submissions, "").unwrap();
    files.extend([empty.as_path(), &no_submissions]);
    let runs = read_execution(&files).unwrap();
    assert_eq!(runs.len(), 1);
    let read: Vec<_> = runs[0]
        .series
        .iter()
        .filter(|series| series.operation == "read")
        .map(|series| &*series.metric)
        .collect();
    assert_eq!(
        read[..4],
        [
            "throughput",
            "operation_rate",
            "latency_over_time",
            "total_latency_over_time"
        ]
    );
    assert_eq!(read[4..], ["latency_p50", "latency_p90"]);
    assert_eq!(runs[0].timelines.len(), 8);
    assert_eq!(
        (runs[0].histograms.len(), remarks(&runs[0])),
        (
            2,
            vec![format!(
                "no value: cannot read {}: it is empty",
                empty.display()
            )]
        )
    );
    let error = read_execution(&[&empty, &empty]).unwrap_err().to_string();
    assert!(error.ends_with("it is empty"), "{error}");
}

#[test]
fn one_operation_has_no_bandwidth() {
    let error = read_file(&log("raw_bw.1")).unwrap_err().to_string();
    assert!(
        error.contains(
            "each line is one operation, which has no rate; log intervals with --log_avg_msec"
        ),
        "{error}"
    );
    let [rates, times] = [log("raw_bw.1"), log("raw_clat.1")];
    let both = read_execution(&[&rates, &times]).unwrap();
    assert!(
        both.len() == 1
            && remarks(&both[0])[0].contains("raw_bw.1.log: it looks like output of fio-log, but")
    );
    let run = only(&log("raw_clat.1"));
    assert_eq!(run.series[0].points[0].record_size, Some(4096));
    let text = fs::read_to_string(log("raw_clat.1")).unwrap();
    let times: Vec<f64> = text
        .lines()
        .map(|line| line.split(", ").nth(1).unwrap().parse().unwrap())
        .collect();
    assert_eq!(
        value(&run, "write", "latency_mean"),
        times.iter().sum::<f64>() / times.len() as f64 / 1e9
    );
    assert_eq!(
        run.histograms[0].bins.iter().map(|bin| bin.1).sum::<u64>(),
        times.len() as u64
    );
}

#[test]
fn offset_and_priority_are_no_values() {
    let run = only(&log("offset_clat.1"));
    let mean = value(&run, "read", "latency_over_time");
    assert!((2.3e-4..3.6e-4).contains(&mean), "{mean}");
}

#[test]
fn the_logs_of_jobs_one_after_another_are_kept_apart() {
    let run = only(&log("two_bw"));
    let workloads: Vec<_> = run
        .series
        .iter()
        .filter_map(|series| series.workload.as_deref())
        .collect();
    assert_eq!(workloads, ["log 1", "log 2"]);
    assert!(
        remarks(&run)[0].starts_with("5: the times begin again"),
        "{:?}",
        remarks(&run)
    );
}

#[test]
fn counts_of_intervals_are_added() {
    let run = only(&log("mix_clat_hist.1"));
    let text = fs::read_to_string(log("mix_clat_hist.1")).unwrap();
    let counts = |way: &str| -> u64 {
        let lines = text
            .lines()
            .map(|line| line.split(", ").collect::<Vec<_>>())
            .filter(|fields| fields[1] == way);
        lines
            .flat_map(|fields| {
                fields[3..]
                    .iter()
                    .map(|count| count.parse::<u64>().unwrap())
                    .collect::<Vec<_>>()
            })
            .sum()
    };
    for (histogram, way) in run.histograms.iter().zip(["0", "1"]) {
        assert_eq!(
            histogram.bins.iter().map(|bin| bin.1).sum::<u64>(),
            counts(way)
        );
    }
    let [half, most] = ["latency_p50", "latency_p90"].map(|metric| value(&run, "read", metric));
    assert!(half < most && (1e-6..1e-2).contains(&half), "{half} {most}");
}

#[test]
fn logs_without_a_known_quantity_or_unit_are_refused() {
    let intervals = "500, 3200, 0, 0, 0\n1000, 3208, 0, 0, 0\n";
    assert!(
        parse("x.log", intervals)
            .unwrap_err()
            .contains("only its name says what it measures")
    );
    let old = intervals.replace(", 0\n", "\n");
    assert!(
        parse("w_lat.1.log", &old)
            .unwrap_err()
            .contains("microseconds before 3.0")
    );
    assert_eq!(
        value(
            &parse("w_iops.1.log", &old).unwrap(),
            "read",
            "operation_rate"
        ),
        3204.0
    );
    let bins = format!("501, 0, 4096{}\n", ", 1".repeat(1216));
    assert!(
        parse("w_clat_hist.1.log", &bins)
            .unwrap_err()
            .contains("1216 bins in a line are not those of fio 3.x")
    );
}

#[test]
fn a_fifth_column_above_one_is_an_offset() {
    let log = |offset: u64| -> String {
        (0..50)
            .map(|at| format!("{at}, 5000, 0, 4096, {}\n", at * offset))
            .collect()
    };
    for name in ["w_lat.1.log", "w_clat.1.log", "w_slat.1.log"] {
        assert!(
            parse(name, &log(4096))
                .unwrap_err()
                .contains("microseconds before 3.0"),
            "{name}"
        );
        assert!(parse(name, &log(0)).is_ok());
    }
    // Rates have one unit in all versions.
    let intervals = "500, 3200, 0, 0, 0\n1000, 3208, 0, 0, 4096\n";
    assert_eq!(
        value(
            &parse("w_iops.1.log", intervals).unwrap(),
            "read",
            "operation_rate"
        ),
        3204.0
    );
}

#[test]
fn bad_lines_of_a_log_are_left_out() {
    let text = "500, 3200, 0, 0, 0\nnote\n1000, -1, 0, 0, 0\n900, 3300, 0, 0, 0\n400, 9, 3, 0, 0\n800, 1, 0, 0, 0\n1500, 3300, 0, 0";
    let run = parse("w_bw.1.log", text).unwrap();
    assert_eq!(
        value(&run, "read", "throughput"),
        1024.0 * (3200.0 * 400.0 + 3300.0 * 400.0) / 800.0
    );
    let expected = [
        "2: no line of a log, left out: 'note'",
        "3: no line of a log, left out: '1000, -1, 0, 0, 0'",
        "5: no line of a log, left out: '400, 9, 3, 0, 0'",
        "6: an interval that ends before the one before it; left out",
        "7: no line of a log, left out: '1500, 3300, 0, 0'",
    ];
    assert_eq!(remarks(&run), expected);
    // Many intervals are merged.
    let many: String = (1..=2500)
        .map(|end| format!("{}, {end}, 1, 0, 0\n", end * 10))
        .collect();
    let run = parse("w_iops.1.log", &many).unwrap();
    assert!((500..1000).contains(&run.timelines[0].points.len()));
    assert!((value(&run, "write", "operation_rate") - 1250.5).abs() < 1e-6);
    // Times may be those of the day; one interval has no known length.
    let run = parse(
        "w_bw.1.log",
        "1700000000500, 100, 1, 0, 0\n1700000001000, 300, 1, 0, 0\n",
    )
    .unwrap();
    assert_eq!(value(&run, "write", "throughput"), 200.0 * 1024.0);
    assert_eq!(
        value(
            &parse("w_bw.1.log", "500, 100, 1, 0, 0\n").unwrap(),
            "write",
            "throughput"
        ),
        100.0 * 1024.0
    );
}

#[test]
fn a_maximum_beside_the_mean_is_not_the_value() {
    let run = parse(
        "w_lat.1.log",
        "500, 5000, 90210, 1, 0, 0\n1000, 7000, 80000, 1, 0, 0\n",
    )
    .unwrap();
    assert_eq!(
        value(&run, "write", "total_latency_over_time"),
        6000.0 / 1e9
    );
}
