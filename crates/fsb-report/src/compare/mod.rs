//! Comparisons of sets, measured or imported, as reports describe them. The numbers are those of
//! [`fsb_stats::compare`].

pub(crate) mod between;
pub(crate) mod detail;
mod headline;
mod method;
pub(crate) mod operation;
pub(crate) mod rows;
pub(crate) mod sections;
mod tables;
pub(crate) mod view;

pub(crate) use operation::Selection;
