//! Values of sets as matrices, runs × cells: one table an operation, workload and metric.

use std::collections::{HashMap, HashSet};

use fsb_model::metric::{self, Role};
use fsb_model::set::Set;
use fsb_model::{Better, Unit};

use crate::error::{AnalysisError, logarithm};

/// File size and record size in bytes, where the tool has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Size {
    pub file: Option<u64>,
    pub record: Option<u64>,
}

/// What a table is about. Values with equal keys are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub workload: Option<String>,
    pub operation: String,
    pub metric: String,
    pub unit: Unit,
}

/// The values of one operation over the cells that all sets with this operation have.
#[derive(Debug)]
pub(super) struct Table {
    pub key: Key,
    pub better: Better,
    /// By file size, then record size.
    pub cells: Vec<Size>,
    /// By set; absent where it lacks the operation.
    pub sets: Vec<Option<Matrix>>,
    /// Cells by set, common or not: how many a set has, and how many no other set has.
    pub coverage: Vec<(usize, usize)>,
}

/// The values of one set, missing ones as NaN.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    /// Which runs of the set have values, in their order.
    pub runs: Vec<usize>,
    /// Runs × cells, row by row.
    pub values: Vec<f64>,
    /// The logarithms of `values`.
    pub logs: Vec<f64>,
}

impl Matrix {
    /// The logarithm of a run's value; NaN where it has none.
    pub fn log(&self, run: usize, cell: usize) -> f64 {
        self.logs[run * (self.logs.len() / self.runs.len()) + cell]
    }

    /// The values of one cell with the places of their runs among the set's.
    pub fn column(&self, cell: usize, cells: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let values = self.values.iter().skip(cell).step_by(cells);
        self.runs.iter().copied().zip(values.copied()).filter(|(_, value)| !value.is_nan())
    }
}

impl Table {
    /// Whether both sizes are known, so that cells form a grid.
    pub(crate) fn is_grid(&self) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(|size| size.file.is_some() && size.record.is_some())
    }

    /// How many sets have the operation.
    pub fn present(&self) -> usize {
        self.sets.iter().flatten().count()
    }

    /// Several tables as one: every cell of every table, of the sets that have all of them.
    pub fn pool(tables: &[&Table], operation: &str) -> Table {
        let first = tables[0];
        let places: Vec<(usize, usize)> = tables
            .iter()
            .enumerate()
            .flat_map(|(t, table)| (0..table.cells.len()).map(move |cell| (t, cell)))
            .collect();
        let pooled = |set: usize| -> Option<Matrix> {
            let parts: Vec<&Matrix> = tables.iter().map(|table| table.sets[set].as_ref()).collect::<Option<_>>()?;
            let mut runs: Vec<usize> = parts.iter().flat_map(|part| part.runs.iter().copied()).collect();
            runs.sort_unstable();
            runs.dedup();
            let gather = |of: fn(&Matrix) -> &Vec<f64>| {
                runs.iter()
                    .flat_map(|run| places.iter().map(move |place| (run, place)))
                    .map(|(run, (t, cell))| {
                        let row = parts[*t].runs.binary_search(run).ok();
                        row.map_or(f64::NAN, |row| of(parts[*t])[row * tables[*t].cells.len() + cell])
                    })
                    .collect()
            };
            Some(Matrix { values: gather(|part| &part.values), logs: gather(|part| &part.logs), runs: runs.clone() })
        };
        Table {
            key: Key { workload: None, operation: operation.to_owned(), ..first.key.clone() },
            better: first.better,
            cells: places.iter().map(|(t, cell)| tables[*t].cells[*cell]).collect(),
            sets: (0..first.sets.len()).map(pooled).collect(),
            coverage: Vec::new(),
        }
    }
}

/// Which tables an operation is judged by: one metric each, the first that is a rate, else the first that is known at all;
/// the others tell the same story again, and the worst of a thousand latencies tells none.
pub(super) fn primary(tables: &[Table]) -> Vec<bool> {
    let is_rate = |table: &Table| metric::find(&table.key.metric).is_some_and(|kind| kind.role == Role::Rate);
    let subject = |table: &Table| (table.key.workload.clone(), table.key.operation.clone());
    let mut chosen: HashMap<_, usize> = HashMap::new();
    for (place, table) in tables.iter().enumerate().filter(|(_, table)| metric::find(&table.key.metric).is_some()) {
        let first = *chosen.entry(subject(table)).or_insert(place);
        if !is_rate(&tables[first]) && is_rate(table) {
            chosen.insert(subject(table), place);
        }
    }
    (0..tables.len()).map(|place| chosen.get(&subject(&tables[place])) == Some(&place)).collect()
}

/// Sorts the values of all sets into tables, in the order in which operations turn up, the baseline's first.
pub(super) fn tables(sets: &[Set], baseline: usize) -> Result<Vec<Table>, AnalysisError> {
    let anonymous = shared_names(sets);
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut gathered: Vec<Gathered> = Vec::new();
    let order = std::iter::once(baseline).chain((0..sets.len()).filter(|set| *set != baseline));
    for set in order {
        for (run, series) in
            sets[set].runs.iter().enumerate().flat_map(|(run, r)| r.series.iter().map(move |series| (run, series)))
        {
            let named = !anonymous.contains(series.operation.as_str());
            let key = Key {
                workload: series.workload.clone().filter(|_| named),
                operation: series.operation.clone(),
                metric: series.metric.clone(),
                unit: series.unit,
            };
            let place = *places.entry(key).or_insert_with_key(|key| {
                gathered.push(Gathered::new(key.clone(), series.better, sets.len()));
                gathered.len() - 1
            });
            let points = series.points.iter();
            gathered[place].add(
                set,
                run,
                points.map(|point| (Size { file: point.file_size, record: point.record_size }, point.value)),
            )?;
        }
    }
    Ok(gathered.into_iter().map(Gathered::into_table).collect())
}

/// Operations that sets of different tools name differently (fio by its job, IOzone not at all) although each has only
/// one of them: there the name tells nothing apart, and would only keep them from being compared.
fn shared_names(sets: &[Set]) -> HashSet<&str> {
    let mut names: HashMap<&str, Vec<HashSet<Option<&str>>>> = HashMap::new();
    for (place, set) in sets.iter().enumerate() {
        for series in set.runs.iter().flat_map(|run| &run.series) {
            let by_set = names.entry(&series.operation).or_insert_with(|| vec![HashSet::new(); sets.len()]);
            by_set[place].insert(series.workload.as_deref());
        }
    }
    let tool = |set: &Set| set.runs.first().map(|run| run.tool.clone());
    let is_shared = |by_set: &Vec<HashSet<Option<&str>>>| {
        let owners = sets.iter().zip(by_set).filter(|(_, names)| !names.is_empty());
        let tools: HashSet<_> = owners.map(|(set, _)| tool(set)).collect();
        tools.len() > 1 && by_set.iter().all(|names| names.len() <= 1)
    };
    names.into_iter().filter(|(_, by_set)| is_shared(by_set)).map(|(operation, _)| operation).collect()
}

/// A table while it is filled: which cells are common is not known yet.
struct Gathered {
    key: Key,
    better: Better,
    places: HashMap<Size, usize>,
    sizes: Vec<Size>,
    /// By set, the values of each run.
    sets: Vec<Vec<(usize, Row)>>,
}

/// Places of cells and their values.
type Row = Vec<(usize, f64)>;

impl Gathered {
    fn new(key: Key, better: Better, sets: usize) -> Gathered {
        Gathered { key, better, places: HashMap::new(), sizes: Vec::new(), sets: vec![Vec::new(); sets] }
    }

    fn add(&mut self, set: usize, run: usize, points: impl Iterator<Item = (Size, f64)>) -> Result<(), AnalysisError> {
        let mut row = Vec::with_capacity(points.size_hint().0);
        for (size, value) in points {
            logarithm(value)?;
            let place = *self.places.entry(size).or_insert_with(|| {
                self.sizes.push(size);
                self.sizes.len() - 1
            });
            row.push((place, value));
        }
        match self.sets[set].last_mut() {
            _ if row.is_empty() => {}
            Some((last, earlier)) if *last == run => earlier.append(&mut row),
            _ => self.sets[set].push((run, row)),
        }
        Ok(())
    }

    fn into_table(self) -> Table {
        let has: Vec<Vec<bool>> = self.sets.iter().map(|runs| presence(runs, self.sizes.len())).collect();
        let owners = |cell: usize| has.iter().filter(|has| has[cell]).count();
        let present = self.sets.iter().filter(|runs| !runs.is_empty()).count();
        let mut common: Vec<usize> = (0..self.sizes.len()).filter(|cell| owners(*cell) == present).collect();
        common.sort_by_key(|cell| self.sizes[*cell]);
        let coverage = has.iter().map(|has| {
            let own = || (0..self.sizes.len()).filter(|cell| has[*cell]);
            (own().count(), own().filter(|cell| owners(*cell) == 1).count())
        });
        let mut column = vec![usize::MAX; self.sizes.len()];
        common.iter().enumerate().for_each(|(place, cell)| column[*cell] = place);
        Table {
            coverage: coverage.collect(),
            cells: common.iter().map(|cell| self.sizes[*cell]).collect(),
            sets: self.sets.iter().map(|runs| matrix(runs, &column, common.len())).collect(),
            key: self.key,
            better: self.better,
        }
    }
}

fn presence(runs: &[(usize, Row)], cells: usize) -> Vec<bool> {
    let mut has = vec![false; cells];
    runs.iter().flat_map(|(_, row)| row).for_each(|(cell, _)| has[*cell] = true);
    has
}

/// The rows of a set over the common cells; of a cell that a run has twice, the first value.
fn matrix(runs: &[(usize, Row)], column: &[usize], cells: usize) -> Option<Matrix> {
    if runs.is_empty() {
        return None;
    }
    let mut values = vec![f64::NAN; runs.len() * cells];
    for (row, (_, points)) in runs.iter().enumerate() {
        for (cell, value) in points.iter().filter(|(cell, _)| column[*cell] != usize::MAX) {
            let place = &mut values[row * cells + column[*cell]];
            if place.is_nan() {
                *place = *value;
            }
        }
    }
    let logs = values.iter().map(|value| libm::log(*value)).collect();
    Some(Matrix { runs: runs.iter().map(|(run, _)| *run).collect(), values, logs })
}
