//! What pages are made of: tables, charts, axes, and the script that draws.
//!
//! Every finding and number stands in a page as text and tables; scripts only add charts, drawn by Plotly from JSON
//! that lies beside them. A page forbids itself any request by a Content-Security-Policy.

pub(crate) mod axis;
pub(crate) mod chart;
pub(crate) mod table;

/// What draws all charts but surfaces.
pub(crate) const PLOTLY: &str = include_str!("../../vendor/plotly/plotly-cartesian.min.js");

/// What draws surfaces.
pub(crate) const PLOTLY_3D: &str = include_str!("../../vendor/plotly/plotly-gl3d.min.js");

/// JSON that can stand inside a `<script>` element, whatever names are in it.
pub(crate) fn script_safe(json: String) -> String {
    json.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}
