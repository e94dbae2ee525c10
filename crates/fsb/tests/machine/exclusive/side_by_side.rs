//! Targets that are all ready at once, each on its slice of the medium, and measured in rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::{
    JSON, expect_code, expect_error, expect_no_traces, fsb, measured, record, scratch, succeeds,
    tiny_plan, traces,
};

fn run(directory: &Path, targets: &[&str], more: &[&str]) -> Output {
    tiny_plan(directory);
    fsb(
        directory,
        &[&["run", "tiny.toml", "--out", "run", "-q"], targets, more].concat(),
    )
}

/// Returns the slices that each target had in each block.
fn slices(trials: &[Value]) -> BTreeMap<(String, u64), BTreeSet<u64>> {
    let mut slices: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
    for trial in trials {
        let target = trial["target"].as_str().unwrap().to_owned();
        let slice = trial["slice"].as_u64().expect("a slice");
        slices
            .entry((target, trial["block"].as_u64().unwrap()))
            .or_default()
            .insert(slice);
    }
    slices
}

#[test]
fn slices_rotate_and_every_sample_is_kept() {
    needs!(root);
    needs!(program "mkfs.ext4");
    needs!(program "mkfs.btrfs");
    let before = traces();
    let scratch = scratch();
    expect_code(
        &run(
            scratch.path(),
            &["ext4", "ext2", "btrfs"],
            &["--blocks", "3", "--size", "600M"],
        ),
        0,
    );
    expect_no_traces(&before);
    let record = record(&scratch.path().join("run"));
    let placement = &record["placement"]["side_by_side"];
    assert_eq!(placement["slices"], 3, "{placement}");
    let slice = placement["slice_bytes"].as_u64().unwrap();
    assert!(
        slice.is_multiple_of(1 << 20) && slice * 3 < 600 << 20,
        "{slice}"
    );
    let trials = measured(&scratch.path().join("run"));
    // One slice per target and block, and every target is once on every slice.
    let slices = slices(&trials);
    assert!(
        slices.values().all(|slices| slices.len() == 1),
        "{slices:?}"
    );
    for target in ["ext4", "ext2", "btrfs"] {
        let seen: BTreeSet<_> = (1..=3)
            .flat_map(|block| slices[&(target.to_owned(), block)].clone())
            .collect();
        assert_eq!(seen, [0, 1, 2].into(), "{target}");
    }
    // Every sample is recorded, with the device's work during the sample and its deferred work.
    let mut in_rounds = 0;
    for trial in &trials {
        let Some(rounds) = record["rounds"].get(trial["workload"].as_str().unwrap()) else {
            assert!(trial.get("samples").is_none(), "{trial}");
            continue;
        };
        assert_eq!(trial["outcome"], "ok", "{trial}");
        in_rounds += 1;
        let samples = &trial["samples"];
        assert_eq!(samples["units"], rounds["units"]);
        for list in [
            "timed_ns",
            "device_bytes",
            "device_flushes",
            "deferred_bytes",
        ] {
            assert_eq!(
                samples[list].as_array().unwrap().len() as u64,
                rounds["rounds"].as_u64().unwrap(),
                "{list}"
            );
        }
        let units = samples["units"].as_u64().unwrap() as usize;
        if let Some(unit_ns) = samples["unit_ns"].as_array() {
            let sums = unit_ns
                .chunks(units)
                .map(|sample| sample.iter().filter_map(Value::as_u64).sum::<u64>());
            let timed: Vec<u64> = samples["timed_ns"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_u64)
                .collect();
            assert_eq!(sums.collect::<Vec<_>>(), timed, "{trial}");
        }
        // The value is the geometric mean of the samples' rates.
        let times: Vec<f64> = samples["timed_ns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|ns| ns.as_f64().unwrap())
            .collect();
        let typical =
            (times.iter().map(|ns| ns.ln()).sum::<f64>() / times.len() as f64).exp() * 1e-9;
        let metric = &trial["metrics"][0];
        if metric["unit"] == "operations_per_second" {
            let rate = samples["operations"].as_f64().unwrap() / typical;
            assert!(
                (metric["value"].as_f64().unwrap() / rate - 1.0).abs() < 1e-5,
                "{trial}"
            );
        }
        assert!(
            trial["requested"]["unit"]["operations"].as_u64().unwrap() > 0,
            "{trial}"
        );
    }
    assert!(in_rounds >= 9, "{in_rounds}");
}

#[test]
fn targets_take_turns_where_that_is_asked_for_or_cannot_be_otherwise() {
    needs!(root);
    needs!(program "mkfs.ext4");
    for (targets, more, reason) in [
        (["ext4", "ext2"], "--one-at-a-time", "requested"),
        (["ext4", "ext2@ram"], "--verify", "different_media"),
    ] {
        let scratch = scratch();
        expect_code(&run(scratch.path(), &targets, &["--size", "128M", more]), 0);
        let placement = record(&scratch.path().join("run"))["placement"].clone();
        assert_eq!(
            placement["in_turn"]["reason"]["kind"], reason,
            "{placement}"
        );
        assert!(
            measured(&scratch.path().join("run"))
                .iter()
                .all(|trial| trial.get("slice").is_none())
        );
    }
}

#[test]
fn a_slice_that_is_too_small_is_refused_with_the_size_that_would_do() {
    needs!(root);
    needs!(program "mkfs.xfs");
    let scratch = scratch();
    let refused = run(scratch.path(), &["xfs", "xfs"], &["--size", "512M", JSON]);
    expect_error(&refused, 2, "testbed/refused");
    assert!(!scratch.path().join("run").exists(), "nothing was begun");
}

/// A FUSE server reads through the page cache of the device, whose read-ahead goes beyond the files
/// of one unit into those of the next: unless the cache is dropped again, some samples read
/// nothing.
#[test]
fn every_sample_that_begins_cold_reads_its_files() {
    needs!(root);
    needs!(program "mkfs.ext4");
    needs!(program "mkntfs");
    let scratch = scratch();
    std::fs::write(
        scratch.path().join("cold.toml"),
        "[[workload]]\nname = \"read\"\ncache = \"cold\"\nfile_size = \"2M\"\n\n\
         [[workload]]\nname = \"read\"\ncache = \"cold\"\nfiles = 200\nfile_size = \"4K\"\nblock_size = \"4K\"\n\n\
         [[workload]]\nname = \"stat\"\ncache = \"cold\"\nfiles = 500\n",
    )
    .unwrap();
    // With a FUSE server every round has files of its own; otherwise all rounds use the same files.
    for other in ["ntfs", "ext2"] {
        let size = ["--size", "256M", "--blocks", "1"];
        succeeds(
            scratch.path(),
            &[
                &["run", "cold.toml", "ext4", other, "--out", "run", "-q"],
                &size[..],
            ]
            .concat(),
        );
        each_sample_read_as_much(&measured(&scratch.path().join("run")));
        std::fs::remove_dir_all(scratch.path().join("run")).unwrap();
    }
}

fn each_sample_read_as_much(trials: &[Value]) {
    assert_eq!(trials.len(), 6);
    for trial in trials {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        let bytes: Vec<u64> = trial["samples"]["device_bytes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bytes| bytes.as_u64().unwrap())
            .collect();
        let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
        assert!(
            bytes.len() >= 3 && *least > 0 && most / least < 3,
            "{}: {bytes:?}",
            trial["workload"]
        );
    }
}
