//! `fsb export`: plans for other tools.

use std::fs;
use std::path::Path;

use crate::common::{on_two_processors, stdout, succeeds};

/// Options of records and names that the suite `quick` does not use.
pub const MANY: &str = r#"
name = "many"
size = "512M"
[[workload]]
name = "random-read"
file_size = "64M"
backend = "uring-direct"
depth = 32
batch = 8
cache = "any"
[[workload]]
name = "random-mix"
file_size = "64M"
mix = "70%"
durability = "each"
cache = "any"
[[workload]]
name = "write"
file_size = "8M"
overwrite = true
durability = "end"
backend = "direct"
[[workload]]
name = "write"
file_size = "8M"
data = { compressible = "60%", duplicate = "10%" }
[[workload]]
name = "read"
file_size = "32M"
block_size = "4K"
threads = 2
[[workload]]
name = "read"
file_size = "32M"
block_size = "4K"
cache = "cold"
threads = 2
[[workload]]
name = "write"
file_size = "8M"
processes = 2
[[workload]]
name = "random-read"
file_size = "16M"
rate = "2000/s"
[[workload]]
name = "create"
files = 2000
durability = "each"
[[workload]]
name = "create"
files = 200
file_size = 0
threads = 2
[[workload]]
name = "stat"
files = 200
[[workload]]
name = "delete"
files = 200
file_size = 0
[[workload]]
name = "read"
files = 4
file_size = "1M"
block_size = "64K"
[[workload]]
name = "backward-read"
file_size = "8M"
[[workload]]
name = "write"
file_size = "8M"
threads = 2
durability = "end"
[[workload]]
name = "fwrite"
file_size = "8M"
[[workload]]
name = "varmail"
[[workload]]
name = "read"
file_size = "8M"
lock = "file"
"#;

/// Returns the files that an export writes, and its output.
pub fn exported(directory: &Path, arguments: &[&str]) -> (String, String, String) {
    on_two_processors();
    let line = [&["export", "fio", "--seed", "42", "-o", "out"], arguments].concat();
    let output = succeeds(directory, &line);
    let read = |ending: &str| {
        let mut files = fs::read_dir(directory.join("out"))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        fs::read_to_string(
            files
                .find(|path| path.extension().is_some_and(|found| found == ending))
                .unwrap(),
        )
        .unwrap()
    };
    let [jobs, script] =
        ["fio", "sh"].map(|ending| read(ending).replace(env!("CARGO_PKG_VERSION"), "[version]"));
    (jobs, script, stdout(&output))
}
