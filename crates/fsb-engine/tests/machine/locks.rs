//! Locks, seen through strace: around each record, or around a pass.

use fsb_engine::Step;
use serde_json::json;

use crate::common::{perform, scratch, task};
use crate::syscalls::strace;

/// The calls of two passes over two records, each with what it locks.
fn traced(name: &str, lock: &str) -> Vec<String> {
    let root = scratch();
    let workload = json!({"name": name, "file_size": "8K", "block_size": "4K", "lock": lock});
    perform(Step::Prepare, root.path(), &workload).expect("prepared");
    let lines = strace(root.path(), "fcntl,pread64,pwrite64", &task(Step::Measure, root.path(), 4, &workload));
    let word = |line: &String| {
        let word = |needle: &str, word: String| line.contains(needle).then_some(word);
        let start = || line.split("l_start=").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
        word("F_SETLKW, {l_type=F_WRLCK", format!("write-lock {}", start()))
            .or_else(|| word("F_SETLKW, {l_type=F_RDLCK", format!("read-lock {}", start())))
            .or_else(|| word("F_SETLKW, {l_type=F_UNLCK", format!("unlock {}", start())))
            .or_else(|| word("pread64(", "read".to_owned()))
            .or_else(|| word("pwrite64(", "write".to_owned()))
    };
    // Warming up reads the file as well, in one call.
    let calls: Vec<String> = lines.iter().filter(|line| !line.contains(", 8192, ")).filter_map(word).collect();
    let first = calls.iter().position(|call| call.contains("lock")).expect("a lock");
    calls[first..].to_vec()
}

#[test]
fn locks_are_taken_around_records_or_passes() {
    needs!(program "strace");
    let pass = ["read-lock 0", "read", "unlock 0", "read-lock 4096", "read", "unlock 4096"];
    assert_eq!(traced("read", "record"), [pass, pass].concat());
    let pass = ["write-lock 0", "write", "write", "unlock 0"];
    assert_eq!(traced("rewrite", "file"), [pass, pass].concat());
    assert_eq!(traced("write", "file"), [pass, pass].concat());
}
