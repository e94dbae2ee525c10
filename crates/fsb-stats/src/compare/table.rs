//! Values of sets as matrices, runs × cells: one table an operation, workload and metric.

use std::collections::{HashMap, HashSet};

use fsb_model::Better;
use fsb_model::metric::{self, Role};

use super::collected::{Collected, Column, Key, Size, Subject};

/// The values of one operation over the cells that all sets with this operation have.
#[derive(Debug)]
pub(super) struct Table {
    pub key: Key,
    pub better: Better,
    /// Whether the operation is judged by this metric.
    pub primary: bool,
    /// By file size, then record size.
    pub cells: Vec<Size>,
    /// By set. `None` if it lacks the operation.
    pub sets: Vec<Option<Matrix>>,
    /// Cells by set, common or not: the number of its cells, and the number of cells that no other set has.
    pub coverage: Vec<(usize, usize)>,
}

/// The values of one set, missing ones as NaN.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    /// The indices of the runs that have values, in order.
    pub runs: Vec<usize>,
    /// Runs × cells, row by row. Their logarithms would take the same memory again and are cheap to compute.
    pub values: Vec<f64>,
}

impl Matrix {
    fn value(&self, run: usize, cell: usize) -> f64 {
        self.values[run * (self.values.len() / self.runs.len()) + cell]
    }

    /// Returns whether a run has a value.
    pub fn has(&self, run: usize, cell: usize) -> bool {
        !self.value(run, cell).is_nan()
    }

    /// Returns the logarithm of a run's value, or NaN if it has none.
    pub fn log(&self, run: usize, cell: usize) -> f64 {
        libm::log(self.value(run, cell))
    }

    /// Returns the values of one cell with the indices of their runs in the set.
    pub fn column(&self, cell: usize, cells: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let values = self.values.iter().skip(cell).step_by(cells);
        self.runs.iter().copied().zip(values.copied()).filter(|(_, value)| !value.is_nan())
    }
}

impl Table {
    /// Returns whether both sizes are known, so that cells form a grid.
    pub(crate) fn is_grid(&self) -> bool {
        !self.cells.is_empty() && self.cells.iter().all(|size| size.file.is_some() && size.record.is_some())
    }

    /// Returns the number of sets that have the operation.
    pub fn present(&self) -> usize {
        self.sets.iter().flatten().count()
    }

    /// Joins several tables: every cell of every table, for the sets that have all of them. Each set's values are
    /// dropped as soon as they are copied.
    pub fn pool(mut tables: Vec<Table>, operation: &str) -> Option<Table> {
        let first = tables.first()?;
        let key = Key { workload: None, operation: operation.to_owned(), ..first.key.clone() };
        let (better, sets) = (first.better, first.sets.len());
        let cells: Vec<Size> = tables.iter().flat_map(|table| table.cells.iter().copied()).collect();
        // Set by set, so that at most one of them is in memory twice.
        let pooled: Vec<Option<Matrix>> = (0..sets)
            .map(|set| {
                let parts: Vec<Matrix> =
                    tables.iter_mut().map(|table| table.sets[set].take()).collect::<Option<_>>()?;
                let mut runs: Vec<usize> = parts.iter().flat_map(|part| part.runs.iter().copied()).collect();
                runs.sort_unstable();
                runs.dedup();
                let (mut values, mut offset) = (vec![f64::NAN; runs.len() * cells.len()], 0);
                for part in parts {
                    let width = part.values.len() / part.runs.len();
                    for (row, run) in part.runs.iter().enumerate() {
                        let Ok(place) = runs.binary_search(run) else { continue };
                        let to = &mut values[place * cells.len() + offset..][..width];
                        to.copy_from_slice(&part.values[row * width..][..width]);
                    }
                    offset += width;
                }
                Some(Matrix { runs, values })
            })
            .collect();
        Some(Table { key, better, primary: false, cells, sets: pooled, coverage: Vec::new() })
    }
}

/// Returns the subjects that several sets have, but at no common size. If fewer sets report a latency, it does not
/// replace the metric that they are judged by.
pub(super) fn sized_otherwise(tables: &[Table]) -> HashSet<Subject> {
    let judged = tables.iter().zip(primary(tables)).filter(|(_, is_primary)| *is_primary);
    judged
        .filter(|(table, _)| table.present() > 1 && table.cells.is_empty())
        .map(|(table, _)| table.key.subject())
        .collect()
}

/// Returns which tables operations are judged by, one metric per operation. The primary metric of an FSBench workload
/// comes first, also if a user named it. Otherwise it is the first rate, or else the first known metric. The other
/// metrics measure the same work again, and the maximum of a thousand latencies is unsuitable for a verdict.
pub(super) fn primary(tables: &[Table]) -> Vec<bool> {
    let is_rate = |table: &Table| metric::find(&table.key.metric).is_some_and(|kind| kind.role == Role::Rate);
    let mut chosen: HashMap<_, usize> = HashMap::new();
    let is_known = |table: &Table| metric::find(&table.key.metric).is_some();
    for (place, table) in tables.iter().enumerate().filter(|(_, table)| is_known(table) || table.key.workload.is_some())
    {
        let first = *chosen.entry(table.key.subject()).or_insert(place);
        if is_known(&tables[first]) && !is_rate(&tables[first]) && is_rate(table) {
            chosen.insert(table.key.subject(), place);
        }
    }
    (0..tables.len()).map(|place| chosen.get(&tables[place].key.subject()) == Some(&place)).collect()
}

/// Returns the values of all sets as tables, in the order of the first occurrence of operations, the baseline's first.
/// It takes the values out of the sets, so that they are in memory once.
pub(super) fn tables(sets: &mut [Collected], baseline: usize) -> Vec<Table> {
    let anonymous: HashSet<String> = shared_names(sets).into_iter().map(str::to_owned).collect();
    let mut places: HashMap<Key, usize> = HashMap::new();
    let mut parts: Vec<(Key, Vec<Option<Column>>)> = Vec::new();
    let order = std::iter::once(baseline).chain((0..sets.len()).filter(|set| *set != baseline));
    let all = sets.len();
    for set in order {
        for column in std::mem::take(&mut sets[set].columns) {
            let named = !anonymous.contains(&column.key.operation);
            let key = Key { workload: column.key.workload.clone().filter(|_| named), ..column.key.clone() };
            let place = *places.entry(key).or_insert_with_key(|key| {
                parts.push((key.clone(), std::iter::repeat_with(|| None).take(all).collect()));
                parts.len() - 1
            });
            parts[place].1[set] = Some(column);
        }
    }
    parts.into_iter().map(|(key, columns)| table(key, columns)).collect()
}

/// Returns operations that sets of different tools name differently (fio by its job, IOzone not at all) although each
/// has only one of them. There the name distinguishes nothing and would only prevent the comparison.
fn shared_names(sets: &[Collected]) -> HashSet<&str> {
    let mut names: HashMap<&str, Vec<HashSet<Option<&str>>>> = HashMap::new();
    for (place, set) in sets.iter().enumerate() {
        for key in set.columns.iter().map(|column| &column.key) {
            let by_set = names.entry(&key.operation).or_insert_with(|| vec![HashSet::new(); sets.len()]);
            by_set[place].insert(key.workload.as_deref());
        }
    }
    let is_shared = |by_set: &Vec<HashSet<Option<&str>>>| {
        let owners = sets.iter().zip(by_set).filter(|(_, names)| !names.is_empty());
        let tools: HashSet<_> = owners.map(|(set, _)| set.tool()).collect();
        tools.len() > 1 && by_set.iter().all(|names| names.len() <= 1)
    };
    names.into_iter().filter(|(_, by_set)| is_shared(by_set)).map(|(operation, _)| operation).collect()
}

/// Builds the table of one operation from the columns of the sets. A set without the operation has no matrix.
fn table(key: Key, columns: Vec<Option<Column>>) -> Table {
    let mut cells: Vec<Size> = columns.iter().flatten().flat_map(|column| column.sizes.iter().copied()).collect();
    cells.sort_unstable();
    cells.dedup();
    let place = |size: &Size| cells.binary_search(size).unwrap_or_default();
    let has: Vec<Vec<bool>> = columns
        .iter()
        .map(|column| {
            let mut has = vec![false; cells.len()];
            column.iter().flat_map(|column| &column.sizes).for_each(|size| has[place(size)] = true);
            has
        })
        .collect();
    let owners = |cell: usize| has.iter().filter(|has| has[cell]).count();
    let present = columns.iter().flatten().filter(|column| !column.rows.is_empty()).count();
    let coverage = has.iter().map(|has| {
        let own = || (0..cells.len()).filter(|cell| has[*cell]);
        (own().count(), own().filter(|cell| owners(*cell) == 1).count())
    });
    let coverage = coverage.collect();
    let common: Vec<Size> = (0..cells.len()).filter(|cell| owners(*cell) == present).map(|cell| cells[cell]).collect();
    // All sets have the same operation, so the first one knows the better direction.
    let better = columns.iter().flatten().map(|column| column.better).next().unwrap_or(Better::Higher);
    let sets = columns.into_iter().map(|column| column.and_then(|column| matrix(column, &common))).collect();
    Table { coverage, cells: common, sets, key, better, primary: false }
}

/// Returns the rows of a set over the common cells. If a run has a cell twice, the first value counts.
fn matrix(column: Column, common: &[Size]) -> Option<Matrix> {
    if column.rows.is_empty() {
        return None;
    }
    let places: Vec<Option<usize>> = column.sizes.iter().map(|size| common.binary_search(size).ok()).collect();
    let mut runs: Vec<usize> = column.rows.iter().map(|row| row.run as usize).collect();
    runs.dedup();
    // Usually all runs have all cells in order. Then the values are already in place.
    let in_order = column.sizes == common && column.shapes.len() == 1 && runs.len() == column.rows.len();
    if in_order && column.shapes[0].iter().copied().eq(0..common.len() as u32) {
        return Some(Matrix { runs, values: column.values });
    }
    let mut values = vec![f64::NAN; runs.len() * common.len()];
    for rows in column.rows.chunk_by(|one, other| one.run == other.run).zip(values.chunks_mut(common.len().max(1))) {
        let (rows, values) = rows;
        for (cell, value) in rows.iter().flat_map(|row| column.points(row)) {
            let Some(place) = places[cell as usize] else { continue };
            if values[place].is_nan() {
                values[place] = value;
            }
        }
    }
    Some(Matrix { runs, values })
}
