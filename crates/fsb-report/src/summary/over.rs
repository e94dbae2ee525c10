//! The cost of a FUSE server over the file system beneath it, if the run has both.

use fsb_model::{Better, RunRecord};
use fsb_stats::Verdict;

use super::model::{Numbers, Workload};
use crate::show::{Change, counted, some_cases};

/// Returns the place of the target beneath the target `name`.
pub(crate) fn of_target(record: &RunRecord, name: &str) -> Option<usize> {
    let beneath = record.targets.get(name)?.over.as_ref()?;
    record
        .plan
        .targets
        .iter()
        .position(|target| target.name == *beneath)
}

/// Returns a sentence for each target with another one beneath it, such as `gocryptfs over ext4:
/// create 4K files, durable -62 % [-65 -59]; read 1M, cold -31 % [-33 -29]. No significant
/// difference in 2 cases.`
pub(crate) fn lines(summary: &Numbers) -> Vec<String> {
    if summary.unjudged.is_some() {
        return Vec::new();
    }
    let pairs = summary.targets.iter().enumerate();
    pairs
        .filter_map(|(place, target)| line(summary, place, target.over?))
        .collect()
}

fn line(summary: &Numbers, above: usize, beneath: usize) -> Option<String> {
    let judged: Vec<_> = summary
        .cases
        .iter()
        .filter(|case| case.withheld.is_none())
        .filter_map(|case| Some((case, case.ranking.comparison(beneath, above)?)))
        .filter(|(_, comparison)| comparison.verdict != Verdict::NotJudged)
        .collect();
    let (sure, open): (Vec<_>, Vec<_>) = judged
        .iter()
        .partition(|(_, comparison)| comparison.verdict.differs());
    let mut changes = Vec::new();
    for (case, comparison) in sure {
        let change = Change::from_comparison(comparison).text();
        changes.push(format!("{}{} {change}", case.workload, unit(case)));
    }
    let names = format!(
        "{} over {}",
        summary.targets[above].label(),
        summary.targets[beneath].label()
    );
    let unchanged = match open.len() {
        0 => String::new(),
        count => format!(" No significant difference in {}.", counted(count, "case")),
    };
    match changes.is_empty() {
        true if open.is_empty() => None,
        true => Some(format!("{names}:{}", unchanged.to_lowercase())),
        false => Some(format!("{names}: {}.{unchanged}", some_cases(&changes))),
    }
}

/// Returns the quantity that changes, if it is not a speed.
fn unit(case: &Workload) -> &'static str {
    if case.better == Better::Higher {
        ""
    } else {
        " (time)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    #[test]
    fn the_cost_over_the_target_beneath_is_one_sentence() {
        let (record, mut trials) = sample::run(&["ext4", "gocryptfs", "xfs"], 6);
        for trial in &mut trials {
            let shift = u32::from(trial.target == "xfs");
            let noise = 1.0 + 0.01 * f64::from((trial.block + shift) % 3);
            let speed = match trial.target.as_str() {
                "gocryptfs" => 50.0,
                _ => 100.0,
            };
            trial.metrics.truncate(1);
            if let Some(metric) = trial.metrics.first_mut() {
                metric.value = speed * noise;
            }
        }
        let of = |record: &RunRecord| lines(&Summary::of_run(record, &trials));
        assert_eq!(of(&record), Vec::<String>::new());
        let over = |record: &RunRecord, above: &str| {
            let mut record = record.clone();
            let target = record.targets.entry(above.to_owned()).or_default();
            target.over = Some("ext4".to_owned());
            record
        };
        let lines = of(&over(&record, "gocryptfs"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("gocryptfs over ext4: ") && lines[0].contains(" -50 % [-50 -50]"),
            "{lines:?}"
        );
        // Two targets of the same speed.
        let lines = of(&over(&record, "xfs"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("xfs over ext4: no significant difference in "),
            "{lines:?}"
        );
    }
}
