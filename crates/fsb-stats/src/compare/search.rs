//! The significance of the largest difference among thousands of rectangles.
//!
//! Every rectangle of every operation gives one number per run, its mean logarithm. The statistic
//! measures how closely those numbers follow the runs' labels: |w·u|, with the runs' centred and
//! normed numbers u and the normed contrast w between candidate and baseline. Exchanging w gives
//! the distribution of the largest statistic of the whole search without any difference:
//!
//! * independent runs: the labels are exchanged, in all ways if these are few. This is exact, for
//!   between equals every assignment of labels to runs is as likely as any other.
//! * blocks: each block gives one difference, and w is turned into random directions: a rotation
//!   test (Langsrud 2005, Statistics and Computing 15:53), exact where differences are normal.
//!   Exchanging the labels inside blocks has only 2ⁿ⁻¹ ways: with five blocks nothing could ever be
//!   found at 5 %.
//!
//! There are many small rectangles with a large scatter and few large ones with a small scatter.
//! Therefore each class of size has its own null distribution, and the classes are joined by the
//! smallest of their p-values, which is again compared with its distribution over the exchanges
//! (Westfall and Young 1993). So chance in single corners does not hide a loss everywhere.

use std::collections::BTreeSet;

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::collected::Size;

/// The search ignores rectangles of fewer cells, unless the grid itself is smaller.
const FEWEST_CELLS: u32 = 4;

/// Classes of size: at least half of the operation's cells, at least an eighth, the rest.
const CLASSES: usize = 3;

/// All contrasts are applied to one portion of rectangles at a time. A portion fits the processor's
/// cache.
const PORTION: usize = 32 * LANES;
/// The number of rectangles that are processed together: as many as the sums of fit the processor's
/// registers.
const LANES: usize = 32;

/// One operation's grid, prepared for the search.
#[derive(Debug)]
pub(super) struct Ground {
    pub layout: Layout,
    pub counts: Sums<u32>,
    /// By class of size.
    rectangles: [Vec<(Rectangle, u32)>; CLASSES],
    /// Sums of logarithms: one per run, or one per block of differences.
    pub runs: Vec<Sums<f64>>,
    /// Whether the search centres runs first. It does not if they are differences.
    centred: bool,
}

/// A rectangle whose difference is too large for chance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub rectangle: Rectangle,
    pub cells: u32,
    /// The share of searches with exchanged labels that find something at least as surprising.
    pub p: f64,
}

impl Ground {
    pub fn new(layout: Layout, runs: Vec<Sums<f64>>, centred: bool, cells: usize) -> Ground {
        let counts = layout.sums(std::iter::repeat_n(1u32, cells));
        let mut rectangles: [Vec<_>; CLASSES] = Default::default();
        for (rectangle, count) in layout.rectangles(&counts, FEWEST_CELLS) {
            let share = f64::from(count) / cells as f64;
            let class = [0.5, 0.125].iter().filter(|limit| share < **limit).count();
            rectangles[class].push((rectangle, count));
        }
        Ground {
            layout,
            counts,
            rectangles,
            runs,
            centred,
        }
    }

    /// Returns the normed numbers of a portion of rectangles: for every [`LANES`] of them one row
    /// per run.
    fn directions(&self, rectangles: &[(Rectangle, u32)]) -> Vec<[f32; LANES]> {
        let runs = self.runs.len();
        let mut rows = vec![[0f32; LANES]; rectangles.len().div_ceil(LANES) * runs];
        let mut numbers = vec![0f64; runs];
        for (place, (rectangle, _)) in rectangles.iter().enumerate() {
            numbers
                .iter_mut()
                .zip(&self.runs)
                .for_each(|(number, sums)| *number = sums.sum(rectangle));
            if self.centred {
                let mean = numbers.iter().sum::<f64>() / runs as f64;
                numbers.iter_mut().for_each(|number| *number -= mean);
            }
            let norm = numbers
                .iter()
                .map(|number| number * number)
                .sum::<f64>()
                .sqrt();
            if norm > 0.0 {
                let group = &mut rows[place / LANES * runs..][..runs];
                group
                    .iter_mut()
                    .zip(&numbers)
                    .for_each(|(row, number)| row[place % LANES] = (number / norm) as f32);
            }
        }
        rows
    }
}

/// Returns |w·u| of [`LANES`] rectangles.
fn statistics(contrast: &[(usize, f32)], rows: &[[f32; LANES]]) -> [f32; LANES] {
    let mut sums = [0f32; LANES];
    for (run, weight) in contrast {
        let row = &rows[*run];
        for lane in 0..LANES {
            sums[lane] += weight * row[lane];
        }
    }
    sums.map(f32::abs)
}

/// Returns the rectangles of each ground that are significant in the search of all grounds, at
/// level `alpha`.
pub(super) fn search(grounds: &[Ground], weights: &Weights, alpha: f64) -> Vec<Vec<Hit>> {
    let mut search = Search {
        largest: vec![vec![0f32; weights.contrasts.len()]; CLASSES],
        observed: Vec::new(),
    };
    for ground in grounds {
        search.observed.push(Vec::new());
        for class in 0..CLASSES {
            search.go_through(ground, class, weights);
        }
    }
    let levels: Vec<Levels> = search
        .largest
        .iter()
        .map(|largest| Levels::new(largest))
        .collect();
    let smallest = smallest_p(&levels);
    let mut hits = vec![Vec::new(); grounds.len()];
    for ((ground, observed), hits) in grounds.iter().zip(&search.observed).zip(&mut hits) {
        for class in 0..CLASSES {
            let rectangles = ground.rectangles[class].iter().zip(&observed[class]);
            for ((rectangle, cells), statistic) in rectangles {
                let p = levels[class].p(*statistic);
                let p =
                    smallest.partition_point(|other| *other <= p) as f64 / smallest.len() as f64;
                if p <= alpha {
                    hits.push(Hit {
                        rectangle: *rectangle,
                        cells: *cells,
                        p,
                    });
                }
            }
        }
    }
    hits
}

/// The state of the search.
struct Search {
    /// By class and contrast: the largest statistic of all grounds.
    largest: Vec<Vec<f32>>,
    /// By ground, class and rectangle: the statistic of the observed contrast.
    observed: Vec<Vec<Vec<f32>>>,
}

impl Search {
    fn go_through(&mut self, ground: &Ground, class: usize, weights: &Weights) {
        let mut observed = Vec::with_capacity(ground.rectangles[class].len() + LANES);
        for portion in ground.rectangles[class].chunks(PORTION) {
            let directions = ground.directions(portion);
            for (place, contrast) in weights.contrasts.iter().enumerate() {
                let mut largest = [self.largest[class][place]; LANES];
                for group in directions.chunks(ground.runs.len()) {
                    let found = statistics(contrast, group);
                    for lane in 0..LANES {
                        largest[lane] = if found[lane] > largest[lane] {
                            found[lane]
                        } else {
                            largest[lane]
                        };
                    }
                    if place == 0 {
                        observed.extend_from_slice(&found);
                    }
                }
                self.largest[class][place] = largest.into_iter().fold(0.0, f32::max);
            }
        }
        // All portions except the last one are full, so lanes without a rectangle are at the end.
        observed.truncate(ground.rectangles[class].len());
        if let Some(of_ground) = self.observed.last_mut() {
            of_ground.push(observed);
        }
    }
}

/// The null distribution of a class: its largest statistics, sorted and in the order of the
/// contrasts.
struct Levels {
    sorted: Vec<f32>,
    by_contrast: Vec<f32>,
}

impl Levels {
    fn new(largest: &[f32]) -> Levels {
        let mut sorted = largest.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        Levels {
            sorted,
            by_contrast: largest.to_vec(),
        }
    }

    /// Returns the share of contrasts whose largest statistic is at least this one. The tolerance
    /// keeps a contrast and its mirror image, which differ by rounding, from counting as two.
    fn p(&self, statistic: f32) -> f64 {
        let below = self
            .sorted
            .partition_point(|other| *other < statistic - 1e-5);
        (self.sorted.len() - below) as f64 / self.sorted.len() as f64
    }
}

/// Returns for each contrast the smallest p-value over the classes, sorted.
fn smallest_p(levels: &[Levels]) -> Vec<f64> {
    let contrasts = levels.first().map_or(0, |level| level.by_contrast.len());
    let mut smallest = vec![1.0f64; contrasts];
    for (place, smallest) in smallest.iter_mut().enumerate() {
        for level in levels {
            *smallest = smallest.min(level.p(level.by_contrast[place]));
        }
    }
    smallest.sort_unstable_by(f64::total_cmp);
    smallest
}

/// With more file sizes or record sizes than this, rectangles have coarser edges. (IOzone's longest
/// grid has 21.)
const MOST_SIZES: usize = 24;

/// A contiguous range of file sizes × a contiguous range of record sizes, as indices into the
/// grid's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub files: (usize, usize),
    pub records: (usize, usize),
}

impl Rectangle {
    pub fn contains(&self, other: &Rectangle) -> bool {
        self.intersection(other) == Some(*other)
    }

    /// Returns the four edges: the first and last file size and record size alone. Without an edge
    /// the rectangle would be smaller.
    pub fn edges(&self) -> [Rectangle; 4] {
        let ((f0, f1), (r0, r1)) = (self.files, self.records);
        [
            Rectangle {
                files: (f0, f0),
                ..*self
            },
            Rectangle {
                files: (f1, f1),
                ..*self
            },
            Rectangle {
                records: (r0, r0),
                ..*self
            },
            Rectangle {
                records: (r1, r1),
                ..*self
            },
        ]
    }

    /// Returns the common part of two rectangles, or `None` if there is none.
    pub fn intersection(&self, other: &Rectangle) -> Option<Rectangle> {
        let (files, records) = (self.files, self.records);
        let files = (files.0.max(other.files.0), files.1.min(other.files.1));
        let records = (
            records.0.max(other.records.0),
            records.1.min(other.records.1),
        );
        (files.0 <= files.1 && records.0 <= records.1).then_some(Rectangle { files, records })
    }
}

/// The sizes of a grid and the positions of its cells. Cells without sizes are in a row of one file
/// size or record size.
#[derive(Debug)]
pub(super) struct Layout {
    pub files: Vec<Option<u64>>,
    pub records: Vec<Option<u64>>,
    /// The position of each given cell.
    places: Vec<(usize, usize)>,
}

impl Layout {
    /// Returns the layout of the given cells among all sizes of the grid that they belong to.
    pub fn new(cells: &[Size], grid: &[Size]) -> Layout {
        let files: BTreeSet<_> = grid.iter().map(|size| size.file).collect();
        let records: BTreeSet<_> = grid.iter().map(|size| size.record).collect();
        let (files, records) = (Vec::from_iter(files), Vec::from_iter(records));
        Layout {
            places: cells
                .iter()
                .map(|size| {
                    (
                        files.binary_search(&size.file).unwrap_or_default(),
                        records.binary_search(&size.record).unwrap_or_default(),
                    )
                })
                .collect(),
            files,
            records,
        }
    }

    /// Returns the smallest rectangle around all cells.
    pub fn whole(&self) -> Rectangle {
        let (file, record) = self.places.first().copied().unwrap_or_default();
        let mut whole = Rectangle {
            files: (file, file),
            records: (record, record),
        };
        for (file, record) in &self.places {
            whole.files = (whole.files.0.min(*file), whole.files.1.max(*file));
            whole.records = (whole.records.0.min(*record), whole.records.1.max(*record));
        }
        whole
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

    /// Returns every rectangle of at least `fewest` cells that no smaller rectangle could stand
    /// for, and the whole.
    pub fn rectangles(&self, counts: &Sums<u32>, fewest: u32) -> Vec<(Rectangle, u32)> {
        let whole = self.whole();
        let mut found = vec![(whole, counts.sum(&whole))];
        let (files, records) = (ranges(self.files.len()), ranges(self.records.len()));
        for files in &files {
            for records in &records {
                let rectangle = Rectangle {
                    files: *files,
                    records: *records,
                };
                let cells = counts.sum(&rectangle);
                if cells >= fewest
                    && rectangle != whole
                    && rectangle.edges().iter().all(|edge| counts.sum(edge) > 0)
                {
                    found.push((rectangle, cells));
                }
            }
        }
        found
    }
}

/// Returns all ranges of this number of sizes; of very many sizes those between every second,
/// third, … only, for the number of rectangles grows with the fourth power.
fn ranges(sizes: usize) -> Vec<(usize, usize)> {
    let step = sizes.div_ceil(MOST_SIZES).max(1);
    let mut ranges = Vec::new();
    for first in (0..sizes).step_by(step) {
        for start in (first..sizes).step_by(step) {
            ranges.push((first, (start + step).min(sizes) - 1));
        }
    }
    ranges
}

/// Summed-area table (Crow 1984): the sum over any rectangle from four entries.
#[derive(Debug)]
pub(super) struct Sums<N> {
    sums: Vec<N>,
    width: usize,
}

impl<N: Copy + std::ops::Add<Output = N> + std::ops::Sub<Output = N>> Sums<N> {
    pub fn sum(&self, rectangle: &Rectangle) -> N {
        let ((f0, f1), (r0, r1)) = (rectangle.files, rectangle.records);
        let at = |file: usize, record: usize| self.sums[file * self.width + record];
        at(f1 + 1, r1 + 1) + at(f0, r0) - at(f0, r1 + 1) - at(f1 + 1, r0)
    }
}

// Contrasts between candidate and baseline: the observed one, and possible ones without any
// difference.

/// The maximum number of contrasts. A p-value of 5 % is then known to ±1.4 %.
const MOST: usize = 999;

/// The seed of the random contrasts. The same data always give the same findings.
const SEED: u64 = 0x5eed_f00d;

/// Contrasts of norm 1, the observed one first: runs with their weights, without those of weight
/// zero.
#[derive(Debug)]
pub(super) struct Weights {
    pub contrasts: Vec<Vec<(usize, f32)>>,
}

impl Weights {
    /// Exchanges labels among `baseline` + `candidate` runs, in this order: all ways if they are
    /// few, else a random sample.
    pub fn of_runs(baseline: usize, candidate: usize) -> Weights {
        let runs = baseline + candidate;
        let ways = assignments(runs, candidate);
        let labels = match ways {
            Some(ways) if ways <= MOST + 1 => every_assignment(baseline, candidate),
            _ => random_assignments(baseline, candidate),
        };
        // The numbers of centred runs sum to zero, so the weights of one side, the smaller one, are
        // sufficient. With the other side's share added they are (1/n + 1/m) / √(1/n + 1/m).
        let weight = (1.0 / baseline as f64 + 1.0 / candidate as f64).sqrt() as f32;
        let side = candidate <= baseline;
        // Between sides of one size each assignment has a mirror image with the same |w·u|: half of
        // them are enough.
        let mut contrasts = Vec::with_capacity(labels.len());
        for labels in labels {
            if baseline != candidate || labels[runs - 1] {
                let chosen = (0..runs).filter(|run| labels[*run] == side);
                contrasts.push(chosen.map(|run| (run, weight)).collect());
            }
        }
        Weights { contrasts }
    }

    /// Returns random directions in the space of block differences, the diagonal first.
    pub(crate) fn of_blocks(blocks: usize) -> Weights {
        let mut generator = Pcg64::seed_from_u64(SEED);
        let observed = vec![1.0 / (blocks as f32).sqrt(); blocks];
        let mut contrasts = vec![observed.into_iter().enumerate().collect()];
        for _ in 0..MOST {
            let drawn: Vec<f64> = (0..blocks)
                .map(|_| StandardNormal.sample(&mut generator))
                .collect();
            let norm = drawn.iter().map(|x: &f64| x * x).sum::<f64>().sqrt();
            contrasts.push(
                drawn
                    .iter()
                    .map(|x| (x / norm) as f32)
                    .enumerate()
                    .collect(),
            );
        }
        Weights { contrasts }
    }
}

/// Returns the number of ways in which runs can be chosen, or `None` if it overflows.
fn assignments(runs: usize, chosen: usize) -> Option<usize> {
    (0..chosen.min(runs - chosen)).try_fold(1usize, |ways, i| {
        Some(ways.checked_mul(runs - i)? / (i + 1))
    })
}

/// Returns all assignments, the observed one (candidates last) first.
fn every_assignment(baseline: usize, candidate: usize) -> Vec<Vec<bool>> {
    let runs = baseline + candidate;
    let mut chosen: Vec<usize> = (0..candidate).collect();
    let mut found = Vec::new();
    loop {
        // Counted from the end, so that the first combination is the observed one.
        let mut labels = vec![false; runs];
        chosen
            .iter()
            .for_each(|place| labels[runs - 1 - place] = true);
        found.push(labels);
        let Some(last) = (0..candidate)
            .rev()
            .find(|i| chosen[*i] < runs - candidate + i)
        else {
            return found;
        };
        chosen[last] += 1;
        for i in last + 1..candidate {
            chosen[i] = chosen[i - 1] + 1;
        }
    }
}

fn random_assignments(baseline: usize, candidate: usize) -> Vec<Vec<bool>> {
    let mut generator = Pcg64::seed_from_u64(SEED);
    let mut labels: Vec<bool> = (0..baseline + candidate)
        .map(|run| run >= baseline)
        .collect();
    let mut found = vec![labels.clone()];
    for _ in 0..MOST {
        // Fisher–Yates, written out so that findings do not change with a library's version.
        for last in (1..labels.len()).rev() {
            labels.swap(last, (generator.next_u64() % (last as u64 + 1)) as usize);
        }
        found.push(labels.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn few_runs_are_assigned_in_every_way_once() {
        let all = every_assignment(6, 6);
        assert_eq!((all.len(), assignments(12, 6)), (924, Some(924)));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 924);
        assert!(
            all.iter()
                .all(|labels| labels.iter().filter(|candidate| **candidate).count() == 6)
        );
        assert!(all[0][6..].iter().all(|candidate| *candidate));
        assert_eq!(
            every_assignment(5, 7)[0]
                .iter()
                .position(|candidate| *candidate),
            Some(5)
        );
    }

    /// Applied to a direction that follows the labels exactly, the observed contrast gives 1, and
    /// no other gives more.
    #[test]
    fn contrasts_have_norm_one() {
        for (baseline, candidate) in [(5, 5), (5, 9), (9, 5), (40, 40)] {
            let (b, c) = (baseline as f32, candidate as f32);
            let norm = (b * (c / (b + c)).powi(2) + c * (b / (b + c)).powi(2)).sqrt();
            let number = |run: usize| {
                if run < baseline {
                    -c / (b + c) / norm
                } else {
                    b / (b + c) / norm
                }
            };
            let apply = |contrast: &Vec<(usize, f32)>| {
                contrast
                    .iter()
                    .map(|(run, w)| w * number(*run))
                    .sum::<f32>()
                    .abs()
            };
            let weights = Weights::of_runs(baseline, candidate);
            assert!(
                (apply(&weights.contrasts[0]) - 1.0).abs() < 1e-5,
                "{baseline} {candidate}"
            );
            assert!(
                weights.contrasts.len() > 100
                    && weights.contrasts.iter().all(|c| apply(c) < 1.0 + 1e-5)
            );
        }
        for contrast in Weights::of_blocks(5).contrasts {
            assert!(
                (contrast.iter().map(|(_, w)| w * w).sum::<f32>() - 1.0).abs() < 1e-5,
                "{contrast:?}"
            );
        }
    }

    #[test]
    fn many_runs_are_sampled() {
        assert_eq!(Weights::of_runs(100, 101).contrasts.len(), MOST + 1);
        assert_eq!(assignments(500, 250), None);
    }
}
