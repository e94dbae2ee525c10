//! A run continues however its guest ends, and leaves nothing however it ends itself.

use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::common::{expect_code, words};

/// Returns processes whose command line contains all of `words`.
fn processes(words: &[&str]) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    let line = |pid: i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let fits = |pid: &i32| {
        let line = String::from_utf8_lossy(&line(*pid)).replace('\0', " ");
        words.iter().all(|word| line.contains(word))
    };
    pids.filter(fits).collect()
}

/// A coordinator that is killed when a test fails: it would block the others.
struct Coordinator(std::process::Child);

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns QEMU itself, not processes that are about to execute it.
fn qemu() -> Vec<i32> {
    let becoming = processes(&["__vm-machine"]);
    processes(&["qemu-system-", "chardev=protocol,name=fsb"])
        .into_iter()
        .filter(|pid| !becoming.contains(pid))
        .collect()
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn directories_that_guests_share_end_with_a_killed_coordinator() {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let arguments = "9p virtiofs --dir . --blocks 1000 --out run";
    let mut coordinator = Coordinator(
        run(scratch.path(), &kernel, &words(arguments))
            .spawn()
            .unwrap(),
    );
    wait_until("a trial in the guest", LONG, || {
        !trials(&scratch.path().join("run")).is_empty()
    });
    let shared = || {
        let entries = std::fs::read_dir(scratch.path()).unwrap().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with(".fsb-"))
    };
    assert!(shared());
    coordinator.0.kill().unwrap();
    coordinator.0.wait().unwrap();
    wait_until("the watcher", LONG, || !shared());
    expect_no_traces(&before);
    assert!(qemu().is_empty() && processes(&["virtiofsd"]).is_empty());
}

#[test]
fn a_killed_coordinator_takes_the_guest_and_its_disk_along() {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let mut coordinator = Coordinator(
        run(
            scratch.path(),
            &kernel,
            &["ext4", "--blocks", "50", "--out", "run"],
        )
        .spawn()
        .unwrap(),
    );
    wait_until("a trial in the guest", LONG, || {
        !trials(&scratch.path().join("run")).is_empty()
    });
    assert_eq!(
        qemu().len(),
        1,
        "{:#?}",
        trials(&scratch.path().join("run"))
    );
    coordinator.0.kill().unwrap();
    coordinator.0.wait().unwrap();
    expect_no_traces(&before);
    assert!(qemu().is_empty() && processes(&["__vm-proxy"]).is_empty());
    let left: Vec<_> = std::fs::read_dir(scratch.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(
        left.len(),
        2,
        "only the plan and the run directory: {left:?}"
    );
}

#[test]
fn where_an_ordinary_user_may_make_no_namespaces_a_guest_runs_and_dies_with_its_coordinator() {
    let kernel = needs!(kernel());
    let before = traces();
    let (home, binary) = (super::runs::home_of_nobody(), public_copy());
    std::fs::write(home.path().join("tiny.toml"), PLAN).unwrap();
    // The limit applies to one user namespace, so it affects no other user. If user namespaces are
    // not allowed on the machine, the test need not set it.
    let limit = "if [ \"$1\" = limited ]; then echo 0 > /proc/sys/user/max_user_namespaces || exit 9; fi; shift; \
                 unshare --user true 2>/dev/null && exit 9; \
                 exec setpriv --ambient-caps=-all --inh-caps=-all -- \"$@\"";
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let own = ["unshare", "--user", "--map-current-user", "--keep-caps"];
    let may = Command::new("setpriv")
        .args(nobody)
        .args(own)
        .arg("true")
        .output()
        .unwrap()
        .status
        .success();
    let mut command = Command::new("setpriv");
    command.args(nobody).args(own.iter().filter(|_| may));
    command
        .args([
            "sh",
            "-c",
            limit,
            "sh",
            if may { "limited" } else { "refused" },
        ])
        .arg(binary.path());
    command.args([
        "run",
        "tiny.toml",
        "ext4",
        "--kernel",
        &kernel,
        "--blocks",
        "50",
        "--out",
        "run",
    ]);
    command
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("XDG_CACHE_HOME", home.path().join("cache"));
    let mut coordinator = Coordinator(command.spawn().unwrap());
    let run = home.path().join("run");
    wait_until("a trial in the guest", LONG, || {
        assert_eq!(coordinator.0.try_wait().unwrap(), None, "the run goes on");
        !trials(&run).is_empty()
    });
    assert_eq!(trials(&run)[0]["outcome"], "ok");
    assert_eq!(qemu().len(), 1);
    coordinator.0.kill().unwrap();
    coordinator.0.wait().unwrap();
    expect_no_traces(&before);
    assert!(qemu().is_empty() && processes(&["__vm-proxy"]).is_empty());
}

#[test]
fn a_guest_whose_qemu_is_killed_costs_the_rest_of_its_block() {
    lose_qemu(Signal::KILL);
}

/// A stopped QEMU prints nothing and answers nothing, like a guest whose processors are deadlocked.
#[test]
fn a_guest_that_stands_still_is_ended_and_costs_the_rest_of_its_block() {
    lose_qemu(Signal::STOP);
}

/// Sends QEMU a signal after the first measured trial, and expects the run to continue with another
/// guest.
fn lose_qemu(signal: Signal) {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let directory = scratch.path().join("run");
    let mut command = run(
        scratch.path(),
        &kernel,
        &["ext4", "ext2", "--blocks", "2", "--out", "run"],
    );
    let mut coordinator = Coordinator(command.env("FSB_VM_PATIENCE", "10").spawn().unwrap());
    // Both targets are measured before the next case, which is still to come.
    let measured = || {
        trials(&directory)
            .iter()
            .filter(|trial| trial["phase"] == "measured")
            .count()
    };
    wait_until("the first measured trial", LONG, || measured() >= 1);
    let victims = qemu();
    assert_eq!(victims.len(), 1, "{:#?}", trials(&directory));
    send(victims[0], signal);
    assert_eq!(coordinator.0.wait().unwrap().code(), Some(4));
    let trials = trials(&directory);
    let failed: Vec<_> = trials
        .iter()
        .filter(|trial| trial["outcome"] == "failed")
        .collect();
    assert!(!failed.is_empty() && failed.len() <= 4, "{failed:#?}");
    assert_eq!(
        failed[0]["error_code"], "trial/guest-stopped",
        "{}",
        failed[0]["error"]
    );
    assert!(
        trials
            .iter()
            .any(|trial| trial["block"] == 2 && trial["outcome"] == "ok"),
        "{:?}",
        outcomes(&directory)
    );
    expect_no_traces(&before);
}

#[test]
fn a_guest_that_panics_says_so_and_the_next_block_gets_another() {
    let kernel = needs!(kernel());
    let before = traces();
    let scratch = scratch();
    let arguments = ["ext4", "--blocks", "2", "--out", "run"];
    let output = run(scratch.path(), &kernel, &arguments)
        .env("FSB_VM_FAULT", "panic")
        .output()
        .unwrap();
    expect_code(&output, 4);
    let trials = trials(&scratch.path().join("run"));
    assert!(
        trials.len() >= 4 && trials[0]["outcome"] == "ok",
        "{:?}: {}",
        outcomes(&scratch.path().join("run")),
        stderr(&output)
    );
    let failed: Vec<_> = trials
        .iter()
        .filter(|trial| trial["outcome"] == "failed")
        .collect();
    assert!(
        failed.len() >= 2,
        "the rest of the block: {}",
        stderr(&output)
    );
    for trial in failed {
        assert_eq!(trial["error_code"], "trial/guest-stopped", "{trial:#}");
    }
    assert!(
        stderr(&output).matches(&kernel).count() >= 2,
        "{}",
        stderr(&output)
    );
    expect_no_traces(&before);
}

// Disks that fail under a target in a guest: errors in a sample, a disk that dies, one with a log
// of its writes, one that fills up. Each fault costs the trials of its target, which report it; the
// others continue.

const FAULTS: &str = r#"
name = "faults"
in = "vm"
size = "96M"
memory = "512M"
cpus = 2
mkfs_defaults = true
targets = [
    'holes=ext4,mkfs="-O ^has_journal"@fault:error+loop',
    "logged=ext4@fault:log-writes+loop+loop",
    "dying=ext4@fault:flakey+loop",
    'few=ext4,mkfs="-T largefile4"',
    "sound=ext4",
]
[repetition]
blocks = 1
sample_time = "500ms"
[[workload]]
name = "write"
file_size = "24M"
durability = "end"
[[workload]]
name = "create"
files = 500
file_size = "4K"
"#;

#[test]
fn a_disk_that_fails_costs_its_own_trials_and_says_why() {
    let kernel = needs!(kernel());
    let scratch = scratch();
    std::fs::write(scratch.path().join("faults.toml"), FAULTS).unwrap();
    let arguments = format!("run faults.toml --kernel {kernel} -q --seed 1 --out run");
    let output = command(scratch.path(), &arguments)
        .env("XDG_CACHE_HOME", cache())
        .output()
        .unwrap();
    expect_code(&output, 4);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let made = trials(&scratch.path().join("run"));
    let of = |target: &str| -> Vec<(String, String)> {
        let own = made
            .iter()
            .filter(|trial| trial["target"] == target && trial["phase"] == "measured");
        own.map(|trial| (text(&trial["outcome"]), text(&trial["errno"])))
            .collect()
    };
    for target in ["sound", "logged"] {
        assert_eq!(of(target).len(), 2, "{target}");
        assert!(
            of(target).iter().all(|(outcome, _)| outcome == "ok"),
            "{target}: {:?}",
            of(target)
        );
    }
    for target in ["holes", "dying", "few"] {
        let lost: Vec<_> = of(target)
            .into_iter()
            .filter(|(outcome, _)| outcome == "failed")
            .collect();
        assert!(!lost.is_empty(), "{target}");
        if target == "few" {
            assert!(lost.iter().all(|(_, errno)| errno == "ENOSPC"), "{lost:?}");
        } else {
            // The words are those of mkfs, or those of the call under which the disk died. ext4
            // becomes read-only then.
            let own: Vec<String> = made
                .iter()
                .filter(|trial| trial["target"] == target && trial["outcome"] == "failed")
                .map(|trial| text(&trial["error"]))
                .collect();
            let first = |words: &str| own.iter().position(|error| error.contains(words));
            let died = first("Input/output error");
            assert!(
                died.is_some() && first("Read-only file system").is_none_or(|at| Some(at) > died),
                "{target}: {own:#?}"
            );
            assert!(
                own.iter().all(|error| error.contains("Input/output error")
                    || error.contains("Read-only file system")),
                "{target}: {own:#?}"
            );
        }
    }
    assert!(scratch.path().join("run/report.html").exists());
    assert!(stdout(&output).contains("dying"), "{}", stdout(&output));
}

// Packages whose unpacking is interrupted or killed.

/// A number of modules large enough that a test always interrupts their unpacking.
const MODULES: usize = 20_000;

/// Builds a package with `count` modules and an image that reports a release, like the kernel of a
/// PC.
fn package(directory: &Path, count: usize) -> PathBuf {
    let tree = directory.join("tree");
    let modules = tree.join("lib/modules/6.1.0-1-amd64/kernel");
    std::fs::create_dir_all(&modules).unwrap();
    let mut image = vec![0; 0x1000];
    let text = b"6.1.0-1-amd64 (nobody)\0";
    for (place, bytes) in [(0x202, &b"HdrS"[..]), (0x20e, &[0, 3]), (0x500, text)] {
        image[place..place + bytes.len()].copy_from_slice(bytes);
    }
    std::fs::create_dir(tree.join("boot")).unwrap();
    std::fs::write(tree.join("boot/vmlinuz-6.1.0-1-amd64"), image).unwrap();
    for number in 0..count {
        std::fs::write(modules.join(format!("m{number}.ko")), [0u8; 2048]).unwrap();
    }
    std::fs::create_dir(tree.join("DEBIAN")).unwrap();
    let control = "Package: linux-image-6.1.0-1-amd64\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@localhost>\n\
                   Description: none\n";
    std::fs::write(tree.join("DEBIAN/control"), control).unwrap();
    let file = directory.join("k.deb");
    let built = Command::new("dpkg-deb")
        .args(["-Znone", "--build"])
        .args([&tree, &file])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    file
}

/// Writes the record of a run in a virtual machine on a kernel that does not exist.
fn write_old_run(directory: &Path) {
    let plan = serde_json::json!({
        "name": "old", "targets": [], "workloads": [], "repetition": {"blocks": {"blocks": 1}}, "seed": 1,
        "size": 1 << 20, "dir": "/var/tmp", "theta": 0.03, "in": "vm", "kernels": ["0.0.1"],
    });
    let record =
        serde_json::json!({"schema": "fsbench/run/1", "name": "old", "plan": plan, "cells": []});
    std::fs::create_dir(directory).unwrap();
    std::fs::write(directory.join("run.json"), record.to_string()).unwrap();
    std::fs::write(directory.join("trials.jsonl"), "").unwrap();
}

#[test]
fn an_unpacking_that_is_interrupted_leaves_nothing_and_a_killed_one_until_the_next_use() {
    needs!(program "dpkg-deb");
    let scratch = scratch();
    let (file, home) = (
        package(scratch.path(), MODULES),
        scratch.path().join("cache"),
    );
    let kernels = home.join("fsb/kernels");
    let left = || std::fs::read_dir(&kernels).map_or(0, |entries| entries.count());
    let fsb = |arguments: &[&str]| {
        let mut command = command(scratch.path(), arguments);
        command.env("XDG_CACHE_HOME", &home);
        command
    };
    let file = file.to_str().unwrap();
    let run = [
        "run", "ext4", "--in", "vm", "--kernel", file, "--out", "run",
    ];
    let fetch = ["kernel", "fetch", file];
    let list = || expect_code(&fsb(&["kernel", "list"]).output().unwrap(), 0);
    let resume = || {
        write_old_run(&scratch.path().join("old"));
        let output = fsb(&["run", "--resume", "old"]).output().unwrap();
        assert!(stderr(&output).contains("0.0.1"), "{}", stderr(&output));
    };
    let mut uses = [&list as &dyn Fn(), &resume].into_iter();
    for (arguments, signal, code) in [
        (&run[..], Signal::INT, Some(130)),
        (&run[..], Signal::TERM, Some(143)),
        (&fetch[..], Signal::INT, Some(130)),
        (&run[..], Signal::KILL, None),
        (&run[..], Signal::KILL, None),
    ] {
        let mut child = fsb(arguments).spawn().unwrap();
        wait_until("the unpacking", LONG, || left() == 1);
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        assert_eq!(
            child.wait().unwrap().code(),
            code,
            "{arguments:?}, {signal:?}"
        );
        assert_eq!(
            left(),
            usize::from(code.is_none()),
            "{arguments:?}, {signal:?}"
        );
        if code.is_none() {
            uses.next().expect("a use for each")();
            assert_eq!(left(), 0);
        }
    }
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn once_a_package_is_unpacked_a_signal_ends_a_run_that_has_not_begun() {
    needs!(program "dpkg-deb");
    let scratch = scratch();
    let file = package(scratch.path(), 1);
    // The checks ask QEMU for its version; this one blocks them.
    let programs = scratch.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    for name in ["qemu-system-x86_64", "qemu-system-aarch64"] {
        let path = programs.join(name);
        std::fs::write(&path, "#!/bin/sh\ntouch asked\nexec sleep 20\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    let path = format!(
        "{}:{}",
        programs.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let asked = scratch.path().join("asked");
    // The first time fsb unpacks the package, the second time it is unpacked already.
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let arguments = words("run ext4 --in vm --memory 128M --out run --kernel");
        let mut command = command(scratch.path(), &arguments);
        command
            .arg(&file)
            .env("XDG_CACHE_HOME", scratch.path().join("cache"))
            .env("PATH", &path);
        let mut child = command.spawn().unwrap();
        wait_until("the checks", LONG, || asked.exists());
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        std::fs::remove_file(&asked).unwrap();
    }
    assert!(!scratch.path().join("run").exists());
}
