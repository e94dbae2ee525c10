//! Functions that the fuzzers of several readers share.

use fsb_compat::TOOLS;

/// Reads bytes as the output of a tool. Checks that every run has only values that can be compared.
pub fn read(name: &str, bytes: &[u8]) {
    let tool = TOOLS.iter().find(|tool| tool.name == name).expect("a tool of the registry");
    let _ = (tool.recognise)(bytes);
    let Ok(runs) = (tool.read)(&mut &bytes[..]) else { return };
    assert!(!runs.is_empty());
    for series in runs.iter().flat_map(|run| &run.series) {
        assert!(!(series.points.is_empty() && series.gaps.is_empty()));
        assert!(series.points.iter().all(|point| point.value.is_finite() && point.value > 0.0 && point.line > 0));
    }
}
