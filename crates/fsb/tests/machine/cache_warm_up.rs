//! The workload `cache-warm-up` on a file system whose caches are empty.

use crate::common::*;

#[test]
fn a_cold_cache_warms_up_with_about_the_size_of_the_file_set() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    let workload = "cache-warm-up,file_size=256M";
    let options = ["--workload", workload, "--size", "1G", "--blocks", "2", "--control", "guest-memory=off"];
    let run = [&["run", "ext4"][..], &options, &["--out", "run", "-q"]].concat();
    expect_code(&fsb(scratch.path(), &run), 0);
    expect_no_traces(&before);
    let trials = trials(&scratch.path().join("run"));
    let trial = trials.iter().find(|trial| trial["phase"] == "measured").expect("a trial");
    assert_eq!(trial["outcome"], "ok", "{trial:#}");
    // Five reads for each record, and the device served nearly each record once.
    let read = trial["observed"]["device_read_bytes"].as_u64().unwrap();
    assert!((230 << 20..300 << 20).contains(&read), "{read}");
    let output = fsb(scratch.path(), &["report", "run", "--format", "json"]);
    expect_code(&output, 0);
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let found = &report["rows"][0]["cells"][0]["warm_up"];
    // The time constant is the size of the file set, unless the kernel or the device reads ahead. If memory is not much
    // faster than the device, each repetition has the reason why there is none.
    match found["bytes"]["value"].as_f64() {
        Some(bytes) => assert!((16e6..400e6).contains(&bytes), "{found:#}"),
        None => assert_eq!(found["without"].as_array().map(Vec::len), Some(2), "{found:#}"),
    }
    let page = fsb(scratch.path(), &["report", "run", "-o", "report.html"]);
    expect_code(&page, 0);
    let page = std::fs::read_to_string(scratch.path().join("report.html")).unwrap();
    assert!(page.contains("id=\"cache-warm-up-0\"") && page.contains("Time constant in bytes"));
}
