//! Workloads on real file systems that observe the page cache: trees of files, and caches that warm
//! up.

use std::fs;

use crate::common::*;

#[test]
fn trees_are_copied_and_deleted_on_real_file_systems_and_leave_nothing() {
    needs!(root);
    let directory = scratch();
    let before = traces();
    let mut plan =
        "targets = ['ext4', 'xfs', 'btrfs']\nsize = '320M'\n[controls]\nguest-memory = 'off'\n\
                    [repetition]\nblocks = 1\nsample_time = '1ms'\n"
            .to_owned();
    for (set, operation, more) in [
        ("music", "copy-into", "verify = true"),
        ("portage", "copy-into", "threads = 2\nverify = true"),
        ("music", "copy-into", "copy = 'copy_file_range'"),
        ("music", "copy-within", "verify = true"),
        (
            "music",
            "copy-within",
            "verify = true\ncopy = 'copy_file_range'",
        ),
        ("music", "copy-within", "verify = true\ncopy = 'reflink'"),
        ("portage", "delete", ""),
    ] {
        plan += &format!(
            "[[workload]]\nname = 'filetree'\nset = '{set}'\nscale = 0.02\noperation = '{operation}'\n{more}\n"
        );
    }
    fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = succeeds(directory.path(), "run plan.toml --out out");
    let trials = counting(&directory.path().join("out"));
    let measured: Vec<_> = trials.iter().filter(|trial| trial["block"] == 1).collect();
    assert_eq!(measured.len(), 3 * 7, "{}", stderr(&output));
    for trial in measured {
        let (label, target) = (
            trial["workload"].as_str().unwrap(),
            trial["target"].as_str().unwrap(),
        );
        let outcome = match (label, target) {
            // The input is in memory, which is another file system: the kernel does not copy
            // between them.
            (label, _) if label.contains("into, copy_file_range") => "not_applicable",
            (label, "ext4") if label.contains("reflink") => "not_applicable",
            _ => "ok",
        };
        assert_eq!(
            trial["outcome"], outcome,
            "{label} on {target}: {}",
            trial["error"]
        );
        if outcome == "ok" && label.contains("into") {
            let bytes = trial["observed"]["resident_bytes_before"].as_u64();
            assert!(
                bytes.is_some_and(|bytes| bytes > 1 << 20),
                "the source was in memory: {}",
                trial["observed"]
            );
        }
    }
    drop(output);
    expect_no_traces(&before);
}

#[test]
fn a_cold_cache_warms_up_with_about_the_size_of_the_file_set() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    let workload = "cache-warm-up,file_size=128M";
    let options = [
        "--workload",
        workload,
        "--size",
        "512M",
        "--blocks",
        "2",
        "--control",
        "guest-memory=off",
    ];
    let run = [&["run", "ext4"][..], &options, &["--out", "run", "-q"]].concat();
    succeeds(scratch.path(), &run);
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run"));
    let trial = trials
        .iter()
        .find(|trial| trial["phase"] == "measured")
        .expect("a trial");
    assert_eq!(trial["outcome"], "ok", "{trial:#}");
    // Five reads for each record, and the device served nearly each record once.
    let read = trial["observed"]["device_read_bytes"].as_u64().unwrap();
    assert!((115 << 20..150 << 20).contains(&read), "{read}");
    let report = json(scratch.path(), "report run --format json");
    let found = &report["cases"][0]["cells"][0]["warm_up"];
    // The time constant is the size of the file set, unless the kernel or the device reads ahead.
    // If memory is not much faster than the device, each repetition has the reason why there is
    // none.
    match found["bytes"]["value"].as_f64() {
        Some(bytes) => assert!((8e6..200e6).contains(&bytes), "{found:#}"),
        None => assert_eq!(
            found["without"].as_array().map(Vec::len),
            Some(2),
            "{found:#}"
        ),
    }
    succeeds(scratch.path(), "report run -o report.html");
    let page = fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(
        page.contains("id=\"cache-warm-up-0\""),
        "the page has the chart of the warm-up"
    );
}
