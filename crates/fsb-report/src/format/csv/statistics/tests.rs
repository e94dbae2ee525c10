use std::collections::HashMap;

use fsb_stats::compare::Document;

use super::*;
use crate::sample_sets::{compared, iozone, workloads};

/// LongTable by column.
fn parsed(document: &Document, detail: Option<&str>) -> Vec<HashMap<String, String>> {
    let text = render(Selection { document, detail });
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|line| line.expect("the table is CSV")).collect()
}

/// The only value of a line that has all of these.
fn value<'a>(lines: &'a [HashMap<String, String>], wanted: &[(&str, &str)]) -> &'a str {
    let fits = |line: &&HashMap<String, String>| wanted.iter().all(|(column, text)| line[*column] == *text);
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
        value(&lines, &[("operation", "write"), ("scope", "operation"), ("set", "ext4"), ("statistic", statistic)])
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
    assert_eq!((whole("estimate_verdict"), whole("estimate_method")), (judged.verdict.name(), "welch"));
    assert_eq!(whole("n"), pooled.n.to_string());
    let bytes = slice.bytes.to_string();
    let of_size = [
        ("operation", "write"),
        ("scope", "record_size"),
        ("record_size", &bytes),
        ("set", "xfs"),
        ("statistic", "sd"),
    ];
    assert_eq!(value(&lines, &of_size).parse().ok(), slice.classic.sets["xfs"].as_ref().unwrap().sd);
}

#[test]
fn every_value_of_every_run_is_there_once() {
    let document = compared(&iozone(&["xfs", "ext4"], 5, 2, 1 << 18));
    let lines = parsed(&document, None);
    let runs: Vec<_> = lines.iter().filter(|line| line["scope"] == "run").collect();
    let values =
        document.operations.iter().flat_map(|operation| &operation.cells).flat_map(|cell| cell.values.values());
    assert_eq!(runs.len(), values.map(Vec::len).sum::<usize>());
    let cell = &document.operations[1].cells[3];
    let (file, record) = (cell.file_size.unwrap().to_string(), cell.record_size.unwrap().to_string());
    let at = [("scope", "run"), ("operation", "rewrite"), ("file_size", &file), ("record_size", &record)];
    let third = [at.as_slice(), &[("set", "ext4"), ("run", "3")]].concat();
    assert_eq!(value(&lines, &third).parse(), Ok(cell.values["ext4"][2].value));
    assert!(lines.iter().all(|line| line["unit"] == "bytes_per_second" && line["metric"] == "throughput"));
    assert!(
        lines.iter().all(|line| (line["baseline"] == "xfs") == (line["set"] == "ext4" && compares(&line["statistic"])))
    );
}

fn compares(statistic: &str) -> bool {
    ["median_change", "t_", "slope", "estimate_", "grid_", "cell_"].iter().any(|start| statistic.starts_with(start))
}

#[test]
fn rows_without_a_value_are_omitted() {
    let lines = parsed(&compared(&iozone(&["xfs", "ext4"], 1, 1, 1 << 16)), None);
    assert!(lines.iter().all(|line| !line["value"].is_empty() && line["statistic"] != "estimate_ci95_lo"));
    assert!(lines.iter().any(|line| line["value"] == "not_judged"));
}

#[test]
fn latencies_stand_once_an_operation_and_detail_narrows() {
    let document = compared(&workloads(&["ext4", "xfs"], 6));
    let lines = parsed(&document, None);
    let of = |label: &str| {
        let quantiles = lines.iter().filter(|line| line["statistic"] == "latency_q0.99" && line["workload"] == label);
        quantiles.map(|line| line["unit"].as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of("read 1M, cold"), ["seconds", "seconds"]);
    let narrowed = parsed(&document, Some("read 1M, cold"));
    assert!(!narrowed.is_empty() && narrowed.iter().all(|line| line["workload"] == "read 1M, cold"));
}

#[test]
fn odd_names_survive() {
    let odd = "a \"b\", c\n<d>";
    let lines = parsed(&compared(&iozone(&["xfs", odd], 2, 1, 1 << 16)), None);
    assert!(lines.iter().any(|line| line["set"] == odd));
}
