//! Reports of sysbench's file test.

use fsb_model::set::GapReason;

use crate::{golden, only, parse, parse_all, remarks, series, value};

#[test]
fn each_report_of_a_file_is_a_run() {
    let runs = fsb_compat::read_file(&golden("sysbench/1.0.20-rndrw.txt")).unwrap();
    let reads: Vec<f64> = runs.iter().map(|run| value(run, "read", "operation_rate")).collect();
    assert_eq!(reads, [23211.79, 9215.25, 8926.32]);
    let read = series(&runs[0], "read", "throughput");
    assert_eq!(read.points[0].value, 362.68 * 1_048_576.0);
    assert_eq!((read.points[0].file_size, read.points[0].record_size), (Some(4 << 20), Some(16 << 10)));
    assert_eq!(read.workload.as_deref(), Some("rndrw, 2 threads, 4 files, synchronous"));
    assert_eq!(value(&runs[0], "fsync", "operation_rate"), 1552.96);
    assert_eq!(value(&runs[0], "event", "latency_mean"), 0.05 / 1000.0);
    assert_eq!(value(&runs[0], "event", "latency_p95"), 0.20 / 1000.0);
    assert!(runs.iter().all(|run| run.version.as_deref() == Some("1.0.20") && run.warnings.is_empty()));
}

#[test]
fn operations_that_are_not_part_of_the_test_are_absent() {
    let run = only(&golden("sysbench/1.0.20-seqrd.txt"));
    let operations: Vec<&str> = run.series.iter().map(|series| series.operation.as_str()).collect();
    assert_eq!(operations, ["read", "read", "event", "event", "event"]);
    assert_eq!(series(&run, "event", "latency_p99").gaps[0].why, GapReason::BelowClock);
}

#[test]
fn settings_that_change_the_work_are_part_of_its_name() {
    let text = std::fs::read_to_string(golden("sysbench/1.0.20-seqrd.txt")).unwrap();
    let workload = |text: &str| parse("sysbench", text).series[0].workload.clone().unwrap();
    assert_eq!(workload(&text), "seqrd, 1 threads, 4 files, synchronous");
    assert!(workload(&text.replace("flags: (none)", "flags: directio")).ends_with(", directio"));
    let without = text.replace("Periodic FSYNC enabled, calling fsync() each 100 requests.\n", "");
    assert!(workload(&without).ends_with(", no periodic fsync()"));
    assert!(workload(&text.replace("each 100 requests", "each 1 requests")).ends_with(", fsync() each 1 requests"));
}

/// The results of 1.1, in the structure of its source.
const RATES_OF_1_1: &str = "
Throughput:
         read:  IOPS=6820.29 106.57 MiB/s (111.74 MB/s)
         write: IOPS=4546.86 71.04 MiB/s (74.49 MB/s)
         fsync: IOPS=456.67

Latency (ms):
         min:                                  0.00
         avg:                                  1.08
         max:                                 44.19
         95th percentile:                      0.01
         sum:                               1993.87
";

#[test]
fn rates_of_1_1_are_read() {
    let text = std::fs::read_to_string(golden("sysbench/1.0.20-seqrd.txt")).unwrap();
    let settings = text[..text.find("File operations").unwrap()]
        .replace("1.0.20", "1.1.0")
        .replace("sequential read", "random r/w");
    let run = parse("sysbench", &format!("{settings}{RATES_OF_1_1}"));
    assert_eq!(value(&run, "read", "throughput"), 106.57 * 1_048_576.0);
    assert_eq!(value(&run, "write", "operation_rate"), 4546.86);
    assert_eq!(value(&run, "fsync", "operation_rate"), 456.67);
    assert_eq!(value(&run, "event", "latency_max"), 0.04419);
    assert_eq!(run.version.as_deref(), Some("1.1.0"));
}

#[test]
fn a_bad_number_is_left_out_with_its_line() {
    let text = std::fs::read_to_string(golden("sysbench/1.0.20-seqrd.txt")).unwrap();
    let at = text.find("reads/s:").unwrap();
    let line = text[..at].matches('\n').count() + 1;
    let end = at + text[at..].find('\n').unwrap();
    let runs = parse_all("sysbench", &format!("{}reads/s: 1e9{}", &text[..at], &text[end..]));
    assert_eq!(remarks(&runs[0]), [format!("{line}: no number with two digits, left out: 'reads/s: 1e9'")]);
}
