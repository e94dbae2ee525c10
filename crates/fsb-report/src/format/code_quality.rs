//! The code quality report of GitLab: an issue for each check that did not pass.
//!
//! Source: the documentation of GitLab, "Code Quality report format".

use std::io::{self, Write};

use flate2::Crc;
use serde::Serialize;

use super::member::Format;
use crate::check::{Check, CheckOutcome};
use crate::report::Report;
use crate::visible;

pub(super) const FORMAT: Format = Format {
    name: "code-quality",
    extension: "codequality.json",
    about: "code quality report of GitLab: an issue for each comparison that did not pass",
    binary: false,
    checks: true,
    write,
};

/// The file that defines the jobs of a pipeline. Every issue needs a file, and a benchmark has no
/// line of code.
const PIPELINE: &str = ".gitlab-ci.yml";

#[derive(Serialize)]
struct Issue {
    description: String,
    check_name: String,
    /// The same for the same check of every run, so that GitLab shows what a merge request changes.
    fingerprint: String,
    severity: &'static str,
    location: Location,
}

#[derive(Serialize)]
struct Location {
    path: &'static str,
    lines: Lines,
}

#[derive(Serialize)]
struct Lines {
    begin: u32,
}

fn write(report: &Report<'_>, output: &mut dyn Write) -> io::Result<()> {
    let checks = report.checks();
    let issues: Vec<Issue> = checks.iter().filter_map(issue).collect();
    serde_json::to_writer_pretty(&mut *output, &issues)?;
    output.write_all(b"\n")
}

fn issue(check: &Check) -> Option<Issue> {
    let severity = match check.outcome {
        CheckOutcome::Slower | CheckOutcome::SlowerAtSizes => "major",
        CheckOutcome::Lost(_) | CheckOutcome::Missing | CheckOutcome::CannotTell => "minor",
        CheckOutcome::NotJudged => "info",
        CheckOutcome::Passed | CheckOutcome::Acknowledged => return None,
    };
    Some(Issue {
        description: visible::line(&check.text).into_owned(),
        check_name: format!("fsb/{}", check.outcome.name()),
        fingerprint: fingerprint(check),
        severity,
        location: Location {
            path: PIPELINE,
            lines: Lines { begin: 1 },
        },
    })
}

/// Returns a checksum of each name.
fn fingerprint(check: &Check) -> String {
    let baseline = check.baseline.as_deref().unwrap_or_default();
    let names = [&check.case, &check.operation, &check.candidate, baseline];
    let sums = names.map(|name| {
        let mut sum = Crc::new();
        sum.update(name.as_bytes());
        format!("{:08x}", sum.sum())
    });
    sums.concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    #[test]
    fn issues_have_the_fields_that_gitlab_requires_and_fingerprints_of_their_own() {
        let read = |blocks| {
            let (record, trials) = sample::run(&["ext4", "xfs", "tmpfs"], blocks);
            let summary = Summary::of_run(&record, &trials);
            let text = FORMAT.render(&Report::of_run(&summary, &trials));
            let issues: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
            issues
        };
        let fingerprint =
            |issue: &serde_json::Value| issue["fingerprint"].as_str().expect("a text").to_owned();
        let issues = read(12);
        for issue in &issues {
            assert!(issue["description"].is_string() && issue["check_name"].is_string());
            assert!(issue["location"]["path"].is_string());
            assert_eq!(issue["location"]["lines"]["begin"], 1);
            let severities = ["info", "minor", "major", "critical", "blocker"];
            assert!(severities.contains(&issue["severity"].as_str().expect("a text")));
        }
        let all: BTreeSet<String> = issues.iter().map(fingerprint).collect();
        assert_eq!(all.len(), issues.len());
        let name = |issue: &serde_json::Value| issue["check_name"] == "fsb/slower";
        let slower = issues
            .iter()
            .find(|issue| name(issue))
            .expect("a slower case");
        let again = read(11);
        assert!(
            again
                .iter()
                .map(fingerprint)
                .any(|other| other == fingerprint(slower))
        );
    }
}
