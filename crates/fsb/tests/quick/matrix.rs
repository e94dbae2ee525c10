//! Matrices of sizes: sweeps, estimates, workloads that the budget omits, and workers that share the work.

use std::fs;

use crate::common::*;

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
    assert_eq!((&fields["blocks"], &fields["cells"]), (&blocks.into(), &cells.into()), "{fields}");
    assert!(fields["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{fields}");
}

#[test]
fn a_sweep_is_a_cell_for_each_combination_and_its_grid_is_in_the_records() {
    let scratch = scratch();
    fs::write(scratch.path().join("plan.toml"), PLAN).unwrap();
    let output =
        fsb_json(scratch.path(), &["run", "plan.toml", "null", "--blocks", "2", "--seed", "1", "--out", "run"]);
    expect_code(&output, 0);
    let record = record(&scratch.path().join("run"));
    let labels: Vec<&str> =
        record["cells"].as_array().unwrap().iter().map(|cell| cell["label"].as_str().unwrap()).collect();
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
            all.iter().find(|metric| metric["name"] == name).map(|metric| metric["value"].as_f64().unwrap())
        };
        assert_eq!(metric("stonewall_rate").is_some(), trial["operation"] == "backward_read");
        if trial["operation"] == "backward_read" {
            let [least, mean, most] =
                ["min", "mean", "max"].map(|which| metric(&format!("worker_rate_{which}")).unwrap());
            assert!(least <= mean && mean <= most, "{least} {mean} {most}");
            assert!(metric("throughput").unwrap() <= 3.0 * most);
            assert_eq!(trial["workers"].as_array().unwrap().len(), 3);
        }
    }
    // The printed plan is a valid plan.
    let printed = fsb(scratch.path(), &["run", "plan.toml", "null", "--print-plan"]);
    fs::write(scratch.path().join("printed.toml"), &printed.stdout).unwrap();
    let again = fsb(scratch.path(), &["run", "printed.toml", "--print-plan", "--seed", "1"]);
    let without_seed =
        |text: String| text.lines().filter(|line| !line.starts_with("seed")).collect::<Vec<_>>().join("\n");
    assert_eq!(without_seed(stdout(&again)), without_seed(stdout(&printed)));
}

#[test]
fn a_budget_leaves_out_sizes_and_says_which() {
    on_two_processors();
    let scratch = scratch();
    let arguments = ["run", "null", "--suite", "iozone", "--budget", "20s", "--out", "run"];
    let output = fsb_json(scratch.path(), &arguments);
    expect_code(&output, 0);
    let record = record(&scratch.path().join("run"));
    let warnings = record["warnings"].as_array().unwrap();
    let left_out = warnings.iter().find(|warning| warning["kind"] == "sizes_left_out").expect("it is recorded");
    assert_eq!(left_out["planned"], 126, "{left_out}");
    assert!(left_out["needed_seconds"].as_f64().unwrap() > 20.0, "{left_out}");
    assert!(messages(&output).iter().any(|message| message["code"] == "warning/sizes-left-out"), "it is printed");
    expect_estimate(&output, 5, 1638);
    let cells = record["cells"].as_array().unwrap();
    assert!(cells.len() >= 26 && cells.len() < 1638, "{}", cells.len());
    assert_eq!(cells.len() % 13, 0, "all operations on all sizes that stay");
    for extreme in ["write 4K, 64K file", "write 16M, 512M file"] {
        assert!(cells.iter().any(|cell| cell["label"] == extreme), "{extreme}");
    }
    // On a busy machine the budget holds too few blocks to judge, and the run warns of that.
    let judged = !warnings.iter().any(|warning| warning["kind"] == "too_few_blocks");
    assert_eq!(record["blocks_planned"].as_u64().unwrap() >= 5, judged, "{warnings:?}");
    let order = record["order"].as_array().unwrap();
    assert_eq!(order[0]["cells"].as_array().unwrap().len(), 13 * 8, "warm-up visits a few sizes only");
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
        let run = ["run", "plan.toml", "null", "slow=null,slowdown=20%", "--seed", "1", "--quiet", "--out", out];
        expect_code(&fsb(scratch.path(), &run), 0);
        fs::read_to_string(scratch.path().join(out).join("report.html")).unwrap()
    };
    let small = page("1M..4M", "small");
    for section in ["sizes-0", "surfaces", "workload-0"] {
        assert!(small.contains(&format!("id=\"{section}\"")), "{section}");
    }
    assert!(small.contains("#workload-0\""));
    let large = page("1M..8G", "large");
    assert!(large.contains("id=\"sizes-0\"") && large.contains("id=\"surfaces\""));
    assert!(!large.contains("workload-0\""), "neither a section nor a link to it");
}

#[test]
fn senseless_sweeps_are_placed_in_the_plan() {
    let scratch = scratch();
    let plan = "[[workload]]\nname = \"read\"\nfile_size = \"1M..64K\"\n";
    fs::write(scratch.path().join("plan.toml"), plan).unwrap();
    let error = fails(scratch.path(), &["run", "plan.toml", "null"], 2, "plan/invalid-value");
    assert_eq!(error["fields"], serde_json::json!({ "path": "plan.toml", "line": 3, "column": 1 }));
}
