//! `fsb postmark`: the calls, the text and the behaviour of PostMark.

use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::common::postmark::*;
use crate::common::{
    JSON, Running, assert_messages, command, expect_code, expect_error, expect_refused_plans,
    fails, message, scratch, stdout, succeeds, text_of, trials, wait_until,
};

// The output equals that of PostMark except for values of a finer clock.

#[test]
fn reports_and_settings_are_added_to_files_and_read_by_compare() {
    let directory = scratch();
    let lines = "set transactions 1000\nrun report\nrun report\nshow settings\nset report terse\nrun terse\nquit\n";
    let output = script(directory.path(), lines);
    expect_code(&output, 0);
    assert!(
        !stdout(&output).contains("seconds total"),
        "{}",
        stdout(&output)
    );
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    assert_eq!(read("report").matches("seconds total").count(), 2);
    assert!(read("settings").starts_with("Current configuration is:\n"));
    assert_eq!(read("terse").split_whitespace().count(), 13);
    let compared = succeeds(directory.path(), "compare report");
    assert!(
        stdout(&compared).contains("transaction") && !stdout(&compared).contains("whole seconds")
    );
}

#[test]
fn a_usual_file_is_read_and_files_load_each_other() {
    let directory = scratch();
    std::fs::write(directory.path().join(".pmrc"), "set number 77\nload more\n").unwrap();
    std::fs::write(directory.path().join("more"), "set transactions 88\n").unwrap();
    let output = pipe(command(directory.path(), "postmark"), "show\n");
    expect_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains(
        "Reading configuration from file '.pmrc'\nReading configuration from file 'more'\npm>"
    ));
    assert!(
        text.contains("The base number of files is 77\nTransactions: 88\n"),
        "{text}"
    );
}

#[test]
fn errors_are_reported_by_line_before_anything_is_done() {
    let directory = scratch();
    let mut all = String::new();
    for (lines, code) in [
        ("run\nset nomber 3\n", "postmark/invalid-command"),
        ("run\n\nset size 10k\n", "postmark/invalid-command"),
        ("load missing\n", "input/unreadable"),
        ("load script\n", "postmark/invalid-command"),
        ("set location nowhere\nrun\n", "directory/unusable"),
        ("run no/where\n", "output/unwritable"),
    ] {
        let output = script(directory.path(), lines);
        all += &format!("{lines}{}\n\n", text_of(&expect_error(&output, 2, code)));
        assert!(output.stdout.is_empty(), "{lines}: {}", stdout(&output));
    }
    fails(directory.path(), "postmark missing", 2, "input/unreadable");
    let piped = pipe(
        command(directory.path(), &["postmark", JSON]),
        "set number 3\nrum\nrun\n",
    );
    all += &text_of(&expect_error(&piped, 2, "postmark/invalid-command"));
    assert_messages("postmark", directory.path(), &all);
    assert!(!stdout(&piped).contains("Creating"));
}

// The workload in plans: suites, and the tables of published runs.

/// On the null file system everything except the calls is as on real ones, to the last digit.
#[test]
fn the_three_tests_have_the_rows_of_their_tables() {
    let directory = scratch();
    let run = |out: &str| {
        // One repetition per trial: the number that fits depends on this machine.
        let plan = "targets = ['ext2=null', 'ext3-journal=null']\nsuite = 'dordevic'\n\
                    [repetition]\nblocks = 2\nsample_time = '1ms'\n";
        std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
        let options = format!("run plan.toml --scale 1/16 --seed 1 --out {out}");
        let output = succeeds(directory.path(), &options);
        stdout(&output)
    };
    // Removes the times, the paths and the line breaks.
    let lasting = |text: &str, out: &str| {
        let lines = text
            .lines()
            .filter(|line| !line.contains(" · "))
            .flat_map(str::split_whitespace);
        let words = lines
            .collect::<Vec<_>>()
            .join(" ")
            .replace(&format!("{out}/"), "");
        // A run within one second does not print the time of further blocks.
        match words.split_once("(about ") {
            Some((before, time)) => {
                format!("{}{}", before.trim_end(), time.split_once(')').unwrap().1)
            }
            None => words,
        }
    };
    let text = run("one");
    assert!(
        text.contains("test 2: files of 1 to 1,000")
            && text.contains("Đorđević et al., tables 3 to 8"),
        "{text}"
    );
    let rows = [
        "test 1: read",
        "test 1: write",
        "test 2: read",
        "test 2: write",
        "test 3: read",
        "test 3: write",
    ];
    for row in rows {
        // Once with the values of fsb, twice with the published ones: five columns do not fit.
        assert_eq!(
            text.lines().filter(|line| line.starts_with(row)).count(),
            3,
            "{row}\n{text}"
        );
    }
    assert!(
        text.contains("4.67 MiB/s") && text.contains("reiserfs"),
        "{text}"
    );
    // In another results directory the second run finds no earlier run.
    assert_eq!(
        lasting(&text, "one"),
        lasting(&run("again/two"), "again/two"),
        "the same seed gives the same run"
    );
    let trials = trials(&directory.path().join("one"));
    let trial = trials.iter().find(|trial| trial["block"] == 1).unwrap();
    assert_eq!(
        trial["observed"]["counts"]["files_created"],
        trial["observed"]["counts"]["files_deleted"]
    );
    for metric in [
        "operation_rate",
        "read_rate",
        "write_rate",
        "create_rate",
        "delete_rate",
        "delete_alone_rate",
    ] {
        assert!(
            trial["metrics"]
                .as_array()
                .unwrap()
                .iter()
                .any(|found| found["name"] == metric),
            "{metric}"
        );
    }
    let table = std::fs::read_to_string(directory.path().join("one/trials.csv")).unwrap();
    assert!(table.contains(",read_rate,") && table.contains(",create_alone_rate,"));
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let directory = scratch();
    let plans = [
        "size_low = 9\nsize_high = 8",
        "bias_read = 11",
        "transaction = 3",
        "threads = 2\nprocesses = 2",
        "number = 0",
    ]
    .map(|parameters| {
        (
            format!("targets = ['null']\n[[workload]]\nname = 'postmark'\n{parameters}\n"),
            "plan/invalid-value",
        )
    });
    expect_refused_plans("postmark_plans", directory.path(), &plans);
}

// `fsb postmark` removes the files that it made, however it ends, and changes no others.

/// Commands that take minutes.
const ENDLESS: &str =
    "set number 300\nset transactions 2000000000\nset subdirectories 3\nrun\nset number 1\nrun\n";

#[test]
fn signals_end_it_and_it_cleans_up() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let directory = scratch();
        let running = start(directory.path(), ENDLESS);
        running.signal(signal);
        let output = running.wait();
        expect_error(&output, code, "run/interrupted");
        // Of two runs, the second does not begin.
        assert!(
            stdout(&output).matches("Creating files").count() <= 1,
            "{}",
            stdout(&output)
        );
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}

#[test]
fn a_killed_run_leaves_no_files() {
    let directory = scratch();
    let running = start(directory.path(), ENDLESS);
    running.signal(Signal::KILL);
    running.wait();
    wait_until("the files are gone", Duration::from_secs(30), || {
        listing(directory.path()).is_empty()
    });
}

#[test]
fn a_killed_worker_leaves_no_files_and_is_told() {
    let directory = scratch();
    let running = start(
        directory.path(),
        &ENDLESS.replace("set number 1\nrun\n", ""),
    );
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.id())).unwrap();
    let worker = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(worker, Signal::KILL).unwrap();
    let output = running.wait();
    expect_code(&output, 4);
    message(&output, "warning/run-failed");
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn names_that_are_taken_are_refused_and_others_left_alone() {
    let directory = scratch();
    let name = |name: &str| directory.path().join(name);
    for other in ["0", "01", "1001", "s", "s3", "note"] {
        std::fs::write(name(other), other).unwrap();
    }
    let lines = "set transactions 500\nset number 500\nrun\nset subdirectories 3\nrun\n";
    expect_code(&script(directory.path(), lines), 0);
    assert_eq!(
        listing(directory.path()),
        ["0", "01", "1001", "note", "s", "s3"]
    );
    for taken in ["17", "1000", "s0", "s2"] {
        std::fs::write(name(taken), "mine").unwrap();
        let error = expect_error(&script(directory.path(), lines), 2, "directory/unusable");
        assert_eq!(error["fields"]["name"], taken, "{error}");
        assert_eq!(std::fs::read(name(taken)).unwrap(), b"mine");
        std::fs::remove_file(name(taken)).unwrap();
    }
}

#[test]
fn a_pool_that_would_not_fit_is_refused_beforehand() {
    let directory = scratch();
    let output = script(
        directory.path(),
        "set size 1000000000\nset number 60000\nrun\n",
    );
    expect_error(&output, 3, "machine/no-space");
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
}

#[test]
fn a_pool_that_runs_empty_is_a_failed_run_and_the_next_one_follows() {
    let directory = scratch();
    let output = script(
        directory.path(),
        "set number 2\nset bias create 0\nrun\nset bias create 5\nset number 500\nrun\n",
    );
    expect_code(&output, 4);
    let text = stdout(&output);
    assert!(
        text.contains("out of files!\nFor this workload") && text.contains("seconds total"),
        "{text}"
    );
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn a_file_that_vanishes_ends_the_run_by_name_and_the_next_one_follows() {
    let directory = scratch();
    let lines = "set number 30\nset bias create -1\nset transactions 2000000000\nset bias read 10\nrun\n\
                 set transactions 100\nrun\n";
    let running = start(directory.path(), lines);
    wait_until("all files are there", Duration::from_secs(30), || {
        listing(directory.path()).len() == 30
    });
    std::fs::remove_file(directory.path().join("7")).unwrap();
    let output = running.wait();
    expect_code(&output, 4);
    let fields = message(&output, "warning/run-failed")["fields"].clone();
    assert_eq!(
        (&fields["place"], &fields["errno"]),
        (&"script:5".into(), &"ENOENT".into()),
        "{fields}"
    );
    assert!(stdout(&output).contains("seconds total"));
    assert_eq!(listing(directory.path()), Vec::<String>::new());
}

#[test]
fn a_file_with_other_bytes_is_found_out_where_that_is_asked_for() {
    for buffering in [true, false] {
        let directory = scratch();
        let lines = format!(
            "set buffering {buffering}\nset size 3000\nset number 30\nset bias create -1\nset bias read 10\n\
             set transactions 2000000000\nrun\n"
        );
        std::fs::write(directory.path().join("script"), lines).unwrap();
        let running = Running::start(directory.path(), &["postmark", "--verify", "script", JSON]);
        let whole = |name: &String| {
            std::fs::metadata(directory.path().join(name)).is_ok_and(|file| file.len() == 3000)
        };
        wait_until("all files are written", Duration::from_secs(30), || {
            let files = listing(directory.path());
            files.len() == 30 && files.iter().all(whole)
        });
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(directory.path().join("7"))
            .unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4], 1234).unwrap();
        let output = running.wait();
        expect_code(&output, 4);
        let fields = message(&output, "warning/run-failed")["fields"].clone();
        assert!(
            fields["reason"].as_str().unwrap().contains(" 7 ") && fields["errno"].is_null(),
            "{fields}"
        );
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}
