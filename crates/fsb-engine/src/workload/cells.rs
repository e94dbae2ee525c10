//! Tests of workload parameters: refused values, labels, and the profile that the runner gets.

use super::parse;
use super::testing::{Pairs, SIZING, with};

/// Each case is a workload, a parameter, its value, and a part of the error message (empty if the value is accepted).
#[test]
fn senseless_parameters_are_refused_with_their_key() {
    let cases: &[(&str, &str, serde_json::Value, &str)] = &[
        ("read", "file_size", "4X".into(), "'4X' is not a size"),
        ("read", "file_size", 0.into(), "0 is too few: at least 1"),
        ("read", "file_size", (1u64 << 61).into(), "is too many: at most"),
        ("read", "file_size", "size/0".into(), "is not a size"),
        ("read", "block_size", "128M".into(), "128M is larger than file_size, 8M"),
        ("read", "block_size", 0.into(), "0 is too few"),
        ("read", "block_size", (-1).into(), "-1 is not a whole number"),
        ("read", "block_size", 1.5.into(), "1.5 is not a whole number"),
        ("read", "files", 0.into(), "0 is too few"),
        ("read", "files", 100_000_001u64.into(), "is too many"),
        ("read", "files_per_directory", 0.into(), "0 is too few"),
        ("read", "threads", 1025.into(), "1025 is too many: at most 1024"),
        ("read", "threads", true.into(), "true is not a whole number"),
        ("read", "access", "backwards".into(), "'backwards' is not allowed: use sequential or random"),
        ("read", "access", 7.into(), "7 is not a word"),
        ("read", "durability", "end".into(), "'end' is not allowed: use none"),
        ("read", "cache", "lukewarm".into(), "is not allowed: use warm or cold or any"),
        ("read", "backend", "psink".into(), "did you mean 'psync'"),
        ("read", "depth", 32.into(), "32 is more than backend psync can do: at most 1"),
        ("read", "label", "".into(), "is not a text of one line"),
        ("read", "label", "two\nlines".into(), "is not a text of one line"),
        ("write", "overwrite", "perhaps".into(), "\"perhaps\" is not true or false"),
        ("write", "cache", "cold".into(), "new files are never cold"),
        ("append", "access", "random".into(), "'random' is not allowed: use sequential"),
        ("append", "cache", "warm".into(), "'warm' is not allowed: use any"),
        ("stat", "block_size", "4K".into(), "unknown parameter 'block_size'"),
        ("create", "overwrite", true.into(), "unknown parameter 'overwrite'"),
        ("mkdir", "file_size", "4K".into(), "unknown parameter 'file_size'"),
        ("symlink", "cache", "warm".into(), "'warm' is not allowed: use any"),
        ("chown", "backend", "uring".into(), "'uring' is not allowed: use psync or null"),
        ("setxattr", "value_size", "128K".into(), "is too many: at most 65536"),
        ("getxattr", "overwrite", true.into(), "unknown parameter 'overwrite'"),
        ("truncate", "mode", "widen".into(), "'widen' is not allowed: use shrink or grow"),
        ("truncate", "access", "random".into(), "'random' is not allowed: use sequential"),
        ("lookup", "depth", 17.into(), "17 is too many: at most 16"),
        ("lookup", "width", 100.into(), "100 at a depth of 4 are more than 1000000 files"),
        ("micro-read", "cycles", 0.into(), "0 is too few"),
        ("micro-read", "iterations", 0.into(), "0 is too few"),
        ("micro-read", "block_count", (1u64 << 30).into(), ""),
        ("micro-create", "block_size", 4096.into(), "unknown parameter 'block_size'"),
        ("micro-create", "durability", "none".into(), "unknown parameter 'durability'"),
    ];
    for (workload, key, value, message) in cases {
        let result = parse(&with(workload, &[(key, value.clone())]), &SIZING);
        if message.is_empty() {
            assert!(result.is_ok(), "{workload} {key} {value}");
            continue;
        }
        let error = result.err().unwrap_or_else(|| panic!("{workload} takes {key} = {value}"));
        assert_eq!(error.key.as_deref(), Some(*key), "{error}");
        assert!(error.to_string().contains(message), "'{error}' does not say '{message}'");
        assert!(error.to_string().starts_with(&format!("workload {workload}: ")), "{error}");
    }
    let absurd = with("micro-read", &[("block_count", (1u64 << 30).into()), ("block_size", (1u64 << 30).into())]);
    assert!(parse(&absurd, &SIZING).is_ok(), "a pebibyte is large, not absurd");
    let absurd = with("read", &[("files", 100_000_000u64.into()), ("file_size", (1u64 << 40).into())]);
    assert!(parse(&absurd, &SIZING).err().unwrap().message.contains("are too large for any file system"));
    let directories = with("stat", &[("files", 1_000_000.into()), ("files_per_directory", 1.into())]);
    assert!(parse(&directories, &SIZING).err().unwrap().message.contains("more than 100000 directories"));
    let random = with("write", &[("access", "random".into()), ("overwrite", false.into())]);
    assert_eq!(parse(&random, &SIZING).err().unwrap().key.as_deref(), Some("overwrite"));
}

#[test]
fn labels_say_what_makes_a_cell_another_one() {
    let cases: &[(&str, Pairs<'_>, &str)] = &[
        ("write", &[("durability", "end".into())], "write 1M, durable"),
        ("read", &[("cache", "cold".into())], "read 1M, cold"),
        ("read", &[], "read 1M, warm"),
        ("read", &[("access", "random".into()), ("cache", "cold".into())], "random read 4K, cold"),
        ("write", &[("access", "random".into()), ("durability", "each".into())], "random write 4K, durable each"),
        ("write", &[("overwrite", true.into()), ("cache", "warm".into())], "overwrite 1M, warm"),
        ("append", &[("durability", "each".into())], "append 4K, durable each"),
        ("create", &[("durability", "end".into())], "create 4K files, durable"),
        ("create", &[("durability", "end".into()), ("threads", 0.into())], "create 4K files, durable, 2 threads"),
        ("create", &[("file_size", 0.into())], "create empty files"),
        ("read", &[("files", 99.into()), ("file_size", "4K".into()), ("cache", "cold".into())], "read 4K files, cold"),
        ("read", &[("files", 9.into()), ("block_size", "64K".into())], "read 64K of 8M files, warm"),
        ("stat", &[("cache", "cold".into())], "stat 4K files, cold"),
        ("scan", &[("cache", "cold".into())], "readdir + stat, cold"),
        ("readdir", &[("files", 50.into()), ("cache", "any".into())], "readdir 50 entries"),
        ("rename", &[], "rename 4K files"),
        ("delete", &[("durability", "end".into())], "delete 4K files, durable"),
        ("move", &[("threads", 2.into())], "move 4K files, 2 threads"),
        ("mkdir", &[("durability", "each".into())], "mkdir, durable each"),
        ("rmdir", &[("cache", "cold".into()), ("access", "random".into())], "random rmdir, cold"),
        ("link", &[], "link 4K files"),
        ("symlink", &[], "symlink"),
        ("readlink", &[], "readlink, warm"),
        ("chmod", &[], "chmod 4K files"),
        ("utimens", &[("file_size", 0.into())], "utimens empty files"),
        ("setxattr", &[], "setxattr 32 on 4K files"),
        ("setxattr", &[("overwrite", true.into())], "setxattr overwrite 32 on 4K files"),
        ("getxattr", &[("value_size", "1K".into())], "getxattr 1K of 4K files, warm"),
        ("listxattr", &[("access", "random".into())], "random listxattr 32 of 4K files, warm"),
        ("reflink", &[], "reflink 64K files"),
        ("statfs", &[], "statfs 4K files, warm"),
        ("truncate", &[], "truncate shrink 4K"),
        ("truncate", &[("mode", "grow".into()), ("files", 2.into())], "truncate grow 4K of 1M files"),
        ("lookup", &[], "stat 4 deep, 5 wide, warm"),
        (
            "lookup",
            &[("operation", "open".into()), ("paths", "own".into()), ("threads", 2.into())],
            "open 4 deep, 5 wide, own path, warm, 2 threads",
        ),
        ("read", &[("backend", "null".into()), ("cache", "any".into())], "read 1M, null"),
        ("read", &[("label", "mine".into())], "mine"),
        ("micro-create", &[], "micro create 1000 files"),
        (
            "micro-write",
            &[("random", true.into()), ("threads", 0.into())],
            "micro random write 8M in 512K blocks, 2 threads",
        ),
        ("micro-read", &[("file_count", 3.into())], "micro read 3 files of 8M in 512K blocks"),
    ];
    for (workload, pairs, label) in cases {
        assert_eq!(parse(&with(workload, pairs), &SIZING).unwrap().profile().label, *label);
    }
}

#[test]
fn profiles_tell_the_runner_what_to_restore_and_how_long_to_measure() {
    use crate::Renewal::{Inside, Never, Recreate, Remount};
    // Renewal, repeats in place, reaches the device.
    let cases: &[(&str, Pairs<'_>, (crate::Renewal, bool, bool))] = &[
        ("write", &[("durability", "end".into())], (Inside, true, true)),
        ("write", &[("durability", "end".into()), ("file_size", "128M".into())], (Recreate, false, true)),
        ("write", &[("durability", "end".into()), ("threads", 2.into())], (Recreate, false, true)),
        ("rewrite", &[("durability", "end".into())], (Never, true, true)),
        ("rewrite", &[("close", true.into())], (Inside, true, false)),
        ("reread", &[], (Never, true, false)),
        ("reread", &[("close", true.into())], (Inside, true, false)),
        ("backward-read", &[("cache", "cold".into())], (Remount, false, true)),
        ("backward-read", &[("backend", "mmap".into())], (Inside, true, false)),
        ("fwrite", &[], (Inside, true, false)),
        ("write", &[("access", "random".into())], (Never, true, false)),
        ("read", &[("cache", "warm".into())], (Never, true, false)),
        ("read", &[("cache", "cold".into())], (Remount, false, true)),
        ("append", &[], (Recreate, false, false)),
        ("create", &[], (Recreate, false, false)),
        ("stat", &[("cache", "cold".into())], (Remount, false, true)),
        ("rename", &[], (Recreate, true, false)),
        ("delete", &[], (Recreate, false, false)),
        ("mkdir", &[], (Recreate, false, false)),
        ("rmdir", &[("cache", "cold".into())], (Recreate, false, true)),
        ("move", &[("durability", "each".into())], (Recreate, true, true)),
        ("link", &[], (Recreate, false, false)),
        ("readlink", &[("cache", "cold".into())], (Remount, false, true)),
        ("chmod", &[], (Never, true, false)),
        ("setxattr", &[], (Recreate, false, false)),
        ("setxattr", &[("overwrite", true.into())], (Never, true, false)),
        ("getxattr", &[], (Never, true, false)),
        ("truncate", &[], (Recreate, false, false)),
        ("reflink", &[], (Recreate, false, false)),
        ("lookup", &[("cache", "cold".into())], (Remount, false, true)),
        ("micro-read", &[], (Never, false, false)),
    ];
    for (workload, pairs, expected) in cases {
        let profile = parse(&with(workload, pairs), &SIZING).unwrap().profile();
        let found = (profile.renewal, profile.repeats_in_place, profile.reaches_device);
        assert_eq!(found, *expected, "{}", profile.label);
    }
    let read = parse(&with("read", &[("cache", "cold".into())]), &SIZING).unwrap().profile();
    assert_eq!((read.operations, read.cold_bytes_per_operation), (8, 1 << 20));
    assert_eq!(read.primary.name, "throughput");
    assert!(read.space >= 8 << 20 && read.inodes >= 2);
    let odd = with("write", &[("file_size", "min(10000, size)".into()), ("block_size", "4K".into())]);
    let odd = parse(&odd, &SIZING).unwrap().profile();
    assert_eq!((odd.operations, odd.file_size, odd.primary.name), (2, 8192, "operation_rate"));
    let odd = with("write", &[("file_size", 10_000.into()), ("block_size", "4K".into())]);
    let refused = parse(&odd, &SIZING).err().unwrap();
    assert!(refused.message.contains("not a multiple of a record of 4K"), "{refused}");
}
