//! The request for a comparison, and a region of the grid, judged on runs: one mean of logarithms
//! per run, whatever the number of cells.

use std::collections::{BTreeMap, BTreeSet};

use super::classic::classic;
use super::collected::{Collected, Matrix, Table};
use super::document::{
    BySet, Cell, CellAgainst, CellValue, Colour, Estimates, GridAgainst, RunLevel, Single,
};
use crate::comparison::{Comparison, Difference, RunContrast};
use crate::prior::Prior;
use crate::ranking::Ranking;
use crate::sample::{AnalysisError, BlockValue, Sample};
use crate::terms::{Between, Terms};
use crate::verdict::{Interval, Verdict, exp};
use crate::{FEWEST_RUNS_JUDGED, LEVEL};

/// The tool of our own runs.
pub const OURS: &str = "fsb";

/// The baseline and the margins of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareRequest {
    /// The place of the baseline among the sets.
    pub baseline: usize,
    /// The smallest ratio that matters, 0.03 for 3 %.
    pub theta: f64,
    /// The variation between runs, added where a side has fewer than
    /// [`FEWEST_RUNS_JUDGED`](crate::FEWEST_RUNS_JUDGED) runs.
    pub between_runs: Option<Between>,
    /// The variation between sessions, added where two sides share none.
    pub between_sessions: Option<Between>,
    /// The number of comparisons of the same size that are held to one page, this one included:
    /// [`hold_together`](super::Document::hold_together).
    pub pages: usize,
    /// Whether the operations of IOzone are also pooled as [`ALL`](super::ALL).
    pub pooled: bool,
}

impl CompareRequest {
    /// Without any variation that is known beforehand.
    pub const fn new(baseline: usize, theta: f64) -> CompareRequest {
        CompareRequest {
            baseline,
            theta,
            between_runs: None,
            between_sessions: None,
            pages: 1,
            pooled: true,
        }
    }
}

/// The least share of a region's cells that a run must have. A run with fewer is left out, because
/// it would cost the other runs their cells.
pub(super) const ENOUGH: f64 = 0.8;
/// The least share of a region that every run must have. Fewer cells do not represent the region.
const WORTH: f64 = 0.5;

/// The runs and cells that a region's estimate rests on. Every run has every cell.
#[derive(Debug, Clone)]
pub(super) struct Complete {
    /// Columns of the table.
    pub columns: Vec<usize>,
    /// Rows of each set's matrix.
    pub rows: Vec<Vec<usize>>,
}

impl Complete {
    /// Returns the largest usable part of a region: it leaves out runs that lack many of its cells,
    /// then keeps the cells that all other runs have.
    pub fn from_table(table: &Table, columns: &[usize]) -> Complete {
        let rows: Vec<Vec<usize>> = table
            .sets
            .iter()
            .map(|set| {
                let Some(matrix) = set else { return Vec::new() };
                (0..matrix.runs.len())
                    .filter(|row| {
                        let has = columns.iter().filter(|column| matrix.has(*row, **column));
                        has.count() as f64 >= ENOUGH * columns.len() as f64
                    })
                    .collect()
            })
            .collect();
        let mut whole = columns.to_vec();
        for (matrix, rows) in table.sets.iter().zip(&rows) {
            if let Some(matrix) = matrix {
                whole.retain(|column| rows.iter().all(|row| matrix.has(*row, *column)));
            }
        }
        let speaks = whole.len() as f64 >= WORTH * columns.len() as f64;
        Complete {
            columns: if speaks { whole } else { Vec::new() },
            rows,
        }
    }

    /// Returns mean logarithms by set: one per run, with the index of the run in the set.
    pub fn means(&self, table: &Table) -> Vec<Vec<(usize, f64)>> {
        let mut means = vec![Vec::new(); table.sets.len()];
        for ((set, rows), means) in table.sets.iter().zip(&self.rows).zip(&mut means) {
            let Some(matrix) = set.as_ref().filter(|_| !self.columns.is_empty()) else {
                continue;
            };
            for row in rows {
                let logs = self.columns.iter().map(|column| matrix.log(*row, *column));
                means.push((
                    matrix.runs[*row],
                    logs.sum::<f64>() / self.columns.len() as f64,
                ));
            }
        }
        means
    }
}

/// The parameters of a verdict, without the values of the sets.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub sets: &'a [Collected],
    pub names: Vec<&'a str>,
    pub baseline: usize,
    pub theta: f64,
    /// A number for each pairing.
    pub pairing: Vec<Option<usize>>,
    request: CompareRequest,
    /// The number of comparisons on the page.
    page: usize,
    /// By pair of sets: the prior of the variances between their runs.
    priors: BTreeMap<(usize, usize), Prior>,
}

impl<'a> Frame<'a> {
    /// Creates the frame. The tables must already know whether their metric is judged.
    pub fn new(
        sets: &'a [Collected],
        request: &CompareRequest,
        tables: &[Table],
    ) -> Result<Frame<'a>, AnalysisError> {
        let judged: Vec<&Table> = tables.iter().filter(|table| table.primary).collect();
        let pairs = sets.len() * sets.len().saturating_sub(1) / 2;
        let mut frame = Frame {
            sets,
            names: sets.iter().map(|set| set.name.as_str()).collect(),
            baseline: request.baseline,
            theta: request.theta,
            pairing: sets
                .iter()
                .map(|set| {
                    set.pairing.as_deref().and_then(|pairing| {
                        sets.iter()
                            .position(|set| set.pairing.as_deref() == Some(pairing))
                    })
                })
                .collect(),
            request: *request,
            page: judged.len() * pairs * request.pages,
            priors: BTreeMap::new(),
        };
        let mut contrasts: BTreeMap<(usize, usize), Vec<RunContrast>> = BTreeMap::new();
        for table in judged {
            let samples = frame.samples(table, &(0..table.cells.len()).collect::<Vec<_>>());
            for candidate in 1..samples.len() {
                for baseline in 0..candidate {
                    let (b, c) = (&samples[baseline], &samples[candidate]);
                    if !b.is_compared_by_block(c)
                        && let Some(contrast) = RunContrast::between(b, c)?
                    {
                        contrasts
                            .entry((baseline, candidate))
                            .or_default()
                            .push(contrast);
                    }
                }
            }
        }
        frame.priors = contrasts
            .iter()
            .filter_map(|(pair, cases)| Some((*pair, RunContrast::prior(cases)?)))
            .collect();
        Ok(frame)
    }

    /// Returns the terms for a comparison of two sets' runs. If `borrowed`, they include what other
    /// cases show about the variances.
    fn terms(&self, baseline: usize, candidate: usize, borrowed: bool) -> Terms {
        let (one, other) = (&self.sets[baseline], &self.sets[candidate]);
        let sessions = one.sessions_beside(other).zip(other.sessions_beside(one));
        // Runs show how sessions vary if each run is a session of its own and there are enough of
        // them.
        let apart = sessions.filter(|((few, shared), (more, _))| {
            let shows = [(one, *few), (other, *more)].iter().all(|(set, sessions)| {
                *sessions >= FEWEST_RUNS_JUDGED && *sessions == set.run_count()
            });
            !(*shared || shows)
        });
        Terms {
            prior: self
                .priors
                .get(&(baseline, candidate))
                .copied()
                .filter(|_| borrowed),
            between_runs: self.request.between_runs,
            between_sessions: self.request.between_sessions,
            apart: apart.map(|((one, _), (other, _))| [one, other]),
            page: self.page,
            theta: libm::log1p(self.theta),
        }
    }

    /// Returns the terms for a candidate and the baseline on a region. They borrow nothing from
    /// other cases.
    pub fn plain_terms(&self, candidate: usize) -> Terms {
        self.terms(self.baseline, candidate, false)
    }

    /// Returns the sets that are compared with the baseline.
    pub fn candidates(&self) -> impl Iterator<Item = usize> + use<> {
        let baseline = self.baseline;
        (0..self.sets.len()).filter(move |set| *set != baseline)
    }

    /// Returns the level at which every pair can stand at once: what holds here holds at Holm's
    /// level, too.
    pub fn level(&self) -> f64 {
        let sets = self.sets.len();
        1.0 - (1.0 - LEVEL) / (sets * (sets - 1) / 2).max(1) as f64
    }

    /// Returns whether the candidate took turns with the baseline.
    pub(crate) fn is_paired(&self, candidate: usize) -> bool {
        self.pairing[candidate].is_some() && self.pairing[candidate] == self.pairing[self.baseline]
    }

    /// Returns the block of a run; foreign runs are numbered.
    pub fn block(&self, set: usize, run: usize) -> u32 {
        self.sets[set].runs[run].block.unwrap_or(run as u32)
    }

    /// Returns the number of the run of a value.
    pub fn run(&self, set: usize, run: usize) -> u32 {
        self.sets[set].runs[run].run
    }

    /// Returns a sample of logarithms, each with its place among the set's runs.
    pub fn sample(&self, set: usize, logs: impl Iterator<Item = (usize, f64)>) -> Sample {
        let facts = &self.sets[set].runs;
        let (values, runs) = logs
            .map(|(run, log)| {
                let value = BlockValue {
                    slice: facts[run].slice,
                    ..BlockValue::new(self.block(set, run), exp(log))
                };
                (value, facts[run].run)
            })
            .unzip();
        Sample {
            shares_blocks: self.pairing[set],
            analyses: self.sets[set].analyses.clone(),
            values,
            runs,
        }
    }

    pub fn samples(&self, table: &Table, columns: &[usize]) -> Vec<Sample> {
        let means = Complete::from_table(table, columns).means(table);
        // Samples are of one workload; a mean over sizes has none.
        let is_one_cell = table.primary && table.cells.len() == 1;
        let workload = table.key.workload.as_ref().filter(|_| is_one_cell);
        let mut samples = Vec::with_capacity(means.len());
        for (set, means) in means.into_iter().enumerate() {
            let places: Vec<usize> = means.iter().map(|(run, _)| *run).collect();
            let mut sample = self.sample(set, means.into_iter());
            if let Some(within) = workload.and_then(|workload| self.sets[set].within.get(workload))
            {
                for (value, run) in sample.values.iter_mut().zip(places) {
                    value.within = within.get(&(run as u32)).copied();
                }
            }
            samples.push(sample);
        }
        samples
    }

    /// Returns every pair of sets over a region.
    pub fn rank(&self, table: &Table, columns: &[usize]) -> Result<Ranking, AnalysisError> {
        self.rank_samples(table, columns, self.samples(table, columns))
    }

    /// Returns every pair of sets over a region whose samples are known.
    pub fn rank_samples(
        &self,
        table: &Table,
        columns: &[usize],
        samples: Vec<Sample>,
    ) -> Result<Ranking, AnalysisError> {
        let borrowed = table.primary && columns.len() == table.cells.len();
        let terms = |baseline: usize, candidate: usize| self.terms(baseline, candidate, borrowed);
        let mut ranking = Ranking::of_samples(samples, &terms, table.better, self.theta)?;
        ranking.withhold_pairs(&|set| table.unjudged(set));
        let judged = ranking
            .pairs
            .iter()
            .filter(|pair| pair.comparison.verdict != Verdict::NotJudged);
        let judged: BTreeSet<usize> = judged
            .flat_map(|pair| [pair.baseline, pair.candidate])
            .collect();
        let mut apart = Vec::with_capacity(self.sets.len());
        for (set, sample) in ranking.samples().iter().enumerate() {
            // Runs of ours that cannot be judged may be the fastest: nothing is decided without
            // them.
            let is_open = sample.shares_blocks.is_some()
                && ranking.pairs.iter().any(|pair| {
                    [pair.baseline, pair.candidate].contains(&set)
                        && pair.comparison.unjudged.is_some()
                });
            let is_alone = !judged.is_empty() && !judged.contains(&set) && !is_open;
            apart.push(!sample.values.is_empty() && (table.unjudged(set).is_some() || is_alone));
        }
        if !apart.contains(&true) {
            return Ok(ranking);
        }
        // A set with too few runs, or with failed ones, may still be anything: among those that are
        // judged it would leave all undecided. Its pairs are described. (They take no part in
        // Holm's steps, so the others' intervals are the same.)
        let mut rest = ranking.samples().to_vec();
        for (sample, _) in rest.iter_mut().zip(apart).filter(|(_, apart)| *apart) {
            *sample = sample.emptied();
        }
        let rest = Ranking::of_samples(rest, &terms, table.better, self.theta)?;
        Ok(Ranking {
            pairs: ranking.pairs,
            ..rest
        })
    }

    /// Returns the values of the samples, and the comparisons of the candidates in a ranking.
    pub fn estimates(&self, values: Vec<Option<f64>>, ranking: &Ranking) -> Estimates {
        let names = self.names.iter().map(|name| (*name).to_owned());
        Estimates {
            values: names.zip(values).collect(),
            against: against(&self.names, self.baseline, ranking),
        }
    }

    /// Returns one entry for each set, by name.
    pub(crate) fn by_set<T>(&self, value: impl FnMut(usize) -> T) -> BySet<T> {
        let names = self.names.iter().map(|name| (*name).to_owned());
        names.zip((0..self.sets.len()).map(value)).collect()
    }

    /// Returns the values of one cell of a set; runs without a value are left out.
    fn cell_sample(&self, set: usize, matrix: &Matrix, cell: usize) -> Sample {
        let logs = (0..matrix.runs.len()).map(|row| (matrix.runs[row], matrix.log(row, cell)));
        self.sample(set, logs.filter(|(_, log)| !log.is_nan()))
    }
}

/// Returns the comparisons of all sets except the baseline in a ranking.
pub(super) fn against(
    names: &[&str],
    baseline: usize,
    ranking: &Ranking,
) -> BySet<Option<RunLevel>> {
    let candidates = names.iter().enumerate().filter(|(set, _)| *set != baseline);
    candidates
        .map(|(set, name)| {
            let comparison = ranking.comparison(baseline, set);
            (
                (*name).to_owned(),
                comparison.map(|comparison| run_level(&comparison)),
            )
        })
        .collect()
}

fn run_level(comparison: &Comparison) -> RunLevel {
    RunLevel {
        ratio: comparison.ratio,
        ci95: comparison
            .interval
            .map(|interval| [interval.lo, interval.hi]),
        n: comparison.n,
        method: comparison.method,
        verdict: comparison.verdict,
        unjudged: comparison.unjudged,
        power: comparison.power,
    }
}

// Single cells: the colours of the heat map. They are no verdicts, because the cells of one run
// share its random effects.

/// The false discovery rate of colours (Benjamini and Hochberg 1995), over the cells of one
/// operation.
pub(super) const FALSE_DISCOVERIES: f64 = 0.05;

/// One candidate's cells, one entry per column of the table. `None` if the two sets have no block
/// in common.
pub(super) type CellComparisons = Vec<Option<CellAgainst>>;

/// Compares every cell of one candidate with the baseline.
pub(super) fn compare_cells(
    frame: &Frame,
    table: &Table,
    candidate: usize,
) -> Result<CellComparisons, AnalysisError> {
    let (Some(base), Some(other)) = (&table.sets[frame.baseline], &table.sets[candidate]) else {
        return Ok(vec![None; table.cells.len()]);
    };
    let cells = table.cells.len();

    let differences: Vec<Option<Difference>> = (0..cells)
        .map(|cell| {
            frame.cell_sample(frame.baseline, base, cell).difference(
                &frame.cell_sample(candidate, other, cell),
                &Terms::default(),
            )
        })
        .collect::<Result<_, _>>()?;
    let rejected = rejected(
        &differences
            .iter()
            .map(|d| d.as_ref().and_then(Difference::p_value))
            .collect::<Vec<_>>(),
    );
    let is_judged = table
        .unjudged(frame.baseline)
        .or(table.unjudged(candidate))
        .is_none();
    let mut comparisons = vec![None; cells];
    for (cell, (difference, rejected)) in differences.iter().zip(rejected).enumerate() {
        let Some(difference) = difference else {
            continue;
        };
        let interval = difference.interval(LEVEL).filter(|_| is_judged);
        comparisons[cell] = Some(CellAgainst {
            ratio: exp(difference.mean()),
            ci95: interval
                .map(Interval::exp)
                .map(|interval| [interval.lo, interval.hi]),
            colour: colour(
                frame,
                table,
                difference.mean(),
                interval,
                rejected && is_judged,
            ),
        });
    }
    Ok(comparisons)
}

fn colour(
    frame: &Frame,
    table: &Table,
    mean: f64,
    interval: Option<Interval>,
    rejected: bool,
) -> Colour {
    match interval.map(|interval| Verdict::from_interval(interval, frame.theta, table.better)) {
        Some(Verdict::Equivalent) => Colour::Same,
        _ if !rejected => Colour::Uncertain,
        _ if (mean > 0.0) == (table.better == fsb_model::Better::Higher) => Colour::Faster,
        _ => Colour::Slower,
    }
}

/// Returns which hypotheses are rejected at [`FALSE_DISCOVERIES`]: with m sorted p-values the
/// largest k with p ≤ q·k/m, and all below it.
fn rejected(p_values: &[Option<f64>]) -> Vec<bool> {
    let mut sorted: Vec<f64> = p_values.iter().flatten().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let m = sorted.len() as f64;

    let limit = sorted
        .iter()
        .enumerate()
        .filter(|(place, p)| **p <= FALSE_DISCOVERIES * (place + 1) as f64 / m)
        .map(|(_, p)| *p)
        .next_back();
    p_values
        .iter()
        .map(|p| p.zip(limit).is_some_and(|(p, limit)| p <= limit))
        .collect()
}

/// Counts the colours of a region, and adds the ratio and verdict of its runs.
pub(super) fn counted(
    frame: &Frame,
    ranking: &Ranking,
    candidate: usize,
    comparisons: &CellComparisons,
    columns: &[usize],
) -> Option<GridAgainst> {
    let colours: Vec<Colour> = columns
        .iter()
        .filter_map(|column| comparisons[*column])
        .map(|comparison| comparison.colour)
        .collect();
    if colours.is_empty() {
        return None;
    }
    let count = |colour: Colour| colours.iter().filter(|other| **other == colour).count();
    let comparison = ranking.comparison(frame.baseline, candidate);
    Some(GridAgainst {
        ratio: comparison.as_ref().map(|comparison| comparison.ratio),
        ci95: comparison
            .as_ref()
            .and_then(|comparison| comparison.interval)
            .map(|i| [i.lo, i.hi]),
        cells: colours.len(),
        faster: count(Colour::Faster),
        slower: count(Colour::Slower),
        same: count(Colour::Same),
        uncertain: count(Colour::Uncertain),
        verdict: comparison.map_or(Verdict::NotJudged, |comparison| comparison.verdict),
    })
}

impl Single<'_> {
    /// Returns whether the document lists the single values of a table.
    pub(super) fn asks_for(&self, table: &Table) -> bool {
        match self {
            Single::None => false,
            Single::Lone => table.cells.len() == 1,
            Single::Of(is_asked) => is_asked(table.key.workload.as_deref(), &table.key.operation),
            Single::Every => true,
        }
    }
}

/// Returns the cells for charts and tables, with every single value and its statistics if `single`
/// asks for them.
pub(super) fn detailed(
    frame: &Frame,
    table: &Table,
    comparisons: &[(usize, CellComparisons)],
    single: bool,
) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(table.cells.len());
    for (place, size) in table.cells.iter().enumerate() {
        let against = comparisons.iter().filter_map(|(set, comparisons)| {
            Some((frame.names[*set].to_owned(), comparisons[place]?))
        });

        let mut values = frame.by_set(|set| {
            let matrix = table.sets[set].iter();
            matrix
                .flat_map(|matrix| matrix.column(place, table.cells.len()))
                .map(|(run, value)| CellValue { run, value })
                .collect::<Vec<_>>()
        });
        let mut means = BySet::new();
        for (name, values) in values.iter().filter(|(_, values)| !values.is_empty()) {
            let sum: f64 = values.iter().map(|found| found.value).sum();
            means.insert(name.clone(), sum / values.len() as f64);
        }
        if !single {
            values = frame.by_set(|_| Vec::new());
        }
        cells.push(Cell {
            file_size: size.file,
            record_size: size.record,
            means,
            values,

            classic: single.then(|| classic(table, &[place], &frame.names, frame.baseline)),
            against: against.collect(),
        });
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::rejected;

    /// The example of Benjamini and Hochberg 1995, section 3.2: of fifteen p-values the first four
    /// fall.
    #[test]
    fn the_published_example() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let rejected = rejected(&p.map(Some));
        assert_eq!(rejected.iter().filter(|rejected| **rejected).count(), 4);
        assert!(rejected[..4].iter().all(|rejected| *rejected));
    }

    #[test]
    fn without_p_values_nothing_falls() {
        assert_eq!(rejected(&[None, None]), [false, false]);
        assert_eq!(rejected(&[None, Some(0.01)]), [false, true]);
    }
}
