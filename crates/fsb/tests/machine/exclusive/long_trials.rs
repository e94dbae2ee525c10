//! Long trials: workloads that last until the journal was written several times, loads that do not
//! wait for the target, and timelines.

use serde_json::Value;

use crate::common::{expect_no_traces, fsb, scratch, stdout, succeeds, traces, trials};

/// ext4 logs ten thousand directories again and again; for btrfs, which has no journal, fsb counts
/// commits.
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
    let output = succeeds(
        scratch.path(),
        &[
            "run",
            "plan.toml",
            small_journal,
            "btrfs",
            "--size",
            "1G",
            "--out",
            "run",
        ],
    );
    expect_no_traces(&before);
    let all = trials(&scratch.path().join("run"));
    let of = |target: &str| -> &Value {
        let found = all
            .iter()
            .find(|trial| trial["phase"] == "measured" && trial["target"] == target);
        found.unwrap_or_else(|| panic!("no {target}: {}", stdout(&output)))
    };
    let ext4 = of("ext4");
    assert_eq!(
        (&ext4["outcome"], &ext4["workload"]),
        (&"ok".into(), &"directories, sustained".into()),
        "{ext4}"
    );
    let (held, seconds) = (
        &ext4["observed"]["sustained"],
        ext4["requested"]["seconds"].as_f64().unwrap(),
    );
    assert!(held["turns"].as_f64().unwrap() >= 4.0, "{held}");
    assert!((2.0..=12.1).contains(&seconds), "{seconds}");
    // Both trials last equally long, and the rate excludes the first quarter of the turns.
    assert!(
        (of("btrfs")["observed"]["sustained"]["seconds"]
            .as_f64()
            .unwrap()
            - seconds)
            .abs()
            < 0.5,
        "{held}"
    );
    let (lead_in, rate) = (
        held["lead_in"].as_f64().unwrap(),
        held["rate"].as_f64().unwrap(),
    );
    assert!(lead_in > 0.0 && lead_in <= seconds / 2.0 + 0.1, "{held}");
    assert!(
        (ext4["metrics"][0]["value"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9,
        "{ext4}"
    );
    // The rate is the mean of the bins after the lead-in.
    let timeline = &ext4["timelines"][0];
    let first = (lead_in / (timeline["bin_ns"].as_f64().unwrap() * 1e-9)).round() as usize;
    let steady: Vec<f64> = timeline["rates"].as_array().unwrap()[first..]
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    assert!(
        (steady.iter().sum::<f64>() / steady.len() as f64 / rate - 1.0).abs() < 0.01,
        "{held}"
    );
}

// Loads that do not wait for the target, and timelines of long trials.

/// A rate that the page cache easily reaches, one that no device reaches, and writes that reach the
/// device. The planner derives their number from the warm-up: if the disk is busy then and idle
/// later, they take a fraction of the planned 5 seconds. A sample of less than a fifth of a second
/// has no timeline.
#[test]
fn a_rate_is_kept_or_the_row_says_that_it_was_not_and_what_lasts_has_a_course() {
    needs!(root);
    needs!(program "mkfs.ext4");
    let before = traces();
    let scratch = scratch();
    let plan = "\
        [[workload]]\nname = 'read'\nfile_size = '16M'\nblock_size = '4K'\naccess = 'random'\nrate = '5000/s'\n\
        [[workload]]\nname = 'read'\nfile_size = '16M'\nblock_size = '4K'\naccess = 'random'\nrate = '10000000/s'\n\
        [[workload]]\nname = 'write'\nfile_size = '16M'\nblock_size = '4K'\noverwrite = true\ndurability = 'each'\n\
        sample_time = '5s'\nlabel = 'writes'\n\
        [repetition]\nblocks = 1\n[controls]\nguest-memory = 'off'\n";
    std::fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let output = fsb(scratch.path(), "run plan.toml ext4 --size 1G --out run");
    assert!(matches!(output.status.code(), Some(0 | 4)), "{output:?}");
    expect_no_traces(&before);
    let text = stdout(&output).replace("\n  ", " ");
    let all = trials(&scratch.path().join("run"));
    let of = |label: &str| -> &Value {
        // Another test may empty the page cache during the first attempt.
        let counts = |trial: &&Value| trial["phase"] == "measured" && trial["superseded"] != true;
        let found = all
            .iter()
            .filter(counts)
            .find(|trial| trial["workload"] == label);
        found.unwrap_or_else(|| panic!("no {label}: {text}"))
    };
    let kept = of("random read 4K, warm, p99 at 5000/s");
    assert_eq!(
        (&kept["outcome"], &kept["metrics"][0]["name"]),
        (&"ok".into(), &"latency_p99".into()),
        "{kept}"
    );
    assert_eq!(
        of("random read 4K, warm, p99 at 10000000/s")["error_code"],
        "trial/not-sustained"
    );

    // 10,000 operations at 5000 a second, none of them lost.
    let timeline = &kept["timelines"][0];
    let (bin, rates) = (
        timeline["bin_ns"].as_f64().unwrap() * 1e-9,
        timeline["rates"].as_array().unwrap(),
    );
    let done: f64 = rates.iter().filter_map(Value::as_f64).sum::<f64>() * bin;
    assert!(
        (9_000.0..11_500.0).contains(&done) && rates.len() > 90,
        "{done} {timeline}"
    );
    // The device wrote meanwhile at least the bytes of the writes.
    let writes = of("writes");
    let written = |trial: &Value| -> f64 {
        let bins = trial["timelines"][0]["device"]["written_kib"]
            .as_array()
            .unwrap();
        bins.iter().filter_map(Value::as_f64).sum::<f64>() * 1024.0
    };
    let operations = writes["workers"][0]["operations"].as_f64().unwrap();
    assert!(
        written(writes) > operations * 4096.0 * 0.9,
        "{} {operations}",
        written(writes)
    );
    assert!(
        written(kept) < 1e6,
        "reads in memory write nothing: {}",
        written(kept)
    );
    succeeds(scratch.path(), "report run --format html -o page.html");
    let page = std::fs::read_to_string(scratch.path().join("page.html")).unwrap();
    assert!(
        page.contains("class=\"chart\" id=\"timeline-"),
        "the page has the chart of timelines"
    );
}
