//! Real IOzone results as sets. (Reading foreign files is `fsb-compat`'s, which this crate must not know.)

use std::path::Path;

use fsb_model::set::{Point, Run, Series, Set};
use fsb_model::stop::Analyses;
use fsb_model::{Better, Unit};

pub const OPERATIONS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random_read",
    "random_write",
    "backward_read",
    "record_rewrite",
    "stride_read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];

/// The runs in a directory of the test data, by name of the file.
pub fn runs(directory: &str) -> Vec<Run> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(directory);
    let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| run(&std::fs::read_to_string(file).unwrap())).collect()
}

pub fn set(name: &str, runs: Vec<Run>) -> Set {
    Set { name: name.to_owned(), pairing: None, analyses: Analyses::default(), runs }
}

fn run(text: &str) -> Run {
    let mut series: Vec<Series> = OPERATIONS.iter().map(|operation| column(operation)).collect();
    for line in text.lines() {
        let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
        let Some(numbers) = numbers.filter(|numbers| numbers.len() == 15) else { continue };
        let (file_size, record_size) = (Some(numbers[0] * 1024), Some(numbers[1] * 1024));
        for (series, rate) in series.iter_mut().zip(&numbers[2..]).filter(|(_, rate)| **rate > 0) {
            series.points.push(Point { file_size, record_size, value: *rate as f64 * 1024.0, line: 0 });
        }
    }
    Run { tool: "iozone".to_owned(), series, ..Run::default() }
}

fn column(operation: &str) -> Series {
    Series {
        workload: None,
        operation: operation.to_owned(),
        metric: "throughput".to_owned(),
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        found_unit: "kB/s".to_owned(),
        points: Vec::new(),
        gaps: Vec::new(),
    }
}
