//! A file of acknowledged slowdowns: any text gives an answer, and none lets a case pass without an
//! entry.
#![no_main]

use fsb_report::check::{Check, CheckOutcome};
use fsb_results::acknowledged::Acknowledgements;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(all) = Acknowledgements::parse(text) else { return };
    let names = ["write 1M, durable", "new", "old"];
    let mut checks = [Check {
        up_to: Some(0.04),
        ..Check::without_ratio(names, CheckOutcome::Slower, String::new())
    }];
    let applied = all.apply(&mut checks, jiff::civil::date(2026, 12, 1));
    assert_eq!(applied.passed.len() == 1, checks[0].outcome.passes());
});
