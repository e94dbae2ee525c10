//! What pages are made of: sections, tables, charts, and the script that draws.
//!
//! Every finding and number stands in a page as text and tables; scripts only add charts, drawn by Plotly from JSON
//! that lies beside them. A page forbids itself any request by a Content-Security-Policy.

pub(crate) mod block;
pub(crate) mod escape;
pub(crate) mod table;

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;

/// The script that draws all charts except surfaces.
pub(crate) static PLOTLY: LazyLock<String> =
    LazyLock::new(|| decompress(include_bytes!(concat!(env!("OUT_DIR"), "/plotly-cartesian.min.js.gz"))));

/// The script that draws surfaces.
pub(crate) static PLOTLY_3D: LazyLock<String> =
    LazyLock::new(|| decompress(include_bytes!(concat!(env!("OUT_DIR"), "/plotly-gl3d.min.js.gz"))));

fn decompress(script: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(script).read_to_string(&mut text).expect("the build script compressed a text");
    text
}
