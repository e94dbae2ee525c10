//! In the cache, larger than the cache, past the cache: memory limits, validity checks, scales, and the end of a
//! matrix.

/// A matrix whose files are one and two times the memory that may cache them.
pub const OUT: &str = r#"
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
pub const WARM: &str = r#"
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
