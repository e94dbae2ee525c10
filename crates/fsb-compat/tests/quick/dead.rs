//! Executions that ended before their result, in files with good ones, and rows that are damaged.

use std::fs;

use fsb_model::set::{GapReason, Run};

use crate::{golden, parse, parse_all, series, value};

/// Returns golden output of a tool.
fn text(name: &str) -> String {
    fs::read_to_string(golden(name)).unwrap()
}

/// Returns the output of two executions, the start of a third up to `end`, and that of a fourth.
fn with_dead(one: &str, end: &str) -> String {
    format!("{one}{one}{}{one}", &one[..one.find(end).unwrap()])
}

/// Returns the failures of each run.
fn failures(runs: &[Run]) -> Vec<Vec<String>> {
    runs.iter()
        .map(|run| {
            run.failures
                .iter()
                .map(|failure| failure.text.clone())
                .collect()
        })
        .collect()
}

const DEAD: &str = "it has no result: the execution ended before";

#[test]
fn an_execution_without_a_result_among_good_ones_is_a_failed_run() {
    let fio = text("fio/fio-3.33-per-job.json");
    let empty = "{\n  \"fio version\": \"fio-3.33\",\n  \"jobs\": []\n}\n";
    for (tool, all) in [
        (
            "pgbench",
            with_dead(&text("pgbench/18.6-tpcb.txt"), "latency average"),
        ),
        (
            "pgbench",
            with_dead(&text("pgbench/15.18-stderr-alone.txt"), "progress"),
        ),
        (
            "dbench",
            with_dead(&text("dbench/4.0-two-clients.txt"), "\n Operation"),
        ),
        ("ioping", with_dead(&text("ioping/1.3-text.txt"), "\n---")),
        (
            "stress-ng",
            with_dead(&text("stress-ng/0.15.06-hdd.yaml"), "metrics:"),
        ),
        (
            "fs_mark",
            with_dead(&text("fs_mark/3.3-three-iterations.txt"), "    70 "),
        ),
        (
            "sysbench",
            with_dead(&text("sysbench/1.0.20-seqrd.txt"), "File operations:"),
        ),
        (
            "mdtest",
            with_dead(&text("mdtest/4.1-three-iterations.txt"), "SUMMARY"),
        ),
        ("ior", with_dead(&text("ior/4.1-random.txt"), "write     ")),
        (
            "io500",
            with_dead(&text("io500/two-tasks-terminal.txt"), "[RESULT]"),
        ),
        (
            "postmark",
            with_dead(&text("postmark/1.53-two-runs.txt"), "Time:"),
        ),
        (
            "bonnie++",
            format!(
                "{}Writing intelligently...",
                text("bonnie++/2.00a-small.csv")
            ),
        ),
        ("fio", [&fio[..], empty].concat()),
    ] {
        let runs = parse_all(tool, &all);
        let dead: Vec<_> = failures(&runs)
            .into_iter()
            .filter(|texts| !texts.is_empty())
            .collect();
        assert_eq!(dead, [[DEAD]], "{tool}");
        assert!(
            runs.iter()
                .filter(|run| run.failures.is_empty())
                .all(|run| !run.is_dead()),
            "{tool}"
        );
    }
}

#[test]
fn preparation_in_a_file_of_results_does_not_count_as_failed() {
    let prepare = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\n1 files, 1024Kb each, 1Mb total\nCreating files for the test...\n";
    let cleanup = "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n\nRemoving test files...\n";
    let one = text("sysbench/1.0.20-seqrd.txt");
    let runs = parse_all("sysbench", &format!("{prepare}{one}{cleanup}"));
    assert!(
        runs.iter()
            .all(|run| run.failures.is_empty() && !run.is_dead())
    );
    let initialise = "dropping old tables...\ncreating tables...\nvacuuming...\ndone in 0.10 s.\n";
    let runs = parse_all(
        "pgbench",
        &format!("{initialise}{}", text("pgbench/18.6-tpcb.txt")),
    );
    assert_eq!((runs.len(), runs[0].failures.len()), (1, 0));
}

#[test]
fn a_killed_execution_is_not_joined_with_the_next_one() {
    let one = text("ioping/1.3-text.txt");
    let runs = parse_all("ioping", &with_dead(&one, "\n---"));
    assert_eq!(runs.len(), 4);
    // The killed execution ended with a message of the shell.
    let runs = parse_all(
        "ioping",
        &format!("{}\nKilled\n{one}", &one[..one.find("\n---").unwrap()]),
    );
    assert_eq!(failures(&runs), [vec!["Killed".to_owned()], Vec::new()]);
}

#[test]
fn messages_of_shells_and_slurm_are_failures_of_every_tool() {
    for (tool, name) in [
        ("pgbench", "pgbench/18.6-tpcb.txt"),
        ("dbench", "dbench/4.0-two-clients.txt"),
        ("fs_mark", "fs_mark/3.3-three-iterations.txt"),
        ("ioping", "ioping/1.3-text.txt"),
        ("stress-ng", "stress-ng/0.15.06-hdd.yaml"),
    ] {
        for message in [
            "Killed",
            "./run.sh: line 3: 12 Segmentation fault (core dumped)",
            "srun: error: node1: task 0: Killed",
        ] {
            let runs = parse_all(tool, &format!("{}{message}\n", text(name)));
            assert_eq!(failures(&runs), [[message]], "{tool}");
            assert!(runs[0].is_dead(), "{tool}");
        }
    }
}

#[test]
fn errors_of_clients_of_dbench_are_failures() {
    let one = text("dbench/4.0-two-clients.txt");
    for message in [
        "read failed on handle 10042",
        "[3] read 0 bytes, expected 4096",
        "[3] wrote 0 bytes, expected to write 4096 bytes in handle 10042",
        "(4) ERROR: handle 16385 was not found",
    ] {
        let run = parse(
            "dbench",
            &one.replacen("\n Operation", &format!("\n{message}\n\n Operation"), 1),
        );
        assert_eq!(failures(&[run]), [[message]]);
    }
}

/// Returns the reasons of the gaps of a series, with their lines.
fn gaps(run: &Run, operation: &str, metric: &str) -> Vec<(GapReason, u32)> {
    series(run, operation, metric)
        .gaps
        .iter()
        .map(|gap| (gap.why, gap.line))
        .collect()
}

#[test]
fn a_damaged_row_of_ior_is_a_gap_of_its_own_run() {
    let one = text("ior/4.1-random.txt");
    let row = one.find("\nwrite     ").unwrap() + 1;
    let line = one[..row].lines().count() as u32 + 1;
    let end = row + one[row..].find('\n').unwrap();
    let good = parse_all("ior", &one);
    let runs = parse_all("ior", &format!("{}{}", &one[..row + 40], &one[end..]));
    assert_eq!(runs.len(), good.len() + 1);
    let damaged = runs.last().unwrap();
    for metric in ["throughput", "operation_rate"] {
        assert_eq!(
            gaps(damaged, "random_write", metric),
            [(GapReason::Unreadable, line)]
        );
    }
    assert_eq!(damaged.series[0].workload, good[0].series[0].workload);
}

#[test]
fn numbers_that_are_none_are_gaps_with_their_line() {
    let tpcb = text("pgbench/18.6-tpcb.txt");
    let at = tpcb.find("tps = ").unwrap();
    let end = at + tpcb[at..].find(" (").unwrap();
    let line = tpcb[..at].lines().count() as u32 + 1;
    for number in ["inf", "-nan"] {
        let run = parse(
            "pgbench",
            &format!("{}tps = {number}{}", &tpcb[..at], &tpcb[end..]),
        );
        assert_eq!(
            gaps(&run, "transaction", "operation_rate"),
            [(GapReason::Unreadable, line)]
        );
    }
    let cut = parse("pgbench", &tpcb[..at]);
    assert_eq!(
        gaps(&cut, "transaction", "operation_rate"),
        [(GapReason::Failed, line - 1)]
    );
    let yaml = text("stress-ng/0.15.06-hdd.yaml");
    let rate = yaml.find("bogo-ops-per-second-real-time: ").unwrap() + 31;
    let end = rate + yaml[rate..].find('\n').unwrap();
    let run = parse(
        "stress-ng",
        &format!("{}nan{}", &yaml[..rate], &yaml[end..]),
    );
    assert!(
        gaps(&run, "bogo operation", "operation_rate")
            .iter()
            .all(|(why, _)| *why == GapReason::Unreadable)
    );
}

#[test]
fn a_report_of_sysbench_without_rates_has_gaps_for_those_of_its_test() {
    let one = text("sysbench/1.0.20-seqrd.txt");
    let run = parse("sysbench", &one.replace("    reads/s:", "    XX:"));
    assert_eq!(gaps(&run, "read", "operation_rate")[0].0, GapReason::Failed);
    let run = parse(
        "sysbench",
        &one.replace("    reads/s:  ", "    reads/s:  x"),
    );
    assert_eq!(
        gaps(&run, "read", "operation_rate")[0].0,
        GapReason::Unreadable
    );
}

#[test]
fn a_loop_of_fs_mark_without_its_row_is_a_gap() {
    let one = text("fs_mark/3.3-three-iterations.txt");
    let last = one.find("    70         1200").unwrap();
    let of = |run: &Run| {
        let name = "inband fsync, 2 threads, to 1200 files";
        let found = run
            .series
            .iter()
            .find(|series| series.workload.as_deref() == Some(name))
            .unwrap();
        (
            found.gaps[0].why,
            found.gaps[0].line,
            found.gaps[0].file_size,
        )
    };
    let run = parse("fs_mark", &one[..last]);
    assert_eq!(of(&run), (GapReason::Failed, 12, Some(4096)));
    let run = parse(
        "fs_mark",
        &one.replace(
            "    70         1200         4096",
            "    70         1200         x",
        ),
    );
    assert_eq!(of(&run), (GapReason::Unreadable, 13, Some(4096)));
    let run = parse(
        "fs_mark",
        &one.replace(
            "    70          400         4096",
            "    70          400         x",
        ),
    );
    assert!(run.is_dead() && run.failures[0].text.starts_with("its first row is damaged"));
}

#[test]
fn another_report_of_pgbench_starts_at_its_first_line() {
    let one = text("pgbench/18.6-tpcb.txt");
    let report = &one[one.find("transaction type: ").unwrap()..];
    let rate = value(&parse("pgbench", &one), "transaction", "operation_rate");
    let runs = parse_all("pgbench", &report.repeat(3));
    assert_eq!(
        runs.iter()
            .map(|run| value(run, "transaction", "operation_rate"))
            .collect::<Vec<_>>(),
        [rate; 3]
    );
    let progress = text("pgbench/15.18-stderr-alone.txt").replace("starting vacuum...end.\n", "");
    assert_eq!(parse_all("pgbench", &progress.repeat(2)).len(), 2);
    // A file of both outputs has the lines of stderr first.
    let banner = one.find("pgbench (18.6)\nstarting vacuum...end.\n");
    assert_eq!(banner, Some(0));
    let rest = &one["pgbench (18.6)\nstarting vacuum...end.\n".len()..];
    let both = format!(
        "starting vacuum...end.\nprogress: 1.0 s, 9.0 tps, lat 1.0 ms stddev 0.1\npgbench (18.6)\n{rest}"
    );
    let runs = parse_all("pgbench", &both.repeat(2));
    assert_eq!(
        runs.iter()
            .map(|run| value(run, "transaction", "operation_rate"))
            .collect::<Vec<_>>(),
        [rate; 2]
    );
    assert!(
        runs.iter()
            .all(|run| run.version.as_deref() == Some("18.6"))
    );
}

#[test]
fn names_of_scripts_of_pgbench_are_bounded() {
    let one = text("pgbench/16.2-two-scripts.txt");
    let section = one.find("SQL script 1").unwrap();
    let sections: String = (1..=30)
        .map(|number| {
            format!(
                "SQL script {number}: {}.sql\n - weight: 1 (targets 3.3% of total)\n",
                "x".repeat(9000)
            )
        })
        .collect();
    let run = parse("pgbench", &format!("{}{sections}", &one[..section]));
    let scripts = run
        .settings
        .iter()
        .find(|setting| setting.name == "scripts")
        .unwrap();
    assert!(scripts.value.len() < 3000, "{}", scripts.value);
}

#[test]
fn text_of_stress_ng_and_errors_of_pgbench_have_no_label() {
    let message = |content: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        fsb_compat::read_file(file.path())
    };
    let info = "stress-ng: info:  [12] dispatching hogs: 2 hdd\n".repeat(9);
    assert!(
        message(&info)
            .unwrap_err()
            .to_string()
            .contains("run stress-ng with --metrics and --yaml FILE")
    );
    let error = "pgbench: error: client 1 script 0 aborted in command 0 query 0: ERROR:  disk full";
    let runs = message(&format!("{error}\n").repeat(9)).unwrap();
    assert_eq!(failures(&runs), [[error]]);
    let early = format!(
        "Filebench Version 1.5-alpha3\n0.000: Allocated 173MB\n{}",
        "0.012: Failed to create thread\n".repeat(9)
    );
    assert_eq!(
        failures(&message(&early).unwrap()),
        [["0.012: Failed to create thread"]]
    );
    let json = text("fio/fio-3.33-per-job.json");
    let numbered: String = json
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{:6}\t{line}\n", at + 1))
        .collect();
    assert!(
        message(&numbered)
            .unwrap_err()
            .to_string()
            .contains(r"sed -E 's/^ *[0-9]+\t//' FILE > NEW")
    );
    let terse = message("2;job;0;0;1;2;3;4\n").unwrap_err().to_string();
    assert!(
        terse.contains(
            "it is a terse report of fio in version 2; fsb reads versions 3 to 5 and JSON"
        ),
        "{terse}"
    );
}

#[test]
fn times_that_are_printed_rounded_have_the_resolution_of_their_last_digit() {
    for (tool, name, resolution) in [
        ("dbench", "dbench/4.0-two-clients.txt", 1e-6),
        ("sysbench", "sysbench/1.0.20-seqrd.txt", 1e-5),
        ("pgbench", "pgbench/18.6-tpcb.txt", 1e-6),
        ("fs_mark", "fs_mark/3.3-verbose.txt", 1e-6),
        ("ioping", "ioping/1.3-text.txt", 1e-7),
        ("ioping", "ioping/0.6-text.txt", 1e-4),
        ("ioping", "ioping/0.9-raw.txt", 1e-6),
        ("ioping", "ioping/1.3-raw.txt", 1e-9),
    ] {
        let found = parse_all(tool, &text(name))[0].clock_resolution.unwrap();
        assert!((found / resolution - 1.0).abs() < 1e-9, "{name}: {found}");
    }
}
