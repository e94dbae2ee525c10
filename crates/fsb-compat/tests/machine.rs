//! PostMark's operations, beside PostMark itself, and the readers, beside others.

#[macro_use]
extern crate fsb_testkit;

#[path = "machine/differential.rs"]
mod differential;
#[path = "quick/ours.rs"]
mod ours;

use std::process::{Command, Stdio};

use fsb_compat::postmark::print;
use fsb_compat::postmark::{Settings, parse};

use crate::ours::ours;

/// Returns the report of PostMark itself, in a directory of its own.
fn theirs(script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("script"),
        format!("{script}run\nquit\n"),
    )
    .unwrap();
    let output = Command::new("postmark")
        .arg("script")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Removes the parts that depend on time: seconds, and the rates in parentheses.
fn counts(report: &str) -> Vec<String> {
    let start = report.find("Time:").unwrap_or(report.len());
    let lines = report[start..]
        .lines()
        .filter(|line| !line.contains("seconds"));
    lines
        .map(|line| line.split(" (").next().unwrap().to_owned())
        .collect()
}

/// The same seed and settings give the same files, reads, appends, deletions and bytes.
#[test]
fn the_same_seed_does_what_postmark_does() {
    needs!(program "postmark");
    let scripts = [
        "",
        "set seed 1\nset transactions 5000\n",
        "set seed 2147483647\nset size 1 1000\nset number 3000\nset transactions 4000\n",
        "set seed 7\nset size 1000 100000\nset number 100\nset transactions 3000\n",
        "set seed 99\nset size 512 512\nset number 10\nset transactions 333\nset bias create 7\n",
        "set subdirectories 10\nset bias read 9\nset bias create 2\nset number 1000\nset transactions 1000\n",
        "set bias read -1\nset number 50\nset transactions 100\nset bias create 6\n",
        "set bias create -1\nset number 50\nset transactions 777\nset size 4000 70000\n",
        "set bias create 10\nset number 20\nset transactions 200\nset bias read 0\n",
        "set number 1\nset transactions 100\nset bias create 8\nset buffering false\nset subdirectories 1\n",
        "set location . 2\nset location +./ 3\nset subdirectories 4\nset transactions 900\n",
        "set number 3\nset bias create 1\nset transactions 100\n",
    ];
    for script in scripts {
        let mut settings = Settings::default();
        for line in script.lines() {
            parse(line, &mut settings).unwrap();
        }
        let theirs = theirs(script);
        match ours(&settings) {
            Some(outcome) => assert_eq!(
                counts(&print::report(&settings, &outcome)),
                counts(&theirs),
                "{script}"
            ),
            None => assert!(theirs.contains(print::OUT_OF_FILES), "{script}: {theirs}"),
        }
    }
}
