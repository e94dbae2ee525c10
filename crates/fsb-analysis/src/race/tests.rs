//! Races with known truths.

use rand_distr::{Distribution, StandardNormal, StudentT};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use rayon::prelude::*;

use super::*;

const PLACES: usize = 4;
const THETA: f64 = 0.03;
const ERROR: f64 = 0.05;

/// A family of truths and of noise.
#[derive(Debug, Clone, Copy)]
struct Family {
    candidates: usize,
    /// What candidates are worth, as logarithms, that of the reference included.
    truth: fn(&mut Pcg64, usize) -> f64,
    /// Of a value.
    noise: f64,
    /// Of the parts.
    parts: f64,
    /// Degrees of freedom of the errors' t distribution.
    tails: f64,
    /// How much noisier every fourth candidate is.
    uneven: f64,
}

fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(random: &mut Pcg64) -> f64 {
    StandardNormal.sample(random)
}

/// What one race came to.
#[derive(Debug, Clone, Copy, Default)]
struct Ended {
    right: bool,
    /// Candidates that were measured, over all heats.
    spent: usize,
    dropped_best: bool,
}

impl Family {
    /// One race until it is decided, or until so many heats; `equally`: nobody is dropped.
    fn race(&self, seed: u64, equally: bool, most: usize) -> Ended {
        let mut random = Pcg64::seed_from_u64(seed);
        let truth: Vec<f64> = (0..self.candidates).map(|at| (self.truth)(&mut random, at)).collect();
        let parts: Vec<f64> = (0..PLACES).map(|_| self.parts * normal(&mut random)).collect();
        let errors = StudentT::new(self.tails).unwrap();
        // A t of ν degrees of freedom has the variance ν/(ν-2).
        let scale = self.noise / (self.tails / (self.tails - 2.0)).sqrt();
        let mut race = Race::new(self.candidates, Settings { theta: THETA, error: ERROR });
        let mut ended = Ended::default();
        for heat in 0..most {
            let level = 0.3 * normal(&mut random);
            let drawn = race.draw(PLACES, seed);
            let entries = drawn.iter().map(|&Drawn { candidate, part }| {
                let uneven = if candidate % 4 == 3 { self.uneven } else { 1.0 };
                let error: f64 = errors.sample(&mut random);
                let value = level + truth[candidate] + parts[part as usize] + scale * uneven * error;
                Entry { candidate, part: Some(part), value }
            });
            let entries: Vec<Entry> = entries.collect();
            ended.spent += entries.len();
            if !equally {
                race.add(entries);
            } else {
                race.heats.push(entries);
                // Once everybody had a turn more.
                if (heat + 1) % (self.candidates / (PLACES - 1) + 1) != 0 {
                    continue;
                }
                race.look();
                race.out.iter_mut().for_each(|out| *out = None);
            }
            if race.is_decided() {
                break;
            }
        }
        let best = truth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let leader = race.leader().unwrap_or(0);
        ended.right = truth[leader] >= best - libm::log1p(THETA) - 1e-12;
        let winner = truth.iter().position(|value| *value == best).unwrap_or(0);
        ended.dropped_best = race.out[winner].is_some();
        ended
    }

    /// The share of races with a right answer, and the share of the time that measuring all equally takes.
    fn races(&self, name: &str, many: u64) -> (f64, f64) {
        let all: Vec<(Ended, Ended)> = (0..many)
            .into_par_iter()
            .map(|seed| (self.race(seed, false, 1500), self.race(seed ^ 0xabcd, true, 1500)))
            .collect();
        let share = |of: fn(&Ended) -> bool| all.iter().filter(|(race, _)| of(race)).count() as f64 / many as f64;
        let mean = |of: fn(&(Ended, Ended)) -> usize| all.iter().map(|both| of(both) as f64).sum::<f64>() / many as f64;
        let (spent, equally) = (mean(|both| both.0.spent), mean(|both| both.1.spent));
        let right = share(|race| race.right);
        println!(
            "{name}: right {:.1} %, best dropped {:.1} %, {spent:.0} of {equally:.0} measurements: {:.1} %",
            right * 100.0,
            share(|race| race.dropped_best) * 100.0,
            spent / equally * 100.0
        );
        (right, spent / equally)
    }
}

/// Options as they are: half do nothing, some help a little, many cost.
fn options(random: &mut Pcg64, at: usize) -> f64 {
    if at == 0 {
        return 0.0;
    }
    match uniform(random) {
        share if share < 0.3 => 0.0,
        share if share < 0.45 => 0.15 * uniform(random),
        _ => -0.4 * uniform(random),
    }
}

fn spread(random: &mut Pcg64, at: usize) -> f64 {
    if at == 0 { 0.0 } else { 0.15 * normal(random) }
}

fn one_winner(random: &mut Pcg64, at: usize) -> f64 {
    match at {
        7 => 0.12,
        _ => 0.02 * normal(random),
    }
}

fn equals(_: &mut Pcg64, _: usize) -> f64 {
    0.0
}

const PLAIN: Family = Family { candidates: 40, truth: options, noise: 0.03, parts: 0.03, tails: 5.0, uneven: 1.0 };

#[test]
fn explore() {
    let many = 60;
    for (name, truth) in [
        ("options", options as fn(&mut Pcg64, usize) -> f64),
        ("spread", spread),
        ("one winner", one_winner),
        ("equals", equals),
    ] {
        let family = Family { truth, ..PLAIN };
        family.races(name, many);
        Family { tails: 3.0, ..family }.races(&format!("{name}, tails 3"), many);
        Family { uneven: 3.0, ..family }.races(&format!("{name}, uneven"), many);
        Family { noise: 0.08, ..family }.races(&format!("{name}, noise 8 %"), many);
    }
}
