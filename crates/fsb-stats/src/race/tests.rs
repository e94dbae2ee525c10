//! Races with known truths: the share of right answers, and their cost.

use rand_distr::{Distribution, StandardNormal, StudentT};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use rayon::prelude::*;

use super::*;

const PLACES: usize = 4;
const THETA: f64 = 0.03;
const ERROR: f64 = 0.05;
const CANDIDATES: usize = 40;

/// The true speed of a candidate, as a logarithm. That of the baseline, which comes first, is 0.
type Truth = fn(&mut Pcg64, usize) -> f64;

/// A family of truths and of noise.
#[derive(Debug, Clone, Copy)]
struct Family {
    truth: Truth,
    /// Standard deviation of a value.
    noise: f64,
    /// Standard deviation of the slices' effects.
    slices: f64,
    /// Degrees of freedom of the errors' t distribution.
    tails: f64,
    /// A factor on the noise of every fourth candidate.
    uneven: f64,
}

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(random: &mut Pcg64) -> f64 {
    StandardNormal.sample(random)
}

/// The result of one race.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    /// Whether the answer is within θ of the best.
    right: bool,
    /// Whether the interval of the answer's ratio to the baseline contains the truth.
    held: bool,
    /// Whether the best candidate was dropped as slower than one that is really slower.
    wronged: bool,
    /// Measured samples, those of the baseline included.
    spent: usize,
}

/// The plan of a race.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Plan {
    /// Losers are dropped, and the race ends when it is decided.
    Race,
    /// All candidates are measured this number of times, and the one with the best mean is the answer.
    Equally(usize),
}

impl Family {
    fn run(&self, seed: u64, plan: Plan) -> Ended {
        /// Longer races count as undecided.
        const MOST_RACE_ROUNDS: usize = 1500;
        let mut random = Pcg64::seed_from_u64(seed);
        let truth: Vec<f64> = (0..CANDIDATES).map(|at| (self.truth)(&mut random, at)).collect();
        let slices: Vec<f64> = (0..PLACES).map(|_| self.slices * normal(&mut random)).collect();
        let errors = StudentT::new(self.tails).unwrap();
        // A t of ν degrees of freedom has the variance ν/(ν-2).
        let scale = self.noise / (self.tails / (self.tails - 2.0)).sqrt();
        let mut race = Race::new(CANDIDATES, Settings { theta: THETA, error: ERROR });
        let mut ended = Ended::default();
        let race_rounds = match plan {
            Plan::Race => MOST_RACE_ROUNDS,
            Plan::Equally(turns) => (turns * (CANDIDATES - 1)).div_ceil(PLACES - 1),
        };
        for _ in 0..race_rounds {
            let level = 0.3 * normal(&mut random);
            let entries = race.draw(PLACES, seed).into_iter().map(|Drawn { candidate, slice }| {
                let uneven = if candidate % 4 == 3 { self.uneven } else { 1.0 };
                let error: f64 = errors.sample(&mut random);
                let value = level + truth[candidate] + slices[slice as usize] + scale * uneven * error;
                Entry { candidate, slice: Some(slice), value }
            });
            let entries: Vec<Entry> = entries.collect();
            ended.spent += entries.len();
            match plan {
                Plan::Race => race.add(entries),
                Plan::Equally(_) => race.race_rounds.push(entries),
            }
            if plan == Plan::Race && race.is_decided() {
                race.conclude();
                // In an answer of several candidates, none is surely slower than the leader.
                let leader = race.leader().unwrap_or(0);
                let surely = |other: &usize| race.bounds(leader, *other).is_some_and(|(lo, _, _)| lo > 0.0);
                assert!(!race.left().iter().any(|other| *other != leader && surely(other)), "seed {seed}");
                break;
            }
        }
        if plan != Plan::Race {
            race.fit = Fit::from_rounds(CANDIDATES, &race.race_rounds);
        }
        let best = truth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let leader = race.leader().unwrap_or(0);
        ended.right = truth[leader] >= best - libm::log1p(THETA) - 1e-12;
        ended.held =
            race.standing().candidates[leader].interval.is_none_or(|known| known.contains(truth[leader].exp()));
        let winner = truth.iter().position(|value| *value == best).unwrap_or(0);
        ended.wronged = matches!(race.out[winner], Some(Out::Slower { than, .. }) if truth[than] < best);
        ended
    }

    fn many(&self, races: u64, plan: Plan) -> Share {
        let all: Vec<Ended> = (0..races).into_par_iter().map(|seed| self.run(seed, plan)).collect();
        let share = |of: fn(&Ended) -> bool| all.iter().filter(|race| of(race)).count() as f64 / races as f64;
        let spent = all.iter().map(|race| race.spent as f64).sum::<f64>() / races as f64;
        Share {
            right: share(|race| race.right),
            held: share(|race| race.held),
            wronged: share(|race| race.wronged),
            spent,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Share {
    right: f64,
    held: f64,
    wronged: f64,
    /// Mean number of measurements.
    spent: f64,
}

/// Options as they are: some do nothing, some help, many cost.
fn options(random: &mut Pcg64, at: usize) -> f64 {
    let (kind, size) = (uniform(random), uniform(random));
    match kind {
        _ if at == 0 => 0.0,
        kind if kind < 0.25 => 0.0,
        kind if kind < 0.4 => 0.15 * size,
        _ => -0.4 * size,
    }
}

fn spread(random: &mut Pcg64, at: usize) -> f64 {
    if at == 0 { 0.0 } else { 0.15 * normal(random) }
}

fn one_winner(random: &mut Pcg64, at: usize) -> f64 {
    if at == 7 { 0.12 } else { 0.02 * normal(random) }
}

/// The hardest truth: one candidate is better by just more than θ, and all others are equal.
fn slippage(_: &mut Pcg64, at: usize) -> f64 {
    if at == 7 { libm::log1p(THETA) * 1.001 } else { 0.0 }
}

const PLAIN: Family = Family { truth: options, noise: 0.03, slices: 0.03, tails: 5.0, uneven: 1.0 };

/// Returns the number of measurements per candidate that an equal plan needs to be right in 95 % of all runs whatever
/// the truth is, including [`slippage`] (R. E. Bechhofer, Ann. Math. Statist. 25, 1954, for these race rounds and this
/// noise), by simulation.
fn turns_of_an_equal_plan(family: &Family, races: u64) -> usize {
    let hardest = Family { truth: slippage, ..*family };
    let is_enough = |turns: &usize| hardest.many(races, Plan::Equally(*turns)).right >= 1.0 - ERROR;
    (1..200).step_by(2).find(is_enough).unwrap_or(200)
}

/// Forty candidates: in all families 95 % of the answers are right, in a quarter of the time of an equal plan.
#[test]
fn races_are_right_and_take_a_quarter_of_the_time() {
    check(60, 120);
}

/// The same with thousands of races: `cargo test --release -p fsb-stats race -- --ignored --nocapture`.
#[test]
#[ignore = "minutes"]
fn thousands_of_races_are_right_and_take_a_quarter_of_the_time() {
    check(2000, 1000);
}

/// The hardest fields end undecided or late, so that only their errors are asserted. `cargo test --release -p fsb-stats
/// hardest -- --ignored --nocapture` prints the lines of docs/methods/choose.md.
#[test]
#[ignore = "minutes"]
fn the_hardest_fields_are_decided_late_and_not_wrongly() {
    let hardest = Family { truth: slippage, ..PLAIN };
    for (name, family) in
        [("just beyond θ", hardest), ("just beyond θ, slices that differ", Family { slices: 0.3, ..hardest })]
    {
        let share = family.many(60, Plan::Race);
        println!("{name}: {share:?}");
        assert!(share.right >= 0.85 && share.held >= 0.85 && share.wronged <= 0.05, "{name}: {share:?}");
    }
}

fn check(races: u64, plans: u64) {
    let turns = turns_of_an_equal_plan(&PLAIN, plans);
    let equal = PLAIN.many(1, Plan::Equally(turns)).spent;
    println!("equally: {turns} times each, {equal} measurements");
    // At most 3 standard deviations of this number of races below.
    let least = 1.0 - ERROR - 3.0 * (ERROR * (1.0 - ERROR) / races as f64).sqrt();
    for (name, truth) in [("options", options as Truth), ("spread", spread), ("one winner", one_winner)] {
        let family = Family { truth, ..PLAIN };
        let kinds = [
            ("", family),
            (", heavy tails", Family { tails: 3.0, ..family }),
            (", every 4th noisier", Family { uneven: 2.0, ..family }),
            (", slices that differ", Family { slices: 0.3, ..family }),
        ];
        for (kind, family) in kinds {
            let share = family.many(races, Plan::Race);
            println!(
                "{name}{kind}: right {:.1} %, best wronged {:.1} %, interval held {:.1} %, {:.0} measurements: {:.1} %",
                share.right * 100.0,
                share.wronged * 100.0,
                share.held * 100.0,
                share.spent,
                share.spent / equal * 100.0
            );
            assert!(share.right >= least && share.held >= least, "{name}{kind}: {share:?}");
            // Noisier candidates would need more turns of an equal plan, too.
            assert!(kind.contains("noisier") || share.spent <= equal / 4.0, "{name}{kind}: {} of {equal}", share.spent);
        }
    }
}

#[test]
fn nobody_is_surely_slower_among_equals() {
    let equals = Family { truth: |_, _| 0.0, ..PLAIN };
    let dropped = |seed: u64| {
        let mut race = Race::new(8, Settings { theta: THETA, error: ERROR });
        let mut random = Pcg64::seed_from_u64(seed);
        for _ in 0..60 {
            let level = normal(&mut random);
            let entries = race.draw(PLACES, seed).into_iter().map(|Drawn { candidate, slice }| Entry {
                candidate,
                slice: Some(slice),
                value: level + equals.noise * normal(&mut random),
            });
            let entries = entries.collect();
            race.add(entries);
        }
        race.out.iter().any(Option::is_some)
    };
    let wrong = (0..200).into_par_iter().filter(|seed| dropped(*seed)).count();
    // Here the difference of any pair could be found significant, not only of pairs with the best.
    assert!(wrong <= 20, "{wrong} of 200");
}

#[test]
fn a_race_round_holds_the_reference_and_those_measured_least() {
    let mut race = Race::new(6, Settings { theta: THETA, error: ERROR });
    race.withdraw(4);
    let mut counts = [0; 6];
    for race_round in 0..8 {
        let drawn = race.draw(PLACES, 5);
        assert_eq!(drawn[0].candidate, 0);
        let mut slices: Vec<u32> = drawn.iter().map(|drawn| drawn.slice).collect();
        slices.sort_unstable();
        assert_eq!(slices, [0, 1, 2, 3]);
        drawn.iter().for_each(|drawn| counts[drawn.candidate] += 1);
        race.add(
            drawn
                .iter()
                .map(|drawn| Entry {
                    candidate: drawn.candidate,
                    slice: Some(drawn.slice),
                    value: f64::from(race_round),
                })
                .collect(),
        );
    }
    assert_eq!(counts, [8, 6, 6, 6, 0, 6]);
}

#[test]
fn race_rounds_without_the_reference_or_with_nobody_else_tell_nothing() {
    let mut race = Race::new(3, Settings { theta: THETA, error: ERROR });
    let entry = |candidate| Entry { candidate, slice: None, value: 1.0 };
    race.add(vec![entry(1), entry(2)]);
    race.add(vec![entry(0)]);
    assert_eq!(race.race_rounds(), 0);
    let standing = race.standing();
    assert!(standing.leader.is_none() && !standing.decided);
}

/// A race may end before all candidates were measured twice. One that is surely slower in its only round is not in the
/// answer.
#[test]
fn a_candidate_slower_in_its_only_round_is_not_in_the_answer() {
    let mut race = Race::new(6, Settings { theta: THETA, error: ERROR });
    let entry = |candidate: usize, value: f64| Entry { candidate, slice: None, value };
    let noise = |at: usize| 0.002 * ((at * 7 % 5) as f64 - 2.0);
    for race_round in 0..12 {
        let rival = if race_round == 11 { 5 } else { 2 + race_round % 3 };
        race.add(vec![
            entry(0, noise(race_round)),
            entry(1, 0.4 + noise(race_round + 1)),
            entry(rival, noise(race_round + 3)),
        ]);
    }
    assert!(race.is_decided() && race.left().contains(&5));
    race.conclude();
    assert_eq!((race.race_rounds_of(5), race.left()), (1, vec![1]));
}

/// B as in the module documentation.
fn bayes_factor(t: f64, v: f64, degrees: f64) -> f64 {
    let shrunk = PRECISION / (PRECISION + 1.0 / v);
    let u = t * t / degrees;
    shrunk.sqrt() * ((1.0 + u * shrunk) / (1.0 + u)).powf(-(degrees + 1.0) / 2.0)
}

#[test]
fn at_its_ends_the_bayes_factor_is_one_over_the_error() {
    for (v, degrees, error) in [(0.1, 40.0, 0.05), (0.5, 60.0, 1e-3), (1.0, 25.0, 1e-4), (0.02, 300.0, 6e-4)] {
        let half = half_width(v, degrees, error);
        let factor = bayes_factor(half / f64::sqrt(v), v, degrees);
        assert!((factor * error - 1.0).abs() < 1e-9, "{v} {degrees} {error}: {factor}");
    }
}

#[test]
fn few_degrees_of_freedom_bound_nothing() {
    assert!(half_width(0.5, 0.0, 0.05).is_infinite() && half_width(0.5, 2.0, 1e-4).is_infinite());
    assert!(half_width(0.5, 200.0, 1e-4) < half_width(0.5, 20.0, 1e-4));
}
