//! Published pages: any bytes in the file, and any lines in its data, give an answer.
#![no_main]

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("page.html");
    std::fs::write(&path, bytes).expect("written");
    let _ = fsb_store::read(&path);
    // A fuzzer does not reach the lines through a checksum.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    let data = STANDARD.encode(encoder.finish().expect("memory takes it"));
    let page = format!("<script type=\"application/vnd.fsbench.run+gzip\" id=\"fsbench-run\">{data}</script>");
    std::fs::write(&path, page).expect("written");
    let _ = fsb_store::read(&path);
});
