//! Recorded programs: the recorded calls, and their replay.

use std::fs;

use fsb_trace::{Call, CallKind, Header, Initial, State, Totals, Writer};

use crate::common::traces::*;
use crate::common::*;

/// Two processes: one makes files, the other one reads them.
const PROGRAM: &str = "mkdir d; echo hello > d/one; cp d/one d/two; (sleep 0.05; mv d/two d/three; cat d/three >/dev/null) & \
    wait; ls d >/dev/null; sync d/one; rm d/one; ln -s three d/link; cat d/link > /dev/null";

/// The trace of such a program could not be replayed.
#[test]
fn a_program_that_uses_no_file_below_the_root_is_refused_with_the_directory_it_wrote_to() {
    let scratch = scratch();
    let (root, elsewhere) = (
        scratch.path().join("root"),
        scratch.path().join("elsewhere"),
    );
    fs::create_dir(&root).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let line = format!("echo 1 > {0}/a; echo 2 > {0}/b", elsewhere.display());
    let output = fsb(
        &root,
        &[
            "record",
            "--message-format",
            "json",
            "--",
            "sh",
            "-c",
            &line,
        ],
    );
    let error = expect_error(&output, 3, "record/refused");
    assert_eq!(error["fields"]["directory"], elsewhere.to_str().unwrap());
    assert!(!root.join("sh.trace").exists(), "nothing is left");
    succeeds(
        &root,
        &["record", "--root", "../elsewhere", "--", "sh", "-c", &line],
    );
    assert!(root.join("sh.trace").is_file());
}

#[test]
fn a_program_is_recorded_shown_and_replayed() {
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("before"), vec![7; 10_000]).unwrap();
    let said = record_program(
        &work,
        &[],
        &["sh", "-c", &format!("{PROGRAM}; cat before > after")],
    );
    expect_code(&said, 0);
    assert!(
        message(&said, "note/recorded")["fields"]["outside"]
            .as_u64()
            .is_some_and(|calls| calls > 0)
    );
    let summary = summary(&work);
    for (call, at_least) in [
        ("mkdir", 1),
        ("open", 8),
        ("rename", 1),
        ("unlink", 1),
        ("symlink", 1),
        ("fsync", 1),
        ("getdents", 2),
    ] {
        assert!(count(&summary, call) >= at_least, "{call}\n{summary}");
    }
    assert_eq!(
        (&summary["initial"]["files"], &summary["initial"]["bytes"]),
        (&1.into(), &10_000.into())
    );
    let target = scratch.path().join("target");
    fs::create_dir(&target).unwrap();
    let trace = scratch.path().join("app.trace");
    let run = [
        "run",
        "./target",
        "--control",
        "guest-memory=off",
        "--trace",
        trace.to_str().unwrap(),
        "--blocks",
        "1",
        "--quiet",
        "--out",
        "run",
    ];
    let output = succeeds(scratch.path(), &run);
    assert!(
        stdout(&output).contains("replay of app"),
        "{}",
        stdout(&output)
    );
    let trial = counting(&scratch.path().join("run"))
        .pop()
        .expect("a trial");
    assert_eq!(trial["outcome"], "ok", "{trial}");
    assert_eq!(trial["observed"]["counts"]["other_results"], 0, "{trial}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "nothing is left");
}

#[test]
fn names_can_be_hidden() {
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    expect_code(
        &record_program(
            &work,
            &["--anonymous"],
            &["sh", "-c", "echo x > customer-list; cat customer-list"],
        ),
        0,
    );
    let bytes = fs::read(scratch.path().join("app.trace")).unwrap();
    let text = stdout(&fsb(&work, "trace show ../app.trace"));
    assert!(
        !["customer", "work", "echo"]
            .iter()
            .any(|name| text.contains(name)),
        "{text}"
    );
    let summary = summary(&work);
    assert_eq!(summary["program"], "");
    assert!(count(&summary, "read") >= 1, "{summary}");
    assert!(!bytes.windows(8).any(|part| part == b"customer"));
}

#[test]
fn logs_of_others_are_imported_and_reduced() {
    let scratch = scratch();
    let log = "fio version 2 iolog\ndata add\ndata open\ndata read 0 8192\ndata write 8192 4096\ndata datasync 0 0\ndata close\n";
    fs::write(scratch.path().join("fio.log"), log).unwrap();
    succeeds(scratch.path(), "trace import fio.log -o fio.trace");
    let summary = fsb(scratch.path(), "trace show fio.trace");
    insta::assert_snapshot!("trace_show", stdout(&summary));
    let run = words("run null --trace fio.trace --pace none --blocks 1 --quiet --out run");
    let output = succeeds(scratch.path(), &run);
    assert!(
        stdout(&output).contains("replay of fio, without think times"),
        "{}",
        stdout(&output)
    );
    let reduced = succeeds(scratch.path(), "trace reduce fio.trace");
    assert!(
        stdout(&reduced).contains("[[fileset]]"),
        "{}",
        stdout(&reduced)
    );
    fs::write(scratch.path().join("none.log"), "hello\n").unwrap();
    fails(
        scratch.path(),
        "trace import none.log -o none.trace",
        2,
        "trace/unfit",
    );
}

/// Recordings are part of the program: no file is needed.
#[test]
fn a_recording_of_the_program_is_replayed_by_name() {
    let scratch = scratch();
    let run = |trace: &str, more: &str| {
        let line =
            format!("run null --trace {trace} --pace none --blocks 1 -q --out {trace}{more}");
        fsb_json(scratch.path(), &*line)
    };
    let replayed = run("recording:etcd-put", "");
    expect_code(&replayed, 0);
    let trials = measured(&scratch.path().join("recording:etcd-put"));
    assert!(
        trials.len() == 1 && trials[0]["workload"] == "replay of etcd-put, without think times",
        "{trials:#?}"
    );
    let incomplete = run("recording:sqlite-wal-full", "");
    expect_error(&incomplete, 2, "plan/invalid");
    assert!(
        error_of(&incomplete)["message"]
            .to_string()
            .contains("--force")
    );
    expect_code(&run("recording:sqlite-wal-full", " --force"), 0);
    for (line, advice) in [
        (
            "run null --trace recording:etcd-putt",
            "did you mean 'recording:etcd-put'?",
        ),
        (
            "run null --preset recording:etcd-put",
            "--trace recording:etcd-put\"",
        ),
        (
            "run null --preset dpkg-install",
            "--trace recording:dpkg-install\"",
        ),
    ] {
        let refused = fsb_json(scratch.path(), line);
        expect_error(&refused, 2, "arguments/invalid-value");
        let error = error_of(&refused).to_string();
        assert!(error.contains(advice), "{line}: {error}");
    }
}

/// A trace may be the only result of a day of work.
#[test]
fn a_trace_is_not_lost_to_another_one() {
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    expect_code(
        &record_program(&work, &[], &["sh", "-c", "echo x > f; cat f"]),
        0,
    );
    let trace = scratch.path().join("app.trace");
    let first = fs::read(&trace).unwrap();
    let refused = record_program(&work, &[], &["true"]);
    expect_error(&refused, 2, "output/exists");
    assert_eq!(fs::read(&trace).unwrap(), first);
    // The program's failure is reported, and its trace exists.
    expect_code(
        &record_program(&work, &["--overwrite"], &["sh", "-c", "cat f; exit 3"]),
        4,
    );
    assert!(count(&summary(&work), "read") >= 1);
    fs::remove_file(&trace).unwrap();
    expect_code(&record_program(&work, &[], &["no-such-program"]), 2);
    assert!(!trace.exists(), "of nothing no trace");
}

#[test]
fn wrong_requests_are_refused() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["record", "-o", "x"], "arguments/missing"),
        (
            &["record", "-o", "x", "--root", "/none", "--", "true"],
            "input/unreadable",
        ),
        (&["run", "null", "--pace", "none"], "arguments/missing"),
        (&["run", "null", "--trace", "none.trace"], "plan/invalid"),
        (&["trace", "show", "none.trace"], "input/unreadable"),
    ];
    expect_refusals("trace", scratch.path(), requests);
    let none = fsb(scratch.path(), "record -o x --pid 2147483000");
    assert_ne!(none.status.code(), Some(0));
}

// Mutated traces: each is refused or replayed, within its budget, and only below the target.
//
// A few cases by default. With `FSB_REPLAYS=10000` the engine performs that many, and every
// fiftieth is a whole run as well. `FSB_REPLAYS_SEED=N` begins with case N, to repeat one that
// failed: `FSB_REPLAYS=1 FSB_REPLAYS_SEED=N`.

/// A replay or a command that does not fit the budget is refused with the reason.
#[test]
fn work_that_outlasts_its_budget_is_ended() {
    let before = traces();
    let bench = Bench::new(scratch());
    let thinks = Call {
        start_ns: 300_000_000_000,
        ..Call::new(CallKind::StatName)
    };
    let content = Content {
        header: Header::default(),
        names: vec![Vec::new()],
        initial: Vec::new(),
        calls: vec![Call::new(CallKind::StatName), thinks],
    };
    fs::write(bench.at("thinks.trace"), content.write().unwrap()).unwrap();
    for work in [&["--trace", "thinks.trace"][..], &["--", "sleep", "300"]] {
        let words = [
            "run",
            "./target",
            "--control",
            "guest-memory=off",
            "--budget",
            BUDGET,
            "--out",
            "run",
            "-q",
        ];
        fails(
            bench.path(),
            &[&words[..], work].concat(),
            2,
            "run/budget-too-small",
        );
        assert_eq!(
            fs::read_dir(bench.at("target")).unwrap().count(),
            0,
            "nothing is left"
        );
        fs::remove_dir_all(bench.at("run")).unwrap();
    }
    expect_no_traces(&before);
}

/// The trace makes more files than the budget permits.
#[test]
fn a_replay_of_a_million_names_ends() {
    let bench = Bench::new(scratch());
    let mut out = Writer::new(Vec::new(), &Header::default()).unwrap();
    for number in 0..1_000_000 {
        let name = out
            .name(format!("d{}/n{number}", number % 100).as_bytes())
            .unwrap();
        out.initial(Initial {
            name,
            state: State::File {
                size: 1,
                data: None,
            },
        })
        .unwrap();
    }
    out.call(&Call {
        name: 1,
        ..Call::new(CallKind::StatName)
    })
    .unwrap();
    fs::write(
        bench.at("names.trace"),
        out.finish(Totals::default()).unwrap().0,
    )
    .unwrap();
    let words = [
        "run",
        "./target",
        "--control",
        "guest-memory=off",
        "--budget",
        BUDGET,
        "--out",
        "run",
        "-q",
    ];
    fails(
        bench.path(),
        &[&words[..], &["--trace", "names.trace"]].concat(),
        2,
        "run/budget-too-small",
    );
    assert_eq!(
        fs::read_dir(bench.at("target")).unwrap().count(),
        0,
        "nothing is left"
    );
}
