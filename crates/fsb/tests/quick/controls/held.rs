//! Controls hold while a run measures, and are restored afterwards.

use super::*;

#[test]
fn processors_that_are_left_decide_how_many_threads_there_are() {
    let scratch = scratch();
    let plan = |controls: &[&str]| {
        let output = fsb(scratch.path(), &[&["run", "null", "--print-plan"], controls].concat());
        expect_code(&output, 0);
        stdout(&output)
    };
    assert!(!plan(&["--control", "cpus=0"]).contains("threads = 2"));
}
