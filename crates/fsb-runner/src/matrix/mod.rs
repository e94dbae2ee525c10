//! Cells of a matrix: the same work on many sizes of file and record.
//!
//! A matrix may have a thousand cells. Warm-up measures a few of them, the corners and the middle, and [`between`]
//! interpolates the costs of the others. If a budget does not hold all cells, [`design`] chooses a part that is spread
//! evenly. [`estimate`] estimates the duration of all cells before anything starts.

pub mod between;
pub mod design;
pub mod estimate;
mod grid;

pub use grid::Grid;
