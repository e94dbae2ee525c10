//! Plans that tests of both programs run.

use std::fs;
use std::path::{Path, PathBuf};

use super::on_two_processors;

/// Writes a plan with few small workloads to `directory`.
pub fn tiny_plan(directory: &Path) -> PathBuf {
    let path = directory.join("tiny.toml");
    fs::write(&path, TINY).expect("the plan is written");
    path
}

/// One workload of each kind, each measured in milliseconds. None is warm: another test may empty
/// the caches meanwhile.
pub const TINY: &str = r#"
name = "tiny"
[controls]
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "1ms"
[[workload]]
name = "write"
file_size = "2M"
block_size = "256K"
durability = "end"
[[workload]]
name = "read"
file_size = "2M"
block_size = "256K"
cache = "cold"
[[workload]]
name = "read"
file_size = "2M"
block_size = "256K"
cache = "any"
[[workload]]
name = "create"
files = 50
file_size = "4K"
durability = "end"
[[workload]]
name = "scan"
files = 50
file_size = "4K"
cache = "cold"
[[workload]]
name = "rename"
files = 50
[[workload]]
name = "delete"
files = 50
durability = "end"
"#;

/// Writes a plan of three workloads of the suite `quick` to `fast.toml` in `directory`. Samples
/// take a millisecond: each trial has one repetition.
pub fn fast_plan(directory: &Path) -> PathBuf {
    write_fast_plan(directory, FAST)
}

/// Writes the whole suite `quick`, of 12 workloads, to `fast.toml` in `directory`, with samples of
/// a millisecond.
pub fn fast_suite(directory: &Path) -> PathBuf {
    write_fast_plan(
        directory,
        "suite = 'quick'\n[repetition]\nsample_time = '1ms'\n",
    )
}

const FAST: &str = r#"
[repetition]
sample_time = "1ms"
[[workload]]
name = "write"
block_size = "1M"
durability = "end"
[[workload]]
name = "read"
block_size = "1M"
cache = "cold"
[[workload]]
name = "create"
file_size = "4K"
durability = "end"
"#;

fn write_fast_plan(directory: &Path, plan: &str) -> PathBuf {
    on_two_processors();
    let path = directory.join("fast.toml");
    fs::write(&path, plan).expect("the plan is written");
    path
}

/// A matrix whose files are one and two times the memory that may cache them.
pub const OUT_OF_CACHE: &str = r#"
size = "320M"
[controls]
memory-limit = "32M"
guest-memory = "off"
[repetition]
blocks = 1
sample_time = "10ms"
[[workload]]
name = "read"
file_size = ["32M", "64M"]
block_size = ["1M"]
cache = "out"
[[workload]]
name = "reread"
file_size = ["32M", "64M"]
block_size = ["64K"]
cache = "out"
[[workload]]
name = "random-write"
file_size = ["64M"]
block_size = ["64K"]
cache = "out"
durability = "end"
[[workload]]
name = "fwrite"
file_size = ["32M"]
block_size = ["64K"]
cache = "out"
durability = "end"
"#;

/// Two small matrices in the cache.
pub const IN_CACHE: &str = r#"
name = "warm"
[controls]
guest-memory = "off"
[repetition]
blocks = 5
sample_time = "1ms"
[[workload]]
name = "rewrite"
file_size = "64K..256K"
block_size = ["4K", "16K", "64K"]
cache = "warm"
[[workload]]
name = "read"
file_size = "64K..256K"
block_size = ["4K", "16K", "64K"]
cache = "warm"
"#;

/// Writes a plan of workloads whose data compress or repeat as `data` says.
pub fn mixture_plan(directory: &Path, data: &str) {
    let plan = format!(
        "[[workload]]\nname = 'write'\nfile_size = '32M'\ndurability = 'end'\ndata = {data}\n\
         [[workload]]\nname = 'read'\nfile_size = '32M'\ncache = 'cold'\ndata = {data}\n\
         [repetition]\nblocks = 2\nsample_time = '50ms'\n[controls]\nguest-memory = 'off'\n"
    );
    fs::write(directory.join("plan.toml"), plan).unwrap();
}

/// The workloads that are personalities of filebench.
pub const PERSONALITIES: [&str; 6] = [
    "fileserver",
    "webserver",
    "webproxy",
    "varmail",
    "oltp",
    "videoserver",
];
