//! fio's JSON, from real files.

use std::fs;

use fsb_model::set::{GapReason, Run};

use crate::{golden, only, parse, parse_all, remarks, series, shared, value};

/// Returns the failures of a run as texts with their lines.
fn failures(run: &Run) -> Vec<String> {
    let line = |line: Option<u32>| line.map_or(String::new(), |line| format!("{line}: "));
    run.failures
        .iter()
        .map(|failure| format!("{}{}", line(failure.line), failure.text))
        .collect()
}

/// Returns a report of fio 3.36 with one job that writes, a key a line: `error` is in line 5,
/// `total_ios` in line 8, `bw_bytes` in line 9.
fn report(error: &str, options: &str, total: &str, bandwidth: &str) -> String {
    format!(
        "{{\"fio version\": \"fio-3.36\",\n \"jobs\": [{{\n  \"jobname\": \"w\",\n  \"groupid\": 0,\n  \"error\": {error},\n  \
         {options}\n  \"write\": {{\n   \"total_ios\": {total},\n   \"bw_bytes\": {bandwidth},\n   \"iops\": 12207.03125}}}}]}}\n"
    )
}

/// Options of a job that writes.
const WRITES: &str = "\"job options\": {\"rw\": \"write\", \"bs\": \"4k\", \"size\": \"64m\"},";

fn fixture(name: &str) -> Run {
    only(&golden(&format!("fio/fio-3.33-{name}")))
}

#[test]
fn a_job_is_a_workload_and_each_direction_an_operation() {
    let run = only(&shared("tool-output/fio-3.33.json"));
    assert_eq!(run.version.as_deref(), Some("3.33"));
    let write = series(&run, "write", "throughput");
    assert_eq!(
        (write.workload.as_deref(), write.found_unit.as_str()),
        (Some("seqwrite"), "B/s")
    );
    let point = write.points[0];
    assert_eq!((point.value, point.line), (234_646_377.0, 70));
    assert_eq!(
        (point.file_size, point.record_size),
        (Some(256 << 20), Some(1 << 20))
    );
    assert_eq!(value(&run, "random_read", "operation_rate"), 29656.781073);
    assert_eq!(
        value(&run, "random_read", "latency_mean"),
        32911.637292 / 1e9
    );
    assert_eq!(
        value(&run, "random_read", "total_latency_mean"),
        32966.775831 / 1e9
    );
    assert_eq!(value(&run, "random_read", "latency_p99"), 92672.0 / 1e9);
    // 256 writes have no 99th percentile to speak of, and 89,000 reads no 99.9th.
    let percentiles = |operation: &str| {
        let of = run
            .series
            .iter()
            .filter(|series| series.operation == operation);
        of.filter(|series| series.metric.starts_with("latency_p"))
            .count()
    };
    assert_eq!((percentiles("write"), percentiles("random_read")), (1, 3));
    assert!(run.warnings.is_empty());
}

#[test]
fn json_plus_gives_counts() {
    let run = only(&shared("tool-output/fio-3.33-jsonplus.json"));
    assert_eq!(value(&run, "random_write", "throughput"), 183_319_544.0);
    let reads = &run.histograms[0];
    assert_eq!(
        (reads.workload.as_deref(), reads.operation.as_str()),
        (Some("randrw"), "random_read")
    );
    assert_eq!(reads.bins.iter().map(|bin| bin.1).sum::<u64>(), 313_015);
    assert_eq!(reads.bins[0], (46, 1));
}

#[test]
fn processes_of_one_job_are_added() {
    let run = fixture("per-job.json");
    assert_eq!(value(&run, "random_read", "throughput"), 26_292_232.0 * 2.0);
    assert_eq!(
        remarks(&run)[0],
        "job 'clone', random_read: the rates of 2 processes are added"
    );
    assert!(
        run.series
            .iter()
            .all(|series| !series.metric.starts_with("latency_p")),
        "percentiles cannot be added"
    );
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
    assert_eq!(
        value(&run, "write", "latency_p50"),
        median.unwrap().0 as f64 / 1e9
    );
    assert_eq!(run.histograms[1].operation, "sync");
}

#[test]
fn unified_reports_are_mixed() {
    let run = fixture("unified.json");
    assert!(run.series.iter().all(|series| series.operation == "mixed"));
    assert_eq!(value(&run, "mixed", "throughput"), 95_325_090.0);
    let run = fixture("both.json");
    assert_eq!(
        value(&run, "random_read", "throughput") + value(&run, "random_write", "throughput"),
        71_089_897.0
    );
    assert_eq!(value(&run, "mixed", "throughput"), 71_089_898.0);
}

#[test]
fn a_name_used_in_several_groups_gets_numbers() {
    let run = fixture("groups.json");
    let mut names: Vec<_> = run
        .series
        .iter()
        .filter_map(|series| series.workload.as_deref())
        .collect();
    names.dedup();
    assert_eq!(names, ["a", "a #2", "a #3"]);
    // The third counts total latency (--lat_percentiles); its percentiles are there all the same.
    let third = run.series.iter().find(|series| {
        series.workload.as_deref() == Some("a #3") && series.metric == "latency_p50"
    });
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
    assert_eq!(
        runs[1].series[0].points[0].line,
        70 + text.lines().count() as u32 + 3
    );
}

#[test]
fn a_cut_document_gives_its_whole_jobs() {
    let text = fs::read_to_string(shared("tool-output/fio-3.33.json")).unwrap();
    let second = text.find("\"jobname\" : \"randread\"").unwrap();
    let run = parse("fio", &text[..second + 2000]);
    assert!(
        run.series
            .iter()
            .all(|series| series.workload.as_deref() == Some("seqwrite"))
    );
    assert_eq!(
        (run.version.as_deref(), run.series[0].points[0].line),
        (Some("3.33"), 70)
    );
    assert!(
        remarks(&run)[0].contains("cut or damaged here"),
        "{:?}",
        remarks(&run)
    );
}

#[test]
fn a_value_that_is_not_a_number_is_left_out_by_line() {
    let text = fs::read_to_string(shared("tool-output/fio-3.33.json")).unwrap();
    let run = parse(
        "fio",
        &text.replace("\"iops\" : 223.776224", "\"iops\" : \"many\""),
    );
    assert_eq!(remarks(&run), ["72: '\"many\"' is not a number; left out"]);
    assert_eq!(value(&run, "write", "throughput"), 234_646_377.0);
    assert!(
        run.series
            .iter()
            .all(|series| (series.operation.as_str(), series.metric.as_str())
                != ("write", "operation_rate"))
    );
}

#[test]
fn a_direction_that_was_to_run_and_did_not_is_a_gap() {
    let text = "{\"fio version\": \"fio-3.1\", \"global options\": {\"rw\": \"rw\"}, \"jobs\": [{\"jobname\": \"j\", \"error\": 5,
        \"read\": {\"total_ios\": 3, \"bw_bytes\": 5, \"iops\": 2.5}, \"write\": {\"total_ios\": 0, \"bw_bytes\": 0, \"iops\": 0}}]}";
    let run = parse("fio", text);
    assert_eq!(
        series(&run, "write", "throughput").gaps[0].why,
        GapReason::Failed
    );
    assert_eq!(
        failures(&run),
        ["1: job 'j' failed: input/output error (5)"]
    );
    let run = parse("fio", &text.replace("\"error\": 5", "\"error\": 0"));
    assert_eq!(
        series(&run, "write", "throughput").gaps[0].why,
        GapReason::Zero
    );
    assert_eq!(value(&run, "read", "operation_rate"), 2.5);
}

#[test]
fn before_3_0_rates_were_kilobytes_and_times_microseconds() {
    let text = "{\"fio version\": \"fio-2.2.10\", \"jobs\": [{\"jobname\": \"j\", \"read\": {\"total_ios\": 9000, \"bw\": 5,
        \"iops\": 2.5, \"clat\": {\"mean\": 12.5, \"percentile\": {\"50.000000\": 9, \"0.00\": 0}}, \"lat\": {\"mean\": 13}}}]}";
    let run = parse("fio", text);
    assert_eq!(
        (
            value(&run, "read", "throughput"),
            value(&run, "read", "latency_mean")
        ),
        (5.0 * 1024.0, 12.5 / 1e6)
    );
    assert_eq!(
        (
            value(&run, "read", "latency_p50"),
            value(&run, "read", "total_latency_mean")
        ),
        (9.0 / 1e6, 13.0 / 1e6)
    );
    assert_eq!(series(&run, "read", "throughput").found_unit, "KiB/s");
}

#[test]
fn a_failed_job_has_no_value() {
    for (error, words) in [
        ("28", "no space left on device (28)"),
        ("84", "the data read is not the data written (84)"),
    ] {
        let run = parse("fio", &report(error, WRITES, "12207", "50000000"));
        assert_eq!(failures(&run), [format!("5: job 'w' failed: {words}")]);
        assert!(run.is_dead() && run.failures[0].workload.as_deref() == Some("w"));
        assert!(
            run.series
                .iter()
                .flat_map(|series| &series.gaps)
                .all(|gap| gap.why == GapReason::Failed)
        );
    }
    let run = parse("fio", &report("-nan", WRITES, "12207", "50000000"));
    assert!(run.is_dead() && failures(&run) == ["5: job 'w': its error is not a number: '-nan'"]);
    // The values of a job are the sum of its processes; one of them is missing.
    let text = report("0", WRITES, "12207", "50000000");
    let job = text[text.find("[{").unwrap() + 1..text.rfind(']').unwrap()].to_owned();
    let died = job.replace("\"error\": 0", "\"error\": 28");
    let run = parse("fio", &text.replace(&job, &format!("{job}, {job}, {died}")));
    assert!(run.is_dead() && failures(&run).len() == 1);
    let other = died.replace("\"w\"", "\"x\"");
    let run = parse("fio", &text.replace(&job, &format!("{job}, {other}")));
    assert_eq!(run.failures[0].workload.as_deref(), Some("x"));
    assert!(!run.is_dead());
}

#[test]
fn an_error_that_a_job_survived_is_a_failure_too() {
    let text = report(
        "0,\n\"total_err\": 3, \"first_error\": 5",
        WRITES,
        "12207",
        "50000000",
    );
    assert_eq!(
        failures(&parse("fio", &text)),
        ["6: job 'w' failed: input/output error (5)"]
    );
}

#[test]
fn real_output_of_a_full_disk_names_the_job_and_the_host() {
    let run = fixture("enospc.txt");
    assert_eq!(
        failures(&run),
        ["12: job 'w' failed: no space left on device (28)"]
    );
    assert!(run.is_dead() && remarks(&run)[1].starts_with("2: fio: pid=10889, err=28/file:io_u.c"));
    let run = fixture("client-enospc.txt");
    assert_eq!(
        failures(&run),
        ["16: job 'w' failed: no space left on device (28), host node-a"]
    );
    assert_eq!(value(&run, "random_read", "throughput"), 32_768_000.0);
    assert_eq!(remarks(&run)[2], "3: client <node-a>: exited with error 1");
}

#[test]
fn messages_around_the_report_are_kept() {
    let text = report("0", WRITES, "12207", "50000000");
    let after =
        "fio: pid=11, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device";
    let run = parse("fio", &format!("{text}{after}\n"));
    assert_eq!(remarks(&run), [format!("11: {after}")]);
    assert_eq!(
        failures(&run),
        ["11: fio reports: no space left on device (28)"]
    );
    assert!(run.is_dead());
    let run = parse(
        "fio",
        &format!("<node-a> error: failed to setup shm segment\n{text}done\n"),
    );
    assert_eq!(
        remarks(&run),
        ["1: <node-a> error: failed to setup shm segment"]
    );
    assert!(!run.is_dead() && run.failures.is_empty());
    let none = "<node-a> error: failed to setup shm segment\n{\"fio version\": \"fio-3.36\", \"jobs\": []}\n";
    let fio = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "fio")
        .unwrap();
    let error = (fio.read)(&mut none.as_bytes()).unwrap_err().to_string();
    assert!(
        error.contains("line 1: <node-a> error: failed to setup shm segment"),
        "{error}"
    );
}

/// Returns a report of several processes of job `w`, each with its host and its operations.
fn processes(options: &str, all: &[(&str, u32)]) -> String {
    let process = |(host, operations): &(&str, u32)| {
        let text = report(
            "0",
            options,
            &operations.to_string(),
            &(operations * 4096).to_string(),
        );
        let text = text.replace("12207.03125", &operations.to_string());
        let host = if host.is_empty() {
            String::new()
        } else {
            format!("\"hostname\": \"{host}\",\n\"error\"")
        };
        let job = text[text.find("[{").unwrap() + 1..text.rfind(']').unwrap()].to_owned();
        if host.is_empty() {
            job
        } else {
            job.replace("\"error\"", &host)
        }
    };
    let jobs: Vec<String> = all.iter().map(process).collect();
    format!(
        "{{\"fio version\": \"fio-3.36\",\n \"jobs\": [{}]}}\n",
        jobs.join(",")
    )
}

#[test]
fn a_process_that_did_nothing_fails_its_workload() {
    let none = processes(WRITES, &[("", 1000), ("", 1000), ("", 0)]);
    for options in [WRITES, ""] {
        let run = parse(
            "fio",
            &none
                .replace(WRITES, options)
                .replace("\"size\"", "\"numjobs\": \"3\", \"size\""),
        );
        let [failure] = &failures(&run)[..] else {
            panic!("{:?}", run.failures)
        };
        assert!(
            failure.ends_with("job 'w': 1 of 3 processes report no I/O"),
            "{failure}"
        );
        assert!(run.is_dead());
    }
    let text = processes("", &[("", 1000), ("", 1000)]);
    let time = parse(
        "fio",
        &text
            .replacen("\"bw_bytes\": 4096000", "\"bw_bytes\": 0", 1)
            .replacen("1000}", "0}", 1),
    );
    assert!(failures(&time)[0].ends_with("1 of 2 processes report no I/O") && time.is_dead());
}

#[test]
fn lost_processes_and_hosts_are_visible() {
    let setting = |run: &Run, name: &str| {
        run.settings
            .iter()
            .find(|setting| setting.name == name)
            .map(|setting| setting.value.clone())
            .unwrap_or_default()
    };
    let both = parse("fio", &processes(WRITES, &[("n1", 1000), ("n2", 1000)]));
    let one = parse("fio", &processes(WRITES, &[("n1", 1000)]));
    assert_eq!(
        ["processes", "hosts"].map(|name| setting(&both, name)),
        ["2", "2"]
    );
    assert_eq!(
        ["processes", "hosts"].map(|name| setting(&one, name)),
        ["1", "1"]
    );
    let options = WRITES.replace("\"size\"", "\"numjobs\": \"4\", \"size\"");
    let lost = parse(
        "fio",
        &processes(&options, &[("", 1000), ("", 1000), ("", 1000)]),
    );
    assert!(
        lost.is_dead() && failures(&lost) == ["job 'w': reports of 3 processes, but numjobs=4"]
    );
    // One report may be the sum of all processes.
    let group = parse("fio", &processes(&options, &[("", 1000)]));
    assert!(group.failures.is_empty() && setting(&group, "processes") == "4");
}

#[test]
fn a_terse_process_without_operations_fails_its_workload() {
    let text = fs::read_to_string(golden("fio/fio-3.33-terse3-processes.txt")).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut fields: Vec<&str> = first.split(';').collect();
    for at in (5..87)
        .filter(|at| !fields[*at].contains('%'))
        .collect::<Vec<_>>()
    {
        fields[at] = "0";
    }
    let run = parse("fio", &format!("{}\n{rest}", fields.join(";")));
    let processes = text.lines().count();
    assert_eq!(
        failures(&run),
        [format!(
            "1: job 't': 1 of {processes} processes report no I/O"
        )]
    );
    assert!(run.is_dead());
}

#[test]
fn lost_processes_and_clients_in_messages_are_failures() {
    let text = report("0", WRITES, "12207", "50000000");
    for message in [
        "fio: pid=1234, got signal=9",
        "<n1> fio: pid=1234, got signal=9",
        "fio: pid=1234 disappeared 5",
        "fio: job 'w' (state=5) hasn't exited in 300 seconds, it appears to be stuck. Doing forceful exit of this job.",
        "client <n1>: exited with error 1",
        "client: host=n1 disconnected",
        "fio: client n1, timeout on cmd QUIT",
        "fio: client n1 timed out",
    ] {
        for text in [format!("{message}\n{text}"), format!("{text}{message}\n")] {
            let run = parse("fio", &text);
            assert!(
                failures(&run).len() == 1 && failures(&run)[0].ends_with(message),
                "{message}: {:?}",
                run.failures
            );
            assert!(run.is_dead() && run.warnings.len() == 1);
        }
    }
    let terse = fs::read_to_string(golden("fio/fio-3.33-terse.txt")).unwrap();
    assert!(parse("fio", &format!("fio: pid=1234, got signal=9\n{terse}")).is_dead());
    // fio goes on after the first, and ended the processes itself after the second.
    for message in [
        "client <n1>: timeout on SEND_ETA",
        "fio: terminating on signal 2\n\nfio: pid=1234, got signal=9",
    ] {
        let run = parse("fio", &format!("{message}\n{text}"));
        assert!(
            run.failures.is_empty() && !run.warnings.is_empty(),
            "{message}"
        );
    }
}

#[test]
fn only_messages_of_fio_have_error_numbers() {
    let text = report("0", WRITES, "12207", "50000000");
    for other in [
        "+ rc=0 err=1",
        "err=5",
        "script: fio: pid=3, err=5",
        "(err=28)",
    ] {
        let run = parse("fio", &format!("{other}\n{text}"));
        assert!(
            run.failures.is_empty() && run.warnings.is_empty(),
            "{other}"
        );
    }
    for message in [
        "fio: pid=3, err=5/x",
        "<n1> fio: pid=3, err=5/x",
        "<n1> w: (groupid=0, jobs=1): err= 5 (file:x): pid=1",
    ] {
        let run = parse("fio", &format!("{message}\n{text}"));
        assert_eq!(
            failures(&run),
            ["1: fio reports: input/output error (5)"],
            "{message}"
        );
    }
}

#[test]
fn reports_in_any_order_are_runs() {
    let text = fs::read_to_string(shared("tool-output/fio-3.33.json")).unwrap();
    let at = |minute: i64| {
        let [seconds, milliseconds] = [
            1_795_189_389 + 60 * minute,
            1_795_189_389_228 + 60_000 * minute,
        ];
        let text = text.replace("1795189389228", &milliseconds.to_string());
        text.replace(
            "\"timestamp\" : 1795189389,",
            &format!("\"timestamp\" : {seconds},"),
        )
    };
    for order in [&[4, 3, 2, 1][..], &[1, 10, 11, 2, 3, 4]] {
        let documents: String = order.iter().map(|minute| at(*minute)).collect();
        assert_eq!(parse_all("fio", &documents).len(), order.len(), "{order:?}");
    }
    let failed = at(9).replacen("\"error\" : 0", "\"error\" : 28", 1);
    let runs = parse_all("fio", &[at(1), failed, at(2)].concat());
    assert_eq!(
        runs.iter()
            .map(|run| run.failures.len())
            .collect::<Vec<_>>(),
        [0, 1, 0]
    );
}

#[test]
fn long_names_of_jobs_are_cut() {
    let text = report("0", WRITES, "12207", "50000000");
    let long = "x".repeat(5000);
    let run = parse("fio", &text.replace("\"w\"", &format!("\"{long}\"")));
    assert_eq!(
        run.series[0].workload.as_deref(),
        Some(&*format!("{}…", &long[..200]))
    );
    assert!(
        run.settings
            .iter()
            .all(|setting| setting.workload == run.series[0].workload)
    );
}

#[test]
fn values_that_are_not_read_may_be_no_numbers() {
    for unread in [
        "-nan",
        "nan",
        "inf",
        "1.#QNAN",
        "-1",
        "\"x\"",
        "1,5",
        "{\"x\": [nan]}",
    ] {
        let text = report(
            "0",
            WRITES,
            "12207",
            &format!("50000000,\n\"bw_agg\": {unread}"),
        );
        let run = parse("fio", &text);
        assert_eq!(
            (value(&run, "write", "throughput"), run.warnings.len()),
            (5e7, 0),
            "{unread}"
        );
    }
    let twice = report("0,\n  \"error\": 0", WRITES, "12207", "50000000");
    assert!(parse("fio", &twice).warnings.is_empty());
}

#[test]
fn values_that_are_read_and_no_numbers_are_left_out_by_line() {
    for bad in ["-nan", "inf", "\"many\"", "50,000,000", "1e999"] {
        let run = parse("fio", &report("0", WRITES, "12207", bad));
        assert_eq!(
            remarks(&run),
            [format!("9: '{bad}' is not a number; left out")]
        );
        assert_eq!(value(&run, "write", "operation_rate"), 12207.03125);
    }
    let run = parse("fio", &report("0", WRITES, "-1", "50000000"));
    assert_eq!(remarks(&run), ["8: total_ios: '-1' is not a count"]);
    assert_eq!(value(&run, "write", "throughput"), 5e7);
    assert!(
        parse("fio", &report("0", WRITES, "12207.000000", "50000000"))
            .warnings
            .is_empty()
    );
    let run = parse(
        "fio",
        &report("0", WRITES, "12207", "50000000, \"bw_bytes\": 70000000"),
    );
    assert_eq!(
        remarks(&run),
        ["9: 'bw_bytes' is printed as 50000000 and as 70000000; left out"]
    );
    let run = parse("fio", &report("0", WRITES, "12207", "50000000,000000"));
    assert_eq!(value(&run, "write", "throughput"), 5e7);
    assert_eq!(
        remarks(&run),
        ["9: numbers have the decimal comma of a locale; it is read as a point"]
    );
}

#[test]
fn a_refusal_says_why_the_json_is_damaged() {
    let fio = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "fio")
        .unwrap();
    let refusal = |text: &str| (fio.read)(&mut text.as_bytes()).unwrap_err().to_string();
    let text = report("0", WRITES, "12207", "50000000");
    let error = refusal(&text.replace("\"groupid\": 0,", "\"groupid\": 0"));
    assert!(
        error.ends_with("; line 5: the JSON is cut or damaged here: expected `,` or `}`; no job before it is complete"),
        "{error}"
    );
    let error = refusal("{\"fio version\": \"fio-3.36\", \"jobs\": {}}");
    assert!(
        error.contains("invalid type: map, expected at most 10000 jobs"),
        "{error}"
    );
}

#[test]
fn without_options_only_the_direction_is_known() {
    let text = report(
        "0",
        "\"read\": {\"total_ios\": 0, \"bw_bytes\": 0, \"iops\": 0},",
        "12207",
        "50000000",
    );
    let run = parse("fio", &text);
    let point = series(&run, "write", "throughput").points[0];
    assert_eq!((point.file_size, point.record_size), (None, None));
    assert!(run.series.iter().all(|series| series.gaps.is_empty()));
    assert_eq!(
        run.settings
            .iter()
            .map(|setting| &*setting.name)
            .collect::<Vec<_>>(),
        ["processes"]
    );
    assert!(
        remarks(&run)[0].contains("access pattern, sizes and settings are unknown")
            && run.warnings.len() == 1
    );
}

#[test]
fn rates_and_counters_that_contradict_the_options_have_a_remark() {
    let run = parse("fio", &report("0", WRITES, "12207", "90000000"));
    let rates =
        "12207 operations a second of 4096 bytes are 50000000 B/s, and not 90000000 B/s as printed";
    assert_eq!(remarks(&run), [format!("9: job 'w', write: {rates}")]);
    let run = parse(
        "fio",
        &report(
            "0",
            &WRITES.replace("\"write\"", "\"randread\""),
            "12207",
            "50000000",
        ),
    );
    assert_eq!(
        remarks(&run),
        ["8: job 'w': 12207 operations of write, but rw=randread requests none"]
    );
    assert_eq!(series(&run, "random_write", "throughput").points.len(), 1);
    // The last block of a file may be shorter.
    let short = WRITES.replace("64m", "10k");
    assert!(
        parse("fio", &report("0", &short, "3", "45000000"))
            .warnings
            .is_empty()
    );
}

#[test]
fn options_may_be_printed_as_numbers() {
    let options = "\"job options\": {\"rw\": \"write\", \"bs\": 4096, \"iodepth\": 8},";
    let run = parse(
        "fio",
        &report("0", options, "12207", "50000000").replace("\"w\"", "7"),
    );
    let write = series(&run, "write", "throughput");
    assert_eq!(
        (write.workload.as_deref(), write.points[0].record_size),
        (Some("7"), Some(4096))
    );
    assert!(
        run.settings
            .iter()
            .any(|setting| setting.name == "iodepth" && setting.value == "8")
    );
}

#[test]
fn settings_of_jobs_are_kept() {
    let options = WRITES.replace(
        "\"bs\"",
        "\"ioengine\": \"libaio\", \"iodepth\": \"32\", \"rate_iops\": \"5k\", \"bs\"",
    );
    let run = parse("fio", &report("0", &options, "12207", "50000000"));
    let setting = |name: &str| {
        run.settings
            .iter()
            .find(|setting| setting.name == name)
            .map(|setting| &*setting.value)
    };
    let expected = [Some("libaio"), Some("32"), Some("5120"), Some("0"), None];
    assert_eq!(
        ["ioengine", "iodepth", "rate_iops", "direct", "fsync"].map(setting),
        expected
    );
    assert!(
        run.settings
            .iter()
            .all(|setting| setting.workload.as_deref() == Some("w"))
    );
}

#[test]
fn snapshots_without_milliseconds_are_not_runs() {
    let text = fs::read_to_string(golden("fio/fio-3.33-status.json")).unwrap();
    let without = |keys: &[&str]| -> String {
        let is_left_out = |line: &&str| keys.iter().any(|key| line.trim_start().starts_with(key));
        text.lines()
            .filter(|line| !is_left_out(line))
            .map(|line| format!("{line}\n"))
            .collect()
    };
    for keys in [
        &["\"timestamp_ms\""][..],
        &["\"timestamp_ms\"", "\"timestamp\""],
        &["\"timestamp\"", "\"timestamp_ms\"", "\"ctx\""],
    ] {
        let run = parse("fio", &without(keys));
        assert_eq!(
            value(&run, "random_read", "throughput"),
            52_893_131.0,
            "{keys:?}"
        );
    }
}

#[test]
fn a_cut_last_report_leaves_the_one_before_it_with_a_remark() {
    let text = fs::read_to_string(golden("fio/fio-3.33-status.json")).unwrap();
    let last = text.rfind("\"fio version\"").unwrap();
    let runs = parse_all("fio", &text[..last + 300]);
    let run = &runs[1];
    let remark = &remarks(run)[0];
    assert!(
        remark.contains("EOF while parsing")
            && remark.ends_with("the one before it may be of an earlier moment"),
        "{remark}"
    );
    assert!(run.warnings[0].line.unwrap() as usize >= text[..last].lines().count());
    assert!(run.failures[0].text.starts_with("it has no result") && runs[0].failures.is_empty());
}

// The terse reports.

#[test]
fn terse_reports_have_directions_without_sizes() {
    for (version, read, total) in [
        (3, 52_512.0, 7.393_465_2e-5),
        (5, 27_789.0, 1.308_599_47e-4),
    ] {
        let run = fixture(if version == 3 {
            "terse.txt"
        } else {
            "terse5.txt"
        });
        assert_eq!(value(&run, "read", "throughput"), read * 1024.0);
        assert_eq!(value(&run, "read", "total_latency_mean"), total);
        let point = series(&run, "read", "throughput").points[0];
        assert_eq!(
            (point.file_size, point.record_size, run.version.as_deref()),
            (None, None, Some("3.33"))
        );
        assert!(
            remarks(&run)
                .iter()
                .any(|remark| remark.contains("access pattern, sizes and settings are unknown"))
        );
    }
    // 132 reads in 19 ms: a tenth of them is not a hundred.
    let run = fixture("terse5.txt");
    assert!(
        run.series
            .iter()
            .all(|series| !series.metric.starts_with("latency_p"))
    );
    let run = fixture("terse4.txt");
    assert_eq!(
        value(&run, "write", "operation_rate"),
        series(&run, "write", "operation_rate").points[0].value
    );
}

#[test]
fn terse_lines_with_the_same_disks_are_processes_and_others_are_runs() {
    let text = fs::read_to_string(golden("fio/fio-3.33-terse3-processes.txt")).unwrap();
    let fields =
        |line: &str, at: usize| -> f64 { line.split(';').nth(at).unwrap().parse().unwrap() };
    let run = parse("fio", &text);
    let sum: f64 = text.lines().map(|line| fields(line, 47) * 1024.0).sum();
    assert_eq!(value(&run, "write", "throughput"), sum);
    assert_eq!(run.series[0].workload.as_deref(), Some("t"));
    let first = text.lines().next().unwrap();
    let runs = parse_all(
        "fio",
        &format!("{first}\n{}\n", first.replace(";vda;1;84;", ";vda;1;90;")),
    );
    assert_eq!(runs.len(), 2);
    let lines = first
        .replace(";vda;1;84;0;0;0;6;8;0.00%", "")
        .replace(";a; b", "");
    let fio = fsb_compat::TOOLS
        .iter()
        .find(|tool| tool.name == "fio")
        .unwrap();
    let error = (fio.read)(&mut format!("{lines}\n{lines}\n").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("lines 1 and 2 are of job 't' and tell nothing of disks"),
        "{error}"
    );
    let cached = first.replace(";vda;1;84;", ";vda;0;2;");
    assert!((fio.read)(&mut format!("{cached}\n{cached}\n").as_bytes()).is_err());
    let run = fixture("terse3-status.txt");
    assert_eq!(
        (
            value(&run, "read", "throughput"),
            value(&run, "read", "operation_rate")
        ),
        (1022.0 * 1024.0, 15.0)
    );
}

#[test]
fn many_terse_lines_and_empty_lines_are_read_in_linear_time() {
    let text = fs::read_to_string(golden("fio/fio-3.33-terse3-processes.txt")).unwrap();
    let line = text.lines().next().unwrap();
    let mut lines: String = (0..4000)
        .map(|job| format!("{}\n", line.replacen(";t;", &format!(";t{job};"), 1)))
        .collect();
    lines.push_str(&format!("{line}\n").repeat(4000));
    lines.push_str(&"\n".repeat(1_000_000));
    let run = parse("fio", &lines);
    let processes = run
        .settings
        .iter()
        .find(|setting| setting.workload.as_deref() == Some("t"));
    assert!(
        run.failures.is_empty() && run.series.len() > 4000,
        "{:?}",
        run.failures
    );
    assert!(processes.is_none_or(|setting| setting.value == "4000"));
}

#[test]
fn a_terse_error_that_the_next_line_lacks_is_of_another_run() {
    let text = fs::read_to_string(golden("fio/fio-3.33-terse3-status.txt")).unwrap();
    let error = text.replacen(";0;0;", ";0;28;", 1);
    let runs = parse_all("fio", &error);
    assert!(runs[0].is_dead() && runs.len() == 2, "{}", runs.len());
}

#[test]
fn errors_of_terse_reports_are_failures() {
    let text = fs::read_to_string(golden("fio/fio-3.33-terse.txt")).unwrap();
    let run = parse("fio", &text.replacen(";t;0;0;", ";t;0;28;", 1));
    assert!(run.is_dead() && failures(&run) == ["1: job 't' failed: no space left on device (28)"]);
    let text = fs::read_to_string(golden("fio/fio-3.33-terse3-processes.txt")).unwrap();
    let run = parse("fio", &text.replacen("%;0;0;a", "%;3;5;a", 1));
    assert_eq!(
        failures(&run),
        ["1: job 't' failed: input/output error (5)"]
    );
    let message =
        "fio: pid=11, err=28/file:io_u.c:1876, func=io_u error, error=No space left on device";
    let run = parse("fio", &format!("{message}\n{text}"));
    assert_eq!(
        failures(&run),
        ["1: fio reports: no space left on device (28)"]
    );
}

#[test]
fn bad_numbers_of_terse_reports_are_left_out() {
    let text = fs::read_to_string(golden("fio/fio-3.33-terse.txt")).unwrap();
    let run = parse("fio", &text.replacen(";52512;", ";-nan;", 1));
    assert!(remarks(&run).contains(&"1: '-nan' is not a number; left out".to_owned()));
    let cut = parse("fio", &format!("{text}{}", &text[..text.len() / 2]));
    assert!(remarks(&cut).contains(&"2: the line of a terse report is cut; left out".to_owned()));
    assert_eq!(value(&run, "read", "operation_rate"), 13128.0);
}
