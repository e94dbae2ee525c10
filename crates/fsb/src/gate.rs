//! Gates: what makes a comparison fail where that was asked for.

use fsb_analysis::Verdict;
use fsb_analysis::compare::{Document, Finding, Operation};

use crate::exit;
use crate::progress::say;

/// So many losses are told one by one.
const TOLD: usize = 10;

/// Fails where a set is slower than the baseline for sure and by more than matters: at an operation as a whole (the
/// verdict `slower`, from the runs, in the metric it is judged by), or in a finding whose whole interval lies beyond the smallest ratio that matters.
/// Probably slower does not fail: what is sure there may be too small to matter.
pub fn slower(document: &Document) -> u8 {
    let lost = losses(document);
    if lost.is_empty() {
        return passed(document);
    }
    lost.iter().take(TOLD).for_each(|text| say(&format!("fsb: {text}")));
    if lost.len() > TOLD {
        say(&format!("fsb: and {} more", lost.len() - TOLD));
    }
    say("fsb: --fail-if slower: failed");
    exit::GATE
}

/// A gate that could judge nothing has not been passed.
fn passed(document: &Document) -> u8 {
    let judged = |operation: &&Operation| {
        operation.estimate.against.values().flatten().any(|estimate| estimate.verdict != Verdict::NotJudged)
    };
    let primary = || document.operations.iter().filter(|operation| operation.primary);
    let (judged, all) = (primary().filter(judged).count(), primary().count());
    if judged == 0 {
        say(match document.withheld {
            true => "fsb: --fail-if slower: nothing could be judged by these runs",
            false => "fsb: --fail-if slower: nothing could be judged: at least 5 runs of each set are needed",
        });
        return exit::REQUEST;
    }
    if judged < all {
        say(&format!("fsb: --fail-if slower: {judged} of {all} operations could be judged"));
    }
    exit::DONE
}

fn losses(document: &Document) -> Vec<String> {
    let mut lost = Vec::new();
    for operation in document.operations.iter().filter(|operation| operation.primary) {
        for (set, estimate) in &operation.estimate.against {
            let Some(estimate) = estimate.as_ref().filter(|estimate| estimate.verdict == Verdict::Slower) else {
                continue;
            };
            let workload = operation.workload.as_deref().map(|workload| format!("{workload}: ")).unwrap_or_default();
            let interval =
                estimate.ci95.map_or_else(String::new, |[lo, hi]| format!(" [{} {}]", percent(lo), percent(hi)));
            lost.push(format!(
                "{set} is slower than {} at {workload}{} ({}): {} %{interval}",
                document.baseline,
                operation.operation,
                operation.metric,
                percent(estimate.ratio)
            ));
        }
    }
    let theta = document.settings.theta;
    let findings = document.findings.iter().filter(|found| !found.faster && beyond(found, theta));
    lost.extend(findings.map(|found| found.text.clone()));
    lost
}

/// Whether the interval lies wholly on one side, further from 1 than matters.
fn beyond(found: &Finding, theta: f64) -> bool {
    let least = theta.ln_1p();
    let [lo, hi] = found.ci95.map(f64::ln);
    hi < -least || lo > least
}

fn percent(ratio: f64) -> String {
    format!("{:+.1}", (ratio - 1.0) * 100.0)
}
