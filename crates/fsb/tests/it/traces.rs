//! Recorded programs: what is written down of them, and what a replay does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::*;

/// Two processes: one makes files, the other one reads what it made.
const PROGRAM: &str = "mkdir d; echo hello > d/one; cp d/one d/two; (sleep 0.05; mv d/two d/three; cat d/three >/dev/null) & \
    wait; ls d >/dev/null; sync d/one; rm d/one; ln -s three d/link; cat d/link > /dev/null";

fn record(directory: &Path, arguments: &[&str], program: &[&str]) -> Output {
    let all = [&["record", "-o", "../app.trace"], arguments, &["--"], program].concat();
    fsb(directory, &all)
}

fn shown(directory: &Path) -> String {
    let output = fsb(directory, &["trace", "show", "../app.trace"]);
    expect_code(&output, 0);
    stdout(&output)
}

/// How often a call stands in what is shown.
fn count(shown: &str, call: &str) -> u64 {
    let line = shown.lines().find(|line| line.split_whitespace().next() == Some(call));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
}

/// The trace of such a program could not be replayed.
#[test]
fn a_program_that_uses_no_file_below_the_root_is_refused_with_the_directory_it_wrote_to() {
    let scratch = scratch();
    let (root, elsewhere) = (scratch.path().join("root"), scratch.path().join("elsewhere"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    let line = format!("echo 1 > {0}/a; echo 2 > {0}/b", elsewhere.display());
    let output = fsb(&root, &["record", "--message-format", "json", "--", "sh", "-c", &line]);
    expect_code(&output, 3);
    let error = error_of(&output);
    assert_eq!(error["code"], "record/refused");
    let command = format!("fsb record --root {} -- sh -c", elsewhere.display());
    assert!(error["message"].as_str().unwrap().contains(&command), "{error}");
    assert!(!root.join("sh.trace").exists(), "nothing is left");
    let inside = fsb(&root, &["record", "--root", "../elsewhere", "--", "sh", "-c", &line]);
    expect_code(&inside, 0);
    assert!(root.join("sh.trace").is_file());
}

#[test]
fn a_program_is_recorded_shown_and_replayed() {
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("before"), vec![7; 10_000]).unwrap();
    let said = record(&work, &[], &["sh", "-c", &format!("{PROGRAM}; cat before > after")]);
    expect_code(&said, 0);
    assert!(stderr(&said).contains(" calls outside the root left out"), "{}", stderr(&said));
    let shown = shown(&work);
    for (call, at_least) in
        [("mkdir", 1), ("open", 8), ("rename", 1), ("unlink", 1), ("symlink", 1), ("fsync", 1), ("getdents", 2)]
    {
        assert!(count(&shown, call) >= at_least, "{call}\n{shown}");
    }
    assert!(shown.contains("Before the recording: 1 files of 9.77 KiB"), "{shown}");
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
    let output = fsb(scratch.path(), &run);
    expect_code(&output, 0);
    assert!(stdout(&output).contains("replay of app"), "{}", stdout(&output));
    let trial = counting(&scratch.path().join("run")).pop().expect("a trial");
    assert_eq!(trial["outcome"], "ok", "{trial}");
    assert_eq!(trial["observed"]["counts"]["other_results"], 0, "{trial}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "nothing is left");
}

#[test]
fn names_can_be_hidden() {
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    expect_code(&record(&work, &["--anonymous"], &["sh", "-c", "echo x > customer-list; cat customer-list"]), 0);
    let bytes = fs::read(scratch.path().join("app.trace")).unwrap();
    let shown = shown(&work);
    assert!(!shown.contains("customer") && !shown.contains("work") && !shown.contains("echo"), "{shown}");
    assert!(shown.contains("a program: ") && count(&shown, "read") >= 1, "{shown}");
    assert!(!bytes.windows(8).any(|part| part == b"customer"));
}

/// What a tracer cannot see is told, and such a trace is replayed only where that is asked for.
#[test]
fn stores_to_shared_mappings_make_a_trace_incomplete() {
    needs_program("python3");
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    let program = "import mmap\nf = open('f', 'w+b')\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\nm[0] = 1\n";
    let said = record(&work, &[], &["python3", "-c", program]);
    expect_code(&said, 0);
    assert!(stderr(&said).contains("incomplete: stores to shared mappings of files (once)"), "{}", stderr(&said));
    let trace = scratch.path().join("app.trace");
    let run = ["run", "null", "--trace", trace.to_str().unwrap(), "--blocks", "1", "--quiet", "--out", "run"];
    let refused = fsb(scratch.path(), &run);
    expect_code(&refused, 2);
    assert!(stderr(&refused).contains("--force"), "{}", stderr(&refused));
    expect_code(&fsb(scratch.path(), &[&run[..], &["--force"]].concat()), 0);
}

/// The calls of a replay are those of the trace: strace counts them.
#[test]
fn a_replay_makes_the_calls_that_were_recorded() {
    needs_program("strace");
    needs_program("python3");
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    let program = "import sqlite3\ndb = sqlite3.connect('app.db')\ndb.execute('create table t(v)')\n\
        for i in range(30):\n  with db: db.execute('insert into t values(?)', ('x' * 500,))\n";
    expect_code(&record(&work, &[], &["python3", "-c", program]), 0);
    let shown = shown(&work);
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
    // A trial replays as often as a stretch has room for.
    let trials = trials(&scratch.path().join("run"));
    let replays: u64 = trials.iter().map(|trial| trial["requested"]["repetitions"].as_u64().unwrap_or(1)).sum();
    for (call, recorded) in [("fdatasync", "fdatasync"), ("pwrite64", "pwrite"), ("pread64", "pread")] {
        let made =
            log.lines().filter(|line| line.contains(&format!(" {call}(")) && line.contains("fsb-set")).count() as u64;
        // What prepares the files writes, too: those that were there before.
        assert_eq!(made, count(&shown, recorded) * replays, "{call} in {replays} replays\n{shown}");
    }
}

/// What eBPF and ptrace see of the same program are the same calls.
#[test]
fn calls_that_do_not_stop_are_seen_all_the_same() {
    needs_root();
    needs_program("python3");
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
        let said = record(&work, &["--by", by], &["python3", "-c", program]);
        let refused = [
            "eBPF cannot record the calls: Operation not permitted",
            "eBPF cannot record the calls: Function not implemented",
        ];
        if let Some(why) = refused.into_iter().find(|why| stderr(&said).contains(why)) {
            fsb_testkit::skip_everywhere(why);
        }
        expect_code(&said, 0);
        let shown = shown(&work);
        assert!(!shown.contains("incomplete"), "{shown}");
        (stderr(&said), shown)
    };
    let (slow, stopped) = of("ptrace");
    let (fast, seen) = of("ebpf");
    assert!(fast.contains("by eBPF") && !slow.contains("by eBPF"), "{fast}{slow}");
    for (call, made) in [("pwrite", 2000), ("pread", 400), ("fdatasync", 40), ("open", 4), ("close", 4)] {
        assert_eq!((count(&stopped, call), count(&seen, call)), (made, made), "{call}\n{stopped}\n{seen}");
    }
}

/// A task that waits for another one, whatever it waits with, is known to: here for a byte in a pipe, and for a lock.
#[test]
fn who_woke_whom_is_seen_and_kept_in_a_replay() {
    needs_root();
    needs_program("python3");
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
    let said = record(&work, &["--by", "ebpf"], &["python3", "-c", program]);
    if stderr(&said).contains("eBPF cannot record") {
        fsb_testkit::skip_everywhere("eBPF is refused here");
    }
    expect_code(&said, 0);
    let shown = shown(&work);
    if shown.contains("wake-ups between threads were not recorded") {
        fsb_testkit::skip_everywhere("who wakes whom is not told here");
    }
    // Each of two waits for the other a hundred times; a wait that finds its byte there does not sleep.
    let (_, times) = shown.split_once("woke each other ").unwrap_or_else(|| panic!("{shown}"));
    let times: u32 = times.split(' ').next().unwrap().parse().unwrap();
    assert!((150..=260).contains(&times), "{shown}");
    let trace = scratch.path().join("app.trace");
    let run = ["run", "null", "--trace", trace.to_str().unwrap(), "--pace", "none", "--blocks", "1", "--quiet"];
    expect_code(&fsb(scratch.path(), &[&run[..], &["--out", "run"]].concat()), 0);
}

/// Who has no right to eBPF is told so where it is asked for, and is served by ptrace where it is not.
#[test]
fn without_rights_calls_stop() {
    needs_root();
    let scratch = scratch();
    std::os::unix::fs::chown(scratch.path(), Some(65534), Some(65534)).unwrap();
    let program = public_copy();
    let record = |by: &str| {
        let words = ["record", "-o", "app.trace", "--by", by, "--", "sh", "-c", "echo x > f"];
        as_nobody(program.path(), scratch.path(), &words)
    };
    let refused = record("ebpf");
    expect_code(&refused, 3);
    assert!(stderr(&refused).contains("--by ptrace"), "{}", stderr(&refused));
    assert!(!scratch.path().join("f").exists(), "the program was not begun");
    let served = record("auto");
    expect_code(&served, 0);
    assert!(!stderr(&served).contains("eBPF"), "{}", stderr(&served));
}

#[test]
fn logs_of_others_are_imported_and_reduced() {
    let scratch = scratch();
    let log = "fio version 2 iolog\ndata add\ndata open\ndata read 0 8192\ndata write 8192 4096\ndata datasync 0 0\ndata close\n";
    fs::write(scratch.path().join("fio.log"), log).unwrap();
    let output = fsb(scratch.path(), &["trace", "import", "fio.log", "-o", "fio.trace"]);
    expect_code(&output, 0);
    let run = ["run", "null", "--trace", "fio.trace", "--pace", "none", "--blocks", "1", "--quiet", "--out", "run"];
    let output = fsb(scratch.path(), &run);
    expect_code(&output, 0);
    assert!(stdout(&output).contains("replay of fio, without think times"), "{}", stdout(&output));
    let reduced = fsb(scratch.path(), &["trace", "reduce", "fio.trace"]);
    expect_code(&reduced, 0);
    assert!(stdout(&reduced).contains("[[fileset]]"), "{}", stdout(&reduced));
    fs::write(scratch.path().join("none.log"), "hello\n").unwrap();
    fails(scratch.path(), &["trace", "import", "none.log", "-o", "none.trace"], 2, "trace/unfit");
}

/// A trace may be all that is left of a day of work.
#[test]
fn a_trace_is_not_lost_to_another_one() {
    let scratch = scratch();
    let work = scratch.path().join("work");
    fs::create_dir(&work).unwrap();
    expect_code(&record(&work, &[], &["sh", "-c", "echo x > f; cat f"]), 0);
    let trace = scratch.path().join("app.trace");
    let first = fs::read(&trace).unwrap();
    let refused = record(&work, &[], &["true"]);
    expect_code(&refused, 2);
    assert!(stderr(&refused).contains("--overwrite"), "{}", stderr(&refused));
    assert_eq!(fs::read(&trace).unwrap(), first);
    // The program's failure is told, and its trace is there.
    expect_code(&record(&work, &["--overwrite"], &["sh", "-c", "cat f; exit 3"]), 4);
    assert!(count(&shown(&work), "read") >= 1);
    fs::remove_file(&trace).unwrap();
    expect_code(&record(&work, &[], &["no-such-program"]), 2);
    assert!(!trace.exists(), "of nothing no trace");
}

#[test]
fn wrong_requests_are_refused() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["record", "-o", "x"], "arguments/missing"),
        (&["record", "-o", "x", "--root", "/none", "--", "true"], "input/unreadable"),
        (&["run", "null", "--pace", "none"], "arguments/missing"),
        (&["run", "null", "--trace", "none.trace"], "plan/invalid"),
        (&["trace", "show", "none.trace"], "input/unreadable"),
    ];
    expect_refusals("trace", scratch.path(), requests);
    let none = fsb(scratch.path(), &["record", "-o", "x", "--pid", "2147483000"]);
    assert_ne!(none.status.code(), Some(0));
}
