//! Assembles the results of a run or of a comparison once, and renders them in many formats.
//!
//! ```text
//! record, trials ─▶ summary::Summary ─┐
//!                                 ├─▶ Report ─▶ View, sections, charts ─▶ FORMATS: text, csv, json, …
//! compare::Document of analysis ──┘
//! ```
//!
//! A [`summary::Summary`] holds everything that a report shows of a run: estimates, ratios with
//! intervals, verdicts, letters, latencies, costs, warnings, the environment and the method. A
//! comparison of sets is the document of [`fsb_stats::compare`]. A [`Report`] is either, and the
//! members of [`FORMATS`] lay it out. A [`fleet::Fleet`] is one answer from the summaries of many
//! hosts. This crate neither reads files nor prints.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod answer;
mod axis;
pub mod bisection;
mod chart;
pub mod check;
pub mod choice;
pub mod commands;
mod compare;
pub mod escape;
mod figure;
pub mod fleet;
mod format;
pub mod gate;
mod judged;
pub mod live;
pub mod mark;
mod measure;
mod operation;
mod page;
mod palette;
mod record_text;
mod releases;
mod report;
mod run;
mod screen;
pub mod series;
pub mod series_chart;
pub mod show;
pub mod summary;
mod summary_line;
mod table;
mod view;
pub mod visible;

pub use compare::between::{condition_text, power_of, unjudged_of};
pub use compare::case_label;
pub use format::{
    FORMATS, Figure, Format, csv, figures, find, find_by_file_name, fleet_figures, html, json,
    markdown, text,
};
pub use page::{DataFile, STYLE};
pub use record_text::{
    incomplete_text, interference_text, placement_reason_text, stop_reason_text,
    stopping_rule_text, warning_text,
};
pub use releases::{Fact, Releases};
pub use report::Report;
pub use screen::{WIDTH, cut_name};
pub use show::Paragraph;
pub use summary::device_text;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

#[cfg(test)]
#[path = "../tests/sample_sets/mod.rs"]
mod sample_sets;
