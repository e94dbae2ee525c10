//! Recorded programs: the recorded calls, and their replay.

use std::fs;
use std::process::Command;

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
    let run = ["run", "null", "--trace", trace.to_str().unwrap(), "--blocks", "1", "--quiet", "--out", "run"];
    fails(scratch.path(), &run, 2, "plan/invalid");
    expect_code(&fsb(scratch.path(), &[&run[..], &["--force"]].concat()), 0);
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
        .args(["-f", "-y", "-o", "log", "-e", "trace=fdatasync,pwrite64,pread64,unlinkat", "--"])
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
    let replays: u64 = trials.iter().map(|trial| trial["requested"]["repetitions"].as_u64().unwrap_or(1)).sum();
    for (call, recorded) in [("fdatasync", "fdatasync"), ("pwrite64", "pwrite"), ("pread64", "pread")] {
        let made =
            log.lines().filter(|line| line.contains(&format!(" {call}(")) && line.contains("fsb-set")).count() as u64;
        // The preparation writes, too: files that exist before the first call.
        assert_eq!(made, count(&summary, recorded) * replays, "{call} in {replays} replays\n{summary}");
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
        Some((message(&said, "note/recorded")["fields"]["ebpf"] == true, summary))
    };
    let (slow, stopped) = of("ptrace").unwrap();
    let Some((fast, seen)) = of("ebpf") else {
        skip!("the kernel refuses eBPF programs");
    };
    assert!(fast && !slow, "{fast} {slow}");
    for (call, made) in [("pwrite", 2000), ("pread", 400), ("fdatasync", 40), ("open", 4), ("close", 4)] {
        assert_eq!((count(&stopped, call), count(&seen, call)), (made, made), "{call}\n{stopped}\n{seen}");
    }
}

/// The trace records which task another one waits for, whatever it waits with: here a byte in a pipe, and a lock.
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
    if summary["notes"].as_array().unwrap().iter().any(|note| note["note"] == "wakes-unseen") {
        skip!("the kernel does not report who woke whom");
    }
    // Each of two tasks waits for the other a hundred times; a wait that finds its byte at once does not sleep.
    assert!((150..=260).contains(&count(&summary, "woken")), "{summary}");
    let trace = scratch.path().join("app.trace");
    let run = ["run", "null", "--trace", trace.to_str().unwrap(), "--pace", "none", "--blocks", "1", "--quiet"];
    expect_code(&fsb(scratch.path(), &[&run[..], &["--out", "run"]].concat()), 0);
}

/// Without the right to eBPF, `--by ebpf` is refused, and the default uses ptrace.
#[test]
fn without_rights_calls_stop() {
    needs!(root);
    let scratch = scratch();
    std::os::unix::fs::chown(scratch.path(), Some(65534), Some(65534)).unwrap();
    let program = public_copy();
    let record = |by: &str| {
        let words = ["record", JSON, "-o", "app.trace", "--by", by, "--", "sh", "-c", "echo x > f"];
        as_nobody(program.path(), scratch.path(), &words)
    };
    let refused = record("ebpf");
    expect_error(&refused, 3, "record/no-ebpf");
    assert!(!scratch.path().join("f").exists(), "the program was not begun");
    let served = record("auto");
    expect_code(&served, 0);
    assert_eq!(message(&served, "note/recorded")["fields"]["ebpf"], false);
}
