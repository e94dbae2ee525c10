//! Runs the roles of a run's processes: coordinator, supervisor, agent and worker in one binary, as in `fsb` itself.
//! Their answers are lines of JSON.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::{background, side};
use fsb_sys::sandbox::{self, Confinement};
use fsb_testbed::ledger::{Ledger, Owner};
use fsb_testbed::{ColdReach, LocalTestbed, Setup, Testbed, TestbedError, control};
use serde_json::{Value, json};

/// Runs the role that the first argument names, if it names one.
pub fn play(arguments: &[OsString]) -> Option<ExitCode> {
    let words: Vec<String> = arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let result = match words.get(1)?.strip_prefix(ROLE)? {
        "coordinator" => coordinator(&arguments[2..]),
        "supervisor" => sandbox::supervise(&arguments[2..]),
        "agent" => agent(&words[2..]),
        "confined" => confined(&words[2]),
        "waiting" => side::wait_confined(&words[2]),
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
    let mut command = vec![OsString::from("__supervisor"), "__agent".into(), owner.into()];
    command.extend_from_slice(arguments);
    let mut launched = sandbox::launch(&command)?;
    println!("{}", json!({ "supervisor": launched.pid, "isolation": launched.isolation }));
    let stream = launched.stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        println!("{line}");
    }
    Ok(launched.wait(Duration::from_secs(30)).unwrap_or(99))
}

/// Runs the agent with the arguments `OWNER SETUP SCENARIO`. `visit` runs a sequential trial of each target in turn,
/// and `hold` stops in the middle of the first. `side` and `side-hold` have all targets ready at once.
fn agent(arguments: &[String]) -> Result<i32, TestbedError> {
    let mut stream = sandbox::protocol()?;
    let mut say = |value: Value| writeln!(stream, "{value}").expect("the coordinator listens");
    let owner: Owner = serde_json::from_str(&arguments[0]).expect("an owner");
    let setup: Setup = serde_json::from_str(&arguments[1]).expect("a setup");
    let mut testbed = LocalTestbed::new(owner);
    let result = visit(&mut testbed, &setup, &arguments[2], &mut say);
    if let Err(error) = &result {
        say(json!({ "error": error }));
    }
    testbed.close();
    Ok(i32::from(result.is_err()))
}

fn visit(
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
        return side::by_side(testbed, setup, scenario, say);
    }
    for target in &setup.targets {
        let provisioned = testbed.provision(0, 0, target)?;
        say(json!({ "provisioned": provisioned, "pid": std::process::id() }));
        if scenario == "hold" {
            write_file(&provisioned.root.join("held"), SIZE);
            std::thread::sleep(Duration::from_secs(600));
        }
        if scenario == "background" {
            background::leave_work(testbed, &provisioned.root, say)?;
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
            let warm = std::fs::read(&file).map(|_| testbed.counters(0)).expect("the file is still there");
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

/// Returns the kernel's counts of how often the page cache of this machine was emptied, and of the pages that it took back
/// when memory was short.
fn evictions() -> Option<Vec<String>> {
    let counters = std::fs::read_to_string("/proc/vmstat").ok()?;
    let is_eviction = |line: &&str| line.starts_with("drop_pagecache") || line.starts_with("pgsteal_");
    Some(counters.lines().filter(is_eviction).map(str::to_owned).collect())
}

/// Tries what a confined process can do in `root`. It runs as the user of the setup, or else as the present user.
fn worker(root: &Path, uid: Option<u32>) -> Value {
    let uid = uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let confinement = Confinement {
        writable: Some(root.to_owned()),
        uid,
        gid: uid,
        programs: None,
        root: None,
        die_with_parent: false,
        cpus: Vec::new(),
        memory_nodes: Vec::new(),
    };
    let order = json!({ "confinement": confinement, "outside": ["/tmp", root.parent().expect("a mount point")] });
    let output = actor("confined").arg(order.to_string()).output().expect("a worker");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

pub fn write_file(path: &Path, size: usize) {
    let file = std::fs::File::create(path).expect("the root of a target can be written to");
    file.write_all_at(&vec![7u8; size], 0).expect("there is space");
    file.sync_all().expect("the device works");
}

/// Confines itself according to its argument, then tries all operations that must fail.
fn confined(order: &str) -> Result<i32, TestbedError> {
    let order: Value = serde_json::from_str(order).expect("an order");
    let confinement: Confinement = serde_json::from_value(order["confinement"].clone()).expect("a confinement");
    let notes = sandbox::confine(&confinement)?;
    let target = confinement.writable.clone().unwrap_or_default();
    let attempts: Vec<Value> = order["outside"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|directory| json!({ "path": directory, "errno": errno(std::fs::write(PathBuf::from(directory).join("intruder"), "x")) }))
        .collect();
    let mut limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
    // SAFETY: the calls must fail, or only query; `limit` is valid.
    let regained = unsafe {
        libc::getrlimit(libc::RLIMIT_CORE, &mut limit);
        confinement.uid != 0 && libc::setuid(0) == 0
    };
    let mut status = String::new();
    std::fs::File::open("/proc/self/status").and_then(|mut file| file.read_to_string(&mut status)).expect("/proc");
    let field =
        |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned();
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
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

/// Creates a directory of its own in `within` under a ledger in `directory`, reports it, and waits to be killed.
fn change(within: &Path, directory: &Path) -> Result<i32, TestbedError> {
    let ledger = Ledger::open(directory, Owner::current(), control::RULES)?;
    let (path, _ticket) = ledger.record_directory(within, rustix::process::geteuid().as_raw())?;
    std::fs::create_dir(&path).expect("the name is free");
    println!("{}", json!({ "changed": path }));
    std::thread::sleep(Duration::from_secs(600));
    Ok(0)
}
