//! What pages are made of: tables, charts, axes, and the script that draws.
//!
//! Every finding and number stands in a page as text and tables; scripts only add charts, drawn by Plotly from JSON
//! that lies beside them. A page forbids itself any request by a Content-Security-Policy.

pub(crate) mod axis;
pub(crate) mod chart;
pub(crate) mod table;

/// Plotly's script alone. The crate hands out a page's worth of scripts, of which the second is MathJax: two megabytes
/// that nothing here needs.
pub(crate) fn plotly_script() -> String {
    let all = plotly::Plot::offline_js_sources();
    let first = all.split("</script>").next().unwrap_or_default();
    first.split_once('>').map_or("", |(_, script)| script).to_owned()
}

/// JSON that can stand inside a `<script>` element, whatever names are in it.
pub(crate) fn script_safe(json: String) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
