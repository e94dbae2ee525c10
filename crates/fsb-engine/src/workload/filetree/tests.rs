use std::fs;
use std::path::Path;

use fsb_model::WorkloadSpec;

use super::*;
use crate::workload::testing::{Pairs, label, run_once, with};

const SHAPE: &str = "-:100,5000;0:;1:0,300000;0:4096,1";

fn spec(pairs: Pairs<'_>) -> WorkloadSpec {
    with("filetree", pairs)
}

/// Every file below a directory, by its path, with its contents.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            found.push((name.clone() + "/", Vec::new()));
            found.extend(contents(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn copies_hold_what_the_source_held_however_they_were_made() {
    for threads in [1, 3] {
        let mut copies = Vec::new();
        for (operation, copy) in
            [("copy-into", "read-write"), ("copy-within", "read-write"), ("copy-within", "copy_file_range")]
        {
            let root = tempfile::tempdir().unwrap();
            let workload = spec(&[
                ("shape", SHAPE.into()),
                ("operation", operation.into()),
                ("copy", copy.into()),
                ("block_size", 1000.into()),
                ("threads", threads.into()),
            ]);
            let mut ready = Ready::default();
            let measured = run_once(&workload, root.path(), |found| ready = found).unwrap();
            assert_eq!((measured.operations, measured.bytes), (6, 100 + 5000 + 300_000 + 4096 + 1));
            assert_eq!(measured.counts["files_copied"], 6);
            assert_eq!(measured.counts["directories_made"], 4);
            assert_eq!(
                ready.resident_bytes.map(|bytes| bytes >= ready.file_bytes),
                Some(true),
                "{operation}: {ready:?}"
            );
            let copy = contents(&root.path().join("fsb-set/copy"));
            if operation == "copy-within" {
                assert_eq!(copy, contents(&root.path().join("fsb-set/source")));
            }
            copies.push(copy);
        }
        assert_eq!(copies[0].len(), 9, "six files in three directories");
        assert!(copies.iter().all(|copy| *copy == copies[0]));
    }
}

#[test]
fn deleted_trees_are_gone_and_counted() {
    for threads in [1, 3] {
        let root = tempfile::tempdir().unwrap();
        let workload = spec(&[("shape", SHAPE.into()), ("operation", "delete".into()), ("threads", threads.into())]);
        let mut there = 0;
        let measured =
            run_once(&workload, root.path(), |_| there = contents(&root.path().join("fsb-set")).len()).unwrap();
        assert_eq!(there, 10);
        assert_eq!(fs::read_dir(root.path().join("fsb-set")).unwrap().count(), 0);
        assert_eq!((measured.counts["files_deleted"], measured.counts["directories_deleted"]), (6, 4));
    }
}

#[test]
fn a_source_that_was_damaged_a_file_that_vanished_and_one_in_the_way_end_the_trial() {
    let workload = spec(&[("shape", SHAPE.into()), ("operation", "copy-within".into()), ("verify", true.into())]);
    let file = "fsb-set/source/d1/d2/f1";
    type Harm = fn(&Path);
    let cases: [(Harm, &str); 4] = [
        (
            |path| {
                use std::os::unix::fs::FileExt;
                let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                file.write_all_at(&[0x55; 3], 70_000).unwrap();
            },
            "corrupted: ",
        ),
        (|path| fs::remove_file(path).unwrap(), "f1: No such file or directory (ENOENT)"),
        (|path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(7).unwrap(), "(ENODATA)"),
        (|path| fs::create_dir(path.ancestors().nth(4).unwrap().join("copy")).unwrap(), "copy: File exists (EEXIST)"),
    ];
    for (harm, said) in cases {
        let root = tempfile::tempdir().unwrap();
        let error = run_once(&workload, root.path(), |_| harm(&root.path().join(file))).unwrap_err();
        assert!(error.message.contains(said), "{said}: {error}");
        assert!(!error.inapplicable);
    }
}

#[test]
fn reflinks_are_not_applicable_where_the_file_system_has_none() {
    // A file system in memory shares no blocks.
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let workload = spec(&[("shape", SHAPE.into()), ("operation", "copy-within".into()), ("copy", "reflink".into())]);
    let error = run_once(&workload, root.path(), |_| {}).unwrap_err();
    assert!(error.inapplicable && error.message.contains("reflink is not supported"), "{error}");
    assert_eq!(fs::read_dir(root.path().join("fsb-set")).unwrap().count(), 0, "the probe is gone");
}

#[test]
fn labels_say_how_and_parameters_that_make_no_sense_are_refused() {
    let label = |pairs: Pairs<'_>| label(&spec(pairs));
    assert_eq!(label(&[]).unwrap(), "copy music into, read-write, durable");
    let within = [("set", "iso".into()), ("operation", "copy-within".into()), ("copy", "reflink".into())];
    assert_eq!(label(&within).unwrap(), "copy iso within, reflink, durable");
    let recorded = [
        ("shape", SHAPE.into()),
        ("tree", "linux".into()),
        ("operation", "delete".into()),
        ("durability", "none".into()),
    ];
    assert_eq!(label(&recorded).unwrap(), "delete linux");
    for (pairs, said) in [
        (vec![("copy", "reflink".into())], "needs operation = \"copy-within\""),
        (
            vec![("operation", "delete".into()), ("copy", "reflink".into())],
            "copy: it applies only with operation = copy-into or copy-within",
        ),
        (vec![("operation", "delete".into()), ("verify", true.into())], "verify: it applies only with operation"),
        (vec![("set", "iso".into()), ("shape", SHAPE.into())], "shape: it does not apply with set"),
        (vec![("shape", "-:;0:".into())], "the tree has no files"),
        (vec![("shape", "nonsense".into())], "has no ':'"),
        (vec![("tree", "linux".into())], "tree: it applies only with shape: give shape too"),
        (vec![("scale", 0.into())], "scale: 0 is not a number from"),
        (vec![("durability", "each".into())], "durability: 'each' is not allowed"),
    ] {
        let error = label(&pairs).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
}
