//! The cells that form a matrix.

use std::collections::{BTreeMap, BTreeSet};

use fsb_engine::Profile;
use fsb_model::Cell;

/// Parameters that differ within a matrix.
const SIZES: [&str; 2] = ["file_size", "block_size"];
/// The most cells of a matrix that warm-up measures completely.
const FEW: usize = 8;

/// The cells of a plan that are parts of matrices.
#[derive(Debug, Default)]
pub struct Grid {
    spots: Vec<Spot>,
}

/// One cell of a matrix.
#[derive(Debug)]
pub struct Spot {
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
    pub fn of<'c>(cells: impl Iterator<Item = (usize, &'c Cell, &'c Profile)>) -> Grid {
        let spots = cells.filter_map(|(index, cell, profile)| Spot::of(index, cell, profile));
        Grid { spots: spots.collect() }
    }

    /// Returns a grid of arbitrary cells for tests.
    #[cfg(test)]
    pub(super) fn from_spots(spots: Vec<Spot>) -> Grid {
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
        self.spots.iter().map(|spot| spot.file).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the sizes of records, ascending.
    pub fn records(&self) -> Vec<u64> {
        self.spots.iter().map(|spot| spot.record).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the combinations of file and record.
    pub fn pairs(&self) -> BTreeSet<(u64, u64)> {
        self.spots.iter().map(|spot| (spot.file, spot.record)).collect()
    }

    /// Returns the cells by the work that they share.
    pub(crate) fn by_work(&self) -> BTreeMap<&str, Vec<&Spot>> {
        let mut works: BTreeMap<&str, Vec<&Spot>> = BTreeMap::new();
        for spot in &self.spots {
            works.entry(&spot.work).or_default().push(spot);
        }
        works
    }

    /// Returns the cells that warm-up need not measure. In the smallest and the middle file, warm-up measures the
    /// smallest, the middle and the largest record. In the largest file, which costs most, it measures the smallest and
    /// the largest record.
    pub(crate) fn unvisited(&self) -> BTreeSet<usize> {
        let mut unvisited = BTreeSet::new();
        for spots in self.by_work().values().filter(|spots| spots.len() > FEW) {
            let files = ends_and_middle(spots.iter().map(|spot| spot.file));
            let largest = files.last().copied();
            for spot in spots {
                let of_file = spots.iter().filter(|other| other.file == spot.file);
                let mut records = ends_and_middle(of_file.map(|other| other.record));
                if largest == Some(spot.file) && records.len() > 2 {
                    records = [records.first(), records.last()].into_iter().flatten().copied().collect();
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
    places.iter().filter_map(|place| sizes.get(*place).copied()).collect()
}

impl Spot {
    fn of(index: usize, cell: &Cell, profile: &Profile) -> Option<Spot> {
        let shared = cell.workload.params.iter().filter(|(key, _)| !SIZES.contains(&key.as_str()));
        let shared: Vec<String> = shared.map(|(key, value)| format!("{key}={value}")).collect();
        profile.matrix.then(|| Spot {
            cell: index,
            work: format!("{} {}", cell.workload.name, shared.join(" ")),
            file: profile.file_size,
            record: profile.record_size,
        })
    }
}
