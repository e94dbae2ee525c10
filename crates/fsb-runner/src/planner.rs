//! The planner: it fixes the amount of work of each cell in a block, and the number of blocks,
//! after the warm-up block, for all targets alike.
//!
//! A cell is measured in one of two ways. *In rounds*, a sample is as many units as the fastest
//! target does in [`SAMPLE_SECONDS`], or in the time that the plan asks for. A block holds as many
//! rounds as its time allows, and more of cells whose rounds cost little compared with the steps
//! that are done once. *As a whole*, a sample follows docs/methods/method.md ("Measuring", 7): 2 s
//! if something reaches the device, otherwise 0.1 s. The fastest target decides, so that the
//! samples of other targets are not shorter. If restoring the state takes much longer than the
//! sample (a remount for a read of milliseconds), a trial ends after five times the length of a
//! sample.
//!
//! Intervals come from blocks, so [`BLOCKS_IN_ROUNDS`] blocks, or [`BLOCKS`] of wholes, come before
//! many rounds or long samples. If a
//! budget does not hold enough blocks, all samples become shorter together, but not shorter than
//! one repetition. Longer samples gain little: a sample four times as long has 0.86 of the
//! variance, because the speed of a machine changes faster than targets take turns. If even the
//! shortest samples do not fit five times, or the plan gives their length, there are fewer blocks
//! than can be judged. If targets have slices of a medium, blocks are whole rotations of the slices
//! among the targets.

use fsb_engine::{Profile, Renewal};
use fsb_model::observed::Spent;
use fsb_model::plan::{BLOCK_LIMIT, FEWEST_BLOCKS_JUDGED, MOST_BLOCKS, VISIT};
use fsb_model::run::Rounds;
use fsb_model::{Amount, Durability, Plan, Repetition};

/// The desired number of blocks of a budget whose cells are measured as wholes.
const BLOCKS: u32 = 12;
/// As [`BLOCKS`], for cells in rounds. Twelve blocks of twice as many rounds have intervals as
/// narrow, but their first interim analysis comes twice as late.
pub(super) const BLOCKS_IN_ROUNDS: u32 = 24;
/// Share of the time left that blocks may fill. The rest is for time that warm-up could not
/// foresee.
const FILL: f64 = 0.95;

/// The default of the least seconds of a sample in rounds on the fastest target. Of 4, 1, 0.2 and
/// 0.05 s the shortest was the most precise in the same time, and the steps around a sample take
/// some milliseconds.
pub(crate) const SAMPLE_SECONDS: f64 = 0.025;
/// The seconds of a sample from which on a cell is measured as a whole: no unit's state lasts for
/// it.
pub(crate) const LONGEST: f64 = 1.0;
/// The largest ratio of the time to make the files of a unit to its sample, if each unit has files
/// of its own.
const MAKING: f64 = 2.0;
/// The fewest blocks of a budget. Fewer leave no degrees of freedom beside slices and interim
/// analyses.
const FEWEST_BLOCKS: u32 = FEWEST_BLOCKS_JUDGED + 1;
/// The fewest rounds, unless the budget leaves no choice.
const FEWEST_ROUNDS: f64 = 3.0;
/// The fewest rounds in any case.
const FEWEST_WITHOUT_CHOICE: f64 = 2.0;
/// The maximum number of rounds. More rounds are worth less than another block.
const MOST_ROUNDS: f64 = 24.0;
/// The budget decides about rounds in steps of this size: the cells whose rounds cost least have
/// one more first.
const STEP: f64 = 0.25;
/// Rounds of a run with a requested number of blocks.
const USUAL_ROUNDS: f64 = 8.0;
/// The largest ratio of the rounds of a cell to those of other cells.
const MOST_WEIGHT: f64 = 3.0;
/// Share of a target's room that units may fill.
const FILLED: f64 = 0.6;
/// Returns the inodes that units may use on a target with `inodes` free ones.
pub(super) fn filled_inodes(inodes: u64) -> u64 {
    (inodes as f64 * FILLED) as u64
}

/// Bytes that units of samples of the default length may fill, so that the memory for their page
/// cache does not grow with the size of the image.
const MOST_FILLED: u64 = 1 << 30;
/// Units that may be made in any case: those of the fewest rounds.
const FEWEST_UNITS: u64 = 6;

/// Returns the bytes that units of `unit` bytes may fill on a target with `room` bytes, in samples
/// of `sample_seconds`.
pub(crate) fn filled(room: u64, unit: u64, sample_seconds: f64) -> u64 {
    let most = (MOST_FILLED as f64 * (sample_seconds / SAMPLE_SECONDS).max(1.0)) as u64;
    ((room as f64 * FILLED) as u64).min(most.max(unit.saturating_mul(FEWEST_UNITS)))
}
/// Seconds of a sample besides its work: the conversation with the worker, counters, a sync.
pub(super) const AROUND: f64 = 0.006;
/// Rounds of the warm-up block, which measure the time of a unit; one more leads in.
pub(super) const WARM_UP: Rounds = Rounds {
    rounds: 2,
    units: 1,
    lead_in: true,
};
/// Warm-up rounds of a command: as many as begin within [`WARM_UP_OF_COMMAND`].
pub(super) const COMMAND_WARM_UP: Rounds = Rounds {
    rounds: 3,
    units: 1,
    lead_in: false,
};
/// Seconds after which no further warm-up round of a command begins.
pub(super) const WARM_UP_OF_COMMAND: f64 = 2.0;
/// A command that runs this many seconds or more on the fastest target is run once in each block,
/// from the first run on. Further blocks are a better use of the time than further rounds.
pub(super) const LONG_COMMAND: f64 = 0.25;

/// A trial of a whole may take this many times its sample, so that untimed steps do not use up the
/// time of the run.
const PATIENCE: f64 = 5.0;
/// The least length of a sample of a whole, relative to its default length.
const SHORTEST: f64 = 0.1;
/// Seconds of a sample of a whole that works in memory. It is not made shorter.
const MEMORY_SECONDS: f64 = 0.1;
/// Durable single writes start at half speed for some tenths of a second: their sample is not made
/// shorter than this.
const EACH_SECONDS: f64 = 1.0;
/// Operations are planned this much above the need of the sample, because a rate is not the same
/// twice.
const MARGIN: f64 = 1.1;
/// As [`MARGIN`], if warm-up measured only the cell's neighbours.
const MARGIN_BETWEEN: f64 = 2.0;
/// The largest share of the time for wholes of requested lengths, beside cells in rounds.
const MOST_FOR_WHOLES: f64 = 0.7;

/// The costs of a cell on one target, measured as a whole in warm-up.
#[derive(Debug, Clone)]
pub(crate) struct SequentialCost {
    /// Index of the target in the plan.
    pub(crate) target: usize,
    /// Operations in the timed sample.
    pub(crate) operations: u64,
    /// Seconds of the timed sample.
    pub(crate) seconds: f64,
    /// Seconds of the steps around the sample.
    pub(crate) spent: Spent,
    /// The number of times that the journal was written in the timed sample; `None` if unknown.
    pub(crate) journal_turns: Option<f64>,
    /// Whether it was interpolated from the same work on other sizes, and not measured.
    pub(crate) between: bool,
}

/// The costs of a cell on one target, measured in rounds in warm-up.
#[derive(Debug, Clone)]
pub(crate) struct UnitCost {
    /// Seconds of a unit inside the clock.
    pub(crate) timed: f64,
    /// Seconds of a unit from go to result.
    pub(crate) wall: f64,
    /// Seconds of making the files of a unit and of removing them, if each unit has its own. If
    /// runs of a command begin in new directories, seconds of making one.
    pub(crate) prepare: f64,
    /// Seconds that do not depend on the number of rounds.
    pub(crate) fixed: f64,
}

/// A cell as the planner sees it.
#[derive(Debug, Clone)]
pub(super) enum Case {
    /// Measured in a sequential trial.
    SequentialTrial(Box<SequentialTrial>),
    /// Measured in rounds.
    Rounds(InRounds),
}

/// A cell that is measured in a sequential trial.
#[derive(Debug, Clone)]
pub(super) struct SequentialTrial {
    /// The profile of its workload.
    pub(super) profile: Profile,
    /// Seconds that a sample should last.
    pub(super) sample_seconds: f64,
    /// The number of times that the journal is to be written in a sample; `None` if the sample ends
    /// by its length.
    pub(super) sustain: Option<f64>,
    /// The costs on each target.
    pub(super) costs: Vec<SequentialCost>,
}

/// A cell that is measured in rounds.
#[derive(Debug, Clone)]
pub(super) struct InRounds {
    /// Each unit has files of its own.
    pub(super) own_files: bool,
    /// Each round uses the same units again.
    pub(super) reuse_files: bool,
    /// Each unit begins cold on files of its own.
    pub(super) is_cold: bool,
    /// Each unit is a run of a command in a new directory, which is made right before its sample.
    pub(super) new_directories: bool,
    /// Units that a slice has room for. For a command this is known from warm-up.
    pub(super) room: u32,
    /// Seconds that a sample should last.
    pub(super) sample_seconds: f64,
    /// A sample is long enough to be measured once a block, without a round that leads in.
    pub(super) single: bool,
    /// The costs on each target.
    pub(super) costs: Vec<UnitCost>,
}

/// Everything that a plan of a run depends on.
#[derive(Debug, Clone)]
pub(super) struct Basis<'a> {
    /// Cells in the plan's order.
    pub(super) cases: &'a [Case],
    /// Seconds of a block that belong to no cell: making all targets ready and tearing them down.
    pub(super) base: f64,
    /// Blocks of a whole rotation: the number of slices.
    pub(super) rotation: u32,
    /// Results are analysed on the way.
    pub(super) interim: bool,
    /// The repetition that the plan asks for.
    pub(super) repetition: Repetition,
    /// Whether the lengths of the samples of sequential trials were requested.
    pub(super) asked: bool,
    /// Seconds of the budget that are left.
    pub(super) left: f64,
    /// The machine is emulated: nothing is judged, and everything is slow.
    pub(super) emulated: bool,
}

/// The share of a cell in a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Share {
    /// The cell is measured in a sequential trial.
    SequentialTrial(Amount),
    /// The cell is measured in rounds, with their expected seconds on all targets.
    Rounds(Rounds, f64),
}

/// The plan of blocks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    /// The share of each case.
    pub(super) shares: Vec<Share>,
    /// Measured blocks to make.
    pub(super) blocks: u32,
    /// The numbers of blocks after which results are analysed; empty if the number of blocks was
    /// requested.
    pub(super) interim_analyses: Vec<u32>,
    /// Expected seconds of a block.
    pub(super) block_seconds: f64,
}

/// The number of blocks, and the work of each: the rounds of all cells in rounds, or the scale of
/// all samples of wholes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Size<T> {
    blocks: u32,
    of: T,
}

impl Basis<'_> {
    /// Decides.
    pub(super) fn decide(&self) -> Decision {
        if !self.interim {
            let Size { blocks, of: scale } = self.sequential_size(self.left);
            return self.decision(blocks, scale, 0.0, Vec::new());
        }
        let scale = self.sequential_size(self.left_for_sequential()).of;
        let (Size { blocks, of: rounds }, interim_analyses) = self.in_rounds(scale);
        self.decision(blocks, scale, rounds, interim_analyses)
    }

    /// Returns the cells that the budget holds often enough to judge them, by their index,
    /// ascending: each in its turn of `order`, if it fits beside those before.
    pub(super) fn judged(&self, order: &[usize]) -> Vec<usize> {
        let (mut judged, mut cases) = (Vec::new(), Vec::new());
        for index in order.iter().copied() {
            cases.push(self.cases[index].clone());
            if (Basis {
                cases: &cases,
                ..*self
            })
            .decide()
            .blocks
                >= FEWEST_BLOCKS_JUDGED
            {
                judged.push(index);
            } else {
                cases.pop();
            }
        }
        judged.sort_unstable();
        judged
    }

    /// Returns the seconds of the fewest blocks that judge all cells, with the shortest samples.
    pub(super) fn seconds_to_judge(&self) -> f64 {
        let fewest = if self.interim {
            fewest_blocks(self.rotation.max(1))
        } else {
            FEWEST_BLOCKS_JUDGED
        };
        self.block_seconds(shortest(self.asked), FEWEST_WITHOUT_CHOICE) * f64::from(fewest)
    }

    /// Returns the seconds of each cell in a block, on all targets together, with samples of the
    /// desired length.
    pub(super) fn seconds_of_cells(&self) -> Vec<f64> {
        self.cases
            .iter()
            .map(|case| self.seconds_of(case, 1.0, FEWEST_ROUNDS))
            .collect()
    }

    /// Returns the seconds of the budget that blocks may fill.
    pub(super) fn to_fill(&self) -> f64 {
        self.left * FILL
    }

    fn decision(
        &self,
        blocks: u32,
        scale: f64,
        rounds: f64,
        interim_analyses: Vec<u32>,
    ) -> Decision {
        let share = |case: &Case| match case {
            Case::SequentialTrial(trial) => Share::SequentialTrial(trial.amount(scale)),
            Case::Rounds(in_rounds) => {
                let units = in_rounds.units();
                let made = Rounds {
                    rounds: self.rounds_of(in_rounds, units, rounds),
                    units,
                    lead_in: !in_rounds.single,
                };
                Share::Rounds(made, self.seconds_of(case, scale, rounds))
            }
        };
        let shares = self.cases.iter().map(share).collect();
        Decision {
            shares,
            blocks,
            interim_analyses,
            block_seconds: self.block_seconds(scale, rounds),
        }
    }

    fn block_seconds(&self, scale: f64, rounds: f64) -> f64 {
        (self.base
            + self
                .cases
                .iter()
                .map(|case| self.seconds_of(case, scale, rounds))
                .sum::<f64>())
        .max(1e-3)
    }

    /// Returns the seconds of one cell in a block on all targets, for a scale of wholes and a
    /// number of rounds of the other cells.
    fn seconds_of(&self, case: &Case, scale: f64, rounds: f64) -> f64 {
        match case {
            Case::SequentialTrial(trial) => trial.expected(trial.amount(scale)),
            Case::Rounds(in_rounds) => {
                let units = in_rounds.units();
                in_rounds.seconds(units, self.rounds_of(in_rounds, units, rounds))
            }
        }
    }

    fn count_sequential(&self) -> usize {
        self.cases
            .iter()
            .filter(|case| matches!(case, Case::SequentialTrial(_)))
            .count()
    }

    /// Returns the seconds of the budget for cells that are measured as wholes: a share by their
    /// number, or the time of their fewest blocks if the length of their samples was requested.
    fn left_for_sequential(&self) -> f64 {
        let share = self.count_sequential() as f64 / self.cases.len().max(1) as f64;
        if !self.asked || !self.left.is_finite() {
            return self.left * share;
        }
        let whole = self.sequential_block_seconds(self.sequential_size(f64::INFINITY).of);
        let needed = to_hold(whole * f64::from(fewest_blocks(self.rotation)));
        (self.left * share).max(needed.min(self.left * MOST_FOR_WHOLES))
    }

    /// Returns the number of blocks of the wholes alone within `left` seconds, and the scale of
    /// their samples.
    fn sequential_size(&self, left: f64) -> Size<f64> {
        let shortest = shortest(self.asked);
        let held = |scale: f64| {
            (left * FILL / self.sequential_block_seconds(scale))
                .floor()
                .max(0.0) as u32
        };
        // The largest scale, up to 1, at which the time left holds this number of blocks; 0 if it
        // holds them at none.
        let scale_that_holds = |blocks: u32| {
            if held(1.0) >= blocks {
                return 1.0;
            }
            // Bisection: the block's time grows with the scale.
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..20 {
                let middle = (low + high) / 2.0;
                if held(middle) >= blocks {
                    low = middle
                } else {
                    high = middle
                }
            }
            low
        };
        let most = match self.repetition {
            Repetition::Blocks {
                blocks,
                seconds: None,
            } => return Size { blocks, of: 1.0 },
            Repetition::Blocks {
                blocks,
                seconds: Some(_),
            } => {
                return Size {
                    blocks,
                    of: scale_that_holds(blocks).max(shortest),
                };
            }
            Repetition::Precision { .. } => BLOCK_LIMIT,
            Repetition::Budget { .. } => MOST_BLOCKS,
        };
        let enough = if self.asked {
            FEWEST_BLOCKS_JUDGED
        } else {
            BLOCKS
        };
        if held(1.0) >= enough {
            return Size {
                blocks: held(1.0).min(most),
                of: 1.0,
            };
        }
        for blocks in (FEWEST_BLOCKS_JUDGED..=enough).rev() {
            let scale = scale_that_holds(blocks);
            if scale >= shortest {
                return Size { blocks, of: scale };
            }
        }
        Size {
            blocks: held(shortest).clamp(1, FEWEST_BLOCKS_JUDGED - 1),
            of: shortest,
        }
    }

    /// Returns the seconds of a block that contains only wholes.
    fn sequential_block_seconds(&self, scale: f64) -> f64 {
        let sequential = self
            .cases
            .iter()
            .filter(|case| matches!(case, Case::SequentialTrial(_)));
        // Beside cells in rounds, the time to make the targets ready belongs to those.
        let base = if self.interim { 0.0 } else { self.base };
        (base
            + sequential
                .map(|case| self.seconds_of(case, scale, 0.0))
                .sum::<f64>())
        .max(1e-3)
    }

    /// Returns the blocks, rounds and interim analyses beside wholes of this scale.
    fn in_rounds(&self, scale: f64) -> (Size<f64>, Vec<u32>) {
        let within = |seconds: f64| {
            let steps = (MOST_ROUNDS / STEP) as u32;
            let mut rounds = (1..=steps).rev().map(|step| f64::from(step) * STEP);
            rounds
                .find(|rounds| self.block_seconds(scale, *rounds) <= seconds)
                .unwrap_or(0.0)
        };
        let (budget, rotation) = (self.to_fill(), self.rotation.max(1));
        let most = match self.repetition {
            Repetition::Blocks { blocks, seconds } => {
                let usual = if self.emulated {
                    FEWEST_ROUNDS
                } else {
                    USUAL_ROUNDS
                };
                return (
                    Size {
                        blocks,
                        of: if seconds.is_some() {
                            within(budget / f64::from(blocks)).clamp(FEWEST_WITHOUT_CHOICE, usual)
                        } else {
                            usual
                        },
                    },
                    Vec::new(),
                );
            }
            Repetition::Budget { .. } => MOST_BLOCKS,
            Repetition::Precision { .. } => BLOCK_LIMIT,
        };
        let fewest = fewest_blocks(rotation);
        let desired = BLOCKS_IN_ROUNDS.next_multiple_of(rotation);
        let mut blocks = desired.min(most / rotation * rotation).max(fewest);
        loop {
            let rounds = within(budget / f64::from(blocks));
            if rounds >= MOST_ROUNDS {
                // Time is left for more blocks.
                let held = (budget / self.block_seconds(scale, MOST_ROUNDS))
                    .floor()
                    .min(f64::from(most)) as u32;
                let blocks = (held / rotation * rotation).max(blocks);
                return (
                    Size {
                        blocks,
                        of: MOST_ROUNDS,
                    },
                    interim_analyses(blocks, rotation),
                );
            }
            if rounds >= FEWEST_ROUNDS || blocks <= fewest && rounds >= FEWEST_WITHOUT_CHOICE {
                return (
                    Size { blocks, of: rounds },
                    interim_analyses(blocks, rotation),
                );
            }
            if blocks <= fewest {
                break;
            }
            blocks -= rotation;
        }
        // Fewer blocks than can be judged: whole rotations if the budget holds one.
        let held = (budget / self.block_seconds(scale, FEWEST_WITHOUT_CHOICE)) as u32;
        let whole = if held < rotation {
            held
        } else {
            held / rotation * rotation
        };
        let single = self
            .cases
            .iter()
            .all(|case| !matches!(case, Case::Rounds(in_rounds) if !in_rounds.single));
        let blocks = if single && held >= FEWEST_BLOCKS_JUDGED {
            FEWEST_BLOCKS_JUDGED
        } else {
            whole
        };
        let blocks = blocks.clamp(1, fewest - 1);
        let rounds = within(budget / f64::from(blocks)).max(FEWEST_WITHOUT_CHOICE);
        (Size { blocks, of: rounds }, Vec::new())
    }

    /// Returns the rounds of one cell if other cells have `rounds`: at most as many as its files
    /// have room for.
    fn rounds_of(&self, in_rounds: &InRounds, units: u32, rounds: f64) -> u32 {
        // The fewest rounds leave no choice.
        let share = (rounds - FEWEST_WITHOUT_CHOICE).clamp(0.0, 1.0);
        let weight = 1.0 + (self.weight(in_rounds, units) - 1.0) * share;
        let rounds = if in_rounds.single { 1.0 } else { rounds };
        let rounds = (rounds * weight).floor().min(MOST_ROUNDS) as u32;
        if !in_rounds.own_files {
            return rounds;
        }
        (1..=rounds)
            .rev()
            .find(|rounds| in_rounds.made(*rounds, units) <= in_rounds.room)
            .unwrap_or(1)
    }

    /// Returns the number of rounds of this cell that are worth one round of a reference cell. In
    /// the reference cell, the steps that are done once cost as much as two rounds. The best number
    /// of rounds within a block is proportional to the square root of the cost of a block over that
    /// of a round. It is also proportional to the noise of rounds over that of blocks (Cochran,
    /// Sampling Techniques, 3rd edition, section 10.6). The noise is not known before, and is
    /// assumed to be equal in all cells. If the number of blocks was requested, time does not
    /// decide, so that such runs repeat exactly.
    fn weight(&self, in_rounds: &InRounds, units: u32) -> f64 {
        if matches!(self.repetition, Repetition::Blocks { .. }) {
            return 1.0;
        }
        let few = FEWEST_ROUNDS as u32;
        let more = few + 1;
        let round = (in_rounds.seconds(units, more) - in_rounds.seconds(units, few)).max(1e-9);
        let once = in_rounds.seconds(units, few) - f64::from(few) * round;
        (once / (2.0 * round))
            .max(0.0)
            .sqrt()
            .clamp(1.0, MOST_WEIGHT)
    }
}

impl InRounds {
    /// Returns the units of a sample. The fastest target decides, so that no target's sample is
    /// shorter. If making the files of a unit takes much longer than its work, a sample is one
    /// unit.
    fn units(&self) -> u32 {
        let costs = || self.costs.iter().filter(|cost| cost.timed > 0.0);
        let fastest = costs().map(|cost| cost.timed).fold(f64::MAX, f64::min);
        let wanted = (self.sample_seconds / fastest).ceil().clamp(1.0, 1e6) as u32;
        let making = costs().map(|cost| cost.prepare).sum::<f64>() / costs().count().max(1) as f64;
        if self.new_directories {
            // The directories of a sample exist side by side, with what `setup` and the command
            // write.
            return if making > fastest {
                1
            } else {
                wanted.min(self.room).max(1)
            };
        }
        if !self.own_files {
            return wanted;
        }
        let uses = if self.reuse_files { USUAL_ROUNDS } else { 1.0 };
        let most = if making > fastest * MAKING * uses {
            1
        } else {
            self.room / self.made(FEWEST_ROUNDS as u32, 1)
        };
        wanted.min(most).max(1)
    }

    fn made(&self, rounds: u32, units: u32) -> u32 {
        sets(
            self.reuse_files,
            rounds,
            spares(rounds, self.is_cold),
            units,
        )
    }

    /// Returns the seconds of a number of rounds on all targets.
    fn seconds(&self, units: u32, rounds: u32) -> f64 {
        let lead_in = u32::from(!self.single);
        let done = f64::from(rounds * units + lead_in);
        let made = if self.new_directories {
            done
        } else {
            f64::from(self.made(rounds, units))
        };
        let around = f64::from(rounds + lead_in) * AROUND;
        self.costs
            .iter()
            .map(|cost| {
                cost.fixed + made * cost.prepare + done * cost.wall.max(cost.timed) + around
            })
            .sum()
    }
}

impl SequentialTrial {
    /// Returns the seconds in which the journal of the slowest target is written as often as
    /// requested. The time is the same for all targets, because a rate after a minute differs from
    /// one after ten seconds.
    fn held(&self, sustain: f64) -> f64 {
        /// The limit for a target whose journal is hardly written.
        const LONGEST: f64 = 6.0;
        const MARGIN: f64 = 1.2;
        let needed = self
            .costs
            .iter()
            .filter(|cost| cost.seconds > 0.0)
            .filter_map(|cost| {
                let turns = cost.journal_turns?;
                Some(if turns > 0.0 {
                    sustain * cost.seconds / turns * MARGIN
                } else {
                    f64::INFINITY
                })
            });
        needed
            .fold(self.sample_seconds, f64::max)
            .min(self.sample_seconds * LONGEST)
    }

    fn amount(&self, scale: f64) -> Amount {
        let profile = &self.profile;
        if let Some(sustain) = self.sustain {
            let until_ms = Some((self.held(sustain) * 1e3).ceil() as u64);
            return Amount {
                repetitions: 1,
                operations: u64::MAX,
                until_ms,
            };
        }
        let costs = || self.costs.iter().filter(|cost| cost.seconds > 0.0);
        fn rate(cost: &&SequentialCost) -> f64 {
            cost.operations as f64 / cost.seconds
        }
        let seconds = seconds(profile, self.sample_seconds, scale);
        let pass = profile.operations.max(1);
        let Some(fastest) = costs().max_by(|a, b| rate(a).total_cmp(&rate(b))) else {
            return Amount::new(1, pass);
        };
        let slowest = costs()
            .map(|cost| rate(&cost))
            .fold(f64::INFINITY, f64::min);
        // A disk a thousand times slower than memory must not measure for an hour what memory does
        // in two seconds.
        let mut bound = slowest
            * seconds
            * if profile.divisible {
                PATIENCE
            } else {
                f64::INFINITY
            };
        if profile.renewal == Renewal::Inside {
            // The worker's steps between passes take time as well.
            bound = bound.min(
                seconds * PATIENCE
                    / costs()
                        .map(|cost| {
                            cost.spent.measure.max(cost.seconds) / cost.operations.max(1) as f64
                        })
                        .fold(0.0, f64::max),
            );
        }
        let margin = if fastest.between {
            MARGIN_BETWEEN
        } else {
            MARGIN
        };
        let wanted =
            ((rate(&fastest) * seconds * margin).min(bound).ceil() as u64).max(profile.fewest);
        if profile.repeats_in_place {
            // A part of a pass would have a whole flush, or a whole close.
            let whole = !profile.divisible || (self.has_ends() && wanted > pass);
            let operations = if whole {
                wanted.div_ceil(pass) * pass
            } else {
                wanted
            };
            return Amount::new(1, operations);
        }
        // Without renewal no state is restored: such a workload is one whole, and one is a trial.
        let repetitions = if profile.renewal == Renewal::Never {
            1
        } else {
            wanted.div_ceil(pass)
        };
        let operations = if profile.divisible {
            wanted.div_ceil(repetitions).min(pass)
        } else {
            pass
        };
        let one = Amount::new(1, operations);
        let longest = costs()
            .map(|cost| cost.expected_seconds(profile, one))
            .fold(0.0, f64::max);
        let patience = (seconds * PATIENCE / longest).floor().max(1.0);
        Amount::new((repetitions as f64).min(patience) as u32, operations)
    }

    /// Returns whether something is done at the end of each pass, inside the clock.
    fn has_ends(&self) -> bool {
        self.profile.renewal == Renewal::Inside || self.profile.durability == Durability::End
    }

    /// Returns the expected seconds of trials with this amount, one on each target, from the
    /// measurements of warm-up.
    fn expected(&self, amount: Amount) -> f64 {
        self.costs
            .iter()
            .map(|cost| cost.expected_seconds(&self.profile, amount))
            .sum()
    }
}

impl SequentialCost {
    /// Returns the expected seconds of a trial of this amount.
    pub(super) fn expected_seconds(&self, profile: &Profile, amount: Amount) -> f64 {
        if let Some(until) = amount.until_ms {
            let Spent {
                prepare,
                set_up,
                measure,
                cleanup,
            } = self.spent;
            return until as f64 * 1e-3
                + prepare
                + set_up
                + cleanup
                + (measure - self.seconds).max(0.0);
        }
        let repetitions = f64::from(amount.repetitions);
        let operations = amount.operations as f64 * repetitions;
        let timed = self.seconds * operations / (self.operations.max(1) as f64);
        // Untimed steps of the measurement: the worker's exit, and untimed parts of the
        // micro-benchmarks. They grow with the number of passes if the worker restores the state
        // itself, and with the number of cycles of a micro-benchmark, of which warm-up measured
        // some.
        let around = (self.spent.measure - self.seconds).max(0.0);
        let in_cycles = profile.renewal == Renewal::Never && !profile.divisible;
        let around = match profile.renewal == Renewal::Inside || in_cycles {
            true => around * operations / (self.operations.max(1) as f64),
            false => around * repetitions,
        };
        let renewed = if profile.renewal == Renewal::Recreate {
            repetitions
        } else {
            1.0
        };
        (self.spent.prepare + self.spent.cleanup) * renewed
            + self.spent.set_up * repetitions
            + timed
            + around
    }
}

/// Returns the seconds of a budget that holds blocks of `seconds` in all.
pub(super) fn to_hold(seconds: f64) -> f64 {
    seconds / FILL
}

/// Returns the number of rounds that may be retried because a neighbour was not idle. Hardly any
/// is, so few rounds have no spare one, for which files would have to be made. Cold units with
/// files of their own always have one: the kernel reads less ahead of the files that were made
/// last.
pub(super) fn spares(rounds: u32, is_cold: bool) -> u32 {
    (rounds / 8).max(u32::from(is_cold))
}

/// Returns the fewest blocks of a budget: whole rotations of the slices.
pub(super) fn fewest_blocks(rotation: u32) -> u32 {
    FEWEST_BLOCKS.next_multiple_of(rotation)
}

/// Returns the number of file sets for the rounds of a cell if each unit has its own. One leads in,
/// and some rounds are spare. With `reuse_files`, all rounds use the sets of one sample.
pub(crate) fn sets(reuse_files: bool, rounds: u32, spares: u32, units: u32) -> u32 {
    let samples = if reuse_files { 1 } else { rounds + spares };
    samples * units + 1
}

/// Returns the numbers of blocks after which results are analysed: a quarter of the blocks, half,
/// three quarters and all, each a whole rotation. Cells that ended early may leave time for more
/// blocks, so one and a half times and twice as many follow.
fn interim_analyses(blocks: u32, rotation: u32) -> Vec<u32> {
    let at = |share: f64| ((f64::from(blocks) * share).ceil() as u32).next_multiple_of(rotation);
    let mut interim_analyses: Vec<u32> = [at(0.25), at(0.5), at(0.75)]
        .into_iter()
        .filter(|at| *at >= FEWEST_BLOCKS && *at < blocks)
        .collect();
    interim_analyses.extend([blocks, at(1.5), at(2.0)]);
    // With few blocks, two shares may be the same rotation.
    interim_analyses.dedup();
    interim_analyses
}

fn seconds(profile: &Profile, sample_seconds: f64, scale: f64) -> f64 {
    let floor = if profile.durability == Durability::Each {
        EACH_SECONDS.min(sample_seconds)
    } else {
        0.0
    };
    shortened(sample_seconds, scale).max(floor)
}

/// Returns the minimum length of a sample, relative to its desired length: 1 if the plan requests a
/// length (`asked`).
pub(super) fn shortest(asked: bool) -> f64 {
    if asked { 1.0 } else { SHORTEST }
}

/// Returns the seconds of a sample that the budget makes shorter, but not shorter than a sample in
/// memory.
pub(super) fn shortened(sample_seconds: f64, scale: f64) -> f64 {
    (sample_seconds * scale).max(MEMORY_SECONDS.min(sample_seconds))
}

/// Returns the desired seconds of a whole's sample: the time that was `asked` for, or else a
/// default that is shorter if nothing reaches the device.
pub(super) fn sequential_seconds(profile: &Profile, asked: Option<f64>) -> f64 {
    asked.unwrap_or(if profile.reaches_device {
        VISIT
    } else {
        MEMORY_SECONDS
    })
}

/// Returns the seconds after which a warm-up repetition ends early: enough to measure a rate. Work
/// that continues until a journal was written needs its whole least time `held`.
pub(super) fn warmup_seconds(
    profile: &Profile,
    plan: &Plan,
    held: Option<f64>,
    trials: usize,
) -> f64 {
    let share = plan.repetition.budget().map_or(f64::INFINITY, |budget| {
        budget.as_secs_f64() / trials.max(1) as f64 / 10.0
    });
    let whole = sequential_seconds(profile, held.or(plan.sample_time));
    whole.min(share).max(MEMORY_SECONDS.min(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsb_engine::{Sizing, workload};
    use fsb_model::WorkloadSpec;
    use proptest::prelude::*;
    use serde_json::json;

    const FEWEST_ROUNDS: u32 = super::FEWEST_ROUNDS as u32;
    const FEWEST_WITHOUT_CHOICE: u32 = super::FEWEST_WITHOUT_CHOICE as u32;
    const MOST_ROUNDS: u32 = super::MOST_ROUNDS as u32;
    const USUAL_ROUNDS: u32 = super::USUAL_ROUNDS as u32;

    const BASIS: Basis<'static> = Basis {
        cases: &[],
        base: 1.0,
        rotation: 1,
        interim: false,
        repetition: Repetition::Budget { seconds: 0.0 },
        asked: false,
        left: 0.0,
        emulated: false,
    };

    fn sequential(name: &str, params: serde_json::Value, costs: &[(u64, f64)]) -> SequentialTrial {
        let spec = WorkloadSpec::new(name, serde_json::from_value(params).unwrap());
        let profile = workload::parse(
            &spec,
            &Sizing {
                size: 2 << 30,
                cpus: 2,
            },
        )
        .unwrap()
        .profile();
        let cost = |(target, (operations, seconds)): (usize, &(u64, f64))| SequentialCost {
            target,
            operations: *operations,
            seconds: *seconds,
            spent: Spent {
                prepare: 0.2,
                set_up: 0.1,
                measure: *seconds,
                cleanup: 0.1,
            },
            journal_turns: None,
            between: false,
        };
        SequentialTrial {
            profile,
            sample_seconds: 2.0,
            sustain: None,
            costs: costs.iter().enumerate().map(cost).collect(),
        }
    }

    /// Plans one whole within `left` seconds.
    fn plan_sequential(trial: &SequentialTrial, left: f64) -> Decision {
        let repetition = Repetition::Budget { seconds: left };
        Basis {
            cases: &[Case::SequentialTrial(Box::new(trial.clone()))],
            repetition,
            left,
            ..BASIS
        }
        .decide()
    }

    fn amount(decided: &Decision) -> Amount {
        let Share::SequentialTrial(amount) = decided.shares[0] else {
            panic!("{decided:?}")
        };
        amount
    }

    fn rounds(decided: &Decision, case: usize) -> Rounds {
        let Share::Rounds(rounds, _) = decided.shares[case] else {
            panic!("{decided:?}")
        };
        rounds
    }

    fn seconds(decided: &Decision, case: usize) -> f64 {
        let Share::Rounds(_, seconds) = decided.shares[case] else {
            panic!("{decided:?}")
        };
        seconds
    }

    fn in_rounds(own_files: bool, reuse_files: bool, single: bool, cost: UnitCost) -> Case {
        let costs = vec![cost.clone(), cost];
        let (room, new_directories) = (100, false);
        Case::Rounds(InRounds {
            own_files,
            reuse_files,
            is_cold: false,
            new_directories,
            room,
            sample_seconds: SAMPLE_SECONDS,
            single,
            costs,
        })
    }

    /// Plans a command whose runs begin in new directories, of which a slice has room for `room`.
    fn command_in(room: u32, timed: f64, prepare: f64, single: bool, left: f64) -> Decision {
        let Case::Rounds(in_rounds) = in_rounds(
            false,
            false,
            single,
            UnitCost {
                timed,
                wall: timed,
                prepare,
                fixed: 0.02,
            },
        ) else {
            unreachable!()
        };
        let cases = [Case::Rounds(InRounds {
            new_directories: true,
            room,
            ..in_rounds
        })];
        basis(&cases, 2, Repetition::Budget { seconds: left }, left).decide()
    }

    fn command(timed: f64, prepare: f64, single: bool, left: f64) -> Decision {
        command_in(1000, timed, prepare, single, left)
    }

    fn all_in_rounds(count: usize, unit: f64) -> Vec<Case> {
        let of = |at: usize| {
            let own = at.is_multiple_of(2);
            let cost = UnitCost {
                timed: unit,
                wall: unit * 1.2,
                prepare: if own { unit } else { 0.0 },
                fixed: 0.05,
            };
            in_rounds(own, at.is_multiple_of(4), false, cost)
        };
        (0..count).map(of).collect()
    }

    fn basis(cases: &[Case], rotation: u32, repetition: Repetition, left: f64) -> Basis<'_> {
        Basis {
            cases,
            rotation,
            interim: true,
            repetition,
            left,
            ..BASIS
        }
    }

    fn decide(unit: f64, left: f64, rotation: u32) -> Decision {
        basis(
            &all_in_rounds(12, unit),
            rotation,
            Repetition::Budget { seconds: left },
            left,
        )
        .decide()
    }

    #[test]
    fn the_fastest_target_gets_two_seconds_and_the_others_no_less() {
        let params = json!({"file_size": "256M", "block_size": "4K", "access": "random", "durability": "each"});
        let random = |costs: &[(u64, f64)]| sequential("write", params.clone(), costs);
        let decided = plan_sequential(&random(&[(10_000, 1.0), (5_000, 1.0)]), 3600.0);
        assert_eq!(amount(&decided), Amount::new(1, 22_000));
        // A target that is ten times slower measures five times as long, not ten.
        let decided = plan_sequential(&random(&[(10_000, 1.0), (1_000, 1.0)]), 3600.0);
        assert_eq!(
            (amount(&decided).operations, decided.blocks),
            (10_000, MOST_BLOCKS)
        );
    }

    #[test]
    fn a_small_budget_makes_shorter_sequential_trials_rather_than_fewer_blocks() {
        let params = json!({"files": 1000, "file_size": "4K", "durability": "end"});
        let create = sequential("create", params, &[(1000, 0.1), (1000, 0.1)]);
        // Two seconds would be 22 repetitions, but each takes half a second: five times the sample
        // is 20 of them.
        assert_eq!(
            amount(&plan_sequential(&create, 600.0)),
            Amount::new(20, 1000)
        );
        let usual = plan_sequential(&create, 90.0);
        assert!(
            usual.blocks == BLOCKS && amount(&usual).repetitions < 20,
            "{usual:?}"
        );
        let poor = plan_sequential(&create, 10.0);
        assert!(
            poor.blocks < FEWEST_BLOCKS_JUDGED
                && poor.block_seconds * f64::from(poor.blocks) <= 10.0,
            "{poor:?}"
        );
        let cases = [Case::SequentialTrial(Box::new(create))];
        let repetition = Repetition::Budget { seconds: 60.0 };
        let asked = Basis {
            cases: &cases,
            asked: true,
            repetition,
            left: 60.0,
            ..BASIS
        }
        .decide();
        assert!(
            asked.blocks < FEWEST_BLOCKS_JUDGED && amount(&asked).repetitions == 20,
            "{asked:?}"
        );
    }

    #[test]
    fn blocks_that_were_asked_for_are_made_and_never_end_early() {
        let repetition = Repetition::Blocks {
            blocks: 7,
            seconds: None,
        };
        let cases = [Case::SequentialTrial(Box::new(sequential(
            "read",
            json!({"file_size": "8M", "cache": "warm"}),
            &[(8, 0.001)],
        )))];
        let decided = Basis {
            cases: &cases,
            repetition,
            left: 1.0,
            ..BASIS
        }
        .decide();
        assert!(
            decided.blocks == 7 && amount(&decided).operations >= 800,
            "{decided:?}"
        );
        let decided = basis(&all_in_rounds(1, 0.01), 3, repetition, 1.0).decide();
        assert_eq!((decided.blocks, decided.interim_analyses.len()), (7, 0));
    }

    #[test]
    fn a_micro_benchmark_is_planned_from_some_of_its_cycles() {
        // Thirty cycles of ten iterations, of which warm-up measured two. Half of each cycle is
        // outside the clock.
        let create = sequential(
            "micro-create",
            json!({"iterations": 10, "cycles": 30}),
            &[(20, 1.0)],
        );
        let mut cost = create.costs[0].clone();
        cost.spent.measure = 2.0;
        let seconds = cost.expected_seconds(&create.profile, create.amount(1.0));
        assert!((seconds - 30.4).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn a_cell_that_failed_everywhere_still_has_an_amount() {
        assert_eq!(
            amount(&plan_sequential(
                &sequential("rename", json!({"files": 10}), &[]),
                100.0
            )),
            Amount::new(1, 10)
        );
    }

    #[test]
    fn sequential_trials_beside_rounds_have_their_share_of_the_time() {
        let params = json!({"files": 1000, "file_size": "4K", "durability": "end"});
        let mut cases = all_in_rounds(2, 0.01);
        cases.push(Case::SequentialTrial(Box::new(sequential(
            "create",
            params,
            &[(1000, 0.1), (1000, 0.1)],
        ))));
        let decided = basis(&cases, 2, Repetition::Budget { seconds: 300.0 }, 300.0).decide();
        let Share::SequentialTrial(amount) = decided.shares[2] else {
            panic!("{decided:?}")
        };
        // A third of 300 s, in 12 blocks.
        let Case::SequentialTrial(trial) = &cases[2] else {
            unreachable!()
        };
        assert!(
            (4.0..300.0 / 3.0 / 12.0).contains(&trial.expected(amount)),
            "{decided:?}"
        );
        assert!(
            decided.block_seconds * f64::from(decided.blocks) <= 300.0,
            "{decided:?}"
        );
    }

    #[test]
    fn five_minutes_hold_24_blocks_and_are_analysed_on_the_way() {
        for rotation in [2, 3] {
            let decided = decide(0.01, 280.0, rotation);
            assert_eq!(
                (decided.blocks, &decided.interim_analyses[..]),
                (24, &[6, 12, 18, 24, 36, 48][..])
            );
            assert!(
                (0..12).all(|case| rounds(&decided, case).rounds >= FEWEST_ROUNDS),
                "{decided:?}"
            );
            assert_eq!(rounds(&decided, 1).units, 3);
        }
        // Less time makes rounds fewer first, and then blocks.
        let decided = decide(0.01, 60.0, 3);
        assert!(
            (6..24).contains(&decided.blocks) && rounds(&decided, 0).rounds >= FEWEST_ROUNDS,
            "{decided:?}"
        );
    }

    #[test]
    fn no_more_blocks_are_planned_than_a_budget_may_have() {
        for rotation in 1..=MOST_BLOCKS {
            let decided = decide(0.0001, 1e6, rotation);
            assert!(
                decided.blocks <= MOST_BLOCKS.max(fewest_blocks(rotation)),
                "{rotation}: {}",
                decided.blocks
            );
        }
    }

    #[test]
    fn a_budget_that_cannot_judge_all_judges_the_first_of_the_plan() {
        let all_in_rounds = all_in_rounds(12, 0.01);
        fn of_budget(cases: &[Case], left: f64) -> Basis<'_> {
            basis(cases, 2, Repetition::Budget { seconds: left }, left)
        }
        let order: Vec<usize> = (0..12).collect();
        assert_eq!(of_budget(&all_in_rounds, 280.0).judged(&order).len(), 12);
        // The second budget judges one of twelve.
        for left in [15.0, 9.0] {
            let few = of_budget(&all_in_rounds, left);
            let judged = few.judged(&order);
            assert!(
                (1..12).contains(&judged.len()) && few.decide().blocks < fewest_blocks(2),
                "{judged:?}"
            );
            let cases: Vec<Case> = judged
                .iter()
                .map(|index| all_in_rounds[*index].clone())
                .collect();
            assert!(of_budget(&cases, left).decide().blocks >= fewest_blocks(2));
            // The time of all cells is a budget that judges them.
            assert_eq!(
                of_budget(&all_in_rounds, few.seconds_to_judge() / FILL + 0.1)
                    .judged(&order)
                    .len(),
                12
            );
        }
        assert!(of_budget(&all_in_rounds, 0.1).judged(&order).is_empty());
    }

    #[test]
    fn sequential_trials_are_left_out_as_well_so_that_the_rest_is_judged() {
        let case = |seconds: f64| {
            let mut create = sequential(
                "create",
                json!({"files": 1000, "durability": "end"}),
                &[(1000, seconds)],
            );
            create.sample_seconds = seconds;
            Case::SequentialTrial(Box::new(create))
        };
        // A long case in the middle does not keep the short ones behind it from being judged.
        let cases = [case(1.0), case(600.0), case(1.0)];
        let repetition = Repetition::Budget { seconds: 60.0 };
        let basis = Basis {
            cases: &cases,
            repetition,
            left: 60.0,
            ..BASIS
        };
        assert!(basis.decide().blocks < FEWEST_BLOCKS_JUDGED);
        assert_eq!(basis.judged(&[0, 1, 2]), [0, 2]);
        assert_eq!(basis.judged(&[2, 1, 0]), [0, 2]);
        let mixed = [all_in_rounds(1, 0.01), cases.to_vec()].concat();
        let basis = Basis {
            cases: &mixed,
            interim: true,
            ..basis
        };
        assert!(basis.decide().blocks < FEWEST_BLOCKS_JUDGED);
        assert_eq!(basis.judged(&[0, 1, 2, 3]), [0, 1, 3]);
    }

    #[test]
    fn a_long_command_runs_once_a_block_and_gets_more_blocks() {
        let decide = |timed: f64, single, left| {
            let cost = UnitCost {
                timed,
                wall: timed,
                prepare: 0.0,
                fixed: 0.02,
            };
            basis(
                &[in_rounds(false, false, single, cost)],
                2,
                Repetition::Budget { seconds: left },
                left,
            )
            .decide()
        };
        let decided = decide(1.0, true, 50.0);
        assert_eq!(
            rounds(&decided, 0),
            Rounds {
                rounds: 1,
                units: 1,
                lead_in: false
            }
        );
        assert_eq!(
            (decided.blocks, &decided.interim_analyses[..2]),
            (14, &[8, 12][..])
        );
        assert_eq!(decide(1.0, false, 50.0).blocks, 6);
        // Five blocks can be judged, though they are no whole rotation.
        let decided = decide(4.0, true, 52.0);
        assert_eq!((decided.blocks, decided.interim_analyses.len()), (5, 0));
        // Runs on a state that takes long to make are worth more rounds.
        let slow_setup = UnitCost {
            timed: 1.0,
            wall: 1.0,
            prepare: 0.0,
            fixed: 20.0,
        };
        let repetition = Repetition::Budget { seconds: 900.0 };
        let decided = basis(
            &[in_rounds(false, false, true, slow_setup)],
            2,
            repetition,
            900.0,
        )
        .decide();
        assert_eq!(rounds(&decided, 0).rounds, 3);
    }

    #[test]
    fn directories_that_take_long_to_make_are_paid_for_by_each_run() {
        // Empty directories: a sample has several runs of a short command.
        let short = command(0.005, 0.001, false, 60.0);
        assert_eq!(rounds(&short, 0).units, 5);
        // The slice has room for three runs.
        let full = command_in(3, 0.005, 0.001, false, 60.0);
        assert_eq!(rounds(&full, 0).units, 3);
        // A setup that takes longer than the command: a sample is one run, and the budget holds
        // fewer rounds of it.
        let set_up = command(0.005, 1.0, false, 60.0);
        assert_eq!(rounds(&set_up, 0).units, 1);
        assert!(
            seconds(&set_up, 0) > 2.0 * f64::from(rounds(&set_up, 0).rounds),
            "{set_up:?}"
        );
        assert!(
            set_up.block_seconds * f64::from(set_up.blocks) <= 60.0,
            "{set_up:?}"
        );
        assert!(
            set_up.blocks < short.blocks || rounds(&set_up, 0).rounds < rounds(&short, 0).rounds,
            "{set_up:?}"
        );
        // More rounds of a long command would each need the setup again, so they are worth no more
        // than blocks.
        let long = command(1.0, 20.0, true, 900.0);
        assert_eq!(
            rounds(&long, 0),
            Rounds {
                rounds: 1,
                units: 1,
                lead_in: false
            }
        );
    }

    #[test]
    fn a_bound_makes_rounds_fewer_before_there_are_fewer_blocks() {
        let made = |seconds, left| {
            let decided = basis(
                &all_in_rounds(2, 0.1),
                2,
                Repetition::Blocks { blocks: 6, seconds },
                left,
            )
            .decide();
            assert_eq!((decided.blocks, decided.interim_analyses.len()), (6, 0));
            rounds(&decided, 1).rounds
        };
        assert_eq!(made(None, f64::INFINITY), USUAL_ROUNDS);
        assert_eq!(made(Some(900.0), 900.0), USUAL_ROUNDS);
        assert!((FEWEST_WITHOUT_CHOICE + 1..USUAL_ROUNDS).contains(&made(Some(36.0), 36.0)));
        assert_eq!(made(Some(5.0), 5.0), FEWEST_WITHOUT_CHOICE);
    }

    #[test]
    fn files_that_are_visited_again_make_longer_samples_possible() {
        let cost = UnitCost {
            timed: 0.005,
            wall: 0.006,
            prepare: 0.03,
            fixed: 0.05,
        };
        let all_in_rounds = [
            in_rounds(true, false, false, cost.clone()),
            in_rounds(true, true, false, cost),
        ];
        let decided = basis(
            &all_in_rounds,
            2,
            Repetition::Budget { seconds: 120.0 },
            120.0,
        )
        .decide();
        assert_eq!(
            (rounds(&decided, 0).units, rounds(&decided, 1).units),
            (1, 5)
        );
        let of_unit = |case| {
            let Rounds { rounds, units, .. } = rounds(&decided, case);
            seconds(&decided, case) / f64::from(rounds * units)
        };
        assert!(of_unit(1) < of_unit(0), "{decided:?}");
    }

    #[test]
    fn no_number_of_blocks_is_analysed_twice() {
        for rotation in 1..=16 {
            for blocks in (rotation..=MOST_BLOCKS).step_by(rotation as usize) {
                let interim_analyses = interim_analyses(blocks, rotation);
                assert!(
                    interim_analyses.windows(2).all(|pair| pair[0] < pair[1]),
                    "{blocks} blocks of {rotation}: {interim_analyses:?}"
                );
                assert!(
                    interim_analyses.contains(&blocks)
                        && interim_analyses
                            .iter()
                            .all(|analysis| analysis.is_multiple_of(rotation))
                );
            }
        }
    }

    /// Half a second of making files before rounds of some hundredths is spread over more of them.
    #[test]
    fn work_done_once_per_set_makes_more_rounds_worthwhile() {
        let cost = |fixed| UnitCost {
            timed: 0.03,
            wall: 0.03,
            prepare: 0.0,
            fixed,
        };
        let all_in_rounds = [
            in_rounds(false, false, false, cost(0.01)),
            in_rounds(false, false, false, cost(0.5)),
        ];
        let made = |repetition, left| {
            let decided = basis(&all_in_rounds, 2, repetition, left).decide();
            assert!(
                decided.block_seconds * f64::from(decided.blocks) <= left,
                "{decided:?}"
            );
            (rounds(&decided, 0).rounds, rounds(&decided, 1).rounds)
        };
        let (cheap, dear) = made(Repetition::Budget { seconds: 30.0 }, 30.0);
        assert!(
            cheap >= FEWEST_ROUNDS && dear >= 2 * cheap,
            "{cheap} {dear}"
        );
        assert_eq!(
            made(Repetition::Budget { seconds: 900.0 }, 900.0),
            (MOST_ROUNDS, MOST_ROUNDS)
        );
        assert_eq!(
            made(
                Repetition::Blocks {
                    blocks: 3,
                    seconds: None
                },
                30.0
            ),
            (USUAL_ROUNDS, USUAL_ROUNDS)
        );
    }

    proptest! {
        #[test]
        fn more_budget_never_means_less_work(left in 1.0f64..2000.0, more in 1.0f64..2000.0, rate in 100u64..1_000_000) {
            let create = sequential("create", json!({"files": 1000, "durability": "end"}), &[(rate, 1.0)]);
            let (little, much) = (plan_sequential(&create, left), plan_sequential(&create, left + more));
            prop_assert!(much.blocks >= little.blocks);
            prop_assert!(amount(&much).repetitions >= amount(&little).repetitions);
        }

        #[test]
        fn budgets_are_kept_and_fewer_blocks_than_can_be_judged_are_never_analysed(
            unit in 0.0005f64..0.2, left in 1.0f64..4000.0, rotation in 1u32..7,
        ) {
            let decided = decide(unit, left, rotation);
            prop_assert!(decided.blocks.is_multiple_of(rotation) || decided.blocks < rotation);
            if decided.interim_analyses.is_empty() {
                prop_assert!((1..fewest_blocks(rotation)).contains(&decided.blocks));
            } else {
                prop_assert!(decided.blocks >= FEWEST_BLOCKS && decided.interim_analyses.contains(&decided.blocks));
            }
            prop_assert!(decided.interim_analyses.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(decided.interim_analyses.iter().all(|analysis| analysis.is_multiple_of(rotation)));
            prop_assert!(decided.blocks == 1 || decided.block_seconds * f64::from(decided.blocks) <= left, "{:?}", decided);
        }
    }
}
