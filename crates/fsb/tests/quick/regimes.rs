//! In the cache, larger than the cache, past the cache: memory limits, validity checks, scales, and
//! the end of a matrix.

use std::fs;

use crate::common::*;

#[test]
fn absurd_limits_and_files_that_fit_are_refused_before_anything_is_touched() {
    let scratch = scratch();
    fs::write(scratch.path().join("out.toml"), OUT_OF_CACHE).unwrap();
    let requests: &[(&[&str], &str)] = &[
        (&["--control", "memory-limit=1M"], "control/invalid-value"),
        (&["--control", "memory-limit=much"], "control/invalid-value"),
        (
            &["--control", "memory-limit=32M:rope"],
            "control/invalid-value",
        ),
        (&["--control", "memory-limit=48M"], "plan/invalid"),
        (&["--scale", "0"], "arguments/invalid-value"),
        (&["--scale", "1/4096"], "arguments/invalid-value"),
    ];
    let requests: Vec<(Vec<&str>, &str)> = requests
        .iter()
        .map(|(extra, code)| {
            (
                [&["run", "out.toml", "null", "--out", "run"], *extra].concat(),
                *code,
            )
        })
        .collect();
    let requests: Vec<(&[&str], &str)> = requests
        .iter()
        .map(|(words, code)| (words.as_slice(), *code))
        .collect();
    expect_refusals("regimes", scratch.path(), &requests);
    let keep = words("run out.toml null --out run --control memory-limit=keep");
    fails(scratch.path(), &keep, 2, "plan/invalid");
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_limit_above_memory_is_refused() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), IN_CACHE).unwrap();
    let arguments = words("run warm.toml null --out run --control memory-limit=900T");
    fails(scratch.path(), &arguments, 2, "control/invalid-value");
    assert!(!scratch.path().join("run").exists());
}

#[test]
fn a_matrix_ends_in_findings_of_every_pair() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), IN_CACHE).unwrap();
    let targets = ["a=null", "b=null,slowdown=20%", "c=null"];
    let arguments = [
        &["run", "warm.toml", "--seed", "7", "--out", "run", "-q"][..],
        &targets,
    ]
    .concat();
    let output = succeeds(scratch.path(), &arguments);
    let screen = stdout(&output);
    let findings: Vec<&str> = screen
        .lines()
        .filter(|line| line.starts_with("- "))
        .collect();
    assert_eq!(
        findings,
        [
            "- b is slower than a at read, warm: −16 % (95 % CI −18…−13), 9 of 9 cells",
            "- b is slower than a at rewrite, warm: −16 % (95 % CI −21…−11), 9 of 9 cells",
            "- c is faster than b at read, warm: +19 % (95 % CI +15…+22), 9 of 9 cells",
            "- c is faster than b at rewrite, warm: +20 % (95 % CI +12…+28), 9 of 9 cells",
        ]
    );
    let page = fs::read_to_string(scratch.path().join("run/report.html")).unwrap();
    let section = page
        .split("id=\"findings\"")
        .nth(1)
        .expect("a section of its own")
        .replace('\u{a0}', " ");
    for finding in &findings {
        assert!(
            section.contains(finding.trim_start_matches("- ")),
            "{finding}"
        );
    }
    // The same rectangles as those of fsb compare.
    let compared = fsb(scratch.path(), "compare run --format json");
    let document: serde_json::Value = serde_json::from_str(stdout(&compared).as_str()).unwrap();
    let texts: Vec<&str> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["text"].as_str().unwrap())
        .collect();
    assert!(
        !texts.is_empty() && texts.iter().all(|text| screen.contains(text)),
        "{texts:?}"
    );
    // One block is only described: there are no findings.
    succeeds(
        scratch.path(),
        &[
            &arguments[..3],
            &["9", "--blocks", "1", "--out", "few", "-q"],
            &targets,
        ]
        .concat(),
    );
    assert!(
        !fs::read_to_string(scratch.path().join("few/report.html"))
            .unwrap()
            .contains("id=\"findings\"")
    );
}

#[test]
fn a_scale_is_recorded_shown_and_not_compared_silently() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), IN_CACHE).unwrap();
    let arguments = |out, scale| {
        [
            "run",
            "warm.toml",
            "null",
            "--seed",
            "7",
            "--out",
            out,
            "-q",
            "--scale",
            scale,
        ]
    };
    let output = succeeds(scratch.path(), &arguments("half", "50%"));
    assert!(
        stdout(&output).contains(" · scale 1/2 · "),
        "{}",
        stdout(&output)
    );
    let recorded = record(&scratch.path().join("half"));
    assert_eq!(
        (&recorded["plan"]["scale"], &recorded["plan"]["size"]),
        (&0.5.into(), &(1u64 << 30).into())
    );
    let sizes: Vec<u64> = recorded["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["workload"]["file_size"].as_u64())
        .collect();
    assert_eq!(
        (sizes.iter().min(), sizes.iter().max()),
        (Some(&(32 << 10)), Some(&(128 << 10)))
    );
    succeeds(scratch.path(), &arguments("whole", "1"));
    let compared = succeeds(scratch.path(), "compare half whole");
    let text = stdout(&compared);
    let words: Vec<_> = text.split_whitespace().collect();
    assert!(
        words
            .join(" ")
            .contains("measured at different scales (half: 0.5; whole: 1)"),
        "{text}"
    );
}

/// One run was limited by a cgroup of version 1, the other by one of version 2.
#[test]
fn limits_by_different_means_are_shown_and_not_judged() {
    let scratch = scratch();
    fs::write(scratch.path().join("warm.toml"), IN_CACHE).unwrap();
    for (target, mechanism) in [
        ("null", "cgroup v1"),
        ("slow=null,slowdown=50%", "cgroup v2"),
    ] {
        let out = mechanism.replace(' ', "-");
        succeeds(
            scratch.path(),
            &format!("run warm.toml {target} --seed 7 --out {out} -q"),
        );
        rewrite_trials(&scratch.path().join(&out), |trial| {
            trial["observed"]["memory_limit"] = serde_json::json!({"mechanism": mechanism, "limit_bytes": 32 << 20, "reached": true});
        });
    }
    let alike = fsb(
        scratch.path(),
        "compare cgroup-v1 a=cgroup-v1 --format json",
    );
    let document: serde_json::Value = serde_json::from_str(stdout(&alike).as_str()).unwrap();
    assert_eq!(document["unjudged"], serde_json::Value::Null);
    let arguments = words("compare cgroup-v1 cgroup-v2 --format json --fail-if slower");
    let compared = fsb_json(scratch.path(), &arguments);
    expect_code(&compared, 2);
    message(&compared, "warning/gate-undecided");
    let document: serde_json::Value = serde_json::from_str(stdout(&compared).as_str()).unwrap();
    let warning = document["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("different means")
            && warning.contains("cgroup-v1: cgroup v1; cgroup-v2: cgroup v2"),
        "{warning}"
    );
    assert!(document["findings"].as_array().unwrap().is_empty());
    let operations = document["operations"].as_array().unwrap();
    assert!(!operations.is_empty());
    for operation in operations {
        let against = &operation["estimate"]["against"]["slow"];
        assert_eq!(against["verdict"], "not_judged", "{operation:#}");
        assert!(against["ci95"].is_null() && against["ratio"].is_number());
    }
    let screen = fsb(scratch.path(), "compare cgroup-v1 cgroup-v2");
    assert!(
        stdout(&screen).contains("described, not judged"),
        "{}",
        stdout(&screen)
    );
}

// Matrices of sizes: sweeps, estimates, workloads that the budget omits, and workers that share the
// work.

/// A matrix of seven combinations, each trial done in milliseconds.
const PLAN: &str = r#"
[repetition]
sample_time = "1ms"
[[workload]]
name = "rewrite"
file_size = "64K..256K"
block_size = ["64K", "128K", "256K"]
cache = "warm"
[[workload]]
name = "backward-read"
file_size = "1M"
block_size = "64K"
processes = 3
"#;

/// Expects the printed estimate of that many blocks and cells.
fn expect_estimate(output: &std::process::Output, blocks: u64, cells: u64) {
    let fields = message(output, "note/estimate")["fields"].clone();
    assert_eq!(
        (&fields["blocks"], &fields["cells"]),
        (&blocks.into(), &cells.into()),
        "{fields}"
    );
    assert!(
        fields["seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0),
        "{fields}"
    );
}

#[test]
fn a_sweep_is_a_cell_for_each_combination_and_its_grid_is_in_the_records() {
    let scratch = scratch();
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let output = fsb_json(
        scratch.path(),
        "run plan.toml null --blocks 2 --seed 1 --out run",
    );
    expect_code(&output, 0);
    let record = record(&scratch.path().join("run"));
    let labels: Vec<&str> = record["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["label"].as_str().unwrap())
        .collect();
    let expected = [
        "rewrite 64K, 64K file, warm",
        "rewrite 64K, 128K file, warm",
        "rewrite 128K, 128K file, warm",
        "rewrite 64K, 256K file, warm",
        "rewrite 128K, 256K file, warm",
        "rewrite 256K, 256K file, warm",
        "backward read 64K, warm, 3 processes",
    ];
    assert_eq!(labels, expected);
    expect_estimate(&output, 2, 7);
    let trials = trials(&scratch.path().join("run"));
    assert_eq!(trials.len(), 7 * 3);
    for trial in &trials {
        assert_eq!(trial["outcome"], "ok", "{trial}");
        let metric = |name: &str| {
            let all = trial["metrics"].as_array().unwrap();
            all.iter()
                .find(|metric| metric["name"] == name)
                .map(|metric| metric["value"].as_f64().unwrap())
        };
        assert_eq!(
            metric("stonewall_rate").is_some(),
            trial["operation"] == "backward_read"
        );
        if trial["operation"] == "backward_read" {
            let [least, mean, most] = ["min", "mean", "max"]
                .map(|which| metric(&format!("worker_rate_{which}")).unwrap());
            assert!(least <= mean && mean <= most, "{least} {mean} {most}");
            assert!(metric("throughput").unwrap() <= 3.0 * most);
            assert_eq!(trial["workers"].as_array().unwrap().len(), 3);
        }
    }
    // The printed plan is a valid plan.
    let printed = fsb(scratch.path(), "run plan.toml null --print-plan");
    fs::write(scratch.path().join("printed.toml"), &printed.stdout).unwrap();
    let again = fsb(scratch.path(), "run printed.toml --print-plan --seed 1");
    let without_seed = |text: String| {
        text.lines()
            .filter(|line| !line.starts_with("seed"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(without_seed(stdout(&again)), without_seed(stdout(&printed)));
}

#[test]
fn a_budget_leaves_out_sizes_and_says_which() {
    on_two_processors();
    let scratch = scratch();
    let arguments = words("run null --suite iozone --budget 20s --out run");
    let output = fsb_json(scratch.path(), &arguments);
    expect_code(&output, 0);
    let record = record(&scratch.path().join("run"));
    let warnings = record["warnings"].as_array().unwrap();
    let left_out = warnings
        .iter()
        .find(|warning| warning["kind"] == "sizes_left_out")
        .expect("it is recorded");
    assert_eq!(left_out["planned"], 126, "{left_out}");
    assert!(
        left_out["needed_seconds"].as_f64().unwrap() > 20.0,
        "{left_out}"
    );
    assert!(
        messages(&output)
            .iter()
            .any(|message| message["code"] == "warning/sizes-left-out"),
        "it is printed"
    );
    expect_estimate(&output, 5, 1638);
    let cells = record["cells"].as_array().unwrap();
    assert!(cells.len() >= 26 && cells.len() < 1638, "{}", cells.len());
    assert_eq!(cells.len() % 13, 0, "all operations on all sizes that stay");
    for extreme in ["write 4K, 64K file", "write 16M, 512M file"] {
        assert!(
            cells.iter().any(|cell| cell["label"] == extreme),
            "{extreme}"
        );
    }
    // On a busy machine the budget holds too few blocks to judge, and the run warns of that.
    let judged = !warnings
        .iter()
        .any(|warning| warning["kind"] == "too_few_blocks");
    assert_eq!(
        record["blocks_planned"].as_u64().unwrap() >= 5,
        judged,
        "{warnings:?}"
    );
    let order = record["order"].as_array().unwrap();
    assert_eq!(
        order[0]["cells"].as_array().unwrap().len(),
        13 * 8,
        "warm-up visits a few sizes only"
    );
}

#[test]
fn a_report_of_a_matrix_has_charts_over_sizes_and_no_section_for_each_of_many_cells() {
    let scratch = scratch();
    let page = |sizes: &str, out: &str| {
        let plan = format!(
            "[repetition]\nsample_time = '1ms'\nblocks = 5\n[[workload]]\nname = 'rewrite'\nfile_size = '{sizes}'\n\
             block_size = '64K..1M'\n"
        );
        fs::write(scratch.path().join("plan.toml"), plan).unwrap();
        let run = format!("run plan.toml null slow=null,slowdown=20% --seed 1 --quiet --out {out}");
        succeeds(scratch.path(), &run);
        fs::read_to_string(scratch.path().join(out).join("report.html")).unwrap()
    };
    let small = page("1M..4M", "small");
    for section in ["sizes-0", "surfaces", "workload-0"] {
        assert!(small.contains(&format!("id=\"{section}\"")), "{section}");
    }
    assert!(small.contains("#workload-0\""));
    let large = page("1M..8G", "large");
    assert!(large.contains("id=\"sizes-0\"") && large.contains("id=\"surfaces\""));
    assert!(
        !large.contains("workload-0\""),
        "neither a section nor a link to it"
    );
}

#[test]
fn senseless_sweeps_are_placed_in_the_plan() {
    let scratch = scratch();
    let plan = "[[workload]]\nname = \"read\"\nfile_size = \"1M..64K\"\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let error = fails(
        scratch.path(),
        "run plan.toml null",
        2,
        "plan/invalid-value",
    );
    assert_eq!(
        error["fields"],
        serde_json::json!({ "path": "plan.toml", "line": 3, "column": 1 })
    );
}
