//! Workloads that a plan or the command line describes: commands, trees, flows, mixtures.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::common::*;

// A user's command as the workload, on real file systems and in directories.

#[test]
fn options_of_a_command_are_refused_without_a_command() {
    let scratch = scratch();
    let requests: &[(&[&str], &str)] = &[
        (&["run", "null", "--prepare", "true"], "arguments/conflict"),
        (&["run", "null", "--reuse"], "arguments/conflict"),
        (
            &["run", "null", "--metric", "tps=([0-9]+)", "--", "true"],
            "arguments/missing",
        ),
        (
            &words("run null --metric tps --better higher -- true"),
            "arguments/invalid-value",
        ),
        (
            &words("run null --metric tps=[0-9] --better higher -- true"),
            "plan/invalid",
        ),
        (
            &["run", "null", "--better", "higher", "--", "true"],
            "arguments/missing",
        ),
        (
            &["run", "null", "--durable", "perhaps", "--", "true"],
            "arguments/invalid-value",
        ),
        (
            &["run", "null", "--suite", "quick", "--", "true"],
            "arguments/conflict",
        ),
        (
            &["run", "null", "--time-limit", "never", "--", "true"],
            "plan/invalid",
        ),
        (
            &["run", "null", "--root", "/", "--", "true"],
            "plan/invalid",
        ),
        (
            &words("run ext4 --in vm --root / --suite quick"),
            "plan/invalid",
        ),
        (
            &words("run ext4 --in vm --root /no/such -- true"),
            "plan/invalid",
        ),
        (
            &words("run ext4 --in vm --writable /srv -- true"),
            "plan/invalid",
        ),
    ];
    expect_refusals("command", scratch.path(), requests);
}

/// The command fails if it finds what an earlier run left.
#[test]
fn each_run_of_a_command_starts_in_a_new_directory_unless_it_reuses_one() {
    let scratch = scratch();
    let command = "test ! -e made && test $(cat data) = 1 && echo 2 > data && touch made";
    let run = |out: &str, options: &[&str]| {
        let arguments = [
            "run",
            ".",
            "--blocks",
            "2",
            "--setup",
            "echo 1 > data",
            "--control",
            "guest-memory=off",
        ];
        let output = fsb(
            scratch.path(),
            &[&arguments[..], options, &["--out", out, "--", command]].concat(),
        );
        let outcomes: Vec<String> = measured(&scratch.path().join(out))
            .iter()
            .map(|trial| trial["outcome"].as_str().unwrap_or_default().to_owned())
            .collect();
        (output, outcomes)
    };
    let (output, outcomes) = run("new", &[]);
    expect_code(&output, 0);
    assert_eq!(outcomes, ["ok", "ok"], "{}", stderr(&output));
    let new = record(&scratch.path().join("new"));
    assert_eq!(new["cells"][0]["workload"]["reuse"], false, "{new:#}");
    let runs = |trial: &Value| trial["metrics"].to_string();
    assert!(
        measured(&scratch.path().join("new"))
            .iter()
            .all(|trial| !runs(trial).is_empty())
    );
    let (_, outcomes) = run("reused", &["--reuse"]);
    assert!(
        outcomes.iter().all(|outcome| outcome == "failed"),
        "{outcomes:?}"
    );
}

/// The label is part of every form, and the warning of most.
#[test]
fn a_reused_directory_is_recorded_and_printed_in_every_output() {
    let scratch = scratch();
    let arguments = words("run null slow=null,slowdown=9% --blocks 6 --out run -q --reuse");
    succeeds(
        scratch.path(),
        &[&arguments[..], &["--", "tar", "xf", "/srv/src.tar"]].concat(),
    );
    let record = record(&scratch.path().join("run"));
    assert_eq!(record["cells"][0]["workload"]["reuse"], true, "{record:#}");
    let report = json(scratch.path(), "report run --format json");
    for name in [
        &record["cells"][0]["label"],
        &report["cases"][0]["workload"],
    ] {
        assert!(
            name.as_str().unwrap().ends_with("reused directory"),
            "{name}"
        );
    }
    assert!(
        report["warnings"].to_string().contains("(reuse)"),
        "{report:#}"
    );
}

#[test]
fn blocks_with_a_budget_end_with_whichever_is_first() {
    let scratch = scratch();
    let run = |blocks: &str, budget: &str, out: &str| {
        // Touching the memory of a virtual machine can take half of a short budget.
        let options = [
            "run",
            ".",
            "--blocks",
            blocks,
            "--budget",
            budget,
            "--control",
            "guest-memory=off",
        ];
        succeeds(
            scratch.path(),
            &[&options[..], &["--out", out, "--", "sleep", "0.3"]].concat(),
        );
        stdout(&fsb(scratch.path(), &["report", out, "--notes"])).replace("\n  ", " ")
    };
    let bounded = run("500", "5s", "bounded");
    // A block that waits for a busy disk longer than those before is cut off.
    let ends = [
        ": another would have passed the budget",
        ", the last one not whole: the budget ended",
    ];
    assert!(
        ends.iter()
            .any(|end| bounded.contains(&format!(" of 500 planned blocks{end}"))),
        "{bounded}"
    );
    let made = measured(&scratch.path().join("bounded")).len();
    assert!((1..500).contains(&made), "{made}");
    run("3", "10m", "whole");
    assert_eq!(measured(&scratch.path().join("whole")).len(), 3);
}

/// The first run of a program reads it from disk, so its time does not predict the next.
#[test]
fn a_slow_first_run_leaves_enough_blocks() {
    let scratch = scratch();
    let mark = scratch.path().join("open");
    fs::create_dir(&mark).unwrap();
    fs::set_permissions(&mark, fs::Permissions::from_mode(0o777)).unwrap();
    let open = mark.to_str().unwrap();
    let line = format!("test -e {open}/mark || sleep 8; touch {open}/mark; sleep 0.3");
    let arguments = [
        "run",
        ".",
        "--budget",
        "30s",
        "--out",
        "run",
        "--writable",
        open,
        "--",
        &line,
    ];
    let output = succeeds(scratch.path(), &arguments);
    let blocks = measured(&scratch.path().join("run")).len();
    assert!(blocks >= 5, "{blocks} blocks\n{}", stderr(&output));
    let warnings = record(&scratch.path().join("run"))["warnings"].to_string();
    assert!(!warnings.contains("too_few_blocks"), "{warnings}");
}

/// Headline, table, environment, report: the headline is the verdict, so that no sign needs a
/// legend.
#[test]
fn a_single_case_needs_five_lines_and_a_simulated_one_six() {
    let scratch = scratch();
    let targets = words("run null slow=null,slowdown=50% --blocks 6 --out run -q -- true");
    let output = succeeds(scratch.path(), &targets);
    let screen = stdout(&output);
    // On a busy machine, trust has a reason, which takes a line or two, and times may drift, which
    // has a sign.
    let most = if screen.contains("trust: high") { 6 } else { 8 };
    let lines = screen
        .lines()
        .filter(|line| *line != "  ~ not stationary.")
        .count();
    assert!((6..=most).contains(&lines), "{screen}");
}

// Trees of files: copied into a target, within it, deleted, on the null file system and on real
// ones.

/// On the null file system everything except the calls is as on real ones, to the last digit.
#[test]
fn the_sets_of_2008_have_the_table_that_was_printed() {
    let directory = scratch();
    let run = |out: &str| {
        let plan = "targets = ['ext2=null', 'ext3-journal=null']\nsuite = 'fedorchuk'\n\
                    [repetition]\nblocks = 2\nsample_time = '1ms'\n";
        std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
        let options = format!("run plan.toml --scale 1/64 --seed 1 --out {out}");
        succeeds(directory.path(), &options);
    };
    run("one");
    let published = json(directory.path(), "report one --format json")["published"].clone();
    let rows = published["rows"].as_array().unwrap();
    let columns: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["workload"].as_str())
        .collect();
    let printed = "copy all|single copies|copy music|copy portage|copy avi|copy iso|delete portage|delete all|\
                   delete music|delete avi|delete iso";
    assert_eq!(
        columns.join("|"),
        printed,
        "the columns of the table, in its order"
    );
    let configurations = published["file_systems"].as_array().unwrap();
    for (configuration, copy_all) in [
        ("ext3, ordered", 277.0),
        ("XFS, defaults 1", 878.0),
        ("ext2, RAID", 202.0),
    ] {
        let at = configurations.iter().position(|name| name == configuration);
        assert_eq!(rows[0]["theirs"][at.expect(configuration)], copy_all);
    }
    let ours = rows.iter().map(|row| row["ours"].as_array().unwrap());
    assert!(ours.flatten().all(Value::is_number), "{rows:#?}");
    let trials = trials(&directory.path().join("one"));
    let values = |out: &str| -> Vec<_> {
        counting(&directory.path().join(out))
            .into_iter()
            .map(|trial| trial["metrics"].clone())
            .collect()
    };
    run("two");
    assert_eq!(
        values("one"),
        values("two"),
        "the same seed gives the same run"
    );
    for (label, files) in [("copy music", 16), ("copy avi", 1)] {
        let trial = trials
            .iter()
            .find(|trial| trial["workload"] == label)
            .unwrap();
        let counts = &trial["observed"]["counts"];
        // The counts include each repetition; a short sample has several.
        let repetitions = counts["directories_made"].as_u64().unwrap();
        assert_eq!(
            counts["files_copied"].as_u64().unwrap(),
            files * repetitions,
            "{label}: {counts}"
        );
        for metric in ["tree_time", "operation_rate", "throughput", "latency_mean"] {
            assert!(
                trial["metrics"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|found| found["name"] == metric),
                "{metric}"
            );
        }
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused_before_anything_is_touched() {
    let directory = scratch();
    for (parameters, line) in [
        ("set = 'films'", 4),
        ("copy = 'reflink'", 4),
        ("operation = 'delete'\ncopy = 'read-write'", 5),
        ("shape = '-:5;3:1'", 4),
        ("opration = 'delete'", 4),
    ] {
        let plan = format!("targets = ['null']\n[[workload]]\nname = 'filetree'\n{parameters}\n");
        std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
        let error = fails(directory.path(), "run plan.toml", 2, "plan/invalid-value");
        assert_eq!(error["fields"]["line"], line, "{parameters}: {error}");
    }
}

/// The record of the run contains the shape of the directory, so it can be measured again when the
/// directory is gone.
#[test]
fn the_shape_of_a_directory_is_recorded_and_replayed_without_it() {
    let directory = scratch();
    let tree = directory.path().join("linux");
    std::fs::create_dir_all(tree.join("b/empty")).unwrap();
    std::fs::create_dir_all(tree.join("a")).unwrap();
    std::fs::write(tree.join("README"), [1; 300]).unwrap();
    std::fs::write(tree.join("a/first"), [2; 5000]).unwrap();
    std::fs::write(tree.join("a/none"), []).unwrap();
    std::fs::hard_link(tree.join("a/first"), tree.join("b/first")).unwrap();
    std::os::unix::fs::symlink("/", tree.join("b/everything")).unwrap();
    std::fs::write(tree.join("b/third"), [3; 70]).unwrap();
    std::fs::write(
        directory.path().join("short.toml"),
        "targets = ['null']\n[repetition]\nsample_time = '1ms'\n",
    )
    .unwrap();
    let run = |tree: &str, out: &str| {
        let options = format!("run short.toml --tree {tree} --blocks 1 --seed 1 --out {out}");
        succeeds(directory.path(), &options);
        crate::common::record(&directory.path().join(out))["cells"].clone()
    };
    let cells = run("linux", "one");
    let labels: Vec<_> = cells
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["label"].as_str().unwrap())
        .collect();
    let name = "linux (4 files, 5.24 KiB)";
    let expected = [
        format!("copy {name} into, read-write, durable"),
        format!("copy {name} within, read-write, durable"),
        format!("copy {name} within, copy_file_range, durable"),
        format!("copy {name} within, reflink, durable"),
        format!("delete {name}, durable"),
    ];
    assert_eq!(labels, expected);
    let shape = "-:300;0:5000,0;0:70;2:";
    assert!(
        cells
            .as_array()
            .unwrap()
            .iter()
            .all(|cell| cell["workload"]["shape"] == shape),
        "{cells}"
    );
    let trials = trials(&directory.path().join("one"));
    assert!(
        trials
            .iter()
            .all(|trial| trial["params"].get("shape").is_none()),
        "trials are not as long as the tree"
    );
    std::fs::remove_dir_all(&tree).unwrap();
    assert_eq!(run("one/run.json", "two"), cells);

    std::fs::create_dir(directory.path().join("bare")).unwrap();
    std::fs::write(directory.path().join("plan.toml"), "suite = 'quick'\n").unwrap();
    let requests: &[(&[&str], &str)] = &[
        (&["run", "null", "--tree", "gone"], "input/invalid"),
        (&["run", "null", "--tree", "bare"], "input/invalid"),
        (&["run", "null", "--tree", "plan.toml"], "input/invalid"),
        (
            &["run", "null", "plan.toml", "--tree", "one/run.json"],
            "arguments/conflict",
        ),
        (
            &["run", "null", "--tree", "one/run.json", "--suite", "quick"],
            "arguments/conflict",
        ),
    ];
    expect_refusals("tree", directory.path(), requests);
}

// Flows and filebench's personalities, on the null file system and on real ones.

/// On the null file system everything except the calls is as on real ones, to the last digit: the
/// simulated clock schedules threads, semaphores and limits of a flow.
#[test]
fn personalities_are_the_same_to_the_last_digit() {
    let directory = scratch();
    let run = |out: &str| {
        let mut plan =
            "targets = ['null', 'slow=null,slowdown=10%']\n[repetition]\nblocks = 2\nsample_time = '1ms'\n".to_owned();
        for name in PERSONALITIES {
            plan += &format!("[[workload]]\nname = '{name}'\nthreads = 3\n");
        }
        plan += "[[workload]]\nname = 'varmail'\nfiles = 300\nthreads = [1, 4]\n[[workload]]\nname = 'flow'\n";
        fs::write(directory.path().join("plan.toml"), plan).unwrap();
        succeeds(
            directory.path(),
            &["run", "plan.toml", "--seed", "1", "--out", out, "--quiet"],
        );
        fs::read_to_string(directory.path().join(out).join("trials.csv")).unwrap()
    };
    let table = run("one");
    assert_eq!(table, run("two"));
    let trials = trials(&directory.path().join("one"));
    for trial in &trials {
        let counts = &trial["observed"]["counts"];
        assert!(counts["files_left"].as_u64().unwrap() > 0, "{trial}");
    }
}

#[test]
fn every_personality_is_a_suite_of_its_name() {
    let directory = scratch();
    for name in PERSONALITIES {
        let output = succeeds(
            directory.path(),
            &["run", "null", "--suite", name, "--print-plan"],
        );
        assert!(
            stdout(&output).contains(&format!("name = \"{name}\"")),
            "{}",
            stdout(&output)
        );
    }
}

#[test]
fn flows_that_make_no_sense_are_refused_before_anything_is_touched() {
    let directory = scratch();
    let flow = |steps: &str| {
        format!(
            "name = 'flow'\nflow = \"\"\"\nname = 'x'\n[[fileset]]\nname = 'set'\nfiles = 3\nsize = '4K'\n\
             [[thread]]\nname = 'one'\nsteps = [{steps}]\n\"\"\""
        )
    };
    let plans = [
        flow("{ op = 'open', set = 'sat' }"),
        flow("{ op = 'open', set = 'set' }"),
        flow("{ op = 'chmod', set = 'set' }"),
        flow("{ op = 'delay', seconds = 1 }"),
        "name = 'varmail'\ndurability = 'none'".to_owned(),
        "name = 'oltp'\nthreads = []".to_owned(),
    ]
    .map(|workload| {
        (
            format!("targets = ['null']\n[[workload]]\n{workload}\n"),
            "plan/invalid-value",
        )
    });
    expect_refused_plans("flows", directory.path(), &plans);
}

// Data with a share that compression and deduplication save; the plan chooses the share.

#[test]
fn shares_that_make_no_sense_are_refused() {
    let scratch = scratch();
    let plans = [
        "{ compressible = '160%' }",
        "'60%'",
        "{ compressable = '60%' }",
    ]
    .map(|data| {
        mixture_plan(scratch.path(), data);
        let plan = std::fs::read_to_string(scratch.path().join("plan.toml")).unwrap();
        (format!("targets = ['null']\n{plan}"), "plan/invalid-value")
    });
    expect_refused_plans("mixtures", scratch.path(), &plans);
}
