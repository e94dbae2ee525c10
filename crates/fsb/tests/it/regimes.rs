//! In cache, out of cache, past it: limits that hold, proofs, scales, and what a matrix ends in.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::*;

/// A matrix whose files are one and two times the memory that may cache them.
const OUT: &str = r#"
size = "320M"
[controls]
memory-limit = "32M"
guest-memory = "off"
[repetition]
blocks = 1
stretch = "10ms"
[[workload]]
name = "read"
file_size = ["32M", "64M"]
block_size = ["1M"]
cache = "out"
[[workload]]
name = "reread"
file_size = ["32M", "64M"]
block_size = ["64K"]
cache = "out"
[[workload]]
name = "random-write"
file_size = ["64M"]
block_size = ["64K"]
cache = "out"
durability = "end"
[[workload]]
name = "fwrite"
file_size = ["32M"]
block_size = ["64K"]
cache = "out"
durability = "end"
"#;

/// Two small matrices in the cache.
const WARM: &str = r#"
name = "warm"
[controls]
guest-memory = "off"
[repetition]
blocks = 5
stretch = "1ms"
[[workload]]
name = "rewrite"
file_size = "64K..256K"
block_size = ["4K", "16K", "64K"]
cache = "warm"
[[workload]]
name = "read"
file_size = "64K..256K"
block_size = ["4K", "16K", "64K"]
cache = "warm"
"#;

/// Cgroups of runs that live, or were left behind.
fn cgroups() -> Vec<PathBuf> {
    fn below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                let ours = name.strip_prefix("fsb-").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
                if ours {
                    found.push(entry.path());
                }
                below(&entry.path(), found);
            }
        }
    }
    let mut found = Vec::new();
    ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"].iter().for_each(|root| below(Path::new(root), &mut found));
    found.sort();
    found.dedup();
    found
}

/// The cgroup of one run, by the process id of its front.
fn cgroup_of(front: u32) -> Option<PathBuf> {
    cgroups().into_iter().find(|path| path.file_name().is_some_and(|name| *name == *format!("fsb-{front}")))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn needs_a_memory_controller() {
    let cgroup = Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists()
        || fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").is_ok_and(|text| text.contains("memory"));
    if !cgroup {
        fsb_testkit::skip_everywhere("no memory controller");
    }
    needs_root();
}

#[test]
fn out_of_cache_is_held_seen_from_outside_and_proved() {
    needs_a_memory_controller();
    let before = traces();
    needs_program("mkntfs");
    for target in ["ext4", "xfs", "btrfs", "ntfs"] {
        let scratch = scratch();
        fs::write(scratch.path().join("out.toml"), OUT).unwrap();
        let running = Running::start(scratch.path(), &["run", "out.toml", target, "--out", "run", "-q"]);
        let front = running.id();
        // From outside: what is charged never passes the limit, and page cache is charged at all.
        let (mut most, mut cached, mut served) = (0, 0, false);
        let run = scratch.path().join("run");
        wait_until("the run is over", Duration::from_secs(120), || {
            if let Some(cgroup) = cgroup_of(front) {
                let usage = number(&cgroup.join("memory.usage_in_bytes")).or(number(&cgroup.join("memory.current")));
                most = most.max(usage.unwrap_or(0));
                let inside = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
                let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                served |= inside.lines().any(|pid| name(pid).trim() == "ntfs-3g");
                let stat = fs::read_to_string(cgroup.join("memory.stat")).unwrap_or_default();
                let of = |word: &str| stat.lines().find_map(|line| line.strip_prefix(word)?.trim().parse::<u64>().ok());
                cached = cached.max(of("total_cache ").or(of("file ")).unwrap_or(0));
            }
            run.join("report.html").exists()
        });
        let output = running.wait();
        expect_code(&output, 0);
        assert!(most > 24 << 20 && most <= 32 << 20, "{target}: {most}");
        assert!(cached > 16 << 20, "{target}: {cached}");
        assert_eq!(served, target == "ntfs", "a FUSE server is held like those whom it serves");
        assert_eq!(cgroup_of(front), None, "the cgroup goes with the run");
        let measured: Vec<_> = counting(&run).into_iter().filter(|trial| trial["phase"] == "measured").collect();
        assert_eq!(measured.len(), 6);
        for trial in &measured {
            assert_eq!(trial["outcome"], "ok", "{target}: {trial:#}");
            let observed = &trial["observed"];
            let memory = &observed["memory_limit"];
            assert!(memory["mechanism"].as_str().unwrap().starts_with("cgroup v"), "{memory}");
            assert_eq!((&memory["limit_bytes"], &memory["reached"]), (&(32 << 20).into(), &true.into()), "{memory}");
            assert!(memory["peak_bytes"].as_u64().unwrap() <= 32 << 20);
            assert!(observed["resident_bytes_after"].as_u64().unwrap() <= 32 << 20, "{observed}");
            assert_eq!(trial["requested"]["controls"]["memory-limit"], "32M");
            let moved = if trial["operation"].as_str().unwrap().ends_with("read") { "read" } else { "write" };
            let moved = observed[format!("device_{moved}_bytes")].as_u64().unwrap();
            assert!(moved as f64 >= 0.9 * trial["params"]["file_size"].as_f64().unwrap(), "{trial:#}");
        }
        let record = record(&run);
        let control = &record["targets"][target]["controls"]["memory-limit"];
        assert_eq!((&control["requested"], &control["effective"]), (&"32M".into(), &true.into()), "{control}");
    }
    expect_no_traces(&before);
}

#[test]
fn what_is_in_cache_is_there_before_and_after() {
    needs_root();
    let scratch = scratch();
    let plan =
        WARM.replace("blocks = 5", "blocks = 1") + "[[workload]]\nname = 'write'\nfile_size = ['1M']\ncache = 'warm'\n";
    fs::write(scratch.path().join("warm.toml"), plan).unwrap();
    let output = fsb(scratch.path(), &["run", "warm.toml", "ext4", "--size", "64M", "--out", "run", "-q"]);
    expect_code(&output, 0);
    for trial in trials(&scratch.path().join("run")).iter().filter(|trial| trial["phase"] == "measured") {
        let whole = trial["params"]["file_size"].as_u64().unwrap();
        assert_eq!(trial["observed"]["resident_bytes_after"], whole, "{trial:#}");
        assert!(trial["observed"].get("memory_limit").is_none(), "without a limit no cgroup");
    }
}

#[test(machine)]
fn a_killed_run_leaves_its_cgroup_to_the_next_one() {
    needs_a_memory_controller();
    let before = traces();
    let scratch = scratch();
    fs::write(scratch.path().join("out.toml"), OUT.replace("blocks = 1", "blocks = 50")).unwrap();
    let running = Running::start(scratch.path(), &["run", "out.toml", "ext4", "--out", "run", "-q"]);
    let front = running.id();
    wait_until("a trial in the cgroup", Duration::from_secs(60), || !trials(&scratch.path().join("run")).is_empty());
    assert!(cgroup_of(front).is_some());
    kill_watcher(front);
    running.signal(rustix::process::Signal::KILL);
    running.wait();
    expect_no_traces(&before);
    assert!(cgroup_of(front).is_some(), "the kernel does not take it away");
    let cleaned = fsb(scratch.path(), &["clean"]);
    expect_code(&cleaned, 0);
    assert!(stdout(&cleaned).contains("removed the cgroup"), "{}", stdout(&cleaned));
    assert_eq!(cgroup_of(front), None);
}

#[test]
fn absurd_limits_and_files_that_fit_are_refused_before_anything_is_touched() {
    let scratch = scratch();
    fs::write(scratch.path().join("out.toml"), OUT).unwrap();
    for (extra, why) in [
        (["--control", "memory-limit=1M"], "are too little: at least 16.0 MiB"),
        (["--control", "memory-limit=much"], "is not a size"),
        (["--control", "memory-limit=32M:rope"], "write SIZE:cgroup or SIZE:eater"),
        (["--control", "memory-limit=48M"], "32.0 MiB of files fit the memory limit of 48.0 MiB"),
        (["--control", "memory-limit=keep"], "no memory-limit is set"),
        (["--scale", "0"], "write a fraction such as 1/8"),
        (["--scale", "1/4096"], "give between 1/1024 and 16"),
    ] {
        let arguments = [&["run", "out.toml", "null", "--out", "run"][..], &extra].concat();
        let output = fsb(scratch.path(), &arguments);
        expect_code(&output, 2);
        assert!(stderr(&output).contains(why), "{extra:?}: {}", stderr(&output));
        assert!(!scratch.path().join("run").exists());
    }
}

#[test]
fn a_limit_above_memory_is_refused() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    let output = fsb(scratch.path(), &["run", "warm.toml", "null", "--out", "run", "--control", "memory-limit=900T"]);
    expect_code(&output, 2);
    assert!(stderr(&output).contains("900 TiB are more than this machine has"), "{}", stderr(&output));
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_matrix_ends_in_findings_of_every_pair() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    let targets = ["a=null", "b=null,slowdown=20%", "c=null"];
    let arguments = [&["run", "warm.toml", "--seed", "7", "--out", "run", "-q"][..], &targets].concat();
    let output = fsb(scratch.path(), &arguments);
    expect_code(&output, 0);
    let screen = stdout(&output);
    let findings: Vec<&str> = screen.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(
        findings,
        [
            "- b is slower than a at read, warm: −16 % (95 % CI −18…−13), 9 of 9 cells",
            "- b is slower than a at rewrite, warm: −16 % (95 % CI −21…−11), 9 of 9 cells",
            "- c is faster than b at read, warm: +19 % (95 % CI +15…+22), 9 of 9 cells",
            "- c is faster than b at rewrite, warm: +20 % (95 % CI +12…+28), 9 of 9 cells",
        ]
    );
    let page = fs::read_to_string(scratch.path().join("run/report.html")).unwrap();
    let section = page.split("id=\"findings\"").nth(1).expect("a section of its own").replace('\u{a0}', " ");
    for finding in &findings {
        assert!(section.contains(finding.trim_start_matches("- ")), "{finding}");
    }
    // The same rectangles as those of fsb compare.
    let compared = fsb(scratch.path(), &["compare", "run", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(stdout(&compared).as_str()).unwrap();
    let told: Vec<&str> =
        document["findings"].as_array().unwrap().iter().map(|f| f["text"].as_str().unwrap()).collect();
    assert!(!told.is_empty() && told.iter().all(|text| screen.contains(text)), "{told:?}");
    // One block is described: nothing is found.
    let few = fsb(scratch.path(), &[&arguments[..3], &["9", "--blocks", "1", "--out", "few", "-q"], &targets].concat());
    expect_code(&few, 0);
    assert!(!fs::read_to_string(scratch.path().join("few/report.html")).unwrap().contains("id=\"findings\""));
}

#[test]
fn a_scale_is_recorded_shown_and_not_compared_silently() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    let arguments = |out, scale| ["run", "warm.toml", "null", "--seed", "7", "--out", out, "-q", "--scale", scale];
    let output = fsb(scratch.path(), &arguments("half", "50%"));
    expect_code(&output, 0);
    assert!(stdout(&output).contains(" · scale 1/2 · "), "{}", stdout(&output));
    let recorded = record(&scratch.path().join("half"));
    assert_eq!((&recorded["plan"]["scale"], &recorded["plan"]["size"]), (&0.5.into(), &(1u64 << 30).into()));
    let sizes: Vec<u64> =
        recorded["cells"].as_array().unwrap().iter().filter_map(|c| c["workload"]["file_size"].as_u64()).collect();
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&(32 << 10)), Some(&(128 << 10))));
    expect_code(&fsb(scratch.path(), &arguments("whole", "1")), 0);
    let compared = fsb(scratch.path(), &["compare", "half", "whole"]);
    expect_code(&compared, 0);
    let text = stdout(&compared);
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("measured at different scales (half: 0.5; whole: 1)"), "{text}");
}

/// Two runs whose records say that a cgroup of version 1 held one and one of version 2 the other.
#[test]
fn limits_by_different_means_are_shown_and_not_judged() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), WARM).unwrap();
    for (target, mechanism) in [("null", "cgroup v1"), ("slow=null,slowdown=50%", "cgroup v2")] {
        let out = mechanism.replace(' ', "-");
        let output = fsb(scratch.path(), &["run", "warm.toml", target, "--seed", "7", "--out", &out, "-q"]);
        expect_code(&output, 0);
        let path = scratch.path().join(&out).join("trials.jsonl");
        let held = trials(&scratch.path().join(&out)).into_iter().map(|mut trial| {
            trial["observed"]["memory_limit"] =
                serde_json::json!({"mechanism": mechanism, "limit_bytes": 32 << 20, "reached": true});
            trial.to_string() + "\n"
        });
        let held: String = held.collect();
        fs::write(path, held).unwrap();
    }
    let alike = fsb(scratch.path(), &["compare", "cgroup-v1", "a=cgroup-v1", "--format", "json"]);
    assert!(!stderr(&alike).contains("nothing is judged"), "{}", stderr(&alike));
    let arguments = ["compare", "cgroup-v1", "cgroup-v2", "--format", "json", "--fail-if", "slower"];
    let compared = fsb(scratch.path(), &arguments);
    expect_code(&compared, 2);
    assert!(stderr(&compared).contains("--fail-if slower: cannot tell"), "{}", stderr(&compared));
    let document: serde_json::Value = serde_json::from_str(stdout(&compared).as_str()).unwrap();
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("different means") && warning.contains("cgroup-v1: cgroup v1; cgroup-v2: cgroup v2"),
        "{warning}"
    );
    assert!(document["findings"].as_array().unwrap().is_empty());
    let operations = document["operations"].as_array().unwrap();
    assert!(!operations.is_empty());
    for operation in operations {
        let against = &operation["estimate"]["against"]["slow"];
        assert_eq!(against["verdict"], "not_judged", "{operation:#}");
        assert!(against["ci95"].is_null() && against["ratio"].is_number());
    }
    let screen = fsb(scratch.path(), &["compare", "cgroup-v1", "cgroup-v2"]);
    assert!(stdout(&screen).contains("described, not judged"), "{}", stdout(&screen));
}
