//! Reports of run directories: any record and trials give every form of the report.
#![no_main]

use fsb_model::{RunRecord, Trial};
use fsb_report::Report;
use fsb_report::summary::Summary;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let Some(Ok(record)) = lines.next().map(serde_json::from_slice::<RunRecord>) else { return };
    let trials: Vec<Trial> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let summary = Summary::of_run(&record, &trials);
    let report = Report::of_run(&summary, &trials);
    for format in fsb_report::FORMATS {
        let _ = format.render_bytes(&report);
    }
});
