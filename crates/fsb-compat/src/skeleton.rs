//! A tool to copy. The tests compile and run it, so it stays correct.
//!
//! Copy it to `NAME.rs`, replace its texts, and add `mod NAME;` to `lib.rs` and an entry to the
//! registry in `registry.rs`. Real output goes to `tests/golden/NAME`; the tests beside it cut and
//! damage every file there.

use std::io::BufRead;

use fsb_model::metric::THROUGHPUT;
use fsb_model::set::Run;

use crate::draft::{Draft, Name, Position, Runs, rate};
use crate::text::{Lines, fixed};
use crate::tool::{ReadError, Tool};

/// The entry for the registry.
pub(crate) const TOOL: Tool = Tool {
    name: "skeleton",
    title: "Skeleton",
    about: "a tool that exists only to be copied",
    looks_for: "the banner 'Skeleton'",
    values: "MB/s of 10⁶ bytes",
    repetition: "an execution",
    // No other tool's output may look like it: a test asks every tool about every golden file.
    recognise: |head| head.starts_with(b"Skeleton "),
    read,
};

fn read(input: &mut dyn BufRead) -> Result<Vec<Run>, ReadError> {
    // Lines are bounded and counted; runs are bounded too.
    let mut lines = Lines::new(input);
    let mut runs = Runs::new(TOOL.name);
    let mut draft = Draft::new(TOOL.name);
    while let Some(line) = lines.next()? {
        let text = line.text();
        if let Some(version) = text.strip_prefix("Skeleton ") {
            // A banner starts a run. Keep the version without decoration, and the command line
            // where there is one.
            runs.push(std::mem::replace(&mut draft, Draft::new(TOOL.name)))?;
            draft.run.version = Some(version.to_owned());
        } else if let Some(printed) = text
            .strip_prefix("write ")
            .and_then(|text| text.strip_suffix(" MB/s"))
        {
            let Some(number) = fixed(printed, 1..=1) else {
                // A bad line gives a remark, and the reader continues.
                draft.remark(
                    line.number,
                    format_args!("no rate, left out: '{}'", line.excerpt()),
                );
                continue;
            };
            // Units are base units. A value that is zero, too fast or below the clock is a gap,
            // never a number.
            let name = Name {
                workload: None,
                operation: "write",
            };
            let place = Position {
                line: line.number,
                ..Position::default()
            };
            draft.add(name, &THROUGHPUT, "MB/s", place, rate(number.value * 1e6))?;
        }
    }
    runs.push(draft)?;
    runs.finish(|| "it holds no rate".to_owned())
}

#[cfg(test)]
mod tests {
    use fsb_model::set::GapReason;

    use super::*;

    #[test]
    fn the_skeleton_reads_what_it_says() {
        let text = "Skeleton 1.0\nwrite 2.5 MB/s\nwrite fast MB/s\nSkeleton 1.1\nwrite 0.0 MB/s\n";
        assert!((TOOL.recognise)(text.as_bytes()));
        let runs = (TOOL.read)(&mut text.as_bytes()).unwrap();
        assert_eq!(
            (
                runs[0].version.as_deref(),
                runs[0].series[0].points[0].value
            ),
            (Some("1.0"), 2.5e6)
        );
        assert_eq!(runs[0].warnings[0].line, Some(3));
        assert_eq!(runs[1].series[0].gaps[0].why, GapReason::Zero);
        assert!(
            (TOOL.read)(&mut &b"Skeleton 1.0\n"[..])
                .unwrap_err()
                .to_string()
                .ends_with("it holds no rate")
        );
    }
}
