//! Whole pages of rows, looked at several times, as a run does: what they claim of equals, and what they miss.

use fsb_model::Better;
use fsb_stats::{BlockValue, Outcome, Ranking, Verdict, hold_over_page, row_state_on_page};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

const LOOKS: [u32; 3] = [6, 9, 12];
const THETA: f64 = 0.03;
const ROWS: usize = 12;

fn normal(random: &mut Pcg64) -> f64 {
    StandardNormal.sample(random)
}

/// What rows and pages showed.
#[derive(Debug, Default)]
struct Seen {
    pages: f64,
    pages_with_difference: f64,
    pages_with_probable: f64,
    intervals: f64,
    intervals_with_truth: f64,
    stopped_early: f64,
    half_widths: Vec<f64>,
    winners: f64,
}

/// `pages` runs of targets whose logarithms differ by `merits`, on as many parts, each row until it is decided.
fn runs(pages: usize, merits: &[f64], noise: f64, parts: bool) -> Seen {
    let mut random = Pcg64::seed_from_u64(16);
    let mut seen = Seen::default();
    for _ in 0..pages {
        let mut page: Vec<Ranking> = (0..ROWS).map(|_| row(&mut random, merits, noise, parts, &mut seen)).collect();
        hold_over_page(&mut page);
        let pairs = || page.iter().flat_map(|ranking| &ranking.pairs).map(|pair| pair.comparison.verdict);
        let winner = page.iter().any(|ranking| matches!(ranking.outcome, Outcome::Winner(_)));
        seen.winners +=
            page.iter().filter(|ranking| ranking.outcome == Outcome::Winner(merits.len() - 1)).count() as f64;
        seen.pages += 1.0;
        seen.pages_with_difference += f64::from(u8::from(winner || pairs().any(Verdict::is_sure)));
        seen.pages_with_probable += f64::from(u8::from(pairs().any(Verdict::differs)));
    }
    seen
}

fn row(random: &mut Pcg64, merits: &[f64], noise: f64, parts: bool, seen: &mut Seen) -> Ranking {
    let targets = merits.len() as u32;
    let effects: Vec<f64> = (0..targets).map(|_| 0.05 * normal(random)).collect();
    let mut samples: Vec<Vec<BlockValue>> = vec![Vec::new(); merits.len()];
    for block in 1..=LOOKS[2] {
        let luck = 0.2 * normal(random);
        for target in 0..targets {
            let part = (target + block) % targets;
            let place = if parts { effects[part as usize] } else { 0.0 };
            let log = 10.0 + luck + merits[target as usize] + place + noise * normal(random);
            let value = BlockValue { block, value: log.exp(), part: parts.then_some(part) };
            samples[target as usize].push(value);
        }
        let at_look = LOOKS.contains(&block);
        let pairs = ROWS * merits.len() * (merits.len() - 1) / 2;
        let state = || row_state_on_page(&samples, &LOOKS, Better::Higher, THETA, None, pairs).unwrap();
        if at_look && block < LOOKS[2] && state().enough {
            seen.stopped_early += 1.0;
            break;
        }
    }
    let ranking = Ranking::at_look(&samples, &LOOKS, Better::Higher, THETA).unwrap();
    for pair in &ranking.pairs {
        let interval = pair.comparison.interval.unwrap();
        let truth = (merits[pair.candidate] - merits[pair.baseline]).exp();
        seen.intervals += 1.0;
        seen.intervals_with_truth += f64::from(u8::from(interval.contains(truth)));
        seen.half_widths.push(interval.relative_half_width());
    }
    ranking
}

impl Seen {
    fn median_half_width(&mut self) -> f64 {
        self.half_widths.sort_by(f64::total_cmp);
        self.half_widths[self.half_widths.len() / 2]
    }
}

#[test]
fn pages_of_equals_seldom_show_a_difference() {
    for (targets, noise) in [(2, 0.028), (3, 0.024), (2, 0.012), (3, 0.12), (2, 0.15)] {
        for parts in [true, false] {
            let mut seen = runs(200, &vec![0.0; targets], noise, parts);
            let width = seen.median_half_width();
            let (difference, probable) =
                (seen.pages_with_difference / seen.pages, seen.pages_with_probable / seen.pages);
            let coverage = seen.intervals_with_truth / seen.intervals;
            let what = format!("{targets} targets, noise {noise}, parts {parts}: median half-width {width:.4}");
            println!("{what}, pages with a difference {difference}, probable {probable}, coverage {coverage:.4}");
            // 5 % and what 200 pages leave to chance.
            assert!(difference <= 0.1, "{what}: {difference}");
            assert!(probable <= 0.1, "{what}: {probable}");
            assert!(coverage >= 0.94, "{what}: {coverage}");
        }
    }
}

#[test]
fn a_difference_of_a_tenth_is_found_and_ends_its_rows_early() {
    let seen = runs(60, &[0.0, 0.095], 0.02, true);
    let rows = seen.pages * ROWS as f64;
    assert!(seen.winners / rows > 0.95, "{seen:?}");
    assert!(seen.stopped_early / rows > 0.3, "{}", seen.stopped_early / rows);
    assert!(seen.intervals_with_truth / seen.intervals >= 0.94, "{}", seen.intervals_with_truth / seen.intervals);
}

#[test]
fn looks_widen_an_interval_by_a_sixth_to_a_quarter() {
    let values = |phase: u32| -> Vec<BlockValue> {
        let wave = |block: u32| (f64::from(block * (2 * phase + 3))).sin();
        (1..=12).map(|block| BlockValue::new(block, 100.0 * (0.02 * wave(block)).exp())).collect()
    };
    let samples = [values(0), values(1)];
    let width = |ranking: Ranking| ranking.pairs[0].comparison.interval.unwrap().relative_half_width();
    let fixed = width(Ranking::of(&samples, Better::Higher, THETA).unwrap());
    let looked = width(Ranking::at_look(&samples, &LOOKS, Better::Higher, THETA).unwrap());
    assert!((1.16..1.25).contains(&(looked / fixed)), "{}", looked / fixed);
    let one_look = width(Ranking::at_look(&samples, &[12], Better::Higher, THETA).unwrap());
    assert_eq!(one_look, fixed);
    // A block that was not planned is a look more.
    let beyond = width(Ranking::at_look(&samples, &[6, 9], Better::Higher, THETA).unwrap());
    assert!(beyond > 1.1 * fixed, "{}", beyond / fixed);
}
