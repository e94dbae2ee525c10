//! File names and contents depend only on the seed and the file's number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fsb_engine::Step;
use proptest::prelude::*;
use serde_json::json;

use crate::common::{measure, perform, scratch};

/// Returns all files below a directory with their bytes.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for directory in fs::read_dir(root.join("fsb-set")).expect("the set") {
        for file in fs::read_dir(directory.expect("an entry").path()).expect("a directory") {
            let path = file.expect("an entry").path();
            let bytes = fs::read(&path).expect("the file");
            found.insert(
                path.strip_prefix(root).expect("below the root").to_owned(),
                bytes,
            );
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn threads_and_records_leave_no_trace(
        threads in 1u32..7, count in 1u64..20, size in 1u64..20_000, block in 1u64..8192,
    ) {
        let created = |threads: u32, block: u64| {
            let root = scratch();
            let workload = json!({
                "name": "create", "files": count, "file_size": size, "block_size": block.min(size),
                "threads": threads, "files_per_directory": 7,
            });
            perform(Step::Prepare, root.path(), &workload).expect("prepared");
            measure(root.path(), count, &workload).expect("measured");
            files(root.path())
        };
        let prepared = {
            let root = scratch();
            let workload = json!({"name": "stat", "files": count, "file_size": size, "files_per_directory": 7});
            perform(Step::Prepare, root.path(), &workload).expect("prepared");
            files(root.path())
        };
        prop_assert_eq!(prepared.len() as u64, count);
        prop_assert!(prepared.values().all(|bytes| bytes.len() as u64 == size));
        prop_assert!(created(threads, block) == prepared, "{} threads differ", threads);
    }
}
