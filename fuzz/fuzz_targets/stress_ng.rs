//! The YAML of stress-ng: any bytes give an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fsb_fuzz::read("stress-ng", bytes));
