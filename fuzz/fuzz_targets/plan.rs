//! Plans: whatever resolves prints a plan that resolves to the same.
#![no_main]

use fsb_runner::plan_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(resolved) = plan_file::parse(text, "fuzz").and_then(|file| file.resolve(2, 1)) else { return };
    let printed = plan_file::print(&resolved.plan).expect("a resolved plan prints");
    let again = plan_file::parse(&printed, "printed").and_then(|file| file.resolve(2, 2));
    assert_eq!(again.map(|again| again.plan), Ok(resolved.plan));
});
