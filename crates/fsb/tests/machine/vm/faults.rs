//! Disks that fail under a target in a guest: errors in a sample, a disk that dies, one with a log of its writes, one
//! that fills up. Each fault costs the trials of its target, which report it; the others continue.

use super::*;

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
    let arguments = ["run", "faults.toml", "--kernel", &kernel, "-q", "--seed", "1", "--out", "run"];
    let output = command(scratch.path(), &arguments).env("XDG_CACHE_HOME", cache()).output().unwrap();
    expect_code(&output, 4);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let made = trials(&scratch.path().join("run"));
    let of = |target: &str| -> Vec<(String, String)> {
        let own = made.iter().filter(|trial| trial["target"] == target && trial["phase"] == "measured");
        own.map(|trial| (text(&trial["outcome"]), text(&trial["error"]))).collect()
    };
    for target in ["sound", "logged"] {
        assert_eq!(of(target).len(), 2, "{target}");
        assert!(of(target).iter().all(|(outcome, _)| outcome == "ok"), "{target}: {:?}", of(target));
    }
    for (target, why) in [("holes", "Input/output error"), ("dying", "Input/output error"), ("few", "ENOSPC")] {
        let lost: Vec<_> = of(target).into_iter().filter(|(outcome, _)| outcome == "failed").collect();
        assert!(!lost.is_empty() && lost.iter().all(|(_, error)| error.contains(why)), "{target}: {:?}", of(target));
    }
    assert!(scratch.path().join("run/report.html").exists());
    assert!(stdout(&output).contains("dying"), "{}", stdout(&output));
}
