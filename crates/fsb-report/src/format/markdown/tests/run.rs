use crate::format::markdown::render;
use crate::report::Report;
use crate::run::Summary;
use crate::run::unjudged::samples;
use crate::sample;
use fsb_model::{RunRecord, Trial};

fn shown((record, trials): &(RunRecord, Vec<Trial>)) -> String {
    render(&Report::of_run(&Summary::of_run(record, trials), trials))
}

#[test]
fn a_table_for_an_issue() {
    insta::assert_snapshot!(shown(&sample::run(&["ext4", "xfs", "tmpfs"], 6)));
}

#[test]
fn an_emulated_run_is_not_judged() {
    insta::assert_snapshot!(shown(&samples::emulated(&["reiserfs", "jfs"], 6)));
}

#[test]
fn nothing_is_said_of_what_is_not_there() {
    let (record, trials) = sample::run(&["ext4", "xfs"], 5);
    let text = shown(&(record.clone(), Vec::new()));
    assert!(!text.contains("Change against"), "{text}");
    // The line on a target that no block reached does not list all workloads.
    assert!(text.lines().any(|line| line.starts_with("- xfs: ") && !line.contains("write 1M")), "{text}");
    assert!(shown(&(record, trials)).contains("Change against ext4 with 95 % intervals for each row."));
}
