//! Run directories: any bytes in the two files give an answer, with checksums that fit the lines,
//! too.
#![no_main]

use fsb_results::StoredRun;
use libfuzzer_sys::fuzz_target;

/// Gives each line that is an object a checksum, so that it reaches the reader of trials.
fn with_checksums(trials: &[u8]) -> Vec<u8> {
    let with_checksum = |line: &[u8]| {
        let object = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).ok();
        object.and_then(|object| fsb_store::journal_line(&object).ok()).unwrap_or_else(|| [line, b"\n"].concat())
    };
    trials.split(|byte| *byte == b'\n').flat_map(with_checksum).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (run, trials) = bytes.split_at(bytes.len() / 2);
    std::fs::write(directory.path().join(fsb_store::RUN_FILE), run).expect("written");
    for trials in [trials.to_vec(), with_checksums(trials)] {
        std::fs::write(directory.path().join(fsb_store::TRIALS_FILE), trials).expect("written");
        let _ = fsb_store::read(directory.path());
        let _ = StoredRun::read(directory.path());
    }
});
