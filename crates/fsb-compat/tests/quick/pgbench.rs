//! Reports and logs of pgbench: files of 15.18, 16.2 and 18.6, and texts in the forms of earlier
//! versions.

use fsb_compat::read_file;
use fsb_model::set::Run;

use crate::{golden, only, parse, parse_all, remarks, series, value};

fn fixture(name: &str) -> Run {
    only(&golden(&format!("pgbench/{name}.txt")))
}

fn settings(run: &Run) -> Vec<String> {
    run.settings
        .iter()
        .map(|setting| format!("{}={}", setting.name, setting.value))
        .collect()
}

fn failures(run: &Run) -> Vec<(Option<u32>, &str)> {
    run.failures
        .iter()
        .map(|failure| (failure.line, failure.text.as_str()))
        .collect()
}

#[test]
fn the_final_report_gives_rate_latency_and_settings() {
    let run = fixture("15.18-progress");
    assert_eq!(run.version.as_deref(), Some("15.18"));
    let rate = series(&run, "transaction", "operation_rate");
    assert_eq!(
        rate.workload.as_deref(),
        Some("TPC-B (sort of), scale 1, 2 clients")
    );
    assert_eq!(
        (
            rate.points[0].value,
            rate.points[0].line,
            rate.found_unit.as_str()
        ),
        (193.755453, 17, "tps")
    );
    assert_eq!(value(&run, "transaction", "latency_mean"), 10.298 * 1e-3);
    assert_eq!(value(&run, "transaction", "latency_stddev"), 9.357 * 1e-3);
    assert_eq!(value(&run, "transaction", "connection_time"), 27.807 * 1e-3);
    assert_eq!(
        settings(&run),
        [
            "number of threads=2",
            "maximum number of tries=1",
            "duration=2 s"
        ]
    );
    assert!(run.warnings.is_empty());
    assert_eq!(
        value(&fixture("18.6-tpcb"), "transaction", "operation_rate"),
        263.972607
    );
}

#[test]
fn connections_for_each_transaction_are_a_setting() {
    let run = fixture("15.18-reconnecting");
    assert_eq!(value(&run, "transaction", "operation_rate"), 46.256974);
    assert_eq!(
        settings(&run)[3],
        "connections=one for each transaction (-C)"
    );
}

#[test]
fn statements_are_operations_and_commands_of_pgbench_are_not() {
    let run = fixture("15.18-statements");
    assert_eq!(value(&run, "END;", "latency_mean"), 4.173 / 1e3);
    assert_eq!(
        value(
            &run,
            "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
            "latency_mean"
        ),
        0.406 / 1e3
    );
    assert_eq!(run.series.len(), 3 + 7);
    assert!(run.series.iter().all(|one| {
        one.workload
            .as_deref()
            .unwrap()
            .ends_with(", 1 client, prepared")
    }));
}

#[test]
fn each_script_is_a_workload() {
    let run = fixture("16.2-two-scripts");
    let of_script = |script: &str, operation: &str, metric: &str| {
        let mut all = run
            .series
            .iter()
            .filter(|one| one.operation == operation && one.metric == metric);
        all.find(|one| one.workload.as_deref().unwrap().starts_with(script))
            .map(|one| one.points[0].value)
    };
    assert_eq!(
        of_script("multiple scripts", "transaction", "operation_rate"),
        Some(464.690565)
    );
    assert_eq!(
        of_script("simple update", "transaction", "operation_rate"),
        Some(144.492083)
    );
    assert_eq!(
        of_script("select only", "transaction", "latency_mean"),
        Some(1.549 * 1e-3)
    );
    assert_eq!(
        of_script("simple update", "END;", "latency_mean"),
        Some(6.630 / 1e3)
    );
    assert!(settings(&run).contains(&"scripts=simple update@3, select only@7".to_owned()));
}

#[test]
fn failed_and_skipped_transactions_have_a_remark() {
    let many = fixture("15.18-failures");
    assert_eq!(
        failures(&many),
        [(
            Some(11),
            "failed transactions: 953 (58.395%), more than 1 %"
        )]
    );
    assert!(many.series.iter().all(|one| one.points.is_empty()));
    let text = std::fs::read_to_string(golden("pgbench/15.18-failures.txt")).unwrap();
    let few = parse("pgbench", &text.replace("953 (58.395%)", "9 (0.551%)"));
    let text =
        "11: failed transactions: 9 (0.551%); tps counts the others, the mean latency counts all";
    assert_eq!(
        (remarks(&few), few.failures.len()),
        (vec![text.to_owned()], 0)
    );
    let run = fixture("16.2-rate");
    assert_eq!(
        remarks(&run)[0],
        "12: transactions skipped: 28 (14.583%); tps counts the others"
    );
    assert_eq!(
        remarks(&run)[1],
        "13: transactions above the 5.0 ms latency limit: 125/164 (76.220%)"
    );
    assert_eq!(
        value(&run, "transaction", "schedule_lag_mean"),
        0.693 * 1e-3
    );
    assert!(settings(&run).contains(&"latency limit=5.0 ms".to_owned()));
}

#[test]
fn a_run_whose_clients_aborted_has_no_value() {
    let run = fixture("15.18-aborted");
    let all = failures(&run);
    assert_eq!((all[0].0, all[2].0), (Some(3), Some(17)));
    assert!(
        all[2].1.starts_with("pgbench: error: Run was aborted"),
        "{all:?}"
    );
    assert!(
        run.series
            .iter()
            .all(|one| one.points.is_empty() && one.gaps.len() == 1)
    );
}

#[test]
fn progress_lines_alone_give_a_rate_with_a_remark() {
    let run = fixture("15.18-stderr-alone");
    assert!(
        (value(&run, "transaction", "operation_rate") - (298.0 + 340.0 + 368.0) / 3.0).abs() < 1e-9
    );
    assert_eq!(run.series[0].workload.as_deref(), Some("settings unknown"));
    assert!(
        remarks(&run)[0].starts_with("4: no final report: pgbench was stopped"),
        "{:?}",
        remarks(&run)
    );
    let stamped = "progress: 1795951082.2 s, 10.0 tps, lat 1.0 ms stddev 0.1\n\
                   progress: 1795951084.2 s, 30.0 tps, lat 1.0 ms stddev 0.1\n";
    assert!(
        (value(&parse("pgbench", stamped), "transaction", "operation_rate") - 30.0).abs() < 1e-3
    );
}

/// The report of 9.6 to 13; that of 9.5 and earlier has `latency average: `.
const OLD: &str = "\
starting vacuum...end.
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: simple
number of clients: 10
number of threads: 1
number of transactions per client: 1000
number of transactions actually processed: 10000/10000
latency average = 11.013 ms
latency stddev = 7.351 ms
tps = 618.764555 (including connections establishing)
tps = 622.977698 (excluding connections establishing)
statement latencies in milliseconds:
         0.002  \\set aid random(1, 100000 * :scale)
         0.371  END;
";

#[test]
fn reports_before_14_have_two_rates_and_no_version() {
    let run = parse("pgbench", OLD);
    assert_eq!(run.version, None);
    assert_eq!(value(&run, "transaction", "operation_rate"), 622.977698);
    assert_eq!(
        value(&run, "transaction", "operation_rate_with_connections"),
        618.764555
    );
    assert_eq!(value(&run, "END;", "latency_mean"), 0.371 / 1e3);
    assert_eq!(
        run.series[0].workload.as_deref(),
        Some("TPC-B (sort of), scale 10, 10 clients")
    );
    let older = OLD
        .replace("latency average = ", "latency average: ")
        .replace("         0.371  ", "\t0.371021\t");
    let run = parse("pgbench", &older);
    assert_eq!(value(&run, "transaction", "latency_mean"), 11.013 * 1e-3);
    assert_eq!(value(&run, "END;", "latency_mean"), 0.371021 / 1e3);
}

#[test]
fn reports_one_after_another_are_runs() {
    let again = OLD.replace("622.977698", "700.000000");
    let rates: Vec<f64> = parse_all("pgbench", &format!("{OLD}{again}"))
        .iter()
        .map(|run| value(run, "transaction", "operation_rate"))
        .collect();
    assert_eq!(rates, [622.977698, 700.0]);
    assert_eq!(
        read_file(&golden("pgbench/15.18-progress.txt"))
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_report_without_its_end_says_so() {
    let run = parse("pgbench", &OLD[..OLD.find("tps = ").unwrap()]);
    assert_eq!(
        remarks(&run),
        [
            "the output ends early: the line 'tps = …' is missing; pgbench was stopped, or the file is cut"
        ]
    );
}

const ONE_LOG: &str =
    "with -j, each thread of pgbench writes a log; 'cat pgbench_log.PID* > NEW' joins them";

#[test]
fn a_log_of_transactions_gives_the_rate_of_its_span_and_all_times() {
    let run = fixture("log-transactions");
    // From the start of the first, 141253 − 23323 µs, to the end of the last, 237957 µs.
    assert_eq!(
        value(&run, "transaction", "operation_rate"),
        15.0 / 0.120027
    );
    let times = [
        23323, 16593, 12044, 8063, 7887, 3909, 8163, 3789, 8051, 4250, 768, 10940, 4177, 1671, 6139,
    ]
    .map(f64::from);
    let mean = times.iter().sum::<f64>() / 15.0 / 1e6;
    assert!((value(&run, "transaction", "latency_mean") - mean).abs() < 1e-12);
    assert_eq!(value(&run, "transaction", "latency_max"), 23323.0 / 1e6);
    assert_eq!(run.histograms[0].bins[0], (768_000, 1));
    assert_eq!(remarks(&run), [ONE_LOG]);
}

#[test]
fn transactions_without_a_time_do_not_count() {
    let line = |number: u32, time: &str| {
        format!(
            "0 {number} {time} 0 1795951082 {}\n",
            100_000 + 1_000 * number
        )
    };
    let log = |word: &'static str, rarely: u32| -> String {
        (0..400)
            .map(|number| line(number, if number % rarely == 0 { word } else { "900" }))
            .collect()
    };
    let run = parse("pgbench", &log("skipped", 4));
    assert_eq!(value(&run, "transaction", "latency_p50"), 900.0 / 1e6);
    assert!((value(&run, "transaction", "operation_rate") - 300.0 / 0.399).abs() < 1e-9);
    assert_eq!(
        remarks(&run)[1],
        "100 transactions have 'skipped' in place of a time and do not count"
    );
    let run = parse("pgbench", &log("failed", 4));
    assert_eq!(
        failures(&run),
        [(None, "25.000 % of the transactions failed, more than 1 %")]
    );
    let run = parse("pgbench", &log("failed", 200));
    assert!(
        run.failures.is_empty() && remarks(&run)[1].starts_with("2 transactions have 'failed'")
    );
}

#[test]
fn the_first_interval_of_an_aggregated_log_does_not_count_for_the_rate() {
    let run = fixture("log-aggregated");
    assert_eq!(
        value(&run, "transaction", "operation_rate"),
        (245.0 + 271.0 + 250.0) / 3.0
    );
    let sum = 723_792.0 + 999_635.0 + 999_766.0 + 999_665.0;
    assert!((value(&run, "transaction", "latency_mean") - sum / 921.0 / 1e6).abs() < 1e-12);
    assert_eq!(value(&run, "transaction", "latency_max"), 24833.0 / 1e6);
}

#[test]
fn the_logs_of_threads_are_read_only_when_joined() {
    let first = std::fs::read_to_string(golden("pgbench/log-transactions.txt")).unwrap();
    let second = first
        .lines()
        .map(|line| format!("1{}\n", &line[1..]))
        .collect::<String>();
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "pgbench")
        .unwrap();
    let message = (tool.read)(&mut second.as_bytes()).unwrap_err().to_string();
    assert!(
        message.ends_with("join the logs of an execution: cat pgbench_log.PID* > NEW"),
        "{message}"
    );
    let joined = parse("pgbench", &(first + &second));
    assert_eq!(
        value(&joined, "transaction", "operation_rate"),
        30.0 / 0.120027
    );
    let intervals = std::fs::read_to_string(golden("pgbench/log-aggregated.txt")).unwrap();
    let joined = parse("pgbench", &intervals.repeat(2));
    assert_eq!(
        value(&joined, "transaction", "operation_rate"),
        2.0 * (245.0 + 271.0 + 250.0) / 3.0
    );
}

#[test]
fn a_cut_line_of_a_log_is_left_out() {
    let text = std::fs::read_to_string(golden("pgbench/log-transactions.txt")).unwrap();
    let run = parse("pgbench", &text[..text.len() - 3]);
    assert!(
        remarks(&run)[0].starts_with("15: the line has no end"),
        "{:?}",
        remarks(&run)
    );
    assert_eq!(
        value(&run, "transaction", "operation_rate"),
        14.0 / (0.231809 - 0.11793)
    );
}
