//! Malformed files: refused with the readers that were tried, or read as far as possible, with a warning.

use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;

use super::{compare, operation, refused, set, testdata};
use crate::common::{assert_messages, fails, scratch};

/// Returns one of five runs of IOzone as text.
fn iozone(run: u32) -> String {
    fs::read_to_string(testdata(&format!("iozone-2010/xfs/xfs{run}.iozone"))).unwrap()
}

/// Compares the first run with the same run after `change`.
fn changed(directory: &Path, change: impl FnOnce(String) -> Vec<u8>) -> (Value, String) {
    fs::write(directory.join("changed.iozone"), change(iozone(1))).unwrap();
    compare(directory, &[&set("good", "iozone-2010/xfs/xfs1.iozone"), "bad=changed.iozone"])
}

fn values(document: &Value, set: &str, name: &str) -> u64 {
    operation(document, name)["classic"]["sets"][set]["n"].as_u64().unwrap()
}

/// Returns the number of cells that only the good file has.
fn lost(document: &Value) -> u64 {
    document["coverage"]["only"]["good"].as_u64().unwrap()
}

#[test]
fn files_that_no_reader_knows_are_named_with_what_was_tried() {
    let scratch = scratch();
    let write = |name: &str, content: &[u8]| fs::write(scratch.path().join(name), content).unwrap();
    write("empty", b"");
    write("text", b"hello\n");
    write("binary", &(0..=255u8).cycle().skip(17).take(100_000).collect::<Vec<u8>>());
    File::create(scratch.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let unknown = "compare/unknown-tool";
    for (name, code) in [("empty", "compare/empty"), ("text", unknown), ("binary", unknown), ("sparse", unknown)] {
        for argument in [name.to_owned(), format!("a={name}"), format!("a={}", scratch.path().join(name).display())] {
            let error = fails(scratch.path(), &["compare", &argument], 2, code);
            assert!(error["fields"]["path"].as_str().is_some_and(|path| path.ends_with(name)), "{argument}: {error}");
        }
    }
    let good = set("good", "iozone-2010/xfs");
    refused(scratch.path(), &[&good, "bad=text"], unknown);
    refused(scratch.path(), &["missing"], "input/unreadable");
    refused(scratch.path(), &["a=missing/*.iozone"], "compare/no-match");
    refused(scratch.path(), &["a=x[1"], "compare/invalid-set");
    refused(scratch.path(), &[], "arguments/missing");
}

#[test]
fn a_truncated_file_keeps_its_whole_lines() {
    let scratch = scratch();
    let (document, warnings) = changed(scratch.path(), |text| text.as_bytes()[..15_000].to_vec());
    assert_messages("compare_truncated", scratch.path(), &warnings);
    assert!(lost(&document) > 500 && values(&document, "bad", "write") > 90);
}

#[test]
fn a_half_overwritten_file_keeps_its_first_half() {
    let scratch = scratch();
    for garbage in [0u8, 0xff, b'x'] {
        let (document, warnings) = changed(scratch.path(), |text| {
            let mut bytes = text.into_bytes();
            bytes[12_000..20_000].fill(garbage);
            bytes
        });
        assert_messages(&format!("compare_overwritten_{garbage}"), scratch.path(), &warnings);
        assert!(lost(&document) > 300 && values(&document, "bad", "write") > 70);
    }
}

/// Data after the table needs bounded memory, whatever it is: a gigabyte would not fit this limit.
#[test]
fn a_huge_tail_needs_no_memory() {
    let scratch = scratch();
    let path = scratch.path().join("tail.iozone");
    fs::write(&path, iozone(1)).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    let mut command = std::process::Command::new("sh");
    let limited =
        command.args(["-c", "ulimit -v 600000; exec \"$0\" compare a=tail.iozone --format json", crate::common::FSB]);
    let output = limited.current_dir(scratch.path()).output().unwrap();
    crate::common::expect_code(&output, 0);
}

#[test]
fn line_ends_of_windows_make_no_difference() {
    let scratch = scratch();
    let (document, _) = changed(scratch.path(), |text| text.replace('\n', "\r\n").into_bytes());
    assert_eq!(lost(&document), 0);
    let both = &operation(&document, "ALL")["classic"]["sets"];
    assert_eq!(both["good"], both["bad"]);
}

#[test]
fn a_decimal_comma_is_read() {
    let scratch = scratch();
    let name = "iozone-3.471-throughput.txt";
    let text = fs::read_to_string(testdata(&format!("tool-output/{name}"))).unwrap();
    let mut bytes = text.clone().into_bytes();
    for at in 1..bytes.len() - 1 {
        if text.as_bytes()[at] == b'.' && [at - 1, at + 1].iter().all(|at| text.as_bytes()[*at].is_ascii_digit()) {
            bytes[at] = b',';
        }
    }
    fs::write(scratch.path().join("comma.txt"), bytes).unwrap();
    let (document, _) = compare(scratch.path(), &[&set("good", &format!("tool-output/{name}")), "bad=comma.txt"]);
    let operations = document["operations"].as_array().unwrap();
    assert!(operations.len() >= 10);
    for operation in operations {
        assert_eq!(operation["classic"]["sets"]["good"], operation["classic"]["sets"]["bad"]);
    }
}

#[test]
fn a_number_that_overflows_costs_its_cell_and_nothing_else() {
    let scratch = scratch();
    let mut all = String::new();
    let huge = ["99999999999999999999999", "1e999", &"9".repeat(400)];
    for huge in huge {
        let (document, warnings) = changed(scratch.path(), |text| text.replacen("361555", huge, 1).into_bytes());
        all += &format!("{huge}:\n{warnings}\n\n");
        assert!((1..=13).contains(&lost(&document)), "{huge}: {}", lost(&document));
    }
    assert_messages("compare_overflow", scratch.path(), &all);
}

#[test]
fn of_a_cell_that_stands_twice_one_counts() {
    let scratch = scratch();
    let (document, warnings) = changed(scratch.path(), |text| {
        let mut lines: Vec<&str> = text.lines().collect();
        let twice = lines.iter().position(|line| line.split_whitespace().take(2).eq(["64", "16"])).unwrap();
        lines.insert(twice, lines[twice]);
        (lines.join("\n") + "\n").into_bytes()
    });
    assert_messages("compare_twice", scratch.path(), &warnings);
    assert_eq!(values(&document, "bad", "write"), values(&document, "good", "write"));
}

#[test]
fn one_run_is_described_and_not_judged() {
    let scratch = scratch();
    let sets = [set("a", "iozone-2010/xfs/xfs1.iozone"), set("b", "iozone-2010/ext4/ext4_1.iozone")];
    let (document, warnings) = compare(scratch.path(), &[&sets[0], &sets[1]]);
    assert_messages("compare_one_run", scratch.path(), &warnings);
    assert!(document["findings"].as_array().unwrap().is_empty());
    for operation in document["operations"].as_array().unwrap() {
        let estimate = &operation["estimate"]["against"]["b"];
        assert_eq!((&estimate["verdict"], &estimate["ci95"]), (&"not_judged".into(), &Value::Null));
        assert!(operation["classic"]["against"]["b"]["median_change"].is_number());
    }
}

#[test]
fn sets_with_nothing_in_common_are_told_what_each_has() {
    let scratch = scratch();
    let sets = [set("ours", "iozone-2010/xfs"), set("mail", "tool-output/postmark-1.53.txt")];
    let no_operation = refused(scratch.path(), &[&sets[0], &sets[1]], "compare/nothing-to-compare");
    let text = iozone(1);
    let size = |line: &str| line.split_whitespace().next().and_then(|word| word.parse::<u32>().ok());
    for (name, small) in [("small.iozone", true), ("large.iozone", false)] {
        let kept = text.lines().filter(|line| size(line).is_none_or(|size| (size == 4) == small));
        fs::write(scratch.path().join(name), kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
    let no_size = refused(scratch.path(), &["large.iozone", "small.iozone"], "compare/nothing-to-compare");
    assert_messages("compare_nothing_in_common", scratch.path(), &format!("{no_operation}\n\n{no_size}\n"));
}
