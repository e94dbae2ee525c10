//! The significance of the largest difference among thousands of rectangles.
//!
//! Every rectangle of every operation gives one number per run, its mean logarithm. The statistic measures how closely
//! those numbers follow the runs' labels: |w·u|, with the runs' centred and normed numbers u and the normed contrast w
//! between candidate and baseline. Exchanging w gives the distribution of the largest statistic of the whole search
//! without any difference:
//!
//! * independent runs: the labels are exchanged, in all ways if these are few. This is exact, for between equals every
//!   assignment of labels to runs is as likely as any other.
//! * blocks: each block gives one difference, and w is turned into random directions: a rotation test (Langsrud 2005,
//!   Statistics and Computing 15:53), exact where differences are normal. Exchanging the labels inside blocks has only
//!   2ⁿ⁻¹ ways: with five blocks nothing could ever be found at 5 %.
//!
//! There are many small rectangles with a large scatter and few large ones with a small scatter. Therefore each class
//! of size has its own null distribution, and the classes are joined by the smallest of their p-values, which is again
//! compared with its distribution over the exchanges (Westfall and Young 1993). So chance in single corners does not
//! hide a loss everywhere.

use super::rectangle::{Layout, Rectangle, Sums};
use super::weights::Weights;

/// The search ignores rectangles of fewer cells, unless the grid itself is smaller.
const FEWEST_CELLS: u32 = 4;

/// Classes of size: at least half of the operation's cells, at least an eighth, the rest.
const CLASSES: usize = 3;

/// All contrasts are applied to one portion of rectangles at a time. A portion fits the processor's cache.
const PORTION: usize = 32 * LANES;
/// The number of rectangles that are processed together: as many as the sums of fit the processor's registers.
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
        Ground { layout, counts, rectangles, runs, centred }
    }

    /// Returns the normed numbers of a portion of rectangles: for every [`LANES`] of them one row per run.
    fn directions(&self, rectangles: &[(Rectangle, u32)]) -> Vec<[f32; LANES]> {
        let runs = self.runs.len();
        let mut rows = vec![[0f32; LANES]; rectangles.len().div_ceil(LANES) * runs];
        let mut numbers = vec![0f64; runs];
        for (place, (rectangle, _)) in rectangles.iter().enumerate() {
            numbers.iter_mut().zip(&self.runs).for_each(|(number, sums)| *number = sums.of(rectangle));
            if self.centred {
                let mean = numbers.iter().sum::<f64>() / runs as f64;
                numbers.iter_mut().for_each(|number| *number -= mean);
            }
            let norm = numbers.iter().map(|number| number * number).sum::<f64>().sqrt();
            if norm > 0.0 {
                let group = &mut rows[place / LANES * runs..][..runs];
                group.iter_mut().zip(&numbers).for_each(|(row, number)| row[place % LANES] = (number / norm) as f32);
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

/// Returns the rectangles of each ground that are significant in the search of all grounds, at level `alpha`.
pub(super) fn search(grounds: &[Ground], weights: &Weights, alpha: f64) -> Vec<Vec<Hit>> {
    let mut search = Search { largest: vec![vec![0f32; weights.contrasts.len()]; CLASSES], observed: Vec::new() };
    for ground in grounds {
        search.observed.push(Vec::new());
        for class in 0..CLASSES {
            search.go_through(ground, class, weights);
        }
    }
    let levels: Vec<Levels> = search.largest.iter().map(|largest| Levels::of(largest)).collect();
    let smallest = smallest_p(&levels);
    let adjusted = |class: usize, statistic: f32| {
        let p = levels[class].p(statistic);
        smallest.partition_point(|other| *other <= p) as f64 / smallest.len() as f64
    };
    let hits = |(ground, observed): (&Ground, &Vec<Vec<f32>>)| {
        let of_class = |class: usize| {
            let rectangles = ground.rectangles[class].iter().zip(&observed[class]);
            rectangles.map(move |((rectangle, cells), statistic)| Hit {
                rectangle: *rectangle,
                cells: *cells,
                p: adjusted(class, *statistic),
            })
        };
        (0..CLASSES).flat_map(of_class).filter(|hit| hit.p <= alpha).collect()
    };
    grounds.iter().zip(&search.observed).map(hits).collect()
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
                        largest[lane] = if found[lane] > largest[lane] { found[lane] } else { largest[lane] };
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

/// The null distribution of a class: its largest statistics, sorted and in the order of the contrasts.
struct Levels {
    sorted: Vec<f32>,
    by_contrast: Vec<f32>,
}

impl Levels {
    fn of(largest: &[f32]) -> Levels {
        let mut sorted = largest.to_vec();
        sorted.sort_unstable_by(f32::total_cmp);
        Levels { sorted, by_contrast: largest.to_vec() }
    }

    /// Returns the share of contrasts whose largest statistic is at least this one. The tolerance keeps a contrast and
    /// its mirror image, which differ by rounding, from counting as two.
    fn p(&self, statistic: f32) -> f64 {
        let below = self.sorted.partition_point(|other| *other < statistic - 1e-5);
        (self.sorted.len() - below) as f64 / self.sorted.len() as f64
    }
}

/// Returns for each contrast the smallest p-value over the classes, sorted.
fn smallest_p(levels: &[Levels]) -> Vec<f64> {
    let contrasts = levels.first().map_or(0, |level| level.by_contrast.len());
    let smallest = |place: usize| levels.iter().map(|level| level.p(level.by_contrast[place])).fold(1.0, f64::min);
    let mut smallest: Vec<f64> = (0..contrasts).map(smallest).collect();
    smallest.sort_unstable_by(f64::total_cmp);
    smallest
}
