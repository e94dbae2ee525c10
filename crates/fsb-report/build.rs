//! Compresses the scripts of the pages. The binary holds them compressed, which makes it 2.1 MB
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
    for name in ["plotly-cartesian.min.js", "plotly-gl3d.min.js"] {
        let source = Path::new("vendor/plotly").join(name);
        println!("cargo::rerun-if-changed={}", source.display());
        let compressed = File::create(Path::new(&output).join(format!("{name}.gz")))?;
        let mut encoder = GzEncoder::new(compressed, Compression::best());
        encoder.write_all(&fs::read(&source)?)?;
        encoder.finish()?;
    }
    Ok(())
}
