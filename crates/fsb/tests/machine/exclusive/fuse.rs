//! Runs in directories of FUSE mounts: no value has a name that its server does not keep.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::fuse_servers::{FuseMount, fuse_server};
use crate::common::*;

/// Files that are created in a sample.
const FILES: usize = 20;

const WORKLOADS: [&str; 5] = [
    "create,files=20,durability=end",
    "append,durability=each,file_size=64K",
    "read,cache=any,backend=direct,access=random,block_size=4K,file_size=64K",
    "read,cache=cold,file_size=64K",
    "read,cache=warm,file_size=64K",
];

/// Measures a directory in one block, and expects one of these exit codes. Returns the trials.
fn measured(scratch: &Path, directory: &Path, codes: &[i32]) -> Vec<Value> {
    let workloads = WORKLOADS.map(|workload| format!("--workload {workload}"));
    let directory = directory.display();
    let output = fsb(
        scratch,
        format!(
            "run {directory} {} --force-root-user --blocks 1 --budget 120s --keep-affected --out run -q",
            workloads.join(" ")
        )
        .as_str(),
    );
    let code = output.status.code().expect("an exit code");
    assert!(codes.contains(&code), "{code}: {}", stderr(&output));
    trials(&scratch.join("run"))
}

fn trial<'a>(trials: &'a [Value], workload: &str) -> &'a Value {
    trials
        .iter()
        .filter(|trial| trial["phase"] == "measured")
        .find(|trial| {
            trial["workload"]
                .as_str()
                .is_some_and(|label| label.contains(workload))
        })
        .unwrap_or_else(|| panic!("no trial of {workload}: {trials:#?}"))
}

/// Counts the syncs of a server while it is watched.
struct Watched {
    strace: Child,
    log: std::path::PathBuf,
}

impl Watched {
    fn start(mount: &FuseMount, scratch: &Path) -> Watched {
        let log = scratch.join("strace");
        let mut strace = Command::new("strace")
            .args(["-f", "-e", "trace=fsync,fdatasync,syncfs", "-o"])
            .arg(&log)
            .args(["-p", &mount.server_id().to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace starts");
        let told = strace.stderr.take().expect("a pipe");
        let attached = BufReader::new(told)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("attached"));
        assert!(attached, "strace is not attached");
        Watched { strace, log }
    }

    fn syncs(mut self) -> usize {
        kill_process(Pid::from_child(&self.strace), Signal::INT).expect("our own child");
        self.strace.wait().expect("our own child");
        let log = fs::read_to_string(&self.log).expect("the log of strace");
        log.lines().filter(|line| line.contains("sync(")).count()
    }
}

#[test]
fn a_mirror_of_ext4_is_durable_as_far_as_its_server_syncs() {
    needs!(root);
    needs!(program "bindfs", "strace");
    let scratch = scratch();
    let mount = fuse_server("bindfs").mount();
    let watched = Watched::start(&mount, scratch.path());
    let trials = measured(scratch.path(), &mount.point, &[0]);
    let syncs = watched.syncs();
    let create = trial(&trials, "create");
    assert_eq!(create["outcome"], "ok", "{create:#}");
    assert_eq!(
        create["observed"]["unproven"],
        serde_json::json!(["synced_names"]),
        "bindfs does not pass syncs of directories on"
    );
    assert!(syncs >= FILES, "{syncs} syncs reached the server");
    let append = trial(&trials, "append");
    assert_eq!(append["outcome"], "ok", "{append:#}");
    assert_eq!(append["observed"]["unproven"], Value::Null);
    for (workload, reason) in [
        ("direct", "without O_DIRECT"),
        ("warm", "when it is opened"),
    ] {
        let found = trial(&trials, workload);
        assert_eq!(found["outcome"], "not_applicable", "{found:#}");
        assert!(
            found["error"].as_str().unwrap().contains(reason),
            "{found:#}"
        );
    }
    let cold = trial(&trials, "cold");
    assert_eq!(cold["outcome"], "ok", "{cold:#}");
    assert!(
        cold["observed"]["device_read_bytes"].as_u64().is_some(),
        "the device beneath the server is known: {cold:#}"
    );
}

#[test]
fn a_mirror_of_memory_is_neither_durable_nor_cold() {
    needs!(root);
    needs!(program "bindfs");
    let scratch = scratch();
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    // Nothing at all can be measured there.
    let mount = fuse_server("bindfs").mount_in(memory.path(), &[]);
    let trials = measured(scratch.path(), &mount.point, &[4]);
    for workload in ["create", "append", "cold"] {
        let found = trial(&trials, workload);
        assert_eq!(found["outcome"], "not_applicable", "{found:#}");
        assert!(
            found["error"]
                .as_str()
                .unwrap()
                .contains("tmpfs holds the data in memory"),
            "{found:#}"
        );
    }
}

#[test]
fn a_server_that_ignores_syncs_is_never_durable() {
    needs!(root);
    needs!(program "cryfs");
    let scratch = scratch();
    let mount = fuse_server("cryfs").mount();
    // Its own memory may answer cold reads: those are invalid.
    let trials = measured(scratch.path(), &mount.point, &[0, 4]);
    for workload in ["create", "append"] {
        let found = trial(&trials, workload);
        let is_known = found["outcome"] == "not_applicable";
        // On a busy device, other writes hide that it wrote nothing.
        assert!(
            is_known || found["observed"]["unproven"] != Value::Null,
            "{found:#}"
        );
    }
    let direct = trial(&trials, "direct");
    assert_eq!(
        direct["observed"]["unproven"],
        serde_json::json!(["direct"])
    );
}

#[test]
fn nothing_is_claimed_of_a_server_that_talks_to_another_machine() {
    needs!(root);
    needs!(program "sshfs", "sshd");
    let scratch = scratch();
    let mount = fuse_server("sshfs").mount();
    let trials = measured(scratch.path(), &mount.point, &[0]);
    for workload in ["create", "append", "direct"] {
        let found = trial(&trials, workload);
        assert_ne!(found["observed"]["unproven"], Value::Null, "{found:#}");
    }
    let cold = trial(&trials, "cold");
    assert_eq!(cold["outcome"], "not_applicable", "{cold:#}");
    assert!(
        cold["error"]
            .as_str()
            .unwrap()
            .contains("not known to be cold"),
        "{cold:#}"
    );
}
