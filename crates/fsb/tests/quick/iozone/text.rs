//! fsb prints the same text as IOzone for the same command, except for the numbers and the name.

use super::done;
use crate::common::scratch;

/// The 2011 comparator searches for the heading and splits the lines below it at blanks.
#[test]
fn a_reader_that_splits_at_blanks_finds_the_thirteen_columns() {
    let text = done(scratch().path(), "-a -n 64 -g 128 -f f");
    let mut lines = text.lines().skip_while(|line| !line.trim_start().to_lowercase().starts_with("kb  reclen"));
    assert_eq!(lines.next().unwrap().split_whitespace().count(), 15);
    let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 11);
    assert!(rows.iter().all(|row| row.split_whitespace().count() == 15), "{text}");
    assert!(text.starts_with("\tIozone: Performance Test of File I/O\n"));
    assert!(text.contains("\niozone test complete.\n"));
    assert!(!text.contains("Contributors"), "nobody who made IOzone made this");
}

#[test]
fn the_sizes_of_mapped_and_asynchronous_tables_end_with_the_strided_read() {
    for option in ["-B", "-k 4", "-H 2"] {
        let text = done(scratch().path(), &format!("{option} -s 64 -r 4 -f f"));
        let heading = text.lines().find(|line| line.trim_start().starts_with("kB")).unwrap();
        assert_eq!(heading.split_whitespace().count(), 11, "{option}");
        assert_eq!(heading.len(), 143);
        let row = text.lines().find(|line| line.trim_start().starts_with("64 ")).unwrap();
        assert_eq!(row.split_whitespace().count(), 11, "{option}: {row}");
    }
}
