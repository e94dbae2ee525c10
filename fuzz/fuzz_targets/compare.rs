//! Two files of any tools against each other: whatever was read is compared, and shown in a form.
//! One form at a time, and short files, because a page alone is megabytes of a script that never
//! changes.
#![no_main]

use fsb_stats::compare::{CompareRequest, compare};
use fsb_compat::TOOLS;
use fsb_model::set::Set;
use fsb_report::{FORMATS, Report};
use libfuzzer_sys::fuzz_target;

/// The separator of the two files.
const BETWEEN: &[u8] = b"\n=====\n";

/// The most bytes of a file: a head of each tool and a few lines of values.
const LONGEST: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.windows(BETWEEN.len()).position(|part| part == BETWEEN);
    let (one, other) = at.map_or((bytes, bytes), |at| (&bytes[..at], &bytes[at + BETWEEN.len()..]));
    let set = |name: &str, bytes: &[u8]| {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        let tool = TOOLS.iter().find(|tool| (tool.recognise)(bytes))?;
        let runs = (tool.read)(&mut &bytes[..]).ok()?;
        Some(Set { name: name.to_owned(), pairing: None, analyses: Default::default(), runs })
    };
    let (Some(one), Some(other)) = (set("one", one), set("other", other)) else { return };
    let Ok(document) = compare(&[one, other], &CompareRequest::new(0, 0.03)) else { return };
    // Of many inputs each form has some; the page, which is slow, few.
    let choice = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) as usize;
    let formats: Vec<_> = FORMATS.iter().filter(|format| format.name != "html" || choice >= 248).collect();
    let _ = formats[choice % formats.len()].render_bytes(&Report::of_comparison(&document, None));
});
