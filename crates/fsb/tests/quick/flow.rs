//! Flows and filebench's personalities, on the null file system and on real ones.

use std::fs;

use crate::common::flow::*;
use crate::common::{expect_code, expect_refused_plans, fsb, scratch, stdout, trials};

/// On the null file system everything except the calls is as on real ones, to the last digit: the simulated clock
/// schedules threads, semaphores and limits of a flow.
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
        let output = fsb(directory.path(), &["run", "plan.toml", "--seed", "1", "--out", out, "--quiet"]);
        expect_code(&output, 0);
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
        let output = fsb(directory.path(), &["run", "null", "--suite", name, "--print-plan"]);
        expect_code(&output, 0);
        assert!(stdout(&output).contains(&format!("name = \"{name}\"")), "{}", stdout(&output));
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
    .map(|workload| (format!("targets = ['null']\n[[workload]]\n{workload}\n"), "plan/invalid-value"));
    expect_refused_plans("flows", directory.path(), &plans);
}
