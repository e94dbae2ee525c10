//! Full, failing, read-only and missing targets: one trial or target is marked, the others
//! continue. A disk that fills up below `fsb filebench` ends it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::failures::*;
use crate::common::filebench::*;
use crate::common::*;

#[test]
fn a_full_file_system_costs_its_trials_and_no_others() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    // Too few inodes for five hundred files, which fsb cannot predict if mkfs chooses their number.
    let plan = TINY.replace("files = 50", "files = 500");
    fs::write(scratch.path().join("files.toml"), plan).unwrap();
    let targets = [
        "run",
        "files.toml",
        "few=ext4,mkfs=\"-T largefile\"",
        "ext4",
        "--size",
        "64M",
        "--mkfs-defaults",
        "-q",
        "--out",
        "run",
    ];
    let output = fsb(scratch.path(), &targets);
    expect_code(&output, 4);
    let run = scratch.path().join("run");
    let few = outcomes(&run, "few");
    assert!(
        few.iter()
            .any(|(workload, outcome, _)| workload.contains("write") && outcome == "ok"),
        "{few:#?}"
    );
    let delete = few
        .iter()
        .find(|(workload, _, _)| workload.contains("delete"))
        .unwrap();
    assert_eq!(delete.1, "failed");
    let codes: Vec<_> = trials(&run)
        .iter()
        .map(|trial| trial["error_code"].clone())
        .collect();
    assert!(codes.contains(&"trial/no-space".into()), "{delete:?}");
    assert!(
        outcomes(&run, "ext4")
            .iter()
            .all(|(_, outcome, _)| outcome == "ok")
    );
    assert!(stdout(&output).contains("few"), "{}", stdout(&output));
    assert!(run.join("report.html").exists());
    expect_no_traces(&before);
}

#[test]
fn a_refused_mount_and_a_failing_mkfs_mark_the_target_and_are_printed_once() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    // An option that the driver knows and refuses on this device.
    let targets = [
        "refused=ext4,dax",
        "bad=ext4,mkfs=\"-O no_such_feature\"",
        "readonly=ext4,ro",
        "ext4",
    ];
    tiny_plan(scratch.path());
    let arguments = ["run", "tiny.toml", "--size", "64M", "--out", "run", JSON];
    let output = fsb(scratch.path(), &[&arguments[..], &targets].concat());
    expect_code(&output, 4);
    let run = scratch.path().join("run");
    let printed: Vec<Value> = messages(&output);
    let of = |code: &str| {
        printed
            .iter()
            .filter(|one| one["code"] == code)
            .map(|one| &one["fields"]["target"])
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of("note/target-failed"),
        ["refused", "bad", "readonly"],
        "{printed:#?}"
    );
    assert_eq!(of("note/trial-failed"), [] as [&Value; 0], "{printed:#?}");
    for (target, reason) in [
        ("refused", "DAX unsupported"),
        ("bad", "no_such_feature"),
        ("readonly", "ead-only"),
    ] {
        let all = outcomes(&run, target);
        assert_eq!(all.len(), 7, "{target}");
        assert!(
            all.iter().all(|(_, outcome, _)| outcome == "failed"),
            "{target}: {all:#?}"
        );
        // The words are the kernel's and those of mkfs.
        let said = record(&run)["targets"][target]["failed"].to_string();
        assert!(said.contains(reason), "{target}: {said}");
    }
    assert!(
        outcomes(&run, "ext4")
            .iter()
            .all(|(_, outcome, _)| outcome == "ok")
    );
    expect_no_traces(&before);
}

#[test]
fn a_missing_tool_names_its_package() {
    needs!(root);
    let scratch = scratch();
    // An empty directory over the directory of the mkfs programs, in a mount namespace of its own.
    let script = format!("mount -t tmpfs none /usr/sbin && exec {FSB} run xfs --out run {JSON}");
    let output = Command::new("unshare")
        .args(["--mount", "/bin/sh", "-c", &script])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    expect_error(&output, 3, "testbed/tool-missing");
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn without_root_the_message_says_what_can_be_done() {
    needs!(root);
    let scratch = scratch();
    fs::set_permissions(
        scratch.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let binary = public_copy();
    expect_error(
        &as_nobody(binary.path(), scratch.path(), &["run", "ext4", JSON]),
        3,
        "testbed/needs-root",
    );
    let said = stderr(&as_nobody(binary.path(), scratch.path(), "run ext4"));
    assert_eq!(
        said.contains("  sudo "),
        Path::new("/usr/bin/sudo").exists(),
        "{said}"
    );
    // The last command needs no root.
    let next = said
        .lines()
        .last()
        .expect(&said)
        .trim()
        .split("  ")
        .next()
        .unwrap()
        .to_owned();
    let arguments: Vec<&str> = next.split(' ').skip(1).collect();
    assert_eq!(arguments, ["run", "."], "{said}");
    let planned = [&arguments[..], &["--print-plan"]].concat();
    expect_code(&as_nobody(binary.path(), scratch.path(), &planned), 0);
}

/// A service has neither root privileges nor a home directory.
#[test]
fn without_root_and_without_a_home_each_refusal_names_what_would_do() {
    needs!(root);
    needs!(program "setpriv");
    let scratch = scratch();
    fs::set_permissions(
        scratch.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let binary = public_copy();
    let run = |directory: &Path, before: &str, arguments: &str| {
        let script = format!("{before} {} {arguments}", binary.path().display());
        Command::new("setpriv")
            .args([
                "--reuid=65534",
                "--regid=65534",
                "--clear-groups",
                "--",
                "/bin/sh",
                "-c",
                &script,
            ])
            .current_dir(directory)
            .env_remove("HOME")
            .env_remove("XDG_STATE_HOME")
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("XDG_CACHE_HOME")
            .env("FSB_MESSAGE_FORMAT", "json")
            .env("TMPDIR", scratch.path())
            .output()
            .unwrap()
    };
    // The command of a remedy follows its colon.
    let command_of = |error: &Value| {
        error["help"]
            .as_str()
            .unwrap()
            .rsplit_once(": ")
            .expect("a command")
            .1
            .to_owned()
    };
    let clean = expect_error(&run(scratch.path(), "", "clean"), 3, "testbed/no-ledger");
    expect_code(
        &run(scratch.path(), &format!("{};", command_of(&clean)), "clean"),
        0,
    );
    // An ordinary user cannot write results to a directory of root.
    fs::write(
        scratch.path().join("tiny.toml"),
        "targets = ['null']\n[[workload]]\nname = 'rename'\nfiles = 10\n",
    )
    .unwrap();
    let tiny = format!("run {}/tiny.toml --blocks 1 -q", scratch.path().display());
    let refused = run(Path::new("/"), "", &tiny);
    let refused = expect_error(&refused, 3, "directory/not-writable");
    expect_code(
        &run(
            Path::new("/"),
            "",
            &format!("{tiny} {}", command_of(&refused)),
        ),
        0,
    );
    assert_eq!(
        refused["message"]
            .as_str()
            .unwrap()
            .matches("Permission denied")
            .count(),
        1,
        "{refused}"
    );
}

#[test]
fn too_little_space_is_said_before_anything_starts() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    fails(
        scratch.path(),
        "run ext4 --size 900T --out run",
        3,
        "testbed/unable",
    );
    fs::write(
        scratch.path().join("big.toml"),
        "targets=['ext4']\nsize='64M'\n[[workload]]\nname='read'\nfile_size='1G'\n",
    )
    .unwrap();
    fails(
        scratch.path(),
        "run big.toml --out run",
        3,
        "machine/no-space",
    );
    fails(
        scratch.path(),
        "run xfs --size 16M --out run",
        2,
        "testbed/refused",
    );
    assert!(!scratch.path().join("run").exists());
    expect_no_traces(&before);
}

#[test]
fn a_run_directory_that_fills_up_stops_the_run() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    tiny_plan(scratch.path());
    let script = format!(
        "mkdir small && mount -t tmpfs -o size=64k none small && \
         {FSB} run tiny.toml null --blocks 500 -q {JSON} --out small/run; code=$?; umount small; exit $code"
    );
    let output = Command::new("unshare")
        .args(["--mount", "/bin/sh", "-c", &script])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let full = expect_error(&output, 3, "run/journal");
    assert_eq!(full["fields"]["errno"], "ENOSPC", "{full}");
    expect_no_traces(&before);
}

#[test]
fn in_a_chroot_to_a_plain_directory_it_says_what_to_do() {
    needs!(root);
    let scratch = scratch();
    let chrooted = |prepared: &str| {
        let script = format!(
            "set -e; mkdir -p proc; for file in $(ldd {FSB} | grep -o '/[^ ]*'); do \
             mkdir -p .$(dirname $file); cp -L $file .$file; done; cp {FSB} fsb; \
             {prepared}; mount -t proc proc proc; exec chroot . /fsb run null {JSON} --blocks 1 --out /run"
        );
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "--pid", "--fork", "/bin/sh", "-c", &script])
            .current_dir(scratch.path());
        unshare.env("COLUMNS", "10000").output().unwrap()
    };
    let refused = chrooted(":");
    let refused = expect_error(&refused, 3, "testbed/no-supervisor");
    assert_eq!(refused["fields"]["root_is_mounted"], false, "{refused}");
    let measured = error_of(&chrooted("mount --bind . . && cd $PWD"));
    assert_ne!(measured["code"], "testbed/no-supervisor", "{measured}");
}

#[test]
fn sets_are_compared_without_a_second_thread() {
    needs!(root);
    needs!(program "setpriv");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/iozone-2010");
    let (scratch, binary) = (scratch(), public_copy());
    fs::set_permissions(
        scratch.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    for (name, source) in [
        ("a.iozone", "xfs/xfs1.iozone"),
        ("b.iozone", "ext4/ext4_1.iozone"),
    ] {
        fs::write(
            scratch.path().join(name),
            fs::read(data.join(source)).unwrap(),
        )
        .unwrap();
    }
    // The limit counts the threads of all processes of a user: no other process is this user's.
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=64111",
        "--regid=64111",
        "--clear-groups",
        "--",
        "/bin/sh",
        "-c",
    ]);
    command
        .arg("ulimit -u 1; exec \"$0\" \"$@\"")
        .arg(binary.path())
        .args(["compare", "a.iozone", "b.iozone"]);
    let output = command.current_dir(scratch.path()).output().unwrap();
    expect_code(&output, 0);
    assert!(stdout(&output).contains("read"), "{}", stdout(&output));
}

// A disk that fills up below `fsb filebench`.

/// Another process takes the space after fsb has checked it.
#[test]
fn a_disk_that_fills_up_ends_the_run_and_is_emptied() {
    needs!(root);
    let directory = scratch();
    let point = directory.path().to_str().unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=48m", "none", point];
    assert!(
        Command::new("mount")
            .args(mount)
            .status()
            .unwrap()
            .success()
    );
    let run = || {
        let running = start(directory.path(), &[JSON]);
        // Take the rest of the space, so that the next file that grows finds none.
        assert!(std::fs::write(directory.path().join("other"), vec![7; 48 << 20]).is_err());
        running.wait()
    };
    let output = std::panic::catch_unwind(run);
    let left = listing(directory.path());
    assert!(
        Command::new("umount")
            .arg(point)
            .status()
            .unwrap()
            .success()
    );
    let output = output.unwrap();
    expect_code(&output, 4);
    assert_eq!(
        message(&output, "warning/run-failed")["fields"]["errno"],
        "ENOSPC"
    );
    assert_eq!(left, [directory.path().join("other")]);
}
