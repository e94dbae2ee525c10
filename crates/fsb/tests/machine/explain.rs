//! `fsb run --explain`: planted causes are found in their stacks, and traced blocks leave nothing
//! and rank nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fsb_model::traced::{TimeClass, Traced};
use rustix::process::Signal;
use serde::Deserialize as _;
use serde_json::Value;

use crate::common::*;

/// Each operation is flushed.
const APPEND: &str = "size = '256M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n\
                      [[workload]]\nname = 'append'\nfile_size = '1M'\ndurability = 'each'\n";

fn traced(run: &Path) -> Vec<Value> {
    trials(run)
        .into_iter()
        .filter(|trial| trial["phase"] == "traced")
        .collect()
}

/// Returns the eBPF programs that any process holds, as the kernel numbers them.
fn programs() -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        for descriptor in std::fs::read_dir(process.path().join("fdinfo"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = std::fs::read_to_string(descriptor.path()).unwrap_or_default();
            found.extend(
                text.lines()
                    .filter(|line| line.starts_with("prog_id:"))
                    .map(str::to_owned),
            );
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the sum of a number over the traced trials of a target.
fn sum(traced: &[Value], target: &str, number: impl Fn(&Value) -> Option<u64>) -> u64 {
    let own = traced.iter().filter(|trial| trial["target"] == target);
    own.map(|trial| {
        number(&trial["observed"]["traced"]).unwrap_or_else(|| panic!("no such number: {trial}"))
    })
    .sum()
}

/// Returns the seconds of each class for an operation of a target.
fn seconds_by_class(traced: &[Value], target: &str) -> BTreeMap<TimeClass, f64> {
    let own = traced.iter().filter(|trial| trial["target"] == target);
    let times = own.map(|trial| Traced::deserialize(&trial["observed"]["traced"]).unwrap());
    let mut seconds: BTreeMap<TimeClass, f64> = BTreeMap::new();
    for times in times {
        for (class, ns) in times.classes() {
            *seconds.entry(class).or_default() += ns as f64 * 1e-9 / times.operations as f64;
        }
    }
    seconds
}

/// Returns the bytes of the writes of a trial.
fn written(times: &Value) -> Option<u64> {
    let requests = times["requests"].as_array()?;
    Some(
        requests.iter().find(|totals| totals["kind"] == "write")?["bytes"]
            .as_u64()
            .unwrap(),
    )
}

/// Returns the nanoseconds that the threads of a trial waited, and those of them with a flush under
/// way.
fn waited(trial: &Value) -> [u64; 2] {
    let waits = trial["observed"]["traced"]["waits"]
        .as_array()
        .unwrap_or_else(|| panic!("not traced: {trial}"));
    ["ns", "flush_ns"].map(|field| waits.iter().filter_map(|stack| stack[field].as_u64()).sum())
}

/// Whether the difference is significant depends on what else the machine does. Its parts do not.
#[test]
fn waits_for_flushes_are_found_unless_barriers_are_off() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    std::fs::write(scratch.path().join("plan.toml"), APPEND).unwrap();
    let arguments =
        words("run plan.toml ext4 bare=ext4,nobarrier --explain --out run --format json");
    let output = succeeds(scratch.path(), &arguments);
    expect_no_traces(&before);
    let traced = traced(&scratch.path().join("run"));
    assert_eq!(traced.len(), 10);
    for trial in &traced {
        let times = &trial["observed"]["traced"];
        assert!(
            (2..=6).contains(&trial["block"].as_u64().unwrap()),
            "{trial}"
        );
        assert_eq!(
            (times.get("problem"), &times["lost"]),
            (None, &0.into()),
            "{trial}"
        );
        let ([all, flushes], thread_ns) = (waited(trial), times["thread_ns"].as_u64().unwrap());
        assert!(
            all * 2 > thread_ns,
            "an operation waits for most of its time: {trial}"
        );
        match trial["target"].as_str().unwrap() {
            "ext4" => assert!(flushes * 50 > all, "{flushes} of {all} ns: {trial}"),
            _ => assert_eq!(flushes, 0, "{trial}"),
        }
        let in_commit = |stack: &Value| {
            stack["functions"]
                .to_string()
                .contains("jbd2_log_wait_commit")
        };
        assert!(
            times["waits"].as_array().unwrap().iter().any(in_commit),
            "{trial}"
        );
        // Each operation commits, and the thread of the journal writes it.
        assert!(
            times["commits"]["jbd2"].as_u64().unwrap() * 2 > times["operations"].as_u64().unwrap(),
            "{trial}"
        );
        assert!(written(times) > Some(0), "{trial}");
        let has_flushes = times["requests"]
            .as_array()
            .unwrap()
            .iter()
            .any(|totals| totals["kind"] == "flush");
        assert_eq!(has_flushes, trial["target"] == "ext4", "{trial}");
        let shown = times["shown_requests"].as_array().unwrap();
        assert!(
            !shown.is_empty() && shown.iter().all(|request| request["ns"].as_u64() > Some(0)),
            "{trial}"
        );
        let threads = times["kernel_threads"].as_array().unwrap();
        let journal = threads
            .iter()
            .find(|threads| threads["kind"] == "jbd2")
            .unwrap_or_else(|| panic!("{trial}"));
        assert!(
            journal["run_ns"].as_u64() > Some(0)
                && !journal["waits"].as_array().unwrap().is_empty(),
            "{trial}"
        );
    }
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["blocks"], 1, "traced blocks are not measured ones");
}

/// The clock of the second target spins after each operation for as long as the operation took.
#[test]
fn an_injected_slowdown_is_cpu_time_outside_of_the_kernel() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    let plan = "size = '256M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n\
                [[workload]]\nname = 'write'\nfile_size = '4M'\nblock_size = '4K'\noverwrite = true\n";
    std::fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let arguments = words("run plan.toml ext4 slow=ext4 --explain --out run -q");
    let output = command(scratch.path(), &arguments)
        .env("FSB_INJECT", "1=1.0")
        .output()
        .unwrap();
    expect_code(&output, 0);
    let traced = traced(&scratch.path().join("run"));
    let share = |target: &str| {
        let ns = |times: &Value, is_shown: fn(&Value) -> bool| {
            let runs = times["runs"]
                .as_array()?
                .iter()
                .filter(|stack| is_shown(stack));
            Some(runs.map(|stack| stack["ns"].as_u64().unwrap()).sum())
        };
        let user = sum(&traced, target, |times| {
            ns(times, |stack| stack["user"] == true)
        });
        user as f64 / sum(&traced, target, |times| ns(times, |_| true)) as f64
    };
    let (plain, slow) = (share("ext4"), share("slow"));
    assert!(
        slow > plain + 0.2,
        "{slow} of the CPU time is in user mode, and {plain} without a slowdown"
    );
}

#[test]
fn fast_commits_of_ext4_write_less_than_full_ones() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    std::fs::write(scratch.path().join("plan.toml"), APPEND).unwrap();
    let targets = ["ext4", "fast=ext4,mkfs=\"-O fast_commit\""];
    let arguments = [
        "run",
        "plan.toml",
        targets[0],
        targets[1],
        "--explain",
        "--out",
        "run",
        "-q",
    ];
    succeeds(scratch.path(), &arguments);
    let traced = traced(&scratch.path().join("run"));
    let fast = |times: &Value| Some(times["commits"]["ext4_fast"].as_u64().unwrap_or(0));
    assert_eq!(sum(&traced, "ext4", fast), 0);
    assert!(sum(&traced, "fast", fast) > 0, "{traced:?}");
    let bytes = |target: &str| {
        let operations = sum(&traced, target, |times| times["operations"].as_u64());
        sum(&traced, target, written) as f64 / operations as f64
    };
    let (full, fast) = (bytes("ext4"), bytes("fast"));
    assert!(
        fast < full * 0.8,
        "{fast} B for an operation with fast commits, {full} B without"
    );
}

/// Both targets change names for as long. The transactions of one of them are committed more often.
#[test]
fn a_shorter_commit_interval_makes_more_commits() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    let plan = "size = '256M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n\
                [[workload]]\nname = 'rename'\nfiles = 100\nsample_time = '2s'\n";
    std::fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let targets = ["rarely=ext4,commit=30", "often=ext4,commit=1"];
    let arguments = [
        "run",
        "plan.toml",
        targets[0],
        targets[1],
        "--explain",
        "--out",
        "run",
        "-q",
    ];
    succeeds(scratch.path(), &arguments);
    let traced = traced(&scratch.path().join("run"));
    let commits = |target: &str| {
        sum(&traced, target, |times| {
            Some(times["commits"]["jbd2"].as_u64().unwrap_or(0))
        })
    };
    let (rarely, often) = (commits("rarely"), commits("often"));
    assert!(
        often > 2 * rarely,
        "{often} commits with an interval of 1 s, {rarely} with 30 s"
    );
}

/// Random records are many requests, more than a throttled queue accepts at a time.
#[test]
fn throttled_writeback_is_a_class_of_its_own() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    let plan = "targets = [{ target = 'off=ext4', controls = { wbt = 'off' } }, \
                { target = 'on=ext4', controls = { wbt = '75ms' } }]\n\
                size = '256M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n\
                [[workload]]\nname = 'write'\nfile_size = '64M'\nblock_size = '4K'\naccess = 'random'\nfsync = 512\n";
    std::fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    succeeds(scratch.path(), "run plan.toml --explain --out run -q");
    let run = scratch.path().join("run");
    let observed =
        |target: &str| record(&run)["targets"][target]["controls"]["wbt"]["observed"].clone();
    if observed("on") != "75ms" {
        skip!(format!(
            "the kernel throttles no writeback on loop devices: {}",
            observed("on")
        ));
    }
    assert_eq!(observed("off"), "off");
    let traced = traced(&run);
    let (off, on) = (
        seconds_by_class(&traced, "off"),
        seconds_by_class(&traced, "on"),
    );
    assert!(!off.contains_key(&TimeClass::Throttling), "{off:?}");
    let increase = |(class, seconds): (&TimeClass, &f64)| {
        (*class, seconds - off.get(class).copied().unwrap_or(0.0))
    };
    let largest = on
        .iter()
        .map(increase)
        .max_by(|one, other| one.1.total_cmp(&other.1));
    assert_eq!(
        largest.map(|(class, _)| class),
        Some(TimeClass::Throttling),
        "{on:?}, without {off:?}"
    );
}

#[test]
fn threads_in_one_directory_wait_for_its_lock() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let scratch = scratch();
    let plan = "size = '256M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\n\
                [[workload]]\nname = 'create'\nfiles = 2000\nthreads = 4\nfiles_per_directory = ";
    let share = |per_directory: &str| {
        let out = format!("run-{per_directory}");
        std::fs::write(
            scratch.path().join("plan.toml"),
            format!("{plan}{per_directory}\n"),
        )
        .unwrap();
        succeeds(
            scratch.path(),
            &format!("run plan.toml ext4 again=ext4 --explain --out {out} -q"),
        );
        let in_lock = |stack: &&Value| {
            let functions: Vec<&str> = stack["functions"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            functions
                .iter()
                .any(|name| name.starts_with("rwsem_down_write"))
        };
        let traced = traced(&scratch.path().join(&out));
        let stacks = traced.iter().flat_map(|trial| {
            let times = &trial["observed"]["traced"];
            ["waits", "runs"]
                .into_iter()
                .flat_map(|kind| times[kind].as_array().unwrap())
        });
        let ns: u64 = stacks
            .filter(in_lock)
            .map(|stack| stack["ns"].as_u64().unwrap())
            .sum();
        let all: u64 = traced
            .iter()
            .map(|trial| trial["observed"]["traced"]["thread_ns"].as_u64().unwrap())
            .sum();
        ns as f64 / all as f64
    };
    // With ten files in each directory, threads meet in few of them.
    let (shared, apart) = (share("100000"), share("10"));
    assert!(
        shared > 2.0 * apart,
        "{shared} of the time in one directory, {apart} in many"
    );
}

#[test]
fn a_run_that_is_killed_while_it_traces_leaves_nothing() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let (before, programs_before) = (traces(), programs());
    let scratch = scratch();
    std::fs::write(scratch.path().join("plan.toml"), APPEND).unwrap();
    let arguments = words("run plan.toml ext4 again=ext4 --explain --out run -q");
    let child = Running::start(scratch.path(), &arguments);
    let run = scratch.path().join("run");
    wait_until("a program at work", Duration::from_secs(60), || {
        !traced(&run).is_empty()
            && programs()
                .iter()
                .any(|program| !programs_before.contains(program))
    });
    child.signal(Signal::KILL);
    child.wait();
    expect_no_traces(&before);
    wait_until("programs are gone", Duration::from_secs(20), || {
        programs() == programs_before
    });
    succeeds(scratch.path(), "report run");
}
