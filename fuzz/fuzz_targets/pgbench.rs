//! Reports and logs of pgbench: any bytes give an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| fsb_fuzz::read("pgbench", bytes));
