//! What may go wrong with servers' work on real files: the trial says so, and the rest of the run goes on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::common::{Running, counting, expect_code, fsb, needs_root, scratch, stderr, stdout};

const SHORT: &str = "[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n";
/// Small work of three kinds that fits everywhere.
const OTHERS: &str = "[[workload]]\nname = 'postmark'\nnumber = 50\ntransactions = 100\nverify = true\n\
                      [[workload]]\nname = 'untar-build'\nfiles = 60\nverify = true\n\
                      [[workload]]\nname = 'filetree'\nset = 'portage'\nscale = 0.005\nverify = true\n";

/// The trials of block 1, by workload.
fn outcomes(out: &Path) -> Vec<(String, String, String)> {
    let text = |trial: &Value, key: &str| trial[key].as_str().unwrap_or_default().to_owned();
    let trials = counting(out).into_iter().filter(|trial| trial["block"] == 1);
    trials.map(|trial| (text(&trial, "workload"), text(&trial, "outcome"), text(&trial, "error"))).collect()
}

/// The workload that begins so failed for that reason, and all others have values.
fn expect_one_failure(out: &Path, label: &str, said: &str) {
    let outcomes = outcomes(out);
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
    for (workload, outcome, error) in &outcomes {
        if workload.starts_with(label) {
            assert!(outcome == "failed" && error.contains(said), "{workload}: {outcome}: {error}");
        } else {
            assert_eq!(outcome, "ok", "{workload}: {error}");
        }
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_fails_one_trial() {
    needs_root();
    let directory = scratch();
    // More files are made than there are inodes, which is not predicted where mkfs chooses their number.
    let creates = "{ op = 'create', set = 'mails', fd = 1 }, { op = 'close', fd = 1 }, ".repeat(500);
    let grows = format!(
        "[[workload]]\nname = 'flow'\nlabel = 'grows'\nflow = '''\nname = 'grows'\n\
         [[fileset]]\nname = 'mails'\nfiles = 1000\nsize = '1K'\npreallocated = 0.1\n\
         [[thread]]\nname = 'writer'\nsteps = [ {creates}]\n'''\n"
    );
    let plan = format!(
        "targets = ['few=ext4,mkfs=\"-T largefile\"']\nsize = '320M'\nmkfs_defaults = true\n{SHORT}stretch = '2s'\n{grows}{OTHERS}"
    );
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 4);
    expect_one_failure(&directory.path().join("out"), "grows", "No space left on device (ENOSPC)");
    assert!(stdout(&output).contains("ENOSPC") && stderr(&output).contains("ENOSPC"), "{}", stdout(&output));
}

#[test]
fn what_needs_more_than_there_is_is_refused_beforehand_and_says_how_much() {
    let directory = scratch();
    let large = "[[workload]]\nname = 'fileserver'\nfiles = 40000\n";
    let plan =
        format!("targets = ['ext4']\nsize = '320M'\nmkfs_defaults = true\n{SHORT}stretch = '1ms'\n{large}{OTHERS}");
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 3);
    let said = stderr(&output);
    assert!(said.contains("'fileserver, 40000 files") && said.contains(" needs 4.") || said.contains("root"), "{said}");
    assert!(!directory.path().join("out").exists());
}

#[test]
fn too_few_files_fail_one_trial() {
    let directory = scratch();
    std::fs::create_dir(directory.path().join("target")).unwrap();
    let few = "[[workload]]\nname = 'flow'\nlabel = 'few'\nflow = '''\nname = 'few'\n\
               [[fileset]]\nname = 'mails'\nfiles = 3\nsize = '1K'\n\
               [[thread]]\nname = 'reader'\nsteps = [ { op = 'delete', set = 'mails', iterations = 10 } ]\n'''\n";
    // Long enough for more than three deletions on the busiest machine.
    let plan = format!("targets = ['./target']\n{SHORT}stretch = '300ms'\n{few}{OTHERS}");
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--out", "out"]);
    expect_code(&output, 4);
    expect_one_failure(&directory.path().join("out"), "few", "too few files: delete finds none among the 3 files");
    assert_eq!(std::fs::read_dir(directory.path().join("target")).unwrap().count(), 0);
}

/// Somebody deletes the mails of the mail server, and nobody else's files.
#[test]
fn files_that_vanish_fail_one_trial() {
    let directory = scratch();
    let target = directory.path().join("target");
    std::fs::create_dir(&target).unwrap();
    let mail = "[[workload]]\nname = 'varmail'\nfiles = 300\n";
    let plan = format!("targets = ['./target']\n{SHORT}stretch = '500ms'\n{mail}{OTHERS}");
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let running = Running::start(directory.path(), &["run", "plan.toml", "--out", "out"]);
    let over = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                mails(&target, false).iter().for_each(|path| drop(std::fs::remove_file(path)));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let output = running.wait();
        over.store(true, Ordering::Relaxed);
        output
    });
    expect_code(&output, 4);
    expect_one_failure(&directory.path().join("out"), "varmail", "");
    let failed = outcomes(&directory.path().join("out"));
    let (_, _, why) = failed.iter().find(|(workload, ..)| workload.starts_with("varmail")).unwrap();
    assert!(why.contains("(ENOENT)") || why.contains("instead of"), "{why}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

/// Files below a directory called after the set.
fn mails(directory: &Path, within: bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(mails(&path, within || path.ends_with(SET)));
        } else if within {
            found.push(path);
        }
    }
    found
}

/// What the personality calls its set.
const SET: &str = "bigfileset";

/// `--verify` reaches every kind of work on many files.
#[test]
fn all_that_can_compare_does_where_it_is_asked_for() {
    let directory = scratch();
    let run = |suite: &str, more: &[&str]| {
        let options =
            [&["run", "null", "--suite", suite, "--scale", "1/64", "--verify", "--print-plan"], more].concat();
        fsb(directory.path(), &options)
    };
    for (suite, verified) in [
        ("postmark", 4),
        ("filetree", 7),
        ("untar-build", 2),
        ("varmail", 1),
        ("fileserver", 1),
        ("webserver", 1),
        ("webproxy", 1),
        ("oltp", 1),
        ("videoserver", 1),
    ] {
        let output = run(suite, &[]);
        expect_code(&output, 0);
        let found = stdout(&output).matches("verify = true").count();
        assert!(found >= verified, "{suite}: {found}\n{}", stdout(&output));
    }
    let refused = run("fsbench", &[]);
    expect_code(&refused, 2);
    assert!(stderr(&refused).contains("--verify: micro-create"));
}
