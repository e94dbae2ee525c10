//! Published times of copying and deleting files (Fedorchuk 2008).

/// The title of the table, and the facts that a reader must know.
pub const TITLE: (&str, &str) = (
    "Beside the published results (Fedorchuk 2008)",
    "Minutes and seconds. The published times are single runs with the author's own files on disks of 2008, on a \
     partition and on RAID-0. This run generates sets of the same sizes, copies them all from memory, where he copied \
     from another partition, and each of them within the target as he did, and stops the clock when all data is on \
     the device. He found that the music, the film and the image are each deleted in less than the second that \
     his clock resolves. With --scale the sets and their times are smaller. Compare only the order of the file \
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

/// The workloads that delete one of the sets of large files. All of them took less than a second,
/// so that the article has no times of them.
pub const TOO_SHORT: [&str; 3] = ["delete music", "delete avi", "delete iso"];

/// One of the article's figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The number and the subject.
    pub title: String,
    /// The labels of the suite's workloads.
    pub workloads: Vec<String>,
    /// The configurations whose printed values it shows.
    pub configurations: Vec<String>,
    /// The configurations that are shown for comparison; empty for all targets.
    pub targets: Vec<String>,
}

/// Returns the figures. Figures 1 to 5 show one test of all file systems but ext2, figures 6 and 7
/// ext2 beside the others, on a partition and on an array. In figures 4 and 5 the article leaves
/// out XFS on a partition, which took many times as long as all others.
pub fn figures() -> Vec<Figure> {
    /// The workloads of figures 1 to 5.
    const TESTS: [&str; 5] = [
        "copy music",
        "copy avi",
        "copy iso",
        "copy portage",
        "delete portage",
    ];
    let mut all: Vec<String> = Vec::new();
    for time in published() {
        if !all.contains(&time.configuration) {
            all.push(time.configuration);
        }
    }
    let mut figures = Vec::new();
    for (number, test) in (1..).zip(TESTS) {
        let mut configurations = all.clone();
        configurations
            .retain(|name| !(test.ends_with("portage") && name.starts_with("XFS, defaults")));
        figures.push(Figure {
            title: format!("Figure {number}, {test}"),
            workloads: vec![test.to_owned()],
            configurations,
            targets: Vec::new(),
        });
    }
    for (number, place, is_on_array) in [(6, "a partition", false), (7, "RAID-0", true)] {
        let mut configurations = all.clone();
        configurations.retain(|name| name.contains("RAID") == is_on_array);
        let mut shown = configurations.clone();
        shown.retain(|name| !name.starts_with("XFS, defaults"));
        figures.push(Figure {
            title: format!("Figure {number}, copies within {place}"),
            workloads: PARTS.map(str::to_owned).into(),
            configurations: shown,
            targets: configurations,
        });
    }
    figures
}

/// Returns the file system of a configuration, its mount options, and whether it is on an array.
pub fn configuration(name: &str) -> (String, Vec<String>, bool) {
    let mut words = name.split(", ");
    let fs = match words.next().unwrap_or_default() {
        "reiser" => "reiserfs".to_owned(),
        other => other.to_lowercase(),
    };
    let mut options = Vec::new();
    let mut is_on_array = false;
    for word in words {
        match word {
            "RAID" => is_on_array = true,
            "notail" => options.extend(["notail", "noatime"].map(str::to_owned)),
            mode if fs == "ext3" => options.push(format!("data={mode}")),
            _ => {}
        }
    }
    if fs == "reiserfs" && is_on_array {
        options.extend(["notail", "noatime"].map(str::to_owned));
    }
    (fs, options, is_on_array)
}

/// Returns all times, in the order of the table. A workload of [`TOO_SHORT`] has a time that is not
/// a number.
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
        for workload in TOO_SHORT {
            times.push(PublishedTime {
                configuration: configuration.to_owned(),
                workload: workload.to_owned(),
                seconds: f64::NAN,
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
        assert_eq!(times.len(), 15 * (7 + TOO_SHORT.len()));
        let of = |configuration: &str, workload: &str| {
            let found = times
                .iter()
                .find(|time| time.configuration == configuration && time.workload == workload);
            found.map(|time| time.seconds)
        };
        assert_eq!(of("ext3, ordered", "copy all"), Some(277.0));
        assert_eq!(of("XFS, defaults 1", "copy portage"), Some(1013.0));
        assert_eq!(of("ext2, RAID", "delete all"), Some(13.0));
        assert!(of("ext2, RAID", "delete avi").is_some_and(f64::is_nan));
    }

    #[test]
    fn configurations_are_file_systems_with_options() {
        let text = |name: &str| {
            let (fs, options, is_on_array) = configuration(name);
            format!("{fs} {} {is_on_array}", options.join(","))
        };
        assert_eq!(text("ext3, ordered"), "ext3 data=ordered false");
        assert_eq!(text("ext3, RAID, journal"), "ext3 data=journal true");
        assert_eq!(text("reiser, RAID"), "reiserfs notail,noatime true");
        assert_eq!(text("XFS, defaults 1"), "xfs  false");
    }

    #[test]
    fn figures_are_of_tests_and_configurations_of_the_table() {
        let times = published();
        let figures = figures();
        assert_eq!(figures.len(), 7);
        for figure in &figures {
            for (workload, configuration) in figure.workloads.iter().flat_map(|workload| {
                figure
                    .configurations
                    .iter()
                    .map(move |name| (workload, name))
            }) {
                assert!(
                    times.iter().any(|time| time.workload == *workload
                        && time.configuration == *configuration
                        && time.seconds > 0.0),
                    "{workload} {configuration}"
                );
            }
        }
        assert!(
            !figures[3]
                .configurations
                .iter()
                .any(|name| name.contains("XFS, defaults"))
        );
        assert_eq!(figures[6].targets.len(), 6);
    }
}
