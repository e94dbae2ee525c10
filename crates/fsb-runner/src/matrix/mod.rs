//! Cells of a matrix: the same work on many sizes of file and record.
//!
//! A matrix may have a thousand cells. Warm-up visits a few of them, the corners and the middle, and what the others need
//! is read off between those ([`between`]); a budget that does not hold all of them holds a part that is spread evenly
//! ([`design`]); and how long all of it would take is said before anything starts ([`estimate`]).

pub mod between;
pub mod design;
pub mod estimate;
mod grid;

pub use grid::Grid;
