//! Runs killed while each control is set: the run's watcher restores the machine, or else the next fsb, which reports
//! it.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// A control, the file that shows it, and the value that it sets.
struct Case {
    control: &'static str,
    /// The file that changes.
    file: PathBuf,
    set: &'static str,
}

fn is_set(case: &Case) -> bool {
    read(&case.file).contains(case.set)
}

fn name(case: &Case) -> &str {
    case.control.split('=').next().unwrap()
}

/// Kills a run and its watcher after the controls are set. The next fsb undoes changes of the dead run, but not those
/// of a living one.
fn survive(cases: &[Case], disk: &Disk, restorer: &[&str]) {
    let scratch = scratch();
    let were: Vec<String> = cases.iter().map(|case| read(&case.file)).collect();
    // An agent that sees the coordinator die may undo the change before it dies itself; then there is nothing to check.
    let left = (0..5).any(|_| {
        for (case, was) in cases.iter().zip(&were) {
            assert!(!is_set(case), "{}: {was}", case.control);
        }
        kill_within(cases, disk);
        let all = cases.iter().all(is_set);
        if !all {
            // It may have undone only some of the changes.
            expect_code(&fsb(scratch.path(), &["clean"]), 0);
        }
        all
    });
    assert!(left, "the kernel took them back, and they need no ledger");
    let next = fsb(scratch.path(), restorer);
    expect_code(&next, 0);
    let said = stdout(&next) + &stderr(&next);
    for (case, was) in cases.iter().zip(were) {
        // A run prints one summary line; `fsb clean` prints a line per change.
        let undone = match restorer[0] {
            "clean" => format!("undone after a killed run: {}: ", name(case)),
            _ => "undone first: ".to_owned(),
        };
        assert!(said.lines().any(|line| line.starts_with(&undone)), "{}: {said}", case.control);
        assert_eq!(read(&case.file), was, "{}", case.control);
    }
}

/// Kills a run as soon as the controls are set. Before that, `fsb clean` must not undo the changes of the living run.
fn kill_within(cases: &[Case], disk: &Disk) {
    let scratch = scratch();
    let target = format!("ext4@{}", disk.path.display());
    let controls: Vec<&str> = cases.iter().map(|case| case.control).collect();
    let run = start(scratch.path(), &[&target], &controls, &disk.path);
    for case in cases {
        wait_until(case.control, Duration::from_secs(60), || is_set(case));
    }
    let doctor = stdout(&fsb(scratch.path(), &["doctor", "--quick"]));
    for case in cases {
        let line = doctor.lines().find(|line| line.split_whitespace().nth(1) == Some(name(case))).unwrap();
        assert!(line.contains(&format!("set by a running fsb (process {})", run.id())), "{line}");
    }
    let cleaned = fsb(scratch.path(), &["clean"]);
    assert_eq!(stdout(&cleaned), "nothing to undo\n", "a living run's ledger was replayed");
    assert!(cases.iter().all(is_set), "{controls:?}");

    let coordinator = run.id();
    kill_watcher(coordinator);
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    is_gone(coordinator);
    disk.wait_until_free();
}

#[test]
fn a_killed_run_leaves_no_setting_behind() {
    needs!(disks());
    let disk = Disk::new(320);
    let sysctl = |file: &str| PathBuf::from("/proc/sys/vm").join(file);
    let bytes = [
        Case { control: "dirty-bytes=64M", file: sysctl("dirty_bytes"), set: "67108864" },
        Case { control: "dirty-background-bytes=32M", file: sysctl("dirty_background_bytes"), set: "33554432" },
        Case { control: "dirty-expire=7s", file: sysctl("dirty_expire_centisecs"), set: "700" },
        Case { control: "wbt=7ms", file: disk.setting("wbt_lat_usec"), set: "7000" },
        Case { control: "read-ahead=1M", file: disk.setting("read_ahead_kb"), set: "1024" },
        Case { control: "barriers=off", file: disk.setting("write_cache"), set: "write through" },
    ];
    // Each of a pair replaces the other.
    let ratios = [
        Case { control: "dirty-ratio=7%", file: sysctl("dirty_ratio"), set: "7" },
        Case { control: "dirty-background-ratio=3%", file: sysctl("dirty_background_ratio"), set: "3" },
        Case { control: "dirty-writeback=7s", file: sysctl("dirty_writeback_centisecs"), set: "700" },
        Case { control: "scheduler=mq-deadline", file: disk.setting("scheduler"), set: "[mq-deadline]" },
    ];
    survive(&bytes, &disk, &["clean"]);
    survive(&ratios, &disk, &["clean"]);
    survive(&bytes[..1], &disk, &["run", "null", "--blocks", "1"]);
}

/// Starts a run with a setting of the machine and one of its device in its own process group, as a shell would.
fn start_group(directory: &std::path::Path, disk: &Disk) -> std::process::Child {
    fs::write(directory.join("plan.toml"), PLAN).unwrap();
    let _ = fs::remove_dir_all(directory.join("run"));
    let (target, wipe) = (format!("ext4@{}", disk.path.display()), disk.path.to_string_lossy());
    let arguments = ["run", "plan.toml", &target, "--size", "320M", "--out", "run", "-q", "--wipe", &wipe];
    let mut command = command(directory, &arguments);
    command.args(["--control", "dirty-expire=7s", "--control", "read-ahead=1M"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn settings_of_a_killed_run_are_restored_without_another_fsb() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    let before = traces();
    let settings = || (vm("dirty_expire_centisecs"), read(disk.setting("read_ahead_kb")));
    let was = settings();
    for group in [false, true] {
        let run = start_group(scratch.path(), &disk);
        wait_until("both are set", Duration::from_secs(60), || settings() == ("700".to_owned(), "1024".to_owned()));
        let pid = rustix::process::Pid::from_child(&run);
        match group {
            true => rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).unwrap(),
            false => rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap(),
        }
        // A reader of the run's output is not blocked by the watcher.
        run.wait_with_output().unwrap();
        wait_until("both are as they were", Duration::from_secs(60), || settings() == was);
        expect_no_traces(&before);
        expect_nothing_to_undo(scratch.path());
        disk.wait_until_free();
    }
}

#[test]
fn a_watcher_holds_nothing_of_its_run_and_ends_with_it() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    let before = traces();
    let was = vm("dirty_expire_centisecs");
    let run = start_group(scratch.path(), &disk);
    wait_until("it is set", Duration::from_secs(60), || vm("dirty_expire_centisecs") == "700");
    let watcher = PathBuf::from(format!("/proc/{}", watcher_of(run.id()).expect("a watcher")));
    let open = fs::read_dir(watcher.join("fd")).unwrap().flatten().map(|entry| fs::read_link(entry.path()).unwrap());
    let mut open: Vec<String> = open.map(|path| path.to_string_lossy().into_owned()).collect();
    open.sort();
    assert!(open.len() == 3 && open[..2] == ["/dev/null", "/dev/null"] && open[2].starts_with("pipe:"), "{open:?}");
    assert_eq!(fs::read_link(watcher.join("cwd")).unwrap(), PathBuf::from("/"));
    let session = |process: &std::path::Path| {
        let stat = read(process.join("stat"));
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_ne!(session(&watcher), session(&PathBuf::from(format!("/proc/{}", run.id()))));
    // Neither a terminal nor a service manager ends the watcher before its coordinator.
    let pid = watcher.file_name().unwrap().to_str().unwrap().parse().unwrap();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::HUP, rustix::process::Signal::TERM] {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
    assert!(watcher.exists());
    rustix::process::kill_process(rustix::process::Pid::from_child(&run), rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(vm("dirty_expire_centisecs"), was);
    expect_no_traces(&before);
}

#[test]
fn swap_comes_back_with_its_priority() {
    needs!(disks());
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
    expect_nothing_to_undo(scratch.path());
    let coordinator = run.id();
    kill_watcher(coordinator);
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    is_gone(coordinator);
    assert!(line(&own).is_none());
    let cleaned = stdout(&fsb(scratch.path(), &["clean"]));
    assert!(
        cleaned.contains(&format!("undone after a killed run: swap: switched swap on {own} on again")),
        "{cleaned}"
    );
    assert!(line(&own).is_some_and(|line| line.ends_with('7')), "{}", swaps());

    // The watcher of a killed run switches swap on in the user's mount namespace: /proc/swaps names the area as before.
    std::fs::remove_dir_all(scratch.path().join("run")).unwrap();
    let run = start(scratch.path(), &[&target], &["swap=off"], &disk.path);
    wait_until("swap is off", Duration::from_secs(60), || line(&own).is_none());
    let coordinator = run.id();
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    wait_until("swap is on", Duration::from_secs(60), || line(&own).is_some_and(|line| line.ends_with('7')));
    is_gone(coordinator);
    expect_nothing_to_undo(scratch.path());

    // A run that ends by itself restores swap by itself.
    let again = ["run", "plan.toml", "tmpfs", "--blocks", "1", "--size", "64M", "--control", "swap=off", "-q"];
    let output = fsb(scratch.path(), &[again.as_slice(), &["--out", "again"]].concat());
    let record = record(&scratch.path().join("again"));
    assert_eq!(record["controls"]["swap"]["observed"], format!("off: {own}"), "{}", stderr(&output));
    assert!(line(&own).is_some_and(|line| line.ends_with('7')), "{}", swaps());
}

#[test]
fn a_ledger_of_another_boot_is_discarded_and_said() {
    needs!(root);
    let scratch = scratch();
    let victim = PathBuf::from("/proc/sys/vm/dirty_ratio");
    let now = read(&victim);
    let entry = serde_json::json!({
        "boot_id": "another-boot",
        "owner": { "pid": 1, "start_time": 1 },
        "control": "dirty-ratio",
        "action": { "do": "write_file", "path": victim, "value": "then" },
    });
    fs::create_dir_all("/var/lib/fsb/undo").unwrap();
    fs::write("/var/lib/fsb/undo/1-1-0000.json", entry.to_string()).unwrap();
    let (cleaned, changes) = clean(scratch.path(), &[]);
    expect_code(&cleaned, 0);
    let [(state, said)] = &changes[..] else { panic!("{changes:?}") };
    assert!(state == "discarded" && said.contains("dirty-ratio"), "{said}");
    assert_eq!(read(&victim), now);
    expect_nothing_to_undo(scratch.path());
}
