//! Samples and reports of `fsb micro`: any bytes give an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fsb_fuzz::read("micro", bytes));
