//! How far the numbers of a run can be trusted, in one line, and why.

use fsb_analysis::{FEWEST_JUDGED, Noise};
use fsb_model::{Outcome, Phase, RunRecord, Warning};

use super::shown::ShownTrial;
use super::summary::{Summary, Trust, TrustLevel};
use super::withheld::{self, Withheld};
use super::{interference, media};
use crate::show::counted;

/// Where more of the trials than this were disturbed, or have no value, the numbers are less sure than they look.
const SOME: f64 = 0.1;

/// Of a run that measured something.
pub(super) fn of(summary: &Summary, record: &RunRecord, trials: &[ShownTrial]) -> Option<Trust> {
    if summary.blocks == 0 || !summary.has_values() {
        return None;
    }
    let mut found = low(summary, record, trials);
    found.extend(fair(summary, record, trials));
    if found.is_empty() {
        found.push((TrustLevel::High, quiet(summary, trials)));
    }
    // The sort keeps the order of equals.
    found.sort_by_key(|(level, _)| *level);
    let level = found[0].0;
    let because = found.into_iter().filter(|(of, _)| *of == level).map(|(_, why)| why).collect();
    Some(Trust { level, because })
}

/// Whether the line of trust reports the condition, so that its warning need not be printed first.
pub(super) fn reports(warning: &Warning) -> bool {
    matches!(warning, Warning::Concurrent { .. } | Warning::UnbackedMemory { .. } | Warning::DifferentMedia)
}

/// Reasons why no case is judged, or why a target alone tells little.
fn low(summary: &Summary, record: &RunRecord, trials: &[ShownTrial]) -> Vec<(TrustLevel, String)> {
    let mut found: Vec<String> = summary.unjudged.clone().into_iter().collect();
    found.extend(withheld::of_run(record, trials).map(|why| why.to_text()));
    if judges_nothing(summary) {
        found.extend(withheld::memory(record));
        found.extend(interference::share(trials).filter(|share| share.most()).map(|share| share.words()));
        found.extend(spoilt(summary));
    }
    // A single block has no scatter, so that a target alone has no interval either.
    if summary.blocks == 1 || summary.is_comparison() && (summary.blocks as usize) < FEWEST_JUDGED {
        let are = if summary.blocks == 1 { "is" } else { "are" };
        found.push(format!("{} {are} too few to judge", counted(summary.blocks as usize, "block")));
    }
    found.into_iter().map(|why| (TrustLevel::Low, why)).collect()
}

/// Whether all cases are withheld, or there is one target alone.
fn judges_nothing(summary: &Summary) -> bool {
    !summary.is_comparison() || summary.rows.iter().all(|row| row.withheld.is_some() || !row.has_values())
}

/// `most trials were disturbed or invalid at 1 of 12 workloads`.
fn spoilt(summary: &Summary) -> Option<String> {
    let spoilt = summary.rows.iter().filter(|row| matches!(row.withheld, Some(Withheld::Spoilt { .. }))).count();
    let all = counted(summary.rows.len(), "workload");
    (spoilt > 0).then(|| format!("most trials were disturbed or invalid at {spoilt} of {all}"))
}

fn fair(summary: &Summary, record: &RunRecord, trials: &[ShownTrial]) -> Vec<(TrustLevel, String)> {
    let mut found: Vec<String> = Vec::new();
    let memory = summary.rows.iter().filter(|row| matches!(row.withheld, Some(Withheld::Memory { .. }))).count();
    if let Some(why) = withheld::memory(record).filter(|_| memory > 0) {
        found.push(format!("{memory} of {} are not judged: {why}", counted(summary.rows.len(), "workload")));
    }
    found.extend(interference::share(trials).filter(|share| share.of_all() > SOME).map(|share| share.words()));
    found.extend(spoilt(summary));
    found.extend(lost(trials).map(words_of_lost));
    let estimates = || summary.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.estimate.as_ref());
    let cells = estimates().count();
    let unreliable = estimates().filter(|estimate| estimate.noise() == Noise::Unreliable).count();
    if unreliable > 0 {
        let vary = if unreliable == 1 { "varies" } else { "vary" };
        found.push(format!("{unreliable} of {} {vary} by more than 10 %", counted(cells, "cell")));
    }
    let drifted = estimates().filter(|estimate| estimate.significant_trend().is_some()).count();
    if drifted > 0 {
        found.push(format!("{drifted} of {} drifted", counted(cells, "cell")));
    }
    let restless = trials.iter().filter(|trial| trial.counts() && !trial.at_rest).count();
    if restless > 0 {
        found.push(format!("{} began on targets that were not at rest", counted(restless, "trial")));
    }
    if media::differ(record).is_some() {
        found.push("targets lie on different media".to_owned());
    }
    found.into_iter().map(|why| (TrustLevel::Fair, why)).collect()
}

/// Trials without a value, of all that were to have one.
fn lost(trials: &[ShownTrial]) -> impl Iterator<Item = (usize, usize)> {
    let counted = || trials.iter().filter(|trial| trial.counts() && trial.outcome != Outcome::NotApplicable);
    let lost = counted().filter(|trial| matches!(trial.outcome, Outcome::Failed | Outcome::Invalid)).count();
    (lost > 0).then(|| (lost, counted().count())).into_iter()
}

fn words_of_lost((lost, all): (usize, usize)) -> String {
    let have = if lost == 1 { "has" } else { "have" };
    format!("{lost} of {} {have} no value", counted(all, "trial"))
}

/// What stands where nothing was met.
fn quiet(summary: &Summary, trials: &[ShownTrial]) -> String {
    let measured = trials.iter().filter(|trial| trial.phase == Phase::Measured && trial.counts()).count();
    // Those that were made again do not count.
    let all = format!("{} that count, in {}", counted(measured, "trial"), counted(summary.blocks as usize, "block"));
    match interference::share(trials).next() {
        Some(share) => format!("only {} of {all}, were disturbed", share.disturbed),
        None => format!("none of {all}, was disturbed"),
    }
}

#[cfg(test)]
mod tests {
    use fsb_model::Interference;

    use super::*;
    use crate::run::Summary;
    use crate::sample;

    fn line(change: impl FnOnce(&mut RunRecord, &mut Vec<fsb_model::Trial>)) -> String {
        let (mut record, mut trials) = sample::run(&["ext4", "xfs"], 8);
        change(&mut record, &mut trials);
        Summary::of_run(&record, &trials).trust.map(|trust| trust.line()).unwrap_or_default()
    }

    fn disturb(trials: &mut [fsb_model::Trial], every: usize) {
        let counting = trials.iter_mut().filter(|trial| trial.counts());
        counting.step_by(every).for_each(|trial| trial.interference = vec![Interference::CpuSteal { share: 0.58 }]);
    }

    #[test]
    fn a_quiet_machine_is_trusted_and_a_busy_one_is_not() {
        let quiet = line(|_, _| ());
        assert!(quiet.starts_with("trust: "), "{quiet}");
        let busy = line(|_, trials| disturb(trials, 1));
        assert!(busy.starts_with("trust: low, because CPU steal 58 % disturbed "), "{busy}");
        let some = line(|_, trials| disturb(trials, 5));
        assert!(some.starts_with("trust: fair, because CPU steal 58 % disturbed "), "{some}");
    }

    #[test]
    fn a_concurrent_run_and_unbacked_memory_are_reasons() {
        let said = line(|record, _| record.warnings.push(sample::concurrent()));
        assert!(said.starts_with("trust: low, because another run measured at the same time"), "{said}");
        let said = line(|record, _| record.warnings.push(sample::unbacked_memory()));
        assert!(
            said.starts_with("trust: fair, because 7 of 12 workloads are not judged: guest memory was left"),
            "{said}"
        );
        let (mut record, trials) = sample::run(&["ext4"], 8);
        record.warnings.push(sample::unbacked_memory());
        let said = Summary::of_run(&record, &trials).trust.map(|trust| trust.line()).unwrap_or_default();
        assert!(said.starts_with("trust: low, because guest memory was left"), "{said}");
    }

    #[test]
    fn lost_trials_and_few_blocks_are_reasons() {
        let said = line(|_, trials| {
            let mut counting = trials.iter_mut().filter(|trial| trial.counts());
            counting.next().unwrap().outcome = Outcome::Invalid;
        });
        assert!(said.starts_with("trust: fair, because 2 of ") && said.contains(" trials have no value"), "{said}");
        let said = line(|_, trials| trials.retain(|trial| trial.block < 3));
        assert!(said.starts_with("trust: low, because 2 blocks are too few to judge"), "{said}");
        let (record, mut trials) = sample::run(&["ext4"], 8);
        trials.retain(|trial| trial.block < 2);
        let said = Summary::of_run(&record, &trials).trust.map(|trust| trust.line()).unwrap_or_default();
        assert!(said.starts_with("trust: low, because 1 block is too few to judge"), "{said}");
        assert_eq!(line(|_, trials| trials.clear()), "");
    }
}
