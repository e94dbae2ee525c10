//! fio's JSON, from real files.

use std::fs;

use fsb_model::set::{GapReason, Run};

use crate::{golden, only, parse, parse_all, remarks, series, shared, value};

fn fixture(name: &str) -> Run {
    only(&golden(&format!("fio/fio-3.33-{name}")))
}

#[test]
fn a_job_is_a_workload_and_each_direction_an_operation() {
    let run = only(&shared("tool-output/fio-3.33.json"));
    assert_eq!(run.version.as_deref(), Some("3.33"));
    let write = series(&run, "write", "throughput");
    assert_eq!((write.workload.as_deref(), write.found_unit.as_str()), (Some("seqwrite"), "B/s"));
    let point = write.points[0];
    assert_eq!((point.value, point.line), (234_646_377.0, 70));
    assert_eq!((point.file_size, point.record_size), (Some(256 << 20), Some(1 << 20)));
    assert_eq!(value(&run, "random_read", "operation_rate"), 29656.781073);
    assert_eq!(value(&run, "random_read", "latency_mean"), 32911.637292 / 1e9);
    assert_eq!(value(&run, "random_read", "total_latency_mean"), 32966.775831 / 1e9);
    assert_eq!(value(&run, "random_read", "latency_p99"), 92672.0 / 1e9);
    // 256 writes have no 99th percentile to speak of, and 89,000 reads no 99.9th.
    let percentiles = |operation: &str| {
        let of = run.series.iter().filter(|series| series.operation == operation);
        of.filter(|series| series.metric.starts_with("latency_p")).count()
    };
    assert_eq!((percentiles("write"), percentiles("random_read")), (1, 3));
    assert!(run.warnings.is_empty());
}

#[test]
fn json_plus_gives_counts() {
    let run = only(&shared("tool-output/fio-3.33-jsonplus.json"));
    assert_eq!(value(&run, "random_write", "throughput"), 183_319_544.0);
    let reads = &run.histograms[0];
    assert_eq!((reads.workload.as_deref(), reads.operation.as_str()), (Some("randrw"), "random_read"));
    assert_eq!(reads.bins.iter().map(|bin| bin.1).sum::<u64>(), 313_015);
    assert_eq!(reads.bins[0], (46, 1));
}

#[test]
fn processes_of_one_job_are_added() {
    let run = fixture("per-job.json");
    assert_eq!(value(&run, "random_read", "throughput"), 26_292_232.0 * 2.0);
    assert_eq!(remarks(&run)[0], "job 'clone', random_read: the rates of 2 processes are added");
    assert!(run.series.iter().all(|series| !series.metric.starts_with("latency_p")), "percentiles cannot be added");
}

#[test]
fn counts_of_processes_are_merged_and_give_their_percentiles() {
    let run = fixture("per-job-plus.json");
    let writes = &run.histograms[0];
    assert_eq!(writes.bins.iter().map(|bin| bin.1).sum::<u64>(), 2048);
    let mut sum = 0;
    let median = writes.bins.iter().find(|bin| {
        sum += bin.1;
        sum >= 1024
    });
    assert_eq!(value(&run, "write", "latency_p50"), median.unwrap().0 as f64 / 1e9);
    assert_eq!(run.histograms[1].operation, "sync");
}

#[test]
fn unified_reports_are_mixed() {
    let run = fixture("unified.json");
    assert!(run.series.iter().all(|series| series.operation == "mixed"));
    assert_eq!(value(&run, "mixed", "throughput"), 95_325_090.0);
    let run = fixture("both.json");
    assert_eq!(value(&run, "random_read", "throughput") + value(&run, "random_write", "throughput"), 71_089_897.0);
    assert_eq!(value(&run, "mixed", "throughput"), 71_089_898.0);
}

#[test]
fn a_name_used_in_several_groups_gets_numbers() {
    let run = fixture("groups.json");
    let mut names: Vec<_> = run.series.iter().filter_map(|series| series.workload.as_deref()).collect();
    names.dedup();
    assert_eq!(names, ["a", "a #2", "a #3"]);
    // The third counts total latency (--lat_percentiles); its percentiles are there all the same.
    let third =
        run.series.iter().find(|series| series.workload.as_deref() == Some("a #3") && series.metric == "latency_p50");
    assert_eq!(third.unwrap().points.len(), 1);
}

#[test]
fn snapshots_of_a_run_are_not_runs() {
    let path = golden("fio/fio-3.33-status.json");
    let run = only(&path);
    assert_eq!(value(&run, "random_read", "throughput"), 52_893_131.0);
    // Reports of runs one after another are.
    let text = fs::read_to_string(shared("tool-output/fio-3.33.json")).unwrap();
    let later = text.replace("1795189389228", "1795189399228");
    let runs = parse_all("fio", &format!("fio: io_u error\n{text}\nnote\n{later}"));
    assert_eq!(runs.len(), 2);
    assert_eq!(remarks(&runs[0]), ["1: fio: io_u error"]);
    assert_eq!(runs[1].series[0].points[0].line, 70 + text.lines().count() as u32 + 3);
}

#[test]
fn a_cut_document_gives_its_whole_jobs() {
    let text = fs::read_to_string(shared("tool-output/fio-3.33.json")).unwrap();
    let second = text.find("\"jobname\" : \"randread\"").unwrap();
    let run = parse("fio", &text[..second + 2000]);
    assert!(run.series.iter().all(|series| series.workload.as_deref() == Some("seqwrite")));
    assert_eq!((run.version.as_deref(), run.series[0].points[0].line), (Some("3.33"), 70));
    assert!(remarks(&run)[0].contains("cut or damaged here"), "{:?}", remarks(&run));
}

#[test]
fn a_value_that_is_not_a_number_is_left_out_by_line() {
    let text = fs::read_to_string(shared("tool-output/fio-3.33.json")).unwrap();
    let run = parse("fio", &text.replace("\"iops\" : 223.776224", "\"iops\" : \"many\""));
    assert_eq!(remarks(&run), ["72: '\"many\"' is not a number; left out"]);
    assert_eq!(value(&run, "write", "throughput"), 234_646_377.0);
    assert!(
        run.series
            .iter()
            .all(|series| (series.operation.as_str(), series.metric.as_str()) != ("write", "operation_rate"))
    );
}

#[test]
fn a_direction_that_was_to_run_and_did_not_is_a_gap() {
    let text = "{\"fio version\": \"fio-3.1\", \"global options\": {\"rw\": \"rw\"}, \"jobs\": [{\"jobname\": \"j\", \"error\": 5,
        \"read\": {\"total_ios\": 3, \"bw_bytes\": 5, \"iops\": 2.5}, \"write\": {\"total_ios\": 0, \"bw_bytes\": 0, \"iops\": 0}}]}";
    let run = parse("fio", text);
    assert_eq!(series(&run, "write", "throughput").gaps[0].why, GapReason::Zero);
    assert_eq!(value(&run, "read", "operation_rate"), 2.5);
    assert_eq!(remarks(&run), ["job 'j' ended with error 5"]);
}

#[test]
fn before_3_0_rates_were_kilobytes_and_times_microseconds() {
    let text = "{\"fio version\": \"fio-2.2.10\", \"jobs\": [{\"jobname\": \"j\", \"read\": {\"total_ios\": 9000, \"bw\": 5,
        \"iops\": 2.5, \"clat\": {\"mean\": 12.5, \"percentile\": {\"50.000000\": 9, \"0.00\": 0}}, \"lat\": {\"mean\": 13}}}]}";
    let run = parse("fio", text);
    assert_eq!((value(&run, "read", "throughput"), value(&run, "read", "latency_mean")), (5.0 * 1024.0, 12.5 / 1e6));
    assert_eq!(
        (value(&run, "read", "latency_p50"), value(&run, "read", "total_latency_mean")),
        (9.0 / 1e6, 13.0 / 1e6)
    );
    assert_eq!(series(&run, "read", "throughput").found_unit, "KiB/s");
}
