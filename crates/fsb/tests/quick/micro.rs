//! `fsb micro`: the 2023 tool's command line.

use std::fs;

use crate::common::*;

#[test]
fn samples_are_exported_and_the_statistics_are_theirs() {
    let scratch = scratch();
    for (operation, extra) in [
        ("create", &["--fileCount", "20"][..]),
        ("read", &["--blockSize", "16", "--block-count", "8", "--random"]),
        ("write", &["--blockSize", "16", "--blockCount", "8", "--random", "1"]),
    ] {
        let common = ["--output", ".", "--iterations", "12", "--runCount", "9", "--exportOutput", "out.csv"];
        let arguments =
            [&["micro", operation][..], &common, &["--multiThreaded", "--threadCount", "2"], extra].concat();
        let output = fsb(scratch.path(), &arguments);
        expect_code(&output, 0);
        let exported = fs::read_to_string(scratch.path().join("out.csv")).unwrap();
        let samples: Vec<f64> = exported.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(samples.len(), 9, "{exported}");
        assert!(samples.iter().all(|sample| *sample > 0.0));
        let text = stdout(&output);
        for line in ["mean", "median", "standard deviation", "99 %", "99.9 %"] {
            assert!(text.contains(line), "{operation}: {line} in {text}");
        }
        fs::remove_file(scratch.path().join("out.csv")).unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "{operation} left something");
    }
}

#[test]
fn settings_are_read_and_the_command_line_wins() {
    let scratch = scratch();
    fs::write(
        scratch.path().join("settings.ini"),
        "output=.\nbenchmark=create\nfileCount=5\niterations=2\nrunCount=7\nsink=console,file\nlogFile=my.log\nminLogLevel=debug\n",
    )
    .unwrap();
    let output = fsb(scratch.path(), &["micro", "--runCount", "4"]);
    expect_code(&output, 0);
    assert!(stdout(&output).contains("4 cycles"), "{}", stdout(&output));
    let log = fs::read_to_string(scratch.path().join("my.log")).unwrap();
    assert!(log.contains("[debug] cycle 4:") && log.contains("[info]"), "{log}");
    let quiet = fsb(scratch.path(), &["micro", "--minLogLevel", "error"]);
    expect_code(&quiet, 0);
    assert!(quiet.stdout.is_empty(), "{}", stdout(&quiet));
}

#[test]
fn few_iterations_stay_in_one_thread_and_say_so() {
    let scratch = scratch();
    let arguments = ["micro", "create", "--output", ".", "--fileCount", "3", "--runCount", "2", "--multiThreaded"];
    let output = fsb_json(scratch.path(), &arguments);
    expect_code(&output, 0);
    message(&output, "warning/one-thread");
}

/// Listing 6.6 of the thesis names no operation, and its tool has no subcommands.
#[test]
fn the_command_of_the_thesis_runs_and_a_directory_need_not_be_named() {
    let scratch = scratch();
    let thesis = ["--fileCount", "1", "--iterations", "3", "--blockSize", "4", "--blockCount", "64", "--random", "1"];
    let asked = fsb_json(scratch.path(), &[&["--output", "."][..], &thesis].concat());
    expect_code(&asked, 2);
    let error = message(&asked, "arguments/unknown-option");
    assert!(error["help"].as_str().unwrap().contains("fsb micro --output . --fileCount 1"), "{error}");
    let output = fsb(scratch.path(), &[&["micro", "--output", "."][..], &thesis].concat());
    expect_code(&output, 0);
    assert!(stdout(&output).contains("mean"), "{}", stdout(&output));
    let elsewhere = command(scratch.path(), &[&["micro", JSON, "--runCount", "2"][..], &thesis].concat())
        .env("TMPDIR", scratch.path())
        .output()
        .unwrap();
    expect_code(&elsewhere, 0);
    message(&elsewhere, "warning/default-directory");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}
