//! Findings: rectangles of the grid, found on cells, judged on runs.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use fsb_model::{Better, units};
use rayon::prelude::*;

use super::OURS;
use super::collected::{Size, Table};
use super::document::Finding;
use super::region::{Complete, Frame};
use super::search::{Ground, Hit, Layout, Rectangle, Sums, Weights, search};
use crate::comparison::{Comparison, Difference, RunContrast};
use crate::ranking::Ranking;
use crate::sequential::Analysis;
use crate::{FEWEST_JUDGED, FEWEST_RUNS_JUDGED, LEVEL, in_parallel};

/// More rectangles of one operation than a reader takes in are left out.
const MOST: usize = 7;
/// More runs of a side are searched in groups.
const MOST_GROUPS: usize = 40;
/// At least this share of a rectangle's cells points its way.
const AGREEING: f64 = 0.8;
/// At least this share of a rectangle's cells is in no larger rectangle.
const NEWS: f64 = 0.5;

/// A table that is searched, with its ranking.
#[derive(Debug, Clone, Copy)]
struct Subject<'a> {
    table: &'a Table,
    ranking: &'a Ranking,
}

/// Returns all findings of these candidates, the widest first. Of `searches`, together they may go
/// wrong as often as one: each candidate is one, and several baselines make as many more.
pub(super) fn findings(
    frame: &Frame,
    tables: &[Table],
    rankings: &[&Ranking],
    candidates: &[usize],
    searches: usize,
) -> (Vec<Finding>, Option<String>) {
    let subjects: Vec<Subject<'_>> = tables
        .iter()
        .zip(rankings)
        .filter(|(table, _)| table.primary)
        .map(|(table, ranking)| Subject { table, ranking })
        .collect();
    let alpha = (1.0 - LEVEL) / searches.max(1) as f64;
    let by_candidate: Vec<_> = in_parallel(|| {
        candidates
            .par_iter()
            .map(|candidate| of_candidate(frame, &subjects, *candidate, alpha))
            .collect()
    });
    let (mut found, mut starved) = (Vec::new(), Vec::new());
    for (candidate, (own, is_starved)) in candidates.iter().zip(by_candidate) {
        found.extend(
            own.into_iter()
                .map(|(place, finding)| (place, *candidate, finding)),
        );
        starved.extend(is_starved.then_some(frame.names[*candidate]));
    }
    found.sort_by_key(|(place, candidate, finding)| {
        (std::cmp::Reverse(finding.cells), *place, *candidate)
    });

    let warning = (!starved.is_empty()).then(|| {
        format!(
            "no finding is possible for {}: too many sets with too few runs each for a significant region; compare \
             fewer sets at a time, or add runs",
            starved.join(", ")
        )
    });
    (
        found.into_iter().map(|(_, _, finding)| finding).collect(),
        warning,
    )
}

/// The runs that a search rests on; operations with the same runs are searched together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Runs {
    /// Blocks of one run that both have.
    Blocks(Vec<u32>),
    /// Runs in which both took turns.
    Paired(Vec<u32>),
    /// Independent runs of the baseline and of the candidate.
    Independent(Vec<u32>, Vec<u32>),
}

impl Runs {
    fn is_judged(&self) -> bool {
        match self {
            Runs::Blocks(blocks) => blocks.len() >= FEWEST_JUDGED,
            Runs::Paired(runs) => runs.len() >= FEWEST_RUNS_JUDGED,
            Runs::Independent(baseline, candidate) => {
                baseline.len().min(candidate.len()) >= FEWEST_RUNS_JUDGED
            }
        }
    }

    fn weights(&self) -> Weights {
        match self {
            Runs::Blocks(units) | Runs::Paired(units) => Weights::of_blocks(groups(units.len())),
            Runs::Independent(baseline, candidate) => {
                Weights::of_runs(groups(baseline.len()), groups(candidate.len()))
            }
        }
    }
}

/// Returns the number of groups that this number of runs is searched in.
fn groups(runs: usize) -> usize {
    runs.min(MOST_GROUPS)
}

/// Averages neighbouring runs, so that hundreds of runs are searched as fast as a few. Without a
/// difference, groups of equal size are as exchangeable as runs, and with this number of groups the
/// search loses very little power.
fn grouped(rows: &[Vec<f64>], cells: usize) -> Vec<Vec<f64>> {
    let groups = groups(rows.len());
    (0..groups)
        .map(|group| {
            means(
                &rows[group * rows.len() / groups..(group + 1) * rows.len() / groups],
                cells,
            )
        })
        .collect()
}

fn of_candidate(
    frame: &Frame,
    subjects: &[Subject<'_>],
    candidate: usize,
    alpha: f64,
) -> (Vec<(usize, Finding)>, bool) {
    let mut families: BTreeMap<Runs, (Vec<Ground>, Vec<Field>)> = BTreeMap::new();
    for (place, subject) in subjects.iter().enumerate() {
        let Some((runs, ground, field)) = field(frame, *subject, candidate, place) else {
            continue;
        };
        if runs.is_judged() {
            let (grounds, fields) = families.entry(runs).or_default();
            grounds.push(ground);
            fields.push(field);
        }
    }
    let alpha = alpha / families.len().max(1) as f64;
    let (mut found, mut starved) = (Vec::new(), false);
    for (runs, (grounds, fields)) in families {
        let weights = runs.weights();
        // Not even the rarest of all contrasts would be rare enough. An operation of one cell has
        // its verdict without findings.
        let is_grid = fields.iter().any(|field| field.table.cells.len() > 1);
        starved |= is_grid && weights.contrasts.len() as f64 * alpha < 1.0;
        let hits = search(&grounds, &weights, alpha);
        for ((ground, field), hits) in grounds.iter().zip(&fields).zip(hits) {
            let judge = Judge {
                frame,
                candidate,
                ground,
                field,
                runs: &runs,
                sums: OnceCell::new(),
            };
            found.extend(
                judge
                    .chosen(hits)
                    .into_iter()
                    .map(|finding| (field.place, finding)),
            );
        }
    }
    (found, starved)
}

/// One operation of one candidate.
struct Field<'a> {
    place: usize,
    table: &'a Table,
    ranking: &'a Ranking,
    /// Mean differences of the cells' logarithms, candidate less baseline.
    differences: Sums<f64>,
    /// Cells with a positive difference, and with a negative one.
    positive: Sums<u32>,
    negative: Sums<u32>,
}

/// Returns the data to search and the runs that they rest on, or `None` if the two sets have no
/// complete cell in common.
fn field<'a>(
    frame: &Frame,
    Subject { table, ranking }: Subject<'a>,
    candidate: usize,
    place: usize,
) -> Option<(Runs, Ground, Field<'a>)> {
    if table
        .unjudged(frame.baseline)
        .or(table.unjudged(candidate))
        .is_some()
    {
        return None;
    }
    let Rows {
        runs,
        complete,
        rows: _,
        searched,
        differences,
    } = rows(frame, table, candidate)?;
    let cells = complete.columns.len();
    let layout = layout(table, &complete);
    let field = Field {
        place,
        table,
        ranking,
        positive: layout.sums(differences.iter().map(|d| u32::from(*d > 0.0))),
        negative: layout.sums(differences.iter().map(|d| u32::from(*d < 0.0))),
        differences: layout.sums(differences.into_iter()),
    };
    let searched = sums(&layout, &searched);
    let centred = matches!(runs, Runs::Independent(..));
    Some((runs, Ground::new(layout, searched, centred, cells), field))
}

fn layout(table: &Table, complete: &Complete) -> Layout {
    let sizes: Vec<Size> = complete
        .columns
        .iter()
        .map(|column| table.cells[*column])
        .collect();
    Layout::new(&sizes, &table.cells)
}

fn sums(layout: &Layout, rows: &[Vec<f64>]) -> Vec<Sums<f64>> {
    rows.iter()
        .map(|row| layout.sums(row.iter().copied()))
        .collect()
}

/// The runs of two sets, over the cells that all runs have.
struct Rows {
    runs: Runs,
    complete: Complete,
    /// Logarithms, one row for each run, or their differences, one for each block or run.
    rows: Vec<Vec<f64>>,
    /// The rows of [`Rows::rows`], combined into groups.
    searched: Vec<Vec<f64>>,
    /// Mean differences of the cells' logarithms, candidate less baseline.
    differences: Vec<f64>,
}

fn rows(frame: &Frame, table: &Table, candidate: usize) -> Option<Rows> {
    let every: Vec<usize> = (0..table.cells.len()).collect();
    let complete = Complete::from_table(table, &every);
    let cells = complete.columns.len();
    let base = Side::from_table(frame, table, &complete, frame.baseline)?;
    let other = Side::from_table(frame, table, &complete, candidate)?;
    if cells == 0 || base.runs.is_empty() || other.runs.is_empty() {
        return None;
    }
    let (runs, rows, searched, differences) = if frame.is_paired(candidate) {
        let (blocks, of_runs, rows) = base.by_block(&other);
        let is_one_run = base
            .runs
            .iter()
            .chain(&other.runs)
            .all(|run| *run == base.runs[0]);
        let (runs, rows) = match is_one_run {
            true => (Runs::Blocks(blocks), rows),
            false => {
                let (runs, rows) = by_run(&of_runs, rows);
                (Runs::Paired(runs), rows)
            }
        };
        let differences = means(&rows, cells);
        (runs, rows.clone(), grouped(&rows, cells), differences)
    } else {
        let ((base_runs, base), (other_runs, other)) = (
            by_run(&base.runs, base.logs),
            by_run(&other.runs, other.logs),
        );
        let searched = [grouped(&base, cells), grouped(&other, cells)].concat();
        let differences = means(&other, cells)
            .iter()
            .zip(means(&base, cells))
            .map(|(c, b)| c - b)
            .collect();
        (
            Runs::Independent(base_runs, other_runs),
            [base, other].concat(),
            searched,
            differences,
        )
    };
    Some(Rows {
        runs,
        complete,
        rows,
        searched,
        differences,
    })
}

/// Rows of the same run as their mean, in the order of the runs.
fn by_run(runs: &[u32], rows: Vec<Vec<f64>>) -> (Vec<u32>, Vec<Vec<f64>>) {
    let mut of_runs: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
    for (run, row) in runs.iter().zip(rows) {
        of_runs.entry(*run).or_default().push(row);
    }

    of_runs
        .into_iter()
        .map(|(run, rows)| (run, means(&rows, rows[0].len())))
        .unzip()
}

/// The complete values of one set.
struct Side {
    runs: Vec<u32>,
    blocks: Vec<u32>,
    /// Values × cells.
    logs: Vec<Vec<f64>>,
}

impl Side {
    fn from_table(frame: &Frame, table: &Table, complete: &Complete, set: usize) -> Option<Side> {
        let matrix = table.sets[set].as_ref()?;
        let mut side = Side {
            runs: Vec::new(),
            blocks: Vec::new(),
            logs: Vec::new(),
        };
        for row in &complete.rows[set] {
            let logs = complete
                .columns
                .iter()
                .map(|column| matrix.log(*row, *column));
            side.logs.push(logs.collect());
            side.blocks.push(frame.block(set, matrix.runs[*row]));
            side.runs.push(frame.run(set, matrix.runs[*row]));
        }
        Some(side)
    }
    /// Differences of the blocks that both have, `other` less this, with the block and its run.
    fn by_block(&self, other: &Side) -> (Vec<u32>, Vec<u32>, Vec<Vec<f64>>) {
        // The first of those that bear the same number.
        let mut places: HashMap<u32, usize> = HashMap::new();
        for (place, block) in other.blocks.iter().enumerate() {
            places.entry(*block).or_insert(place);
        }
        let (mut blocks, mut runs, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for ((block, run), base) in self.blocks.iter().zip(&self.runs).zip(&self.logs) {
            let Some(place) = places.get(block) else {
                continue;
            };
            blocks.push(*block);
            runs.push(*run);
            rows.push(
                other.logs[*place]
                    .iter()
                    .zip(base)
                    .map(|(c, b)| c - b)
                    .collect(),
            );
        }
        (blocks, runs, rows)
    }
}

fn means(rows: &[Vec<f64>], cells: usize) -> Vec<f64> {
    (0..cells)
        .map(|cell| rows.iter().map(|row| row[cell]).sum::<f64>() / rows.len() as f64)
        .collect()
}

/// Decides which rectangles are worth a sentence.
struct Judge<'a> {
    frame: &'a Frame<'a>,
    candidate: usize,
    ground: &'a Ground,
    field: &'a Field<'a>,
    runs: &'a Runs,
    /// Sums of logarithms, one for each run, or of their differences, one for each block or run.
    /// They are computed only for the few tables that have hits, because for thousands of runs they
    /// take more memory than the values.
    sums: OnceCell<Vec<Sums<f64>>>,
}

impl Judge<'_> {
    /// Returns the regions, the largest first, without regions that another one contains or mostly
    /// covers.
    fn chosen(&self, mut hits: Vec<Hit>) -> Vec<Finding> {
        hits.sort_by(|a, b| b.cells.cmp(&a.cells).then(a.p.total_cmp(&b.p)));
        let mut taken: Vec<Rectangle> = Vec::new();
        let mut found = Vec::new();
        for hit in hits {
            if found.len() == MOST {
                break;
            }
            if self.is_news(&hit, &taken)
                && self.is_of_one_mind(&hit)
                && let Some(finding) = self.finding(&hit)
            {
                taken.push(hit.rectangle);
                found.push(finding);
            }
        }
        found
    }

    fn is_news(&self, hit: &Hit, taken: &[Rectangle]) -> bool {
        taken.iter().all(|larger| {
            let shared = larger
                .intersection(&hit.rectangle)
                .map_or(0, |both| self.ground.counts.sum(&both));
            !larger.contains(&hit.rectangle)
                && f64::from(shared) <= (1.0 - NEWS) * f64::from(hit.cells)
        })
    }

    fn mean(&self, rectangle: &Rectangle) -> f64 {
        self.field.differences.sum(rectangle) / f64::from(self.ground.counts.sum(rectangle))
    }

    /// Most cells point one way, and so does each edge, by more than the smallest ratio that
    /// matters: a rectangle that is carried by one corner would claim too much.
    fn is_of_one_mind(&self, hit: &Hit) -> bool {
        let theta = libm::log1p(self.frame.theta);
        let direction = self.mean(&hit.rectangle).signum();
        f64::from(self.agreeing(hit)) >= AGREEING * f64::from(hit.cells)
            && std::iter::once(&hit.rectangle)
                .chain(&hit.rectangle.edges())
                .all(|rectangle| self.mean(rectangle) * direction > theta)
    }

    fn agreeing(&self, hit: &Hit) -> u32 {
        let rising = self.field.differences.sum(&hit.rectangle) > 0.0;
        if rising {
            self.field.positive.sum(&hit.rectangle)
        } else {
            self.field.negative.sum(&hit.rectangle)
        }
    }

    fn sums(&self) -> &[Sums<f64>] {
        self.sums.get_or_init(|| {
            let rows = rows(self.frame, self.field.table, self.candidate);
            rows.map(|rows| sums(&self.ground.layout, &rows.rows))
                .unwrap_or_default()
        })
    }

    /// Returns the two over a rectangle. A table of one cell is compared as it is ranked: one cell
    /// has one interval.
    fn comparison(&self, hit: &Hit) -> Option<Comparison> {
        let Frame {
            baseline, theta, ..
        } = *self.frame;
        if let [_] = self.field.table.cells[..] {
            return self.field.ranking.comparison(baseline, self.candidate);
        }
        let means = self
            .sums()
            .iter()
            .map(|sums| sums.sum(&hit.rectangle) / f64::from(hit.cells));
        let means: Vec<f64> = means.collect();
        let difference = match self.runs {
            Runs::Blocks(_) => Difference::of_blocks(&means),
            Runs::Paired(_) => Some(
                RunContrast::of_differences(&means)
                    .difference(&self.frame.plain_terms(self.candidate)),
            ),
            Runs::Independent(baseline, _) => {
                let (baseline, candidate) = means.split_at(baseline.len());
                let contrast = RunContrast::of_logarithms(baseline, candidate);
                Some(contrast.difference(&self.frame.plain_terms(self.candidate)))
            }
        }?;
        Some(difference.judged(
            self.frame.level(),
            &Analysis::Only,
            self.field.table.better,
            theta,
        ))
    }

    /// Returns the rectangle as a finding if the two sets differ significantly on it.
    fn finding(&self, hit: &Hit) -> Option<Finding> {
        let comparison = self.comparison(hit)?;
        let interval = comparison
            .interval
            .filter(|_| comparison.verdict.differs())?;
        let key = &self.field.table.key;
        let ours = self.frame.sets.iter().all(|set| set.tool() == Some(OURS));
        let layout = &self.ground.layout;
        let mut finding = Finding {
            text: String::new(),
            workload: key.workload.clone(),
            operation: key.operation.clone(),
            metric: key.metric.clone(),
            baseline: self.frame.names[self.frame.baseline].to_owned(),
            candidate: self.frame.names[self.candidate].to_owned(),
            ratio: comparison.ratio,
            ci95: [interval.lo, interval.hi],
            file_size: ends(&layout.files, hit.rectangle.files),
            record_size: ends(&layout.records, hit.rectangle.records),
            cells: hit.cells as usize,
            agreeing: self.agreeing(hit) as usize,
            p: hit.p,
            faster: comparison.verdict.is_better(),
        };
        finding.text = sentence(
            &finding,
            comparison.verdict.words(),
            self.field.table.better,
            layout,
            ours,
        );
        Some(finding)
    }
}

fn ends(sizes: &[Option<u64>], (first, last): (usize, usize)) -> Option<[u64; 2]> {
    Some([sizes[first]?, sizes[last]?])
}

/// Returns a sentence such as `ext4 is slower than xfs at write, files ≥ 1 MiB, records ≥ 8 KiB:
/// −16 % (95 % CI −18…−14), 41 of 43 cells`. `how` is the verdict in words. `ours` means that the
/// labels of the workloads name the operation.
fn sentence(finding: &Finding, how: &str, better: Better, layout: &Layout, ours: bool) -> String {
    let Finding {
        candidate,
        baseline,
        ..
    } = finding;
    let what = match &finding.workload {
        Some(workload) if ours || workload.contains(&finding.operation) => workload.clone(),
        Some(workload) => format!("{workload}: {}", finding.operation),
        None => finding.operation.replace('_', " "),
    };
    let sizes = [
        ("files", &layout.files, finding.file_size),
        ("records", &layout.records, finding.record_size),
    ];
    let sizes: String = sizes
        .iter()
        .filter_map(|(name, all, ends)| range(name, all, (*ends)?))
        .collect();
    let time = if better == Better::Lower { "time " } else { "" };
    let cells = match finding.cells {
        1 => String::new(),
        cells => format!(", {} of {cells} cells", finding.agreeing),
    };
    let [lo, hi] = finding.ci95;
    let (center, lo, hi) = changes(finding.ratio, lo, hi);
    format!(
        "{candidate} is {how} than {baseline} at {what}{sizes}: {time}{center} (95 % CI {lo}…{hi}){cells}"
    )
}

/// Returns a range such as `, files ≥ 1 MiB`, or `None` if the range has all sizes.
fn range(name: &str, all: &[Option<u64>], [lo, hi]: [u64; 2]) -> Option<String> {
    match (
        all.first() == Some(&Some(lo)),
        all.last() == Some(&Some(hi)),
    ) {
        (true, true) => None,
        _ if lo == hi => Some(format!(", {name} of {}", show(lo))),
        (false, true) => Some(format!(", {name} ≥ {}", show(lo))),
        (true, false) => Some(format!(", {name} ≤ {}", show(hi))),
        (false, false) => Some(format!(", {name} {}–{}", show(lo), show(hi))),
    }
}

/// Returns a size as text, with the unit in which it is a whole number: `64 KiB`.
fn show(size: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units
        .iter()
        .find(|(_, bits)| size >= 1 << bits && size.trailing_zeros() >= *bits)
    {
        Some((unit, bits)) => format!("{} {unit}", size >> bits),
        None => format!("{size} B"),
    }
}

/// Returns a ratio and its ends: as percentages up to tenfold, with a decimal where whole numbers
/// would hide the width.
fn changes(ratio: f64, lo: f64, hi: f64) -> (String, String, String) {
    if !(0.1..10.0).contains(&ratio) {
        return [ratio, lo, hi]
            .map(|ratio| format!("×{}", units::three_digits(ratio)))
            .into();
    }
    let decimals = usize::from(hi - lo < 0.02);
    let [ratio, lo, hi] = [ratio, lo, hi]
        .map(|ratio| format!("{:+.decimals$}", (ratio - 1.0) * 100.0).replace('-', "−"));
    (format!("{ratio} %"), lo, hi)
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn changes_are_as_exact_as_their_interval() {
        let text = |ratio, lo, hi| {
            let (center, lo, hi) = changes(ratio, lo, hi);
            format!("{center} {lo}…{hi}")
        };
        assert_eq!(text(0.84, 0.82, 0.86), "−16 % −18…−14");
        assert_eq!(text(1.062, 1.058, 1.066), "+6.2 % +5.8…+6.6");
        assert_eq!(text(14.2, 13.0, 15.5), "×14.2 ×13.0…×15.5");
    }
}
