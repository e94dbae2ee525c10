//! A full file system ends the step with an error that says so.

use std::path::Path;
use std::process::Command;

use fsb_engine::Step;
use serde_json::json;

use crate::common::{measure, perform};

/// A small tmpfs, unmounted when dropped.
pub struct Small(tempfile::TempDir);

impl Small {
    pub fn mount(size: &str) -> Option<Small> {
        let directory = tempfile::tempdir().expect("a directory");
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(directory.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Small(directory))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: a process that another test starts at this moment holds copies of all open files until its exec.
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn no_space_is_an_error_with_call_and_file() {
    needs!(root);
    let small = needs!(Small::mount("1m").ok_or("a tmpfs that can be mounted"));
    let prepare = perform(Step::Prepare, small.path(), &json!({"name": "read", "file_size": "4M"})).unwrap_err();
    assert_eq!(prepare.errno, Some(libc::ENOSPC));
    for workload in [
        json!({"name": "write", "file_size": "4M", "block_size": "64K"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "threads": 4, "durability": "end"}),
        json!({"name": "append", "file_size": "4M", "block_size": "64K"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "backend": "mmap"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "backend": "stdio"}),
        json!({"name": "write", "file_size": "4M", "block_size": "64K", "backend": "posix-aio", "depth": 4}),
        json!({"name": "create", "files": 64, "file_size": "64K", "threads": 2}),
        json!({"name": "micro-write", "block_size": "64K", "block_count": 64, "threads": 2}),
    ] {
        perform(Step::Prepare, small.path(), &workload).expect("empty files fit");
        let operations = if workload["name"] == "micro-write" { 300 } else { 64 };
        let error = measure(small.path(), operations, &workload).unwrap_err();
        assert_eq!(error.errno, Some(libc::ENOSPC), "{workload}: {error}");
        assert!(error.message.starts_with("write to /"), "{error}");
        assert!(error.message.ends_with("No space left on device (ENOSPC)"), "{error}");
        perform(Step::Cleanup, small.path(), &workload).expect("cleaned up");
        assert_eq!(std::fs::read_dir(small.path()).expect("the root").count(), 0);
    }
}
