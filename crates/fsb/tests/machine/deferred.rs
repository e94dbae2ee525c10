//! Deferred work: the work of a target between the end of the sample and the moment at which the target is idle.

use serde_json::Value;

use crate::common::{expect_code, expect_no_traces, fsb, scratch, traces, trials};

fn metric(trial: &Value, name: &str) -> f64 {
    let metrics = trial["metrics"].as_array().unwrap();
    let found = metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name}: {trial}"));
    found["value"].as_f64().unwrap()
}

/// In samples and in sequential trials: unflushed data is written later, flushed data was written before.
#[test]
fn deferred_work_is_counted_until_the_target_is_idle() {
    needs!(root);
    for program in ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"] {
        needs!(program program);
    }
    let before = traces();
    let scratch = scratch();
    let row = |durability: &str, sample_time: &str| {
        format!(
            "[[workload]]\nname = 'write'\nfile_size = '16M'\ndurability = '{durability}'\nsample_time = '{sample_time}'\n\
             label = '{durability} {sample_time}'\n"
        )
    };
    let rows = [("none", "20ms"), ("end", "20ms"), ("none", "1s")];
    let plan: String = rows.iter().map(|(durability, sample_time)| row(durability, sample_time)).collect();
    let reads = "[[workload]]\nname = 'read'\nfile_size = '16M'\ncache = 'warm'\n";
    std::fs::write(
        scratch.path().join("plan.toml"),
        format!("{plan}{reads}[repetition]\nblocks = 2\n[controls]\nguest-memory = \"off\"\n"),
    )
    .unwrap();
    let run = ["run", "plan.toml", "ext4", "xfs", "btrfs", "--size", "1200M", "--out", "run"];
    let output = fsb(scratch.path(), &run);
    expect_code(&output, 0);
    expect_no_traces(&before);
    let (mut seen, mut took_time) = (0, false);
    for trial in trials(&scratch.path().join("run")).iter().filter(|trial| {
        // A trial affected by interference is retried.
        trial["phase"] == "measured" && trial["superseded"] != true
    }) {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        let label = trial["workload"].as_str().unwrap();
        if trial["operation"] == "read" {
            assert!(trial["observed"].get("deferred").is_none(), "a read leaves nothing: {trial}");
            continue;
        }
        let (left, times) = (metric(trial, "deferred_bytes_per_operation"), metric(trial, "write_amplification"));
        let said = format!("{label} on {}: {left} bytes an operation, {times} times", trial["target"]);
        let (rate, until_rest) = (metric(trial, "throughput"), metric(trial, "throughput_with_deferred"));
        assert!(until_rest <= rate, "{trial}");
        match label {
            // Each byte is written once; metadata and logs add little.
            "none 20ms" => assert!(left > 0.8e6 && (0.99..1.6).contains(&times) && until_rest < rate * 0.9, "{said}"),
            // Data overwritten in memory is written out at most once. On a busy machine the extra time can be shorter
            // than the wait on an idle target that is subtracted from it, but not in every trial.
            "none 1s" => {
                assert!(left > 0.0 && times < 1.6, "{said}");
                took_time |= until_rest < rate;
            }
            _ => {
                assert!(left < 0.3e6 && (0.99..1.6).contains(&times), "{said}");
                assert!(trial["latency"].get("sync-at-end").is_some(), "the flush at the end has a duration: {trial}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 3 * 3 * 2);
    assert!(took_time, "what was left took no time on any target");
}
