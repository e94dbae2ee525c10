//! Published tables beside runs, which are recognized by their workloads.

use crate::common::{expect_code, fsb, scratch, stdout};

#[test]
fn the_operations_of_2006_stand_beside_their_table() {
    let directory = scratch();
    let plan = "targets = ['reiserfs=null', 'jfs=null']\nsuite = 'horvath-2006'\n\
                [repetition]\nblocks = 1\nsample_time = '1ms'\n";
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

#[test]
fn the_tests_of_2023_stand_beside_tables_6_1_to_6_3() {
    let directory = scratch();
    let plan = "targets = ['ext2=null', 'ext4=null']\nsuite = 'fsbench'\n[repetition]\nblocks = 1\n";
    std::fs::write(directory.path().join("plan.toml"), plan).unwrap();
    let output = fsb(directory.path(), &["run", "plan.toml", "--seed", "1", "--out", "out"]);
    expect_code(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("Beside the published results (Pokorný 2023, tables 6.1 to 6.3)"), "{text}");
    // Rates of Appendix C; in brackets as printed, if the number differs.
    for (table, rows) in [
        ("Table 6.1, files/s:", &[("create 1000 files", "2918")][..]),
        ("Table 6.2, MiB/s:", &[("sequential read 512 KB", "780 (97.5)"), ("random read 4096 KB", "408 (51.0)")]),
        ("Table 6.3, MiB/s:", &[("sequential write 4096 KB", "3.77 (0.47)"), ("random write 512 KB", "167 (20.9)")]),
    ] {
        let (_, rest) = text.split_once(table).unwrap_or_else(|| panic!("{table} in {text}"));
        let (ours, theirs) = rest.split_once("\nPublished:\n").unwrap();
        let theirs = theirs.split("\nTable ").next().unwrap();
        for (row, value) in rows {
            assert!(ours.lines().any(|line| line.starts_with(row)), "{row}: {ours}");
            assert!(theirs.lines().any(|line| line.starts_with(row) && line.contains(value)), "{row}: {theirs}");
        }
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
