//! Writes the comparison of made-up sets, to look at: `cargo run --example compare -- FILE [RUNS
//! SET…]`. The end of FILE implies the format; the first screen goes to standard output.

#![expect(clippy::print_stdout, reason = "it prints a report")]

#[path = "../tests/sample_sets/mod.rs"]
mod sample_sets;

use std::path::Path;

use fsb_report::{Report, find_by_file_name, text};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = Path::new(arguments.first().map_or("comparison.html", String::as_str));
    let runs = arguments
        .get(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(5);
    let names: Vec<&str> = arguments.iter().skip(2).map(String::as_str).collect();
    let names = if names.is_empty() {
        vec!["xfs", "ext4"]
    } else {
        names
    };
    let document = sample_sets::compared(&sample_sets::iozone(&names, runs, 13, 512 << 20));
    let report = Report::of_comparison(&document, None);
    print!("{}", text::screen(&report, 80, false, true));
    let format = file.to_str().and_then(find_by_file_name);
    let format = format.ok_or_else(|| std::io::Error::other("no format has this extension"))?;
    std::fs::write(file, format.render_bytes(&report))
}
