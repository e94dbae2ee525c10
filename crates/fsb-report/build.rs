//! Compresses the chart library of the pages. The binary holds it compressed, which makes it 1 MB
//! smaller.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

#[expect(
    clippy::disallowed_methods,
    reason = "a build script reads and writes files"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let output = env::var("OUT_DIR")?;
    let source = Path::new("vendor/plotly/plotly-cartesian.min.js");
    println!("cargo::rerun-if-changed={}", source.display());
    let compressed = File::create(Path::new(&output).join("plotly-cartesian.min.js.gz"))?;
    let mut encoder = GzEncoder::new(compressed, Compression::best());
    encoder.write_all(&fs::read(source)?)?;
    encoder.finish()?;
    Ok(())
}
