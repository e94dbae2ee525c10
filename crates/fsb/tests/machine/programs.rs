//! The recordings of `docs/programs.md` are repeated with the programs of this machine.

use std::path::Path;

use fsb_testkit::left_out;
use fsb_testkit::programs::{COLUMNS, Counts, Mode, Program, counts};

use crate::common::*;

/// The largest difference between a count per unit and the recorded one: servers have threads of
/// their own that sync now and then.
const TOLERANCE: f64 = 0.1;

/// The number of times that a mode is recorded again if its counts differ.
const REPETITIONS: usize = 2;

/// Returns the counts of a trace.
fn counts_of(trace: &Path) -> Counts {
    let trace = trace.to_str().expect("a path of text");
    let directory = Path::new("/");
    counts(&json(
        directory,
        &["trace", "show", trace, "--format", "json"],
    ))
}

/// Records a mode with both sizes. Returns the counts per unit that differ from the stored ones.
fn differences(program: &Program, mode: &Mode, stored: &Counts) -> Vec<String> {
    let scratch = scratch();
    let record = |units| {
        let trace = scratch.path().join(format!("{units}.trace"));
        program
            .record(mode, units, Path::new(FSB), &trace)
            .unwrap_or_else(|error| panic!("{error}"));
        counts_of(&trace)
    };
    let [fewer, more] = mode.sizes.map(record);
    let recorded = counts_of(&program.trace(mode));
    let mut differ = Vec::new();
    for column in COLUMNS.iter().filter(|column| column.is_tested) {
        if mode.varies.iter().any(|key| key == column.key) {
            continue;
        }
        let found = mode.share([&fewer, &more], column.key).per_unit;
        let wanted = mode.share([stored, &recorded], column.key).per_unit;
        if (found - wanted).abs() > TOLERANCE {
            let (name, title) = (&program.name, column.heading);
            differ.push(format!(
                "{name} {}: {found} × {title} per {}, recorded {wanted}",
                mode.name, mode.unit
            ));
        }
    }
    differ
}

#[test]
fn installed_programs_make_the_recorded_syncs() {
    needs!(root);
    let mut differ = Vec::new();
    for name in Program::names() {
        let program = Program::read(&name).unwrap();
        if let Err(reason) = program.check_version() {
            left_out(&format!("programs::{name}"), &reason);
            continue;
        }
        let stored = program.recorded().unwrap();
        assert_eq!(stored.version, program.version, "{name} is not recorded");
        for mode in &program.modes {
            let stored = &stored.smaller[&mode.name];
            // A program that waits for a busy machine syncs more or less often. Another version
            // would differ each time.
            let mut found = differences(&program, mode, stored);
            for _ in 0..REPETITIONS {
                if found.is_empty() {
                    break;
                }
                found = differences(&program, mode, stored);
            }
            differ.extend(found);
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
