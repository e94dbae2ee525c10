//! `fsb postmark`: the calls, the text and the behaviour of PostMark.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::postmark::*;
use crate::common::{
    FSB, command, expect_code, expect_no_traces, fsb, message, scratch, stdout, traces, trials,
};

// The system calls are those of PostMark itself: files, flags, sizes, and their order.

const TRACED: &str =
    "trace=open,openat,read,write,lseek,close,unlink,unlinkat,mkdir,mkdirat,rmdir,fsync";

/// Returns the calls of a command on files below `files`, each with its result.
fn calls(command: &[&str], directory: &Path, files: &Path) -> Vec<String> {
    let log = directory.join("strace");
    let output = Command::new("strace")
        .args(["-f", "-s", "8", "-e", "signal=none", "-e", TRACED, "-o"])
        .arg(&log)
        .args(command)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(log).unwrap();
    let root = format!("\"{}/", files.display());
    // The process with the most calls: in fsb the worker makes them, and the coordinator only reads
    // its progress.
    let each = by_process(&text)
        .into_values()
        .map(|lines| of_process(&lines, &root));
    let found = each.max_by_key(Vec::len).unwrap_or_default();
    // Ignore checks before the run; PostMark makes none.
    let first = found
        .iter()
        .position(|call| call.starts_with("mkdir(") || call.contains("O_CREAT"))
        .unwrap();
    found[first..].to_vec()
}

/// Returns the lines of each process. Joins the two halves of calls that were interrupted by
/// others.
fn by_process(text: &str) -> BTreeMap<&str, Vec<String>> {
    let mut processes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    for line in text.lines() {
        let (id, call) = line.split_once(' ').unwrap_or_default();
        let call = call.trim();
        if let Some((first, _)) = call.split_once(" <unfinished ...>") {
            begun.insert(id, first);
            continue;
        }
        let resumed = call
            .strip_prefix("<... ")
            .and_then(|rest| rest.split_once(" resumed>"));
        let whole = resumed.map_or_else(
            || call.to_owned(),
            |(_, rest)| format!("{}{rest}", begun.remove(id).unwrap_or_default()),
        );
        processes.entry(id).or_default().push(whole);
    }
    processes
}

/// Returns the calls of one process on files whose names begin with `root`.
fn of_process(lines: &[String], root: &str) -> Vec<String> {
    let mut open = Vec::new();
    let mut found = Vec::new();
    for line in lines {
        let Some((call, result)) = line.rsplit_once(" = ") else {
            continue;
        };
        let call = call.trim_end();
        // If two locations name one directory, PostMark makes it twice, and the second call fails.
        if result.starts_with('-') {
            continue;
        }
        if call.contains(root) {
            // Opening is by path, with a flag that the C library adds for large files; removing has
            // two names.
            let call = call
                .replace("|O_LARGEFILE", "")
                .replace("mkdirat(AT_FDCWD, ", "mkdir(");
            let call = match call.strip_prefix("unlinkat(AT_FDCWD, ") {
                Some(rest) if rest.ends_with(", AT_REMOVEDIR)") => {
                    format!("rmdir({}", rest.replace(", AT_REMOVEDIR", ""))
                }
                Some(rest) => format!("unlink({}", rest.replace(", 0)", ")")),
                None => call,
            };
            if call.starts_with("open") && !call.contains("O_DIRECTORY") {
                open.push(result.to_owned());
            }
            found.push(call.replace(root, "\""));
        } else if let Some((name, arguments)) = call.split_once('(')
            && ["read", "write", "lseek", "close", "fsync"].contains(&name)
        {
            let (descriptor, rest) = arguments.split_once([',', ')']).unwrap();
            let Some(at) = open.iter().position(|known| known == descriptor) else {
                continue;
            };
            if name == "close" {
                open.remove(at);
            }
            found.push(format!("{name}({rest} = {result}"));
        }
    }
    found
}

#[test]
fn the_calls_are_those_of_postmark() {
    needs!(program "strace");
    needs!(program "postmark");
    for settings in [
        "set number 20\nset transactions 100",
        "set number 20\nset transactions 100\nset buffering false\nset size 512 4096",
        "set number 10\nset transactions 60\nset size 1 20000\nset read 4096\nset write 8192\nset subdirectories 3",
        "set number 10\nset transactions 60\nset size 100 9000\nset read 3000\nset write 700\nset buffering false",
        "set number 30\nset transactions 50\nset size 1024 1024\nset bias create 8\nset seed 5",
    ] {
        let (directory, files) = (scratch(), scratch());
        let place = files.path().display();
        let script =
            format!("{settings}\nset location {place}\nset location +{place}/. 2\nrun\nquit\n");
        std::fs::write(directory.path().join("script"), script).unwrap();
        let theirs = calls(&["postmark", "script"], directory.path(), files.path());
        let ours = calls(&[FSB, "postmark", "script"], directory.path(), files.path());
        assert!(
            theirs.len() > 300,
            "{settings}: the trace of PostMark was not understood"
        );
        if let Some(at) = theirs
            .iter()
            .zip(&ours)
            .position(|(theirs, ours)| theirs != ours)
        {
            panic!(
                "{settings}, call {at}: PostMark {}, fsb {}",
                theirs[at], ours[at]
            );
        }
        assert_eq!(theirs.len(), ours.len(), "{settings}");
    }
}

// The output equals that of PostMark except for values of a finer clock.

/// Returns the lines without the banner and without times.
fn timeless(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| {
        !line.starts_with("PostMark v") && !line.starts_with("This is not PostMark")
    });
    lines
        .map(|line| match line.split_once(" (") {
            Some((left, right)) if right.contains("per second") => {
                let left = if left.contains("seconds of") {
                    "\tN seconds of transactions"
                } else {
                    left
                };
                format!("{left} (N per second)")
            }
            _ if line.ends_with(" seconds total") => "\tN seconds total".to_owned(),
            _ => line.to_owned(),
        })
        .collect()
}

#[test]
fn everything_but_times_is_as_postmark_prints_it() {
    needs!(program "postmark");
    for lines in [
        "run\nquit\n",
        "show\nset seed 123\nset size 1 1000\nset number 700\nset transactions 2345\nrun\nset report terse\nquit\n",
        "set subdirectories 7\nset bias read 8\nset buffering false\nset transactions 1000\nshow\nrun\nhelp\nquit\n",
        "set number 3\nset transactions 1000\nset bias create 1\nrun\nhelp set b\nquit\n",
        "set size 100000 300000\nset number 60\nset read 65536\nset write 4096\nset transactions 600\nrun\nquit\n",
    ] {
        let directory = scratch();
        for (ours, theirs) in [
            (
                pipe(command(directory.path(), "postmark"), lines),
                pipe(theirs(directory.path()), lines),
            ),
            (script(directory.path(), lines), {
                let mut command = theirs(directory.path());
                command.arg("script").stdin(Stdio::null()).output().unwrap()
            }),
        ] {
            assert_eq!(
                timeless(&stdout(&ours)),
                timeless(&stdout(&theirs)),
                "{lines}"
            );
        }
        assert_eq!(listing(directory.path()), Vec::<String>::new());
    }
}

// `fsb postmark` removes the files that it made, however it ends, and changes no others.

/// Another process takes the space after fsb has checked it.
#[test]
fn a_disk_that_fills_up_ends_the_run_and_is_emptied() {
    needs!(root);
    let directory = scratch();
    let mount = |arguments: &[&str]| {
        assert!(
            Command::new("mount")
                .args(arguments)
                .status()
                .unwrap()
                .success()
        )
    };
    let point = directory.path().to_str().unwrap();
    mount(&["-t", "tmpfs", "-o", "size=16m,mode=755", "none", point]);
    let run = || {
        let lines = "set size 1000 20000\nset number 300\nset bias read 0\nset transactions 2000000000\nrun\n";
        let running = start(directory.path(), lines);
        // Take the rest of the space, so that the next file that grows finds none.
        let filled = std::fs::write(directory.path().join("other"), vec![7; 16 << 20]);
        assert!(filled.is_err());
        running.wait()
    };
    let output = std::panic::catch_unwind(run);
    let left = listing(directory.path());
    assert!(
        Command::new("umount")
            .arg(point)
            .status()
            .unwrap()
            .success()
    );
    let output = output.unwrap();
    expect_code(&output, 4);
    assert_eq!(
        message(&output, "warning/run-failed")["fields"]["errno"],
        "ENOSPC"
    );
    assert_eq!(left, ["other"]);
}

// The workload in plans: suites, and the tables of published runs.

#[test]
fn a_mail_server_runs_on_real_file_systems_and_leaves_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let plan = "targets = ['ext4', 'ext3,data=journal', 'tmpfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                [repetition]\nblocks = 1\nsample_time = '10ms'\n\
                [[workload]]\nname = 'postmark'\nnumber = 100\ntransactions = 500\ndurability = 'end'\nverify = true\n\
                [[workload]]\nname = 'postmark'\nnumber = 100\ntransactions = 500\nthreads = 2\n\
                [[workload]]\nname = 'postmark'\nnumber = 100\ntransactions = 500\nprocesses = 2\nverify = true\n\
                [[workload]]\nname = 'postmark'\nlabel = 'dry'\nnumber = 2\ntransactions = 500\nbias_create = 1\n";
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), "run plan.toml --out out");
    expect_code(&output, 4);
    for trial in trials(&directory.path().join("out")) {
        let (label, target) = (
            trial["workload"].as_str().unwrap(),
            trial["target"].as_str().unwrap(),
        );
        let outcome = match label {
            "dry" => "failed",
            _ if target == "tmpfs" && label.contains("durable") => "not_applicable",
            _ => "ok",
        };
        assert_eq!(
            trial["outcome"], outcome,
            "{label} on {target}: {}",
            trial["error"]
        );
        if label == "dry" {
            assert_eq!(trial["error_code"], "trial/no-files", "{}", trial["error"]);
        }
    }
    drop(output);
    expect_no_traces(&before);
}
