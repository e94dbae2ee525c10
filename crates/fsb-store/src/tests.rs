//! Tests of reading and writing run directories: truncated, damaged and hostile files.

use std::fs;

use fsb_model::trial::SCHEMA;
use fsb_model::{Trial, Warning, run};
use proptest::prelude::*;
use serde_json::json;

use super::*;

pub(crate) fn record() -> RunRecord {
    serde_json::from_value(json!({
        "schema": run::SCHEMA, "name": "ext4", "cells": [], "added_later": {"kept": true},
        "plan": {"name": "quick", "targets": [], "workloads": [], "repetition": {"blocks": {"blocks": 5}},
                 "seed": 1, "size": "2G", "dir": ".", "theta": 0.03},
    }))
    .unwrap()
}

pub(crate) fn trial(order: u32) -> Trial {
    serde_json::from_value(json!({
        "schema": SCHEMA, "id": format!("b1.ext4.{order}"), "phase": "measured", "block": 1, "order": order, "attempt": 1,
        "target": "ext4", "kernel": "6.18", "workload": "write 1M", "operation": "write", "params": {},
        "started": "2026-01-01T00:00:00Z", "outcome": "ok", "a_newer_field": [1, 2],
    }))
    .unwrap()
}

pub(crate) fn create(path: &Path) -> Result<RunDirectory, StoreError> {
    RunDirectory::create(path, &record(), ResultOwner::this_user(), "the first")
}

pub(crate) fn resume(path: &Path) -> Result<(RunDirectory, Contents), StoreError> {
    RunDirectory::resume(Claim::take(path, ResultOwner::this_user(), "the second")?)
}

fn filled(trials: u32) -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("run");
    let mut directory = create(&path).unwrap();
    (0..trials).for_each(|order| directory.append(&trial(order)).unwrap());
    (temporary, path)
}

#[test]
fn records_are_read_back_with_fields_of_newer_versions() {
    let (_temporary, path) = filled(3);
    let contents = read(&path).unwrap();
    assert_eq!(contents.record, record());
    assert_eq!(contents.trials, (0..3).map(trial).collect::<Vec<_>>());
    assert_eq!(contents.trials[0].extra["a_newer_field"], json!([1, 2]));
    assert!(contents.warnings.is_empty());
}

#[test]
fn a_directory_that_holds_something_is_refused() {
    let (_temporary, path) = filled(0);
    assert!(matches!(create(&path), Err(StoreError::NotEmpty(_))));
}

#[test]
fn a_half_last_line_is_dropped_and_a_resume_goes_on_cleanly() {
    let (_temporary, path) = filled(2);
    let journal = path.join(TRIALS_FILE);
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 10]).unwrap();
    let (mut directory, contents) = resume(&path).unwrap();
    assert_eq!((contents.trials.len(), contents.warnings.len()), (1, 1));
    directory.append(&trial(7)).unwrap();
    let again = read(&path).unwrap();
    assert_eq!(again.trials, [trial(0), trial(7)]);
    assert!(again.warnings.is_empty());
}

#[test]
fn a_broken_line_in_the_middle_is_an_error_with_its_number() {
    let (_temporary, path) = filled(3);
    let journal = path.join(TRIALS_FILE);
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    lines[1] = "{\"schema\":";
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn warnings_of_version_1_become_conditions() {
    let (_temporary, path) = filled(1);
    let run = path.join(RUN_FILE);
    let mut record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&run).unwrap()).unwrap();
    record["schema"] = "fsbench/run/1".into();
    record["warnings"] =
        json!(["not alone: process 7 (fsb run ext4) measured at the same time; …", "loop can discard"]);
    fs::write(&run, record.to_string()).unwrap();
    let concurrent = Warning::Concurrent { run: "process 7 (fsb run ext4)".to_owned(), more: 0 };
    let discard = Warning::Text("loop can discard".to_owned());
    assert_eq!(read(&path).unwrap().record.warnings, [concurrent, discard]);
}

#[test]
fn a_newer_major_is_refused_and_a_newer_minor_is_not() {
    let (_temporary, path) = filled(1);
    let run = path.join(RUN_FILE);
    let text = fs::read_to_string(&run).unwrap();
    fs::write(&run, text.replace(run::SCHEMA, "fsbench/run/2.7")).unwrap();
    assert!(read(&path).is_ok());
    fs::write(&run, text.replace(run::SCHEMA, "fsbench/run/3")).unwrap();
    assert!(matches!(read(&path), Err(StoreError::Newer { .. })));
    fs::write(&run, text.replace(run::SCHEMA, "somebody/else/1")).unwrap();
    assert!(matches!(read(&path), Err(StoreError::Schema { .. })));
}

#[test]
fn a_directory_without_a_record_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    assert!(matches!(read(temporary.path()), Err(StoreError::NoRun(_))));
}

#[test]
fn endless_input_is_refused_at_once() {
    let pipe = |path: &Path| {
        let owner = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, owner, 0).unwrap();
    };
    let device = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    let sparse = |path: &Path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap();
    type Make<'m> = &'m dyn Fn(&Path);
    let make: [(Make<'_>, &str, &str); 3] = [
        (&pipe, "it is a pipe", "it is a pipe"),
        (&device, "it is a device", "it is a device"),
        (&sparse, "it is larger than", "line 1: it is longer than"),
    ];
    for (make, of_record, of_journal) in make {
        for (name, why) in [(RUN_FILE, of_record), (TRIALS_FILE, of_journal)] {
            let (_temporary, path) = filled(1);
            fs::remove_file(path.join(name)).unwrap();
            make(&path.join(name));
            let error = read(&path).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(!matches!(error, StoreError::Io { .. }), "{error:?}");
        }
    }
}

#[test]
fn deep_nesting_huge_numbers_and_repeated_keys_are_errors_of_their_line() {
    let deep = format!("{{\"extra\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let whole = serde_json::to_string(&trial(1)).unwrap();
    let twice = whole.replacen('{', "{\"block\": 7,", 1);
    let huge = whole.replace("\"block\":1", "\"block\":99999999999999999999");
    let endless = whole.replace("[1,2]", "1e999");
    let nan = whole.replace("[1,2]", "NaN");
    for line in [deep, twice, huge, endless, nan] {
        let (_temporary, path) = filled(1);
        let journal = path.join(TRIALS_FILE);
        let first = fs::read_to_string(&journal).unwrap();
        fs::write(&journal, format!("{first}{line}\n")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("trials.jsonl, line 2: ") && error.len() < 400, "{error}");
    }
}

#[test]
fn a_second_pass_reads_the_same_lines() {
    let (_temporary, path) = filled(3);
    let mut reader = Reader::open(&path).unwrap();
    fs::remove_file(path.join(TRIALS_FILE)).unwrap();
    for _ in 0..2 {
        let mut seen = Vec::new();
        reader.trials(|line, trial: Trial| seen.push((line, trial.order))).unwrap();
        assert_eq!(seen, [(1, 0), (2, 1), (3, 2)]);
    }
}

proptest! {
    /// Cutting the journal anywhere loses at most one line.
    #[test]
    fn a_cut_journal_loses_at_most_its_last_line(cut in 0usize..1200) {
        let (_temporary, path) = filled(3);
        let journal = path.join(TRIALS_FILE);
        let whole = fs::read(&journal).unwrap();
        let cut = cut.min(whole.len());
        fs::write(&journal, &whole[..cut]).unwrap();
        let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        let contents = read(&path).unwrap();
        prop_assert!(contents.trials.len() >= lines && contents.trials.len() <= lines + 1);
    }

    #[test]
    fn garbage_never_panics(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_temporary, path) = filled(1);
        fs::write(path.join(TRIALS_FILE), &garbage).unwrap();
        let _ = read(&path);
        fs::write(path.join(RUN_FILE), &garbage).unwrap();
        let _ = read(&path);
    }
}

#[test]
fn a_writer_that_fails_or_panics_keeps_the_old_file_and_leaves_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    let result_owner = ResultOwner::this_user();
    crate::replace(&path, b"old", &result_owner).unwrap();
    let failed = crate::replace_with(&path, &result_owner, |file| {
        file.write_all(&[b'x'; 1 << 20])?;
        Err(std::io::Error::other("no more"))
    });
    assert!(matches!(failed, Err(StoreError::Io { what: "write", .. })), "{failed:?}");
    let panicked = std::panic::catch_unwind(|| crate::replace_with(&path, &result_owner, |_| panic!("on purpose")));
    assert!(panicked.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    crate::replace_with(&path, &result_owner, |file| file.write_all(b"new")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
}
