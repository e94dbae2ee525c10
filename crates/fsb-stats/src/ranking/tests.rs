use super::*;
use proptest::prelude::*;

fn blocks(values: &[f64]) -> Vec<BlockValue> {
    (1..).zip(values).map(|(block, value)| BlockValue::new(block, *value)).collect()
}

/// Ten blocks around `center`, with a scatter of ±`spread` that differs by `phase`.
fn around(center: f64, spread: f64, phase: usize) -> Vec<BlockValue> {
    let pattern = [0.3, -0.8, 0.9, -0.2, 0.5, -0.6, 0.1, -0.9, 0.7, 0.0];
    blocks(&(0..10).map(|i| center * (1.0 + spread * pattern[(i * (phase + 1) + phase) % 10])).collect::<Vec<_>>())
}

fn rank(samples: &[Vec<BlockValue>]) -> Ranking {
    Ranking::of(samples, Better::Higher, 0.03).unwrap()
}

fn shown(ranking: &Ranking) -> Vec<&str> {
    ranking.letters.iter().map(|letters| letters.as_deref().unwrap_or("-")).collect()
}

#[test]
fn the_fastest_wins_and_has_the_letter_a() {
    let samples = [around(100.0, 0.01, 0), around(130.0, 0.01, 2), around(70.0, 0.01, 6)];
    let ranking = rank(&samples);
    assert_eq!((ranking.outcome.clone(), shown(&ranking)), (Outcome::Winner(1), vec!["b", "a", "c"]));
    let times = Ranking::of(&samples, Better::Lower, 0.03).unwrap();
    assert_eq!((times.outcome.clone(), shown(&times)), (Outcome::Winner(2), vec!["b", "c", "a"]));
    assert_eq!(times.verdict(0, 1), Verdict::Slower);
    assert_eq!(times.verdict(1, 0), Verdict::Faster);
}

#[test]
fn equals_at_the_top_tie() {
    let ranking = rank(&[around(100.0, 0.005, 0), around(100.5, 0.005, 2), around(90.0, 0.005, 6)]);
    assert_eq!((ranking.outcome.clone(), shown(&ranking)), (Outcome::Tie(vec![1, 0]), vec!["a", "a", "b"]));
}

#[test]
fn overlapping_intervals_are_undecided() {
    let ranking = rank(&[around(100.0, 0.2, 0), around(103.0, 0.2, 2), around(50.0, 0.01, 6)]);
    assert_eq!((ranking.outcome.clone(), shown(&ranking)), (Outcome::Undecided(vec![1, 0]), vec!["a", "a", "b"]));
}

#[test]
fn missing_targets_are_left_out_of_the_contest() {
    let ranking = rank(&[around(100.0, 0.01, 0), vec![], around(70.0, 0.01, 6)]);
    assert_eq!((ranking.outcome.clone(), shown(&ranking)), (Outcome::Winner(0), vec!["a", "-", "b"]));
    assert_eq!(ranking.pairs[0].comparison.level, LEVEL, "one pair needs no adjustment");
    assert_eq!(rank(&[vec![], around(1.0, 0.1, 0)]).outcome, Outcome::Alone(1));
    assert_eq!(rank(&[vec![], vec![]]).outcome, Outcome::Nothing);
    assert_eq!(rank(&[]).outcome, Outcome::Nothing);
}

#[test]
fn few_blocks_are_not_judged_and_may_still_win_later() {
    let few = |values: &[f64]| blocks(values);
    let ranking = rank(&[few(&[1.0, 1.1, 1.2]), few(&[9.0, 9.1, 9.2])]);
    assert_eq!((ranking.outcome.clone(), shown(&ranking)), (Outcome::NotJudged, vec!["-", "-"]));
    // Two judged targets and one with three blocks: it may be the fastest, so no target has won.
    let mixed = rank(&[around(100.0, 0.01, 0), around(130.0, 0.01, 2), few(&[500.0, 510.0, 490.0])]);
    assert_eq!(mixed.outcome, Outcome::Undecided(vec![2, 1]));
}

#[test]
fn intervals_of_a_row_hold_together() {
    let ranking = rank(&[around(100.0, 0.01, 0), around(100.2, 0.01, 2), around(70.0, 0.01, 6)]);
    assert!(ranking.pairs.iter().all(|pair| (pair.comparison.level - (1.0 - 0.05 / 3.0)).abs() < 1e-12));
}

#[test]
fn a_barred_target_is_compared_and_does_not_win() {
    let samples = [around(100.0, 0.01, 0), around(130.0, 0.01, 2), around(70.0, 0.01, 6)];
    let mut ranking = rank(&samples);
    ranking.bar([1]);
    assert_eq!((ranking.outcome.clone(), shown(&ranking)), (Outcome::Winner(0), vec!["b", "a", "c"]));
    assert_eq!(ranking.verdict(0, 1), Verdict::Faster);
    crate::hold_over_page([&mut ranking]);
    assert_eq!(ranking.outcome, Outcome::Winner(0), "the page does not lift the bar");
    ranking.bar([1, 2]);
    assert_eq!(ranking.outcome, Outcome::Alone(0));
    ranking.bar([0, 1, 2]);
    assert_eq!(ranking.outcome, Outcome::Winner(1), "if all are barred, all may win");
    let mut nothing = rank(&[vec![], vec![]]);
    nothing.bar([0]);
    assert_eq!(nothing.outcome, Outcome::Nothing);
}

#[test]
fn slower_than_all_means_every_one() {
    // The third is slower than the first; its wide interval reaches the second.
    let ranking = rank(&[around(130.0, 0.01, 0), around(103.0, 0.15, 2), around(96.0, 0.05, 6)]);
    assert_eq!(ranking.verdict(0, 2), Verdict::Slower);
    assert_ne!(ranking.verdict(1, 2), Verdict::Slower);
    assert!(ranking.is_slower_than_all(2, &[0]) && !ranking.is_slower_than_all(2, &[0, 1]));
}

fn any_row() -> impl Strategy<Value = Vec<Vec<BlockValue>>> {
    let value = (0u32..14, 0.8f64..1.3);
    let target = prop::collection::vec(value, 0..14)
        .prop_map(|pairs| pairs.into_iter().map(|(block, value)| BlockValue::new(block, value)).collect::<Vec<_>>());
    prop::collection::vec(target, 0..6)
}

/// Complete blocks with centres that really differ, so that every verdict occurs.
fn complete_row() -> impl Strategy<Value = Vec<Vec<BlockValue>>> {
    (2usize..6, 5usize..11).prop_flat_map(|(targets, n)| {
        prop::collection::vec((0.9f64..1.15, prop::collection::vec(0.98f64..1.02, n)), targets).prop_map(|rows| {
            rows.into_iter().map(|(c, noise)| blocks(&noise.iter().map(|x| c * x).collect::<Vec<_>>())).collect()
        })
    })
}

fn consistent(samples: &[Vec<BlockValue>], better: Better) -> Result<(), TestCaseError> {
    let ranking = Ranking::of(samples, better, 0.03).unwrap();
    for pair in &ranking.pairs {
        let comparison = &pair.comparison;
        let interval = comparison.interval;
        if comparison.verdict == Verdict::NotJudged {
            continue;
        }
        let interval = interval.unwrap();
        // The verdict and the printed interval agree.
        let excludes = interval.lo > 1.0 || interval.hi < 1.0;
        prop_assert!(!comparison.verdict.differs() || excludes);
        prop_assert!(comparison.verdict != Verdict::Inconclusive || !excludes);
        // Letters and verdicts agree.
        let (a, b) = (ranking.letters[pair.baseline].as_ref(), ranking.letters[pair.candidate].as_ref());
        let (a, b) = (a.unwrap(), b.unwrap());
        prop_assert_eq!(a.chars().any(|letter| b.contains(letter)), !comparison.verdict.is_sure());
        // What the interval excludes, Holm's test rejects.
        let p = pair.adjusted_p.unwrap();
        prop_assert!(p < 0.05 + 1e-9 || !excludes, "{p} {interval:?}");
    }
    // The winner is the one with nothing but an a, alone.
    if let Outcome::Winner(winner) = ranking.outcome {
        prop_assert_eq!(ranking.letters[winner].as_deref(), Some("a"));
        let others = ranking.letters.iter().enumerate().filter(|(index, _)| *index != winner);
        prop_assert!(others.flat_map(|(_, letters)| letters).all(|letters| !letters.contains('a')));
    }
    if let Outcome::Tie(top) | Outcome::Undecided(top) = &ranking.outcome {
        prop_assert!(top.len() > 1);
    }
    Ok(())
}

proptest! {
    #[test]
    fn intervals_verdicts_letters_and_outcome_never_contradict(samples in any_row()) {
        consistent(&samples, Better::Higher)?;
        consistent(&samples, Better::Lower)?;
    }

    #[test]
    fn nor_do_they_in_complete_blocks(samples in complete_row()) {
        consistent(&samples, Better::Higher)?;
        consistent(&samples, Better::Lower)?;
    }

    #[test]
    fn adjusted_p_values_are_in_the_order_of_p_values(samples in complete_row()) {
        let ranking = rank(&samples);
        let mut pairs = ranking.pairs.clone();
        pairs.sort_by(|a, b| a.comparison.p_value.partial_cmp(&b.comparison.p_value).unwrap());
        for two in pairs.windows(2) {
            prop_assert!(two[0].adjusted_p <= two[1].adjusted_p);
            prop_assert!(two[0].adjusted_p >= two[0].comparison.p_value);
        }
    }

    #[test]
    fn the_order_of_the_targets_changes_no_finding(samples in complete_row()) {
        let forward = rank(&samples);
        let reversed: Vec<_> = samples.iter().rev().cloned().collect();
        let backward = rank(&reversed);
        let last = samples.len() - 1;
        for a in 0..samples.len() {
            for b in 0..samples.len() {
                prop_assert_eq!(forward.verdict(a, b), backward.verdict(last - a, last - b));
            }
            prop_assert_eq!(&forward.letters[a], &backward.letters[last - a]);
        }
    }
}
