//! Results: runs of fsb and files of other tools, read once, summarised, compared and judged.
//!
//! [`Results`] reads runs. [`summary`] says what a run found, [`sets`] compares runs with each
//! other and with results of other tools, and [`gate`] judges a comparison. Nothing here prints.

#![forbid(unsafe_code)]

pub mod acknowledged;
mod claims;
pub mod comparison;
pub mod directory;
pub mod gate;
mod matrices;
mod published;
mod run;
pub mod sets;
pub mod summary;

pub use fsb_store::journal::Latencies;
pub use run::{Results, StoredRun};
