//! Other users of the machine who try to make fsb write, wait or fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::*;

const NOBODY: u32 = 65534;
/// The user who plants files.
const OTHER: u32 = 65533;

/// Returns a command of a user whose environment names no directory.
fn without_a_home(uid: u32, binary: &Path, directory: &Path, arguments: &[&str]) -> Command {
    let ids = [
        format!("--reuid={uid}"),
        format!("--regid={uid}"),
        "--clear-groups".to_owned(),
        "--".to_owned(),
    ];
    let mut command = Command::new("setpriv");
    command
        .args(ids)
        .arg(binary)
        .args(arguments)
        .current_dir(directory);
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("COLUMNS", "10000");
    command
}

fn home_of(uid: u32) -> TempDir {
    let home = bench();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(home.path(), Some(uid), Some(uid)).unwrap();
    home
}

/// A file that a test made in a world-writable directory; removed with the test, unless it was
/// there before.
struct Planted(PathBuf);

impl Planted {
    /// Returns `None` if the name is taken.
    fn at(path: &str) -> Option<Planted> {
        let path = PathBuf::from(path);
        let free = fs::symlink_metadata(&path).is_err();
        if !free {
            fsb_testkit::left_out(
                "a planted file",
                &format!("{} is there already", path.display()),
            );
        }
        free.then_some(Planted(path))
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0).or_else(|_| fs::remove_dir_all(&self.0));
    }
}

fn entry(path: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    serde_json::json!({
        "boot_id": boot.trim(),
        "owner": { "pid": 1, "start_time": 1 },
        "control": "dirty-expire",
        "action": { "do": "write_file", "path": path, "value": "theirs" },
    })
    .to_string()
}

/// A short run in a directory in which [`bench`] or [`home_of`] wrote its plan.
fn quick(out: &str) -> [&str; 7] {
    ["run", "tiny.toml", "null", "--blocks", "1", "--out", out]
}

fn bench() -> TempDir {
    let scratch = scratch();
    tiny_plan(scratch.path());
    scratch
}

#[test]
fn no_ledger_of_the_temporary_directory_is_believed() {
    needs!(root);
    let (binary, home) = (public_copy(), home_of(NOBODY));
    let temporary = std::env::temp_dir().join("fsb");
    let Some(planted) = Planted::at(temporary.to_str().unwrap()) else {
        return;
    };
    let mine = home.path().join("mine");
    fs::write(&mine, "mine").unwrap();
    chown(&mine, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::create_dir_all(planted.0.join("undo")).unwrap();
    fs::write(planted.0.join("undo/1-1-0000.json"), entry(&mine)).unwrap();
    for path in [
        planted.0.clone(),
        planted.0.join("undo"),
        planted.0.join("undo/1-1-0000.json"),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
    let fsb = |arguments: &[&str]| {
        without_a_home(NOBODY, binary.path(), home.path(), arguments)
            .output()
            .unwrap()
    };
    expect_error(&fsb(&["clean", JSON]), 3, "testbed/no-ledger");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    // A run that leaves nothing behind needs no ledger; it warns that other runs do not notice it.
    let run = fsb(&[&quick("run")[..], &[JSON]].concat());
    expect_code(&run, 0);
    message(&run, "warning/no-lock");
    assert!(
        record(&home.path().join("run"))["warnings"]
            .to_string()
            .contains("no_lock")
    );
    expect_error(
        &fsb(&["run", "tiny.toml", ".", "--out", "another", "-q", JSON]),
        3,
        "testbed/no-ledger",
    );
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
}

#[test]
fn a_planted_entry_is_refused_and_told() {
    needs!(root);
    let scratch = bench();
    let victim = scratch.path().join("authorized_keys");
    fs::write(&victim, "mine").unwrap();
    fs::create_dir_all("/var/lib/fsb/undo").unwrap();
    let file = Planted::at("/var/lib/fsb/undo/1-1-0000.json").expect("an empty ledger");
    fs::write(&file.0, entry(&victim)).unwrap();
    for change in [(0o644, 0), (0o666, 0), (0o644, OTHER)] {
        fs::set_permissions(&file.0, fs::Permissions::from_mode(change.0)).unwrap();
        chown(&file.0, Some(change.1), None).unwrap();
        let (_, listed) = clean(scratch.path(), &["--list"]);
        let (cleaned, refused) = clean(scratch.path(), &[]);
        expect_code(&cleaned, 3);
        for changes in [listed, refused] {
            let [(state, said)] = &changes[..] else {
                panic!("{changes:?}")
            };
            assert!(
                state == "refused" && said.contains("/var/lib/fsb/undo/1-1-0000.json"),
                "{changes:?}"
            );
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    }
    // It does not prevent a run from measuring.
    let run = fsb_json(scratch.path(), &quick("run"));
    expect_code(&run, 0);
    assert_eq!(
        message(&run, "warning/ledger-entry")["fields"]["path"],
        file.0.to_str().unwrap()
    );
}

/// Runs the command to its end, or kills it: a command that hangs must not block the tests.
fn in_time(mut command: Command) -> Output {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    let start = std::time::Instant::now();
    while !waiting.is_finished() {
        if start.elapsed() > Duration::from_secs(120) {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    waiting.join().unwrap()
}

/// Every user can write to /run/lock, where older versions of fsb had their lock.
#[test]
fn nobody_else_holds_roots_lock_up() {
    needs!(root);
    needs!(program "flock");
    let scratch = bench();
    let runs = |out: &str| {
        for more in [None, Some("--allow-concurrent")] {
            let out = format!("{out}{}", more.unwrap_or_default());
            let mut run = command(scratch.path(), &quick(&out));
            run.args(more);
            expect_code(&in_time(run), 0);
        }
    };
    if fs::create_dir_all("/run/lock").is_ok()
        && let Some(place) = Planted::at("/run/lock/fsb.lock")
    {
        assert!(
            Command::new("mkfifo")
                .arg(&place.0)
                .status()
                .unwrap()
                .success()
        );
        chown(&place.0, Some(OTHER), Some(OTHER)).unwrap();
        runs("fifo");
        fs::remove_file(&place.0).unwrap();
        symlink("/etc/passwd", &place.0).unwrap();
        runs("link");
        fs::remove_file(&place.0).unwrap();
        fs::write(&place.0, "").unwrap();
        let mut held = Command::new("flock")
            .arg("--no-fork")
            .arg(&place.0)
            .args(["sleep", "600"])
            .spawn()
            .unwrap();
        runs("flock");
        held.kill().unwrap();
        held.wait().unwrap();
    }
    // Other users cannot lock root's own lock files, because they cannot open them.
    runs("own");
    for name in ["/run/fsb/lock", "/run/fsb/concurrent"] {
        let mut flock = Command::new("setpriv");
        flock.args([
            format!("--reuid={OTHER}"),
            format!("--regid={OTHER}"),
            "--clear-groups".to_owned(),
        ]);
        let output = in_time({
            flock.args(["flock", "--nonblock", name, "true"]);
            flock
        });
        assert!(
            !output.status.success() && stderr(&output).contains("denied"),
            "{name}: {}",
            stderr(&output)
        );
    }
}

/// Starts a run that lasts long enough to be observed.
fn long_run(mut command: Command, run: &Path) -> std::process::Child {
    command
        .args(["--blocks", "10000", "-q", "--out"])
        .arg(run)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().unwrap();
    wait_until("trials", Duration::from_secs(120), || trials(run).len() > 2);
    child
}

fn interrupt(mut child: std::process::Child) {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_user_is_told_of_roots_run_and_gives_way() {
    needs!(root);
    let (scratch, binary, home) = (bench(), public_copy(), home_of(NOBODY));
    let roots = long_run(
        command(scratch.path(), "run null"),
        &scratch.path().join("run"),
    );
    let process = format!("process {} ", roots.id());
    let refused = as_nobody(
        binary.path(),
        home.path(),
        &[&quick("refused")[..], &[JSON]].concat(),
    );
    assert_eq!(
        expect_error(&refused, 3, "testbed/busy")["fields"]["pid"],
        roots.id()
    );
    let insisting = [quick("second").as_slice(), &["--allow-concurrent"]].concat();
    let second = as_nobody(binary.path(), home.path(), &insisting);
    expect_code(&second, 0);
    assert!(
        record(&home.path().join("second"))["warnings"]
            .to_string()
            .contains(process.trim_end()),
        "{}",
        stderr(&second)
    );
    interrupt(roots);
    expect_code(&as_nobody(binary.path(), home.path(), &quick("after")), 0);
}

#[test]
fn root_is_told_of_a_users_run_and_not_stopped_by_it() {
    needs!(root);
    let (scratch, binary, home) = (bench(), public_copy(), home_of(NOBODY));
    let mut theirs = without_a_home(NOBODY, binary.path(), home.path(), &["run", "null"]);
    theirs.env("HOME", home.path());
    let theirs = long_run(theirs, &home.path().join("run"));
    let process = format!("process {} of user {NOBODY}", theirs.id());
    let run = fsb_json(scratch.path(), &quick("run"));
    expect_code(&run, 0);
    let warning = message(&run, "warning/concurrent");
    assert!(
        warning["fields"]["run"]
            .as_str()
            .is_some_and(|run| run.contains(&process)),
        "{warning}"
    );
    assert!(
        record(&scratch.path().join("run"))["warnings"]
            .to_string()
            .contains(&process)
    );
    // Runs of the same user do exclude each other.
    let refused = as_nobody(
        binary.path(),
        home.path(),
        &[&quick("refused")[..], &[JSON]].concat(),
    );
    assert_eq!(
        expect_error(&refused, 3, "testbed/busy")["fields"]["pid"],
        theirs.id()
    );
    interrupt(theirs);
}

#[test]
fn a_users_lock_lies_in_no_directory_of_others() {
    needs!(root);
    let (binary, home, theirs) = (public_copy(), home_of(NOBODY), home_of(OTHER));
    fs::create_dir(theirs.path().join("fsb")).unwrap();
    for path in [theirs.path().to_owned(), theirs.path().join("fsb")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        chown(path, Some(OTHER), Some(OTHER)).unwrap();
    }
    let words = [&quick("first")[..], &[JSON]].concat();
    let mut run = without_a_home(NOBODY, binary.path(), home.path(), &words);
    let first = run.env("XDG_RUNTIME_DIR", theirs.path()).output().unwrap();
    expect_code(&first, 0);
    let why = message(&first, "warning/no-lock")["fields"]["reasons"].to_string();
    assert!(
        why.contains(theirs.path().join("fsb").to_str().unwrap()) && why.contains("65533"),
        "{why}"
    );
    let mut run = without_a_home(NOBODY, binary.path(), home.path(), &quick("second"));
    let second = run
        .env("XDG_RUNTIME_DIR", theirs.path())
        .env("HOME", home.path())
        .output()
        .unwrap();
    expect_code(&second, 0);
    assert!(
        home.path().join(".local/state/fsb/lock").exists(),
        "{}",
        stderr(&second)
    );
    assert_eq!(fs::read_dir(theirs.path().join("fsb")).unwrap().count(), 0);
}
