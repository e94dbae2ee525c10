//! fio's job files: any text gives problems with lines, or jobs.
#![no_main]

use fsb_compat::fio::job;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match job::read(text, &|name| Some(name.to_owned())) {
        Ok(file) => assert!(!file.jobs.is_empty()),
        Err(problems) => assert!(!problems.is_empty() && problems.iter().all(|problem| problem.line > 0)),
    }
});
