use crate::format::FORMATS;
use crate::report::Report;
use crate::run::Summary;
use crate::run::unjudged::samples;
use crate::sample;
use crate::screen::WIDTH;
use fsb_model::{RunRecord, Trial, Warning};
use textwrap::core::display_width;

fn shown((record, trials): &(RunRecord, Vec<Trial>), color: bool) -> String {
    crate::text::screen(&Report::of_run(&Summary::of_run(record, trials), trials), WIDTH, color, false)
}

fn screen(targets: &[&str], blocks: u32) -> String {
    shown(&sample::run(targets, blocks), false)
}

#[test]
fn three_targets() {
    insta::assert_snapshot!(screen(&["ext4", "xfs", "btrfs"], 10));
}

#[test]
fn more_targets_than_fit_side_by_side() {
    let long = "xfs,allocsize=512k,noatime@/dev/sdb1";
    insta::assert_snapshot!(screen(&["ext4", "xfs", "btrfs", "tmpfs", "ext3,data=journal", long], 8));
}

#[test]
fn one_target_is_not_ranked() {
    insta::assert_snapshot!(screen(&["ext4"], 6));
}

#[test]
fn few_blocks_are_described() {
    insta::assert_snapshot!(screen(&["ext4", "xfs"], 3));
}

#[test]
fn an_emulated_run_gives_numbers_and_judges_nothing() {
    insta::assert_snapshot!(shown(&samples::emulated(&["reiserfs", "jfs"], 6), false));
}

#[test]
fn an_array_on_one_disk_gives_numbers_and_judges_nothing() {
    insta::assert_snapshot!(shown(&samples::one_disk(&["ext4@raid0:loop+loop", "xfs@raid0:loop+loop"], 6), false));
}

#[test]
fn targets_on_one_disk_have_numbers_beside_those_that_are_ranked() {
    insta::assert_snapshot!(shown(&samples::one_disk(&["ext4", "xfs", "ext4@raid0:loop+loop"], 6), false));
}

#[test]
fn of_times_less_is_better() {
    insta::assert_snapshot!(shown(&sample::micro(&["ext2", "ext4", "btrfs"], 5), false));
}

#[test]
fn no_line_is_wider_than_the_screen() {
    let long = "a-rather-long-name-for-a-target=xfs,allocsize=512k";
    for targets in [&["ext4", "xfs", "btrfs"][..], &["ext4", "xfs", "btrfs", "ext2", long][..], &[long, "ext4"][..]] {
        for line in screen(targets, 10).lines() {
            assert!(display_width(line) <= WIDTH, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let run = sample::run(&["ext4", "xfs", "btrfs"], 10);
    let (plain, colored) = (shown(&run, false), shown(&run, true));
    assert!(!plain.contains('\u{1b}') && colored.contains('\u{1b}'));
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    stripped.push_str(rest);
    let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
}

#[test]
fn names_that_begin_alike_stay_apart() {
    let names = ["xfs,allocsize=512k@/dev/sda1", "xfs,allocsize=512k@/dev/sdb1"];
    let screen = screen(&names, 5);
    assert!(screen.contains("xfs…sda1 is xfs,allocsize=512k@/dev/sda1"), "{screen}");
    assert!(screen.contains("xfs…sdb1 is xfs,allocsize=512k@/dev/sdb1"), "{screen}");
}

#[test]
fn many_targets_with_long_options_stay_apart_within_the_screen() {
    let options = |journal: &str, block: u32| {
        format!("ext4,noatime,commit=30,data={journal},mkfs=\"-O ^has_journal,^metadata_csum -b {block} -I 256\"")
    };
    let names = ["journal", "ordered", "writeback"].map(|journal| [1024, 4096].map(|block| options(journal, block)));
    let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let screen = screen(&names, 5);
    assert!(screen.lines().all(|line| display_width(line) <= WIDTH), "{screen}");
    insta::assert_snapshot!(screen);
}

#[test]
fn kernels_are_told_apart() {
    let names = ["ext4%6.1.0-56-amd64", "ext4%6.12.117+deb12-amd64", "xfs%6.1.0-56-amd64", "xfs%6.12.117+deb12-amd64"];
    insta::assert_snapshot!(screen(&names, 10));
}

#[test]
fn kernels_are_in_full_for_programs_only() {
    let names = ["ext4%6.1.0-56-amd64", "ext4%6.12.117+deb12-amd64"];
    let (record, trials) = sample::run(&names, 6);
    let summary = Summary::of_run(&record, &trials);
    for format in FORMATS.iter().filter(|format| !format.binary) {
        let text = format.render(&Report::of_run(&summary, &trials));
        // The sample's file systems are called like its targets.
        let text = text.split("id=\"environment\"").next().unwrap_or_default().replace("muted\">ext4%", "");
        let in_full = ["csv", "summary-csv", "json"].contains(&format.name);
        assert_eq!(text.contains(names[1]), in_full, "{}", format.name);
        assert!(in_full || text.contains("%6.12 is Linux 6.12.117+deb12-amd64"), "{}", format.name);
    }
}

#[test]
fn side_by_side() {
    let run = sample::side_by_side(&["ext4", "xfs", "btrfs"], 12);
    let screen = shown(&run, false);
    assert!(screen.lines().all(|line| display_width(line) <= WIDTH), "{screen}");
    insta::assert_snapshot!(screen);
}

#[test]
fn twelve_cases_of_three_targets_fit_24_lines() {
    for run in [sample::run(&["ext4", "xfs", "btrfs"], 10), sample::side_by_side(&["ext4", "xfs", "btrfs"], 12)] {
        let screen = shown(&run, false);
        // The path of the report is printed below.
        assert!(screen.lines().count() < 24, "{screen}");
    }
}

#[test]
fn notes_are_printed_on_demand() {
    let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 10);
    let summary = Summary::of_run(&record, &trials);
    insta::assert_snapshot!(crate::text::screen(&Report::of_run(&summary, &trials), WIDTH, false, true));
}

#[test]
fn the_first_screen_has_one_warning_and_one_line_of_trust() {
    let (mut record, trials) = sample::run(&["ext4", "xfs"], 8);
    record.warnings = vec![
        sample::concurrent(),
        Warning::LeftOut {
            workloads: vec!["nine".to_owned()],
            held: 3,
            planned: 12,
            budget_seconds: 300.0,
            needed_seconds: 1200.0,
        },
    ];
    let summary = Summary::of_run(&record, &trials);
    let report = Report::of_run(&summary, &trials);
    let screen = |notes| crate::text::screen(&report, WIDTH, false, notes);
    let (first, full) = (screen(false), screen(true));
    let count = |text: &str, start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((count(&first, "trust: low, because another run"), count(&first, "warning: ")), (1, 1), "{first}");
    assert!(first.contains("warning: 5 min 00 s hold 3 of 12 workloads"), "{first}");
    assert!(first.contains(" (+1 more: fsb report --notes)\n"), "{first}");
    assert!(full.contains("warning: 1 trial has no value and is left out: "), "{full}");
    assert_eq!(count(&full, "trust: low"), 1, "{full}");
    assert_eq!(count(&full, "warning: "), summary.warnings.len(), "{full}");
    assert!(full.contains("warning: process 7 (fsb run ext4) measured at the same time"), "{full}");
}
