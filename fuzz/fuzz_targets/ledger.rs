//! Entries of the undo ledger: any bytes are an entry or an error, and an entry is written as it
//! was read.
#![no_main]

use fsb_testbed::ledger::Entry;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(entry) = serde_json::from_slice::<Entry>(bytes) else { return };
    let _ = entry.action.to_string();
    let written = serde_json::to_vec(&entry).expect("an entry is written");
    assert_eq!(serde_json::from_slice::<Entry>(&written).expect("and read again"), entry);
});
