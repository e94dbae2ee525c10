use fsb_model::plan::{self, Race};
use fsb_model::run::Risk;
use fsb_model::{RunRecord, Trial};

use super::screen::loss;
use super::*;
use crate::sample;
use crate::summary::CompactTrial;

/// Three candidates in six race rounds. The second one is the fastest and unsafe.
fn raced(risky: bool) -> (RunRecord, Vec<Trial>) {
    let names = ["ext4", "ext4,barrier=0", "xfs"];
    let (mut record, mut trials) = sample::run(&names, 6);
    trials.retain(|trial| trial.workload == "append 4K, durable each");
    record
        .cells
        .retain(|cell| cell.label == "append 4K, durable each");
    for trial in &mut trials {
        let speed =
            [100.0, 300.0, 130.0][names.iter().position(|name| *name == trial.target).unwrap()];
        trial.metrics[0].value = speed * (1.0 + 0.01 * f64::from(trial.block % 3));
    }
    let candidates = vec![plan::Candidate::default(); names.len()];
    let (refused, first_stage, factors) = (Vec::new(), Vec::new(), Vec::new());
    record.plan.race = Some(Race {
        places: 4,
        error: 0.05,
        candidates,
        refused,
        first_stage,
        factors,
    });
    record.plan.risky = risky;
    let loss = "a power failure may lose synced data".to_owned();
    let made = record.targets.get_mut("ext4,barrier=0").unwrap();
    made.mount_options.push("nobarrier".to_owned());
    made.risks = vec![Risk {
        cause: "barrier=0".to_owned(),
        loss,
    }];
    (record, trials)
}

fn shown((record, trials): &(RunRecord, Vec<Trial>)) -> (Choice, String) {
    let choice = Choice::from_run(record, &CompactTrial::all(trials)).unwrap();
    let text = screen(&choice, 200);
    (choice, text)
}

#[test]
fn an_unsafe_candidate_does_not_win_against_safe_ones() {
    let (choice, text) = shown(&raced(false));
    assert_eq!(choice.answer, ["xfs"], "{text}");
    assert!(text.starts_with("xfs is the fastest of "), "{text}");
    let reason = "ext4,barrier=0 (unsafe): a power failure may lose synced data (barrier=0); --risky lets it win";
    assert!(text.contains(reason), "{text}");
    let json = serde_json::to_value(&choice).unwrap();
    let marked: Vec<bool> = json["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.get("unsafe").is_some())
        .collect();
    assert_eq!(marked.iter().filter(|marked| **marked).count(), 1);
}

#[test]
fn a_risky_answer_names_the_risk_before_anything_else() {
    let (choice, text) = shown(&raced(true));
    assert_eq!(choice.answer, ["ext4,barrier=0"], "{text}");
    let start = "ext4,barrier=0 is unsafe: a power failure may lose synced data (barrier=0).\n\
                 ext4,barrier=0 (unsafe) is the fastest of 3, ";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("* ext4,barrier=0 (unsafe)  "), "{text}");
}

/// With few rounds the leader is not called the fastest, and without an estimate nothing is
/// marked.
#[test]
fn a_race_of_few_rounds_claims_neither_a_winner_nor_losers() {
    let (record, trials) = raced(true);
    let until = |block: u32| {
        let mut trials = trials.clone();
        trials.retain(|trial| trial.block <= block);
        // Each candidate is the fastest in one round.
        let values = [
            [100.0, 140.0, 90.0],
            [130.0, 95.0, 120.0],
            [90.0, 120.0, 150.0],
        ];
        for trial in &mut trials {
            let place = record
                .plan
                .targets
                .iter()
                .position(|target| target.name == trial.target)
                .unwrap();
            trial.metrics[0].value = values[trial.block as usize - 1][place];
        }
        let shown = shown(&(record.clone(), trials));
        (shown.0.ranked()[0].result.clone(), shown.1)
    };
    let (result, text) = until(3);
    assert!(
        text.contains("Not decided: none of 3 candidates is shown to be slower than another. "),
        "{text}"
    );
    assert!(
        text.contains("\nKeep the defaults of ext4: no candidate is shown to be faster.\n"),
        "{text}"
    );
    assert!(!text.contains("mkfs"), "{text}");
    assert!(
        text.contains("  * leads; ? not significantly different from it."),
        "{text}"
    );
    assert_eq!(
        result.as_deref(),
        Some("leads the race, which is not decided")
    );
    let (result, text) = until(1);
    assert!(
        text.starts_with("No answer: 1 race round of 3 candidates are too few values"),
        "{text}"
    );
    assert!(
        !text.contains("? ") && !text.contains("not significantly different"),
        "{text}"
    );
    assert_eq!(result, None);
}

/// Returns the race in which each candidate has the given speeds, one per round.
fn with_speeds(speeds: [[f64; 6]; 3]) -> (Choice, String) {
    let (record, mut trials) = raced(true);
    for trial in &mut trials {
        let place = record
            .plan
            .targets
            .iter()
            .position(|target| target.name == trial.target)
            .unwrap();
        trial.metrics[0].value = speeds[place][(trial.block as usize).saturating_sub(1)];
    }
    shown(&(record, trials))
}

/// Later rounds of the others are so noisy that the interval of the dropped candidate contains
/// 1 at the end.
#[test]
fn a_dropped_candidate_shows_the_bound_that_dropped_it() {
    let even = [100.0, 101.0, 99.0, 150.0, 70.0, 120.0];
    let open = [101.0, 99.0, 100.0, 60.0, 160.0, 80.0];
    let slow = [50.0, 50.5, 49.5, 50.0, 50.0, 50.0];
    let (choice, text) = with_speeds([even, slow, open]);
    let dropped = choice
        .candidates
        .iter()
        .find(|one| one.name == "ext4,barrier=0")
        .unwrap();
    assert_eq!(dropped.state, CandidateState::Slower, "{text}");
    let bound = dropped.dropped.as_ref().unwrap();
    assert!(
        bound.at_most < 1.0 && bound.race_rounds <= 3 && bound.than != dropped.name,
        "{bound:?}"
    );
    let row = text
        .lines()
        .find(|line| line.starts_with("  ext4,barrier=0"))
        .unwrap();
    assert!(
        row.contains(" %, dropped at < -") && !row.contains('['),
        "{row}"
    );
    assert!(!text.contains("the others are slower"), "{text}");
    let known = "one of 2 is the fastest of 3 (error probability at most 5 %); 1 was slower than the leader of that \
                 time when dropped.";
    assert!(text.contains(known), "{text}");
    assert!(
        text.contains("dropped at: the upper bound of its ratio to the leader of that time."),
        "{text}"
    );
}

#[test]
fn defaults_are_advised_unless_they_were_dropped() {
    let noisy = [100.0, 140.0, 90.0, 150.0, 70.0, 120.0];
    let other = [110.0, 95.0, 120.0, 60.0, 160.0, 80.0];
    let slow = [10.0, 10.1, 9.9, 10.0, 10.0, 10.0];
    let (_, text) = with_speeds([noisy, slow, other]);
    assert!(
        text.contains("Keep the defaults of ext4: ") && !text.contains("To format"),
        "{text}"
    );
    // The baseline is out, and xfs with its defaults is not shown to be slower than the leader.
    let (choice, text) = with_speeds([slow, noisy, other]);
    assert!(!choice.decided && choice.answer.len() == 2, "{text}");
    if choice.answer[0] != "xfs" {
        assert!(
            text.contains("Use the defaults of xfs: no candidate is shown to be faster."),
            "{text}"
        );
    }
    assert!(
        text.contains("To format and mount xfs, which may not be the fastest:"),
        "{text}"
    );
}

#[test]
fn bounds_are_rounded_towards_none() {
    assert_eq!([0.949, 0.996, 0.9999].map(loss), ["-5 %", "-0.4 %", "0 %"]);
}

#[test]
fn an_unsafe_baseline_is_measured_and_does_not_win() {
    let (mut record, trials) = raced(false);
    let risks = std::mem::take(&mut record.targets.get_mut("ext4,barrier=0").unwrap().risks);
    record.targets.get_mut("ext4").unwrap().risks = risks.clone();
    let (choice, text) = shown(&(record.clone(), trials.clone()));
    assert_eq!(choice.answer[0], "ext4,barrier=0", "{text}");
    // If all are unsafe, they compete among themselves.
    record
        .targets
        .values_mut()
        .for_each(|target| target.risks = risks.clone());
    assert_eq!(shown(&(record, trials)).0.answer, ["ext4,barrier=0"]);
}
