//! Comparisons of sets, ours or imported: what is said of one. The numbers are those of [`fsb_analysis::compare`].

pub(crate) mod between;
pub(crate) mod detail;
mod facts;
mod headline;
mod method;
pub(crate) mod numbers;
pub(crate) mod operation;
pub(crate) mod rows;
pub(crate) mod sections;
pub(crate) mod selection;
pub(crate) mod short;
mod sizes;
mod tables;
mod values;
pub(crate) mod view;

pub(crate) use selection::Selection;
