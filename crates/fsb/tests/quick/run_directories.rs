//! `--out` of the commands with the options of other tools: the run directory that they keep.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::*;

/// Returns the record of a run, after checks that hold for the run directory of every tool.
fn kept(directory: &Path, out: &str, tool: &str) -> Value {
    let record = record_of(&directory.join(out));
    assert_eq!(record["schema"], "fsbench/run/1");
    assert_eq!(record["emulation_of"]["command"], tool);
    assert!(!record["host"]["kernel"].as_str().unwrap().is_empty());
    for target in record["targets"].as_object().unwrap().values() {
        assert!(!target["mount_options"].as_array().unwrap().is_empty());
    }
    let report = succeeds(directory, &["report", out, "--format", "json"]);
    let report: Value = serde_json::from_str(&stdout(&report)).unwrap();
    assert_eq!(report["schema"], "fsbench/report/1");
    record
}

fn record_of(run: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(run.join("run.json")).unwrap()).unwrap()
}

/// Returns the number of files below a directory.
fn files(directory: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        count += if is_directory {
            files(&entry.path())
        } else {
            1
        };
    }
    count
}

fn blocks(run: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for trial in trials(run) {
        let label = trial["workload"].as_str().unwrap().to_owned();
        found.push((label, trial["block"].as_u64().unwrap()));
    }
    found
}

#[test]
fn micro_keeps_its_samples_and_two_runs_are_compared() {
    let scratch = scratch();
    let path = scratch.path();
    for out in ["a", "b"] {
        let line = "micro create --output . --fileCount 5 --iterations 3 --runCount 4 --out";
        succeeds(path, &[&words(line)[..], &[out]].concat());
    }
    kept(path, "a", "micro");
    let trials = trials(&path.join("a"));
    assert_eq!(trials.len(), 1, "the cycles of one process are one trial");
    let samples = &trials[0]["observed"]["seconds_per_iteration"];
    assert_eq!(samples.as_array().unwrap().len(), 4);
    let output = fs::read_to_string(path.join("a/output.txt")).unwrap();
    assert!(output.contains("time of an iteration:"), "{output}");
    let compared = succeeds(path, "compare a b");
    assert!(stdout(&compared).contains("micro create 5 files"));
    fails(path, "run --resume a", 2, "run/not-resumable");
    let refused = fails(
        path,
        "micro create --output . --out a",
        2,
        "store/not-empty",
    );
    let text = refused.to_string();
    assert!(!text.contains("--resume"), "{text}");
}

#[test]
fn micro_ends_within_a_cycle_after_a_signal() {
    let scratch = scratch();
    let path = scratch.path();
    fs::create_dir(path.join("d")).unwrap();
    let line =
        "micro create --output d --fileCount 100 --iterations 1000000 --runCount 2 --out kept";
    let running = Running::start(path, &words(line));
    wait_until("files are there", Duration::from_secs(60), || {
        files(&path.join("d")) > 0
    });
    running.signal(Signal::INT);
    expect_code(&running.wait(), 130);
    let trials = trials(&path.join("kept"));
    if let [trial] = &trials[..] {
        assert_eq!(
            trial["error"],
            "interrupted before the first measured cycle"
        );
    }
    assert_eq!(files(&path.join("d")), 0);
}

#[test]
fn micro_keeps_the_cycles_that_ended_before_a_signal() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = scratch();
        let path = scratch.path();
        fs::create_dir(path.join("d")).unwrap();
        let line = "micro create --output d --fileCount 5 --iterations 3 --runCount 100000 --warmupCycleCount 1 \
                    --exportOutput c.csv --out kept";
        let running = Running::start(path, &words(line));
        wait_until("files are there", Duration::from_secs(60), || {
            files(&path.join("d")) > 0
        });
        running.signal(signal);
        let output = running.wait();
        expect_code(&output, code);
        let csv = fs::read_to_string(path.join("c.csv")).unwrap_or_default();
        let cycles = csv.lines().count().saturating_sub(1);
        if cycles == 0 {
            // The signal came before the first cycle ended.
            continue;
        }
        let said = format!("interrupted after {cycles} of 100000 cycles");
        let log = fs::read_to_string(path.join("kept/output.txt")).unwrap();
        assert!(
            log.contains(&said) && log.contains("time of an iteration:"),
            "{log}"
        );
        let trials = trials(&path.join("kept"));
        let samples = &trials[0]["observed"]["seconds_per_iteration"];
        assert_eq!(samples.as_array().unwrap().len(), cycles);
        assert!(kept(path, "kept", "micro")["stop_reason"].is_null());
        assert_eq!(files(&path.join("d")), 0);
    }
}

#[test]
fn iozone_keeps_a_matrix_and_the_rows_before_a_signal() {
    let scratch = scratch();
    let path = scratch.path();
    succeeds(
        path,
        "iozone -a -n 64 -g 128 -y 32 -q 64 -i 0 -f f --out run",
    );
    let record = kept(path, "run", "iozone");
    assert_eq!(record["cells"].as_array().unwrap().len(), 8);
    assert_eq!(record["stop_reason"]["kind"], "requested");
    let matrix = trials(&path.join("run"));
    assert_eq!(matrix[1]["workload"], "rewrite 32K, file 64K");
    assert_eq!(matrix[1]["params"]["file_size"], 65_536);
    assert!(matrix[1]["metrics"][0]["value"].as_f64().unwrap() > 0.0);
    let text = fs::read_to_string(path.join("run/output.txt")).unwrap();
    assert!(text.ends_with("iozone test complete.\n"), "{text}");

    let line = "iozone -a -n 64 -g 1g -z -i 0 -i 1 -f f -b s.wks --out part";
    let running = Running::start(path, &words(line));
    wait_until("a measurement ended", Duration::from_secs(60), || {
        path.join("part/trials.jsonl").exists() && !trials(&path.join("part")).is_empty()
    });
    running.signal(Signal::INT);
    expect_code(&running.wait(), 130);
    assert!(kept(path, "part", "iozone")["stop_reason"].is_null());
    assert!(path.join("s.wks").exists(), "the sheet has the rows so far");
}

#[test]
fn a_repeated_run_of_postmark_is_a_second_block() {
    let directory = scratch();
    let path = directory.path();
    fs::create_dir(path.join("d")).unwrap();
    let lines = "set location d\nset number 20\nset transactions 30\nrun\nrun\nset transactions 40\nrun\n\
                 set seed 7\nrun\nset subdirectories 3\nset seed 42\nrun\nquit\n";
    fs::write(path.join("c"), lines).unwrap();
    succeeds(path, "postmark c --out run");
    kept(path, "run", "postmark");
    let [first, other] =
        [30, 40].map(|count| format!("postmark, {count} on 20 files of 500 B to 10000 B"));
    let expected = [
        (first.clone(), 1),
        (first, 2),
        (other.clone(), 1),
        (format!("{other}, seed 7"), 1),
        (format!("{other}, 3 subdirectories"), 1),
    ];
    assert_eq!(blocks(&path.join("run")), expected);
}

#[test]
fn a_signal_at_the_prompt_of_postmark_finishes_the_directory() {
    let directory = scratch();
    let path = directory.path();
    let mut running = Command::new(env!("CARGO_BIN_EXE_fsb"))
        .args(["postmark", "--allow-concurrent", "--out", "run"])
        .current_dir(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = running.stdin.take().unwrap();
    input
        .write_all(b"set number 20\nset transactions 30\nrun\n")
        .unwrap();
    wait_until("a run ended", Duration::from_secs(60), || {
        path.join("run/trials.jsonl").exists() && !trials(&path.join("run")).is_empty()
    });
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    kept(path, "run", "postmark");
    assert!(path.join("run/output.txt").exists());
}

#[test]
fn filebench_keeps_other_work_as_another_case() {
    let directory = scratch();
    let path = directory.path();
    fs::create_dir(path.join("d")).unwrap();
    let flow = "define fileset name=a,path=d,entries=3,size=4k,prealloc\n\
                define process name=p { thread name=t { flowop openfile name=o,filesetname=a,fd=1\n\
                flowop readwholefile name=r,fd=1\nflowop closefile name=c,fd=1 } }\nrun 1\nrun 2\nrun 1\n";
    fs::write(path.join("w.f"), flow).unwrap();
    succeeds(path, "filebench --dir d w.f --out run");
    let found = blocks(&path.join("run"));
    let first = found[0].0.clone();
    let expected = [
        (first.clone(), 1),
        (format!("{first}, seconds 2"), 1),
        (first, 2),
    ];
    assert_eq!(found, expected);
}

#[test]
fn iozone_keeps_the_rates_of_its_text_and_is_compared_with_it() {
    let directory = scratch();
    let path = directory.path();
    let line = "iozone -t 2 -x -s 512 -r 64 -i 0 -i 2 -F a b --out run";
    let text = stdout(&succeeds(path, line));
    fs::write(path.join("out.txt"), &text).unwrap();
    let mut printed = Vec::new();
    for line in text.lines() {
        if let Some((_, number)) = line.split_once("Children see").and(line.split_once('=')) {
            let number = number.split_whitespace().next().unwrap();
            printed.push(number.parse::<f64>().unwrap() * 1024.0);
        }
    }
    let trials = trials(&path.join("run"));
    assert_eq!((printed.len(), trials.len()), (4, 4));
    for (printed, trial) in printed.iter().zip(&trials) {
        let kept = trial["metrics"][0]["value"].as_f64().unwrap();
        assert!((kept / printed - 1.0).abs() < 1e-4, "{kept} {printed}");
    }
    assert_eq!(trials[2]["operation"], "random_read");
    let label = trials[2]["workload"].as_str().unwrap();
    assert!(label.starts_with("random read 64K, file 512K"), "{label}");
    let compared = stdout(&succeeds(path, "compare run out.txt"));
    assert!(compared.contains("random_read"), "{compared}");
}

#[test]
fn a_failure_keeps_what_was_measured_and_its_reason() {
    let directory = scratch();
    let path = directory.path();
    let job = "[global]\ndirectory=.\nrw=write\n[one]\nsize=64k\n[two]\nstonewall\nsize=64m\n";
    fs::write(path.join("j.fio"), job).unwrap();
    for (line, failed) in [
        ("fio j.fio --out fio", 1),
        (
            "iozone -i 0 -a -n 64m -g 64m -y 64 -q 64 -f f --out iozone",
            0,
        ),
    ] {
        // The limit is 16 MiB or 32 MiB: shells count blocks of 512 or 1024 bytes.
        let fsb = env!("CARGO_BIN_EXE_fsb");
        let script = format!("ulimit -f 32768; exec {fsb} {line} --allow-concurrent");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(path)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{output:?}");
        let tool = line.split(' ').next().unwrap();
        let trials = trials(&path.join(tool));
        assert_eq!(trials.len(), failed + 1);
        assert_eq!(trials[failed]["outcome"], "failed");
        assert!(!trials[failed]["error"].as_str().unwrap().is_empty());
        assert!(kept(path, tool, tool)["stop_reason"].is_null());
    }
}

#[test]
fn a_full_standard_output_does_not_lose_the_run_directory_of_fio() {
    let directory = scratch();
    let path = directory.path();
    fs::write(
        path.join("j.fio"),
        "[one]\ndirectory=.\nrw=write\nsize=64k\n",
    )
    .unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_fsb"))
        .args(words("fio j.fio --allow-concurrent --out run"))
        .current_dir(path)
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!status.success());
    kept(path, "run", "fio");
    assert_eq!(trials(&path.join("run")).len(), 1);
}

#[test]
fn an_interrupted_iozone_without_a_result_leaves_the_sheet_alone() {
    let directory = scratch();
    let path = directory.path();
    fs::write(path.join("s.xls"), "numbers").unwrap();
    let line = "iozone -i 0 -s 4g -r 4 -f f -b s.xls";
    let running = Running::start(path, &words(line));
    wait_until("the file is there", Duration::from_secs(60), || {
        path.join("f").exists()
    });
    running.signal(Signal::INT);
    expect_code(&running.wait(), 130);
    let sheet = fs::read(path.join("s.xls")).unwrap();
    assert_eq!(sheet, b"numbers");
}

#[test]
fn filebench_and_fio_keep_the_runs_that_ended_before_a_signal() {
    let directory = scratch();
    let path = directory.path();
    fs::create_dir(path.join("d")).unwrap();
    let flow = "define fileset name=a,path=d,entries=3,size=4k,prealloc\n\
                define process name=p { thread name=t { flowop openfile name=o,filesetname=a,fd=1\n\
                flowop readwholefile name=r,fd=1\nflowop closefile name=c,fd=1 } }\n\
                run 1\nrun 3600\n";
    fs::write(path.join("w.f"), flow).unwrap();
    let job = "[global]\ndirectory=d\nsize=64k\n[one]\nrw=write\nnumjobs=2\n\
               [two]\nstonewall\nrw=read\ntime_based\nruntime=1h\n";
    fs::write(path.join("j.fio"), job).unwrap();
    for (tool, line) in [
        ("filebench", "filebench --dir d w.f --out filebench"),
        ("fio", "fio j.fio --out fio"),
    ] {
        let running = Running::start(path, &words(line));
        let journal = path.join(tool).join("trials.jsonl");
        wait_until("a run ended", Duration::from_secs(60), || {
            journal.exists() && !trials(&path.join(tool)).is_empty()
        });
        running.signal(Signal::INT);
        let output = running.wait();
        expect_code(&output, 130);
        assert!(kept(path, tool, tool)["stop_reason"].is_null());
        assert_eq!(trials(&path.join(tool)).len(), 1);
        let text = fs::read_to_string(path.join(tool).join("output.txt")).unwrap();
        assert!(
            !text.is_empty() && stdout(&output).contains(&text),
            "{text}"
        );
    }
}
