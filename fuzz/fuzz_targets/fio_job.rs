//! fio's job files: any text gives problems with lines, or jobs.
#![no_main]

use fsb_compat::fio::job::{self, Surroundings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let surroundings = Surroundings {
        variable: &|name| Some(name.to_owned()),
        include: &|name| Ok(format!("[included]\nfilename={name}")),
    };
    match job::read(text, surroundings) {
        Ok(file) => assert!(!file.jobs.is_empty()),
        Err(problems) => assert!(!problems.is_empty() && problems.iter().all(|problem| problem.line > 0)),
    }
});
