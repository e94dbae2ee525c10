//! Logs of strace, fio and blkparse: any bytes end in a trace that can be read again, or an error.
#![no_main]

use std::io::Cursor;

use fsb_trace::{Header, Reader, Writer, import};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let head = &bytes[..bytes.len().min(import::HEAD)];
    let Ok(importer) = import::find(head) else { return };
    let mut trace = Vec::new();
    let mut writer = Writer::new(&mut trace, &Header::default()).expect("memory takes it");
    let Ok(imported) = (importer.read)(&mut Cursor::new(bytes), b"/", &mut writer) else { return };
    let totals = fsb_trace::Totals { tasks: imported.tasks, ..Default::default() };
    writer.finish(totals).expect("memory takes it");
    let mut reader = Reader::new(&trace[..]).expect("what was written is read");
    while reader.next_part().expect("what was written is read").is_some() {}
});
