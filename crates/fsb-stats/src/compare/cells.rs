//! Single cells: the colours of the heat map. They are no verdicts, because the cells of one run share its random
//! effects.

use super::document::{Cell, CellAgainst, CellValue, Colour, GridAgainst, Single};
use super::region::Frame;
use super::table::Table;
use crate::difference::Difference;
use crate::error::AnalysisError;
use crate::interval::Interval;
use crate::ranking::Ranking;
use crate::runs::Terms;
use crate::sample::Sample;
use crate::verdict::Verdict;
use crate::{LEVEL, interval::exp};

/// The false discovery rate of colours (Benjamini and Hochberg 1995), over the cells of one operation.
pub(super) const FALSE_DISCOVERIES: f64 = 0.05;

/// One candidate's cells, one entry per column of the table. `None` if the two sets have no block in common.
pub(super) type Looks = Vec<Option<CellAgainst>>;

/// Compares every cell of one candidate with the baseline.
pub(super) fn looks(frame: &Frame, table: &Table, candidate: usize) -> Result<Looks, AnalysisError> {
    let (Some(base), Some(other)) = (&table.sets[frame.baseline], &table.sets[candidate]) else {
        return Ok(vec![None; table.cells.len()]);
    };
    let cells = table.cells.len();
    let sample = |set: usize, matrix: &super::table::Matrix, cell: usize| -> Sample {
        let logs = (0..matrix.runs.len()).map(|row| (matrix.runs[row], matrix.log(row, cell)));
        frame.sample(set, logs.filter(|(_, log)| !log.is_nan()))
    };
    let differences: Vec<Option<Difference>> = (0..cells)
        .map(|cell| sample(frame.baseline, base, cell).difference(&sample(candidate, other, cell), &Terms::default()))
        .collect::<Result<_, _>>()?;
    let rejected = rejected(&differences.iter().map(|d| d.as_ref().and_then(Difference::p_value)).collect::<Vec<_>>());
    let look = |(difference, rejected): (&Option<Difference>, bool)| {
        let difference = difference.as_ref()?;
        let interval = difference.interval(LEVEL);
        Some(CellAgainst {
            ratio: exp(difference.mean()),
            ci95: interval.map(Interval::exp).map(|interval| [interval.lo, interval.hi]),
            colour: colour(frame, table, difference.mean(), interval, rejected),
        })
    };
    Ok(differences.iter().zip(rejected).map(look).collect())
}

fn colour(frame: &Frame, table: &Table, mean: f64, interval: Option<Interval>, rejected: bool) -> Colour {
    match interval.map(|interval| Verdict::of(interval, frame.theta, table.better)) {
        Some(Verdict::Equivalent) => Colour::Same,
        _ if !rejected => Colour::Uncertain,
        _ if (mean > 0.0) == (table.better == fsb_model::Better::Higher) => Colour::Faster,
        _ => Colour::Slower,
    }
}

/// Returns which hypotheses are rejected at [`FALSE_DISCOVERIES`]: with m sorted p-values the largest k with p ≤ q·k/m,
/// and all below it.
fn rejected(p_values: &[Option<f64>]) -> Vec<bool> {
    let mut sorted: Vec<f64> = p_values.iter().flatten().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let m = sorted.len() as f64;
    let passes = |(place, p): (usize, &f64)| *p <= FALSE_DISCOVERIES * (place + 1) as f64 / m;
    let limit = sorted.iter().enumerate().filter(|(place, p)| passes((*place, p))).map(|(_, p)| *p).next_back();
    p_values.iter().map(|p| p.zip(limit).is_some_and(|(p, limit)| p <= limit)).collect()
}

/// Counts the colours of a region, and adds the ratio and verdict of its runs.
pub(super) fn counted(
    frame: &Frame,
    ranking: &Ranking,
    candidate: usize,
    looks: &Looks,
    columns: &[usize],
) -> Option<GridAgainst> {
    let colours: Vec<Colour> = columns.iter().filter_map(|column| looks[*column]).map(|look| look.colour).collect();
    if colours.is_empty() {
        return None;
    }
    let count = |colour: Colour| colours.iter().filter(|other| **other == colour).count();
    let comparison = ranking.comparison(frame.baseline, candidate);
    Some(GridAgainst {
        ratio: comparison.as_ref().map(|comparison| comparison.ratio),
        ci95: comparison.as_ref().and_then(|comparison| comparison.interval).map(|i| [i.lo, i.hi]),
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

/// Returns the cells for charts and tables, with every single value if `single` asks for them.
pub(super) fn detailed(frame: &Frame, table: &Table, looks: &[(usize, Looks)], single: bool) -> Vec<Cell> {
    let cell = |(place, size): (usize, &super::key::Size)| {
        let against = looks.iter().filter_map(|(set, looks)| Some((frame.names[*set].to_owned(), looks[place]?)));
        let column = |set: usize| {
            let matrix = table.sets[set].iter();
            matrix
                .flat_map(|matrix| matrix.column(place, table.cells.len()))
                .map(|(run, value)| CellValue { run, value })
        };
        let mean = |(set, name): (usize, &&str)| {
            let (sum, n) = column(set).fold((0.0, 0), |(sum, n), found| (sum + found.value, n + 1));
            (n > 0).then(|| ((*name).to_owned(), sum / f64::from(n)))
        };
        Cell {
            file_size: size.file,
            record_size: size.record,
            means: frame.names.iter().enumerate().filter_map(mean).collect(),
            values: frame.by_set(|set| if single { column(set).collect() } else { Vec::new() }),
            against: against.collect(),
        }
    };
    table.cells.iter().enumerate().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::rejected;

    /// The example of Benjamini and Hochberg 1995, section 3.2: of fifteen p-values the first four fall.
    #[test]
    fn the_published_example() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
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
