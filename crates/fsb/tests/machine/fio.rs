//! `fsb fio` beside fio: the same job file, and the same calls.

use std::path::Path;
use std::process::Command;

use crate::common::{FSB, expect_code, scratch};

/// The calls on data and the syncs, as strace prints them without the descriptor and the bytes: name, size, offset.
type Calls = Vec<(String, u64, u64)>;

/// Runs a program under strace, and returns its calls on the files of jobs. Those of record size are of the jobs: fio
/// also reads and writes other files.
fn calls(directory: &Path, program: &[&str], record: u64) -> Calls {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-s", "0", "-o", "trace", "-e", "trace=pread64,pwrite64,fsync,fdatasync,syncfs"])
        .args(program)
        .current_dir(directory)
        .output()
        .expect("strace runs");
    expect_code(&output, 0);
    let text = std::fs::read_to_string(directory.join("trace")).unwrap();
    let call = |line: &str| {
        let (_, call) = line.split_once(' ')?;
        let (name, arguments) = call.trim_start().split_once('(')?;
        let (arguments, result) = arguments.split_once(") ")?;
        if name.ends_with("sync") || name == "syncfs" {
            return Some((name.to_owned(), 0, 0));
        }
        let mut numbers = arguments.rsplit(", ").map(|number| number.parse::<u64>());
        let (offset, size) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        assert!(result.trim_start().starts_with(&format!("= {size}")) || size != record, "{line}");
        (size == record).then(|| (name.to_owned(), size, offset))
    };
    text.lines().filter_map(call).collect()
}

/// Returns the calls of both programs for a job whose options cause no note.
fn both(options: &str, record: u64) -> [Calls; 2] {
    let directory = scratch();
    let is_new = options.contains("rw=write");
    let grows = if is_new { "create_on_open=1" } else { "" };
    let text = format!("[j]\nfadvise_hint=0\nfallocate=none\n{grows}\nsize=256k\nbs={record}\n{options}\n");
    std::fs::write(directory.path().join("j.fio"), text).unwrap();
    // The files of fio are laid out before, so that the trace has the calls of the clock only.
    if !is_new {
        let made =
            Command::new("fio").args(["--create_only=1", "j.fio"]).current_dir(directory.path()).output().unwrap();
        expect_code(&made, 0);
    }
    [&["fio", "j.fio"][..], &[FSB, "fio", "-q", "j.fio"]].map(|program| calls(directory.path(), program, record))
}

fn of_name(calls: &Calls, name: &str) -> Vec<u64> {
    calls.iter().filter(|(found, _, _)| found == name).map(|(_, _, offset)| *offset).collect()
}

#[test]
fn fio_and_fsb_make_the_same_calls_for_sequential_jobs() {
    needs!(program "fio", "strace");
    for options in ["rw=read", "rw=read\ninvalidate=0\nio_size=128k", "rw=write", "rw=write\nio_size=64k"] {
        for record in [16384, 8192] {
            let [fio, fsb] = both(options, record);
            let name = if options.contains("read") { "pread64" } else { "pwrite64" };
            let (theirs, ours) = (of_name(&fio, name), of_name(&fsb, name));
            assert_eq!(theirs, ours, "{options}, {record}");
            assert!(!ours.is_empty(), "{options}");
        }
    }
}

#[test]
fn fio_and_fsb_visit_every_record_once_at_random() {
    needs!(program "fio", "strace");
    for (options, name) in [("rw=randread", "pread64"), ("rw=randwrite\noverwrite=1", "pwrite64")] {
        let [mut theirs, mut ours] = both(options, 8192).map(|calls| of_name(&calls, name));
        assert!(!theirs.is_sorted() && !ours.is_sorted(), "{options}: both are random");
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(theirs, ours, "{options}");
    }
}

#[test]
fn syncs_are_those_of_fio_except_after_the_last_write() {
    needs!(program "fio", "strace");
    let [fio, fsb] = both("rw=write\nfdatasync=1", 16384);
    // fio syncs before the next write, so it does not sync the last one.
    assert_eq!((of_name(&fio, "fdatasync").len(), of_name(&fsb, "fdatasync").len()), (15, 16));
    let [fio, fsb] = both("rw=write\nend_fsync=1", 16384);
    let after_last = |calls: &Calls| {
        let last = calls.iter().rposition(|(name, _, _)| name == "pwrite64").unwrap();
        calls[last + 1..].iter().map(|(name, _, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(after_last(&fio), ["fsync"]);
    assert_eq!(after_last(&fsb)[0], "fsync", "{:?}", after_last(&fsb));
}
