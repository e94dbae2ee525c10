//! Presets: the work of real programs on a real file system, and the bound that etcd asks for.

use std::fs;

use fsb_runner::plan_file;
use fsb_runner::shipped_plan::{self, ShippedPlan};
use fsb_testkit::{needs, skip};
use serde_json::Value;

use crate::common::*;

/// Runs a preset with the real program, one block on one file system.
fn check(name: &str) {
    needs!(root);
    let preset = shipped_plan::preset(name).unwrap();
    let plan = plan_file::parse(preset.text, preset.name).unwrap();
    for needed in &plan.needed {
        if let Some(program) = &needed.missing {
            skip!(format!(
                "needs {program} of the package {}",
                needed.need.package
            ));
        }
    }
    let (before, scratch) = (traces(), scratch());
    fs::write(scratch.path().join("plan.toml"), smaller(preset)).unwrap();
    let arguments = words("--blocks 1 --size 800M --control guest-memory=off --out run");
    let output = succeeds(
        scratch.path(),
        &[&["run", "plan.toml", "ext4"][..], &arguments].concat(),
    );
    expect_no_traces(&before);
    let trials = measured(&scratch.path().join("run"));
    assert_eq!(trials.len(), plan.workloads.len(), "{}", stdout(&output));
    assert!(
        trials.iter().all(|trial| trial["outcome"] == "ok"),
        "{trials:#?}"
    );
}

/// Returns the plan with less work.
fn smaller(preset: &ShippedPlan) -> String {
    let text = preset
        .text
        .replace(" -T 5 ", " -T 1 ")
        .replace(" -s 10 ", " -s 1 ")
        .replace("--num=500000", "--num=20000")
        .replace("--reads=2000", "--reads=200");
    match preset.preset() {
        "backup" => text
            .replace("-C /usr include", "-C /usr/include linux")
            .replace("include", "linux")
            .replace("/usr/linux", "/usr/include"),
        _ => text,
    }
}

macro_rules! presets {
    ($($test:ident $name:literal,)*) => {
        $(#[test]
        fn $test() {
            check($name);
        })*

        #[test]
        fn every_preset_has_a_test() {
            let shipped: Vec<&str> = shipped_plan::presets().map(ShippedPlan::preset).collect();
            assert_eq!(shipped, [$($name),*]);
        }
    };
}

presets! {
    backup_runs "backup",
    build_runs "build",
    checkpoint_runs "checkpoint",
    dpkg_runs "dpkg",
    etcd_runs "etcd",
    git_runs "git",
    image_unpack_runs "image-unpack",
    lmdb_runs "lmdb",
    mail_runs "mail",
    model_load_runs "model-load",
    mysql_runs "mysql",
    npm_runs "npm",
    pip_runs "pip",
    postgresql_runs "postgresql",
    redis_runs "redis",
    rocksdb_runs "rocksdb",
    sqlite_runs "sqlite",
    thumbnails_runs "thumbnails",
}

/// The bound of a case decides the exit code, and few blocks decide nothing.
#[test]
fn a_bound_is_kept_missed_or_undecided() {
    needs!(root);
    let scratch = scratch();
    let gate = |out: &str, below: &str, blocks: &str| {
        let plan = format!(
            "size = '512M'\n[[workload]]\nname = 'append'\nfile_size = '40M'\nblock_size = '4K'\n\
             durability = 'each'\np99_below = '{below}'\n"
        );
        fs::write(scratch.path().join("plan.toml"), plan).unwrap();
        let line = format!("run plan.toml ext4@ram --gate --blocks {blocks} --out {out} -q");
        fsb_json(scratch.path(), &*line)
    };
    let kept = gate("kept", "1h", "5");
    expect_code(&kept, 0);
    let answers = &message(&kept, "note/bound-kept")["fields"]["answers"];
    assert!(
        answers.as_str().unwrap().contains("pass on ext4@ram, p99 "),
        "{answers}"
    );
    let missed = gate("missed", "1us", "5");
    expect_code(&missed, 1);
    assert!(has_message(&missed, "warning/bound-missed"));
    let undecided = gate("undecided", "1h", "1");
    expect_code(&undecided, 2);
    assert!(has_message(&undecided, "warning/bound-undecided"));
    let view: Value = json(scratch.path(), "report kept --format json");
    assert_eq!(view["cases"][0]["cells"][0]["bound"]["state"], "pass");
}
