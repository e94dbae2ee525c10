//! Writes the report of a made-up run, to look at: `cargo run --example demo -- FILE [BLOCKS
//! TARGET…]`.

#![expect(clippy::print_stdout, reason = "it prints a report")]

#[path = "../tests/sample/mod.rs"]
mod sample;

use fsb_report::summary::Summary;
use fsb_report::{Report, html, text};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = arguments.first().map_or("report.html", String::as_str);
    let blocks = arguments
        .get(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(10);
    let targets: Vec<&str> = arguments.iter().skip(2).map(String::as_str).collect();
    let targets = if targets.is_empty() {
        vec!["ext4", "xfs", "btrfs"]
    } else {
        targets
    };
    let (record, trials) = sample::run(&targets, blocks);
    let summary = Summary::of_run(&record, &trials);
    let report = Report::of_run(&summary, &trials);
    print!("{}", text::screen(&report, 80, false, true));
    std::fs::write(file, html::render(&report))
}
