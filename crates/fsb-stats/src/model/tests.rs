use fsb_model::Better;
use fsb_model::stop::Analyses;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng as _;
use serde_json::Value;

use super::*;
use crate::block_value::BlockValue;
use crate::comparison::Comparison;
use crate::sequential::Analysis;

fn on_part(block: u32, value: f64, part: u32) -> BlockValue {
    BlockValue { part: Some(part), ..BlockValue::new(block, value) }
}

fn normal(random: &mut Pcg64) -> f64 {
    StandardNormal.sample(random)
}

fn samples(values: Vec<Vec<BlockValue>>) -> Vec<Sample> {
    values.into_iter().map(|values| Sample::of_blocks(values, &Analyses::default())).collect()
}

fn compared(model: &Model, baseline: usize, candidate: usize) -> Option<Comparison> {
    Some(model.difference(baseline, candidate)?.judged(0.95, &Analysis::Only, Better::Higher, 0.03))
}

/// Targets that rotate over as many parts; `missing` trials are left out.
struct Run<'a> {
    targets: u32,
    blocks: u32,
    part_effect: f64,
    /// By target.
    scatter: &'a [f64],
    missing: &'a [(u32, u32)],
}

impl Run<'_> {
    /// Equal targets; blocks differ by far more than all else.
    fn drawn(&self, random: &mut Pcg64) -> Vec<Sample> {
        let lucks: Vec<f64> = (0..self.blocks).map(|_| 0.5 * normal(random)).collect();
        let effect = |part: u32| self.part_effect * (2.0 * f64::from(part) / f64::from(self.targets - 1) - 1.0);
        let mut values = vec![Vec::new(); self.targets as usize];
        for block in 1..=self.blocks {
            for target in 0..self.targets {
                let part = (target + block) % self.targets;
                let log = lucks[block as usize - 1] + effect(part) + self.scatter[target as usize] * normal(random);
                if !self.missing.contains(&(block, target)) {
                    values[target as usize].push(on_part(block, libm::exp(log), part));
                }
            }
        }
        samples(values)
    }

    /// Returns the share of intervals that contain 1, over the first pair and the pair of first and last target.
    fn coverage(&self) -> f64 {
        const RUNS: usize = 2500;
        let mut random = Pcg64::seed_from_u64(11);
        let mut held = 0;
        for _ in 0..RUNS {
            let model = Model::of(&self.drawn(&mut random), 0).unwrap().unwrap();
            for candidate in [1, self.targets as usize - 1] {
                held += usize::from(compared(&model, 0, candidate).unwrap().interval.unwrap().contains(1.0));
            }
        }
        held as f64 / (2 * RUNS) as f64
    }
}

#[test]
fn intervals_hold_the_truth_with_parts_and_without() {
    let noisy_last = [1.0, 1.0, 1.0, 5.0];
    for (targets, blocks) in [(2, 6), (3, 6), (3, 7), (3, 12), (4, 8)] {
        for part_effect in if blocks == 6 { &[0.0, 0.05][..] } else { &[0.05] } {
            let part_effect = *part_effect;
            for missing in [&[][..], &[(2, 1), (5, 0)][..]] {
                for unequal in [false, true] {
                    let scatter: Vec<f64> = (0..targets as usize)
                        .map(|target| if unequal { 0.02 * noisy_last[target + 4 - targets as usize] } else { 0.02 })
                        .collect();
                    let coverage = Run { targets, blocks, part_effect, scatter: &scatter, missing }.coverage();
                    // 95 %, and three standard errors of the simulation: where the interval is exact it lies on either side.
                    assert!(coverage > 0.940, "{targets} {blocks} {part_effect} {missing:?} {unequal}: {coverage}");
                }
            }
        }
    }
}

#[test]
fn differences_between_slices_widen_no_interval() {
    let width = |part_effect: f64| {
        let run = Run { targets: 3, blocks: 9, part_effect, scatter: &[0.01; 3], missing: &[] };
        let model = Model::of(&run.drawn(&mut Pcg64::seed_from_u64(3)), 0).unwrap().unwrap();
        let comparison = compared(&model, 0, 2).unwrap();
        (comparison.ratio, comparison.interval.unwrap().relative_half_width())
    };
    let ((ratio, plain), (other, with_parts)) = (width(0.0), width(0.2));
    assert!((ratio / other - 1.0).abs() < 1e-12 && (plain / with_parts - 1.0).abs() < 1e-9, "{plain} {with_parts}");
}

#[test]
fn the_fit_is_that_of_numpy() {
    let oracle: Value = serde_json::from_str(include_str!("../../tests/oracle/least_squares.json")).unwrap();
    for case in oracle["cases"].as_array().unwrap() {
        let mut values = vec![Vec::new(); case["targets"].as_u64().unwrap() as usize];
        for value in case["values"].as_array().unwrap() {
            let whole = |place: usize| value[place].as_u64().unwrap() as u32;
            let rate = value[3].as_f64().unwrap();
            values[whole(1) as usize].push(on_part(whole(0), rate, whole(2)));
        }
        let model = Model::of(&samples(values), 0).unwrap().unwrap();
        for pair in case["pairs"].as_array().unwrap() {
            let place = |key: &str| pair[key].as_u64().unwrap() as usize;
            let ours = compared(&model, place("baseline"), place("candidate")).unwrap();
            let interval = ours.interval.unwrap();
            let numbers = [ours.ratio, interval.lo, interval.hi, ours.p_value.unwrap()];
            let theirs = [&pair["ratio"], &pair["ci95"][0], &pair["ci95"][1], &pair["p"]].map(|n| n.as_f64().unwrap());
            assert!(numbers.iter().zip(theirs).all(|(a, b)| (a / b - 1.0).abs() < 1e-8), "{pair}: {numbers:?}");
            assert_eq!(ours.n, place("n"));
        }
    }
}

#[test]
fn targets_that_never_exchange_parts_tell_no_difference() {
    let fixed = |part: u32| (1..=8).map(|block| on_part(block, f64::from(block), part)).collect();
    let model = Model::of(&samples(vec![fixed(0), fixed(1)]), 0).unwrap().unwrap();
    let found = compared(&model, 0, 1).unwrap();
    assert_eq!((found.interval, found.p_value, found.n), (None, None, 8));
}

#[test]
fn equal_values_stay_exact() {
    let values = |factor: f64| {
        let value = |block: u32| factor * if block.is_multiple_of(2) { 1e8 } else { 3e8 };
        (1..=9).map(|block| on_part(block, value(block), block % 3)).collect::<Vec<_>>()
    };
    let shifted =
        |by: u32| values(1.0).into_iter().map(|v| BlockValue { part: v.part.map(|p| (p + by) % 3), ..v }).collect();
    let model = Model::of(&samples(vec![values(1.0), shifted(1), shifted(2)]), 0).unwrap().unwrap();
    for (baseline, candidate) in [(0, 1), (0, 2), (1, 2)] {
        let found = compared(&model, baseline, candidate).unwrap();
        assert_eq!((found.ratio, found.p_value), (1.0, Some(1.0)));
        assert_eq!(found.interval.map(|interval| (interval.lo, interval.hi)), Some((1.0, 1.0)));
    }
}

#[test]
fn without_slices_no_model_is_fitted() {
    let values: Vec<BlockValue> = (1..=6).map(|block| BlockValue::new(block, 1.0)).collect();
    assert!(Model::of(&samples(vec![values.clone(), values]), 0).unwrap().is_none());
}
