//! `fsb micro`: the 2023 tool's command line.

use std::fs;
use std::path::Path;

use crate::common::*;

#[test]
fn samples_are_exported_and_the_statistics_are_theirs() {
    let scratch = scratch();
    for (operation, extra) in [
        ("create", &["--fileCount", "20"][..]),
        (
            "read",
            &["--blockSize", "16", "--block-count", "8", "--random"],
        ),
        (
            "write",
            &["--blockSize", "16", "--blockCount", "8", "--random", "1"],
        ),
    ] {
        let common = words("--output . --iterations 12 --runCount 9 --exportOutput out.csv");
        let arguments = [
            &["micro", operation][..],
            &common,
            &["--multiThreaded", "--threadCount", "2"],
            extra,
        ]
        .concat();
        let output = succeeds(scratch.path(), &arguments);
        let exported = fs::read_to_string(scratch.path().join("out.csv")).unwrap();
        let samples = samples(&exported);
        assert_eq!(samples.len(), 9, "{exported}");
        assert!(samples.iter().all(|sample| *sample > 0.0));
        let text = stdout(&output);
        let (_, statistics) = text.split_once("time of an iteration:").unwrap();
        let (of_iteration, of_cycle) = statistics.split_once("duration of a cycle:").unwrap();
        for (statistics, unit) in [(of_iteration, "µs"), (of_cycle, "ms")] {
            for name in [
                "mean",
                "median",
                "standard deviation",
                "95th percentile",
                "99 % interval",
                "99.9 % interval",
            ] {
                let line = statistics
                    .lines()
                    .find(|line| line.contains(&format!("  {name} ")));
                assert!(
                    line.is_some_and(|line| line.ends_with(unit)),
                    "{operation}: {name} in {text}"
                );
            }
        }
        let value = |statistics: &str, name: &str| -> f64 {
            let (_, rest) = statistics.split_once(&format!("  {name} ")).unwrap();
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let mean = samples.iter().sum::<f64>() / 9.0;
        assert!(
            (value(of_iteration, "mean") - mean).abs() < 0.002,
            "{mean} in {text}"
        );
        // Two threads make twelve iterations.
        assert!(
            value(of_cycle, "mean") * 1e3 * 2.0 + 1.0 > mean * 12.0,
            "{text}"
        );
        fs::remove_file(scratch.path().join("out.csv")).unwrap();
        assert_eq!(
            fs::read_dir(scratch.path()).unwrap().count(),
            0,
            "{operation} left something"
        );
    }
}

#[test]
fn a_report_draws_the_cycles_over_iterations_and_time() {
    let scratch = scratch();
    let arguments = words("micro create --output . --fileCount 3 --iterations 5 --runCount 4");
    let more = ["--warmupCycleCount", "2", "--report", "a.html"];
    succeeds(scratch.path(), &[&arguments[..], &more].concat());
    let page = fs::read_to_string(scratch.path().join("a.html")).unwrap();
    let (_, chart) = page
        .split_once("id=\"cycles-0\"")
        .expect("the page has the diagram");
    let (_, figure) = chart
        .split_once("\"xaxis\":\"x\"")
        .map_or(("", chart), |(before, after)| (before, after));
    assert!(
        figure.contains("iterations") && figure.contains("seconds from the first cycle"),
        "{figure}"
    );
    // Four cycles of five iterations.
    assert!(
        chart.contains("\"x\":[5,10,15,20]"),
        "{}",
        &chart[..2000.min(chart.len())]
    );
    let refused = fails(
        scratch.path(),
        &[&arguments[..], &["--report", "a.docx"]].concat(),
        2,
        "output/unknown-format",
    );
    assert!(
        refused["message"].as_str().unwrap().contains("docx"),
        "{refused}"
    );
}

/// Returns the samples of an export, which has the columns of Appendix C.
fn samples(exported: &str) -> Vec<f64> {
    let rows = exported
        .strip_prefix("#,value,unit\n")
        .unwrap()
        .lines()
        .zip(1..);
    let value = |(row, number): (&str, u32)| {
        let rest = row
            .strip_prefix(&format!("{number},"))
            .unwrap_or_else(|| panic!("{row} is not number {number}"));
        rest.strip_suffix(",µs").unwrap().parse().unwrap()
    };
    rows.map(value).collect()
}

#[test]
fn lines_have_time_and_level_and_the_phases_are_logged() {
    let scratch = scratch();
    let arguments = words("micro create --output . --fileCount 3 --runCount 4");
    let output = succeeds(scratch.path(), &arguments);
    let text = stdout(&output);
    let lines: Vec<(&str, &str)> = text
        .lines()
        .map(|line| line.split_once(" [info] ").expect(line))
        .collect();
    assert!(
        lines
            .iter()
            .all(|(time, _)| time.parse::<jiff::Timestamp>().is_ok()),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert_eq!(lines[0].1, "estimate: 7 cycles of 10 iterations:");
    assert_eq!(lines[1].1, "  210 files created");
    let phases = &lines[2..8];
    assert_eq!(
        phases.iter().map(|(_, text)| *text).collect::<Vec<_>>(),
        [
            "warm-up begins: 3 cycles",
            "warm-up ends",
            "measurement begins: 4 cycles",
            "measurement ends",
            "clean-up begins",
            "clean-up ends"
        ]
    );
    assert!(phases.is_sorted_by_key(|(time, _)| *time), "{text}");
    assert!(
        lines
            .iter()
            .any(|(_, text)| text.starts_with("directory: ")),
        "{text}"
    );
}

#[test]
fn each_option_of_the_2023_tool_has_a_line_of_help() {
    let scratch = scratch();
    let output = succeeds(scratch.path(), "micro --help");
    let text = stdout(&output);
    let options = [
        "output",
        "benchmark",
        "file-count",
        "block-size",
        "block-count",
        "random",
        "iterations",
        "run-count",
        "use-warmup",
        "warmup-cycle-count",
        "multi-threaded",
        "thread-count",
        "export-output",
        "uid",
        "gid",
        "force-root-user",
        "min-log-level",
        "sink",
        "log-file",
        "log-format",
    ];
    for option in options {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.trim_start().starts_with(&format!("--{option} ")))
            .collect();
        let [line] = lines[..] else {
            panic!("--{option} has lines {lines:?} in {text}")
        };
        let (_, help) = line
            .split_once("  ")
            .and_then(|(_, rest)| rest.trim_start().split_once("  "))
            .unwrap();
        assert!(
            help.trim().len() > 10 && line.chars().count() <= 100,
            "{line}"
        );
    }
}

#[test]
fn a_precision_adds_blocks_until_it_is_reached() {
    let scratch = scratch();
    let tiny = words("micro create --output . --fileCount 2 --runCount 2 --exportOutput out.csv");
    let output = succeeds(
        scratch.path(),
        &[&tiny[..], &["--precision", "100%", "--budget", "5m"]].concat(),
    );
    let text = stdout(&output);
    assert!(
        text.contains("reached after") && text.contains("(±100 % requested)"),
        "{text}"
    );
    // Nothing sets the iterations and the warm-up, so a pilot does.
    assert!(
        text.contains("pilot: 20 cycles of 10 iterations") && text.contains("chosen: "),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let exported = samples(&fs::read_to_string(scratch.path().join("out.csv")).unwrap());
    assert!(
        exported.len() >= 10,
        "five blocks of two cycles: {exported:?}"
    );
}

#[test]
fn a_precision_that_the_budget_does_not_reach_is_a_warning() {
    let scratch = scratch();
    let arguments = words("micro create --output . --fileCount 2 --runCount 2");
    let set = words("--iterations 3 --useWarmup false --precision 0.01% --budget 2s");
    let output = fsb_json(scratch.path(), &[&arguments[..], &set].concat());
    expect_code(&output, 0);
    message(&output, "warning/micro-imprecise");
    assert!(!stdout(&output).contains("pilot"), "{}", stdout(&output));
    let alone = fsb_json(
        scratch.path(),
        &[&arguments[..], &["--budget", "2s"]].concat(),
    );
    expect_code(&alone, 2);
}

#[test]
fn settings_are_read_and_the_command_line_wins() {
    let scratch = scratch();
    fs::write(
        scratch.path().join("settings.ini"),
        "output=.\nbenchmark=create\nfileCount=5\niterations=2\nrunCount=7\nsink=console,file\nlogFile=my.log\nminLogLevel=debug\n",
    )
    .unwrap();
    let output = succeeds(scratch.path(), "micro --runCount 4");
    assert!(stdout(&output).contains("4 cycles"), "{}", stdout(&output));
    let log = fs::read_to_string(scratch.path().join("my.log")).unwrap();
    assert!(
        log.contains("[debug] cycle 4:") && log.contains("[info]"),
        "{log}"
    );
    let quiet = succeeds(scratch.path(), "micro --minLogLevel error");
    assert!(quiet.stdout.is_empty(), "{}", stdout(&quiet));
}

#[test]
fn few_iterations_stay_in_one_thread_and_say_so() {
    let scratch = scratch();
    let arguments = words("micro create --output . --fileCount 3 --runCount 2 --multiThreaded");
    let output = fsb_json(scratch.path(), &arguments);
    expect_code(&output, 0);
    message(&output, "warning/one-thread");
}

#[test]
fn threads_without_work_are_a_warning() {
    let scratch = scratch();
    let arguments = words("micro create --output . --fileCount 3 --runCount 2 --iterations 12");
    let threads = words("--multiThreaded --threadCount 13");
    let output = fsb_json(scratch.path(), &[&arguments[..], &threads].concat());
    expect_code(&output, 0);
    let warning = message(&output, "warning/idle-threads");
    let text = warning["message"].as_str().unwrap();
    assert!(text.starts_with("1 of 13 threads"), "{text}");
}

#[test]
fn every_message_goes_through_the_log() {
    let scratch = scratch();
    let common = words("micro create --output . --fileCount 3 --runCount 2 --multiThreaded");
    let run = |more: &str| succeeds(scratch.path(), &[&common[..], &words(more)].concat());
    let silent = run("--minLogLevel error");
    assert_eq!(
        (stdout(&silent), stderr(&silent)),
        (String::new(), String::new())
    );
    let filed = run("--sink file --logFile a.log");
    assert_eq!(
        (stdout(&filed), stderr(&filed)),
        (String::new(), String::new())
    );
    let log = fs::read_to_string(scratch.path().join("a.log")).unwrap();
    for line in log.lines() {
        let (time, _) = line.split_once(" [").expect(line);
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{line}");
    }
    assert!(
        log.contains(" [warning] 10 iterations or fewer run in one thread"),
        "{log}"
    );
    // Fields of programs are in the log as well.
    let json = run("--sink console,file --logFile b.log --logFormat json");
    let log = fs::read_to_string(scratch.path().join("b.log")).unwrap();
    let mut levels = Vec::new();
    for line in log.lines() {
        let object: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(
            object["time"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .is_ok()
        );
        assert!(!object["message"].as_str().unwrap().is_empty());
        levels.push(object["level"].as_str().unwrap().to_owned());
    }
    assert!(levels.contains(&"warning".to_owned()) && levels.contains(&"info".to_owned()));
    let printed = stdout(&json).lines().count() + stderr(&json).lines().count();
    assert_eq!(printed, log.lines().count(), "{log}");
}

#[test]
fn errors_are_in_the_log_and_on_the_console() {
    let scratch = scratch();
    let arguments =
        words("micro write --output . --sink file --blockCount 1000000 --blockSize 1048576");
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, 3);
    let log = fs::read_to_string(scratch.path().join("fsb.log")).unwrap();
    for text in [stderr(&output), log] {
        assert!(
            text.contains(" [error] this run needs ") && text.contains("help: lower --blockCount"),
            "{text}"
        );
        assert!(!text.contains("--size"), "{text}");
    }
    assert!(stdout(&output).is_empty(), "{}", stdout(&output));
}

#[test]
fn users_are_named_and_unknown_ones_refused() {
    let scratch = scratch();
    for (arguments, code) in [
        (
            "micro --output . --uid no-such-user",
            "micro/invalid-option",
        ),
        (
            "micro --output . --gid no-such-group",
            "micro/invalid-option",
        ),
        ("run null --uid no-such-user", "arguments/invalid-value"),
    ] {
        let refused = fails(scratch.path(), arguments, 2, code);
        let text = refused["message"].as_str().unwrap();
        assert!(text.contains("this machine has no"), "{text}");
    }
}

#[test]
fn an_empty_tmpdir_is_none() {
    let scratch = scratch();
    let arguments = words("micro create --fileCount 2 --runCount 2");
    let output = command(scratch.path(), &[&arguments[..], &[JSON]].concat())
        .env("TMPDIR", "")
        .output()
        .unwrap();
    expect_code(&output, 0);
    let warning = message(&output, "warning/default-directory");
    let text = warning["message"].as_str().unwrap();
    assert!(text.ends_with("measuring /tmp"), "{text}");
}

/// Listing 6.6 of the thesis names no operation, and its tool has no subcommands.
#[test]
fn the_command_of_the_thesis_runs_and_a_directory_need_not_be_named() {
    let scratch = scratch();
    let thesis = words("--fileCount 1 --iterations 3 --blockSize 4 --blockCount 64 --random 1");
    let asked = fsb_json(scratch.path(), &[&["--output", "."][..], &thesis].concat());
    expect_code(&asked, 2);
    let error = message(&asked, "arguments/unknown-option");
    assert!(
        error["help"]
            .as_str()
            .unwrap()
            .contains("fsb micro --output . --fileCount 1"),
        "{error}"
    );
    let output = succeeds(
        scratch.path(),
        &[&["micro", "--output", "."][..], &thesis].concat(),
    );
    assert!(stdout(&output).contains("mean"), "{}", stdout(&output));
    let elsewhere = command(
        scratch.path(),
        &[&["micro", JSON, "--runCount", "2"][..], &thesis].concat(),
    )
    .env("TMPDIR", scratch.path())
    .output()
    .unwrap();
    expect_code(&elsewhere, 0);
    message(&elsewhere, "warning/default-directory");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn help_on_one_option_has_its_forms_and_nothing_is_measured() {
    let scratch = scratch();
    for asked in ["--help-option=fileCount", "--help-option=--file-count"] {
        let output = succeeds(scratch.path(), &["micro", asked]);
        assert_eq!(
            stdout(&output),
            "--fileCount N, --file-count N\nsettings.ini: fileCount = N\n\nFiles per iteration [create: 1000, else: 1].\n"
        );
    }
    let output = fsb(scratch.path(), "micro --help-option random");
    assert!(
        stdout(&output).contains("Without a value it means true."),
        "{}",
        stdout(&output)
    );
    let error = fails(
        scratch.path(),
        "micro --help-option fileCont",
        2,
        "micro/invalid-option",
    );
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("did you mean 'fileCount'"),
        "{error}"
    );
}

/// Writes samples with this mean in microseconds, as the 2023 tool does.
fn write_samples(directory: &Path, name: &str, mean: f64) {
    let rows = (1..=20).map(|number| {
        let value = mean * (1.0 + 0.02 * f64::from(number % 5 - 2));
        format!("{number},{value:.3},µs\n")
    });
    let text = format!("#,value,unit\n{}", rows.collect::<String>());
    fs::write(directory.join(name), text).unwrap();
}

#[test]
fn samples_of_one_run_a_side_are_described_and_of_three_judged() {
    let scratch = scratch();
    for run in 1..=3 {
        let between = 1.0 + 0.001 * f64::from(run);
        write_samples(scratch.path(), &format!("old-{run}.csv"), 100.0 * between);
        write_samples(scratch.path(), &format!("new-{run}.csv"), 150.0 * between);
    }
    let compare = |sets: [&str; 2]| {
        let arguments = [&["compare"][..], &sets, &["--format", "json"]].concat();
        json(scratch.path(), &arguments)
    };
    let single = compare(["old=old-1.csv", "new=new-1.csv"]);
    let set = &single["sets"][1];
    assert_eq!(set["runs"], 1);
    let operation = &single["operations"][0];
    let against = &operation["estimate"]["against"]["new"];
    assert_eq!(against["verdict"], "not_judged");
    let classic = &operation["classic"];
    assert_eq!(classic["sets"]["old"]["n"], 20);
    assert_eq!(classic["against"]["new"]["t_verdict"], "DIFF");

    let several = compare(["old=old-*.csv", "new=new-*.csv"]);
    let against = &several["operations"][0]["estimate"]["against"]["new"];
    assert_eq!(
        (&against["verdict"], &against["n"]),
        (&"slower".into(), &3.into())
    );
    let ratio = against["ratio"].as_f64().unwrap();
    assert!((ratio - 1.5).abs() < 1e-3, "{ratio}");
}

#[test]
fn published_samples_stand_beside_own_ones() {
    let scratch = scratch();
    write_samples(scratch.path(), "mine.csv", 20_000.0);
    let arguments = words("compare pokorny-2023/ext4/C.1 mine.csv --format json");
    let document = json(scratch.path(), &arguments);
    // The thirty cycles of the table.
    let classic = &document["operations"][0]["classic"]["sets"]["C.1"];
    assert_eq!(classic["n"], 30);
    let arguments = words("compare pokorny-2023 -o samples/");
    succeeds(scratch.path(), &arguments);
    let table = fs::read_to_string(
        scratch
            .path()
            .join("samples/create-1000-files-iteration_time.csv"),
    );
    let table = table.unwrap();
    assert!(table.contains("0.144738"), "{table}");
    let list = stdout(&succeeds(scratch.path(), &words("list pokorny-2023")));
    assert!(list.contains("ext2, ext4, btrfs, ntfs, C.1"), "{list}");
    let wrong = words("compare pokorny-2023/xfs mine.csv");
    let error = fails(scratch.path(), &wrong, 2, "input/unreadable");
    let help = error["help"].as_str().unwrap_or_default();
    assert!(help.starts_with("the parts of pokorny-2023 are"), "{error}");
}
