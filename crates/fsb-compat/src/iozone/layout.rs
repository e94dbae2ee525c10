//! Assigns the numbers of a row to the headings.
//!
//! IOzone prints numbers right-aligned in columns of fixed width and leaves blanks for operations
//! that did not run, so splitting a row at its blanks is not enough. Three things shift the
//! columns. A number wider than its column pushes the rest to the right. A number that fills its
//! column touches the one before. In some versions, the blanks for an operation that did not run
//! are one narrower than its numbers. Places are therefore counted from the end of the preceding
//! number, not from the margin.

use crate::text::whole;

/// The maximum number of columns of a table: the record size, thirteen operations, and eight of
/// `-E`.
const MOST_COLUMNS: usize = 24;

/// The largest distance between the end of a number and its place under the heading. The headings
/// themselves are up to one off, and each operation that did not run may add one. Columns are at
/// least seven wide.
const SLACK: usize = 3;

/// Digits of the longest number that is believed where numbers touch.
const LONGEST: usize = 12;

/// The headings of the thirteen columns that every version prints, in the order of [`OPERATIONS`].
#[rustfmt::skip] // a table reads as one
const HEADINGS: [&str; 13] = [
    "write", "rewrite", "read", "reread", "read", "write", "read", "rewrite", "read",
    "fwrite", "frewrite", "fread", "freread",
];

/// The column widths of a version below the thirteen headings, from its source.
struct Known {
    /// The ends of the headings, counted from the end of the record size's.
    headings: [usize; 13],
    /// The widths of numbers.
    numbers: [usize; 13],
    /// The widths of the blanks for operations that did not run.
    blanks: [usize; 13],
}

/// Up to 3.42x, and since.
static KNOWN: [Known; 2] = [
    Known {
        headings: [8, 16, 24, 34, 42, 50, 58, 67, 76, 85, 94, 102, 111],
        numbers: [8, 8, 9, 9, 8, 8, 8, 9, 9, 9, 9, 8, 9],
        blanks: [8, 8, 9, 9, 8, 8, 8, 8, 8, 9, 9, 8, 8],
    },
    Known {
        headings: [9, 18, 26, 36, 44, 54, 63, 73, 83, 92, 101, 110, 119],
        numbers: [9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9, 9, 9],
        blanks: [9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9, 9, 8],
    },
];

/// The columns of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// The operation of each column but the first; `None` if the heading is unknown.
    pub operations: Vec<Option<&'static str>>,
    /// The widths of numbers, the record size's first.
    widths: Vec<usize>,
    /// The widths of blanks in their place.
    blanks: Vec<usize>,
    /// Whether the widths are those of the source, not guessed from the headings.
    exact: bool,
}

/// A word in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The end in the line.
    pub end: usize,
    pub bytes: &'a [u8],
}

/// The numbers of a row by column: the record size, then those of the operations.
pub(super) type Cells = [Option<u64>; MOST_COLUMNS];

/// Words between blanks.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at
            + line[at..]
                .iter()
                .position(|byte| !byte.is_ascii_whitespace())?;
        let length = line[start..]
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(line.len() - start);
        at = start + length;
        Some(Word {
            end: at,
            bytes: &line[start..at],
        })
    })
}

impl Layout {
    /// Parses the columns of a heading line. Returns `None` if the line is not a heading.
    pub(crate) fn of_heading(line: &[u8]) -> Option<Layout> {
        let mut found = words(line);
        let first = found.next()?;
        let second = found.next()?;
        if !first.bytes.eq_ignore_ascii_case(b"kb") || second.bytes != b"reclen" {
            return None;
        }
        let (mut operations, mut ends) = (Vec::new(), vec![first.end, second.end]);
        for (at, word) in found.take(MOST_COLUMNS - 1).enumerate() {
            let heading = std::str::from_utf8(word.bytes).ok()?;
            operations.push(match HEADINGS.get(at) {
                Some(known) if *known == heading => Some(OPERATIONS[at].name),
                _ => operation(heading),
            });
            ends.push(word.end);
        }
        let mut widths: Vec<usize> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut blanks = widths.clone();
        let headings: Vec<usize> = ends[2..].iter().map(|end| end - ends[1]).collect();
        let same = |known: &&Known| {
            headings
                .iter()
                .take(13)
                .eq(known.headings.iter().take(headings.len()))
        };
        let known = KNOWN.iter().find(same);
        if let Some(known) = known {
            widths[1..]
                .iter_mut()
                .zip(known.numbers)
                .for_each(|(width, known)| *width = known);
            blanks[1..]
                .iter_mut()
                .zip(known.blanks)
                .for_each(|(width, known)| *width = known);
        }
        let exact = known.is_some() && headings.len() <= 13;
        (!operations.is_empty()).then_some(Layout {
            operations,
            widths,
            blanks,
            exact,
        })
    }

    /// Puts the numbers that follow the file size, which ends at `margin`, into their columns. If
    /// the line was cut (it has no line end), a last number that ends before its column does is
    /// left out, because digits may be missing.
    ///
    /// # Errors
    /// The reason why the row fits no heading.
    pub fn place(&self, margin: usize, row: &[Word], ended: bool) -> Result<Cells, String> {
        let mut cells = [None; MOST_COLUMNS];
        if row.len() > self.widths.len() {
            return Err(format!(
                "{} numbers under {} headings",
                row.len(),
                self.widths.len()
            ));
        }
        let full = row.len() == self.widths.len();
        let (mut next, mut cursor, mut skipped) = (0, margin, false);
        for (at, word) in row.iter().enumerate() {
            let field = if full {
                self.field(word, at, cursor)
            } else {
                self.nearest(word, next, cursor)?
            };
            if !ended && at + 1 == row.len() && field.off > usize::from(!self.exact) {
                break;
            }
            skipped |= field.column > next;
            // Before the first blank column of a row, the ends of numbers are certain. A number
            // there was cut.
            let most = if self.exact && !skipped { 0 } else { SLACK };
            if !full && (field.off > most || at == 0 && field.column > 0) {
                return Err(format!(
                    "'{}' has no heading",
                    String::from_utf8_lossy(word.bytes)
                ));
            }
            let single = [word.bytes];
            let pieces = field.pieces.as_deref().unwrap_or(&single);
            for (cell, digits) in cells[field.column..].iter_mut().zip(pieces) {
                let bad = || {
                    format!(
                        "'{}' is not a number that fits",
                        String::from_utf8_lossy(word.bytes)
                    )
                };
                *cell = Some(whole(digits).ok_or_else(bad)?);
            }
            (next, cursor) = (field.column + pieces.len(), word.end);
        }
        Ok(cells)
    }

    /// Returns a column as the place of a single number.
    fn field<'a>(&self, word: &Word, column: usize, start: usize) -> Field<'a> {
        let end = start + self.widths[column].max(word.bytes.len());
        Field {
            column,
            off: end.abs_diff(word.end),
            pieces: None,
        }
    }

    /// Returns the column from `next` on that fits a word best, with nothing printed since
    /// `cursor`.
    fn nearest<'a>(
        &self,
        word: &Word<'a>,
        next: usize,
        cursor: usize,
    ) -> Result<Field<'a>, String> {
        let mut start = cursor;
        let fields = (next..self.widths.len()).map(|column| {
            let pieces = self.touching(word, column, start);
            let field = match pieces {
                Some(_) => Field {
                    column,
                    off: 0,
                    pieces,
                },
                None => self.field(word, column, start),
            };
            start += self.blanks[column];
            field
        });
        let nearest = fields
            .min_by_key(|field| field.off)
            .ok_or("more numbers than headings are left for")?;
        if !self.exact && word.bytes.len() > self.widths[nearest.column] {
            return Err(format!(
                "'{}' may be several numbers that touch",
                String::from_utf8_lossy(word.bytes)
            ));
        }
        Ok(nearest)
    }

    /// Splits a word that starts in a column into numbers that are printed without a blank between
    /// them. The first ends where its column does. Each number after it fills its column, or there
    /// is only one and it is wider.
    fn touching<'a>(&self, word: &Word<'a>, column: usize, start: usize) -> Option<Vec<&'a [u8]>> {
        let from = word.end - word.bytes.len();
        let end = start + self.widths[column];
        if !self.exact || from < start || from >= end || end >= word.end {
            return None;
        }
        let (first, mut rest) = word.bytes.split_at(end - from);
        let mut pieces = vec![first];
        for (at, width) in self.widths.iter().enumerate().skip(column + 1) {
            let following = self.widths.get(at + 1).copied().unwrap_or(LONGEST);
            let wide = pieces.len() == 1
                && (*width + 1..width + following).contains(&rest.len())
                && rest.len() <= LONGEST;
            let (piece, left) = rest.split_at_checked(if wide { rest.len() } else { *width })?;
            pieces.push(piece);
            rest = left;
            if piece.starts_with(b"0") {
                return None;
            }
            if rest.is_empty() {
                return Some(pieces);
            }
        }
        None
    }
}

/// A column as the place of a word.
#[derive(Debug)]
struct Field<'a> {
    column: usize,
    /// The distance between the end of the word and the end of a number in this column.
    off: usize,
    /// The numbers of this column and those after it, if the word holds more than one.
    pieces: Option<Vec<&'a [u8]>>,
}

/// An operation and its other names.
struct Operation {
    name: &'static str,
    /// Other names, without blanks, hyphens and underscores, in lower case: the titles of `-R`, the
    /// rows of throughput mode, the comparator's short names, and the captions of its figures.
    others: &'static [&'static str],
}

/// In the order of IOzone's columns.
#[rustfmt::skip] // a table reads as one
static OPERATIONS: &[Operation] = &[
    Operation { name: "write", others: &["writer", "iwrite", "initialwrite", "initialwriter", "initialwriters"] },
    Operation { name: "rewrite", others: &["rewriter", "rewriters"] },
    Operation { name: "read", others: &["reader", "readers", "iread"] },
    Operation { name: "reread", others: &["rereader", "rereaders"] },
    Operation { name: "random_read", others: &["randrd", "randread", "randomreader", "randomreaders"] },
    Operation { name: "random_write", others: &["randwr", "randwrite", "randomwriter", "randomwriters"] },
    Operation { name: "backward_read", others: &["bkwdrd", "bkwdread", "backwardsread", "readbackwards", "reverseread", "reversereaders"] },
    Operation { name: "record_rewrite", others: &["recrewr", "recordrewriters", "rewriterecord"] },
    Operation { name: "stride_read", others: &["striderd", "stridedread", "stridereaders"] },
    Operation { name: "fwrite", others: &["fwriter", "fwriters"] },
    Operation { name: "frewrite", others: &["refwrite", "refwriters"] },
    Operation { name: "fread", others: &["freader", "freaders"] },
    Operation { name: "freread", others: &["refread", "refreaders"] },
    Operation { name: "mixed", others: &["mixedworkload", "randommix"] },
    Operation { name: "pwrite", others: &["pwriters", "pwritewriters"] },
    Operation { name: "repwrite", others: &["repwriters"] },
    Operation { name: "pread", others: &["preaders", "preadreaders"] },
    Operation { name: "repread", others: &["repreaders"] },
    Operation { name: "pwritev", others: &["pwritevwriters"] },
    Operation { name: "repwritev", others: &[] },
    Operation { name: "preadv", others: &["preadvreaders"] },
    Operation { name: "repreadv", others: &[] },
];

/// Returns the name of one of IOzone's operations for any of its names: the one used here, IOzone's
/// column heading, the titles of its `-R` report (`Re-writer`), its throughput mode (`initial
/// writers`), or the comparator's (`randrd`).
///
/// Case, blanks, hyphens and underscores do not matter.
pub fn operation(name: &str) -> Option<&'static str> {
    let plain = |name: &str| -> String {
        name.chars()
            .filter(|c| !matches!(c, ' ' | '-' | '_'))
            .flat_map(char::to_lowercase)
            .collect()
    };
    let wanted = plain(name);
    let found = OPERATIONS.iter().find(|operation| {
        operation.others.contains(&wanted.as_str()) || plain(operation.name) == wanted
    })?;
    Some(found.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: &str = "              KB  reclen   write rewrite    read    reread    read   write    read  rewrite     \
                          read   fwrite frewrite   fread  freread";
    const WIDE: &str = "              kB  reclen    write  rewrite    read    reread    read     write     read   rewrite      \
                        read   fwrite frewrite    fread  freread";

    /// Prints a row as IOzone does: `None` for an operation that did not run, with the blanks of
    /// the version.
    fn print(narrow: bool, values: [Option<u64>; 13]) -> String {
        let Known {
            numbers, blanks, ..
        } = &KNOWN[usize::from(!narrow)];
        let cell = |(value, (width, blank)): (Option<u64>, (&usize, &usize))| match value {
            Some(value) => format!("{value:>width$}"),
            None => " ".repeat(*blank),
        };
        let cells: String = values
            .into_iter()
            .zip(numbers.iter().zip(blanks))
            .map(cell)
            .collect();
        format!("{:>16}{:>8}{cells}", 64, 4)
    }

    fn place(heading: &str, line: &str, ended: bool) -> Result<Cells, String> {
        let row: Vec<Word> = words(line.as_bytes()).collect();
        Layout::of_heading(heading.as_bytes())
            .unwrap()
            .place(row[0].end, &row[1..], ended)
    }

    /// Returns the values of a printed row as the reader sees them.
    fn back(narrow: bool, values: [Option<u64>; 13]) -> [Option<u64>; 13] {
        let cells = place(
            if narrow { NARROW } else { WIDE },
            &print(narrow, values),
            true,
        )
        .unwrap();
        assert_eq!(cells[0], Some(4));
        std::array::from_fn(|at| cells[at + 1])
    }

    #[test]
    fn headings_of_both_widths_are_known_exactly() {
        for heading in [NARROW, WIDE] {
            let layout = Layout::of_heading(heading.as_bytes()).unwrap();
            assert!(layout.exact && layout.operations.len() == 13);
            assert_eq!(layout.operations[4], Some("random_read"));
            assert_eq!(layout.operations[7], Some("record_rewrite"));
        }
        assert_eq!(Layout::of_heading(b"              kB  reclen"), None);
        let extended = format!("{WIDE}   pwrite repwrite   pread  repread");
        assert_eq!(
            Layout::of_heading(extended.as_bytes()).unwrap().operations[13..],
            ["pwrite", "repwrite", "pread", "repread"].map(Some)
        );
        let mapped = &WIDE[..WIDE.find("   fwrite").unwrap()];
        let layout = Layout::of_heading(mapped.as_bytes()).unwrap();
        assert!(layout.exact && layout.operations.len() == 9);
    }

    #[test]
    fn numbers_that_fill_their_columns_are_told_apart() {
        // Ten gigabytes a second and more through eight columns, as older versions print them on
        // newer machines.
        let values = [
            1_234_567, 16_107_243, 55_857_768, 64_000_000, 64_000_001, 34_389_688, 10_402_178,
            10_821_524, 15_972_885, 12_902_017, 15_972_886, 7_100_397, 64_000_002,
        ];
        let line = print(true, values.map(Some));
        assert!(words(line.as_bytes()).count() < 15, "{line}");
        assert_eq!(back(true, values.map(Some)), values.map(Some));
    }

    #[test]
    fn a_number_wider_than_its_column_pushes_the_rest() {
        let mut values = [Some(123_456); 13];
        values[4] = Some(1_234_567_890);
        values[8] = Some(9_876_543_210);
        values[6] = None;
        for narrow in [true, false] {
            assert_eq!(back(narrow, values), values);
        }
    }

    #[test]
    fn a_cut_number_is_left_out_and_a_whole_one_is_kept() {
        let line = print(false, [Some(7_100_397); 13]);
        let full = place(WIDE, &line, false).unwrap();
        assert_eq!(full[13], Some(7_100_397));
        let cut = place(WIDE, &line[..line.len() - 2], false).unwrap();
        assert_eq!((cut[12], cut[13]), (Some(7_100_397), None));
        let cut = place(WIDE, &line[..line.len() - 11], false).unwrap();
        assert_eq!((cut[11], cut[12]), (Some(7_100_397), None));
    }

    #[test]
    fn values_without_a_heading_are_refused() {
        assert!(place(WIDE, "              64       4  123", true).is_err());
        assert!(place(WIDE, &format!("{} 5", print(false, [Some(5); 13])), true).is_err());
        assert!(
            place(
                WIDE,
                "              64       4  99999999999999999999999",
                true
            )
            .is_err()
        );
    }

    proptest::proptest! {
        #[test]
        fn any_subset_of_operations_is_placed_right(
            narrow: bool,
            values in proptest::array::uniform13(proptest::option::of(1u64..9_999_999)),
        ) {
            proptest::prop_assert_eq!(back(narrow, values), values);
        }

        #[test]
        fn wide_numbers_of_a_full_row_are_placed_right(
            narrow: bool,
            values in proptest::array::uniform13(1u64..99_999_999),
        ) {
            proptest::prop_assert_eq!(back(narrow, values.map(Some)), values.map(Some));
        }

        #[test]
        fn no_line_panics(line in "[ 0-9]{0,200}", ended: bool) {
            let row: Vec<Word> = words(line.as_bytes()).collect();
            for heading in [NARROW, WIDE, "kB reclen write rewrite read pwrite"] {
                let _ = Layout::of_heading(heading.as_bytes()).unwrap().place(0, &row, ended);
            }
        }
    }

    #[test]
    fn every_name_means_one_operation() {
        for known in OPERATIONS {
            assert_eq!(operation(known.name), Some(known.name));
            for other in known.others {
                assert_eq!(operation(other), Some(known.name), "{other}");
            }
        }
    }

    #[test]
    fn the_names_of_the_2011_figure_and_its_comparator_are_known() {
        let figure = [
            "Write",
            "Re-write",
            "Read",
            "Re-read",
            "Random read",
            "Random write",
            "Backwards read",
            "Record rewrite",
            "Strided Read",
            "Fwrite",
            "Frewrite",
            "Fread",
            "Freread",
        ];
        let comparator = [
            "iwrite", "rewrite", "iread", "reread", "randrd", "randwr", "bkwdrd", "recrewr",
            "striderd", "fwrite", "frewrite", "fread", "freread",
        ];
        let columns = OPERATIONS.iter().map(|operation| operation.name);
        for ((figure, comparator), name) in figure.into_iter().zip(comparator).zip(columns) {
            assert_eq!(
                (operation(figure), operation(comparator)),
                (Some(name), Some(name))
            );
        }
        assert_eq!(operation("ALL"), None);
        assert_eq!(operation(""), None);
    }
}
