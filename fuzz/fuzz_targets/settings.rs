//! The 2023 tool's settings.ini.
#![no_main]

use fsb_compat::pokorny::Options;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut options = Options::default();
    if options.set_from_ini(text).is_ok() {
        let _ = options.workload();
    }
});
