//! The trust in the numbers of a run, in one line, with the reasons.

use fsb_model::{Outcome, Phase, RunRecord, Warning};
use fsb_stats::{FEWEST_JUDGED, Noise};

use super::model::{Numbers, Trust, TrustLevel};
use super::trial_value::CompactTrial;
use super::withheld::{self, Withheld};
use super::{device, interference};
use crate::record_text::{unbacked_memory_help, unbacked_memory_text};
use crate::show::counted;

/// Returns the trust in the numbers. Returns `None` if the run measured nothing.
pub(super) fn assess(
    summary: &Numbers,
    record: &RunRecord,
    trials: &[CompactTrial],
) -> Option<Trust> {
    if summary.blocks == 0 || !summary.has_values() {
        return None;
    }
    let (level, found) = match (low(summary, record, trials), fair(summary, record, trials)) {
        (low, _) if !low.is_empty() => (TrustLevel::Low, low),
        (_, fair) if !fair.is_empty() => (TrustLevel::Fair, fair),
        _ => (
            TrustLevel::High,
            vec![Reason {
                text: quiet(trials),
                help: None,
            }],
        ),
    };
    let help = found[0].help.map(str::to_owned);
    Some(Trust {
        level,
        because: found.into_iter().map(|reason| reason.text).collect(),
        help,
    })
}

/// A reason for a level, with its remedy.
struct Reason {
    text: String,
    help: Option<&'static str>,
}

/// Returns reasons that share a remedy.
fn reasons(
    texts: impl IntoIterator<Item = String>,
    help: Option<&'static str>,
) -> impl Iterator<Item = Reason> {
    texts.into_iter().map(move |text| Reason { text, help })
}

/// The remedy for interference and noise.
const DOCTOR: Option<&str> = Some("fsb doctor shows what else is running");
/// The remedy for trials without a value.
const NOTES: Option<&str> = Some("fsb report --notes shows why");
/// Returns the cause of memory that the hypervisor does not back, after `before`, and its remedy.
fn unbacked(record: &RunRecord, before: &str) -> impl Iterator<Item = Reason> {
    withheld::unbacked_memory(record)
        .map(|cause| Reason {
            text: format!("{before}{}", unbacked_memory_text(cause)),
            help: unbacked_memory_help(cause),
        })
        .into_iter()
}

/// Returns whether the line of trust reports the condition, so that its warning need not be printed
/// first.
pub(super) fn reports(warning: &Warning) -> bool {
    matches!(
        warning,
        Warning::Concurrent { .. } | Warning::UnbackedMemory { .. } | Warning::DifferentMedia
    )
}

/// Returns the reasons why no case is judged, or why the numbers of a target alone are not
/// reliable.
fn low(summary: &Numbers, record: &RunRecord, trials: &[CompactTrial]) -> Vec<Reason> {
    let mut found: Vec<Reason> = reasons(summary.unjudged.clone(), None).collect();
    found.extend(withheld::of_run(record, trials).map(|why| Reason {
        text: why.to_text(),
        help: why.help(),
    }));
    if judges_nothing(summary) {
        found.extend(unbacked(record, ""));
        let most = interference::share(trials).filter(|share| share.most());
        found.extend(reasons(most.map(|share| share.words()), DOCTOR));
        found.extend(reasons(spoilt(summary), DOCTOR));
    }
    // A single block has no scatter.
    if summary.blocks == 1 || summary.is_comparison() && has_few_blocks(summary) {
        let are = if summary.blocks == 1 { "is" } else { "are" };
        let text = format!(
            "{} {are} too few to judge",
            counted(summary.blocks as usize, "block")
        );
        found.push(Reason { text, help: None });
    }
    found
}

fn has_few_blocks(summary: &Numbers) -> bool {
    (summary.blocks as usize) < FEWEST_JUDGED
}

/// Returns whether all cases are withheld, or there is one target alone.
fn judges_nothing(summary: &Numbers) -> bool {
    !summary.is_comparison()
        || summary
            .cases
            .iter()
            .all(|case| case.withheld.is_some() || !case.has_values())
}

/// Returns text such as `most trials were affected by interference or invalid at 1 of 12
/// workloads`.
fn spoilt(summary: &Numbers) -> Option<String> {
    let spoilt = summary
        .cases
        .iter()
        .filter(|case| matches!(case.withheld, Some(Withheld::Spoilt { .. })))
        .count();
    let all = counted(summary.cases.len(), "workload");
    (spoilt > 0).then(|| {
        format!("most trials were affected by interference or invalid at {spoilt} of {all}")
    })
}

fn fair(summary: &Numbers, record: &RunRecord, trials: &[CompactTrial]) -> Vec<Reason> {
    let mut found: Vec<Reason> = Vec::new();
    let memory = summary
        .cases
        .iter()
        .filter(|case| matches!(case.withheld, Some(Withheld::Memory { .. })))
        .count();
    if memory > 0 {
        let workloads = counted(summary.cases.len(), "workload");
        found.extend(unbacked(
            record,
            &format!("{memory} of {workloads} are not judged: "),
        ));
    }
    // Comparisons of such runs may still be judged: their unit is the run.
    if has_few_blocks(summary) {
        let text = format!(
            "{} are too few for an interval",
            counted(summary.blocks as usize, "block")
        );
        found.push(Reason { text, help: None });
    }
    found.extend(reasons(interference::warning_of_some(trials), DOCTOR));
    found.extend(reasons(spoilt(summary), DOCTOR));
    found.extend(reasons(lost(trials).map(words_of_lost), NOTES));
    let estimates = || summary.estimates();
    let cells = counted(estimates().count(), "cell");
    let unreliable = || estimates().filter(|estimate| estimate.noise() == Noise::Unreliable);
    let largest = unreliable().map(|estimate| estimate.cv).reduce(f64::max);
    let unreliable = largest.map(|cv| {
        let count = unreliable().count();
        let vary = if count == 1 { "varies" } else { "vary" };
        format!(
            "{count} of {cells} {vary} by up to {:.0} % (CV)",
            cv * 100.0
        )
    });
    let drifted = estimates()
        .filter(|estimate| estimate.significant_trend().is_some())
        .count();
    let drifted = (drifted > 0).then(|| format!("{drifted} of {cells} drifted"));
    let busy = trials
        .iter()
        .filter(|trial| trial.counts() && !trial.idle)
        .count();
    let busy = (busy > 0).then(|| {
        format!(
            "{} began on targets that were not idle",
            counted(busy, "trial")
        )
    });
    found.extend(reasons(
        [unreliable, drifted, busy].into_iter().flatten(),
        DOCTOR,
    ));
    let media =
        device::different_media(record).map(|_| "targets are on different media".to_owned());
    found.extend(reasons(media, None));
    found
}

/// Returns the number of trials without a value, and of all that should have one. Empty if none
/// lacks a value.
fn lost(trials: &[CompactTrial]) -> impl Iterator<Item = (usize, usize)> {
    let counted = || {
        trials
            .iter()
            .filter(|trial| trial.counts() && trial.outcome != Outcome::NotApplicable)
    };
    let lost = counted()
        .filter(|trial| matches!(trial.outcome, Outcome::Failed | Outcome::Invalid))
        .count();
    (lost > 0).then(|| (lost, counted().count())).into_iter()
}

fn words_of_lost((lost, all): (usize, usize)) -> String {
    let have = if lost == 1 { "has" } else { "have" };
    format!("{lost} of {} {have} no value", counted(all, "trial"))
}

/// Returns the reason for high trust.
fn quiet(trials: &[CompactTrial]) -> String {
    let measured = trials
        .iter()
        .filter(|trial| trial.phase == Phase::Measured && trial.counts())
        .count();
    let affected = interference::share(trials)
        .next()
        .map_or(0, |share| share.affected);
    let affected = if affected == 0 {
        "none".to_owned()
    } else {
        format!("only {affected}")
    };
    format!(
        "interference affected {affected} of {}",
        counted(measured, "trial")
    )
}

#[cfg(test)]
mod tests {
    use fsb_model::Interference;

    use super::*;
    use crate::sample;
    use crate::summary::Summary;

    fn line(change: impl FnOnce(&mut RunRecord, &mut Vec<fsb_model::Trial>)) -> String {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 8);
        change(&mut record, &mut trials);
        Summary::of_run(&record, &trials)
            .trust
            .map(|trust| trust.line())
            .unwrap_or_default()
    }

    fn affect(trials: &mut [fsb_model::Trial], every: usize) {
        let counting = trials.iter_mut().filter(|trial| trial.counts());
        counting
            .step_by(every)
            .for_each(|trial| trial.interference = vec![Interference::CpuSteal { share: 0.58 }]);
    }

    #[test]
    fn a_quiet_machine_is_trusted_and_a_busy_one_is_not() {
        let quiet = line(|_, _| ());
        assert!(quiet.starts_with("trust: "), "{quiet}");
        let busy = line(|_, trials| affect(trials, 1));
        assert!(
            busy.starts_with("trust: low, because CPU steal 58 % affected "),
            "{busy}"
        );
        let some = line(|_, trials| affect(trials, 5));
        assert!(
            some.starts_with("trust: fair, because CPU steal 58 % affected "),
            "{some}"
        );
    }

    #[test]
    fn a_concurrent_run_and_unbacked_memory_are_reasons() {
        let said = line(|record, _| record.warnings.push(sample::concurrent()));
        assert!(
            said.starts_with("trust: low, because another run measured at the same time"),
            "{said}"
        );
        let said = line(|record, _| record.warnings.push(sample::unbacked_memory()));
        assert!(
            said.starts_with(
                "trust: fair, because 7 of 12 workloads are not judged: guest memory was left"
            ),
            "{said}"
        );
        let (mut record, trials) = sample::run(&["ext4"], 8);
        record.warnings.push(sample::unbacked_memory());
        let said = Summary::of_run(&record, &trials)
            .trust
            .map(|trust| trust.line())
            .unwrap_or_default();
        assert!(
            said.starts_with("trust: low, because guest memory was left"),
            "{said}"
        );
    }

    #[test]
    fn lost_trials_and_few_blocks_are_reasons() {
        let said = line(|_, trials| {
            let mut counting = trials.iter_mut().filter(|trial| trial.counts());
            counting.next().unwrap().outcome = Outcome::Invalid;
        });
        assert!(
            said.starts_with("trust: fair, because 2 of ")
                && said.contains(" trials have no value"),
            "{said}"
        );
        let said = line(|_, trials| trials.retain(|trial| trial.block < 3));
        assert!(
            said.starts_with("trust: low, because 2 blocks are too few to judge"),
            "{said}"
        );
        let (record, mut trials) = sample::run(&["ext4"], 8);
        for (blocks, expected) in [
            (2, "fair, because 2 blocks are too few for an interval"),
            (1, "low, because 1 block is too few to judge"),
        ] {
            trials.retain(|trial| trial.block <= blocks);
            let said = Summary::of_run(&record, &trials)
                .trust
                .map(|trust| trust.line())
                .unwrap_or_default();
            assert!(said.starts_with(&format!("trust: {expected}")), "{said}");
        }
        assert_eq!(line(|_, trials| trials.clear()), "");
    }
}
