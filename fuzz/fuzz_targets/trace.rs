//! A trace of file calls: any bytes end in parts that keep the promises of the format, or an error.
#![no_main]

use std::io::Cursor;

use fsb_trace::{Order, TracePart, Reader, Skimmed};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(skimmed) = Skimmed::read(Cursor::new(bytes)) else { return };
    let Ok(mut reader) = Reader::new(bytes) else { return };
    let mut order = Order::new(skimmed.totals.lanes, 0);
    order.initial(&skimmed.initial);
    while let Ok(Some(part)) = reader.next_part() {
        match part {
            TracePart::Initial(all) => {
                for initial in &all {
                    assert!(initial.name < reader.names().len());
                    let name = reader.names().get(initial.name);
                    assert!(!name.starts_with(b"/") && !name.split(|byte| *byte == b'/').any(|one| one == b".."));
                }
            }
            TracePart::Calls(calls) => {
                for call in &calls {
                    let _ = order.turn(call, reader.names());
                }
            }
            TracePart::End(_) => return,
        }
    }
});
