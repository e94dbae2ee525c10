//! Run directories: any bytes in the two files give an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (run, trials) = bytes.split_at(bytes.len() / 2);
    std::fs::write(directory.path().join(fsb_store::RUN_FILE), run).expect("written");
    std::fs::write(directory.path().join(fsb_store::TRIALS_FILE), trials).expect("written");
    let _ = fsb_store::read(directory.path());
});
