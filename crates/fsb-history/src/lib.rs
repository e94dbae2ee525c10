//! An index over runs: one value per run, case and target, in the order of time.
//!
//! * [`series`] turns a run, or the results of another tool, into an [`Entry`], and a series into a
//!   [`SeriesHistory`] with its changes.
//! * [`Store`] holds entries in SQLite or PostgreSQL, and an [`Index`] is a snapshot of it.
//! * [`text`] describes changes as text.
//!
//! Run directories stay the source of all results: the index can be rebuilt from them. This crate
//! opens only the store, and prints nothing.
#![forbid(unsafe_code)]

mod data;
mod database;
mod index;
pub mod series;
pub mod store;
pub mod text;

pub use data::{
    Conditions, Entry, EntryPoint, IndexedRun, IndexedSeries, Labels, RunEntry, SeriesKey,
    StoredPoint, unit_named,
};
pub use database::DatabaseError;
pub use index::{COMPARISON_SCHEMA, DifferingCondition, Index, RunsCompared, ValuesCompared};
pub use series::{Document, SCHEMA, SeriesHistory};
pub use store::{CODES, HistoryError, Location, Store};
