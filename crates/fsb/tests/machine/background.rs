//! Cases beside a background, on real file systems.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::*;
use crate::exclusive::kills::family;

/// Returns the trials of a case, alone or beside its background.
fn of(trials: &[Value], is_beside: bool) -> Vec<&Value> {
    let has_it = |trial: &&Value| {
        trial["workload"]
            .as_str()
            .is_some_and(|label| label.contains(", beside "))
            == is_beside
    };
    trials.iter().filter(has_it).collect()
}

/// Returns the report of a run as JSON.
fn report(directory: &Path) -> Value {
    json(directory, "report run --format json")
}

/// Runs a durable log on these targets, with more arguments, and returns when the run has
/// succeeded.
fn run_log(directory: &Path, more: &[&str]) {
    let log = words("--workload append,file_size=8M,block_size=4K,durability=each");
    let arguments = [
        &["run"],
        more,
        &log,
        &["--control", "guest-memory=off", "--out", "run"],
    ]
    .concat();
    succeeds(directory, &arguments);
}

/// Two busy processes share one processor, so each takes twice as long as alone.
#[test]
fn a_busy_processor_is_found_as_a_slowdown_by_two() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    let plan = "\
        [[workload]]\nname = 'write'\nfile_size = '4M'\nblock_size = '4K'\noverwrite = true\nsample_time = '1s'\n\
        background = { command = 'while :; do :; done', durability = 'none', label = 'a busy processor' }\n\
        [repetition]\nblocks = 5\n[controls]\nguest-memory = 'off'\ncpus = '0'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    succeeds(scratch.path(), "run plan.toml ext4 --size 64M --out run");
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    for trial in of(&trials, true) {
        let work = &trial["observed"]["background"];
        // An endless command has no run that ended.
        assert_eq!(work["operations"], 0, "{trial:#}");
        assert!(
            work["cpu_seconds"].as_f64() > Some(0.1) && work["seconds"].as_f64() > Some(1.0),
            "{trial:#}"
        );
        assert!(
            trial["observed"]["device_write_bytes"].is_null(),
            "the device serves both: {trial:#}"
        );
    }
    assert!(
        of(&trials, false)
            .iter()
            .all(|trial| trial["observed"]["background"].is_null())
    );
    let report = report(scratch.path());
    let time = &report["neighbours"][0]["targets"][0]["time"];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let (ratio, interval) = (number(&time["ratio"]), &time["interval"]);
    eprintln!("the work takes {ratio} times as long: {time}");
    // Other programs may share the processor, too, and then the interval is wide.
    assert!(
        ratio > 1.0 && number(&interval["lo"]) < 2.2 && number(&interval["hi"]) > 1.8,
        "{report:#}"
    );
    assert_eq!(
        report["neighbours"][0]["background"], "a busy processor",
        "{report:#}"
    );
}

/// The neighbour of a durable log writes and syncs on the same target, and its own rate is in the
/// record.
#[test]
fn a_log_beside_a_writer_is_measured_alone_and_beside_it_on_each_target() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs");
    let (before, scratch) = (traces(), scratch());
    let arguments = [
        "ext4",
        "xfs",
        "--background",
        "write,file_size=32M,block_size=1M,durability=end",
        "--size",
        "700M",
        "--blocks",
        "2",
    ];
    run_log(scratch.path(), &arguments);
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    let (alone, beside) = (of(&trials, false), of(&trials, true));
    assert_eq!((alone.len(), beside.len()), (4, 4));
    for trial in &beside {
        let work = &trial["observed"]["background"];
        assert!(
            work["operations"].as_u64() > Some(0) && work["bytes"].as_u64() > Some(1 << 20),
            "{trial:#}"
        );
        let alone = ["alone_operations", "alone_bytes"].map(|field| work[field].as_u64());
        assert!(alone[0] > Some(0) && alone[1] > Some(1 << 20), "{trial:#}");
        assert!(work["alone_seconds"].as_f64() > Some(1.0), "{trial:#}");
        assert_eq!(trial["params"]["background"]["name"], "write");
    }
    // Both do the same work, next to each other on the same target.
    let operations = |trial: &Value| trial["workers"][0]["operations"].as_u64().unwrap();
    let amounts = &record(&scratch.path().join("run"))["amounts"];
    let amounts: Vec<&Value> = amounts.as_object().unwrap().values().collect();
    assert_eq!(amounts[0], amounts[1], "{amounts:?}");
    for trial in &alone {
        let block_and_target = |other: &&&Value| {
            other["block"] == trial["block"] && other["target"] == trial["target"]
        };
        let other = beside.iter().find(block_and_target).unwrap();
        assert_eq!(operations(trial), operations(other));
    }
    let report = report(scratch.path());
    let targets = report["neighbours"][0]["targets"].as_array().unwrap();
    assert!(
        targets.len() == 2
            && targets
                .iter()
                .all(|target| target["background"]["bytes"].as_f64() > Some(0.0))
    );
}

/// A cgroup limits the processor time and the writes of a background, and the case alone is shared.
#[test]
fn a_limited_background_does_no_more_than_it_may() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    let plan = "\
        [[workload]]\nname = 'stat'\nfiles = 200\nsample_time = '1s'\n\
        background = { command = 'while :; do :; done', durability = 'none', label = 'a loop', limit = { cpus = 0.2 } }\n\
        [[workload]]\nname = 'stat'\nfiles = 200\nsample_time = '1s'\n\
        background = { name = 'write', file_size = '16M', block_size = '64K', backend = 'direct', \
        limit = { write_bps = '2M', memory = '64M' } }\n\
        [repetition]\nblocks = 2\n[controls]\nguest-memory = 'off'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    succeeds(scratch.path(), "run plan.toml ext4 --size 256M --out run");
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    let (alone, beside) = (of(&trials, false), of(&trials, true));
    assert_eq!((alone.len(), beside.len()), (2, 4));
    for trial in beside {
        let work = &trial["observed"]["background"];
        let [seconds, cpu, bytes] =
            ["seconds", "cpu_seconds", "bytes"].map(|field| work[field].as_f64().unwrap());
        if trial["workload"]
            .as_str()
            .unwrap()
            .contains("limited to cpus 0.2")
        {
            // The quota of one more period, and what starts and ends the command.
            assert!(cpu > 0.0 && cpu < 0.2 * seconds + 0.2, "{work}");
        } else {
            assert!(
                bytes > 0.0 && bytes < (2 << 20) as f64 * (seconds + 1.0),
                "{work}"
            );
        }
    }
}

/// A memory limit would hold for case and background together.
#[test]
fn a_background_with_limits_and_a_memory_limit_exclude_each_other() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    let background = "write,limit={ memory = '64M' }";
    let arguments = [
        "run",
        "ext4",
        "--workload",
        "stat",
        "--background",
        background,
        "--control",
        "memory-limit=512M",
    ];
    expect_error(
        &fsb(scratch.path(), &[&arguments[..], &["-q", JSON]].concat()),
        2,
        "control/conflict",
    );
    expect_no_traces(&before);
}

/// The background has files of its own on another slice of the medium, and the case on that slice
/// has no background.
#[test]
fn a_background_on_another_target_leaves_the_target_of_the_case_to_it() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    let arguments = [
        "ext4",
        "noise=ext4",
        "--background",
        "write,target=noise,file_size=32M,block_size=1M,durability=end",
        "--size",
        "512M",
        "--blocks",
        "3",
    ];
    run_log(scratch.path(), &arguments);
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    let beside = |target: &str| {
        let found = of(&trials, true)
            .into_iter()
            .find(|trial| trial["target"] == target);
        found.unwrap_or_else(|| panic!("no trial of {target}: {trials:#?}"))
    };
    let (own, noise) = (beside("ext4"), beside("noise"));
    assert_eq!(
        (&own["outcome"], &own["params"]["background"]["target"]),
        (&"ok".into(), &"noise".into()),
        "{own:#}"
    );
    let work = &own["observed"]["background"];
    for field in ["bytes", "alone_bytes"] {
        assert!(work[field].as_u64() > Some(1 << 20), "{own:#}");
    }
    assert_eq!(noise["outcome"], "not_applicable", "{noise:#}");
    assert!(
        noise["error"]
            .as_str()
            .unwrap()
            .contains("its background runs on this target"),
        "{noise:#}"
    );
    let report = report(scratch.path());
    assert_eq!(
        report["neighbours"][0]["background"], "write 1M, durable on noise",
        "{report:#}"
    );
    let targets = report["neighbours"][0]["targets"].as_array().unwrap();
    assert!(
        targets[0]["time"]["ratio"].as_f64() > Some(0.0) && targets[1].is_null(),
        "{report:#}"
    );
}

/// Snapshots need root, so the agent makes and deletes them, and only btrfs has any.
#[test]
fn snapshots_are_deleted_beside_a_log_where_there_are_any() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.btrfs");
    let (before, scratch) = (traces(), scratch());
    let plan = "\
        [[workload]]\nname = 'append'\nfile_size = '4M'\nblock_size = '4K'\ndurability = 'each'\nsample_time = '1s'\n\
        background = { name = 'snapshot-delete', files = 20, label = 'deleted snapshots' }\n\
        [repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let output = fsb(
        scratch.path(),
        "run plan.toml btrfs ext4 --size 512M --out run",
    );
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run"));
    let beside = |target: &str| {
        let own = of(&trials, true)
            .into_iter()
            .find(|trial| trial["target"] == target && trial["phase"] == "measured");
        own.unwrap_or_else(|| panic!("no trial of {target}: {}", stderr(&output)))
            .clone()
    };
    let (btrfs, ext4) = (beside("btrfs"), beside("ext4"));
    assert_eq!(btrfs["outcome"], "ok", "{btrfs:#}");
    let work = &btrfs["observed"]["background"];
    assert!(
        work["operations"].as_u64() > Some(0) && work["seconds"].as_f64() > Some(1.0),
        "{btrfs:#}"
    );
    assert_eq!(work["bytes"], 0, "{btrfs:#}");
    assert_eq!(ext4["outcome"], "not_applicable", "{ext4:#}");
    assert!(
        ext4["error"]
            .as_str()
            .unwrap()
            .contains("its background is not applicable: ext4 has no subvolumes")
    );
}

/// A writer changes the file that is read, and a command runs in the directory of the case.
#[test]
fn a_background_on_the_same_files_has_none_of_its_own() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    let case = |background: &str| {
        let read = "name = 'read'\nfile_size = '4M'\nblock_size = '4K'\ncache = 'warm'\nsample_time = '1s'\n";
        format!("[[workload]]\n{read}background = {{ {background}, same_files = true }}\n")
    };
    let plan = [
        case("name = 'record-rewrite', file_size = '4M', block_size = '4K'"),
        case(
            "command = 'test ! -e ../fsb-background && ls -A | grep -q . && sleep 0.1', durability = 'none', label = 'a look'",
        ),
        "[repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n".to_owned(),
    ];
    fs::write(scratch.path().join("plan.toml"), plan.concat()).unwrap();
    succeeds(scratch.path(), "run plan.toml ext4 --size 64M --out run");
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    let beside = of(&trials, true);
    assert_eq!(beside.len(), 2, "{trials:#?}");
    for trial in beside {
        assert!(
            trial["workload"]
                .as_str()
                .unwrap()
                .ends_with(" on the same files"),
            "{trial:#}"
        );
        assert!(
            trial["observed"]["background"]["operations"].as_u64() > Some(0),
            "{trial:#}"
        );
    }
}

/// The root of a subvolume has inode 256, and a background of 8 MB exceeds a quota of 4 MB.
#[test]
fn the_files_of_a_background_are_in_a_subvolume_or_below_a_quota() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.btrfs");
    let (before, scratch) = (traces(), scratch());
    let case = |background: &str| {
        format!(
            "[[workload]]\nname = 'stat'\nfiles = 20\nsample_time = '1s'\nbackground = {{ {background} }}\n"
        )
    };
    let write = "command = 'head -c 8000000 /dev/zero > f && sync f && rm f', durability = 'none'";
    let plan = [
        // The agent removes the subvolume as root, so its place must be root's.
        case(
            "command = '! mv ../../fsb-own ../../moved && test $(stat -c %i ..) = 256 && sleep 0.1', subvolume = true, \
             label = 'a subvolume'",
        ),
        case(&format!(
            "{write}, limit = {{ space = '64M' }}, label = 'enough'"
        )),
        case(&format!(
            "{write}, limit = {{ space = '4M' }}, label = 'too little'"
        )),
        "[repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n".to_owned(),
    ];
    fs::write(scratch.path().join("plan.toml"), plan.concat()).unwrap();
    let output = fsb(
        scratch.path(),
        "run plan.toml btrfs ext4 --size 512M --out run",
    );
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run"));
    let error = |target: &str, label: &str| {
        let mut all = of(&trials, true)
            .into_iter()
            .filter(|trial| trial["phase"] == "measured");
        let own = all.find(|trial| {
            trial["target"] == target && trial["workload"].as_str().unwrap().contains(label)
        });
        let own =
            own.unwrap_or_else(|| panic!("no trial of {target}, {label}: {}", stderr(&output)));
        (
            own["outcome"].as_str().unwrap().to_owned(),
            own["error"].as_str().unwrap_or_default().to_owned(),
        )
    };
    for label in ["a subvolume in a subvolume", "enough limited to space 64M"] {
        assert_eq!(error("btrfs", label), ("ok".to_owned(), String::new()));
    }
    let (outcome, why) = error("btrfs", "too little");
    assert!(
        outcome == "failed" && why.contains("quota exceeded"),
        "{outcome}: {why}"
    );
    for (label, word) in [
        ("a subvolume", "no subvolumes"),
        ("enough", "project quotas are off: use ext4,prjquota"),
    ] {
        let (outcome, why) = error("ext4", label);
        assert!(
            outcome == "not_applicable" && why.contains(word),
            "{outcome}: {why}"
        );
    }
}

#[test]
fn a_background_that_fails_fails_its_case_with_the_cause() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    let plan = "\
        [[workload]]\nname = 'write'\nfile_size = '1M'\nblock_size = '4K'\noverwrite = true\nsample_time = '1s'\n\
        background = { command = 'no-such-program-7', label = 'missing' }\n\
        [[workload]]\nname = 'write'\nfile_size = '1M'\nblock_size = '4K'\noverwrite = true\nsample_time = '1s'\n\
        background = { command = 'cat /dev/zero > big', label = 'full' }\n\
        [repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let output = fsb(scratch.path(), "run plan.toml ext4 --size 64M --out run");
    expect_code(&output, 4);
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    assert!(
        of(&trials, false)
            .iter()
            .all(|trial| trial["outcome"] == "ok"),
        "{trials:#?}"
    );
    for (label, cause) in [
        ("missing", "no-such-program-7"),
        ("full", "the target is full"),
    ] {
        let failed = trials
            .iter()
            .find(|trial| trial["workload"].as_str().unwrap().ends_with(label))
            .unwrap();
        assert_eq!(
            (&failed["outcome"], &failed["error_code"]),
            (&"failed".into(), &"trial/background-failed".into())
        );
        let error = failed["error"].as_str().unwrap();
        assert!(error.contains(cause), "{error}");
    }
}

/// The coordinator is killed while the background's program runs.
#[test]
fn a_killed_run_leaves_nothing_of_its_background() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, scratch) = (traces(), scratch());
    fs::create_dir(scratch.path().join("data")).unwrap();
    let plan = "\
        [[workload]]\nname = 'write'\nfile_size = '1M'\nblock_size = '4K'\noverwrite = true\nsample_time = '60s'\n\
        background = { command = 'echo here > file; exec sleep 3673', durability = 'none' }\n\
        [repetition]\nblocks = 5\n[controls]\nguest-memory = 'off'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    for target in ["ext4", "./data"] {
        let mut run = command(
            scratch.path(),
            &format!("run plan.toml {target} --size 64M --out run -q"),
        );
        let mut run = run
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let sleeps = |pid: u32| {
            family(pid)
                .iter()
                .any(|(_, words)| words.get(1).is_some_and(|word| word == "3673"))
        };
        wait_until(
            "the background runs",
            std::time::Duration::from_secs(60),
            || sleeps(run.id()),
        );
        kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
        run.wait().unwrap();
        expect_no_traces(&before);
        let left = || fs::read_dir(scratch.path().join("data")).unwrap().count();
        wait_until(
            "the directory is empty",
            std::time::Duration::from_secs(20),
            || left() == 0,
        );
        expect_no_cgroups(&before);
        fs::remove_dir_all(scratch.path().join("run")).unwrap();
    }
}
