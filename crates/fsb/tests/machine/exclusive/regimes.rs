//! In the cache, larger than the cache, past the cache: memory limits, validity checks, scales, and
//! the end of a matrix.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::controls::HELD;
use crate::common::*;

/// Returns the cgroups of running runs, and of killed ones.
fn cgroups() -> Vec<PathBuf> {
    fn below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with("fsb-") {
                    found.push(entry.path());
                }
                below(&entry.path(), found);
            }
        }
    }
    let mut found = Vec::new();
    ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
        .iter()
        .for_each(|root| below(Path::new(root), &mut found));
    found.sort();
    found.dedup();
    found
}

/// Returns the cgroup of one run, by the process id of its coordinator.
fn cgroup_of(coordinator: u32) -> Option<PathBuf> {
    let prefix = format!("fsb-{coordinator}-");
    cgroups().into_iter().find(|path| {
        let name = path.file_name();
        name.is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn memory_controller() -> bool {
    Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists()
        || fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|text| text.contains("memory"))
}

#[test]
fn out_of_cache_is_held_seen_from_outside_and_proved() {
    needs!(root);
    if !memory_controller() {
        skip!("no memory controller");
    }
    let before = traces();
    needs!(program "mkntfs");
    for target in ["ext4", "xfs", "btrfs", "ntfs"] {
        let scratch = scratch();
        fs::write(scratch.path().join("out.toml"), OUT_OF_CACHE).unwrap();
        let running = Running::start(
            scratch.path(),
            &["run", "out.toml", target, "--out", "run", "-q"],
        );
        let coordinator = running.id();
        // Observed from outside: the charged memory never exceeds the limit, and page cache is
        // charged.
        let (mut most, mut cached, mut served) = (0, 0, false);
        let run = scratch.path().join("run");
        wait_until("the run is over", Duration::from_secs(120), || {
            if let Some(cgroup) = cgroup_of(coordinator) {
                let usage = number(&cgroup.join("memory.usage_in_bytes"))
                    .or(number(&cgroup.join("memory.current")));
                most = most.max(usage.unwrap_or(0));
                let inside = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
                let name =
                    |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                served |= inside.lines().any(|pid| name(pid).trim() == "ntfs-3g");
                let stat = fs::read_to_string(cgroup.join("memory.stat")).unwrap_or_default();
                let of = |word: &str| {
                    stat.lines()
                        .find_map(|line| line.strip_prefix(word)?.trim().parse::<u64>().ok())
                };
                cached = cached.max(of("total_cache ").or(of("file ")).unwrap_or(0));
            }
            run.join("report.html").exists()
        });
        let output = running.wait();
        expect_code(&output, 0);
        assert!(most > 24 << 20 && most <= 32 << 20, "{target}: {most}");
        assert!(cached > 16 << 20, "{target}: {cached}");
        assert_eq!(
            served,
            target == "ntfs",
            "a FUSE server is held like those whom it serves"
        );
        assert_eq!(cgroup_of(coordinator), None, "the cgroup goes with the run");
        let measured = measured(&run);
        assert_eq!(measured.len(), 6);
        for trial in &measured {
            assert_eq!(trial["outcome"], "ok", "{target}: {trial:#}");
            let observed = &trial["observed"];
            let memory = &observed["memory_limit"];
            assert!(
                memory["mechanism"]
                    .as_str()
                    .unwrap()
                    .starts_with("cgroup v"),
                "{memory}"
            );
            assert_eq!(
                (&memory["limit_bytes"], &memory["reached"]),
                (&(32 << 20).into(), &true.into()),
                "{memory}"
            );
            assert!(memory["peak_bytes"].as_u64().unwrap() <= 32 << 20);
            assert!(
                observed["resident_bytes_after"].as_u64().unwrap() <= 32 << 20,
                "{observed}"
            );
            assert_eq!(trial["requested"]["controls"]["memory-limit"], "32M");
            let moved = if trial["operation"].as_str().unwrap().ends_with("read") {
                "read"
            } else {
                "write"
            };
            let moved = observed[format!("device_{moved}_bytes")].as_u64().unwrap();
            assert!(
                moved as f64 >= 0.9 * trial["params"]["file_size"].as_f64().unwrap(),
                "{trial:#}"
            );
        }
        let record = record(&run);
        let control = &record["targets"][target]["controls"]["memory-limit"];
        assert_eq!(
            (&control["requested"], &control["effective"]),
            (&"32M".into(), &true.into()),
            "{control}"
        );
    }
    expect_no_traces(&before);
}

#[test]
fn in_cache_files_are_resident_before_and_after() {
    needs!(root);
    let scratch = scratch();
    let plan = IN_CACHE.replace("blocks = 5", "blocks = 1")
        + "[[workload]]\nname = 'write'\nfile_size = ['1M']\ncache = 'warm'\n";
    fs::write(scratch.path().join("warm.toml"), plan).unwrap();
    succeeds(scratch.path(), "run warm.toml ext4 --size 64M --out run -q");
    for trial in trials(&scratch.path().join("run"))
        .iter()
        .filter(|trial| trial["phase"] == "measured")
    {
        let whole = trial["params"]["file_size"].as_u64().unwrap();
        assert_eq!(
            trial["observed"]["resident_bytes_after"], whole,
            "{trial:#}"
        );
        assert!(
            trial["observed"].get("memory_limit").is_none(),
            "without a limit no cgroup"
        );
    }
}

#[test]
fn a_killed_run_leaves_its_cgroup_to_the_next_one() {
    needs!(root);
    if !memory_controller() {
        skip!("no memory controller");
    }
    let before = traces();
    let scratch = scratch();
    fs::write(scratch.path().join("held.toml"), HELD).unwrap();
    let running = Running::start(
        scratch.path(),
        "run held.toml ext4 --size 320M --control memory-limit=32M:cgroup --out run -q",
    );
    let coordinator = running.id();
    wait_until("the cgroup", Duration::from_secs(60), || {
        cgroup_of(coordinator).is_some()
    });
    kill_watcher(coordinator);
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    expect_no_traces(&before);
    assert!(
        cgroup_of(coordinator).is_some(),
        "the kernel does not take it away"
    );
    let (cleaned, changes) = clean(scratch.path(), &[]);
    expect_code(&cleaned, 0);
    assert!(
        changes.iter().any(|(state, _)| state == "undone"),
        "{changes:?}"
    );
    assert_eq!(cgroup_of(coordinator), None);
}

// Direct I/O is verified: file systems that accept O_DIRECT but use the page cache give no numbers.

/// Reads and writes that bypass the page cache, by system calls and by io_uring.
const DIRECT: &str = r#"
name = "past the cache"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "1ms"
[[workload]]
name = "read"
file_size = "2M"
block_size = "256K"
cache = "any"
backend = "direct"
[[workload]]
name = "write"
file_size = "2M"
block_size = "256K"
backend = "direct"
[[workload]]
name = "write"
file_size = "2M"
block_size = "4K"
access = "random"
cache = "any"
backend = "uring-direct"
depth = 8
"#;

/// Returns outcome and reason of each measured trial: reads first, then both kinds of writes.
fn outcomes(target: &str) -> Vec<(String, String)> {
    let before = traces();
    let scratch = scratch();
    fs::write(scratch.path().join("direct.toml"), DIRECT).expect("the plan is written");
    let output = fsb(
        scratch.path(),
        &format!("run direct.toml {target} --size 320M --out run -q"),
    );
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    for trial in &trials {
        // What is invalid is tried three times, and what is not once.
        let attempts = if trial["outcome"] == "invalid" { 3 } else { 1 };
        assert_eq!(trial["attempt"], attempts, "{trial:#}");
    }
    let outcome_of = |trial: &serde_json::Value| {
        let text = |key: &str| trial[key].as_str().unwrap_or_default().to_owned();
        (text("operation"), text("outcome"), text("error_code"))
    };
    let mut measured: Vec<_> = trials.iter().map(outcome_of).collect();
    measured.sort();
    assert_eq!(
        measured.len(),
        3,
        "{target}: {measured:?}: {}",
        stderr(&output)
    );
    measured
        .into_iter()
        .map(|(_, outcome, code)| (outcome, code))
        .collect()
}

fn is_exposed((outcome, code): &(String, String)) -> bool {
    outcome == "invalid" && code == "trial/not-direct"
}

#[test]
fn ext4_and_xfs_go_past_the_page_cache() {
    needs!(root);
    needs!(program "mkfs.ext4", "mkfs.xfs");
    for target in ["ext4", "xfs"] {
        for (outcome, code) in outcomes(target) {
            assert_eq!(outcome, "ok", "{target}: {code}");
        }
    }
}

#[test]
fn a_full_journal_goes_through_it_and_is_exposed() {
    needs!(root);
    needs!(program "mkfs.ext3");
    let found = outcomes("ext3,data=journal");
    assert!(found.iter().all(is_exposed), "{found:?}");
}

/// Older kernels refuse the flag on tmpfs, which gives no number either.
#[test]
fn a_file_system_in_memory_is_exposed_or_refuses() {
    needs!(root);
    for found in outcomes("tmpfs") {
        let refused = found.0 == "failed" && found.1 == "trial/not-direct";
        assert!(is_exposed(&found) || refused, "{found:?}");
    }
}

/// With checksums, btrfs on newer kernels writes through the page cache and empties it before the
/// call returns.
#[test]
fn writes_with_checksums_are_exposed_where_the_kernel_buffers_them() {
    needs!(root);
    needs!(program "mkfs.btrfs");
    let found = outcomes("btrfs");
    assert_eq!(found[0].0, "ok", "reads are direct: {found:?}");
    let exposed = found[1..].iter().filter(|found| is_exposed(found)).count();
    let direct = found[1..].iter().filter(|found| found.0 == "ok").count();
    assert!(
        exposed == 2 || direct == 2,
        "both writes or none: {found:?}"
    );
}
