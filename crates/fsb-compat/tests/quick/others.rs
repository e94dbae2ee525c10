//! PostMark and filebench.

use crate::{golden, only, parse, remarks, series, shared, value};
use fsb_compat::read_file;
use fsb_model::set::GapReason;
use std::fs;

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
