//! What pages are made of: sections, tables, charts, and the script that draws.
//!
//! Every finding and number stands in a page as text and tables; scripts only add charts, drawn by Plotly from JSON
//! that lies beside them. A page forbids itself any request by a Content-Security-Policy.

pub(crate) mod block;
pub(crate) mod escape;
pub(crate) mod table;

/// What draws all charts but surfaces.
pub(crate) const PLOTLY: &str = include_str!("../../vendor/plotly/plotly-cartesian.min.js");

/// What draws surfaces.
pub(crate) const PLOTLY_3D: &str = include_str!("../../vendor/plotly/plotly-gl3d.min.js");
