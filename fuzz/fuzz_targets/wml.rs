//! filebench's workload language: any text gives problems or flows that can run.
#![no_main]

use fsb_compat::filebench::wml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match wml::read(text, &wml::Reading { name: "fuzz", implied: Some(1), values: &[] }) {
        Ok(script) => assert!(script.runs.iter().all(|run| run.flow.check().is_empty())),
        Err(problems) => assert!(problems.iter().all(|problem| problem.line > 0)),
    }
});
