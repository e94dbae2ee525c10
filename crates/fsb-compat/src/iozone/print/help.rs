//! `-h` and `-v`.

use std::fmt::Write;

use crate::iozone::catalogue::{Known, OPTIONS};

/// Returns the output of `-v`.
pub fn version(program: &str) -> String {
    format!("{program}: the command line, the workloads and the text of IOzone 3.471. It is not IOzone.\n")
}

/// Returns the list of options, supported and not supported.
pub fn list() -> String {
    let mut text = String::from("Options of 'fsb iozone', as in IOzone 3.471, with their [defaults].\n\n");
    for known in OPTIONS.iter().filter(|known| known.is_supported()) {
        let Known { name, value, about, .. } = known;
        let head = format!("{name} {value}");
        _ = writeln!(text, "  {head:<12} {}", about.replace('\n', "\n               "));
    }
    text.push_str("\n  --repeat-until TIME  not IOzone's: repeat each operation until its times sum to this (100ms)\n");
    text.push_str("  --allow-concurrent   not IOzone's: measure while another fsb measures; both print a warning\n");
    let missing: Vec<&str> = OPTIONS.iter().filter(|known| !known.is_supported()).map(|known| known.name).collect();
    _ = writeln!(text, "\nNot supported, and refused by name:\n");
    for names in missing.chunks(16) {
        _ = writeln!(text, "  {}", names.join(" "));
    }
    text
}
