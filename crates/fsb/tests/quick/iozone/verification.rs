//! Corrupt data is detected and reported with its place.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::{done, iozone_json, listing};
use crate::common::{expect_error, scratch, stdout};

fn flip(path: &Path, offset: u64) -> (u8, u8) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
    (byte[0], !byte[0])
}

/// Returns the fields of the error about corrupt data.
fn corrupt(output: &Output) -> Value {
    expect_error(output, 1, "iozone/corrupt")["fields"].clone()
}

/// Writes a file, changes a byte, and reads the file with the same options.
fn found(options: &str, tests: &str, offset: u64) {
    let directory = scratch();
    let path = directory.path().join("f");
    done(directory.path(), &format!("{options} -w -i 0 -s 256 -r 16 -f f"));
    let (expected, found) = flip(&path, offset);
    let output = iozone_json(directory.path(), &format!("{options} -w {tests} -s 256 -r 16 -f f"));
    let fields = corrupt(&output);
    let record = offset / (16 << 10);
    let said = format!(
        "Error in file: Position {offset} \nRecord # {record} Record size 16 kb \nFound pattern: Hex >>{found:x}<< Expecting >>{expected:x}<<\n"
    );
    assert!(stdout(&output).contains(&said), "{options}: {}", stdout(&output));
    let placed = serde_json::json!({
        "path": "f", "offset": offset, "expected": expected, "found": found, "written_by_this_run": false,
    });
    assert_eq!(fields, placed, "{options}");
    assert!(!stdout(&output).contains("test complete"));
    assert_eq!(listing(directory.path()), ["f"], "-w keeps it");
}

#[test]
fn a_changed_byte_is_found_by_every_kind_of_reading() {
    for tests in ["-i 1", "-i 2", "-i 3", "-i 7"] {
        found("-V 7", tests, 100_001);
        found("-+d", tests, 100_002);
    }
    // Of 16 records a stride of 17 reads only the first.
    found("-V 7", "-i 5", 77);
    for means in ["-B", "-H 4", "-k 4"] {
        found(&format!("-V 7 {means}"), "-i 1", 131_071);
        found(&format!("-+d {means}"), "-i 3", 5);
    }
}

/// Like IOzone, fsb checks the start of each page without any option.
#[test]
fn a_damaged_page_start_is_found_without_verification() {
    found("-W", "-i 1", 4096 * 5 + 3);
}

#[test]
fn records_that_changed_places_are_found_in_diagnostic_mode() {
    let directory = scratch();
    let path = directory.path().join("f");
    done(directory.path(), "-+d -w -i 0 -s 64 -r 16 -f f");
    let mut bytes = std::fs::read(&path).unwrap();
    let (first, second) = bytes.split_at_mut(16 << 10);
    first.swap_with_slice(&mut second[..16 << 10]);
    std::fs::write(&path, bytes).unwrap();
    let fields = corrupt(&iozone_json(directory.path(), "-+d -i 1 -s 64 -r 16 -f f"));
    assert_eq!((&fields["path"], &fields["offset"]), (&"f".into(), &0.into()), "{fields}");
}

#[test]
fn processes_tell_what_they_find() {
    for threads in ["", "-T"] {
        let directory = scratch();
        done(directory.path(), &format!("-t 2 {threads} -V 7 -w -i 0 -s 256 -r 16 -F a b"));
        flip(&directory.path().join("b"), 1000);
        let line = format!("-t 2 -x {threads} -V 7 -i 1 -s 256 -r 16 -F a b");
        let fields = corrupt(&iozone_json(directory.path(), &line));
        assert_eq!((&fields["path"], &fields["offset"]), (&"b".into(), &1000.into()), "{fields}");
        assert_eq!(listing(directory.path()), ["a", "b"], "files that were only read are not removed");
    }
}
