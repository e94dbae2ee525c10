//! Retries of trials affected by interference, and the number of blocks: whole runs on the null
//! file system, which simulates both interference and noise. Targets take turns unless a test
//! differs.

use std::fs;

use serde_json::Value;

use crate::common::{
    command, expect_code, expect_no_traces, fsb_json, messages, scratch, traces, trials, words,
};

/// tmpfs accepts O_DIRECT and buffers nevertheless, so the validity check fails at every attempt.
#[test]
fn an_invalid_trial_is_made_again_unless_it_was_invalid_to_the_end_before() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    let plan = "targets = ['tmpfs']\nsize = '64M'\ncontrols = { guest-memory = 'off' }\n[repetition]\nblocks = 3\n\
                [[workload]]\nname = 'write'\nfile_size = '1M'\nblock_size = '64K'\nbackend = 'direct'\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let output = fsb_json(scratch.path(), "run plan.toml --one-at-a-time --out run");
    expect_no_traces(&before);
    let all = trials(&scratch.path().join("run"));
    if all.iter().any(|trial| trial["outcome"] == "failed") {
        // Older kernels refuse the flag there.
        return;
    }
    expect_code(&output, 4);
    let attempts = |block: u64| {
        all.iter()
            .filter(|trial| trial["block"] == block)
            .collect::<Vec<_>>()
    };
    // Other activity of the machine is another reason to retry a trial.
    let is_affected = |block: u64| {
        attempts(block)
            .iter()
            .any(|trial| trial["interference"][0].is_object())
    };
    for (block, expected) in [(0, 1), (1, 3), (2, 1), (3, 1)] {
        let made = attempts(block).len();
        assert!(
            made == expected || is_affected(block) && made <= 3,
            "{made} attempts in block {block}"
        );
    }
    assert!(
        attempts(1)[..2]
            .iter()
            .all(|trial| trial["superseded"] == true && trial["outcome"] == "invalid")
    );
    assert!(attempts(1)[2]["superseded"].is_null());
    // Interference with an invalid trial is reported instead of its reason.
    let retried =
        |message: &Value| message["code"] == "note/retried" || message["fields"]["retried"] == true;
    assert!(messages(&output).iter().any(retried), "{output:?}");
}

#[test]
fn a_neighbour_that_works_is_seen_from_within_the_run() {
    needs!(root);
    let before = traces();
    let scratch = scratch();
    fs::write(
        scratch.path().join("plan.toml"),
        "size = '64M'\n[controls]\nguest-memory = 'off'\n[repetition]\nblocks = 1\nsample_time = '3s'\n\
         [[workload]]\nname = 'write'\nfile_size = '4M'\ndurability = 'each'\n",
    )
    .unwrap();
    let mut neighbour = std::process::Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let arguments = words("run plan.toml ext4 --one-at-a-time --out run -q");
    let output = command(scratch.path(), &arguments)
        .env_remove("FSB_KEEP_AFFECTED")
        .output()
        .unwrap();
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    expect_code(&output, 0);
    let measured: Vec<Value> = trials(&scratch.path().join("run"))
        .into_iter()
        .filter(|trial| trial["phase"] == "measured")
        .collect();
    assert_eq!(
        measured.len(),
        3,
        "made again twice, for the neighbour did not stop"
    );
    for trial in &measured {
        let seen = |name: &str| {
            trial["observed"]["watched"][name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name} in {trial}"))
        };
        assert!(seen("watched_seconds") >= 1.0, "{trial}");
        // The neighbour requests one whole processor; a busy machine gives it a part.
        assert!(
            seen("others_cpu_seconds") > 0.1 * seen("watched_seconds"),
            "{trial}"
        );
        assert!(
            seen("available_cpu_seconds") >= seen("watched_seconds"),
            "{trial}"
        );
        for name in ["steal_seconds", "target_device_bytes"] {
            seen(name);
        }
        let kinds: Vec<&str> = trial["interference"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["kind"].as_str().unwrap())
            .collect();
        assert!(kinds.contains(&"other_processes"), "{kinds:?}");
    }
    let superseded: Vec<bool> = measured
        .iter()
        .map(|trial| trial["superseded"] == true)
        .collect();
    assert_eq!(
        superseded,
        [true, true, false],
        "the last attempt is analysed"
    );
    expect_no_traces(&before);
}
