//! Runs that are killed in any role at any time: nothing is left, and the next run works.
//!
//! The default is a few cases. `FSB_KILLS=1000` runs that many; `FSB_KILLS_SEED=N` begins with case
//! N, so that a failed case can be repeated: `FSB_KILLS=1 FSB_KILLS_SEED=N`. `FSB_KILLS_VM=1`
//! includes guests, which take minutes each if they are emulated. `FSB_KILLS_ONLY=ntfs-3g` runs
//! only cases in which that role is killed, or with that target; `FSB_KILLS_ONLY=fuse` only those
//! with a FUSE server.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::*;
use crate::devices::Disk;

/// The default number of cases.
const FEW: u64 = 4;

const SETTING: &str = "/proc/sys/vm/dirty_expire_centisecs";

/// The number of cases from which on most must find the process that they kill.
const MANY: u64 = 20;

/// Roles to kill, by their hidden argument or by a part of the program's name. The watcher is busy
/// only if a setting was changed.
const ROLES: [&str; 6] = [
    "coordinator",
    "__supervisor",
    "__agent",
    "__worker",
    "__watcher",
    "mkfs",
];
/// Targets that a FUSE server serves, and its program.
const SERVED: [(&str, &str); 4] = [
    ("ntfs", "ntfs-3g"),
    ("bindfs", "bindfs"),
    ("gocryptfs", "gocryptfs"),
    ("fuse2fs", "fuse2fs"),
];

/// Returns the server of a target.
fn server_of(target: &str) -> Option<&'static str> {
    let mut all = SERVED.iter();
    all.find_map(|(served, server)| (*served == target).then_some(*server))
}
/// Roles of a run in a virtual machine.
const OF_GUESTS: [&str; 4] = ["coordinator", "__supervisor", "__vm-proxy", "qemu-system-"];

/// Roles while a command is measured: a worker is below its monitor, which has the same arguments,
/// and the command is below both.
const OF_COMMANDS: [&str; 7] = [
    "coordinator",
    "__supervisor",
    "__agent",
    "__worker",
    BELOW_MONITOR,
    "sleep",
    "__watcher",
];
const BELOW_MONITOR: &str = "the worker below its monitor";

/// A command that leaves a daemon, shared memory and files.
const COMMAND: &str = r#"
name = "command"
[controls]
guest-memory = "off"
[[workload]]
name = "command"
command = "mkdir d; for i in 1 2 3 4 5 6 7 8; do echo $i > d/$i; done; ipcmk -M 65536; setsid -f sleep 3671; sleep 0.1"
prepare = "rm -rf d"
[[workload]]
name = "command"
label = "with a service"
command = "sleep 0.1"
service = [{ command = "sleep 3672" }]
"#;

/// A sequence of numbers that a seed determines (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A kill: the role, the target and the time.
#[derive(Debug)]
struct Case {
    target: &'static str,
    role: &'static str,
    /// The run sets a setting that the kernel does not restore.
    control: bool,
    /// The time after the start.
    delay: Duration,
    /// The run measures a command, not workloads of the engine.
    command: bool,
    /// Kills the coordinator of a run that continues without the victim; otherwise the test
    /// interrupts it.
    then_kill: bool,
}

const DEVICE: &str = "ext4@DEVICE";
const GUEST: &str = "ext4 in a guest";

fn case(seed: u64, guests: bool) -> Case {
    let mut dice = Dice(seed);
    let targets = [
        "ext4",
        "xfs",
        "btrfs",
        "ntfs",
        "bindfs",
        "gocryptfs",
        "fuse2fs",
        "overlay",
        "squashfs",
        "ext4@ram",
        "tmpfs",
        DEVICE,
        "./data",
        GUEST,
    ];
    let target = dice.pick(&targets[..targets.len() - usize::from(!guests)]);
    let command = ["ext4", "xfs", "btrfs", DEVICE].contains(&target) && dice.below(2) == 0;
    let role = match target {
        _ if command => dice.pick(&OF_COMMANDS),
        // The server is killed as often as all others together.
        _ if server_of(target).is_some() => match server_of(target) {
            Some(server) if dice.below(2) == 0 => server,
            _ => dice.pick(&ROLES[..3]),
        },
        // Nothing is formatted for them.
        "tmpfs" | "./data" => dice.pick(&ROLES[..5]),
        GUEST => dice.pick(&OF_GUESTS),
        _ => dice.pick(&ROLES),
    };
    let longest = if target == GUEST { 40_000 } else { 3000 };
    let delay = Duration::from_millis(dice.below(longest) as u64);
    let control = (dice.below(2) == 0 || role == "__watcher") && target != GUEST;
    Case {
        target,
        role,
        control,
        delay,
        command,
        then_kill: dice.below(2) == 0,
    }
}

/// Returns the process and all its descendants with their arguments.
pub(crate) fn family(coordinator: u32) -> Vec<(i32, Vec<String>)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    let parent = |pid: i32| -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?
            .1
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()
    };
    let parents: Vec<(i32, i32)> = pids
        .into_iter()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![coordinator as i32];
    let mut next = 0;
    while let Some(one) = found.get(next).copied() {
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == one)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    let words = |pid: i32| -> Vec<String> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect()
    };
    found.into_iter().map(|pid| (pid, words(pid))).collect()
}

/// Returns the process that runs the role; `None` if there is none yet or any more.
fn victim(coordinator: u32, role: &str) -> Option<i32> {
    let plays = |words: &[String]| match role {
        "mkfs" => words
            .first()
            .is_some_and(|program| program.contains("mkfs") || program.contains("mke2fs")),
        "sleep" => words.first().is_some_and(|program| program == role),
        "qemu-system-" => words.first().is_some_and(|program| program.contains(role)),
        // The program that prepares a target has the same name, and comes earlier.
        _ if SERVED.iter().any(|(_, server)| *server == role) => {
            words.first().is_some_and(|program| program.contains(role))
        }
        _ => words.get(1).is_some_and(|word| word == role),
    };
    if role == "coordinator" {
        return Some(coordinator as i32);
    }
    // Parents come first.
    let mut family = family(coordinator).into_iter();
    let found = match role {
        BELOW_MONITOR => {
            family.rfind(|(_, words)| words.get(1).is_some_and(|word| word == "__worker"))
        }
        _ => family.find(|(_, words)| plays(words)),
    };
    found.map(|(pid, _)| pid)
}

fn send(pid: i32, signal: Signal) {
    // It may have ended since it was found.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// A coordinator in its own process group, which is killed when a test fails.
struct Coordinator(Child);

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench {
    directory: tempfile::TempDir,
    disk: Option<Disk>,
    kernel: Option<String>,
}

impl Bench {
    fn new(case: &Case, kernel: Option<&String>) -> Bench {
        let directory = scratch();
        match case.command {
            true => fs::write(directory.path().join("tiny.toml"), COMMAND).unwrap(),
            false => drop(tiny_plan(directory.path())),
        }
        fs::create_dir(directory.path().join("data")).unwrap();
        let disk = (case.target == DEVICE).then(|| Disk::new(96));
        Bench {
            directory,
            disk,
            kernel: kernel.filter(|_| case.target == GUEST).cloned(),
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn run(&self) -> PathBuf {
        self.path().join("run")
    }

    /// Returns `fsb` in the bench's directory. It may write to the bench's device, and a guest
    /// boots the kernel of the tests.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.path(), arguments);
        if let Some(disk) = &self.disk {
            command.arg("--wipe").arg(&disk.path);
        }
        if self.kernel.is_some() {
            command.env("XDG_CACHE_HOME", crate::independent::vm::cache());
        }
        command
    }

    fn start(&self, case: &Case) -> Coordinator {
        let device = self
            .disk
            .as_ref()
            .map(|disk| format!("ext4@{}", disk.path.display()));
        let target = if case.target == GUEST {
            "ext4"
        } else {
            device.as_deref().unwrap_or(case.target)
        };
        // The minimum that xfs needs.
        let size = match target {
            "xfs" => "320M",
            "btrfs" | "overlay" | "squashfs" => "128M",
            _ => "64M",
        };
        let mut command = self.command(&[
            "run",
            "tiny.toml",
            target,
            "--size",
            size,
            "--blocks",
            "50",
            "--out",
            "run",
            "-q",
        ]);
        if case.control {
            command.args(["--control", "dirty-expire=7s"]);
        }
        if let Some(kernel) = &self.kernel {
            command.args(["--in", "vm", "--memory", "512M", "--kernel", kernel]);
        }
        let command = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Coordinator(command.spawn().expect("the program starts"))
    }

    /// Checks that the saved files are complete and that the run can be resumed; a run that had not
    /// begun is started.
    fn goes_on(&self) {
        let run = self.run();
        let saved = fs::read_to_string(run.join("trials.jsonl")).unwrap_or_default();
        let lines: Vec<&str> = saved
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .collect();
        for line in &lines {
            serde_json::from_str::<serde_json::Value>(line).expect("a whole line is a whole trial");
        }
        let last = trials(&run)
            .iter()
            .filter_map(|trial| trial["block"].as_u64())
            .max();
        let (Some(last), true) = (last, run.join("run.json").exists()) else {
            succeeds(self.path(), "run tiny.toml null --blocks 1 --out next -q");
            return;
        };
        let mut record = record(&run);
        record["blocks_planned"] = last.max(1).into();
        // If warm-up has not ended, the run is planned again from the requested repetition.
        let asked = serde_json::to_string(&record["plan"]["repetition"]).unwrap();
        let fewer = asked.replace(":50", &format!(":{}", last.max(1)));
        record["plan"]["repetition"] = serde_json::from_str(&fewer).unwrap();
        fs::write(run.join("run.json"), record.to_string()).unwrap();
        let output = self
            .command(&["run", "--resume", "run", "-q", JSON])
            .output()
            .unwrap();
        // A run that was interrupted or killed between blocks may have nothing left to do, and a
        // killed worker costs its trial.
        let code = output.status.code();
        let complete = error_of(&output)["code"] == "run/complete";
        assert!(
            matches!(code, Some(0 | 4)) || complete,
            "{code:?}\n{}",
            stderr(&output)
        );
        let all = fs::read_to_string(run.join("trials.jsonl")).unwrap();
        assert!(
            all.ends_with('\n') && trials(&run).len() == all.lines().count(),
            "a damaged line"
        );
    }
}

fn wait_for_end(coordinator: &mut Coordinator, limit: Duration) -> bool {
    let start = Instant::now();
    loop {
        if coordinator.0.try_wait().unwrap().is_some() {
            return true;
        }
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a case. Returns whether the role had a process to kill, and a line about the result.
fn make(case: &Case, kernel: Option<&String>) -> (bool, String) {
    let (was, before) = (fs::read_to_string(SETTING).unwrap(), traces());
    let bench = Bench::new(case, kernel);
    // The test's own device does not count as a trace.
    let before = if bench.disk.is_some() {
        traces()
    } else {
        before
    };
    let mut coordinator = bench.start(case);
    let pid = coordinator.0.id();
    std::thread::sleep(case.delay);
    let patience = if case.target == GUEST {
        Duration::from_secs(120)
    } else {
        Duration::from_secs(5)
    };
    let start = Instant::now();
    let found = loop {
        match victim(pid, case.role) {
            None if start.elapsed() < patience && coordinator.0.try_wait().unwrap().is_none() => {
                std::thread::sleep(Duration::from_millis(1));
            }
            found => break found.filter(|_| coordinator.0.try_wait().unwrap().is_none()),
        }
    };
    let saved = trials(&bench.run()).len();
    let set = fs::read_to_string(SETTING).unwrap() != was;
    // The process id of a coordinator that was waited for may belong to another process by now.
    if found.is_some() || coordinator.0.try_wait().unwrap().is_none() {
        send(found.unwrap_or(pid as i32), Signal::KILL);
    }
    // Without its watcher, a killed coordinator leaves its changes to the next fsb.
    let unwatched = case.role == "__watcher" && found.is_some();
    let mut killed = case.role == "coordinator" || found.is_none();
    if !wait_for_end(&mut coordinator, Duration::from_secs(1)) {
        killed |= case.then_kill;
        send(
            pid as i32,
            if case.then_kill {
                Signal::KILL
            } else {
                Signal::INT
            },
        );
        assert!(
            wait_for_end(&mut coordinator, Duration::from_secs(60)),
            "the coordinator does not end"
        );
    }
    expect_no_traces(&before);
    if unwatched && killed {
        succeeds(bench.path(), "clean");
    }
    let restored = || fs::read_to_string(SETTING).unwrap() == was;
    let restored_in = Instant::now();
    wait_until(
        "the setting is as it was",
        Duration::from_secs(20),
        restored,
    );
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).unwrap().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    wait_until(
        "the directory is as it was",
        Duration::from_secs(20),
        || names(&bench.path().join("data")).is_empty(),
    );
    let left = names(bench.path());
    assert!(
        left.iter()
            .all(|name| ["tiny.toml", "run", "data"].contains(&name.as_str())),
        "left behind: {left:?}"
    );
    expect_no_cgroups(&before);
    expect_nothing_to_undo(bench.path());
    if let Some(disk) = &bench.disk {
        disk.wait_until_free();
    }
    bench.goes_on();
    expect_no_traces(&before);
    assert!(restored(), "a run that was resumed left a setting");
    let took = restored_in.elapsed().as_millis();
    let whom = if found.is_some() {
        case.role
    } else {
        "the coordinator, because no process had that role"
    };
    let set = if set { "" } else { "not " };
    let said = format!(
        "killed {whom}: {saved} trials saved, setting {set}changed, all as before in {took} ms"
    );
    (found.is_some(), said)
}

#[test]
fn whatever_is_killed_whenever_leaves_nothing() {
    needs!(root);
    needs!(program "mkntfs", "losetup", "bindfs", "gocryptfs", "fuse2fs", "mksquashfs");
    let asked = |name: &str| std::env::var(name).ok();
    let number = |name: &str| asked(name).and_then(|text| text.parse::<u64>().ok());
    let count = number("FSB_KILLS").unwrap_or(FEW);
    let fresh = || {
        std::time::UNIX_EPOCH
            .elapsed()
            .map_or(0, |now| now.as_millis() as u64 % 1_000_000)
    };
    let first = number("FSB_KILLS_SEED").unwrap_or_else(fresh);
    let kernel = match asked("FSB_KILLS_VM") {
        Some(_) => Some(needs!(crate::independent::vm::kernel())),
        None => None,
    };
    let only = asked("FSB_KILLS_ONLY");
    // Some roles exist only in some cases, and those of guests only if guests are requested.
    let cases = (first..first + 1000 * count).map(|seed| (seed, case(seed, kernel.is_some())));
    let cases = cases.filter(|(_, case)| {
        only.as_ref().is_none_or(|only| {
            [case.role, case.target].contains(&&**only)
                || only == "fuse" && server_of(case.target).is_some()
        })
    });
    let mut found = 0;
    for (seed, case) in cases.take(count as usize) {
        eprintln!("FSB_KILLS_SEED={seed}: {case:?}");
        let went = std::panic::catch_unwind(|| make(&case, kernel.as_ref()));
        match went {
            Ok((was_there, said)) => {
                found += u64::from(was_there);
                eprintln!("FSB_KILLS_SEED={seed}: {said}");
            }
            Err(why) => {
                eprintln!("to make it again: FSB_KILLS=1 FSB_KILLS_SEED={seed}");
                std::panic::resume_unwind(why);
            }
        }
    }
    eprintln!("{found} of {count} cases killed whom they named");
    assert!(
        count < MANY || found * 2 > count,
        "most cases have nobody to kill: they test nothing"
    );
}
