//! Simulated bisections with fixed seeds.

use fsb_stats::bisection::{Ending, Next, Purpose, Search, Settings, Step};
use rand::SeedableRng as _;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

const SETTINGS: Settings = Settings {
    theta: 0.03,
    error: 0.01,
};
const RUNS: u64 = 300;

/// A machine that measures candidates: the logarithm of the speed of each, and the coefficient of
/// variation of a sample.
struct Machine {
    levels: Vec<f64>,
    cv: f64,
    /// Candidates that do not build.
    broken: Vec<usize>,
    random: Pcg64Mcg,
}

impl Machine {
    fn new(levels: Vec<f64>, cv: f64, seed: u64) -> Machine {
        Machine {
            levels,
            cv,
            broken: Vec::new(),
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    fn sample(&mut self, candidate: usize) -> f64 {
        let noise: f64 = StandardNormal.sample(&mut self.random);
        self.levels[candidate] + self.cv * noise
    }

    fn pair(&mut self, earlier: usize, later: usize) -> f64 {
        self.sample(later) - self.sample(earlier)
    }
}

/// Returns the end of a search and the number of its pairs.
fn bisect(machine: &mut Machine) -> (Ending, usize, [usize; 3]) {
    let weights = vec![1.0; machine.levels.len()];
    bisect_weighted(machine, weights)
}

/// As [`bisect`], with the weights of the candidates.
fn bisect_weighted(machine: &mut Machine, weights: Vec<f64>) -> (Ending, usize, [usize; 3]) {
    let mut search = Search::new(weights, SETTINGS);
    let mut known = Vec::new();
    let mut by_purpose = [0; 3];
    loop {
        match search.next() {
            Next::End(ending) => {
                return (ending, by_purpose.iter().sum(), by_purpose);
            }
            Next::Measure {
                purpose,
                earlier,
                later,
                pairs,
            } => {
                let broken = [earlier, later]
                    .into_iter()
                    .find(|c| machine.broken.contains(c));
                if let Some(broken) = broken {
                    assert!(!known.contains(&broken), "{broken} was tried twice");
                    known.push(broken);
                    search.exclude(broken);
                    continue;
                }
                by_purpose[match purpose {
                    Purpose::Ends => 0,
                    Purpose::Search => 1,
                    Purpose::Confirmation => 2,
                }] += pairs;
                let log_ratios = (0..pairs).map(|_| machine.pair(earlier, later)).collect();
                search.add(Step {
                    purpose,
                    earlier,
                    later,
                    log_ratios,
                });
            }
        }
    }
}

/// Levels of candidates whose speeds change in these candidates by these ratios.
fn changes(candidates: usize, at: &[(usize, f64)]) -> Vec<f64> {
    let level = |candidate: usize| {
        let before = at.iter().filter(|(change, _)| *change <= candidate);
        before.map(|(_, ratio)| ratio.ln()).sum()
    };
    (0..candidates).map(level).collect()
}

/// Probabilistic bisection with the true shift and the true noise: after each pair the exact
/// posterior, then the candidate that halves it, until one place has probability 1 − error.
fn oracle(machine: &mut Machine, shift: f64) -> (usize, usize) {
    let places = machine.levels.len() - 1;
    let variance = 2.0 * machine.cv.powi(2);
    let mut logs = vec![0.0; places];
    for pairs in 1.. {
        let mut sum = 0.0;
        let likelihoods: Vec<f64> = logs.iter().map(|log: &f64| log.exp()).collect();
        let total: f64 = likelihoods.iter().sum();
        let (mut best, mut distance) = (1, f64::INFINITY);
        for (place, likelihood) in likelihoods.iter().enumerate() {
            if likelihood / total >= 1.0 - SETTINGS.error {
                return (place + 1, pairs - 1);
            }
            sum += likelihood / total;
            if (sum - 0.5).abs() < distance {
                (best, distance) = (place + 1, (sum - 0.5).abs());
            }
        }
        let y = machine.pair(0, best);
        for (place, log) in logs.iter_mut().enumerate() {
            let mean = if place < best { shift } else { 0.0 };
            *log -= (y - mean).powi(2) / (2.0 * variance);
        }
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        logs.iter_mut().for_each(|log| *log -= highest);
    }
    unreachable!("the loop has no end")
}

fn median(mut values: Vec<usize>) -> usize {
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn five_percent_among_64_are_found_with_at_most_twice_the_samples_of_an_oracle() {
    let (mut right, mut ours, mut theirs, mut oracle_right) = (0, vec![], vec![], 0);
    let mut by_purpose = [vec![], vec![], vec![]];
    for seed in 0..RUNS {
        let change = 1 + (seed as usize * 37) % 63;
        let levels = changes(64, &[(change, 0.95)]);
        let (ending, pairs, each) = bisect(&mut Machine::new(levels.clone(), 0.05, seed));
        ours.push(pairs);
        for (all, own) in by_purpose.iter_mut().zip(each) {
            all.push(own);
        }
        let is_right = matches!(ending, Ending::Found { place, .. } if place.later == change && place.earlier == change - 1);
        if !is_right {
            println!("seed {seed}: {change}: {ending:?} after {pairs} pairs");
        }
        right += u64::from(is_right);
        let (found, pairs) = oracle(&mut Machine::new(levels, 0.05, seed), 0.95f64.ln());
        oracle_right += u64::from(found == change);
        theirs.push(pairs);
    }
    let mean = |all: &[usize]| all.iter().sum::<usize>() as f64 / all.len() as f64;
    println!("right: {right} of {RUNS}, oracle {oracle_right}");
    println!(
        "pairs, mean: {:.1}, oracle {:.1}",
        mean(&ours),
        mean(&theirs)
    );
    let (ours, theirs) = (median(ours), median(theirs));
    println!("pairs, median: {ours}, oracle {theirs}");
    println!("ends, search, confirmation: {:?}", by_purpose.map(median));
    assert!(right * 100 >= RUNS * 99, "{right} of {RUNS}");
    assert!(ours <= 2 * theirs, "{ours} pairs, oracle {theirs}");
}

/// Returns the ends of a scenario with many seeds, and the median number of pairs.
fn ends(levels: &[f64], cv: f64, runs: u64) -> (Vec<Ending>, usize) {
    let (mut ends, mut pairs) = (Vec::new(), Vec::new());
    for seed in 0..runs {
        let (ending, made, _) = bisect(&mut Machine::new(levels.to_vec(), cv, 1000 + seed));
        ends.push(ending);
        pairs.push(made);
    }
    (ends, median(pairs))
}

fn found_later(ending: &Ending) -> Option<usize> {
    match ending {
        Ending::Found { place, .. } => Some(place.later),
        _ => None,
    }
}

#[test]
fn equal_ends_are_not_bisected() {
    for (cv, levels) in [
        (0.05, changes(64, &[])),
        (0.01, changes(64, &[])),
        // Slower in between, and back.
        (0.02, changes(64, &[(20, 0.9), (40, 1.0 / 0.9)])),
    ] {
        let (ends, pairs) = ends(&levels, cv, 200);
        let alike = ends
            .iter()
            .filter(|end| matches!(end, Ending::EndsAlike { .. }));
        let alike = alike.count();
        println!("cv {cv}: {alike} of 200 alike, {pairs} pairs");
        assert!(alike >= 198, "{alike}");
    }
}

#[test]
fn a_bad_end_that_is_faster_is_told() {
    let (ends, _) = ends(&changes(16, &[(5, 1.1)]), 0.03, 50);
    assert!(
        ends.iter()
            .all(|end| matches!(end, Ending::Reversed { .. })),
        "{ends:?}"
    );
}

#[test]
fn a_found_interval_covers_the_change() {
    let (ends, pairs) = ends(&changes(64, &[(41, 0.86)]), 0.05, 300);
    let (mut right, mut covered) = (0, 0);
    for end in &ends {
        if let Ending::Found {
            place,
            change,
            others,
            ..
        } = end
        {
            right += u64::from((place.earlier, place.later) == (40, 41));
            covered += u64::from(change.interval.contains(0.86));
            assert!(!others || change.interval.contains(0.86));
        }
    }
    println!("14 %: {right} right, {covered} covered, {pairs} pairs");
    assert!(right >= 298 && covered >= 285, "{right} {covered}");
}

#[test]
fn candidates_that_do_not_build_widen_the_place_alone() {
    let levels = changes(64, &[(30, 0.9)]);
    for seed in 0..100 {
        let mut machine = Machine::new(levels.clone(), 0.05, seed);
        machine.broken = vec![10, 29, 30, 31, 50];
        let (ending, ..) = bisect(&mut machine);
        let Ending::Found { place, others, .. } = ending else {
            panic!("{ending:?}")
        };
        assert_eq!(
            (place.earlier, place.later, others),
            (28, 32, false),
            "{seed}"
        );
    }
}

#[test]
fn of_two_changes_a_real_one_is_found() {
    for levels in [
        changes(64, &[(20, 0.95), (45, 0.95)]),
        changes(64, &[(20, 0.93), (45, 0.97)]),
        changes(64, &[(10, 0.9), (30, 1.0 / 0.9), (50, 0.9)]),
        changes(64, &[(20, 1.1), (45, 0.8)]),
    ] {
        let (ends, pairs) = ends(&levels, 0.03, 100);
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for end in &ends {
            let key = match end {
                Ending::Found { place, others, .. } => format!("{place:?} {others}"),
                Ending::Undecided { reason, .. } => format!("{reason:?}"),
                other => format!("{other:?}"),
            };
            *counts.entry(key).or_default() += 1;
        }
        println!("two changes: {counts:?}, {pairs} pairs");
        let is_real =
            |end: &&Ending| found_later(end).is_some_and(|later| levels[later] < levels[later - 1]);
        let real = ends.iter().filter(is_real).count();
        let wrong = ends.iter().filter(|end| found_later(end).is_some()).count() - real;
        assert!(real >= 90 && wrong <= 1, "{real} {wrong}");
    }
}

#[test]
fn a_gradual_change_is_not_blamed_on_one_candidate() {
    let levels: Vec<f64> = (0..64).map(|at| -0.1 * f64::from(at) / 63.0).collect();
    let (ends, pairs) = ends(&levels, 0.03, 100);
    let found = ends.iter().filter(|end| found_later(end).is_some()).count();
    println!("gradual: {found} found, {pairs} pairs, {:?}", ends[0]);
    assert!(found <= 2, "{found}");
}

#[test]
fn own_effects_of_builds_do_not_mislead() {
    let mut right = 0;
    for seed in 0..200 {
        let mut machine = Machine::new(changes(64, &[(33, 0.95)]), 0.01, seed);
        for level in 0..64 {
            let effect: f64 = StandardNormal.sample(&mut machine.random);
            machine.levels[level] += 0.005 * effect;
        }
        let (ending, ..) = bisect(&mut machine);
        right += u64::from(found_later(&ending) == Some(33));
    }
    println!("own effects: {right} of 200");
    assert!(right >= 198, "{right}");
}

#[test]
fn exact_values_are_bisected_with_the_fewest_pairs() {
    let (ends, pairs) = ends(&changes(64, &[(33, 0.9)]), 0.0, 1);
    assert_eq!(found_later(&ends[0]), Some(33));
    // The ends, six halvings, and the confirmation.
    assert!(pairs <= 5 + 6 * 2 + 5, "{pairs}");
}

#[test]
fn weights_shorten_a_search_and_do_not_decide_it() {
    let measured = |weight: f64, change: usize| {
        let mut pairs = Vec::new();
        for seed in 0..50 {
            let mut machine = Machine::new(changes(64, &[(change, 0.95)]), 0.05, seed);
            let mut weights = vec![1.0; 64];
            weights[20] = weight;
            let (end, made, _) = bisect_weighted(&mut machine, weights);
            assert_eq!(found_later(&end), Some(change), "{seed} {weight}");
            pairs.push(made);
        }
        median(pairs)
    };
    let (plain, suspected, wrong) = (measured(1.0, 20), measured(10.0, 20), measured(10.0, 50));
    println!("weights: {plain} without, {suspected} with, {wrong} wrong");
    assert!(suspected < plain);
}
