//! One self-contained page: opens from `file://`, with the network off, without JavaScript too.
//!
//! Every finding and number stands in the page as text and tables; scripts only add charts, drawn by Plotly from JSON
//! that lies beside them. The page forbids itself any request by a Content-Security-Policy.

mod charts;
mod page;
mod tables;

use askama::Template as _;
use fsb_model::Trial;

use super::Format;
use crate::View;
use page::Page;

pub(super) const FORMAT: Format = Format {
    name: "html",
    extension: "html",
    about: "one self-contained page with charts, for a browser (report.html)",
    render,
};

/// The whole page.
pub fn render(view: &View, trials: &[Trial]) -> String {
    Page::of(&view.shortened(), trials).render().expect("writing to a string does not fail") + "\n"
}

#[cfg(test)]
mod tests;
