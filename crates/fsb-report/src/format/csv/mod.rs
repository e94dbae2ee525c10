//! Tables in long form, for R, pandas and a spreadsheet: of a run every trial, of a comparison
//! every statistic.

mod statistics;
mod trials;

use std::io::{self, Write};

use fsb_stats::compare::{Document, Operation};
use trials::write_trials;

use super::member::Format;
use crate::operation::Selection;
use crate::report::Report;

pub(in crate::format) use statistics::statistics;
pub(in crate::format) use trials::{TRIAL_COLUMNS, text, trial_records};

pub(super) const FORMAT: Format = Format {
    name: "csv",
    extension: "csv",
    about: "every trial in long form: rates and latencies, one line each (trials.csv)",
    binary: false,
    checks: false,
    write,
};

/// Returns the values of an operation, one line each: the set, the run with its file, the sizes and
/// the value. The samples that values are means of follow those of their set, with numbers.
///
/// The sets list the file of each run only if each run has one file.
pub fn values(document: &Document, operation: &Operation) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let head = [
        "set",
        "run",
        "path",
        "file_size",
        "record_size",
        "value",
        "unit",
        "sample",
    ];
    writer
        .write_record(head)
        .expect("a vector takes every record");
    let size = |size: Option<u64>| size.map(|size| size.to_string()).unwrap_or_default();
    for set in &document.sets {
        for cell in &operation.cells {
            for value in cell.values.get(&set.name).into_iter().flatten() {
                let record = [
                    text(&set.name).into_owned(),
                    (value.run + 1).to_string(),
                    set.files
                        .get(value.run)
                        .filter(|_| set.files.len() == set.runs)
                        .map(String::as_str)
                        .map(text)
                        .unwrap_or_default()
                        .into_owned(),
                    size(cell.file_size),
                    size(cell.record_size),
                    value.value.to_string(),
                    operation.unit.name().to_owned(),
                    String::new(),
                ];
                writer
                    .write_record(record)
                    .expect("a vector takes every record");
            }
        }
        let samples = operation.samples.get(&set.name).into_iter().flatten();
        for (number, value) in (1..).zip(samples) {
            let (name, value, number) = (text(&set.name), value.to_string(), number.to_string());
            let unit = operation.unit.name();
            writer
                .write_record([&*name, "", "", "", "", &value, unit, &number])
                .expect("a vector takes every record");
        }
    }
    String::from_utf8_lossy(&writer.into_inner().expect("a vector never fails to flush"))
        .into_owned()
}

/// Writes the whole table.
fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    match report {
        Report::Run {
            summary, trials, ..
        } => write_trials(trials, summary, output),
        Report::Comparison {
            document, detail, ..
        } => output.write_all(
            statistics(Selection {
                document,
                detail: *detail,
            })
            .as_bytes(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use fsb_model::run::Risk;
    use fsb_model::{RunRecord, Trial};
    use fsb_stats::compare::Document;

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone, workloads};
    use crate::summary::{CompactTrial, Summary};

    /// LongTable by column.
    fn parsed(document: &Document, detail: Option<&str>) -> Vec<HashMap<String, String>> {
        let text = statistics(Selection { document, detail });
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        reader
            .deserialize()
            .map(|line| line.expect("the table is CSV"))
            .collect()
    }

    /// Returns the only value of a line that has all of these.
    fn value<'a>(lines: &'a [HashMap<String, String>], wanted: &[(&str, &str)]) -> &'a str {
        let fits = |line: &&HashMap<String, String>| {
            wanted.iter().all(|(column, text)| line[*column] == *text)
        };
        let found: Vec<_> = lines.iter().filter(fits).collect();
        assert_eq!(found.len(), 1, "{wanted:?}");
        &found[0]["value"]
    }

    #[test]
    fn every_number_reads_back_to_the_last_digit() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 18));
        let lines = parsed(&document, None);
        let operation = &document.operations[0];
        let pooled = operation.classic.sets["ext4"].as_ref().unwrap();
        let against = operation.classic.against["ext4"].as_ref().unwrap();
        let judged = operation.estimate.against["ext4"].as_ref().unwrap();
        let slice = &operation.by_record_size[1];
        let whole = |statistic: &str| {
            value(
                &lines,
                &[
                    ("operation", "write"),
                    ("scope", "operation"),
                    ("set", "ext4"),
                    ("statistic", statistic),
                ],
            )
        };
        for (statistic, expected) in [
            ("mean", pooled.mean),
            ("ci90_hi", pooled.ci90.unwrap()[1]),
            ("q3", pooled.q3),
            ("median_change", against.median_change),
            ("slope_se", against.slope_se.unwrap()),
            ("estimate_ratio", judged.ratio),
            ("estimate_ci95_lo", judged.ci95.unwrap()[0]),
        ] {
            assert_eq!(whole(statistic).parse(), Ok(expected), "{statistic}");
        }
        assert_eq!(
            (whole("estimate_verdict"), whole("estimate_method")),
            (judged.verdict.name(), "welch")
        );
        assert_eq!(whole("n"), pooled.n.to_string());
        let bytes = slice.bytes.to_string();
        let of_size = [
            ("operation", "write"),
            ("scope", "record_size"),
            ("record_size", &bytes),
            ("set", "xfs"),
            ("statistic", "sd"),
        ];
        assert_eq!(
            value(&lines, &of_size).parse().ok(),
            slice.classic.sets["xfs"].as_ref().unwrap().sd
        );
    }

    #[test]
    fn every_value_of_every_run_is_there_once() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 18));
        let lines = parsed(&document, None);
        let runs: Vec<_> = lines.iter().filter(|line| line["scope"] == "run").collect();
        let values = document
            .operations
            .iter()
            .flat_map(|operation| &operation.cells)
            .flat_map(|cell| cell.values.values());
        assert_eq!(runs.len(), values.map(Vec::len).sum::<usize>());
        let cell = &document.operations[1].cells[3];
        let (file, record) = (
            cell.file_size.unwrap().to_string(),
            cell.record_size.unwrap().to_string(),
        );
        let at = [
            ("scope", "run"),
            ("operation", "rewrite"),
            ("file_size", &file),
            ("record_size", &record),
        ];
        let third = [at.as_slice(), &[("set", "ext4"), ("run", "3")]].concat();
        assert_eq!(
            value(&lines, &third).parse(),
            Ok(cell.values["ext4"][2].value)
        );
        assert!(
            lines
                .iter()
                .all(|line| line["unit"] == "bytes_per_second" && line["metric"] == "throughput")
        );
        assert!(lines.iter().all(|line| (line["baseline"] == "xfs")
            == (line["set"] == "ext4" && compares(&line["statistic"]))));
    }

    fn compares(statistic: &str) -> bool {
        [
            "median_change",
            "t_",
            "slope",
            "estimate_",
            "grid_",
            "cell_",
        ]
        .iter()
        .any(|start| statistic.starts_with(start))
    }

    #[test]
    fn rows_without_a_value_are_omitted() {
        let lines = parsed(&compared(&iozone(&["xfs", "ext4"], 1, 1, 1 << 16)), None);
        assert!(
            lines
                .iter()
                .all(|line| !line["value"].is_empty() && line["statistic"] != "estimate_ci95_lo")
        );
        assert!(lines.iter().any(|line| line["value"] == "not_judged"));
    }

    #[test]
    fn latencies_stand_once_an_operation_and_detail_narrows() {
        let document = compared(&workloads(&["ext4", "xfs"], 6));
        let lines = parsed(&document, None);
        let of = |label: &str| {
            let quantiles = lines
                .iter()
                .filter(|line| line["statistic"] == "latency_q0.99" && line["workload"] == label);
            quantiles
                .map(|line| line["unit"].as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(of("read 1M, cold"), ["seconds", "seconds"]);
        let narrowed = parsed(&document, Some("read 1M, cold"));
        assert!(
            !narrowed.is_empty()
                && narrowed
                    .iter()
                    .all(|line| line["workload"] == "read 1M, cold")
        );
    }

    #[test]
    fn odd_names_survive() {
        let odd = "a \"b\", c\n<d>";
        let lines = parsed(&compared(&iozone(&["xfs", odd], 2, 1, 1 << 16)), None);
        assert!(lines.iter().any(|line| line["set"] == odd));
    }

    fn table(record: &RunRecord, trials: &[Trial]) -> String {
        let mut text = Vec::new();
        write_trials(
            &CompactTrial::all(trials),
            &Summary::of_run(record, trials),
            &mut text,
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    }

    fn rows(
        record: &RunRecord,
        trials: &[Trial],
    ) -> Vec<std::collections::BTreeMap<String, String>> {
        let text = table(record, trials);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert_eq!(
            reader.headers().unwrap().iter().collect::<Vec<_>>(),
            TRIAL_COLUMNS
        );
        reader.deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn every_rate_and_latency_of_measured_trials_is_there_to_the_last_digit() {
        let (record, trials) = sample::run(&["ext4", "xfs"], 5);
        let rows = rows(&record, &trials);
        for trial in &trials {
            let own: Vec<_> = rows
                .iter()
                .filter(|row| row["order"] == trial.order.to_string())
                .map(|row| {
                    (
                        row["metric"].as_str(),
                        row["value"].parse::<f64>().unwrap(),
                        row["outcome"].as_str(),
                    )
                })
                .collect();
            let expected: Vec<_> = trial.metrics[..4]
                .iter()
                .map(|m| (m.name.as_str(), m.value, "ok"))
                .collect();
            assert_eq!(own, expected, "costs are left out");
        }
        assert_eq!(rows[0]["kernel"], "6.18.44");
        assert_eq!(
            (
                rows[0]["file_size"].as_str(),
                rows[0]["record_size"].as_str()
            ),
            ("268435456", "1048576")
        );
        assert_eq!(
            (rows[0]["durability"].as_str(), rows[0]["cache"].as_str()),
            ("end", "any")
        );
    }

    #[test]
    fn a_trial_without_a_value_has_one_line_with_its_reason() {
        let (record, trials) = sample::run(&["ext4", "xfs", "btrfs"], 5);
        let rows = rows(&record, &trials);
        let lost: Vec<_> = rows.iter().filter(|row| row["outcome"] != "ok").collect();
        let [lost] = lost.as_slice() else {
            panic!("{lost:?}")
        };
        assert_eq!(
            lost["outcome"],
            "failed: write to /target/f0000: No space left on device (ENOSPC)"
        );
        assert_eq!(
            (lost["metric"].as_str(), lost["value"].as_str()),
            ("throughput", "")
        );
        assert_eq!(lost["unit"], "bytes_per_second");
    }

    #[test]
    fn warm_up_and_superseded_trials_are_left_out() {
        let (record, mut trials) = sample::run(&["ext4"], 2);
        trials.truncate(2);
        trials[0].superseded = true;
        trials[1].phase = fsb_model::Phase::Warmup;
        assert_eq!(table(&record, &trials).lines().count(), 1);
    }

    #[test]
    fn odd_names_and_texts_survive() {
        let (record, mut trials) = sample::run(&["ext4"], 1);
        trials.truncate(1);
        trials[0].target = "a,\"b\"\nc".to_owned();
        trials[0].params.insert("file_size".to_owned(), "4K".into());
        trials[0].params.remove("threads");
        let rows = rows(&record, &trials);
        assert_eq!(rows[0]["target"], "a,\"b\"\nc");
        assert_eq!(
            (rows[0]["file_size"].as_str(), rows[0]["threads"].as_str()),
            ("4096", "")
        );
    }

    #[test]
    fn each_line_of_an_unjudged_run_says_so() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 1);
        record.emulated = true;
        let text = table(&record, &trials);
        let mut lines = text.lines();
        assert!(
            lines
                .next()
                .unwrap()
                .ends_with(",durability,slice,unsafe,unjudged")
        );
        assert!(
            lines.clone().count() > 8
                && lines.all(|line| line.ends_with(",emulated: a functional run"))
        );
    }

    #[test]
    fn lines_of_unsafe_targets_name_the_cause() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 2);
        let risk = |cause: &str| Risk {
            cause: cause.to_owned(),
            loss: "a power failure may lose synced data".to_owned(),
        };
        record.targets.get_mut("xfs").unwrap().risks = vec![risk("nobarrier"), risk("write cache")];
        for row in rows(&record, &trials) {
            assert_eq!(
                row["unsafe"],
                if row["target"] == "xfs" {
                    "nobarrier, write cache"
                } else {
                    ""
                }
            );
        }
    }
}
