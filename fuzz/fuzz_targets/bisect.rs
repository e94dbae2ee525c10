//! The document of a bisection: whatever passes the check can be searched and printed.
#![no_main]

use fsb_report::bisection::Bisection;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = serde_json::from_slice::<Bisection>(bytes) else { return };
    if document.check().is_err() {
        return;
    }
    let search = document.search();
    let _ = search.next();
    let sum: f64 = search.probabilities().iter().map(|(_, probability)| probability).sum();
    assert!(sum < 1.001, "{sum}");
    let _ = (document.standing(), document.screen(80));
});
