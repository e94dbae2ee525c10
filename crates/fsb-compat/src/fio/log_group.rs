//! The logs of one execution of fio, which are one run: `w_bw.1.log`, `w_clat.1.log`, `w_bw.2.log`,
//! ….

use std::path::Path;

use fsb_model::set::{Remark, Run};

use super::log_name::{LogKind, LogName};
use crate::tool::{Problem, ReadError};

/// Groups files that one execution wrote, in the order of the first file of each group.
pub fn executions<P: AsRef<Path>>(files: &[P]) -> Vec<Vec<&Path>> {
    let mut groups: Vec<(Option<LogName>, Vec<&Path>)> = Vec::new();
    for path in files.iter().map(AsRef::as_ref) {
        let name = LogName::parse(path);
        match groups.iter_mut().find(|(known, _)| {
            name.as_ref()
                .zip(known.as_ref())
                .is_some_and(|(a, b)| a.prefix == b.prefix)
        }) {
            Some((_, files)) => files.push(path),
            None => groups.push((name, vec![path])),
        }
    }
    groups.into_iter().map(|(_, files)| files).collect()
}

/// Joins the runs of logs to one run. `refused` are the errors of logs without a value.
pub(crate) fn join(mut runs: Vec<Run>, refused: &[ReadError]) -> Option<Run> {
    // The operations of one log may be measured better than the histogram of another, which has
    // bins.
    runs.sort_by_cached_key(|run| {
        LogName::parse(Path::new(&run.path)).map(|name| (name.job, name.kind))
    });
    let mut joined = runs.first()?.clone();
    joined.warnings = runs.iter().flat_map(named).collect();
    for run in runs.into_iter().skip(1) {
        for series in run.series {
            if !joined.series.iter().any(|other| {
                (&other.workload, &other.operation, &other.metric)
                    == (&series.workload, &series.operation, &series.metric)
            }) {
                joined.series.push(series);
            }
        }
        let known = joined.timelines.len();
        for timeline in run.timelines {
            if !joined.timelines[..known].iter().any(|other| {
                (&other.workload, &other.operation, &other.metric)
                    == (&timeline.workload, &timeline.operation, &timeline.metric)
            }) {
                joined.timelines.push(timeline);
            }
        }
        for histogram in run.histograms {
            if !joined.histograms.iter().any(|other| {
                (&other.workload, &other.operation) == (&histogram.workload, &histogram.operation)
            }) {
                joined.histograms.push(histogram);
            }
        }
    }
    let refused = refused.iter().filter(|error| !is_usual(error));
    joined.warnings.extend(refused.map(|error| Remark {
        line: None,
        text: format!("no value: {error}"),
    }));
    Some(joined)
}

/// Returns whether this is the error of a log without submissions, as fio writes it for an engine
/// that has none.
fn is_usual(error: &ReadError) -> bool {
    let name = error.path.as_deref().and_then(LogName::parse);
    matches!(error.problem, Problem::Empty)
        && name.is_some_and(|name| name.kind == LogKind::Submission)
}

/// Returns the remarks about a log with its name, because the joined run has the path of another.
fn named(run: &Run) -> Vec<Remark> {
    let name = Path::new(&run.path)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    run.warnings
        .iter()
        .map(|remark| Remark {
            line: None,
            text: format!("{name}: {remark}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_with_one_prefix_are_one_execution() {
        let files = [
            "a/1_bw.1.log",
            "a/2_bw.1.log",
            "x.json",
            "a/1_clat.1.log",
            "b/1_bw.1.log",
            "x.json",
            "a/1_bw.2.log",
        ];
        let groups = executions(&files);
        let expected: [&[&str]; 5] = [
            &["a/1_bw.1.log", "a/1_clat.1.log", "a/1_bw.2.log"],
            &["a/2_bw.1.log"],
            &["x.json"],
            &["b/1_bw.1.log"],
            &["x.json"],
        ];
        assert_eq!(
            groups,
            expected.map(|group| group.iter().map(Path::new).collect::<Vec<_>>())
        );
    }
}
