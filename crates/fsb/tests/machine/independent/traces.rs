//! Recorded programs: the recorded calls, and their replay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::traces::*;
use crate::common::*;

/// A trace names the calls that a tracer cannot see, and is replayed only on request.
#[test]
fn stores_to_shared_mappings_make_a_trace_incomplete() {
    needs!(program "python3");
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    let program = "import mmap\nf = open('f', 'w+b')\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\nm[0] = 1\n";
    let said = record_program(&work, &[], &["python3", "-c", program]);
    expect_code(&said, 0);
    message(&said, "warning/incomplete-trace");
    let trace = scratch.path().join("app.trace");
    let run = [
        "run",
        "null",
        "--trace",
        trace.to_str().unwrap(),
        "--blocks",
        "1",
        "--quiet",
        "--out",
        "run",
    ];
    fails(scratch.path(), &run, 2, "plan/invalid");
    succeeds(scratch.path(), &[&run[..], &["--force"]].concat());
}

/// The calls of a replay are those of the trace: strace counts them.
#[test]
fn a_replay_makes_the_calls_that_were_recorded() {
    needs!(program "strace");
    needs!(program "python3");
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    let program = "import sqlite3\ndb = sqlite3.connect('app.db')\ndb.execute('create table t(v)')\n\
        for i in range(30):\n  with db: db.execute('insert into t values(?)', ('x' * 500,))\n";
    expect_code(&record_program(&work, &[], &["python3", "-c", program]), 0);
    let summary = summary(&work);
    let trace = scratch.path().join("app.trace");
    fs::create_dir(scratch.path().join("target")).unwrap();
    let status = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-o",
            "log",
            "-e",
            "trace=fdatasync,pwrite64,pread64,unlinkat",
            "--",
        ])
        .arg(FSB)
        .args([
            "run",
            "./target",
            "--control",
            "guest-memory=off",
            "--blocks",
            "1",
            "--quiet",
            "--out",
            "run",
            "--trace",
        ])
        .arg(&trace)
        .current_dir(scratch.path())
        .output()
        .unwrap();
    expect_code(&status, 0);
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    // A trial repeats the replay as often as a sample permits.
    let trials = trials(&scratch.path().join("run"));
    let replays: u64 = trials
        .iter()
        .map(|trial| trial["requested"]["repetitions"].as_u64().unwrap_or(1))
        .sum();
    for (call, recorded) in [
        ("fdatasync", "fdatasync"),
        ("pwrite64", "pwrite"),
        ("pread64", "pread"),
    ] {
        let made = log
            .lines()
            .filter(|line| line.contains(&format!(" {call}(")) && line.contains("fsb-set"))
            .count() as u64;
        // The preparation writes, too: files that exist before the first call.
        assert_eq!(
            made,
            count(&summary, recorded) * replays,
            "{call} in {replays} replays\n{summary}"
        );
    }
}

/// eBPF and ptrace record the same calls of a program.
#[test]
fn calls_that_do_not_stop_are_seen_all_the_same() {
    needs!(root);
    needs!(program "python3");
    let program = "import os, threading\n\
        def work(n):\n\
        \x20 fd = os.open('f%d' % n, os.O_RDWR | os.O_CREAT)\n\
        \x20 for i in range(500):\n\
        \x20\x20 os.pwrite(fd, b'x' * 4096, i * 4096)\n\
        \x20\x20 if i % 50 == 0: os.fdatasync(fd)\n\
        \x20 for i in range(100): os.pread(fd, 512, i * 512)\n\
        \x20 os.close(fd)\n\
        threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]\n\
        [t.start() for t in threads]\n\
        [t.join() for t in threads]\n\
        if os.fork() == 0: work(3)\n\
        else: os.wait()\n";
    let of = |by: &str| {
        let scratch = scratch();
        let work = scratch.path().join("work");
        fs::create_dir(&work).unwrap();
        let said = record_program(&work, &["--by", by], &["python3", "-c", program]);
        if error_of(&said)["code"] == "record/no-ebpf" {
            return None;
        }
        expect_code(&said, 0);
        let summary = summary(&work);
        assert_eq!(summary["incomplete"], serde_json::json!([]));
        // Both commands count the calls that a replay makes.
        let recorded = message(&said, "note/recorded");
        assert_eq!(recorded["fields"]["calls"], summary["calls"]);
        let calls = summary["calls"].as_u64().unwrap();
        let shown = stdout(&succeeds(&work, "trace show ../app.trace"));
        let counted = fsb_model::units::show_whole(calls);
        assert!(shown.contains(&format!("{counted} calls of ")), "{shown}");
        Some((
            message(&said, "note/recorded")["fields"]["ebpf"] == true,
            summary,
        ))
    };
    let (slow, stopped) = of("ptrace").unwrap();
    let Some((fast, seen)) = of("ebpf") else {
        skip!("the kernel refuses eBPF programs");
    };
    assert!(fast && !slow, "{fast} {slow}");
    for (call, made) in [
        ("pwrite", 2000),
        ("pread", 400),
        ("fdatasync", 40),
        ("open", 4),
        ("close", 4),
    ] {
        assert_eq!(
            (count(&stopped, call), count(&seen, call)),
            (made, made),
            "{call}\n{stopped}\n{seen}"
        );
    }
}

/// The trace records which task another one waits for, whatever it waits with: here a byte in a
/// pipe, and a lock.
#[test]
fn who_woke_whom_is_seen_and_kept_in_a_replay() {
    needs!(root);
    needs!(program "python3");
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    let program = "import os, threading\n\
        def calls(fd):\n\
        \x20 os.pwrite(fd, b'x' * 4096, 0)\n\
        \x20 os.fdatasync(fd)\n\
        there, back = os.pipe(), os.pipe()\n\
        one, two = [os.open(name, os.O_RDWR | os.O_CREAT) for name in ('one', 'two')]\n\
        child = os.fork()\n\
        for i in range(100):\n\
        \x20 if child:\n\
        \x20\x20 calls(one); os.write(there[1], b'x'); os.read(back[0], 1)\n\
        \x20 else:\n\
        \x20\x20 os.read(there[0], 1); calls(two); os.write(back[1], b'x')\n\
        if child == 0: os._exit(0)\n\
        os.wait()\n\
        lock = threading.Semaphore(0)\n\
        thread = threading.Thread(target=lock.acquire)\n\
        thread.start()\n\
        calls(one)\n\
        lock.release()\n\
        thread.join()\n";
    let said = record_program(&work, &["--by", "ebpf"], &["python3", "-c", program]);
    if error_of(&said)["code"] == "record/no-ebpf" {
        skip!("the kernel refuses eBPF programs");
    }
    expect_code(&said, 0);
    let summary = summary(&work);
    if summary["notes"]
        .as_array()
        .unwrap()
        .iter()
        .any(|note| note["note"] == "wakes-unseen")
    {
        skip!("the kernel does not report who woke whom");
    }
    // Each of two tasks waits for the other a hundred times; a wait that finds its byte at once
    // does not sleep.
    assert!((150..=260).contains(&count(&summary, "woken")), "{summary}");
    let trace = scratch.path().join("app.trace");
    let run = [
        "run",
        "null",
        "--trace",
        trace.to_str().unwrap(),
        "--pace",
        "none",
        "--blocks",
        "1",
        "--quiet",
    ];
    succeeds(scratch.path(), &[&run[..], &["--out", "run"]].concat());
}

/// Without the right to eBPF, `--by ebpf` is refused, and the default uses ptrace.
#[test]
fn without_rights_calls_stop() {
    needs!(root);
    let scratch = scratch();
    std::os::unix::fs::chown(scratch.path(), Some(65534), Some(65534)).unwrap();
    let program = public_copy();
    let record = |by: &str| {
        let words = [
            "record",
            JSON,
            "-o",
            "app.trace",
            "--by",
            by,
            "--",
            "sh",
            "-c",
            "echo x > f",
        ];
        as_nobody(program.path(), scratch.path(), &words)
    };
    let refused = record("ebpf");
    expect_error(&refused, 3, "record/no-ebpf");
    assert!(
        !scratch.path().join("f").exists(),
        "the program was not begun"
    );
    let served = record("auto");
    expect_code(&served, 0);
    assert_eq!(message(&served, "note/recorded")["fields"]["ebpf"], false);
}

/// The calls of a program on files below a directory and their bytes, as strace counts them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    /// Calls that put data into files: writes, and copies from elsewhere.
    writes: u64,
    written: u64,
    renames: u64,
    links: u64,
    /// fsync, fdatasync and msync with MS_SYNC.
    syncs: u64,
}

impl Totals {
    /// Runs a program in the directory under strace.
    fn of_strace(work: &Path, program: &[&str]) -> Totals {
        let log = work.with_extension("strace");
        let status = Command::new("strace")
            .args(["-f", "-y", "-qq", "-e", "signal=none", "-o"])
            .arg(&log)
            .args(program)
            .current_dir(work)
            .output()
            .unwrap();
        expect_code(&status, 0);
        let text = fs::read(&log).unwrap();
        let mut totals = Totals::default();
        String::from_utf8_lossy(&text)
            .lines()
            .for_each(|line| totals.add(line, &work.display().to_string()));
        totals
    }

    fn add(&mut self, line: &str, work: &str) {
        let Some((_, call)) = line.split_once(' ') else {
            return;
        };
        let Some((name, arguments)) = call.trim_start().split_once('(') else {
            return;
        };
        let Some((arguments, result)) = arguments.rsplit_once(" = ") else {
            return;
        };
        let Some(result) = result
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok())
        else {
            return;
        };
        let argument = |at: usize| arguments.split(", ").nth(at).unwrap_or_default();
        let is_below =
            |word: &str| word.contains(&format!("<{work}/")) || word.contains(&format!("<{work}>"));
        let to = match name {
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendfile" => argument(0),
            "copy_file_range" | "splice" => argument(2),
            _ => "",
        };
        let from = match name {
            "copy_file_range" | "splice" => argument(0),
            "sendfile" => argument(1),
            _ => to,
        };
        // A copy that finds the end of a source outside moves nothing, and is not recorded.
        if is_below(to) && (result > 0 || is_below(from)) {
            self.writes += 1;
            self.written += result;
        }
        let names_it = arguments.contains(work);
        self.renames += u64::from(name.starts_with("rename") && names_it);
        self.links += u64::from(name.starts_with("link") && names_it);
        self.syncs += u64::from(
            matches!(name, "fsync" | "fdatasync") && is_below(argument(0))
                || name == "msync" && arguments.contains("MS_SYNC"),
        );
    }

    /// Returns the totals of a trace's summary.
    fn of_summary(summary: &Value) -> Totals {
        let calls = |names: &[&str]| names.iter().map(|name| count(summary, name)).sum();
        Totals {
            writes: calls(&["write", "pwrite", "copy_file_range", "sendfile"]),
            written: [
                &summary["writes"],
                &summary["kinds"]["copy_file_range"],
                &summary["kinds"]["sendfile"],
            ]
            .iter()
            .filter_map(|moved| moved["bytes"].as_u64())
            .sum(),
            renames: calls(&["rename"]),
            links: calls(&["link"]),
            syncs: calls(&["fsync", "fdatasync", "msync"]),
        }
    }
}

/// Makes the directories of two equal programs, with files elsewhere.
fn two_works(scratch: &Path) -> [PathBuf; 2] {
    ["recorded", "traced"].map(|name| {
        let (work, elsewhere) = (
            scratch.join(name).join("work"),
            scratch.join(name).join("elsewhere"),
        );
        fs::create_dir_all(&work).unwrap();
        fs::create_dir_all(elsewhere.join("tree/sub")).unwrap();
        fs::write(elsewhere.join("big"), vec![7; 3_000_000]).unwrap();
        fs::write(elsewhere.join("small"), "small").unwrap();
        for name in ["tree/one", "tree/sub/two"] {
            fs::write(elsewhere.join(name), vec![1; 5000]).unwrap();
        }
        work
    })
}

/// Records a program and runs it under strace. Asserts that both see the same work. Returns the
/// summary.
fn record_beside_strace(scratch: &Path, program: &[&str]) -> Value {
    let [recorded, traced] = two_works(scratch);
    expect_code(&record_program(&recorded, &[], program), 0);
    let summary = summary(&recorded);
    assert_eq!(
        Totals::of_summary(&summary),
        Totals::of_strace(&traced, program),
        "{program:?}\n{summary}"
    );
    summary
}

/// Replays the trace of a program. Asserts that every call has its recorded result.
fn expect_replay(scratch: &Path, more: &[&str]) {
    fs::create_dir(scratch.join("target")).unwrap();
    let trace = scratch.join("recorded/app.trace");
    let words =
        words("run ./target --control guest-memory=off --blocks 1 --quiet --out run --trace");
    succeeds(
        scratch,
        &[&words[..], &[trace.to_str().unwrap()], more].concat(),
    );
    let trial = trials(&scratch.join("run")).pop().expect("a trial");
    assert_eq!(
        (
            &trial["outcome"],
            &trial["observed"]["counts"]["other_results"]
        ),
        (&"ok".into(), &0.into()),
        "{trial}"
    );
}

/// cp copies in the kernel, and mv and ln change names only.
#[test]
fn files_that_come_from_outside_are_recorded_as_strace_sees_them() {
    needs!(program "strace");
    let scratch = scratch();
    let line = "cp ../elsewhere/big . && cp -r ../elsewhere/tree copied && ln ../elsewhere/small linked && \
        mv ../elsewhere/tree moved && mv ../elsewhere/big renamed && cat moved/sub/two renamed linked big > all && \
        mv all ../elsewhere/ && rm -r moved";
    let summary = record_beside_strace(scratch.path(), &["sh", "-c", line]);
    assert_eq!(summary["incomplete"], serde_json::json!([]), "{summary}");
    let notes: Vec<_> = summary["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| &note["note"])
        .collect();
    assert!(
        notes.contains(&&"copied".into()) && notes.contains(&&"crossed".into()),
        "{notes:?}"
    );
    expect_replay(scratch.path(), &[]);
}

/// pip installs into a temporary directory and moves the result.
#[test]
fn packages_that_pip_installs_are_recorded_as_strace_sees_them() {
    needs!(program "strace");
    needs!(program "python3");
    if !Command::new("python3")
        .args(["-m", "pip", "--version"])
        .output()
        .is_ok_and(|said| said.status.success())
    {
        skip!("python3 has no pip");
    }
    let scratch = scratch();
    let wheel = scratch.path().join("thing-1.0-py3-none-any.whl");
    let make = "import sys, zipfile\n\
        meta = 'thing-1.0.dist-info/'\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
        \x20 for number in range(5): wheel.writestr('thing/m%d.py' % number, 'x = 1\\n' * 1000)\n\
        \x20 wheel.writestr('thing/__init__.py', '')\n\
        \x20 wheel.writestr(meta + 'METADATA', 'Metadata-Version: 2.1\\nName: thing\\nVersion: 1.0\\n')\n\
        \x20 wheel.writestr(meta + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20 wheel.writestr(meta + 'RECORD', '')\n";
    let made = Command::new("python3")
        .args(["-c", make])
        .arg(&wheel)
        .output()
        .unwrap();
    expect_code(&made, 0);
    let program = [
        "python3",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
        "--target",
        "site",
        wheel.to_str().unwrap(),
    ];
    let summary = record_beside_strace(scratch.path(), &program);
    assert_eq!(summary["incomplete"], serde_json::json!([]), "{summary}");
    assert!(
        count(&summary, "rename") >= 2,
        "the package and its metadata\n{summary}"
    );
    expect_replay(scratch.path(), &[]);
}

/// The index of the write-ahead log is a shared mapping, which the refusal names.
#[test]
fn a_write_ahead_log_is_recorded_and_its_index_is_named() {
    needs!(program "strace");
    needs!(program "python3");
    let scratch = scratch();
    let program = "import sqlite3\ndb = sqlite3.connect('app.db')\ndb.execute('pragma journal_mode=wal')\n\
        db.execute('create table t(v)')\n\
        for i in range(30):\n  with db: db.execute('insert into t values(?)', ('x' * 500,))\n";
    let summary = record_beside_strace(scratch.path(), &["python3", "-c", program]);
    assert_eq!(
        summary["incomplete"][0]["files"],
        serde_json::json!(["app.db-shm"]),
        "{summary}"
    );
    let trace = scratch.path().join("recorded/app.trace");
    let refused = fsb(
        scratch.path(),
        &[
            "run",
            "null",
            "--trace",
            trace.to_str().unwrap(),
            "--out",
            "run",
        ],
    );
    assert!(
        stderr(&refused)
            .split_whitespace()
            .any(|word| word.contains("app.db-shm)")),
        "{}",
        stderr(&refused)
    );
    expect_replay(scratch.path(), &["--force"]);
}

/// LMDB writes its meta pages through a descriptor with O_DSYNC.
#[test]
fn durable_writes_of_lmdb_are_seen() {
    needs!(program "strace");
    needs!(program "python3");
    if !Command::new("python3")
        .args(["-c", "import lmdb"])
        .output()
        .is_ok_and(|said| said.status.success())
    {
        skip!("python3 has no module lmdb");
    }
    let scratch = scratch();
    let program = "import lmdb\nenv = lmdb.open('db')\n\
        for i in range(30):\n  with env.begin(write=True) as txn: txn.put(b'%d' % i, b'x' * 500)\nenv.close()\n";
    let summary = record_beside_strace(scratch.path(), &["python3", "-c", program]);
    assert!(
        summary["durable_writes"]["calls"].as_u64().unwrap() >= 30,
        "{summary}"
    );
    assert_eq!(
        summary["incomplete"][0]["files"],
        serde_json::json!(["db/lock.mdb"]),
        "{summary}"
    );
    let shown = stdout(&fsb(
        &scratch.path().join("recorded"),
        "trace show app.trace",
    ));
    assert!(
        shown.contains("writes are durable when they return") && !shown.contains("never syncs"),
        "{shown}"
    );
    let reduced = stdout(&fsb(
        &scratch.path().join("recorded"),
        "trace reduce app.trace",
    ));
    assert!(reduced.contains("dsync = true"), "{reduced}");
}

/// strace shows the flags of the replayed calls.
#[test]
fn a_replay_keeps_the_durability_of_writes() {
    needs!(program "strace");
    needs!(program "python3");
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    let program = "import os\n\
        for name, flag in (('data', os.O_DSYNC), ('all', os.O_SYNC)):\n\
        \x20 fd = os.open(name, os.O_WRONLY | os.O_CREAT | flag, 0o644)\n\
        \x20 os.pwrite(fd, b'x' * 100, 0)\n\
        fd = os.open('single', os.O_WRONLY | os.O_CREAT, 0o644)\n\
        os.pwritev(fd, [b'x' * 100], 0, os.RWF_DSYNC)\n";
    expect_code(&record_program(&work, &[], &["python3", "-c", program]), 0);
    let summary = summary(&work);
    assert_eq!(summary["durable_writes"]["calls"], 3, "{summary}");
    fs::create_dir(scratch.path().join("target")).unwrap();
    let words = words("run ./target --control guest-memory=off --blocks 1 --quiet --out run");
    let run = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-o",
            "log",
            "-e",
            "trace=openat,pwritev2",
            "--",
            FSB,
        ])
        .args(words)
        .args(["--trace", "app.trace"])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    expect_code(&run, 0);
    let log = fs::read_to_string(scratch.path().join("log")).unwrap();
    let flags = |name: &str| {
        let begin = format!("\"{name}\", ");
        let opens = log
            .lines()
            .filter(|line| line.contains("fsb-set>") && line.contains(&begin));
        let opens: Vec<&str> = opens
            .filter_map(|line| line.split_once(&begin)?.1.split(',').next())
            .collect();
        assert!(!opens.is_empty(), "{name}\n{log}");
        opens
            .iter()
            .all(|flags| flags.contains("O_DSYNC"))
            .then_some("O_DSYNC")
            .or_else(|| {
                opens
                    .iter()
                    .all(|flags| flags.contains("O_SYNC"))
                    .then_some("O_SYNC")
            })
    };
    assert_eq!(
        ["data", "all", "single"].map(flags),
        [Some("O_DSYNC"), Some("O_SYNC"), None]
    );
    let single = log
        .lines()
        .filter(|line| line.contains("pwritev2(") && line.contains("single>"));
    let single: Vec<&str> = single.collect();
    assert!(
        !single.is_empty() && single.iter().all(|line| line.contains("RWF_DSYNC")),
        "{single:?}"
    );
}
