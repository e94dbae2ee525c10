//! No byte of a name, a path or a message affects the terminal or is invisible there.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Output;

use fsb_report::visible::is_hidden;

use crate::common::{command, expect_code, fast_plan, fsb, scratch, stderr, stdout};

/// An escape sequence, a C1 control character, a direction override, and a character without width.
const EVIL: &str = "\u{1b}[31mred\u{9b}2J\u{202e}abc\u{200b}";
const SHOWN: &str = "\\u{1b}[31mred\\u{9b}2J\\u{202e}abc\\u{200b}";

fn expect_visible(output: &Output) {
    for text in [stdout(output), stderr(output)] {
        let hidden = text.chars().find(|c| is_hidden(*c) && !"\n\t".contains(*c));
        assert_eq!(hidden, None, "{text:?}");
    }
}

#[test]
fn a_job_of_fio_cannot_colour_the_screen() {
    let directory = scratch();
    let real = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tool-output/fio-3.33.json");
    let mut results: serde_json::Value = serde_json::from_slice(&fs::read(real).unwrap()).unwrap();
    results["jobs"].as_array_mut().unwrap().iter_mut().for_each(|job| job["jobname"] = EVIL.into());
    fs::write(directory.path().join("a.json"), results.to_string()).unwrap();
    for format in ["text", "markdown"] {
        let output = fsb(directory.path(), &["compare", "a.json", "b=a.json", "--format", format]);
        expect_code(&output, 0);
        expect_visible(&output);
        // Markdown needs a backslash before characters that are markup elsewhere.
        assert!(stdout(&output).replace("\\\\", "\\").replace("\\[", "[").contains(SHOWN), "{}", stdout(&output));
    }
    let json = fsb(directory.path(), &["compare", "a.json", "b=a.json", "--format", "json"]);
    assert!(String::from_utf8_lossy(&json.stdout).contains("\u{202e}abc\u{200b}"), "programs get the name as it is");
}

#[test]
fn errors_repeat_paths_and_arguments_visibly() {
    let directory = scratch();
    let path = directory.path().join(EVIL);
    fs::write(&path, "no results\n").unwrap();
    let path = std::str::from_utf8(path.as_os_str().as_bytes()).unwrap();
    for arguments in [
        &["compare", path][..],
        &["compare", EVIL],
        &["report", path],
        &["filebench", path],
        &["run", EVIL],
        &["run", "null", "--suite", EVIL],
        &["list", EVIL],
        &[EVIL],
        &["run", &format!("--{EVIL}")],
    ] {
        let output = fsb(directory.path(), arguments);
        expect_code(&output, 2);
        expect_visible(&output);
        assert!(stderr(&output).contains("\\u{202e}"), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn progress_and_first_screen_name_targets_visibly() {
    let directory = scratch();
    fast_plan(directory.path());
    // A name with control characters is refused anyway.
    let target = "a\u{202e}b\u{200b}=null";
    let output =
        command(directory.path(), &["run", "fast.toml", target, "null", "--blocks", "1", "--verbose", "--out", "out"]);
    let output = { output }.output().expect("the program starts");
    expect_code(&output, 0);
    expect_visible(&output);
    let said = stderr(&output);
    let in_a_block = |line: &str| line.starts_with("block 1: ") && line.contains("a\\u{202e}b\\u{200b}");
    assert!(said.lines().any(in_a_block), "{said}");
    let output = fsb(directory.path(), &["report", "out"]);
    expect_visible(&output);
    assert!(stdout(&output).contains("a\\u{202e}b\\u{200b}"), "{}", stdout(&output));
}
