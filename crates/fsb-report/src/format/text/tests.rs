use fsb_model::metric::{LATENCY_MAX, LATENCY_P50};

use super::tails;
use crate::report::Report;
use crate::run::Summary;
use crate::sample;

#[test]
fn tails_have_intervals_and_say_what_they_do_not_hold() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
    for trial in &mut trials {
        let noise = 1.0 + f64::from(trial.block) * 0.01;
        trial.metrics.retain(|metric| !metric.name.starts_with("latency"));
        trial.metrics.extend([LATENCY_P50.metric(1e-3 * noise), LATENCY_MAX.metric(50e-3 * noise)]);
    }
    let summary = Summary::of_run(&record, &trials);
    let text = tails(&Report::of_run(&summary, &trials), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("  ext4") && text.contains("1.04 ms ±") && text.contains("53.0 ms\n"),
        "the longest of all: {text}"
    );
    assert!(text.contains("            –"), "no p99 is known: {text}");
    trials.iter_mut().for_each(|trial| trial.metrics.truncate(1));
    let summary = Summary::of_run(&record, &trials);
    assert!(tails(&Report::of_run(&summary, &trials), 80).contains("No trial recorded"));
}

mod comparison {
    use crate::format::FORMATS;
    use crate::report::Report;
    use crate::sample_sets::{compared, iozone, workloads};
    use crate::screen::WIDTH;
    use crate::text::screen;
    use textwrap::core::display_width;

    fn shown(sets: &[fsb_model::set::Set]) -> String {
        screen(&Report::of_comparison(&compared(sets), None), WIDTH, false, false)
    }

    #[test]
    fn two_sets() {
        insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 5, 13, 1 << 24)));
    }

    #[test]
    fn three_sets() {
        insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4", "btrfs"], 6, 7, 1 << 22)));
    }

    #[test]
    fn single_runs_are_described() {
        insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 1, 5, 1 << 22)));
    }

    #[test]
    fn one_set_is_described() {
        insta::assert_snapshot!(shown(&iozone(&["xfs"], 5, 3, 1 << 22)));
    }

    #[test]
    fn of_workloads_the_rates_are_shown() {
        insta::assert_snapshot!(shown(&workloads(&["ext4", "xfs", "btrfs"], 8)));
    }

    #[test]
    fn one_operation_size_by_size() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 22));
        insta::assert_snapshot!(screen(&Report::of_comparison(&document, Some("rewrite")), WIDTH, false, false));
    }

    #[test]
    fn no_line_is_wider_than_the_screen_and_a_wide_screen_is_used() {
        let long = "a set with a rather long name, and spaces";
        for names in [&["xfs", "ext4", "btrfs", "jfs"][..], &[long, "a set with a rather long name", "c"][..]] {
            let document = compared(&iozone(names, 5, 4, 1 << 20));
            let page = Report::of_comparison(&document, None);
            for width in [80, 160] {
                let screen = screen(&page, width, false, false);
                for line in screen.lines() {
                    assert!(display_width(line) <= width, "{line}");
                    assert_eq!(line, line.trim_end());
                }
            }
            assert!(screen(&page, 160, false, false).lines().count() < screen(&page, 80, false, false).lines().count());
            assert_eq!(screen(&page, 20, false, false), screen(&page, 80, false, false));
        }
    }

    #[test]
    fn many_findings_are_counted() {
        let text = shown(&iozone(&["xfs", "ext4", "btrfs", "jfs"], 6, 13, 1 << 22));
        assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), 10);
        assert!(text.contains("more findings in the formats markdown, html and json"), "{text}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
        let page = Report::of_comparison(&document, None);
        let colored = screen(&page, WIDTH, true, false);
        assert!(colored.contains("\u{1b}[") && !screen(&page, WIDTH, false, false).contains('\u{1b}'));
        let mut parts = colored.split("\u{1b}[");
        let first = parts.next().unwrap().to_owned();
        let stripped = parts.fold(first, |text, part| text + part.split_once('m').unwrap().1);
        let trimmed: Vec<&str> = stripped.lines().map(str::trim_end).collect();
        assert_eq!(trimmed, screen(&page, WIDTH, false, false).lines().collect::<Vec<_>>());
    }

    #[test]
    fn kernels_are_shown_in_part_for_people_and_in_full_for_programs() {
        let names = ["ext4%6.1.0-56-amd64", "ext4%6.12.117+deb12-amd64"];
        let document = compared(&iozone(&names, 5, 3, 1 << 18));
        let page = Report::of_comparison(&document, None);
        for format in FORMATS.iter().filter(|format| !format.binary) {
            let text = format.render(&page);
            // Files are named as they are.
            let text = text.split("What was read").next().unwrap_or_default();
            let in_full = ["csv", "summary-csv", "json"].contains(&format.name);
            assert_eq!(text.contains(names[0]) && text.contains(names[1]), in_full, "{}", format.name);
            assert!(in_full || text.contains("%6.12 is Linux 6.12.117+deb12-amd64"), "{}", format.name);
        }
        assert!(screen(&page, 80, false, false).contains("ext4%6.1 "));
    }

    #[test]
    fn a_detail_has_every_value_of_every_run_within_the_screen() {
        let names = ["a set with a rather long name, and spaces", "ext4"];
        let document = compared(&iozone(&names, 9, 1, 1 << 18));
        let report = Report::of_comparison(&document, Some("write"));
        let markdown = crate::find("markdown").unwrap().render(&report);
        let screen = screen(&report, WIDTH, false, false);
        assert!(screen.lines().all(|line| display_width(line) <= WIDTH), "{screen}");
        for value in document.operations[0].cells.iter().flat_map(|cell| cell.values.values()).flatten() {
            let shown = format!("{:.2}", value.value / 1048576.0);
            assert!(screen.contains(&shown) && markdown.contains(&format!("| {shown} |")), "{shown}");
        }
        assert!(markdown.contains("| record size | set | run 1 | run 2 |"), "{markdown}");
    }
}

mod run {
    use fsb_model::{RunRecord, Trial, Warning};
    use textwrap::core::display_width;

    use crate::format::FORMATS;
    use crate::report::Report;
    use crate::run::Summary;
    use crate::run::headline::samples;
    use crate::sample;
    use crate::screen::WIDTH;

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
        for targets in [&["ext4", "xfs", "btrfs"][..], &["ext4", "xfs", "btrfs", "ext2", long][..], &[long, "ext4"][..]]
        {
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
        let names =
            ["journal", "ordered", "writeback"].map(|journal| [1024, 4096].map(|block| options(journal, block)));
        let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
        let screen = screen(&names, 5);
        assert!(screen.lines().all(|line| display_width(line) <= WIDTH), "{screen}");
        insta::assert_snapshot!(screen);
    }

    #[test]
    fn kernels_are_told_apart() {
        let names =
            ["ext4%6.1.0-56-amd64", "ext4%6.12.117+deb12-amd64", "xfs%6.1.0-56-amd64", "xfs%6.12.117+deb12-amd64"];
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
}
