//! bonnie++'s CSV.

use fsb_model::set::GapReason;

use crate::{golden, only, parse, parse_all, remarks, series, shared, value};

#[test]
fn pluses_are_too_fast_and_never_numbers() {
    let run = only(&shared("tool-output/bonnie++-2.00a.txt"));
    assert_eq!(run.version.as_deref(), Some("2.00a"));
    assert_eq!(value(&run, "write", "throughput"), 162_267.0 * 1024.0);
    assert_eq!(value(&run, "write", "cpu_utilization"), 0.44);
    assert_eq!(value(&run, "write", "latency_max"), 1.547);
    assert_eq!(value(&run, "delete_random", "latency_max"), 153e-6);
    for (operation, metric) in [("update", "throughput"), ("read", "cpu_utilization"), ("seek", "operation_rate")] {
        let series = series(&run, operation, metric);
        assert_eq!((series.points.len(), series.gaps.len()), (0, 1));
        assert_eq!((series.gaps[0].why, series.gaps[0].line), (GapReason::TooFast, 11));
    }
    let write = series(&run, "write", "throughput");
    assert_eq!((write.found_unit.as_str(), write.points[0].file_size), ("K/sec", Some(600 << 20)));
    assert!(run.warnings.is_empty());
    assert_eq!(value(&only(&golden("bonnie++/2.00a-small.csv")), "read_char", "throughput"), 1765.0 * 1024.0);
}

/// 1.9x has no columns for the number of seeks.
const OLD: &str = "1.97,1.97,host,1,1466783481,8196M,,627,95,107864,16,48505,6,3505,97,111419,6,710.5,6,16,,,,,1702,14,+++++,+++,\
    1332,4,1873,16,2047,13,1266,3,12428us,713ms,1317ms,3376us,41545us,230ms,1214us,679us,709us,129us,30us,12s\n";

#[test]
fn both_column_sets_are_known() {
    let run = parse("bonnie++", OLD);
    assert_eq!(value(&run, "write_char", "throughput"), 627.0 * 1024.0);
    assert_eq!(value(&run, "seek", "operation_rate"), 710.5);
    assert_eq!(value(&run, "create_sequential", "operation_rate"), 1702.0);
    assert_eq!(value(&run, "delete_random", "operation_rate"), 1266.0);
    assert_eq!(value(&run, "delete_random", "latency_max"), 12.0);
    assert!(run.warnings.is_empty());
}

#[test]
fn without_a_large_file_a_column_is_missing() {
    let text = "1.96,1.96,host,1,1374655110,,,,,,,,,,,,,,60,32,32,,,1702,14,2025,12,1332,4,1873,16,2047,13,1266,3,,,,,,,3874ms,\
        6645ms,8659ms,505ms,7257ms,9627ms\n";
    let run = parse("bonnie++", text);
    assert_eq!(run.series.len(), 18);
    assert_eq!(value(&run, "create_sequential", "operation_rate"), 1702.0);
    assert_eq!(value(&run, "create_sequential", "latency_max"), 3.874);
    assert_eq!(value(&run, "delete_random", "cpu_utilization"), 0.03);
    assert!(run.warnings.is_empty());
}

#[test]
fn each_line_is_a_run_and_a_bad_one_is_said() {
    let comma = OLD.replace("710.5", "710,5");
    let runs = parse_all("bonnie++", &format!("{OLD}{comma}{OLD}"));
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[1].series[0].points[0].line, 3);
    assert!(remarks(&runs[0])[0].starts_with("2: 49 columns instead of 48"), "{:?}", remarks(&runs[0]));
    let run = parse("bonnie++", &OLD.replace("107864", "1e9"));
    assert_eq!(remarks(&run), ["1: column 10: '1e9' is not a number; left out"]);
}
