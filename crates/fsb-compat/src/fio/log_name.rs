//! The names of fio's logs: `PREFIX_bw.1.log`. The name alone says what a log measures, and of
//! which job.

use std::path::{Path, PathBuf};

/// The quantity of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogKind {
    Bandwidth,
    Rate,
    /// From submission to completion.
    Completion,
    /// With the submission.
    Total,
    Submission,
    /// Counts per duration.
    Counts,
}

/// The ends of names, the longest first.
static KINDS: [(&str, LogKind); 7] = [
    ("_clat_hist", LogKind::Counts),
    ("_hist", LogKind::Counts),
    ("_clat", LogKind::Completion),
    ("_slat", LogKind::Submission),
    ("_lat", LogKind::Total),
    ("_iops", LogKind::Rate),
    ("_bw", LogKind::Bandwidth),
];

/// The name of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogName {
    /// The directory and the prefix, which the logs of one execution share.
    pub prefix: PathBuf,
    pub kind: LogKind,
    /// The number of the job, from 1. Absent if one log holds all jobs.
    pub job: Option<u32>,
}

impl LogName {
    /// Parses the name of a file. Returns `None` for the name of something else.
    pub fn parse(path: &Path) -> Option<LogName> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".log")?;
        let numbered = stem
            .rsplit_once('.')
            .and_then(|(stem, job)| Some((stem, job.parse().ok()?)));
        let (stem, job) = numbered.map_or((stem, None), |(stem, job)| (stem, Some(job)));
        let (prefix, kind) = KINDS
            .iter()
            .find_map(|(end, kind)| Some((stem.strip_suffix(end)?, *kind)))?;
        Some(LogName {
            prefix: path.with_file_name(prefix),
            kind,
            job,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_quantity_and_job() {
        let name = |prefix: &str, kind, job| {
            Some(LogName {
                prefix: prefix.into(),
                kind,
                job,
            })
        };
        for (path, expected) in [
            ("a/w_bw.1.log", name("a/w", LogKind::Bandwidth, Some(1))),
            ("w_clat_hist.12.log", name("w", LogKind::Counts, Some(12))),
            ("w.2_lat.log", name("w.2", LogKind::Total, None)),
            ("w_x_slat.3.log", name("w_x", LogKind::Submission, Some(3))),
            ("w.log", None),
            ("w_bw.1.txt", None),
        ] {
            assert_eq!(LogName::parse(Path::new(path)), expected, "{path}");
        }
    }
}
