//! The operations of IOzone, in their order and with their sizes, as data: nothing runs here.

use super::options::{Means, Options, Test};

/// One pass over a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new file is written.
    Write,
    /// The file is written again.
    Rewrite,
    /// The file is read from its start.
    Read,
    /// The file is read again.
    Reread,
    /// Records are read in random order, each once.
    RandomRead,
    /// The records are written in random order, each once.
    RandomWrite,
    /// The records are read from the last to the first.
    BackwardRead,
    /// The first record is written again and again.
    RecordRewrite,
    /// Records are read with a stride.
    StrideRead,
    /// fwrite, into a new file or over an old one.
    Fwrite,
    /// fwrite again.
    Frewrite,
    Fread,
    /// fread again.
    Freread,
    /// Some processes read at random, the others write at random.
    Mix,
    /// pwrite; in throughput mode into an empty file.
    Pwrite,
    /// pwrite again.
    Repwrite,
    Pread,
    /// pread again.
    Repread,
}

impl Operation {
    /// Returns whether it needs a complete file.
    pub fn needs_file(self) -> bool {
        !self.makes_file() && self != Operation::RecordRewrite
    }

    /// Returns whether the file is complete after it, whatever it was before.
    pub fn makes_file(self) -> bool {
        matches!(
            self,
            Operation::Write | Operation::Fwrite | Operation::Pwrite
        )
    }

    /// Returns whether it changes the file.
    pub fn writes(self) -> bool {
        use Operation::*;
        self.makes_file()
            || matches!(
                self,
                Rewrite | RandomWrite | RecordRewrite | Frewrite | Mix | Repwrite
            )
    }

    /// Returns whether it uses C stdio.
    pub fn is_stream(self) -> bool {
        matches!(
            self,
            Operation::Fwrite | Operation::Frewrite | Operation::Fread | Operation::Freread
        )
    }
}

/// A row of the table, in kilobytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixRow {
    pub file: u64,
    pub record: u64,
}

impl MatrixRow {
    /// Returns whether the records fill the file.
    pub fn is_whole(self) -> bool {
        self.file.is_multiple_of(self.record)
    }
}

/// A file above this size, in kilobytes, gets no records below [`LARGE_RECORD`] in automatic mode.
const CROSSOVER: u64 = 16 * 1024;
/// In kilobytes.
const LARGE_RECORD: u64 = 64;

/// Returns the file sizes in kilobytes.
pub(super) fn file_sizes(options: &Options) -> Vec<u64> {
    let sizes = &options.file_sizes;
    match (options.auto, sizes.list.as_slice()) {
        (false, list) => vec![list.first().copied().unwrap_or(512)],
        (true, list) if list.len() > 1 => list.to_vec(),
        (true, list) => {
            let (least, most) = list.first().map_or((64, 512 * 1024), |size| (*size, *size));
            doubling(sizes.least.unwrap_or(least), sizes.most.unwrap_or(most))
        }
    }
}

/// Returns the record sizes in kilobytes, including those that a file is too small or too large
/// for.
pub(super) fn record_sizes(options: &Options) -> Vec<u64> {
    let sizes = &options.record_sizes;
    match (options.auto, sizes.list.as_slice()) {
        (_, list) if list.len() > 1 => list.to_vec(),
        (_, [one]) => vec![*one],
        (true, _) => automatic_records(options),
        (false, _) => vec![4],
    }
}

fn automatic_records(options: &Options) -> Vec<u64> {
    let sizes = &options.record_sizes;
    doubling(sizes.least.unwrap_or(4), sizes.most.unwrap_or(16 * 1024))
}

fn doubling(least: u64, most: u64) -> Vec<u64> {
    std::iter::successors(Some(least), |size| size.checked_mul(2))
        .take_while(|size| *size <= most)
        .collect()
}

/// Returns the rows of the table, in order. In throughput mode there is one pair of sizes.
pub fn rows(options: &Options) -> Vec<MatrixRow> {
    let chosen = !options.record_sizes.list.is_empty()
        || !options.file_sizes.list.is_empty()
        || options.record_sizes.least.is_some()
        || options.record_sizes.most.is_some();
    let skips = options.auto && !options.all_records && !chosen;
    let records = record_sizes(options);
    let of_file = |file: u64| {
        let least = if skips && file > CROSSOVER {
            LARGE_RECORD
        } else {
            0
        };
        records
            .clone()
            .into_iter()
            .filter(move |record| *record <= file && *record >= least)
            .map(move |record| MatrixRow { file, record })
    };
    file_sizes(options).into_iter().flat_map(of_file).collect()
}

/// Returns the record sizes that head the reports of `-R`: those of automatic mode if none was
/// chosen, whatever was measured.
pub(crate) fn report_records(options: &Options) -> Vec<u64> {
    match options.record_sizes.list.as_slice() {
        [] => automatic_records(options),
        _ => record_sizes(options),
    }
}

/// A column of the table, counted from the first after the record size.
pub type Column = usize;

/// The number of columns.
pub const COLUMNS: usize = 17;

/// A part of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Runs this operation and prints its number in this column.
    Do(Operation, Column),
    /// Runs this operation without printing its rate.
    Silently(Operation),
    /// Prints a zero without running the operation.
    Zero(Column),
    /// Prints blanks for a test that was not chosen.
    Blank(Test),
}

/// Returns the pieces of a row, in order.
pub fn pieces(options: &Options) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let tests = match (options.read_write_only, options.extension) {
        (true, _) => 2,
        (false, false) => 8,
        (false, true) => Test::ALL.len(),
    };
    for test in Test::ALL.into_iter().take(tests) {
        let stream = matches!(test, Test::Fwrite | Test::Fread);
        let beyond = matches!(test, Test::Mix | Test::Pwrite | Test::Pread);
        if beyond && options.means != Means::Calls {
            continue;
        }
        if stream && options.means != Means::Calls {
            // The tables of mapped and asynchronous I/O lack these columns, except for one blank.
            if test == Test::Fwrite && !options.tests.is_empty() {
                pieces.push(Piece::Blank(test));
            }
        } else if options.tests.wants(test) {
            pieces.extend(of_test(test, options.no_retest));
        } else {
            pieces.push(Piece::Blank(test));
        }
    }
    pieces
}

fn of_test(test: Test, no_retest: bool) -> Vec<Piece> {
    use Operation::*;
    let pair = |first, second, column| {
        let again = if no_retest {
            Piece::Zero(column + 1)
        } else {
            Piece::Do(second, column + 1)
        };
        vec![Piece::Do(first, column), again]
    };
    match test {
        Test::Write => pair(Write, Rewrite, 0),
        Test::Read => pair(Read, Reread, 2),
        Test::Random => vec![Piece::Do(RandomRead, 4), Piece::Do(RandomWrite, 5)],
        // Without -+n the operation runs twice and is printed once.
        Test::Backward if no_retest => vec![Piece::Do(BackwardRead, 6)],
        Test::Backward => vec![Piece::Do(BackwardRead, 6), Piece::Silently(BackwardRead)],
        Test::RecordRewrite => vec![Piece::Do(Operation::RecordRewrite, 7)],
        Test::Stride => vec![Piece::Do(StrideRead, 8)],
        Test::Fwrite => pair(Fwrite, Frewrite, 9),
        Test::Fread => pair(Fread, Freread, 11),
        Test::Pwrite => pair(Pwrite, Repwrite, 13),
        Test::Pread => pair(Pread, Repread, 15),
        // IOzone's table has no mix.
        Test::Mix => Vec::new(),
    }
}

/// Returns the numbers of processes that run together, one run after another.
pub fn counts(options: &Options) -> Vec<u32> {
    if !options.counts.is_empty() {
        return options.counts.clone();
    }
    let least = options.least_processes.unwrap_or(1);
    (least..=options.most_processes.unwrap_or(least)).collect()
}

/// Returns the operations of throughput mode, in order.
pub fn throughput(options: &Options) -> Vec<Operation> {
    use Operation::*;
    const ORDER: [(Test, Operation, bool); 13] = [
        (Test::Write, Write, false),
        (Test::Write, Rewrite, true),
        (Test::Read, Read, false),
        (Test::Read, Reread, true),
        (Test::Backward, BackwardRead, false),
        (Test::Stride, StrideRead, false),
        (Test::Random, RandomRead, false),
        (Test::Mix, Mix, false),
        (Test::Random, RandomWrite, false),
        (Test::Pwrite, Pwrite, false),
        (Test::Pread, Pread, false),
        (Test::Fwrite, Fwrite, false),
        (Test::Fread, Fread, false),
    ];
    let done = |(test, operation, again): &(Test, Operation, bool)| {
        let stream = operation.is_stream() && options.means != Means::Calls;
        options.tests.wants(*test) && !(*again && options.no_retest) && !stream
    };
    ORDER
        .iter()
        .filter(|entry| done(entry))
        .map(|(_, operation, _)| *operation)
        .collect()
}

/// Returns the files that will be used: one, or one for each process.
pub fn files(options: &Options) -> Vec<std::path::PathBuf> {
    if !options.throughput() {
        return vec![options.file.clone()];
    }
    let most = counts(options).into_iter().max().unwrap_or(1);
    if !options.files.is_empty() {
        return options.files.clone();
    }
    (0..most)
        .map(|rank| format!("iozone.DUMMY.{rank}").into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iozone::parse::{CommandLine, parse};

    fn options(line: &str) -> Options {
        match parse(line.split_whitespace().map(Into::into), line) {
            Ok(CommandLine::Run(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Rows of IOzone's own output: file size and record size.
    fn rows_of(text: &str) -> Vec<MatrixRow> {
        let words = |line: &str| -> Option<Vec<u64>> {
            line.split_whitespace()
                .map(|word| word.parse().ok())
                .collect()
        };
        let rows = text
            .lines()
            .filter_map(words)
            .filter(|words| words.len() > 3);
        rows.map(|words| MatrixRow {
            file: words[0],
            record: words[1],
        })
        .collect()
    }

    #[test]
    fn rows_are_those_of_the_real_tool_for_the_same_command() {
        let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"));
        let mut compared = 0;
        for folder in [
            "tool-output",
            "iozone-here/ext3",
            "iozone-here/ext4",
            "iozone-2010/ext4",
            "iozone-2010/xfs",
        ] {
            for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
                let text =
                    String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned();
                let Some(command) = text
                    .lines()
                    .find_map(|line| line.trim().strip_prefix("Command line used: "))
                else {
                    continue;
                };
                let line = command.split_once(' ').unwrap().1;
                if line.contains("-t ") {
                    continue;
                }
                assert_eq!(
                    rows(&options(line)),
                    rows_of(&text),
                    "{}",
                    entry.path().display()
                );
                compared += 1;
            }
        }
        assert!(compared >= 20, "only {compared} outputs were compared");
    }

    #[test]
    fn automatic_mode_leaves_small_records_of_large_files_out_unless_told_otherwise() {
        let smallest = |line: &str, file: u64| {
            let rows = rows(&options(line))
                .into_iter()
                .filter(|row| row.file == file);
            rows.map(|row| row.record).min().unwrap()
        };
        assert_eq!(smallest("-a", 16 * 1024), 4);
        assert_eq!(smallest("-a", 32 * 1024), 64);
        assert_eq!(smallest("-az", 512 * 1024), 4);
        assert_eq!(smallest("-A", 512 * 1024), 4);
        assert_eq!(smallest("-a -s 64m", 64 * 1024), 4);
        assert_eq!(smallest("-a -y 8 -g 64m", 64 * 1024), 8);
        assert_eq!(smallest("-a -q 128 -g 64m", 64 * 1024), 4);
    }

    #[test]
    fn unselected_tests_are_blank_and_unrepeated_ones_zero() {
        use Operation::*;
        let blank = [
            Test::Random,
            Test::Backward,
            Test::RecordRewrite,
            Test::Stride,
            Test::Fwrite,
            Test::Fread,
        ];
        let mut expected = vec![
            Piece::Do(Write, 0),
            Piece::Zero(1),
            Piece::Do(Read, 2),
            Piece::Zero(3),
        ];
        expected.extend(blank.map(Piece::Blank));
        assert_eq!(pieces(&options("-i 0 -i 1 -+n")), expected);
        let all = pieces(&options("-a"));
        let told: Vec<_> = all
            .iter()
            .filter_map(|piece| {
                if let Piece::Do(_, column) = piece {
                    Some(*column)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(told, (0..13).collect::<Vec<_>>());
        assert_eq!(
            all.iter()
                .filter(|piece| matches!(piece, Piece::Silently(BackwardRead)))
                .count(),
            1
        );
        assert_eq!(pieces(&options("-A")).len(), 4);
        assert_eq!(
            pieces(&options("-B")).last(),
            Some(&Piece::Do(StrideRead, 8))
        );
        assert_eq!(
            pieces(&options("-B -i 0")).last(),
            Some(&Piece::Blank(Test::Fwrite))
        );
    }

    #[test]
    fn the_extension_adds_pwrite_and_pread() {
        use Operation::*;
        let all = pieces(&options("-a"));
        let extended = pieces(&options("-a -E"));
        assert_eq!(extended[..all.len()], all);
        let more = [
            Piece::Do(Pwrite, 13),
            Piece::Do(Repwrite, 14),
            Piece::Do(Pread, 15),
            Piece::Do(Repread, 16),
        ];
        assert_eq!(extended[all.len()..], more);
        assert_eq!(extended.len(), all.len() + COLUMNS - 13);
        // Through a mapping IOzone leaves them out.
        assert_eq!(pieces(&options("-B -E")), pieces(&options("-B")));
        let chosen = pieces(&options("-E -+n -i 0 -i 10"));
        let end = [
            Piece::Blank(Test::Mix),
            Piece::Blank(Test::Pwrite),
            Piece::Do(Pread, 15),
            Piece::Zero(16),
        ];
        assert_eq!(chosen[chosen.len() - 4..], end);
    }

    #[test]
    fn throughput_mode_runs_in_its_own_order() {
        use Operation::*;
        assert_eq!(
            throughput(&options("-t 2 -i 0 -i 1 -i 2 -i 8")),
            [Write, Rewrite, Read, Reread, RandomRead, Mix, RandomWrite]
        );
        assert_eq!(throughput(&options("-t 2 -+n -i 0 -i 1")), [Write, Read]);
        assert_eq!(throughput(&options("-t 2")).len(), 13);
        assert_eq!(throughput(&options("-t 2 -B")).len(), 11);
        assert_eq!(counts(&options("-l 2 -u 4")), [2, 3, 4]);
        assert_eq!(counts(&options("-u 3")), [1, 2, 3]);
        assert_eq!(counts(&options("-t 4 -t 2")), [4, 2]);
        assert_eq!(files(&options("-t 2"))[1].to_str(), Some("iozone.DUMMY.1"));
    }
}
