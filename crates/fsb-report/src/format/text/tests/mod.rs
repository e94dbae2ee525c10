mod comparison;
mod run;

use fsb_model::metric::{LATENCY_MAX, LATENCY_P50};

use super::tails;
use crate::report::Report;
use crate::run::Summary;
use crate::sample;

#[test]
fn tails_have_intervals_and_say_what_they_do_not_hold() {
    let (record, mut trials) = sample::run(&["ext4", "xfs"], 6);
    for trial in &mut trials {
        let noise = 1.0 + f64::from(trial.block) * 0.01;
        trial.metrics.retain(|metric| !metric.name.starts_with("latency"));
        trial.metrics.extend([LATENCY_P50.of(1e-3 * noise), LATENCY_MAX.of(50e-3 * noise)]);
    }
    let summary = Summary::of_run(&record, &trials);
    let text = tails(&Report::of_run(&summary, &trials), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        text.contains("  ext4") && text.contains("1.04 ms ±") && text.contains("53.0 ms\n"),
        "the longest of all: {text}"
    );
    assert!(text.contains("            –"), "no p99 is known: {text}");
    trials.iter_mut().for_each(|trial| trial.metrics.truncate(1));
    let summary = Summary::of_run(&record, &trials);
    assert!(tails(&Report::of_run(&summary, &trials), 80).contains("No trial recorded"));
}
