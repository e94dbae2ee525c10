//! How a cell is measured in rounds, and how many blocks are made: fixed once, after the warm-up block, the same for all
//! targets.
//!
//! A stretch is as many units as the fastest target does in [`STRETCH`], or in the time that its plan says. Rounds a block
//! are as many as the time of a block holds, and more for cells whose rounds cost little beside what is done once; an
//! interval comes from blocks, so that there are [`BLOCKS`] of them before there are many rounds. Blocks are whole rotations
//! of the parts among the targets.

use std::collections::BTreeMap;

use fsb_model::Repetition;
use fsb_model::plan::{BLOCK_LIMIT, FEWEST_BLOCKS_JUDGED, MOST_BLOCKS};
use fsb_model::run::Rounds;

/// Seconds that a stretch should last on the fastest target at least, where nothing is said: of 4, 1, 0.2 and 0.05 s the
/// shortest told most in the same time, and what stands around a stretch takes some milliseconds.
pub(crate) const STRETCH: f64 = 0.025;
/// Stretches of so many seconds and longer are visits: no unit's state lasts for them.
pub(crate) const LONGEST: f64 = 1.0;
/// Where each unit has files of its own, so many times the stretch may go into making them.
const MAKING: f64 = 2.0;
/// Blocks of a budget, where it holds them with [`FEWEST_ROUNDS`] each.
const BLOCKS: u32 = 12;
/// Fewer blocks than this leave no degrees of freedom beside parts and looks.
const FEWEST_BLOCKS: u32 = FEWEST_BLOCKS_JUDGED + 1;
/// Fewer rounds than this are made only where the budget leaves no choice.
const FEWEST_ROUNDS: u32 = 3;
/// And fewer than this never.
const FEWEST_WITHOUT_CHOICE: u32 = 2;
/// More rounds than this tell less than another block.
const MOST_ROUNDS: u32 = 24;
/// Rounds of a run whose number of blocks was asked for.
const USUAL_ROUNDS: u32 = 8;
/// So many times the rounds of other cells at most.
const MOST_WEIGHT: f64 = 3.0;
/// Share of a target's room that units may fill.
pub(crate) const FILLED: f64 = 0.6;
/// Seconds of a stretch beside its work: the conversation with the worker, counters, a sync.
const AROUND: f64 = 0.006;
/// Shares of the time left that blocks may fill; the rest is for what warm-up could not foresee.
const FILL: f64 = 0.9;
/// Rounds of the warm-up block that tell how long a unit takes; one more leads in.
pub(crate) const WARM_UP: Rounds = Rounds { rounds: 2, units: 1, lead_in: true };
/// Warm-up rounds of a command: as many as begin within [`WARM_UP_OF_COMMAND`].
pub(crate) const COMMAND_WARM_UP: Rounds = Rounds { rounds: 3, units: 1, lead_in: false };
/// Seconds after which no further warm-up round of a command begins.
pub(crate) const WARM_UP_OF_COMMAND: f64 = 2.0;
/// A command that runs this many seconds or more on the fastest target is run once in each block, from the first run on: the
/// time of further rounds is better spent on further blocks.
pub(crate) const LONG_COMMAND: f64 = 0.25;

/// Rounds that may be made again because a neighbour was not at rest.
pub(crate) fn spares(rounds: u32) -> u32 {
    (rounds / 8).max(1)
}

/// What warm-up saw of one cell on one of the targets.
#[derive(Debug, Clone)]
pub struct UnitSample {
    /// Which cell.
    pub label: String,
    /// Seconds of a unit inside the clock.
    pub timed: f64,
    /// Seconds of a unit from go to result.
    pub wall: f64,
    /// Seconds of making the files of a unit and of removing them, where each has its own.
    pub prepare: f64,
    /// Seconds of the row that do not depend on the number of rounds.
    pub fixed: f64,
}

/// A cell that is measured in rounds.
#[derive(Debug, Clone)]
pub struct CellInRounds {
    /// Its label.
    pub label: String,
    /// Each unit has files of its own.
    pub own_files: bool,
    /// Each round visits the same units again.
    pub revisit: bool,
    /// Units that a part has room for.
    pub room: u32,
    /// Seconds that a stretch should last.
    pub stretch: f64,
    /// A stretch of it is long enough to be measured once a block, without a round that leads in.
    pub single: bool,
}

/// Everything that the decision depends on.
#[derive(Debug)]
pub struct Basis<'a> {
    /// Cells in the plan's order.
    pub rows: &'a [CellInRounds],
    /// What warm-up saw.
    pub samples: &'a [UnitSample],
    /// Seconds of a block that are for none of them: making all targets and taking them down, cells that are measured in
    /// visits.
    pub base: f64,
    /// Blocks of a whole rotation: as many as there are parts.
    pub rotation: u32,
    /// What was asked for.
    pub repetition: Repetition,
    /// Seconds of the budget that are left.
    pub left: f64,
    /// The machine is emulated: nothing is judged, and everything is slow.
    pub emulated: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// By cell label.
    pub rounds: BTreeMap<String, Rounds>,
    /// Measured blocks to make.
    pub blocks: u32,
    /// After how many blocks results are looked at; none where the number of blocks was asked for.
    pub looks: Vec<u32>,
    /// Expected seconds of each row in a block.
    pub row_seconds: BTreeMap<String, f64>,
    /// Expected seconds of a block.
    pub block_seconds: f64,
}

impl Basis<'_> {
    /// Decides.
    pub fn decide(&self) -> Decision {
        let budget = self.left * FILL;
        match self.repetition {
            Repetition::Blocks { blocks, seconds } => {
                let usual = if self.emulated { FEWEST_ROUNDS } else { USUAL_ROUNDS };
                let held = || self.rounds_within(budget / f64::from(blocks)).clamp(FEWEST_WITHOUT_CHOICE, usual);
                let rounds = if seconds.is_some() { held() } else { usual };
                self.decision(blocks, rounds, Vec::new())
            }
            Repetition::Budget { .. } => self.fit(budget, MOST_BLOCKS),
            Repetition::Precision { .. } => self.fit(budget, BLOCK_LIMIT),
        }
    }

    /// How many of the rows, from the first one on, the budget holds often enough to judge them.
    pub fn judged(&self) -> usize {
        let held = |rows: &usize| self.seconds_to_judge(*rows) <= self.left * FILL;
        (0..=self.rows.len()).rev().find(held).unwrap_or(0)
    }

    /// Seconds of the fewest blocks that judge so many of the rows.
    pub fn seconds_to_judge(&self, rows: usize) -> f64 {
        let some = Basis { rows: &self.rows[..rows], ..*self };
        some.block_seconds(FEWEST_WITHOUT_CHOICE) * f64::from(fewest_blocks(self.rotation.max(1)))
    }

    fn fit(&self, budget: f64, most: u32) -> Decision {
        let rotation = self.rotation.max(1);
        let fewest = fewest_blocks(rotation);
        let usual = BLOCKS.next_multiple_of(rotation);
        let mut blocks = usual;
        loop {
            let rounds = self.rounds_within(budget / f64::from(blocks));
            if rounds >= MOST_ROUNDS {
                // Time is left for more blocks.
                let held = (budget / self.block_seconds(MOST_ROUNDS)).floor().min(f64::from(most)) as u32;
                let blocks = (held / rotation * rotation).max(blocks);
                return self.decision(blocks, MOST_ROUNDS, looks(blocks, rotation));
            }
            if rounds >= FEWEST_ROUNDS || blocks <= fewest && rounds >= FEWEST_WITHOUT_CHOICE {
                return self.decision(blocks, rounds, looks(blocks, rotation));
            }
            if blocks <= fewest {
                return self.too_few_to_judge(budget, fewest);
            }
            blocks -= rotation;
        }
    }

    /// Fewer blocks than can be judged: whole rotations where the budget holds one.
    fn too_few_to_judge(&self, budget: f64, fewest: u32) -> Decision {
        let rotation = self.rotation.max(1);
        let held = (budget / self.block_seconds(FEWEST_WITHOUT_CHOICE)) as u32;
        let whole = if held < rotation { held } else { held / rotation * rotation };
        let single = self.rows.iter().all(|row| row.single);
        let blocks = if single && held >= FEWEST_BLOCKS_JUDGED { FEWEST_BLOCKS_JUDGED } else { whole };
        let blocks = blocks.clamp(1, fewest - 1);
        let rounds = self.rounds_within(budget / f64::from(blocks)).max(FEWEST_WITHOUT_CHOICE);
        self.decision(blocks, rounds, Vec::new())
    }

    fn rounds_within(&self, seconds: f64) -> u32 {
        (1..=MOST_ROUNDS).rev().find(|rounds| self.block_seconds(*rounds) <= seconds).unwrap_or(0)
    }

    fn decision(&self, blocks: u32, rounds: u32, looks: Vec<u32>) -> Decision {
        let of_row = |row: &CellInRounds| {
            let units = self.units(row);
            Rounds { rounds: self.rounds_of(row, units, rounds), units, lead_in: !row.single }
        };
        Decision {
            rounds: self.rows.iter().map(|row| (row.label.clone(), of_row(row))).collect(),
            blocks,
            looks,
            row_seconds: self.rows.iter().map(|row| (row.label.clone(), self.row_seconds(row, rounds))).collect(),
            block_seconds: self.block_seconds(rounds),
        }
    }

    fn block_seconds(&self, rounds: u32) -> f64 {
        (self.base + self.rows.iter().map(|row| self.row_seconds(row, rounds)).sum::<f64>()).max(1e-3)
    }

    fn samples_of(&self, row: &CellInRounds) -> impl Iterator<Item = &UnitSample> {
        self.samples.iter().filter(|sample| sample.label == row.label)
    }

    /// Units of a stretch: the fastest target decides, so that no target's stretch is shorter. Where making the files of a
    /// unit takes much longer than its work, a stretch is one unit.
    fn units(&self, row: &CellInRounds) -> u32 {
        let samples = || self.samples_of(row).filter(|sample| sample.timed > 0.0);
        let fastest = samples().map(|sample| sample.timed).fold(f64::MAX, f64::min);
        let wanted = (row.stretch / fastest).ceil().clamp(1.0, 1e6) as u32;
        if !row.own_files {
            return wanted;
        }
        let making = samples().map(|sample| sample.prepare).sum::<f64>() / samples().count().max(1) as f64;
        let visits = if row.revisit { f64::from(USUAL_ROUNDS) } else { 1.0 };
        let most = if making > fastest * MAKING * visits { 1 } else { row.room / made(row, FEWEST_ROUNDS, 1) };
        wanted.min(most).max(1)
    }

    /// Rounds of one row where others have so many: as many as there is room for.
    fn rounds_of(&self, row: &CellInRounds, units: u32, rounds: u32) -> u32 {
        // Fewer leave no choice.
        let weight = if rounds < FEWEST_ROUNDS { 1.0 } else { self.weight(row, units) };
        let rounds = if row.single { 1 } else { rounds };
        let rounds = (f64::from(rounds) * weight).round().min(f64::from(MOST_ROUNDS)) as u32;
        if !row.own_files {
            return rounds;
        }
        let fits = |rounds: &u32| made(row, *rounds, units) <= row.room;
        (1..=rounds).rev().find(fits).unwrap_or(1)
    }

    /// How many rounds of this row are worth one of a row that costs twice a round once. The best number of rounds within a
    /// block goes with the root of what a block costs by what a round costs, and with the noise of rounds by that of blocks
    /// (Cochran, Sampling Techniques, 3rd edition, section 10.6), which is not known before and taken as equal in all
    /// rows. Where the number of blocks was asked for, no time decides, so that such runs repeat exactly.
    fn weight(&self, row: &CellInRounds, units: u32) -> f64 {
        if matches!(self.repetition, Repetition::Blocks { .. }) {
            return 1.0;
        }
        let (few, more) = (FEWEST_ROUNDS, FEWEST_ROUNDS + 1);
        let round = (self.seconds_of(row, units, more) - self.seconds_of(row, units, few)).max(1e-9);
        let once = self.seconds_of(row, units, few) - f64::from(few) * round;
        (once / (2.0 * round)).max(0.0).sqrt().clamp(1.0, MOST_WEIGHT)
    }

    /// Seconds of one row in a block where other rows have so many rounds.
    fn row_seconds(&self, row: &CellInRounds, rounds: u32) -> f64 {
        let units = self.units(row);
        self.seconds_of(row, units, self.rounds_of(row, units, rounds))
    }

    fn seconds_of(&self, row: &CellInRounds, units: u32, rounds: u32) -> f64 {
        let lead_in = u32::from(!row.single);
        let (made, done) = (f64::from(made(row, rounds, units)), f64::from(rounds * units + lead_in));
        let around = f64::from(rounds + lead_in) * AROUND;
        let of =
            |sample: &UnitSample| sample.fixed + made * sample.prepare + done * sample.wall.max(sample.timed) + around;
        self.samples_of(row).map(of).sum()
    }
}

/// The fewest blocks of a budget: whole rotations of the parts.
pub(crate) fn fewest_blocks(rotation: u32) -> u32 {
    FEWEST_BLOCKS.next_multiple_of(rotation)
}

/// Sets of files that are made for so many rounds of a row where each unit has its own: one leads in, and some rounds are
/// to spare; `revisit`: all rounds visit those of one stretch.
pub(crate) fn sets(revisit: bool, rounds: u32, spares: u32, units: u32) -> u32 {
    let stretches = if revisit { 1 } else { rounds + spares };
    stretches * units + 1
}

fn made(row: &CellInRounds, rounds: u32, units: u32) -> u32 {
    sets(row.revisit, rounds, spares(rounds), units)
}

/// When results are looked at: at half of the blocks, at three quarters and at the end, each a whole rotation; and after
/// half as many again and twice as many, for which cells that ended early may leave the time.
fn looks(blocks: u32, rotation: u32) -> Vec<u32> {
    let at = |share: f64| ((f64::from(blocks) * share).ceil() as u32).next_multiple_of(rotation);
    let mut looks: Vec<u32> =
        [at(0.5), at(0.75)].into_iter().filter(|at| *at >= FEWEST_BLOCKS && *at < blocks).collect();
    looks.extend([blocks, at(1.5), at(2.0)]);
    // Of few blocks, two shares may be the same rotation.
    looks.dedup();
    looks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(count: usize) -> Vec<CellInRounds> {
        (0..count)
            .map(|at| CellInRounds {
                label: at.to_string(),
                own_files: at % 2 == 0,
                revisit: at % 4 == 0,
                room: 100,
                stretch: STRETCH,
                single: false,
            })
            .collect()
    }

    fn samples(rows: &[CellInRounds], unit: f64) -> Vec<UnitSample> {
        let of = |row: &CellInRounds| UnitSample {
            label: row.label.clone(),
            timed: unit,
            wall: unit * 1.2,
            prepare: if row.own_files { unit } else { 0.0 },
            fixed: 0.05,
        };
        rows.iter().flat_map(|row| [of(row), of(row)]).collect()
    }

    fn of(rows: &[CellInRounds], samples: &[UnitSample], rotation: u32, repetition: Repetition, left: f64) -> Decision {
        Basis { rows, samples, base: 1.0, rotation, repetition, left, emulated: false }.decide()
    }

    fn decide(unit: f64, left: f64, rotation: u32) -> Decision {
        let rows = rows(12);
        let samples = samples(&rows, unit);
        let repetition = Repetition::Budget { seconds: left };
        of(&rows, &samples, rotation, repetition, left)
    }

    #[test]
    fn five_minutes_hold_twelve_blocks_and_are_looked_at_on_the_way() {
        let decided = decide(0.01, 280.0, 2);
        assert_eq!((decided.blocks, &decided.looks[..]), (12, &[6, 10, 12, 18, 24][..]));
        assert!(decided.rounds.values().all(|rounds| rounds.rounds >= FEWEST_ROUNDS), "{decided:?}");
        assert_eq!(decided.rounds["1"].units, 3);
        let decided = decide(0.01, 280.0, 3);
        assert_eq!((decided.blocks, &decided.looks[..]), (12, &[6, 9, 12, 18, 24][..]));
    }

    #[test]
    fn a_budget_that_cannot_judge_all_judges_the_first_of_the_plan() {
        let rows = rows(12);
        let samples = samples(&rows, 0.01);
        let basis = |rows, left| {
            let repetition = Repetition::Budget { seconds: left };
            Basis { rows, samples: &samples, base: 1.0, rotation: 2, repetition, left, emulated: false }
        };
        assert_eq!(basis(&rows, 280.0).judged(), 12);
        let few = basis(&rows, 15.0);
        let judged = few.judged();
        assert!((1..12).contains(&judged) && few.decide().blocks < fewest_blocks(2), "{judged}");
        assert!(basis(&rows[..judged], 15.0).decide().blocks >= fewest_blocks(2));
        // What all of them take is a budget that judges them.
        assert_eq!(basis(&rows, few.seconds_to_judge(12) / FILL + 0.1).judged(), 12);
        assert_eq!(basis(&rows, 0.1).judged(), 0);
    }

    #[test]
    fn what_was_asked_for_exactly_is_made_exactly_and_never_ends_early() {
        let rows = rows(1);
        let samples = samples(&rows, 0.01);
        let repetition = Repetition::Blocks { blocks: 7, seconds: None };
        let decided = of(&rows, &samples, 3, repetition, 1.0);
        assert_eq!((decided.blocks, decided.looks.len()), (7, 0));
    }

    #[test]
    fn a_long_command_runs_once_a_block_and_gets_more_blocks() {
        let row = |single| CellInRounds {
            label: "tar".to_owned(),
            own_files: false,
            revisit: false,
            room: 1,
            stretch: STRETCH,
            single,
        };
        let decide = |seconds: f64, single, left| {
            let sample =
                UnitSample { label: "tar".to_owned(), timed: seconds, wall: seconds, prepare: 0.0, fixed: 0.02 };
            of(&[row(single)], &[sample.clone(), sample], 2, Repetition::Budget { seconds: left }, left)
        };
        let decided = decide(1.0, true, 50.0);
        assert_eq!(decided.rounds["tar"], Rounds { rounds: 1, units: 1, lead_in: false });
        assert_eq!((decided.blocks, &decided.looks[..2]), (14, &[8, 12][..]));
        assert_eq!(decide(1.0, false, 50.0).blocks, 6);
        // Five blocks can be judged, though they are no whole rotation.
        let decided = decide(4.0, true, 52.0);
        assert_eq!((decided.blocks, decided.looks.len()), (5, 0));
        // Runs on a state that takes long to make are worth more rounds.
        let slow_setup = UnitSample { label: "tar".to_owned(), timed: 1.0, wall: 1.0, prepare: 0.0, fixed: 20.0 };
        let repetition = Repetition::Budget { seconds: 900.0 };
        assert_eq!(of(&[row(true)], &[slow_setup.clone(), slow_setup], 2, repetition, 900.0).rounds["tar"].rounds, 3);
    }

    #[test]
    fn a_bound_makes_rounds_fewer_before_there_are_fewer_blocks() {
        let rows = rows(2);
        let samples = samples(&rows, 0.1);
        let rounds = |seconds, left| {
            let decided = of(&rows, &samples, 2, Repetition::Blocks { blocks: 6, seconds }, left);
            assert_eq!((decided.blocks, decided.looks.len()), (6, 0));
            decided.rounds["1"].rounds
        };
        assert_eq!(rounds(None, f64::INFINITY), USUAL_ROUNDS);
        assert_eq!(rounds(Some(900.0), 900.0), USUAL_ROUNDS);
        assert!((FEWEST_WITHOUT_CHOICE + 1..USUAL_ROUNDS).contains(&rounds(Some(36.0), 36.0)));
        assert_eq!(rounds(Some(5.0), 5.0), FEWEST_WITHOUT_CHOICE);
    }

    #[test]
    fn files_that_are_visited_again_make_longer_stretches_possible() {
        let row = |label: &str, revisit| CellInRounds {
            label: label.to_owned(),
            own_files: true,
            revisit,
            room: 100,
            stretch: STRETCH,
            single: false,
        };
        let rows = [row("own", false), row("again", true)];
        let sample =
            |label: &str| UnitSample { label: label.to_owned(), timed: 0.005, wall: 0.006, prepare: 0.03, fixed: 0.05 };
        let samples = [sample("own"), sample("again")];
        let repetition = Repetition::Budget { seconds: 60.0 };
        let decided = of(&rows, &samples, 2, repetition, 60.0);
        assert_eq!((decided.rounds["own"].units, decided.rounds["again"].units), (1, 5));
        assert!(decided.row_seconds["again"] < decided.row_seconds["own"], "{decided:?}");
    }

    #[test]
    fn no_number_of_blocks_is_looked_at_twice() {
        for rotation in 1..=16 {
            for blocks in (rotation..=MOST_BLOCKS).step_by(rotation as usize) {
                let looks = looks(blocks, rotation);
                assert!(looks.windows(2).all(|pair| pair[0] < pair[1]), "{blocks} blocks of {rotation}: {looks:?}");
                assert!(looks.contains(&blocks) && looks.iter().all(|look| look.is_multiple_of(rotation)));
            }
        }
    }

    /// Half a second of making files before rounds of some hundredths is spread over more of them.
    #[test]
    fn what_is_done_once_is_worth_more_rounds() {
        let row = |label: &str| CellInRounds {
            label: label.to_owned(),
            own_files: false,
            revisit: false,
            room: 100,
            stretch: STRETCH,
            single: false,
        };
        let rows = [row("cheap"), row("dear")];
        let sample =
            |label: &str, fixed| UnitSample { label: label.to_owned(), timed: 0.03, wall: 0.03, prepare: 0.0, fixed };
        let samples = [sample("cheap", 0.01), sample("dear", 0.5)];
        let rounds = |repetition, left| {
            let decided = of(&rows, &samples, 2, repetition, left);
            assert!(decided.block_seconds * f64::from(decided.blocks) <= left, "{decided:?}");
            (decided.rounds["cheap"].rounds, decided.rounds["dear"].rounds)
        };
        let (cheap, dear) = rounds(Repetition::Budget { seconds: 30.0 }, 30.0);
        assert!(cheap >= FEWEST_ROUNDS && dear >= 2 * cheap, "{cheap} {dear}");
        assert_eq!(rounds(Repetition::Budget { seconds: 900.0 }, 900.0), (MOST_ROUNDS, MOST_ROUNDS));
        assert_eq!(rounds(Repetition::Blocks { blocks: 3, seconds: None }, 30.0), (USUAL_ROUNDS, USUAL_ROUNDS));
    }

    proptest! {
        #[test]
        fn budgets_are_kept_and_fewer_blocks_than_can_be_judged_are_never_looked_at(
            unit in 0.0005f64..0.2, left in 1.0f64..4000.0, rotation in 1u32..7,
        ) {
            let decided = decide(unit, left, rotation);
            prop_assert!(decided.blocks.is_multiple_of(rotation) || decided.blocks < rotation);
            if decided.looks.is_empty() {
                prop_assert!((1..fewest_blocks(rotation)).contains(&decided.blocks));
            } else {
                prop_assert!(decided.blocks >= FEWEST_BLOCKS && decided.looks.contains(&decided.blocks));
            }
            prop_assert!(decided.looks.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(decided.looks.iter().all(|look| look.is_multiple_of(rotation)));
            prop_assert!(decided.blocks == 1 || decided.block_seconds * f64::from(decided.blocks) <= left, "{:?}", decided);
        }
    }
}
