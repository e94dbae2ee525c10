//! Published tables beside runs, which are recognized by their workloads.

use crate::common::{expect_code, fsb, scratch, stdout};

#[test]
fn the_operations_of_2006_stand_beside_their_table() {
    let directory = scratch();
    let plan = "targets = ['reiserfs=null', 'jfs=null']\nsuite = 'horvath-2006'\n\
                [repetition]\nblocks = 1\nstretch = '1ms'\n";
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--scale", "1/64", "--seed", "1", "--out", "out"]);
    expect_code(&output, 0);
    let text = stdout(&output);
    let (ours, theirs) = text.split_once("\nPublished:\n").expect(&text);
    assert!(ours.contains("Beside the published results (Horváth 2006"), "{text}");
    for (row, value) in [("sequential write", "113 MiB/s"), ("random write", "127 MiB/s"), ("reread", "71.5 MiB/s")] {
        assert!(ours.lines().any(|line| line.starts_with(row)), "{row}: {ours}");
        assert!(theirs.lines().any(|line| line.starts_with(row) && line.contains(value)), "{row}: {theirs}");
    }
}
