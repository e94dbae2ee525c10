//! fsb prints the same text as IOzone for the same command, except for the numbers and the name.

use std::path::Path;

use super::{done, testdata};
use crate::common::scratch;

/// Returns the words of a command, with its files in the current directory.
fn local(command: &str) -> String {
    let words = command.split_whitespace().skip(1);
    words.map(|word| word.trim_start_matches("/mnt/test/").trim_start_matches("m/")).collect::<Vec<_>>().join(" ")
}

/// Returns the lines that must agree, with measured numbers made equal.
fn comparable(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let own = line.contains("Revision") || line.contains("Build:") || line.starts_with("\tRun began:");
        let names =
            line.contains("Contributors") || line.starts_with("\t             ") || line.contains("is not IOzone");
        let command = line.starts_with("\tCommand line used:") || line.starts_with("\tTime Resolution");
        // A clock with microseconds is too coarse for some numbers, and IOzone prints that.
        let coarse = line.starts_with("Timer resolution is poor") || line.starts_with("reported inaccurate");
        if !(own || names || command || coarse || line.contains("Without the stonewall")) {
            lines.push(masked(line));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn masked(line: &str) -> String {
    let throughput = ["Children see", "Parent sees", "Min ", "Max ", "Avg "];
    if let (Some((before, after)), true) =
        (line.split_once("= "), throughput.iter().any(|start| line.trim_start().starts_with(start)))
    {
        // Right-aligned in ten places, or as wide as it is: `= 4263913.00 kB/sec`.
        let number = after.trim_start().split(' ').next().unwrap_or_default();
        let end = after.find(number).unwrap_or(0) + number.len();
        assert!(end >= 10 && number.len() > 3 && number.as_bytes()[number.len() - 3] == b'.', "{line}");
        return format!("{before}= #{}", &after[end..]);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_row = words.len() > 2 && words.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    if is_row {
        // The sizes with their columns, the count of the numbers after them, and the trailing blanks.
        let blanks = line.len() - line.trim_end().len();
        return format!("{} + {} numbers + {blanks} blanks, {} wide", &line[..24], words.len() - 2, line.len());
    }
    match words.split_first() {
        Some((file, values)) if file.starts_with('"') && values.iter().all(|value| value.parse::<f64>().is_ok()) => {
            format!("{file} + {} values{}", values.len(), if line.ends_with(' ') { " " } else { "" })
        }
        _ => line.to_owned(),
    }
}

fn agrees(directory: &Path, name: &str) {
    let theirs = std::fs::read_to_string(testdata("tool-output").join(name)).unwrap();
    let command = theirs.lines().find_map(|line| line.trim().strip_prefix("Command line used: ")).unwrap();
    let ours = done(directory, &local(command));
    let (theirs, ours) = (comparable(&theirs), comparable(&ours));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
}

#[test]
fn the_text_is_that_of_the_real_tool_for_every_command_that_was_recorded() {
    let directory = scratch();
    for name in ["single", "N", "O", "R", "R-b", "cpu", "sync", "throughput"] {
        agrees(directory.path(), &format!("iozone-3.471-{name}.txt"));
    }
}

#[test]
fn o_direct_prints_what_it_does_with_the_real_tool() {
    let directory = scratch();
    agrees(directory.path(), "iozone-3.471-directio.txt");
}
