//! Published results of PostMark.

/// The table of Đorđević et al.: its title, and the facts that a reader must know.
pub const DORDEVIC: (&str, &str) = (
    "Beside the published results (Đorđević et al., tables 3 to 8)",
    "Bytes read and written, per second of a whole run of PostMark's: creation, transactions, deletion. The published \
     values were measured on one disk of its time, on a file system of 1 GB, with less memory than the traffic; only the \
     order of the file systems can be compared, not the rates.",
);

/// The results of Beňas 2011, section 5.4: as above.
pub const BENAS: (&str, &str) = (
    "Beside the published results (Beňas 2011, section 5.4)",
    "Bytes read and written and files created, per second of a whole run of PostMark's; files deleted, per second of the \
     deletion after the transactions. The published values are medians of five runs on a partition of 20 GiB of a disk of \
     its time; only the order of the file systems can be compared, not the rates.",
);

#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRate {
    /// `test 1: `, where there are several.
    pub test: &'static str,
    /// read, write, create, delete.
    pub operation: String,
    /// The label of the suite's workload.
    pub workload: &'static str,
    /// The name of our metric for it.
    pub metric: &'static str,
    /// As printed: ext3-writeback, reiserfs.
    pub file_system: String,
    /// Bytes or files a second.
    pub value: f64,
}

/// Test by test: how its rows begin, and the suite's label.
const TESTS: [(&str, &str); 3] = [
    ("test 1: ", "test 1: files of 1,000 to 100,000 bytes"),
    ("test 2: ", "test 2: files of 1 to 1,000 bytes"),
    ("test 3: ", "test 3: files of 1,000 to 300,000 bytes"),
];
/// The label of the other suite's workload.
const POOL: &str = "PostMark, files of 8 to 16 KiB";

/// Returns the read and written bytes of the three tests, in the order of the tables.
pub fn dordevic() -> Vec<PublishedRate> {
    rates(include_str!("dordevic.csv"), |row| {
        let test = row("test")?.parse::<usize>().ok()?.checked_sub(1)?;
        TESTS.get(test).copied()
    })
}

/// Returns the read and written bytes, and the created and deleted files.
pub fn benas() -> Vec<PublishedRate> {
    rates(include_str!("benas.csv"), |_| Some(("", POOL)))
}

/// Columns that are not file systems.
const OTHERS: [&str; 7] = ["test", "size_low_bytes", "size_high_bytes", "files", "transactions", "metric", "unit"];

/// Returns the rates of one of our tables. `test` returns the beginning of a row's name and the workload.
fn rates(
    table: &str,
    test: impl Fn(&dyn Fn(&str) -> Option<String>) -> Option<(&'static str, &'static str)>,
) -> Vec<PublishedRate> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head = reader.headers().cloned().unwrap_or_default();
    let mut rates = Vec::new();
    for record in reader.records().flatten() {
        let column = |name: &str| head.iter().position(|known| known == name).and_then(|at| record.get(at));
        let found = test(&|name| column(name).map(str::to_owned));
        let (Some((test, workload)), Some(operation), Some(unit)) = (found, column("metric"), column("unit")) else {
            continue;
        };
        let Some((metric, factor)) = metric_of(operation).zip(factor_of(unit)) else { continue };
        for (file_system, value) in head.iter().zip(&record).filter(|(name, _)| !OTHERS.contains(name)) {
            let Ok(value) = value.parse::<f64>() else { continue };
            let (operation, file_system) = (operation.to_owned(), file_system.to_owned());
            rates.push(PublishedRate { test, operation, workload, metric, file_system, value: value * factor });
        }
    }
    rates
}

/// Returns our metric for an operation. Deletion is the one after the transactions, because only that is as much faster
/// than creation as was published.
fn metric_of(operation: &str) -> Option<&'static str> {
    let known =
        [("read", "read_rate"), ("write", "write_rate"), ("create", "create_rate"), ("delete", "delete_alone_rate")];
    known.into_iter().find(|(name, _)| *name == operation).map(|(_, metric)| metric)
}

/// Returns the factor from a unit to bytes or files per second. PostMark's megabytes are of 1024 kilobytes since its
/// version 1.5.
fn factor_of(unit: &str) -> Option<f64> {
    match unit {
        "KB/s" => Some(1024.0),
        "MB/s" | "MiB/s" => Some(1_048_576.0),
        "files/s" => Some(1.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_number_is_there_in_base_units() {
        let dordevic = dordevic();
        assert_eq!(dordevic.len(), 6 * 5);
        let of = |rates: &[PublishedRate], row: &str, file_system: &str| {
            let named = |rate: &&PublishedRate| format!("{}{}", rate.test, rate.operation) == row;
            rates.iter().filter(named).find(|rate| rate.file_system == file_system).map(|rate| rate.value).unwrap()
        };
        assert_eq!(of(&dordevic, "test 1: read", "ext2"), 4.67 * 1_048_576.0);
        assert_eq!(of(&dordevic, "test 2: write", "ext3-journal"), 143.3 * 1024.0);
        assert_eq!(of(&dordevic, "test 3: write", "reiserfs"), 10.64 * 1_048_576.0);
        let benas = benas();
        assert_eq!(benas.len(), 4 * 4);
        assert_eq!(of(&benas, "delete", "ext4"), 9347.57);
    }
}
