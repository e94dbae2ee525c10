//! The text that filebench 1.5 prints: lines with the seconds since the start, the breakdown by
//! operation, and the summary.

use std::fmt::Write;

/// The result of one flow operation over all threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The name in the file.
    pub name: String,
    /// The number of times that it ran.
    pub operations: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Mean seconds of one.
    pub mean: f64,
    /// Seconds of the shortest one.
    pub least: f64,
    /// Seconds of the longest one.
    pub most: f64,
    /// The class that the summary counts it in.
    pub kind: OperationClass,
}

/// The class of an operation in the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationClass {
    /// Whether the operation reads data.
    Read,
    /// Whether the operation writes data.
    Write,
    /// Neither.
    Other,
}

/// filebench's megabyte.
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Returns the banner, which precedes everything else.
pub fn banner(program: &str) -> String {
    format!(
        "Filebench Version 1.5 ({program})\n\
         0.000: This is not filebench: {program} does what its workload language says and prints it in the same form\n"
    )
}

/// Returns a line with the seconds since the start in front.
pub fn moment(seconds: f64, message: &str) -> String {
    format!("{seconds:.3}: {message}\n")
}

/// Returns the breakdown and the summary of a run of `seconds`, printed at the moment `at`.
/// Operations are in the reverse order of their file, as in filebench.
pub fn results(at: f64, seconds: f64, lines: &[Line]) -> String {
    let mut text = moment(at, "Per-Operation Breakdown");
    let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    for line in lines.iter().rev() {
        let Line {
            name,
            operations,
            bytes,
            mean,
            least,
            most,
            ..
        } = line;
        let [rate, moved] = [*operations as f64, *bytes as f64 / MEGABYTE].map(per_second);
        let [mean, least, most] = [mean, least, most].map(|seconds| seconds * 1e3);
        let written = writeln!(
            text,
            "{name:<20} {operations}ops {rate:8.0}ops/s {moved:5.1}mb/s {mean:8.3}ms/op [{least:.3}ms - {most:5.3}ms]"
        );
        debug_assert!(written.is_ok(), "a text takes everything");
    }
    let operations: u64 = lines.iter().map(|line| line.operations).sum();
    let bytes: u64 = lines.iter().map(|line| line.bytes).sum();
    let of = |kind| {
        lines
            .iter()
            .filter(|line| line.kind == kind)
            .map(|line| line.operations)
            .sum::<u64>()
    };
    let [reads, writes] =
        [OperationClass::Read, OperationClass::Write].map(|kind| per_second(of(kind) as f64));
    let spent: f64 = lines
        .iter()
        .map(|line| line.mean * line.operations as f64)
        .sum();
    let mean = if operations > 0 {
        spent / operations as f64 * 1e3
    } else {
        0.0
    };
    let (rate, moved) = (
        per_second(operations as f64),
        per_second(bytes as f64 / MEGABYTE),
    );
    let summary = format!(
        "IO Summary: {operations:5} ops {rate:5.3} ops/s {reads:.0}/{writes:.0} rd/wr {moved:5.1}mb/s {mean:5.3}ms/op"
    );
    text += &moment(at, &summary);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(
        name: &str,
        operations: u64,
        bytes: u64,
        [mean, least, most]: [f64; 3],
        kind: OperationClass,
    ) -> Line {
        let [mean, least, most] = [mean, least, most].map(|ms: f64| ms / 1e3);
        Line {
            name: name.into(),
            operations,
            bytes,
            mean,
            least,
            most,
            kind,
        }
    }

    /// Three lines of the shipped output and their summary, to the character.
    #[test]
    fn the_lines_are_filebenchs_to_the_character() {
        let megabytes = |rate: f64| (rate * 5.0 * MEGABYTE) as u64;
        let text = results(
            6.017,
            5.0,
            &[
                line(
                    "deletefile1",
                    26_727,
                    0,
                    [0.134, 0.007, 12.459],
                    OperationClass::Other,
                ),
                line(
                    "appendfilerand2",
                    26_727,
                    megabytes(41.9),
                    [0.010, 0.002, 0.488],
                    OperationClass::Write,
                ),
                line(
                    "readfile4",
                    26_711,
                    megabytes(87.8),
                    [0.043, 0.001, 5.322],
                    OperationClass::Read,
                ),
            ],
        );
        let expected = "\
6.017: Per-Operation Breakdown
readfile4            26711ops     5342ops/s  87.8mb/s    0.043ms/op [0.001ms - 5.322ms]
appendfilerand2      26727ops     5345ops/s  41.9mb/s    0.010ms/op [0.002ms - 0.488ms]
deletefile1          26727ops     5345ops/s   0.0mb/s    0.134ms/op [0.007ms - 12.459ms]
6.017: IO Summary: 80165 ops 16033.000 ops/s 5342/5345 rd/wr 129.7mb/s 0.062ms/op
";
        assert_eq!(text, expected);
    }

    /// The reader accepts our output as output of filebench.
    #[test]
    fn the_results_are_read_again() {
        let text = banner("fsb 1")
            + &moment(0.001, "Varmail Version 3.0 personality successfully loaded")
            + &results(
                2.0,
                1.0,
                &[line(
                    "readfile1",
                    10,
                    1 << 20,
                    [0.5, 0.1, 0.9],
                    OperationClass::Read,
                )],
            );
        let runs = (super::super::TOOL.read)(&mut text.as_bytes()).unwrap();
        assert_eq!(runs.len(), 1);
        let named = |operation: &str| {
            runs[0]
                .series
                .iter()
                .filter(|series| series.operation == operation)
                .count()
        };
        assert_eq!(
            (named("total"), named("readfile1"), named("read")),
            (3, 3, 1)
        );
        assert_eq!(runs[0].version.as_deref(), Some("1.5 (fsb 1)"));
        assert!((super::super::TOOL.recognise)(text.as_bytes()));
    }

    #[test]
    fn zero_operations_print_no_division_by_zero() {
        let text = results(
            1.0,
            0.0,
            &[line("read1", 0, 0, [0.0; 3], OperationClass::Read)],
        );
        assert!(
            results(1.0, 2.0, &[]).contains("0 ops 0.000 ops/s 0/0 rd/wr"),
            "no zero is below 0"
        );
        assert!(
            text.contains("IO Summary:     0 ops 0.000 ops/s 0/0 rd/wr   0.0mb/s 0.000ms/op"),
            "{text}"
        );
    }
}
