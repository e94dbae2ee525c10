//! The amount of work of each cell and the number of blocks. Both are fixed after the warm-up block, for all targets alike.
//!
//! The length of samples follows docs/methods/method.md ("Measuring", 7): 2 s if something reaches the device, otherwise 0.1 s. The
//! fastest target decides, so that the samples of other targets are not shorter. If restoring the state takes much longer than
//! the sample (a remount for a read of milliseconds), a trial ends after five times the length of a sample.
//!
//! If a budget does not hold enough blocks of that, all samples become shorter together, but not shorter than one
//! repetition. The speed of a machine changes faster than targets take turns. A sample four times as long therefore has 0.86
//! of the variance, and several short trials are more precise than one long trial. If even the shortest samples do not fit
//! five times, or the plan gives their length, there are fewer blocks than can be judged.

use std::collections::BTreeMap;

use fsb_engine::{Profile, Renewal};
use fsb_model::observed::Spent;
use fsb_model::plan::{BLOCK_LIMIT, FEWEST_BLOCKS_JUDGED, MOST_BLOCKS, VISIT};
use fsb_model::{Amount, Durability, Plan, Repetition};

/// A trial may take this many times its stretch: what is not timed must not eat the run.
const PATIENCE: f64 = 5.0;
/// Blocks of a budget, where it holds as many of stretches that are not shorter than they should be.
const BLOCKS: u32 = 12;
/// Stretches whose length was not asked for may be so much shorter.
const SHORTEST: f64 = 0.1;
/// Seconds it should last, and must always, where it does not.
const MEMORY_SECONDS: f64 = 0.1;
/// Durable single writes start at half speed for some tenths of a second: their stretch is not made shorter than this.
const EACH_SECONDS: f64 = 1.0;
/// Shares of the time left that blocks may fill; the rest is for what warm-up could not foresee.
const FILL: f64 = 0.92;
/// Operations are planned this much above what the stretch needs, for a rate is not the same twice.
const MARGIN: f64 = 1.1;
/// As [`MARGIN`], where warm-up measured the cell's neighbours only.
const MARGIN_BETWEEN: f64 = 2.0;

/// A cell that is measured in visits.
#[derive(Debug, Clone)]
pub struct Visited {
    /// Its label.
    pub label: String,
    /// What its workload says of itself.
    pub profile: Profile,
    /// Seconds that a stretch should last.
    pub stretch: f64,
    /// How often the journal is to be written meanwhile, where it goes on for that.
    pub sustain: Option<f64>,
}

/// What warm-up saw of one cell on one target.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Which target.
    pub target: String,
    /// Which cell.
    pub label: String,
    /// Operations in the timed stretch.
    pub operations: u64,
    /// Seconds of the timed stretch.
    pub seconds: f64,
    /// Where the rest of the time went.
    pub spent: Spent,
    /// How often the journal was written in the timed stretch, where that is known.
    pub journal_turns: Option<f64>,
    /// Not seen, but taken from what was seen of the same work on other sizes.
    pub between: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// By cell label.
    pub amounts: BTreeMap<String, Amount>,
    /// Measured blocks to make.
    pub blocks: u32,
    /// Expected seconds of a block.
    pub block_seconds: f64,
    /// 1 where stretches last as long as they may; less where the budget made them shorter.
    pub scale: f64,
}

/// Everything that the decision depends on.
#[derive(Debug)]
pub struct Basis<'a> {
    /// Cells in the plan's order.
    pub cells: &'a [Visited],
    /// Warm-up trials that ended well.
    pub samples: &'a [Sample],
    /// Seconds of making ready and taking down all targets once.
    pub visits: f64,
    /// What was asked for.
    pub repetition: Repetition,
    /// The lengths of stretches were asked for.
    pub asked: bool,
    /// Seconds of the budget that are left.
    pub left: f64,
}

/// One cell and what warm-up saw of it.
struct Case<'a> {
    label: &'a str,
    profile: &'a Profile,
    stretch: f64,
    sustain: Option<f64>,
    samples: Vec<&'a Sample>,
}

impl Basis<'_> {
    /// Decides.
    pub fn decide(&self) -> Calibration {
        Decision { basis: self, cases: self.cases() }.decide()
    }

    /// Seconds that each cell takes in a block, on all targets together, where stretches last as long as they should.
    pub(crate) fn seconds_of_cells(&self) -> BTreeMap<&str, f64> {
        self.cases().iter().map(|case| (case.label, case.expected(case.amount(1.0)))).collect()
    }

    /// Seconds of the budget that blocks may fill.
    pub(crate) fn to_fill(&self) -> f64 {
        self.left * FILL
    }

    /// Seconds of a budget that holds blocks of so many seconds in all.
    pub(crate) fn to_hold(&self, seconds: f64) -> f64 {
        seconds / FILL
    }

    fn cases(&self) -> Vec<Case<'_>> {
        let mut samples: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
        for sample in self.samples {
            samples.entry(&sample.label).or_default().push(sample);
        }
        self.cells
            .iter()
            .map(|Visited { label, profile, stretch, sustain }| Case {
                label,
                profile,
                stretch: *stretch,
                sustain: *sustain,
                samples: samples.remove(label.as_str()).unwrap_or_default(),
            })
            .collect()
    }
}

struct Decision<'a> {
    basis: &'a Basis<'a>,
    cases: Vec<Case<'a>>,
}

impl Decision<'_> {
    fn decide(&self) -> Calibration {
        let full = self.at_scale(1.0);
        match self.basis.repetition {
            Repetition::Blocks { blocks, seconds: None } => Calibration { blocks, ..full },
            Repetition::Blocks { blocks, seconds: Some(_) } => {
                let scale = self.scale_that_holds(blocks).max(shortest(self.basis.asked));
                Calibration { blocks, ..self.at_scale(scale) }
            }
            Repetition::Precision { .. } => self.fit(full, BLOCK_LIMIT),
            Repetition::Budget { .. } => self.fit(full, MOST_BLOCKS),
        }
    }

    fn fit(&self, full: Calibration, most: u32) -> Calibration {
        let asked = self.basis.asked;
        let (enough, shortest) = (if asked { FEWEST_BLOCKS_JUDGED } else { BLOCKS }, shortest(asked));
        if self.held(&full) >= enough {
            let blocks = self.held(&full).min(most);
            return Calibration { blocks, ..full };
        }
        for blocks in (FEWEST_BLOCKS_JUDGED..=enough).rev() {
            let scale = self.scale_that_holds(blocks);
            if scale >= shortest {
                return Calibration { blocks, ..self.at_scale(scale) };
            }
        }
        let shortest = self.at_scale(shortest);
        let blocks = self.held(&shortest).clamp(1, FEWEST_BLOCKS_JUDGED - 1);
        Calibration { blocks, ..shortest }
    }

    /// Blocks that the time left holds.
    fn held(&self, calibration: &Calibration) -> u32 {
        (self.basis.to_fill() / calibration.block_seconds).floor().max(0.0) as u32
    }

    /// The largest scale, up to 1, at which the time left holds this number of blocks; 0 if it holds them at none.
    fn scale_that_holds(&self, blocks: u32) -> f64 {
        let holds = |scale: f64| self.held(&self.at_scale(scale)) >= blocks;
        if holds(1.0) {
            return 1.0;
        }
        // Bisection: the block's time grows with the scale.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..20 {
            let middle = (low + high) / 2.0;
            if holds(middle) { low = middle } else { high = middle }
        }
        low
    }

    fn at_scale(&self, scale: f64) -> Calibration {
        let mut trials = 0.0;
        let mut amounts = BTreeMap::new();
        for case in &self.cases {
            let amount = case.amount(scale);
            trials += case.expected(amount);
            amounts.insert(case.label.to_owned(), amount);
        }
        Calibration { amounts, blocks: 0, block_seconds: (self.basis.visits + trials).max(1e-3), scale }
    }
}

impl Case<'_> {
    /// Seconds that work is held so that the journal of the slowest target is written as often as was asked for: as long for
    /// all, for a rate after a minute is another than after ten seconds.
    fn held(&self, sustain: f64) -> f64 {
        /// A target whose journal is hardly written is not waited for longer.
        const LONGEST: f64 = 6.0;
        const MARGIN: f64 = 1.2;
        let needed = self.samples.iter().filter(|sample| sample.seconds > 0.0).filter_map(|sample| {
            let turns = sample.journal_turns?;
            Some(if turns > 0.0 { sustain * sample.seconds / turns * MARGIN } else { f64::INFINITY })
        });
        needed.fold(self.stretch, f64::max).min(self.stretch * LONGEST)
    }

    fn amount(&self, scale: f64) -> Amount {
        let profile = self.profile;
        if let Some(sustain) = self.sustain {
            let until_ms = Some((self.held(sustain) * 1e3).ceil() as u64);
            return Amount { repetitions: 1, operations: u64::MAX, until_ms };
        }
        let samples = || self.samples.iter().filter(|sample| sample.seconds > 0.0);
        let rate = |sample: &&&Sample| sample.operations as f64 / sample.seconds;
        let seconds = seconds(profile, self.stretch, scale);
        let pass = profile.operations.max(1);
        let Some(fastest) = samples().max_by(|a, b| rate(a).total_cmp(&rate(b))) else {
            return Amount::of(1, pass);
        };
        let slowest = samples().map(|sample| rate(&sample)).fold(f64::INFINITY, f64::min);
        // A disk a thousand times slower than memory must not measure for an hour what memory does in two seconds.
        let mut bound = slowest * seconds * if profile.divisible { PATIENCE } else { f64::INFINITY };
        if profile.renewal == Renewal::Inside {
            // What the worker does between passes takes its time too.
            let of_one = |sample: &&Sample| sample.spent.measure.max(sample.seconds) / sample.operations.max(1) as f64;
            bound = bound.min(seconds * PATIENCE / samples().map(of_one).fold(0.0, f64::max));
        }
        let margin = if fastest.between { MARGIN_BETWEEN } else { MARGIN };
        let wanted = ((rate(&fastest) * seconds * margin).min(bound).ceil() as u64).max(profile.fewest);
        if profile.repeats_in_place {
            // A part of a pass would have a whole flush, or a whole close.
            let whole = !profile.divisible || (self.has_ends() && wanted > pass);
            let operations = if whole { wanted.div_ceil(pass) * pass } else { wanted };
            return Amount::of(1, operations);
        }
        // Without renewal there is no state to restore: such a workload is one whole, and one is a trial.
        let repetitions = if profile.renewal == Renewal::Never { 1 } else { wanted.div_ceil(pass) };
        let operations = if profile.divisible { wanted.div_ceil(repetitions).min(pass) } else { pass };
        let one = Amount::of(1, operations);
        let longest = samples().map(|sample| expected_seconds(profile, one, sample)).fold(0.0, f64::max);
        let patience = (seconds * PATIENCE / longest).floor().max(1.0);
        Amount::of((repetitions as f64).min(patience) as u32, operations)
    }

    /// Something is done at the end of each pass, inside the clock.
    fn has_ends(&self) -> bool {
        self.profile.renewal == Renewal::Inside || self.profile.durability == Durability::End
    }

    /// Seconds that trials with this amount should take, one on each target, by what warm-up saw of them.
    fn expected(&self, amount: Amount) -> f64 {
        self.samples.iter().map(|sample| expected_seconds(self.profile, amount, sample)).sum()
    }
}

/// Seconds that a trial should take, by what warm-up saw of its cell on its target.
pub(crate) fn expected_seconds(profile: &Profile, amount: Amount, sample: &Sample) -> f64 {
    if let Some(until) = amount.until_ms {
        let Spent { prepare, settle, measure, cleanup } = sample.spent;
        return until as f64 * 1e-3 + prepare + settle + cleanup + (measure - sample.seconds).max(0.0);
    }
    let repetitions = f64::from(amount.repetitions);
    let operations = amount.operations as f64 * repetitions;
    let timed = sample.seconds * operations / (sample.operations.max(1) as f64);
    // What is measured but not timed: the worker's exit, and untimed stretches of the micro-benchmarks; where the worker
    // restores the state itself, there is more of it the more passes there are.
    let around = (sample.spent.measure - sample.seconds).max(0.0);
    let around = match profile.renewal {
        Renewal::Inside => around * operations / (sample.operations.max(1) as f64),
        _ => around * repetitions,
    };
    let renewed = if profile.renewal == Renewal::Recreate { repetitions } else { 1.0 };
    (sample.spent.prepare + sample.spent.cleanup) * renewed + sample.spent.settle * repetitions + timed + around
}

fn seconds(profile: &Profile, stretch: f64, scale: f64) -> f64 {
    let floor = if profile.durability == Durability::Each { EACH_SECONDS.min(stretch) } else { 0.0 };
    shortened(stretch, scale).max(floor)
}

/// Share of a stretch below which it is too short: nothing is missing where its length was `asked` for.
pub(crate) fn shortest(asked: bool) -> f64 {
    if asked { 1.0 } else { SHORTEST }
}

/// Seconds that stretches last where the budget made them shorter: not below what memory needs.
pub fn shortened(stretch: f64, scale: f64) -> f64 {
    (stretch * scale).max(MEMORY_SECONDS.min(stretch))
}

/// Seconds that a visit's stretch of this job should last: what was `asked` for, and otherwise less where nothing reaches
/// the device.
pub(crate) fn stretch_seconds(profile: &Profile, asked: Option<f64>) -> f64 {
    asked.unwrap_or(if profile.reaches_device { VISIT } else { MEMORY_SECONDS })
}

/// Seconds after which a warm-up repetition that can be cut short is: enough to know a rate by. What is held until a journal
/// was written needs all of the time that it is `held` at least.
pub(crate) fn warmup_seconds(profile: &Profile, plan: &Plan, held: Option<f64>, trials: usize) -> f64 {
    let share =
        plan.repetition.budget().map_or(f64::INFINITY, |budget| budget.as_secs_f64() / trials.max(1) as f64 / 10.0);
    let visit = stretch_seconds(profile, held.or(plan.stretch));
    visit.min(share).max(MEMORY_SECONDS.min(visit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_engine::{Sizing, workload};
    use fsb_model::WorkloadSpec;
    use proptest::prelude::*;
    use serde_json::json;

    fn profile(name: &str, params: serde_json::Value) -> Profile {
        let spec = WorkloadSpec::new(name, serde_json::from_value(params).unwrap());
        workload::parse(&spec, &Sizing { size: 2 << 30, cpus: 2 }).unwrap().profile()
    }

    fn sample(label: &str, target: &str, operations: u64, seconds: f64) -> Sample {
        let spent = Spent { prepare: 0.2, settle: 0.1, measure: seconds, cleanup: 0.1 };
        Sample {
            target: target.into(),
            label: label.into(),
            operations,
            seconds,
            spent,
            journal_turns: None,
            between: false,
        }
    }

    fn visited(label: &str, profile: Profile) -> Visited {
        Visited { label: label.to_owned(), profile, stretch: 2.0, sustain: None }
    }

    fn basis<'a>(cells: &'a [Visited], samples: &'a [Sample], left: f64) -> Basis<'a> {
        Basis { cells, samples, visits: 1.0, repetition: Repetition::Budget { seconds: left }, asked: false, left }
    }

    #[test]
    fn the_fastest_target_gets_two_seconds_and_the_others_no_less() {
        let random = profile(
            "write",
            json!({"file_size": "256M", "block_size": "4K", "access": "random", "durability": "each"}),
        );
        let cells = [visited("w", random)];
        let samples = [sample("w", "fast", 10_000, 1.0), sample("w", "slow", 5_000, 1.0)];
        let decided = basis(&cells, &samples, 3600.0).decide();
        assert_eq!(decided.amounts["w"], Amount::of(1, 22_000));
        // But a target that is ten times slower measures five times as long, not ten.
        let samples = [sample("w", "fast", 10_000, 1.0), sample("w", "slow", 1_000, 1.0)];
        let decided = basis(&cells, &samples, 3600.0).decide();
        assert_eq!(decided.amounts["w"].operations, 10_000);
        assert_eq!((decided.blocks, decided.scale), (MOST_BLOCKS, 1.0));
    }

    #[test]
    fn a_small_budget_makes_shorter_stretches_rather_than_fewer_blocks() {
        let create = profile("create", json!({"files": 1000, "file_size": "4K", "durability": "end"}));
        let cells = [visited("c", create)];
        let samples = [sample("c", "a", 1000, 0.1), sample("c", "b", 1000, 0.1)];
        let rich = basis(&cells, &samples, 600.0).decide();
        // Two seconds would be 22 repetitions, but each takes half a second: five times the stretch is 20 of them.
        assert_eq!(rich.amounts["c"], Amount::of(20, 1000));
        let usual = basis(&cells, &samples, 90.0).decide();
        assert_eq!(usual.blocks, BLOCKS);
        assert!(usual.scale < 1.0 && usual.amounts["c"].repetitions < 20, "{usual:?}");
        let poor = basis(&cells, &samples, 10.0).decide();
        assert!(poor.blocks < FEWEST_BLOCKS_JUDGED && poor.scale == SHORTEST, "{poor:?}");
        assert!(poor.block_seconds * f64::from(poor.blocks) <= 10.0, "{poor:?}");
        let asked = Basis { asked: true, ..basis(&cells, &samples, 60.0) }.decide();
        assert!(asked.blocks < FEWEST_BLOCKS_JUDGED && asked.scale == 1.0, "{asked:?}");
    }

    #[test]
    fn what_was_asked_for_exactly_is_made_exactly() {
        let cells = [visited("r", profile("read", json!({"file_size": "8M", "cache": "warm"})))];
        let samples = [sample("r", "a", 8, 0.001)];
        let basis =
            Basis { repetition: Repetition::Blocks { blocks: 7, seconds: None }, ..basis(&cells, &samples, 1.0) };
        let decided = basis.decide();
        assert_eq!((decided.blocks, decided.scale), (7, 1.0));
        assert!(decided.amounts["r"].operations >= 800);
    }

    #[test]
    fn a_cell_that_failed_everywhere_still_has_an_amount() {
        let cells = [visited("r", profile("rename", json!({"files": 10})))];
        let decided = basis(&cells, &[], 100.0).decide();
        assert_eq!(decided.amounts["r"], Amount::of(1, 10));
    }

    proptest! {
        #[test]
        fn more_budget_never_means_less_work(left in 1.0f64..2000.0, more in 1.0f64..2000.0, rate in 100u64..1_000_000) {
            let cells = [visited("c", profile("create", json!({"files": 1000, "durability": "end"})))];
            let samples = [sample("c", "a", rate, 1.0)];
            let little = basis(&cells, &samples, left).decide();
            let much = basis(&cells, &samples, left + more).decide();
            prop_assert!(much.blocks >= little.blocks);
            prop_assert!(much.amounts["c"].repetitions >= little.amounts["c"].repetitions);
        }
    }
}
