//! IO500 (the C program, since SC20): the lines of its phases, on the terminal or in `result_summary.txt`.

use std::io::BufRead;

use fsb_model::metric::{MetricKind, OPERATION_RATE, THROUGHPUT};
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::text::{Lines, fixed, holds};
use crate::tool::{ReadError, Tool};

/// Reads the results of the phases of IO500.
pub(crate) const TOOL: Tool = Tool {
    name: "io500",
    title: "IO500",
    about: "output or result_summary.txt of the C program: the rate of each phase that counts for the score",
    looks_for: "a line such as '[RESULT] ior-easy-write 1.5 GiB/s : time 300.0 seconds'",
    values: "GiB/s and kIOPS of each phase",
    repetition: "a file",
    recognise: |head| holds(head, b"[RESULT]") && (holds(head, b" GiB/s : time ") || holds(head, b" kIOPS : time ")),
    read,
};

/// The units of rates, with the factors to base units.
static UNITS: [(&str, MetricKind, f64); 2] = [("GiB/s", THROUGHPUT, 1_073_741_824.0), ("kIOPS", OPERATION_RATE, 1e3)];

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut draft = Draft::new(TOOL.name);
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(version) = text.strip_prefix("IO500 version ") {
            runs.push(std::mem::replace(&mut draft, Draft::new(TOOL.name)))?;
            draft.run.version = Some(version.split(' ').next().unwrap_or_default().to_owned());
            continue;
        }
        let Some(result) = text.strip_prefix("[RESULT]") else { continue };
        let words: Vec<&str> = result.split_whitespace().collect();
        let found = match words[..] {
            // The last word is the mark of a phase that is too short for the list.
            [phase, value, unit, ":", "time", _, "seconds", ref mark @ ..] if line.ended && mark.len() <= 1 => {
                let unit = UNITS.iter().find(|(known, ..)| *known == unit);
                fixed(value, 6..=6).zip(unit).map(|(value, unit)| (phase, value, unit, !mark.is_empty()))
            }
            _ => None,
        };
        let Some((phase, value, (unit, metric, factor), is_marked)) = found else {
            draft.remark(line.number, format_args!("no result of a phase, left out: '{}'", line.excerpt()));
            continue;
        };
        if is_marked {
            draft.remark(line.number, format_args!("{phase}: IO500 marks the phase as invalid; its value is kept"));
        }
        let operation = phase.replace('-', "_");
        let place = Position { line: line.number, ..Position::default() };
        draft.add(Name { workload: None, operation: &operation }, metric, unit, place, rate(value.value * factor))?;
    }
    runs.push(draft)?;
    runs.finish(|| "it holds no result of a phase".to_owned())
}
