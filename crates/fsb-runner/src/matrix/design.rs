//! The largest part of a matrix that fits a time: fewer sizes, never fewer blocks.
//!
//! Sizes are thinned out evenly, files and records alike, and the extremes stay. The remaining sizes are a matrix with
//! the same ranges and larger steps. Of all such parts that fit, the one with the most combinations is chosen.

use std::collections::{BTreeMap, BTreeSet};

use fsb_model::Warning;

use super::Grid;

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

/// Returns the largest part whose cells take at most `time` seconds per block, or the part that takes the least time if
/// none does. `seconds` holds the seconds of each cell.
pub fn largest(grid: &Grid, seconds: &[f64], time: f64) -> Design {
    let mut cost: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for spot in grid.spots() {
        *cost.entry((spot.file, spot.record)).or_default() += seconds[spot.cell];
    }
    let (files, records) = (grid.files(), grid.records());
    let designs = (files.len().min(2)..=files.len())
        .flat_map(|count| (records.len().min(2)..=records.len()).map(move |other| (count, other)))
        .map(|(count, other)| Design::of(&evenly(&files, count), &evenly(&records, other), &cost));
    let mut best: Option<(Design, usize)> = None;
    let mut least: Option<(Design, usize)> = None;
    for (design, pairs) in designs.filter(|(_, pairs)| *pairs > 0) {
        let balance = |design: &Design| design.files.len().min(design.records.len());
        let better = |(known, count): &(Design, usize)| (pairs, balance(&design)) > (*count, balance(known));
        if design.seconds <= time && best.as_ref().is_none_or(better) {
            best = Some((design.clone(), pairs));
        }
        if least.as_ref().is_none_or(|(known, _)| design.seconds < known.seconds) {
            least = Some((design, pairs));
        }
    }
    let none = Design { files: Vec::new(), records: Vec::new(), seconds: 0.0 };
    best.or(least).map_or(none, |(design, _)| design)
}

impl Design {
    fn of(files: &[u64], records: &[u64], cost: &BTreeMap<(u64, u64), f64>) -> (Design, usize) {
        let inside = || cost.iter().filter(|((file, record), _)| files.contains(file) && records.contains(record));
        let seconds = inside().map(|(_, seconds)| seconds).sum();
        (Design { files: files.to_vec(), records: records.to_vec(), seconds }, inside().count())
    }

    /// Returns the indexes of the cells that do not belong to it.
    pub fn left_out(&self, grid: &Grid) -> BTreeSet<usize> {
        let outside = |file: &u64, record: &u64| !self.files.contains(file) || !self.records.contains(record);
        let spots = grid.spots().iter().filter(|spot| outside(&spot.file, &spot.record));
        spots.map(|spot| spot.cell).collect()
    }

    /// Returns the warning with the sizes that are left out and the seconds that would hold all, or `None` if none is
    /// left out.
    pub fn warning(&self, grid: &Grid, needed_seconds: f64) -> Option<Warning> {
        let pairs = grid.pairs();
        let kept =
            pairs.iter().filter(|(file, record)| self.files.contains(file) && self.records.contains(record)).count();
        let missing =
            |all: Vec<u64>, kept: &[u64]| -> Vec<u64> { all.into_iter().filter(|size| !kept.contains(size)).collect() };
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
    (0..count).map(|place| sizes[(place * last + (count - 1) / 2) / (count - 1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::matrix::grid::Spot;

    /// A square matrix whose records are no larger than its files, each cell as long as its file is large.
    fn grid(sizes: u32) -> (Grid, Vec<f64>) {
        let (mut spots, mut seconds) = (Vec::new(), Vec::new());
        for (file, record) in (0..sizes).flat_map(|file| (0..=file).map(move |record| (1u64 << file, 1u64 << record))) {
            spots.push(Spot { cell: seconds.len(), work: "read".into(), file, record });
            seconds.push(file as f64);
        }
        (Grid::from_spots(spots), seconds)
    }

    proptest! {
        #[test]
        fn a_design_keeps_the_extremes_and_grows_with_time(
            sizes in 2u32..14, time in 1.0f64..1e6, more in 1.0f64..1e6,
        ) {
            let (grid, seconds) = grid(sizes);
            let (little, much) = (largest(&grid, &seconds, time), largest(&grid, &seconds, time + more));
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
            prop_assert!(much.seconds <= time + more || much == largest(&grid, &seconds, 0.0));
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
        let (grid, seconds) = grid(5);
        let design = largest(&grid, &seconds, f64::INFINITY);
        assert_eq!((design.warning(&grid, 1.0), design.left_out(&grid).len()), (None, 0));
    }

    #[test]
    fn left_out_sizes_are_named() {
        let (grid, seconds) = grid(4);
        let design = largest(&grid, &seconds, 0.0);
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
