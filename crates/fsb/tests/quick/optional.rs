//! Targets that not every machine can make: the others are measured nevertheless.

use crate::common::{counting, expect_code, fails, fsb, fsb_json, message, record, scratch, stdout};

/// A plan with a target for which no machine has enough space.
const PLAN: &str = "targets = ['null', 'ext2=null', { target = 'striped=ext4@raid0:loop+loop', optional = true }]\n\
                    size = '1024T'\n[repetition]\nblocks = 5\nsample_time = '1ms'\n\
                    [[workload]]\nname = 'stat'\nfiles = 50\n[[workload]]\nname = 'varmail'\nfiles = 200\n";

#[test]
fn a_target_that_this_machine_cannot_make_is_said_and_no_failure() {
    let directory = scratch();
    std::fs::write(directory.path().join("plan.toml"), PLAN).unwrap();
    let output = fsb_json(directory.path(), &["run", "plan.toml", "--seed", "1", "--out", "out"]);
    expect_code(&output, 0);
    let text = stdout(&output);
    let row = text.lines().find(|line| line.starts_with("stat ")).unwrap();
    assert!(row.trim_end().ends_with("not available here"), "{text}");
    assert!(text.contains("striped: not available here: "), "{text}");
    assert_eq!(message(&output, "warning/target-unavailable")["fields"]["target"], "striped");
    let out = directory.path().join("out");
    let trials = counting(&out);
    let of = |target: &str, outcome: &str| {
        trials.iter().filter(|trial| trial["target"] == target && trial["outcome"] == outcome).count()
    };
    assert_eq!((of("null", "ok"), of("ext2", "ok")), (12, 12), "two cells, a block of warm-up and five others");
    assert_eq!((of("striped", "not_applicable"), of("striped", "ok")), (12, 0));
    let record = record(&out);
    assert!(record["targets"]["striped"]["unavailable"].as_str().is_some_and(|why| !why.is_empty()));
    assert_eq!(record["targets"]["striped"]["failed"], serde_json::Value::Null);
    // Shown again it is the same, and in every form.
    for format in ["markdown", "json", "text"] {
        let again = fsb(directory.path(), &["report", "out", "--format", format]);
        expect_code(&again, 0);
        let said = if format == "json" { "\"unavailable\"" } else { "not available here" };
        assert!(stdout(&again).contains(said), "{format}: {}", stdout(&again));
    }
    let html = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("not available here"));
}

#[test]
fn invalid_optional_targets_and_runs_of_them_alone_are_refused() {
    let directory = scratch();
    let write = |text: &str| std::fs::write(directory.path().join("plan.toml"), text).unwrap();
    write(&PLAN.replace("optional = true", "optional = false"));
    expect_code(&fsb(directory.path(), &["run", "plan.toml"]), 3);
    write(&PLAN.replace("'null', 'ext2=null', ", ""));
    expect_code(&fsb(directory.path(), &["run", "plan.toml"]), 3);
    write(&PLAN.replace("ext4@", "ext5@"));
    fails(directory.path(), &["run", "plan.toml"], 2, "target/unknown-file-system");
    write(&PLAN.replace("optional = true", "optinal = true"));
    fails(directory.path(), &["run", "plan.toml"], 2, "plan/unknown-key");
}
