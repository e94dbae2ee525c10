//! Kinds of targets: directories, slices, optional targets, candidates of a race, and those in
//! virtual machines.

use std::fs;

use serde_json::Value;

use crate::common::*;

// Existing directories are measured as they are: fsb changes only its own sub-directory and removes
// it.

/// A budget that is certainly too small is refused before anything is made.
#[test]
fn a_budget_that_holds_nothing_is_refused() {
    let scratch = scratch();
    fs::create_dir(scratch.path().join("data")).unwrap();
    let plan =
        "[[workload]]\nname = 'read'\nfile_size = '4G'\ncache = 'any'\nsample_time = '10s'\n";
    fs::write(scratch.path().join("huge.toml"), plan).unwrap();
    let arguments = words("run huge.toml ./data --budget 1s --out run");
    fails(scratch.path(), &arguments, 2, "run/budget-too-small");
    assert!(!scratch.path().join("run").exists());
}

// Targets that are all ready at once, each on its slice of the medium, and measured in rounds.

#[test]
fn a_target_that_cannot_be_made_leaves_the_others() {
    let scratch = scratch();
    tiny_plan(scratch.path());
    let targets = ["a=null", "b=null,fail=mount", "c=null"];
    let output = fsb(
        scratch.path(),
        &[
            &["run", "tiny.toml", "--blocks", "2", "--out", "run", "-q"][..],
            &targets,
        ]
        .concat(),
    );
    let code = output.status.code();
    assert!(
        code == Some(4) || code == Some(0),
        "{code:?}: {}",
        stderr(&output)
    );
    for trial in measured(&scratch.path().join("run")) {
        let outcome = if trial["target"] == "b" {
            "failed"
        } else {
            "ok"
        };
        assert_eq!(trial["outcome"], outcome, "{trial}");
    }
}

#[test]
fn samples_of_seconds_are_sequential_trials() {
    let scratch = scratch();
    let seconds = |sample_time: &str| {
        std::fs::write(
            scratch.path().join("write.toml"),
            format!(
                "[repetition]\nblocks = 2\nsample_time = '{sample_time}'\n[[workload]]\nname = 'write'\nfile_size = '1M'\n\
                 block_size = '4K'\naccess = 'random'\ndurability = 'each'\n"
            ),
        )
        .unwrap();
        let out = format!("run-{sample_time}");
        succeeds(
            scratch.path(),
            &["run", "write.toml", "a=null", "b=null", "--out", &out, "-q"],
        );
        let trials = trials(&scratch.path().join(&out))
            .into_iter()
            .filter(|trial| trial["phase"] == "measured");
        let timed = |trial: Value| {
            let each = trial["samples"]["timed_ns"]
                .as_array()
                .map(|each| each[0].as_f64().unwrap());
            each.unwrap_or_else(|| trial["workers"][0]["timed_ns"].as_f64().unwrap()) * 1e-9
        };
        let rounds = record(&scratch.path().join(&out))["rounds"]
            .as_object()
            .is_some_and(|rounds| !rounds.is_empty());
        (rounds, trials.map(timed).fold(f64::INFINITY, f64::min))
    };
    let (rounds, shortest) = seconds("300ms");
    assert!(rounds && shortest > 0.2, "{shortest}");
    let (rounds, shortest) = seconds("2s");
    assert!(!rounds && shortest > 1.0, "{shortest}");
}

/// Beside cases with short samples, one workload runs in sequential trials of the given length, if
/// the budget permits.
#[test]
fn one_workload_of_a_plan_may_be_measured_in_visits() {
    let scratch = scratch();
    let workload =
        "[[workload]]\nname = 'write'\nfile_size = '1M'\nblock_size = '4K'\ndurability = 'each'\n";
    std::fs::write(
        scratch.path().join("mixed.toml"),
        format!("{workload}access = 'random'\nsample_time = '1500ms'\n{workload}"),
    )
    .unwrap();
    let arguments = words("run mixed.toml a=null b=null --out run -q");
    succeeds(
        scratch.path(),
        &[&arguments[..], &["--blocks", "2"]].concat(),
    );
    let record = record(&scratch.path().join("run"));
    let rounds: Vec<&String> = record["rounds"].as_object().unwrap().keys().collect();
    assert_eq!(rounds, ["write 4K, durable each"]);
    let mut visits = measured(&scratch.path().join("run"));
    visits.retain(|trial| trial["workload"] != "write 4K, durable each");
    assert_eq!(visits.len(), 4);
    for visit in visits {
        let seconds = visit["workers"][0]["timed_ns"].as_f64().unwrap() * 1e-9;
        assert!(
            visit["samples"].is_null() && (1.0..4.0).contains(&seconds),
            "{seconds} s: {visit}"
        );
    }
}

// Targets that not every machine can make: the others are measured nevertheless.

/// A plan with a target for which no machine has enough space.
const PLAN: &str = "targets = ['null', 'ext2=null', { target = 'striped=ext4@raid0:loop+loop', optional = true }]\n\
                    size = '1024T'\n[repetition]\nblocks = 5\nsample_time = '1ms'\n\
                    [[workload]]\nname = 'stat'\nfiles = 50\n[[workload]]\nname = 'varmail'\nfiles = 200\n";

#[test]
fn a_target_that_this_machine_cannot_make_is_said_and_no_failure() {
    let directory = scratch();
    std::fs::write(directory.path().join("plan.toml"), PLAN).unwrap();
    let output = fsb_json(directory.path(), "run plan.toml --seed 1 --out out");
    expect_code(&output, 0);
    assert_eq!(
        message(&output, "warning/target-unavailable")["fields"]["target"],
        "striped"
    );
    let out = directory.path().join("out");
    let trials = counting(&out);
    let of = |target: &str, outcome: &str| {
        trials
            .iter()
            .filter(|trial| trial["target"] == target && trial["outcome"] == outcome)
            .count()
    };
    assert_eq!(
        (of("null", "ok"), of("ext2", "ok")),
        (12, 12),
        "two cells, a block of warm-up and five others"
    );
    assert_eq!(
        (of("striped", "not_applicable"), of("striped", "ok")),
        (12, 0)
    );
    let record = record(&out);
    assert!(
        record["targets"]["striped"]["unavailable"]
            .as_str()
            .is_some_and(|why| !why.is_empty())
    );
    assert_eq!(
        record["targets"]["striped"]["failed"],
        serde_json::Value::Null
    );
    let report = json(directory.path(), "report out --format json");
    for row in report["rows"].as_array().unwrap() {
        let state = &row["cells"][2]["state"]["state"];
        assert_eq!(state, "unavailable", "{row:#}");
    }
}

#[test]
fn invalid_optional_targets_and_runs_of_them_alone_are_refused() {
    let directory = scratch();
    let write = |text: &str| std::fs::write(directory.path().join("plan.toml"), text).unwrap();
    write(&PLAN.replace("optional = true", "optional = false"));
    expect_code(&fsb(directory.path(), "run plan.toml"), 3);
    write(&PLAN.replace("'null', 'ext2=null', ", ""));
    expect_code(&fsb(directory.path(), "run plan.toml"), 3);
    write(&PLAN.replace("ext4@", "ext5@"));
    fails(
        directory.path(),
        "run plan.toml",
        2,
        "target/unknown-file-system",
    );
    write(&PLAN.replace("optional = true", "optinal = true"));
    fails(directory.path(), "run plan.toml", 2, "plan/unknown-key");
}

// The fastest of many candidates: races on real file systems, and refused requests.

#[test]
fn an_unsafe_candidate_wins_only_if_risk_is_accepted_and_its_risk_is_named() {
    let scratch = scratch();
    let race = |more: &[&str]| {
        let targets = words("choose null,slowdown=40% null,slowdown=20% null,unsafe --budget 20s");
        let output = fsb_json(scratch.path(), &[&targets[..], more].concat());
        expect_code(&output, 0);
        output
    };
    let safe = race(&["--out", "safe"]);
    let answer = stdout(&safe);
    assert!(
        answer.starts_with("null,slowdown=20% is the fastest of 2"),
        "{answer}"
    );
    assert_eq!(
        message(&safe, "note/not-raced")["fields"]["target"],
        "null,unsafe"
    );
    let risky = race(&["--risky", "--out", "risky"]);
    assert!(!has_message(&risky, "note/not-raced"), "{}", stderr(&risky));
    let answer = stdout(&risky);
    assert!(answer.starts_with("null,unsafe is unsafe: "), "{answer}");
    assert!(
        answer.contains("null,unsafe (unsafe) is the fastest of 3"),
        "{answer}"
    );
    fails(
        scratch.path(),
        "choose null null,unsafe",
        2,
        "choose/not-a-candidate",
    );
}

#[test]
fn candidates_are_listed_with_their_reasons() {
    let scratch = scratch();
    let listed = |arguments: &[&str]| {
        let output = succeeds(scratch.path(), &[&["choose", "--list"], arguments].concat());
        stdout(&output)
    };
    let safe = listed(&["ext4", "xfs"]);
    assert!(
        safe.contains("ext4,noatime") && safe.contains("xfs") && !safe.contains("RISK"),
        "{safe}"
    );
    assert!(
        safe.contains("the first one is the baseline of every race round"),
        "{safe}"
    );
    let risky = listed(&["ext4", "--risky"]);
    assert!(
        risky.contains("RISK: a power failure may lose synced data"),
        "{risky}"
    );
}

#[test]
fn wrong_races_are_refused() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (
            &["choose", "ext4,noatime", "--", "true"],
            "choose/not-a-candidate",
        ),
        (&["choose", "/srv"], "choose/not-a-candidate"),
        (
            &["choose", "ext4", "xfs", "--effects", "--", "true"],
            "choose/not-a-candidate",
        ),
        (
            &["choose", "ext4", "--suite", "varmail", "--", "true"],
            "arguments/conflict",
        ),
        (&["choose", "ext5"], "target/unknown-file-system"),
    ];
    expect_refusals("choose", scratch.path(), requests);
}

// Requests for virtual machines that are refused before fsb looks for a kernel.

#[test]
fn no_disk_of_a_host_fails_on_purpose() {
    let scratch = scratch();
    let output = fsb_json(scratch.path(), "run ext4@fault:error+loop --size 64M");
    let (exit, code) = match rustix::process::geteuid().is_root() {
        true => (2, "target/only-in-vm"),
        false => (3, "testbed/needs-root"),
    };
    expect_error(&output, exit, code);
}

#[test]
fn requests_that_make_no_sense_are_refused_without_a_kernel() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["run", "ext4", "--kernel", "6.1"], "plan/invalid"),
        (&["run", "ext4", "--memory", "1G"], "plan/invalid"),
        (&["run", "ext4", "--in", "wm"], "arguments/invalid-value"),
        (&["run", "/tmp", "--in", "vm"], "plan/invalid"),
        (
            &["run", "ext4", "--in", "vm", "--cpus", "0"],
            "arguments/invalid-value",
        ),
    ];
    expect_refusals("vm", scratch.path(), requests);
}
