//! Every tool of the registry, and files of none.

use std::fs;
use std::path::Path;

use fsb_compat::{Problem, TOOLS, read_file};

use crate::{every_file, golden, shared};

#[test]
fn names_are_unique_and_described_in_a_line() {
    for (index, tool) in TOOLS.iter().enumerate() {
        assert!(TOOLS[..index].iter().all(|other| other.name != tool.name), "{}", tool.name);
        for text in [tool.about, tool.looks_for] {
            assert!(!text.is_empty() && !text.contains('\n') && text.len() < 100, "{text}");
        }
    }
}

#[test]
fn each_file_is_recognised_by_its_tool_and_no_other() {
    for (name, path) in every_file() {
        let head = fs::read(&path).unwrap();
        let takers: Vec<_> = TOOLS.iter().filter(|tool| (tool.recognise)(&head)).map(|tool| tool.name).collect();
        assert_eq!(takers, [name], "{}", path.display());
    }
}

#[test]
fn every_run_knows_its_tool_version_and_path() {
    for (name, path) in every_file() {
        let Ok(runs) = read_file(&path) else { continue };
        for run in &runs {
            crate::check(run);
            assert_eq!((run.tool.as_str(), run.path.as_str()), (name, path.to_str().unwrap()));
            assert!(run.version.as_ref().is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
            assert!(run.series.iter().all(|series| !series.found_unit.is_empty()));
        }
    }
}

#[test]
fn forms_that_are_not_read_say_how_to_get_one_that_is() {
    for (path, hint) in [
        (shared("tool-output/fio-3.33-normal.txt"), "--output-format=json"),
        (golden("fio/fio-3.33-terse.txt"), "--output-format=json"),
        (golden("postmark/1.53-terse.txt"), "set report verbose"),
    ] {
        let message = read_file(&path).unwrap_err().to_string();
        assert!(message.contains(hint) && message.contains(path.to_str().unwrap()), "{message}");
    }
}

fn refusal(directory: &Path, content: &[u8]) -> String {
    let path = directory.join("results.txt");
    fs::write(&path, content).unwrap();
    let error = read_file(&path).unwrap_err();
    assert_eq!(error.path.as_deref(), Some(path.as_path()));
    error.to_string()
}

#[test]
fn a_file_of_no_tool_is_refused_with_what_was_tried() {
    let directory = tempfile::tempdir().unwrap();
    assert!(refusal(directory.path(), b"").ends_with("it is empty"));
    let message = refusal(directory.path(), b"\xff\xfeI\0o\0");
    assert!(message.contains("iconv"), "{message}");
    for content in [&b"hello\nworld\n"[..], &[0; 100_000], b"\x7fELF\x02\x01"] {
        let message = refusal(directory.path(), content);
        let kind = if content.contains(&0) { "binary data" } else { "text" };
        assert!(content[0] == 0x7f || message.contains(kind), "{message}");
        assert!(TOOLS.iter().all(|tool| message.contains(tool.name)), "{message}");
    }
    let message = read_file(&directory.path().join("none")).unwrap_err();
    assert!(matches!(message.problem, Problem::Io(_)));
    assert!(matches!(read_file(directory.path()).unwrap_err().problem, Problem::Io(_)));
}

#[test]
fn a_tool_without_results_says_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    for (content, why) in [
        ("\tIozone: Performance Test of File I/O\n", "no table"),
        ("{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n  ]\n}\n", "no job"),
        ("{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n  {", "line 4"),
        ("1.98,2.00a,host,1,1,64M\n", "no CSV line with values"),
        ("PostMark v1.51 : 8/14/01\nError: cannot set location\n", "no verbose report"),
        ("Filebench Version 1.5-alpha3\n0.000: Allocated 177MB of shared memory\n", "no summary"),
        ("<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n</PhoronixTestSuite>\n", "no result of a bar graph"),
        ("<?xml version=\"1.0\"?>\n<PhoronixTestSuite>\n  <Result>\n", "line 4"),
        ("sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\nCPU speed:\n", "no result of its file test"),
        ("IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nOptions:\n", "no line of an iteration"),
        ("mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)\n", "no summary"),
    ] {
        let message = refusal(directory.path(), content.as_bytes());
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn a_large_file_of_zeros_is_refused_from_its_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("zeros");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(read_file(&path).unwrap_err().to_string().contains("binary data"));
}
