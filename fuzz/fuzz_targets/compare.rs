//! Two files of any tools against each other: whatever was read is compared, and shown in every form.
#![no_main]

use fsb_analysis::compare::{Request, compare};
use fsb_compat::TOOLS;
use fsb_model::set::Set;
use fsb_report::{FORMATS, Report};
use libfuzzer_sys::fuzz_target;

/// What stands between the two.
const BETWEEN: &[u8] = b"\n=====\n";

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.windows(BETWEEN.len()).position(|part| part == BETWEEN);
    let (one, other) = at.map_or((bytes, bytes), |at| (&bytes[..at], &bytes[at + BETWEEN.len()..]));
    let set = |name: &str, bytes: &[u8]| {
        let tool = TOOLS.iter().find(|tool| (tool.recognise)(bytes))?;
        let runs = (tool.read)(&mut &bytes[..]).ok()?;
        Some(Set { name: name.to_owned(), pairing: None, runs })
    };
    let (Some(one), Some(other)) = (set("one", one), set("other", other)) else { return };
    let Ok(document) = compare(&[one, other], &Request { baseline: 0, theta: 0.03 }) else { return };
    for format in FORMATS {
        let _ = (format.render)(&Report::of_comparison(&document, None));
    }
});
