//! The common part of the tests: the actor, setups, loop devices of the tests, and checks that
//! nothing is left.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use fsb_model::{Identity, Target};
use fsb_sys::sandbox::{self, Confinement};
use fsb_testbed::ledger::{Ledger, Owner};
use fsb_testbed::{ColdReach, Counters, LocalTestbed, Setup, Slot, Testbed, TestbedError, control};
use serde_json::{Value, json};

/// Returns a setup with these targets, as small as possible.
pub fn setup(targets: &[&str], size: u64, dir: &Path) -> Setup {
    let mut targets: Vec<Target> = targets
        .iter()
        .map(|text| text.parse().expect("a target"))
        .collect();
    fsb_model::target::make_names_unique(&mut targets);
    Setup {
        patience: None,
        memory_needed: None,
        targets,
        size,
        slices: 1,
        dir: dir.to_owned(),
        wipe: Vec::new(),
        devices: Default::default(),
        controls: [("guest-memory".to_owned(), "off".to_owned())].into(),
        identity: Identity {
            uid: Some(65534),
            gid: Some(65534),
            force_root: false,
        },
        seed: 1,
        vm: None,
        root: None,
        kernels: Vec::new(),
        oldest_kernel: None,
        large_disk: Default::default(),
        like_disk: 0,
        fault: None,
        background_limits: Vec::new(),
    }
}

/// Returns a temporary directory on a disk, because /tmp may be in memory.
pub fn directory() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("fsb-it-")
        .tempdir_in("/var/tmp")
        .expect("/var/tmp can be written to")
}

/// A running coordinator process. Dropping it kills the process.
pub struct Coordinator {
    pub child: Child,
    pub lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Coordinator {
    pub fn start(setup: &Setup, scenario: &str, prepare: impl FnOnce(&mut Command)) -> Coordinator {
        let mut command = actor("coordinator");
        command
            .arg(serde_json::to_string(setup).expect("JSON"))
            .arg(scenario)
            .stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().expect("the actor is built with the tests");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Coordinator { child, lines }
    }

    /// Returns the next line that has this key. An `error` line fails the test.
    pub fn wait_for(&mut self, key: &str) -> Value {
        for line in self.lines.by_ref() {
            let value: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            assert!(value.get("error").is_none(), "{value}");
            if value.get(key).is_some() {
                return value;
            }
        }
        panic!("the coordinator ended before it said '{key}'");
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns every line of a whole run.
pub fn run(setup: &Setup, prepare: impl FnOnce(&mut Command)) -> Vec<Value> {
    play(setup, "sequential", prepare)
}

/// Like [`run`], in another scenario.
pub fn play(setup: &Setup, scenario: &str, prepare: impl FnOnce(&mut Command)) -> Vec<Value> {
    let mut coordinator = Coordinator::start(setup, scenario, prepare);
    let lines = coordinator
        .lines
        .by_ref()
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
        .collect();
    coordinator.child.wait().expect("the front ends");
    lines
}

/// Returns the first line with this key.
pub fn find<'a>(lines: &'a [Value], key: &str) -> &'a Value {
    let told = |key: &str| lines.iter().find_map(|line| line.get(key));
    told(key).unwrap_or_else(|| panic!("no '{key}'; error: {:?}; lines: {lines:?}", told("error")))
}

/// Waits for changes that the kernel makes after a process has ended.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "not so after 30 s: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the files behind attached loop devices, as the kernel names them.
pub fn backing_files() -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block")
        .expect("/sys")
        .filter_map(Result::ok);
    devices
        .filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok())
        .collect()
}

/// Checks that a run with its images in `dir` left nothing: no loop device on them, no mount of
/// fsb, no directory.
pub fn nothing_is_left(dir: &Path) {
    let shown = dir.to_string_lossy().into_owned();
    eventually("no loop device", || {
        backing_files().iter().all(|file| !file.contains(&shown))
    });
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    assert!(!mounts.contains("/run/fsb"), "{mounts}");
    let left: Vec<_> = std::fs::read_dir(dir)
        .expect("the directory")
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(
        left.iter()
            .all(|path| !path.to_string_lossy().contains(".fsb-")),
        "{left:?}"
    );
}

/// A loop device that the test attached itself, over a sparse file.
pub struct TestDevice {
    pub path: PathBuf,
}

impl TestDevice {
    pub fn new(dir: &Path, size: u64, arguments: &[&str]) -> TestDevice {
        let image = dir.join(format!("device-{}", std::process::id()));
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(size))
            .expect("an image");
        let output = Command::new("losetup")
            .args(arguments)
            .args(["-f", "--show"])
            .arg(&image)
            .output()
            .expect("losetup");
        assert!(output.status.success(), "{output:?}");
        // Another program must not find it by name.
        std::fs::remove_file(&image).expect("the image");
        TestDevice {
            path: PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim()),
        }
    }

    /// Returns the names of its partitions in the kernel.
    pub fn partitions(&self) -> Vec<String> {
        let directory = Path::new("/sys/block").join(self.path.file_name().expect("a device"));
        let entries = std::fs::read_dir(directory)
            .expect("/sys")
            .map(|entry| entry.expect("an entry").path());
        let partitions = entries.filter(|path| path.join("partition").exists());
        partitions
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect()
    }
}

impl Drop for TestDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// Runs a program that must succeed.
pub fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
}

// Runs the roles of a run's processes: coordinator, supervisor, agent and worker in one binary, as
// in `fsb` itself. Their answers are lines of JSON.

/// Runs the role that the first argument names, if it names one.
pub fn play_role(arguments: &[OsString]) -> Option<ExitCode> {
    let words: Vec<String> = arguments
        .iter()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let result = match words.get(1)?.strip_prefix(ROLE)? {
        "coordinator" => coordinator(&arguments[2..]),
        "supervisor" => sandbox::supervise(&arguments[2..]),
        "agent" => agent(&words[2..]),
        "confined" => confined(&words[2]),
        "waiting" => wait_confined(&words[2]),
        "change" => change(Path::new(&words[2]), Path::new(&words[3])),
        other => panic!("no role '{other}'"),
    };
    Some(match result {
        Ok(code) => ExitCode::from(code.clamp(0, 255) as u8),
        Err(error) => {
            println!("{}", json!({ "error": error }));
            ExitCode::FAILURE
        }
    })
}

/// Returns a command that runs a role with this binary.
pub fn actor(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.arg(format!("{ROLE}{role}"));
    command
}

/// The prefix of role names. The test harness has no arguments like that.
const ROLE: &str = "__";

/// Starts a supervisor and an agent with the same arguments, and prints the lines of the agent.
fn coordinator(arguments: &[OsString]) -> Result<i32, TestbedError> {
    let owner = serde_json::to_string(&Owner::current()).expect("an owner is JSON");
    let mut command = vec![
        OsString::from("__supervisor"),
        "__agent".into(),
        owner.into(),
    ];
    command.extend_from_slice(arguments);
    let mut launched = sandbox::launch(&command)?;
    println!(
        "{}",
        json!({ "supervisor": launched.pid, "isolation": launched.isolation })
    );
    let stream = launched.stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        println!("{line}");
    }
    Ok(launched.wait(Duration::from_secs(30)).unwrap_or(99))
}

/// Runs the agent with the arguments `OWNER SETUP SCENARIO`. `sequential` runs a sequential trial
/// of each target in turn, and `hold` stops in the middle of the first. `side` and `side-hold` have
/// all targets ready at once.
fn agent(arguments: &[String]) -> Result<i32, TestbedError> {
    let mut stream = sandbox::protocol()?;
    let mut say = |value: Value| writeln!(stream, "{value}").expect("the coordinator listens");
    let owner: Owner = serde_json::from_str(&arguments[0]).expect("an owner");
    let setup: Setup = serde_json::from_str(&arguments[1]).expect("a setup");
    let mut testbed = LocalTestbed::new(owner);
    let result = run_scenario(&mut testbed, &setup, &arguments[2], &mut say);
    if let Err(error) = &result {
        say(json!({ "error": error }));
    }
    testbed.close();
    Ok(i32::from(result.is_err()))
}

fn run_scenario(
    testbed: &mut LocalTestbed,
    setup: &Setup,
    scenario: &str,
    say: &mut dyn FnMut(Value),
) -> Result<(), TestbedError> {
    const SIZE: usize = 4 << 20;
    let warnings = testbed.check(setup)?;
    let mut filled = 0;
    let opened = testbed.open(setup, &mut |progress| filled = progress.done)?;
    say(json!({ "opened": opened, "warnings": warnings, "filled": filled }));
    if scenario.starts_with("side") {
        return by_side(testbed, setup, scenario, say);
    }
    for target in &setup.targets {
        let provisioned = testbed.provision(0, 0, target)?;
        say(json!({ "provisioned": provisioned, "pid": std::process::id() }));
        if scenario == "hold" {
            write_file(&provisioned.root.join("held"), SIZE);
            std::thread::sleep(Duration::from_secs(600));
        }
        if scenario == "background" {
            leave_work(testbed, &provisioned.root, say)?;
        } else if provisioned.abilities.fake.is_none() {
            say(json!({ "worker": worker(&provisioned.root, setup.identity.uid) }));
            let file = provisioned.root.join("file");
            write_file(&file, SIZE);
            let quiet = testbed.quiesce(0, Duration::MAX)?;
            let written = testbed.counters(0);
            let cold = if provisioned.abilities.cold.is_some() {
                testbed.make_cold(0, ColdReach::Machine).map(|()| true)?
            } else {
                false
            };
            let (before, evicted_before) = (testbed.counters(0), evictions());
            let bytes = std::fs::read(&file).expect("the file is still there");
            assert!(bytes == vec![7u8; SIZE], "the file kept its content");
            let after = testbed.counters(0);
            let warm = std::fs::read(&file)
                .map(|_| testbed.counters(0))
                .expect("the file is still there");
            say(json!({
                "quiet": quiet, "cold": cold, "written": written, "before": before, "after": after, "warm": warm,
                "evicted": evictions() != evicted_before,
            }));
        }
        testbed.release(0)?;
        say(json!({ "released": target.name, "exists": provisioned.root.exists() }));
    }
    Ok(())
}

/// Returns the kernel's counts of how often the page cache of this machine was emptied, and of the
/// pages that it took back when memory was short.
fn evictions() -> Option<Vec<String>> {
    let counters = std::fs::read_to_string("/proc/vmstat").ok()?;
    let is_eviction =
        |line: &&str| line.starts_with("drop_pagecache") || line.starts_with("pgsteal_");
    Some(
        counters
            .lines()
            .filter(is_eviction)
            .map(str::to_owned)
            .collect(),
    )
}

/// Tries what a confined process can do in `root`. It runs as the user of the setup, or else as the
/// present user.
fn worker(root: &Path, uid: Option<u32>) -> Value {
    let uid = uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let confinement = Confinement {
        writable: vec![root.to_owned()],
        uid,
        gid: uid,
        programs: None,
        root: None,
        die_with_parent: false,
        cpus: Vec::new(),
        memory_nodes: Vec::new(),
    };
    let order = json!({ "confinement": confinement, "outside": ["/tmp", root.parent().expect("a mount point")] });
    let output = actor("confined")
        .arg(order.to_string())
        .output()
        .expect("a worker");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

pub fn write_file(path: &Path, size: usize) {
    let file = std::fs::File::create(path).expect("the root of a target can be written to");
    file.write_all_at(&vec![7u8; size], 0)
        .expect("there is space");
    file.sync_all().expect("the device works");
}

/// Confines itself according to its argument, then tries all operations that must fail.
fn confined(order: &str) -> Result<i32, TestbedError> {
    let order: Value = serde_json::from_str(order).expect("an order");
    let confinement: Confinement =
        serde_json::from_value(order["confinement"].clone()).expect("a confinement");
    let notes = sandbox::confine(&confinement)?;
    let target = confinement.writable.first().cloned().unwrap_or_default();
    let attempts: Vec<Value> = order["outside"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|directory| json!({ "path": directory, "errno": errno(std::fs::write(PathBuf::from(directory).join("intruder"), "x")) }))
        .collect();
    let mut limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: 1,
    };
    // SAFETY: the calls must fail, or only query; `limit` is valid.
    let regained = unsafe {
        libc::getrlimit(libc::RLIMIT_CORE, &mut limit);
        confinement.uid != 0 && libc::setuid(0) == 0
    };
    let mut status = String::new();
    std::fs::File::open("/proc/self/status")
        .and_then(|mut file| file.read_to_string(&mut status))
        .expect("/proc");
    let field = |key: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    println!(
        "{}",
        json!({
            "notes": notes,
            "inside": errno(std::fs::write(target.join("mine"), "x")),
            "attempts": attempts,
            "devices": errno(std::fs::read("/dev/zero").map(drop)),
            "regained": regained,
            "core": limit.rlim_max,
            "capabilities": field("CapPrm:"),
            "bounding": field("CapBnd:"),
            "no_new_privileges": field("NoNewPrivs:"),
            "users": field("Uid:"),
            "groups": field("Groups:"),
        })
    );
    Ok(0)
}

fn errno(result: std::io::Result<()>) -> i32 {
    result
        .err()
        .and_then(|error| error.raw_os_error())
        .unwrap_or(0)
}

/// Creates a directory of its own in `within` under a ledger in `directory`, reports it, and waits
/// to be killed.
fn change(within: &Path, directory: &Path) -> Result<i32, TestbedError> {
    let ledger = Ledger::open(directory, Owner::current(), control::RULES)?;
    let (path, _ticket) = ledger.record_directory(within, rustix::process::geteuid().as_raw())?;
    std::fs::create_dir(&path).expect("the name is free");
    println!("{}", json!({ "changed": path }));
    std::thread::sleep(Duration::from_secs(600));
    Ok(0)
}

// The actor's part of the tests of quiescing: creates deferred work, and measures it.

/// Creates many files, and reports the deferred work of the file system before and after quiescing.
fn leave_work(
    testbed: &mut LocalTestbed,
    root: &Path,
    say: &mut dyn FnMut(Value),
) -> Result<(), TestbedError> {
    for number in 0..500 {
        std::fs::write(root.join(number.to_string()), "x").expect("there is space");
    }
    let directory = std::fs::File::open(root).expect("the root of a target");
    rustix::fs::syncfs(&directory).expect("the device works");
    drop(directory);
    let device = device_under(root.parent().expect("a mount point"));
    say(json!({ "synced": kept(&device) }));
    let quiet = testbed.quiesce(0, Duration::MAX)?;
    say(json!({ "quiet": quiet, "settled": kept(&device) }));
    say(json!({ "writable": std::fs::write(root.join("afterwards"), "x").is_ok() }));
    let writer = std::fs::File::create(root.join("held")).expect("there is space");
    say(
        json!({ "with a writer": testbed.quiesce(0, Duration::MAX).err().map(|error| error.to_string()) }),
    );
    drop(writer);
    Ok(())
}

fn device_under(point: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    let mut here = mounts
        .lines()
        .filter(|line| line.split(' ').nth(4) == point.to_str());
    let line = here.next_back().expect("it is mounted");
    line.split(" - ")
        .nth(1)
        .and_then(|rest| rest.split(' ').nth(1))
        .expect("a source")
        .to_owned()
}

fn kept(device: &str) -> Value {
    let output = Command::new("dumpe2fs")
        .args(["-h", device])
        .output()
        .expect("e2fsprogs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let journal = text.lines().find_map(|line| {
        line.strip_prefix("Journal start:")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    // It is mounted from a private node, which is named like the kernel's device.
    let name = device.rsplit('/').next().expect("a name");
    // A sequence number consists of the cycle and the block. The log of this test does not wrap
    // around.
    let end = |end: &str| -> Option<u64> {
        let text = std::fs::read_to_string(format!("/sys/fs/xfs/{name}/log/log_{end}_lsn")).ok()?;
        text.trim().split_once(':')?.1.parse().ok()
    };
    json!({ "journal": journal, "log": end("head").zip(end("tail")).map(|(head, tail)| head - tail) })
}

// The agent's operations on targets that are all ready at once.

/// Makes each target ready in a slot of its own, in the order of the setup. If media are divided,
/// it uses the slice of the same number.
fn by_side(
    testbed: &mut LocalTestbed,
    setup: &Setup,
    scenario: &str,
    say: &mut dyn FnMut(Value),
) -> Result<(), TestbedError> {
    let slots: Vec<Slot> = (0..).take(setup.targets.len()).collect();
    let mut roots = Vec::new();
    for (slot, target) in (0..).zip(&setup.targets) {
        let slice = if setup.slices > 1 { slot } else { 0 };
        let provisioned = testbed.provision(slot, slice, target)?;
        say(json!({ "provisioned": provisioned, "pid": std::process::id() }));
        roots.push(provisioned.root);
    }
    if scenario == "side-hold" {
        roots
            .iter()
            .for_each(|root| write_file(&root.join("held"), SIZE));
        say(json!({ "held": roots }));
        std::thread::sleep(Duration::from_secs(600));
    }
    let all = |testbed: &LocalTestbed| {
        slots
            .iter()
            .map(|slot| testbed.counters(*slot))
            .collect::<Vec<_>>()
    };
    for slot in &slots {
        testbed.quiesce(*slot, Duration::MAX)?;
    }
    for (slot, root) in (0..).zip(&roots).filter(|(_, root)| root.exists()) {
        let (before, watch) = (all(testbed), testbed.watch(slot));
        // A different size for each target.
        write_file(&root.join("file"), SIZE * (slot as usize + 1));
        testbed.sync(slot)?;
        let seen = watch.map(fsb_testbed::watch::Watch::end);
        say(json!({ "slot": slot, "wrote": difference(&before, &all(testbed)), "seen": seen }));
    }
    for (slot, root) in (0..).zip(&roots).filter(|(_, root)| root.exists()) {
        let others = roots
            .iter()
            .filter(|other| *other != root && other.exists());
        let workers: Vec<Child> = others.map(|other| start_worker(other)).collect();
        testbed.make_cold(slot, ColdReach::Machine)?;
        workers.into_iter().for_each(end_worker);
        let before = all(testbed);
        let content = std::fs::read(root.join("file")).expect("the file is still there");
        assert!(
            content == vec![7u8; SIZE * (slot as usize + 1)],
            "the file kept its content"
        );
        say(json!({ "slot": slot, "read": difference(&before, &all(testbed)) }));
    }
    let there = || {
        roots
            .iter()
            .map(|root| root.join("file").exists())
            .collect::<Vec<_>>()
    };
    for slot in &slots {
        testbed.release(*slot)?;
        say(json!({ "released": slot, "there": there() }));
        testbed.release(*slot)?;
    }
    // A target in a slot that is in use replaces the previous one, and other slots stay.
    if scenario == "side-again" {
        for (slot, slice, target) in [(0, 0, 0), (7, 1, 1), (0, 0, 1)] {
            let provisioned = testbed.provision(slot, slice, &setup.targets[target])?;
            write_file(&provisioned.root.join("file"), SIZE);
            say(json!({ "again": provisioned.record }));
            roots.push(provisioned.root);
        }
        let taken = testbed
            .provision(1, 1, &setup.targets[0])
            .expect_err("slot 7 has slice 1");
        say(json!({ "taken": taken }));
        say(
            json!({ "left": roots.iter().map(|root| root.join("file").exists()).collect::<Vec<_>>() }),
        );
        testbed.release_all()?;
    }
    Ok(())
}

/// Starts a worker that is confined to its target and waits.
fn start_worker(root: &Path) -> Child {
    let confinement = Confinement {
        writable: vec![root.to_owned()],
        uid: 65534,
        gid: 65534,
        programs: None,
        root: None,
        die_with_parent: true,
        cpus: Vec::new(),
        memory_nodes: Vec::new(),
    };
    let order = serde_json::to_string(&confinement).expect("JSON");
    let mut child = actor("waiting")
        .arg(order)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker");
    let mut ready = [0];
    child
        .stdout
        .as_mut()
        .expect("a pipe")
        .read_exact(&mut ready)
        .expect("the worker is confined");
    child
}

fn end_worker(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().expect("a worker").success());
}

/// Confines itself, reports that, and waits until its standard input is closed.
fn wait_confined(order: &str) -> Result<i32, TestbedError> {
    let notes = sandbox::confine(&serde_json::from_str(order).expect("a confinement"))?;
    assert!(notes.is_empty(), "{notes:?}");
    println!(".");
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("a pipe");
    Ok(0)
}

const SIZE: usize = 4 << 20;

/// Returns the bytes that each device moved.
fn difference(before: &[Option<Counters>], after: &[Option<Counters>]) -> Vec<Option<u64>> {
    let moved = |counters: &Counters| counters.read_bytes + counters.write_bytes;
    let one = |(before, after): (&Option<Counters>, &Option<Counters>)| {
        Some(moved(after.as_ref()?) - moved(before.as_ref()?))
    };
    before.iter().zip(after).map(one).collect()
}
