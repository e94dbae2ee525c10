//! A region of the grid, judged on runs: one mean of logarithms a run, whatever the number of cells.

use super::collected::Collected;
use super::document::{BySet, Estimates, RunLevel};
use super::table::{Matrix, Table};
use crate::comparison::{BlockValue, Comparison};
use crate::error::AnalysisError;
use crate::interval::exp;
use crate::ranking::Ranking;
use crate::sample::Sample;
use crate::{FEWEST_JUDGED, LEVEL};

/// A run that has less than this share of a region's cells would cost the other runs their cells: it stays out.
pub(super) const ENOUGH: f64 = 0.8;
/// What every run has must be at least this share of a region, or it would speak for what it is not.
const WORTH: f64 = 0.5;

/// Which runs and cells a region's estimate rests on: every run has every cell.
#[derive(Debug, Clone)]
pub(super) struct Complete {
    /// Columns of the table.
    pub columns: Vec<usize>,
    /// Rows of each set's matrix.
    pub rows: Vec<Vec<usize>>,
}

impl Complete {
    /// The largest honest part of a region: without the runs that have hardly any of it, the cells of all others.
    pub fn of(table: &Table, columns: &[usize]) -> Complete {
        let has = |matrix: &Matrix, row: usize, column: usize| matrix.has(row, column);
        let rows: Vec<Vec<usize>> = table
            .sets
            .iter()
            .map(|set| {
                let Some(matrix) = set else { return Vec::new() };
                let count = |row: usize| columns.iter().filter(|column| has(matrix, row, **column)).count();
                let enough = |row: &usize| count(*row) as f64 >= ENOUGH * columns.len() as f64;
                (0..matrix.runs.len()).filter(enough).collect()
            })
            .collect();
        let whole = |column: &usize| {
            let sets = table.sets.iter().zip(&rows);
            sets.into_iter()
                .all(|(set, rows)| set.as_ref().is_none_or(|matrix| rows.iter().all(|row| has(matrix, *row, *column))))
        };
        let whole: Vec<usize> = columns.iter().copied().filter(whole).collect();
        let speaks = whole.len() as f64 >= WORTH * columns.len() as f64;
        Complete { columns: if speaks { whole } else { Vec::new() }, rows }
    }

    /// Mean logarithms by set: one a run, with the number of the run among the set's.
    pub fn means(&self, table: &Table) -> Vec<Vec<(usize, f64)>> {
        let mean = |matrix: &Matrix, row: usize| {
            let sum: f64 = self.columns.iter().map(|column| matrix.log(row, *column)).sum();
            sum / self.columns.len() as f64
        };
        let of_set = |(set, rows): (&Option<Matrix>, &Vec<usize>)| match set {
            Some(matrix) if !self.columns.is_empty() => {
                rows.iter().map(|row| (matrix.runs[*row], mean(matrix, *row))).collect()
            }
            _ => Vec::new(),
        };
        table.sets.iter().zip(&self.rows).map(of_set).collect()
    }
}

/// What judging needs to know about the sets beside their values.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub sets: &'a [Collected],
    pub names: Vec<&'a str>,
    pub baseline: usize,
    pub theta: f64,
    /// A number for each pairing.
    pub pairing: Vec<Option<usize>>,
    /// After how many blocks the results were looked at, where all sets are of one run that was.
    pub looks: &'a [u32],
}

impl<'a> Frame<'a> {
    pub fn new(sets: &'a [Collected], baseline: usize, theta: f64) -> Frame<'a> {
        let one_run = sets.iter().all(|set| set.pairing.is_some() && set.pairing == sets[0].pairing);
        let first = |pairing: &str| sets.iter().position(|set| set.pairing.as_deref() == Some(pairing));
        Frame {
            sets,
            names: sets.iter().map(|set| set.name.as_str()).collect(),
            baseline,
            theta,
            pairing: sets.iter().map(|set| set.pairing.as_deref().and_then(first)).collect(),
            looks: if one_run { sets.first().map_or(&[], |set| &set.looks) } else { &[] },
        }
    }

    /// The sets that are compared with the baseline.
    pub fn candidates(&self) -> impl Iterator<Item = usize> + use<> {
        let baseline = self.baseline;
        (0..self.sets.len()).filter(move |set| *set != baseline)
    }

    /// The level at which every pair can stand at once: what holds here holds at Holm's level, too.
    pub fn level(&self) -> f64 {
        let sets = self.sets.len();
        1.0 - (1.0 - LEVEL) / (sets * (sets - 1) / 2).max(1) as f64
    }

    /// Whether the candidate took turns with the baseline.
    pub(crate) fn is_paired(&self, candidate: usize) -> bool {
        self.pairing[candidate].is_some() && self.pairing[candidate] == self.pairing[self.baseline]
    }

    /// The block of a run; foreign runs are numbered.
    pub fn block(&self, set: usize, run: usize) -> u32 {
        self.sets[set].runs[run].block.unwrap_or(run as u32)
    }

    /// A sample of logarithms, one a run of the set.
    pub fn sample(&self, set: usize, logs: impl Iterator<Item = (usize, f64)>) -> Sample {
        let part = |run: usize| self.sets[set].runs[run].part;
        let value = |(run, log)| BlockValue { block: self.block(set, run), value: exp(log), part: part(run) };
        let values = logs.map(value);
        Sample { shares_blocks: self.pairing[set], values: values.collect() }
    }

    /// Every pair of sets over a region.
    pub fn rank(&self, table: &Table, columns: &[usize]) -> Result<Ranking, AnalysisError> {
        let means = Complete::of(table, columns).means(table);
        let samples: Vec<Sample> =
            means.into_iter().enumerate().map(|(set, means)| self.sample(set, means.into_iter())).collect();
        let ranking = Ranking::of_samples(&samples, self.looks, table.better, self.theta)?;
        let few = |sample: &Sample| (1..FEWEST_JUDGED).contains(&sample.values.len());
        if !samples.iter().any(few) || samples.iter().filter(|sample| sample.values.len() >= FEWEST_JUDGED).count() < 2
        {
            return Ok(ranking);
        }
        // A set with too few runs may still be anything: among those that are judged it would leave all undecided. Its
        // pairs are described. (They take no part in Holm's steps, so the others' intervals are the same.)
        let judged = samples.into_iter().map(|sample| {
            let values = if few(&sample) { Vec::new() } else { sample.values };
            Sample { values, ..sample }
        });
        let judged = Ranking::of_samples(&judged.collect::<Vec<_>>(), self.looks, table.better, self.theta)?;
        Ok(Ranking { pairs: ranking.pairs, ..judged })
    }

    /// The candidates' standing in a ranking.
    pub fn estimates(&self, ranking: &Ranking) -> Estimates {
        let against = |set: usize| ranking.comparison(self.baseline, set).map(|comparison| run_level(&comparison));
        Estimates { against: self.by_candidate(against) }
    }

    /// One entry a candidate, under its name.
    pub(crate) fn by_candidate<T>(&self, mut of: impl FnMut(usize) -> T) -> BySet<T> {
        self.candidates().map(|set| (self.names[set].to_owned(), of(set))).collect()
    }

    /// One entry a set, under its name.
    pub(crate) fn by_set<T>(&self, of: impl FnMut(usize) -> T) -> BySet<T> {
        self.names.iter().map(|name| (*name).to_owned()).zip((0..self.sets.len()).map(of)).collect()
    }
}

fn run_level(comparison: &Comparison) -> RunLevel {
    RunLevel {
        ratio: comparison.ratio,
        ci95: comparison.interval.map(|interval| [interval.lo, interval.hi]),
        n: comparison.n,
        method: comparison.method,
        verdict: comparison.verdict,
    }
}
