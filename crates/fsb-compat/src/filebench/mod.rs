//! filebench 1.5: its workload language, the text that it prints, and its results.

pub mod print;
mod reader;
pub mod wml;

pub(crate) use reader::TOOL;
