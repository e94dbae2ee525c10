//! The table: a row for each pair of sizes, a column for each operation.

use crate::iozone::options::{Means, Options};
use crate::iozone::sequence::{Column, MatrixRow};
use crate::iozone::test::Test;

/// The widths of the thirteen columns.
const WIDTHS: [usize; 13] = [9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9, 9, 9];

/// Returns the two lines above the rows.
pub fn heading(options: &Options) -> String {
    let (above, below): (Vec<&str>, Vec<&str>) = if options.read_write_only {
        (vec![""; 6], vec!["kB", "reclen", "write", "rewrite", "read", "reread"])
    } else {
        let streams: [&str; 4] =
            if options.means == Means::Calls { ["fwrite", "frewrite", "fread", "freread"] } else { [""; 4] };
        let mut above = vec![""; 6];
        above.extend(["random", "random", "bkwd", "record", "stride", "", "", "", ""]);
        let mut below = vec!["kB", "reclen", "write", "rewrite", "read", "reread"];
        below.extend(["read", "write", "read", "rewrite", "read"]);
        below.extend(streams);
        (above, below)
    };
    format!("{}\n{}\n", line(&above), line(&below))
}

/// Returns a line of the heading. Headings are not as wide as the numbers below them: these are IOzone's widths, with
/// its blanks in between.
fn line(words: &[&str]) -> String {
    const WIDTHS: [(usize, &str); 15] = [
        (16, ""),
        (8, ""),
        (9, ""),
        (9, ""),
        (8, ""),
        (10, ""),
        (8, ""),
        (9, " "),
        (9, ""),
        (9, " "),
        (9, " "),
        (9, ""),
        (9, ""),
        (9, ""),
        (9, ""),
    ];
    words.iter().zip(WIDTHS).map(|(word, (width, before))| format!("{before}{word:>width$}")).collect()
}

/// Returns the start of a row.
pub fn row(row: MatrixRow) -> String {
    format!("{:>16}{:>8}", row.file, row.record)
}

/// Returns a number in its column.
pub fn number(column: Column, value: u64) -> String {
    format!("{value:>width$}", width = WIDTHS[column])
}

/// Returns the zero that replaces an operation that is not repeated.
pub fn zero(column: Column) -> String {
    number(column, 0)
}

/// Returns the blanks that replace a test that was not chosen.
pub fn blank(test: Test) -> &'static str {
    const BLANKS: &str = "                  ";
    let width = match test {
        Test::Backward => 9,
        Test::RecordRewrite | Test::Stride => 10,
        Test::Fread => 17,
        Test::Mix | Test::Pwrite | Test::Pread => 0,
        _ => 18,
    };
    &BLANKS[..width]
}
