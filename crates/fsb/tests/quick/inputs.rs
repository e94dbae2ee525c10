//! Input files may be devices that never end, pipes without a writer, sparse files, or lines
//! without end: fsb refuses them at once, with their name, and without filling the memory.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::bad_input::*;
use crate::common::{JSON, command, error_of, expect_code, scratch, stderr, stdout};

/// The time after which a hanging program is killed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The end of the program.
struct Ended {
    code: Option<i32>,
    said: String,
    /// The largest observed resident size in KiB.
    peak: u64,
}

/// Runs a command to its end, or kills it, and watches its memory. The kernel forgets the peak with
/// the process, so the loop reads it repeatedly; the peak never falls.
fn watch(command: &mut Command) -> Ended {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = std::thread::spawn(move || {
        let (mut said, mut more) = (Vec::new(), Vec::new());
        let other = std::thread::spawn(move || err.read_to_end(&mut more).map(|_| more));
        out.read_to_end(&mut said).unwrap();
        said.extend(other.join().unwrap().unwrap());
        String::from_utf8_lossy(&said).into_owned()
    });
    let (status, started, mut peak) = (format!("/proc/{}/status", child.id()), Instant::now(), 0);
    let code = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let high = text.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        });
        peak = high.unwrap_or(peak);
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ended {
        code,
        said: reading.join().unwrap(),
        peak,
    }
}

fn pipe(path: &Path) {
    let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, owner, 0).unwrap();
}

fn device(path: &Path) {
    std::os::unix::fs::symlink("/dev/zero", path).unwrap();
}

fn socket(path: &Path) {
    // Its name stays when it is closed.
    drop(UnixListener::bind(path).unwrap());
}

fn sparse(path: &Path) {
    fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
}

fn run_directory(path: &Path) {
    let record = r#"{"schema": "fsbench/run/1", "name": "ext4", "cells": [], "plan": {"name": "quick", "targets": [],
        "workloads": [], "repetition": {"blocks": {"blocks": 5}}, "seed": 1, "size": "2G", "dir": ".", "theta": 0.03}}"#;
    fs::create_dir(path).unwrap();
    fs::write(path.join("run.json"), record).unwrap();
    fs::write(path.join("trials.jsonl"), "").unwrap();
}

/// Requests that read a file, as arguments and the name of the file; `BAD` is replaced by a bad
/// file.
const READ: &[(&[&str], &str)] = &[
    (&["compare", "BAD", "BAD"], "bad"),
    (&["compare", "a=BAD,BAD"], "bad"),
    (&["compare", "run"], "run/run.json"),
    (&["compare", "run"], "run/trials.jsonl"),
    (&["report", "run"], "run/run.json"),
    (&["report", "run"], "run/trials.jsonl"),
    (&["run", "--resume", "run"], "run/run.json"),
    (&["run", "--resume", "run"], "run/trials.jsonl"),
    (&["run", "BAD"], "plan.toml"),
    (&["run", "null", "--tree", "BAD"], "tree"),
    (&["filebench", "BAD"], "load.f"),
    (&["fio", "BAD"], "job.fio"),
    (&["postmark", "BAD"], "commands"),
    (&["micro", "create", "--output", "."], "settings.ini"),
];

#[test]
fn only_regular_files_are_read_anywhere() {
    let mut codes = String::new();
    let kinds = [
        ("pipe", pipe as fn(&Path)),
        ("device", device),
        ("socket", socket),
        ("sparse file", sparse),
    ];
    for (arguments, name) in READ {
        for (kind, make) in kinds {
            let scratch = scratch();
            run_directory(&scratch.path().join("run"));
            let bad = scratch.path().join(name);
            let _ = fs::remove_file(&bad);
            make(&bad);
            let arguments: Vec<String> = arguments
                .iter()
                .map(|word| word.replace("BAD", name))
                .collect();
            let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let Ended { code, said, peak } = watch(command(scratch.path(), &words).arg(JSON));
            let error = said
                .lines()
                .last()
                .and_then(|line| serde_json::from_str::<Value>(line).ok())
                .expect(&said);
            codes += &format!(
                "{} with a {kind} as {name}: {}\n",
                words.join(" "),
                error["code"].as_str().unwrap()
            );
            assert_eq!(code, Some(2), "{words:?}: {said}");
            assert!(peak < 250 << 10, "{words:?}: {peak} KiB");
        }
    }
    insta::assert_snapshot!(codes);
}

#[test]
fn a_pipe_of_the_shell_is_read_and_bounded() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/iozone-here/ext4");
    let script = "cat ext4_1.iozone | \"$FSB\" compare one=ext4_2.iozone other=/dev/stdin";
    let mut shell = Command::new("sh");
    let Ended { code, said, .. } = watch(
        shell
            .args(["-c", script])
            .env("FSB", crate::common::FSB)
            .current_dir(&testdata),
    );
    assert_eq!(code, Some(0), "{said}");
    // The beginning of an IOzone file, and then endless zeros.
    let script = "{ cat ext4_1.iozone; cat /dev/zero; } | \"$FSB\" compare one=ext4_2.iozone other=/dev/stdin";
    let mut shell = Command::new("sh");
    let shell = shell.env("FSB_MESSAGE_FORMAT", "json");
    let Ended { code, said, .. } = watch(
        shell
            .args(["-c", script])
            .env("FSB", crate::common::FSB)
            .current_dir(&testdata),
    );
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("\"compare/unreadable\""), "{said}");
}

/// Writes files of IOzone with different numbers.
fn many(directory: &Path, files: usize) {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FULL)).unwrap();
    fs::create_dir(directory).unwrap();
    for number in 0..files {
        let mut file = std::io::BufWriter::new(
            fs::File::create(directory.join(format!("{number}.iozone"))).unwrap(),
        );
        for (row, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.len() < 10 || words.iter().any(|word| word.parse::<u64>().is_err()) {
                writeln!(file, "{line}").unwrap();
                continue;
            }
            for (place, word) in words.iter().enumerate() {
                let value: u64 = word.parse().unwrap();
                // Keep the number of digits, so that columns stay aligned.
                let varied = value
                    + (number as u64 * 7919 + row as u64 * 31 + place as u64 * 17)
                        % (value / 10).max(1);
                write!(file, "{:>10}", if place < 2 { value } else { varied }).unwrap();
            }
            writeln!(file).unwrap();
        }
    }
}

/// A table of all of IOzone's operations.
const FULL: &str = "../../testdata/iozone-2010/xfs/xfs1.iozone";

/// 5,000 files need less than 200 MB. The default is fewer files; `FSB_MEMORY_FILES` sets their
/// number.
#[test]
fn the_memory_of_a_comparison_is_that_of_its_numbers() {
    let files = std::env::var("FSB_MEMORY_FILES").map_or(600, |text| text.parse().unwrap());
    let scratch = scratch();
    many(&scratch.path().join("a"), files / 2);
    many(&scratch.path().join("b"), files / 2);
    // The program itself, built without optimization, and threads with one file each; then the
    // numbers.
    let bound = (70 << 10) + files as u64 * 26;
    // A page draws means, and a detail shows the values of one operation: neither holds all values.
    // Shorter forms of the same comparison, such as the first screen, need less.
    let forms: [&[&str]; 3] = [
        &["-o", "page.html"],
        &["--detail", "write", "-o", "detail.html"],
        &["--detail", "write", "-o", "detail.csv"],
    ];
    for form in forms {
        let Ended { code, said, peak } = watch(&mut command(
            scratch.path(),
            &[&["compare", "a", "b"], form].concat(),
        ));
        assert_eq!(code, Some(0), "{said}");
        eprintln!("{files} files, {form:?}: {peak} KiB, at most {bound}");
        assert!(peak < bound, "{files} files, {form:?}: {peak} KiB");
    }
    let detail = fs::read_to_string(scratch.path().join("detail.html")).unwrap();
    assert!(
        detail.contains(&format!("run {}", files / 2)),
        "every run is in the detail"
    );
}

/// Two directories as a plan stores them.
const TARGETS: &str =
    r#""targets": [{"name": "ext4", "directory": "/a"}, {"name": "xfs", "directory": "/b"}]"#;

/// Writes a run of `lines` trials of two targets. Each trial has `padding` characters in place of a
/// histogram.
fn long_run(directory: &Path, lines: usize, padding: usize) {
    run_directory(directory);
    let record = fs::read_to_string(directory.join("run.json")).unwrap();
    let record = record.replacen("\"targets\": []", TARGETS, 1);
    fs::write(directory.join("run.json"), record).unwrap();
    let mut journal =
        std::io::BufWriter::new(fs::File::create(directory.join("trials.jsonl")).unwrap());
    let padding = "A".repeat(padding);
    for line in 0..lines {
        let (block, target) = (line / 20 + 1, ["ext4", "xfs"][line % 2]);
        let workload = line / 2 % 10;
        let value = 1e8 + (line * 7919 % 1_000_003) as f64;
        let trial = format!(
            r#"{{"schema":"fsbench/trial/1","id":"b{block}.{target}.{workload}","phase":"measured","block":{block},"order":{line},"attempt":1,"target":"{target}","kernel":"6.18","workload":"write {workload}","operation":"write","params":{{"name":"write","block_size":4096,"file_size":1048576,"files":{workload}}},"started":"2026-01-01T00:00:00Z","outcome":"ok","metrics":[{{"name":"throughput","value":{value},"unit":"bytes_per_second","better":"higher"}}],"latency":{{"write":"{padding}"}},"observed":{{"mount_options":["rw"],"seen":[1,2,3]}}}}"#
        );
        let trial: Value = serde_json::from_str(&trial).unwrap();
        journal
            .write_all(&fsb_store::journal_line(&trial).unwrap())
            .unwrap();
    }
    journal.into_inner().unwrap();
}

/// Runs a command on the run `run` of `lines` trials, and on one of few. What it needs more must be
/// less than 8 MiB and `per_line` bytes a trial. The program itself takes more on one kernel than
/// on another, and how much of its file is mapped differs by 4 MiB from start to start.
fn expect_memory(directory: &Path, arguments: &[&str], lines: usize, per_line: usize) {
    let few = directory.join("few");
    if !few.exists() {
        fs::create_dir(&few).unwrap();
        long_run(&few.join("run"), 40, 50);
    }
    let peak_in = |directory: &Path| {
        let Ended { code, said, peak } = watch(&mut command(directory, arguments));
        assert_eq!(code, Some(0), "{said}");
        peak
    };
    // The first start maps less of a program that the page cache does not hold yet.
    let least = peak_in(&few).max(peak_in(&few));
    let peak = peak_in(directory);
    let bound = least + (8 << 10) + ((lines * per_line) >> 10) as u64;
    eprintln!("{arguments:?}, {lines} trials: {peak} KiB, at most {bound}, {least} for few");
    assert!(peak < bound, "{arguments:?}: {peak} KiB for {lines} trials");
}

/// A journal of many trials whose histograms would fill the memory.
#[test]
fn a_long_journal_is_compared_in_the_memory_of_its_values() {
    let megabytes: usize =
        std::env::var("FSB_MEMORY_MEGABYTES").map_or(48, |text| text.parse().unwrap());
    let scratch = scratch();
    let lines = (megabytes << 20) / 3600;
    long_run(&scratch.path().join("run"), lines, 3000);
    for (arguments, per_line) in [(["compare", "run"], 400), (["report", "run"], 600)] {
        expect_memory(scratch.path(), &arguments, lines, per_line);
    }
}

/// The page and the tables of a long run are larger than the memory that `fsb report` may use for
/// it. `FSB_MEMORY_TRIALS` sets the number of trials.
#[test]
fn a_report_in_any_format_needs_the_memory_of_its_values() {
    let lines: usize =
        std::env::var("FSB_MEMORY_TRIALS").map_or(24_000, |text| text.parse().unwrap());
    let scratch = scratch();
    long_run(&scratch.path().join("run"), lines, 50);
    for file in ["page.html", "trials.csv", "report.json", "report.txt"] {
        expect_memory(scratch.path(), &["report", "run", "-o", file], lines, 640);
    }
    let page = fs::read_to_string(scratch.path().join("page.html")).unwrap();
    let size = if lines > 20_000 {
        lines.div_ceil(4_000)
    } else {
        1
    };
    assert!(page.contains(&format!(
        "The page shows medians of {size} consecutive blocks, each with the range of its trials"
    )));
    assert!(!page.contains("id=\"data\""), "the page holds every trial");
    let table = fs::read_to_string(scratch.path().join("trials.csv")).unwrap();
    assert_eq!(table.lines().count(), lines + 1);
}

// Bad input causes no panic, starts no work, and gets its error.

#[test]
fn bad_input_has_its_exit_code_and_error_code() {
    assert!(TABLE.len() >= 60, "{}", TABLE.len());
    let mut wrong = Vec::new();
    for (line, exit, code) in TABLE {
        let (output, _scratch) = run_line(line, "json");
        let error = error_of(&output);
        if output.status.code() != Some(*exit) || error["code"] != *code {
            let found = output.status.code();
            wrong.push(format!(
                "fsb {line}\n  wanted {exit} {code}, got {found:?}: {}",
                stderr(&output)
            ));
        }
        let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(
            stderr(&output).lines().all(is_json),
            "fsb {line}: {}",
            stderr(&output)
        );
        assert!(
            error["help"].as_str().is_some_and(|help| !help.is_empty()),
            "fsb {line}: {error}"
        );
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        TABLE.len(),
        wrong.join("\n")
    );
}

#[test]
fn fields_name_what_an_error_is_about() {
    let expect = |line: &str, expected: serde_json::Value| {
        let (output, scratch) = run_line(line, "json");
        let directory = scratch.path().display().to_string();
        let found = error_of(&output)["fields"]
            .to_string()
            .replace(&directory, "DIR");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&found).unwrap(),
            expected,
            "{line}"
        );
    };
    expect(
        "run DIR/unknown-key.toml",
        json!({ "path": "DIR/unknown-key.toml", "line": 2, "column": 1 }),
    );
    expect("run --nonsense ext4", json!({ "argument": "--nonsense" }));
    expect(
        "run null --blocks many",
        json!({ "argument": "--blocks <N>", "value": "many" }),
    );
    expect("report DIR/full", json!({ "path": "DIR/full" }));
    expect(
        "run DIR/missing",
        json!({ "path": "DIR/missing", "errno": "ENOENT" }),
    );
    expect("run exxt4@loop", json!({ "name": "exxt4" }));
    let newer = json!({ "path": "DIR/newer/run.json", "found": "fsbench/run/9", "expected": "fsbench/run/1" });
    expect("report DIR/newer", newer);
}

/// The option has the same effect as the variable and takes precedence.
#[test]
fn the_option_chooses_the_format_of_messages() {
    let scratch = scratch();
    let is_json = |arguments: &[&str], format: &str| {
        let output = command(scratch.path(), arguments)
            .env("FSB_MESSAGE_FORMAT", format)
            .output()
            .unwrap();
        expect_code(&output, 2);
        assert_eq!(
            stderr(&output).starts_with("error: "),
            error_of(&output).is_null(),
            "{}",
            stderr(&output)
        );
        !error_of(&output).is_null()
    };
    assert!(is_json(
        &["--message-format", "json", "run", "exxt4"],
        "text"
    ));
    assert!(!is_json(&["run", "exxt4", "--message-format=text"], "json"));
    // A format that does not exist is refused in text.
    assert!(!is_json(
        &["list", "suites", "--message-format=xml"],
        "json"
    ));
    assert!(!is_json(&["list", "suites"], "xml"));
}

/// The text of every message of the table.
#[test]
fn messages_of_bad_input_match_their_snapshot() {
    let mut messages = String::new();
    for (line, _, _) in TABLE {
        let (output, scratch) = run_line(line, "text");
        let directory = scratch.path().display().to_string();
        let text = format!("{}{}", stderr(&output), stdout(&output)).replace(&directory, "DIR");
        // Usage and lists of options belong to the snapshots of help.
        let text = text.split("\n\n").next().unwrap_or_default();
        messages += &format!("$ fsb {line}\n");
        for line in text.trim_end().lines() {
            // Lines of a log begin with their time.
            match line.split_once("Z [") {
                Some((time, text)) if time.starts_with("20") => {
                    messages += &format!("TIME [{text}\n");
                }
                _ => messages += &format!("{line}\n"),
            }
        }
        messages.push('\n');
    }
    insta::assert_snapshot!("bad_input_messages", messages);
}

#[test]
fn a_file_of_another_command_gets_one_message_that_names_it() {
    const FILES: [(&str, &str, &str); 6] = [
        (
            "result.json",
            "{\n \"fio version\": \"fio-3.36\",\n \"jobs\": [\n  {\n  }\n ]\n}\n",
            "fsb compare",
        ),
        ("job.fio", "[global]\nrw=erase\nsize=1m\n[a]\n", "fsb fio"),
        (
            "work.f",
            "define fileset name=x,path=/tmp\nrun 10\n",
            "fsb filebench",
        ),
        (
            "mail.pm",
            "set location /no/such/directory\nset number 50\nrun\n",
            "fsb postmark",
        ),
        (
            "io.log",
            "fio version 2 iolog\nf walk 1 2\n",
            "fsb trace import",
        ),
        ("app.trace", "fsbtrace\u{1}", "fsb trace show"),
    ];
    let directory = scratch();
    for (name, text, _) in FILES {
        fs::write(directory.path().join(name), text).unwrap();
    }
    for reader in [
        "fsb fio",
        "fsb filebench",
        "fsb postmark",
        "fsb report",
        "fsb trace show",
        "fsb trace import",
    ] {
        for (name, _, owner) in FILES {
            let mut arguments: Vec<&str> = reader.split(' ').skip(1).chain([name]).collect();
            arguments.extend(
                reader
                    .ends_with("import")
                    .then_some(["-o", "new.trace"])
                    .into_iter()
                    .flatten(),
            );
            let output = command(directory.path(), &arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            expect_code(&output, 2);
            let text = stderr(&output);
            assert_eq!(
                text.contains(&format!("'{owner}' reads it")),
                reader != owner,
                "{reader} {name}: {text}"
            );
            assert!(
                reader == owner || text.lines().count() <= 3,
                "{reader} {name}: {text}"
            );
        }
    }
}
