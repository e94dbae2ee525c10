//! Published times of copying and deleting files (Fedorchuk 2008).

/// The title of the table, and the facts that a reader must know.
pub const TITLE: (&str, &str) = (
    "Beside the published results (Fedorchuk 2008)",
    "Minutes and seconds. The published times are single runs with the author's own files on disks of 2008, on a \
     partition and on RAID-0. This run generates sets of the same sizes, copies them all from memory, where he copied \
     from another partition, and each of them within the target as he did, and stops the clock when all data is on \
     the device. With --scale the sets and their times are smaller. Compare only the order of the file \
     systems, not the times.",
);

/// The workload that copies all sets at once, which the article compares with the sum of the single
/// copies.
pub const ALL: &str = "copy all";
/// The workloads that copy one set each.
pub const PARTS: [&str; 4] = ["copy music", "copy portage", "copy avi", "copy iso"];
/// The name of their sum.
pub const SUM: &str = "single copies";

#[derive(Debug, Clone, PartialEq)]
pub struct PublishedTime {
    /// The configuration as printed, such as `ext3, ordered`.
    pub configuration: String,
    /// The label of the suite's workload: `copy all`.
    pub workload: String,
    pub seconds: f64,
}

/// Returns all times, in the order of the table.
pub fn published() -> Vec<PublishedTime> {
    let mut reader = csv::Reader::from_reader(include_str!("published.csv").as_bytes());
    let head = reader.headers().cloned().unwrap_or_default();
    let mut times = Vec::new();
    for record in reader.records().flatten() {
        let mut fields = head.iter().zip(&record);
        let Some((_, configuration)) = fields.next() else {
            continue;
        };
        for (test, time) in fields {
            let Some(seconds) = seconds(time) else {
                continue;
            };
            let (configuration, workload) = (configuration.to_owned(), test.replace('_', " "));
            times.push(PublishedTime {
                configuration,
                workload,
                seconds,
            });
        }
    }
    times
}

/// Parses `04:37`.
fn seconds(text: &str) -> Option<f64> {
    let (minutes, seconds) = text.split_once(':')?;
    Some(f64::from(
        minutes.parse::<u32>().ok()? * 60 + seconds.parse::<u32>().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_time_is_there_in_seconds() {
        let times = published();
        assert_eq!(times.len(), 15 * 7);
        let of = |configuration: &str, workload: &str| {
            let found = times
                .iter()
                .find(|time| time.configuration == configuration && time.workload == workload);
            found.map(|time| time.seconds)
        };
        assert_eq!(of("ext3, ordered", "copy all"), Some(277.0));
        assert_eq!(of("XFS, defaults 1", "copy portage"), Some(1013.0));
        assert_eq!(of("ext2, RAID", "delete all"), Some(13.0));
    }
}
