//! Simulates pages of twelve cases. Counts how often a page calls equal targets different, how
//! often intervals hold the truth, and how many cases are decided. The rule is applied as a whole:
//! early ends, a budget, variances of the page, neighbouring blocks that are alike. Effects and
//! noise are those of a run of 18 blocks on ext4, xfs and btrfs.
//!
//! `FSB_PAGES=4000 cargo test --release -p fsb-stats --test pages -- --nocapture` prints the rows
//! from which docs/methods/statistics.md has its table.

#![expect(clippy::print_stdout, reason = "the table")]

use fsb_model::Better;
use fsb_model::stop::Analyses;
use fsb_stats::{BlockValue, Ranking, RankingOutcome, Verdict, hold_over_page};
use rand::SeedableRng as _;
use rand_distr::{ChiSquared, Distribution as _, StandardNormal, StudentT};
use rand_pcg::Pcg64;

const THETA: f64 = 0.03;

/// By case: log ratios of xfs and btrfs to ext4; standard deviations of a block, and of what
/// samples within a block tell.
const RECORDED: [([f64; 2], [f64; 3], [f64; 3]); 12] = [
    (
        [-0.016, -0.530],
        [0.033, 0.035, 0.057],
        [0.042, 0.054, 0.063],
    ),
    (
        [0.239, -1.288],
        [0.090, 0.010, 0.038],
        [0.067, 0.042, 0.025],
    ),
    (
        [-0.032, -0.143],
        [0.080, 0.086, 0.010],
        [0.045, 0.088, 0.049],
    ),
    (
        [-0.178, -1.773],
        [0.044, 0.013, 0.038],
        [0.022, 0.031, 0.050],
    ),
    (
        [-0.531, -0.670],
        [0.023, 0.027, 0.021],
        [0.038, 0.033, 0.039],
    ),
    (
        [-0.179, -0.227],
        [0.034, 0.010, 0.028],
        [0.024, 0.030, 0.035],
    ),
    (
        [0.232, -0.323],
        [0.023, 0.045, 0.043],
        [0.039, 0.041, 0.029],
    ),
    (
        [0.357, -1.162],
        [0.035, 0.072, 0.032],
        [0.035, 0.058, 0.043],
    ),
    (
        [-0.087, -1.510],
        [0.010, 0.037, 0.064],
        [0.026, 0.030, 0.051],
    ),
    (
        [-0.026, -0.108],
        [0.026, 0.022, 0.035],
        [0.041, 0.046, 0.039],
    ),
    (
        [-0.012, -0.992],
        [0.010, 0.049, 0.122],
        [0.029, 0.037, 0.041],
    ),
    (
        [0.295, -0.321],
        [0.023, 0.064, 0.031],
        [0.168, 0.099, 0.119],
    ),
];

/// The distribution of the values of a page.
#[derive(Clone, Copy, Debug)]
struct Setting {
    targets: usize,
    /// Planned blocks; cases that end early leave time for more.
    blocks: u32,
    /// Correlation of neighbouring blocks.
    correlation: f64,
    /// The standard deviation of a target's change over the run, in a case.
    drift: f64,
    /// Student's t with 3 degrees of freedom instead of the normal distribution.
    heavy: bool,
    /// The share of the variance that all cases of a target have in common in a block.
    shared: f64,
    /// Effects as recorded; otherwise all targets are equal.
    effects: bool,
}

const INDEPENDENT: Setting = Setting {
    targets: 2,
    blocks: 6,
    correlation: 0.0,
    drift: 0.0,
    heavy: false,
    shared: 0.0,
    effects: false,
};

/// Counts over pages.
#[derive(Default, Debug)]
struct Seen {
    pages: f64,
    /// Pages that call a target faster or slower.
    sure: f64,
    /// Pages with a significant difference, of whatever size.
    differs: f64,
    intervals: f64,
    covered: f64,
    /// Cases one of whose intervals misses the truth.
    cases_missed: f64,
    /// Cases with a winner, or with targets that are equal.
    decided: f64,
    /// Cases that ended before their run.
    early: f64,
    half_widths: Vec<f64>,
}

/// The analyses that a run of this number of blocks plans.
fn planned(blocks: u32, rotation: u32) -> Vec<u32> {
    let at = |share: f64| ((f64::from(blocks) * share).ceil() as u32).next_multiple_of(rotation);
    let mut after: Vec<u32> = [at(0.25), at(0.5), at(0.75)]
        .into_iter()
        .filter(|at| *at >= 6 && *at < blocks)
        .collect();
    after.extend([blocks, at(1.5), at(2.0)]);
    after.dedup();
    after
}

/// The values of one case by target, for as many blocks as a run may have, and the true logarithms.
type Drawn = (Vec<Vec<BlockValue>>, Vec<f64>);

fn draw(random: &mut Pcg64, setting: &Setting, blocks: u32) -> Vec<Drawn> {
    let Setting {
        targets,
        correlation,
        drift,
        shared,
        ..
    } = *setting;
    let student = StudentT::new(3.0).unwrap();
    let chi_squared = ChiSquared::new(7.0).unwrap();
    let normal = |random: &mut Pcg64| -> f64 { StandardNormal.sample(random) };
    let noise = |random: &mut Pcg64| {
        if setting.heavy {
            student.sample(random) / 3f64.sqrt()
        } else {
            normal(random)
        }
    };
    let common: Vec<Vec<f64>> = (0..blocks)
        .map(|_| (0..targets).map(|_| noise(random)).collect())
        .collect();
    let case = |(effects, scatter, within): &([f64; 2], [f64; 3], [f64; 3])| -> Drawn {
        let truth = |target: usize| {
            if setting.effects && target > 0 {
                effects[(target - 1) % 2]
            } else {
                0.0
            }
        };
        let places: Vec<f64> = (0..targets).map(|_| 0.05 * normal(random)).collect();
        let slopes: Vec<f64> = (0..targets).map(|_| drift * normal(random)).collect();
        let mut state: Vec<f64> = (0..targets).map(|_| noise(random)).collect();
        let mut values: Vec<Vec<BlockValue>> = vec![Vec::new(); targets];
        for block in 1..=blocks {
            let luck = 0.2 * normal(random);
            let time = (f64::from(block) - f64::from(blocks + 1) / 2.0) / f64::from(blocks);
            for target in 0..targets {
                if block > 1 {
                    let fresh = (1.0 - correlation * correlation).sqrt() * noise(random);
                    state[target] = correlation * state[target] + fresh;
                }
                let own = (1.0 - shared).sqrt() * state[target]
                    + shared.sqrt() * common[block as usize - 1][target];
                let slice = (target as u32 + block) % targets as u32;
                let log = 10.0
                    + luck
                    + truth(target)
                    + places[slice as usize]
                    + slopes[target] * time
                    + scatter[target % 3] * own;
                let within = Some(within[target % 3].powi(2) * chi_squared.sample(random) / 7.0);
                values[target].push(BlockValue {
                    block,
                    value: log.exp(),
                    slice: Some(slice),
                    within,
                });
            }
        }
        (values, (0..targets).map(truth).collect())
    };
    RECORDED.iter().map(case).collect()
}

/// Returns the rankings of a run after `made` blocks. Some cases ended earlier.
fn rank(cases: &[Drawn], ends: &[Option<u32>], analyses: &Analyses) -> Vec<Ranking> {
    let of_case = |((values, _), end): (&Drawn, &Option<u32>)| {
        let last = end.unwrap_or(analyses.last_block);
        let sample = |values: &Vec<BlockValue>| {
            values
                .iter()
                .filter(|value| value.block <= last)
                .copied()
                .collect()
        };
        let samples: Vec<Vec<BlockValue>> = values.iter().map(sample).collect();
        Ranking::of_run(&samples, analyses, Better::Higher, THETA).unwrap()
    };
    let mut rankings: Vec<Ranking> = cases.iter().zip(ends).map(of_case).collect();
    hold_over_page(&mut rankings);
    rankings
}

/// A run as the schedule makes it: cases end at interim analyses, and leave their time to others.
fn page(random: &mut Pcg64, setting: &Setting, seen: &mut Seen) {
    let after = planned(setting.blocks, setting.targets as u32);
    let cases = draw(random, setting, *after.last().unwrap());
    let pairs = cases.len() * setting.targets * (setting.targets - 1) / 2;
    let budget = f64::from(setting.blocks) * cases.len() as f64;
    let mut ends: Vec<Option<u32>> = vec![None; cases.len()];
    let mut analyses = Analyses {
        after: after.clone(),
        last_block: 0,
        ended_by_results: true,
    };
    let mut spent = 0.0;
    for next in after {
        let open = ends.iter().filter(|end| end.is_none()).count() as f64;
        let cost = f64::from(next - analyses.last_block) * open;
        if open == 0.0 || (next > setting.blocks && spent + cost > budget) {
            break;
        }
        (spent, analyses.last_block) = (spent + cost, next);
        let rankings = rank(&cases, &ends, &analyses);
        for (end, ranking) in ends
            .iter_mut()
            .zip(&rankings)
            .filter(|(end, _)| end.is_none())
        {
            *end = ranking.state(None, pairs).unwrap().enough.then_some(next);
        }
    }
    analyses.ended_by_results = ends.iter().all(Option::is_some);
    // The last analysis ends nothing before its run.
    ends.iter_mut()
        .for_each(|end| *end = end.filter(|end| *end < analyses.last_block));
    count(&rank(&cases, &ends, &analyses), &cases, &ends, seen);
}

fn count(rankings: &[Ranking], cases: &[Drawn], ends: &[Option<u32>], seen: &mut Seen) {
    let one = |is: bool| f64::from(u8::from(is));
    let verdicts = || {
        rankings
            .iter()
            .flat_map(|ranking| &ranking.pairs)
            .map(|pair| pair.comparison.verdict)
    };
    seen.pages += 1.0;
    seen.sure += one(verdicts().any(Verdict::is_sure));
    seen.differs += one(verdicts().any(Verdict::differs));
    for (ranking, (_, truth)) in rankings.iter().zip(cases) {
        let mut missed = false;
        for pair in &ranking.pairs {
            let interval = pair.comparison.interval.unwrap();
            let holds = interval.contains((truth[pair.candidate] - truth[pair.baseline]).exp());
            seen.intervals += 1.0;
            seen.covered += one(holds);
            seen.half_widths.push(interval.relative_half_width());
            missed |= !holds;
        }
        seen.cases_missed += one(missed);
        seen.decided += one(matches!(
            ranking.outcome,
            RankingOutcome::Winner(_) | RankingOutcome::Tie(_)
        ));
    }
    seen.early += ends.iter().flatten().count() as f64;
}

/// Pages of this setting, with a line of the table.
fn run(setting: Setting, pages: usize) -> Seen {
    let mut seen = Seen::default();
    let mut random = Pcg64::seed_from_u64(16);
    (0..pages).for_each(|_| page(&mut random, &setting, &mut seen));
    seen.half_widths.sort_by(f64::total_cmp);
    let (cases, percent) = (RECORDED.len() as f64 * seen.pages, |count: f64, of: f64| {
        100.0 * count / of
    });
    let Setting {
        targets,
        blocks,
        correlation,
        drift,
        heavy,
        shared,
        effects,
    } = setting;
    println!(
        "| {targets} | {blocks} | {} | {correlation} | {drift} | {shared} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} | {:.1} | \
         {:.1} % |",
        if effects { "as recorded" } else { "none" },
        if heavy { "t, 3 d.f." } else { "normal" },
        percent(seen.sure, seen.pages),
        percent(seen.differs, seen.pages),
        percent(seen.covered, seen.intervals),
        percent(seen.cases_missed, cases),
        seen.decided / seen.pages,
        seen.early / seen.pages,
        100.0 * seen.half_widths[seen.half_widths.len() / 2],
    );
    seen
}

/// Pages a setting: some for a test, thousands for the table.
fn pages(default: usize) -> usize {
    std::env::var("FSB_PAGES")
        .ok()
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(default)
}

/// Three standard errors of a share of 5 % above it.
fn tolerated(pages: usize) -> f64 {
    0.05 + 3.0 * (0.05 * 0.95 / pages as f64).sqrt()
}

#[test]
fn pages_of_equals_seldom_show_a_difference() {
    let pages = pages(200);
    for (targets, blocks) in [
        (2, 6),
        (2, 12),
        (2, 22),
        (3, 6),
        (3, 12),
        (3, 18),
        (3, 24),
        (6, 6),
        (6, 12),
    ] {
        let equal = Setting {
            targets,
            blocks,
            ..INDEPENDENT
        };
        for setting in [
            equal,
            Setting {
                correlation: 0.17,
                ..equal
            },
            Setting {
                shared: 0.5,
                ..equal
            },
            Setting {
                heavy: true,
                ..equal
            },
        ] {
            // Six targets have fifteen pairs.
            let pages = if targets > 3 {
                pages.div_ceil(10)
            } else {
                pages
            };
            let seen = run(setting, pages);
            assert!(
                seen.differs / seen.pages <= tolerated(pages),
                "{setting:?}: {seen:?}"
            );
            assert!(
                seen.covered / seen.intervals >= 0.93,
                "{setting:?}: {seen:?}"
            );
        }
    }
}

/// Beyond what the rule was made for: the table says what becomes of it.
#[test]
fn the_limits_of_the_rule_are_documented() {
    let pages = pages(200);
    // Nothing is asserted of drift.
    let is_table = std::env::var_os("FSB_PAGES").is_some();
    for (targets, blocks) in [(2, 12), (2, 22), (3, 12), (3, 18)] {
        let equal = Setting {
            targets,
            blocks,
            ..INDEPENDENT
        };
        let related = run(
            Setting {
                correlation: 0.3,
                ..equal
            },
            pages,
        );
        if is_table {
            run(
                Setting {
                    drift: 0.2,
                    ..equal
                },
                pages,
            );
        }
        assert!(
            related.differs / related.pages < 0.2 && related.covered / related.intervals > 0.9,
            "{related:?}"
        );
    }
}

#[test]
fn real_differences_are_found() {
    // Means over twelve cases of each page vary less than shares of pages.
    let pages = pages(100);
    for (targets, blocks, decided, half_width) in [
        (2, 6, 6.5, 0.065),
        (2, 12, 7.5, 0.055),
        (2, 22, 8.0, 0.05),
        (3, 6, 6.0, 0.09),
        (3, 12, 7.2, 0.055),
        (3, 18, 7.5, 0.045),
        (3, 24, 7.5, 0.035),
    ] {
        let setting = Setting {
            targets,
            blocks,
            effects: true,
            ..INDEPENDENT
        };
        let seen = run(setting, pages);
        let median = seen.half_widths[seen.half_widths.len() / 2];
        assert!(
            seen.decided / seen.pages > decided && median < half_width,
            "{setting:?}: {median}"
        );
        assert!(seen.covered / seen.intervals >= 0.94, "{setting:?}");
    }
}

#[test]
fn an_interim_analysis_widens_its_interval_and_hardly_the_last_one() {
    let values = |phase: u32| -> Vec<BlockValue> {
        let wave = |block: u32| (f64::from(block * (2 * phase + 3))).sin();
        (1..=12)
            .map(|block| BlockValue::new(block, 100.0 * (0.02 * wave(block)).exp()))
            .collect()
    };
    let width = |after: &[u32], ended_by_results: bool| {
        let analyses = Analyses {
            after: after.to_vec(),
            last_block: 12,
            ended_by_results,
        };
        let ranking =
            Ranking::of_run(&[values(0), values(1)], &analyses, Better::Higher, THETA).unwrap();
        ranking.pairs[0]
            .comparison
            .interval
            .unwrap()
            .relative_half_width()
    };
    let fixed = width(&[], false);
    assert_eq!(width(&[12], false), fixed);
    assert!((1.01..1.05).contains(&(width(&[6, 9, 12], false) / fixed)));
    assert!((1.5..1.8).contains(&(width(&[6, 9, 12], true) / fixed)));
}

/// `oracle/pages.py` computes the same from projection matrices, with SciPy's functions.
#[test]
fn moderated_pairs_are_those_of_an_independent_computation() {
    let oracle: serde_json::Value =
        serde_json::from_str(include_str!("oracle/pages.json")).unwrap();
    for page in oracle["pages"].as_array().unwrap() {
        let name = &page["name"];
        let close = |ours: Option<f64>, theirs: &serde_json::Value, what: &str| {
            let (ours, theirs) = (ours.unwrap(), theirs.as_f64().unwrap());
            assert!(
                (ours - theirs).abs() <= 1e-7 * theirs.abs().max(1e-12),
                "{name}, {what}: {ours}, not {theirs}"
            );
        };
        let rankings = page["cases"].as_array().unwrap().iter().map(|case| {
            let of = |key: &str, place: usize, target: usize| case[key][place][target].as_f64();
            let targets = case["logs"][0].as_array().unwrap().len();
            let blocks: Vec<u32> = serde_json::from_value(case["blocks"].clone()).unwrap();
            let value = |target: usize, (place, block): (usize, &u32)| BlockValue {
                slice: (case["exchange"] == true)
                    .then_some((target as u32 + block) % targets as u32),
                within: of("within", place, target),
                ..BlockValue::new(*block, of("logs", place, target).unwrap().exp())
            };
            let sample = |target: usize| {
                blocks
                    .iter()
                    .enumerate()
                    .map(|place| value(target, place))
                    .collect()
            };
            let samples: Vec<Vec<BlockValue>> = (0..targets).map(sample).collect();
            Ranking::from_samples(&samples, Better::Higher, THETA).unwrap()
        });
        let mut rankings: Vec<Ranking> = rankings.collect();
        let correlation = hold_over_page(&mut rankings).unwrap();
        close(
            Some(correlation.estimate),
            &page["correlation"]["estimate"],
            "estimate",
        );
        close(
            Some(correlation.error),
            &page["correlation"]["error"],
            "error",
        );
        let pairs: Vec<_> = rankings.iter().flat_map(|ranking| &ranking.pairs).collect();
        assert_eq!(pairs.len(), page["pairs"].as_array().unwrap().len());
        for (ours, theirs) in pairs.iter().zip(page["pairs"].as_array().unwrap()) {
            let interval = ours.comparison.interval.unwrap();
            close(Some(interval.lo), &theirs["ci"][0], "lower end");
            close(Some(interval.hi), &theirs["ci"][1], "upper end");
            close(ours.comparison.p_value, &theirs["p"], "p");
            close(ours.p_theta, &theirs["p_theta"], "p_theta");
            close(ours.page_p, &theirs["page_p"], "page_p");
            close(ours.page_p_theta, &theirs["page_p_theta"], "page_p_theta");
        }
    }
}
