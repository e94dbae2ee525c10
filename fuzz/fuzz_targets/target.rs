//! Targets and sizes: whatever parses prints a text that parses to the same.
#![no_main]

use fsb_model::{Bytes, Target, expression};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(target) = text.parse::<Target>() {
        assert_eq!(target.to_string().parse::<Target>().as_ref(), Ok(&target));
    }
    if let Ok(bytes) = text.parse::<Bytes>() {
        assert_eq!(bytes.to_string().parse::<Bytes>(), Ok(bytes));
    }
    let _ = expression::evaluate(text, 2 << 30);
});
