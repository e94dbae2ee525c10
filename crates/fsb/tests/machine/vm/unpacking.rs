//! Packages whose unpacking is interrupted or killed.

use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// A number of modules large enough that a test always interrupts their unpacking.
const MODULES: usize = 20_000;

/// Builds a package with `count` modules and an image that reports a release, like the kernel of a PC.
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
    let built = Command::new("dpkg-deb").args(["-Znone", "--build"]).args([&tree, &file]).output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    file
}

/// Writes the record of a run in a virtual machine on a kernel that does not exist.
fn write_old_run(directory: &Path) {
    let plan = serde_json::json!({
        "name": "old", "targets": [], "workloads": [], "repetition": {"blocks": {"blocks": 1}}, "seed": 1,
        "size": 1 << 20, "dir": "/var/tmp", "theta": 0.03, "in": "vm", "kernels": ["0.0.1"],
    });
    let record = serde_json::json!({"schema": "fsbench/run/1", "name": "old", "plan": plan, "cells": []});
    std::fs::create_dir(directory).unwrap();
    std::fs::write(directory.join("run.json"), record.to_string()).unwrap();
    std::fs::write(directory.join("trials.jsonl"), "").unwrap();
}

#[test]
fn an_unpacking_that_is_interrupted_leaves_nothing_and_a_killed_one_until_the_next_use() {
    needs!(program "dpkg-deb");
    let scratch = scratch();
    let (file, home) = (package(scratch.path(), MODULES), scratch.path().join("cache"));
    let kernels = home.join("fsb/kernels");
    let left = || std::fs::read_dir(&kernels).map_or(0, |entries| entries.count());
    let fsb = |arguments: &[&str]| {
        let mut command = command(scratch.path(), arguments);
        command.env("XDG_CACHE_HOME", &home);
        command
    };
    let file = file.to_str().unwrap();
    let run = ["run", "ext4", "--in", "vm", "--kernel", file, "--out", "run"];
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
        assert_eq!(child.wait().unwrap().code(), code, "{arguments:?}, {signal:?}");
        assert_eq!(left(), usize::from(code.is_none()), "{arguments:?}, {signal:?}");
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
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let asked = scratch.path().join("asked");
    // The first time fsb unpacks the package, the second time it is unpacked already.
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let arguments = ["run", "ext4", "--in", "vm", "--memory", "128M", "--out", "run", "--kernel"];
        let mut command = command(scratch.path(), &arguments);
        command.arg(&file).env("XDG_CACHE_HOME", scratch.path().join("cache")).env("PATH", &path);
        let mut child = command.spawn().unwrap();
        wait_until("the checks", LONG, || asked.exists());
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        std::fs::remove_file(&asked).unwrap();
    }
    assert!(!scratch.path().join("run").exists());
}
