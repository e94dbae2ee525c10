//! fs_mark, dbench, ioping, stress-ng and smallfile, on real files.

use fsb_compat::read_file;
use fsb_model::metric::{Better, Unit};
use fsb_model::set::{GapReason, Run};

use crate::{golden, only, parse, parse_all, remarks, series, value};

/// Returns the value of a workload's operation in a metric.
fn of(run: &Run, workload: &str, operation: &str, metric: &str) -> f64 {
    let mut all = run
        .series
        .iter()
        .filter(|one| one.operation == operation && one.metric == metric);
    let found = all.find(|one| one.workload.as_deref() == Some(workload));
    found
        .unwrap_or_else(|| panic!("no {workload}: {operation} {metric}"))
        .points[0]
        .value
}

fn failures(run: &Run) -> Vec<String> {
    let line = |line: Option<u32>| line.map_or(String::new(), |line| format!("{line}: "));
    run.failures
        .iter()
        .map(|failure| format!("{}{}", line(failure.line), failure.text))
        .collect()
}

fn refusal(tool: &str, text: &str) -> String {
    let tool = fsb_compat::TOOLS
        .iter()
        .find(|known| known.name == tool)
        .unwrap();
    assert!((tool.recognise)(text.as_bytes()), "{text}");
    (tool.read)(&mut text.as_bytes()).unwrap_err().to_string()
}

// fs_mark.

#[test]
fn each_count_of_files_is_a_workload() {
    let run = only(&golden("fs_mark/3.3-three-iterations.txt"));
    assert_eq!(run.version.as_deref(), Some("3.3"));
    assert_eq!(
        run.command.as_deref(),
        Some("fs_mark -d d -n 200 -s 4096 -t 2 -L 3")
    );
    let rates = [
        ("to 400 files", 1933.3),
        ("to 800 files", 1151.2),
        ("to 1200 files", 667.9),
    ];
    for (count, rate) in rates {
        assert_eq!(
            of(
                &run,
                &format!("inband fsync, 2 threads, {count}"),
                "create",
                "operation_rate"
            ),
            rate
        );
    }
    let point = run.series[0].points[0];
    assert_eq!(
        (point.file_size, point.record_size, point.line),
        (Some(4096), Some(16384), 11)
    );
    assert!(run.warnings.is_empty());
}

#[test]
fn times_of_system_calls_are_costs_and_calls_that_were_not_made_are_missing() {
    let run = only(&golden("fs_mark/3.3-verbose.txt"));
    let first = "no sync, 1 thread, to 100 files";
    assert_eq!(of(&run, first, "create", "operation_rate"), 32658.4);
    assert_eq!(of(&run, first, "create", "creat_time_mean"), 19.0 / 1e6);
    assert_eq!(of(&run, first, "create", "creat_time_max"), 97.0 / 1e6);
    assert_eq!(of(&run, first, "create", "write_time_max"), 17.0 / 1e6);
    assert_eq!(
        series(&run, "create", "close_time_mean").gaps[0].why,
        GapReason::BelowClock
    );
    assert!(
        run.series
            .iter()
            .all(|one| !one.metric.starts_with("fsync") && !one.metric.starts_with("unlink"))
    );
}

#[test]
fn a_log_of_fs_mark_with_directories_names_them() {
    let run = only(&golden("fs_mark/3.3-log.txt"));
    let workload = "inband fsync, 1 thread, Round Robin between directories across 10 subdirectories with 10 files per \
                    subdirectory, to 200 files";
    assert_eq!(of(&run, workload, "create", "operation_rate"), 252.7);
}

#[test]
fn a_stopped_or_failed_fs_mark_says_so() {
    let text = std::fs::read_to_string(golden("fs_mark/3.3-three-iterations.txt")).unwrap();
    let cut = &text[..text.find("    70         1200").unwrap()];
    assert_eq!(
        remarks(&parse("fs_mark", cut)),
        [
            "the output ends early: a row of 1 of 3 loops is missing; fs_mark was stopped, or the file is cut"
        ]
    );
    let run = parse(
        "fs_mark",
        &format!("{cut}Error in open of d/x : No space left on device\n"),
    );
    assert_eq!(
        failures(&run),
        ["13: Error in open of d/x : No space left on device"]
    );
    assert!(run.series.iter().all(|one| one.points.is_empty()));
    let other = text.replace("Count         Size", "Size         Count");
    assert!(
        refusal("fs_mark", &other).contains("unknown columns"),
        "{}",
        refusal("fs_mark", &other)
    );
    assert_eq!(parse_all("fs_mark", &format!("{text}{text}")).len(), 2);
}

// dbench.

#[test]
fn the_throughput_of_dbench_and_the_times_of_its_operations_are_read() {
    let run = only(&golden("dbench/4.0-two-clients.txt"));
    assert_eq!(run.version.as_deref(), Some("4.00"));
    assert_eq!(of(&run, "2 clients", "load", "throughput"), 228_377_000.0);
    assert_eq!(of(&run, "2 clients", "load", "latency_max"), 40.074 / 1e3);
    assert_eq!(of(&run, "2 clients", "Flush", "latency_mean"), 2.988 / 1e3);
    assert_eq!(of(&run, "2 clients", "Flush", "latency_max"), 39.890 / 1e3);
    assert_eq!(run.series.len(), 2 + 16 * 2);
    assert_eq!(remarks(&run), ["4: failed to create barrier semaphore"]);
    let settings: Vec<&str> = run
        .settings
        .iter()
        .map(|setting| setting.value.as_str())
        .collect();
    assert_eq!(settings, ["2", "0"]);
}

#[test]
fn tables_of_single_clients_are_not_read_and_sync_is_part_of_the_name() {
    let run = only(&golden("dbench/4.0-sync-dirs.txt"));
    assert_eq!(
        of(&run, "1 client, sync dirs", "Unlink", "latency_mean"),
        4.236 / 1e3
    );
    assert_eq!(run.series.len(), 34);
    assert!(run.warnings.is_empty(), "{:?}", remarks(&run));
    assert_eq!(
        of(
            &only(&golden("dbench/4.0-tbench.txt")),
            "2 clients",
            "load",
            "throughput"
        ),
        377_972_000.0
    );
}

#[test]
fn a_dbench_that_failed_or_was_stopped_has_no_value() {
    let text = std::fs::read_to_string(golden("dbench/4.0-tbench.txt")).unwrap();
    let failed = text.replace(
        "releasing clients\n",
        "releasing clients\nChild failed with status 1\n",
    );
    let run = parse("dbench", &failed);
    assert_eq!(failures(&run), ["7: Child failed with status 1"]);
    assert!(run.series.iter().all(|one| one.points.is_empty()));
    let message = refusal("dbench", &text[..text.find("Throughput").unwrap()]);
    assert!(
        message.contains("the line 'Throughput …' is missing"),
        "{message}"
    );
    let old = "dbench version 3.04 - Copyright Andrew Tridgell 1999-2004\n\nThroughput 1e+03 MB/sec (sync open) 4 procs\n";
    assert_eq!(
        of(
            &parse("dbench", old),
            "4 clients, sync open",
            "load",
            "throughput"
        ),
        1e9
    );
}

// ioping.

#[test]
fn ioping_gives_the_mean_time_of_a_request_in_all_forms() {
    let mean = |name: &str, operation: &str| {
        value(
            &only(&golden(&format!("ioping/{name}"))),
            operation,
            "latency_mean",
        )
    };
    assert_eq!(mean("0.6-text.txt", "read"), 0.3 * 1e-3);
    assert_eq!(mean("0.9-text.txt", "read"), 278.0 * 1e-6);
    assert_eq!(mean("1.0-text.txt", "read"), 352.8 * 1e-6);
    assert_eq!(mean("1.3-text.txt", "read"), 201.6 * 1e-6);
    assert_eq!(mean("1.0-raw.txt", "request"), 758_101.0 * 1e-9 / 3.0);
    assert_eq!(mean("1.3-requests.json", "read"), 496_541.0 / 1e9 / 2.0);
    let run = only(&golden("ioping/1.3-text.txt"));
    let latency = series(&run, "read", "latency_mean");
    assert_eq!(
        (latency.unit, latency.better, latency.points[0].record_size),
        (Unit::Seconds, Better::Lower, Some(4096))
    );
    assert!((value(&run, "read", "latency_max") - 234.5e-6).abs() < 1e-15);
    assert!(
        run.series.iter().all(|one| one.unit == Unit::Seconds),
        "its iops are the inverse of the mean"
    );
}

#[test]
fn each_raw_line_is_an_execution_unless_it_is_of_a_period() {
    let runs = read_file(&golden("ioping/0.9-raw.txt")).unwrap();
    let means: Vec<f64> = runs
        .iter()
        .map(|run| value(run, "request", "latency_mean"))
        .collect();
    assert_eq!(means, [840.0 * 1e-6 / 4.0, 773.0 * 1e-6 / 4.0]);
    // The third line is the first period of -p 2 with -q, which prints no sum.
    let run = only(&golden("ioping/1.3-periods.txt"));
    let sum = 515_650.0 + 294_730.0 + 440_107.0;
    assert!(
        (value(&run, "request", "latency_mean") - sum / 6.0 / 1e9).abs() < 1e-15,
        "{:?}",
        run.series
    );
    assert_eq!(
        remarks(&run),
        ["3: the sum of 3 lines of periods of one execution (-p, -P)"]
    );
    let run = only(&golden("ioping/1.3-raw-periods.txt"));
    assert!((value(&run, "request", "latency_mean") - 1_181_474.0 / 6.0 / 1e9).abs() < 1e-15);
    assert_eq!(
        remarks(&run),
        ["4: the sum of the 3 lines before it (-p, -P)"]
    );
    let lines = "3 758101 3957 16208922 230084 252700 272206 17336 4 300413716\n".repeat(3);
    assert_eq!(parse_all("ioping", &lines).len(), 3);
}

#[test]
fn ioping_counts_failed_requests_as_a_failure() {
    let text = std::fs::read_to_string(golden("ioping/git-write.json")).unwrap();
    let run = parse("ioping", &text);
    assert_eq!(run.histograms[0].bins.len(), 2);
    let run = parse("ioping", &text.replace("\"failed\": 0", "\"failed\": 2"));
    assert!(
        failures(&run)[0].ends_with(": 2 requests failed"),
        "{:?}",
        failures(&run)
    );
    let text = std::fs::read_to_string(golden("ioping/1.3-text.txt")).unwrap();
    let run = parse(
        "ioping",
        &text.replace("request=3 time=140.9 us", "request=3 time=140.9 us (EIO)"),
    );
    assert_eq!(failures(&run), ["3: a request failed: EIO"]);
}

#[test]
fn a_killed_ioping_gives_no_value() {
    let text = std::fs::read_to_string(golden("ioping/1.3-text.txt")).unwrap();
    let message = refusal("ioping", &text[..text.find("\n---").unwrap()]);
    assert!(
        message.contains("SIGINT") && message.contains("min/avg/max/mdev"),
        "{message}"
    );
    let nothing = text.replace(
        "3 requests completed in 604.8 us, 12 KiB read",
        "0 requests completed in 0 ns, 0 B read",
    );
    let nothing = nothing.replace(
        "140.9 us / 201.6 us / 234.5 us / 43.0 us",
        "0 ns / 0 ns / 0 ns / 0 ns",
    );
    assert_eq!(
        series(&parse("ioping", &nothing), "read", "latency_mean").gaps[0].why,
        GapReason::Zero
    );
    let text = std::fs::read_to_string(golden("ioping/1.3-requests.json")).unwrap();
    let message = refusal("ioping", &text[..text.find("\"stat\"").unwrap()]);
    assert!(
        message.contains("line 49: the JSON is cut or damaged here"),
        "{message}"
    );
    assert_eq!(parse_all("ioping", &format!("{text}{text}")).len(), 2);
}

// stress-ng.

#[test]
fn the_rate_of_a_stressor_is_that_of_all_instances() {
    let run = only(&golden("stress-ng/0.15.06-hdd.yaml"));
    assert_eq!(run.version.as_deref(), Some("0.15.06"));
    assert_eq!(
        of(&run, "hdd, 2 instances", "bogo operation", "operation_rate"),
        24151.868984
    );
    assert_eq!(
        of(
            &run,
            "hdd, 2 instances",
            "bogo operation",
            "cpu_per_operation"
        ),
        1.0 / 41014.373727
    );
    let read = of(
        &run,
        "hdd, 2 instances",
        "read rate, mean of an instance",
        "throughput",
    );
    assert_eq!(read, 12444.108389 * 1_048_576.0);
    let run = only(&golden("stress-ng/0.15.06-two-stressors.yaml"));
    assert_eq!(
        of(
            &run,
            "fallocate, 1 instance",
            "bogo operation",
            "operation_rate"
        ),
        11.109172
    );
    let created = of(
        &run,
        "dentry, 2 instances",
        "file creation, mean of an instance",
        "latency_mean",
    );
    assert_eq!(created, 96509.631676 * 1e-9);
    assert!(run.warnings.is_empty());
}

/// The metrics of a later version, which lists each instance.
const INSTANCES: &str = "\
---
system-info:
      stress-ng-version: '0.19.02'
metrics:
    - stressor: hdd
      bogo-ops: 300
      bogo-ops-per-second-usr-sys-time: 100.000000
      bogo-ops-per-second-real-time: 150.000000
      wall-clock-time: 2.000000
      user-time: 1.000000
      system-time: 2.000000
      cpu-usage-per-instance: 50.000000
      max-rss: 2592
      instances:
          - instance: 0
            bogo-ops: 100
            bogo-ops-per-second-real-time: 50.000000
          - instance: 1
            bogo-ops: 200
            bogo-ops-per-second-real-time: 100.000000

...
";

#[test]
fn single_instances_of_stress_ng_are_not_read() {
    let run = parse("stress-ng", INSTANCES);
    assert_eq!(run.version.as_deref(), Some("0.19.02"));
    assert_eq!(
        of(&run, "hdd, 2 instances", "bogo operation", "operation_rate"),
        150.0
    );
    assert_eq!(run.series.len(), 2);
    let cut = INSTANCES.trim_end_matches("...\n");
    assert_eq!(
        remarks(&parse("stress-ng", cut)),
        [
            "the output ends early: the line '...' is missing; stress-ng was stopped, or the file is cut"
        ]
    );
    let message = refusal(
        "stress-ng",
        &INSTANCES[..INSTANCES.find("          - instance: 1").unwrap()],
    );
    assert!(
        message.ends_with("or the file is cut; the numbers of hdd are left out"),
        "{message}"
    );
}

#[test]
fn texts_that_are_not_read_name_the_option_that_helps() {
    let text = "stress-ng: info:  [1] setting to a 2 second run per stressor\nstress-ng: metrc: [1] hdd 47616 2.01\n";
    assert!(refusal("stress-ng", text).contains("--yaml FILE"));
    let text = "                   top test directory(s) : ['/srv']\n                            files/thread : 50\n";
    assert!(refusal("smallfile", text).contains("--output-json FILE"));
    for text in [
        "command,mean,stddev,median,user,system,min,max\n",
        "| Command | Mean [ms] | Min [ms] |\n",
    ] {
        assert!(refusal("hyperfine", text).contains("--export-json FILE"));
    }
}

// smallfile.

#[test]
fn smallfile_gives_the_rates_of_all_threads() {
    let run = only(&golden("smallfile/3.2-read.json"));
    assert_eq!(run.version.as_deref(), Some("3.2"));
    assert_eq!(
        of(&run, "read, 2 threads, 64 KiB", "read", "operation_rate"),
        147_848.558_348_818_8
    );
    assert_eq!(
        of(&run, "read, 2 threads, 64 KiB", "read", "throughput"),
        9_240.534_896_801_175 * 1_048_576.0
    );
    let point = series(&run, "read", "operation_rate").points[0];
    assert_eq!((point.line, point.file_size), (37, Some(64 << 10)));
    assert!(
        run.settings
            .iter()
            .any(|setting| setting.name == "files_per_thread" && setting.value == "200")
    );
    assert!(run.warnings.is_empty());
}

#[test]
fn a_smallfile_run_that_stopped_early_says_so_and_a_failed_one_has_no_value() {
    let path = golden("smallfile/3.2-create.json");
    let run = only(&path);
    assert!(
        remarks(&run)[0].contains("99.25 % of the files were processed"),
        "{:?}",
        remarks(&run)
    );
    assert!(failures(&run).is_empty() && run.series.iter().any(|one| !one.points.is_empty()));
    let fewer = std::fs::read_to_string(path)
        .unwrap()
        .replace("99.25", "40.5");
    let run = parse("smallfile", &fewer);
    assert!(
        failures(&run)[0].contains("40.50 % of the files were processed"),
        "{:?}",
        failures(&run)
    );
    assert!(run.series.iter().all(|one| one.points.is_empty()));
    let run = only(&golden("smallfile/3.2-uneven.json"));
    let text = "37: the threads did not end together: their rates add up to 4375 files/s, but all files took the time of \
                1849 files/s";
    assert_eq!(remarks(&run), [text]);
    let text = std::fs::read_to_string(golden("smallfile/3.2-read.json")).unwrap();
    let run = parse(
        "smallfile",
        &text.replace("\"Success\"", "\"No space left on device\""),
    );
    assert!(failures(&run)[0].ends_with("smallfile ended with status \"No space left on device\""));
    assert!(run.series.iter().all(|one| one.points.is_empty()));
    assert!(
        refusal("smallfile", &text[..text.len() - 2])
            .contains("its JSON is cut or damaged in line 6")
    );
    let synced = parse(
        "smallfile",
        &text.replace(
            "\"fsync_after_modify\": \"N\"",
            "\"fsync_after_modify\": \"Y\"",
        ),
    );
    assert_eq!(
        synced.series[0].workload.as_deref(),
        Some("read, 2 threads, 64 KiB, fsync")
    );
}
