//! What stands in a virtual machine's way is said before anything starts, with the next step.

use std::process::Output;

use super::*;

pub fn expect(output: &Output, code: i32, words: &[&str]) {
    expect_code(output, code);
    let said = stderr(output);
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in: {said}");
}
