//! Equal targets, simulated: how often anything is claimed that is not there.
//!
//! The rates are those of fixed seeds; the tolerance is three standard errors of a share over the
//! number of runs.

use fsb_model::Better;
use fsb_stats::{BlockValue, Estimate, Ranking, RankingOutcome, paired, welch};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

const RUNS: usize = 2000;

/// Sum of twelve uniforms: close enough to normal where a trial's scatter is concerned.
fn normal(random: &mut Pcg64Mcg) -> f64 {
    (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
}

/// Targets of one case: `centers`, a random effect that the targets of a block share, and their own
/// scatter.
fn row(random: &mut Pcg64Mcg, centers: &[f64], blocks: u32, scatter: f64) -> Vec<Vec<BlockValue>> {
    let luck: Vec<f64> = (0..blocks).map(|_| normal(random) * 0.1).collect();
    let mut target = |center: &f64| {
        let value = |block: u32| center * (luck[block as usize] + scatter * normal(random)).exp();
        (0..blocks)
            .map(value)
            .enumerate()
            .map(|(block, value)| BlockValue::new(block as u32, value))
            .collect()
    };
    centers.iter().map(&mut target).collect()
}

fn share(mut claims: impl FnMut(&mut Pcg64Mcg) -> bool) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    (0..RUNS).filter(|_| claims(&mut random)).count() as f64 / RUNS as f64
}

fn tolerated(nominal: f64) -> f64 {
    nominal + 3.0 * (nominal * (1.0 - nominal) / RUNS as f64).sqrt()
}

#[test]
fn a_against_a_differs_at_most_at_the_nominal_rate() {
    for blocks in [5, 10, 30] {
        let paired = share(|random| {
            let targets = row(random, &[100.0, 100.0], blocks, 0.1);
            paired(&targets[0], &targets[1], Better::Higher, 0.03)
                .unwrap()
                .unwrap()
                .verdict
                .differs()
        });
        assert!(
            paired <= tolerated(0.05),
            "{blocks} blocks, paired: {paired}"
        );
        assert!(
            paired > 0.02,
            "{blocks} blocks: {paired} is so few that the test has no power"
        );
    }
}

#[test]
fn so_does_welch_with_unequal_numbers_and_scatter() {
    let rate = share(|random| {
        let a: Vec<f64> = (0..6).map(|_| (0.05 * normal(random)).exp()).collect();
        let b: Vec<f64> = (0..15).map(|_| (0.2 * normal(random)).exp()).collect();
        welch(&a, &b, Better::Lower, 0.03)
            .unwrap()
            .unwrap()
            .verdict
            .differs()
    });
    assert!((0.02..=tolerated(0.05)).contains(&rate), "{rate}");
}

#[test]
fn rows_of_equal_targets_show_a_difference_in_one_of_twenty_at_most() {
    for targets in [3, 5] {
        let rate = share(|random| {
            let row = row(random, &vec![100.0; targets], 10, 0.1);
            let ranking = Ranking::from_samples(&row, Better::Higher, 0.03).unwrap();
            let differs = ranking
                .pairs
                .iter()
                .any(|pair| pair.comparison.verdict.differs());
            // Letters tell apart what differs by more than matters, and nothing else.
            assert!(
                differs
                    || ranking
                        .letters
                        .iter()
                        .flatten()
                        .all(|letters| letters == "a")
            );
            differs
        });
        assert!(rate <= tolerated(0.05), "{targets} targets: {rate}");
        assert!(
            rate > 0.01,
            "{targets} targets: {rate} is so few that the test has no power"
        );
    }
}

/// Two equal targets and one that is far off: each of the three pairs has a third of the level.
#[test]
fn a_third_target_does_not_spoil_an_equal_pair() {
    let rate = share(|random| {
        let row = row(random, &[100.0, 100.0, 30.0], 10, 0.1);
        Ranking::from_samples(&row, Better::Higher, 0.03)
            .unwrap()
            .verdict(0, 1)
            .differs()
    });
    assert!((0.005..=tolerated(0.05 / 3.0)).contains(&rate), "{rate}");
}

#[test]
fn a_real_difference_is_found() {
    let rate = share(|random| {
        let row = row(random, &[100.0, 130.0, 70.0], 10, 0.05);
        Ranking::from_samples(&row, Better::Higher, 0.03)
            .unwrap()
            .outcome
            == RankingOutcome::Winner(1)
    });
    assert!(rate > 0.98, "{rate}");
}

#[test]
fn equals_are_called_equivalent_where_the_scatter_allows() {
    let rate = share(|random| {
        let row = row(random, &[100.0, 100.5, 99.8], 10, 0.005);
        matches!(
            Ranking::from_samples(&row, Better::Higher, 0.03)
                .unwrap()
                .outcome,
            RankingOutcome::Tie(_)
        )
    });
    assert!(rate > 0.99, "{rate}");
}

#[test]
fn steady_cells_seldom_show_a_trend() {
    for n in [5, 10, 30] {
        let rate = share(|random| {
            let values: Vec<f64> = (0..n).map(|_| (0.05 * normal(random)).exp()).collect();
            Estimate::from_values(&values)
                .unwrap()
                .significant_trend()
                .is_some()
        });
        assert!(rate <= tolerated(0.01), "{n} values: {rate}");
    }
}
