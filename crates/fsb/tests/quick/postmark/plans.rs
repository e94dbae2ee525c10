//! The workload in plans: suites, and the tables of published runs.

use crate::common::{expect_code, expect_refused_plans, fsb, scratch, stdout, trials};

/// On the null file system everything except the calls is as on real ones, to the last digit.
#[test]
fn the_three_tests_have_the_rows_of_their_tables() {
    let directory = scratch();
    let run = |out: &str| {
        // One repetition per trial: the number that fits depends on this machine.
        let plan = "targets = ['ext2=null', 'ext3-journal=null']\nsuite = 'dordevic'\n\
                    [repetition]\nblocks = 2\nsample_time = '1ms'\n";
        std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
        let options = ["run", "plan.toml", "--scale", "1/16", "--seed", "1", "--out", out];
        let output = fsb(directory.path(), &options);
        expect_code(&output, 0);
        stdout(&output)
    };
    // Removes the times, the paths and the line breaks.
    let lasting = |text: &str, out: &str| {
        let lines = text.lines().filter(|line| !line.contains(" · ")).flat_map(str::split_whitespace);
        let words = lines.collect::<Vec<_>>().join(" ").replace(&format!("{out}/"), "");
        // A run within one second does not print the time of further blocks.
        match words.split_once("(about ") {
            Some((before, time)) => format!("{}{}", before.trim_end(), time.split_once(')').unwrap().1),
            None => words,
        }
    };
    let text = run("one");
    assert!(text.contains("test 2: files of 1 to 1,000") && text.contains("Đorđević et al., tables 3 to 8"), "{text}");
    let rows = ["test 1: read", "test 1: write", "test 2: read", "test 2: write", "test 3: read", "test 3: write"];
    for row in rows {
        // Once with the values of fsb, twice with the published ones: five columns do not fit.
        assert_eq!(text.lines().filter(|line| line.starts_with(row)).count(), 3, "{row}\n{text}");
    }
    assert!(text.contains("4.67 MiB/s") && text.contains("reiserfs"), "{text}");
    // In another results directory the second run finds no earlier run.
    assert_eq!(lasting(&text, "one"), lasting(&run("again/two"), "again/two"), "the same seed gives the same run");
    let trials = trials(&directory.path().join("one"));
    let trial = trials.iter().find(|trial| trial["block"] == 1).unwrap();
    assert_eq!(trial["observed"]["counts"]["files_created"], trial["observed"]["counts"]["files_deleted"]);
    for metric in ["operation_rate", "read_rate", "write_rate", "create_rate", "delete_rate", "delete_alone_rate"] {
        assert!(trial["metrics"].as_array().unwrap().iter().any(|found| found["name"] == metric), "{metric}");
    }
    let table = std::fs::read_to_string(directory.path().join("one/trials.csv")).unwrap();
    assert!(table.contains(",read_rate,") && table.contains(",create_alone_rate,"));
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let directory = scratch();
    let plans = [
        "size_low = 9\nsize_high = 8",
        "bias_read = 11",
        "transaction = 3",
        "threads = 2\nprocesses = 2",
        "number = 0",
    ]
    .map(|parameters| {
        (format!("targets = ['null']\n[[workload]]\nname = 'postmark'\n{parameters}\n"), "plan/invalid-value")
    });
    expect_refused_plans("postmark_plans", directory.path(), &plans);
}
