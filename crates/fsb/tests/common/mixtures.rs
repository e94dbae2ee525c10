//! Data with a share that compression and deduplication save; the plan chooses the share.

use std::path::Path;

pub fn plan(directory: &Path, data: &str) {
    let plan = format!(
        "[[workload]]\nname = 'write'\nfile_size = '32M'\ndurability = 'end'\ndata = {data}\n\
         [[workload]]\nname = 'read'\nfile_size = '32M'\ncache = 'cold'\ndata = {data}\n\
         [repetition]\nblocks = 2\nsample_time = '50ms'\n[controls]\nguest-memory = 'off'\n"
    );
    std::fs::write(directory.join("plan.toml"), plan).unwrap();
}
