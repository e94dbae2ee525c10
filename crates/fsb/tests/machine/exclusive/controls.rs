//! Controls in whole runs: set, observed, restored, and refused before anything is changed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::controls::*;
use crate::common::*;
use crate::devices::Disk;

/// Requirements of tests that use a device of their own.
fn disks() -> Result<(), String> {
    fsb_testkit::root()?;
    fsb_testkit::programs(&["losetup", "mkswap"])
}

fn vm(file: &str) -> String {
    read(Path::new("/proc/sys/vm").join(file))
}

/// Returns a file of /proc of each worker process.
fn of_workers(file: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .map(|entry| entry.path());
    let is_worker = |path: &PathBuf| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"__worker")
    };
    processes
        .filter(is_worker)
        .map(|path| read(path.join(file)))
        .collect()
}

// Controls hold while a run measures, and are restored afterwards.

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_machine_is_as_asked_during_a_run_and_as_before_after_it() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    // Not a value that the kernel would choose, so that the test sees a restored value.
    fs::write(disk.setting("read_ahead_kb"), "512").unwrap();
    let sysctls = [
        "dirty_ratio",
        "dirty_bytes",
        "dirty_expire_centisecs",
        "dirty_background_ratio",
    ];
    let queue = ["scheduler", "wbt_lat_usec", "read_ahead_kb", "write_cache"]
        .map(|file| disk.setting(file));
    const MASK: &str = "/sys/devices/virtual/workqueue/cpumask";
    let now = || {
        sysctls
            .map(vm)
            .into_iter()
            .chain(queue.iter().map(read))
            .chain([read(MASK)])
            .collect::<Vec<_>>()
    };
    let as_they_were = now();
    let target = format!("btrfs@{}", disk.path.display());
    let controls = [
        "dirty-bytes=64M",
        "dirty-expire=5s",
        "dirty-background-ratio=3%",
        "scheduler=mq-deadline",
        "wbt=3ms",
        "read-ahead=1M",
        "barriers=off",
        "cpus=0",
        "kernel-cpus=0",
        "numa=0",
    ];
    let run = start(scratch.path(), &[&target], &controls, &disk.path);
    wait_until("the controls of the visit", PATIENCE, || {
        read(disk.setting("read_ahead_kb")) == "1024"
    });
    assert_eq!(read(disk.setting("write_cache")), "write through");
    assert_eq!(vm("dirty_bytes"), (64 << 20).to_string());
    assert_eq!(vm("dirty_ratio"), "0");
    assert_eq!(vm("dirty_expire_centisecs"), "500");
    assert_eq!(vm("dirty_background_ratio"), "3");
    assert_eq!(u32::from_str_radix(&read(MASK), 16), Ok(1));
    assert!(read(disk.setting("scheduler")).contains("[mq-deadline]"));
    assert_eq!(read(disk.setting("wbt_lat_usec")), "3000");
    // btrfs does not use the read-ahead of its device.
    wait_until("read-ahead of btrfs", PATIENCE, || {
        btrfs_read_ahead(&disk).as_deref() == Some("1024")
    });
    let bound = |file: &str, word: &str| of_workers(file).iter().any(|text| text.contains(word));
    wait_until("workers on one processor", PATIENCE, || {
        bound("status", "Cpus_allowed_list:\t0\n")
    });
    wait_until("workers' memory from one node", PATIENCE, || {
        bound("numa_maps", "bind:0")
    });
    let coordinator = run.id();
    run.signal(rustix::process::Signal::INT);
    expect_code(&run.wait(), 130);
    is_gone(coordinator);
    assert_eq!(now(), as_they_were);
    expect_nothing_to_undo(scratch.path());
}

fn btrfs_read_ahead(disk: &Disk) -> Option<String> {
    let mounted = fs::read_dir("/sys/fs/btrfs")
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    let ours = mounted
        .into_iter()
        .find(|path| path.join("devices").join(disk.name()).exists())?;
    Some(read(ours.join("bdi/read_ahead_kb")))
}

#[test]
fn one_target_without_barriers_differs_from_the_other_in_that_alone() {
    needs!(root);
    let scratch = scratch();
    let targets =
        "targets = ['ext4', { target = 'ext4', controls = { barriers = 'off' } }]\nsize = '320M'\n";
    fs::write(
        scratch.path().join("plan.toml"),
        format!("{targets}{PLAN}").replace("blocks = 1000", "blocks = 1"),
    )
    .unwrap();
    succeeds(scratch.path(), "run plan.toml --out run -q");
    let run = scratch.path().join("run");
    let written = |target: &str| {
        let all = counting(&run).into_iter();
        all.filter(|trial| trial["target"] == target && trial["operation"] == "write")
            .collect::<Vec<_>>()
    };
    let (with, without) = (written("ext4"), written("ext4 barriers off"));
    assert_eq!((with.len(), without.len()), (2, 2));
    for trial in with {
        assert!(
            trial["observed"]["device_flushes"].as_u64().unwrap() > 0,
            "{trial:#}"
        );
        assert!(
            trial["requested"]["controls"].get("barriers").is_none(),
            "{trial:#}"
        );
    }
    for trial in without {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        assert_eq!(trial["observed"]["device_flushes"], 0, "{trial:#}");
        assert_eq!(trial["requested"]["controls"]["barriers"], "off");
        assert!(
            trial["observed"]["controls"]["barriers"]
                .as_str()
                .unwrap()
                .starts_with("off"),
            "{trial:#}"
        );
    }
    let record = record(&run);
    let seen = |target: &str| {
        record["targets"][target]["controls"]["barriers"]["observed"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let off = seen("ext4 barriers off");
    assert!(
        seen("ext4").starts_with("on") && off.starts_with("off"),
        "{off}"
    );
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(report.contains(&off));
}

#[test]
fn missing_controls_are_recorded_and_reported() {
    needs!(root);
    if Path::new("/sys/devices/system/cpu/cpufreq/policy0").exists() {
        skip!("the processors have a frequency governor");
    }
    let scratch = scratch();
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let arguments = words("run plan.toml tmpfs --blocks 1 --size 64M --out run -q");
    let controls = words("--control governor=performance --control scheduler=none");
    let output = fsb(scratch.path(), &[arguments.as_slice(), &controls].concat());
    let record = record(&scratch.path().join("run"));
    let governor = &record["controls"]["governor"];
    assert_eq!(
        (&governor["requested"], &governor["effective"]),
        (&"performance".into(), &false.into())
    );
    assert_eq!(
        record["targets"]["tmpfs"]["controls"]["scheduler"]["effective"],
        false
    );
    let warnings = record["warnings"].as_array().unwrap();
    for (control, value) in [("governor", "performance"), ("scheduler", "none")] {
        let is_it = |warning: &&serde_json::Value| {
            warning["kind"] == "control_unavailable"
                && warning["control"] == control
                && warning["value"] == value
        };
        assert_eq!(warnings.iter().filter(is_it).count(), 1, "{warnings:?}");
        // The first screen wraps long lines.
        assert!(
            stdout(&output)
                .replace("\n ", "")
                .contains(&format!("{control}={value}")),
            "{}",
            stdout(&output)
        );
    }
}

// Runs killed while each control is set: the run's watcher restores the machine, or else the next
// fsb, which reports it.

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

/// Kills a run and its watcher after the controls are set. The next fsb undoes changes of the dead
/// run, but not those of a living one.
fn survive(cases: &[Case], disk: &Disk, restorer: &[&str]) {
    let scratch = scratch();
    let were: Vec<String> = cases.iter().map(|case| read(&case.file)).collect();
    // An agent that sees the coordinator die may undo the change before it dies itself; then there
    // is nothing to check.
    let left = (0..5).any(|_| {
        for (case, was) in cases.iter().zip(&were) {
            assert!(!is_set(case), "{}: {was}", case.control);
        }
        kill_within(cases, disk);
        let all = cases.iter().all(is_set);
        if !all {
            // It may have undone only some of the changes.
            succeeds(scratch.path(), "clean");
        }
        all
    });
    assert!(left, "the kernel took them back, and they need no ledger");
    let next = succeeds(scratch.path(), restorer);
    let said = stdout(&next) + &stderr(&next);
    for (case, was) in cases.iter().zip(were) {
        // A run prints one summary line; `fsb clean` prints a line per change.
        let undone = match restorer[0] {
            "clean" => format!("undone after a killed run: {}: ", name(case)),
            _ => "undone first: ".to_owned(),
        };
        assert!(
            said.lines().any(|line| line.starts_with(&undone)),
            "{}: {said}",
            case.control
        );
        assert_eq!(read(&case.file), was, "{}", case.control);
    }
}

/// Kills a run as soon as the controls are set. Before that, `fsb clean` must not undo the changes
/// of the living run.
fn kill_within(cases: &[Case], disk: &Disk) {
    let scratch = scratch();
    let target = format!("ext4@{}", disk.path.display());
    let controls: Vec<&str> = cases.iter().map(|case| case.control).collect();
    let run = start(scratch.path(), &[&target], &controls, &disk.path);
    for case in cases {
        wait_until(case.control, Duration::from_secs(60), || is_set(case));
    }
    let doctor = stdout(&fsb(scratch.path(), "doctor --quick"));
    for case in cases {
        let line = doctor
            .lines()
            .find(|line| line.split_whitespace().nth(1) == Some(name(case)))
            .unwrap();
        assert!(
            line.contains(&format!("set by a running fsb (process {})", run.id())),
            "{line}"
        );
    }
    let cleaned = fsb(scratch.path(), "clean");
    assert_eq!(
        stdout(&cleaned),
        "nothing to undo\n",
        "a living run's ledger was replayed"
    );
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
        Case {
            control: "dirty-bytes=64M",
            file: sysctl("dirty_bytes"),
            set: "67108864",
        },
        Case {
            control: "dirty-background-bytes=32M",
            file: sysctl("dirty_background_bytes"),
            set: "33554432",
        },
        Case {
            control: "dirty-expire=7s",
            file: sysctl("dirty_expire_centisecs"),
            set: "700",
        },
        Case {
            control: "wbt=7ms",
            file: disk.setting("wbt_lat_usec"),
            set: "7000",
        },
        Case {
            control: "read-ahead=1M",
            file: disk.setting("read_ahead_kb"),
            set: "1024",
        },
        Case {
            control: "barriers=off",
            file: disk.setting("write_cache"),
            set: "write through",
        },
    ];
    // Each of a pair replaces the other.
    let ratios = [
        Case {
            control: "dirty-ratio=7%",
            file: sysctl("dirty_ratio"),
            set: "7",
        },
        Case {
            control: "dirty-background-ratio=3%",
            file: sysctl("dirty_background_ratio"),
            set: "3",
        },
        Case {
            control: "dirty-writeback=7s",
            file: sysctl("dirty_writeback_centisecs"),
            set: "700",
        },
        Case {
            control: "scheduler=mq-deadline",
            file: disk.setting("scheduler"),
            set: "[mq-deadline]",
        },
    ];
    survive(&bytes, &disk, &["clean"]);
    survive(&ratios, &disk, &["clean"]);
    survive(&bytes[..1], &disk, &["run", "null", "--blocks", "1"]);
}

/// Starts a run with a setting of the machine and one of its device in its own process group, as a
/// shell would.
fn start_group(directory: &std::path::Path, disk: &Disk) -> std::process::Child {
    fs::write(directory.join("plan.toml"), HELD).unwrap();
    let _ = fs::remove_dir_all(directory.join("run"));
    let (target, wipe) = (
        format!("ext4@{}", disk.path.display()),
        disk.path.to_string_lossy(),
    );
    let arguments = format!("run plan.toml {target} --size 320M --out run -q --wipe {wipe}");
    let mut command = command(directory, &arguments);
    command
        .args(["--control", "dirty-expire=7s", "--control", "read-ahead=1M"])
        .process_group(0);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn settings_of_a_killed_run_are_restored_without_another_fsb() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    let before = traces();
    let settings = || {
        (
            vm("dirty_expire_centisecs"),
            read(disk.setting("read_ahead_kb")),
        )
    };
    let was = settings();
    for group in [false, true] {
        let run = start_group(scratch.path(), &disk);
        wait_until("both are set", Duration::from_secs(60), || {
            settings() == ("700".to_owned(), "1024".to_owned())
        });
        let pid = rustix::process::Pid::from_child(&run);
        match group {
            true => {
                rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).unwrap()
            }
            false => rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap(),
        }
        // A reader of the run's output is not blocked by the watcher.
        run.wait_with_output().unwrap();
        wait_until("both are as they were", Duration::from_secs(60), || {
            settings() == was
        });
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
    wait_until("it is set", Duration::from_secs(60), || {
        vm("dirty_expire_centisecs") == "700"
    });
    let watcher = PathBuf::from(format!(
        "/proc/{}",
        watcher_of(run.id()).expect("a watcher")
    ));
    let open = fs::read_dir(watcher.join("fd"))
        .unwrap()
        .flatten()
        .map(|entry| fs::read_link(entry.path()).unwrap());
    let mut open: Vec<String> = open
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    open.sort();
    assert!(
        open.len() == 3 && open[..2] == ["/dev/null", "/dev/null"] && open[2].starts_with("pipe:"),
        "{open:?}"
    );
    assert_eq!(
        fs::read_link(watcher.join("cwd")).unwrap(),
        PathBuf::from("/")
    );
    let session = |process: &std::path::Path| {
        let stat = read(process.join("stat"));
        stat.rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .nth(3)
            .unwrap()
            .to_owned()
    };
    assert_ne!(
        session(&watcher),
        session(&PathBuf::from(format!("/proc/{}", run.id())))
    );
    // Neither a terminal nor a service manager ends the watcher before its coordinator.
    let pid = watcher
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    for signal in [
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
        rustix::process::Signal::TERM,
    ] {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal)
            .unwrap();
    }
    assert!(watcher.exists());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&run),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(130));
    assert_eq!(vm("dirty_expire_centisecs"), was);
    expect_no_traces(&before);
}

#[test]
fn swap_comes_back_with_its_priority() {
    needs!(disks());
    let (scratch, disk, area) = (scratch(), Disk::new(320), Disk::new(32));
    let call = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .arg(&area.path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{program}: {}", stderr(&output));
    };
    call("mkswap", &[]);
    call("swapon", &["-p", "7"]);
    let swaps = || read("/proc/swaps");
    let line = |name: &str| {
        swaps()
            .lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned)
    };
    let own = area.path.to_string_lossy().into_owned();
    assert!(
        line(&own).is_some_and(|line| line.ends_with('7')),
        "{}",
        swaps()
    );

    let target = format!("ext4@{}", disk.path.display());
    let run = start(scratch.path(), &[&target], &["swap=off"], &disk.path);
    wait_until("swap is off", Duration::from_secs(60), || {
        line(&own).is_none()
    });
    expect_nothing_to_undo(scratch.path());
    let coordinator = run.id();
    kill_watcher(coordinator);
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    is_gone(coordinator);
    assert!(line(&own).is_none());
    let cleaned = stdout(&fsb(scratch.path(), "clean"));
    assert!(
        cleaned.contains(&format!(
            "undone after a killed run: swap: switched swap on {own} on again"
        )),
        "{cleaned}"
    );
    assert!(
        line(&own).is_some_and(|line| line.ends_with('7')),
        "{}",
        swaps()
    );

    // The watcher of a killed run switches swap on in the user's mount namespace: /proc/swaps names
    // the area as before.
    std::fs::remove_dir_all(scratch.path().join("run")).unwrap();
    let run = start(scratch.path(), &[&target], &["swap=off"], &disk.path);
    wait_until("swap is off", Duration::from_secs(60), || {
        line(&own).is_none()
    });
    let coordinator = run.id();
    run.signal(rustix::process::Signal::KILL);
    run.wait();
    wait_until("swap is on", Duration::from_secs(60), || {
        line(&own).is_some_and(|line| line.ends_with('7'))
    });
    is_gone(coordinator);
    expect_nothing_to_undo(scratch.path());

    // A run that ends by itself restores swap by itself.
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let again = words("run plan.toml tmpfs --blocks 1 --size 64M --control swap=off -q");
    let output = fsb(
        scratch.path(),
        &[again.as_slice(), &["--out", "again"]].concat(),
    );
    let record = record(&scratch.path().join("again"));
    assert_eq!(
        record["controls"]["swap"]["observed"],
        format!("off: {own}"),
        "{}",
        stderr(&output)
    );
    assert!(
        line(&own).is_some_and(|line| line.ends_with('7')),
        "{}",
        swaps()
    );
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
    let [(state, said)] = &changes[..] else {
        panic!("{changes:?}")
    };
    assert!(
        state == "discarded" && said.contains("dirty-ratio"),
        "{said}"
    );
    assert_eq!(read(&victim), now);
    expect_nothing_to_undo(scratch.path());
}

// Two runs at once: the second is refused without `--allow-concurrent`; with it, both results are
// marked.

#[test]
fn a_run_leaves_the_settings_of_another_run_alone() {
    needs!(root);
    let (scratch, before) = (scratch(), vm("dirty_expire_centisecs"));
    let directory = scratch.path();
    let plan = ["run", "plan.toml", "tmpfs", "--size", "64M", "-q", "--out"];
    fs::write(directory.join("plan.toml"), PLAN).unwrap();
    let first = Running::start(
        directory,
        &[plan.as_slice(), &["first", "--control", "dirty-expire=7s"]].concat(),
    );
    wait_until("the first run's control", Duration::from_secs(60), || {
        vm("dirty_expire_centisecs") == "700"
    });
    let second = [
        "second",
        "--blocks",
        "1",
        "--control",
        "dirty-expire=9s",
        "--allow-concurrent",
    ];
    fsb(directory, &[plan.as_slice(), &second].concat());
    let record = record(&directory.join("second"));
    let seen = &record["controls"]["dirty-expire"];
    assert_eq!(seen["effective"], false);
    assert_eq!(vm("dirty_expire_centisecs"), "700");
    first.signal(rustix::process::Signal::INT);
    first.wait();
    assert_eq!(vm("dirty_expire_centisecs"), before);
}

// Partitions have the settings of their disk and share them with other partitions.

/// A partition that is added to the kernel's table; dropped before the disk, it is removed with the
/// test.
struct Partition<'a> {
    disk: &'a Disk,
    number: &'static str,
}

impl<'a> Partition<'a> {
    /// Start and length in MiB.
    fn new(disk: &'a Disk, number: &'static str, start: u64, length: u64) -> Partition<'a> {
        let sectors = [start, length].map(|megabytes| (megabytes * 2048).to_string());
        let output = Command::new("addpart")
            .arg(&disk.path)
            .arg(number)
            .args(sectors)
            .output()
            .expect("addpart runs");
        assert!(output.status.success(), "{}", stderr(&output));
        Partition { disk, number }
    }

    fn path(&self) -> String {
        format!("{}p{}", self.disk.path.display(), self.number)
    }
}

impl Drop for Partition<'_> {
    fn drop(&mut self) {
        let _ = Command::new("delpart")
            .arg(&self.disk.path)
            .arg(self.number)
            .status();
    }
}

fn flushes(run: &Path) -> Vec<(String, u64)> {
    let measured = counting(run)
        .into_iter()
        .filter(|trial| trial["operation"] == "write");
    let seen = measured.map(|trial| {
        assert_eq!(trial["outcome"], "ok", "{trial:#}");
        let target = trial["target"].as_str().unwrap().to_owned();
        (
            target,
            trial["observed"]["device_flushes"].as_u64().unwrap(),
        )
    });
    seen.collect()
}

#[test]
fn a_partition_is_controlled_by_its_disk_unless_a_neighbour_is_in_use() {
    needs!(disks());
    needs!(program "addpart", "mkfs.ext4");
    let (scratch, disk) = (scratch(), Disk::new(420));
    let (own, neighbour) = (
        Partition::new(&disk, "1", 1, 330),
        Partition::new(&disk, "2", 340, 64),
    );
    let target = format!("ext4@{}", own.path());
    let bare = format!(
        "{{ target = 'bare={target}', controls = {{ barriers = 'off', scheduler = 'mq-deadline' }} }}"
    );
    let plan = format!("targets = ['with={target}', {bare}]\n{PLAN}")
        .replace("blocks = 1000", "blocks = 1");
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let path = own.path();
    let arguments = ["run", "plan.toml", "--wipe", &path, "-q", "--out"];
    succeeds(scratch.path(), &[arguments.as_slice(), &["run"]].concat());
    let seen = flushes(&scratch.path().join("run"));
    assert_eq!(seen.len(), 4, "{seen:?}");
    for (target, flushes) in seen {
        assert_eq!(flushes == 0, target == "bare", "{target}: {flushes}");
    }
    let record = record(&scratch.path().join("run"));
    assert_eq!(
        record["targets"]["bare"]["controls"]["scheduler"]["observed"],
        "mq-deadline"
    );
    assert_eq!(read(disk.setting("write_cache")), "write back");

    let call = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", stderr(&output));
    };
    let point = scratch.path().join("neighbour");
    fs::create_dir(&point).unwrap();
    call("mkfs.ext4", &["-q", &neighbour.path()]);
    call("mount", &[&neighbour.path(), &point.to_string_lossy()]);
    let refused = fsb_json(
        scratch.path(),
        &[arguments.as_slice(), &["refused"]].concat(),
    );
    call("umount", &[&point.to_string_lossy()]);
    let refused = expect_error(&refused, 2, "control/risks-data");
    assert_eq!(refused["fields"]["control"], "barriers", "{refused}");
    let others = refused["fields"]["shared_with"].as_str().unwrap();
    assert!(
        others.contains(&format!("{}p2 in use", disk.name())),
        "{refused}"
    );
}

// Invalid controls are refused before anything is changed.

#[test]
fn a_scheduler_that_the_device_does_not_know_is_refused() {
    needs!(disks());
    let (scratch, disk) = (scratch(), Disk::new(320));
    let target = format!("ext4@{}", disk.path.display());
    for target in [target.as_str(), "ext4"] {
        let arguments = format!("run {target} --control scheduler=cfq --size 320M");
        fails(scratch.path(), &arguments, 2, "control/invalid-value");
    }
    // Nothing was written to it.
    assert!(fs::read(&disk.path).unwrap().iter().all(|byte| *byte == 0));
}
