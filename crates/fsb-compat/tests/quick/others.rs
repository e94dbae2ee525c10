//! bonnie++, filebench, PostMark and sysbench.

use std::fs;

use fsb_compat::postmark::print::{self, PostmarkOutcome};
use fsb_compat::postmark::{self, Settings};
use fsb_compat::read_file;
use fsb_model::set::GapReason;

use crate::ours::ours;
use crate::{golden, only, parse, parse_all, remarks, series, shared, value};

#[test]
fn postmark_counts_whole_seconds_and_that_is_said() {
    let run = only(&shared("tool-output/postmark-1.53.txt"));
    assert_eq!((run.version.as_deref(), run.clock_resolution), (Some("1.51"), Some(1.0)));
    for (operation, rate) in [
        ("transaction", 50_000.0),
        ("create", 29_935.0),
        ("create_alone", 5_000.0),
        ("create_mixed", 24_935.0),
        ("read", 25_055.0),
        ("append", 24_790.0),
        ("delete", 29_935.0),
        ("delete_alone", 4_870.0),
        ("delete_mixed", 25_065.0),
    ] {
        assert_eq!(value(&run, operation, "operation_rate"), rate, "{operation}");
    }
    assert_eq!(value(&run, "read", "throughput"), 157.24 * 1024.0 * 1024.0);
    assert_eq!(value(&run, "write", "throughput"), 189.43 * 1024.0 * 1024.0);
    assert_eq!(
        remarks(&run),
        ["8: PostMark rounds times to whole seconds, and this run took one or less: its rates are unreliable"]
    );
}

#[test]
fn each_report_of_postmark_is_a_run() {
    let runs = read_file(&golden("postmark/1.53-two-runs.txt")).unwrap();
    let rates: Vec<_> = runs.iter().map(|run| value(run, "transaction", "operation_rate")).collect();
    assert_eq!(rates, [666.0, 1000.0]);
    assert!(runs.iter().all(|run| run.version.as_deref() == Some("1.51")));
    assert_eq!(
        remarks(&runs[0]),
        ["8: PostMark rounds times to whole seconds: after 3 s each rate may be off by 33 %"]
    );
}

#[test]
fn filebench_has_a_total_and_a_breakdown() {
    let run = only(&shared("tool-output/filebench-1.5-varmail.txt"));
    assert_eq!(run.version.as_deref(), Some("1.5-alpha3"));
    assert!(run.series.iter().all(|series| series.workload.as_deref() == Some("varmail")));
    assert_eq!(value(&run, "total", "operation_rate"), 69_457.673);
    assert_eq!(value(&run, "total", "throughput"), 259.8 * 1024.0 * 1024.0);
    assert_eq!(value(&run, "total", "latency_mean"), 0.228 / 1000.0);
    assert_eq!(value(&run, "write", "operation_rate"), 10_688.0);
    assert_eq!(value(&run, "readfile4", "throughput"), 87.8 * 1024.0 * 1024.0);
    assert_eq!(series(&run, "fsyncfile3", "latency_mean").points[0].line, 19);
    assert!(run.series.iter().all(|series| !(series.operation == "deletefile1" && series.metric == "throughput")));
    assert!(run.warnings.is_empty());
}

#[test]
fn decimal_commas_are_read_where_nothing_else_can_be_meant() {
    let filebench = fs::read_to_string(shared("tool-output/filebench-1.5-varmail.txt")).unwrap();
    let (banner, rest) = filebench.split_once('\n').unwrap();
    let run = parse("filebench", &format!("{banner}\n{}", rest.replace('.', ",")));
    assert_eq!(value(&run, "total", "operation_rate"), 69_457.673);
    assert_eq!(remarks(&run), ["15: numbers have a decimal comma; read as such"]);
    let postmark = fs::read_to_string(shared("tool-output/postmark-1.53.txt")).unwrap();
    let run = parse("postmark", &postmark.replace("157.24", "157,24"));
    assert_eq!(value(&run, "read", "throughput"), 157.24 * 1024.0 * 1024.0);
    assert!(remarks(&run).contains(&"21: numbers have a decimal comma; read as such".to_owned()));
    let iozone = fs::read_to_string(shared("tool-output/iozone-3.471-throughput.txt")).unwrap();
    let run = parse("iozone", &iozone.replace("4263913.00", "4263913,00").replace("1141391.54", "1.141.391,54"));
    assert_eq!(value(&run, "write", "throughput"), 4_263_913.0 * 1024.0);
    assert!(remarks(&run)[1].starts_with("30: no line of throughput mode"), "{:?}", remarks(&run));
}

#[test]
fn a_mean_of_zero_is_below_what_filebench_prints() {
    let text = fs::read_to_string(shared("tool-output/filebench-1.5-varmail.txt")).unwrap();
    let run = parse("filebench", &text.replace("0.001ms/op", "0.000ms/op"));
    assert_eq!(series(&run, "closefile4", "latency_mean").gaps[0].why, GapReason::BelowClock);
}

// PostMark's operations and its report, beside PostMark itself.

#[test]
fn the_report_has_the_shape_of_postmarks_and_is_read_back() {
    let mut settings = Settings::default();
    let outcome = PostmarkOutcome { total: 2.5, transactions: 2.0, ..ours(&settings).unwrap() };
    let text = print::banner("fsb 0.1.0") + &print::report(&settings, &outcome);
    let run = crate::parse("postmark", &text);
    assert_eq!((run.version.as_deref(), run.clock_resolution), (Some("1.51"), Some(1e-9)));
    assert_eq!(crate::value(&run, "transaction", "operation_rate"), 250.0);
    assert_eq!(crate::value(&run, "create", "operation_rate"), (outcome.tally.created as f64 / 2.5).round());
    assert!(run.warnings.is_empty(), "{:?}", run.warnings);
    postmark::parse("set report terse", &mut settings).unwrap();
    let terse = print::report(&settings, &outcome);
    assert_eq!(terse.split_whitespace().count(), 13, "{terse}");
    assert!(terse.starts_with("2.500000 2.000000 250.00 ") && terse.ends_with('\n'), "{terse}");
}

/// As PostMark 1.53 answers.
#[test]
fn show_and_help_are_those_of_postmark() {
    let mut settings = Settings::default();
    for line in ["set location /tmp/a 3", "set location +/b", "set size 1500 2000000", "set subdirectories 1"] {
        postmark::parse(line, &mut settings).unwrap();
    }
    let expected = "Current configuration is:\nThe base number of files is 500\nTransactions: 500\n\
        Files range between 1.46 kilobytes and 1.91 megabytes in size\nWorking directories: \n\t/tmp/a (weight=3)\n\
        \t/b (weight=1)\n1 subdirectory will be used\nBlock sizes are: read=512 bytes, write=512 bytes\n\
        Biases are: read/append=5, create/delete=5\nUsing Unix buffered file I/O\n\
        Random number generator seed is 42\nReport format is verbose.\n";
    assert_eq!(settings.show("/here"), expected);
    assert!(Settings::default().show("/here").contains("\nWorking directory: /here\n"));
    assert_eq!(print::help(Some("set bias")).lines().count(), 2);
    assert_eq!(print::help(Some("unheard of")), print::help(None));
    assert!(print::help(None).starts_with("set size - Sets low and high bounds of files\n"));
}

#[test]
fn sums_that_single_precision_rounds_are_told_apart() {
    let mut settings = Settings::default();
    assert_eq!(print::rounded(&ours(&settings).unwrap().tally), None);
    settings.shape.transactions = 100_000;
    settings.shape.size_high = 100_001;
    let tally = ours(&settings).unwrap().tally;
    let shown = print::rounded(&tally).unwrap();
    assert!(shown.contains(&tally.bytes_read.to_string()) && shown.contains("single precision"), "{shown}");
}

// bonnie++'s CSV.

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

// Reports of sysbench's file test.

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
