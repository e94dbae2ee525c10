//! Rectangles of a grid, and sums over them.

use super::key::Size;

/// With more file sizes or record sizes than this, rectangles have coarser edges. (IOzone's longest grid has 21.)
const MOST_SIZES: usize = 24;

/// A contiguous range of file sizes × a contiguous range of record sizes, as indices into the grid's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub files: (usize, usize),
    pub records: (usize, usize),
}

impl Rectangle {
    pub fn contains(&self, other: &Rectangle) -> bool {
        let within = |outer: (usize, usize), inner: (usize, usize)| outer.0 <= inner.0 && inner.1 <= outer.1;
        within(self.files, other.files) && within(self.records, other.records)
    }

    /// Returns the four edges: the first and last file size and record size alone. Without an edge the rectangle would
    /// be smaller.
    pub fn edges(&self) -> [Rectangle; 4] {
        let ((f0, f1), (r0, r1)) = (self.files, self.records);
        [
            Rectangle { files: (f0, f0), ..*self },
            Rectangle { files: (f1, f1), ..*self },
            Rectangle { records: (r0, r0), ..*self },
            Rectangle { records: (r1, r1), ..*self },
        ]
    }

    /// Returns the common part of two rectangles, or `None` if there is none.
    pub fn intersection(&self, other: &Rectangle) -> Option<Rectangle> {
        let both = |a: (usize, usize), b: (usize, usize)| {
            let (lo, hi) = (a.0.max(b.0), a.1.min(b.1));
            (lo <= hi).then_some((lo, hi))
        };
        Some(Rectangle { files: both(self.files, other.files)?, records: both(self.records, other.records)? })
    }
}

/// The sizes of a grid and the positions of its cells. Cells without sizes are in a row of one file size or record
/// size.
#[derive(Debug)]
pub(super) struct Layout {
    pub files: Vec<Option<u64>>,
    pub records: Vec<Option<u64>>,
    /// The position of each given cell.
    places: Vec<(usize, usize)>,
}

impl Layout {
    /// Returns the layout of the given cells among all sizes of the grid that they belong to.
    pub fn of(cells: &[Size], grid: &[Size]) -> Layout {
        let distinct = |of: fn(&Size) -> Option<u64>| {
            let mut sizes: Vec<Option<u64>> = grid.iter().map(of).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        let (files, records) = (distinct(|size| size.file), distinct(|size| size.record));
        let place = |size: &Size| {
            let find = |sizes: &[Option<u64>], size| sizes.binary_search(&size).unwrap_or_default();
            (find(&files, size.file), find(&records, size.record))
        };
        Layout { places: cells.iter().map(place).collect(), files, records }
    }

    /// Returns the smallest rectangle around all cells.
    pub fn whole(&self) -> Rectangle {
        let around = |of: fn(&(usize, usize)) -> usize| {
            let places = || self.places.iter().map(of);
            (places().min().unwrap_or_default(), places().max().unwrap_or_default())
        };
        Rectangle { files: around(|place| place.0), records: around(|place| place.1) }
    }

    /// Sums of `values`, one per cell, over any rectangle.
    pub fn sums<N: Copy + Default + std::ops::Add<Output = N> + std::ops::Sub<Output = N>>(
        &self,
        values: impl Iterator<Item = N>,
    ) -> Sums<N> {
        let width = self.records.len() + 1;
        let mut sums = vec![N::default(); (self.files.len() + 1) * width];
        for ((file, record), value) in self.places.iter().zip(values) {
            let place = &mut sums[(file + 1) * width + record + 1];
            *place = *place + value;
        }
        for file in 1..=self.files.len() {
            for record in 1..width {
                let at = file * width + record;
                sums[at] = sums[at] + sums[at - 1] + sums[at - width] - sums[at - width - 1];
            }
        }
        Sums { sums, width }
    }

    /// Every rectangle of at least `fewest` cells that no smaller rectangle could stand for, and the whole.
    pub fn rectangles(&self, counts: &Sums<u32>, fewest: u32) -> Vec<(Rectangle, u32)> {
        let whole = self.whole();
        let mut found = vec![(whole, counts.of(&whole))];
        let (files, records) = (ranges(self.files.len()), ranges(self.records.len()));
        for files in &files {
            for records in &records {
                let rectangle = Rectangle { files: *files, records: *records };
                let cells = counts.of(&rectangle);
                let tight = || rectangle.edges().iter().all(|edge| counts.of(edge) > 0);
                if cells >= fewest && rectangle != whole && tight() {
                    found.push((rectangle, cells));
                }
            }
        }
        found
    }
}

/// All ranges of this number of sizes; of very many sizes those between every second, third, … only, for the number of
/// rectangles grows with the fourth power.
fn ranges(sizes: usize) -> Vec<(usize, usize)> {
    let step = sizes.div_ceil(MOST_SIZES).max(1);
    let starts = || (0..sizes).step_by(step);
    starts()
        .flat_map(|first| starts().filter(move |start| *start >= first).map(move |start| (first, start)))
        .map(|(first, start)| (first, (start + step).min(sizes) - 1))
        .collect()
}

/// Summed-area table (Crow 1984): the sum over any rectangle from four entries.
#[derive(Debug)]
pub(super) struct Sums<N> {
    sums: Vec<N>,
    width: usize,
}

impl<N: Copy + std::ops::Add<Output = N> + std::ops::Sub<Output = N>> Sums<N> {
    pub fn of(&self, rectangle: &Rectangle) -> N {
        let ((f0, f1), (r0, r1)) = (rectangle.files, rectangle.records);
        let at = |file: usize, record: usize| self.sums[file * self.width + record];
        at(f1 + 1, r1 + 1) + at(f0, r0) - at(f0, r1 + 1) - at(f1 + 1, r0)
    }
}
