//! The parts of pages: sections, tables, charts, and the scripts that draw charts.
//!
//! A page contains every finding and number as text and tables. Scripts only add charts, which Plotly draws from JSON
//! in the page. A Content-Security-Policy forbids the page every request.

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
