//! Cells of a matrix: the same work on many sizes of file and record.
//!
//! A matrix may have a thousand cells. Warm-up measures a few of them, the corners and the middle,
//! and `fill_costs` interpolates the costs of the others. If a budget does not hold all cells,
//! [`largest_part`] chooses a part that is spread evenly. `typical_seconds` estimates the duration
//! of all cells before anything starts.

use std::collections::{BTreeMap, BTreeSet};

use fsb_engine::{Profile, Renewal};
use fsb_model::observed::Spent;
use fsb_model::{Cell, Warning};

use crate::planner::SequentialCost;

/// Parameters that differ within a matrix.
const SIZES: [&str; 2] = ["file_size", "block_size"];
/// The maximum number of cells of a matrix that warm-up measures completely.
const FEW: usize = 8;

/// The cells of a plan that are parts of matrices.
#[derive(Debug, Default)]
pub struct Grid {
    spots: Vec<Spot>,
}

/// One cell of a matrix.
#[derive(Debug)]
pub(crate) struct Spot {
    /// Index of the cell in the plan.
    pub cell: usize,
    /// The workload and the parameters that it shares with the other cells of its matrix.
    pub work: String,
    /// Bytes of a file.
    pub file: u64,
    /// Bytes of a record.
    pub record: u64,
}

impl Grid {
    /// Finds the matrices among cells, which have their index in the plan.
    pub fn from_cells<'c>(cells: impl Iterator<Item = (usize, &'c Cell, &'c Profile)>) -> Grid {
        let spots =
            cells.filter_map(|(index, cell, profile)| Spot::from_cell(index, cell, profile));
        Grid {
            spots: spots.collect(),
        }
    }

    /// Returns a grid of arbitrary cells for tests.
    #[cfg(test)]
    fn from_spots(spots: Vec<Spot>) -> Grid {
        Grid { spots }
    }

    /// Returns whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.spots.is_empty()
    }

    /// Returns all cells.
    pub(crate) fn spots(&self) -> &[Spot] {
        &self.spots
    }

    /// Returns the sizes of files, ascending.
    pub fn files(&self) -> Vec<u64> {
        self.spots
            .iter()
            .map(|spot| spot.file)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns the sizes of records, ascending.
    pub fn records(&self) -> Vec<u64> {
        self.spots
            .iter()
            .map(|spot| spot.record)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns the combinations of file and record.
    pub fn pairs(&self) -> BTreeSet<(u64, u64)> {
        self.spots
            .iter()
            .map(|spot| (spot.file, spot.record))
            .collect()
    }

    /// Returns the cells whose costs follow from those of `visited` cells of the same work: files
    /// between the smallest and the largest of these.
    pub(crate) fn between(&self, visited: &[usize]) -> BTreeSet<usize> {
        let mut between = BTreeSet::new();
        for spots in self.by_work().values() {
            let mut files = Vec::new();
            for spot in spots {
                if visited.contains(&spot.cell) {
                    files.push(spot.file);
                }
            }
            let (Some(least), Some(most)) = (files.iter().min(), files.iter().max()) else {
                continue;
            };
            for spot in spots {
                if (*least..=*most).contains(&spot.file) {
                    between.insert(spot.cell);
                }
            }
        }
        between
    }

    /// Returns the cells by the work that they share.
    fn by_work(&self) -> BTreeMap<&str, Vec<&Spot>> {
        let mut works: BTreeMap<&str, Vec<&Spot>> = BTreeMap::new();
        for spot in &self.spots {
            works.entry(&spot.work).or_default().push(spot);
        }
        works
    }

    /// Returns the cells that warm-up need not measure. In the smallest and the middle file,
    /// warm-up measures the smallest, the middle and the largest record. In the largest file, which
    /// costs most, it measures the smallest and the largest record.
    pub(crate) fn unvisited(&self) -> BTreeSet<usize> {
        let mut unvisited = BTreeSet::new();
        for spots in self.by_work().values().filter(|spots| spots.len() > FEW) {
            let files = ends_and_middle(spots.iter().map(|spot| spot.file));
            let largest = files.last().copied();
            for spot in spots {
                let of_file = spots.iter().filter(|other| other.file == spot.file);
                let mut records = ends_and_middle(of_file.map(|other| other.record));
                if largest == Some(spot.file) && records.len() > 2 {
                    records = [records.first(), records.last()]
                        .into_iter()
                        .flatten()
                        .copied()
                        .collect();
                }
                if !(files.contains(&spot.file) && records.contains(&spot.record)) {
                    unvisited.insert(spot.cell);
                }
            }
        }
        unvisited
    }
}

/// Returns the smallest, the middle and the largest of some sizes.
fn ends_and_middle(sizes: impl Iterator<Item = u64>) -> BTreeSet<u64> {
    let sizes: Vec<u64> = sizes.collect::<BTreeSet<_>>().into_iter().collect();
    let places = [0, sizes.len() / 2, sizes.len().saturating_sub(1)];
    places
        .iter()
        .filter_map(|place| sizes.get(*place).copied())
        .collect()
}

impl Spot {
    fn from_cell(index: usize, cell: &Cell, profile: &Profile) -> Option<Spot> {
        let shared = cell
            .workload
            .params
            .iter()
            .filter(|(key, _)| !SIZES.contains(&key.as_str()));
        let shared: Vec<String> = shared
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        profile.matrix.then(|| Spot {
            cell: index,
            work: format!("{} {}", cell.workload.name, shared.join(" ")),
            file: profile.file_size,
            record: profile.record_size,
        })
    }
}

// Interpolates the costs of the cells of a matrix that warm-up did not measure from those that it
// measured.
//
// The time of one operation is close to a power of its size over wide ranges, so its logarithm is
// interpolated: first between two records of a measured file, then between two measured files.
// Beyond the outermost records, the slope of the last two continues. With a single record, the time
// is proportional to the bytes. The time of the steps around the clock depends on the bytes of the
// file.

/// A measured file of one work on one target: its costs by record.
type ByRecord<'a> = BTreeMap<u64, &'a SequentialCost>;

/// Returns the costs of the cells that have none, for each target that has some of the same work.
/// `costs` are those that warm-up measured, by cell.
pub(crate) fn fill_costs(grid: &Grid, costs: &[&[SequentialCost]]) -> Vec<(usize, SequentialCost)> {
    let known = |cell: usize, target: usize| {
        costs[cell]
            .iter()
            .rfind(|cost| cost.target == target && cost.seconds > 0.0 && cost.operations > 0)
    };
    let targets: BTreeSet<usize> = costs
        .iter()
        .flat_map(|costs| costs.iter())
        .map(|cost| cost.target)
        .collect();
    let mut filled = Vec::new();
    for spots in grid.by_work().values() {
        for target in &targets {
            let mut visited: BTreeMap<u64, ByRecord<'_>> = BTreeMap::new();
            for spot in spots {
                if let Some(cost) = known(spot.cell, *target) {
                    visited
                        .entry(spot.file)
                        .or_default()
                        .insert(spot.record, cost);
                }
            }
            let missing = spots
                .iter()
                .filter(|spot| known(spot.cell, *target).is_none());
            filled.extend(
                missing.filter_map(|spot| Some((spot.cell, cost(spot, *target, &visited)?))),
            );
        }
    }
    filled
}

fn cost(
    spot: &Spot,
    target: usize,
    visited: &BTreeMap<u64, ByRecord<'_>>,
) -> Option<SequentialCost> {
    let below = visited
        .range(..=spot.file)
        .next_back()
        .or_else(|| visited.iter().next())?;
    let above = visited
        .range(spot.file..)
        .next()
        .or_else(|| visited.iter().next_back())?;
    let place = log_place(spot.file, *below.0, *above.0);
    let time = |(_, records): (&u64, &ByRecord<'_>)| ln_seconds(records, spot.record);
    let each = (time(below)? * (1.0 - place) + time(above)? * place).exp();
    // The operations of one second. Only their rate matters.
    let operations = (1.0 / each).ceil().max(1.0);
    let seconds = each * operations;
    let (low, high) = (below.1.values().next()?, above.1.values().next()?);
    let place = linear_place(spot.file, *below.0, *above.0);
    let mix =
        |of: fn(&SequentialCost) -> f64| (of(low) * (1.0 - place) + of(high) * place).max(0.0);
    let around = mix(|cost| (cost.spent.measure / cost.seconds).max(1.0));
    Some(SequentialCost {
        target,
        operations: operations as u64,
        seconds,
        spent: Spent {
            prepare: mix(|cost| cost.spent.prepare),
            set_up: mix(|cost| cost.spent.set_up),
            measure: seconds * around,
            cleanup: mix(|cost| cost.spent.cleanup),
        },
        journal_turns: None,
        between: true,
    })
}

/// Returns the logarithm of the seconds of one operation on this record, in one measured file.
fn ln_seconds(records: &ByRecord<'_>, record: u64) -> Option<f64> {
    let points: Vec<(f64, f64)> = records
        .iter()
        .map(|(size, cost)| (ln(*size), (cost.seconds / cost.operations as f64).ln()))
        .collect();
    let x = ln(record);
    // The pair around it, or the outermost one.
    let right = points
        .iter()
        .position(|point| point.0 >= x)
        .unwrap_or(points.len())
        .clamp(1, points.len().max(2) - 1);
    let (left, right) = (points.get(right - 1)?, points.get(right));
    let Some(right) = right else {
        return Some(left.1 + x - left.0);
    };
    let slope = (right.1 - left.1) / (right.0 - left.0);
    // Beyond the ends, time neither falls with the size nor grows faster than bytes do. A measured
    // slope outside this range is noise.
    let slope = if (left.0..=right.0).contains(&x) {
        slope
    } else {
        slope.clamp(0.0, 1.0)
    };
    let near = if x > right.0 { right } else { left };
    Some(near.1 + (x - near.0) * slope)
}

fn ln(size: u64) -> f64 {
    (size.max(1) as f64).ln()
}

fn log_place(size: u64, below: u64, above: u64) -> f64 {
    if above == below {
        0.0
    } else {
        ((ln(size) - ln(below)) / (ln(above) - ln(below))).clamp(0.0, 1.0)
    }
}

fn linear_place(size: u64, below: u64, above: u64) -> f64 {
    let span = above as f64 - below as f64;
    if span == 0.0 {
        0.0
    } else {
        ((size as f64 - below as f64) / span).clamp(0.0, 1.0)
    }
}

// The largest part of a matrix that fits a time: fewer sizes, never fewer blocks.
//
// Sizes are thinned out evenly, files and records alike, and the extremes stay. The remaining sizes
// are a matrix with the same ranges and larger steps. Of all such parts that fit, the one with the
// most combinations is chosen.

/// A part of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Sizes of files that stay.
    pub files: Vec<u64>,
    /// Sizes of records that stay.
    pub records: Vec<u64>,
    /// Seconds of its cells in a block.
    pub seconds: f64,
}

/// Returns the largest part whose cells take at most `time` seconds per block, or the part that
/// takes the least time if none does. `seconds` holds the seconds of each cell.
pub fn largest_part(grid: &Grid, seconds: &[f64], time: f64) -> Design {
    let mut cost: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for spot in grid.spots() {
        *cost.entry((spot.file, spot.record)).or_default() += seconds[spot.cell];
    }
    let (files, records) = (grid.files(), grid.records());
    let designs = (files.len().min(2)..=files.len())
        .flat_map(|count| (records.len().min(2)..=records.len()).map(move |other| (count, other)))
        .map(|(count, other)| Design::new(&evenly(&files, count), &evenly(&records, other), &cost));
    let mut best: Option<(Design, usize)> = None;
    let mut least: Option<(Design, usize)> = None;
    for (design, pairs) in designs.filter(|(_, pairs)| *pairs > 0) {
        fn balance(design: &Design) -> usize {
            design.files.len().min(design.records.len())
        }
        if design.seconds <= time
            && best
                .as_ref()
                .is_none_or(|(known, count)| (pairs, balance(&design)) > (*count, balance(known)))
        {
            best = Some((design.clone(), pairs));
        }
        if least
            .as_ref()
            .is_none_or(|(known, _)| design.seconds < known.seconds)
        {
            least = Some((design, pairs));
        }
    }
    let none = Design {
        files: Vec::new(),
        records: Vec::new(),
        seconds: 0.0,
    };
    best.or(least).map_or(none, |(design, _)| design)
}

impl Design {
    fn new(files: &[u64], records: &[u64], cost: &BTreeMap<(u64, u64), f64>) -> (Design, usize) {
        let inside = || {
            cost.iter()
                .filter(|((file, record), _)| files.contains(file) && records.contains(record))
        };
        let seconds = inside().map(|(_, seconds)| seconds).sum();
        (
            Design {
                files: files.to_vec(),
                records: records.to_vec(),
                seconds,
            },
            inside().count(),
        )
    }

    /// Returns the indexes of the cells that do not belong to it.
    pub fn left_out(&self, grid: &Grid) -> BTreeSet<usize> {
        let spots = grid.spots().iter().filter(|spot| {
            !self.files.contains(&spot.file) || !self.records.contains(&spot.record)
        });
        spots.map(|spot| spot.cell).collect()
    }

    /// Returns the warning with the sizes that are left out and the seconds that would hold all, or
    /// `None` if none is left out.
    pub fn warning(&self, grid: &Grid, needed_seconds: f64) -> Option<Warning> {
        let pairs = grid.pairs();
        let kept = pairs
            .iter()
            .filter(|(file, record)| self.files.contains(file) && self.records.contains(record))
            .count();
        fn missing(all: Vec<u64>, kept: &[u64]) -> Vec<u64> {
            all.into_iter()
                .filter(|size| !kept.contains(size))
                .collect()
        }
        (kept < pairs.len()).then(|| Warning::SizesLeftOut {
            left_out: pairs.len() - kept,
            planned: pairs.len(),
            files: missing(grid.files(), &self.files),
            records: missing(grid.records(), &self.records),
            needed_seconds,
        })
    }
}

/// Returns `count` of the sizes at even distances, the first and the last among them.
fn evenly(sizes: &[u64], count: usize) -> Vec<u64> {
    if count < 2 || sizes.len() < 2 {
        return sizes.iter().copied().take(count.max(1)).collect();
    }
    let last = sizes.len() - 1;
    (0..count)
        .map(|place| sizes[(place * last + (count - 1) / 2) / (count - 1)])
        .collect()
}

// Estimates the duration of cells before anything is known of the machine.
//
// The model has four numbers that are typical of one disk of recent years. Its estimates are off by
// a factor of two or three, which is enough to distinguish minutes from hours. Warm-up replaces it.

/// Seconds of three processes, and of waiting until the target is idle.
const AROUND: f64 = 0.12;
/// Bytes per second that are written and made durable when files are prepared.
const PREPARED: f64 = 400e6;
/// Bytes per second that the device moves.
const DEVICE: f64 = 200e6;
/// The time in which a worker restores the state between passes, relative to the time of the
/// passes.
const RESTORED: f64 = 1.0;
/// Seconds of creating and removing a file of a micro-benchmark.
const FILE: f64 = 50e-6;
/// Bytes per second that a micro-benchmark writes to the page cache, or reads from it.
const CACHE: f64 = 2e9;
/// Seconds of formatting, mounting and taking down a target.
pub(crate) const TYPICAL_VISIT: f64 = 1.5;

/// Seconds of a cell on one target with the fewest rounds. The cells of the quick suite took 0.2 to
/// 0.6 s with an image on one disk of recent years.
pub(crate) const TYPICAL_ROW: f64 = 0.35;

/// Returns the expected seconds of a trial whose sample lasts `timed` seconds.
pub(crate) fn typical_seconds(profile: &Profile, timed: f64) -> f64 {
    // All iterations of a micro-benchmark are made, however long they take. Each makes the files of
    // one thread.
    if profile.renewal == Renewal::Never && !profile.divisible {
        let files = profile.files as f64 / f64::from(profile.threads);
        let iteration = files * (FILE + 2.0 * profile.file_size as f64 / CACHE);
        return AROUND + profile.operations as f64 * iteration / f64::from(profile.threads);
    }
    let bytes = (profile.files * profile.file_size) as f64;
    let around = if profile.renewal == Renewal::Inside {
        timed * RESTORED
    } else {
        0.0
    };
    // A cold pass is over when the file is read.
    let pass = bytes / DEVICE;
    let timed = if profile.renewal == Renewal::Remount && pass < timed {
        pass.max(timed / 5.0)
    } else {
        timed
    };
    AROUND + bytes / PREPARED + timed + around
}

#[cfg(test)]
mod tests {
    use fsb_engine::{Sizing, workload};
    use fsb_model::WorkloadSpec;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns a matrix of reads on files of 64 KiB to 512 MiB, and the records of its cells.
    fn grid() -> (Grid, Vec<u64>) {
        let (mut cells, mut records) = (Vec::new(), Vec::new());
        for file in (16..30).map(|power| 1u64 << power) {
            let least = if file < 32 << 20 { 4 << 10 } else { 64 << 10 };
            for record in (12..25)
                .map(|power| 1u64 << power)
                .filter(|record| (least..=file).contains(record))
            {
                let params = json!({"file_size": file, "block_size": record, "matrix": true});
                let spec = WorkloadSpec::new("read", serde_json::from_value(params).unwrap());
                let job = workload::parse(
                    &spec,
                    &Sizing {
                        size: 1 << 30,
                        cpus: 1,
                    },
                )
                .unwrap();
                let profile = job.profile();
                let workload = WorkloadSpec::new(spec.name, job.params());
                cells.push((
                    Cell {
                        label: profile.label.clone(),
                        workload,
                    },
                    profile,
                ));
                records.push(record);
            }
        }
        (
            Grid::from_cells(
                cells
                    .iter()
                    .enumerate()
                    .map(|(index, (cell, profile))| (index, cell, profile)),
            ),
            records,
        )
    }

    fn cost_of(each: f64) -> SequentialCost {
        let spent = Spent {
            prepare: 0.1,
            set_up: 0.0,
            measure: 0.2,
            cleanup: 0.0,
        };
        SequentialCost {
            target: 0,
            operations: 1000,
            seconds: each * 1000.0,
            spent,
            journal_turns: None,
            between: false,
        }
    }

    proptest! {
        /// With a cost per call and a cost per byte, the result is within a factor of two, which is
        /// the planner's margin.
        #[test]
        fn rates_between_visited_cells_are_close(call in 1e-7f64..3e-6, byte in 2e-11f64..1e-9) {
            let (grid, records) = grid();
            let unvisited = grid.unvisited();
            let time = |record: u64| call + byte * record as f64;
            let seen = |(cell, record): (usize, &u64)| match unvisited.contains(&cell) {
                true => Vec::new(),
                false => vec![cost_of(time(*record))],
            };
            let seen: Vec<Vec<SequentialCost>> = records.iter().enumerate().map(seen).collect();
            let seen: Vec<&[SequentialCost]> = seen.iter().map(Vec::as_slice).collect();
            let filled = fill_costs(&grid, &seen);
            prop_assert_eq!(filled.len(), unvisited.len());
            for (cell, cost) in filled {
                let ratio = cost.seconds / cost.operations as f64 / time(records[cell]);
                prop_assert!((0.5..2.0).contains(&ratio), "{cell}: {ratio}");
                prop_assert!(cost.between && cost.spent.measure >= cost.seconds);
            }
        }
    }

    #[test]
    fn a_micro_benchmark_takes_all_its_iterations() {
        let seconds = |name: &str, params| {
            let spec = WorkloadSpec::new(name, serde_json::from_value(params).unwrap());
            typical_seconds(
                &workload::parse(
                    &spec,
                    &Sizing {
                        size: 1 << 30,
                        cpus: 2,
                    },
                )
                .unwrap()
                .profile(),
                0.1,
            )
        };
        let create = seconds("micro-create", json!({"iterations": 10, "cycles": 30}));
        assert!(
            (create - AROUND - 15.0).abs() < 1e-6,
            "{create}: 300,000 files of 50 us"
        );
        let read = json!({"block_size": "1M", "block_count": 10, "iterations": 20, "cycles": 10, "threads": 2});
        assert!(
            (1.0..1.3).contains(&seconds("micro-read", read)),
            "100 iterations of each thread, 20 MiB each"
        );
    }

    #[test]
    fn warm_up_visits_eight_sizes_of_a_large_matrix() {
        let (grid, records) = grid();
        assert_eq!(records.len() - grid.unvisited().len(), 8);
    }

    #[test]
    fn one_record_tells_of_others_by_its_bytes() {
        let seen = cost_of(1e-6);
        let records = ByRecord::from([(4096, &seen)]);
        let double = ln_seconds(&records, 8192).unwrap().exp();
        assert!((double / 2e-6 - 1.0).abs() < 1e-9, "{double}");
    }

    #[test]
    fn cells_that_no_target_measured_stay_unknown() {
        let (grid, records) = grid();
        assert!(fill_costs(&grid, &vec![&[][..]; records.len()]).is_empty());
    }

    /// Returns a square matrix whose records are no larger than its files, each cell as long as its
    /// file is large.
    fn square(sizes: u32) -> (Grid, Vec<f64>) {
        let (mut spots, mut seconds) = (Vec::new(), Vec::new());
        for (file, record) in
            (0..sizes).flat_map(|file| (0..=file).map(move |record| (1u64 << file, 1u64 << record)))
        {
            spots.push(Spot {
                cell: seconds.len(),
                work: "read".into(),
                file,
                record,
            });
            seconds.push(file as f64);
        }
        (Grid::from_spots(spots), seconds)
    }

    proptest! {
        #[test]
        fn a_design_keeps_the_extremes_and_grows_with_time(
            sizes in 2u32..14, time in 1.0f64..1e6, more in 1.0f64..1e6,
        ) {
            let (grid, seconds) = square(sizes);
            let (little, much) = (largest_part(&grid, &seconds, time), largest_part(&grid, &seconds, time + more));
            let kept = |design: &Design| grid.spots().len() - design.left_out(&grid).len();
            prop_assert!(kept(&much) >= kept(&little));
            for design in [&little, &much] {
                let largest_size = 1u64 << (sizes - 1);
                prop_assert!(design.files.starts_with(&[1]) && design.files.ends_with(&[largest_size]));
                prop_assert!(design.records.starts_with(&[1]) && design.records.ends_with(&[largest_size]));
                let left: f64 = seconds.iter().sum::<f64>()
                    - design.left_out(&grid).iter().map(|cell| seconds[*cell]).sum::<f64>();
                prop_assert!((left - design.seconds).abs() < 1e-6);
            }
            prop_assert!(much.seconds <= time + more || much == largest_part(&grid, &seconds, 0.0));
        }

        #[test]
        fn even_distances_are_even(length in 2usize..40, count in 2usize..40) {
            let sizes: Vec<u64> = (0..length as u64).collect();
            let kept = evenly(&sizes, count.min(length));
            prop_assert_eq!(kept.len(), count.min(length));
            let steps: Vec<u64> = kept.windows(2).map(|pair| pair[1] - pair[0]).collect();
            prop_assert!(steps.iter().max().unwrap() - steps.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn nothing_is_left_out_where_all_of_it_fits() {
        let (grid, seconds) = square(5);
        let design = largest_part(&grid, &seconds, f64::INFINITY);
        assert_eq!(
            (design.warning(&grid, 1.0), design.left_out(&grid).len()),
            (None, 0)
        );
    }

    #[test]
    fn left_out_sizes_are_named() {
        let (grid, seconds) = square(4);
        let design = largest_part(&grid, &seconds, 0.0);
        let sizes = vec![2, 4];
        let expected = Warning::SizesLeftOut {
            left_out: 7,
            planned: 10,
            files: sizes.clone(),
            records: sizes,
            needed_seconds: 1.0,
        };
        assert_eq!(design.warning(&grid, 1.0), Some(expected));
    }
}
