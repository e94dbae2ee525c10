//! One self-contained page: opens from `file://`, with the network off, without JavaScript too.
//!
//! Every finding and number stands in the page as text and tables; scripts only add charts, drawn by Plotly from JSON
//! that lies beside them. The page forbids itself any request by a Content-Security-Policy.

mod axis;
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
    Page::of(view, trials).render().expect("writing to a string does not fail") + "\n"
}

/// Plotly's script alone. The crate hands out a page's worth of scripts, of which the second is MathJax: two megabytes
/// that nothing here needs.
fn plotly_script() -> String {
    let all = plotly::Plot::offline_js_sources();
    let first = all.split("</script>").next().unwrap_or_default();
    first.split_once('>').map_or("", |(_, script)| script).to_owned()
}

/// JSON that can stand inside a `<script>` element, whatever names are in it.
fn script_safe(json: String) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests;
