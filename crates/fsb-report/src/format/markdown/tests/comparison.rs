use crate::format::markdown::render;
use crate::report::Report;
use crate::sample_sets::{compared, iozone};

fn shown(sets: &[fsb_model::set::Set]) -> String {
    render(&Report::of_comparison(&compared(sets), None))
}

#[test]
fn two_sets_for_an_issue() {
    insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 5, 4, 1 << 22)));
}

#[test]
fn three_sets_for_a_paper() {
    insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4", "btrfs"], 6, 4, 1 << 22)));
}

#[test]
fn single_runs() {
    insta::assert_snapshot!(shown(&iozone(&["xfs", "ext4"], 1, 4, 1 << 20)));
}

#[test]
fn names_cannot_break_the_table() {
    let text = shown(&iozone(&["a|b", "*bold*<script>"], 5, 2, 1 << 20));
    assert!(text.contains("| operation | a\\|b | \\*bold\\*\\<script> |"), "{text}");
}
