//! `summary.csv`: one line per case and target, with its estimate and its comparison with the
//! baseline.

use std::io::{self, Write};

use super::csv::text;
use super::member::Format;
use crate::report::Report;
use crate::summary_line::{COLUMNS, Value, lines};

pub(super) const FORMAT: Format = Format {
    name: "summary-csv",
    extension: "summary.csv",
    about: "one line per case and target: estimate, change against the baseline, verdict (summary.csv)",
    binary: false,
    checks: false,
    write,
};

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    let mut writer = ::csv::WriterBuilder::new().from_writer(output);
    writer.write_record(COLUMNS.iter().map(|column| column.name))?;
    for line in lines(report) {
        writer.write_record(COLUMNS.iter().map(|column| field(&(column.value)(&line))))?;
    }
    writer.flush()
}

/// Numbers are in full precision: the shortest text that reads back as the same number.
fn field(value: &Value<'_>) -> String {
    match *value {
        Value::Empty => String::new(),
        Value::Text(found) => text(found).into_owned(),
        Value::Count(count) => count.to_string(),
        Value::Quantity(number)
        | Value::Ratio(number)
        | Value::Percent(number)
        | Value::Share(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Warning;

    use super::*;
    use crate::sample;
    use crate::sample_sets::{compared, iozone};
    use crate::summary::Summary;
    use crate::summary::headline::samples;

    /// Returns the fields of each line by the names of their columns.
    fn read(report: &Report<'_>) -> Vec<std::collections::HashMap<String, String>> {
        let table = FORMAT.render(report);
        let mut reader = ::csv::Reader::from_reader(table.as_bytes());
        reader
            .deserialize()
            .map(|line| line.expect("a line"))
            .collect()
    }

    #[test]
    fn a_run_has_one_line_per_case_and_target() {
        let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], 12);
        let summary = Summary::of_run(&record, &trials);
        let lines = read(&Report::of_run(&summary, &trials));
        assert_eq!(lines.len(), 3 * summary.cases.len());
        let (row, line) = (&summary.cases[0], &lines[1]);
        let against = row.cells[1].against.as_ref().expect("a comparison");
        assert_eq!(
            (&*line["label"], &*line["target"], &*line["baseline"]),
            (&*row.workload, "xfs", "ext4")
        );
        assert_eq!(
            (&*line["unit"], &*line["better"], &*line["n"]),
            ("bytes_per_second", "higher", "12")
        );
        assert_eq!(line["ratio"], against.ratio.to_string());
        assert_eq!(
            line["change_percent"],
            ((against.ratio - 1.0) * 100.0).to_string()
        );
        assert_eq!(
            (line["level"].clone(), &*line["verdict"]),
            (against.level.to_string(), against.verdict.name())
        );
        assert_eq!(
            (&*line["outcome"], &*line["leads"], &*line["letters"]),
            ("winner", "true", "a")
        );
        assert_eq!((&*lines[0]["ratio"], &*lines[0]["leads"]), ("", "false"));
        let states: Vec<&str> = lines.iter().map(|line| &*line["state"]).collect();
        assert!(states.contains(&"not_applicable"), "{states:?}");
    }

    #[test]
    fn workloads_that_the_budget_left_out_have_lines_without_values() {
        let (mut record, trials) = sample::run(&["ext4", "xfs"], 6);
        record.warnings.push(Warning::LeftOut {
            workloads: vec!["scan 4K, cold".to_owned()],
            held: 12,
            planned: 13,
            budget_seconds: 60.0,
            needed_seconds: 90.0,
        });
        let summary = Summary::of_run(&record, &trials);
        let lines = read(&Report::of_run(&summary, &trials));
        let [.., last] = lines.as_slice() else {
            panic!("no line")
        };
        assert_eq!(
            (&*last["label"], &*last["target"], &*last["state"]),
            ("scan 4K, cold", "xfs", "left_out")
        );
        assert_eq!(
            (&*last["metric"], &*last["unit"], &*last["estimate"]),
            ("", "", "")
        );
        let level = summary.trust.expect("a level").level.to_string();
        assert!(lines.iter().all(|line| line["trust"] == level), "{level}");
        assert!(
            lines[1]["mark"].ends_with(['*', '=', '?', '†', '~']),
            "{:?}",
            lines[1]
        );
    }

    #[test]
    fn an_emulated_run_has_estimates_only() {
        let (record, trials) = samples::emulated(&["ext4", "xfs"], 6);
        let summary = Summary::of_run(&record, &trials);
        for line in read(&Report::of_run(&summary, &trials)) {
            assert_eq!(
                (&*line["ratio"], &*line["verdict"], &*line["letters"]),
                ("", "", "")
            );
            assert_eq!(
                (&*line["outcome"], &*line["unjudged"]),
                ("not_judged", "emulated: a functional run")
            );
        }
    }

    #[test]
    fn a_comparison_has_one_line_per_operation_and_set() {
        let document = compared(&iozone(&["xfs", "ext4"], 5, 3, 1 << 20));
        let lines = read(&Report::of_comparison(&document, None));
        let against = document.operations[0].estimate.against["ext4"]
            .as_ref()
            .expect("a comparison");
        assert_eq!(
            (
                &*lines[0]["target"],
                &*lines[1]["target"],
                &*lines[1]["baseline"]
            ),
            ("xfs", "ext4", "xfs")
        );
        assert_eq!(
            (&*lines[1]["ratio"], &*lines[1]["n"]),
            (&*against.ratio.to_string(), "5")
        );
        assert_eq!(
            (&*lines[1]["verdict"], &*lines[1]["level"]),
            (against.verdict.name(), "0.95")
        );
        let one = read(&Report::of_comparison(&document, Some("write")));
        assert!(one.len() < lines.len() && one.iter().all(|line| line["operation"] == "write"));
    }
}
