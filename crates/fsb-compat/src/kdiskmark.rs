//! KDiskMark: its text report (File, Save). It runs fio and prints the mean of its loops.
//!
//! Written from its source and published reports (2.x and 3.x); not tried on its own output.

use std::io::BufRead;

use fsb_model::metric::{OPERATION_RATE, THROUGHPUT};
use fsb_model::set::{GapReason, Run};

use crate::draft::{Draft, Name, Position, Runs, rate, time};
use crate::fio::TOTAL_LATENCY_MEAN;
use crate::message;
use crate::text::{Line, Lines, fixed, size};
use crate::tool::{ReadError, Tool};

/// Reads KDiskMark's reports.
pub(crate) const TOOL: Tool = Tool {
    name: "kdiskmark",
    title: "KDiskMark",
    about: "text reports of 2.x and 3.x, by its source: one run per report, the mean of its loops",
    looks_for: "a line 'KDiskMark (VERSION): …'",
    values: "MB/s of 1000 KiB, IOPS; µs (lower is better)",
    repetition: "a report: the mean of its loops",
    recognise: |head| {
        head.split(|byte| *byte == b'\n')
            .any(|line| line.trim_ascii().starts_with(BANNER.as_bytes()))
    },
    read,
};

const BANNER: &str = "KDiskMark (";

/// KDiskMark divides fio's KiB/s by 1000 and calls the result MB/s.
const MEGABYTE: f64 = 1000.0 * 1024.0;

/// The resolution of a time in seconds: two digits of a microsecond.
const RESOLUTION: f64 = 1e-8;

const UNIT_REMARK: &str = "KDiskMark's MB/s is 1000 KiB a second, not the 1,000,000 bytes that its report says; fsb reads it so";

/// The section of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Read,
    Write,
    /// Reads and writes together, which has the mean of both.
    Mix,
}

/// A result, without the size of the file, which a later line has.
struct Row {
    line: u32,
    workload: String,
    operation: &'static str,
    record_size: u64,
    /// `None` if it is not a number: `nan`.
    megabytes: Option<f64>,
    iops: Option<f64>,
    microseconds: Option<f64>,
}

impl Row {
    fn is_whole(&self) -> bool {
        [self.megabytes, self.iops, self.microseconds]
            .iter()
            .all(Option::is_some)
    }
}

/// A report while its lines are read.
struct Report {
    draft: Draft,
    rows: Vec<Row>,
    file_size: Option<u64>,
    section: Option<Section>,
    is_whole: bool,
}

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut report = Report::new();
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(version) = text
            .strip_prefix(BANNER)
            .and_then(|rest| Some(rest.split_once(')')?.0))
        {
            runs.push(std::mem::replace(&mut report, Report::new()).finish()?)?;
            report.draft.run.version = Some(version.to_owned());
        } else {
            report.line(&text, &line);
        }
    }
    runs.push(report.finish()?)?;
    runs.finish(|| "it holds no result".to_owned())
}

impl Report {
    fn new() -> Self {
        let mut draft = Draft::new(TOOL.name);
        draft.run.clock_resolution = Some(RESOLUTION);
        Report {
            draft,
            rows: Vec::new(),
            file_size: None,
            section: None,
            is_whole: false,
        }
    }

    fn line(&mut self, text: &str, line: &Line) {
        if text.starts_with("[Read]") {
            self.section = Some(Section::Read);
        } else if text.starts_with("[Write]") {
            self.section = Some(Section::Write);
        } else if let Some(mix) = text.strip_prefix("[Mix]") {
            self.section = Some(Section::Mix);
            self.draft.setting(None, "mix", mix.trim());
        } else if let Some(profile) = text.strip_prefix("Profile:") {
            self.draft.setting(None, "profile", profile.trim());
            if profile.contains("Peak") {
                self.draft.remark(
                    line.number,
                    "the profile Peak prints the best of its loops, not their mean",
                );
            }
        } else if let Some(test) = text.strip_prefix("Test:") {
            self.is_whole = true;
            let (bytes, rest) = test.split_once(" (").unwrap_or((test, ""));
            self.file_size = size(bytes.trim());
            self.draft
                .setting(None, "loops", rest.split(')').next().unwrap_or_default());
            if let Some((_, times)) = rest.split_once('[') {
                self.draft
                    .setting(None, "times", times.trim_end_matches(']'));
            }
        } else if let (Some(section), true) = (self.section, text.contains("MB/s")) {
            let row = row(text, section, line.number);
            if !row.as_ref().is_some_and(Row::is_whole) {
                self.draft.remark(
                    line.number,
                    format_args!("no result, left out: '{}'", line.excerpt()),
                );
            }
            self.rows.extend(row);
        } else if let Some(message) = message::find(&[], line) {
            message.report(None, &mut self.draft);
        }
    }

    fn finish(mut self) -> Result<Draft, ReadError> {
        if self.rows.is_empty() {
            return Ok(self.draft);
        }
        self.draft.remark(None, UNIT_REMARK);
        if !self.is_whole {
            self.draft
                .remark(None, "no line 'Test:': the report is cut");
        }
        for row in &self.rows {
            let name = Name {
                workload: Some(&row.workload),
                operation: row.operation,
            };
            let place = Position {
                file_size: self.file_size,
                record_size: Some(row.record_size),
                line: row.line,
            };
            self.draft.add(
                name,
                &THROUGHPUT,
                "MB/s",
                place,
                printed(row.megabytes, |found| rate(found * MEGABYTE)),
            )?;
            self.draft.add(
                name,
                &OPERATION_RATE,
                "IOPS",
                place,
                printed(row.iops, rate),
            )?;
            let latency = printed(row.microseconds, |found| time(found / 1e6));
            self.draft
                .add(name, &TOTAL_LATENCY_MEAN, "us", place, latency)?;
        }
        Ok(self.draft)
    }
}

/// Returns the value of a printed number, or a gap if it is none.
fn printed(
    number: Option<f64>,
    value: impl Fn(f64) -> Result<f64, GapReason>,
) -> Result<f64, GapReason> {
    number.map_or(Err(GapReason::Unreadable), value)
}

/// Parses a result: `Random 4 KiB (Q= 32, T= 1): 0.326 MB/s [ 81.7 IOPS] < 391023.88 us>`.
fn row(text: &str, section: Section, line: u32) -> Option<Row> {
    let (work, rest) = text.split_once(" (Q=")?;
    let (queue, rest) = rest.split_once(", T=")?;
    let (threads, rest) = rest.split_once("):")?;
    let (megabytes, rest) = rest.split_once("MB/s [")?;
    let (iops, rest) = rest.split_once("IOPS] <")?;
    let microseconds = rest.strip_suffix("us>")?;
    let (pattern, block) = work.split_once(' ')?;
    let is_random = match pattern {
        "Sequential" => false,
        "Random" => true,
        _ => return None,
    };
    let number = |text: &str, places| fixed(text.trim(), places).map(|number| number.value);
    let count = |text: &str| text.trim().parse::<u32>().ok();
    Some(Row {
        line,
        workload: format!("Q{}T{}", count(queue)?, count(threads)?),
        operation: match (section, is_random) {
            (Section::Read, false) => "read",
            (Section::Read, true) => "random_read",
            (Section::Write, false) => "write",
            (Section::Write, true) => "random_write",
            (Section::Mix, false) => "mixed",
            (Section::Mix, true) => "random_mixed",
        },
        record_size: size(block.trim())?,
        megabytes: number(megabytes, 1..=3),
        iops: number(iops, 1..=2),
        microseconds: number(microseconds, 1..=3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report in the form of 3.2.0, with other numbers.
    const REPORT: &str = "\
                    KDiskMark (3.2.0): https://github.com/JonMagon/KDiskMark
     Flexible I/O Tester (fio-3.36): https://github.com/axboe/fio
--------------------------------------------------------------------------------
* MB/s = 1,000,000 bytes/s [SATA/600 = 600,000,000 bytes/s]
* KB = 1000 bytes, KiB = 1024 bytes

[Read]
Sequential   1 MiB (Q=  8, T= 1):   512.000 MB/s [    500.0 IOPS] < 15958.12 us>
Random       4 KiB (Q= 32, T= 1):    40.960 MB/s [  10240.0 IOPS] <  3120.40 us>

[Write]
Sequential   1 MiB (Q=  8, T= 1):     0.000 MB/s [      0.0 IOPS] <     0.00 us>

Profile: Default
   Test: 1 GiB (x5) [Measure: 5 sec / Interval: 5 sec]
   Date: 2026-02-03 04:05:06
     OS: x
";

    fn parse(text: &str) -> Vec<Run> {
        assert!((TOOL.recognise)(text.as_bytes()));
        let others = crate::TOOLS.iter().filter(|tool| tool.name != TOOL.name);
        assert!(
            others
                .clone()
                .all(|tool| !(tool.recognise)(text.as_bytes()))
        );
        read(&mut text.as_bytes()).unwrap()
    }

    #[test]
    fn a_megabyte_is_a_thousand_kibibytes() {
        let runs = parse(REPORT);
        let random = |metric: &str| {
            let series = runs[0]
                .series
                .iter()
                .find(|s| s.operation == "random_read" && s.metric == metric);
            series.unwrap().points[0]
        };
        // The bandwidth is that of the operations: 10240 of 4 KiB.
        assert_eq!(random("throughput").value, 10240.0 * 4096.0);
        assert_eq!(
            (
                random("operation_rate").value,
                random("operation_rate").line
            ),
            (10240.0, 9)
        );
        assert_eq!(random("total_latency_mean").value, 3120.40 / 1e6);
        assert_eq!(
            (
                random("throughput").file_size,
                random("throughput").record_size
            ),
            (Some(1 << 30), Some(4096))
        );
        assert_eq!(runs[0].series[0].workload.as_deref(), Some("Q8T1"));
        assert!(
            runs[0]
                .series
                .iter()
                .any(|series| series.operation == "write" && series.gaps.len() == 1)
        );
        assert_eq!(
            (runs[0].version.as_deref(), runs[0].warnings.len()),
            (Some("3.2.0"), 1)
        );
        assert_eq!(
            runs[0]
                .settings
                .iter()
                .find(|setting| setting.name == "loops")
                .unwrap()
                .value,
            "x5"
        );
    }

    #[test]
    fn each_report_is_a_run_and_the_best_of_loops_is_named() {
        let peak = REPORT.replace("Profile: Default", "Profile: Peak Performance");
        let runs = parse(&format!("{REPORT}{peak}"));
        assert_eq!(runs.len(), 2);
        assert!(
            runs[1]
                .warnings
                .iter()
                .any(|remark| remark.text.contains("best of its loops"))
        );
        let cut = parse(&REPORT[..REPORT.find("Profile").unwrap()].replace("40.960", "4x.960"));
        let remarks: Vec<_> = cut[0].warnings.iter().map(ToString::to_string).collect();
        assert!(
            remarks[0].starts_with("line 9: no result, left out")
                && remarks[2].contains("the report is cut"),
            "{remarks:?}"
        );
    }
}
