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
