//! Published rates of IOzone's operations on ReiserFS, ext3, JFS and XFS (Horváth 2006).

/// The title of the table, and the facts that a reader must know.
pub const TITLE: (&str, &str) = (
    "Beside the published results (Horváth 2006, 4 GiB in records of 128 KiB)",
    "Bytes a second; a published megabyte is read as 1,048,576 bytes. The published values are single runs of IOzone \
     on a disk of 2006, in a machine with 3 GiB of memory; in this run writes are durable and reads are cold. Compare \
     only the order of the file systems, not the rates.",
);

#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRate {
    /// The name of the operation as printed: `sequential write`.
    pub operation: String,
    /// The name of our workload.
    pub workload: &'static str,
    pub file_system: String,
    /// Bytes a second.
    pub value: f64,
}

/// The name of the operation as printed, and the workload of fsb.
const OPERATIONS: [(&str, &str); 6] = [
    ("sequential write", "write"),
    ("rewrite", "rewrite"),
    ("read", "read"),
    ("reread", "reread"),
    ("random read", "random-read"),
    ("random write", "random-write"),
];

/// Returns all rates, in the order of the table.
pub fn published() -> Vec<PublishedRate> {
    let mut reader = csv::Reader::from_reader(include_str!("published.csv").as_bytes());
    let head = reader.headers().cloned().unwrap_or_default();
    let mut rates = Vec::new();
    for record in reader.records().flatten() {
        let Some((operation, workload)) = OPERATIONS
            .into_iter()
            .find(|(printed, _)| record.get(0) == Some(printed))
        else {
            continue;
        };
        // After the operation and the unit.
        for (file_system, value) in head.iter().zip(&record).skip(2) {
            let Ok(megabytes) = value.parse::<f64>() else {
                continue;
            };
            rates.push(PublishedRate {
                operation: operation.to_owned(),
                workload,
                file_system: file_system.to_owned(),
                value: megabytes * 1_048_576.0,
            });
        }
    }
    rates
}

/// The title of the first comparison, and the facts that a reader must know.
pub const FIRST_TITLE: (&str, &str) = (
    "Beside the published first comparison (Horváth 2006, files in memory)",
    "Means over files of 64 KiB to 1 GiB in records of 128 KiB, in this run over those that it measured. The article \
     names the rates in its text, as means for this record size, and calls the rates of reading equal. It does not \
     say which records and files its two percentages are of, nor which of ext3 and JFS writes faster at random; from \
     its advice against ext3 it is JFS. A published megabyte is read as 1,048,576 bytes. Compare only the order of the \
     file systems, not the rates.",
);

/// The record size of the first comparison.
pub const FIRST_RECORD: u64 = 128 << 10;

/// One number of the first comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FirstClaim {
    /// The name of our workload.
    pub operation: &'static str,
    pub file_system: &'static str,
    pub value: FirstValue,
}

/// The number of a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FirstValue {
    /// Printed megabytes a second.
    Rate(f64),
    /// Printed percentage by which it is faster than another file system.
    FasterThan(&'static str, f64),
}

/// The numbers of the first comparison, in the order of the text.
pub const FIRST: [FirstClaim; 12] = {
    const fn rate(
        operation: &'static str,
        file_system: &'static str,
        megabytes: f64,
    ) -> FirstClaim {
        FirstClaim {
            operation,
            file_system,
            value: FirstValue::Rate(megabytes),
        }
    }
    const fn faster(
        operation: &'static str,
        file_system: &'static str,
        than: &'static str,
        percent: f64,
    ) -> FirstClaim {
        FirstClaim {
            operation,
            file_system,
            value: FirstValue::FasterThan(than, percent),
        }
    }
    [
        faster("random-read", "reiserfs", "xfs", 13.0),
        faster("random-read", "ext3", "xfs", 13.0),
        faster("random-read", "jfs", "xfs", 13.0),
        faster("random-write", "jfs", "ext3", 36.0),
        rate("write", "ext3", 360.0),
        rate("write", "xfs", 828.0),
        rate("write", "reiserfs", 676.0),
        rate("write", "jfs", 639.0),
        rate("read", "ext3", 2460.0),
        rate("read", "xfs", 2460.0),
        rate("read", "reiserfs", 2460.0),
        rate("read", "jfs", 2460.0),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_rate_is_there_in_base_units() {
        let rates = published();
        assert_eq!(rates.len(), 6 * 4);
        let of = |operation: &str, file_system: &str| {
            let found = rates
                .iter()
                .find(|rate| rate.operation == operation && rate.file_system == file_system);
            found.map(|rate| rate.value)
        };
        assert_eq!(of("random write", "ext3"), Some(55.8 * 1_048_576.0));
        assert_eq!(
            of("sequential write", "reiserfs"),
            Some(113.0 * 1_048_576.0)
        );
    }
}
