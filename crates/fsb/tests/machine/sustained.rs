//! Workloads that last until the journal was written several times.

use serde_json::Value;

use crate::common::{expect_code, expect_no_traces, fsb, scratch, stdout, traces, trials};

/// ext4 logs ten thousand directories again and again; for btrfs, which has no journal, fsb counts commits.
#[test]
fn a_trial_continues_until_the_journal_was_written_and_its_later_part_counts() {
    needs!(root);
    needs!(program "mkfs.btrfs");
    let before = traces();
    let scratch = scratch();
    let plan = "\
        [[workload]]\nname = 'flow'\ndurability = 'none'\nlabel = 'directories'\nsustain = 4\nsample_time = '2s'\n\
        flow = '''\nname = 'directories'\n\
        [[fileset]]\nname = 'all'\nfiles = 0\ndirectories = 20000\nsize = 0\nwidth = 500\npreallocated = 0.5\n\
        [[thread]]\nname = 'worker'\n\
        steps = [{ op = 'make-directory', set = 'all' }, { op = 'remove-directory', set = 'all' }]\n'''\n\
        [repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n";
    std::fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    // A journal of the size for a large disk is not written four times within the limit.
    let small_journal = "ext4=ext4,mkfs=\"-J size=8\"";
    let output = fsb(scratch.path(), &["run", "plan.toml", small_journal, "btrfs", "--size", "1G", "--out", "run"]);
    expect_code(&output, 0);
    expect_no_traces(&before);
    let all = trials(&scratch.path().join("run"));
    let of = |target: &str| -> &Value {
        let found = all.iter().find(|trial| trial["phase"] == "measured" && trial["target"] == target);
        found.unwrap_or_else(|| panic!("no {target}: {}", stdout(&output)))
    };
    let ext4 = of("ext4");
    assert_eq!((&ext4["outcome"], &ext4["workload"]), (&"ok".into(), &"directories, sustained".into()), "{ext4}");
    let (held, seconds) = (&ext4["observed"]["sustained"], ext4["requested"]["seconds"].as_f64().unwrap());
    assert!(held["turns"].as_f64().unwrap() >= 4.0, "{held}");
    assert!((2.0..=12.1).contains(&seconds), "{seconds}");
    // Both trials last equally long, and the rate excludes the first quarter of the turns.
    assert!((of("btrfs")["observed"]["sustained"]["seconds"].as_f64().unwrap() - seconds).abs() < 0.5, "{held}");
    let (lead_in, rate) = (held["lead_in"].as_f64().unwrap(), held["rate"].as_f64().unwrap());
    assert!(lead_in > 0.0 && lead_in <= seconds / 2.0 + 0.1, "{held}");
    assert!((ext4["metrics"][0]["value"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{ext4}");
    // The rate is the mean of the bins after the lead-in.
    let timeline = &ext4["timelines"][0];
    let first = (lead_in / (timeline["bin_ns"].as_f64().unwrap() * 1e-9)).round() as usize;
    let steady: Vec<f64> = timeline["rates"].as_array().unwrap()[first..].iter().filter_map(Value::as_f64).collect();
    assert!((steady.iter().sum::<f64>() / steady.len() as f64 / rate - 1.0).abs() < 0.01, "{held}");
}
