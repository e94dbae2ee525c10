//! Killed in the middle of each control: the next fsb restores the machine and says so.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::*;

/// A control, how it is seen, and what brings it back.
struct Case {
    control: &'static str,
    /// The file that changes, and what it then holds.
    file: PathBuf,
    set: &'static str,
}

fn is_set(case: &Case) -> bool {
    read(&case.file).contains(case.set)
}

/// Kills a run in which the control is set; what a living run set is left alone, what a dead one set is undone.
fn survives(case: &Case, disk: &Disk, restorer: &[&str]) {
    let scratch = scratch();
    let was = read(&case.file);
    // An agent that sees the front die may undo it before it dies itself: then nothing is left to see here.
    let left = (0..5).any(|_| {
        assert!(!is_set(case), "{}: {was}", case.control);
        kill_within(case, disk);
        is_set(case)
    });
    assert!(left, "{}: the kernel took it back, and needs no ledger", case.control);
    let name = case.control.split('=').next().unwrap();
    let next = fsb(scratch.path(), restorer);
    expect_code(&next, 0);
    let said = stdout(&next) + &stderr(&next);
    let undone = format!("undone after a killed run: {name}: ");
    assert!(said.lines().any(|line| line.starts_with(&undone)), "{}: {said}", case.control);
    assert_eq!(read(&case.file), was, "{}", case.control);
}

/// Kills a run as soon as the control is set.
fn kill_within(case: &Case, disk: &Disk) {
    let scratch = scratch();
    let target = format!("ext4@{}", disk.path.display());
    let run = start(scratch.path(), &[&target], &[case.control], &disk.path);
    wait_until(case.control, Duration::from_secs(60), || is_set(case));
    let name = case.control.split('=').next().unwrap();
    let doctor = stdout(&fsb(scratch.path(), &["doctor"]));
    let line = doctor.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap();
    assert!(line.contains(&format!("set by a running fsb (process {})", run.id())), "{line}");
    let cleaned = fsb(scratch.path(), &["clean"]);
    assert_eq!(stdout(&cleaned), "nothing to undo\n", "{}: a living run's ledger was replayed", case.control);
    assert!(is_set(case), "{}", case.control);

    let front = run.id();
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    is_gone(front);
    disk.wait_until_free();
}

#[test]
fn a_killed_run_leaves_no_setting_behind() {
    if !ready("a_killed_run_leaves_no_setting_behind") {
        return;
    }
    let _turn = turn();
    let disk = Disk::new(320);
    let sysctl = |file: &str| PathBuf::from("/proc/sys/vm").join(file);
    for case in [
        Case { control: "dirty-bytes=64M", file: sysctl("dirty_bytes"), set: "67108864" },
        Case { control: "dirty-background-bytes=32M", file: sysctl("dirty_background_bytes"), set: "33554432" },
        Case { control: "dirty-ratio=7%", file: sysctl("dirty_ratio"), set: "7" },
        Case { control: "dirty-background-ratio=3%", file: sysctl("dirty_background_ratio"), set: "3" },
        Case { control: "dirty-expire=7s", file: sysctl("dirty_expire_centisecs"), set: "700" },
        Case { control: "dirty-writeback=7s", file: sysctl("dirty_writeback_centisecs"), set: "700" },
        Case { control: "scheduler=mq-deadline", file: disk.setting("scheduler"), set: "[mq-deadline]" },
        Case { control: "read-ahead=1M", file: disk.setting("read_ahead_kb"), set: "1024" },
        Case { control: "barriers=off", file: disk.setting("write_cache"), set: "write through" },
    ] {
        survives(&case, &disk, &["clean"]);
    }
    let case = Case { control: "dirty-bytes=64M", file: sysctl("dirty_bytes"), set: "67108864" };
    survives(&case, &disk, &["run", "null", "--blocks", "1"]);
}

#[test]
fn swap_comes_back_with_its_priority() {
    if !ready("swap_comes_back") {
        return;
    }
    let _turn = turn();
    let (scratch, disk, area) = (scratch(), Disk::new(320), Disk::new(32));
    let call = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).arg(&area.path).output().unwrap();
        assert!(output.status.success(), "{program}: {}", stderr(&output));
    };
    call("mkswap", &[]);
    call("swapon", &["-p", "7"]);
    let swaps = || read("/proc/swaps");
    let line = |name: &str| swaps().lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let own = area.path.to_string_lossy().into_owned();
    assert!(line(&own).is_some_and(|line| line.ends_with('7')), "{}", swaps());

    let target = format!("ext4@{}", disk.path.display());
    let run = start(scratch.path(), &[&target], &["swap=off"], &disk.path);
    wait_until("swap is off", Duration::from_secs(60), || line(&own).is_none());
    assert_eq!(stdout(&fsb(scratch.path(), &["clean"])), "nothing to undo\n");
    let front = run.id();
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    is_gone(front);
    assert!(line(&own).is_none());
    let cleaned = stdout(&fsb(scratch.path(), &["clean"]));
    assert!(
        cleaned.contains(&format!("undone after a killed run: swap: switched swap on {own} on again")),
        "{cleaned}"
    );
    assert!(line(&own).is_some_and(|line| line.ends_with('7')), "{}", swaps());

    // A run that ends by itself brings it back by itself.
    let again = ["run", "plan.toml", "tmpfs", "--blocks", "1", "--size", "64M", "--control", "swap=off", "-q"];
    let output = fsb(scratch.path(), &[again.as_slice(), &["--out", "again"]].concat());
    let record = record(&scratch.path().join("again"));
    assert_eq!(record["controls"]["swap"]["observed"], format!("off: {own}"), "{}", stderr(&output));
    assert!(line(&own).is_some_and(|line| line.ends_with('7')), "{}", swaps());
}

#[test]
fn a_ledger_of_another_boot_is_discarded_and_said() {
    if !root_or_skip("a_ledger_of_another_boot") {
        return;
    }
    let _turn = turn();
    let scratch = scratch();
    let victim = scratch.path().join("value");
    fs::write(&victim, "now").unwrap();
    let entry = serde_json::json!({
        "boot_id": "another-boot",
        "owner": { "pid": 1, "start_time": 1 },
        "control": "dirty-ratio",
        "action": { "do": "write_file", "path": victim, "value": "then" },
    });
    fs::create_dir_all("/var/lib/fsb/undo").unwrap();
    fs::write("/var/lib/fsb/undo/1-1-0000.json", entry.to_string()).unwrap();
    let cleaned = fsb(scratch.path(), &["clean"]);
    expect_code(&cleaned, 0);
    let said = stdout(&cleaned);
    assert!(said.contains("discarded, of an earlier boot: dirty-ratio: write 'then' back to"), "{said}");
    assert_eq!(read(&victim), "now");
    assert_eq!(stdout(&fsb(scratch.path(), &["clean"])), "nothing to undo\n");
}
