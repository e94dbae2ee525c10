//! Controls in whole runs: set, observed, restored, and refused before anything is changed.

use std::fs;
use std::path::Path;

use crate::common::*;

/// A command that a test ends, so that all controls of its visit stay set.
pub const HELD: &str = r#"
name = "held"
[controls]
guest-memory = "off"
[[workload]]
name = "command"
command = "sleep 3600"
"#;

/// Writes and reads that last until the test ends them, on the busiest machine.
pub const PLAN: &str = r#"
name = "controlled"
[controls]
guest-memory = "off"
[repetition]
blocks = 1000
sample_time = "100ms"
[[workload]]
name = "write"
file_size = "2M"
block_size = "64K"
durability = "end"
[[workload]]
name = "read"
file_size = "2M"
block_size = "64K"
cache = "cold"
"#;

pub fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Starts a run in `directory` on targets, with controls that stay set until the test ends the run.
pub fn start(directory: &Path, targets: &[&str], controls: &[&str], wipe: &Path) -> Running {
    fs::write(directory.join("plan.toml"), HELD).expect("the plan is written");
    let wipe = wipe.to_string_lossy();
    let mut arguments = vec![
        "run",
        "plan.toml",
        "--size",
        "320M",
        "--out",
        "run",
        "-q",
        "--wipe",
        &wipe,
    ];
    arguments.extend(targets);
    arguments.extend(controls.iter().flat_map(|control| ["--control", control]));
    Running::start(directory, &arguments)
}

/// Waits until all processes of the run with this coordinator have ended; other runs may continue.
pub fn is_gone(coordinator: u32) {
    let owner = format!("\"pid\":{coordinator},");
    wait_until(
        "the run is gone",
        std::time::Duration::from_secs(20),
        || {
            let processes = fs::read_dir("/proc").expect("/proc").flatten();
            processes.into_iter().all(|entry| {
                let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                !String::from_utf8_lossy(&line).contains(&owner)
            })
        },
    );
}

/// Returns the other runs that warnings of a run name.
pub fn concurrent(run: &Path) -> Vec<String> {
    let record = record(run);
    let warnings = record["warnings"].as_array().unwrap().iter();
    let named = warnings.filter(|warning| warning["kind"] == "concurrent");
    named
        .map(|warning| warning["run"].as_str().unwrap().to_owned())
        .collect()
}
